/*
 * race_table.c - the table's words, slots and texts under readers that never wait.
 *
 *	writer: pending, replaying, ready, draining, "revoked", lease 0, free, next generation
 *	readers: a word, a slot, a lease, a text; "revoked" first
 *
 * Fields of a slot carry the generation's number, so a mixture shows.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "race.h"
#include "shm/check.h"
#include "shm/host.h"
#include "shm/table.h"
#include "tests/unit/scratch.h"

#define PARTS	  3
#define LEASE_NS  60000000000u
#define TEXT_STEP 19

static struct {
	struct scratch *scratch;
	struct table table; /* of the writer */
	uint64_t generation, random, nonce;
	/* What is over, told by the writer after the fact: no reader may be told otherwise. */
	_Atomic uint64_t revoked[PARTS], gone;
} test;

/* ------------------------------------------------------------------ writer */

static void set_slot(struct table_slot *slot, uint64_t generation)
{
	atomic_store_explicit(&slot->assigned_at, generation, memory_order_relaxed);
	atomic_store_explicit(&slot->pid, (uint32_t)generation, memory_order_relaxed);
	atomic_store_explicit(&slot->death_at, generation, memory_order_relaxed);
	atomic_store_explicit(&slot->restarts, (uint32_t)generation, memory_order_relaxed);
	atomic_store_explicit(&slot->lease_until, host_boot_ns() + LEASE_NS, memory_order_relaxed);
}

/* A generation tells its partition. */
static void live_and_die(uint32_t p)
{
	struct table_slot *slot = table_slot_mut(&test.table, p);
	uint64_t generation = ++test.generation * PARTS + p;

	set_slot(slot, generation);
	table_publish(&test.table, p, PART_PENDING, generation);
	table_publish(&test.table, p, PART_REPLAYING, generation);
	atomic_store(&slot->whole, generation);
	table_publish(&test.table, p, PART_READY, generation);
	for (uint32_t spins = race_chance(&test.random, 200); spins; spins--)
		atomic_store(&table_head_mut(&test.table)->heartbeat, host_boot_ns());
	table_publish(&test.table, p, PART_DRAINING, generation);
	atomic_store_explicit(&test.revoked[p], generation, memory_order_release);
	atomic_store(&slot->lease_until, 0);
	table_publish(&test.table, p, PART_FREE, 0);
}

static void write_slots(unsigned round)
{
	(void)round;
	live_and_die(race_chance(&test.random, PARTS));
}

/* The text says of itself how long it has to be. */
static void write_text(unsigned round)
{
	char text[TABLE_TEXT_SIZE] = {0};
	unsigned which = round % 26;

	memset(text, (int)('a' + which), which * TEXT_STEP);
	table_set_limits_error(&test.table, text);
}

static void install(uint64_t nonce)
{
	struct table_head facts = {.nonce = nonce,
		.pid_namespace = host_pid_namespace(),
		.started_at = nonce,
		.capacity = PARTS};
	struct table old = test.table;

	assert_int_equal(host_boot_id(facts.boot_id), 0);
	snprintf(facts.instance, sizeof(facts.instance), "%llu", (unsigned long long)nonce);
	assert_int_equal(table_create(test.scratch->fd, &facts, &test.table), 0);
	assert_int_equal(table_install(test.scratch->fd, &test.table), 0);
	atomic_store_explicit(&test.gone, nonce - 1, memory_order_release);
	table_detach(&old);
}

static void write_tables(unsigned round)
{
	set_slot(table_slot_mut(&test.table, 0), test.nonce);
	table_publish(&test.table, 0, PART_READY, test.nonce);
	write_text(round);
	install(++test.nonce);
}

/* ------------------------------------------------------------------ readers */

