/*
 * refusals.h - how many streams of which tenant were refused, or would have been (dry run).
 *
 * For REFUSALS_TENANTS tenants; what comes after them is counted together.  They
 * only rise.  Thread safe.
 */
#ifndef TALLY_QUERYD_REFUSALS_H
#define TALLY_QUERYD_REFUSALS_H

#include <stddef.h>
#include <stdint.h>

#define REFUSALS_TENANTS 1024

struct refusals;

struct refusals_of {
	char tenant[257]; /* "" = all others */
	uint64_t refused;
	uint64_t would; /* of a dry run: were let in beyond the limit */
};

struct refusals *refusals_new(void);
void refusals_free(struct refusals **refusals);

void refusals_add(struct refusals *refusals, const char *tenant, uint64_t refused, uint64_t would);

/* Those that are not all zero; at most cap.  How many there are. */
size_t refusals_list(struct refusals *refusals, struct refusals_of *out, size_t cap);

#endif
