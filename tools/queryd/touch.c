/*
 * touch.c - what was accepted from the map, on its way to the workers.
 *
 *	entries[], an index by (group, hash) | groups[]: tenant, partition | names: an arena
 *	flush: all of it is taken down, sorted, cut into messages, some at a time; what stays is added
 *	again to what has come meanwhile
 *
 * Runs in: queryd, asker thread.  Blocks in: nowhere.
 */
#include "touch.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "shm/check.h"
#include "shm/host.h"
#include "shm/table.h"

#define NAMES_MAX (64u << 20)
#define NO_NAME	  UINT32_MAX

struct entry {
	uint64_t hash, bytes;
	uint32_t group, policy; /* policy: its place in the arena */
	uint32_t seen_s;
	uint32_t reserved;
};
_Static_assert(sizeof(struct entry) == 32, "a million of them");

struct group {
	uint64_t generation, name_hash;
	uint32_t partition;
	uint32_t tenant; /* place in the arena */
	uint32_t next;	 /* of the same place in the index; + 1 */
};

/* What is waiting: made empty at once, and filled again. */
struct sheet {
	struct entry *entries, *sorted; /* sorted: room for them */
	size_t n, cap;
	uint32_t *index; /* entry + 1 */
	size_t index_size;
	struct group *groups;
	size_t n_groups, groups_cap;
	uint32_t *group_index; /* group + 1 */
	size_t group_index_size;
	char *names;
	size_t names_len, names_cap;
	uint32_t last_policy;
};

struct touches {
	struct links *links;
	uint64_t seed;
	struct sheet now, before; /* before: being sent, from `at` on */
	size_t at, kept;
	struct touches_facts facts;
	bool busy[TABLE_CAPACITY];   /* it did not take the last message: others are not tried */
	uint32_t of[TABLE_CAPACITY]; /* entries that wait */
	uint8_t message[ADMIT_MESSAGE_MAX];
	struct admit_stream streams[ADMIT_STREAMS_MAX];
	struct admit_question question;
};

struct touches *touches_new(struct links *links)
{
	struct touches *touches = calloc(1, sizeof(*touches));
	must_get(touches);
	touches->links = links;
	touches->seed = host_random();
	return touches;
}

static void free_sheet(struct sheet *sheet)
{
	free(sheet->entries);
	free(sheet->sorted);
	free(sheet->index);
	free(sheet->groups);
	free(sheet->group_index);
	free(sheet->names);
}

void touches_free(struct touches **touches)
{
	if (!*touches)
		return;
	free_sheet(&(*touches)->now);
	free_sheet(&(*touches)->before);
	free(*touches);
	*touches = NULL;
}

size_t touches_waiting(const struct touches *touches)
{
	return touches->now.n + touches->before.n - touches->at;
}

size_t touches_kept(const struct touches *touches)
{
	return touches->kept;
}

const struct touches_facts *touches_facts(const struct touches *touches)
{
	return &touches->facts;
}

/* ------------------------------------------------------------------ names and groups */

/* The empty name is at 0. */
static uint32_t add_name(struct sheet *sheet, const char *name)
{
	size_t len = strlen(name) + 1;
	if (sheet->names_len + len > NAMES_MAX)
		return NO_NAME;
	if (sheet->names_len + len + 1 > sheet->names_cap) {
		sheet->names_cap = 2 * (sheet->names_len + len) + 4096;
		sheet->names = realloc(sheet->names, sheet->names_cap);
		must_get(sheet->names);
	}
	if (!sheet->names_len)
		sheet->names[sheet->names_len++] = 0;
	memcpy(sheet->names + sheet->names_len, name, len);
	sheet->names_len += len;
	return (uint32_t)(sheet->names_len - len);
}

/* Twice as large, with everything in its place. */
static void grow_groups(struct sheet *sheet)
{
	size_t size = sheet->group_index_size ? sheet->group_index_size * 2 : 256;
	sheet->groups_cap = size;
	sheet->groups = reallocarray(sheet->groups, size, sizeof(*sheet->groups));
	free(sheet->group_index);
	sheet->group_index = calloc(size, sizeof(*sheet->group_index));
	must_get(sheet->groups && sheet->group_index);
	sheet->group_index_size = size;
	for (size_t i = 0; i < sheet->n_groups; i++) {
		struct group *group = &sheet->groups[i];
		uint32_t *at = &sheet->group_index[group->name_hash & (size - 1)];
		group->next = *at;
		*at = (uint32_t)i + 1;
	}
}

