/*
 * churn.c - a day of churn in one store: how large does its file grow, beside what is live in it?
 *
 *	churn [STREAMS [MINUTES [DIR]]]	(20000 1440 /dev/shm)
 *	-> ns_per_record, streams, file_bytes, live_bytes, live_per_stream
 *
 * The first minute is one batch, as in a replay: it makes the file large.  Then
 * each minute every stream has a record, in batches as a busy live worker commits
 * them, and one stream in 200 ends and another one begins; the window is two
 * hours.  Each commit sweeps as much as a live worker's does.
 */
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "shm/check.h"
#include "shm/usage.h"

#define BATCH	 500
#define SWEEP	 16
#define WINDOW	 120
#define START_MS INT64_C(1700000000000)
#define MINUTE	 INT64_C(60000)

static struct usage *open_store(const char *dir, uint64_t streams)
{
	struct usage_options options = {
		.path = dir,
		.map_bytes = (UINT64_C(1) << 30) + 2048 * streams,
		.readers_max = 64,
		.identity = {.format = USAGE_FORMAT,
			.partitions = 1,
			.window_minutes = WINDOW,
			.topic = "bench"},
	};
	struct usage *usage;
	bool boot_differs;

	must(usage_open(&options, &usage, &boot_differs) == 0);
	return usage;
}

static void add(struct usage *usage, uint64_t stream, int64_t now_ms)
{
	static const char *const tenants[] = {"tenant-0", "tenant-1", "tenant-2", "tenant-3"};
	struct record record = {.tenant = tenants[stream % 4],
		.tenant_len = 8,
		.hash = bench_mix(stream + 1),
		.size = 1000,
		.timestamp_ms = now_ms};

	must(usage_add(usage, &record, now_ms) == SKIP_NONE);
}

static void commit(struct usage *usage, int64_t now_ms)
{
	static int64_t offset;
	struct usage_commit how = {.now_ms = now_ms, .sweep_blocks = SWEEP};

	usage_advance(usage, ++offset, NULL);
	must(usage_commit(usage, &how) == 0);
}

/* Streams first .. first + n - 1 live in this minute. */
static void run_minute(
	struct usage *usage, uint64_t first, uint64_t n, int64_t minute_ms, size_t batch)
{
	int64_t now_ms = minute_ms;

	for (uint64_t i = 0; i < n; i++) {
		now_ms = minute_ms + (int64_t)(i * (uint64_t)MINUTE / n);
		add(usage, first + i, now_ms);
		if (usage_pending(usage) == batch)
			commit(usage, now_ms);
	}
	commit(usage, now_ms);
}

static void say(struct usage *usage)
{
	struct store_facts facts;
	double live;

	usage_store_facts(usage, &facts);
	live = (double)facts.used_bytes - (double)facts.free_pages * facts.page_size;
	bench_say("streams", (double)usage_meta(usage)->streams);
	bench_say("file_bytes", (double)facts.used_bytes);
	bench_say("live_bytes", live);
	bench_say("live_per_stream", live / (double)usage_meta(usage)->streams);
}

int main(int argc, char **argv)
{
	uint64_t streams = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
	uint64_t minutes = argc > 2 ? strtoull(argv[2], NULL, 10) : 1440;
	char dir[200], path[256];
	struct usage *usage;
	double began;

	snprintf(dir, sizeof(dir), "%s/churn.XXXXXX", argc > 3 ? argv[3] : "/dev/shm");
	if (streams < 1000 || !minutes || !mkdtemp(dir)) {
		fputs("churn: needs 1000 streams, a minute, and a directory to write in\n", stderr);
		return 2;
	}
	usage = open_store(dir, streams);
	began = bench_cpu_ns();
	for (uint64_t m = 0; m < minutes; m++)
		run_minute(usage, m * streams / 200, streams, START_MS + (int64_t)m * MINUTE,
			m ? BATCH : streams + 1);
	bench_say("ns_per_record", (bench_cpu_ns() - began) / (double)(minutes * streams));
	say(usage);
	usage_close(&usage);
	for (size_t i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, i ? "lock.mdb" : "data.mdb");
		unlink(path);
	}
	return rmdir(dir) != 0;
}
