/*
 * instance.c - the head of tallyctl status: who runs, where to ask, what is limited.
 *
 *	tally-a: topic usage, group tally (member), zone -, 2 of 2 partitions, window 120 min
 *	tallyd pid 812, up 3 min, heartbeat 0.4 s ago, 1 rebalance, 0 times lost; queryd pid 815, 0 restarts
 *	gRPC 127.0.0.1:9095, HTTP 127.0.0.1:3100
 *	limits: 5000 active streams for every tenant (no limits.file)
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"

#define RECENT_MS 10000 /* a death so young is worth a word beside a process that runs again */

bool ctl_queryd_died(const struct tally_instance *in)
{
	return in->alive && in->query_processes && !in->query_alive && in->query_restarts;
}

static int64_t wall_ms(const struct ctl *ctl)
{
	return ctl_minus(tally_now_ms(ctl->tally), ctl->instance.clock_offset_ms);
}

/* "the last 0.3 s ago (exit 1)" */
static const char *last_death(const struct ctl *ctl, char *to, size_t size)
{
	const struct tally_instance *in = &ctl->instance;
	char span[CTL_TEXT_SIZE];
	snprintf(to, size, "the last %s ago (%s)",
		ctl_span(span, ctl_minus(wall_ms(ctl), in->query_died_at_ms)),
		*in->query_death ? in->query_death : "unknown");
	return to;
}

static void print_pids(const struct tally_instance *in)
{
	if (in->query_processes > 1)
		printf("queryd %" PRIu32 " of %" PRIu32 ", pid%s", in->query_alive,
			in->query_processes, ctl_s(in->query_alive));
	else
		printf("queryd pid");
	for (uint32_t i = 0; i < in->query_alive; i++)
		printf(" %" PRIu32, in->query_pids[i]);
}

/* The end of the line about tallyd. */
static void print_queryd(const struct ctl *ctl)
{
	const struct tally_instance *in = &ctl->instance;
	char death[128];
	bool recent =
		in->query_died_at_ms && ctl_minus(wall_ms(ctl), in->query_died_at_ms) < RECENT_MS;
	if (!in->query_processes) {
		printf("no queryd (query.enabled is false)\n");
	} else if (in->query_alive) {
		print_pids(in);
		printf(", %" PRIu32 " restart%s%s%s\n", in->query_restarts,
			ctl_s(in->query_restarts), recent ? ", " : "",
			recent ? last_death(ctl, death, sizeof death) : "");
	} else if (!in->alive) {
		printf("no queryd\n");
	} else {
		printf("%s\n", in->query_restarts ? "no queryd" : "queryd is starting");
	}
}

static void print_queryd_died(const struct ctl *ctl)
{
	const struct tally_instance *in = &ctl->instance;
	char death[128];
	if (ctl_queryd_died(in))
		printf("QUERYD HAS DIED %" PRIu32 " time%s, %s: nobody answers gRPC or HTTP; see "
		       "\"queryd error\" in the log\n",
			in->query_restarts, ctl_s(in->query_restarts),
			last_death(ctl, death, sizeof death));
}

static void print_addresses(const struct ctl *ctl)
{
	char grpc[CTL_ADDRESS_SIZE], http[CTL_ADDRESS_SIZE];
	if (!ctl->instance.alive || !ctl->instance.query_alive)
		return;
	bool has_grpc = !ctl_address(ctl, "query.grpc", grpc);
	bool has_http = !ctl_address(ctl, "query.http", http);
	if (has_grpc || has_http)
		printf("%s%s%s%s%s\n", has_grpc ? "gRPC " : "", has_grpc ? grpc : "",
			has_grpc && has_http ? ", " : "", has_http ? "HTTP " : "",
			has_http ? http : "");
}

/* When streams are routed over another number of partitions than the topic has. */
static void print_routing(const struct tally_instance *in)
{
	uint32_t has = in->topic_partitions, routed = in->partitions;
	if (has > routed)
		printf("topic has %" PRIu32 " partition%s, %" PRIu32 " %s served (%s)\n", has,
			ctl_s(has), routed, routed == 1 ? "is" : "are",
			has > 1024 ? "no instance can serve more than 1024" : "kafka.partitions");
	else if (has && has < routed)
		printf("topic has %" PRIu32 " partition%s, %" PRIu32
		       " are routed (kafka.partitions): %" PRIu32 " %s missing\n",
			has, ctl_s(has), routed, routed - has, routed - has == 1 ? "is" : "are");
}

