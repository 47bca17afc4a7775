/*
 * test_table.c - the partition table: what a reader takes for ready, and what it refuses.
 */
#include "scratch.h"

#include <pthread.h>
#include <sys/mman.h>

#include "shm/err.h"
#include "shm/table.h"

#define SLOTS 8
#define S     UINT64_C(1000000000)

/* The layout that shm/README.md draws. */
_Static_assert(offsetof(struct table_head, nonce) == 24, "README");
_Static_assert(offsetof(struct table_head, boot_id) == 32, "README");
_Static_assert(offsetof(struct table_head, supervisor_pid) == 64, "README");
_Static_assert(offsetof(struct table_head, topic) == 88, "README");
_Static_assert(offsetof(struct table_head, zone) == 600, "README");
_Static_assert(offsetof(struct table_head, heartbeat) == 768, "README");
_Static_assert(offsetof(struct table_head, retired) == 788, "README");
_Static_assert(offsetof(struct table_head, lost_events) == 824, "README");
_Static_assert(offsetof(struct table_head, limits_state) == 836, "README");
_Static_assert(offsetof(struct table_head, limits_loaded_at) == 848, "README");
_Static_assert(offsetof(struct table_head, limits_tenants) == 860, "README");
_Static_assert(offsetof(struct table_head, query_death_code) == 1392, "README");
_Static_assert(offsetof(struct table_head, query_died_at) == 1400, "README");
_Static_assert(offsetof(struct table_slot, lease_until) == 8, "README");
_Static_assert(offsetof(struct table_slot, death_at) == 48, "README");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a read-only map cannot be locked");

static struct table_head facts_for(uint32_t capacity)
{
	struct table_head facts = {
		.nonce = 99,
		.pid_namespace = host_pid_namespace(),
		.capacity = capacity,
		.window_minutes = 120,
		.lost_timeout_ms = 5000,
		.topic = "topic",
	};
	assert_int_equal(host_boot_id(facts.boot_id), 0);
	return facts;
}

static void make(int dirfd, uint32_t capacity, struct table *table)
{
	struct table_head facts = facts_for(capacity);
	assert_int_equal(table_create(dirfd, &facts, table), 0);
	assert_int_equal(table_install(dirfd, table), 0);
}

static void set_lease(struct table *table, uint32_t p, uint64_t until)
{
	atomic_store(&table_slot_mut(table, p)->lease_until, until);
}

static void table_shows_readers_what_was_published(void **state)
{
	const struct scratch *s = *state;
	struct table writer, reader;
	struct table_entry e;
	make(s->fd, SLOTS, &writer);
	assert_int_equal(table_attach(s->fd, &reader), 0);
	assert_string_equal(reader.head->topic, "topic");
	assert_int_equal(reader.head->nonce, 99);
	for (uint32_t p = 0; p < SLOTS; p++) {
		assert_int_equal(table_word_of(&reader, p), table_word(PART_FREE, 0));
		for (unsigned st = 0; st < PART_STATES; st++) {
			table_publish(&writer, p, (enum part_state)st, TABLE_GENERATION_MAX - p);
			assert_int_equal(table_read(&reader, p, &e), 0);
			assert_int_equal(e.state, st);
			assert_int_equal(e.generation, TABLE_GENERATION_MAX - p);
			assert_int_equal(e.word, table_word_of(&reader, p));
			assert_true(e.changed_at / S + 60 > (uint64_t)host_wall_ms() / 1000);
		}
	}
	struct table_slot *slot = table_slot_mut(&writer, 3);
	atomic_store(&slot->pid, 11);
	atomic_store(&slot->restarts, 12);
	atomic_store(&slot->death, DEATH_HANG);
	atomic_store(&slot->death_code, -13);
	atomic_store(&slot->death_at, 14);
	atomic_store(&slot->quarantined, 15);
	atomic_store(&slot->retry_in_ms, 16);
	atomic_store(&slot->assigned_at, 17);
	atomic_store(&slot->lease_until, 18);
	table_publish(&writer, 3, PART_FAILED, 5);
	assert_int_equal(table_read(&reader, 3, &e), 0);
	assert_true(e.pid == 11 && e.restarts == 12 && e.death == DEATH_HANG);
	assert_true(e.death_code == -13 && e.death_at == 14 && e.quarantined == 15);
	assert_true(e.retry_in_ms == 16 && e.assigned_at == 17 && e.lease_until == 18);
	table_detach(&reader);
	table_detach(&writer);
}

struct hammer {
	struct table table;
	_Atomic int stop;
};

