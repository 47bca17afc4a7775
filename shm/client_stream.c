/*
 * client_stream.c - single streams: which partition has it, and what it says.
 *
 *	hash % partitions --> partition --> block of (tenant, hash) --> entry, copied out
 *
 * A listing reads CHUNK entries in a transaction, so that no reader holds old
 * pages for long, however many streams a tenant has.
 *
 * Runs in: every reader.  Blocks in: nowhere.
 */
#include <stdlib.h>
#include <string.h>

#include "shm/client_private.h"
#include "shm/err.h"

#define CHUNK 512

static int fill_stream(struct client_visit *visit, uint32_t tenant, const struct usage_stream *from,
	struct tally_stream *to)
{
	const struct usage_entry *entry = &from->entry;
	char policy[USAGE_NAME_SIZE + 1];
	if (!usage_policy_name(visit->txn, tenant, entry->policy, policy))
		return ERR_CORRUPT;
	*to = (struct tally_stream){
		.hash = from->hash,
		.partition = visit->partition,
		.active = client_seen_active(visit, entry->last_seen_s),
		.last_seen_ms = (int64_t)entry->last_seen_s * 1000,
		.last_produced_ms = (int64_t)entry->last_produced_s * 1000,
		.unsent_bytes = entry->unsent_bytes,
		.bytes_per_sec = window_rate(entry->bucket, window_minute_of_s(entry->last_seen_s),
			visit->tally->now_ms, visit->tally->rate),
	};
	client_text(to->policy, sizeof to->policy, policy, USAGE_NAME_SIZE);
	return 0;
}

/* ------------------------------------------------------------------ one stream */

struct one_stream {
	const char *tenant;
	uint64_t hash;
	struct tally_stream *out;
};

static int read_stream(struct client_visit *visit, void *arg)
{
	const struct one_stream *ask = arg;
	struct usage_stream stream;
	uint32_t tenant;
	if (!client_find_tenant(visit, ask->tenant, &tenant) ||
		!usage_find_stream(visit->txn, tenant, ask->hash, &stream))
		return ERR_NOT_FOUND;
	return fill_stream(visit, tenant, &stream, ask->out);
}

static int visit_stream(struct tally *tally, void *arg)
{
	const struct one_stream *ask = arg;
	uint32_t partitions = client_partitions(tally);
	if (!partitions)
		return client_unanswered(tally);
	int err = client_visit(tally, (uint32_t)(ask->hash % partitions), read_stream, arg);
	if (err == ERR_NOT_FOUND && client_last(tally)->partial) /* it may be yet to come */
		return ERR_NOT_READY;
	return err == ERR_NOT_READY ? client_unanswered(tally) : err;
}

int tally_stream(struct tally *tally, const char *tenant, uint64_t hash, struct tally_stream *out)
{
	struct one_stream ask = {.tenant = tenant, .hash = hash, .out = out};
	if (!tally || !out || !client_name_ok(tenant))
		return TALLY_EINVALID;
	int err = client_call(tally, visit_stream, &ask);
	if (err)
		*out = (struct tally_stream){.hash = hash};
	return err;
}

/* ------------------------------------------------------------------ many, by hash */

struct many_streams {
	const char *tenant;
	struct tally_lookup *list;
	size_t n;
	uint32_t partitions, partition;
};

static void tell_lookup(const struct client_find *find, size_t i, int64_t last_seen_s)
{
	struct tally_lookup *to = &((struct many_streams *)find->arg)->list[i];
	bool known = last_seen_s >= 0;
	to->generation = find->visit->generation;
	to->result = known ? 0 : ERR_NOT_FOUND;
	to->active = client_seen_active(find->visit, last_seen_s);
	to->last_seen_ms = known ? last_seen_s * 1000 : 0;
}

static int read_lookups(struct client_visit *visit, void *arg)
{
	struct many_streams *ask = arg;
	struct client_find find;
	client_find_start(&find, visit, ask->tenant, tell_lookup, ask);
	for (size_t i = 0; i < ask->n; i++)
		if (ask->list[i].partition == ask->partition)
			client_find_add(&find, i, ask->list[i].hash);
	client_find_end(&find);
	return 0;
}

static void fail_lookups(struct many_streams *ask, int err)
{
	for (size_t i = 0; i < ask->n; i++) {
		struct tally_lookup *to = &ask->list[i];
		if (to->partition == ask->partition)
			*to = (struct tally_lookup){
				.hash = to->hash, .partition = to->partition, .result = err};
	}
}

