/*
 * revoke.c - the supervisor's fleet with real workers: from the event to the acknowledgement.
 *
 *	revoke CONFIG WORKER PARTITIONS ROUNDS
 *	-> "streams=N ready_s=S" then per round "revoked_ms=N restarted_s=S"
 *
 * Plays the group: gives the lease, assigns all partitions, waits until all
 * are ready, revokes all of them at once and stops the clock when fleet says
 * that it may be acknowledged, i.e. all workers are reaped and all stores renamed.
 */
#include <ev.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/host.h"
#include "shm/stats.h"
#include "supervisor/fleet.h"

struct bench {
	struct ev_loop *loop;
	struct fleet *fleet;
	struct table table;
	uint32_t partitions;
	uint64_t until;
	bool released, stopped;
};

static void on_released(void *arg)
{
	struct bench *b = arg;
	b->released = true;
	ev_break(b->loop, EVBREAK_ALL);
}

static void on_stopped(void *arg)
{
	struct bench *b = arg;
	b->stopped = true;
	ev_break(b->loop, EVBREAK_ALL);
}

static void on_tick(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct bench *b = w->data;
	struct fleet_status status;
	(void)revents;
	fleet_contact(b->fleet, host_boot_ns());
	fleet_tick(b->fleet);
	fleet_status(b->fleet, &status);
	if (status.ready == b->partitions || host_boot_ns() > b->until)
		ev_break(loop, EVBREAK_ALL);
}

static double since(uint64_t began)
{
	return (double)(host_boot_ns() - began) / 1e9;
}

static bool wait_ready(struct bench *b, unsigned seconds)
{
	struct fleet_status status;
	ev_timer tick;
	b->until = host_boot_ns() + seconds * UINT64_C(1000000000);
	ev_timer_init(&tick, on_tick, 0., 0.1);
	tick.data = b;
	ev_timer_start(b->loop, &tick);
	ev_run(b->loop, 0);
	ev_timer_stop(b->loop, &tick);
	fleet_status(b->fleet, &status);
	return status.ready == b->partitions;
}

static uint64_t count_streams(struct rundir *rundir, const struct table *table, uint32_t n)
{
	uint64_t sum = 0;
	for (uint32_t p = 0; p < n; p++) {
		struct stats_copy stats;
		char name[TABLE_DIR_NAME_SIZE];
		table_dir_name(name, p, table_word_generation(table_word_of(table, p)));
		if (!stats_pread(rundir_fd(rundir), name, &stats))
			sum += stats.streams;
	}
	return sum;
}

static int rounds(struct bench *b, struct rundir *rundir, int n)
{
	static uint32_t list[TABLE_CAPACITY];
	for (uint32_t p = 0; p < b->partitions; p++)
		list[p] = p;
	for (int i = 0; i < n; i++) {
		uint64_t began = host_boot_ns();
		fleet_contact(b->fleet, began);
		fleet_assigned(b->fleet, list, b->partitions, false);
		if (!wait_ready(b, 300)) {
			fputs("revoke: not ready in 300 s\n", stderr);
			return 1;
		}
		double ready = since(began);
		uint64_t streams = count_streams(rundir, &b->table, b->partitions);
		b->released = false;
		began = host_boot_ns();
		fleet_revoked(b->fleet, list, b->partitions, GROUP_REVOKED);
		while (!b->released)
			ev_run(b->loop, EVRUN_ONCE);
		printf("partitions=%u streams=%" PRIu64 " ready_s=%.2f revoked_ms=%.1f\n",
			b->partitions, streams, ready, since(began) * 1000);
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	static struct config config;
	static struct table_head facts;
	static struct bench b;
	struct config_error error;
	struct rundir *rundir;
	char why[512];
	if (argc != 5) {
		fputs("usage: revoke CONFIG WORKER PARTITIONS ROUNDS\n", stderr);
		return 2;
	}
	if (config_load(argv[1], &config, &error)) {
		fprintf(stderr, "%s\n", error.line);
		return 2;
	}
	if (rundir_open(config.run_dir, "", &rundir, why)) {
		fprintf(stderr, "%s\n", why);
		return 2;
	}
	facts.nonce = host_random();
	facts.capacity = TABLE_CAPACITY;
	facts.window_minutes = config.active_window_ms / 60000;
	facts.rate_minutes = 5;
	facts.lost_timeout_ms = 5000;
	facts.pid_namespace = host_pid_namespace();
	host_boot_id(facts.boot_id);
	snprintf(facts.topic, sizeof facts.topic, "%s", config.topic);
	if (table_create(rundir_fd(rundir), &facts, &b.table) ||
		table_install(rundir_fd(rundir), &b.table))
		return 1;
	b.partitions = (uint32_t)atoi(argv[3]);
	b.loop = ev_loop_new(EVFLAG_AUTO);
	struct fleet_options options = {&config, b.loop, rundir, &b.table, NULL, argv[2], &b,
		on_released, on_stopped, NULL};
	fleet_new(&options, &b.fleet);
	fleet_partitions(b.fleet, b.partitions);
	int failed = rounds(&b, rundir, atoi(argv[4]));
	fleet_stop(b.fleet);
	while (!b.stopped)
		ev_run(b.loop, EVRUN_ONCE);
	fleet_free(&b.fleet);
	rundir_close(&rundir);
	return failed;
}
