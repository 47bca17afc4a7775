/*
 * limits.h - the limits of tenants as a compiled file: flat, sorted, immutable.
 *
 *	limits.yaml --supervisor--> limits_write --rename--> <run_dir>/limits --limits_attach--> readers
 *	                                                     its version is in the table's head
 *
 * A tenant has a limit of active streams (its own or the default one), and may
 * have own limits for some policies.  Streams of such a policy count in that
 * policy's bucket, all others in the tenant's default bucket.
 *
 * LIMIT_NONE is "no limit", which is written as 0 in limits.yaml and in the
 * options.
 */
#ifndef TALLY_SHM_LIMITS_H
#define TALLY_SHM_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/segment.h"

#define LIMITS_NAME    "limits"
#define LIMITS_VERSION 1 /* of the layout */
#define LIMIT_NONE     UINT64_MAX

#define LIMITS_NAME_MAX	   256 /* bytes of a tenant's or policy's name; 1 at least */
#define LIMITS_STREAMS_MAX UINT64_C(1000000000000) /* largest limit that an operator can write */

enum limit_scope {
	LIMIT_INSTANCE, /* share = ceil(limit x owned / all), against the sum over the owned partitions */
	LIMIT_PARTITION /* share = ceil(limit / all), for each partition */
};

/* --- writer: the supervisor ----------------------------------------------------------------- */

struct limits_policy {
	const char *name;
	uint64_t streams; /* LIMIT_NONE or a number >= 1 */
};

struct limits_tenant {
	const char *name;
	uint64_t streams;
	bool has_streams; /* false: the default one */
	bool dry_run;
	const struct limits_policy *policies;
	size_t n_policies;
};

struct limits_source {
	uint64_t version; /* grows with each load */
	uint64_t default_streams;
	bool default_dry_run;
	enum limit_scope scope;
	const struct limits_tenant *tenants; /* in any order; no name twice */
	size_t n_tenants;
};

/* Writes `limits.new` and renames it.  Mode 0440.  ERR_FULL, ERR_IO, ERR_NOMEM. */
int limits_write(int dirfd, const struct limits_source *source);

/* --- reader ---------------------------------------------------------------------------------- */

struct limits {
	struct segment segment;
};

/* Maps it read-only and checks all of it.  ERR_NOT_FOUND, ERR_FORMAT, ERR_CORRUPT. */
int limits_attach(int dirfd, struct limits *limits);
void limits_detach(struct limits *limits);

uint64_t limits_version(const struct limits *limits);
enum limit_scope limits_scope(const struct limits *limits);

/* What holds for a tenant; every tenant has one. */
struct limits_entry {
	uint64_t streams; /* of the default bucket; LIMIT_NONE = no limit */
	bool is_default;  /* the tenant's own entry says nothing of it */
	bool listed;	  /* it has an entry of its own */
	bool dry_run;
	uint32_t first_policy, n_policies; /* private: for the two below */
};
void limits_find(
	const struct limits *limits, const char *tenant, size_t len, struct limits_entry *entry);

/* The own limit of a policy; false: it has none, its streams count in the default bucket. */
bool limits_policy(const struct limits *limits, const struct limits_entry *entry,
	const char *policy, size_t len, uint64_t *streams);

/* Policies with a limit of their own, by name: 0 .. n_policies - 1.  `name` points into the map. */
void limits_policy_at(const struct limits *limits, const struct limits_entry *entry, uint32_t i,
	const char **name, size_t *len, uint64_t *streams);

/* ceil(limit x owned / all); LIMIT_NONE stays; never 0 for a limit and an owned partition. */
uint64_t limits_share(uint64_t limit, uint32_t owned, uint32_t all);

/*
 * How many streams more than their share so many partitions may hold: four standard
 * deviations, where each of `limit` streams is in one of `all` by its hash.  Rounded up.
 */
uint64_t limits_spread(uint64_t limit, uint32_t partitions, uint32_t all);

#endif
