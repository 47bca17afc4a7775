/*
 * oracle.c - what a store must contain, computed the slow, obvious way.
 *
 * The promise: nothing here is clever.  What is compared with it is.
 *
 * Runs in: tests.
 */
#include "oracle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROW(array, n)                                                                             \
	do {                                                                                       \
		if (((n) & ((n)-1)) == 0)                                                          \
			(array) = realloc((array), ((n) ? 2 * (n) : 1) * sizeof(*(array)));        \
		if (!(array))                                                                      \
			abort();                                                                   \
	} while (0)

/* The one copy of a text, so that equal texts are equal pointers. */
static char *oracle_text(struct oracle *oracle, const char *text, size_t len)
{
	for (size_t i = 0; i < oracle->n_names; i++)
		if (strlen(oracle->names[i]) == len && memcmp(oracle->names[i], text, len) == 0)
			return oracle->names[i];
	GROW(oracle->names, oracle->n_names);
	oracle->names[oracle->n_names] = strndup(len ? text : "", len);
	return oracle->names[oracle->n_names++];
}

struct oracle *oracle_new(uint32_t partition, uint32_t partitions, uint32_t window,
	const uint8_t incarnation[INCARNATION_SIZE])
{
	struct oracle *oracle = calloc(1, sizeof(*oracle));

	if (!oracle)
		abort();
	oracle->partition = partition;
	oracle->partitions = partitions;
	oracle->window = window;
	memcpy(oracle->incarnation, incarnation, INCARNATION_SIZE);
	return oracle;
}

void oracle_free(struct oracle **oraclep)
{
	struct oracle *oracle = *oraclep;

	for (size_t i = 0; i < oracle->n_names; i++)
		free(oracle->names[i]);
	free(oracle->names);
	free(oracle->streams);
	free(oracle->bytes);
	free(oracle->sources);
	free(oracle->policies);
	free(oracle);
	*oraclep = NULL;
}

/* --- records --------------------------------------------------------------------------------- */

static bool repeated(struct oracle *oracle, const struct record *record)
{
	for (size_t i = 0; i < oracle->n_sources; i++) {
		struct oracle_source *source = &oracle->sources[i];

		if (memcmp(source->incarnation, record->incarnation, INCARNATION_SIZE) != 0)
			continue;
		if (record->sequence <= source->sequence)
			return true;
		source->sequence = record->sequence;
		return false;
	}
	GROW(oracle->sources, oracle->n_sources);
	memcpy(oracle->sources[oracle->n_sources].incarnation, record->incarnation,
		INCARNATION_SIZE);
	oracle->sources[oracle->n_sources++].sequence = record->sequence;
	return false;
}

static enum skip_reason judge(struct oracle *oracle, const struct record *record, int64_t now_ms)
{
	int64_t age_minutes = now_ms / 60000 - record->timestamp_ms / 60000;

	if (record->hash % oracle->partitions != oracle->partition)
		return SKIP_MISROUTED;
	if (record->has_source &&
		memcmp(record->incarnation, oracle->incarnation, INCARNATION_SIZE) == 0)
		return SKIP_OWN;
	if (record->has_source && repeated(oracle, record))
		return SKIP_DUPLICATE;
	if (record->timestamp_ms < 0 || age_minutes > oracle->window)
		return SKIP_TOO_OLD;
	return SKIP_NONE;
}

/* The 1024th policy of a tenant, "" counted, is the last; what comes later is "". */
static char *accept_policy(struct oracle *oracle, char *tenant, char *policy)
{
	size_t n = 1;

	if (policy[0] == '\0')
		return policy;
	for (size_t i = 0; i < oracle->n_policies; i++) {
		if (oracle->policies[i].tenant != tenant)
			continue;
		if (oracle->policies[i].policy == policy)
			return policy;
		n++;
	}
	if (n >= USAGE_POLICIES_MAX) {
		oracle->policy_overflow++;
		return oracle_text(oracle, "", 0);
	}
	GROW(oracle->policies, oracle->n_policies);
	oracle->policies[oracle->n_policies].tenant = tenant;
	oracle->policies[oracle->n_policies++].policy = policy;
	return policy;
}

