/*
 * limits_load.c - the limits of tenants: read, published, watched.
 *
 *	SIGHUP, file changed --> thread: read, check, write `limits.new`, rename --async--> table head, log
 *
 * A large file takes seconds: that must not keep the main thread from its leases
 * and revocations.  The thread touches nothing but its job.  The file should lie on
 * a local file system: the main thread looks at it (stat).
 *
 * libev's ev_stat looks at a symbolic link, not at what it leads to, and would
 * never see a ConfigMap of Kubernetes change: so we look ourselves.
 *
 * Runs in: supervisor.  Blocks in: stat of the file; all else in the thread.
 */
#include "supervisor/limits_load.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shm/check.h"
#include "shm/err.h"
#include "shm/limits.h"
#include "shm/log.h"
#include "supervisor/limits_yaml.h"

#define LOOK_S	    0.5
#define RETRY_LOOKS 6 /* when it is good, but could not be written */

/* Which file, and as of when; all zero: there is none. */
struct file_id {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed, modified;
};

/* One load, from beginning to end.  While it runs it belongs to the thread. */
struct job {
	/* In. */
	char path[CONFIG_TEXT_SIZE]; /* "": none */
	struct limits_defaults defaults;
	int dirfd;
	/* In and out. */
	uint64_t version; /* of what is published */
	/* Out. */
	struct file_id id;
	size_t tenants;
	int err;
	bool unwritten; /* it was read, but could not be published */
	struct config_error error;
};

struct limits_load {
	const struct config *config;
	struct limits_load_options opt;
	struct job job;
	struct limits_yaml first; /* between new and publish */
	struct file_id loaded, seen;
	pthread_t thread;
	bool running, again, asked; /* asked: somebody waits for `done` */
	int64_t loaded_at_ms;
	unsigned looks; /* since the last load */
	ev_async finished;
	ev_timer look;
};

static struct file_id identify(const char *path)
{
	struct file_id id = {0};
	struct stat st;

