/*
 * frontend.c - a question about any stream: peers first, then our own partitions.
 *
 *	ask -- any stream not served here? --no--> ask_begin(ask)
 *	          '-yes-> turn: peers_ask (on the caller's streams)
 *	                    -> rest = served here, or by nobody --copies--> ask_begin -> done(ask)
 *
 * What nobody serves is tried here once more: its partition may have become
 * ready in the meantime.
 *
 * Runs in: queryd, the asker's thread.  Blocks in: nowhere.
 */
#include "frontend.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "ask_private.h"

#include "shm/check.h"
#include "shm/client_stand.h"
#include "shm/host.h"
#include "shm/record.h"

struct turn {
	TAILQ_ENTRY(turn) link;
	struct frontend *frontend; /* NULL = it has gone */
	struct asker *asker;
	struct ask *ask; /* the caller's */
	struct peers_ask others;
	size_t n; /* reserved */
	bool asks_others;
	uint8_t *here; /* by stream: it is served here */
	struct ask rest;
	uint32_t *place; /* of each stream of rest, in the caller's */
};
TAILQ_HEAD(turn_list, turn);

struct frontend {
	struct asker *asker;
	struct peers *peers;
	struct turn_list turns;
};

struct frontend *frontend_new(struct asker *asker, struct peers *peers)
{
	struct frontend *frontend = calloc(1, sizeof(*frontend));

	must_get(frontend != NULL);
	frontend->asker = asker;
	frontend->peers = peers;
	TAILQ_INIT(&frontend->turns);
	return frontend;
}

/* --- who is asked ------------------------------------------------------------------------------- */

static bool name_ok(const char *name, size_t max)
{
	size_t len = name == NULL ? 0 : strnlen(name, max + 1);

	return len <= max && record_text_ok(name == NULL ? "" : name, len);
}

/* What ask_begin refuses is not asked of others either. */
static bool valid(const struct ask *ask)
{
	const char *last = NULL;

	if (ask->n > ASK_STREAMS_MAX || ask->tenant == NULL || *ask->tenant == '\0' ||
		!name_ok(ask->tenant, RECORD_TENANT_MAX))
		return false;
	for (size_t i = 0; i < ask->n && ask->kind == ASK_EXCEEDS; i++) {
		if (ask->streams[i].policy != last &&
			!name_ok(ask->streams[i].policy, RECORD_POLICY_MAX))
			return false;
		last = ask->streams[i].policy;
	}
	return true;
}

/* How many partitions streams are routed by; 0: there is no table yet, and nobody can be asked. */
static uint32_t routing(struct asker *asker)
{
	struct asker_partition none;
	uint32_t partitions;

	if (asker_partitions(asker, &none, 0) < 0 ||
		client_stand_begin(asker->tally, &partitions) != 0)
		return 0;
	return partitions;
}

/* Which partitions are served here is found out once for each. */
static size_t mark_here(
	struct asker *asker, const struct ask *ask, uint32_t partitions, uint8_t *here)
{
	enum { UNSEEN, HERE, ELSEWHERE };
	uint8_t of[TABLE_CAPACITY] = {UNSEEN};
	uint64_t boot = host_boot_ns();
	size_t elsewhere = 0;

	for (size_t i = 0; i < ask->n; i++) {
		uint32_t p = (uint32_t)(ask->streams[i].hash % partitions);

		if (of[p] == UNSEEN)
			of[p] = client_stand_generation(asker->tally, p, boot) != 0 ? HERE
										    : ELSEWHERE;
		here[i] = of[p] == HERE;
		elsewhere += of[p] == ELSEWHERE;
	}
	return elsewhere;
}

/* --- a turn ------------------------------------------------------------------------------------- */

static void turn_free(struct turn *turn)
{
	if (turn->frontend != NULL)
		TAILQ_REMOVE(&turn->frontend->turns, turn, link);
	ask_unreserve(turn->asker, turn->n);
	free(turn->here);
	free(turn->rest.streams);
	free(turn->place);
	free(turn);
}

