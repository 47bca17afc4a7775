/*
 * test_store_readers.c - readers beside a writer: in other processes, and in other threads.
 */
#include "store_fixture.h"

/* --- readers beside a writer ----------------------------------------------------------------- */

static void read_steps(int in, int out)
{
	struct store *store;
	struct store_txn txn, second;
	struct store_bytes value;

	await(in); /* a = 1 is there */
	CHECK(store_open_reader(dir, &store) == 0);
	store_begin_read(&txn, store);
	CHECK(store_get(&txn, text("a"), &value) && is(value, "1"));
	give(out);
	await(in); /* a = 2 by now */
	CHECK(store_get(&txn, text("a"), &value) && is(value, "1"));
	store_begin_read(&second, store);
	CHECK(store_get(&second, text("a"), &value) && is(value, "2"));
	store_abort(&second);
	store_abort(&txn);
	for (int i = 0; i < 3; i++) {
		store_begin_read(&txn, store);
		CHECK(store_get(&txn, text("a"), &value) && is(value, "2"));
		CHECK(store_commit(&txn) == 0);
	}
	give(out);
	await(in); /* the writer has gone */
	store_begin_read(&txn, store);
	CHECK(store_get(&txn, text("a"), &value) && is(value, "2"));
	store_abort(&txn);
	store_close(&store);
	give(out);
}

static void store_reader_sees_one_commit_at_a_time(void **state)
{
	struct child child = start(read_steps);
	struct store *store = open_writer();
	struct store_facts facts;

	(void)state;
	assert_int_equal(put(store, "a", "1"), 0);
	step(&child);
	for (int i = 0; i < 20; i++)
		assert_int_equal(put(store, "other", "x"), 0);
	store_facts(store, &facts);
	assert_int_equal(facts.last_txn - facts.oldest_reader, 20);
	assert_int_equal(facts.oldest_pid, child.pid);
	assert_true(facts.readers >= 1);
	assert_int_equal(facts.page_size, 4096);
	assert_int_equal(facts.map_bytes, MAP);
	assert_true(facts.used_bytes > 0 && facts.used_bytes < MAP);
	assert_int_equal(put(store, "a", "2"), 0);
	step(&child);
	store_facts(store, &facts);
	assert_int_equal(facts.last_txn, facts.oldest_reader);
	assert_int_equal(facts.oldest_pid, 0);
	assert_true(facts.free_pages > 0);
	store_close(&store);
	step(&child);
	finish(&child);
}

static void take_a_slot(int in, int out)
{
	struct store_txn txn;
	struct store *store;

	await(in);
	CHECK(store_open_reader(dir, &store) == 0);
	store_begin_read(&txn, store);
	CHECK(txn.err == 0);
	give(out);
	await(in); /* for ever: it is killed */
}

static void find_no_slot(int in, int out)
{
	struct store_txn txn;
	struct store *store;

	await(in);
	/* Opening asks for a slot too. */
	CHECK(store_open_reader(dir, &store) == ERR_BUSY);
	give(out);
	await(in); /* one of them is dead by now: its slot is taken over */
	CHECK(store_open_reader(dir, &store) == 0);
	give(out);
	await(in); /* somebody else has taken it */
	store_begin_read(&txn, store);
	CHECK(txn.err == ERR_BUSY);
	give(out);
	await(in); /* and is dead */
	store_begin_read(&txn, store);
	CHECK(txn.err == 0);
	store_abort(&txn);
	store_close(&store);
	give(out);
}

static void kill_child(struct child *child)
{
	kill(child->pid, SIGKILL);
	assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
	close(child->to);
	close(child->from);
}

static void store_reader_takes_the_slot_of_a_dead_one(void **state)
{
	struct child holders[3], last = start(find_no_slot);
	struct store_facts facts;
	struct store *store;

	(void)state;
	for (int i = 0; i < 3; i++)
		holders[i] = start(take_a_slot);
	assert_int_equal(store_open_writer(dir, MAP, 3, &store), 0);
	assert_int_equal(put(store, "a", "1"), 0);
	store_facts(store, &facts);
	assert_int_equal(facts.readers_max, 3);
	assert_int_equal(facts.readers, 1); /* the writer keeps one of its own */
	step(&holders[0]);
	step(&holders[1]);
	step(&last);
	kill_child(&holders[0]);
	step(&last);
	step(&holders[2]);
	step(&last);
	kill_child(&holders[2]);
	step(&last);
	finish(&last);
	kill_child(&holders[1]);
	store_check_readers(store);
	store_facts(store, &facts);
	assert_int_equal(facts.readers, 1);
	store_close(&store);
}

