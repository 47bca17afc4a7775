/*
 * race_client.c - libtally, and what the query process has of it, while a supervisor turns everything over.
 *
 *	writer: phase CLOSED -> OPENING -> ready, lease -> OPEN -> CLOSING -> draining or lease over -> CLOSED
 *	                 now and then another table, other limits
 *	readers: phase before, ask, phase after: the same, so nothing but what belongs to it may be answered
 *
 * A generation tells itself by how many streams it has.
 */
#include <sched.h>
#include <string.h>

#include "race.h"
#include "shm/check.h"
#include "shm/client_stand.h"
#include "tests/unit/client_run.h"

#define PARTS	    RUN_PARTITIONS
#define GENERATIONS 3
#define TENANT	    "t"

/* `phase` counts on: its lowest two bits are one of these. */
enum phase { CLOSED, OPENING, OPEN, CLOSING };

static struct {
	struct run run;
	_Atomic uint64_t phase[PARTS];
	_Atomic uint64_t generation[PARTS]; /* that is, or was last, open */
	_Atomic uint64_t limits;	    /* version that is in force, after the fact */
	_Atomic bool take_overs;	    /* a call may find nothing but tables that are over */
	uint64_t random, nonce, version;
} test;

static size_t streams_of(uint32_t p, uint64_t generation)
{
	return 10 * (p + 1) + (size_t)generation;
}

/* ------------------------------------------------------------------ writer */

static void next_phase(uint32_t p)
{
	atomic_fetch_add(&test.phase[p], 1);
}

static void open_part(uint32_t p)
{
	uint64_t generation = 1 + race_chance(&test.random, GENERATIONS);

	next_phase(p);
	atomic_store(&test.generation[p], generation);
	run_publish(&test.run, p, PART_PENDING, generation);
	run_publish(&test.run, p, PART_REPLAYING, generation);
	run_publish(&test.run, p, PART_READY, generation);
	next_phase(p);
}

/* Revoked; or only its lease is over, and the word says ready on. */
static void close_part(uint32_t p)
{
	next_phase(p);
	if (race_chance(&test.random, 3))
		table_publish(&test.run.table, p, PART_DRAINING, atomic_load(&test.generation[p]));
	run_lease(&test.run, p, -1);
	if (race_chance(&test.random, 2))
		table_publish(&test.run.table, p, PART_FREE, 0);
	next_phase(p);
}

static void turn_over(unsigned round)
{
	uint32_t p = race_chance(&test.random, PARTS);

	(void)round;
	if (atomic_load(&test.phase[p]) % 4 == CLOSED)
		open_part(p);
	else
		close_part(p);
	atomic_store(&table_head_mut(&test.run.table)->heartbeat, host_boot_ns());
}

/* Another supervisor: whatever was open is over when its table is in place. */
static void take_over(void)
{
	struct table_head facts = run_facts();
	struct table old = test.run.table;

	test.run.table = (struct table){0};
	for (uint32_t p = 0; p < PARTS; p++)
		if (atomic_load(&test.phase[p]) % 4 == OPEN)
			next_phase(p);
	facts.nonce = ++test.nonce;
	run_install(&test.run, &facts);
	table_detach(&old);
	for (uint32_t p = 0; p < PARTS; p++)
		if (atomic_load(&test.phase[p]) % 4 == CLOSING)
			next_phase(p);
}

static void turn_over_tables(unsigned round)
{
	turn_over(round);
	if (round % 8 == 0)
		take_over();
}

/* The version is the limit. */
static void write_limits(unsigned round)
{
	struct limits_source source = {.version = ++test.version,
		.default_streams = test.version,
		.scope = LIMIT_INSTANCE};

	(void)round;
	assert_int_equal(limits_write(test.run.dirfd, &source), 0);
	atomic_store_explicit(&table_head_mut(&test.run.table)->limits_version, test.version,
		memory_order_release);
	atomic_store_explicit(&test.limits, test.version, memory_order_release);
}

/* ------------------------------------------------------------------ readers */

struct look {
	uint32_t p;
	uint64_t phase, generation;
};

