/*
 * test_usage_crash.c - a writer killed at any instruction: content == oracle at the stored offset.
 *
 *	parent:  fork --> child opens, goes on at meta.next_offset, commits, commits ...
 *	         SIGKILL at a random moment
 *	         fork --> checker opens, brings the oracle to the stored offset, compares
 *
 * The parent never has a store open, so no LMDB handle crosses a fork.  ROUNDS kills;
 * when a child reaches the end of the list, a new list and a new store begin.
 */
#include "usage_fixture.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define ROUNDS	  100
#define RECORDS	  12000
#define BATCH_MAX 400

/* What children tell the parent. */
struct shared {
	uint8_t incarnation[INCARNATION_SIZE];
	int64_t next_offset; /* as found by the checker; -1: nothing yet */
	_Atomic unsigned
		steps; /* of the child: 1 when it has opened the store, 1 more per commit */
};

static struct shared *shared;

#define CHECK(x, ...)                                                                              \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: child: %s: ", __FILE__, __LINE__, #x);             \
			fprintf(stderr, __VA_ARGS__);                                              \
			fprintf(stderr, "\n");                                                     \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static struct usage *open_in_child(void)
{
	struct usage_options options = default_options();
	struct usage *usage;
	bool boot_differs;
	int err = usage_open(&options, &usage, &boot_differs);

	CHECK(err == 0, "%s", err_word(err));
	return usage;
}

/* Commits batch after batch until it is killed or all is done. */
_Noreturn static void work(struct schedule *schedule, uint64_t rng)
{
	struct usage *usage = open_in_child();
	int64_t next = usage_meta(usage)->next_offset;
	size_t i = next < 0 ? 0 : (size_t)next;

	schedule_own(schedule, usage_meta(usage)->incarnation);
	shared->steps = 1;
	while (i < schedule->n) {
		size_t end = i + 1 + schedule_draw(&rng, BATCH_MAX);
		struct usage_commit how = {.sweep_blocks = schedule_draw(&rng, 3)};
		int err;

		for (; i < end && i < schedule->n; i++)
			add_scheduled(usage, NULL, schedule, i);
		how.now_ms = schedule->now_ms[i - 1];
		err = usage_commit(usage, &how);
		CHECK(err == 0, "%s", err_word(err));
		shared->steps++;
	}
	usage_close(&usage);
	_exit(0);
}

/* `oracle` has seen the records below *done; in this process it is a copy. */
_Noreturn static void check(struct schedule *schedule, struct oracle *oracle, int64_t done)
{
	struct usage *usage = open_in_child();
	const struct usage_meta *meta = usage_meta(usage);
	int64_t next = meta->next_offset;
	char why[256];
	struct store_txn txn;
	int err;

	schedule_own(schedule, meta->incarnation);
	memcpy(oracle->incarnation, meta->incarnation, INCARNATION_SIZE);
	CHECK(next < 0 ? done == 0 : next >= done, "offset went back from %lld to %lld",
		(long long)done, (long long)next);
	for (int64_t i = done; i < next; i++)
		oracle_add(oracle, &schedule->records[i], schedule->now_ms[i]);
	store_begin_read(&txn, usage_store(usage));
	err = usage_verify(&txn, why);
	CHECK(err == 0, "verify: %s", why);
	err = oracle_compare(oracle, &txn, next > 0 ? schedule->now_ms[next - 1] : NOW, why);
	CHECK(err == 0, "at offset %lld: %s", (long long)next, why);
	store_abort(&txn);
	shared->next_offset = next;
	memcpy(shared->incarnation, meta->incarnation, INCARNATION_SIZE);
	usage_close(&usage);
	_exit(0);
}

static void assert_exit_0(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static bool has_exited(pid_t pid)
{
	siginfo_t info = {0};

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

/*
 * Kills it while it opens the store, or at a random moment after so many commits.
 * False: it was done before.
 */
static bool kill_at_random(pid_t pid, uint64_t *rng)
{
	struct timespec moment = {.tv_nsec = 1000 * (long)schedule_draw(rng, 2000)};
	unsigned steps = schedule_draw(rng, 8);
	int status;

	while (shared->steps < steps && !has_exited(pid))
		sched_yield();
	nanosleep(&moment, NULL);
	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid)
		return false;
	if (WIFEXITED(status))
		assert_int_equal(WEXITSTATUS(status), 0);
	return WIFSIGNALED(status);
}

static void usage_content_is_the_oracles_after_every_kill(void **state)
{
	static struct schedule
		schedule; /* static: children leave them, and a leak check is told so */
	static struct oracle *oracle;
	uint64_t rng = seed, lists = 0;
	int64_t done = 0;
	unsigned kills = 0, moved = 0;

	(void)state;
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	for (int round = 0; kills < ROUNDS && round < 3 * ROUNDS; round++) {
		pid_t pid;

		if (!oracle) {
			clean();
			schedule_make(&schedule, seed + lists++, WINDOW, RECORDS, 60 * MIN_MS);
			oracle = oracle_new(schedule.partition, schedule.partitions, WINDOW,
				shared->incarnation);
			done = 0;
		}
		shared->steps = 0;
		pid = fork();
		if (pid == 0)
			work(&schedule, rng);
		schedule_draw64(&rng);
		kills += kill_at_random(pid, &rng);
		pid = fork();
		if (pid == 0)
			check(&schedule, oracle, done);
		assert_exit_0(pid);
		schedule_own(&schedule, shared->incarnation);
		memcpy(oracle->incarnation, shared->incarnation, INCARNATION_SIZE);
		moved += shared->next_offset > done;
		for (; done < shared->next_offset; done++)
			oracle_add(oracle, &schedule.records[done], schedule.now_ms[done]);
		if (done == (int64_t)schedule.n) {
			oracle_free(&oracle);
			schedule_free(&schedule);
		}
	}
	print_message("%u kills, %u with progress, %llu lists\n", kills, moved,
		(unsigned long long)lists);
	assert_int_equal(kills, ROUNDS);
	assert_true(moved > ROUNDS / 4);
	if (oracle) {
		oracle_free(&oracle);
		schedule_free(&schedule);
	}
	munmap(shared, sizeof(*shared));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usage_content_is_the_oracles_after_every_kill),
	};

	seed = schedule_seed();
	return cmocka_run_group_tests(tests, setup, teardown);
}