static struct oracle_stream *find_stream(
	const struct oracle *oracle, const char *tenant, uint64_t hash)
{
	for (size_t i = 0; i < oracle->n_streams; i++)
		if (oracle->streams[i].hash == hash && oracle->streams[i].tenant == tenant)
			return &oracle->streams[i];
	return NULL;
}

enum skip_reason oracle_add(struct oracle *oracle, const struct record *record, int64_t now_ms)
{
	enum skip_reason reason = judge(oracle, record, now_ms);
	struct oracle_stream *stream;
	char *tenant, *policy;
	int64_t seen_ms;

	oracle->records++;
	if (reason != SKIP_NONE) {
		oracle->skipped[reason]++;
		return reason;
	}
	oracle->applied++;
	oracle->sum += record->size;
	tenant = oracle_text(oracle, record->tenant, record->tenant_len);
	policy = accept_policy(
		oracle, tenant, oracle_text(oracle, record->policy, record->policy_len));
	seen_ms = record->timestamp_ms > now_ms ? now_ms : record->timestamp_ms;
	GROW(oracle->bytes, oracle->n_bytes);
	oracle->bytes[oracle->n_bytes++] = (struct oracle_bytes){
		tenant, policy, record->hash, (uint32_t)(seen_ms / 60000), record->size};
	stream = find_stream(oracle, tenant, record->hash);
	if (!stream) {
		GROW(oracle->streams, oracle->n_streams);
		stream = &oracle->streams[oracle->n_streams++];
		*stream = (struct oracle_stream){tenant, policy, record->hash, 0};
	}
	if (seen_ms / 1000 >= stream->last_seen_s) {
		stream->last_seen_s = (uint32_t)(seen_ms / 1000);
		stream->policy = policy;
	}
	return SKIP_NONE;
}

/* --- answers --------------------------------------------------------------------------------- */

static bool active(const struct oracle *oracle, uint32_t minute, int64_t now_ms)
{
	return now_ms / 60000 - minute <= oracle->window;
}

uint64_t oracle_count(
	const struct oracle *oracle, const char *tenant, const char *policy, int64_t now_ms)
{
	uint64_t n = 0;

	for (size_t i = 0; i < oracle->n_streams; i++) {
		const struct oracle_stream *s = &oracle->streams[i];

		n += strcmp(s->tenant, tenant) == 0 &&
		     (!policy || strcmp(s->policy, policy) == 0) &&
		     active(oracle, s->last_seen_s / 60, now_ms);
	}
	return n;
}

uint64_t oracle_sum(
	const struct oracle *oracle, const char *tenant, const char *policy, int64_t now_ms)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < oracle->n_bytes; i++) {
		const struct oracle_bytes *b = &oracle->bytes[i];

		if (strcmp(b->tenant, tenant) == 0 && (!policy || strcmp(b->policy, policy) == 0) &&
			active(oracle, b->minute, now_ms))
			sum += b->bytes;
	}
	return sum;
}

/* --- comparison ------------------------------------------------------------------------------ */

struct comparison {
	struct oracle *oracle;
	struct store_txn *txn;
	int64_t now_ms;
	char *why;
	char tenant[USAGE_NAME_SIZE + 1];
	uint32_t id;
};

__attribute__((format(printf, 2, 3))) static int differs(struct comparison *c, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(c->why, 256, fmt, args);
	va_end(args);
	return -1;
}