static struct look look_at(struct race_reader *reader)
{
	struct look look = {.p = race_chance(&reader->state, PARTS)};

	look.phase = atomic_load(&test.phase[look.p]);
	look.generation = atomic_load(&test.generation[look.p]);
	return look;
}

/* All the while in one phase. */
static bool stood(const struct look *look, enum phase phase)
{
	return look->phase % 4 == phase && atomic_load(&test.phase[look->p]) == look->phase;
}

static bool nothing(int err)
{
	return err == TALLY_ENOTREADY || (err == TALLY_ESTALE && atomic_load(&test.take_overs));
}

/* What an answer says of itself belongs together, and to what was open. */
static void check_answer(const struct look *look, int err, uint64_t generation, uint64_t streams)
{
	must(err == 0 || nothing(err));
	must(err || (generation >= 1 && generation <= GENERATIONS));
	must(err || streams == streams_of(look->p, generation));
	if (stood(look, CLOSED))
		must(nothing(err));
	if (stood(look, OPEN))
		must(err == 0 && generation == look->generation);
}

static void ask_usage(struct tally *tally, struct race_reader *reader)
{
	struct look look = look_at(reader), later;
	struct tally_part_usage usage;
	int err = tally_partition_usage(tally, look.p, TENANT, &usage);

	check_answer(&look, err, usage.generation, usage.streams);
	later = look;
	later.phase = atomic_load(&test.phase[look.p]);
	if (err == 0) {
		int valid = tally_still_valid(tally);

		if (stood(&later, CLOSED))
			must(!valid);
		race_saw(reader);
	}
}

/* The streams of partition p are p, p + PARTS, ...: the last one tells the generation, too. */
static void ask_stream(struct tally *tally, struct race_reader *reader)
{
	struct look look = look_at(reader);
	struct tally_lookup last = {.hash = (streams_of(look.p, GENERATIONS) - 1) * PARTS + look.p};
	int err = tally_lookup(tally, TENANT, &last, 1);

	must(err == 0 || nothing(err));
	must(err || last.partition == look.p);
	if (err == 0 && last.result == 0)
		must(last.generation == GENERATIONS && last.active);
	if (err == 0 && last.result == TALLY_ENOTFOUND)
		must(last.generation < GENERATIONS);
	if (stood(&look, CLOSED))
		must(err || last.result == TALLY_ENOTREADY);
	if (stood(&look, OPEN))
		must(err == 0 && last.generation == look.generation);
}

/* Slow, so that what it reads is often closed under it. */
static int read_slowly(struct client_visit *visit, void *arg)
{
	struct look *inside = arg;
	uint64_t begun = atomic_load(&test.phase[inside->p]);

	(void)visit;
	for (int i = 0; i < 50 && atomic_load(&test.phase[inside->p]) - begun < 2; i++)
		sched_yield();
	inside->phase = atomic_load(&test.phase[inside->p]);
	return 0;
}

static int visit_it(struct tally *tally, void *arg)
{
	struct look *inside = arg;

	return client_visit(tally, inside->p, read_slowly, inside);
}

static void visit_slowly(struct tally *tally, struct race_reader *reader)
{
	struct look inside = look_at(reader);
	int err = client_call(tally, visit_it, &inside);

	must(err == 0 || nothing(err));
	if (stood(&inside, CLOSED))
		must(nothing(err));
}

static void ask_instance(struct tally *tally)
{
	struct tally_partition list[PARTS];
	struct tally_instance instance;
	size_t n;

	must(tally_instance(tally, &instance) == 0 && instance.partitions == PARTS);
	must(tally_partitions(tally, list, PARTS, &n) == 0);
	for (size_t i = 0; i < n; i++)
		must(!list[i].ready || strcmp(list[i].state, "ready") == 0);
}

static void read_answers(struct race_reader *reader)
{
	struct tally *tally;

	must(tally_open(test.run.dir, 0, &tally) == 0);
	while (!race_over()) {
		ask_usage(tally, reader);
		ask_stream(tally, reader);
		visit_slowly(tally, reader);
		if (race_chance(&reader->state, 8) == 0)
			ask_instance(tally);
		if (race_chance(&reader->state, 16) == 0)
			tally_idle(tally);
	}
	tally_close(&tally);
}

