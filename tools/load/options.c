/*
 * options.c - what tally-load was asked to do.
 *
 *	row[] --> getopt_long, reading, bounds, --help
 *
 * Runs in: load, before anything else.
 */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

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

static _Noreturn void __attribute__((format(printf, 1, 2))) usage_error(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fputs("tally-load: ", stderr);
	vfprintf(stderr, fmt, args);
	fputs("; see --help\n", stderr);
	va_end(args);
	exit(2);
}

/* --- one reader per type of value ------------------------------------------------------------ */

struct row {
	const char *name, *arg, *help;
	void (*read)(const struct row *row, struct options *options, const char *text);
	size_t at; /* offset in struct options */
	uint64_t low, high;
};

static void read_text(const struct row *row, struct options *options, const char *text)
{
	size_t len = strlen(text);

	if (len < row->low || len > row->high)
		usage_error("--%s: must have %llu to %llu bytes", row->name,
			(unsigned long long)row->low, (unsigned long long)row->high);
	if (!record_text_ok(text, len))
		usage_error("--%s: must be UTF-8", row->name);
	memcpy((char *)options + row->at, &text, sizeof(text));
}

/* A whole number with k or M; *end is what follows.  False: none, or too large. */
static bool whole(const char *text, uint64_t *number, char **end)
{
	uint64_t unit = 1;

	errno = 0;
	if (*text < '0' || *text > '9')
		return false;
	*number = strtoull(text, end, 10);
	if (**end == 'k')
		unit = 1000;
	else if (**end == 'M')
		unit = 1000000;
	*end += unit > 1;
	return errno == 0 && !__builtin_mul_overflow(*number, unit, number);
}

static void read_number(const struct row *row, struct options *options, const char *text)
{
	uint64_t n;
	char *end;

	if (!whole(text, &n, &end) || *end != '\0' || n < row->low || n > row->high)
		usage_error("--%s: '%s' is not a whole number from %llu to %llu", row->name, text,
			(unsigned long long)row->low, (unsigned long long)row->high);
	memcpy((char *)options + row->at, &n, sizeof(n));
}

static void read_duration(const struct row *row, struct options *options, const char *text)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} unit[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
	uint64_t n, ms = 0;
	char *end;

	errno = 0;
	n = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : (errno = EINVAL, 0);
	for (size_t i = 0; errno == 0 && i < sizeof(unit) / sizeof(*unit); i++)
		if (strcmp(end, unit[i].name) == 0)
			ms = unit[i].ms;
	if (errno == 0 && n == 0 && *end == '\0')
		ms = 1;
	if (ms == 0 || __builtin_mul_overflow(n, ms, &n) || n > row->high)
		usage_error("--%s: '%s' is not a duration such as 90s, 30m, 2h (at most 30d)",
			row->name, text);
	memcpy((char *)options + row->at, &n, sizeof(n));
}

static void read_size(const struct row *row, struct options *options, const char *text)
{
	char *end;
	bool ok = whole(text, &options->size_min, &end);

	options->size_max = options->size_min;
	if (ok && *end == '-')
		ok = whole(end + 1, &options->size_max, &end);
	if (!ok || *end != '\0' || options->size_min > options->size_max)
		usage_error("--%s: '%s' is not MIN-MAX in bytes", row->name, text);
}

static void read_popularity(const struct row *row, struct options *options, const char *text)
{
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

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static void read_source(const struct row *row, struct options *options, const char *text)
{
	bool ok = strlen(text) == 2 * INCARNATION_SIZE;

	for (size_t i = 0; ok && i < INCARNATION_SIZE; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

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

static void read_broken(const struct row *row, struct options *options, const char *text)
{
	for (;;) {
		const char *equals = strchr(text, '=');
		enum kind kind = equals ? find_kind(text, (size_t)(equals - text)) : KIND_OK;
		char *end;

		if (kind == KIND_OK || !whole(equals + 1, &options->broken[kind], &end) ||
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
	{name, arg, help, read_text, offsetof(struct options, field), low, high}
#define NUMBER(name, field, low, high, help) \
	{name, "N", help, read_number, offsetof(struct options, field), low, high}
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
	SPECIAL("size", "MIN-MAX", read_size, 0,        "bytes that a record tells of (100-1000)"),
	{"spread", "TIME", "timestamps rise from TIME ago to now; needs --records (0 = all are now)",
		read_duration, offsetof(struct options, spread_ms), 0, 30 * 86400 * 1000ull},
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

#define ROWS	 (sizeof(row) / sizeof(*row))
#define OPT_HELP 1000
_Static_assert(ROWS < '?', "getopt_long answers with a row number, or with a question mark");

static void print_help(void)
{
	char left[64];

	puts("usage: tally-load [options]\n"
	     "Writes records to a topic as a fleet of ingest nodes would.");
	for (size_t i = 0; i < ROWS; i++) {
		snprintf(left, sizeof(left), "--%s %s", row[i].name, row[i].arg);
		printf("  %-22s  %s\n", left, row[i].help);
	}
	puts("Numbers may end in k or M.  Kinds of broken records:");
	for (int kind = KIND_OK + 1; kind < KINDS; kind++)
		printf(" %s", kind_words[kind]);
	puts("\nLines of --out, separated by tabs, - for what a record has not:\n"
	     "  partition offset timestamp_ms tenant hash size policy kind source sequence\n"
	     "Exit: 0 all delivered, 1 some not or no broker, 2 wrong usage.");
}

/* `words`: those that may be said, with a blank behind each. */
static void check_word(const char *option, const char *text, const char *words)
{
	const char *at = strchr(text, ' ') ? NULL : words;
	size_t len = strlen(text);

	while (at && !(strncmp(at, text, len) == 0 && at[len] == ' '))
		at = at[strcspn(at, " ") + 1] ? at + strcspn(at, " ") + 1 : NULL;
	if (!at)
		usage_error(
			"--%s: '%s' is none of: %.*s", option, text, (int)strlen(words) - 1, words);
}

static void check(const struct options *o)
{
	check_word("acks", o->acks, "all -1 1 0 ");
	check_word("compression", o->compression, "none lz4 zstd gzip snappy ");
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
	struct option list[ROWS + 2] = {0};
	int c;

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
	for (size_t i = 0; i < ROWS; i++)
		list[i] = (struct option){row[i].name, required_argument, NULL, (int)i};
	list[ROWS] = (struct option){"help", no_argument, NULL, OPT_HELP};
	while ((c = getopt_long(argc, argv, "", list, NULL)) != -1) {
		if (c == '?')
			exit(2); /* getopt has said why */
		if (c == OPT_HELP) {
			print_help();
			exit(0);
		}
		row[c].read(&row[c], options, optarg);
	}
	if (optind < argc)
		usage_error("'%s': there are no arguments but options", argv[optind]);
	check(options);
}
