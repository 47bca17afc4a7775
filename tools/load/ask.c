/*
 * ask.c - `tally-load ask`: questions over gRPC, at a rate or as fast as they are answered.
 *
 *	plan --question--> a free slot --> connection --answer--> counts, --out
 *	                    ^                                       |
 *	                    '---------------------------------------'
 *
 * Connections take turns; each has `concurrency` slots.  One that is lost is made
 * again, and its calls are not: what became of them nobody knows.
 *
 * Runs in: load.  Blocks in: poll.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "ask.h"
#include "ask_conn.h"
#include "ask_count.h"
#include "ask_wire.h"

#define SECOND	    UINT64_C(1000000000)
#define RETRY_NS    (SECOND / 20) /* between two attempts to connect */
#define GRACE_NS    SECOND	  /* for the server's own "deadline exceeded" to arrive */
#define POLL_MS_MAX 20

struct slot {
	struct run *run;
	struct place *place;
	struct ask_call call;
	struct ask_question question;
	uint64_t due_ns;
	int64_t sent_us;
	struct slot *next_free;
};

/* A connection and its slots. */
struct place {
	struct ask_conn *conn;
	struct slot *slots, *free;
	uint64_t retry_ns;
};

struct run {
	struct ask_options options;
	struct addrinfo *address;
	char host[256], timeout[32];
	struct ask_plan *plan;
	struct ask_count *count;
	struct place *places;
	struct pollfd *polls;
	size_t turn;
	uint64_t begun, under_way, start_ns, alive_ns;
	bool exhausted;
	bool all_busy; /* no slot was free, or no connection ready, when it was asked last */
};

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
	(void)sig;
	stopped = 1;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

static int64_t wall_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* --- a question ------------------------------------------------------------------------------ */

static void on_done(struct ask_call *call)
{
	struct slot *slot = call->arg;
	struct run *run = slot->run;
	struct ask_times times = {now_ns() - slot->due_ns, slot->sent_us, wall_us()};

	ask_count_call(run->count, &slot->question, call, &times);
	slot->next_free = slot->place->free;
	slot->place->free = slot;
	run->under_way--;
}

/* When the next question is due. */
static uint64_t due(const struct run *run, uint64_t now)
{
	const struct ask_options *o = &run->options;

	if (o->rate == 0)
		return now;
	return run->start_ns + (uint64_t)((double)run->begun * 1e9 / (double)o->rate);
}

static bool more(const struct run *run, uint64_t now)
{
	const struct ask_options *o = &run->options;

	return !stopped && !run->exhausted && (!o->requests || run->begun < o->requests) &&
	       (!o->seconds || now - run->start_ns < o->seconds * SECOND);
}

static bool ask(struct run *run, struct place *place, uint64_t now)
{
	struct slot *slot = place->free;

	if (run->options.method >= ASK_PARTITIONS) {
		slot->question.n = 0;
	} else if (!ask_plan_next(run->plan, &slot->question)) {
		run->exhausted = true;
		return false;
	}
	place->free = slot->next_free;
	slot->due_ns = due(run, now);
	slot->sent_us = wall_us();
	slot->call.request_len = ask_wire_question(
		&run->options, &slot->question, (uint8_t *)(uintptr_t)slot->call.request);
	slot->call.give_up_ns = now + run->options.deadline_ms * 1000000 + GRACE_NS;
	run->begun++;
	run->under_way++;
	ask_conn_call(place->conn, &slot->call);
	return true;
}

/* Gives each connection in turn one question, as long as there are slots and questions. */
static void ask_all(struct run *run)
{
	size_t n = run->options.connections, busy = 0;

	run->all_busy = false;
	while (busy < n) {
		struct place *place = &run->places[run->turn++ % n];
		uint64_t now = now_ns();

		if (!more(run, now) || due(run, now) > now)
			return;
		if (!place->free || !ask_conn_ready(place->conn))
			busy++;
		else if (!ask(run, place, now))
			return;
		else
			busy = 0;
	}
	run->all_busy = true;
}

/* --- the loop -------------------------------------------------------------------------------- */

static void keep_open(struct run *run, uint64_t now)
{
	for (size_t i = 0; i < run->options.connections; i++) {
		struct place *place = &run->places[i];

		if (ask_conn_fd(place->conn) >= 0 || now < place->retry_ns)
			continue;
		place->retry_ns = now + RETRY_NS;
		ask_conn_open(place->conn);
	}
}

static int wait_ms(const struct run *run)
{
	uint64_t now = now_ns(), at;

	if (!more(run, now) || !run->options.rate)
		return POLL_MS_MAX;
	at = due(run, now);
	if (at <= now) /* it has become due just now, or no slot is free: an answer will come */
		return run->all_busy ? POLL_MS_MAX : 0;
	return (int)((at - now) / 1000000 < POLL_MS_MAX ? (at - now) / 1000000 : POLL_MS_MAX);
}