/* As the query process puts an answer together: a stand, what is known, the stand once more. */
static void read_stands(struct race_reader *reader)
{
	struct tally *tally;

	must(tally_open(test.run.dir, 0, &tally) == 0);
	while (!race_over()) {
		struct look look = look_at(reader), later = look;
		uint64_t hash = look.p, generation;
		uint32_t partitions;
		uint8_t active = STREAM_NEW;
		enum client_standing standing;
		int err;

		must(client_stand_begin(tally, &partitions) == 0 && partitions == PARTS);
		generation = client_stand_generation(tally, look.p, host_boot_ns());
		if (!generation) {
			must(!stood(&look, OPEN));
			continue;
		}
		err = client_stand_known(
			tally, TENANT, look.p, generation, &hash, 1, &active, NULL);
		later.phase = atomic_load(&test.phase[look.p]);
		standing = client_stand_of(tally, look.p, generation, partitions, host_boot_ns());
		must(err == 0 || err == TALLY_ENOTREADY);
		must(err || active == STREAM_ACTIVE);
		must(!stood(&look, CLOSED));
		must(!stood(&later, CLOSED) || standing != STANDS_READY);
		if (stood(&look, OPEN))
			must(err == 0 && standing == STANDS_READY && generation == look.generation);
		race_saw(reader);
	}
	tally_close(&tally);
}

static void read_limits(struct race_reader *reader)
{
	struct tally_tenant_limits limits;
	struct tally_bucket bucket;
	struct tally *tally;
	uint64_t last = 0;
	size_t n;

	must(tally_open(test.run.dir, 0, &tally) == 0);
	while (!race_over()) {
		uint64_t in_force = atomic_load_explicit(&test.limits, memory_order_acquire);

		must(tally_buckets(tally, TENANT, -1, &limits, &bucket, 1, &n) == 0 && n == 1);
		must(limits.version >= in_force && limits.version >= last);
		must(limits.version == 0 ? bucket.limit == TALLY_UNLIMITED
					 : bucket.limit == limits.version);
		last = limits.version;
		if (last)
			race_saw(reader);
	}
	tally_close(&tally);
}

/* ------------------------------------------------------------------ tests */

static int begin(void **state)
{
	(void)state;
	run_start(&test.run);
	test.random = race_seed() | 1;
	test.version = 0;
	atomic_store(&test.limits, 0);
	for (uint32_t p = 0; p < PARTS; p++) {
		atomic_store(&test.phase[p], 0);
		for (uint64_t g = 1; g <= GENERATIONS; g++)
			run_write_n(&test.run, p, g, streams_of(p, g));
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	run_end(&test.run);
	return 0;
}

static void client_answers_from_what_is_open_and_nothing_else(void **state)
{
	(void)state;
	race_run(turn_over, read_answers, race_rounds(3000), 100);
}

static void client_finds_each_new_table(void **state)
{
	(void)state;
	atomic_store(&test.take_overs, true);
	race_run(turn_over_tables, read_answers, race_rounds(1000), 50);
	atomic_store(&test.take_overs, false);
}

static void queryd_stands_on_what_is_open_and_nothing_else(void **state)
{
	(void)state;
	race_run(turn_over, read_stands, race_rounds(3000), 100);
}

static void client_limits_are_of_one_version_and_never_of_an_older_one(void **state)
{
	(void)state;
	for (uint32_t p = 0; p < PARTS; p++)
		open_part(p);
	race_run(write_limits, read_limits, race_rounds(1000), 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			client_answers_from_what_is_open_and_nothing_else, begin, end),
		cmocka_unit_test_setup_teardown(client_finds_each_new_table, begin, end),
		cmocka_unit_test_setup_teardown(
			queryd_stands_on_what_is_open_and_nothing_else, begin, end),
		cmocka_unit_test_setup_teardown(
			client_limits_are_of_one_version_and_never_of_an_older_one, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