/* As the supervisor does it: the word says free while the fields change. */
static void *hammer(void *arg)
{
	struct hammer *h = arg;
	struct table_slot *slot = table_slot_mut(&h->table, 1);
	for (uint64_t g = 1; !h->stop; g++) {
		table_publish(&h->table, 1, PART_FREE, 0);
		atomic_store(&slot->assigned_at, g);
		atomic_store(&slot->death_at, ~g);
		atomic_store(&slot->pid, (uint32_t)g);
		atomic_store(&slot->restarts, (uint32_t)~g);
		atomic_store(&slot->lease_until, g * 3);
		table_publish(&h->table, 1, PART_READY, g);
		if (g % 64 == 0)
			sched_yield();
	}
	return NULL;
}

static void table_never_mixes_two_generations_when_read_while_written(void **state)
{
	const struct scratch *s = *state;
	struct hammer h = {.stop = 0};
	struct table reader;
	struct table_entry e;
	pthread_t thread;
	unsigned ready = 0, changes = 0;
	uint64_t last = 0;
	make(s->fd, SLOTS, &h.table);
	assert_int_equal(table_attach(s->fd, &reader), 0);
	assert_int_equal(pthread_create(&thread, NULL, hammer, &h), 0);
	uint64_t until = host_boot_ns() + S, hard = until + 60 * S;
	while (host_boot_ns() < until || (changes < 10 && host_boot_ns() < hard)) {
		assert_int_equal(table_read(&reader, 1, &e), 0);
		if (e.state != PART_READY)
			continue;
		uint64_t g = e.generation;
		assert_true(g >= last);
		assert_true(e.assigned_at == g && e.death_at == ~g && e.pid == (uint32_t)g);
		assert_true(e.restarts == (uint32_t)~g && e.lease_until == g * 3);
		changes += g != last;
		last = g;
		ready++;
	}
	h.stop = 1;
	pthread_join(thread, NULL);
	assert_true(ready > 10 && changes >= 10);
	table_detach(&reader);
	table_detach(&h.table);
}

static void table_is_ready_only_with_word_lease_and_a_table_in_force(void **state)
{
	const struct scratch *s = *state;
	struct table t, reader;
	uint64_t word = table_word(PART_READY, 7);
	make(s->fd, SLOTS, &t);
	assert_int_equal(table_attach(s->fd, &reader), 0);
	assert_false(table_is_ready(&reader, 2, word, 100));
	table_publish(&t, 2, PART_READY, 7);
	assert_false(table_is_ready(&reader, 2, word, 100)); /* no lease yet */
	set_lease(&t, 2, 101);
	assert_true(table_is_ready(&reader, 2, word, 100));
	assert_false(table_is_ready(&reader, 2, word, 101)); /* it ends at, not after */
	assert_false(table_is_ready(&reader, 2, word, UINT64_MAX));
	assert_false(table_is_ready(&reader, 2, table_word(PART_READY, 8), 100));
	assert_false(table_is_ready(&reader, 3, word, 100));
	assert_false(table_is_ready(&reader, SLOTS, word, 100));
	assert_false(table_is_ready(&reader, UINT32_MAX, word, 100));
	for (unsigned st = 0; st < 16; st++) {
		uint64_t other = table_word((enum part_state)st, 7);
		atomic_store(&table_slot_mut(&t, 2)->word, other);
		assert_int_equal(table_is_ready(&reader, 2, other, 100), st == PART_READY);
		assert_int_equal(table_is_ready(&reader, 2, word, 100), st == PART_READY);
	}
	table_publish(&t, 2, PART_READY, 7);
	assert_true(table_is_ready(&reader, 2, word, 100));
	set_lease(&t, 2, 0);
	assert_false(table_is_ready(&reader, 2, word, 0));
	set_lease(&t, 2, 101);
	atomic_store(&table_head_mut(&t)->retired, 1);
	assert_false(table_is_ready(&reader, 2, word, 100));
	table_detach(&reader);
	table_detach(&t);
}

