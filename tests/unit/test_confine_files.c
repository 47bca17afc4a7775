/*
 * test_confine_files.c - which files and addresses a confined process can still reach, tried from inside.
 */
#include "confine_fixture.h"

#include <netinet/in.h>
#include <sys/socket.h>

/* --- files ----------------------------------------------------------------------------------- */

static int do_read_allowed(void)
{
	return confine_open_in(confined.reads, "there", O_RDONLY);
}

static int do_read_system(void)
{
	if (open("/proc/self/maps", O_RDONLY) < 0 || open("/etc/hosts", O_RDONLY) < 0)
		return -1;
	return open("/usr/share", O_RDONLY | O_DIRECTORY);
}

static int do_read_other(void)
{
	return confine_open_in(confined.others, "there", O_RDONLY);
}

static int do_write_read_only(void)
{
	return confine_open_in(confined.reads, "there", O_RDWR);
}

static int do_make_read_only(void)
{
	return confine_open_in(confined.reads, "new", O_WRONLY | O_CREAT);
}

static int do_write_etc(void)
{
	return open("/etc/passwd", O_WRONLY);
}

static int do_write_tmp(void)
{
	return open("/tmp/tally-unit-confine", O_WRONLY | O_CREAT, 0600);
}

static int do_write_written(void)
{
	int fd = confine_open_in(confined.writes, "there", O_RDWR | O_CREAT);

	return fd < 0 ? -1 : pwrite(fd, "y", 1, 0) == 1 ? 0 : -1;
}

static int do_make_written(void)
{
	return confine_open_in(confined.writes, "new", O_RDWR | O_CREAT);
}

static int do_cut_written(void)
{
	return confine_open_in(confined.writes, "there", O_RDWR | O_TRUNC);
}

/* Mode 0440 keeps table and limits from a query process: without capabilities it binds root too. */
static int do_write_kept(void)
{
	return confine_open_in(confined.writes, "kept", O_RDWR);
}

static int do_own(void)
{
	char from[160], to[160];
	int fd = confine_open_in(confined.owns, "new", O_RDWR | O_CREAT | O_EXCL);

	snprintf(from, sizeof(from), "%s/new", confined.owns);
	snprintf(to, sizeof(to), "%s/renamed", confined.owns);
	if (fd < 0 || fallocate(fd, 0, 0, 4096) != 0 || ftruncate(fd, 10) != 0 ||
		fchmod(fd, 0600) != 0 || rename(from, to) != 0)
		return -1;
	return unlink(to);
}

static int do_move_out(void)
{
	char from[160], to[160];

	snprintf(from, sizeof(from), "%s/there", confined.owns);
	snprintf(to, sizeof(to), "%s/moved", confined.writes);
	return rename(from, to);
}

static void confine_lets_nobody_write_where_it_may_not(void **state)
{
	char kept[160];

	(void)state;
	if (confine_cannot())
		return;
	if (!confine_has_landlock(1))
		skip();
	snprintf(kept, sizeof(kept), "%s/kept", confined.writes);
	assert_int_equal(close(open(kept, O_RDWR | O_CREAT | O_CLOEXEC, 0440)), 0);
	for (int role = CONFINE_WORKER; role <= CONFINE_QUERY; role++) {
		assert_int_equal(confine_tried(role, do_write_kept), EACCES);
		assert_int_equal(confine_tried(role, do_read_allowed), 0);
		assert_int_equal(confine_tried(role, do_read_system), 0);
		assert_int_equal(confine_tried(role, do_read_other), EACCES);
		assert_int_equal(confine_tried(role, do_write_read_only), EACCES);
		assert_int_equal(confine_tried(role, do_make_read_only), EACCES);
		assert_int_equal(confine_tried(role, do_write_etc), EACCES);
		assert_int_equal(confine_tried(role, do_write_tmp), EACCES);
		assert_int_equal(confine_tried(role, do_write_written), 0);
		assert_int_equal(confine_tried(role, do_make_written), EACCES);
		if (confine_has_landlock(3))
			assert_int_equal(confine_tried(role, do_cut_written), EACCES);
	}
	assert_int_equal(confine_tried(CONFINE_WORKER, do_own), 0);
	assert_int_equal(confine_tried(CONFINE_WORKER, do_move_out), EACCES);
	assert_int_equal(access("/tmp/tally-unit-confine", F_OK), -1);
}

