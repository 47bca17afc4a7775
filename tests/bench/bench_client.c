/*
 * bench_client.c - what libtally costs a caller: wall ns per stream and per call, with the stores at
 * rest and with a writer that commits as fast as it can.
 *
 *	bench_client [STREAMS [PARTITIONS [NAME...]]]	(1000000 64, all that is measured)
 *
 *	test (supervisor's table) + child (the workers' stores) <--map-- tally_*()
 *
 * One tenant with two policies, one of them with a limit of its own; hashes are uniform.  Each figure
 * NAME.rest, NAME.writer is the median of SLICES slices; check_1 has percentiles of single calls, too.
 * `load` is a walk through memory that misses the caches: judge the others by their ratio to it.
 */
#include <signal.h>
#include <sys/prctl.h>

#include "bench.h"
#include "tests/unit/client_run.h"

#define PARTS	 64 /* at most */
#define SLICES	 5
#define SLICE_NS 100e6
#define MANY	 1000
#define CALLS	 200000 /* whose percentiles are taken */

struct bench {
	struct run run;
	struct tally *tally;
	uint64_t streams, rng;
	uint32_t parts;
};

static uint64_t draw(struct bench *b)
{
	return bench_draw(&b->rng);
}

/* Stream i of all. */
static uint64_t hash_of(uint64_t i)
{
	return bench_mix(i + 1);
}

/* --- the stores --------------------------------------------------------------------------------- */

static struct usage *open_store(const struct bench *b, uint32_t partition)
{
	char path[160];
	bool boot;
	struct usage *usage;
	struct usage_options options = {
		.path = path,
		.map_bytes = UINT64_C(4) << 30,
		.readers_max = 64,
		.identity = {.format = USAGE_FORMAT,
			.partition = partition,
			.partitions = b->parts,
			.window_minutes = RUN_WINDOW,
			.generation = 100 + partition,
			.topic = "usage"},
	};

	run_path(&b->run, partition, 100 + partition, path);
	mkdir(path, 0750);
	host_boot_id(options.identity.boot_id);
	if (usage_open(&options, &usage, &boot) != 0)
		exit(1);
	return usage;
}

static void add(struct usage *usage, uint64_t hash, int64_t *offset)
{
	struct record record = {
		.tenant = "a",
		.tenant_len = 1,
		.policy = hash & 1024 ? "gold" : "",
		.policy_len = hash & 1024 ? 4 : 0,
		.hash = hash,
		.size = 100,
		.timestamp_ms = host_wall_ms(),
		.offset = (*offset)++,
	};

	usage_add(usage, &record, host_wall_ms());
}

static void commit(struct usage *usage, int64_t offset)
{
	usage_advance(usage, offset, NULL);
	if (usage_commit(usage, &(struct usage_commit){.now_ms = host_wall_ms()}) != 0)
		exit(2);
}

/* The writer: one commit of MANY records after the other, over all partitions in turn. */
static void write_for_ever(struct bench *b, struct usage *stores[PARTS], int64_t offset[PARTS])
{
	b->rng = 1;
	for (uint32_t p = 0;; p = (p + 1) % b->parts) {
		for (int i = 0; i < MANY; i++) {
			uint64_t hash = hash_of(draw(b) % b->streams);

			add(stores[p], hash - hash % b->parts + p, &offset[p]);
		}
		commit(stores[p], offset[p]);
	}
}

/* In a child: fills the stores, says so, and writes on when it is told to. */
static void worker_main(struct bench *b, int in, int out)
{
	struct usage *stores[PARTS];
	int64_t offset[PARTS] = {0};
	char byte = 'x';

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (uint32_t p = 0; p < b->parts; p++)
		stores[p] = open_store(b, p);
	for (uint64_t i = 0; i < b->streams; i++)
		add(stores[hash_of(i) % b->parts], hash_of(i), &offset[hash_of(i) % b->parts]);
	for (uint32_t p = 0; p < b->parts; p++)
		if (offset[p] > 0)
			commit(stores[p], offset[p]);
	if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1)
		exit(0);
	write_for_ever(b, stores, offset);
}

/* --- what is measured --------------------------------------------------------------------------- */

static void lookup_one(struct bench *b)
{
	struct tally_lookup one = {.hash = hash_of(draw(b) % b->streams)};

	tally_lookup(b->tally, "a", &one, 1);
}

static void lookup_many(struct bench *b)
{
	static struct tally_lookup many[MANY];

	for (int i = 0; i < MANY; i++)
		many[i].hash = hash_of(draw(b) % b->streams);
	tally_lookup(b->tally, "a", many, MANY);
}

static void check_known(struct bench *b)
{
	struct tally_check one = {.hash = hash_of(draw(b) % b->streams)};

	tally_check(b->tally, "a", &one, 1, NULL);
}

static void check_known_many(struct bench *b)
{
	static struct tally_check many[MANY];

	for (int i = 0; i < MANY; i++)
		many[i].hash = hash_of(draw(b) % b->streams);
	tally_check(b->tally, "a", many, MANY, NULL);
}

static void check_new(struct bench *b)
{
	struct tally_check one = {.hash = draw(b) | 1};

	tally_check(b->tally, "a", &one, 1, NULL);
}

static void buckets(struct bench *b)
{
	struct tally_tenant_limits limits;
	struct tally_bucket out[2];
	size_t n;

	tally_buckets(b->tally, "a", -1, &limits, out, 2, &n);
}

