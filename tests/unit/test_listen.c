/*
 * test_listen.c - addresses: alone or shared, made known, and refused with the option's name.
 */
#include "scratch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tools/queryd/listen.h"

static char bound[LISTEN_TEXT_SIZE], why[LISTEN_WHY_SIZE];

static int open_alone(const char *text)
{
	return listen_open(text, "query.grpc_listen", false, bound, why);
}

static void listen_takes_a_free_port_and_says_which(void **state)
{
	char again[LISTEN_TEXT_SIZE];
	int fd = open_alone("127.0.0.1:0");

	(void)state;
	assert_true(fd >= 0);
	assert_memory_equal(bound, "127.0.0.1:", 10);
	assert_true(atoi(bound + 10) > 0);
	memcpy(again, bound, sizeof again);
	assert_int_equal(open_alone(again), -1);
	assert_non_null(strstr(why, "Address already in use; another process listens there: stop "
				    "it, or set query.grpc_listen to another port"));
	close(fd);
}

static void listen_is_shared_when_all_say_so(void **state)
{
	char address[LISTEN_TEXT_SIZE];
	int first, second;

	(void)state;
	first = listen_open("127.0.0.1:0", "query.http_listen", true, bound, why);
	assert_true(first >= 0);
	memcpy(address, bound, sizeof address);
	second = listen_open(address, "query.http_listen", true, bound, why);
	assert_true(second >= 0);
	assert_string_equal(bound, address);
	assert_int_equal(open_alone(address), -1); /* but not with one that does not */
	close(first);
	close(second);
}

static void listen_says_what_to_do_when_it_cannot(void **state)
{
	static const struct {
		const char *text, *line;
	} bad[] = {
		{"localhost",
			"query.grpc_listen: \"localhost\" is not host:port; write for example "
			"127.0.0.1:3100 or [::1]:3100"},
		{"192.0.2.1:80",
			"cannot listen on 192.0.2.1:80: Cannot assign requested address; this "
			"machine has no such address: set query.grpc_listen to one it has"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(open_alone(bad[i].text), -1);
		assert_string_equal(why, bad[i].line);
	}
}

static void listen_is_announced_and_withdrawn_by_its_owner(void **state)
{
	const struct scratch *s = *state;
	size_t len;
	char *text;

	assert_true(listen_announce(s->path, LISTEN_GRPC_NAME, "127.0.0.1:1", why));
	assert_true(listen_announce(s->path, LISTEN_HTTP_NAME, "127.0.0.1:2", why));
	text = scratch_read(s->fd, "query.grpc", &len);
	assert_int_equal(len, 12);
	assert_memory_equal(text, "127.0.0.1:1\n", 12);
	free(text);
	listen_withdraw(s->path, LISTEN_GRPC_NAME, "127.0.0.1:2"); /* another's by now */
	assert_true(scratch_has(s->fd, "query.grpc"));
	listen_withdraw(s->path, LISTEN_GRPC_NAME, "127.0.0.1:1");
	assert_false(scratch_has(s->fd, "query.grpc"));
	assert_true(scratch_has(s->fd, "query.http"));
	assert_false(listen_announce("/nowhere/at/all", LISTEN_GRPC_NAME, "127.0.0.1:1", why));
	assert_string_equal(why, "cannot write /nowhere/at/all/query.grpc: No such file or "
				 "directory; run_dir is made by tallyd: start that first");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

static void listen_knows_what_others_cannot_reach(void **state)
{
	(void)state;
	assert_true(listen_is_local("127.0.0.1:1") && listen_is_local("127.9.9.9:1"));
	assert_true(listen_is_local("[::1]:1") && listen_is_local("[::ffff:127.0.0.1]:1"));
	assert_false(listen_is_local("0.0.0.0:1") || listen_is_local("[::]:1"));
	assert_false(listen_is_local("[::12]:1") || listen_is_local("[::ffff:10.0.0.1]:1"));
	assert_false(listen_is_local("12.7.0.1:1") || listen_is_local("10.127.0.1:1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(listen_takes_a_free_port_and_says_which),
		cmocka_unit_test(listen_is_shared_when_all_say_so),
		cmocka_unit_test(listen_says_what_to_do_when_it_cannot),
		cmocka_unit_test(listen_knows_what_others_cannot_reach),
		TEST(listen_is_announced_and_withdrawn_by_its_owner),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
