/*
 * ask_parts.c - what the parts of a question cost, each by itself.
 *
 *	ask_parts lookup RUN_DIR TENANT FILE	libtally: hashes of FILE, one decimal a line
 *	ask_parts worker GENERATION_DIR N	N new streams, one after the other, at its admit.sock
 *
 * lookup prints name=ns for one call of tally_tenant, and for one stream of
 * tally_lookup and tally_check, asked 1 and 1000 at a time: medians of 51 slices.
 * worker prints the time of one question and the share of the commit in it, in
 * microseconds: medians; the rest is two ways through the socket and two wake-ups.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "shm/admit.h"
#include "shm/check.h"
#include "shm/stats.h"
#include "shm/tally.h"

#define SLICES	 51
#define SLICE_NS 20000000
#define AT_ONCE	 1000

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), by_value);
	return values[n / 2];
}

/* --- libtally -------------------------------------------------------------------------------- */

struct lookup {
	struct tally *tally;
	const char *tenant;
	uint64_t *hashes;
	size_t n, next, at_once, missed;
};

static void call_tenant(struct lookup *l)
{
	struct tally_usage usage;

	l->missed += tally_tenant(l->tally, l->tenant, &usage) != 0;
}

static void call_lookup(struct lookup *l)
{
	static struct tally_lookup streams[AT_ONCE];

	for (size_t i = 0; i < l->at_once; i++)
		streams[i].hash = l->hashes[l->next++ % l->n];
	must(tally_lookup(l->tally, l->tenant, streams, l->at_once) == 0);
	for (size_t i = 0; i < l->at_once; i++)
		l->missed += streams[i].result != 0;
}

static void call_check(struct lookup *l)
{
	static struct tally_check streams[AT_ONCE];
	struct tally_tenant_limits limits;

	for (size_t i = 0; i < l->at_once; i++)
		streams[i] = (struct tally_check){.hash = l->hashes[l->next++ % l->n]};
	must(tally_check(l->tally, l->tenant, streams, l->at_once, &limits) == 0);
	for (size_t i = 0; i < l->at_once; i++)
		l->missed += streams[i].result != 0 || streams[i].verdict != TALLY_KNOWN;
}

static void measure(
	struct lookup *l, const char *name, size_t at_once, void (*call)(struct lookup *l))
{
	double values[SLICES];

	l->at_once = at_once;
	for (int s = 0; s < SLICES; s++) {
		double start = now_ns(), end;
		size_t calls = 0;

		do {
			call(l);
			calls++;
			end = now_ns();
		} while (end - start < SLICE_NS);
		values[s] = (end - start) / (double)(calls * at_once);
	}
	printf("%s=%.0f ", name, median(values, SLICES));
}

static int run_lookup(const char *run_dir, const char *tenant, const char *path)
{
	struct lookup l = {.tenant = tenant};
	FILE *in = fopen(path, "r");
	uint64_t hash;

	must(in);
	while (fscanf(in, "%" SCNu64, &hash) == 1) {
		l.hashes = realloc(l.hashes, (l.n + 1) * sizeof(hash));
		must(l.hashes);
		l.hashes[l.n++] = hash;
	}
	fclose(in);
	must(l.n > 0 && tally_open(run_dir, 0, &l.tally) == 0);
	measure(&l, "tenant", 1, call_tenant);
	measure(&l, "lookup_1", 1, call_lookup);
	measure(&l, "lookup_1000", AT_ONCE, call_lookup);
	measure(&l, "check_1", 1, call_check);
	measure(&l, "check_1000", AT_ONCE, call_check);
	printf("missed=%zu\n", l.missed);
	tally_close(&l.tally);
	free(l.hashes);
	return 0;
}

/* --- a worker -------------------------------------------------------------------------------- */

static int dial(const char *dir)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	must(strlen(dir) + sizeof(ADMIT_NAME) < sizeof(address.sun_path));
	strcpy(address.sun_path, dir);
	strcat(address.sun_path, "/" ADMIT_NAME);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		perror(address.sun_path);
		exit(1);
	}
	return fd;
}

static double ask(int fd, const char *dir, uint64_t hash)
{
	static uint8_t message[ADMIT_MESSAGE_MAX];
	const struct admit_stream stream = {.hash = hash, .bytes = 100};
	struct admit_question question = {.kind = ADMIT_ADMIT,
		.id = hash,
		.generation = strtoull(strrchr(dir, '.') + 1, NULL, 10),
		.seen_ms = (int64_t)time(NULL) * 1000,
		.tenant = {"bench", 5},
		.n_buckets = 1,
		.n_policies = 1,
		.n_streams = 1,
		.budget = {ADMIT_NO_LIMIT},
		.policy = {{{"", 0}, 0}},
		.streams = &stream};
	size_t len = admit_pack(&question, message);
	double start = now_ns();
	struct admit_answer answer;
	ssize_t n;

	must(len > 0 && send(fd, message, len, 0) == (ssize_t)len);
	n = recv(fd, message, sizeof(message), 0);
	start = now_ns() - start;
	must(n > 0 && admit_unpack_answer(message, (size_t)n, &answer));
	must(answer.status == ADMIT_DONE && answer.verdicts[0] == ADMIT_NEW);
	return start;
}

static int run_worker(const char *dir, size_t n)
{
	double *took = malloc(2 * n * sizeof(*took)), *commit = took + n;
	int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = dial(dir);
	const char *partition = strrchr(dir, '/') + 2;
	struct stats_copy stats;
	struct segment segment;

	must(took && dirfd >= 0 && stats_attach(dirfd, &segment) == 0);
	for (size_t i = 0; i < n; i++) {
		/* In no order, and of this partition, if the topic has 2^n of them, n <= 10. */
		uint64_t hash = (i + 1) * 0x9e3779b97f4a7c15 << 10;

		took[i] = ask(fd, dir, hash + strtoull(partition, NULL, 10));
		stats_copy(&segment, &stats);
		commit[i] = (double)stats.commit_ns_last;
	}
	printf("question_us=%.1f commit_us=%.1f\n", median(took, n) / 1000,
		median(commit, n) / 1000);
	close(fd);
	free(took);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "lookup") == 0)
		return run_lookup(argv[2], argv[3], argv[4]);
	if (argc == 4 && strcmp(argv[1], "worker") == 0)
		return run_worker(argv[2], strtoull(argv[3], NULL, 10));
	fputs("usage: ask_parts lookup RUN_DIR TENANT FILE | worker GENERATION_DIR N\n", stderr);
	return 2;
}
