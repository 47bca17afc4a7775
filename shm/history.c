/*
 * history.c - a ring of changes for each partition, in a mapped file.
 *
 *	number 0 -> fields -> number n -> count n        (writer)
 *	number n -> fields -> still number n             (reader; else passed over)
 *
 * Runs in: supervisor (writes), readers.  Blocks in: nowhere.
 */
#include "shm/history.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/err.h"

#define MAGIC "TALLYHIS"

static const struct segment_spec spec = {MAGIC, HISTORY_VERSION, sizeof(struct history_file)};

static struct history_ring *ring_of(const struct history *history, uint32_t partition)
{
	struct history_file *file = history->segment.map;
	return file && partition < TABLE_CAPACITY ? &file->rings[partition] : NULL;
}

/* --- writer ---------------------------------------------------------------------------------- */

static int map_for_writing(int fd, struct history *history)
{
	struct stat st;
	if (fstat(fd, &st) || st.st_size != (off_t)spec.size)
		return ERR_FORMAT;
	void *map = mmap(NULL, spec.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return ERR_IO;
	if (segment_check(map, spec.size, &spec)) {
		munmap(map, spec.size);
		return ERR_FORMAT;
	}
	history->segment = (struct segment){map, spec.size, st.st_dev, st.st_ino};
	return 0;
}

int history_open(int dirfd, struct history *history)
{
	int fd = segment_open_own(dirfd, HISTORY_NAME);
	*history = (struct history){0};
	if (fd >= 0) {
		int err = map_for_writing(fd, history);
		close(fd);
		if (!err)
			return 0;
	}
	int err = segment_create(dirfd, HISTORY_NAME, &spec, 0440, &history->segment, NULL);
	if (!err)
		err = segment_publish(dirfd, HISTORY_NAME);
	if (err)
		history_close(history);
	return err;
}

#define PUT(field, value) atomic_store_explicit(&entry->field, value, memory_order_relaxed)

static void fill(struct history_entry *entry, const struct history_change *change)
{
	uint64_t why[HISTORY_WHY_SIZE / 8] = {0};
	memcpy(why, change->why, strnlen(change->why, HISTORY_WHY_SIZE - 1));
	PUT(at_ms, change->at_ms);
	PUT(generation, change->generation);
	PUT(states,
		(uint32_t)change->from | (uint32_t)change->to << 8 | (uint32_t)change->death << 16);
	PUT(death_code, change->death_code);
	for (size_t i = 0; i < HISTORY_WHY_SIZE / 8; i++)
		PUT(why[i], why[i]);
}

void history_add(struct history *history, uint32_t partition, const struct history_change *change)
{
	struct history_ring *ring = ring_of(history, partition);
	if (!ring)
		return;
	uint64_t count = atomic_load_explicit(&ring->count, memory_order_relaxed);
	struct history_entry *entry = &ring->entries[count % HISTORY_LENGTH];
	PUT(number, 0);
	atomic_thread_fence(memory_order_release);
	fill(entry, change);
	atomic_store_explicit(&entry->number, count + 1, memory_order_release);
	atomic_store_explicit(&ring->count, count + 1, memory_order_release);
}

/* --- readers --------------------------------------------------------------------------------- */

int history_attach(int dirfd, struct history *history)
{
	*history = (struct history){0};
	return segment_attach(dirfd, HISTORY_NAME, &spec, &history->segment);
}

#define GET(field) atomic_load_explicit(&entry->field, memory_order_relaxed)

/* false: no supervisor of this version writes that. */
static int decode(uint32_t states, struct history_change *out)
{
	uint32_t from = states & 0xff, to = states >> 8 & 0xff, death = states >> 16 & 0xff;
	out->from = (enum part_state)from;
	out->to = (enum part_state)to;
	out->death = (enum part_death)death;
	return from < PART_STATES && to < PART_STATES && death < DEATH_KINDS;
}

/* A word of ours: what is none does not reach a terminal or a page. */
static int is_word(const char *why)
{
	for (; *why; why++)
		if (*why <= ' ' || *why > '~')
			return 0;
	return 1;
}

static int copy(const struct history_entry *entry, uint64_t number, struct history_change *out)
{
	uint64_t why[HISTORY_WHY_SIZE / 8];
	if (atomic_load_explicit(&entry->number, memory_order_acquire) != number)
		return 0;
	out->at_ms = GET(at_ms);
	out->generation = GET(generation);
	int good = decode(GET(states), out);
	out->death_code = GET(death_code);
	for (size_t i = 0; i < HISTORY_WHY_SIZE / 8; i++)
		why[i] = GET(why[i]);
	memcpy(out->why, why, HISTORY_WHY_SIZE);
	out->why[HISTORY_WHY_SIZE - 1] = '\0';
	atomic_thread_fence(memory_order_acquire);
	return GET(number) == number && good && is_word(out->why);
}

size_t history_read(
	const struct history *history, uint32_t partition, struct history_change *out, size_t cap)
{
	const struct history_ring *ring = ring_of(history, partition);
	size_t n = 0;
	if (!ring)
		return 0;
	uint64_t count = atomic_load_explicit(&ring->count, memory_order_acquire);
	uint64_t kept = count < HISTORY_LENGTH ? count : HISTORY_LENGTH;
	if (kept > cap)
		kept = cap;
	for (uint64_t at = count - kept; at != count; at++)
		n += (size_t)copy(&ring->entries[at % HISTORY_LENGTH], at + 1, &out[n]);
	return n;
}

void history_close(struct history *history)
{
	segment_detach(&history->segment);
}
