/*
 * fleet_fixture.c - the world of a fleet under test: run directory, table, loop, log.
 */
#include "fleet_fixture.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <sys/pidfd.h>

#define TURN_S 0.01

static char self[PATH_MAX];

bool fleet_main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[0], "tally-worker")) {
		fleet_worker_main();
		return true;
	}
	const char *preload = getenv("LD_PRELOAD");
	if (preload && strstr(preload, "vgpreload") && pidfd_open(getpid(), 0) < 0) {
		print_message("this valgrind knows no pidfd: nothing can be spawned under it\n");
		return true;
	}
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n < 0 ? 0 : n] = 0;
	return false;
}

void fleet_program(struct fixture *f, const char *path)
{
	f->fleet->opt.worker_program = path;
}

void fleet_link_program(const char *path)
{
	assert_int_equal(symlink(self, path), 0);
}

/* ------------------------------------------------------------------ what the fleet tells */

static void on_released(void *arg)
{
	struct fixture *f = arg;
	f->released++;
	f->children_at_release = f->named_at_release = 0;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++) {
		f->children_at_release += f->fleet->parts[p].child.pid != 0;
		f->named_at_release += table_word_of(&f->table, p) != 0;
	}
	f->generations_at_release = fleet_generations(f);
}

static void on_stopped(void *arg)
{
	struct fixture *f = arg;
	f->stopped++;
}

static void on_ask(void *arg)
{
	struct fixture *f = arg;
	f->asked++;
}

static void on_turn(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct fixture *f = w->data;
	(void)loop;
	(void)revents;
	if (f->contacts)
		fleet_contact(f->fleet, host_boot_ns());
	fleet_tick(f->fleet);
}

/* -------------------------------------------------------------------- setup and teardown */

static void configure(struct fixture *f)
{
	config_defaults(&f->config);
	snprintf(f->config.run_dir, sizeof f->config.run_dir, "%s/run", f->path);
	strcpy(f->config.topic, "topic");
	strcpy(f->config.brokers, "127.0.0.1:1");
	strcpy(f->config.zone, "zone");
	f->config.cpu_affinity = false;
	f->config.restart_min_ms = 10;
	f->config.restart_max_ms = 50;
	f->config.replay_concurrency = 64;
}

static void open_fleet(struct fixture *f)
{
	struct table_head facts = {0};
	char why[512];
	assert_int_equal(rundir_open(f->config.run_dir, "", &f->rundir, why), 0);
	facts.nonce = host_random();
	facts.capacity = TABLE_CAPACITY;
	facts.window_minutes = 120;
	facts.rate_minutes = 5;
	facts.lost_timeout_ms = 5000;
	facts.pid_namespace = host_pid_namespace();
	host_boot_id(facts.boot_id);
	assert_int_equal(table_create(rundir_fd(f->rundir), &facts, &f->table), 0);
	assert_int_equal(table_install(rundir_fd(f->rundir), &f->table), 0);
	f->options = (struct fleet_options){
		.config = &f->config,
		.loop = f->loop,
		.rundir = f->rundir,
		.table = &f->table,
		.worker_program = self,
		.arg = f,
		.released = on_released,
		.stopped = on_stopped,
		.ask_topic = on_ask,
	};
	fleet_new(&f->options, &f->fleet);
	fleet_partitions(f->fleet, FLEET_PARTITIONS);
}

static bool has_children(const struct fixture *f)
{
	bool any = f->fleet->abandoned != NULL;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		any |= f->fleet->parts[p].child.pid != 0;
	return any;
}

static void close_fleet(struct fixture *f)
{
	fleet_kill(f->fleet);
	for (int i = 0; i < 1000 && has_children(f); i++)
		fleet_turn(f);
	fleet_free(&f->fleet);
	table_detach(&f->table);
	rundir_close(&f->rundir);
}

int fleet_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	char log[80];
	strcpy(f->path, "/tmp/tally-unit-XXXXXX");
	if (!mkdtemp(f->path))
		return -1;
	snprintf(log, sizeof log, "%s/log", f->path);
	fflush(stderr);
	f->stderr_kept = fcntl(2, F_DUPFD_CLOEXEC, 10);
	int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	dup2(fd, 2);
	close(fd);
	log_init("test", -1, LOG_LEVEL_INFO);
	configure(f);
	f->loop = ev_loop_new(EVFLAG_AUTO);
	ev_timer_init(&f->turn, on_turn, TURN_S, TURN_S);
	f->turn.data = f;
	ev_timer_start(f->loop, &f->turn);
	f->contacts = true;
	open_fleet(f);
	*state = f;
	return 0;
}