static uint32_t group_of(struct touches *touches, struct sheet *sheet, const char *tenant,
	uint32_t partition, uint64_t generation)
{
	uint64_t hash = XXH3_64bits_withSeed(tenant, strlen(tenant), touches->seed) ^
			partition * UINT64_C(0x9e3779b97f4a7c15);
	if (sheet->n_groups == sheet->groups_cap)
		grow_groups(sheet);
	uint32_t *at = &sheet->group_index[hash & (sheet->group_index_size - 1)];
	for (uint32_t i = *at; i; i = sheet->groups[i - 1].next) {
		const struct group *group = &sheet->groups[i - 1];
		if (group->name_hash == hash && group->partition == partition &&
			group->generation == generation &&
			!strcmp(sheet->names + group->tenant, tenant))
			return i - 1;
	}
	uint32_t name = sheet->n_groups < TOUCH_STREAMS_MAX ? add_name(sheet, tenant) : NO_NAME;
	if (name == NO_NAME)
		return TOUCH_GROUP_NONE;
	sheet->groups[sheet->n_groups] = (struct group){
		.generation = generation,
		.name_hash = hash,
		.partition = partition,
		.tenant = name,
		.next = *at,
	};
	*at = (uint32_t)++sheet->n_groups;
	return *at - 1;
}

uint32_t touches_group(
	struct touches *touches, const char *tenant, uint32_t partition, uint64_t generation)
{
	return group_of(touches, &touches->now, tenant, partition, generation);
}

/* A name may be there more than once: mostly it is the one of last time. */
static uint32_t policy_of(struct sheet *sheet, const char *policy)
{
	if (!*policy)
		return 0;
	if (!sheet->last_policy || strcmp(sheet->names + sheet->last_policy, policy) != 0) {
		uint32_t name = add_name(sheet, policy);
		if (name == NO_NAME)
			return NO_NAME;
		sheet->last_policy = name;
	}
	return sheet->last_policy;
}

uint32_t touches_policy(struct touches *touches, const char *policy)
{
	return policy_of(&touches->now, policy);
}

/* ------------------------------------------------------------------ entries */

static size_t place_of(
	const struct touches *touches, const struct sheet *sheet, uint64_t hash, uint32_t group)
{
	uint64_t mixed = (hash ^ touches->seed ^ group * UINT64_C(0x9e3779b97f4a7c15)) *
			 UINT64_C(0xff51afd7ed558ccd);
	return (mixed ^ mixed >> 32) & (sheet->index_size - 1);
}

/* Where the entry is, or the free place where it goes. */
static inline size_t find(
	const struct touches *touches, const struct sheet *sheet, uint64_t hash, uint32_t group)
{
	size_t at = place_of(touches, sheet, hash, group);
	for (; sheet->index[at]; at = (at + 1) & (sheet->index_size - 1)) {
		const struct entry *entry = &sheet->entries[sheet->index[at] - 1];
		if (entry->hash == hash && entry->group == group)
			break;
	}
	return at;
}

void touches_fetch(
	const struct touches *touches, const uint32_t *group, const uint64_t *hash, size_t n)
{
	const struct sheet *sheet = &touches->now;
	size_t at[TOUCH_FETCH];
	if (!sheet->index_size)
		return;
	n = n < TOUCH_FETCH ? n : TOUCH_FETCH;
	for (size_t i = 0; i < n; i++) {
		at[i] = place_of(touches, sheet, hash[i], group[i]);
		__builtin_prefetch(&sheet->index[at[i]], 1);
	}
	for (size_t i = 0; i < n; i++) {
		uint32_t entry = sheet->index[at[i]];
		if (entry)
			__builtin_prefetch(&sheet->entries[entry - 1], 1);
	}
}

static void grow_entries(const struct touches *touches, struct sheet *sheet)
{
	sheet->cap = sheet->cap ? sheet->cap * 2 : 1024;
	sheet->entries = reallocarray(sheet->entries, sheet->cap, sizeof(*sheet->entries));
	free(sheet->sorted);
	sheet->sorted = NULL;
	free(sheet->index);
	sheet->index_size = sheet->cap * 2;
	sheet->index = calloc(sheet->index_size, sizeof(*sheet->index));
	must_get(sheet->entries && sheet->index);
	for (size_t i = 0; i < sheet->n; i++)
		sheet->index[find(touches, sheet, sheet->entries[i].hash,
			sheet->entries[i].group)] = (uint32_t)i + 1;
}