static void check_word(
	const struct table *table, uint32_t p, uint64_t last[PARTS], struct race_reader *reader)
{
	uint64_t word = table_word_of(table, p), generation = table_word_generation(word), revoked;
	enum part_state state = table_word_state(word);

	must(state < PART_STATES);
	must(state == PART_FREE ? generation == 0 : generation % PARTS == p && generation);
	if (state == PART_FREE)
		return;
	must(generation >= last[p]);
	last[p] = generation;
	if (race_chance(&reader->state, 4) == 0)
		sched_yield(); /* long enough to be revoked */
	revoked = atomic_load_explicit(&test.revoked[p], memory_order_acquire);
	if (table_is_ready(table, p, word, host_boot_ns()))
		must(state == PART_READY && generation > revoked);
	if (state == PART_READY && table_word_of(table, p) == word)
		must(table_is_whole(table, p, word) || table_word_of(table, p) != word);
}

static void check_slot(const struct table *table, uint32_t p, struct race_reader *reader)
{
	struct table_entry entry;

	must(table_read(table, p, &entry) == 0);
	must(table_word(entry.state, entry.generation) == entry.word || entry.state == PART_FREE);
	if (entry.state == PART_FREE)
		return;
	must(entry.assigned_at == entry.generation && entry.death_at == entry.generation);
	must(entry.pid == (uint32_t)entry.generation && entry.restarts == entry.pid);
	race_saw(reader);
}

static void read_slots(struct race_reader *reader)
{
	uint64_t last[PARTS] = {0};

	while (!race_over()) {
		uint32_t p = race_chance(&reader->state, PARTS);

		check_word(&test.table, p, last, reader);
		check_slot(&test.table, p, reader);
	}
}

static void read_text(struct race_reader *reader)
{
	while (!race_over()) {
		char text[TABLE_TEXT_SIZE];
		size_t len;

		table_limits_error(&test.table, text);
		len = strlen(text);
		must(len == 0 || len == (size_t)(text[0] - 'a') * TEXT_STEP);
		for (size_t i = 1; i < len; i++)
			must(text[i] == text[0]);
		if (len)
			race_saw(reader);
	}
}

/* What the head says was written before it could be found; it says the same of itself twice. */
static void check_table(const struct table *table)
{
	bool over = table->head->nonce <= atomic_load_explicit(&test.gone, memory_order_acquire);
	uint64_t word = table_word_of(table, 0);

	must(strtoull(table->head->instance, NULL, 10) == table->head->nonce);
	must(table->head->started_at == table->head->nonce);
	if (table_is_ready(table, 0, word, host_boot_ns()))
		must(!over && table_word_generation(word) == table->head->nonce);
	must(!over || table_word_state(word) == PART_FREE);
}

static void read_tables(struct race_reader *reader)
{
	struct table table = {0};

	while (!race_over()) {
		uint64_t gone = atomic_load_explicit(&test.gone, memory_order_acquire);

		if (!table.head || table_replaced(test.scratch->fd, &table)) {
			table_detach(&table);
			must(table_attach(test.scratch->fd, &table) == 0);
			must(table.head->nonce > gone);
			race_saw(reader);
		}
		check_table(&table);
	}
	table_detach(&table);
}

/* ------------------------------------------------------------------ tests */

static int begin(void **state)
{
	if (scratch_setup(state))
		return -1;
	test.scratch = *state;
	test.random = race_seed() | 1;
	test.nonce = 1;
	atomic_store(&test.gone, 0);
	install(1);
	return 0;
}

static int end(void **state)
{
	table_detach(&test.table);
	return scratch_teardown(state);
}

static void table_never_shows_a_generation_with_the_state_or_slot_of_another(void **state)
{
	(void)state;
	race_run(write_slots, read_slots, race_rounds(5000), 1000);
}

static void table_gives_a_text_whole_or_not_at_all(void **state)
{
	(void)state;
	race_run(write_text, read_text, race_rounds(5000), 1000);
}

static void table_that_was_replaced_has_nothing_ready(void **state)
{
	(void)state;
	race_run(write_tables, read_tables, race_rounds(2000) / 4, 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			table_never_shows_a_generation_with_the_state_or_slot_of_another, begin,
			end),
		cmocka_unit_test_setup_teardown(table_gives_a_text_whole_or_not_at_all, begin, end),
		cmocka_unit_test_setup_teardown(
			table_that_was_replaced_has_nothing_ready, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
