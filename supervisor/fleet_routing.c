/*
 * fleet_routing.c - by how many partitions streams are routed, and what that means for ours.
 *
 *	topic's count --> first one?   --> the routing: kafka.partitions, or the count itself
 *	                  fixed number --> refuse what is beyond, say what is missing
 *	                  followed     --> words free --> the head's number --> new generations
 *
 * A stream belongs to partition hash % N; N is fleet->partitions, and no store
 * of another N may be read.
 *
 * Runs in: supervisor.  Blocks in: nowhere.
 */
#include "shm/log.h"
#include "supervisor/part.h"

/*
 * In ticks.  The group may give us partitions that the topic, for all that we
 * know, does not have: either it has grown, and the next answer says so, or it
 * was made again with fewer, and librdkafka's assignor goes on giving us those
 * that are gone.  The second never ends, so asking has to.
 */
#define ASKS_WHILE_HELD 30

/* The one place where it changes: what is logged after this was done under it. */
static void set_routing(struct fleet *fleet, uint32_t partitions)
{
	uint32_t before = fleet->partitions;
	fleet->partitions = partitions;
	atomic_store(&table_head_mut(fleet->opt.table)->partitions, partitions);
	if (before)
		log_warn("topic.partitions_changed",
			"topic=%s from=%u to=%u action=\"every partition gets a new generation\"",
			fleet->opt.config->topic, before, partitions);
	else
		log_info("topic.found", "topic=%s partitions=%u", fleet->opt.config->topic,
			partitions);
}

/*
 * Another number of partitions routes every stream anew, so no store is right
 * any more.  A reader that takes the new routing from the head must find no
 * word that lets it into an old store: the words go first, then the head
 * changes; generations of the new routing are published from the loop, later.
 */
static void recount(struct fleet *fleet, uint32_t partitions)
{
	fleet->busy++;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++) {
		part_forget_quarantine(&fleet->parts[p]); /* it may be a topic made again */
		if (fleet->parts[p].life != LIFE_FREE)
			part_event(&fleet->parts[p], ON_RECOUNT);
	}
	rundir_evict_leftovers(fleet->opt.rundir);
	set_routing(fleet, partitions);
	fleet->busy--;
	fleet_changed(fleet);
}

static const char *what_to_do_about_more(const struct fleet *fleet)
{
	if (!fleet->opt.config->partitions)
		return "the topic has more partitions than one instance can serve; use a topic "
		       "with at most 1024";
	if (fleet->topic_partitions > TABLE_CAPACITY)
		return "partitions beyond kafka.partitions are not served, and one instance can "
		       "serve 1024 at most: producers have to keep to kafka.partitions";
	return "partitions beyond kafka.partitions are not served; when all producers use the new "
	       "number, set it and restart";
}

/* The topic has a count that we do not go along with. */
static void keep_routing(struct fleet *fleet)
{
	const char *topic = fleet->opt.config->topic;
	uint32_t has = fleet->topic_partitions, served = fleet->partitions;
	if (has == served)
		log_info("topic.partitions_restored", "topic=%s partitions=%u", topic, has);
	else if (has < served)
		log_error("topic.partitions_missing",
			"topic=%s has=%u served=%u action=\"streams that belong to the missing "
			"ones are lost: give the topic %u partitions, or change kafka.partitions "
			"and restart\"",
			topic, has, served, served);
	else
		log_error("topic.partitions_refused", "topic=%s has=%u served=%u action=\"%s\"",
			topic, has, served, what_to_do_about_more(fleet));
}

static void take_first(struct fleet *fleet, uint32_t partitions)
{
	uint32_t fixed = fleet->opt.config->partitions;
	set_routing(fleet, fixed ? fixed : partitions);
	if (partitions != fleet->partitions)
		keep_routing(fleet);
}

void fleet_partitions(struct fleet *fleet, uint32_t partitions)
{
	/* While we stop, what is ready answers until it has ended: by the routing of its store. */
	if (fleet->stopping || partitions == fleet->topic_partitions)
		return;
	fleet->topic_partitions = partitions;
	atomic_store(&table_head_mut(fleet->opt.table)->topic_partitions, partitions);
	if (!fleet->partitions)
		take_first(fleet, partitions);
	else if (!fleet_follows(fleet))
		keep_routing(fleet);
	else if (partitions != fleet->partitions)
		recount(fleet, partitions);
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		if (part_is_held(&fleet->parts[p]))
			part_show_waiting(&fleet->parts[p]);
}

/* ------------------------------------------------------------- ahead of what the topic has */

void fleet_ask_topic(struct fleet *fleet)
{
	if (fleet->opt.ask_topic && !fleet->stopping)
		fleet->opt.ask_topic(fleet->opt.arg);
}

void fleet_ask_anew(struct fleet *fleet)
{
	fleet->asks = ASKS_WHILE_HELD;
	fleet_ask_topic(fleet);
}

static bool holds_any(const struct fleet *fleet)
{
	for (uint32_t p = fleet->partitions; p < TABLE_CAPACITY; p++)
		if (part_is_held(&fleet->parts[p]))
			return true;
	return false;
}

void fleet_ask_while_held(struct fleet *fleet)
{
	if (!fleet->asks || !fleet_follows(fleet) || !holds_any(fleet))
		return;
	fleet->asks--;
	fleet_ask_topic(fleet);
}