static void read_a_growing_map(int in, int out)
{
	struct store *store;
	struct store_txn txn, other;
	struct store_bytes value;

	await(in);
	CHECK(store_open_reader(dir, &store) == 0);
	store_begin_read(&txn, store);
	CHECK(store_get(&txn, text("a"), &value));
	store_abort(&txn);
	store_begin_read(&other, store);
	give(out);
	await(in); /* the map is larger and the end of it is in use */
	store_begin_read(&txn, store);
	CHECK(txn.err == ERR_BUSY); /* `other` still reads in the old map */
	CHECK(store_get(&other, text("a"), &value) && is(value, "1"));
	store_abort(&txn);
	store_abort(&other);
	store_begin_read(&txn, store);
	CHECK(txn.err == 0);
	CHECK(store_get(&txn, text("k1999"), &value) && value.len == 4080);
	store_abort(&txn);
	store_close(&store);
	give(out);
}

static void store_reader_follows_a_map_that_has_grown(void **state)
{
	struct child child = start(read_a_growing_map);
	struct store *store = open_writer();
	struct store_txn txn;
	char big[4080] = "big", name[16];

	(void)state;
	assert_int_equal(put(store, "a", "1"), 0);
	step(&child);
	store_close(&store);
	assert_int_equal(store_open_writer(dir, 8 * MAP, 8, &store), 0);
	store_begin(&txn, store);
	store_reserve(&txn, &(struct store_need){.pages = 3000});
	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		store_put(&txn, text(name), (struct store_bytes){.data = big, .len = sizeof(big)});
	}
	assert_int_equal(store_commit(&txn), 0);
	step(&child);
	store_close(&store);
	finish(&child);
}

/* --- threads --------------------------------------------------------------------------------- */

static _Atomic bool stop;
static _Atomic unsigned reading; /* threads that have read once */

static void *read_much(void *arg)
{
	struct store *store = arg;
	struct store_bytes key, value;
	uint64_t a, b, n = 0;

	while (!stop) {
		struct store_txn txn;

		store_begin_read(&txn, store);
		if (txn.err || !store_get(&txn, text("a"), &value))
			abort();
		memcpy(&a, value.data, sizeof(a));
		if (!store_seek(&txn, text("b"), &key, &value))
			abort();
		memcpy(&b, value.data, sizeof(b));
		if (a != b)
			abort();
		store_abort(&txn);
		if (n++ == 0)
			reading++;
	}
	return (void *)(uintptr_t)n;
}

static void put_pair(struct store *store, uint64_t i)
{
	struct store_bytes value = {.data = &i, .len = sizeof(i)};
	struct store_txn txn;

	store_begin(&txn, store);
	store_put(&txn, text("a"), value);
	store_put(&txn, text("b"), value);
	assert_int_equal(store_commit(&txn), 0);
}

static void store_serves_several_threads_through_one_handle(void **state)
{
	struct store *store;
	pthread_t threads[4];

	(void)state;
	/* Room for all 5000 commits: a thread may be off the CPU inside a transaction. */
	assert_int_equal(store_open_writer(dir, 64 * MAP, 8, &store), 0);
	put_pair(store, 0);
	stop = false;
	reading = 0;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_much, store), 0);
	/* On a busy machine all commits are done before a thread has had its turn. */
	while (reading < 4)
		usleep(1000);
	for (uint64_t i = 1; i < 5000; i++)
		put_pair(store, i);
	stop = true;
	for (int i = 0; i < 4; i++) {
		void *n;

		assert_int_equal(pthread_join(threads[i], &n), 0);
		assert_non_null(n);
	}
	store_close(&store);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, each_setup)
	const struct CMUnitTest tests[] = {
		TEST(store_reader_sees_one_commit_at_a_time),
		TEST(store_reader_takes_the_slot_of_a_dead_one),
		TEST(store_reader_follows_a_map_that_has_grown),
		TEST(store_serves_several_threads_through_one_handle),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
