/*
 * test_group_conf.c - properties as librdkafka sees them: the line for what it refuses, and a word
 * about what has no use.
 */
#include <librdkafka/rdkafka.h>

#include "supervisor/group_conf.h"
#include "tests/unit/config_fixture.h"

static void reads(const char *properties)
{
	char text[1024];

	snprintf(text, sizeof(text), MIN_YAML "  properties:\n%s", properties);
	accepts(text);
}

/* The whole line after "t.yaml:". */
static void refuses_properties(const char *properties, const char *line)
{
	reads(properties);
	assert_int_equal(group_conf_check(&config, &error), ERR_INVALID);
	assert_memory_equal(error.line, "t.yaml:", 7);
	assert_string_equal(error.line + 7, line);
	config_free(&config);
}

static void group_conf_check_names_line_and_nearest_when_a_property_is_unknown(void **state)
{
	char line[256];

	(void)state;
	snprintf(line, sizeof(line),
		"6: kafka.properties: sasl.mechanisim: librdkafka %s has no such property; did you "
		"mean sasl.mechanism?",
		rd_kafka_version_str());
	refuses_properties("    client.rack: x\n    sasl.mechanisim: PLAIN\n", line);
	snprintf(line, sizeof(line),
		"5: kafka.properties: sasl.user.name: librdkafka %s has no such property; did you "
		"mean sasl.username?",
		rd_kafka_version_str());
	refuses_properties("    sasl.user.name: x\n", line); /* has no value of its own */
	snprintf(line, sizeof(line),
		"5: kafka.properties: no.such.thing: librdkafka %s has no such property; take it "
		"out",
		rd_kafka_version_str());
	refuses_properties("    no.such.thing: x\n", line);
}

static void group_conf_check_is_one_line_when_a_value_is_refused(void **state)
{
	(void)state;
	refuses_properties("    client.rack: x\n    socket.timeout.ms: -5\n",
		"6: kafka.properties: socket.timeout.ms: Configuration property "
		"\"socket.timeout.ms\" value -5 is outside allowed range 10..300000");
}

static void group_conf_check_refuses_a_refresh_of_metadata_that_is_off(void **state)
{
	static const char *const off[] = {"-1", "0", "00", "0x0", "\" -1\""};

	(void)state;
	for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
		char property[80];

		snprintf(property, sizeof(property), "    topic.metadata.refresh.interval.ms: %s\n",
			off[i]);
		refuses_properties(property,
			"5: kafka.properties: topic.metadata.refresh.interval.ms: must not be off; "
			"Tally depends on it, 30000 is good");
	}
}

static void group_conf_check_names_the_line_of_what_only_a_client_refuses(void **state)
{
	static const char bad[] = "7: kafka.properties: ssl.key.location: ";

	(void)state;
	refuses_properties("    security.protocol: sasl_ssl\n    sasl.mechanism: FOO\n",
		"6: kafka.properties: sasl.mechanism: Unsupported SASL mechanism: FOO");
	reads("    security.protocol: ssl\n    client.rack: x\n    ssl.key.location: /dev/null\n");
	assert_int_equal(group_conf_check(&config, &error), ERR_INVALID);
	assert_memory_equal(error.line + 7, bad, sizeof(bad) - 1);
	config_free(&config);
}

static void group_conf_check_opens_files_before_librdkafka_does(void **state)
{
	(void)state;
	refuses_properties("    security.protocol: ssl\n    ssl.ca.location: /nope\n",
		"6: kafka.properties: ssl.ca.location: cannot read /nope: No such file or "
		"directory; create it, or correct the path");
}

static void group_conf_check_shows_no_secret(void **state)
{
	(void)state;
	reads("    security.protocol: ssl\n    ssl.key.pem: hunter2\n");
	assert_int_equal(group_conf_check(&config, &error), ERR_INVALID);
	assert_memory_equal(error.line, "t.yaml:6: kafka.properties: ssl.key.pem: ", 41);
	assert_null(strstr(error.line, "hunter2"));
	config_free(&config);
}

static void group_conf_client_is_what_librdkafka_says(void **state)
{
	static const char *const producers[] = {"linger.ms", "queue.buffering.max.ms",
		"compression.type", "compression.codec", "compression.level", "batch.size",
		"batch.num.messages", "request.timeout.ms"};
	static const char *const consumers[] = {"fetch.wait.max.ms", "fetch.message.max.bytes",
		"queued.min.messages", "isolation.level", "group.id"};
	static const char *const all[] = {"client.id", "bootstrap.servers", "sasl.password",
		"ssl.ca.location", "debug", "max.in.flight", "message.max.bytes", "no.such.thing",
		"linger", ""};

	(void)state;
	for (size_t i = 0; i < sizeof(producers) / sizeof(producers[0]); i++)
		assert_int_equal(group_conf_client(producers[i]), FOR_PRODUCERS);
	for (size_t i = 0; i < sizeof(consumers) / sizeof(consumers[0]); i++)
		assert_int_equal(group_conf_client(consumers[i]), FOR_CONSUMERS);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		assert_int_equal(group_conf_client(all[i]), FOR_ALL_CLIENTS);
}

