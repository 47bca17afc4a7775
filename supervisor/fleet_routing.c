/*
 * fleet_routing.c - by how many partitions streams are routed, and what that means for ours.
 *
 *	topic's count --> first one?   --> the routing: kafka.partitions, or the count itself
 *	                  fixed number --> refuse what is beyond, drop what is missing
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

static void drop_store(struct part *part)
{
	part_forget_quarantine(part);
	if (part->life != LIFE_FREE)
		part_event(part, ON_RECOUNT);
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
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		drop_store(&fleet->parts[p]); /* and what it passed over: a topic made again? */
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

/*
 * A topic has fewer partitions only when it was made again: what a missing one
 * was served from is a log that is gone.  Those that it has find out for
 * themselves, by what is in their logs now.
 */
static void drop_missing(struct fleet *fleet)
{
	fleet->busy++;
	for (uint32_t p = 0; p < fleet->partitions; p++)
		if (part_is_missing(&fleet->parts[p]))
			drop_store(&fleet->parts[p]);
	fleet->busy--;
	fleet_changed(fleet);
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
	drop_missing(fleet);
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
		if (fleet->parts[p].life == LIFE_QUEUED) /* held no more, perhaps, or only now */
			part_show_waiting(&fleet->parts[p]);
	fleet_changed(fleet);
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
