/*
 * test_replay.c - what replay does with a store that is full: it waits, sweeps, goes on; and with a
 * log that has holes, or may be another one.
 *
 * The source is made up here: the functions of source.c that replay calls are below.
 * Its hashes come from a seed, which is printed; TALLY_SEED repeats one.
 */
#include "usage_fixture.h"

#include <fcntl.h>
#include <time.h>

#include "worker/replay.h"

#define PARTITION  3
#define PARTITIONS 7
#define GENERATION 1234
#define HOURS_MS   (180 * MIN_MS)

/* --- a source of streams that are new, each with one record ---------------------------------- */

static struct {
	uint64_t left, batch; /* records that may be fetched; of the batch in hand */
	int64_t offset;
	int64_t timestamp_ms;
	bool doubt; /* the next batch is this alone */
	uint8_t value[64];
} fake;

static uint8_t *put_varint(uint8_t *p, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*p++ = (uint8_t)(value | 0x80);
	*p++ = (uint8_t)value;
	return p;
}

/* { tenant: "t", metadata: { streamHash, totalSize: 1 } } */
static size_t make_value(uint8_t *value, uint64_t hash)
{
	uint8_t metadata[16], *m = metadata, *p = value;

	*m++ = 1 << 3;
	m = put_varint(m, hash);
	*m++ = 2 << 3;
	m = put_varint(m, 1);
	*p++ = 2 << 3 | 2;
	*p++ = 1;
	*p++ = 't';
	*p++ = 3 << 3 | 2;
	*p++ = (uint8_t)(m - metadata);
	memcpy(p, metadata, (size_t)(m - metadata));
	return (size_t)(p - value) + (size_t)(m - metadata);
}

size_t source_fetch(struct source *source, size_t max)
{
	(void)source;
	fake.batch = fake.left < max ? fake.left : max;
	return fake.doubt ? 1 : fake.batch;
}

bool source_next(struct source *source, struct source_event *event)
{
	uint64_t spread = (uint64_t)fake.offset * 0x9e3779b97f4a7c15 + seed;
	uint64_t hash = (spread >> 4) * PARTITIONS + PARTITION;

	(void)source;
	if (fake.doubt) {
		fake.doubt = false;
		fake.batch = 0;
		*event = (struct source_event){.kind = SOURCE_DOUBT, .offset = -1};
		return true;
	}
	if (fake.batch == 0)
		return false;
	fake.batch--;
	fake.left--;
	*event = (struct source_event){.kind = SOURCE_RECORD,
		.offset = fake.offset++,
		.value = fake.value,
		.value_len = make_value(fake.value, hash),
		.timestamp_ms = fake.timestamp_ms};
	return true;
}

bool source_last(const struct source *source)
{
	(void)source;
	return fake.batch == 0;
}

/* --- a worker without its loop --------------------------------------------------------------- */

struct bench {
	struct handoff handoff;
	struct table table;
	struct stats stats;
	struct facts facts;
	struct now now;
	struct usage *usage;
	struct replay *replay;
};

static void set_lease(struct bench *b, int64_t ms)
{
	atomic_store(&table_slot_mut(&b->table, PARTITION)->lease_until,
		(uint64_t)((int64_t)host_boot_ns() + ms * 1000000));
}

static void make_table(struct bench *b)
{
	struct table_head facts = {.capacity = 64, .window_minutes = WINDOW, .rate_minutes = 5};
	int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char path[128];

	assert_true(dirfd >= 0);
	assert_int_equal(table_create(dirfd, &facts, &b->table), 0);
	assert_int_equal(table_install(dirfd, &b->table), 0);
	close(dirfd);
	snprintf(path, sizeof(path), "%s/table", dir);
	unlink(path);
	table_publish(&b->table, PARTITION, PART_REPLAYING, GENERATION);
	set_lease(b, 3600000);
}

static void start(struct bench *b)
{
	struct usage_options options = default_options();
	struct plan plan = {.action = PLAN_READ, .target = INT64_MAX};

	memset(b, 0, sizeof(*b));
	memset(&fake, 0, sizeof(fake));
	make_table(b);
	options.map_bytes = UINT64_C(1) << 20;
	b->usage = open_with(&options);
	b->handoff = (struct handoff){.partition = PARTITION,
		.partitions = PARTITIONS,
		.generation = GENERATION,
		.window_minutes = WINDOW,
		.batch_records = 500,
		.flush_ms = 5};
	facts_start(&b->facts, &b->stats);
	now_start(&b->now, &b->table, 0);
	replay_new(&(struct replay_options){.handoff = &b->handoff,
			   .table = &b->table,
			   .usage = b->usage,
			   .facts = &b->facts,
			   .now = &b->now},
		&b->replay);
	replay_begin(b->replay, &plan);
}

