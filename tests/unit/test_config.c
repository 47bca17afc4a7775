/*
 * test_config.c - tally.yaml: what is read, from where, into which field.
 *
 * Walks the option table itself, so a new row is tried at its bounds without a
 * new test.  The mistakes have test_config_errors.c, damage test_config_fuzz.c.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/config_fixture.h"

/* Puts one option into a file that is otherwise right; the option's line is *line. */
static const char *with_option(
	const struct config_option *option, const char *value, bool quotes, unsigned *line)
{
	static char text[4096];
	const char *q = quotes ? "\"" : "", *at = "";

	if (*option->section && strcmp(option->section, "kafka") != 0)
		at = option->section;
	snprintf(text, sizeof(text), "%s%s%s%s: %s%s%s\nkafka:\n%s%s", at, *at ? ":\n" : "",
		*at ? "  " : "", option->key, q, value, q,
		strcmp(option->key, "brokers") ? "  brokers: a:9092\n" : "",
		strcmp(option->key, "topic") ? "  topic: t\n" : "");
	*line = *at ? 2 : 1;
	if (strcmp(option->section, "kafka") == 0) {
		snprintf(text, sizeof(text), "kafka:\n  %s: %s%s%s\n%s%s", option->key, q, value, q,
			strcmp(option->key, "brokers") ? "  brokers: a:9092\n" : "",
			strcmp(option->key, "topic") ? "  topic: t\n" : "");
		*line = 2;
	}
	return text;
}

static void refuses_option(const struct config_option *option, const char *value, bool quotes)
{
	char name[CONFIG_VALUE_SIZE], start[CONFIG_VALUE_SIZE + 32];
	unsigned line;
	const char *text = with_option(option, value, quotes, &line);

	snprintf(start, sizeof(start), "t.yaml:%u: %s: ", line, config_option_name(option, name));
	if (parse(text) != ERR_INVALID)
		fail_msg("%s: accepted \"%s\"", name, value);
	if (strncmp(error.line, start, strlen(start)) != 0)
		fail_msg("\"%s\" does not begin with \"%s\"", error.line, start);
}

/* --- the sample ------------------------------------------------------------------------------ */

static void config_print_parses_to_the_defaults(void **state)
{
	struct config expected;
	size_t len;
	char *text = printed(&len);

	(void)state;
	config_defaults(&expected);
	strcpy(expected.brokers, "127.0.0.1:9092");
	strcpy(expected.topic, "ingest-limits");
	strcpy(expected.source, "t.yaml");
	accepts(text);
	memcpy(expected.lines, config.lines, sizeof(expected.lines)); /* where they stand */
	assert_memory_equal(&config, &expected, sizeof(config));
	free(text);
}

static void config_print_shows_every_option(void **state)
{
	size_t len, n;
	const struct config_option *options = config_options(&n);
	char *text = printed(&len);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		char plain[64], commented[64];

		snprintf(plain, sizeof(plain), "\n%s%s: ", *options[i].section ? "  " : "",
			options[i].key);
		snprintf(commented, sizeof(commented), "\n%s# %s:", *options[i].section ? "  " : "",
			options[i].key);
		assert_true(strstr(text, plain) || strstr(text, commented));
	}
	free(text);
}

/* These have no use without each other. */
static bool needs_others(const struct config_option *option)
{
	return strncmp(option->key, "grpc_tls_", 9) == 0 ||
	       strncmp(option->key, "http_tls_", 9) == 0 || strncmp(option->key, "peers", 5) == 0;
}

/* The commented examples must be right too: take the # away and read it again. */
static void config_print_examples_are_accepted_when_uncommented(void **state)
{
	size_t n, used;
	const struct config_option *options = config_options(&n);
	char together[1024];

	(void)state;
	used = (size_t)snprintf(together, sizeof(together), MIN_YAML "query:\n");
	for (size_t i = 0; i < n; i++) {
		unsigned line;

		if (needs_others(&options[i]))
			used += (size_t)snprintf(together + used, sizeof(together) - used,
				"  %s: %s\n", options[i].key, options[i].example);
		else if (options[i].example && !config_is_map(options[i].type))
			accepts(with_option(&options[i], options[i].example, false, &line));
	}
	accepts(together);
	for (size_t i = 0; i < n; i++) {
		const char *kinds[] = {"properties", "secret_files"};
		char text[1024];
		size_t len;

		if (!config_is_map(options[i].type))
			continue;
		len = (size_t)snprintf(text, sizeof(text), MIN_YAML "  %s:\n    ",
			kinds[options[i].type - CONFIG_PROPERTIES]);
		for (const char *s = options[i].example; *s; s++)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%c%s", *s,
				*s == '\n' ? "    " : "");
		accepts(text);
		assert_true(config.n_properties >= 2);
		config_free(&config);
	}
}