static void table_retires_the_old_one_and_frees_its_words_when_another_is_installed(void **state)
{
	const struct scratch *s = *state;
	struct table first, reader, second, fresh;
	struct table_head facts = facts_for(SLOTS);
	struct stat st;
	make(s->fd, SLOTS, &first);
	for (uint32_t p = 0; p < SLOTS; p++) {
		set_lease(&first, p, UINT64_MAX);
		table_publish(&first, p, PART_READY, p + 1);
	}
	assert_int_equal(table_attach(s->fd, &reader), 0);
	assert_int_equal(table_create(s->fd, &facts, &second), 0);
	assert_false(table_replaced(s->fd, &reader));
	assert_true(table_is_ready(&reader, 0, table_word(PART_READY, 1), 1));
	assert_int_equal(table_install(s->fd, &second), 0);
	assert_true(table_replaced(s->fd, &reader));
	assert_int_equal(atomic_load(&reader.head->retired), 1);
	assert_false(table_is_alive(&reader, 0));
	for (uint32_t p = 0; p < SLOTS; p++) {
		assert_int_equal(table_word_of(&reader, p), table_word(PART_FREE, 0));
		assert_false(table_is_ready(&reader, p, table_word(PART_READY, p + 1), 1));
	}
	assert_int_equal(table_attach(s->fd, &fresh), 0);
	assert_false(table_replaced(s->fd, &fresh));
	assert_int_equal(fresh.segment.ino, second.segment.ino);
	assert_int_equal(fstatat(s->fd, TABLE_NAME, &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0440);
	assert_int_equal(unlinkat(s->fd, TABLE_NAME, 0), 0);
	assert_true(table_replaced(s->fd, &fresh));
	table_detach(&first);
	table_detach(&reader);
	table_detach(&second);
	table_detach(&fresh);
}

static void table_is_installed_when_garbage_lies_in_its_place(void **state)
{
	const struct scratch *s = *state;
	char junk[TABLE_SLOTS_AT + 300];
	struct table t;
	size_t len;
	static const size_t sizes[] = {0, 5, TABLE_SLOTS_AT, sizeof junk};
	memset(junk, 0xa5, sizeof junk);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		scratch_write(s->fd, TABLE_NAME, junk, sizes[i]);
		make(s->fd, SLOTS, &t);
		table_detach(&t);
	}
	assert_int_equal(unlinkat(s->fd, TABLE_NAME, 0), 0);
	scratch_write(s->fd, "victim", junk, sizeof junk);
	assert_int_equal(symlinkat("victim", s->fd, TABLE_NAME), 0);
	make(s->fd, SLOTS, &t);
	table_detach(&t);
	char *victim = scratch_read(s->fd, "victim", &len);
	assert_memory_equal(victim, junk, sizeof junk);
	free(victim);
	assert_int_equal(unlinkat(s->fd, TABLE_NAME, 0), 0);
	assert_int_equal(mkdirat(s->fd, TABLE_NAME, 0750), 0);
	struct table_head facts = facts_for(SLOTS);
	assert_int_equal(table_create(s->fd, &facts, &t), 0);
	assert_true(table_install(s->fd, &t) < 0);
	table_detach(&t);
}

static void table_reads_as_free_when_the_word_is_none(void **state)
{
	const struct scratch *s = *state;
	struct table t;
	struct table_entry e;
	make(s->fd, SLOTS, &t);
	for (unsigned st = PART_STATES; st < 16; st++) {
		atomic_store(&table_slot_mut(&t, 0)->word, (uint64_t)st << 60 | 5);
		assert_int_equal(table_read(&t, 0, &e), 0);
		assert_int_equal(e.state, PART_FREE);
		assert_int_equal(e.word, (uint64_t)st << 60 | 5);
		assert_string_equal(part_state_word((enum part_state)st), "unknown");
	}
	assert_int_equal(table_read(&t, SLOTS, &e), ERR_INVALID);
	assert_int_equal(table_read(&t, UINT32_MAX, &e), ERR_INVALID);
	assert_int_equal(table_word_of(&t, SLOTS), 0);
	assert_int_equal(table_word_of(&t, UINT32_MAX), 0);
	table_detach(&t);
}

static int attach_after(int dirfd, size_t at, const void *bytes, size_t n)
{
	struct table t;
	size_t len;
	make(dirfd, SLOTS, &t);
	table_detach(&t);
	char *data = scratch_read(dirfd, TABLE_NAME, &len);
	memcpy(data + at, bytes, n);
	scratch_write(dirfd, TABLE_NAME, data, len);
	free(data);
	int err = table_attach(dirfd, &t);
	if (!err)
		table_detach(&t);
	assert_null(t.head);
	return err;
}

