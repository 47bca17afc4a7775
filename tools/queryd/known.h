/*
 * known.h - streams that were found active, and until when they are whatever happens.
 *
 *	known_group: tenant, generation --> known_fetch, known_has --> known_note
 *
 * A stream's last-seen time never falls within a generation, and only what has expired is deleted.
 * So a stream that was seen in minute m is active until m + window as long as that generation is
 * the one that is served; who is asked about it again need not look it up again.  That is exact.
 * Whether the generation is still served is for the asker to look at, before and after.
 *
 * A bounded memory of what was asked about last: nothing is missing from it but time.
 *
 * One thread.
 */
#ifndef TALLY_QUERYD_KNOWN_H
#define TALLY_QUERYD_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KNOWN_STREAMS (UINT32_C(1) << 20) /* 16 MiB when all of it is in use */
#define KNOWN_GROUPS  (UINT32_C(1) << 16)

struct known;

struct known *known_new(void);
void known_free(struct known **known);

/*
 * The streams of a tenant in one generation.  Never 0.  Should it be forgotten, nothing is known of
 * it any more; its number is never another one's.
 */
uint32_t known_group(struct known *known, const char *tenant, uint64_t generation);

/* Asks memory for what known_has will need in a moment. */
void known_fetch(const struct known *known, uint32_t group, uint64_t hash);

/* Active in minute `now`, and in the next one. */
bool known_has(const struct known *known, uint32_t group, uint64_t hash, uint32_t now);

/* It is active up to and including that minute. */
void known_note(struct known *known, uint32_t group, uint64_t hash, uint32_t until);

#endif
