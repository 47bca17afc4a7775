/*
 * stores.c - the same records into four stores, in turn: ns per record, and per look-up.
 *
 *	stores [-n STREAMS] [-t TENANTS] [-b BATCH] [-r ROUNDS] [-d DIR] ENGINE...
 *
 *	table	open addressing in memory, the same fields, nothing kept: the limit
 *	tally	usage_add, then usage_commit: sort, apply, commit
 *	lmdb	a get and a put per record, one commit per batch: the naive way
 *	redis=SOCKET	ZADD tenant seen stream, 100 in a pipeline; as strings for look-ups
 *
 *	records of a round --.--> table -> tally -> lmdb -> redis, each timed
 *	                     '--- the next round has others
 *
 * All streams are loaded first, in the order of their random hashes.  A round
 * has as many records as there are streams, uniform, which is a minute's worth.
 * Medians of the rounds: processor time (none of them waits), with Redis the wall's.  What a name costs (interning) is in
 * tally.add alone: the others are given numbers.
 */
#include <endian.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <lmdb.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "shm/check.h"
#include "shm/usage.h"

#define WINDOW	    120
#define POLICIES    2
#define START_MS    INT64_C(1700000000000)
#define PIPELINE    100
#define LOADING	    10000 /* in a pipeline, where nothing is timed */
#define LOOK_UPS    300000
#define ROUNDS_MAX  51
#define TENANTS_MAX 100000

struct sample {
	uint64_t hash, size;
	uint32_t tenant, policy;
	int64_t at_ms;
};

struct options {
	uint64_t streams, tenants, batch, rounds;
	const char *dir;
};

static struct options opt = {1000000, 10, 250000, 3, "/dev/shm"};
static char work_dir[200];

/* Stream i, whoever asks. */
static struct sample sample_of(uint64_t i, int64_t at_ms)
{
	uint64_t hash = bench_mix(i + 1);

	return (struct sample){
		hash, 1000 + i % 100, (uint32_t)(i % opt.tenants), (hash >> 20) % POLICIES, at_ms};
}

/* --- table: the limit ------------------------------------------------------------------------ */

struct slot {
	uint64_t hash;
	uint32_t tenant; /* + 1; 0 = free */
	uint32_t last_seen_s, last_produced_s;
	uint64_t unsent_bytes;
	uint16_t policy, flags;
	uint32_t bucket[RATE_MINUTES];
};

static struct {
	struct slot *slots;
	uint64_t mask;
	struct window_row *rows; /* tenant x policy */
} table;

static void table_open(const char *arg)
{
	size_t cap = 1024, rows = opt.tenants * POLICIES, size = window_row_size(WINDOW);
	char *slab = calloc(rows, size);

	(void)arg;
	while (cap < 2 * opt.streams)
		cap *= 2;
	table.slots = calloc(cap, sizeof(*table.slots));
	table.mask = cap - 1;
	table.rows = calloc(rows, sizeof(*table.rows));
	must(slab && table.slots && table.rows);
	for (size_t i = 0; i < rows; i++)
		window_row_map(&table.rows[i], slab + i * size, WINDOW);
}

static struct slot *table_find(uint32_t tenant, uint64_t hash)
{
	uint64_t at = hash + tenant * UINT64_C(0x9e3779b97f4a7c15);

	for (;; at++) {
		struct slot *slot = &table.slots[at & table.mask];

		if (!slot->tenant || (slot->hash == hash && slot->tenant == tenant + 1))
			return slot;
	}
}

static void table_put(const struct sample *s)
{
	struct slot *slot = table_find(s->tenant, s->hash);
	uint32_t seen_s = (uint32_t)(s->at_ms / 1000), minute = window_minute_of_s(seen_s);
	struct window_row *row = &table.rows[s->tenant * POLICIES + s->policy];
	uint32_t before = window_minute_of_s(slot->last_seen_s);

	if (!slot->tenant) {
		*slot = (struct slot){.hash = s->hash, .tenant = s->tenant + 1};
		window_row_add_stream(row, minute);
	} else if (before != minute || slot->policy != s->policy) {
		window_row_remove_stream(&table.rows[s->tenant * POLICIES + slot->policy], before);
		window_row_add_stream(row, minute);
	}
	window_row_add_bytes(row, minute, s->size);
	window_rate_add(slot->bucket, before, minute, s->size);
	slot->policy = (uint16_t)s->policy;
	if (slot->last_seen_s < seen_s)
		slot->last_seen_s = seen_s;
}

static void table_apply(const struct sample *samples, size_t n)
{
	for (size_t i = 0; i < n; i++)
		table_put(&samples[i]);
}