static int compare_meta(struct comparison *c)
{
	const struct oracle *oracle = c->oracle;
	struct usage_meta meta;
	int err = usage_read_meta(c->txn, &meta);

	if (err)
		return differs(c, "meta cannot be read: %d", err);
	if (meta.records != oracle->records || meta.applied != oracle->applied ||
		meta.bytes != oracle->sum)
		return differs(c,
			"records %" PRIu64 "/%" PRIu64 " applied %" PRIu64 "/%" PRIu64
			" bytes %" PRIu64 "/%" PRIu64 " (store/oracle)",
			meta.records, oracle->records, meta.applied, oracle->applied, meta.bytes,
			oracle->sum);
	for (int i = 0; i < SKIP_REASONS; i++)
		if (meta.skipped[i] != oracle->skipped[i])
			return differs(c, "skipped[%d] %" PRIu64 "/%" PRIu64, i, meta.skipped[i],
				oracle->skipped[i]);
	if (meta.policy_overflow != oracle->policy_overflow)
		return differs(c, "policy overflow %" PRIu64 "/%" PRIu64, meta.policy_overflow,
			oracle->policy_overflow);
	return 0;
}

static int compare_buckets(
	struct comparison *c, const struct oracle_stream *stream, const struct usage_entry *entry)
{
	uint32_t last = stream->last_seen_s / 60;

	for (uint32_t m = last - RATE_MINUTES + 1; m <= last; m++) {
		uint64_t sum = 0;

		for (size_t i = 0; i < c->oracle->n_bytes; i++) {
			const struct oracle_bytes *b = &c->oracle->bytes[i];

			if (b->hash == stream->hash && b->tenant == stream->tenant &&
				b->minute == m)
				sum += b->bytes;
		}
		if (sum > UINT32_MAX)
			sum = UINT32_MAX;
		if (entry->bucket[m % RATE_MINUTES] != sum)
			return differs(c,
				"tenant %s stream %016" PRIx64 " minute %u: bucket %u/%" PRIu64,
				stream->tenant, stream->hash, m, entry->bucket[m % RATE_MINUTES],
				sum);
	}
	return 0;
}

static int compare_stream(struct comparison *c, const struct oracle_stream *stream, bool buckets)
{
	char policy[USAGE_NAME_SIZE + 1];
	struct usage_stream found;
	uint32_t id;

	if (!usage_find_tenant(c->txn, stream->tenant, strlen(stream->tenant), &id))
		return differs(c, "tenant %s is not in the store", stream->tenant);
	if (!usage_find_stream(c->txn, id, stream->hash, &found)) {
		if (active(c->oracle, stream->last_seen_s / 60, c->now_ms))
			return differs(c, "tenant %s stream %016" PRIx64 " is not in the store",
				stream->tenant, stream->hash);
		return 0;
	}
	if (!usage_policy_name(c->txn, id, found.entry.policy, policy) ||
		strcmp(policy, stream->policy) != 0)
		return differs(c, "tenant %s stream %016" PRIx64 ": policy '%s'/'%s'",
			stream->tenant, stream->hash, policy, stream->policy);
	if (found.entry.last_seen_s != stream->last_seen_s || found.entry.unsent_bytes ||
		found.entry.last_produced_s != stream->last_seen_s)
		return differs(c, "tenant %s stream %016" PRIx64 ": seen %u/%u", stream->tenant,
			stream->hash, found.entry.last_seen_s, stream->last_seen_s);
	return buckets ? compare_buckets(c, stream, &found.entry) : 0;
}

/* Nothing may be in the store that the oracle has not. */
static int compare_listed(struct comparison *c)
{
	struct usage_stream list[100];
	uint64_t from = 0;
	size_t n;

	while ((n = usage_list_streams(c->txn, c->id, from, list, 100)) > 0) {
		for (size_t i = 0; i < n; i++)
			if (!find_stream(c->oracle,
				    oracle_text(c->oracle, c->tenant, strlen(c->tenant)),
				    list[i].hash))
				return differs(c, "tenant %s stream %016" PRIx64 " is made up",
					c->tenant, list[i].hash);
		if (list[n - 1].hash == UINT64_MAX)
			break;
		from = list[n - 1].hash + 1;
	}
	return 0;
}