	if (!path[0] || stat(path, &st))
		return id;
	id.dev = st.st_dev;
	id.ino = st.st_ino;
	id.size = st.st_size;
	id.changed = st.st_ctim;
	id.modified = st.st_mtim;
	return id;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool same(const struct file_id *a, const struct file_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       same_time(&a->changed, &b->changed) && same_time(&a->modified, &b->modified);
}

/* ------------------------------------------------------------------ a load */

static void prepare(struct limits_load *load)
{
	struct job *job = &load->job;
	snprintf(job->path, sizeof job->path, "%s", load->config->limits_file);
	job->defaults = limits_defaults_of(load->config);
	job->unwritten = false;
	job->error.line[0] = 0;
}

static void read_file(struct job *job, struct limits_yaml *yaml)
{
	job->id = identify(job->path); /* before: a later change is seen as one */
	job->err = 0;
	if (job->path[0])
		job->err = limits_yaml_load(job->path, &job->defaults, yaml, &job->error);
	else
		limits_yaml_none(&job->defaults, yaml);
}

/* Microseconds since 1970, but always more than the last one: also after a restart. */
static uint64_t next_version(const struct job *job)
{
	uint64_t now = (uint64_t)host_wall_ms() * 1000, last = job->version;
	struct limits old;
	if (!limits_attach(job->dirfd, &old)) {
		if (limits_version(&old) > last && limits_version(&old) < UINT64_MAX)
			last = limits_version(&old);
		limits_detach(&old);
	}
	return now > last ? now : last + 1;
}

static void publish(struct job *job, struct limits_yaml *yaml)
{
	yaml->source.version = next_version(job);
	job->err = limits_write(job->dirfd, &yaml->source);
	if (job->err) {
		job->unwritten = true;
		snprintf(job->error.line, sizeof job->error.line,
			"cannot write %s into run_dir: %s; %s", LIMITS_NAME, err_text(job->err),
			job->err == ERR_FULL ? "make room there, it is tried again"
					     : "it is tried again");
		return;
	}
	job->version = yaml->source.version;
	job->tenants = yaml->source.n_tenants;
}

static void *thread_main(void *arg)
{
	struct limits_load *load = arg;
	struct limits_yaml yaml;
	read_file(&load->job, &yaml);
	if (!load->job.err) {
		publish(&load->job, &yaml);
		limits_yaml_free(&yaml);
	}
	ev_async_send(load->opt.loop, &load->finished);
	return NULL;
}

/* ------------------------------------------------------------------ what came of it */

#define SET(field, value) atomic_store_explicit(&head->field, value, memory_order_relaxed)

static void put_facts(const struct limits_load *load, struct table_head *head)
{
	SET(limits_state, load->job.path[0] ? LOAD_OK : LOAD_NONE);
	SET(limits_tenants, (uint32_t)load->job.tenants);
	SET(limits_loaded_at, (uint64_t)load->loaded_at_ms);
	SET(limits_at, (uint64_t)load->loaded_at_ms);
	/* Last: it says that the file is in place. */
	atomic_store_explicit(&head->limits_version, load->job.version, memory_order_release);
}

static void log_loaded(const struct limits_load *load)
{
	char path[CONFIG_TEXT_SIZE + 8];
	log_info("limits.loaded",
		"file=%s tenants=%zu version=%" PRIu64 " default=%" PRIu64 " scope=%s dry_run=%d",
		log_quote(path, sizeof path, load->job.path), load->job.tenants, load->job.version,
		load->job.defaults.streams == LIMIT_NONE ? 0 : load->job.defaults.streams,
		load->job.defaults.scope == LIMIT_INSTANCE ? "instance" : "partition",
		load->job.defaults.dry_run);
}

static void tell_loaded(struct limits_load *load)
{
	load->loaded_at_ms = host_wall_ms();
	table_set_limits_error(load->opt.table, "");
	put_facts(load, table_head_mut(load->opt.table));
	log_loaded(load);
}

static void tell_refused(struct limits_load *load)
{
	struct table_head *head = table_head_mut(load->opt.table);
	char text[600];
	table_set_limits_error(load->opt.table, load->job.error.line);
	SET(limits_state, LOAD_REFUSED);
	SET(limits_at, (uint64_t)host_wall_ms());
	atomic_fetch_add(&head->limits_refused, 1);
	log_error("limits.refused", "error=%s action=\"what held before holds on\"",
		log_quote(text, sizeof text, load->job.error.line));
}

static void begin(struct limits_load *load);

static void finish(struct limits_load *load)
{
	load->running = false;
	load->loaded = load->seen = load->job.id;
	load->looks = 0;
	if (load->job.err)
		tell_refused(load);
	else
		tell_loaded(load);
	if (load->again) {
		load->again = false;
		begin(load);
	} else if (load->asked) {
		load->asked = false;
		load->opt.done(load->opt.arg);
	}
}

static void on_finished(struct ev_loop *loop, ev_async *w, int revents)
{
	struct limits_load *load = w->data;
	(void)loop;
	(void)revents;
	pthread_join(load->thread, NULL);
	finish(load);
}

/* The thread is born with all signals blocked: they are for the main thread. */
static void begin(struct limits_load *load)
{
	sigset_t all, before;
	prepare(load);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	load->running = pthread_create(&load->thread, NULL, thread_main, load) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (load->running)
		return;
	load->job.err = ERR_NOMEM;
	load->job.unwritten = true;
	snprintf(load->job.error.line, sizeof load->job.error.line,
		"cannot start a thread to read the limits; it is tried again");
	finish(load);
}

/* ------------------------------------------------------------------ watching */

/* Twice the same, and not what was loaded: it has changed, and nobody is writing it just now. */
static void on_look(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct limits_load *load = w->data;
	struct file_id now;
	(void)loop;
	(void)revents;
	if (load->running)
		return;
	load->looks++;
	now = identify(load->config->limits_file);
	if ((same(&now, &load->seen) && !same(&now, &load->loaded)) ||
		(load->job.unwritten && load->looks >= RETRY_LOOKS))
		begin(load);
	else
		load->seen = now;
}

/* ------------------------------------------------------------------ from outside */

int limits_load_new(
	const struct config *config, struct limits_load **out, struct config_error *error)
{
	struct limits_load *load = calloc(1, sizeof *load);
	must_get(load);
	load->config = config;
	prepare(load);
	read_file(&load->job, &load->first);
	*error = load->job.error;
	int err = load->job.err;
	if (err)
		limits_load_free(&load);
	*out = load;
	return err;
}

int limits_load_publish(struct limits_load *load, int dirfd)
{
	load->job.dirfd = dirfd;
	publish(&load->job, &load->first);
	limits_yaml_free(&load->first);
	load->loaded = load->seen = load->job.id;
	load->loaded_at_ms = host_wall_ms();
	if (!load->job.err)
		log_loaded(load);
	return load->job.err;
}

void limits_load_facts(const struct limits_load *load, struct table_head *facts)
{
	put_facts(load, facts);
}

void limits_load_watch(struct limits_load *load, const struct limits_load_options *options)
{
	load->opt = *options;
	ev_async_init(&load->finished, on_finished);
	ev_timer_init(&load->look, on_look, LOOK_S, LOOK_S);
	load->finished.data = load->look.data = load;
	ev_async_start(load->opt.loop, &load->finished);
	ev_timer_start(load->opt.loop, &load->look);
}

void limits_load_now(struct limits_load *load)
{
	load->asked = true;
	if (load->running)
		load->again = true;
	else
		begin(load);
}

void limits_load_free(struct limits_load **load)
{
	struct limits_load *l = *load;
	if (!l)
		return;
	if (l->running)
		pthread_join(l->thread, NULL);
	if (l->opt.loop) {
		ev_async_stop(l->opt.loop, &l->finished);
		ev_timer_stop(l->opt.loop, &l->look);
	}
	limits_yaml_free(&l->first);
	free(l);
	*load = NULL;
}
