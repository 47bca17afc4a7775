/*
 * reader-loop.c - asks without pause, and checks each answer against the table.
 *
 *	word before --> tally_partition_usage --> word after
 *	    '----------- judge(generation of the answer) -'
 *
 *	reader-loop --run-dir DIR [--tenant NAME] [--processes N] [--seconds S] [--seed N]
 *
 * A violation is an answer that can only have come from a store which was not
 * published when the question was asked: its generation had been seen before
 * and the word had left it; or the word was on its way out; or the lease was
 * over, before and after.  A generation cannot come back once the word has
 * left it, so this judges without stopping anything.  What changed so fast
 * that it cannot be judged is counted as unsure.
 *
 * Ends after --seconds or at SIGTERM; prints one line; exit code 1 after a
 * violation, 3 when there was no answer at all.
 */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/host.h"
#include "shm/table.h"
#include "shm/tally.h"
#include "tests/tools/text.h"

#define PROCESSES_MAX 64

struct counts {
	_Atomic uint64_t answers, refused, unsure, violations;
};

struct look {
	uint64_t word;
	bool ready;
};

static volatile sig_atomic_t stopped;
static struct counts *counts;		   /* shared by all processes */
static uint64_t last_seen[TABLE_CAPACITY]; /* generation the word had when we looked last */

static void on_term(int sig)
{
	(void)sig;
	stopped = 1;
}

static _Noreturn void fail(const char *what, const char *why)
{
	fprintf(stderr, "reader-loop: %s: %s\n", what, why);
	exit(2);
}

static struct look look(const struct table *table, uint32_t p)
{
	uint64_t word = table_word_of(table, p);

	return (struct look){word, table_is_ready(table, p, word, host_boot_ns())};
}

static bool leaving(enum part_state state)
{
	return state == PART_DRAINING || state == PART_FREE || state == PART_STOPPED ||
	       state == PART_FAILED;
}

static void violation(
	uint32_t p, const char *what, uint64_t generation, struct look a, struct look b)
{
	counts->violations++;
	printf("violation: partition %u generation %llu %s; word before %s.%llu%s, after "
	       "%s.%llu%s\n",
		p, (unsigned long long)generation, what, part_state_word(table_word_state(a.word)),
		(unsigned long long)table_word_generation(a.word), a.ready ? " ready" : "",
		part_state_word(table_word_state(b.word)),
		(unsigned long long)table_word_generation(b.word), b.ready ? " ready" : "");
	fflush(stdout);
}

/* An answer of `generation`, between two looks at a table that was the present one all the time. */
static void judge(uint32_t p, uint64_t generation, struct look a, struct look b)
{
	bool same_before = table_word_generation(a.word) == generation;
	bool same_after = table_word_generation(b.word) == generation;

	if (same_before && a.ready)
		return;
	if (!same_before && last_seen[p] == generation)
		violation(p, "had been left", generation, a, b);
	else if (same_before && leaving(table_word_state(a.word)))
		violation(p, "was on its way out", generation, a, b);
	else if (same_after && b.ready)
		return;
	else if (same_before && table_word_state(a.word) == PART_READY && a.word == b.word)
		violation(p, "had no lease", generation, a, b);
	else
		counts->unsure++;
}

static void ask(struct tally *tally, int dirfd, struct table *table, uint32_t p, const char *tenant)
{
	struct tally_part_usage usage;
	struct look before = look(table, p), after;
	int err = tally_partition_usage(tally, p, tenant, &usage);

	after = look(table, p);
	if (err != 0 && err != TALLY_ENOTFOUND) {
		counts->refused++;
	} else {
		counts->answers++;
		if (table_replaced(dirfd, table))
			counts->unsure++;
		else if (err == 0)
			judge(p, usage.generation, before, after);
	}
	if (table_word_generation(before.word) == table_word_generation(after.word))
		last_seen[p] = table_word_generation(after.word);
}

/* Until there is a table.  False: stopped. */
static bool attach(const char *run_dir, int *dirfd, struct table *table)
{
	while (!stopped) {
		*dirfd = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (*dirfd >= 0 && table_attach(*dirfd, table) == 0)
			return true;
		if (*dirfd >= 0)
			close(*dirfd);
		usleep(1000);
	}
	return false;
}

static void run(const char *run_dir, const char *tenant, unsigned seed)
{
	struct tally *tally = NULL;
	struct table table;
	uint64_t asked = 0;
	int dirfd;

	while (attach(run_dir, &dirfd, &table)) {
		while (tally == NULL && !stopped && tally_open(run_dir, 0, &tally) != 0)
			usleep(1000);
		while (!stopped && !table_replaced(dirfd, &table)) {
			uint32_t partitions = atomic_load(&table.head->partitions);

			if (partitions == 0 || partitions > TABLE_CAPACITY)
				continue;
			ask(tally, dirfd, &table, (uint32_t)rand_r(&seed) % partitions, tenant);
			if (++asked % 1024 == 0)
				tally_idle(tally);
		}
		table_detach(&table);
		close(dirfd);
	}
	tally_close(&tally);
}

static int report(void)
{
	printf("answers=%llu refused=%llu unsure=%llu violations=%llu\n",
		(unsigned long long)counts->answers, (unsigned long long)counts->refused,
		(unsigned long long)counts->unsure, (unsigned long long)counts->violations);
	return counts->violations != 0 ? 1 : counts->answers == 0 ? 3 : 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"run-dir", required_argument, NULL, 'd'},
		{"tenant", required_argument, NULL, 't'},
		{"processes", required_argument, NULL, 'p'},
		{"seconds", required_argument, NULL, 's'}, {"seed", required_argument, NULL, 'r'},
		{0}};
	const char *run_dir = NULL, *tenant = "tenant-0";
	int64_t processes = 1, seconds = 0, seed = 1;
	struct sigaction term = {.sa_handler = on_term};
	pid_t pid[PROCESSES_MAX];
	int died = 0;

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == 'd')
			run_dir = optarg;
		else if (c == 't')
			tenant = optarg;
		else if (c == '?')
			return 2;
		else
			*(c == 'p'	   ? &processes
				: c == 's' ? &seconds
					   : &seed) = text_number("a number", optarg);
	}
	if (run_dir == NULL || optind != argc || processes < 1 || processes > PROCESSES_MAX)
		fail("usage",
			"reader-loop --run-dir DIR [--tenant NAME] [--processes N] [--seconds S]");
	counts = mmap(
		NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		fail("mmap", "out of memory");
	sigaction(SIGTERM, &term, NULL);
	sigaction(SIGALRM, &term, NULL);
	for (int i = 0; i < processes; i++) {
		pid[i] = fork();
		if (pid[i] != 0)
			continue;
		run(run_dir, tenant, (unsigned)(seed + i));
		_exit(0);
	}
	alarm((unsigned)seconds);
	for (int status, left = (int)processes; left > 0;) {
		if (wait(&status) > 0) {
			died |= !WIFEXITED(status);
			left--;
			continue;
		}
		for (int i = 0; i < processes; i++)
			kill(pid[i], SIGTERM); /* interrupted: pass it on */
	}
	if (died)
		printf("violation: a reader crashed\n");
	return died ? 1 : report();
}