static int compare_row(struct comparison *c, const char *policy, const struct window_row *row)
{
	uint32_t now = (uint32_t)(c->now_ms / 60000), window = c->oracle->window;

	for (uint32_t m = now - window; m <= now; m++) {
		bool in_row = m <= row->base && row->base - m <= window;
		uint64_t streams = 0, bytes = 0;

		for (size_t i = 0; i < c->oracle->n_streams; i++)
			streams += c->oracle->streams[i].last_seen_s / 60 == m &&
				   strcmp(c->oracle->streams[i].tenant, c->tenant) == 0 &&
				   strcmp(c->oracle->streams[i].policy, policy) == 0;
		for (size_t i = 0; i < c->oracle->n_bytes; i++)
			if (c->oracle->bytes[i].minute == m &&
				strcmp(c->oracle->bytes[i].tenant, c->tenant) == 0 &&
				strcmp(c->oracle->bytes[i].policy, policy) == 0)
				bytes += c->oracle->bytes[i].bytes;
		if (streams != (in_row ? row->count[m % row->slots] : 0) ||
			bytes != (in_row ? row->bytes[m % row->slots] : 0))
			return differs(c,
				"tenant %s policy '%s' minute now-%u: streams %u/%" PRIu64
				" bytes %" PRIu64 "/%" PRIu64,
				c->tenant, policy, now - m, in_row ? row->count[m % row->slots] : 0,
				streams, in_row ? row->bytes[m % row->slots] : 0, bytes);
	}
	if (window_row_streams(row, now) != oracle_count(c->oracle, c->tenant, policy, c->now_ms) ||
		window_row_bytes(row, now) != oracle_sum(c->oracle, c->tenant, policy, c->now_ms))
		return differs(c, "tenant %s policy '%s': sums of the row", c->tenant, policy);
	return 0;
}

/* All rows; and the sum over them, in case one is missing. */
static int compare_tenant(struct comparison *c)
{
	void *buf = malloc(window_row_size(c->oracle->window));
	char policy[USAGE_NAME_SIZE + 1];
	struct window_row row;
	uint64_t streams = 0, bytes = 0;
	int id = -1, err = compare_listed(c);

	while (!err && usage_next_row(c->txn, c->id, &id, c->oracle->window, buf, &row)) {
		if (!usage_policy_name(c->txn, c->id, (uint32_t)id, policy))
			err = differs(c, "tenant %s policy %d has no name", c->tenant, id);
		else
			err = compare_row(c, policy, &row);
		streams += window_row_streams(&row, (uint32_t)(c->now_ms / 60000));
		bytes += window_row_bytes(&row, (uint32_t)(c->now_ms / 60000));
	}
	if (!err && (streams != oracle_count(c->oracle, c->tenant, NULL, c->now_ms) ||
			    bytes != oracle_sum(c->oracle, c->tenant, NULL, c->now_ms)))
		err = differs(c, "tenant %s: a row is missing", c->tenant);
	free(buf);
	return err;
}

int oracle_compare(struct oracle *oracle, struct store_txn *txn, int64_t now_ms, char why[256])
{
	struct comparison c = {.oracle = oracle, .txn = txn, .now_ms = now_ms, .why = why};
	int err = compare_meta(&c);

	c.id = UINT32_MAX;
	while (!err && usage_next_tenant(txn, &c.id, c.tenant))
		err = compare_tenant(&c);
	/* Buckets cost a pass over all records each: of every seventh stream. */
	for (size_t i = 0; i < oracle->n_streams && !err; i++)
		err = compare_stream(&c, &oracle->streams[i], i % 7 == 0);
	if (!err && txn->err)
		err = differs(&c, "the transaction has failed: %d", txn->err);
	return err;
}
