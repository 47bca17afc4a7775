/*
 * test_queryd.c - the query process's pure parts: metrics text, fields, totals, connection lists.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/queryd/conns.h"
#include "tools/queryd/fields.h"
#include "tools/queryd/metrics_table.h"
#include "tools/queryd/prom.h"
#include "tools/queryd/totals.h"

/* --- metrics text -------------------------------------------------------------------------------
 */

static void prom_escapes_what_would_end_a_label(void **state)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	prom_head(out, "m", "gauge", "a\\b\nc \"d\"");
	prom_count(out, "m", PROM_LABELS("tenant", "q\"b\\n\nz{},="), UINT64_MAX);
	prom_sample(out, "m", NULL, "1.5");
	fclose(out);
	assert_string_equal(text, "# HELP m a\\\\b\\nc \"d\"\n"
				  "# TYPE m gauge\n"
				  "m{tenant=\"q\\\"b\\\\n\\nz{},=\"} 18446744073709551615\n"
				  "m 1.5\n");
	free(text);
}

/* A name with what moves a cursor, or is no UTF-8; and no two names are written alike. */
static void prom_writes_controls_in_hexadecimal(void **state)
{
	static const char *const cases[][2] = {
		{"plain \xc3\xa9\xe2\x82\xac", "plain \xc3\xa9\xe2\x82\xac"},
		{"back\\slash", "back\\\\slash"},
		{"esc\x1b[31m\\", "esc\\\\x1b[31m\\\\x5c"},
		{"esc\\x1b[31m", "esc\\\\x5cx1b[31m"},
		{"c1\xc2\x9b\xc2\xa0", "c1\\\\xc2\\\\x9b\xc2\xa0"},
		{"odd\xff\xc3\xa9\"", "odd\\\\xff\\\\xc3\\\\xa9\\\""},
		{"line\n\r", "line\\n\\\\x0d"},
		{"del\x7f", "del\\\\x7f"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = NULL, expected[128];
		size_t len;
		FILE *out = open_memstream(&text, &len);

		prom_count(out, "m", PROM_LABELS("t", cases[i][0]), 1);
		fclose(out);
		snprintf(expected, sizeof(expected), "m{t=\"%s\"} 1\n", cases[i][1]);
		assert_string_equal(text, expected);
		free(text);
	}
}

/* --- metrics ------------------------------------------------------------------------------------
 */

static void metrics_are_told_by_what_they_are(void **state)
{
	static const char *const types[] = {"gauge", "counter", "histogram"};
	size_t n;
	const struct metric *table = metrics_table(&n);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(table[i].name), known = 0;
		bool total = len > 6 && strcmp(table[i].name + len - 6, "_total") == 0;

		if (table[i].help[0] == '\0' || table[i].help[strlen(table[i].help) - 1] != '.')
			fail_msg("%s: no sentence", table[i].name);
		if (table[i].type == NULL)
			continue;
		for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
			known += strcmp(table[i].type, types[t]) == 0;
		assert_int_equal(known, 1);
		if (total != (strcmp(table[i].type, "counter") == 0))
			fail_msg("%s is a %s", table[i].name, table[i].type);
		if (strstr(table[i].name, "_bytes") != NULL &&
			strncmp(table[i].unit, "bytes", 5) != 0)
			fail_msg("%s in %s", table[i].name, table[i].unit);
		if (metrics_find(table[i].name) != &table[i])
			fail_msg("twice: %s", table[i].name);
	}
	assert_null(metrics_find("tally_nothing"));
	assert_null(metrics_find("gRPC")); /* a heading */
}

/* --- fields -------------------------------------------------------------------------------------
 */

static const struct field *field_named(const char *name)
{
	size_t n;
	const struct field *fields = fields_of_partition(&n);

	for (size_t i = 0; i < n; i++)
		if (strcmp(fields[i].name, name) == 0)
			return &fields[i];
	fail_msg("no field %s", name);
	return NULL;
}