int fleet_teardown(void **state)
{
	struct fixture *f = *state;
	close_fleet(f);
	ev_timer_stop(f->loop, &f->turn);
	ev_loop_destroy(f->loop);
	fflush(stderr);
	dup2(f->stderr_kept, 2);
	close(f->stderr_kept);
	nftw(f->path, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(f);
	return 0;
}

void fleet_renew(struct fixture *f)
{
	close_fleet(f);
	open_fleet(f);
}

/* ------------------------------------------------------------------------ to and from workers */

void fleet_script(struct fixture *f, uint32_t partition, const char *script)
{
	char name[32];
	snprintf(name, sizeof name, "script.%u.new", partition);
	scratch_write(rundir_fd(f->rundir), name, script, strlen(script));
	char to[32];
	snprintf(to, sizeof to, "script.%u", partition);
	assert_int_equal(renameat(rundir_fd(f->rundir), name, rundir_fd(f->rundir), to), 0);
}

/* NULL when nothing was written yet. */
static char *read_text(int dirfd, const char *name)
{
	size_t len;
	if (!scratch_has(dirfd, name))
		return NULL;
	char *text = scratch_read(dirfd, name, &len);
	text[len] = 0;
	return text;
}

static unsigned count_text(const char *text, const char *what)
{
	unsigned n = 0;
	for (const char *at = text; at && (at = strstr(at, what)); at++)
		n++;
	return n;
}

static char *read_journal(const struct fixture *f, uint32_t partition)
{
	char name[32];
	snprintf(name, sizeof name, "journal.%u", partition);
	return read_text(rundir_fd(f->rundir), name);
}

static void parse_start(const char *line, struct start *s)
{
	*s = (struct start){0};
	int n = sscanf(line,
		"start pid=%d generation=%" SCNu64
		" partitions=%u adopt=%u batch_max=%u quarantine=%u %" SCNd64 " %" SCNd64,
		&s->pid, &s->generation, &s->partitions, &s->adopt, &s->batch_max, &s->n_quarantine,
		&s->quarantine[0], &s->quarantine[1]);
	assert_int_equal(n, 6 + (s->n_quarantine < 2 ? s->n_quarantine : 2));
}

unsigned fleet_starts(const struct fixture *f, uint32_t partition, struct start *last)
{
	char *text = read_journal(f, partition), *found = NULL;
	unsigned n = 0;
	for (char *at = text; at && (at = strstr(at, "start ")); at++, n++)
		found = at;
	if (last && found)
		parse_start(found, last);
	free(text);
	return n;
}

unsigned fleet_journal(const struct fixture *f, uint32_t partition, const char *line)
{
	char *text = read_journal(f, partition);
	unsigned n = count_text(text, line);
	free(text);
	return n;
}

static int open_path(const struct fixture *f)
{
	return open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static char *read_log(const struct fixture *f)
{
	int dirfd = open_path(f);
	char *text = read_text(dirfd, "log");
	close(dirfd);
	return text;
}

unsigned fleet_logged(const struct fixture *f, const char *what)
{
	char *text = read_log(f);
	unsigned n = count_text(text, what);
	free(text);
	return n;
}

unsigned fleet_logged_before(const struct fixture *f, const char *what, const char *mark)
{
	char *text = read_log(f), *end = text ? strstr(text, mark) : NULL;
	assert_non_null(end);
	*end = 0;
	unsigned n = count_text(text, what);
	free(text);
	return n;
}

/* ------------------------------------------------------------------------- what is there */

static unsigned count_entries(const char *path, const char *start)
{
	unsigned n = 0;
	DIR *dir = opendir(path);
	struct dirent *d;
	while (dir && (d = readdir(dir)))
		n += !strncmp(d->d_name, start, strlen(start));
	if (dir)
		closedir(dir);
	return n;
}

/* The fewest in a while: the unlinking thread has some from time to time. */
unsigned fleet_descriptors(struct fixture *f)
{
	unsigned fewest = UINT_MAX;
	for (int i = 0; i < 20; i++) {
		fleet_turn(f);
		unsigned n = count_entries("/proc/self/fd", "");
		fewest = n < fewest ? n : fewest;
	}
	return fewest;
}

unsigned fleet_generations(const struct fixture *f)
{
	return count_entries(f->config.run_dir, "p");
}

bool fleet_has(const struct fixture *f, uint32_t partition, uint64_t generation)
{
	char name[TABLE_DIR_NAME_SIZE];
	table_dir_name(name, partition, generation);
	return scratch_has(rundir_fd(f->rundir), name);
}

/* --------------------------------------------------------------------------------- time */

void fleet_turn(struct fixture *f)
{
	ev_run(f->loop, EVRUN_ONCE);
}

void fleet_run_ms(struct fixture *f, unsigned ms)
{
	uint64_t end = host_boot_ns() + ms * UINT64_C(1000000);
	while (host_boot_ns() < end)
		fleet_turn(f);
}

void fleet_gave_up(struct fixture *f, const char *what, const char *file, int line)
{
	char *text = read_log(f);
	printf("%s\nwaited in vain for: %s\n", text ? text : "", what);
	fflush(stdout);
	free(text);
	_fail(file, line);
}

/* ---------------------------------------------------------------------- playing the group */

static const uint32_t *from_zero(void)
{
	static uint32_t list[TABLE_CAPACITY];
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		list[p] = p;
	return list;
}

void fleet_assign(struct fixture *f, uint32_t n)
{
	ev_now_update(f->loop);
	fleet_contact(f->fleet, host_boot_ns());
	fleet_assigned(f->fleet, from_zero(), n, false);
}

void fleet_give(struct fixture *f, uint32_t partition)
{
	ev_now_update(f->loop);
	fleet_assigned(f->fleet, &partition, 1, false);
}

void fleet_take(struct fixture *f, uint32_t n, enum group_loss loss)
{
	ev_now_update(f->loop);
	fleet_revoked(f->fleet, from_zero(), n, loss);
}

static unsigned count_ready(const struct fixture *f)
{
	struct fleet_status status;
	fleet_status(f->fleet, &status);
	return status.ready;
}

void fleet_begin(struct fixture *f, uint32_t n)
{
	fleet_assign(f, n);
	fleet_until(f, count_ready(f) == n);
}