/* --- tally ----------------------------------------------------------------------------------- */

static struct {
	struct usage *usage;
	int64_t offset;
	double add_ns;
} tally;
static char names[TENANTS_MAX][16];

static void tally_open_store(const char *arg)
{
	struct usage_options options = {
		.path = work_dir,
		.map_bytes = (UINT64_C(1) << 30) + 2048 * opt.streams,
		.readers_max = 64,
		.identity = {.format = USAGE_FORMAT,
			.partitions = 1,
			.window_minutes = WINDOW,
			.topic = "bench"},
	};
	bool boot_differs;

	(void)arg;
	for (uint32_t i = 0; i < opt.tenants; i++)
		snprintf(names[i], sizeof(names[i]), "tenant-%u", i);
	must(usage_open(&options, &tally.usage, &boot_differs) == 0);
}

static void tally_add(const struct sample *s)
{
	struct record record = {.tenant = names[s->tenant],
		.tenant_len = strlen(names[s->tenant]),
		.policy = "finance",
		.policy_len = s->policy ? 7 : 0,
		.hash = s->hash,
		.size = s->size,
		.timestamp_ms = s->at_ms};

	must(usage_add(tally.usage, &record, s->at_ms) == SKIP_NONE);
}

static void tally_apply(const struct sample *samples, size_t n)
{
	struct usage_commit how = {.now_ms = samples[n - 1].at_ms};
	double began = bench_cpu_ns();

	for (size_t i = 0; i < n; i++)
		tally_add(&samples[i]);
	tally.add_ns += bench_cpu_ns() - began;
	usage_advance(tally.usage, ++tally.offset, NULL);
	must(usage_commit(tally.usage, &how) == 0);
}

/* --- lmdb: the naive way ---------------------------------------------------------------------- */

static struct {
	MDB_env *env;
	MDB_dbi dbi;
} lmdb;

struct lmdb_key {
	uint32_t tenant;
	uint64_t hash;
} __attribute__((packed));

static void lmdb_open(const char *arg)
{
	char path[256];
	MDB_txn *txn;

	(void)arg;
	snprintf(path, sizeof(path), "%s/naive", work_dir);
	must(mkdir(path, 0700) == 0 && mdb_env_create(&lmdb.env) == 0);
	must(mdb_env_set_mapsize(lmdb.env, (1u << 30) + 2048 * opt.streams) == 0);
	must(mdb_env_open(lmdb.env, path, MDB_WRITEMAP | MDB_NOSYNC | MDB_NOMETASYNC | MDB_NOTLS,
		     0600) == 0);
	must(mdb_txn_begin(lmdb.env, NULL, 0, &txn) == 0);
	must(mdb_dbi_open(txn, NULL, 0, &lmdb.dbi) == 0 && mdb_txn_commit(txn) == 0);
}

static void lmdb_put(MDB_txn *txn, const struct sample *s)
{
	struct lmdb_key name = {htobe32(s->tenant), htobe64(s->hash)};
	MDB_val key = {sizeof(name), &name}, value;
	struct usage_entry entry = {0};
	uint32_t seen_s = (uint32_t)(s->at_ms / 1000);

	if (mdb_get(txn, lmdb.dbi, &key, &value) == 0)
		memcpy(&entry, value.mv_data, sizeof(entry));
	window_rate_add(entry.bucket, window_minute_of_s(entry.last_seen_s),
		window_minute_of_s(seen_s), s->size);
	entry.policy = s->policy & (USAGE_POLICIES_MAX - 1);
	entry.last_seen_s = seen_s;
	value = (MDB_val){sizeof(entry), &entry};
	must(mdb_put(txn, lmdb.dbi, &key, &value, 0) == 0);
}

static void lmdb_apply(const struct sample *samples, size_t n)
{
	MDB_txn *txn;

	must(mdb_txn_begin(lmdb.env, NULL, 0, &txn) == 0);
	for (size_t i = 0; i < n; i++)
		lmdb_put(txn, &samples[i]);
	must(mdb_txn_commit(txn) == 0);
}

/* One look-up in a read transaction of its own, as a reader does. */
static void lmdb_look_up(void)
{
	static double took[LOOK_UPS];
	uint64_t rng = 7;
	MDB_txn *txn;

	must(mdb_txn_begin(lmdb.env, NULL, MDB_RDONLY, &txn) == 0);
	mdb_txn_reset(txn);
	for (int i = 0; i < LOOK_UPS; i++) {
		struct sample s = sample_of(bench_draw(&rng) % opt.streams, 0);
		struct lmdb_key name = {htobe32(s.tenant), htobe64(s.hash)};
		MDB_val key = {sizeof(name), &name}, value;
		double began = bench_ns();

		must(mdb_txn_renew(txn) == 0);
		must(mdb_get(txn, lmdb.dbi, &key, &value) == 0);
		mdb_txn_reset(txn);
		took[i] = bench_ns() - began;
	}
	mdb_txn_abort(txn);
	bench_say("lmdb.get_p50", bench_percentile(took, LOOK_UPS, 0.5));
	bench_say("lmdb.get_p99", bench_percentile(took, LOOK_UPS, 0.99));
}