static void end(struct bench *b)
{
	usage_close(&b->usage);
	table_detach(&b->table);
	free(b->replay);
	clean();
}

static bool says_full(struct bench *b)
{
	return stats_get(&b->stats, flags) & FLAG_STORE_FULL;
}

static void fill(struct bench *b)
{
	for (int i = 0; i < 10000; i++) {
		fake.timestamp_ms = now_ms(&b->now);
		fake.left = 500;
		if (replay_turn(b->replay) == REPLAY_HELD) {
			assert_true(says_full(b));
			return;
		}
		(void)replay_flush(b->replay);
	}
	fail_msg("it never became full");
}

static void pass_hours(struct bench *b)
{
	atomic_fetch_add(&table_head_mut(&b->table)->clock_offset_ms, HOURS_MS);
}

/* Lets `ms` go by, as the loop would; false when it is still held then. */
static bool wait_for_room(struct bench *b, unsigned ms)
{
	uint64_t end_ns = host_boot_ns() + ms * UINT64_C(1000000);

	while (replay_held(b->replay) && host_boot_ns() < end_ns) {
		struct timespec pause = {.tv_nsec = 1000000};

		assert_true(replay_due_ns(b->replay) != 0);
		assert_int_equal(replay_turn(b->replay), REPLAY_HELD);
		replay_timer(b->replay);
		replay_idle_second(b->replay);
		nanosleep(&pause, NULL);
	}
	return !replay_held(b->replay);
}

/* Every record that the source gave is counted, once. */
static void check_counts(struct bench *b)
{
	const struct usage_meta *meta = usage_meta(b->usage);

	assert_true(replay_flush(b->replay));
	assert_int_equal(meta->next_offset, fake.offset);
	assert_int_equal(meta->records, fake.offset);
	assert_int_equal(meta->applied, fake.offset);
	assert_int_equal(meta->bytes, fake.offset);
	assert_int_equal(meta->streams + meta->swept, fake.offset);
	assert_int_equal(stats_get(&b->stats, streams), meta->streams);
	verify(b->usage);
}

/* --- the tests ------------------------------------------------------------------------------- */

static void heal(bool live)
{
	struct bench b;

	start(&b);
	if (live)
		replay_go_live(b.replay);
	for (int times = 0; times < 3; times++) {
		do /* a sweep that finds nothing still makes the pages reusable that were freed last */
			fill(&b);
		while (wait_for_room(&b, 250));
		pass_hours(&b);
		assert_true(wait_for_room(&b, 20000));
		assert_false(says_full(&b));
		check_counts(&b);
	}
	end(&b);
}

static void replay_goes_on_when_all_that_filled_the_map_has_expired(void **state)
{
	(void)state;
	heal(false);
}

static void replay_goes_on_when_it_is_live(void **state)
{
	(void)state;
	heal(true);
}

static void replay_sweeps_nothing_when_its_lease_is_over(void **state)
{
	struct bench b;
	uint64_t streams;

	(void)state;
	start(&b);
	replay_go_live(b.replay);
	fill(&b);
	streams = usage_meta(b.usage)->streams;
	set_lease(&b, -1);
	pass_hours(&b);
	assert_false(wait_for_room(&b, 500));
	assert_int_equal(usage_meta(b.usage)->streams, streams);
	assert_int_equal(usage_meta(b.usage)->swept, 0);
	set_lease(&b, 3600000);
	assert_true(wait_for_room(&b, 20000));
	check_counts(&b);
	end(&b);
}

static uint64_t read_some(struct bench *b, uint64_t records)
{
	fake.timestamp_ms = now_ms(&b->now);
	fake.left = records;
	(void)replay_turn(b->replay);
	assert_true(replay_flush(b->replay));
	return usage_meta(b->usage)->records;
}

static void replay_counts_nothing_of_what_may_be_another_log(void **state)
{
	struct bench b;

	(void)state;
	start(&b);
	assert_int_equal(read_some(&b, 10), 10);
	fake.left = 10;
	fake.doubt = true;
	assert_int_equal(replay_turn(b.replay), REPLAY_DOUBT);
	assert_true(replay_flush(b.replay));
	assert_int_equal(usage_meta(b.usage)->records, 10);
	assert_int_equal(replay_next(b.replay), 10);
	end(&b);
}

