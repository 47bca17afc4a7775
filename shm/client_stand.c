/*
 * client_stand.c - for tally-queryd: answers that are put together over several calls.
 *
 *	generation of a ready word --> many streams of it in one transaction
 *	            '----------------> the same word, still ready, right before the answer
 *
 * Runs in: queryd.  Blocks in: opening files.
 */
#include <string.h>

#include "shm/client_private.h"
#include "shm/client_stand.h"
#include "shm/err.h"

int client_stand_begin(struct tally *tally, uint32_t *partitions)
{
	int err = client_enter(tally);
	*partitions = err ? 0 : client_partitions(tally);
	return client_public(err);
}

enum log_level client_stand_log_level(const struct tally *tally)
{
	return table_log_level(&tally->table);
}

uint64_t client_stand_generation(const struct tally *tally, uint32_t partition, uint64_t boot_ns)
{
	uint64_t word = table_word_of(&tally->table, partition);
	return table_is_ready(&tally->table, partition, word, boot_ns) ? table_word_generation(word)
								       : 0;
}

int64_t client_stand_assigned(const struct tally *tally, uint32_t partition, uint64_t boot_ns)
{
	struct table_entry entry;
	if (table_read(&tally->table, partition, &entry) ||
		!table_is_ready(&tally->table, partition, entry.word, boot_ns))
		return 0;
	return (int64_t)entry.assigned_at;
}

struct known {
	const char *tenant;
	uint64_t generation;
	const uint64_t *hashes;
	size_t n;
	uint8_t *active;
	uint32_t *until; /* or NULL */
};

static void tell_active(const struct client_find *find, size_t i, int64_t last_seen_s)
{
	const struct known *ask = find->arg;
	const struct client_visit *visit = find->visit;
	uint32_t until = window_minute_of_s((uint32_t)last_seen_s) + visit->tally->window;
	if (ask->until)
		ask->until[i] = until;
	if (!client_seen_active(visit, last_seen_s))
		ask->active[i] = STREAM_NEW;
	else
		ask->active[i] = visit->now_minute < until ? STREAM_ACTIVE : STREAM_EXPIRING;
}

static int read_known(struct client_visit *visit, void *arg)
{
	struct known *ask = arg;
	struct client_find find;
	if (visit->generation != ask->generation)
		return ERR_NOT_READY;
	client_find_start(&find, visit, ask->tenant, tell_active, ask);
	for (size_t i = 0; i < ask->n; i++)
		client_find_add(&find, i, ask->hashes[i]);
	client_find_end(&find);
	return 0;
}

int client_stand_known(struct tally *tally, const char *tenant, uint32_t partition,
	uint64_t generation, const uint64_t *hashes, size_t n, uint8_t *active, uint32_t *until)
{
	struct known ask = {
		.tenant = tenant,
		.generation = generation,
		.hashes = hashes,
		.n = n,
		.active = active,
		.until = until,
	};
	if (!tally->attached)
		return TALLY_ENOTREADY;
	/* What is stood on is the caller's to remember. */
	tally->n_stands = 0;
	tally->boot_ns = host_boot_ns();
	return client_public(client_visit(tally, partition, read_known, &ask));
}

uint32_t client_stand_minute(const struct tally *tally)
{
	return window_minute_of_ms(tally->now_ms);
}

enum client_standing client_stand_of(const struct tally *tally, uint32_t partition,
	uint64_t generation, uint32_t partitions, uint64_t boot_ns)
{
	if (!tally->attached)
		return STANDS_LEFT;
	uint64_t word = table_word_of(&tally->table, partition);
	bool ready = table_is_ready(&tally->table, partition, word, boot_ns);
	/* After the word: what was published under another number is seen by then. */
	uint32_t now = atomic_load_explicit(&tally->table.head->partitions, memory_order_acquire);
	if (table_word_generation(word) != generation ||
		(now < tally->slots ? now : tally->slots) != partitions)
		return STANDS_LEFT;
	if (ready)
		return STANDS_READY;
	switch (table_word_state(word)) {
	case PART_PENDING:
	case PART_REPLAYING:
	case PART_READY:
	case PART_FAILED:
		return STANDS_BACK;
	default:
		return STANDS_LEFT;
	}
}

bool client_stand_reading(uint32_t *partition, uint64_t *generation)
{
	return client_reading(partition, generation);
}

void client_stand_on_corrupt(void (*hear)(uint32_t partition, uint64_t generation))
{
	client_on_corrupt(hear);
}

uint64_t client_stand_limits(const struct tally *tally)
{
	if (!tally->attached)
		return 0;
	return atomic_load_explicit(&tally->table.head->limits_version, memory_order_acquire);
}
