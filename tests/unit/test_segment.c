/*
 * test_segment.c - mapped files: only a whole one of ours is ever attached, whatever lies there.
 */
#include "scratch.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "shm/err.h"
#include "shm/segment.h"

#define SIZE 8192

static const struct segment_spec spec = {"TESTSEGM", 7, SIZE};

/* Puts a good file in place and gives its bytes. */
static char *good(int dirfd)
{
	struct segment seg;
	size_t len;
	assert_int_equal(segment_create(dirfd, "f", &spec, 0640, &seg, NULL), 0);
	strcpy((char *)seg.map + sizeof(struct segment_head), "content");
	assert_int_equal(segment_publish(dirfd, "f"), 0);
	segment_detach(&seg);
	char *data = scratch_read(dirfd, "f", &len);
	assert_int_equal(len, SIZE);
	return data;
}

/* 0: cannot be opened for writing, and can by segment_open_own, after which it is as before. */
static int open_as_ordinary_user(int dirfd)
{
	struct stat st;
	char byte = 'X';
	if (!geteuid() && (setgid(65534) || setuid(65534)))
		return 1;
	if (openat(dirfd, "f", O_RDWR | O_CLOEXEC) >= 0 || errno != EACCES)
		return 2;
	int fd = segment_open_own(dirfd, "f");
	if (fd < 0 || pwrite(fd, &byte, 1, SIZE - 1) != 1 || pread(fd, &byte, 1, 0) != 1)
		return 3;
	return fstat(fd, &st) || (st.st_mode & 07777) != 0440 ? 4 : 0;
}

static void segment_opens_for_its_user_what_a_confined_process_of_the_same_cannot(void **state)
{
	const struct scratch *s = *state;
	struct segment seg;
	assert_int_equal(segment_create(s->fd, "f", &spec, 0440, &seg, NULL), 0);
	assert_int_equal(segment_publish(s->fd, "f"), 0);
	assert_int_equal(fchmod(s->fd, 0755), 0);
	assert_int_equal(fchownat(s->fd, "f", geteuid() ? geteuid() : 65534, -1u, 0), 0);
	pid_t pid = scratch_fork();
	if (!pid)
		_exit(open_as_ordinary_user(s->fd));
	assert_int_equal(scratch_wait(pid), 0);
	assert_int_equal(((const char *)seg.map)[SIZE - 1], 'X');
	segment_detach(&seg);
	/* What is not ours, or no file, is left as it is. */
	assert_int_equal(symlinkat("f", s->fd, "link"), 0);
	assert_int_equal(segment_open_own(s->fd, "link"), -1);
	assert_int_equal(errno, ELOOP);
	assert_int_equal(mkfifoat(s->fd, "fifo", 0400), 0);
	assert_int_equal(segment_open_own(s->fd, "fifo"), -1);
	assert_int_equal(errno, EACCES);
	assert_int_equal(segment_open_own(s->fd, "none"), -1);
	assert_int_equal(errno, ENOENT);
}

static int attach(int dirfd)
{
	struct segment seg = {0};
	alarm(20); /* a hang is a failure */
	int err = segment_attach(dirfd, "f", &spec, &seg);
	alarm(0);
	if (err)
		assert_null(seg.map);
	segment_detach(&seg);
	return err;
}