static void table_is_refused_when_it_comes_from_elsewhere(void **state)
{
	const struct scratch *s = *state;
	struct table t;
	uint64_t other = host_pid_namespace() + 1;
	uint32_t none = 0, more = SLOTS + 1, most = TABLE_CAPACITY + 1, all = UINT32_MAX;
	assert_int_equal(table_attach(s->fd, &t), ERR_NOT_FOUND);
	size_t at = offsetof(struct table_head, capacity);
	assert_int_equal(attach_after(s->fd, 0, "TALLYTAB", 8), 0);
	assert_int_equal(attach_after(s->fd, offsetof(struct table_head, boot_id), "\1\2\3\4", 4),
		ERR_STALE);
	assert_int_equal(attach_after(s->fd, offsetof(struct table_head, pid_namespace), &other, 8),
		ERR_NAMESPACE);
	assert_int_equal(attach_after(s->fd, at, &none, 4), ERR_FORMAT);
	assert_int_equal(attach_after(s->fd, at, &more, 4), ERR_FORMAT);
	assert_int_equal(attach_after(s->fd, at, &most, 4), ERR_FORMAT);
	assert_int_equal(attach_after(s->fd, at, &all, 4), ERR_FORMAT);
	make(s->fd, TABLE_CAPACITY + 1, &t); /* true of its size, but more than there can be */
	table_detach(&t);
	assert_int_equal(table_attach(s->fd, &t), ERR_FORMAT);
}

static void table_is_alive_while_its_heart_beats(void **state)
{
	const struct scratch *s = *state;
	struct table t;
	make(s->fd, SLOTS, &t);
	struct table_head *head = table_head_mut(&t);
	atomic_store(&head->heartbeat, 100 * S);
	assert_true(table_is_alive(&t, 100 * S));
	assert_true(table_is_alive(&t, 105 * S - 1));
	assert_false(table_is_alive(&t, 105 * S));
	atomic_store(&head->stopped, 1);
	assert_false(table_is_alive(&t, 100 * S));
	atomic_store(&head->stopped, 0);
	atomic_store(&head->retired, 1);
	assert_false(table_is_alive(&t, 100 * S));
	table_detach(&t);
}

/* Whatever lies there: refused, or read to its end without a crash. */
static void table_survives_when_its_file_is_garbage(void **state)
{
	const struct scratch *s = *state;
	uint64_t seed = 88172645463325252u;
	struct table t;
	size_t len, attached = 0;
	make(s->fd, SLOTS, &t);
	table_detach(&t);
	char *clean = scratch_read(s->fd, TABLE_NAME, &len), *data = malloc(len);
	for (int i = 0; i < 4000; i++) {
		memcpy(data, clean, len);
		size_t from = i % 2 ? sizeof(struct segment_head) : 0;
		for (uint64_t n = scratch_random(&seed) % 20; n; n--)
			data[from + scratch_random(&seed) % (len - from)] =
				(char)scratch_random(&seed);
		size_t size = i % 5 ? len : scratch_random(&seed) % len;
		scratch_write(s->fd, TABLE_NAME, data, size);
		if (table_attach(s->fd, &t))
			continue;
		attached++;
		for (uint32_t p = 0; p < SLOTS + 2; p++) {
			struct table_entry e;
			uint64_t word = table_word_of(&t, p);
			if (!table_read(&t, p, &e))
				assert_true(e.state < PART_STATES);
			part_death_word(e.death);
			table_is_ready(&t, p, word, host_boot_ns());
		}
		table_is_alive(&t, host_boot_ns());
		table_replaced(s->fd, &t);
		table_detach(&t);
	}
	assert_true(attached > 100);
	free(data);
	free(clean);
}

static void table_names_of_directories_go_both_ways(void **state)
{
	static const struct {
		uint32_t partition;
		uint64_t generation;
		const char *name;
	} good[] = {{0, 0, "p0.0"}, {0, 1, "p0.1"}, {7, 1234, "p7.1234"},
		{UINT32_MAX - 1, TABLE_GENERATION_MAX, "p4294967294.1152921504606846975"}};
	static const char *const bad[] = {"", "p", "p.", "p.1", "p1", "p1.", "p1.x", "p1.1x",
		"p1.1.1", "p01.1", "p1.01", "p00.1", "p+1.1", "p-1.1", "p 1.1", "p1. 1", "p1.+1",
		"p1.-1", "P1.1", "q1.1", "xp1.1", " p1.1", "p1.1 ", "p1.1\n", "p1,1", "p1.0x1",
		"p0x1.1", "p4294967295.1", "p4294967296.1", "p18446744073709551616.1",
		"p1.1152921504606846976", "p1.18446744073709551615", "p1.18446744073709551616",
		"p1.99999999999999999999999999999999999999999999999999999999999999", "trash.p1.1",
		"p1.1/", "./p1.1", "..", "."};
	char name[TABLE_DIR_NAME_SIZE];
	uint32_t p;
	uint64_t g;
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		table_dir_name(name, good[i].partition, good[i].generation);
		assert_string_equal(name, good[i].name);
		assert_true(table_dir_parse(name, &p, &g));
		assert_true(p == good[i].partition && g == good[i].generation);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (table_dir_parse(bad[i], &p, &g))
			fail_msg("\"%s\" was taken for a name of ours", bad[i]);
	table_dir_name(name, UINT32_MAX, UINT64_MAX); /* fits, whatever it is */
	assert_true(strlen(name) < sizeof name);
}

