/*
 * options.c - what tally-load was asked to do.
 *
 * Runs in: load, before anything else.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "rows.h"

#include "shm/percent.h"

static const char *const kind_words[KINDS] = {
	[KIND_OK] = "ok",
	[KIND_UNDECODABLE] = "undecodable",
	[KIND_NO_METADATA] = "no_metadata",
	[KIND_NO_TENANT] = "no_tenant",
	[KIND_MISROUTED] = "misrouted",
	[KIND_TOO_OLD] = "too_old",
	[KIND_FUTURE] = "future",
	[KIND_DUPLICATE] = "duplicate",
	[KIND_NULL] = "null",
	[KIND_HUGE] = "huge",
	[KIND_OLD_FORMAT] = "old_format",
};

const char *kind_word(enum kind kind)
{
	return kind_words[kind];
}

/* --- readers of what only a record has -------------------------------------------------------- */

static void read_popularity(const struct row *row, void *into, const char *text)
{
	struct options *options = into;
	char *end;

	if (strcmp(text, "uniform") == 0) {
		options->popularity = POPULARITY_UNIFORM;
	} else if (strcmp(text, "each") == 0) {
		options->popularity = POPULARITY_EACH;
	} else {
		options->popularity = POPULARITY_ZIPF;
		options->zipf = strncmp(text, "zipf:", 5) == 0 ? strtod(text + 5, &end) : 0;
		if (!(options->zipf > 0 && options->zipf <= 10) || *end != '\0')
			usage_error("--%s: '%s' is none of uniform, each, zipf:S (0 < S <= 10)",
				row->name, text);
	}
}

static void read_source(const struct row *row, void *into, const char *text)
{
	struct options *options = into;
	bool ok = strlen(text) == 2 * INCARNATION_SIZE;

	for (size_t i = 0; ok && i < INCARNATION_SIZE; i++) {
		int high = percent_hex(text[2 * i]), low = percent_hex(text[2 * i + 1]);

		ok = high >= 0 && low >= 0;
		options->incarnation[i] = (uint8_t)((unsigned)high << 4 | (unsigned)low);
	}
	if (!ok)
		usage_error("--%s: '%s' is not %d hexadecimal digits", row->name, text,
			2 * INCARNATION_SIZE);
	options->has_source = true;
}

static enum kind find_kind(const char *word, size_t len)
{
	for (int kind = KIND_OK + 1; kind < KINDS; kind++)
		if (strlen(kind_words[kind]) == len && memcmp(kind_words[kind], word, len) == 0)
			return (enum kind)kind;
	return KIND_OK;
}

static void read_broken(const struct row *row, void *into, const char *text)
{
	struct options *options = into;
	for (;;) {
		const char *equals = strchr(text, '=');
		enum kind kind = equals ? find_kind(text, (size_t)(equals - text)) : KIND_OK;
		char *end;

		if (kind == KIND_OK || !row_whole(equals + 1, &options->broken[kind], &end) ||
			options->broken[kind] > row->high || (*end != ',' && *end != '\0'))
			usage_error("--%s: '%s' is not KIND=N,...", row->name, text);
		if (*end == '\0')
			return;
		text = end + 1;
	}
}

/* --- the table ------------------------------------------------------------------------------- */

/* clang-format off */
#define TEXT(name, arg, field, low, high, help) \
	{name, arg, help, row_text, offsetof(struct options, field), low, high}
#define NUMBER(name, field, low, high, help) \
	{name, "N", help, row_number, offsetof(struct options, field), low, high}
#define SPECIAL(name, arg, read, high, help) {name, arg, help, read, 0, 0, high}
#define MILLION 1000000ull

