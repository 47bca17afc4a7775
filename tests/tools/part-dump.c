/*
 * part-dump.c - every partition of a run directory's table, a line each, as
 * numbers that nobody has rounded.
 *
 *	part-dump --run-dir DIR [--partition N]
 *
 *	now=BOOT_NS partition=0 state=ready ready=1 generation=... pid=... lease_until=BOOT_NS
 *	phase=live flags=0 last_commit_at=BOOT_NS start=... target=... next=... ...
 *
 * Partitions that are free are left out.  What the supervisor says comes from
 * its table, what the worker says from its stats; offsets are -1 when there is
 * none.  Works with a supervisor that is frozen or dead, too.
 */
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/host.h"
#include "shm/stats.h"
#include "shm/table.h"
#include "tests/tools/text.h"

static _Noreturn void fail(const char *what, const char *why)
{
	fprintf(stderr, "part-dump: %s: %s\n", what, why);
	exit(1);
}

static void print_slot(const struct table *table, const struct table_entry *e, uint32_t p)
{
	uint64_t now = host_boot_ns();

	printf("now=%" PRIu64 " partition=%u state=%s ready=%d generation=%" PRIu64
	       " pid=%u lease_until=%" PRIu64 " restarts=%u death=%s.%d",
		now, p, part_state_word(e->state), table_is_ready(table, p, e->word, now),
		e->generation, e->pid, e->lease_until, e->restarts, part_death_word(e->death),
		e->death_code);
}

static void print_stats(const struct stats_copy *s)
{
	printf(" phase=%s flags=%" PRIu64 " commits=%" PRIu64 " last_commit_at=%" PRIu64
	       " commit_ns_last=%" PRIu64 " commit_ns_max=%" PRIu64,
		worker_phase_word((enum worker_phase)s->phase), s->flags, s->commits,
		s->last_commit_at, s->commit_ns_last, s->commit_ns_max);
	printf(" start=%" PRId64 " target=%" PRId64 " next=%" PRId64 " log_start=%" PRId64
	       " log_end=%" PRId64,
		(int64_t)s->start_offset, (int64_t)s->target_offset, (int64_t)s->next_offset - 1,
		(int64_t)s->log_start, (int64_t)s->log_end);
	printf(" records=%" PRIu64 " replayed=%" PRIu64 " gaps=%" PRIu64 " gap_offsets=%" PRIu64
	       " ready_at=%" PRIu64 " replay_started_at=%" PRIu64 " lookup_errors=%" PRIu64,
		s->records, s->replayed, s->gaps, s->gap_offsets, s->ready_at, s->replay_started_at,
		s->lookup_errors);
}

static void print_partition(int dirfd, const struct table *table, uint32_t p)
{
	char name[TABLE_DIR_NAME_SIZE];
	struct stats_copy stats;
	struct table_entry entry;

	if (table_read(table, p, &entry) != 0 || entry.state == PART_FREE)
		return;
	print_slot(table, &entry, p);
	table_dir_name(name, p, entry.generation);
	if (stats_pread(dirfd, name, &stats) == 0)
		print_stats(&stats);
	putchar('\n');
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"run-dir", required_argument, NULL, 'd'},
		{"partition", required_argument, NULL, 'p'}, {0}};
	const char *run_dir = NULL;
	int64_t only = -1;
	struct table table;
	int dirfd, err;

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == 'd')
			run_dir = optarg;
		else if (c == 'p')
			only = text_number("--partition", optarg);
		else
			return 2;
	}
	if (run_dir == NULL || optind != argc)
		fail("usage", "part-dump --run-dir DIR [--partition N]");
	dirfd = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		fail(run_dir, "cannot be opened");
	err = table_attach(dirfd, &table);
	if (err != 0)
		fail(run_dir, err_text(err));
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		if (only < 0 || only == p)
			print_partition(dirfd, &table, p);
	return fflush(stdout) == 0 ? 0 : 1;
}
