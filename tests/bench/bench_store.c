/*
 * bench_store.c - what the store costs: CPU ns per record, per look-up, bytes per stream.
 *
 *	bench_store [streams [directory]]	(1000000, /dev/shm)
 *
 * Streams are uniform over 10 tenants with 2 policies each; as many records as
 * there are streams make a minute.  All streams are loaded first; their hashes
 * are random, so that is the order of inserts.  Each figure is the median of five
 * slices: name, value, unit, and the figure of the prototype that settled the
 * design, measured at 1 000 000 streams.  Judge its ratio beside those of the two
 * machine lines: on a busy machine all of them rise together.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shm/check.h"
#include "shm/usage.h"

#define TENANTS	  10
#define SLICES	  5
#define LOOK_UPS  500000
#define START_MS  INT64_C(1700000000000)
#define MAP_BYTES (UINT64_C(256) << 20) /* and 2 KiB per stream */

struct bench {
	struct usage *usage;
	uint64_t streams, records, rng;
	int64_t offset;
};

static double cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static uint64_t draw(struct bench *bench)
{
	return mix(bench->rng += UINT64_C(0x9e3779b97f4a7c15));
}

static int64_t now_ms(const struct bench *bench)
{
	return START_MS + (int64_t)(bench->records * 60000 / bench->streams);
}

static void add(struct bench *bench, uint64_t stream)
{
	static const char names[TENANTS][9] = {"tenant-0", "tenant-1", "tenant-2", "tenant-3",
		"tenant-4", "tenant-5", "tenant-6", "tenant-7", "tenant-8", "tenant-9"};
	struct record record = {.tenant = names[stream % TENANTS],
		.tenant_len = 8,
		.policy = "finance",
		.policy_len = stream & 16 ? 7 : 0,
		.hash = mix(stream + 1),
		.size = 1000 + stream % 100,
		.timestamp_ms = now_ms(bench)};

	must(usage_add(bench->usage, &record, record.timestamp_ms) == SKIP_NONE);
	bench->records++;
}

static void commit(struct bench *bench)
{
	struct usage_commit how = {.now_ms = now_ms(bench)};

	usage_advance(bench->usage, ++bench->offset, NULL);
	must(usage_commit(bench->usage, &how) == 0);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, SLICES, sizeof(*values), by_value);
	return values[SLICES / 2];
}

static void say(const char *name, double value, const char *unit, double prototype)
{
	printf("%-28s %10.1f %-12s", name, value, unit);
	if (prototype > 0)
		printf(" prototype %.0f, ratio %.2f", prototype, value / prototype);
	printf("\n");
	fflush(stdout);
}

/* What the machine itself costs at this moment: the prototype was measured at 205 and 400 ns. */
static void run_machine(void)
{
	const size_t size = (size_t)256 << 20, pages = size / 4096;
	char *from = malloc(size), *to = malloc(size);
	uint64_t at = 1;
	double start;

	must(from && to);
	memset(from, 1, size);
	memset(to, 1, size);
	start = cpu_ns();
	for (int i = 0; i < 2000000; i++)
		at = mix(at + (uint64_t)from[at % size] + (uint64_t)i);
	say("machine: random load", (cpu_ns() - start) / 2000000, "ns", 205);
	start = cpu_ns();
	for (int i = 0; i < 200000; i++) {
		at = mix(at + (uint64_t)i);
		memcpy(to + at % pages * 4096, from + (at >> 32) % pages * 4096, 4096);
	}
	say("machine: copy of a page", (cpu_ns() - start) / 200000, "ns", 400);
	free(from);
	free(to);
}

static void load(struct bench *bench)
{
	double start = cpu_ns();

	for (uint64_t i = 0; i < bench->streams; i++) {
		add(bench, i);
		if (usage_pending(bench->usage) == 100000)
			commit(bench);
	}
	commit(bench);
	say("load, batch 100000", (cpu_ns() - start) / (double)bench->streams, "ns/record", 0);
}

static void run_batches(struct bench *bench, unsigned batch, double prototype)
{
	uint64_t per_slice = batch < 100000 ? 400000 : 4 * (uint64_t)batch;
	double values[SLICES], adds[SLICES];
	char name[64];

	for (int s = -1; s < SLICES; s++) {
		uint64_t done = 0;
		double start = cpu_ns(), adding = 0, t;

		for (; done < per_slice; done += batch) {
			t = cpu_ns();
			for (unsigned i = 0; i < batch; i++)
				add(bench, draw(bench) % bench->streams);
			adding += cpu_ns() - t;
			commit(bench);
		}
		if (s < 0)
			continue; /* the first one grows the file */
		values[s] = (cpu_ns() - start) / (double)done;
		adds[s] = adding / (double)done;
	}
	snprintf(name, sizeof(name), "add, batch %u", batch);
	say(name, median(adds), "ns/record", 0);
	snprintf(name, sizeof(name), "add+commit, batch %u", batch);
	say(name, median(values), "ns/record", prototype);
}

