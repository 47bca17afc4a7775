/*
 * refusals.h - how many streams of which tenant were refused, or would have been (dry run).
 *
 * For REFUSALS_TENANTS tenants; what comes after them is counted together.  They
 * only rise.  Thread safe.  The rows may lie in a mapped file (counts.h), where other
 * processes read them meanwhile: a row is whole before `n` says that it is there.
 */
#ifndef TALLY_QUERYD_REFUSALS_H
#define TALLY_QUERYD_REFUSALS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REFUSALS_TENANTS 1024

struct refusals;

struct refusals_of {
	char tenant[257]; /* "" = all others */
	uint64_t refused;
	uint64_t would; /* of a dry run: were let in beyond the limit */
};

struct refusals_row {
	char tenant[264]; /* NUL-padded */
	_Atomic uint64_t refused, would;
};
_Static_assert(sizeof(struct refusals_row) == 280, "file format");

struct refusals_rows {
	_Atomic uint64_t n; /* rows that are there; 0 and 1: the first one, "all others" */
	uint64_t reserved[7];
	struct refusals_row row[1 + REFUSALS_TENANTS];
	uint64_t reserved_too[5];
};
_Static_assert(sizeof(struct refusals_rows) == 287104, "file format");

struct refusals *refusals_new(void);
void refusals_free(struct refusals **refusals);

/* Goes on with these, which are kept.  false: they make no sense, nothing is changed. */
bool refusals_keep_in(struct refusals *refusals, struct refusals_rows *rows);

void refusals_add(struct refusals *refusals, const char *tenant, uint64_t refused, uint64_t would);

/* Those that are not all zero; at most cap.  How many there are. */
size_t refusals_list(struct refusals *refusals, struct refusals_of *out, size_t cap);

/* The same of rows that somebody else may write, or may have spoilt. */
size_t refusals_list_rows(const struct refusals_rows *rows, struct refusals_of *out, size_t cap);

#endif
