/*
 * status_words.c - what is said of a partition, and of all of them in one line.
 *
 *	tally_partition --> "81% (ETA 4.0 s)" | "SIGSEGV 3 s ago; restarts in 12 s"
 *	all of them     --> "2 of 8 not ready: p1 replaying 81% (ETA 4.0 s), p4 failed"
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "status.h"

#define NAMED_MAX  6	/* partitions named in the last line */
#define SILENT_MS  2000 /* workers give a sign of life every second */
#define DEATH_SIZE 72

bool status_replaying(const struct tally_partition *p)
{
	return p->has_stats && !strcmp(p->phase, "replaying") && !strcmp(p->state, "replaying");
}

/* "81% (ETA 4.0 s)"; "" when it does not replay. */
void status_replay(const struct tally_partition *p, char *to, size_t size)
{
	char span[CTL_TEXT_SIZE];
	*to = 0;
	if (!status_replaying(p))
		return;
	int len = snprintf(to, size, "%d%%", (int)(p->progress * 100));
	if (p->eta_ms >= 0)
		snprintf(to + len, size - (size_t)len, " (ETA %s)", ctl_span(span, p->eta_ms));
}

static void append(char *to, size_t size, const char *text)
{
	size_t len = strlen(to);
	if (len < size)
		snprintf(to + len, size - len, "%s%s", len ? "; " : "", text);
}

/* Told to pass over, or passed over already: one may be ahead of the other. */
uint64_t status_quarantined(const struct tally_partition *p)
{
	return p->quarantined > p->quarantine_listed ? p->quarantined : p->quarantine_listed;
}

/* Broken, or sent to the wrong partition: somebody should look at who writes them. */
uint64_t status_unusable(const struct tally_partition *p)
{
	static const char *const reasons[] = {
		"undecodable", "no_metadata", "no_tenant", "misrouted"};
	uint64_t sum = 0;
	for (unsigned r = 0; r < TALLY_SKIP_REASONS; r++)
		for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
			if (!strcmp(tally_skip_reason(r), reasons[i]))
				sum += p->skipped[r];
	return sum;
}

/* "SIGSEGV", "exit code 70"; "hang (SIGKILL)": there the kind says more than the detail. */
static const char *death_of(const struct tally_partition *p, char to[DEATH_SIZE])
{
	bool plain = !strcmp(p->death, "exit") || !strcmp(p->death, "signal");
	if (!*p->death_detail)
		return p->death;
	if (plain)
		return p->death_detail;
	snprintf(to, DEATH_SIZE, "%s (%s)", p->death, p->death_detail);
	return to;
}

/* There is no log to read: tallyd has put it aside. */
static bool missing(const struct ctl *ctl, const struct tally_partition *p)
{
	uint32_t has = ctl->instance.topic_partitions;
	return !p->ready && has && p->partition >= has;
}

void status_notes(const struct ctl *ctl, const struct tally_partition *p, char *to, size_t size)
{
	char text[128], span[CTL_TEXT_SIZE], death[DEATH_SIZE];
	*to = 0;
	if (p->has_stats && p->pid && p->heartbeat_age_ms >= SILENT_MS) {
		snprintf(text, sizeof text, "no sign of life for %s",
			ctl_span(span, p->heartbeat_age_ms));
		append(to, size, text);
	}
	if (strcmp(p->state, "ready") == 0 && !p->ready)
		append(to, size, "lease is over");
	if (missing(ctl, p))
		append(to, size, "the topic does not have it");
	if (p->death_at_ms) {
		snprintf(text, sizeof text, "%s %s ago", death_of(p, death),
			ctl_span(span, ctl_minus(tally_now_ms(ctl->tally), p->death_at_ms)));
		append(to, size, text);
	}
	if (p->retry_in_ms) {
		snprintf(text, sizeof text, "restarts in %s", ctl_span(span, p->retry_in_ms));
		append(to, size, text);
	}
	if (*p->problems)
		append(to, size, p->problems);
	if (status_quarantined(p)) {
		snprintf(text, sizeof text, "%" PRIu64 " quarantined", status_quarantined(p));
		append(to, size, text);
	}
	if (!*to)
		snprintf(to, size, "-");
}

/* ------------------------------------------------------------------ the last line */

static void why_not_ready(
	const struct ctl *ctl, const struct tally_partition *p, char *to, size_t size)
{
	char replay[64], span[CTL_TEXT_SIZE], death[DEATH_SIZE];
	status_replay(p, replay, sizeof replay);
	int len = snprintf(to, size, "p%" PRIu32 " %s", p->partition,
		strcmp(p->state, "ready") == 0 ? "lease over" : p->state);
	if (*replay) {
		snprintf(to + len, size - (size_t)len, " %s", replay);
		return;
	}
	if (missing(ctl, p)) {
		snprintf(to + len, size - (size_t)len, " (the topic does not have it)");
		return;
	}
	bool died = p->death_at_ms && strcmp(p->death, "none") != 0;
	if (!died || !(p->retry_in_ms || strcmp(p->state, "failed") == 0))
		return;
	len += snprintf(to + len, size - (size_t)len, " (%s", death_of(p, death));
	if (p->retry_in_ms)
		len += snprintf(to + len, size - (size_t)len, ", restarts in %s",
			ctl_span(span, p->retry_in_ms));
	snprintf(to + len, size - (size_t)len, ")");
}

/* What to do about a group that gives us nothing. */
static const char *group_advice(const char *state)
{
	static const struct {
		const char *state, *advice;
	} table[] = {
		{"no_broker", ": no broker answers; check kafka.brokers, the log has the reason"},
		{"no_topic", ": create the topic, or correct kafka.topic"},
		{"joining", ": wait; that takes seconds, after a crash a session timeout"},
		{"login_refused", ": see kafka.refused in the log"},
		{"tls_failed", ": see kafka.refused in the log"},
		{"not_allowed", ": see kafka.refused in the log"},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (!strcmp(state, table[i].state))
			return table[i].advice;
	return "";
}

void status_summary(
	const struct ctl *ctl, const struct tally_partition *list, size_t n, char *to, size_t size)
{
	size_t not_ready = 0, len = 0;
	if (!ctl->instance.alive) { /* what is ready by its lease is so for seconds only */
		len = (size_t)snprintf(to, size,
			"tallyd is %s: ", ctl_frozen(ctl) ? "frozen or stuck" : "not running");
		to += len;
		size -= len;
		len = 0;
	}
	for (size_t i = 0; i < n; i++)
		not_ready += !list[i].ready;
	if (!n) {
		const char *group = ctl->instance.group_state;
		snprintf(to, size, "no partition is assigned here (group %s)%s", group,
			group_advice(group));
		return;
	}
	if (!not_ready) {
		snprintf(to, size, "%zu of %zu partition%s ready", n, n, ctl_s(n));
		return;
	}
	len = (size_t)snprintf(to, size, "%zu of %zu not ready: ", not_ready, n);
	size_t named = 0;
	for (size_t i = 0; i < n && named < NAMED_MAX; i++) {
		char why[160];
		if (list[i].ready)
			continue;
		why_not_ready(ctl, &list[i], why, sizeof why);
		len += (size_t)snprintf(to + len, size - len, "%s%s", named ? ", " : "", why);
		named++;
	}
	if (named < not_ready)
		snprintf(to + len, size - len, " and %zu more", not_ready - named);
}
