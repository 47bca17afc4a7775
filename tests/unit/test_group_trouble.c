/*
 * test_group_trouble.c - what errors of the Kafka client are called, and how often they are said.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "supervisor/group_trouble.h"

static struct config config = {.topic = "t", .group = "g"};
static struct trouble trouble;
static int saved_stderr;
static FILE *lines;

static int setup(void **state)
{
	(void)state;
	log_init("supervisor", -1, LOG_LEVEL_INFO);
	trouble_init(&trouble, &config);
	lines = tmpfile();
	assert_non_null(lines);
	saved_stderr = dup(STDERR_FILENO);
	dup2(fileno(lines), STDERR_FILENO);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	fclose(lines);
	return 0;
}

/* How many lines were logged that have `text`. */
static int said(const char *text)
{
	char line[2048];
	int n = 0;
	rewind(lines);
	while (fgets(line, sizeof line, lines))
		n += strstr(line, text) != NULL;
	return n;
}

static enum group_state down(void)
{
	return trouble_error(&trouble, RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, "2/2 brokers are down");
}

static void trouble_calls_it_no_broker_when_nobody_listens(void **state)
{
	(void)state;
	assert_int_equal(
		trouble_error(&trouble, RD_KAFKA_RESP_ERR__TRANSPORT, "Connection refused"),
		GROUP_STATES);
	assert_int_equal(down(), GROUP_NO_BROKER);
	assert_int_equal(said("warn group.error"), 1);
	assert_int_equal(said("kafka.refused"), 0);
}

static void trouble_remembers_the_cause_when_all_brokers_are_down(void **state)
{
	(void)state;
	trouble_error(&trouble, RD_KAFKA_RESP_ERR__AUTHENTICATION, "Invalid username or password");
	assert_int_equal(down(), GROUP_LOGIN_REFUSED);
	trouble_error(&trouble, RD_KAFKA_RESP_ERR__SSL, "certificate verify failed");
	assert_int_equal(down(), GROUP_TLS_FAILED);
	trouble_error(&trouble, RD_KAFKA_RESP_ERR__TRANSPORT, "Connection refused");
	assert_int_equal(down(), GROUP_NO_BROKER);
}

static void trouble_does_not_blame_tls_when_a_broker_is_only_starting(void **state)
{
	(void)state;
	trouble_error(&trouble, RD_KAFKA_RESP_ERR__TRANSPORT,
		"Disconnected while requesting ApiVersion: might be caused by incorrect "
		"security.protocol configuration");
	assert_int_equal(down(), GROUP_NO_BROKER);
}

static void trouble_says_each_cause_once_when_they_take_turns(void **state)
{
	(void)state;
	for (int i = 0; i < 50; i++) {
		trouble_error(&trouble, RD_KAFKA_RESP_ERR__AUTHENTICATION, "wrong");
		trouble_error(&trouble, RD_KAFKA_RESP_ERR__SSL, "wrong");
		trouble_error(&trouble, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, "");
		trouble_error(&trouble, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, "");
	}
	assert_int_equal(said("reason=login_refused"), 1);
	assert_int_equal(said("reason=tls_failed"), 1);
	assert_int_equal(
		said("topic=t error=TOPIC_AUTHORIZATION_FAILED action=\"grant DESCRIBE"), 1);
	assert_int_equal(said("group=g error=GROUP_AUTHORIZATION_FAILED action=\"grant READ"), 1);
}

static void trouble_knows_for_a_while_that_an_acl_is_missing(void **state)
{
	(void)state;
	assert_false(trouble_denied(&trouble, 60000));
	assert_int_equal(trouble_error(&trouble, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, ""),
		GROUP_NOT_ALLOWED);
	assert_true(trouble_denied(&trouble, 60000));
	assert_false(trouble_denied(&trouble, 0));
}

static void trouble_keeps_the_configuration_out_of_the_log(void **state)
{
	(void)state;
	trouble_log(&trouble, 3, "CONF", "sasl.kerberos.kinit.cmd = secret");
	trouble_log(&trouble, 3, "FAIL", "comes as an error, too");
	trouble_log(&trouble, 3, "OTHER", "a line");
	assert_int_equal(said("secret"), 0);
	assert_int_equal(said("comes as an error"), 0);
	assert_int_equal(said("a line"), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(trouble_calls_it_no_broker_when_nobody_listens),
		TEST(trouble_remembers_the_cause_when_all_brokers_are_down),
		TEST(trouble_does_not_blame_tls_when_a_broker_is_only_starting),
		TEST(trouble_says_each_cause_once_when_they_take_turns),
		TEST(trouble_knows_for_a_while_that_an_acl_is_missing),
		TEST(trouble_keeps_the_configuration_out_of_the_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
