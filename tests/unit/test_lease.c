/*
 * test_lease.c - the last sign of the coordinator, out of librdkafka's statistics.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "supervisor/lease.h"

#define US	   UINT64_C(1000)
#define SESSION_MS 45000

/* As librdkafka 2.0.2 writes it, with the parts that do not matter cut shorter. */
static const char document[] =
	"{ \"name\": \"tally#consumer-1\", \"client_id\": \"tally\", \"type\": \"consumer\", "
	"\"ts\":%s, \"time\":1796099735, \"age\":6500000, \"replyq\":0, \"msg_cnt\":0, "
	"\"msg_size\":0, \"metadata_cache_cnt\":1, "
	"\"brokers\":{ \"127.0.0.1:36523/1\": { \"name\":\"127.0.0.1:36523/1\", \"nodeid\":1, "
	"\"source\":\"configured\", \"state\":\"UP\", \"stateage\":6400000, \"waitresp_cnt\":0, "
	"\"tx\":3, \"txidle\":77, \"rx\":3, \"rxidle\":33, \"rtt\":{ \"min\":0, \"max\":0 }, "
	"\"toppars\":{ } } , \"GroupCoordinator\": { \"name\":\"GroupCoordinator\", "
	"\"nodeid\":1, \"nodename\":\"127.0.0.1:36523\", \"source\":\"logical\", "
	"\"state\":\"%s\", \"stateage\":6300000, \"outbuf_cnt\":0, \"waitresp_cnt\":%s, "
	"\"tx\":8, \"txbytes\":601, \"txerrs\":0, \"txidle\":%s, \"rx\":8, \"rxbytes\":1210, "
	"\"rxidle\":%s, \"req\": { \"JoinGroup\":1, \"Heartbeat\":2, \"SyncGroup\":1, "
	"\"ApiVersion\":2 }, \"toppars\":{ } } }, \"topics\":{%s}, "
	"\"cgrp\": { \"state\": \"up\", \"stateage\": 6489, \"join_state\": \"%s\", "
	"\"rebalance_age\": 3487, \"rebalance_cnt\": 1, \"rebalance_reason\": \"Metadata for "
	"subscribed topic(s) has changed\", \"assignment_size\": 4 } , \"tx\":8, \"rx\":8 }";

/* A partition as librdkafka tells of it, with what could mislead who looks for its end. */
#define TOPICS                                                                                     \
	" \"tally\": { \"topic\":\"ta}lly\\\"{\", \"partitions\":{ \"0\": { \"partition\":0, "     \
	"\"fetch_state\":\"active\" } , \"-1\": { \"partition\":-1 } } } "

struct sample {
	const char *ts, *state, *waiting, *txidle, *rxidle, *join;
};

static const struct sample steady = {"2103593548", "UP", "0", "484422", "484423", "steady"};

static size_t print(char json[4096], const struct sample *s)
{
	int n = snprintf(json, 4096, document, s->ts, s->state, s->waiting, s->txidle, s->rxidle,
		TOPICS, s->join);
	assert_in_range(n, 100, 4095);
	return (size_t)n;
}

/* The contact in us, or -1. */
static int64_t contact_of(const struct sample *s)
{
	char json[4096];
	uint64_t ns = 0;
	bool joining;
	size_t len = print(json, s);
	if (!lease_contact(json, len, SESSION_MS, &ns, &joining))
		return -1;
	assert_int_equal(ns % US, 0);
	return (int64_t)(ns / US);
}

static void lease_takes_the_last_response_of_the_coordinator(void **state)
{
	struct sample s = steady;
	(void)state;
	assert_int_equal(contact_of(&s), 2103593548 - 484423);
	s.txidle = "3";
	s.rxidle = "0";
	assert_int_equal(contact_of(&s), 2103593548 - 3);
}

/* The answer may have been long on its way: the request tells when the broker saw us at the
 * earliest. */
static void lease_takes_the_request_when_all_are_answered(void **state)
{
	struct sample s = steady;
	(void)state;
	s.txidle = "900000";
	assert_int_equal(contact_of(&s), 2103593548 - 900000);
}

/* The response heard last may belong to a request of any age; the next one may never arrive. */
static void lease_knows_no_contact_when_a_request_is_unanswered(void **state)
{
	struct sample s = steady;
	(void)state;
	s.waiting = "1";
	s.txidle = "3";
	assert_int_equal(contact_of(&s), -1);
	s.txidle = "20000000";
	s.rxidle = "0";
	assert_int_equal(contact_of(&s), -1);
}