static void replay_keeps_its_target_when_it_begins_again(void **state)
{
	struct bench b;
	struct plan plan = {.action = PLAN_READ, .target = 20};

	(void)state;
	start(&b);
	replay_begin(b.replay, &plan);
	read_some(&b, 10);
	plan.from = 10;
	plan.target = 1000; /* a producer that never stops */
	replay_begin(b.replay, &plan);
	assert_false(replay_reached(b.replay));
	read_some(&b, 10);
	assert_true(replay_reached(b.replay));
	end(&b);
}

static void replay_tells_no_gap_when_offsets_hold_no_record(void **state)
{
	struct bench b;

	(void)state;
	start(&b);
	read_some(&b, 10);
	fake.offset += 100; /* aborted records and their marker */
	assert_int_equal(read_some(&b, 10), 20);
	assert_int_equal(usage_meta(b.usage)->next_offset, 120);
	assert_int_equal(usage_meta(b.usage)->gaps, 0);
	end(&b);
}

static void replay_goes_back_when_nothing_was_ever_delivered(void **state)
{
	struct bench b;
	struct plan plan = {.action = PLAN_READ, .from = 5, .target = 5};

	(void)state;
	start(&b);
	replay_begin(b.replay, &plan); /* markers only */
	assert_int_equal(usage_meta(b.usage)->next_offset, 5);
	plan.from = 0;
	replay_begin(b.replay, &plan);
	assert_int_equal(read_some(&b, 10), 10);
	assert_int_equal(usage_meta(b.usage)->next_offset, 10);
	end(&b);
}

/* The log was cut behind our last record, where we had passed over offsets without a record. */
static void replay_counts_records_that_came_where_there_were_none(void **state)
{
	struct bench b;
	struct plan plan = {.action = PLAN_READ, .from = 30, .target = 30};

	(void)state;
	start(&b);
	read_some(&b, 10);
	replay_begin(b.replay, &plan); /* markers only */
	assert_int_equal(usage_meta(b.usage)->next_offset, 30);
	fake.offset = 10;
	assert_int_equal(read_some(&b, 10), 20);
	assert_int_equal(usage_meta(b.usage)->next_offset, 20);
	assert_int_equal(usage_meta(b.usage)->fingerprint.offset, 19);
	fake.offset = 15;
	assert_int_equal(read_some(&b, 10), 25);
	assert_int_equal(usage_meta(b.usage)->next_offset, 25);
	end(&b);
}

/* --- questions ------------------------------------------------------------------------------- */

static uint32_t ask(struct bench *b, uint64_t n, uint32_t budget)
{
	struct usage_stream_asked asked = {.tenant = "t",
		.tenant_len = 1,
		.policy = "",
		.hash = n * PARTITIONS + PARTITION,
		.bytes = 1,
		.seen_ms = now_ms(&b->now)};

	return usage_admit(b->usage, &asked, budget, now_ms(&b->now));
}

static void replay_commits_questions_with_the_records_that_are_there(void **state)
{
	struct bench b;
	uint32_t ticket;

	(void)state;
	start(&b);
	replay_go_live(b.replay);
	fake.timestamp_ms = now_ms(&b.now);
	fake.left = 10;
	(void)replay_turn(b.replay);
	ticket = ask(&b, 1, usage_budget(b.usage, 1));
	assert_int_equal(replay_ask(b.replay), 0);
	assert_int_equal(usage_verdict(b.usage, ticket), USAGE_NEW);
	usage_questions_end(b.usage);
	replay_asked(b.replay, 0);
	assert_int_equal(usage_meta(b.usage)->records, 10);
	assert_int_equal(usage_meta(b.usage)->next_offset, 10);
	assert_int_equal(usage_meta(b.usage)->streams, 11);
	assert_int_equal(replay_due_ns(b.replay), 0);
	end(&b);
}

static void replay_waits_for_nothing_when_only_questions_had_no_lease(void **state)
{
	struct bench b;

	(void)state;
	start(&b);
	replay_go_live(b.replay);
	read_some(&b, 10);
	set_lease(&b, -1);
	ask(&b, 1, usage_budget(b.usage, 1));
	assert_int_equal(replay_ask(b.replay), ERR_LEASE);
	usage_questions_end(b.usage);
	replay_asked(b.replay, ERR_LEASE);
	assert_false(replay_held(b.replay));
	set_lease(&b, 3600000);
	assert_int_equal(read_some(&b, 10), 20);
	assert_int_equal(usage_meta(b.usage)->streams, 20);
	end(&b);
}