static void work(struct run *run)
{
	size_t n = run->options.connections;
	uint64_t now;

	for (size_t i = 0; i < n; i++) {
		struct ask_conn *conn = run->places[i].conn;
		int fd = ask_conn_fd(conn);

		run->polls[i] =
			(struct pollfd){.fd = fd, .events = fd < 0 ? 0 : ask_conn_events(conn)};
	}
	poll(run->polls, n, wait_ms(run));
	now = now_ns();
	for (size_t i = 0; i < n; i++) {
		struct ask_conn *conn = run->places[i].conn;

		if (ask_conn_fd(conn) < 0)
			continue;
		ask_conn_work(conn, run->polls[i].revents, now);
		if (ask_conn_ready(conn))
			run->alive_ns = now;
	}
}

/* true: everything was asked and answered, or it was stopped; false: nobody is there. */
static bool loop(struct run *run)
{
	run->start_ns = run->alive_ns = now_ns();
	for (;;) {
		uint64_t now = now_ns();

		if (!more(run, now) && run->under_way == 0)
			return true;
		if (now - run->alive_ns > run->options.patience_ms * 1000000)
			return false;
		keep_open(run, now);
		ask_all(run);
		work(run);
	}
}

/* --- beginning and end ----------------------------------------------------------------------- */

static bool resolve(struct run *run)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	const char *target = run->options.target, *colon = strrchr(target, ':');
	int err;

	snprintf(run->host, sizeof(run->host), "%.*s", (int)(colon - target), target);
	if (run->host[0] == '[' && run->host[strlen(run->host) - 1] == ']') {
		run->host[strlen(run->host) - 1] = '\0';
		memmove(run->host, run->host + 1, strlen(run->host));
	}
	err = getaddrinfo(run->host, colon + 1, &hints, &run->address);
	if (err)
		fprintf(stderr, "tally-load: --target: %s: %s\n", target, gai_strerror(err));
	return err == 0;
}

static void make_place(struct run *run, struct place *place)
{
	const struct ask_options *o = &run->options;
	const struct ask_conn_options conn = {
		run->address, o->target, o->path, run->timeout, on_done};

	place->conn = ask_conn_new(&conn);
	place->slots = calloc(o->concurrency, sizeof(*place->slots));
	for (size_t i = 0; place->slots && i < o->concurrency; i++) {
		struct slot *slot = &place->slots[i];

		slot->run = run;
		slot->place = place;
		slot->call.arg = slot;
		slot->call.request = malloc(ask_wire_room(o));
		slot->question.streams = calloc(o->per_request, sizeof(struct ask_stream));
		if (!slot->call.request || !slot->question.streams)
			abort();
		slot->next_free = place->free;
		place->free = slot;
	}
	if (!place->slots)
		abort();
}

static bool open_all(struct run *run)
{
	const struct ask_options *o = &run->options;

	snprintf(run->timeout, sizeof(run->timeout), "%llum", (unsigned long long)o->deadline_ms);
	run->plan = ask_plan_open(o);
	run->count = run->plan ? ask_count_open(o) : NULL;
	if (!run->count || !resolve(run))
		return false;
	run->places = calloc(o->connections, sizeof(*run->places));
	run->polls = calloc(o->connections, sizeof(*run->polls));
	if (!run->places || !run->polls)
		abort();
	for (size_t i = 0; i < o->connections; i++)
		make_place(run, &run->places[i]);
	return true;
}

static void close_places(struct run *run)
{
	for (size_t i = 0; i < run->options.connections; i++) {
		struct place *place = &run->places[i];

		ask_conn_free(&place->conn);
		for (size_t j = 0; j < run->options.concurrency; j++) {
			free((void *)(uintptr_t)place->slots[j].call.request);
			free(place->slots[j].call.reply);
			free(place->slots[j].question.streams);
		}
		free(place->slots);
	}
	free(run->places);
	free(run->polls);
}

int ask_main(int argc, char **argv)
{
	static struct run run;
	struct sigaction stop = {.sa_handler = on_signal};
	bool ok;
	double seconds;

	ask_options_parse(&run.options, argc, argv);
	sigaction(SIGTERM, &stop, NULL);
	sigaction(SIGINT, &stop, NULL);
	if (!open_all(&run))
		return 1;
	ok = loop(&run);
	if (!ok)
		fprintf(stderr, "tally-load: no connection to %s in %llu ms\n", run.options.target,
			(unsigned long long)run.options.patience_ms);
	seconds = (double)(now_ns() - run.start_ns) / 1e9;
	close_places(&run);
	ok &= ask_count_close(&run.count, seconds);
	ask_plan_free(&run.plan);
	freeaddrinfo(run.address);
	return ok ? 0 : 1;
}