/* A silent end is noticed within half a session: so old the contact may be. */
static void lease_takes_half_a_session_ago_when_the_member_is_joining(void **state)
{
	struct sample s = steady;
	(void)state;
	s.rxidle = s.txidle = "25000000";
	s.waiting = "1";
	s.join = "wait-join";
	assert_int_equal(contact_of(&s), 2103593548 - 22500000);
	s.join = "wait-sync";
	assert_int_equal(contact_of(&s), 2103593548 - 22500000);
	s.waiting = "0";
	static const char *const others[] = {"init", "wait-metadata", "wait-assign-call",
		"wait-unassign-call", "wait-unassign-to-complete", "steady", ""};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		s.join = others[i];
		assert_int_equal(contact_of(&s), 2103593548 - 25000000);
	}
	s.join = "wait-join";
	s.state = "DOWN";
	assert_int_equal(contact_of(&s), -1);
}

static void lease_knows_no_contact_when_the_coordinator_is_not_up(void **state)
{
	static const char *const down[] = {"DOWN", "INIT", "TRY_CONNECT", "CONNECT",
		"APIVERSION_QUERY", "AUTH_HANDSHAKE", "UPDATE", "up", "", "UPX"};
	struct sample s = steady;
	(void)state;
	for (size_t i = 0; i < sizeof down / sizeof *down; i++) {
		s.state = down[i];
		assert_int_equal(contact_of(&s), -1);
	}
}

static void lease_knows_no_contact_when_a_number_makes_no_sense(void **state)
{
	static const char *const bad[] = {"-1", "-9223372036854775808", "2103593549",
		"9223372036854775807", "\"484423\"", "1.5", "null", "true", "[1]", "{}"};
	struct sample s = steady;
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		s = steady;
		s.rxidle = bad[i]; /* -1 is what librdkafka writes for "never" */
		s.txidle = "0";
		assert_int_equal(contact_of(&s), -1);
	}
	static const char *const never[] = {"0", "-5", "484422", "\"2103593548\"", "null", "1e9"};
	for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
		s = steady;
		s.ts = never[i];
		assert_int_equal(contact_of(&s), -1);
	}
	s = steady;
	s.txidle = "9223372036854775807";
	assert_int_equal(contact_of(&s), -1);
}

/* Renames a key: as good as missing. */
static void lease_knows_no_contact_when_a_field_is_missing(void **state)
{
	static const char *const needed[] = {"\"ts\"", "\"brokers\"", "\"GroupCoordinator\": {"};
	char json[4096];
	uint64_t ns;
	bool joining;
	(void)state;
	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
		size_t len = print(json, &steady);
		strstr(json, needed[i])[1] = 'X';
		assert_false(lease_contact(json, len, SESSION_MS, &ns, &joining));
	}
	static const char *const inner[] = {"\"state\"", "\"rxidle\""};
	for (size_t i = 0; i < sizeof inner / sizeof *inner; i++) {
		size_t len = print(json, &steady);
		strstr(strstr(json, "\"GroupCoordinator\": {"), inner[i])[1] = 'X';
		assert_false(lease_contact(json, len, SESSION_MS, &ns, &joining));
	}
	/* Without these the response is still known. */
	static const char *const spare[] = {"\"waitresp_cnt\"", "\"txidle\"", "\"cgrp\""};
	for (size_t i = 0; i < sizeof spare / sizeof *spare; i++) {
		size_t len = print(json, &steady);
		strstr(strstr(json, "\"GroupCoordinator\": {"), spare[i])[1] = 'X';
		assert_true(lease_contact(json, len, SESSION_MS, &ns, &joining));
		assert_int_equal(ns, (2103593548 - 484423) * US);
	}
}

static void lease_knows_no_contact_when_it_is_not_json(void **state)
{
	static const char *const bad[] = {"", "{", "[]", "null", "1", "\"ts\"", "{\"ts\":}",
		"{\"brokers\":[]}", "{\"ts\":1,\"brokers\":{\"GroupCoordinator\":[]}}",
		"{\"ts\":1,\"brokers\":{\"GroupCoordinator\":\"UP\"}}", "\xff\xfe", "nonsense"};
	char json[4096];
	uint64_t ns;
	bool joining;
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(lease_contact(bad[i], strlen(bad[i]), SESSION_MS, &ns, &joining));
	size_t len = print(json, &steady);
	for (size_t n = 0; n < len; n++) {
		char *exact = malloc(n + 1); /* a sanitizer sees one byte too many */
		memcpy(exact, json, n);
		assert_false(lease_contact(exact, n, SESSION_MS, &ns, &joining));
		free(exact);
	}
}

