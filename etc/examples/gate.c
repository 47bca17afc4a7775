/*
 * gate.c - may these streams come in?  Asked of a running Tally, by memory map: no process is asked.
 *
 *	cc gate.c $(pkg-config --cflags --libs tally)
 *	./a.out /run/tally TENANT HASH...
 *
 * A member of the group tally-readers may do so.  Exit code: 0 all may, 1 some may not, 2 trouble.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <tally.h>

#define STREAMS_MAX 64

static const char *answer(const struct tally_check *stream)
{
	static const char *const words[] = {
		[TALLY_KNOWN] = "known, may come in",
		[TALLY_NEW] = "new, may come in",
		[TALLY_FULL] = "new, and there is no room",
	};
	return stream->result ? tally_error(stream->result) : words[stream->verdict];
}

int main(int argc, char **argv)
{
	struct tally_check streams[STREAMS_MAX] = {0};
	struct tally *tally = NULL;
	size_t n = 0;
	int err, refused = 0;

	if (argc < 4 || argc - 3 > STREAMS_MAX) {
		fprintf(stderr, "usage: %s RUN_DIR TENANT HASH...\n", argv[0]);
		return 2;
	}
	for (; n < (size_t)argc - 3; n++)
		streams[n].hash = strtoull(argv[3 + n], NULL, 0);
	err = tally_open(argv[1], 0, &tally);
	if (err == 0)
		err = tally_check(tally, argv[2], streams, n, NULL);
	if (err != 0) {
		fprintf(stderr, "%s: %s\n", argv[1], tally_error(err));
		tally_close(&tally);
		return 2;
	}
	for (size_t i = 0; i < n; i++) {
		printf("%" PRIu64 ": %s\n", streams[i].hash, answer(&streams[i]));
		/* What cannot be checked is let in: a Tally that is away must not stop anybody. */
		refused += streams[i].result == 0 && streams[i].verdict == TALLY_FULL;
	}
	tally_close(&tally);
	return refused != 0;
}