/* The count per policy. */
static void policies(struct bench *b)
{
	static struct tally_policy out[4];
	size_t n;

	tally_policies(b->tally, "a", out, 4, &n, NULL);
}

static void usage(struct bench *b)
{
	struct tally_usage out;

	tally_tenant(b->tally, "a", &out);
}

static void still_valid(struct bench *b)
{
	tally_still_valid(b->tally);
}

/* Dependent loads over 64 MiB. */
static uint64_t *walk;
static void machine(struct bench *b)
{
	static uint64_t at;

	(void)b;
	at = walk[at];
}

static const struct measure {
	const char *name;
	void (*run)(struct bench *b);
	unsigned each; /* streams in a call; 0: as many as there are partitions */
} measures[] = {
	{"load", machine, 1},
	{"lookup_1", lookup_one, 1},
	{"lookup_1000", lookup_many, MANY},
	{"check_1", check_known, 1},
	{"check_1000", check_known_many, MANY},
	{"check_new", check_new, 1},
	{"still_valid", still_valid, 1},
	/* per partition */
	{"buckets", buckets, 0},
	{"policies", policies, 0},
	{"tenant", usage, 0},
};
#define MEASURES (sizeof(measures) / sizeof(measures[0]))

static void say(const char *name, const char *what, const char *when, double value)
{
	char key[64];

	snprintf(key, sizeof(key), "%s%s.%s", name, what, when);
	bench_say(key, value);
}

static double median_of(struct bench *b, const struct measure *m)
{
	double slices[SLICES];

	for (int s = 0; s < SLICES; s++) {
		double start = bench_ns(), now;
		uint64_t calls = 0;

		do {
			for (int i = 0; i < 16; i++)
				m->run(b);
			calls += 16;
		} while ((now = bench_ns()) - start < SLICE_NS);
		slices[s] = (now - start) / (double)calls / (m->each ? m->each : b->parts);
	}
	return bench_percentile(slices, SLICES, 0.5);
}

/* The time of the clock itself is in it. */
static void percentiles(struct bench *b, const struct measure *m, const char *when)
{
	static double took[CALLS];

	for (int i = 0; i < CALLS; i++) {
		double start = bench_ns();

		m->run(b);
		took[i] = bench_ns() - start;
	}
	say(m->name, "_p50", when, bench_percentile(took, CALLS, 0.5));
	say(m->name, "_p99", when, bench_percentile(took, CALLS, 0.99));
}

static bool wanted(const char *name, char **names)
{
	if (!*names)
		return true;
	while (*names && strcmp(*names, name) != 0)
		names++;
	return *names != NULL;
}

static void measure_all(struct bench *b, const char *when, char **names)
{
	for (size_t i = 0; i < MEASURES; i++) {
		if (!wanted(measures[i].name, names))
			continue;
		say(measures[i].name, "", when, median_of(b, &measures[i]));
		if (measures[i].run == check_known)
			percentiles(b, &measures[i], when);
	}
}

static void make_walk(struct bench *b)
{
	size_t n = (64 << 20) / sizeof(*walk);

	walk = malloc(n * sizeof(*walk));
	assert_non_null(walk);
	for (size_t i = 0; i < n; i++)
		walk[i] = i;
	for (size_t i = n - 1; i > 0; i--) { /* one cycle through all of them */
		size_t k = draw(b) % i;
		uint64_t swap = walk[i];

		walk[i] = walk[k];
		walk[k] = swap;
	}
}

static void publish(struct bench *b)
{
	const struct limits_policy gold = {"gold", b->streams};
	const struct limits_tenant a = {.name = "a",
		.streams = b->streams,
		.has_streams = true,
		.policies = &gold,
		.n_policies = 1};

	assert_int_equal(
		limits_write(b->run.dirfd,
			&(struct limits_source){
				.version = 1, .default_streams = 1, .tenants = &a, .n_tenants = 1}),
		0);
	atomic_store(&table_head_mut(&b->run.table)->limits_version, 1);
	atomic_store(&table_head_mut(&b->run.table)->partitions, b->parts);
	for (uint32_t p = 0; p < b->parts; p++) {
		run_publish(&b->run, p, PART_READY, 100 + p);
		run_lease(&b->run, p, 3600000);
	}
}

int main(int argc, char **argv)
{
	struct bench b = {.streams = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000,
		.parts = argc > 2 ? (uint32_t)atoi(argv[2]) : PARTS};
	char **names = argc > 3 ? argv + 3 : argv + argc;
	int to[2], from[2];
	char byte = 'x';
	pid_t pid;

	if (!b.streams || !b.parts || b.parts > PARTS) {
		fputs("usage: bench_client [STREAMS [PARTITIONS <= 64 [NAME...]]]\n", stderr);
		return 2;
	}
	run_start(&b.run);
	assert_int_equal(pipe(to) | pipe(from), 0);
	pid = fork();
	if (pid == 0)
		worker_main(&b, to[0], from[1]);
	assert_int_equal(read(from[0], &byte, 1), 1);
	publish(&b);
	make_walk(&b);
	assert_int_equal(tally_open(b.run.dir, 0, &b.tally), 0);
	measure_all(&b, "rest", names);
	assert_int_equal(write(to[1], &byte, 1), 1);
	measure_all(&b, "writer", names);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	free(walk);
	tally_close(&b.tally);
	run_end(&b.run);
	return 0;
}