/* --- redis ------------------------------------------------------------------------------------ */

static redisContext *redis;
static size_t redis_pipeline;

static void redis_open(const char *socket)
{
	redis = redisConnectUnix(socket);
	if (!redis || redis->err) {
		fprintf(stderr, "stores: redis at %s: %s\n", socket, redis ? redis->errstr : "?");
		exit(1);
	}
}

static void redis_take(size_t n)
{
	redisReply *reply;

	while (n-- > 0) {
		must(redisGetReply(redis, (void **)&reply) == REDIS_OK);
		must(reply->type != REDIS_REPLY_ERROR && reply->type != REDIS_REPLY_NIL);
		freeReplyObject(reply);
	}
}

static void redis_command(int argc, const char *const *argv)
{
	must(redisAppendCommandArgv(redis, argc, (const char **)(uintptr_t)argv, NULL) == REDIS_OK);
}

static void redis_zadd(const struct sample *s)
{
	char key[24], score[24], member[24];
	const char *const argv[] = {"ZADD", key, score, member};

	snprintf(key, sizeof(key), "t%u", s->tenant);
	snprintf(score, sizeof(score), "%" PRId64, s->at_ms / 1000);
	snprintf(member, sizeof(member), "%" PRIx64, s->hash);
	redis_command(4, argv);
}

static void redis_string(const char *verb, uint64_t stream)
{
	char key[24];
	const char *const argv[] = {verb, key, "1700000000"};

	snprintf(key, sizeof(key), "%" PRIx64, sample_of(stream, 0).hash);
	redis_command(verb[0] == 'S' ? 3 : 2, argv);
}

static void redis_apply(const struct sample *samples, size_t n)
{
	for (size_t i = 0; i < n; i += redis_pipeline) {
		size_t some = n - i < redis_pipeline ? n - i : redis_pipeline;

		for (size_t k = 0; k < some; k++)
			redis_zadd(&samples[i + k]);
		redis_take(some);
	}
}

static double redis_gets(uint64_t total, size_t pipeline)
{
	uint64_t rng = 7;
	double began = bench_ns();

	for (uint64_t i = 0; i < total; i += pipeline) {
		for (size_t k = 0; k < pipeline; k++)
			redis_string("GET", bench_draw(&rng) % opt.streams);
		redis_take(pipeline);
	}
	return (bench_ns() - began) / (double)total;
}

static void redis_look_up(void)
{
	double one[3], many[3];

	for (uint64_t i = 0; i < opt.streams; i++) {
		redis_string("SET", i);
		if (i % LOADING == LOADING - 1 || i == opt.streams - 1)
			redis_take(i % LOADING + 1);
	}
	for (int i = 0; i < 3; i++) {
		one[i] = redis_gets(30000, 1);
		many[i] = redis_gets(LOOK_UPS, PIPELINE);
	}
	bench_say("redis.get", bench_percentile(one, 3, 0.5));
	bench_say("redis.get_pipelined", bench_percentile(many, 3, 0.5));
}

/* --- all in turn ------------------------------------------------------------------------------- */

static const struct engine {
	const char *name;
	void (*open)(const char *arg);
	void (*apply)(const struct sample *samples, size_t n);
	void (*look_up)(void); /* or NULL */
	double (*clock)(void); /* with a server it is the wall's */
	unsigned one_in;       /* of the records of a round: it is slow */
} engines[] = {
	{"table", table_open, table_apply, NULL, bench_cpu_ns, 1},
	{"tally", tally_open_store, tally_apply, NULL, bench_cpu_ns, 1},
	{"lmdb", lmdb_open, lmdb_apply, lmdb_look_up, bench_cpu_ns, 1},
	{"redis", redis_open, redis_apply, redis_look_up, bench_ns, 5},
};
#define ENGINES (sizeof(engines) / sizeof(engines[0]))

static bool chosen[ENGINES];
static double record_ns[ENGINES][ROUNDS_MAX], add_ns[ROUNDS_MAX];

