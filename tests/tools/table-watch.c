/*
 * table-watch.c - looks at several instances' tables in a tight loop: two must
 * never say ready for one partition at one time.
 *
 *	table-watch [--seconds S] DIR DIR ...
 *
 *	A's word and lease -> B's -> A's again: unchanged and ready each time, so
 *	both were ready at the moment of the middle look
 *
 * Prints one line per change that it sees, `BOOT_NS DIR PARTITION ready|unready
 * GENERATION`, and one per overlap.  Ends after --seconds or at SIGTERM with
 * the number of looks; exit code 1 after an overlap.
 */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include "shm/host.h"
#include "shm/table.h"
#include "tests/tools/text.h"

#define WATCHED_MAX 8

struct watched {
	const char *path;
	int dirfd;
	bool attached;
	struct table table;
	uint64_t was[TABLE_CAPACITY]; /* generation that was ready, 0 = none */
};

static volatile sig_atomic_t stopped;

static void on_term(int sig)
{
	(void)sig;
	stopped = 1;
}

/* (Re)attaches when there is a new table. */
static void refresh(struct watched *w)
{
	if (w->attached && !table_replaced(w->dirfd, &w->table))
		return;
	if (w->attached) {
		table_detach(&w->table);
		close(w->dirfd);
	}
	w->dirfd = open(w->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	w->attached = w->dirfd >= 0 && table_attach(w->dirfd, &w->table) == 0;
	if (w->dirfd >= 0 && !w->attached)
		close(w->dirfd);
}

/* The generation that is ready right now, or 0. */
static uint64_t ready(const struct watched *w, uint32_t p)
{
	uint64_t word;

	if (!w->attached)
		return 0;
	word = table_word_of(&w->table, p);
	return table_is_ready(&w->table, p, word, host_boot_ns()) ? table_word_generation(word) : 0;
}

static void note(struct watched *w, uint32_t p, uint64_t generation)
{
	if (w->was[p] == generation)
		return;
	printf("%llu %s %u %s %llu\n", (unsigned long long)host_boot_ns(), w->path, p,
		generation ? "ready" : "unready",
		(unsigned long long)(generation ? generation : w->was[p]));
	fflush(stdout);
	w->was[p] = generation;
}

/* One look at one partition; true when two had it. */
static bool look(struct watched *all, int n, uint32_t p)
{
	uint64_t now[WATCHED_MAX];
	bool overlap = false;

	for (int i = 0; i < n; i++) {
		now[i] = ready(&all[i], p);
		for (int j = 0; j < i && now[i] != 0; j++) {
			if (now[j] == 0 || ready(&all[j], p) != now[j])
				continue;
			printf("overlap: partition %u ready in %s and in %s at %llu\n", p,
				all[j].path, all[i].path, (unsigned long long)host_boot_ns());
			overlap = true;
		}
	}
	for (int i = 0; i < n; i++)
		note(&all[i], p, now[i]);
	return overlap;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"seconds", required_argument, NULL, 's'}, {0}};
	static struct watched all[WATCHED_MAX];
	unsigned long long looks = 0, overlaps = 0;
	struct sigaction term = {.sa_handler = on_term};
	int64_t seconds = 0;
	int n = 0;

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == '?')
			return 2;
		seconds = text_number("--seconds", optarg);
	}
	for (; optind < argc && n < WATCHED_MAX; n++)
		all[n].path = argv[optind++];
	if (n == 0 || optind != argc) {
		fprintf(stderr, "usage: table-watch [--seconds S] DIR DIR ...\n");
		return 2;
	}
	sigaction(SIGTERM, &term, NULL);
	sigaction(SIGALRM, &term, NULL);
	alarm((unsigned)seconds);
	while (!stopped) {
		uint32_t partitions = 0;

		for (int i = 0; i < n; i++) {
			refresh(&all[i]);
			if (all[i].attached &&
				atomic_load(&all[i].table.head->partitions) > partitions)
				partitions = atomic_load(&all[i].table.head->partitions);
		}
		for (uint32_t p = 0; p < partitions && p < TABLE_CAPACITY; p++, looks++)
			overlaps += look(all, n, p);
		if (partitions == 0)
			usleep(1000);
	}
	printf("looks=%llu overlaps=%llu\n", looks, overlaps);
	return overlaps != 0;
}