static void run_single(struct bench *bench)
{
	double values[SLICES];

	for (int s = 0; s < SLICES; s++) {
		double start = cpu_ns();

		for (int i = 0; i < 20000; i++) {
			add(bench, draw(bench) % bench->streams);
			commit(bench);
		}
		values[s] = (cpu_ns() - start) / 20000;
	}
	say("commit of one record", median(values), "ns", 8700);
}

static void run_look_ups(struct bench *bench)
{
	double values[SLICES];
	struct usage_stream stream;
	struct store_txn txn;

	for (int s = 0; s < SLICES; s++) {
		double start = cpu_ns();

		for (int i = 0; i < LOOK_UPS; i++) {
			uint64_t k = draw(bench) % bench->streams;

			store_begin_read(&txn, usage_store(bench->usage));
			if (s > 0)
				must(usage_find_stream(
					&txn, (uint32_t)(k % TENANTS), mix(k + 1), &stream));
			store_abort(&txn);
		}
		values[s] = (cpu_ns() - start) / LOOK_UPS;
	}
	say("begin and end of a read", values[0], "ns", 10);
	values[0] = values[1];
	say("look-up, one a transaction", median(values), "ns", 691);
}

static void run_scan(struct bench *bench)
{
	static struct usage_stream streams[4096];
	struct store_txn txn;
	uint64_t from, seen = 0;
	double start = cpu_ns();
	size_t n;

	store_begin_read(&txn, usage_store(bench->usage));
	for (uint32_t tenant = 0; tenant < TENANTS; tenant++)
		for (from = 0; (n = usage_list_streams(&txn, tenant, from, streams, 4096)) > 0;
			from = streams[n - 1].hash + 1)
			seen += n;
	store_abort(&txn);
	must(seen == bench->streams);
	say("list of all, copied out", (cpu_ns() - start) / (double)seen, "ns/stream", 0);
}

static void run_verify(struct bench *bench)
{
	struct store_txn txn;
	char why[256];
	double start = cpu_ns();

	store_begin_read(&txn, usage_store(bench->usage));
	must(usage_verify(&txn, why) == 0);
	store_abort(&txn);
	say("verify", (cpu_ns() - start) / (double)bench->streams, "ns/stream", 0);
}

static void say_space(struct bench *bench)
{
	struct store_facts facts;
	double live;

	usage_store_facts(bench->usage, &facts);
	live = (double)facts.used_bytes - (double)facts.free_pages * facts.page_size;
	say("live", live / (double)bench->streams, "bytes/stream", 73);
	say("file", (double)facts.used_bytes / (double)bench->streams, "bytes/stream", 219);
}

int main(int argc, char **argv)
{
	struct bench bench = {.streams = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000000, .rng = 1};
	struct usage_options options = {.readers_max = 64};
	char dir[256], path[300];
	bool boot_differs;

	snprintf(dir, sizeof(dir), "%s/tally-bench.XXXXXX", argc > 2 ? argv[2] : "/dev/shm");
	if (bench.streams < 1000 || !mkdtemp(dir)) {
		fprintf(stderr,
			"bench_store: needs at least 1000 streams and a directory to write in\n");
		return 2;
	}
	options.path = dir;
	options.map_bytes = MAP_BYTES + 2048 * bench.streams;
	options.identity = (struct usage_identity){
		.format = USAGE_FORMAT, .partitions = 1, .window_minutes = 120, .topic = "bench"};
	must(usage_open(&options, &bench.usage, &boot_differs) == 0);
	run_machine();
	load(&bench);
	say_space(&bench);
	run_batches(&bench, 10000, 1042);
	run_batches(&bench, 50000, 453);
	run_batches(&bench, 250000, 106);
	run_single(&bench);
	run_look_ups(&bench);
	run_scan(&bench);
	run_verify(&bench);
	say_space(&bench);
	usage_close(&bench.usage);
	snprintf(path, sizeof(path), "%s/data.mdb", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/lock.mdb", dir);
	unlink(path);
	return rmdir(dir) != 0;
}
