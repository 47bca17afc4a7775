/*
 * peer_map.c - who serves which partition: GetAssignedPartitions of each peer, again and again.
 *
 *	open -> poll -answer-> assigned[], owner[] -5 s-> poll ...
 *	          |'-UNAVAILABLE, an error, garbage-> no map: it is asked nothing
 *	          '-silence for 2 s-> not a byte came: dead, connection lost
 *	                              else: slow, the map is used until it is too old
 *
 * The poll is the keepalive as well: it asks the process, where a ping would
 * ask the connection only, and no server thinks it abuse.
 *
 * Runs in: queryd, the loop's thread.  Blocks in: nowhere.
 */
#include <stdlib.h>
#include <string.h>

#include "grpc_message.h"
#include "peers_private.h"

#include "shm/check.h"
#include "shm/host.h"
#include "shm/log.h"

#define MS	     UINT64_C(1000000)
#define POLLS_MISSED 3				       /* then the map is too old */
#define FUTURE_NS    (24 * 3600 * INT64_C(1000000000)) /* no clock is that wrong */

static void poll(struct peer *peer);

/* --- maps --------------------------------------------------------------------------------------- */

/* After any change: who is to be asked about each partition. */
static void choose_owners(struct peers *peers)
{
	struct peer *peer;
	uint64_t served = 0;

	memset(peers->owner, 0, sizeof(peers->owner));
	TAILQ_FOREACH(peer, &peers->list, link)
	{
		for (uint32_t p = 0; peer->assigned != NULL && p < TABLE_CAPACITY; p++) {
			if (peer->assigned[p] == 0)
				continue;
			served += peers->owner[p] == NULL;
			if (peers->owner[p] == NULL ||
				peers->owner[p]->assigned[p] < peer->assigned[p])
				peers->owner[p] = peer;
		}
	}
	atomic_store_explicit(&peers->facts.partitions, served, memory_order_relaxed);
}

static void drop_map(struct peer *peer)
{
	if (peer->assigned == NULL)
		return;
	free(peer->assigned);
	peer->assigned = NULL;
	choose_owners(peer->peers);
}

struct drawing {
	int64_t *assigned, latest;
	uint64_t strange;
};

static void take_partition(void *arg, uint64_t partition, uint64_t assigned_at)
{
	struct drawing *drawing = arg;

	if (partition >= TABLE_CAPACITY || assigned_at == 0 ||
		assigned_at > (uint64_t)drawing->latest)
		drawing->strange++;
	else
		drawing->assigned[partition] = (int64_t)assigned_at;
}

static void take_map(struct peer *peer, const uint8_t *message, size_t len)
{
	struct drawing drawing = {
		.assigned = calloc(TABLE_CAPACITY, sizeof(int64_t)),
		.latest = host_wall_ms() * (int64_t)MS + FUTURE_NS,
	};

	must_get(drawing.assigned != NULL);
	if (!peer_message_pairs(message, len, take_partition, &drawing)) {
		free(drawing.assigned);
		drawing.assigned = NULL;
		drawing.strange++;
	} else {
		peer->good_ns = peer->poll_ns;
		peer->back_off_ms = peer->peers->back_off_ms;
	}
	peers_count(&peer->peers->facts.strange, drawing.strange);
	free(peer->assigned);
	peer->assigned = drawing.assigned;
	choose_owners(peer->peers);
}

/* --- polls -------------------------------------------------------------------------------------- */

static void set_timer(struct peer *peer, unsigned ms)
{
	ev_timer_stop(peer->peers->loop, &peer->poll_timer);
	ev_timer_set(&peer->poll_timer, ms / 1000.0, 0.);
	ev_timer_start(peer->peers->loop, &peer->poll_timer);
}

/* However it ended: whoever waits for maps looks again. */
static void poll_ended(struct peer *peer)
{
	peer->polling = false;
	peer->map_ns = peer->poll_ns;
	if (peer->again)
		poll(peer);
	else
		set_timer(peer, peer->peers->poll_ms);
	peers_ask_wake(peer->peers);
}

static void poll_done(
	struct peer_call *call, enum peer_outcome outcome, const uint8_t *message, size_t len)
{
	struct peer *peer = call->arg;

	peer->slow = host_boot_ns() - peer->poll_ns > PEERS_WAIT_MS * MS;
	if (outcome == PEER_ANSWERED)
		take_map(peer, message, len);
	else
		drop_map(peer);
	poll_ended(peer);
}

static void poll(struct peer *peer)
{
	peer->again = false;
	peer->poll_ns = host_boot_ns();
	peer->poll = (struct peer_call){
		.path = "/proto.IngestLimits/GetAssignedPartitions",
		.tenant = "0", /* what Loki's own clients say where there is none */
		.request = calloc(1, GRPC_PREFIX_SIZE),
		.request_len = GRPC_PREFIX_SIZE,
		.answer_max = PEER_MAP_MESSAGE,
		.deadline_ns = peer->poll_ns + peer->peers->call_ms * MS,
		.done = poll_done,
		.arg = peer,
	};
	must_get(peer->poll.request != NULL);
	peer->polling = peer_call_start(peer, &peer->poll);
	set_timer(peer, peer->polling ? peer->peers->call_ms : peer->peers->poll_ms);
	if (!peer->polling)
		peer->map_ns = peer->poll_ns; /* too busy to be asked: nobody is to wait for it */
	peer_flush(peer);
}

static void poll_late(struct peer *peer)
{
	const struct peers *peers = peer->peers;
	uint64_t age_ms;

	peer_call_cancel(&peer->poll);
	if (peer->heard_ns < peer->poll_ns) {
		peer->polling = false;
		peer_lose(peer, "it is silent");
		return;
	}
	peer->slow = true;
	age_ms = (peer->poll_ns - peer->good_ns) / MS;
	if (age_ms > (uint64_t)peers->poll_ms * POLLS_MISSED)
		drop_map(peer);
	peer_flush(peer);
	poll_ended(peer);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct peer *peer = timer->data;

	(void)loop, (void)events;
	if (peer->polling)
		poll_late(peer);
	else
		poll(peer);
}

void peer_map_prepare(struct peer *peer)
{
	ev_init(&peer->poll_timer, on_timer);
	peer->poll_timer.data = peer;
}

void peer_map_start(struct peer *peer)
{
	peer->slow = false;
	poll(peer);
}

void peer_map_stop(struct peer *peer)
{
	ev_timer_stop(peer->peers->loop, &peer->poll_timer);
	peer_call_cancel(&peer->poll);
	peer->polling = peer->again = false;
	drop_map(peer);
}

void peer_map_suspect(struct peer *peer)
{
	if (peer->state == PEER_OPEN && !peer->polling)
		poll(peer);
}

/* --- maps that are too old for somebody --------------------------------------------------------- */

bool peers_refresh(struct peers *peers, uint64_t since_ns)
{
	struct peer *peer;
	bool any = false;

	TAILQ_FOREACH(peer, &peers->list, link)
	{
		if (peer->state != PEER_OPEN || peer->broken != NULL || peer->map_ns >= since_ns)
			continue;
		if (!peer->polling)
			poll(peer);
		else if (peer->poll_ns < since_ns)
			peer->again = true;
		any = any || (peer->polling && !peer->slow);
	}
	return any;
}

void peers_not_waited_for(struct peers *peers, uint64_t since_ns)
{
	struct peer *peer;

	TAILQ_FOREACH(peer, &peers->list, link)
	{
		if (peer->state == PEER_OPEN && peer->map_ns < since_ns)
			peer->slow = true;
	}
}
