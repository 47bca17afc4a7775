/*
 * test_config_errors.c - tally.yaml: the one line for everything that is refused.
 */
#include "tests/unit/config_fixture.h"
#include "shm/table.h"
#include "shm/window.h"

/* --- the line for a mistake ------------------------------------------------------------------ */

static void config_says_where_and_what_to_do_when_it_refuses(void **state)
{
	static const struct {
		const char *text, *line;
	} cases[] = {
		{"", "t.yaml: has no options; tallyd --print-config writes a file to begin with"},
		{"# nothing\n\n", "t.yaml: has no options; tallyd --print-config writes a file to "
				  "begin with"},
		{"--- ~\n", "t.yaml: has no options; tallyd --print-config writes a file to begin "
			    "with"},
		{"hello\n", "t.yaml:1: must be lines of \"option: value\"; tallyd --print-config "
			    "writes an example"},
		{"- a\n", "t.yaml:1: must be lines of \"option: value\"; tallyd --print-config "
			  "writes an example"},
		{"zone: a\n", "t.yaml: kafka.brokers: is required; write it into section kafka, "
			      "like \"brokers: 127.0.0.1:9092\""},
		{"zone: a\nkafka:\n  brokers: a\n",
			"t.yaml:2: kafka.topic: is required; write it into section kafka, like "
			"\"topic: ingest-limits\""},
		{"kafka:\n  brokers: a\n  topic: ''\n", "t.yaml:3: kafka.topic: must not be empty. "
							"Topic that the ingest nodes write "
							"their stream metadata records to."},
		{"kafka:\n  topic: a b\n", "t.yaml:2: kafka.topic: has a character that Kafka does "
					   "not allow; letters, "
					   "digits and . _ - are"},
		{"kafka:\n  brokers: a:9092,,b\n",
			"t.yaml:2: kafka.brokers: must be host or host:port (9092 is the default), "
			"with commas between several: a:9092,b:9092"},
		{"kafka:\n  topik: a\n",
			"t.yaml:2: kafka.topik: no such option; did you mean kafka.topic?"},
		{"topic: a\n", "t.yaml:1: topic: no such option; did you mean kafka.topic?"},
		{"kafkka:\n  topic: a\n", "t.yaml:1: kafkka: no such option; did you mean kafka?"},
		{"kafka:\n  sasl.password: hunter2\n", "t.yaml:2: kafka.sasl.password: no such "
						       "option; properties of librdkafka go "
						       "under kafka.properties"},
		{"colour: red\n", "t.yaml:1: colour: no such option; tallyd --print-config shows "
				  "all that there are"},
		{"zone: a\nzone: b\n",
			"t.yaml:2: zone: is given twice, first on line 1; take one out"},
		{"kafka: {}\nkafka: {}\n",
			"t.yaml:2: kafka: is given twice, first on line 1; write "
			"its options there"},
		{"kafka: a\n", "t.yaml:1: kafka: is a section; write its options on the lines "
			       "below, indented"},
		{"run_dir: tally\n", "t.yaml:1: run_dir: must be an absolute path, one that starts "
				     "with /"},
		{"run_dir: /\n", "t.yaml:1: run_dir: must not be the root directory; name one for "
				 "Tally alone, like /run/tally"},
		{"run_dir: /run/../tally\n",
			"t.yaml:1: run_dir: must not contain \"..\"; write the "
			"path it stands for"},
		{"replay:\n  batch: 0\n", "t.yaml:2: replay.batch: \"0\" is out of bounds; write a "
					  "whole number from 1 to 1000000"},
		{"replay:\n  batch: -1\n", "t.yaml:2: replay.batch: \"-1\" is out of bounds; write "
					   "a whole number from 1 to 1000000"},
		{"replay:\n  margin: 45\n",
			"t.yaml:2: replay.margin: \"45\" has no unit (ms, s, m, h or d); write a "
			"duration from 1m to 7d"},
		{"replay:\n  margin: 45sec\n", "t.yaml:2: replay.margin: \"45sec\" is not made of "
					       "whole numbers with units "
					       "(ms, s, m, h, d); write a duration from 1m to 7d"},
		{"replay:\n  margin: 1m1h\n",
			"t.yaml:2: replay.margin: \"1m1h\" is not made of whole numbers with units "
			"(ms, s, m, h, d); write a duration from 1m to 7d"},
		{"window:\n  active: 90s\n", "t.yaml:2: window.active: \"90s\" is not a whole "
					     "multiple; write a duration "
					     "from 1m to 7d, a multiple of 1m"},
		{"store:\n  map_size: 16GB\n",
			"t.yaml:2: store.map_size: \"16GB\" is not made of whole numbers with "
			"units "
			"(KiB, MiB, GiB, TiB); write a size from 1MiB to 4TiB, a multiple of 4KiB"},
		{"query:\n  enabled: yes\n",
			"t.yaml:2: query.enabled: \"yes\" is not a word for this; write true or "
			"false"},
		{"query:\n  peers: tally-1:9095, tally-2\n",
			"t.yaml:2: query.peers: must be host:port with commas between, like "
			"tally-1:9095,[::1]:9095"},
		{"query:\n  http_listen: 3100\n",
			"t.yaml:2: query.http_listen: \"3100\" is no address to listen on; write "
			"an "
			"address host:port, like 127.0.0.1:3100 or [::1]:3100"},
		{"log_level: trace\n", "t.yaml:1: log_level: \"trace\" is not a word for this; "
				       "write one of error, warn, info, debug"},
		{"zone:\n", "t.yaml:1: zone: has no value; write text of at most 63 bytes, or take "
			    "the line out"},
		{"zone: [a]\n", "t.yaml:1: zone: must be one value, not a list; write text of at "
				"most 63 bytes"},
		{"zone: \"a\\0b\"\n", "t.yaml:1: zone: contains a NUL character; take it out"},
		{"? [a]\n: b\n",
			"t.yaml:1: a key: must be one value, not a list; write the name of "
			"an option"},
		{"zone: &a x\n", "t.yaml:1: anchors and aliases (& and *) are not used here; write "
				 "the value out, in quotes if it begins with one of these"},
		{"kafka: &a\n  properties: *a\n", "t.yaml:1: anchors and aliases (& and *) are not "
						  "used here; write the value "
						  "out, in quotes if it begins with one of these"},
		{"zone: !!str x\n",
			"t.yaml:1: tags (!) are not used here; leave it out, or put the "
			"value into quotes"},
		{"kafka:\n\ttopic: a\n",
			"t.yaml:2: not valid YAML: a tab; indent with blanks only"},
		{"zone: 'a\n", "t.yaml:2: not valid YAML: found unexpected end of stream while "
			       "scanning a quoted scalar"},
		{"zone: a\nzone b\n", "t.yaml:3: not valid YAML: could not find expected ':' while "
				      "scanning a simple key"},
		{MIN_YAML "---\nzone: a\n", "t.yaml:4: a second YAML document (---) begins here; "
					    "there must be only one"},
		{"zone: a\nrun_dir: \xff\n",
			"t.yaml:2: not valid YAML: invalid leading UTF-8 octet "
			"(byte 17); the file must be UTF-8 text"},
		{"\"a\\nb\": 1\n", "t.yaml:1: a?b: no such option; tallyd --print-config shows all "
				   "that there are"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		refuses(cases[i].text, cases[i].line);
}

static void config_refuses_a_nul_byte_in_the_file(void **state)
{
	static const char text[] = "zone: a\nrun_dir: /a\0b\n";

	(void)state;
	assert_int_equal(
		config_parse("t.yaml", text, sizeof(text) - 1, &config, &error), ERR_INVALID);
	assert_string_equal(error.line, "t.yaml:2: not valid YAML: control characters are not "
					"allowed (byte 19); the file must be UTF-8 text");
}

static void config_reads_a_file_with_byte_order_mark_and_crlf(void **state)
{
	(void)state;
	accepts("\xef\xbb\xbfzone: z\r\nkafka:\r\n  brokers: a:9092\r\n  topic: t\r\n");
	assert_string_equal(config.zone, "z");
}

static void config_refuses_deep_nesting_quickly(void **state)
{
	size_t len = 200000;
	char *text = malloc(len + 1);

	(void)state;
	assert_non_null(text);
	memset(text, '[', len);
	memcpy(text, "zone: ", 6);
	text[len] = '\0';
	assert_int_equal(parse(text), ERR_INVALID);
	free(text);
}

static void config_keeps_the_line_short_when_the_file_is_absurd(void **state)
{
	char *text = malloc(100010), name[3000];

	(void)state;
	assert_non_null(text);
	memset(text, 'k', 100000);
	strcpy(text + 1000, ": 1\n");
	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(config_parse(name, text, strlen(text), &config, &error), ERR_INVALID);
	assert_true(strlen(error.line) < sizeof(error.line));
	assert_non_null(strstr(error.line, "no such option"));
	free(text);
}

/* --- several options together ---------------------------------------------------------------- */

static void config_refuses_options_that_contradict_each_other(void **state)
{
	static const struct {
		const char *text, *line;
	} cases[] = {
		{MIN_YAML "  heartbeat_interval: 45s\n",
			"t.yaml:4: kafka.heartbeat_interval: 45s must be shorter than "
			"kafka.session_timeout, 45s (the default); else the session ends between "
			"two "
			"heartbeats; a third of it is wise"},
		{MIN_YAML "  session_timeout: 2s\n",
			"t.yaml:4: kafka.heartbeat_interval: 3s (the default) must be shorter than "
			"kafka.session_timeout, 2s; else the session ends between two heartbeats; "
			"a "
			"third of it is wise"},
		{MIN_YAML "  session_timeout: 4s\n",
			"t.yaml:4: kafka.heartbeat_interval: 3s (the default) plus "
			"supervisor.commit_allowance, 1s (the default) must be shorter than "
			"kafka.session_timeout, 4s; else there is no time left for a lease"},
		{MIN_YAML "  session_timeout: 6s\n",
			"t.yaml:4: kafka.heartbeat_interval: 3000ms is too long for a session of "
			"6000ms with a commit_allowance of 1000ms: the lease would end between two "
			"heartbeats; shorten it to a fifth of the session"},
		{MIN_YAML "supervisor:\n  commit_allowance: 42s\n",
			"t.yaml:5: kafka.heartbeat_interval: 3s (the default) plus "
			"supervisor.commit_allowance, 42s must be shorter than "
			"kafka.session_timeout, "
			"45s (the default); else there is no time left for a lease"},
		{MIN_YAML "  max_poll_interval: 44999ms\n",
			"t.yaml:4: kafka.session_timeout: 45s (the default) must be not longer "
			"than "
			"kafka.max_poll_interval, 44999ms; Kafka's client refuses it otherwise"},
		{MIN_YAML "  max_poll_interval: 45s\nsupervisor:\n  revoke_deadline: 45s\n",
			"t.yaml:6: supervisor.revoke_deadline: 45s must be shorter than "
			"kafka.max_poll_interval, 45s; else the group puts this instance out while "
			"it "
			"gives partitions back"},
		{MIN_YAML "supervisor:\n  drain: 5s\n",
			"t.yaml:5: supervisor.drain: 5s must be shorter than "
			"supervisor.revoke_deadline, 5s (the default); else no time is left to end "
			"the workers"},
		{MIN_YAML "supervisor:\n  restart_max: 99ms\n",
			"t.yaml:5: supervisor.restart_min: 100ms (the default) must be not longer "
			"than supervisor.restart_max, 99ms; the pause grows from the one to the "
			"other"},
		{MIN_YAML "query:\n  processes: 2\n  grpc_listen: '[::1]:0'\n",
			"t.yaml:6: query.grpc_listen: port 0 cannot be shared by query.processes: "
			"2; write a port"},
		{MIN_YAML "query:\n  http_listen: localhost:0\n  processes: 64\n",
			"t.yaml:5: query.http_listen: port 0 cannot be shared by query.processes: "
			"64; write a port"},
		{MIN_YAML "query:\n  grpc_listen: 127.0.0.1:3100\n",
			"t.yaml:5: query.grpc_listen: 127.0.0.1:3100 is the address of "
			"query.http_listen, too; write another port for one of them"},
		{MIN_YAML "query:\n  http_listen: 127.0.0.1:9095\n",
			"t.yaml:5: query.grpc_listen: 127.0.0.1:9095 (the default) is the address "
			"of query.http_listen, too; write another port for one of them"},
		{MIN_YAML "query:\n  grpc_tls_cert: /c\n",
			"t.yaml:5: query.grpc_tls_cert: has no use without query.grpc_tls_key; "
			"write that too, or take this out"},
		{MIN_YAML "query:\n  grpc_tls_key: /k\n",
			"t.yaml:5: query.grpc_tls_key: has no use without query.grpc_tls_cert; "
			"write that too, or take this out"},
		{MIN_YAML "query:\n  grpc_tls_client_ca: /ca\n",
			"t.yaml:5: query.grpc_tls_client_ca: has no use without "
			"query.grpc_tls_cert; write that too, or take this out"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		refuses(cases[i].text, cases[i].line);
	accepts(MIN_YAML "  session_timeout: 8001ms\n  max_poll_interval: 9001ms\n");
	accepts(MIN_YAML "  max_poll_interval: 45s\nsupervisor: {restart_max: 100ms}\n");
}

/* The table's bounds are those of the parts that they configure. */
static void config_bounds_agree_with_the_other_modules(void **state)
{
	const struct config_option *o = config_option_find("kafka", "partitions");

	(void)state;
	assert_int_equal(o->max, TABLE_CAPACITY);
	o = config_option_find("window", "active");
	assert_int_equal(o->max, INT64_C(60000) * WINDOW_MINUTES_MAX);
	assert_int_equal(o->step, 60000);
	o = config_option_find("window", "rate");
	assert_int_equal(o->max, INT64_C(60000) * RATE_MINUTES);
	o = config_option_find("", "run_dir");
	/* <run_dir>/p<partition>.<generation>/admit.sock in a sun_path of 108 bytes */
	assert_true(o->max + 1 + (int)strlen("p1023.18446744073709551615/admit.sock") < 108);
}

/* --- properties ------------------------------------------------------------------------------ */

static void config_keeps_properties_in_order(void **state)
{
	(void)state;
	accepts(MIN_YAML "  properties:\n"
			 "    security.protocol: sasl_ssl\n"
			 "    socket.timeout.ms: 6000\n"
			 "    sasl.password: \"hunter: 2\"\n"
			 "    ssl.ca.pem: |\n      BEGIN\n      END\n");
	assert_int_equal(config.n_properties, 4);
	assert_string_equal(config.properties[0].name, "security.protocol");
	assert_string_equal(config.properties[0].value, "sasl_ssl");
	assert_string_equal(config.properties[1].value, "6000");
	assert_string_equal(config.properties[2].value, "hunter: 2");
	assert_string_equal(config.properties[3].value, "BEGIN\nEND\n");
	config_free(&config);
	assert_int_equal(config.n_properties, 0);
	accepts(MIN_YAML "  properties:\n");
	assert_int_equal(config.n_properties, 0);
}

static void config_refuses_properties_that_tally_decides(void **state)
{
	static const char *const names[] = {"group.id", "group.instance.id", "bootstrap.servers",
		"metadata.broker.list", "enable.auto.commit", "enable.auto.offset.store",
		"auto.offset.reset", "enable.partition.eof", "partition.assignment.strategy",
		"session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms",
		"isolation.level", "statistics.interval.ms", "log.queue", "check.crcs",
		"queued.min.messages", "queued.max.messages.kbytes", "group.protocol",
		"enable.idempotence", "enable.gapless.guarantee", "transactional.id", "acks",
		"request.required.acks", "message.timeout.ms", "delivery.timeout.ms", "retries",
		"message.send.max.retries", "queuing.strategy", "transaction.timeout.ms",
		"queue.buffering.backpressure.threshold", "queue.buffering.max.messages",
		"queue.buffering.max.kbytes"};
	char text[512], start[256];

	(void)state;
	for (size_t i = 0; i < COUNT(names); i++) {
		snprintf(text, sizeof(text), MIN_YAML "  properties:\n    a.b: 1\n    %s: 1\n",
			names[i]);
		snprintf(start, sizeof(start), "t.yaml:6: kafka.properties: %s: is ", names[i]);
		assert_int_equal(parse(text), ERR_INVALID);
		assert_memory_equal(error.line, start, strlen(start));
	}
	refuses(MIN_YAML "  properties: {group.id: x}\n",
		"t.yaml:4: kafka.properties: group.id: is set by Tally; use the option "
		"kafka.group");
}

/* "use the option X": X must exist. */
static void config_names_real_options_when_it_refuses_a_property(void **state)
{
	static const char *const names[] = {"group.id", "group.instance.id", "bootstrap.servers",
		"metadata.broker.list", "partition.assignment.strategy", "session.timeout.ms",
		"heartbeat.interval.ms", "max.poll.interval.ms", "isolation.level",
		"queued.min.messages", "log_level", "queued.max.messages.kbytes"};

	(void)state;
	for (size_t i = 0; i < COUNT(names); i++) {
		const char *option = strstr(config_property_refused(names[i]), "the option ");
		char section[64] = "", *dot;

		assert_non_null(option);
		snprintf(section, sizeof(section), "%s", option + strlen("the option "));
		dot = strchr(section, '.');
		if (dot)
			*dot = '\0';
		assert_non_null(dot ? config_option_find(section, dot + 1)
				    : config_option_find("", section));
	}
}

static void config_never_shows_the_value_of_a_property(void **state)
{
	static const char *const bad[] = {
		"    sasl.password: hunter2\n    sasl.password: hunter2\n",
		"    sasl.password hunter2\n",
		"    sasl.password: [hunter2]\n",
		"    sasl.password: \"hunter2\\0\"\n",
		"    sasl.password: !x hunter2\n",
		"    sasl.password: &hunter2 x\n",
		"    sasl.password: 'hunter2\n",
		"    sasl.password: hunter2: x\n",
		"    sasl.password=hunter2: x\n",
		"    sasl.password: hunter2\n\tb: hunter2\n",
		"    sasl.password: hunter2\n  group: ''\n",
		"    - hunter2\n",
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		snprintf(text, sizeof(text), MIN_YAML "  properties:\n%s", bad[i]);
		assert_int_equal(parse(text), ERR_INVALID);
		assert_true(strlen(error.line) > 10);
		if (strstr(error.line, "hunter2"))
			fail_msg("shown: %s", error.line);
	}
}

static void config_knows_the_properties_that_are_secret(void **state)
{
	static const char *const secret[] = {"sasl.password", "ssl.key.password", "ssl.key.pem",
		"ssl.keystore.password", "sasl.oauthbearer.client.secret",
		"sasl.oauthbearer.config"};
	static const char *const plain[] = {"sasl.username", "ssl.ca.pem", "ssl.certificate.pem",
		"ssl.key.location", "security.protocol", "client.id"};

	(void)state;
	for (size_t i = 0; i < COUNT(secret); i++)
		assert_true(config_property_secret(secret[i]));
	for (size_t i = 0; i < COUNT(plain); i++)
		assert_false(config_property_secret(plain[i]));
}

static void config_refuses_too_many_or_malformed_properties(void **state)
{
	char *text = malloc(200000);
	size_t len = (size_t)sprintf(text, MIN_YAML "  properties:\n");

	(void)state;
	for (int i = 0; i < CONFIG_PROPERTIES_MAX; i++)
		len += (size_t)sprintf(text + len, "    p%d: v\n", i);
	accepts(text);
	assert_int_equal(config.n_properties, CONFIG_PROPERTIES_MAX);
	config_free(&config);
	sprintf(text + len, "    one.more: v\n");
	refuses(text, "t.yaml:101: kafka.properties: one.more: is one too many; at most 96 are "
		      "allowed");
	len = (size_t)sprintf(text, MIN_YAML "  properties:\n    a: ");
	memset(text + len, 'x', 40000);
	text[len + 40000] = '\0';
	refuses(text, "t.yaml:5: kafka.properties: a: is too long; at most 32768 bytes are "
		      "allowed");
	refuses(MIN_YAML "  properties: {a: 1, A: 2}\n",
		"t.yaml:4: kafka.properties: \"A\": is not the name of a property; they are made "
		"of small letters, digits and . _ -; write a");
	refuses(MIN_YAML "  properties: [a]\n",
		"t.yaml:4: kafka.properties: must be a map; write each property on a line of its "
		"own, as name: value");
	free(text);
}

static void config_quotes_what_is_not_the_name_of_a_property(void **state)
{
	static const char *const cases[][3] = {
		{"Security.Protocol", "\"Security.Protocol\"", "; write security.protocol"},
		{"sasl.password=hunter2", "\"sasl.password...\"", ""},
		{"' x'", "\"...\"", ""},
		{"''", "\"\"", ""},
	};
	char text[256], line[256];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		snprintf(text, sizeof(text), MIN_YAML "  properties:\n    a: b\n    %s: ssl\n",
			cases[i][0]);
		snprintf(line, sizeof(line),
			"t.yaml:6: kafka.properties: %s: is not the name of a property; they are "
			"made of small letters, digits and . _ -%s",
			cases[i][1], cases[i][2]);
		refuses(text, line);
	}
}

static void config_takes_brokers_without_a_port(void **state)
{
	(void)state;
	accepts("kafka:\n  brokers: localhost,b:9093\n  topic: t\n");
	assert_string_equal(config.brokers, "localhost,b:9093");
	config_free(&config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_says_where_and_what_to_do_when_it_refuses),
		cmocka_unit_test(config_refuses_a_nul_byte_in_the_file),
		cmocka_unit_test(config_reads_a_file_with_byte_order_mark_and_crlf),
		cmocka_unit_test(config_refuses_deep_nesting_quickly),
		cmocka_unit_test(config_keeps_the_line_short_when_the_file_is_absurd),
		cmocka_unit_test(config_refuses_options_that_contradict_each_other),
		cmocka_unit_test(config_bounds_agree_with_the_other_modules),
		cmocka_unit_test(config_keeps_properties_in_order),
		cmocka_unit_test(config_refuses_properties_that_tally_decides),
		cmocka_unit_test(config_names_real_options_when_it_refuses_a_property),
		cmocka_unit_test(config_never_shows_the_value_of_a_property),
		cmocka_unit_test(config_knows_the_properties_that_are_secret),
		cmocka_unit_test(config_refuses_too_many_or_malformed_properties),
		cmocka_unit_test(config_quotes_what_is_not_the_name_of_a_property),
		cmocka_unit_test(config_takes_brokers_without_a_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
