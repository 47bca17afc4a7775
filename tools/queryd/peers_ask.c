/*
 * peers_ask.c - one ask of the peers: streams -> calls -> results, at most two tries a stream.
 *
 *	deal: stream -> owner of its partition -> parts -> calls
 *	        ^                                   |- answered: results
 *	        |  maps of after that               |- refused: UNSERVED again -.
 *	        '-----------------------------------|---------------------------'
 *	                                            '- unknown: FAILED, for good
 *
 * What was sent is FAILED until something better is known, so an end at any
 * moment (deadline, a peer that is lost) needs nothing to be put right.  A
 * stream that was refused goes to another peer once, and to one whose
 * assigned_at differs: two addresses of one instance have the same.
 *
 * Runs in: queryd, the loop's thread.  Blocks in: nowhere.
 */
#include <stdlib.h>
#include <string.h>

#include "grpc_message.h"
#include "peers_private.h"

#include "shm/check.h"
#include "shm/host.h"

#define MS     UINT64_C(1000000)
#define CLOSED UINT64_MAX

/* By whom a stream was refused. */
struct refusal {
	uint64_t peer; /* id; 0 = by nobody; CLOSED = twice */
	int64_t assigned_at;
};

/* Some streams of an ask, with one peer. */
struct part {
	struct peer_call call;
	TAILQ_ENTRY(part) link;
	struct asking *asking;
	size_t n;
	uint32_t stream[];
};
TAILQ_HEAD(part_list, part);

struct asking {
	TAILQ_ENTRY(asking) link;
	struct asking_list *in;
	struct peers *peers;
	struct peers_ask *ask;
	uint64_t deadline_ns;
	ev_timer deadline, wait;
	uint64_t since_ns; /* maps of before that are not good enough; 0 = it does not wait */
	bool missed;	   /* it has waited for streams that nobody serves */
	struct part_list parts;
	struct refusal *refusals; /* by stream; NULL = none yet */
};

static const char *const paths[] = {
	[ASK_EXCEEDS] = "/proto.IngestLimits/ExceedsLimits",
	[ASK_RATES] = "/proto.IngestLimits/UpdateRates",
};

static void step(struct asking *asking);

/* --- end ---------------------------------------------------------------------------------------- */

static void part_free(struct part *part)
{
	TAILQ_REMOVE(&part->asking->parts, part, link);
	free(part);
}

static void asking_free(struct asking *asking)
{
	struct part *part;

	while ((part = TAILQ_FIRST(&asking->parts)) != NULL) {
		struct peer *peer = part->call.peer;
		bool silent = peer != NULL && peer->heard_ns < part->call.since_ns;

		peer_call_cancel(&part->call);
		if (peer != NULL && silent)
			peer_map_suspect(peer);
		if (peer != NULL)
			peer_flush(peer);
		part_free(part);
	}
	ev_timer_stop(asking->peers->loop, &asking->deadline);
	ev_timer_stop(asking->peers->loop, &asking->wait);
	TAILQ_REMOVE(asking->in, asking, link);
	asking->ask->private = NULL;
	free(asking->refusals);
	free(asking);
}

static void finish(struct asking *asking)
{
	struct peers_ask *ask = asking->ask;

	asking_free(asking);
	ask->done(ask);
}

/* --- results ------------------------------------------------------------------------------------ */

struct results {
	struct part *part;
	uint32_t *order; /* its streams, by hash */
	uint32_t *used;	 /* of each run of equal hashes, at its first: so many have a result */
	uint64_t strange;
};

static int by_hash(const void *a, const void *b, void *arg)
{
	const struct ask_stream *streams = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (streams[x].hash != streams[y].hash)
		return streams[x].hash < streams[y].hash ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Each result is for one occurrence of its hash, in order. */
static struct ask_stream *next_of(struct results *results, uint64_t hash)
{
	struct ask_stream *streams = results->part->asking->ask->streams;
	size_t from = 0, to = results->part->n, at;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (streams[results->order[middle]].hash < hash)
			from = middle + 1;
		else
			to = middle;
	}
	if (from == results->part->n)
		return NULL;
	at = from + results->used[from];
	if (at >= results->part->n || streams[results->order[at]].hash != hash)
		return NULL;
	results->used[from]++;
	return &streams[results->order[at]];
}