static void fields_give_no_sample_for_what_is_not_known(void **state)
{
	struct tally_partition partition = {.lag = -1,
		.eta_ms = 2500,
		.ready_at_ms = 0,
		.commit_ns_max = 1500000,
		.records = UINT64_MAX,
		.progress = 0.25,
		.lease_ms = -20};
	char text[40];

	(void)state;
	assert_false(field_to_sample(field_named("lag"), &partition, text));
	assert_false(field_to_sample(field_named("ready_at_ms"), &partition, text));
	assert_true(field_to_sample(field_named("eta_ms"), &partition, text));
	assert_string_equal(text, "2.5");
	assert_true(field_to_sample(field_named("lease_ms"), &partition, text));
	assert_string_equal(text, "-0.02");
	assert_true(field_to_sample(field_named("commit_ns_max"), &partition, text));
	assert_string_equal(text, "0.0015");
	assert_true(field_to_sample(field_named("records"), &partition, text));
	assert_string_equal(text, "18446744073709551615");
	assert_true(field_to_sample(field_named("progress"), &partition, text));
	assert_string_equal(text, "0.25");
}

static void fields_keep_large_numbers_whole_in_json(void **state)
{
	struct tally_partition partition = {.generation = (UINT64_C(1) << 60) - 1,
		.records = UINT64_MAX,
		.lag = -1,
		.state = "ready"};
	json_t *json = json_object();

	(void)state;
	field_to_json(field_named("generation"), &partition, json);
	field_to_json(field_named("records"), &partition, json);
	field_to_json(field_named("lag"), &partition, json);
	field_to_json(field_named("state"), &partition, json);
	assert_string_equal(
		json_string_value(json_object_get(json, "generation")), "1152921504606846975");
	assert_true(json_integer_value(json_object_get(json, "records")) == INT64_MAX);
	assert_true(json_is_null(json_object_get(json, "lag")));
	assert_string_equal(json_string_value(json_object_get(json, "state")), "ready");
	json_decref(json);
}

static void fields_know_which_come_from_stats(void **state)
{
	size_t n;

	(void)state;
	assert_false(field_from_stats(field_named("lease_ms")));
	assert_false(field_from_stats(field_named("has_stats")));
	assert_true(field_from_stats(field_named("phase")));
	assert_true(field_from_stats(field_named("lookup_errors")));
	assert_false(field_from_stats(&fields_of_instance(&n)[0]));
}

/* --- totals -------------------------------------------------------------------------------------
 */

static unsigned reason(const char *name)
{
	for (unsigned i = 0; tally_skip_reason(i) != NULL; i++)
		if (strcmp(tally_skip_reason(i), name) == 0)
			return i;
	fail_msg("no reason %s", name);
	return 0;
}

static void totals_never_fall_when_a_partition_leaves(void **state)
{
	struct tally_instance instance = {.started_at_ms = 5000};
	struct tally_partition p[2] = {
		{.partition = 0,
			.generation = 5000001,
			.has_stats = 1,
			.replay_started_at_ms = 6000,
			.records = 100},
		{.partition = 700,
			.generation = 5000002,
			.has_stats = 1,
			.replay_started_at_ms = 6000,
			.records = 10},
	};
	struct totals *totals = totals_new(5500);
	struct totals_sum sum;

	(void)state;
	totals_update(totals, &instance, p, 2);
	totals_sum(totals, &sum);
	assert_int_equal(sum.records, 110);
	totals_update(totals, &instance, p, 1); /* 700 has left */
	p[0].records = 130;
	totals_update(totals, &instance, p, 2);
	totals_sum(totals, &sum);
	assert_int_equal(sum.records, 140); /* ... and is back with what it had: counted once */
	p[1].generation = 5000003;
	p[1].records = 5; /* a new life: counted anew */
	totals_update(totals, &instance, p, 2);
	p[0].records = 0; /* a worker that starts */
	totals_update(totals, &instance, p, 2);
	totals_sum(totals, &sum);
	assert_int_equal(sum.records, 145);
	p[0].records = 131;
	totals_update(totals, &instance, p, 2);
	totals_sum(totals, &sum);
	assert_int_equal(sum.records, 146);
	totals_free(&totals);
}

