/*
 * ask_map.c - what the map says to a question: its parts, their words, which streams are active.
 *
 *	ask_open_table -> ask_take_apart: one part per partition -> ask_read_map, in slices
 *
 * Runs in: queryd, asker thread.  Blocks in: opening the stores of new generations.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ask_private.h"

#include "shm/check.h"
#include "shm/client_stand.h"
#include "shm/err.h"
#include "shm/host.h"

#define OPEN_EVERY_NS UINT64_C(100000000) /* a run directory that is not there */

/* ------------------------------------------------------------------ parts */

int ask_open_table(struct asker *asker, uint32_t *partitions)
{
	uint64_t now = host_boot_ns();
	*partitions = 0;
	if (!asker->tally) {
		if (now < asker->next_open_ns)
			return TALLY_ENOTREADY;
		asker->next_open_ns = now + OPEN_EVERY_NS;
		int err = tally_open(asker->run_dir, 0, &asker->tally);
		if (err)
			return err;
	}
	int err = client_stand_begin(asker->tally, partitions);
	return !err && !*partitions ? TALLY_ENOTREADY : err;
}

/* Numbers of partitions are mostly powers of two, and a division is most of the work here. */
static uint32_t partition_of(uint64_t hash, uint32_t partitions)
{
	bool power = !(partitions & (partitions - 1));
	return (uint32_t)(power ? hash & (partitions - 1) : hash % partitions);
}

static uint32_t part_number(struct ask_work *work, uint32_t partition)
{
	uint32_t *number = &work->asker->part_of[partition];
	if (*number)
		return *number - 1;
	if (work->n_parts == work->parts_cap) {
		work->parts_cap = work->parts_cap ? work->parts_cap * 2 : 64;
		work->parts = reallocarray(work->parts, work->parts_cap, sizeof(*work->parts));
		must_get(work->parts);
	}
	work->parts[work->n_parts] = (struct ask_part){.partition = partition};
	*number = (uint32_t)++work->n_parts;
	return *number - 1;
}

/* Sorts the streams by partition, and looks at their words.  false: some are not served. */
bool ask_take_apart(struct ask_work *work)
{
	struct asker *asker = work->asker;
	uint64_t boot = host_boot_ns();
	size_t at = 0;
	bool all = true;
	for (size_t i = 0; i < work->n; i++) {
		work->part[i] = part_number(
			work, partition_of(work->ask->streams[i].hash, work->partitions));
		work->parts[work->part[i]].n++;
	}
	for (size_t p = 0; p < work->n_parts; p++) {
		struct ask_part *part = &work->parts[p];
		asker->part_of[part->partition] = 0;
		part->first = at;
		at += part->n;
		part->n = 0;
		part->generation = client_stand_generation(asker->tally, part->partition, boot);
		all = all && part->generation;
	}
	for (size_t i = 0; i < work->n; i++) {
		struct ask_part *part = &work->parts[work->part[i]];
		work->hash[part->first + part->n] = work->ask->streams[i].hash;
		work->order[part->first + part->n++] = (uint32_t)i;
	}
	return all;
}

void ask_group(struct ask_work *work, const uint32_t *streams, size_t n)
{
	size_t at = 0;
	for (size_t p = 0; p < work->n_parts; p++)
		work->parts[p].count = 0;
	for (size_t i = 0; i < n; i++)
		work->parts[work->part[streams[i]]].count++;
	for (size_t p = 0; p < work->n_parts; p++) {
		struct ask_part *part = &work->parts[p];
		part->from = at;
		at += part->count;
		part->count = 0;
	}
	for (size_t i = 0; i < n; i++) {
		struct ask_part *part = &work->parts[work->part[streams[i]]];
		work->grouped[part->from + part->count++] = streams[i];
	}
}

void ask_set_part(struct ask_work *work, const struct ask_part *part, enum ask_result result)
{
	for (size_t i = 0; i < part->n; i++)
		work->ask->streams[work->order[part->first + i]].result = result;
}

void ask_set_all(struct ask_work *work, enum ask_result result)
{
	for (size_t i = 0; i < work->n; i++)
		work->ask->streams[i].result = result;
}

/* ------------------------------------------------------------------ the map */

static void say_unreadable(struct asker *asker, const struct ask_part *part, int err, int code)
{
	unsigned more;
	if (err == TALLY_ENOTREADY || err == TALLY_ESTALE ||
		!log_limit_pass(&asker->unreadable, 10000, &more))
		return;
	log_warn("ask.unreadable",
		"partition=%u generation=%llu error=\"%s\" suppressed=%u action=\"%s\"",
		part->partition, (unsigned long long)part->generation, tally_error(err), more,
		err_advice(err == TALLY_ENOMEM ? ENOMEM : code));
}

/* A store that cannot be read is not served; no room among its readers passes. */
static enum ask_result result_of_error(int err)
{
	return err == TALLY_EBUSY || err == TALLY_ENOMEM ? ASK_FAILED : ASK_UNSERVED;
}

/* 0, or why not. */
static int look_up(struct ask_work *work, const struct ask_part *part, size_t n,
	const uint64_t *hashes, uint8_t *active, uint32_t *until)
{
	errno = 0;
	int err = client_stand_known(work->asker->tally, work->ask->tenant, part->partition,
		part->generation, hashes, n, active, until);
	if (err)
		say_unreadable(work->asker, part, err, errno);
	return err;
}

