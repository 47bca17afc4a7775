/*
 * fleet_worker.c - plays a worker from a script, for the tests of the fleet.
 *
 *	handoff (HANDOFF_FD) -> journal -> stats -> words of the script, in order
 *
 * Never ends by itself but as the script says, or when its supervisor is gone.
 */
#include "fleet_fixture.h"

#include <inttypes.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "shm/err.h"

struct worker {
	struct handoff handoff;
	int run, journal;
	struct stats *stats;
};

static void note(const struct worker *w, const char *line)
{
	if (write(w->journal, line, strlen(line)) < 0)
		_exit(EXIT_INTERNAL);
}

static void say(const struct worker *w, uint32_t kind, uint64_t generation)
{
	struct control_message m = {CONTROL_MAGIC, kind, generation};
	(void)w;
	send(HANDOFF_CONTROL_FD, &m, sizeof m, MSG_NOSIGNAL);
}

static void answer(const struct worker *w, uint32_t kind)
{
	if (kind == CONTROL_STOP) {
		note(w, "stopping\n");
		_exit(0);
	}
	if (kind == CONTROL_DRAIN) {
		stats_set(w->stats, phase, PHASE_DRAINING);
		note(w, "draining\n");
		say(w, CONTROL_DRAINED, w->handoff.generation);
	}
}

static void serve(const struct worker *w)
{
	for (;;) {
		struct pollfd p = {.fd = HANDOFF_CONTROL_FD, .events = POLLIN};
		struct control_message m;
		stats_set(w->stats, heartbeat, host_boot_ns());
		if (poll(&p, 1, 10) <= 0)
			continue;
		if (recv(HANDOFF_CONTROL_FD, &m, sizeof m, 0) != (ssize_t)sizeof m)
			_exit(EXIT_ORPHAN);
		if (m.magic != CONTROL_MAGIC || m.generation != w->handoff.generation)
			_exit(EXIT_INTERNAL);
		answer(w, m.kind);
	}
}

static void live_deaf(const struct worker *w)
{
	for (;;) {
		stats_set(w->stats, heartbeat, host_boot_ns());
		poll(NULL, 0, 10);
	}
}

static void flood(const struct worker *w)
{
	char garbage[300];
	memset(garbage, 'x', sizeof garbage);
	for (size_t i = 0;; i++) {
		stats_set(w->stats, heartbeat, host_boot_ns());
		if (send(HANDOFF_CONTROL_FD, garbage, i % sizeof garbage, MSG_NOSIGNAL) < 0)
			_exit(EXIT_ORPHAN);
	}
}

static void end_by(int sig)
{
	kill(getpid(), sig);
	for (;;)
		pause();
}

static void set(const struct worker *w, const char *word, int value)
{
	if (!strcmp(word, "phase"))
		stats_set(w->stats, phase, value);
	else if (!strcmp(word, "flags"))
		stats_set(w->stats, flags, value);
	else if (!strcmp(word, "in_hand"))
		stats_set(w->stats, in_hand, value);
	else if (!strcmp(word, "in_store"))
		stats_set(w->stats, in_store, value);
	else if (!strcmp(word, "next"))
		stats_set(w->stats, next_offset, value);
	else if (!strcmp(word, "reason"))
		stats_set(w->stats, rebuild_reason, value);
	else if (!strcmp(word, "exit"))
		_exit(value);
	else if (!strcmp(word, "signal"))
		end_by(value);
	else
		_exit(EXIT_INTERNAL);
}

