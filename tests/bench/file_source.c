/*
 * file_source.c - the store's share: the same records from a file, no Kafka.
 *
 *	file_source FILE DIR PARTITIONS PARTITION BATCH [PASSES]
 *	-> "records=N streams=N decode_ns=N add_ns=N commit_ns=N store_bytes=N"
 *
 * FILE is what `tally-load --dump` writes.  Each pass is timed stage by stage:
 * decode alone, then decode + usage_add, then the commits; ns per record.
 */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shm/host.h"
#include "shm/record.h"
#include "shm/usage.h"

struct message {
	int64_t offset, timestamp;
	const char *value;
	uint32_t value_len;
};

static struct message *messages;
static size_t n_messages;

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts); /* it never waits */
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t be64(const char *p)
{
	uint64_t v;
	memcpy(&v, p, 8);
	return be64toh(v);
}

static uint32_t be32(const char *p)
{
	uint32_t v;
	memcpy(&v, p, 4);
	return be32toh(v);
}

static char *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	if (!f || fseek(f, 0, SEEK_END))
		return NULL;
	*size = (size_t)ftell(f);
	rewind(f);
	char *data = malloc(*size);
	if (data && fread(data, 1, *size, f) != *size)
		return NULL;
	fclose(f);
	return data;
}

/* be64 offset, be64 timestamp, be32 key, value, header lengths, bytes. */
static void index_messages(const char *data, size_t size)
{
	const char *p = data, *end = data + size;
	size_t cap = size / 40 + 1;
	messages = calloc(cap, sizeof *messages);
	while (messages && p + 28 <= end && n_messages < cap) {
		uint32_t key = be32(p + 16), value = be32(p + 20), header = be32(p + 24);
		messages[n_messages++] = (struct message){
			(int64_t)be64(p), (int64_t)be64(p + 8), p + 28 + key, value};
		p += 28 + (size_t)key + value + header;
	}
}

static uint64_t time_decode(void)
{
	struct record record = {0};
	uint64_t began = now_ns(), sum = 0;
	for (size_t i = 0; i < n_messages; i++) {
		record_decode(messages[i].value, messages[i].value_len, &record);
		sum += record.hash;
	}
	uint64_t took = now_ns() - began;
	fprintf(stderr, "# checksum %016" PRIx64 "\n", sum);
	return took;
}

struct times {
	uint64_t add, commit;
};

static void time_pass(struct usage *usage, size_t batch, int64_t base, struct times *t)
{
	int64_t now = host_wall_ms();
	for (size_t i = 0; i < n_messages;) {
		uint64_t began = now_ns();
		size_t stop = i + batch < n_messages ? i + batch : n_messages;
		for (; i < stop; i++) {
			struct record record = {.timestamp_ms = messages[i].timestamp};
			if (record_decode(messages[i].value, messages[i].value_len, &record) ==
				SKIP_NONE)
				usage_add(usage, &record, now);
		}
		usage_advance(usage, base + (int64_t)i, NULL);
		uint64_t added = now_ns();
		struct usage_commit how = {.now_ms = now};
		if (usage_commit(usage, &how)) {
			fputs("file_source: commit failed\n", stderr);
			exit(1);
		}
		t->add += added - began;
		t->commit += now_ns() - added;
	}
}

int main(int argc, char **argv)
{
	size_t size;
	bool boot_differs;
	struct usage *usage;
	if (argc < 6) {
		fputs("usage: file_source FILE DIR PARTITIONS PARTITION BATCH [PASSES]\n", stderr);
		return 2;
	}
	char *data = read_file(argv[1], &size);
	if (!data)
		return 1;
	index_messages(data, size);
	struct usage_options options = {
		.path = argv[2],
		.map_bytes = UINT64_C(16) << 30,
		.readers_max = 16,
		.identity = {.format = USAGE_FORMAT,
			.partitions = (uint32_t)atoi(argv[3]),
			.partition = (uint32_t)atoi(argv[4]),
			.window_minutes = 120,
			.generation = 1},
	};
	if (usage_open(&options, &usage, &boot_differs))
		return 1;
	int passes = argc > 6 ? atoi(argv[6]) : 1;
	uint64_t decode = time_decode();
	struct times last = {0};
	for (int p = 0; p < passes; p++) {
		last = (struct times){0}; /* the last pass counts: all streams are known by then */
		time_pass(usage, (size_t)atol(argv[5]), (int64_t)p * (int64_t)n_messages, &last);
	}
	struct store_facts facts;
	usage_store_facts(usage, &facts);
	printf("records=%zu streams=%" PRIu64 " decode_ns=%" PRIu64 " add_ns=%" PRIu64
	       " commit_ns=%" PRIu64 " store_bytes=%" PRIu64 "\n",
		n_messages, usage_meta(usage)->streams, decode / n_messages, last.add / n_messages,
		last.commit / n_messages, facts.used_bytes);
	usage_close(&usage);
	return 0;
}