static void take_result(void *arg, uint64_t hash, uint64_t value)
{
	struct results *results = arg;
	struct ask_stream *stream = next_of(results, hash);

	if (stream == NULL) {
		results->strange++;
	} else if (results->part->asking->ask->kind == ASK_RATES) {
		stream->rate = value;
	} else {
		stream->result = value == 2 ? ASK_REJECTED : ASK_FAILED;
		results->strange += value != 1 && value != 2;
	}
}

static void set_results(struct part *part, enum ask_result result)
{
	for (size_t i = 0; i < part->n; i++)
		part->asking->ask->streams[part->stream[i]].result = result;
}

static void take_results(struct part *part, const uint8_t *message, size_t len)
{
	struct results results = {.part = part, .order = part->stream};

	set_results(part, ASK_ACCEPTED);
	if (len == 0)
		return;
	results.used = calloc(part->n, sizeof(*results.used));
	must_get(results.used != NULL);
	qsort_r(part->stream, part->n, sizeof(*part->stream), by_hash, part->asking->ask->streams);
	if (!peer_message_pairs(message, len, take_result, &results)) {
		set_results(part, ASK_FAILED);
		results.strange++;
	}
	free(results.used);
	peers_count(&part->asking->peers->facts.strange, results.strange);
}

static void note_refusals(struct part *part, const struct peer *peer)
{
	struct asking *asking = part->asking;
	const struct peers_ask *ask = asking->ask;

	if (asking->refusals == NULL)
		asking->refusals = calloc(ask->n, sizeof(*asking->refusals));
	must_get(asking->refusals != NULL);
	for (size_t i = 0; i < part->n; i++) {
		uint32_t stream = part->stream[i];
		struct refusal *refusal = &asking->refusals[stream];

		refusal->peer = refusal->peer == 0 ? peer->id : CLOSED;
		refusal->assigned_at = peer_assigned(
			peer, (uint32_t)(ask->streams[stream].hash % ask->partitions));
	}
	set_results(part, ASK_UNSERVED);
	asking->since_ns = host_boot_ns();
}

static void part_done(
	struct peer_call *call, enum peer_outcome outcome, const uint8_t *message, size_t len)
{
	struct part *part = (struct part *)call; /* its first member */
	struct asking *asking = part->asking;

	if (outcome == PEER_ANSWERED)
		take_results(part, message, len);
	else if (outcome == PEER_REFUSED)
		note_refusals(part, call->arg);
	part_free(part);
	step(asking);
}

/* --- calls -------------------------------------------------------------------------------------- */

static void write_request(struct part *part, size_t len)
{
	const struct peers_ask *ask = part->asking->ask;
	uint8_t *to = malloc(GRPC_PREFIX_SIZE + len);

	must_get(to != NULL);
	part->call.request = to;
	part->call.request_len = GRPC_PREFIX_SIZE + len;
	grpc_put_prefix(to, len);
	to = peer_message_put_tenant(to + GRPC_PREFIX_SIZE, ask->tenant);
	for (size_t i = 0; i < part->n; i++)
		to = peer_message_put_stream(to, &ask->streams[part->stream[i]]);
	must(to == part->call.request + part->call.request_len);
}

static void send_part(
	struct asking *asking, struct peer *peer, const uint32_t *streams, size_t n, size_t len)
{
	struct part *part = calloc(1, sizeof(*part) + n * sizeof(*streams));