bool ask_look_up(struct ask_work *work, const struct ask_part *part, const uint32_t *streams,
	size_t n, uint64_t *hashes, uint8_t *active)
{
	for (size_t i = 0; i < n; i++)
		hashes[i] = work->ask->streams[streams[i]].hash;
	int err = look_up(work, part, n, hashes, active, NULL);
	for (size_t i = 0; err && i < n; i++)
		work->ask->streams[streams[i]].result = result_of_error(err);
	return !err;
}

#define SOME  256 /* at once, on the stack */
#define AHEAD 8

struct some {
	size_t n;
	uint32_t stream[SOME], until[SOME];
	uint64_t hash[SOME];
	uint8_t active[SOME];
};

static void set_in_map(struct ask_work *work, uint32_t stream)
{
	work->state[stream] = STREAM_IN_MAP;
	work->ask->streams[stream].result = ASK_ACCEPTED;
}

/*
 * The memory of all that a question needs is asked for at once, as its parts are small: else each of
 * them would wait for its first streams.  Of a large one, a few ahead.
 */
static void fetch_parts(struct ask_work *work)
{
	struct known *known = work->asker->known;
	for (size_t p = 0; p < work->n_parts; p++) {
		struct ask_part *part = &work->parts[p];
		size_t n = work->n <= SOME || part->n <= AHEAD ? part->n : AHEAD;
		if (!part->generation)
			continue;
		part->known = known_group(known, work->ask->tenant, part->generation);
		for (size_t i = part->first; i < part->first + n; i++)
			known_fetch(known, part->known, work->hash[i]);
	}
}

/* Those that were found before are known without a look; the others are taken down. */
static void ask_memory(
	struct ask_work *work, const struct ask_part *part, size_t at, size_t n, struct some *some)
{
	struct known *known = work->asker->known;
	const uint32_t *streams = work->order + at;
	const uint64_t *hash = work->hash + at;
	uint32_t now = client_stand_minute(work->asker->tally);
	some->n = 0;
	for (size_t i = 0; i < n; i++) {
		if (work->n > SOME && i + AHEAD < n)
			known_fetch(known, part->known, hash[i + AHEAD]);
		if (known_has(known, part->known, hash[i], now)) {
			set_in_map(work, streams[i]);
			continue;
		}
		some->stream[some->n] = streams[i];
		some->hash[some->n++] = hash[i];
	}
}

static int ask_store(struct ask_work *work, const struct ask_part *part, struct some *some)
{
	static const uint8_t states[] = {
		[STREAM_NEW] = STREAM_OPEN, [STREAM_EXPIRING] = STREAM_TO_RENEW};
	int err =
		!some->n ? 0 : look_up(work, part, some->n, some->hash, some->active, some->until);
	if (err)
		return err;
	for (size_t i = 0; i < some->n; i++) {
		uint32_t stream = some->stream[i];
		if (some->active[i] == STREAM_ACTIVE) {
			set_in_map(work, stream);
			known_note(work->asker->known, part->known, some->hash[i], some->until[i]);
			continue;
		}
		work->state[stream] = states[some->active[i]];
		work->found_new += some->active[i] == STREAM_NEW;
		work->found_expiring += some->active[i] == STREAM_EXPIRING;
	}
	return 0;
}

/* The next n streams of a part.  Not 0: why the partition cannot be read. */
static int read_streams(struct ask_work *work, const struct ask_part *part, size_t n)
{
	size_t at = part->first + work->read_at, end = at + n;
	struct some some;
	for (; at < end; at += SOME) {
		size_t now = end - at < SOME ? end - at : SOME;
		ask_memory(work, part, at, now, &some);
		int err = ask_store(work, part, &some);
		if (err)
			return err;
	}
	return 0;
}

/* What had been found in it before does not count either. */
static void give_up_part(struct ask_work *work, struct ask_part *part, enum ask_result result)
{
	const uint32_t *streams = work->order + part->first;
	part->generation = 0;
	for (size_t i = 0; i < part->n; i++) {
		work->state[streams[i]] = STREAM_SETTLED;
		work->ask->streams[streams[i]].result = result;
	}
	if (result == ASK_UNSERVED)
		work->whole = false;
}

static void next_part(struct ask_work *work)
{
	work->read_part++;
	work->read_at = 0;
}

bool ask_read_map(struct ask_work *work, size_t max)
{
	if (!work->read_part && !work->read_at) {
		memset(work->state, STREAM_SETTLED, work->n);
		fetch_parts(work);
	}
	while (work->read_part < work->n_parts) {
		struct ask_part *part = &work->parts[work->read_part];
		size_t left = part->n - work->read_at, n = left < max ? left : max;
		if (!part->generation) {
			ask_set_part(work, part, ASK_UNSERVED);
			next_part(work);
			continue;
		}
		if (!n)
			return false;
		max -= n;
		int err = read_streams(work, part, n);
		if (err) {
			give_up_part(work, part, result_of_error(err));
			next_part(work);
		} else if (n == left) {
			next_part(work);
		} else {
			work->read_at += n;
		}
	}
	return true;
}