/* They may be yet to come. */
static void fail_unfound(struct many_streams *ask)
{
	for (size_t i = 0; i < ask->n; i++) {
		struct tally_lookup *to = &ask->list[i];
		if (to->partition == ask->partition && to->result == TALLY_ENOTFOUND)
			*to = (struct tally_lookup){.hash = to->hash,
				.partition = to->partition,
				.result = TALLY_ENOTREADY};
	}
}

static int visit_lookups(struct tally *tally, void *arg)
{
	struct many_streams *ask = arg;
	ask->partitions = client_partitions(tally);
	if (!ask->partitions)
		return client_unanswered(tally);
	for (size_t i = 0; i < ask->n; i++) {
		ask->list[i].partition = (uint32_t)(ask->list[i].hash % ask->partitions);
		ask->list[i].result = 1; /* not asked yet */
	}
	for (size_t i = 0; i < ask->n; i++) {
		if (ask->list[i].result != 1)
			continue;
		ask->partition = ask->list[i].partition;
		int err = client_visit(tally, ask->partition, read_lookups, ask);
		if (err)
			fail_lookups(ask, client_public(err));
		else if (client_last(tally)->partial)
			fail_unfound(ask);
	}
	return 0;
}

int tally_lookup(struct tally *tally, const char *tenant, struct tally_lookup *streams, size_t n)
{
	struct many_streams ask = {.tenant = tenant, .list = streams, .n = n};
	if (!tally || (n && !streams) || !client_name_ok(tenant))
		return TALLY_EINVALID;
	int err = client_call(tally, visit_lookups, &ask);
	for (size_t i = 0; err && i < n; i++)
		streams[i] = (struct tally_lookup){.hash = streams[i].hash, .result = err};
	return err;
}

/* ------------------------------------------------------------------ all of a tenant */

struct stream_list {
	const char *tenant;
	struct tally_stream *out;
	size_t cap, n, mark; /* mark: taken so far; behind it is scratch */
	uint64_t from, next;
	bool at_end, found, known;
	struct usage_stream *raw; /* CHUNK */
};

static int read_chunk(struct client_visit *visit, void *arg)
{
	struct stream_list *list = arg;
	uint32_t tenant;
	int err = 0;
	list->n = list->mark;
	list->next = list->from;
	list->at_end = true;
	list->found = client_find_tenant(visit, list->tenant, &tenant);
	if (!list->found)
		return 0;
	size_t got = usage_list_streams(visit->txn, tenant, list->from, list->raw, CHUNK);
	size_t i = 0;
	for (; !err && i < got && list->n < list->cap; i++) {
		const struct usage_stream *stream = &list->raw[i];
		if (stream->hash < list->next)
			return ERR_CORRUPT; /* hashes must rise, else there is no end */
		list->next = stream->hash + 1;
		if (client_seen_active(visit, stream->entry.last_seen_s))
			err = fill_stream(visit, tenant, stream, &list->out[list->n++]);
		if (!list->next)
			return err; /* that was the highest hash */
	}
	list->at_end = got < CHUNK && i == got;
	return err;
}

/* One partition, or as much as there is room for.  *more: it goes on at list->from. */
static int list_partition(struct tally *tally, uint32_t p, struct stream_list *list, bool *more)
{
	do {
		int err = client_visit(tally, p, read_chunk, list);
		if (err)
			return err;
		list->mark = list->n;
		list->from = list->next;
		list->known = list->known || list->found;
	} while (!list->at_end && list->n < list->cap);
	*more = !list->at_end;
	return 0;
}

struct stream_ask {
	const char *tenant;
	struct tally_cursor cursor; /* given; where to go on */
	struct tally_cursor next;
	struct stream_list list;
	struct tally_basis basis;
};

/* Partitions before the cursor were answered by earlier calls: here they count by their state. */
static int list_one(struct tally *tally, struct stream_ask *ask, uint32_t p, bool *full)
{
	struct client_stand stand = {.partition = p, .word = table_word_of(&tally->table, p)};
	enum part_state state = table_word_state(stand.word);
	size_t mark = ask->list.mark;
	bool more = false;
	int err;
	if (state == PART_FREE || state >= PART_STATES)
		return 0;
	ask->basis.owned++;
	if (p < ask->cursor.partition || *full) {
		err = client_look(tally, p, &stand);
	} else {
		ask->list.from = p == ask->cursor.partition ? ask->cursor.from : 0;
		err = list_partition(tally, p, &ask->list, &more);
		if (err)
			ask->list.mark = mark;
		else
			stand = *client_last(tally);
	}
	if (!err)
		client_basis_add(&ask->basis, &stand);
	if (more) {
		ask->next = (struct tally_cursor){.partition = p, .from = ask->list.from};
		*full = true;
	}
	return err == ERR_NOT_READY ? 0 : err;
}

