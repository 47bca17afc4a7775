/*
 * test_history.c - the last changes of each partition: kept, in order, across restarts, whole.
 */
#include "scratch.h"

#include <pthread.h>

#include "shm/err.h"
#include "shm/history.h"

static struct history_change change(uint64_t number)
{
	struct history_change c = {.at_ms = 1000 + number,
		.generation = number * 3,
		.from = PART_PENDING,
		.to = PART_READY,
		.death = DEATH_SIGNAL,
		.death_code = (int32_t)number};
	snprintf(c.why, sizeof c.why, "w%u", (unsigned)number);
	return c;
}

static void add(struct history *history, uint32_t partition, uint64_t number)
{
	struct history_change c = change(number);
	history_add(history, partition, &c);
}

static void assert_change(const struct history_change *got, uint64_t number)
{
	struct history_change want = change(number);
	assert_int_equal(got->at_ms, want.at_ms);
	assert_int_equal(got->generation, want.generation);
	assert_int_equal(got->from, want.from);
	assert_int_equal(got->to, want.to);
	assert_int_equal(got->death, want.death);
	assert_int_equal(got->death_code, want.death_code);
	assert_string_equal(got->why, want.why);
}

static void history_gives_the_last_changes_oldest_first(void **state)
{
	struct scratch *s = *state;
	struct history writer, reader;
	struct history_change got[HISTORY_LENGTH + 1];
	assert_int_equal(history_attach(s->fd, &reader), ERR_NOT_FOUND);
	assert_int_equal(history_open(s->fd, &writer), 0);
	assert_int_equal(history_attach(s->fd, &reader), 0);
	assert_int_equal(history_read(&reader, 7, got, HISTORY_LENGTH), 0);
	for (uint64_t i = 1; i <= 3; i++)
		add(&writer, 7, i);
	assert_int_equal(history_read(&reader, 7, got, HISTORY_LENGTH), 3);
	for (uint64_t i = 1; i <= 3; i++)
		assert_change(&got[i - 1], i);
	for (uint64_t i = 4; i <= HISTORY_LENGTH + 5; i++)
		add(&writer, 7, i);
	assert_int_equal(history_read(&reader, 7, got, HISTORY_LENGTH + 1), HISTORY_LENGTH);
	assert_change(&got[0], 6);
	assert_change(&got[HISTORY_LENGTH - 1], HISTORY_LENGTH + 5);
	assert_int_equal(history_read(&reader, 7, got, 2), 2);
	assert_change(&got[0], HISTORY_LENGTH + 4);
	assert_int_equal(history_read(&reader, 6, got, HISTORY_LENGTH), 0);
	history_close(&reader);
	history_close(&writer);
}

static void history_takes_the_last_partition_and_none_behind_it(void **state)
{
	struct scratch *s = *state;
	struct history writer;
	struct history_change got[1];
	assert_int_equal(history_open(s->fd, &writer), 0);
	add(&writer, TABLE_CAPACITY - 1, 1);
	add(&writer, TABLE_CAPACITY, 2);
	add(&writer, UINT32_MAX, 3);
	assert_int_equal(history_read(&writer, TABLE_CAPACITY - 1, got, 1), 1);
	assert_change(&got[0], 1);
	assert_int_equal(history_read(&writer, TABLE_CAPACITY, got, 1), 0);
	history_close(&writer);
}