	must_get(part != NULL);
	part->asking = asking;
	part->n = n;
	memcpy(part->stream, streams, n * sizeof(*streams));
	part->call.path = paths[asking->ask->kind];
	part->call.tenant = asking->ask->tenant;
	part->call.answer_max = PEER_RESULT_SIZE * (n + 1);
	part->call.deadline_ns = asking->deadline_ns;
	part->call.done = part_done;
	part->call.arg = peer;
	write_request(part, len);
	TAILQ_INSERT_TAIL(&asking->parts, part, link);
	if (!peer_call_start(peer, &part->call)) {
		part_free(part);
		return;
	}
	set_results(part, ASK_FAILED);
	peers_count(&asking->peers->facts.streams_asked, n);
	if (asking->refusals != NULL)
		for (size_t i = 0; i < n; i++)
			if (asking->refusals[streams[i]].peer != 0)
				peers_count(&asking->peers->facts.streams_retried, 1);
}

/* In calls of at most message_max bytes. */
static void send_all(struct asking *asking, struct peer *peer, const uint32_t *streams, size_t n)
{
	const struct peers_ask *ask = asking->ask;
	size_t base = peer_message_base(ask->tenant), max = asking->peers->message_max, from = 0;

	while (from < n) {
		size_t to = from, len = base;

		do {
			len += peer_message_stream(&ask->streams[streams[to++]]);
		} while (to < n && len + peer_message_stream(&ask->streams[streams[to]]) <= max);
		send_part(asking, peer, streams + from, to - from, len);
		from = to;
	}
	peer_flush(peer);
}

/* --- whom to ask -------------------------------------------------------------------------------- */

static struct peer *other_owner(
	struct peers *peers, uint32_t partition, const struct refusal *refusal)
{
	struct peer *best = NULL, *peer;

	if (refusal->peer == CLOSED)
		return NULL;
	TAILQ_FOREACH(peer, &peers->list, link)
	{
		int64_t at = peer_assigned(peer, partition);

		if (at != 0 && peer->id != refusal->peer && at != refusal->assigned_at &&
			(best == NULL || at > peer_assigned(best, partition)))
			best = peer;
	}
	return best;
}

static struct peer *owner_of(const struct asking *asking, size_t stream)
{
	const struct peers_ask *ask = asking->ask;
	uint32_t partition = (uint32_t)(ask->streams[stream].hash % ask->partitions);

	if (partition >= TABLE_CAPACITY)
		return NULL;
	if (asking->refusals == NULL || asking->refusals[stream].peer == 0)
		return asking->peers->owner[partition];
	return other_owner(asking->peers, partition, &asking->refusals[stream]);
}

/* Sorts the unserved streams by peer and sends them.  true: some have no peer, and were not refused. */
static bool deal(struct asking *asking)
{
	const struct peers_ask *ask = asking->ask;
	size_t count[PEERS_MAX + 1] = {0}, first[PEERS_MAX + 1];
	struct peer *of[PEERS_MAX], *peer;
	uint32_t *streams = malloc(ask->n * sizeof(*streams));
	uint8_t *slots = malloc(ask->n), n = 0;
	bool missing = false;

	must_get(streams != NULL && slots != NULL);
	TAILQ_FOREACH(peer, &asking->peers->list, link)
	{
		of[n] = peer;
		peer->slot = n++;
	}
	for (size_t i = 0; i < ask->n; i++) {
		bool wants = ask->streams[i].result == ASK_UNSERVED;

		peer = wants ? owner_of(asking, i) : NULL;
		slots[i] = peer == NULL ? PEERS_MAX : peer->slot;
		count[slots[i]]++;
		missing |= wants && peer == NULL &&
			   (asking->refusals == NULL || asking->refusals[i].peer == 0);
	}
	first[0] = 0;
	for (size_t slot = 0; slot < PEERS_MAX; slot++)
		first[slot + 1] = first[slot] + count[slot];
	for (size_t i = 0; i < ask->n; i++)
		streams[first[slots[i]]++] = (uint32_t)i;
	for (size_t slot = 0; slot < n; slot++)
		if (count[slot] > 0)
			send_all(
				asking, of[slot], streams + first[slot] - count[slot], count[slot]);
	free(slots);
	free(streams);
	return missing;
}

/* --- the course of an ask ----------------------------------------------------------------------- */

