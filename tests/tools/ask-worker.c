/*
 * ask-worker.c - asks one partition's worker at its admit.sock, without a query process.
 *
 *	ask-worker GENERATION_DIR touch|admit|rate TENANT BUDGET FIRST COUNT STEP [BYTES]
 *
 * Hashes are FIRST, FIRST + STEP, ...  Prints one line: "known=1 new=2 rejected=0 failed=0", or
 * "status=not_ready", or "rate=N" (the sum).  Exit code 0 when it was answered (or touched).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "shm/admit.h"
#include "shm/host.h"

static uint64_t generation_of(const char *dir)
{
	const char *dot = strrchr(dir, '.');

	return dot ? strtoull(dot + 1, NULL, 10) : 0;
}

static int dial(const char *dir)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/" ADMIT_NAME, dir);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		perror(address.sun_path);
		exit(1);
	}
	return fd;
}

static enum admit_kind kind_of(const char *word)
{
	if (strcmp(word, "touch") == 0)
		return ADMIT_TOUCH;
	return strcmp(word, "rate") == 0 ? ADMIT_RATE : ADMIT_ADMIT;
}

static int show(const struct admit_answer *answer)
{
	unsigned count[4] = {0};
	uint64_t rate = 0;

	if (answer->status != ADMIT_DONE) {
		puts(answer->status == ADMIT_NO_ROOM ? "status=no_room" : "status=not_ready");
		return 1;
	}
	for (uint32_t i = 0; i < answer->n; i++) {
		if (answer->asked == ADMIT_RATE)
			rate += admit_rate_at(answer, i);
		else
			count[answer->verdicts[i] & 3]++;
	}
	if (answer->asked == ADMIT_RATE)
		printf("rate=%llu\n", (unsigned long long)rate);
	else
		printf("known=%u new=%u rejected=%u failed=%u\n", count[ADMIT_KNOWN],
			count[ADMIT_NEW], count[ADMIT_REJECTED], count[ADMIT_FAILED]);
	return 0;
}

int main(int argc, char **argv)
{
	static struct admit_stream streams[ADMIT_STREAMS_MAX];
	static uint8_t bytes[ADMIT_MESSAGE_MAX];
	static struct admit_question q;
	struct admit_answer answer;
	uint64_t first, step;
	ssize_t n;
	int fd;

	if (argc < 8) {
		fprintf(stderr, "usage: see the head of ask-worker.c\n");
		return 2;
	}
	q.kind = kind_of(argv[2]);
	q.id = 1;
	q.generation = generation_of(argv[1]);
	q.seen_ms = host_wall_ms();
	q.tenant = (struct admit_text){argv[3], (uint16_t)strlen(argv[3])};
	q.n_buckets = q.kind == ADMIT_ADMIT;
	q.n_policies = q.kind != ADMIT_RATE;
	q.budget[0] = strtoull(argv[4], NULL, 10);
	q.policy[0].name.text = "";
	first = strtoull(argv[5], NULL, 10);
	q.n_streams = (uint32_t)strtoul(argv[6], NULL, 10);
	step = strtoull(argv[7], NULL, 10);
	for (uint32_t i = 0; i < q.n_streams && i < ADMIT_STREAMS_MAX; i++)
		streams[i] = (struct admit_stream){.hash = first + i * step,
			.bytes = argc > 8 ? strtoull(argv[8], NULL, 10) : 100};
	q.streams = streams;
	n = (ssize_t)admit_pack(&q, bytes);
	fd = dial(argv[1]);
	if (n <= 0 || send(fd, bytes, (size_t)n, MSG_NOSIGNAL) != n)
		return 1;
	if (q.kind == ADMIT_TOUCH)
		return 0;
	n = recv(fd, bytes, sizeof(bytes), 0);
	if (n <= 0 || !admit_unpack_answer(bytes, (size_t)n, &answer)) {
		puts("status=gone");
		return 1;
	}
	return show(&answer);
}
