/*
 * table.c - the partition table: one word and one slot per partition.
 *
 *	head | slot 0 | slot 1 | ...	one writer (supervisor), any number of readers
 *
 * A reader copies a slot between two equal reads of its word, so it never
 * mixes two generations; it gives up the copy, never the process.
 *
 * Runs in: every program; the writing half in the supervisor only.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

#include "shm/check.h"
#include "shm/err.h"
#include "shm/fault.h"
#include "shm/table.h"

#define MAGIC "TALLYTAB"

static const char *const state_words[PART_STATES] = {
	[PART_FREE] = "free",
	[PART_PENDING] = "pending",
	[PART_REPLAYING] = "replaying",
	[PART_READY] = "ready",
	[PART_DRAINING] = "draining",
	[PART_PARKED] = "parked",
	[PART_FAILED] = "failed",
	[PART_STOPPED] = "stopped",
};

static const char *const death_words[DEATH_KINDS] = {
	[DEATH_NONE] = "none",
	[DEATH_EXIT] = "exit",
	[DEATH_SIGNAL] = "signal",
	[DEATH_HANG] = "hang",
	[DEATH_SPAWN] = "spawn",
	[DEATH_REBUILD] = "rebuild",
};

static const char *const group_words[GROUP_STATES] = {
	[GROUP_STARTING] = "starting",
	[GROUP_NO_BROKER] = "no_broker",
	[GROUP_NO_TOPIC] = "no_topic",
	[GROUP_JOINING] = "joining",
	[GROUP_MEMBER] = "member",
	[GROUP_LOST] = "lost",
	[GROUP_FENCED] = "fenced",
	[GROUP_STOPPED] = "stopped",
	[GROUP_LOGIN_REFUSED] = "login_refused",
	[GROUP_TLS_FAILED] = "tls_failed",
	[GROUP_NOT_ALLOWED] = "not_allowed",
};

static const char *const load_words[LOAD_STATES] = {
	[LOAD_NONE] = "none",
	[LOAD_OK] = "ok",
	[LOAD_REFUSED] = "refused",
};

const char *part_state_word(enum part_state state)
{
	return (unsigned)state < PART_STATES ? state_words[state] : "unknown";
}

const char *part_death_word(enum part_death death)
{
	return (unsigned)death < DEATH_KINDS ? death_words[death] : "unknown";
}

const char *group_state_word(enum group_state state)
{
	return (unsigned)state < GROUP_STATES ? group_words[state] : "unknown";
}

const char *load_state_word(enum load_state state)
{
	return (unsigned)state < LOAD_STATES ? load_words[state] : "unknown";
}

static struct table_slot *slots_of(void *map)
{
	return (struct table_slot *)((char *)map + TABLE_SLOTS_AT);
}

/* ------------------------------------------------------------------ writer */

/* By the size that was mapped: what the file says of itself may change under us. */
static bool in_range(const struct table *table, uint32_t partition)
{
	return partition < (table->segment.size - TABLE_SLOTS_AT) / sizeof(struct table_slot);
}

int table_create(int dirfd, const struct table_head *facts, struct table *table)
{
	struct segment_spec spec = {MAGIC, TABLE_VERSION, TABLE_SIZE(facts->capacity)};
	int err = segment_create(dirfd, TABLE_NAME, &spec, 0440, &table->segment, NULL);
	if (err)
		return err;
	struct table_head *head = table->segment.map;
	struct segment_head kept = head->segment;
	memcpy(head, facts, sizeof *head);
	head->segment = kept;
	table->head = head;
	return 0;
}

/* Readers of the old table must see that it is over even when its supervisor was killed. */
static void retire_old(int dirfd)
{
	int fd = segment_open_own(dirfd, TABLE_NAME);
	struct stat st;
	if (fd < 0)
		return;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size >= TABLE_SLOTS_AT) {
		struct segment_spec spec = {MAGIC, TABLE_VERSION, TABLE_SLOTS_AT};
		void *map =
			mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (map != MAP_FAILED && !segment_check(map, (size_t)st.st_size, &spec)) {
			struct table_head *head = map;
			size_t n =
				((size_t)st.st_size - TABLE_SLOTS_AT) / sizeof(struct table_slot);
			atomic_store(&head->retired, 1);
			for (size_t i = 0; i < n; i++)
				atomic_store(&slots_of(map)[i].word, table_word(PART_FREE, 0));
		}
		if (map != MAP_FAILED)
			munmap(map, (size_t)st.st_size);
	}
	close(fd);
}

int table_install(int dirfd, struct table *table)
{
	must(table->segment.map);
	retire_old(dirfd);
	FAULT("table.retired");
	return segment_publish(dirfd, TABLE_NAME);
}

struct table_head *table_head_mut(struct table *table)
{
	return table->segment.map;
}

