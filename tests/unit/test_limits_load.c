/*
 * test_limits_load.c - limits are read whole or not at all, and the table says which.
 */
#include "scratch.h"

#include <ev.h>

#include "shm/err.h"
#include "shm/limits.h"
#include "supervisor/limits_load.h"

#define ONE	"overrides: {a: {max_global_streams_per_user: 1}}\n"
#define TWO	"overrides: {a: {max_global_streams_per_user: 2}, b: }\n"
#define GARBAGE "overrides: {a: 1}\n"

static struct config config;
static struct config_error error;
static struct table table;
static struct ev_loop *loop;
static struct limits_load *load;
static const struct scratch *scratch;
static unsigned done;

static void on_done(void *arg)
{
	(void)arg;
	done++;
}

static int setup(void **state)
{
	int failed = scratch_setup(state);

	scratch = *state;
	memset(&config, 0, sizeof config);
	config.default_streams = 5000;
	snprintf(config.limits_file, sizeof config.limits_file, "%s/l.yaml", scratch->path);
	done = 0;
	return failed;
}

static int teardown(void **state)
{
	limits_load_free(&load);
	table_detach(&table);
	if (loop)
		ev_loop_destroy(loop);
	loop = NULL;
	return scratch_teardown(state);
}

/* As tallyd does it: read, publish, table, watch. */
static void start(void)
{
	static struct table_head facts;
	struct limits_load_options options = {.table = &table, .done = on_done};

	assert_int_equal(limits_load_new(&config, &load, &error), 0);
	assert_int_equal(limits_load_publish(load, scratch->fd), 0);
	memset(&facts, 0, sizeof facts);
	facts.capacity = 2;
	limits_load_facts(load, &facts);
	assert_int_equal(table_create(scratch->fd, &facts, &table), 0);
	options.loop = loop = ev_loop_new(0);
	limits_load_watch(load, &options);
}

static void on_tick(struct ev_loop *l, ev_timer *w, int revents)
{
	(void)l;
	(void)w;
	(void)revents;
}

/* Runs the loop until `field` of the head is `value`; a test that hangs is ended by alarm. */
#define RUN_UNTIL(condition)                                                                       \
	do {                                                                                       \
		ev_timer tick;                                                                     \
		alarm(30);                                                                         \
		ev_timer_init(&tick, on_tick, 0.01, 0.01);                                         \
		ev_timer_start(loop, &tick);                                                       \
		while (!(condition))                                                               \
			ev_run(loop, EVRUN_ONCE);                                                  \
		ev_timer_stop(loop, &tick);                                                        \
		alarm(0);                                                                          \
	} while (0)

#define HEAD(field) atomic_load(&table.head->field)

static void write_limits(const char *text)
{
	scratch_write(scratch->fd, "l.yaml", text, strlen(text));
}

/* What readers find: version, and the limit of tenant a. */
static uint64_t published(uint64_t *version)
{
	struct limits_entry entry;
	struct limits limits;

	assert_int_equal(limits_attach(scratch->fd, &limits), 0);
	limits_find(&limits, "a", 1, &entry);
	if (version)
		*version = limits_version(&limits);
	limits_detach(&limits);
	return entry.streams;
}

static const char *reason(void)
{
	static char text[TABLE_TEXT_SIZE];

	table_limits_error(&table, text);
	return text;
}

static void limits_load_publishes_defaults_when_no_file_is_configured(void **state)
{
	uint64_t version;

	(void)state;
	config.limits_file[0] = '\0';
	config.default_streams = 0;
	start();
	assert_true(published(&version) == LIMIT_NONE);
	assert_int_equal(HEAD(limits_state), LOAD_NONE);
	assert_true(HEAD(limits_version) == version && version > 0);
	assert_int_equal(HEAD(limits_tenants), 0);
}

static void limits_load_refuses_to_begin_with_a_bad_file(void **state)
{
	(void)state;
	assert_true(limits_load_new(&config, &load, &error) < 0);
	assert_null(load);
	assert_non_null(strstr(error.line, "l.yaml: No such file or directory; create it"));
	write_limits(GARBAGE);
	assert_true(limits_load_new(&config, &load, &error) < 0);
	assert_non_null(strstr(error.line, "l.yaml:1: overrides.a: must be a map"));
}

/* The clock may have been set back since. */
static void limits_load_grows_the_version_of_one_that_is_there(void **state)
{
	const uint64_t ahead = (uint64_t)4e15 * 1000;
	const struct limits_source old = {.version = ahead, .default_streams = 1};
	uint64_t version;

	(void)state;
	assert_int_equal(limits_write(scratch->fd, &old), 0);
	write_limits(ONE);
	start();
	assert_true(published(&version) == 1);
	assert_true(version == ahead + 1 && HEAD(limits_version) == version);
	limits_load_now(load);
	RUN_UNTIL(done == 1);
	assert_true(HEAD(limits_version) == ahead + 2);
}