static void replay_keeps_records_that_were_to_be_committed_with_a_question(void **state)
{
	struct bench b;

	(void)state;
	start(&b);
	replay_go_live(b.replay);
	read_some(&b, 10);
	b.handoff.flush_ms = 60000; /* not before the question */
	fake.left = 10;
	(void)replay_turn(b.replay);
	set_lease(&b, -1);
	ask(&b, 1, usage_budget(b.usage, 1));
	if (usage_pending(b.usage) == 1)
		fail_msg("the records were committed before");
	assert_int_equal(replay_ask(b.replay), ERR_LEASE);
	usage_questions_end(b.usage);
	replay_asked(b.replay, ERR_LEASE);
	assert_true(replay_held(b.replay));
	assert_int_equal(replay_holds(b.replay), ERR_LEASE);
	assert_int_equal(replay_ask(b.replay), ERR_LEASE); /* answered, and nothing is tried */
	set_lease(&b, 3600000);
	assert_true(wait_for_room(&b, 20000));
	check_counts(&b);
	end(&b);
}

static void replay_lets_go_when_touches_that_waited_are_all_there_is(void **state)
{
	struct bench b;
	struct usage_stream_asked asked = {
		.tenant = "t", .tenant_len = 1, .policy = "", .hash = PARTITION, .bytes = 1};

	(void)state;
	start(&b);
	replay_go_live(b.replay);
	read_some(&b, 10);
	set_lease(&b, -1);
	asked.seen_ms = now_ms(&b.now);
	usage_touch(b.usage, &asked, asked.seen_ms);
	assert_false(replay_flush(b.replay));
	assert_true(replay_held(b.replay));
	set_lease(&b, 3600000);
	assert_true(wait_for_room(&b, 20000));
	assert_int_equal(usage_meta(b.usage)->streams, 11);
	end(&b);
}

/* --- how much is a batch ---------------------------------------------------------------------- */

static uint64_t batch_of(uint64_t streams, uint32_t tenants, uint32_t policies)
{
	struct handoff handoff = {.batch_records = 1000000};
	struct usage_meta meta = {.streams = streams, .tenants = tenants, .policies = policies};

	return replay_batch(&handoff, &meta, false);
}

static void replay_takes_larger_batches_where_there_is_more(void **state)
{
	struct handoff handoff = {.batch_records = 300000};
	struct usage_meta meta = {.streams = 100000000};

	(void)state;
	assert_int_equal(batch_of(0, 0, 0), 250000);
	assert_int_equal(batch_of(1000000, 10, 10), 250000);
	assert_int_equal(batch_of(3000000, 10, 10), 750000);
	assert_int_equal(batch_of(1000000, 5000, 5000), 500000);
	assert_int_equal(batch_of(3000000, 5000, 5000), 750000);
	assert_int_equal(batch_of(UINT64_MAX, 1, 1), 1000000);
	assert_int_equal(batch_of(0, UINT32_MAX, UINT32_MAX), 1000000);
	assert_int_equal(replay_batch(&handoff, &meta, false), 300000);
	assert_int_equal(replay_batch(&handoff, &meta, true), 10000);
	handoff.batch_max = 1; /* after repeated deaths */
	assert_int_equal(replay_batch(&handoff, &meta, false), 1);
	assert_int_equal(replay_batch(&handoff, &meta, true), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, each_setup)
	const struct CMUnitTest tests[] = {
		TEST(replay_commits_questions_with_the_records_that_are_there),
		TEST(replay_waits_for_nothing_when_only_questions_had_no_lease),
		TEST(replay_keeps_records_that_were_to_be_committed_with_a_question),
		TEST(replay_lets_go_when_touches_that_waited_are_all_there_is),
		TEST(replay_goes_on_when_all_that_filled_the_map_has_expired),
		TEST(replay_goes_on_when_it_is_live),
		TEST(replay_sweeps_nothing_when_its_lease_is_over),
		TEST(replay_counts_nothing_of_what_may_be_another_log),
		TEST(replay_keeps_its_target_when_it_begins_again),
		TEST(replay_takes_larger_batches_where_there_is_more),
		TEST(replay_tells_no_gap_when_offsets_hold_no_record),
		TEST(replay_goes_back_when_nothing_was_ever_delivered),
		TEST(replay_counts_records_that_came_where_there_were_none),
	};

	seed = schedule_seed();
	return cmocka_run_group_tests(tests, setup, teardown);
}