/* NULL: its partition has `most`, or all are in use. */
static struct entry *new_entry(
	struct touches *touches, size_t at, uint32_t group, uint64_t hash, uint32_t most)
{
	struct sheet *sheet = &touches->now;
	uint32_t *of = &touches->of[sheet->groups[group].partition];
	if (touches_waiting(touches) >= TOUCH_STREAMS_MAX || *of >= most)
		return NULL;
	++*of;
	sheet->entries[sheet->n] = (struct entry){.hash = hash, .group = group};
	sheet->index[at] = (uint32_t)++sheet->n;
	return &sheet->entries[sheet->n - 1];
}

/* The entry of a stream, with 0 bytes if it is new. */
static inline struct entry *entry_of(
	struct touches *touches, uint32_t group, uint64_t hash, uint32_t most)
{
	struct sheet *sheet = &touches->now;
	if (sheet->n == sheet->cap)
		grow_entries(touches, sheet);
	size_t at = find(touches, sheet, hash, group);
	return sheet->index[at] ? &sheet->entries[sheet->index[at] - 1]
				: new_entry(touches, at, group, hash, most);
}

/* `later`: than what is in it, as far as seconds do not tell. */
static inline void see(
	struct entry *entry, uint64_t bytes, uint32_t seen_s, uint32_t policy, bool later)
{
	if (__builtin_add_overflow(entry->bytes, bytes, &entry->bytes))
		entry->bytes = UINT64_MAX;
	if (seen_s > entry->seen_s || (later && seen_s == entry->seen_s)) {
		entry->seen_s = seen_s;
		entry->policy = policy;
	}
}

bool touches_add(struct touches *touches, uint32_t group, uint32_t policy, uint64_t hash,
	uint64_t bytes, uint32_t seen_s)
{
	struct entry *entry = NULL;
	size_t before = touches->now.n;
	if (group != TOUCH_GROUP_NONE && policy != NO_NAME) {
		bool busy = touches->busy[touches->now.groups[group].partition];
		entry = entry_of(touches, group, hash, busy ? TOUCH_BUSY_MAX : TOUCH_STREAMS_MAX);
	}
	if (!entry) {
		touches->facts.refused++;
		return false;
	}
	see(entry, bytes, seen_s, policy, true);
	touches->facts.added++;
	touches->facts.coalesced += touches->now.n == before;
	return true;
}

/* ------------------------------------------------------------------ sending */

static int by_minute(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	if (x->seen_s / 60 != y->seen_s / 60)
		return x->seen_s < y->seen_s ? -1 : 1;
	return (x->policy > y->policy) - (x->policy < y->policy);
}

/* Mostly all of a group is of one minute and one policy, and nothing has to be moved. */
static void sort_group(struct entry *entries, size_t n)
{
	size_t i = 1;
	while (i < n && by_minute(&entries[i - 1], &entries[i]) <= 0)
		i++;
	if (i < n)
		qsort(entries, n, sizeof(*entries), by_minute);
}

/* By group, then by minute and policy. */
static void sort_entries(struct sheet *sheet)
{
	size_t *end = calloc(sheet->n_groups + 1, sizeof(*end)), at = 0;
	struct entry *sorted = sheet->sorted;
	if (!sorted)
		sorted = reallocarray(NULL, sheet->cap, sizeof(*sorted));
	must_get(sorted && end);
	for (size_t i = 0; i < sheet->n; i++)
		end[sheet->entries[i].group + 1]++;
	for (size_t g = 0; g < sheet->n_groups; g++)
		end[g + 1] += end[g];
	for (size_t i = 0; i < sheet->n; i++)
		sorted[end[sheet->entries[i].group]++] = sheet->entries[i];
	for (size_t g = 0; g < sheet->n_groups; at = end[g++])
		sort_group(sorted + at, end[g] - at);
	sheet->sorted = sheet->entries;
	sheet->entries = sorted;
	free(end);
}

/* The policy's place in the question, or -1 when there is no room for another. */
static int question_policy(
	struct admit_question *question, const struct sheet *sheet, uint32_t policy)
{
	const char *name = sheet->names + policy;
	unsigned n = question->n_policies;
	/* Entries are in order: it is the last one, or new. */
	if (n && question->policy[n - 1].name.text == name)
		return (int)n - 1;
	if (n == ADMIT_POLICIES_MAX)
		return -1;
	question->policy[n] =
		(struct admit_policy){.name = {.text = name, .len = (uint16_t)strlen(name)}};
	question->n_policies++;
	return (int)n;
}