static void segment_attaches_what_was_published_when_all_is_well(void **state)
{
	const struct scratch *s = *state;
	struct segment writer, reader;
	struct stat st;
	int fd = -1;
	mode_t before = umask(0077);
	assert_int_equal(segment_create(s->fd, "f", &spec, 0640, &writer, &fd), 0);
	umask(before);
	const struct segment_head *head = writer.map;
	assert_memory_equal(head->magic, "TESTSEGM", 8);
	assert_int_equal(head->version, 7);
	assert_int_equal(head->endian, 0x01020304);
	assert_int_equal(head->size, SIZE);
	for (size_t i = sizeof *head; i < SIZE; i++)
		assert_int_equal(((char *)writer.map)[i], 0);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(segment_publish(s->fd, "f"), 0);
	assert_false(scratch_has(s->fd, "f.new"));
	assert_int_equal(segment_attach(s->fd, "f", &spec, &reader), 0);
	assert_int_equal(fstatat(s->fd, "f", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0640); /* the umask does not count */
	assert_int_equal(reader.dev, st.st_dev);
	assert_int_equal(reader.ino, st.st_ino);
	assert_int_equal(writer.ino, st.st_ino);
	((char *)writer.map)[SIZE - 1] = 'x';
	assert_int_equal(((const char *)reader.map)[SIZE - 1], 'x');
	segment_detach(&reader);
	assert_null(reader.map);
	segment_detach(&reader);
	segment_detach(&writer);
	close(fd);
}

static void segment_is_not_seen_before_it_is_published(void **state)
{
	const struct scratch *s = *state;
	struct segment seg;
	assert_int_equal(attach(s->fd), ERR_NOT_FOUND);
	assert_int_equal(segment_create(s->fd, "f", &spec, 0640, &seg, NULL), 0);
	assert_int_equal(attach(s->fd), ERR_NOT_FOUND);
	assert_int_equal(segment_publish(s->fd, "f"), 0);
	assert_int_equal(attach(s->fd), 0);
	assert_int_equal(segment_publish(s->fd, "f"), ERR_NOT_FOUND);
	segment_detach(&seg);
}

static void segment_refuses_a_head_when_any_byte_of_it_is_another(void **state)
{
	const struct scratch *s = *state;
	char *data = good(s->fd);
	for (size_t i = 0; i < sizeof(struct segment_head); i++) {
		data[i] ^= 1;
		scratch_write(s->fd, "f", data, SIZE);
		assert_int_equal(attach(s->fd), ERR_FORMAT);
		data[i] ^= 1;
	}
	scratch_write(s->fd, "f", data, SIZE);
	assert_int_equal(attach(s->fd), 0);
	free(data);
}

static void segment_refuses_a_file_when_its_size_is_not_what_it_says(void **state)
{
	const struct scratch *s = *state;
	char *data = good(s->fd);
	static const size_t sizes[] = {0, 1, 23, 24, 4096, SIZE - 1};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		scratch_write(s->fd, "f", data, sizes[i]);
		assert_int_equal(attach(s->fd), ERR_FORMAT);
	}
	scratch_write(s->fd, "f", data, SIZE);
	int fd = openat(s->fd, "f", O_RDWR | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, SIZE + 1), 0);
	assert_int_equal(attach(s->fd), ERR_FORMAT);
	assert_int_equal(ftruncate(fd, INT64_C(1) << 33), 0);
	assert_true(attach(s->fd) < 0);
	close(fd);
	free(data);
}

/* A head that is true of a file too small for its kind is refused all the same. */
static void segment_refuses_a_small_file_when_its_head_is_true(void **state)
{
	const struct scratch *s = *state;
	char *data = good(s->fd);
	((struct segment_head *)(void *)data)->size = SIZE - 8;
	assert_int_equal(segment_check(data, SIZE - 8, &spec), ERR_FORMAT);
	assert_int_equal(segment_check(data, 8, &spec), ERR_FORMAT);
	scratch_write(s->fd, "f", data, SIZE - 8);
	assert_int_equal(attach(s->fd), ERR_FORMAT);
	free(data);
}