static void config_sample_file_is_what_config_print_writes(void **state)
{
	size_t len, n;
	char *text = printed(&len), *file = malloc(len + 2);
	FILE *in = fopen("etc/tally.yaml", "r");

	(void)state;
	assert_non_null(in);
	assert_non_null(file);
	n = fread(file, 1, len + 1, in);
	fclose(in);
	assert_int_equal(n, len);
	assert_memory_equal(file, text, len);
	free(file);
	free(text);
	assert_int_equal(config_load("etc/tally.yaml", &config, &error), 0);
}

static void config_defaults_are_those_of_the_manual(void **state)
{
	(void)state;
	accepts(MIN_YAML);
	assert_string_equal(config.run_dir, "/run/tally");
	assert_int_equal(config.log_level, LOG_LEVEL_INFO);
	assert_string_equal(config.group, "tally");
	assert_string_equal(config.assignor, "cooperative-sticky");
	assert_int_equal(config.session_timeout_ms, 45000);
	assert_false(config.read_uncommitted);
	assert_int_equal(config.active_window_ms, 7200000);
	assert_int_equal(config.store_map_bytes, UINT64_C(16) << 30);
	assert_true(config.cpu_affinity);
	assert_false(config.ready_on_lookup_failure);
	assert_int_equal(config.drain_ms, 100);
	assert_string_equal(config.http_listen, "127.0.0.1:3100");
}

/* --- single options -------------------------------------------------------------------------- */

static void config_refuses_every_number_out_of_bounds_on_both_sides(void **state)
{
	size_t n;
	const struct config_option *options = config_options(&n);
	unsigned tried = 0;

	(void)state;
	for (size_t i = 0; i < n; i++) {
		const struct config_option *o = &options[i];
		char value[CONFIG_VALUE_SIZE];

		if (o->words || o->type == CONFIG_BOOL || o->type < CONFIG_BOOL ||
			config_is_map(o->type))
			continue;
		refuses_option(o, config_value_text(o, o->min - 1, value), false);
		refuses_option(o, config_value_text(o, o->max + 1, value), false);
		refuses_option(o, "99999999999999999999999999", false);
		refuses_option(o, "0x10", false);
		refuses_option(o, "1.5s", false);
		refuses_option(o, "12 ", true);
		refuses_option(o, "many", false);
		refuses_option(o, "-", true);
		refuses_option(o, "", true);
		refuses_option(o, "", false);
		refuses_option(o, "[1]", false);
		refuses_option(o, "{a: 1}", false);
		tried++;
	}
	assert_true(tried > 20);
}

static void config_stores_every_number_at_its_bounds(void **state)
{
	size_t n;
	const struct config_option *options = config_options(&n);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		const struct config_option *o = &options[i];
		const int64_t bounds[] = {o->min, o->max};
		char value[CONFIG_VALUE_SIZE], why[CONFIG_WHY_SIZE];

		if (o->type < CONFIG_BOOL || config_is_map(o->type))
			continue;
		for (size_t b = 0; b < COUNT(bounds); b++) {
			const char *text = config_value_text(o, bounds[b], value);
			struct config untouched;

			memset(&config, 0x5a, sizeof(config));
			assert_int_equal(config_value_set(o, text, &config, why), 0);
			assert_int_equal(config_value_get(o, &config), bounds[b]);
			/* and nothing beside its field */
			memset(&untouched, 0x5a, sizeof(untouched));
			memcpy((char *)&untouched + o->offset, (char *)&config + o->offset,
				o->size);
			assert_memory_equal(&untouched, &config, sizeof(config));
		}
	}
}

static void config_refuses_every_text_too_long_or_empty(void **state)
{
	size_t n;
	const struct config_option *options = config_options(&n);
	char value[1200];

	(void)state;
	for (size_t i = 0; i < n; i++) {
		const struct config_option *o = &options[i];

		if (o->type != CONFIG_TEXT && o->type != CONFIG_LISTEN)
			continue;
		memset(value, 'a', sizeof(value));
		value[0] = '/';
		value[o->max + 1] = '\0';
		refuses_option(o, value, false);
		refuses_option(o, "a\\nb", true);
		refuses_option(o, "a\\tb", true);
		refuses_option(o, "a\\0b", true);
		refuses_option(o, "", false);
		refuses_option(o, "~", false);
		refuses_option(o, "[a, b]", false);
		refuses_option(o, "{a: b}", false);
		if (o->min > 0)
			refuses_option(o, "", true);
	}
}