static void group_conf_leaves_out_what_is_for_producers(void **state)
{
	char value[32], why[512];
	size_t size = sizeof(value);

	(void)state;
	reads("    linger.ms: 77\n    compression.type: lz4\n    fetch.wait.max.ms: 77\n"
	      "    max.in.flight: 1000\n");
	assert_int_equal(group_conf_check(&config, &error), 0);
	rd_kafka_conf_t *conf = group_conf(&config, why);
	assert_non_null(conf);
	assert_int_equal(rd_kafka_conf_get(conf, "linger.ms", value, &size), RD_KAFKA_CONF_OK);
	assert_string_equal(value, "5");
	size = sizeof(value);
	assert_int_equal(
		rd_kafka_conf_get(conf, "fetch.wait.max.ms", value, &size), RD_KAFKA_CONF_OK);
	assert_string_equal(value, "77");
	rd_kafka_conf_destroy(conf);
	config_free(&config);
}

static void group_conf_check_finds_what_only_a_producer_would_refuse(void **state)
{
	(void)state;
	refuses_properties("    client.rack: x\n    linger.ms: 900001\n",
		"6: kafka.properties: linger.ms: Configuration property \"queue.buffering.max.ms\" "
		"value "
		"900001 is outside allowed range 0..900000");
	refuses_properties("    compression.type: brotli\n",
		"5: kafka.properties: compression.type: Invalid value \"brotli\" for "
		"configuration property \"compression.codec\"");
}

static char said[256];

static void note(const char *property, const char *protocol, const char *instead)
{
	size_t len = strlen(said);

	snprintf(said + len, sizeof(said) - len, "%s %s %s\n", property, protocol, instead);
}

static void has_no_use(const char *properties, const char *expected)
{
	reads(properties);
	said[0] = '\0';
	group_conf_unused(&config, note);
	assert_string_equal(said, expected);
	config_free(&config);
}

static void group_conf_unused_names_what_the_protocol_leaves_without_use(void **state)
{
	(void)state;
	has_no_use("    sasl.mechanism: PLAIN\n    sasl.username: x\n",
		"sasl.mechanism plaintext sasl_ssl\n");
	has_no_use("    ssl.ca.location: x\n    security.protocol: PLAINTEXT\n",
		"ssl.ca.location plaintext ssl\n");
	has_no_use("    ssl.ca.location: x\n    sasl.username: x\n",
		"sasl.username plaintext sasl_ssl\nssl.ca.location plaintext sasl_ssl\n");
	has_no_use("    ssl.ca.location: x\n    security.protocol: sasl_plaintext\n",
		"ssl.ca.location sasl_plaintext sasl_ssl\n");
	has_no_use("    ssl.ca.location: x\n    security.protocol: ssl\n    sasl.username: x\n",
		"sasl.username ssl sasl_ssl\n");
}

static void group_conf_unused_is_silent_when_all_is_used(void **state)
{
	(void)state;
	has_no_use("    client.rack: x\n", "");
	has_no_use("    ssl.ca.location: x\n    security.protocol: SSL\n", "");
	has_no_use("    sasl.username: x\n    security.protocol: sasl_plaintext\n", "");
	has_no_use("    sasl.username: x\n    ssl.ca.location: x\n    security.protocol: "
		   "sasl_ssl\n",
		"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			group_conf_check_names_line_and_nearest_when_a_property_is_unknown),
		cmocka_unit_test(group_conf_check_is_one_line_when_a_value_is_refused),
		cmocka_unit_test(group_conf_check_refuses_a_refresh_of_metadata_that_is_off),
		cmocka_unit_test(group_conf_check_names_the_line_of_what_only_a_client_refuses),
		cmocka_unit_test(group_conf_check_opens_files_before_librdkafka_does),
		cmocka_unit_test(group_conf_check_shows_no_secret),
		cmocka_unit_test(group_conf_client_is_what_librdkafka_says),
		cmocka_unit_test(group_conf_leaves_out_what_is_for_producers),
		cmocka_unit_test(group_conf_check_finds_what_only_a_producer_would_refuse),
		cmocka_unit_test(group_conf_unused_names_what_the_protocol_leaves_without_use),
		cmocka_unit_test(group_conf_unused_is_silent_when_all_is_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
