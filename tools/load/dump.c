/*
 * dump.c - the same messages in a file, for benchmarks without a broker.
 *
 * The file holds one partition, message after message, nothing before, between
 * or behind them; integers are big-endian:
 *
 *	offset:8 timestamp_ms:8 key_len:4 value_len:4 header_len:4 key value header
 *
 * Offsets count up from 0.  A value_len of 2^32 - 1 is a null value, without
 * bytes.  The header is the value of the header `tally`; length 0: it has none.
 *
 * Runs in: load.  Blocks in: the file system.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sink.h"

#define NULL_VALUE UINT32_MAX

struct dump {
	struct sink sink;
	FILE *file;
	uint64_t offset;
	bool reported;
};

static void fail(struct dump *dump)
{
	if (!dump->reported)
		fprintf(stderr, "tally-load: --dump: %s: %s\n", dump->sink.options->dump,
			strerror(errno));
	dump->reported = true;
	dump->sink.count->failed++;
}

static void dump_send(struct sink *sink, const struct message *m)
{
	struct dump *dump = (struct dump *)sink;
	uint64_t head[2] = {htobe64(dump->offset), htobe64((uint64_t)m->timestamp_ms)};
	uint32_t len[3] = {htobe32((uint32_t)m->key_len),
		htobe32(m->value ? (uint32_t)m->value_len : NULL_VALUE),
		htobe32(m->has_header ? sizeof(m->header) : 0)};

	fwrite(head, sizeof(head), 1, dump->file);
	fwrite(len, sizeof(len), 1, dump->file);
	fwrite(m->key, 1, m->key_len, dump->file);
	if (m->value)
		fwrite(m->value, 1, m->value_len, dump->file);
	if (m->has_header)
		fwrite(m->header, 1, sizeof(m->header), dump->file);
	if (ferror(dump->file)) {
		fail(dump);
		return;
	}
	if (sink->out)
		out_write(sink->out, m->partition, (int64_t)dump->offset, &m->note);
	dump->offset++;
	sink->count->delivered++;
	sink->count->broken += m->note.kind != KIND_OK;
}

static void dump_wait(struct sink *sink, int ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000L};

	(void)sink;
	if (ms)
		nanosleep(&ts, NULL);
}

static void dump_finish(struct sink **sink)
{
	struct dump *dump = (struct dump *)*sink;

	if (fclose(dump->file) != 0)
		fail(dump);
	free(dump);
	*sink = NULL;
}

struct sink *sink_open_dump(
	const struct options *options, struct out *out, struct load_count *count)
{
	struct dump *dump = calloc(1, sizeof(*dump));

	if (dump)
		dump->file = fopen(options->dump, "wb");
	if (!dump || !dump->file) {
		fprintf(stderr, "tally-load: --dump: %s: %s\n", options->dump, strerror(errno));
		free(dump);
		return NULL;
	}
	dump->sink = (struct sink){dump_send, dump_wait, dump_finish, options, out, count};
	return &dump->sink;
}