static const struct row row[] = {
	TEXT("brokers", "LIST", brokers, 1, 1000,       "host:port,... (127.0.0.1:9092)"),
	TEXT("topic", "NAME", topic, 1, 249,            "(tally)"),
	NUMBER("partitions", partitions, 0, 100000,     "of the topic; 0 = ask the broker (0)"),
	NUMBER("partition", partition, 0, 99999,        "only streams that belong to this one"),
	NUMBER("tenants", tenants, 1, 10 * MILLION,     "(10)"),
	TEXT("tenant-prefix", "TEXT", tenant_prefix, 0, TENANT_PREFIX_MAX,
	                                                "followed by 0, 1, ... (tenant-)"),
	NUMBER("streams", streams, 1, 10000 * MILLION,  "of each tenant (100)"),
	NUMBER("policies", policies, 0, 1000,           "policy-1 ... beside the unnamed one (0)"),
	SPECIAL("popularity", "LAW", read_popularity, 0,"uniform, zipf:S, or each = all in turn (uniform)"),
	NUMBER("records", records, 0, UINT64_MAX,       "good ones, then stop; 0 = until SIGTERM (0)"),
	NUMBER("seconds", seconds, 0, 1000 * MILLION,   "then stop; 0 = no limit (0)"),
	NUMBER("rate", rate, 0, 1000 * MILLION,         "records per second; 0 = as fast as can be (0)"),
	{"size", "MIN-MAX", "bytes that a record tells of (100-1000)",
		row_range, offsetof(struct options, size_min), 0, 0},
	{"spread", "TIME", "timestamps rise from TIME ago to now; needs --records (0 = all are now)",
		row_duration, offsetof(struct options, spread_ms), 0, 30 * 86400 * 1000ull},
	TEXT("zone", "TEXT", zone, 0, 200,              "(zone-a)"),
	NUMBER("seed", seed, 0, UINT64_MAX,             "same seed, same streams and records (1)"),
	SPECIAL("source", "HEX", read_source, 0,        "header `tally` with this incarnation, 32 digits"),
	NUMBER("sequence", sequence, 0, UINT64_MAX,     "number of the first record with --source (1)"),
	SPECIAL("broken", "KIND=N,...", read_broken, 1000000,
	                                                "mixes in N broken ones of a kind (see below)"),
	NUMBER("linger", linger_ms, 0, 900000,          "milliseconds a batch waits for more (20)"),
	TEXT("acks", "N", acks, 1, 3,                   "all, 1 or 0 (all)"),
	TEXT("compression", "NAME", compression, 1, 8,  "none, lz4, zstd, gzip, snappy (none)"),
	TEXT("out", "FILE", out, 1, 4095,               "a line for each record that was delivered"),
	TEXT("dump", "FILE", dump, 1, 4095,             "writes there instead of to a broker (one partition)"),
};
/* clang-format on */

static void print_tail(void)
{
	puts("Numbers may end in k or M.  Kinds of broken records:");
	for (int kind = KIND_OK + 1; kind < KINDS; kind++)
		printf(" %s", kind_words[kind]);
	puts("\nLines of --out, separated by tabs, - for what a record has not:\n"
	     "  partition offset timestamp_ms tenant hash size policy kind source sequence\n"
	     "Exit: 0 all delivered, 1 some not or no broker, 2 wrong usage.");
}

static void check(const struct options *o)
{
	rows_check_word("acks", o->acks, "all -1 1 0 ");
	rows_check_word("compression", o->compression, "none lz4 zstd gzip snappy ");
	if (o->spread_ms && o->records == 0)
		usage_error("--spread needs --records: else there is no telling where 'now' is");
	if (o->broken[KIND_DUPLICATE] && !o->has_source)
		usage_error(
			"--broken duplicate needs --source: only numbered records have duplicates");
	if (o->out && strcmp(o->acks, "0") == 0)
		usage_error("--out needs --acks 1 or all: else no offset is known");
	if (o->dump && o->partitions == 0)
		usage_error("--dump needs --partitions: there is no broker to ask");
	if (o->dump && o->partitions > 1 && o->partition == PARTITION_ANY)
		usage_error("--dump holds one partition: give --partition too");
	if (o->partitions)
		options_check_partitions(o);
}

void options_check_partitions(const struct options *o)
{
	if (o->partition != PARTITION_ANY && o->partition >= o->partitions)
		usage_error("--partition %llu: the topic has %llu, numbered from 0",
			(unsigned long long)o->partition, (unsigned long long)o->partitions);
	if (o->broken[KIND_MISROUTED] && o->partitions < 2)
		usage_error("--broken misrouted needs a topic with 2 partitions or more");
}

void options_parse(struct options *options, int argc, char **argv)
{
	static const struct rows rows = {row, sizeof(row) / sizeof(*row),
		"usage: tally-load [options]\n"
		"       tally-load ask [options]\n"
		"Writes records to a topic as a fleet of ingest nodes would; `ask` asks as one.",
		print_tail};

	*options = (struct options){
		.brokers = "127.0.0.1:9092",
		.topic = "tally",
		.acks = "all",
		.compression = "none",
		.tenant_prefix = "tenant-",
		.zone = "zone-a",
		.partition = PARTITION_ANY,
		.tenants = 10,
		.streams = 100,
		.size_min = 100,
		.size_max = 1000,
		.seed = 1,
		.linger_ms = 20,
		.sequence = 1,
	};
	rows_parse(&rows, options, argc, argv);
	check(options);
}
