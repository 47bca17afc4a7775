/*
 * ask_options.c - what `tally-load ask` was asked to do.
 *
 * Runs in: load, before anything else.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ask_options.h"
#include "model.h"
#include "rows.h"

static const char *const method_words[] = {
	[ASK_EXCEEDS] = "exceeds",
	[ASK_RATES] = "rates",
	[ASK_ECHO] = "echo",
	[ASK_PARTITIONS] = "partitions",
	[ASK_HEALTH] = "health",
};
/* Of IngestLimits, of IngestLimitsFrontend; NULL: it has no such method. */
static const char *const method_paths[][2] = {
	[ASK_EXCEEDS] = {"/proto.IngestLimits/ExceedsLimits",
		"/proto.IngestLimitsFrontend/ExceedsLimits"},
	[ASK_RATES] = {"/proto.IngestLimits/UpdateRates",
		"/proto.IngestLimitsFrontend/UpdateRates"},
	[ASK_ECHO] = {NULL, NULL},
	[ASK_PARTITIONS] = {"/proto.IngestLimits/GetAssignedPartitions", NULL},
	[ASK_HEALTH] = {"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Check"},
};

static void read_method(const struct row *row, void *into, const char *text)
{
	struct ask_options *options = into;

	rows_check_word(row->name, text, "exceeds rates partitions health echo ");
	options->method = ASK_EXCEEDS;
	while (strcmp(method_words[options->method], text) != 0)
		options->method++;
}

/* clang-format off */
#define TEXT(name, arg, field, low, high, help) \
	{name, arg, help, row_text, offsetof(struct ask_options, field), low, high}
#define NUMBER(name, field, low, high, help) \
	{name, "N", help, row_number, offsetof(struct ask_options, field), low, high}
#define MILLION 1000000ull

static const struct row row[] = {
	TEXT("target", "HOST:PORT", target, 3, 255,         "of gRPC, in the clear (127.0.0.1:9095)"),
	TEXT("service", "NAME", service, 1, 8,              "limits or frontend (limits)"),
	{"method", "NAME", "exceeds, rates, partitions, health; echo: needs --path (exceeds)", read_method, 0, 0, 0},
	TEXT("path", "TEXT", path, 2, 255,                  "of the method, instead of its own"),
	TEXT("tenant", "NAME", tenant, 0, 256,              "one tenant, of this name; it is number 0"),
	NUMBER("tenants", tenants, 1, MILLION,              "they take turns (1)"),
	TEXT("tenant-prefix", "TEXT", tenant_prefix, 0, TENANT_PREFIX_MAX,
	                                                    "followed by 0, 1, ... (tenant-)"),
	NUMBER("streams", streams, 0, 10000 * MILLION,      "of each tenant, in turn; 0 = always new ones (100)"),
	NUMBER("first", first, 0, UINT64_MAX / 2,           "number of the first of them (0)"),
	NUMBER("order", order, 0, UINT64_MAX,               "at random, by this seed; 0 = in turn (0)"),
	NUMBER("rounds", rounds, 0, UINT64_MAX,             "ask for all of them so often; 0 = for ever (1)"),
	NUMBER("seed", seed, 0, UINT64_MAX,                 "same seed, same streams, here and in records (1)"),
	TEXT("hashes", "FILE", hashes, 1, 4095,             "the streams instead, one decimal hash a line"),
	NUMBER("policies", policies, 0, 1000,               "policy-1 ... beside the unnamed one (0)"),
	TEXT("policy", "NAME", policy, 0, 256,              "the same for all streams"),
	{"size", "MIN-MAX", "bytes of a stream (100-1000)",
		row_range, offsetof(struct ask_options, size_min), 0, 0},
	NUMBER("partitions", partitions, 0, 100000,         "of the topic, for --partition"),
	NUMBER("partition", partition, 0, 99999,            "only streams of this one (0)"),
	NUMBER("per-request", per_request, 1, MILLION,      "streams (1)"),
	NUMBER("connections", connections, 1, 10000,        "(1)"),
	NUMBER("concurrency", concurrency, 1, 10000,        "calls at once on each (1)"),
	NUMBER("rate", rate, 0, 1000 * MILLION,             "requests per second; 0 = as fast as can be (0)"),
	NUMBER("requests", requests, 0, UINT64_MAX,         "then stop; 0 = no limit (0)"),
	NUMBER("seconds", seconds, 0, 1000 * MILLION,       "then stop; 0 = no limit (0)"),
	{"deadline", "TIME", "of a call (5s)",
		row_duration, offsetof(struct ask_options, deadline_ms), 1, 86400 * 1000ull},
	{"patience", "TIME", "without any connection, then stop (10s)",
		row_duration, offsetof(struct ask_options, patience_ms), 0, 86400 * 1000ull},
	TEXT("out", "FILE", out, 1, 4095,                   "a line for each stream that was asked for"),
};
/* clang-format on */

static void print_tail(void)
{
	puts("Numbers may end in k or M.  With --rate, the time of a call counts from when it was "
	     "due.\n"
	     "Lines of --out, separated by tabs, - for an empty name, times in wall microseconds:\n"
	     "  sent answered tenant hash size policy result\n"
	     "result: accepted, rejected, failed, reason-N; a rate; status-N of a call that "
	     "failed; or\n"
	     "lost: the connection went, or no answer came by the deadline.\n"
	     "--method partitions prints partition and time; health, the status.\n"
	     "Exit: 0 every call was answered with OK, 1 some not, or no connection, 2 wrong "
	     "usage.");
}

static void check(struct ask_options *o)
{
	rows_check_word("service", o->service, "limits frontend ");
	if (o->tenant && o->tenants != 1)
		usage_error("--tenant is one tenant: it does not go with --tenants");
	if (o->partitions && o->partition >= o->partitions)
		usage_error("--partition %llu: there are %llu, numbered from 0",
			(unsigned long long)o->partition, (unsigned long long)o->partitions);
	if (o->order && !o->streams)
		usage_error("--order needs --streams: at random means among so many");
	if (o->partition && !o->partitions)
		usage_error("--partition needs --partitions");
	if (!strchr(o->target, ':'))
		usage_error("--target: '%s' is not host:port", o->target);
	if (!o->path)
		o->path = method_paths[o->method][*o->service == 'f'];
	if (!o->path)
		usage_error("--method %s: the %s service has none; give --path",
			method_words[o->method], o->service);
	if (o->method >= ASK_PARTITIONS && !o->requests && !o->seconds)
		o->requests = 1;
}

void ask_options_parse(struct ask_options *options, int argc, char **argv)
{
	static const struct rows rows = {row, sizeof(row) / sizeof(*row),
		"usage: tally-load ask [options]\n"
		"Asks over gRPC as a fleet of ingest nodes would.",
		print_tail};

	*options = (struct ask_options){
		.target = "127.0.0.1:9095",
		.service = "limits",
		.tenant_prefix = "tenant-",
		.tenants = 1,
		.streams = 100,
		.rounds = 1,
		.seed = 1,
		.per_request = 1,
		.connections = 1,
		.concurrency = 1,
		.size_min = 100,
		.size_max = 1000,
		.deadline_ms = 5000,
		.patience_ms = 10000,
	};
	rows_parse(&rows, options, argc, argv);
	check(options);
}