static double run(const struct engine *engine, const struct sample *samples, size_t n)
{
	double began = engine->clock();

	for (size_t i = 0; i < n; i += opt.batch)
		engine->apply(samples + i, n - i < opt.batch ? n - i : opt.batch);
	return (engine->clock() - began) / (double)n;
}

/* Round -1 loads, one stream after the other; round 0 is not counted: files grow in it. */
static void fill(struct sample *samples, int round)
{
	static uint64_t rng = 1;
	int64_t minute_ms = START_MS + (round + 1) * INT64_C(60000);

	for (uint64_t i = 0; i < opt.streams; i++)
		samples[i] = sample_of(round < 0 ? i : bench_draw(&rng) % opt.streams,
			minute_ms + (int64_t)(i * 60000 / opt.streams));
}

static void run_round(const struct sample *samples, int round)
{
	for (size_t e = 0; e < ENGINES; e++) {
		double ns;

		tally.add_ns = 0;
		if (!chosen[e])
			continue;
		ns = run(&engines[e], samples, opt.streams / (round < 0 ? 1 : engines[e].one_in));
		if (round > 0)
			record_ns[e][round - 1] = ns;
		if (round > 0 && engines[e].apply == tally_apply)
			add_ns[round - 1] = tally.add_ns / (double)opt.streams;
	}
}

static void say_tally(void)
{
	struct store_facts facts;
	double commit[ROUNDS_MAX], live;

	for (uint64_t i = 0; i < opt.rounds; i++)
		commit[i] = record_ns[1][i] - add_ns[i];
	usage_store_facts(tally.usage, &facts);
	live = (double)facts.used_bytes - (double)facts.free_pages * facts.page_size;
	bench_say("tally.add", bench_percentile(add_ns, opt.rounds, 0.5));
	bench_say("tally.commit", bench_percentile(commit, opt.rounds, 0.5));
	bench_say("tally.live_per_stream", live / (double)opt.streams);
	bench_say("tally.file_per_stream", (double)facts.used_bytes / (double)opt.streams);
}

static void choose(const char *word)
{
	size_t len = strcspn(word, "=");

	for (size_t e = 0; e < ENGINES; e++)
		if (strlen(engines[e].name) == len && strncmp(engines[e].name, word, len) == 0) {
			engines[e].open(word[len] ? word + len + 1 : "");
			chosen[e] = true;
			return;
		}
	fprintf(stderr, "stores: %s: none of table, tally, lmdb, redis=SOCKET\n", word);
	exit(2);
}

static void clean(void)
{
	static const char *const files[] = {
		"naive/data.mdb", "naive/lock.mdb", "naive", "data.mdb", "lock.mdb", ""};
	char path[256];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", work_dir, files[i]);
		remove(path);
	}
}

static void read_options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "n:t:b:r:d:")) != -1) {
		uint64_t *into = c == 'n'   ? &opt.streams
				 : c == 't' ? &opt.tenants
				 : c == 'b' ? &opt.batch
					    : &opt.rounds;

		if (c == '?')
			exit(2);
		else if (c == 'd')
			opt.dir = optarg;
		else
			*into = strtoull(optarg, NULL, 10);
	}
	if (opt.streams < 1000 || !opt.batch || !opt.rounds || opt.rounds > ROUNDS_MAX ||
		!opt.tenants || opt.tenants > TENANTS_MAX || optind == argc) {
		fputs("usage: stores [-n STREAMS >= 1000] [-t TENANTS <= 100000] [-b BATCH] "
		      "[-r ROUNDS <= 51] [-d DIR] table|tally|lmdb|redis=SOCKET...\n",
			stderr);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct sample *samples;
	char key[64];

	read_options(argc, argv);
	snprintf(work_dir, sizeof(work_dir), "%s/tally-stores.XXXXXX", opt.dir);
	samples = calloc(opt.streams, sizeof(*samples));
	if (!samples || !mkdtemp(work_dir)) {
		fprintf(stderr, "stores: %s: %s\n", work_dir, strerror(errno));
		return 1;
	}
	atexit(clean);
	for (int i = optind; i < argc; i++)
		choose(argv[i]);
	for (int round = -1; round <= (int)opt.rounds; round++) {
		redis_pipeline = round < 0 ? LOADING : PIPELINE;
		fill(samples, round);
		run_round(samples, round);
	}
	if (chosen[1])
		say_tally();
	for (size_t e = 0; e < ENGINES; e++) {
		if (!chosen[e])
			continue;
		snprintf(key, sizeof(key), "%s.record", engines[e].name);
		bench_say(key, bench_percentile(record_ns[e], opt.rounds, 0.5));
		if (engines[e].look_up)
			engines[e].look_up();
	}
	return 0;
}