static void config_refuses_every_word_it_does_not_know(void **state)
{
	size_t n;
	const struct config_option *options = config_options(&n);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		unsigned line;

		if (!options[i].words && options[i].type != CONFIG_BOOL)
			continue;
		refuses_option(&options[i], "maybe", false);
		refuses_option(&options[i], "1", false);
		refuses_option(&options[i], "True", false);
		for (size_t w = 0; options[i].words && options[i].words[w]; w++)
			accepts(with_option(&options[i], options[i].words[w], false, &line));
	}
}

static void config_reads_units(void **state)
{
	static const struct {
		const char *text;
		uint32_t ms;
	} cases[] = {
		{"60s", 60000},
		{"90000ms", 90000},
		{"1h30m", 5400000},
		{"1d", 86400000},
		{"1h1m1s1ms", 3661001},
		{"\"2m\"", 120000},
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		snprintf(text, sizeof(text), MIN_YAML "replay: {margin: %s}\n", cases[i].text);
		accepts(text);
		assert_int_equal(config.replay_margin_ms, cases[i].ms);
	}
	accepts(MIN_YAML "clock_offset: -1h30m\nsupervisor: {drain: 0}\n");
	assert_int_equal(config.clock_offset_ms, -5400000);
	assert_int_equal(config.drain_ms, 0);
	accepts(MIN_YAML "store: {map_size: 1536KiB}\n");
	assert_int_equal(config.store_map_bytes, 1536 * 1024);
}

/* Two rows that write the same bytes: the second would win in silence. */
static void config_options_have_a_field_each(void **state)
{
	size_t n;
	const struct config_option *options = config_options(&n);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		assert_true(options[i].size > 0);
		for (size_t j = 0; j < i; j++)
			assert_true(options[i].offset + options[i].size <= options[j].offset ||
				    options[j].offset + options[j].size <= options[i].offset);
	}
}

static void config_puts_every_number_where_it_belongs(void **state)
{
	(void)state;
	accepts("kafka: {brokers: a, topic: t, partitions: 9, session_timeout: 40s,\n"
		"  heartbeat_interval: 2s, max_poll_interval: 4m}\n"
		"window: {active: 3h, rate: 4m}\n"
		"replay: {margin: 11m, batch: 12, concurrency: 13, queue: 14,\n"
		"  offsets_timeout: 15s, flush: 16ms, stall_timeout: 17s}\n"
		"store: {map_size: 18MiB, readers: 19}\n"
		"supervisor: {revoke_deadline: 20s, drain: 21ms, lost_grace: 22s,\n"
		"  stop_deadline: 23s, commit_allowance: 24ms, hang_timeout: 25s,\n"
		"  restart_min: 26ms, restart_max: 27s}\n"
		"query: {http_threads: 28, metrics_tenants: 29, metrics_names: loki, enabled: "
		"false}\n");
	assert_int_equal(config.partitions, 9);
	assert_int_equal(config.session_timeout_ms, 40000);
	assert_int_equal(config.heartbeat_interval_ms, 2000);
	assert_int_equal(config.max_poll_interval_ms, 240000);
	assert_int_equal(config.active_window_ms, 3 * 3600000);
	assert_int_equal(config.rate_window_ms, 240000);
	assert_int_equal(config.replay_margin_ms, 660000);
	assert_int_equal(config.replay_batch, 12);
	assert_int_equal(config.replay_concurrency, 13);
	assert_int_equal(config.replay_queue, 14);
	assert_int_equal(config.offsets_timeout_ms, 15000);
	assert_int_equal(config.flush_ms, 16);
	assert_int_equal(config.stall_timeout_ms, 17000);
	assert_int_equal(config.store_map_bytes, 18 << 20);
	assert_int_equal(config.store_readers, 19);
	assert_int_equal(config.revoke_deadline_ms, 20000);
	assert_int_equal(config.drain_ms, 21);
	assert_int_equal(config.lost_grace_ms, 22000);
	assert_int_equal(config.stop_deadline_ms, 23000);
	assert_int_equal(config.commit_allowance_ms, 24);
	assert_int_equal(config.hang_timeout_ms, 25000);
	assert_int_equal(config.restart_min_ms, 26);
	assert_int_equal(config.restart_max_ms, 27000);
	assert_int_equal(config.http_threads, 28);
	assert_int_equal(config.metrics_tenants, 29);
	assert_int_equal(config.metrics_names, METRICS_LOKI);
	assert_false(config.query_enabled);
}

