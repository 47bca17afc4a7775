/*
 * stream.c - tallyctl stream NAME HASH: all that is known of one stream.
 */
#include <inttypes.h>
#include <stdio.h>

#include "ctl.h"

static void print_json(const struct ctl *ctl, const char *tenant, const struct tally_stream *stream)
{
	json_t *to = ctl_json(ctl);
	ctl_json_text(to, "tenant", tenant);
	ctl_json_hash(to, stream->hash);
	ctl_json_count(to, "partition", stream->partition);
	json_object_set_new(to, "active", json_boolean(stream->active));
	ctl_json_int(to, "last_seen_ms", stream->last_seen_ms);
	ctl_json_int(to, "last_produced_ms", stream->last_produced_ms);
	ctl_json_count(to, "unsent_bytes", stream->unsent_bytes);
	json_object_set_new(to, "bytes_per_sec", json_real(stream->bytes_per_sec));
	ctl_json_text(to, "policy", stream->policy);
	ctl_json_print(to);
}

static void print_time(const struct ctl *ctl, const char *label, int64_t ms)
{
	char clock[CTL_TEXT_SIZE], span[CTL_TEXT_SIZE];
	if (ms)
		printf("%s  %s, %s ago\n", label, ctl_clock(clock, ms),
			ctl_span(span, tally_now_ms(ctl->tally) - ms));
	else
		printf("%s  never by this store\n", label);
}

static void print_text(const struct ctl *ctl, const char *tenant, const struct tally_stream *stream)
{
	char name[CTL_NAME_SIZE], policy[CTL_NAME_SIZE], text[CTL_TEXT_SIZE];
	ctl_print_stale(ctl);
	printf("%s: stream %" PRIu64 " (0x%016" PRIx64 ") in partition %" PRIu32 "\n\n",
		ctl_name(name, tenant), stream->hash, stream->hash, stream->partition);
	printf("active     %s\n", stream->active ? "yes" : "no, out of the window");
	print_time(ctl, "last seen", stream->last_seen_ms);
	print_time(ctl, "produced ", stream->last_produced_ms);
	printf("unsent     %s\n", ctl_bytes(text, (double)stream->unsent_bytes));
	printf("rate       %s/s\n", ctl_bytes(text, stream->bytes_per_sec));
	printf("policy     %s\n", *stream->policy ? ctl_name(policy, stream->policy) : "(default)");
}

static int not_found(const struct ctl *ctl, const char *tenant, uint64_t hash)
{
	char name[CTL_NAME_SIZE];
	ctl_usage("%s: no stream %" PRIu64 " (0x%016" PRIx64 ") in partition %" PRIu64
		  ", which answers",
		ctl_name(name, tenant), hash, hash,
		ctl->instance.partitions ? hash % ctl->instance.partitions : 0);
	return CTL_INCOMPLETE;
}

static int not_ready(const struct ctl *ctl, uint64_t hash)
{
	ctl_usage("stream %" PRIu64 " belongs to partition %" PRIu64 ", which cannot answer%s; "
		  "see 'tallyctl status'",
		hash, ctl->instance.partitions ? hash % ctl->instance.partitions : 0,
		ctl->instance.alive ? "" : " (tallyd is not running)");
	return CTL_INCOMPLETE;
}

int ctl_stream(struct ctl *ctl, int argc, char **argv)
{
	struct tally_stream stream;
	uint64_t hash;
	if (argc != 3)
		return ctl_usage("stream: needs a tenant's NAME and a HASH (decimal or 0x...)");
	if (!ctl_number("HASH", argv[2], 0, UINT64_MAX, &hash))
		return CTL_TROUBLE;
	if (ctl_attach(ctl))
		return CTL_TROUBLE;
	int err = tally_stream(ctl->tally, argv[1], hash, &stream);
	if (err == TALLY_ENOTFOUND)
		return not_found(ctl, argv[1], hash);
	if (err == TALLY_ENOTREADY || err == TALLY_ESTALE)
		return not_ready(ctl, hash);
	if (err)
		return ctl_failed(ctl, argv[1], err);
	if (ctl->json)
		print_json(ctl, argv[1], &stream);
	else
		print_text(ctl, argv[1], &stream);
	return CTL_OK;
}
