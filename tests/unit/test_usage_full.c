/*
 * test_usage_full.c - a full file system is an answer, never a signal.
 *
 * The whole program runs on a small tmpfs in a mount namespace of its own: a SIGBUS
 * in the code under test ends it.  Skipped where such a mount is not allowed.
 */
#include "usage_fixture.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

static bool mounted;

/* Takes all but `leave` bytes of the file system. */
static void fill(const char *path, uint64_t leave)
{
	struct statvfs fs;
	FILE *out = fopen(path, "we");
	uint64_t take;
	char page[4096] = {0};

	assert_non_null(out);
	assert_int_equal(statvfs(path, &fs), 0);
	take = fs.f_bavail * fs.f_bsize;
	take = take > leave ? take - leave : 0;
	for (; take >= sizeof(page); take -= sizeof(page))
		assert_int_equal(fwrite(page, sizeof(page), 1, out), 1);
	assert_int_equal(fclose(out), 0);
}

/* Streams that come once: the store has to grow. */
static void add_new_streams(
	struct usage *usage, struct oracle *oracle, uint64_t *rng, int64_t now_ms, uint32_t n)
{
	while (n-- > 0) {
		struct record record =
			record_of("new", "", (schedule_draw64(rng) >> 4) * 7 + 3, 1, now_ms);

		assert_int_equal(usage_add(usage, &record, now_ms), SKIP_NONE);
		oracle_add(oracle, &record, now_ms);
	}
}

/*
 * A commit while another file takes all but a random rest: it either succeeds or
 * says full and changes nothing; then the other file goes and the same batch
 * succeeds.  True when it was refused.
 */
static bool commit_when_nearly_full(struct usage *usage, uint64_t *rng, int64_t now_ms)
{
	int64_t offset_before = usage_meta(usage)->next_offset;
	char filler[128];
	int err;

	snprintf(filler, sizeof(filler), "%s/filler", dir);
	fill(filler, 4096 * (uint64_t)schedule_draw(rng, schedule_draw(rng, 2) ? 10 : 250));
	err = try_commit(usage, now_ms, schedule_draw(rng, 3));
	assert_true(err == 0 || err == ERR_FULL);
	unlink(filler);
	if (err) {
		assert_int_equal(usage_meta(usage)->next_offset, offset_before);
		commit(usage, now_ms);
	}
	check_reserve(usage);
	return err != 0;
}

static void usage_commit_says_full_and_never_faults_on_a_full_file_system(void **state)
{
	struct usage *usage;
	struct oracle *oracle;
	struct schedule schedule;
	uint64_t rng = seed;
	unsigned commits = 0, refused = 0;
	int64_t now_ms = NOW;

	(void)state;
	if (!mounted)
		skip();
	usage = open_usage();
	oracle = oracle_new(3, 7, WINDOW, usage_meta(usage)->incarnation);
	schedule_make(&schedule, seed, WINDOW, 1000, 30 * MIN_MS);
	schedule_own(&schedule, usage_meta(usage)->incarnation);
	for (size_t i = 0; i < schedule.n;) {
		size_t end = i + 1 + schedule_draw(&rng, schedule_draw(&rng, 2) ? 5 : 40);

		for (; i < end && i < schedule.n; i++)
			add_scheduled(usage, oracle, &schedule, i);
		now_ms = schedule.now_ms[i - 1];
		add_new_streams(usage, oracle, &rng, now_ms, schedule_draw(&rng, 400));
		refused += commit_when_nearly_full(usage, &rng, now_ms);
		if (++commits % 30 == 0) {
			compare(usage, oracle, now_ms);
			verify(usage);
			usage_close(&usage);
			usage = open_usage();
		}
	}
	compare(usage, oracle, now_ms);
	verify(usage);
	print_message("%u of %u commits refused\n", refused, commits);
	assert_true(refused > 0 && refused < commits);
	usage_close(&usage);
	oracle_free(&oracle);
	schedule_free(&schedule);
}

#define KNOWN 30000

/* Leaves many free pages behind, none beside another: every other block is written anew. */
static void scatter_free_pages(struct usage *usage)
{
	for (uint64_t i = 0; i < KNOWN; i++)
		add(usage, "known", "", i << 40, 1);
	commit(usage, NOW);
	for (uint64_t i = 0; i < KNOWN; i += USAGE_BLOCK_SLOTS)
		add(usage, "known", "", i << 40, 1);
	commit(usage, NOW);
	for (int i = 0; i < 2; i++) /* until nobody can see the old ones */
		commit(usage, NOW);
}

/* A new tenant with six rows. */
static void add_tenant(struct usage *usage, unsigned i)
{
	char tenant[16], policy[16];

	snprintf(tenant, sizeof(tenant), "new%u", i);
	for (unsigned p = 0; p < 5; p++) {
		snprintf(policy, sizeof(policy), "p%u", p);
		add(usage, tenant, policy, p, 1);
	}
}

