/*
 * order.c - a cold start that reads the newest part of the log first: what is known when?
 *
 *	order [STREAMS [PERCENT [DIR]]]		(200000 10 /dev/shm)
 *
 * A log of two hours, a window long, in which every stream that lives has a record each
 * minute and PERCENT of them in an hour end while others begin.  It is read into a store
 * twice: from the oldest record on, and the newest twelfth first, then from the oldest on.
 * A line each time that so many minutes of the log have been read:
 *
 *	order, minutes read, ms of processor time,
 *	streams counted, beside all that are active in the end (%),
 *	streams known of those that are alive, and will be asked about, in the end (%)
 *
 * and at the end whether both stores hold the same streams and rows.  By hand.
 */
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "bench.h"
#include "shm/check.h"
#include "shm/usage.h"

#define MINUTES	 120
#define NEWEST	 10
#define BATCH	 250000
#define START_MS INT64_C(1700000040000)
#define NOW_MS	 (START_MS + (MINUTES - 1) * INT64_C(60000) + 59999)
#define TENANT	 "tenant"
#define SAMPLE	 10000

struct order {
	struct usage *usage;
	uint64_t streams, ending; /* alive at a time; that end each minute */
	int64_t offset;
	double cpu_ns;
};

static void open_store(struct order *order, const char *dir)
{
	struct usage_options options = {
		.path = dir,
		.map_bytes = (UINT64_C(1) << 30) + 4096 * order->streams,
		.readers_max = 8,
		.identity = {.format = USAGE_FORMAT,
			.partitions = 1,
			.window_minutes = MINUTES,
			.topic = "bench"},
	};
	bool boot_differs;

	must(usage_open(&options, &order->usage, &boot_differs) == 0);
}

static void commit(struct order *order)
{
	struct usage_commit how = {.now_ms = NOW_MS};

	usage_advance(order->usage, ++order->offset, NULL);
	must(usage_commit(order->usage, &how) == 0);
}

static void read_minute(struct order *order, uint64_t minute)
{
	uint64_t first = minute * order->ending;
	double began = bench_cpu_ns();

	for (uint64_t i = 0; i < order->streams; i++) {
		struct record record = {.tenant = TENANT,
			.tenant_len = sizeof(TENANT) - 1,
			.hash = bench_mix(first + i + 1),
			.size = 1000,
			.timestamp_ms =
				START_MS + (int64_t)(minute * 60000 + i * 60000 / order->streams)};

		must(usage_add(order->usage, &record, NOW_MS) == SKIP_NONE);
		if (usage_pending(order->usage) == BATCH)
			commit(order);
	}
	commit(order);
	order->cpu_ns += bench_cpu_ns() - began;
}

static double known_percent(const struct order *order)
{
	uint64_t first = (MINUTES - 1) * order->ending, hash[SAMPLE];
	size_t n = order->streams < SAMPLE ? order->streams : SAMPLE, known = 0;
	int64_t seen[SAMPLE];
	struct store_txn txn;
	uint32_t tenant;

	for (size_t i = 0; i < n; i++)
		hash[i] = bench_mix(first + i * order->streams / n + 1);
	store_begin_read(&txn, usage_store(order->usage));
	must(usage_find_tenant(&txn, TENANT, sizeof(TENANT) - 1, &tenant));
	usage_find_streams(&txn, tenant, hash, n, seen);
	store_abort(&txn);
	for (size_t i = 0; i < n; i++)
		known += seen[i] >= 0;
	return 100. * (double)known / (double)n;
}

static void say(const struct order *order, const char *name, unsigned minutes)
{
	uint64_t all = order->streams + (MINUTES - 1) * order->ending;

	printf("%s\t%u\t%.0f\t%.1f\t%.1f\n", name, minutes, order->cpu_ns / 1e6,
		100. * (double)usage_meta(order->usage)->streams / (double)all,
		known_percent(order));
	fflush(stdout);
}

/* Of all streams and rows, but for what depends on the order of writing. */
static uint64_t content(const struct order *order)
{
	static struct usage_stream streams[1024];
	void *buf = malloc(window_row_size(MINUTES));
	uint64_t sum = 0, from = 0;
	struct store_txn txn;
	struct window_row row;
	uint32_t tenant;
	int policy = -1;
	size_t n;

	must_get(buf);
	store_begin_read(&txn, usage_store(order->usage));
	must(usage_find_tenant(&txn, TENANT, sizeof(TENANT) - 1, &tenant));
	while ((n = usage_list_streams(&txn, tenant, from, streams, 1024)) > 0) {
		for (size_t i = 0; i < n; i++)
			sum = XXH3_64bits_withSeed(&streams[i], sizeof(streams[i]), sum);
		from = streams[n - 1].hash + 1;
	}
	while (usage_next_row(&txn, tenant, &policy, MINUTES, buf, &row))
		sum = XXH3_64bits_withSeed(buf, window_row_size(MINUTES), sum);
	store_abort(&txn);
	free(buf);
	return sum;
}

static uint64_t run(struct order order, const char *dir, bool newest_first)
{
	const char *name = newest_first ? "newest first" : "oldest first";
	char path[256];
	uint64_t sum;

	open_store(&order, dir);
	for (unsigned done = 0; done < MINUTES; done++) {
		unsigned minute = !newest_first	  ? done
				  : done < NEWEST ? MINUTES - NEWEST + done
						  : done - NEWEST;

		read_minute(&order, minute);
		if (done == 0 || done == 4 || done == 9 || (done + 1) % 30 == 0)
			say(&order, name, done + 1);
	}
	sum = content(&order);
	usage_close(&order.usage);
	for (size_t i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, i ? "lock.mdb" : "data.mdb");
		unlink(path);
	}
	return sum;
}

int main(int argc, char **argv)
{
	struct order order = {.streams = argc > 1 ? strtoull(argv[1], NULL, 10) : 200000};
	uint64_t percent = argc > 2 ? strtoull(argv[2], NULL, 10) : 10, sums[2];
	char dir[200];

	snprintf(dir, sizeof(dir), "%s/order.XXXXXX", argc > 3 ? argv[3] : "/dev/shm");
	if (order.streams < 1000 || !mkdtemp(dir)) {
		fputs("order: needs 1000 streams and a directory to write in\n", stderr);
		return 2;
	}
	order.ending = order.streams * percent / 100 / 60;
	for (int newest_first = 0; newest_first < 2; newest_first++)
		sums[newest_first] = run(order, dir, newest_first != 0);
	printf("both stores hold the same: %s\n", sums[0] == sums[1] ? "yes" : "NO");
	return rmdir(dir) != 0 || sums[0] != sums[1];
}