static int make_in(const char *dir, const char *name)
{
	int fd = confine_open_in(dir, name, O_WRONLY | O_CREAT | O_EXCL);

	close(fd);
	return fd;
}

static int read_later(void)
{
	char later[128];

	snprintf(later, sizeof(later), "%s/later", confined.reads);
	return open(confined.file, O_RDONLY) < 0 ? -1 : confine_open_in(later, "there", O_RDONLY);
}

/* A certificate that is renewed, by a rename and behind a link; the directory of a generation. */
static void confine_reads_what_came_later(void **state)
{
	char target[160], fresh[160], later[128], go = 0;
	int ends[2];
	pid_t pid;

	(void)state;
	if (confine_cannot())
		return;
	snprintf(confined.file, sizeof(confined.file), "%s/link", confined.owns);
	snprintf(target, sizeof(target), "%s/target", confined.others);
	snprintf(fresh, sizeof(fresh), "%s/fresh", confined.others);
	assert_int_equal(symlink(target, confined.file), 0);
	assert_true(make_in(confined.others, "target") >= 0);
	assert_int_equal(pipe(ends), 0);
	pid = scratch_fork();
	if (!pid) {
		confine_me(CONFINE_QUERY);
		_exit(read(ends[0], &go, 1) == 1 && read_later() >= 0 ? 0 : errno);
	}
	assert_true(make_in(confined.others, "fresh") >= 0);
	snprintf(later, sizeof(later), "%s/later", confined.reads);
	assert_int_equal(mkdir(later, 0750), 0);
	assert_true(make_in(later, "there") >= 0);
	assert_int_equal(rename(fresh, target), 0);
	assert_int_equal(write(ends[1], "g", 1), 1);
	assert_int_equal(scratch_wait(pid), 0);
	close(ends[0]);
	close(ends[1]);
	confined.file[0] = '\0';
}

/* --- the network ----------------------------------------------------------------------------- */

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr = {htonl(INADDR_LOOPBACK)}};
}

static int do_bind(void)
{
	struct sockaddr_in address = loopback(0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return bind(fd, (struct sockaddr *)&address, sizeof(address));
}

static int connect_to(uint16_t port)
{
	struct sockaddr_in address = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return connect(fd, (struct sockaddr *)&address, sizeof(address));
}

static int do_connect(void)
{
	return connect_to(confined.port);
}

static int do_connect_other(void)
{
	return connect_to(confined.other_port);
}

static int listener(uint16_t *port)
{
	struct sockaddr_in address = loopback(0);
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	*port = ntohs(address.sin_port);
	return fd;
}

static void confine_binds_nothing_and_connects_a_query_process_to_peers_only(void **state)
{
	int first, second;

	(void)state;
	if (confine_cannot())
		return;
	if (!confine_has_landlock(4))
		skip();
	first = listener(&confined.port);
	second = listener(&confined.other_port);
	assert_int_equal(confine_tried(CONFINE_WORKER, do_bind), EACCES);
	assert_int_equal(confine_tried(CONFINE_QUERY, do_bind), EACCES);
	assert_int_equal(confine_tried(CONFINE_QUERY, do_connect), 0);
	assert_int_equal(confine_tried(CONFINE_QUERY, do_connect_other), EACCES);
	/* A worker's brokers are where the cluster says. */
	assert_int_equal(confine_tried(CONFINE_WORKER, do_connect_other), 0);
	close(first);
	close(second);
	confined.port = 0;
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, confine_setup, scratch_teardown)
	const struct CMUnitTest tests[] = {
		T(confine_lets_nobody_write_where_it_may_not),
		T(confine_reads_what_came_later),
		T(confine_binds_nothing_and_connects_a_query_process_to_peers_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