/* A row of the widest window is 30 pages in a row: single free pages are no use for it. */
static void usage_commit_says_full_when_long_rows_meet_scattered_free_pages(void **state)
{
	struct usage_options options = default_options();
	struct usage *usage;
	uint64_t rng = seed;
	unsigned tenants = 0;
	char filler[128];
	int err;

	(void)state;
	if (!mounted)
		skip();
	options.identity.window_minutes = WINDOW_MINUTES_MAX;
	usage = open_with(&options);
	scatter_free_pages(usage);
	/* What these commits had reserved and did not need is not known to the next process. */
	usage_close(&usage);
	usage = open_with(&options);
	while (tenants < 8) {
		add_tenant(usage, tenants++);
		commit_when_nearly_full(usage, &rng, NOW);
	}
	verify(usage);
	snprintf(filler, sizeof(filler), "%s/filler", dir);
	fill(filler, 0);
	do {
		add_tenant(usage, tenants++);
		err = try_commit(usage, NOW, 0);
		check_reserve(usage);
	} while (!err && tenants < 30);
	assert_int_equal(err, ERR_FULL);
	verify(usage);
	unlink(filler);
	commit(usage, NOW);
	usage_close(&usage);
}

/*
 * Something else takes all there is, and keeps it: what has expired makes room for a
 * batch that waits.
 */
static void usage_sweep_makes_room_on_a_full_file_system(void **state)
{
	struct usage *usage;
	struct oracle *oracle;
	char filler[128];
	uint64_t rng = seed;
	int64_t now_ms = NOW;
	unsigned full = 0;

	(void)state;
	if (!mounted)
		skip();
	snprintf(filler, sizeof(filler), "%s/filler", dir);
	for (int round = 0; round < 10; round++, clean()) {
		usage = open_usage();
		oracle = oracle_new(3, 7, WINDOW, usage_meta(usage)->incarnation);
		add_new_streams(usage, oracle, &rng, now_ms, schedule_draw(&rng, 4000));
		commit(usage, now_ms);
		fill(filler, 0);
		while (try_commit(usage, now_ms, 0) == 0)
			add_new_streams(usage, oracle, &rng, now_ms, 1 + schedule_draw(&rng, 500));
		now_ms += 180 * MIN_MS;
		for (int tries = 0; try_commit(usage, now_ms, 0) != 0; tries++) {
			struct usage_commit how = {.now_ms = now_ms, .sweep_blocks = 256};
			unsigned steps;

			assert_true(tries < 100);
			full += usage_sweep(usage, &how, &steps) != 0;
			check_reserve(usage);
		}
		check_reserve(usage);
		verify(usage);
		compare(usage, oracle, now_ms);
		unlink(filler);
		usage_close(&usage);
		oracle_free(&oracle);
	}
	assert_int_equal(full, 0); /* there is room for a sweep, if not for all its steps */
}

/* The same for the first commit of all, and for opening. */
static void usage_open_says_full_and_leaves_nothing_behind(void **state)
{
	char filler[128];
	unsigned opened = 0, refused = 0;

	(void)state;
	if (!mounted)
		skip();
	snprintf(filler, sizeof(filler), "%s/filler", dir);
	for (uint64_t pages = 0; pages < 120; pages += 2) {
		struct usage_options options = default_options();
		struct usage *usage;
		bool boot_differs;
		int err;

		fill(filler, pages * 4096);
		err = usage_open(&options, &usage, &boot_differs);
		assert_true(err == 0 || err == ERR_FULL);
		opened += err == 0;
		refused += err != 0;
		unlink(filler);
		usage_close(&usage);
		usage = open_usage();
		verify(usage);
		usage_close(&usage);
		clean();
	}
	assert_true(opened > 0 && refused > 0);
}

/* In a mount namespace of its own; false when this is not allowed here. */
static bool mount_small(const char *path)
{
	if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWNS | CLONE_NEWUSER) != 0)
		return false;
	/* In a chroot "/" is no mount point, and nothing is shared. */
	if (mount("none", "/", "", MS_REC | MS_PRIVATE, "") != 0 && errno != EINVAL)
		return false;
	return mount("tmpfs", path, "tmpfs", 0, "size=16m") == 0;
}

static int setup_small(void **state)
{
	if (setup(state) != 0)
		return -1;
	mounted = mount_small(dir);
	return 0;
}

static int teardown_small(void **state)
{
	clean();
	if (mounted)
		umount(dir);
	return teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			usage_commit_says_full_and_never_faults_on_a_full_file_system, each_setup),
		cmocka_unit_test_setup(
			usage_commit_says_full_when_long_rows_meet_scattered_free_pages,
			each_setup),
		cmocka_unit_test_setup(usage_sweep_makes_room_on_a_full_file_system, each_setup),
		cmocka_unit_test_setup(usage_open_says_full_and_leaves_nothing_behind, each_setup),
	};

	seed = schedule_seed();
	return cmocka_run_group_tests(tests, setup_small, teardown_small);
}
