/*
 * store-dump.c - prints what the stores of a run directory hold.
 *
 *	store-dump --run-dir DIR [--at MS] [--totals | --no-streams]
 *
 * The output is dump.h's; compare it with oracle's.  Every store is read in
 * one transaction, and checked against itself.  Whether it is published as
 * ready does not matter here: the table only says which generations there are.
 * --at is the "now" to judge by; default: wall time plus the instance's offset.
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdatomic.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/host.h"
#include "shm/table.h"
#include "shm/usage.h"
#include "tests/tools/dump.h"
#include "tests/tools/text.h"

#define STREAMS_AT_ONCE 1024

static _Noreturn void fail(const char *what, const char *why)
{
	fprintf(stderr, "store-dump: %s: %s\n", what, why);
	exit(1);
}

struct view {
	struct dump *dump;
	struct store_txn *txn;
	unsigned partition, window;
	int64_t now_ms;
	uint32_t tenant;
	char name[TEXT_SIZE];
};

static const char *policy_of(struct view *v, unsigned policy, char text[TEXT_SIZE])
{
	char name[USAGE_NAME_SIZE + 1] = "";

	if (policy != 0 && !usage_policy_name(v->txn, v->tenant, policy, name))
		fail("a policy has no name", v->name);
	return text_of(text, name, strlen(name));
}

static void dump_rows(struct view *v)
{
	void *buf = malloc(window_row_size(v->window));
	uint32_t minute = window_minute_of_ms(v->now_ms);
	struct window_row row;
	char text[TEXT_SIZE];
	int policy = -1;

	while (usage_next_row(v->txn, v->tenant, &policy, v->window, buf, &row))
		dump_usage(v->dump, v->partition, v->name, policy_of(v, (unsigned)policy, text),
			window_row_streams(&row, minute), window_row_bytes(&row, minute));
	free(buf);
}

static void dump_one(struct view *v, const struct usage_stream *stream)
{
	uint32_t seen = window_minute_of_s(stream->entry.last_seen_s);
	char text[TEXT_SIZE];
	struct dump_stream s = {.partition = v->partition,
		.tenant = v->name,
		.hash = stream->hash,
		.last_seen_s = stream->entry.last_seen_s};

	if (!window_active(window_minute_of_ms(v->now_ms), seen, v->window))
		return;
	s.policy = policy_of(v, stream->entry.policy, text);
	for (unsigned age = 0; age < DUMP_BUCKETS; age++)
		s.bucket[age] = stream->entry.bucket[(seen - age) % RATE_MINUTES];
	dump_stream(v->dump, &s);
}

static void dump_streams(struct view *v)
{
	static struct usage_stream streams[STREAMS_AT_ONCE];
	uint64_t from = 0;
	size_t n;

	do {
		n = usage_list_streams(v->txn, v->tenant, from, streams, STREAMS_AT_ONCE);
		for (size_t i = 0; i < n; i++)
			dump_one(v, &streams[i]);
		if (n > 0)
			from = streams[n - 1].hash + 1;
	} while (n == STREAMS_AT_ONCE && from != 0);
}

static void dump_meta(struct view *v, const struct usage_meta *meta)
{
	char incarnation[2 * INCARNATION_SIZE + 1];

	_Static_assert(
		(int)DUMP_REASONS == (int)SKIP_REASONS, "the same reasons, in the same order");
	for (int i = 0; i < INCARNATION_SIZE; i++)
		sprintf(incarnation + 2 * i, "%02x", meta->incarnation[i]);
	uint64_t reasons[DUMP_REASONS];
	memcpy(reasons, meta->skipped, sizeof(reasons));
	reasons[DUMP_APPLIED] = meta->applied;
	dump_partition(v->dump, v->partition, meta->next_offset, incarnation, reasons);
}

static void dump_store(struct dump *dump, unsigned partition, const char *path, int64_t now_ms)
{
	struct view v = {
		.dump = dump, .partition = partition, .now_ms = now_ms, .tenant = UINT32_MAX};
	char name[USAGE_NAME_SIZE + 1], why[256] = "";
	struct usage_meta meta;
	struct store_txn txn;
	struct store *store;
	int err = store_open_reader(path, &store);

	if (err == ERR_NOT_FOUND)
		return;
	if (err != 0)
		fail(path, err_text(err));
	store_begin_read(&txn, store);
	v.txn = &txn;
	err = usage_read_meta(&txn, &meta);
	if (err == 0)
		err = usage_verify(&txn, why);
	if (err != 0)
		fail(path, why[0] ? why : err_text(err));
	v.window = meta.identity.window_minutes;
	dump_meta(&v, &meta);
	for (uint32_t tenant = UINT32_MAX; usage_next_tenant(&txn, &tenant, name);) {
		char text[TEXT_SIZE];

		v.tenant = tenant;
		strcpy(v.name, text_of(text, name, strlen(name)));
		dump_rows(&v);
		dump_streams(&v);
	}
	if (txn.err != 0)
		fail(path, err_text(txn.err));
	store_abort(&txn);
	store_close(&store);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"run-dir", required_argument, NULL, 'd'},
		{"at", required_argument, NULL, 'a'}, DUMP_OPTIONS, {0}};
	const char *run_dir = NULL;
	struct dump dump = {0};
	struct table_entry entry;
	struct table table;
	int64_t at = 0;
	int dirfd, err;

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == 'd')
			run_dir = optarg;
		else if (c == 'a')
			at = text_number("--at", optarg);
		else if (!dump_option(&dump, c))
			return 2;
	}
	if (run_dir == NULL || optind != argc)
		fail("usage", "store-dump --run-dir DIR [--at MS] [--totals | --no-streams]");
	dirfd = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = dirfd < 0 ? ERR_NOT_FOUND : table_attach(dirfd, &table);
	if (err != 0)
		fail(run_dir, err_text(err));
	if (at == 0)
		at = host_wall_ms() + atomic_load(&table.head->clock_offset_ms);
	for (unsigned p = 0; table_read(&table, p, &entry) == 0; p++) {
		char name[TABLE_DIR_NAME_SIZE], path[4096];

		if (entry.state == PART_FREE)
			continue;
		table_dir_name(name, p, entry.generation);
		snprintf(path, sizeof(path), "%s/%s", run_dir, name);
		dump_store(&dump, p, path, at);
	}
	dump_end(&dump, stdout);
	_exit(fflush(stdout) == 0 ? 0 : 1); /* its memory goes with it */
}