static void segment_refuses_it_when_it_is_no_regular_file(void **state)
{
	const struct scratch *s = *state;
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	free(good(s->fd));
	assert_int_equal(renameat(s->fd, "f", s->fd, "real"), 0);
	assert_int_equal(symlinkat("real", s->fd, "f"), 0);
	assert_int_equal(attach(s->fd), ERR_FORMAT);
	assert_int_equal(unlinkat(s->fd, "f", 0), 0);

	assert_int_equal(mkfifoat(s->fd, "f", 0640), 0);
	assert_int_equal(attach(s->fd), ERR_FORMAT);
	assert_int_equal(unlinkat(s->fd, "f", 0), 0);

	assert_int_equal(mkdirat(s->fd, "f", 0750), 0);
	assert_int_equal(attach(s->fd), ERR_FORMAT);
	assert_int_equal(unlinkat(s->fd, "f", AT_REMOVEDIR), 0);

	snprintf(name.sun_path, sizeof name.sun_path, "%s/f", s->path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
	assert_true(attach(s->fd) < 0);
	close(fd);
}

static void segment_is_made_afresh_when_a_leftover_lies_under_the_temporary_name(void **state)
{
	const struct scratch *s = *state;
	char junk[3 * SIZE];
	memset(junk, 'j', sizeof junk);
	scratch_write(s->fd, "f.new", junk, sizeof junk);
	char *data = good(s->fd);
	for (size_t i = sizeof(struct segment_head) + 8; i < SIZE; i++)
		assert_int_equal(data[i], 0);
	free(data);
}

static void segment_spares_the_target_when_the_leftover_is_a_link(void **state)
{
	const struct scratch *s = *state;
	size_t len;
	scratch_write(s->fd, "victim", "precious", 8);
	assert_int_equal(symlinkat("victim", s->fd, "f.new"), 0);
	free(good(s->fd));
	char *victim = scratch_read(s->fd, "victim", &len);
	assert_int_equal(len, 8);
	assert_memory_equal(victim, "precious", 8);
	free(victim);
}

static void segment_is_an_error_when_it_cannot_be_made(void **state)
{
	const struct scratch *s = *state;
	struct segment seg;
	char name[256];
	memset(name, 'n', sizeof name - 1);
	name[255] = 0;
	assert_int_equal(segment_create(s->fd, name, &spec, 0640, &seg, NULL), ERR_INVALID);
	assert_int_equal(segment_publish(s->fd, name), ERR_INVALID);
	assert_int_equal(segment_create(s->fd, "none/f", &spec, 0640, &seg, NULL), ERR_NOT_FOUND);
	assert_int_equal(mkdirat(s->fd, "f.new", 0750), 0);
	assert_true(segment_create(s->fd, "f", &spec, 0640, &seg, NULL) < 0);
	assert_int_equal(unlinkat(s->fd, "f.new", AT_REMOVEDIR), 0);
}

/* In a child: exit code 0 when a file that cannot fit is ERR_FULL and leaves nothing. */
static void try_to_fill(int dirfd)
{
	struct segment_spec large = {"TESTSEGM", 7, 1 << 20};
	struct segment seg;
	int err = segment_create(dirfd, "f", &large, 0640, &seg, NULL);
	if (err != ERR_FULL)
		_exit(1);
	if (scratch_has(dirfd, "f.new"))
		_exit(2);
	if (segment_create(dirfd, "f", &spec, 0640, &seg, NULL))
		_exit(3);
	_exit(0);
}

static void segment_is_full_when_the_file_may_not_grow(void **state)
{
	const struct scratch *s = *state;
	pid_t pid = scratch_fork();
	if (!pid) {
		struct rlimit limit = {64 * 1024, 64 * 1024};
		signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &limit);
		try_to_fill(s->fd);
	}
	assert_int_equal(scratch_wait(pid), 0);
}

/* A mount of its own: root, or a user namespace. */
static bool mount_small(const char *path)
{
	if (unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return false;
	/* In a chroot "/" is no mount point, and nothing is shared. */
	if (mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) && errno != EINVAL)
		return false;
	return !mount("tmpfs", path, "tmpfs", 0, "size=64k");
}

static void segment_is_full_when_the_file_system_is(void **state)
{
	const struct scratch *s = *state;
	pid_t pid = scratch_fork();
	if (!pid) {
		if (!mount_small(s->path))
			_exit(77);
		try_to_fill(open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	}
	int code = scratch_wait(pid);
	if (code == 77) {
		print_message("no file system can be mounted here\n");
		skip();
	}
	assert_int_equal(code, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(segment_opens_for_its_user_what_a_confined_process_of_the_same_cannot),
		TEST(segment_attaches_what_was_published_when_all_is_well),
		TEST(segment_is_not_seen_before_it_is_published),
		TEST(segment_refuses_a_head_when_any_byte_of_it_is_another),
		TEST(segment_refuses_a_file_when_its_size_is_not_what_it_says),
		TEST(segment_refuses_a_small_file_when_its_head_is_true),
		TEST(segment_refuses_it_when_it_is_no_regular_file),
		TEST(segment_is_made_afresh_when_a_leftover_lies_under_the_temporary_name),
		TEST(segment_spares_the_target_when_the_leftover_is_a_link),
		TEST(segment_is_an_error_when_it_cannot_be_made),
		TEST(segment_is_full_when_the_file_may_not_grow),
		TEST(segment_is_full_when_the_file_system_is),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
