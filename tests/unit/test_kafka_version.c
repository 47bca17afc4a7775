/*
 * test_kafka_version.c - what a version of librdkafka lacks, and that --version says it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <librdkafka/rdkafka.h>

#include "supervisor/kafka_version.h"
#include "tests/unit/config_fixture.h"

/* The words of what 0xMMmmrrpp lacks, each with a blank after it. */
static const char *lacks(int version)
{
	static char text[1024];
	size_t n, len = 0;
	const struct kafka_gap *gaps = kafka_gaps(&n);

	text[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		if (kafka_gap_holds(&gaps[i], version))
			len += (size_t)snprintf(
				text + len, sizeof(text) - len, "%s ", gaps[i].word);
	}
	return text;
}

static void kafka_version_knows_what_each_version_lacks(void **state)
{
	(void)state;
	assert_string_equal(lacks(0x020002ff),
		"leader_epochs fetch_backoff reauthentication unsecured_tokens close_before_assign "
		"producer_desync assign_while_closing sticky_loop scram_nonce forget_brokers "
		"gssapi_join_v0 leave_without_coordinator ");
	assert_string_equal(
		lacks(0x020800ff), "forget_brokers gssapi_join_v0 leave_without_coordinator ");
	assert_string_equal(lacks(0x020f00ff), "");
}

static void kafka_version_lacks_end_with_the_release_that_has_it(void **state)
{
	(void)state;
	assert_non_null(strstr(lacks(0x020601ff - 0x100), "sticky_loop"));
	assert_null(strstr(lacks(0x020601ff), "sticky_loop"));
	assert_null(strstr(lacks(0x02060101), "sticky_loop"));
	assert_null(strstr(lacks(0x0204ffff), "telemetry_abort"));
	assert_non_null(strstr(lacks(0x020500ff), "telemetry_abort"));
	assert_null(strstr(lacks(0x020503ff), "telemetry_abort"));
}

static void kafka_version_print_says_library_features_and_every_gap(void **state)
{
	char *text = NULL;
	size_t size, n, lines = 0, expected = 3;
	const struct kafka_gap *gaps = kafka_gaps(&n);
	FILE *out = open_memstream(&text, &size);

	(void)state;
	assert_non_null(out);
	kafka_version_print(out);
	assert_int_equal(fclose(out), 0);
	for (size_t i = 0; i < n; i++)
		expected += kafka_gap_holds(&gaps[i], rd_kafka_version());
	for (const char *s = text; (s = strchr(s, '\n')); s++)
		lines++;
	assert_int_equal(lines, expected);
	assert_memory_equal(text, "tallyd ", 7);
	assert_non_null(strstr(text, rd_kafka_version_str()));
	assert_non_null(strstr(text, "\nfeatures: "));
	free(text);
}

static const struct kafka_gap *gap_of(const char *mechanism, int version)
{
	const struct kafka_gap *gap;
	char text[256];

	snprintf(text, sizeof(text), MIN_YAML "  properties: {%s}\n", mechanism);
	accepts(text);
	gap = kafka_gap_of_mechanism(&config, version);
	config_free(&config);
	return gap;
}

static void kafka_version_warns_of_scram_until_2_6_1(void **state)
{
	const struct kafka_gap *gap = gap_of("sasl.mechanism: SCRAM-SHA-512", 0x020002ff);

	(void)state;
	assert_non_null(gap);
	assert_int_equal(gap->until, 0x020601);
	assert_non_null(gap_of("sasl.mechanisms: scram-sha-256", 0x020600ff));
	assert_null(gap_of("sasl.mechanism: SCRAM-SHA-512", 0x020601ff));
	assert_null(gap_of("sasl.mechanism: PLAIN", 0x020002ff));
	assert_null(gap_of("client.rack: SCRAM-SHA-512", 0x020002ff));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kafka_version_knows_what_each_version_lacks),
		cmocka_unit_test(kafka_version_lacks_end_with_the_release_that_has_it),
		cmocka_unit_test(kafka_version_print_says_library_features_and_every_gap),
		cmocka_unit_test(kafka_version_warns_of_scram_until_2_6_1),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
