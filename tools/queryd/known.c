/*
 * known.c - streams that were found active: see known.h.
 *
 *	streams   lines of 4 entries, one cache line each: hash, group, until
 *	groups    tenant and generation --> number; names in an arena
 *
 * Groups that are of no use any more are not looked for: when there is no room for another one,
 * all is forgotten, and asked for again.
 *
 * Runs in: queryd, asker thread.  Blocks in: nowhere.
 */
#include "known.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "shm/check.h"
#include "shm/host.h"

#define WAYS	  4
#define LINES	  (KNOWN_STREAMS / WAYS)
#define NAMES_MAX (8u << 20)

struct stream {
	uint64_t hash;
	uint32_t group; /* 0: none */
	uint32_t until;
};

struct line {
	_Alignas(64) struct stream way[WAYS];
};
_Static_assert(sizeof(struct line) == 64 && WAYS == 4, "one wait for memory");

struct group {
	uint64_t generation; /* 0: none */
	uint64_t name_hash;
	uint32_t name;
	uint32_t number;
};

struct known {
	uint64_t seed;
	void *memory;
	struct line *lines;   /* in it, aligned */
	struct group *groups; /* open addressing, at most half full */
	uint32_t n_groups;
	uint32_t last; /* number that was given: none is given twice */
	char *names;
	size_t names_len, names_cap;
};

struct known *known_new(void)
{
	struct known *known = calloc(1, sizeof(*known));

	must_get(known);
	known->seed = host_random();
	/* So much is zero pages of the kernel's: what is not in use is not there. */
	known->memory = calloc(LINES + 1, sizeof(struct line));
	known->groups = calloc(2 * KNOWN_GROUPS, sizeof(*known->groups));
	must_get(known->memory && known->groups);
	known->lines = (struct line *)(((uintptr_t)known->memory + 63) & ~(uintptr_t)63);
	return known;
}

void known_free(struct known **known)
{
	if (!*known)
		return;
	free((*known)->memory);
	free((*known)->groups);
	free((*known)->names);
	free(*known);
	*known = NULL;
}

/* --- groups ---------------------------------------------------------------------------------- */

static void forget_all(struct known *known)
{
	if (known->last == UINT32_MAX) /* 4 billion ago: nobody has one of those any more */
		known->last = 0;
	memset(known->lines, 0, LINES * sizeof(struct line));
	memset(known->groups, 0, 2 * KNOWN_GROUPS * sizeof(*known->groups));
	known->n_groups = 0;
	known->names_len = 0;
}

/* Where the group is, or the free place where it goes. */
static uint32_t find_group(
	const struct known *known, const char *tenant, uint64_t name_hash, uint64_t generation)
{
	uint64_t mixed = name_hash ^ generation * UINT64_C(0x9e3779b97f4a7c15);
	uint32_t at = (uint32_t)(mixed ^ mixed >> 32) % (2 * KNOWN_GROUPS);

	for (; known->groups[at].generation; at = (at + 1) % (2 * KNOWN_GROUPS)) {
		const struct group *group = &known->groups[at];

		if (group->generation == generation && group->name_hash == name_hash &&
			strcmp(known->names + group->name, tenant) == 0)
			break;
	}
	return at;
}

static void add_group(struct known *known, uint32_t at, const char *tenant, uint64_t name_hash,
	uint64_t generation)
{
	size_t len = strlen(tenant) + 1;

	if (known->names_len + len > known->names_cap) {
		known->names_cap = 2 * (known->names_len + len) + 4096;
		known->names = realloc(known->names, known->names_cap);
		must_get(known->names);
	}
	memcpy(known->names + known->names_len, tenant, len);
	known->groups[at] = (struct group){.generation = generation,
		.name_hash = name_hash,
		.name = (uint32_t)known->names_len,
		.number = ++known->last};
	known->names_len += len;
	known->n_groups++;
}

uint32_t known_group(struct known *known, const char *tenant, uint64_t generation)
{
	size_t len = strlen(tenant);
	uint64_t name_hash = XXH3_64bits_withSeed(tenant, len, known->seed);
	uint32_t at = find_group(known, tenant, name_hash, generation);

	if (known->groups[at].generation)
		return known->groups[at].number;
	if (known->n_groups == KNOWN_GROUPS || known->names_len + len >= NAMES_MAX ||
		known->last == UINT32_MAX) {
		forget_all(known);
		at = find_group(known, tenant, name_hash, generation);
	}
	add_group(known, at, tenant, name_hash, generation);
	return known->last;
}

/* --- streams --------------------------------------------------------------------------------- */

static struct line *line_of(const struct known *known, uint32_t group, uint64_t hash)
{
	uint64_t mixed = (hash ^ known->seed ^ group * UINT64_C(0x9e3779b97f4a7c15)) *
			 UINT64_C(0xff51afd7ed558ccd);

	return &known->lines[(mixed ^ mixed >> 32) % LINES];
}

void known_fetch(const struct known *known, uint32_t group, uint64_t hash)
{
	__builtin_prefetch(line_of(known, group, hash));
}

bool known_has(const struct known *known, uint32_t group, uint64_t hash, uint32_t now)
{
	const struct line *line = line_of(known, group, hash);

	for (unsigned i = 0; i < WAYS; i++)
		if (line->way[i].hash == hash && line->way[i].group == group)
			return now < line->way[i].until;
	return false;
}

/* Its own place, or a free one, or that of the one which has the least time left. */
void known_note(struct known *known, uint32_t group, uint64_t hash, uint32_t until)
{
	struct line *line = line_of(known, group, hash);
	struct stream *place = &line->way[hash >> 62];

	for (unsigned i = 0; i < WAYS; i++) {
		struct stream *stream = &line->way[i];

		if (stream->hash == hash && stream->group == group) {
			place = stream;
			break;
		}
		if (stream->until < place->until)
			place = stream;
	}
	*place = (struct stream){.hash = hash, .group = group, .until = until};
}