static void default_text(const struct tally_instance *in, char *to, size_t size)
{
	if (in->limits_default > 0)
		snprintf(to, size,
			"limits: %" PRId64 " active streams for every tenant (no limits.file)",
			in->limits_default);
	else if (in->limits_default == 0)
		snprintf(to, size, "limits: none for any tenant (no limits.file)");
	else
		snprintf(to, size, "limits: they cannot be read");
}

static void loaded_text(const struct tally_instance *in, const char *age, char *to, size_t size)
{
	char others[64] = "";
	if (in->limits_default > 0)
		snprintf(others, sizeof others, ", %" PRId64 " for others", in->limits_default);
	else if (in->limits_default == 0)
		snprintf(others, sizeof others, ", none for others");
	snprintf(to, size, "limits of %" PRIu32 " tenant%s%s, loaded %s ago", in->limits_tenants,
		ctl_s(in->limits_tenants), others, age);
}

void ctl_limits_text(const struct ctl *ctl, char *to, size_t size)
{
	const struct tally_instance *in = &ctl->instance;
	char tried[CTL_TEXT_SIZE], loaded[CTL_TEXT_SIZE], error[CTL_NAME_SIZE];
	ctl_span(tried, ctl_minus(wall_ms(ctl), in->limits_at_ms));
	ctl_span(loaded, ctl_minus(wall_ms(ctl), in->limits_loaded_at_ms));
	*to = 0;
	if (!in->limits_version)
		return;
	if (strcmp(in->limits_state, "refused") == 0)
		snprintf(to, size, "LIMITS REFUSED %s ago, those of %s ago hold on: %s", tried,
			loaded, ctl_name(error, in->limits_error));
	else if (strcmp(in->limits_state, "ok") == 0)
		loaded_text(in, loaded, to, size);
	else
		default_text(in, to, size);
	size_t len = strlen(to);
	if (in->limits_dry_run)
		snprintf(to + len, size - len, "; DRY RUN: nothing is rejected");
}

static void print_limits(const struct ctl *ctl)
{
	char text[CTL_LIMITS_SIZE];
	ctl_limits_text(ctl, text, sizeof text);
	if (*text)
		puts(text);
}

static int print_lines(struct ctl *ctl, void *arg)
{
	const struct tally_instance *in = &ctl->instance;
	char instance[CTL_NAME_SIZE], topic[CTL_NAME_SIZE], group[CTL_NAME_SIZE],
		zone[CTL_NAME_SIZE], up[CTL_TEXT_SIZE], beat[CTL_TEXT_SIZE];
	(void)arg;
	ctl_print_stale(ctl);
	printf("%s: topic %s, group %s (%s), zone %s, %" PRIu32 " of %" PRIu32
	       " partition%s, window %" PRIu32 " min\n",
		ctl_name(instance, *in->instance ? in->instance : "tally"),
		ctl_name(topic, in->topic), ctl_name(group, in->group), in->group_state,
		ctl_name(zone, *in->zone ? in->zone : "-"), in->owned, in->partitions,
		ctl_s(in->partitions), in->window_minutes);
	printf("tallyd pid %" PRIu32 ", up %s, heartbeat %s ago, %" PRIu64 " rebalance%s, %" PRIu64
	       " time%s lost; ",
		in->supervisor_pid, ctl_span(up, ctl_minus(wall_ms(ctl), in->started_at_ms)),
		ctl_span(beat, in->heartbeat_age_ms), in->rebalances, ctl_s(in->rebalances),
		in->lost_events, ctl_s(in->lost_events));
	print_queryd(ctl);
	print_queryd_died(ctl);
	print_addresses(ctl);
	print_routing(in);
	print_limits(ctl);
	if (in->clock_offset_ms)
		printf("clock offset %" PRId64 " ms: this instance does not count by wall time\n",
			in->clock_offset_ms);
	return CTL_OK;
}

void ctl_print_instance(struct ctl *ctl)
{
	ctl_wrapped(ctl, print_lines, NULL);
}