/* Else a counter that was at 1000, and starts at 900, would be taken for 900 more. */
static void totals_start_at_0_with_what_was_counted_before(void **state)
{
	struct tally_instance instance = {.started_at_ms = 5000};
	struct tally_partition p[4] = {
		/* tallyd has adopted it */
		{.generation = 3000001, .replay_started_at_ms = 6000},
		/* it ran before this process did */
		{.generation = 5000001, .replay_started_at_ms = 5400},
		/* it is new */
		{.generation = 5000002, .replay_started_at_ms = 6000},
		/* its worker has not begun: adopted or new, as it will turn out */
		{.generation = 3000002, .replay_started_at_ms = 0},
	};
	struct totals *totals = totals_new(5500);
	struct totals_sum sum;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		p[i].partition = i;
		p[i].has_stats = 1;
		p[i].records = p[i].sent = 900;
	}
	totals_update(totals, &instance, p, 4);
	totals_sum(totals, &sum);
	assert_int_equal(sum.records, 900);
	assert_int_equal(sum.sent, 900);
	for (unsigned i = 0; i < 4; i++) {
		p[i].replay_started_at_ms = 6000;
		p[i].records += 1;
	}
	totals_update(totals, &instance, p, 4);
	for (unsigned i = 0; i < 4; i++)
		p[i].records += 1;
	totals_update(totals, &instance, p, 4);
	totals_sum(totals, &sum);
	assert_int_equal(sum.records, 900 + 4 + 3);
	totals_free(&totals);
}

static void totals_have_the_lag_of_what_was_read(void **state)
{
	struct tally_instance instance = {0};
	struct tally_partition p = {
		.generation = 1, .has_stats = 1, .replay_started_at_ms = 1, .record_lag_ms = 125};
	struct totals *totals = totals_new(0);
	struct totals_sum sum;

	(void)state;
	totals_update(totals, &instance, &p, 1); /* nothing was read */
	p.records = 10;
	totals_update(totals, &instance, &p, 1);
	totals_update(totals, &instance, &p, 1);
	p.records = 11;
	p.record_lag_ms = 126;
	totals_update(totals, &instance, &p, 1);
	p.records = 12;
	p.record_lag_ms = 20000000;
	totals_update(totals, &instance, &p, 1);
	totals_sum(totals, &sum);
	assert_int_equal(sum.lags[0], 1);
	assert_int_equal(sum.lags[1], 1);
	assert_int_equal(sum.lags[TOTALS_LAGS], 1);
	assert_int_equal(sum.lag_ms, 125 + 126 + 20000000);
	assert_int_equal(totals_lag_ms(TOTALS_LAGS - 1), 16384000);
	totals_free(&totals);
}

static void totals_tell_invalid_from_discarded(void **state)
{
	struct tally_instance instance = {0};
	struct tally_partition p = {.generation = 1, .has_stats = 1, .replay_started_at_ms = 1};
	struct totals *totals = totals_new(0);
	struct totals_sum sum;

	(void)state;
	p.skipped[reason("applied")] = 1000;
	p.skipped[reason("undecodable")] = 1;
	p.skipped[reason("no_metadata")] = 2;
	p.skipped[reason("no_tenant")] = 4;
	p.skipped[reason("too_old")] = 8;
	p.skipped[reason("own")] = 16;
	totals_update(totals, &instance, &p, 1);
	totals_sum(totals, &sum);
	assert_int_equal(sum.invalid, 7);
	assert_int_equal(sum.discarded, 24);
	totals_free(&totals);
}