static void play(const struct worker *w, char *word)
{
	uint64_t generation = w->handoff.generation;
	char *value = strchr(word, '=');
	if (value) {
		*value = 0;
		set(w, word, atoi(value + 1));
	} else if (!strcmp(word, "replaying")) {
		say(w, CONTROL_REPLAYING, generation);
	} else if (!strcmp(word, "ready")) {
		say(w, CONTROL_READY, generation);
	} else if (!strcmp(word, "drained")) {
		say(w, CONTROL_DRAINED, generation);
	} else if (!strcmp(word, "stale")) {
		say(w, CONTROL_READY, generation - 1);
	} else if (!strcmp(word, "garbage")) {
		say(w, 77, generation);
	} else if (!strcmp(word, "zero")) {
		send(HANDOFF_CONTROL_FD, "", 0, MSG_NOSIGNAL);
	} else if (!strcmp(word, "tough")) {
		signal(SIGABRT, SIG_IGN);
	} else if (!strcmp(word, "still")) {
		note(w, "still\n");
		for (;;)
			pause();
	} else if (!strcmp(word, "mute")) {
		close(HANDOFF_CONTROL_FD);
		live_deaf(w);
	} else if (!strcmp(word, "flood")) {
		flood(w);
	} else if (!strcmp(word, "serve")) {
		serve(w);
	} else {
		live_deaf(w);
	}
}

/* The line of the n-th start. */
static char *script_line(const struct worker *w, unsigned n)
{
	static char text[4096];
	char name[32], *line = text, *next;
	snprintf(name, sizeof name, "script.%u", w->handoff.partition);
	int fd = openat(w->run, name, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	text[len > 0 ? len : 0] = 0;
	if (fd >= 0)
		close(fd);
	if (!text[0])
		strcpy(text, "replaying ready serve");
	while (n-- && (next = strchr(line, '\n')) && next[1])
		line = next + 1;
	line[strcspn(line, "\n")] = 0;
	return line;
}

static void open_journal(struct worker *w)
{
	char name[32], line[256];
	const struct handoff *h = &w->handoff;
	snprintf(name, sizeof name, "journal.%u", h->partition);
	w->journal = openat(w->run, name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
	int n = snprintf(line, sizeof line,
		"start pid=%d generation=%" PRIu64
		" partitions=%u adopt=%d batch_max=%u quarantine=%u",
		getpid(), h->generation, h->partitions, h->adopt, h->batch_max, h->n_quarantine);
	for (uint32_t i = 0; i < h->n_quarantine && i < 2; i++)
		n += snprintf(line + n, sizeof line - (size_t)n, " %" PRId64, h->quarantine[i]);
	snprintf(line + n, sizeof line - (size_t)n, "\n");
	note(w, line);
}

static unsigned count_starts(const struct worker *w)
{
	static char text[65536];
	unsigned n = 0;
	ssize_t len = pread(w->journal, text, sizeof text - 1, 0);
	text[len > 0 ? len : 0] = 0;
	for (char *at = text; (at = strstr(at, "start ")); at++)
		n++;
	return n;
}

static void open_all(struct worker *w)
{
	char name[TABLE_DIR_NAME_SIZE];
	int fd;
	if (handoff_unpack(HANDOFF_FD, &w->handoff))
		_exit(EXIT_HANDOFF);
	if (getppid() != w->handoff.supervisor_pid)
		_exit(EXIT_ORPHAN);
	w->run = open(w->handoff.run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	open_journal(w);
	table_dir_name(name, w->handoff.partition, w->handoff.generation);
	int dir = openat(w->run, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = stats_create(
		dir, w->handoff.partition, w->handoff.generation, 2000, &w->stats, &fd);
	if (err)
		_exit(err == ERR_BUSY ? EXIT_REBUILD : EXIT_INTERNAL);
	stats_set(w->stats, in_hand, 0); /* as the real one */
	stats_set(w->stats, in_store, 0);
	stats_set(w->stats, flags, 0);
}

int fleet_worker_main(void)
{
	static struct worker w; /* large */
	static const struct rlimit none = {0, 0};
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
		signal(fatal[i], SIG_DFL); /* not a sanitizer's */
	setrlimit(RLIMIT_CORE, &none);
	open_all(&w);
	char *line = script_line(&w, count_starts(&w) - 1), *rest;
	for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		play(&w, word);
	_exit(EXIT_INTERNAL); /* a script that does not end */
}
