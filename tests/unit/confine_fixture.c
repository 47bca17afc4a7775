/*
 * confine_fixture.c - a child that confines itself and tries something: see confine_fixture.h.
 */
#include "confine_fixture.h"

struct confined confined;

static void path_of(char out[96], const struct scratch *s, const char *name)
{
	int fd;

	snprintf(out, 96, "%s/%s", s->path, name);
	assert_int_equal(mkdir(out, 0750), 0);
	fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scratch_write(fd, "there", "x", 1);
	close(fd);
}

int confine_setup(void **state)
{
	if (scratch_setup(state) != 0)
		return -1;
	path_of(confined.reads, *state, "reads");
	path_of(confined.writes, *state, "writes");
	path_of(confined.owns, *state, "owns");
	path_of(confined.others, *state, "others");
	return 0;
}

/* It knows neither seccomp nor Landlock. */
bool confine_in_valgrind(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "valgrind");
}

/* The run time of a sanitizer makes calls of its own. */
bool confine_cannot(void)
{
	return CONFINE_SANITIZED || confine_in_valgrind();
}

static struct confine confine;

void confine_me(enum confine_role role)
{
	confine_begin(&confine, role);
	confine_allow(&confine, confined.reads, CONFINE_READ);
	confine_allow(&confine, confined.writes, CONFINE_WRITE);
	confine_allow(&confine, confined.owns, CONFINE_OWN);
	if (confined.file[0])
		confine_allow_file(&confine, confined.file);
	if (confined.port)
		confine_connect(&confine, confined.port);
	confine_enter(&confine);
}

/* Its errno, 0 when it worked, or 128 + the signal. */
int confine_tried(enum confine_role role, int (*try)(void))
{
	pid_t pid = scratch_fork();

	if (pid)
		return scratch_wait(pid);
	confine_me(role);
	errno = 0;
	_exit(try() < 0 ? errno : 0);
}

bool confine_has_landlock(int abi)
{
	confine_begin(&confine, CONFINE_WORKER);
	if (confine.ruleset >= 0)
		close(confine.ruleset);
	return confine.abi >= abi;
}

int confine_open_in(const char *dir, const char *name, int flags)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return open(path, flags | O_CLOEXEC, 0640);
}