static int scan_streams(struct tally *tally, void *arg)
{
	struct stream_ask *ask = arg;
	int first = 0;
	bool full = false;
	ask->list.n = ask->list.mark = 0;
	ask->list.known = false;
	ask->basis = (struct tally_basis){.partitions = client_partitions(tally)};
	ask->next = (struct tally_cursor){.partition = ask->basis.partitions, .done = 1};
	for (uint32_t p = 0; p < ask->basis.partitions; p++) {
		int err = list_one(tally, ask, p, &full);
		if (err == ERR_NOMEM)
			return err;
		if (err && !first)
			first = err;
	}
	ask->list.n = ask->list.mark;
	client_basis_end(&ask->basis);
	if (!ask->basis.answered && !ask->basis.partial)
		return first ? first : client_unanswered(tally);
	bool whole = !ask->cursor.partition && !ask->cursor.from && ask->next.done;
	return whole && !ask->list.known ? ERR_NOT_FOUND : 0;
}

int tally_streams(struct tally *tally, const char *tenant, struct tally_cursor *cursor,
	struct tally_stream *out, size_t cap, size_t *n, struct tally_basis *basis)
{
	if (!tally || !cursor || !out || !cap || !n || !client_name_ok(tenant))
		return TALLY_EINVALID;
	struct stream_ask ask = {
		.cursor = *cursor, .list = {.tenant = tenant, .out = out, .cap = cap}};
	*n = 0;
	ask.list.raw = calloc(CHUNK, sizeof *ask.list.raw);
	if (!ask.list.raw)
		return TALLY_ENOMEM;
	int err = cursor->done ? 0 : client_call(tally, scan_streams, &ask);
	free(ask.list.raw);
	if (basis)
		*basis = ask.basis;
	if (err == TALLY_ENOTFOUND)
		cursor->done = 1;
	if (err || cursor->done)
		return err;
	*n = ask.list.n;
	*cursor = ask.next;
	return 0;
}

/* ------------------------------------------------------------------ one partition's share */

struct part_ask {
	const char *tenant;
	uint32_t partition;
	struct tally_part_usage *out;
};

static int read_part(struct client_visit *visit, void *arg)
{
	const struct part_ask *ask = arg;
	struct usage_meta meta;
	struct window_row row;
	uint32_t tenant;
	int policy = -1;
	int err = usage_read_meta(visit->txn, &meta);
	if (err)
		return err == ERR_NOT_FOUND ? ERR_CORRUPT : err;
	*ask->out = (struct tally_part_usage){
		.generation = visit->generation,
		.next_offset = meta.next_offset,
		.as_of_ms = visit->tally->now_ms,
	};
	if (!ask->tenant || !client_find_tenant(visit, ask->tenant, &tenant))
		return ask->tenant ? ERR_NOT_FOUND : 0;
	while (client_next_row(visit, tenant, &policy, &row)) {
		ask->out->streams =
			client_add(ask->out->streams, window_row_streams(&row, visit->now_minute));
		ask->out->bytes =
			client_add(ask->out->bytes, window_row_bytes(&row, visit->now_minute));
	}
	return 0;
}

static int visit_part(struct tally *tally, void *arg)
{
	const struct part_ask *ask = arg;
	*ask->out = (struct tally_part_usage){0};
	if (ask->partition >= client_partitions(tally))
		return ERR_INVALID;
	int err = client_visit(tally, ask->partition, read_part, arg);
	if ((!err || err == ERR_NOT_FOUND) && client_last(tally)->partial)
		return ERR_NOT_READY;
	return err == ERR_NOT_READY ? client_unanswered(tally) : err;
}

int tally_partition_usage(
	struct tally *tally, uint32_t partition, const char *tenant, struct tally_part_usage *out)
{
	struct part_ask ask = {.tenant = tenant, .partition = partition, .out = out};
	if (!tally || !out || (tenant && !client_name_ok(tenant)))
		return TALLY_EINVALID;
	return client_call(tally, visit_part, &ask);
}