/* Makes one message of the entries from `from` on.  How many it holds. */
static size_t make_question(struct touches *touches, const struct sheet *sheet, size_t from)
{
	const struct entry *first = &sheet->entries[from];
	const struct group *group = &sheet->groups[first->group];
	struct admit_question *question = &touches->question;
	uint32_t seen_s = 0, n = 0;
	question->kind = ADMIT_TOUCH;
	question->generation = group->generation;
	question->tenant.text = sheet->names + group->tenant;
	question->tenant.len = (uint16_t)strlen(question->tenant.text);
	question->n_buckets = question->n_policies = 0;
	question->streams = touches->streams;
	for (size_t i = from; i < sheet->n && n < ADMIT_STREAMS_MAX; i++) {
		const struct entry *entry = &sheet->entries[i];
		if (entry->group != first->group || entry->seen_s / 60 != first->seen_s / 60)
			break;
		int policy = question_policy(question, sheet, entry->policy);
		if (policy < 0)
			break;
		touches->streams[n++] = (struct admit_stream){
			.hash = entry->hash, .bytes = entry->bytes, .policy = (uint16_t)policy};
		seen_s = entry->seen_s > seen_s ? entry->seen_s : seen_s;
	}
	question->n_streams = n;
	question->seen_ms = (int64_t)seen_s * 1000;
	return n;
}

static void keep(struct touches *touches, const struct sheet *sheet, size_t from, size_t n)
{
	const struct group *group = &sheet->groups[sheet->entries[from].group];
	uint32_t number = group_of(touches, &touches->now, sheet->names + group->tenant,
		group->partition, group->generation);
	for (size_t i = from; i < from + n; i++) {
		const struct entry *kept = &sheet->entries[i];
		uint32_t policy = policy_of(&touches->now, sheet->names + kept->policy);
		struct entry *entry = NULL;
		if (number != TOUCH_GROUP_NONE && policy != NO_NAME)
			entry = entry_of(touches, number, kept->hash, TOUCH_STREAMS_MAX);
		if (entry)
			see(entry, kept->bytes, kept->seen_s, policy, false);
		touches->kept += entry != NULL;
		touches->facts.dropped += entry == NULL;
	}
}

static size_t send_some(
	struct touches *touches, const struct sheet *sheet, size_t from, bool served)
{
	const struct group *group = &sheet->groups[sheet->entries[from].group];
	size_t n = make_question(touches, sheet, from);
	bool *busy = &touches->busy[group->partition];
	enum link_result result = LINK_BUSY;
	touches->at += n;
	touches->of[group->partition] -= (uint32_t)n;
	if (!served) {
		touches->facts.dropped += n;
		return n;
	}
	if (!*busy) {
		size_t len = admit_pack(&touches->question, touches->message);
		must(len);
		result = links_tell(
			touches->links, group->partition, group->generation, touches->message, len);
	}
	*busy = result != LINK_OK;
	if (*busy)
		keep(touches, sheet, from, n);
	else
		touches->facts.sent += n;
	return n;
}

static void clear(struct sheet *sheet)
{
	if (sheet->cap > 2 * TOUCH_MANY) { /* a rare day: not kept for ever */
		free_sheet(sheet);
		*sheet = (struct sheet){0};
		return;
	}
	if (sheet->index)
		memset(sheet->index, 0, sheet->index_size * sizeof(*sheet->index));
	if (sheet->group_index)
		memset(sheet->group_index, 0,
			sheet->group_index_size * sizeof(*sheet->group_index));
	sheet->n = sheet->n_groups = sheet->names_len = 0;
	sheet->last_policy = 0;
}

/* What has come so far is to be sent, and what comes from now on is for the next time. */
static void turn_over(struct touches *touches)
{
	struct sheet empty = touches->before;
	touches->before = touches->now;
	touches->now = empty;
	touches->at = touches->kept = 0;
	memset(touches->busy, 0, sizeof(touches->busy));
	sort_entries(&touches->before);
}

bool touches_flush(struct touches *touches, size_t most,
	bool (*served)(uint32_t partition, uint64_t generation, void *arg), void *arg)
{
	const struct sheet *sheet = &touches->before;
	uint32_t group = TOUCH_GROUP_NONE;
	bool alive = false;
	if (!sheet->n && !touches->now.n)
		return false;
	if (!sheet->n)
		turn_over(touches);
	for (size_t sent = 0; touches->at < sheet->n && sent < most;) {
		uint32_t next = sheet->entries[touches->at].group;
		if (next != group)
			alive = served(
				sheet->groups[next].partition, sheet->groups[next].generation, arg);
		group = next;
		sent += send_some(touches, sheet, touches->at, alive);
	}
	if (touches->at < sheet->n)
		return true;
	clear(&touches->before);
	touches->at = 0;
	return false;
}
