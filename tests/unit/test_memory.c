/*
 * test_memory.c - a worker's memory: what it needs fits, what no store needs does not; what is given back.
 */
#include "scratch.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "worker/memory.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static struct handoff handoff_of(uint64_t map_bytes)
{
	return (struct handoff){
		.map_bytes = map_bytes, .batch_records = 1000000, .window_minutes = 120};
}

static bool takes(size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
	       MAP_FAILED;
}

static void memory_grows_with_what_a_worker_is_given(void **state)
{
	struct handoff small = handoff_of(16 * MIB), large = handoff_of(64 * GIB);
	uint64_t before = memory_need(&small);

	(void)state;
	assert_in_range(before, GIB, 2 * GIB);
	assert_true(memory_need(&large) >= before + 8 * GIB - 2 * MIB);
	small.properties[small.n_properties++] = (struct handoff_property){
		(char *)"queued.max.messages.kbytes", (char *)"2000000", FOR_CONSUMERS};
	assert_int_equal(memory_need(&small), before + UINT64_C(2000000) * 1024);
	small.batch_records += 1000;
	assert_int_equal(memory_need(&small), before + UINT64_C(2000000) * 1024 + 256000);
	small.window_minutes = 7 * 24 * 60;
	assert_true(memory_need(&small) > before + UINT64_C(2000000) * 1024 + 300 * MIB);
}

/* 0, or which of these did not hold. */
static int live_under(const struct handoff *handoff)
{
	uint64_t need = memory_need(handoff);

	memory_bound(handoff);
	if (!takes(need / 3))
		return 1;
	if (takes(need)) /* 10 GB, say */
		return 2;
	if (!memory_is_there(handoff))
		return 3;
	while (takes(need / 8))
		;
	return memory_is_there(handoff) ? 4 : 0;
}

static void memory_is_refused_beyond_what_a_good_store_can_need(void **state)
{
	struct handoff handoff = handoff_of(64 * MIB);
	pid_t pid;

	(void)state;
	pid = scratch_fork();
	if (!pid)
		_exit(live_under(&handoff));
	assert_int_equal(scratch_wait(pid), 0);
}

static rlim_t bound_now(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_DATA, &limit) == 0 ? limit.rlim_cur : 0;
}

static void memory_leaves_a_lower_limit_alone(void **state)
{
	struct handoff small = handoff_of(64 * MIB), large = handoff_of(64 * GIB);
	pid_t pid;

	(void)state;
	pid = scratch_fork();
	if (!pid) {
		rlim_t before;

		memory_bound(&small);
		before = bound_now();
		memory_bound(&large);
		_exit(before == RLIM_INFINITY || bound_now() != before);
	}
	assert_int_equal(scratch_wait(pid), 0);
}

/* Pages that were written, of which `len` bytes from `at` on become zeroes: all of them, and no more. */
static void zero_some(size_t at, size_t len)
{
	const size_t size = 40 * 4096;
	unsigned char *bytes =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(bytes != MAP_FAILED);
	memset(bytes, 7, size);
	memory_zero((char *)bytes + at, len);
	for (size_t i = 0; i < size; i++)
		assert_int_equal(bytes[i], i >= at && i < at + len ? 0 : 7);
	munmap(bytes, size);
}

static void memory_zeroes_what_it_is_told_and_no_more(void **state)
{
	static const size_t edges[] = {0, 1, 4095, 4096, 4097, 8192};
	const size_t n = sizeof(edges) / sizeof(edges[0]);

	(void)state;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++) {
			zero_some(edges[i], edges[k]);
			zero_some(edges[i], 5 * 4096 + edges[k]);
		}
}

static void memory_is_given_back_and_all_runs_on(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		memory_give_back();
		memory_turn();
		memory_zeroes_what_it_is_told_and_no_more(state);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_zeroes_what_it_is_told_and_no_more),
		cmocka_unit_test(memory_is_given_back_and_all_runs_on),
		cmocka_unit_test(memory_grows_with_what_a_worker_is_given),
		cmocka_unit_test(memory_is_refused_beyond_what_a_good_store_can_need),
		cmocka_unit_test(memory_leaves_a_lower_limit_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