/* Never in the future, whatever is in the document. */
static void lease_is_never_after_the_document_when_bytes_are_garbled(void **state)
{
	uint64_t seed = 88172645463325252u, ns;
	bool joining;
	char json[4096];
	unsigned known = 0;
	(void)state;
	for (int i = 0; i < 20000; i++) {
		size_t len = print(json, &steady);
		for (int n = i % 4; n >= 0; n--) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			size_t at = seed % len;
			if (at < 60 || at > 110) /* not the time itself */
				json[at] = (char)(seed >> 32);
		}
		if (!lease_contact(json, len, SESSION_MS, &ns, &joining))
			continue;
		known++;
		assert_true(ns <= 2103593548 * US);
	}
	assert_true(known > 100);
}

static void lease_runs_a_session_less_what_may_have_passed(void **state)
{
	struct lease_terms terms = {.session_ms = 45000, .heartbeat_ms = 3000, .commit_ms = 5000};
	(void)state;
	assert_int_equal(lease_until(1000, &terms), 1000 + UINT64_C(37000) * 1000000);
	assert_int_equal(lease_until(0, &terms), UINT64_C(37000) * 1000000);
	terms.commit_ms = 41999;
	assert_int_equal(lease_until(7, &terms), 7 + 1000000);
	terms.commit_ms = 42000;
	assert_int_equal(lease_until(7, &terms), 0);
	terms.commit_ms = UINT32_MAX;
	terms.heartbeat_ms = UINT32_MAX;
	assert_int_equal(lease_until(7, &terms), 0);
	terms = (struct lease_terms){UINT32_MAX, 0, 0};
	assert_int_equal(lease_until(7, &terms), 7 + UINT64_C(4294967295) * 1000000);
}

/* Seed 309 of tests/fault: frozen for 7 s with a session of 6 s, and another had the partitions. */
static void lease_is_not_prolonged_by_a_join_when_the_session_may_be_over(void **state)
{
	const uint64_t second = UINT64_C(1000000000), session = 6 * second, interval = second / 2;
	const uint64_t now = 100 * second;
	struct lease_past lives = {now - interval, now - 2 * second, true};
	struct lease_past frozen = {now - 7 * second, now - 7 * second, true};
	struct lease_past thawed = {now - interval, now - 8 * second, true};
	struct lease_past new_member = {now - interval, 0, false};
	(void)state;
	assert_true(lease_join_counts(&lives, now, interval, session));
	assert_false(lease_join_counts(&frozen, now, interval, session));
	assert_false(lease_join_counts(&thawed, now, interval, session));
	thawed.contact = now - session;
	assert_false(lease_join_counts(&thawed, now, interval, session));
	thawed.contact = now - session + 1;
	assert_true(lease_join_counts(&thawed, now, interval, session));
	assert_true(lease_join_counts(&new_member, now, interval, session));
	new_member.document = 0;
	assert_false(lease_join_counts(&new_member, now, interval, session));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lease_takes_the_last_response_of_the_coordinator),
		cmocka_unit_test(lease_takes_the_request_when_all_are_answered),
		cmocka_unit_test(lease_takes_half_a_session_ago_when_the_member_is_joining),
		cmocka_unit_test(lease_knows_no_contact_when_a_request_is_unanswered),
		cmocka_unit_test(lease_knows_no_contact_when_the_coordinator_is_not_up),
		cmocka_unit_test(lease_knows_no_contact_when_a_number_makes_no_sense),
		cmocka_unit_test(lease_knows_no_contact_when_a_field_is_missing),
		cmocka_unit_test(lease_knows_no_contact_when_it_is_not_json),
		cmocka_unit_test(lease_is_never_after_the_document_when_bytes_are_garbled),
		cmocka_unit_test(lease_is_not_prolonged_by_a_join_when_the_session_may_be_over),
		cmocka_unit_test(lease_runs_a_session_less_what_may_have_passed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
