/*
 * race_stats.c - a worker's counters while others copy them, and while its successor takes over.
 *
 *	worker: every field = the round's number;  its successor: the same file, other pid and phase
 *	readers: by map (libtally, queryd) and by pread (supervisor): each field rises
 */
#include <sys/file.h>
#include <sys/mman.h>

#include "race.h"
#include "shm/check.h"
#include "shm/stats.h"
#include "tests/unit/scratch.h"

#define PARTITION  7
#define GENERATION 42
#define NAME	   "p7.42"

static struct {
	struct scratch *scratch;
	int dirfd;
	struct stats *stats;
	int fd;
	uint64_t round;
} test;

static void start_worker(void)
{
	assert_int_equal(
		stats_create(test.dirfd, PARTITION, GENERATION, 1000, &test.stats, &test.fd), 0);
}

/* A map keeps the lock of the file that it was made from, and the readers share ours. */
static void end_worker(void)
{
	flock(test.fd, LOCK_UN);
	munmap(test.stats, sizeof(*test.stats));
	close(test.fd);
}

static void write_counters(unsigned round)
{
	struct stats *stats = test.stats;

	(void)round;
	test.round++;
	stats_set(stats, records, test.round);
	stats_set(stats, applied, test.round);
	stats_set(stats, bytes, test.round);
	stats_set(stats, next_offset, test.round);
	stats_set(stats, phase, test.round % PHASE_COUNT);
	for (int i = 0; i < SKIP_REASONS; i++)
		stats_set(stats, skipped[i], test.round);
}

static void write_and_take_over(unsigned round)
{
	write_counters(round);
	if (round % 8 == 0) {
		end_worker();
		start_worker();
	}
}

/* A worker that finds nothing, or a file of another version, begins a new one. */
static void write_new_files(unsigned round)
{
	write_counters(round);
	end_worker();
	unlinkat(test.dirfd, STATS_NAME, 0);
	start_worker();
}

static void check(const struct stats_copy *copy, struct stats_copy *last)
{
	must(copy->partition == PARTITION);
	must(copy->generation == GENERATION || copy->generation == 0);
	must(copy->phase < PHASE_COUNT);
	must(copy->records >= last->records && copy->bytes >= last->bytes);
	must(copy->next_offset >= last->next_offset && copy->applied >= last->applied);
	for (int i = 0; i < SKIP_REASONS; i++)
		must(copy->skipped[i] >= last->skipped[i]);
	*last = *copy;
}

static void read_counters(struct race_reader *reader)
{
	struct stats_copy by_map = {0}, by_read = {0}, copy;
	struct segment seg;

	must(stats_attach(test.dirfd, &seg) == 0);
	while (!race_over()) {
		stats_copy(&seg, &copy);
		check(&copy, &by_map);
		must(stats_pread(test.scratch->fd, NAME, &copy) == 0);
		check(&copy, &by_read);
		if (copy.records)
			race_saw(reader);
	}
	segment_detach(&seg);
}

static void read_new_files(struct race_reader *reader)
{
	while (!race_over()) {
		struct stats_copy copy, last = {0};
		struct segment seg;

		if (stats_attach(test.dirfd, &seg))
			continue; /* between two files */
		stats_copy(&seg, &copy);
		check(&copy, &last);
		segment_detach(&seg);
		race_saw(reader);
	}
}

static int begin(void **state)
{
	if (scratch_setup(state))
		return -1;
	test.scratch = *state;
	mkdirat(test.scratch->fd, NAME, 0750);
	test.dirfd = openat(test.scratch->fd, NAME, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	test.round = 0;
	start_worker();
	return test.dirfd < 0 ? -1 : 0;
}

static int end(void **state)
{
	end_worker();
	close(test.dirfd);
	return scratch_teardown(state);
}

static void stats_never_go_back_while_workers_follow_each_other(void **state)
{
	(void)state;
	race_run(write_and_take_over, read_counters, race_rounds(5000), 200);
}

static void stats_that_can_be_found_say_whose_they_are(void **state)
{
	(void)state;
	race_run(write_new_files, read_new_files, race_rounds(2000) / 4, 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			stats_never_go_back_while_workers_follow_each_other, begin, end),
		cmocka_unit_test_setup_teardown(
			stats_that_can_be_found_say_whose_they_are, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