/* --- connections --------------------------------------------------------------------------------
 */

struct pair {
	int ours, theirs;
	struct conn *conn;
};

static void pair_open(struct conns *conns, struct pair *pair, uint64_t now_ns)
{
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	pair->ours = fd[0];
	pair->theirs = fd[1];
	pair->conn = conns_add(conns, pair->ours, now_ns);
	assert_non_null(pair->conn);
}

static void pair_close(struct conns *conns, struct pair *pair)
{
	conns_remove(conns, pair->conn);
	close(pair->ours);
	close(pair->theirs);
}

static bool ended(const struct pair *pair)
{
	char byte;

	return recv(pair->theirs, &byte, 1, MSG_DONTWAIT) == 0;
}

static void conns_end_the_oldest_without_a_request(void **state)
{
	const struct conns_limits limits = {.many = 3, .waiting_ns = 100, .asking_ns = 100};
	struct conns *conns = conns_new(&limits);
	struct conns_facts facts;
	struct pair p[5];

	(void)state;
	for (int i = 0; i < 3; i++)
		pair_open(conns, &p[i], (uint64_t)i);
	conns_asking(conns, p[0].conn, 3); /* the oldest, but it waits for its answer */
	pair_open(conns, &p[3], 4);
	assert_false(ended(&p[0]));
	assert_true(ended(&p[1]));
	assert_false(ended(&p[2]));
	conns_answered(conns, p[0].conn, 5); /* now the youngest */
	pair_open(conns, &p[4], 6);
	assert_false(ended(&p[0]));
	assert_true(ended(&p[2]));
	conns_facts(conns, &facts);
	assert_int_equal(facts.open, 5);
	assert_int_equal(facts.ended_for_room, 2);
	for (int i = 0; i < 5; i++)
		pair_close(conns, &p[i]);
	conns_facts(conns, &facts);
	assert_int_equal(facts.open, 0);
	assert_int_equal(facts.asking, 0);
	conns_free(&conns);
}

static void conns_end_what_is_past_its_deadline(void **state)
{
	const struct conns_limits limits = {.many = 100, .waiting_ns = 50, .asking_ns = 200};
	struct conns *conns = conns_new(&limits);
	struct conns_facts facts;
	struct pair p[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		pair_open(conns, &p[i], 1000 + (uint64_t)i * 40);
	conns_asking(conns, p[1].conn, 1040);
	conns_expire(conns, 1051);
	assert_true(ended(&p[0]));
	assert_false(ended(&p[1]));
	assert_false(ended(&p[2]));
	conns_expire(conns, 1241);
	assert_true(ended(&p[1]));
	assert_true(ended(&p[2]));
	conns_answered(conns, p[1].conn, 1250); /* its thread finds out later */
	conns_facts(conns, &facts);
	assert_int_equal(facts.ended_late, 3);
	assert_int_equal(facts.asking, 0);
	for (int i = 0; i < 3; i++)
		pair_close(conns, &p[i]);
	conns_free(&conns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prom_escapes_what_would_end_a_label),
		cmocka_unit_test(prom_writes_controls_in_hexadecimal),
		cmocka_unit_test(metrics_are_told_by_what_they_are),
		cmocka_unit_test(fields_give_no_sample_for_what_is_not_known),
		cmocka_unit_test(fields_keep_large_numbers_whole_in_json),
		cmocka_unit_test(fields_know_which_come_from_stats),
		cmocka_unit_test(totals_never_fall_when_a_partition_leaves),
		cmocka_unit_test(totals_start_at_0_with_what_was_counted_before),
		cmocka_unit_test(totals_have_the_lag_of_what_was_read),
		cmocka_unit_test(totals_tell_invalid_from_discarded),
		cmocka_unit_test(conns_end_the_oldest_without_a_request),
		cmocka_unit_test(conns_end_what_is_past_its_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