static void limits_load_keeps_what_holds_when_a_file_is_refused(void **state)
{
	uint64_t before, after;

	(void)state;
	write_limits(ONE);
	start();
	assert_int_equal(HEAD(limits_state), LOAD_OK);
	published(&before);
	write_limits(GARBAGE);
	limits_load_now(load);
	RUN_UNTIL(done == 1);
	assert_int_equal(HEAD(limits_state), LOAD_REFUSED);
	assert_int_equal(HEAD(limits_refused), 1);
	assert_int_equal(HEAD(limits_tenants), 1);
	assert_non_null(strstr(reason(), "l.yaml:1: overrides.a: must be a map"));
	assert_true(published(&after) == 1 && after == before);
	assert_true(HEAD(limits_version) == before);
	write_limits(TWO);
	limits_load_now(load);
	RUN_UNTIL(done == 2);
	assert_int_equal(HEAD(limits_state), LOAD_OK);
	assert_string_equal(reason(), "");
	assert_int_equal(HEAD(limits_tenants), 2);
	assert_true(published(&after) == 2 && after > before);
	assert_true(HEAD(limits_version) == after);
}

static void limits_load_sees_a_change_by_itself_and_reads_it_once(void **state)
{
	uint64_t version;

	(void)state;
	write_limits(ONE);
	start();
	write_limits(GARBAGE);
	RUN_UNTIL(HEAD(limits_refused) == 1);
	write_limits(TWO);
	RUN_UNTIL(HEAD(limits_state) == LOAD_OK);
	assert_int_equal(HEAD(limits_refused), 1); /* not tried again while it stood still */
	version = HEAD(limits_version);
	assert_int_equal(unlinkat(scratch->fd, "l.yaml", 0), 0);
	RUN_UNTIL(HEAD(limits_refused) == 2);
	assert_true(HEAD(limits_version) == version && published(NULL) == 2);
	assert_int_equal(done, 0); /* nobody had asked */
}

/* What the first one reads may be older than the wish for the second, which all later ones share. */
static void limits_load_reads_once_more_when_asked_while_it_reads(void **state)
{
	(void)state;
	write_limits(ONE);
	start();
	write_limits(GARBAGE);
	limits_load_now(load);
	limits_load_now(load);
	limits_load_now(load);
	RUN_UNTIL(done == 1);
	assert_int_equal(HEAD(limits_refused), 2);
	write_limits(TWO);
	limits_load_now(load);
	RUN_UNTIL(done == 2);
	assert_true(published(NULL) == 2);
}

static void limits_load_says_so_when_it_cannot_publish_and_tries_again(void **state)
{
	(void)state;
	write_limits(ONE);
	start();
	assert_int_equal(mkdirat(scratch->fd, "limits.new", 0700), 0);
	write_limits(TWO);
	limits_load_now(load);
	RUN_UNTIL(done == 1);
	assert_int_equal(HEAD(limits_state), LOAD_REFUSED);
	assert_non_null(strstr(reason(), "cannot write limits into run_dir: "));
	assert_non_null(strstr(reason(), "it is tried again"));
	assert_true(published(NULL) == 1);
	assert_int_equal(unlinkat(scratch->fd, "limits.new", AT_REMOVEDIR), 0);
	RUN_UNTIL(HEAD(limits_state) == LOAD_OK); /* after 3 s */
	assert_true(published(NULL) == 2);
}

/* Under the thread that reads, nothing may be pulled away. */
static void limits_load_ends_in_the_middle_of_a_load(void **state)
{
	(void)state;
	write_limits(ONE);
	start();
	for (int i = 0; i < 20; i++)
		limits_load_now(load);
	limits_load_free(&load);
	assert_null(load);
	assert_int_equal(done, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(limits_load_publishes_defaults_when_no_file_is_configured),
		TEST(limits_load_refuses_to_begin_with_a_bad_file),
		TEST(limits_load_grows_the_version_of_one_that_is_there),
		TEST(limits_load_keeps_what_holds_when_a_file_is_refused),
		TEST(limits_load_sees_a_change_by_itself_and_reads_it_once),
		TEST(limits_load_reads_once_more_when_asked_while_it_reads),
		TEST(limits_load_says_so_when_it_cannot_publish_and_tries_again),
		TEST(limits_load_ends_in_the_middle_of_a_load),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