static void config_reads_all_of_a_full_file(void **state)
{
	(void)state;
	accepts("run_dir: /tmp/x//\n"
		"zone: 'zone a'\n"
		"log_level: debug\n"
		"kafka: {brokers: 'a:9092, b', topic: t.1_2-3, isolation: read_uncommitted,\n"
		"        group_instance_id: i-0}\n"
		"replay:\n"
		"  on_lookup_failure: ready\n"
		"  cpu_affinity: false\n"
		"store:\n"
		"query:\n"
		"  http_listen: '[::1]:0'\n");
	assert_string_equal(config.run_dir, "/tmp/x");
	assert_string_equal(config.zone, "zone a");
	assert_int_equal(config.log_level, LOG_LEVEL_DEBUG);
	assert_string_equal(config.brokers, "a:9092, b");
	assert_true(config.read_uncommitted);
	assert_true(config.ready_on_lookup_failure);
	assert_false(config.cpu_affinity);
	assert_string_equal(config.http_listen, "[::1]:0");
}

/* --- files ----------------------------------------------------------------------------------- */

static void loads_with(const char *path, int expected, const char *what)
{
	char line[512];

	assert_int_equal(config_load(path, &config, &error), expected);
	snprintf(line, sizeof(line), "%s%s%s", path, expected ? ": " : "", expected ? what : "");
	if (expected)
		assert_string_equal(error.line, line);
}

static void write_file(const char *path, const char *text, off_t size)
{
	FILE *out = fopen(path, "w");

	assert_non_null(out);
	fputs(text, out);
	assert_int_equal(fclose(out), 0);
	if (size)
		assert_int_equal(truncate(path, size), 0);
}

static void config_load_refuses_what_is_no_file_of_options(void **state)
{
	char dir[] = "/tmp/tally-config-XXXXXX", path[64], fifo[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/t.yaml", dir);
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	loads_with(
		path, ERR_NOT_FOUND, "No such file or directory; create it, or correct the path");
	loads_with(dir, ERR_INVALID, "is not a regular file");
	assert_int_equal(mkfifo(fifo, 0600), 0);
	loads_with(fifo, ERR_INVALID, "is not a regular file");
	loads_with("/dev/null", ERR_INVALID, "is not a regular file");
	write_file(path, "", 0);
	loads_with(path, ERR_INVALID,
		"has no options; tallyd --print-config writes a file to begin with");
	write_file(path, MIN_YAML "#", (1 << 20) + 1);
	loads_with(path, ERR_INVALID, "is larger than 1 MiB; this cannot be a file of options");
	write_file(path, MIN_YAML, 0);
	loads_with(path, 0, NULL);
	assert_string_equal(config.topic, "t");
	unlink(path);
	unlink(fifo);
	rmdir(dir);
}

/* --- listen addresses ------------------------------------------------------------------------ */

static void config_listen_split_takes_addresses_apart(void **state)
{
	static const struct {
		const char *text, *host;
		uint16_t port;
	} good[] = {
		{"127.0.0.1:3100", "127.0.0.1", 3100},
		{"[::1]:0", "::1", 0},
		{"localhost:65535", "localhost", 65535},
		{"a-b.example:1", "a-b.example", 1},
	};
	static const char *const bad[] = {"", ":", "3100", ":3100", "a:", "a:b", "a:65536", "a:-1",
		"a:1x", "::1:80", "[::1]", "[::1:80", "[]:80", "[1.2.3.4]:80", "1.2.3:80",
		"256.1.1.1:80", "a b:80", "a/b:80", "-a:80", "[:80", "a:999999999999999999999"};
	char host[16];
	uint16_t port;

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		assert_int_equal(config_listen_split(good[i].text, host, sizeof(host), &port), 0);
		assert_string_equal(host, good[i].host);
		assert_int_equal(port, good[i].port);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		if (config_listen_split(bad[i], host, sizeof(host), &port) == 0)
			fail_msg("accepted \"%s\"", bad[i]);
	}
	assert_int_equal(
		config_listen_split("a234567890123456:1", host, sizeof(host), &port), ERR_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_print_parses_to_the_defaults),
		cmocka_unit_test(config_print_shows_every_option),
		cmocka_unit_test(config_print_examples_are_accepted_when_uncommented),
		cmocka_unit_test(config_sample_file_is_what_config_print_writes),
		cmocka_unit_test(config_defaults_are_those_of_the_manual),
		cmocka_unit_test(config_refuses_every_number_out_of_bounds_on_both_sides),
		cmocka_unit_test(config_stores_every_number_at_its_bounds),
		cmocka_unit_test(config_refuses_every_text_too_long_or_empty),
		cmocka_unit_test(config_refuses_every_word_it_does_not_know),
		cmocka_unit_test(config_reads_units),
		cmocka_unit_test(config_options_have_a_field_each),
		cmocka_unit_test(config_puts_every_number_where_it_belongs),
		cmocka_unit_test(config_reads_all_of_a_full_file),
		cmocka_unit_test(config_load_refuses_what_is_no_file_of_options),
		cmocka_unit_test(config_listen_split_takes_addresses_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