static void table_has_a_word_for_every_state(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PART_STATES; i++)
		assert_string_not_equal(part_state_word((enum part_state)i), "unknown");
	for (unsigned i = 0; i < DEATH_KINDS; i++)
		assert_string_not_equal(part_death_word((enum part_death)i), "unknown");
	for (unsigned i = 0; i < GROUP_STATES; i++)
		assert_string_not_equal(group_state_word((enum group_state)i), "unknown");
	for (unsigned i = 0; i < LOAD_STATES; i++)
		assert_string_not_equal(load_state_word((enum load_state)i), "unknown");
	assert_string_equal(load_state_word(LOAD_STATES), "unknown");
	assert_string_equal(part_death_word(DEATH_KINDS), "unknown");
	assert_string_equal(group_state_word((enum group_state) - 1), "unknown");
}

/* ------------------------------------------------------------------ why limits were refused */

static void table_says_why_limits_were_refused(void **state)
{
	const struct scratch *s = *state;
	struct table writer, reader;
	char text[TABLE_TEXT_SIZE], longer[TABLE_TEXT_SIZE + 100];
	make(s->fd, SLOTS, &writer);
	assert_int_equal(table_attach(s->fd, &reader), 0);
	table_limits_error(&reader, text);
	assert_string_equal(text, "");
	table_set_limits_error(&writer, "l.yaml:3: no");
	table_limits_error(&reader, text);
	assert_string_equal(text, "l.yaml:3: no");
	memset(longer, 'x', sizeof longer);
	longer[sizeof longer - 1] = 0;
	table_set_limits_error(&writer, longer);
	table_limits_error(&reader, text);
	assert_int_equal(strlen(text), TABLE_TEXT_SIZE - 1);
	table_set_limits_error(&writer, "");
	table_limits_error(&reader, text);
	assert_string_equal(text, "");
	/* Its writer was killed in the middle. */
	atomic_fetch_add(&table_head_mut(&writer)->limits_change, 1);
	table_limits_error(&reader, text);
	assert_string_equal(text, "");
	table_detach(&reader);
	table_detach(&writer);
}

struct scribbler {
	struct table *table;
	_Atomic bool stop;
};

static void *scribble(void *arg)
{
	struct scribbler *w = arg;
	char text[TABLE_TEXT_SIZE] = "";
	for (unsigned i = 0; !atomic_load(&w->stop); i++) {
		memset(text, 'a' + (int)(i % 26), sizeof text - 1);
		table_set_limits_error(w->table, text);
	}
	return NULL;
}

static void table_gives_a_reason_whole_or_not_at_all(void **state)
{
	const struct scratch *s = *state;
	struct table writer, reader;
	struct scribbler w = {.table = &writer};
	char text[TABLE_TEXT_SIZE];
	size_t whole = 0;
	pthread_t thread;
	make(s->fd, SLOTS, &writer);
	assert_int_equal(table_attach(s->fd, &reader), 0);
	assert_int_equal(pthread_create(&thread, NULL, scribble, &w), 0);
	for (int i = 0; i < 200000; i++) {
		table_limits_error(&reader, text);
		whole += strlen(text) == TABLE_TEXT_SIZE - 1;
		for (size_t k = 1; k < strlen(text); k += 50)
			if (text[k] != text[0])
				fail_msg("mixed: %s", text);
	}
	atomic_store(&w.stop, true);
	pthread_join(thread, NULL);
	assert_true(whole > 0);
	table_detach(&reader);
	table_detach(&writer);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(table_shows_readers_what_was_published),
		TEST(table_never_mixes_two_generations_when_read_while_written),
		TEST(table_is_ready_only_with_word_lease_and_a_table_in_force),
		TEST(table_retires_the_old_one_and_frees_its_words_when_another_is_installed),
		TEST(table_is_installed_when_garbage_lies_in_its_place),
		TEST(table_reads_as_free_when_the_word_is_none),
		TEST(table_is_refused_when_it_comes_from_elsewhere),
		TEST(table_is_alive_while_its_heart_beats),
		TEST(table_survives_when_its_file_is_garbage),
		TEST(table_says_why_limits_were_refused),
		TEST(table_gives_a_reason_whole_or_not_at_all),
		cmocka_unit_test(table_names_of_directories_go_both_ways),
		cmocka_unit_test(table_has_a_word_for_every_state),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