/* false: it waits for maps. */
static bool has_maps(struct asking *asking)
{
	if (!peers_refresh(asking->peers, asking->since_ns)) {
		ev_timer_stop(asking->peers->loop, &asking->wait);
		return true;
	}
	if (!ev_is_active(&asking->wait)) {
		ev_timer_set(&asking->wait, PEERS_WAIT_MS / 1000., 0.);
		ev_timer_start(asking->peers->loop, &asking->wait);
	}
	return false;
}

/* Deals, and for those that nobody serves waits once for maps that are not old. */
static void deal_and_wait(struct asking *asking)
{
	bool missing = deal(asking);

	asking->since_ns = 0;
	if (!missing || asking->missed)
		return;
	asking->missed = true;
	asking->since_ns = host_boot_ns() - PEERS_FRESH_MS * MS;
	if (has_maps(asking))
		asking->since_ns = 0;
}

/* After anything has happened.  It may be over when this returns. */
static void step(struct asking *asking)
{
	if (asking->since_ns != 0 && has_maps(asking))
		deal_and_wait(asking);
	if (TAILQ_EMPTY(&asking->parts) && asking->since_ns == 0)
		finish(asking);
}

void peers_ask_wake(struct peers *peers)
{
	struct asking *asking, *next;

	for (asking = TAILQ_FIRST(&peers->asks); asking != NULL; asking = next) {
		next = TAILQ_NEXT(asking, link);
		if (asking->since_ns == 0)
			continue;
		TAILQ_REMOVE(&peers->asks, asking, link);
		TAILQ_INSERT_TAIL(&peers->woken, asking, link);
		asking->in = &peers->woken;
	}
	/* Whatever is done in between may end others of them. */
	while ((asking = TAILQ_FIRST(&peers->woken)) != NULL) {
		TAILQ_REMOVE(&peers->woken, asking, link);
		TAILQ_INSERT_TAIL(&peers->asks, asking, link);
		asking->in = &peers->asks;
		step(asking);
	}
}

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop, (void)events;
	finish(timer->data);
}

/* The maps that are missing will not be waited for any longer, by nobody. */
static void on_wait(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct asking *asking = timer->data;

	(void)loop, (void)events;
	peers_not_waited_for(asking->peers, asking->since_ns);
	step(asking);
}

static void set_deadline(struct asking *asking)
{
	struct peers *peers = asking->peers;
	uint64_t now = host_boot_ns(), latest = now + peers->call_ms * MS;

	asking->deadline_ns = asking->ask->deadline_ns < latest ? asking->ask->deadline_ns : latest;
	ev_now_update(peers->loop);
	ev_timer_init(&asking->deadline, on_deadline,
		asking->deadline_ns > now ? (double)(asking->deadline_ns - now) / 1e9 : 0., 0.);
	ev_init(&asking->wait, on_wait);
	asking->deadline.data = asking->wait.data = asking;
	ev_timer_start(peers->loop, &asking->deadline);
}

void peers_ask(struct peers *peers, struct peers_ask *ask)
{
	struct asking *asking = calloc(1, sizeof(*asking));

	must_get(asking != NULL && ask->partitions > 0 && ask->n <= ASK_STREAMS_MAX);
	asking->peers = peers;
	asking->ask = ask;
	ask->private = asking;
	TAILQ_INIT(&asking->parts);
	TAILQ_INSERT_TAIL(&peers->asks, asking, link);
	asking->in = &peers->asks;
	set_deadline(asking);
	if (ask->n > 0)
		deal_and_wait(asking);
	step(asking);
}

void peers_cancel(struct peers *peers, struct peers_ask *ask)
{
	(void)peers;
	if (ask->private != NULL)
		asking_free(ask->private);
}

void peers_ask_cancel_all(struct peers *peers)
{
	while (!TAILQ_EMPTY(&peers->asks))
		asking_free(TAILQ_FIRST(&peers->asks));
	while (!TAILQ_EMPTY(&peers->woken))
		asking_free(TAILQ_FIRST(&peers->woken));
}