struct table_slot *table_slot_mut(struct table *table, uint32_t partition)
{
	must(in_range(table, partition));
	return &slots_of(table->segment.map)[partition];
}

void table_publish(
	struct table *table, uint32_t partition, enum part_state state, uint64_t generation)
{
	struct table_slot *slot = table_slot_mut(table, partition);
	must(generation <= TABLE_GENERATION_MAX);
	atomic_store_explicit(
		&slot->changed_at, (uint64_t)host_wall_ms() * 1000000, memory_order_relaxed);
	atomic_store_explicit(&slot->word, table_word(state, generation), memory_order_release);
	/* What the next generation writes to its slot is not seen before this word. */
	atomic_thread_fence(memory_order_release);
}

/* The count is odd meanwhile, and another one afterwards: a reader takes all of a text or none. */
void table_set_limits_error(struct table *table, const char *text)
{
	struct table_head *head = table_head_mut(table);
	uint64_t words[TABLE_TEXT_SIZE / 8] = {0};
	uint32_t change = atomic_load_explicit(&head->limits_change, memory_order_relaxed);
	memcpy(words, text, strnlen(text, sizeof words - 1));
	atomic_store_explicit(&head->limits_change, change + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (size_t i = 0; i < TABLE_TEXT_SIZE / 8; i++)
		atomic_store_explicit(&head->limits_error[i], words[i], memory_order_relaxed);
	atomic_store_explicit(&head->limits_change, change + 2, memory_order_release);
}

/* ------------------------------------------------------------------ reader */

static int check_origin(const struct table_head *head)
{
	uint8_t boot[HOST_BOOT_ID_SIZE];
	if (host_boot_id(boot))
		return ERR_IO;
	if (memcmp(boot, head->boot_id, sizeof boot))
		return ERR_STALE;
	return head->pid_namespace == host_pid_namespace() ? 0 : ERR_NAMESPACE;
}

int table_attach(int dirfd, struct table *table)
{
	struct segment_spec spec = {MAGIC, TABLE_VERSION, TABLE_SLOTS_AT};
	*table = (struct table){0};
	int err = segment_attach(dirfd, TABLE_NAME, &spec, &table->segment);
	if (err)
		return err;
	table->head = table->segment.map;
	if (table->head->capacity > TABLE_CAPACITY ||
		table->segment.size != TABLE_SIZE(table->head->capacity))
		err = ERR_FORMAT;
	else
		err = check_origin(table->head);
	if (err)
		table_detach(table);
	return err;
}

void table_detach(struct table *table)
{
	segment_detach(&table->segment);
	table->head = NULL;
}

bool table_replaced(int dirfd, const struct table *table)
{
	struct stat st;
	if (atomic_load_explicit(&table->head->retired, memory_order_acquire))
		return true;
	if (fstatat(dirfd, TABLE_NAME, &st, AT_SYMLINK_NOFOLLOW))
		return true;
	return st.st_dev != table->segment.dev || st.st_ino != table->segment.ino;
}

static const struct table_slot *slot_of(const struct table *table, uint32_t partition)
{
	return &slots_of(table->segment.map)[partition];
}

#define GET(field) atomic_load_explicit(&slot->field, memory_order_relaxed)

static void copy_slot(const struct table_slot *slot, struct table_entry *entry)
{
	entry->lease_until = GET(lease_until);
	entry->assigned_at = GET(assigned_at);
	entry->changed_at = GET(changed_at);
	entry->death_at = GET(death_at);
	entry->pid = GET(pid);
	entry->restarts = GET(restarts);
	entry->quarantined = GET(quarantined);
	entry->retry_in_ms = GET(retry_in_ms);
	entry->death = (enum part_death)GET(death);
	entry->death_code = GET(death_code);
}

int table_read(const struct table *table, uint32_t partition, struct table_entry *entry)
{
	if (!in_range(table, partition))
		return ERR_INVALID;
	const struct table_slot *slot = slot_of(table, partition);
	uint64_t before, after;
	int tries = 0;
	do {
		before = atomic_load_explicit(&slot->word, memory_order_acquire);
		copy_slot(slot, entry);
		atomic_thread_fence(memory_order_acquire);
		after = atomic_load_explicit(&slot->word, memory_order_relaxed);
	} while (before != after && ++tries < 100);
	entry->word = after;
	entry->state = table_word_state(after);
	entry->generation = table_word_generation(after);
	if (before != after || entry->state >= PART_STATES)
		entry->state = PART_FREE; /* never stood still, hostile or newer: not readable */
	return 0;
}

uint64_t table_word_of(const struct table *table, uint32_t partition)
{
	if (!in_range(table, partition))
		return 0;
	return atomic_load_explicit(&slot_of(table, partition)->word, memory_order_acquire);
}

bool table_is_whole(const struct table *table, uint32_t partition, uint64_t word)
{
	uint64_t generation = table_word_generation(word);

	return in_range(table, partition) && generation &&
	       atomic_load_explicit(&slot_of(table, partition)->whole, memory_order_acquire) ==
		       generation;
}

void table_limits_error(const struct table *table, char text[TABLE_TEXT_SIZE])
{
	const struct table_head *head = table->head;
	uint64_t words[TABLE_TEXT_SIZE / 8];
	uint32_t before, after;
	int tries = 0;
	do {
		before = atomic_load_explicit(&head->limits_change, memory_order_acquire);
		for (size_t i = 0; i < TABLE_TEXT_SIZE / 8; i++)
			words[i] =
				atomic_load_explicit(&head->limits_error[i], memory_order_relaxed);
		atomic_thread_fence(memory_order_acquire);
		after = atomic_load_explicit(&head->limits_change, memory_order_relaxed);
	} while ((before != after || before % 2) && ++tries < 100);
	memcpy(text, words, TABLE_TEXT_SIZE);
	text[before != after || before % 2 ? 0 : TABLE_TEXT_SIZE - 1] = 0;
}

static bool is_leased(
	const struct table *table, uint32_t partition, uint64_t word, uint64_t boot_ns)
{
	if (!in_range(table, partition))
		return false;
	const struct table_slot *slot = slot_of(table, partition);
	if (atomic_load_explicit(&slot->lease_until, memory_order_acquire) <= boot_ns)
		return false;
	if (atomic_load_explicit(&table->head->retired, memory_order_acquire))
		return false;
	return atomic_load_explicit(&slot->word, memory_order_acquire) == word;
}

bool table_is_ready(const struct table *table, uint32_t partition, uint64_t word, uint64_t boot_ns)
{
	return table_word_state(word) == PART_READY && is_leased(table, partition, word, boot_ns);
}

bool table_is_replaying(
	const struct table *table, uint32_t partition, uint64_t word, uint64_t boot_ns)
{
	return table_word_state(word) == PART_REPLAYING &&
	       is_leased(table, partition, word, boot_ns);
}

/* As table_is_ready for each; a loop of its own, because it is run at every look-up. */
uint32_t table_count(
	const struct table *table, uint32_t partitions, uint64_t boot_ns, uint32_t *owned)
{
	const struct table_slot *slot = slot_of(table, 0);
	uint32_t ready = 0;
	*owned = 0;
	for (uint32_t p = 0; p < partitions && in_range(table, p); p++, slot++) {
		uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
		enum part_state state = table_word_state(word);
		*owned += state != PART_FREE && state < PART_STATES;
		ready += state == PART_READY &&
			 atomic_load_explicit(&slot->lease_until, memory_order_acquire) > boot_ns &&
			 atomic_load_explicit(&slot->word, memory_order_acquire) == word;
	}
	return atomic_load_explicit(&table->head->retired, memory_order_acquire) ? 0 : ready;
}

enum log_level table_log_level(const struct table *table)
{
	uint32_t level = atomic_load_explicit(&table->head->log_level, memory_order_relaxed);
	return level <= LOG_LEVEL_DEBUG ? (enum log_level)level : LOG_LEVEL_INFO;
}

bool table_is_alive(const struct table *table, uint64_t boot_ns)
{
	const struct table_head *head = table->head;
	uint64_t beat = atomic_load_explicit(&head->heartbeat, memory_order_relaxed);
	if (atomic_load_explicit(&head->stopped, memory_order_acquire) ||
		atomic_load_explicit(&head->retired, memory_order_acquire))
		return false;
	return beat + (uint64_t)head->lost_timeout_ms * 1000000 > boot_ns;
}

/* ------------------------------------------------------------------- names */

void table_dir_name(char name[TABLE_DIR_NAME_SIZE], uint32_t partition, uint64_t generation)
{
	snprintf(name, TABLE_DIR_NAME_SIZE, "p%" PRIu32 ".%" PRIu64, partition, generation);
}

bool table_dir_parse(const char *name, uint32_t *partition, uint64_t *generation)
{
	char canonical[TABLE_DIR_NAME_SIZE], *end;
	if (name[0] != 'p' || !isdigit((unsigned char)name[1]))
		return false;
	errno = 0;
	unsigned long long p = strtoull(name + 1, &end, 10);
	if (errno || *end != '.' || p >= UINT32_MAX || !isdigit((unsigned char)end[1]))
		return false;
	unsigned long long g = strtoull(end + 1, &end, 10);
	if (errno || *end || g > TABLE_GENERATION_MAX)
		return false;
	table_dir_name(canonical, (uint32_t)p, g); /* "p07.1" is not a name of ours */
	if (strcmp(canonical, name))
		return false;
	*partition = (uint32_t)p;
	*generation = g;
	return true;
}