static void rest_done(struct ask *rest)
{
	struct turn *turn = rest->arg;
	struct ask *ask = turn->ask;

	for (size_t i = 0; i < rest->n; i++) {
		ask->streams[turn->place[i]].result = rest->streams[i].result;
		ask->streams[turn->place[i]].rate = rest->streams[i].rate;
	}
	turn_free(turn);
	ask->done(ask);
}

static void take_rest(struct turn *turn)
{
	const struct ask *ask = turn->ask;
	struct ask *rest = &turn->rest;

	*rest = *ask;
	rest->n = 0;
	rest->streams = malloc((ask->n + 1) * sizeof(*rest->streams));
	turn->place = malloc((ask->n + 1) * sizeof(*turn->place));
	must_get(rest->streams != NULL && turn->place != NULL);
	for (size_t i = 0; i < ask->n; i++) {
		if (!turn->here[i] && ask->streams[i].result != ASK_UNSERVED)
			continue;
		turn->place[rest->n] = (uint32_t)i;
		rest->streams[rest->n++] = ask->streams[i];
	}
	rest->done = rest_done;
	rest->arg = turn;
}

/* Always by ask_begin, also for no streams: `done` is called from there only. */
static int ask_rest(struct turn *turn)
{
	take_rest(turn);
	return ask_begin(turn->asker, &turn->rest);
}

static void others_done(struct peers_ask *others)
{
	struct turn *turn = others->arg;

	turn->asks_others = false;
	must(ask_rest(turn) == 0); /* it was found valid before */
}

int frontend_begin(struct frontend *frontend, struct ask *ask)
{
	struct asker *asker = frontend->asker;
	uint32_t partitions = ask->all_or_nothing || ask->n == 0 ? 0 : routing(asker);
	uint64_t now = host_boot_ns();
	struct turn *turn;
	uint8_t *here;

	if (partitions == 0 || !valid(ask) || !ask_reserve(asker, ask->n))
		return ask_begin(asker, ask);
	here = malloc(ask->n);
	must_get(here != NULL);
	if (mark_here(asker, ask, partitions, here) == 0) {
		free(here);
		ask_unreserve(asker, ask->n);
		return ask_begin(asker, ask);
	}
	turn = calloc(1, sizeof(*turn));
	must_get(turn != NULL);
	*turn = (struct turn){
		.frontend = frontend, .asker = asker, .ask = ask, .n = ask->n, .here = here};
	TAILQ_INSERT_HEAD(&frontend->turns, turn, link);
	for (size_t i = 0; i < ask->n; i++)
		ask->streams[i].result = here[i] ? ASK_ACCEPTED : ASK_UNSERVED;
	turn->others = (struct peers_ask){
		.kind = ask->kind,
		.tenant = ask->tenant,
		.streams = ask->streams,
		.n = ask->n,
		.partitions = partitions,
		.deadline_ns = ask->deadline_ns > now ? now + (ask->deadline_ns - now) / 2 : now,
		.done = others_done,
		.arg = turn,
	};
	turn->asks_others = true;
	peers_ask(frontend->peers, &turn->others);
	return 0;
}

/* --- end ---------------------------------------------------------------------------------------- */

void frontend_cancel(struct frontend *frontend, struct ask *ask)
{
	struct turn *turn;

	TAILQ_FOREACH(turn, &frontend->turns, link)
	{
		if (turn->ask == ask)
			break;
	}
	if (turn == NULL) {
		ask_cancel(frontend->asker, ask);
		return;
	}
	if (turn->asks_others)
		peers_cancel(frontend->peers, &turn->others);
	else
		ask_cancel(frontend->asker, &turn->rest);
	turn_free(turn);
}

void frontend_free(struct frontend **handle)
{
	struct frontend *frontend = *handle;
	struct turn *turn;

	if (frontend == NULL)
		return;
	*handle = NULL;
	while ((turn = TAILQ_FIRST(&frontend->turns)) != NULL) {
		TAILQ_REMOVE(&frontend->turns, turn, link);
		turn->frontend = NULL;
		if (!turn->asks_others)
			continue;
		peers_cancel(frontend->peers, &turn->others);
		others_done(&turn->others);
	}
	free(frontend);
}