static void history_goes_on_after_a_restart(void **state)
{
	struct scratch *s = *state;
	struct history writer, reader;
	struct history_change got[HISTORY_LENGTH];
	struct stat st;
	assert_int_equal(history_open(s->fd, &writer), 0);
	add(&writer, 0, 1);
	history_close(&writer);
	assert_int_equal(fstatat(s->fd, HISTORY_NAME, &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0440);
	assert_int_equal(history_attach(s->fd, &reader), 0);
	assert_int_equal(history_open(s->fd, &writer), 0);
	add(&writer, 0, 2);
	assert_int_equal(fstatat(s->fd, HISTORY_NAME, &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0440);
	assert_int_equal(history_read(&reader, 0, got, HISTORY_LENGTH), 2);
	assert_change(&got[0], 1);
	assert_change(&got[1], 2);
	history_close(&reader);
	history_close(&writer);
}

static void history_starts_anew_when_what_lies_there_is_none(void **state)
{
	struct scratch *s = *state;
	struct history writer;
	struct history_change got[1];
	size_t len;
	assert_int_equal(history_open(s->fd, &writer), 0);
	add(&writer, 0, 1);
	history_close(&writer);
	char *data = scratch_read(s->fd, HISTORY_NAME, &len);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(unlinkat(s->fd, HISTORY_NAME, 0), 0);
		data[0] ^= i == 0;
		scratch_write(s->fd, HISTORY_NAME, data, i == 1 ? len - 1 : len);
		data[0] ^= i == 0;
		if (i == 2) {
			assert_int_equal(unlinkat(s->fd, HISTORY_NAME, 0), 0);
			assert_int_equal(symlinkat("elsewhere", s->fd, HISTORY_NAME), 0);
		}
		assert_int_equal(history_open(s->fd, &writer), 0);
		assert_int_equal(history_read(&writer, 0, got, 1), 0);
		add(&writer, 0, 9);
		assert_int_equal(history_read(&writer, 0, got, 1), 1);
		history_close(&writer);
	}
	free(data);
}

static void history_without_a_file_takes_nothing_and_gives_nothing(void **state)
{
	struct history none = {0};
	struct history_change got[1];
	(void)state;
	add(&none, 0, 1);
	assert_int_equal(history_read(&none, 0, got, 1), 0);
	history_close(&none);
}

static void history_of_hostile_bytes_gives_nothing_of_them(void **state)
{
	struct scratch *s = *state;
	struct history writer;
	struct history_change got[HISTORY_LENGTH], evil = change(2);
	assert_int_equal(history_open(s->fd, &writer), 0);
	struct history_file *file = writer.segment.map;
	memset(&file->rings[0], 0xff, sizeof file->rings[0]);
	file->rings[0].count = 7;
	assert_int_equal(history_read(&writer, 0, got, HISTORY_LENGTH), 0);
	file->rings[0].count = UINT64_MAX; /* as the last entry says, too */
	assert_int_equal(history_read(&writer, 0, got, HISTORY_LENGTH), 0);
	add(&writer, 1, 1);
	strcpy(evil.why, "\033[2J\a");
	history_add(&writer, 1, &evil);
	add(&writer, 1, 3);
	assert_int_equal(history_read(&writer, 1, got, HISTORY_LENGTH), 2);
	assert_change(&got[0], 1);
	assert_change(&got[1], 3);
	history_close(&writer);
}

#define ROUNDS 200000

static void *write_on(void *arg)
{
	for (uint64_t i = 1; i <= ROUNDS; i++)
		add(arg, 0, i);
	return NULL;
}

/* Each change that is given is one that was added, whole; and they are in order. */
static void history_is_never_torn_when_it_is_read_while_written(void **state)
{
	struct scratch *s = *state;
	struct history writer;
	struct history_change got[HISTORY_LENGTH];
	pthread_t thread;
	uint64_t seen = 0;
	assert_int_equal(history_open(s->fd, &writer), 0);
	assert_int_equal(pthread_create(&thread, NULL, write_on, &writer), 0);
	while (seen != ROUNDS) {
		uint64_t last = 0;
		size_t n = history_read(&writer, 0, got, HISTORY_LENGTH);
		for (size_t i = 0; i < n; i++) {
			uint64_t number = got[i].at_ms - 1000;
			assert_change(&got[i], number);
			assert_true(number > last);
			last = number;
		}
		if (n)
			seen = last;
	}
	pthread_join(thread, NULL);
	history_close(&writer);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(history_gives_the_last_changes_oldest_first),
		TEST(history_takes_the_last_partition_and_none_behind_it),
		TEST(history_goes_on_after_a_restart),
		TEST(history_starts_anew_when_what_lies_there_is_none),
		TEST(history_without_a_file_takes_nothing_and_gives_nothing),
		TEST(history_of_hostile_bytes_gives_nothing_of_them),
		TEST(history_is_never_torn_when_it_is_read_while_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
