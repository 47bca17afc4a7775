/*
 * limits_rows.h - what has been read of limits.yaml so far; inside limits_*.c.
 *
 *	limits_yaml.c --limits_rows_tenant, _policy--> rows, names, lines
 *	                       '--> limits_rows_unique --> limits_rows_give --> struct limits_yaml
 *
 * What returns int gives 0, or ERR_* with one line in rows->r.source.error.
 */
#ifndef TALLY_SUPERVISOR_LIMITS_ROWS_H
#define TALLY_SUPERVISOR_LIMITS_ROWS_H

#include <stdint.h>

#include "shm/config_yaml.h"
#include "supervisor/limits_yaml.h"

#define LIMITS_OVERRIDES_KEY "overrides"
#define LIMITS_STREAMS_KEY   "max_global_streams_per_user"
#define LIMITS_DRY_RUN_KEY   "dry_run"
#define LIMITS_POLICIES_KEY  "policy_override_limits"

#define LIMITS_PLACE_SIZE 240

/* Grows; its elements move when it does. */
struct limits_array {
	void *at;
	size_t n, room;
};

struct limits_rows {
	struct config_reader r;
	const struct limits_defaults *defaults; /* borrowed */
	struct limits_array tenants, policies;	/* struct limits_tenant, struct limits_policy */
	struct limits_array tenant_marks, policy_marks; /* of each: its name, and its line */
	struct limits_array names;			/* char, NUL-terminated */
	const char *tenant, *policy; /* where we are, for messages; NULL: not in one; borrowed */
	uint64_t policy_streams;     /* of the policy that is being read; 0: none yet */
};

/* "overrides.tenant-a.policy_override_limits.finance.KEY"; `key` may be NULL.  Returns `place`. */
const char *limits_rows_place(
	const struct limits_rows *rows, const char *key, char place[LIMITS_PLACE_SIZE]);

/* Says what is wrong in one line; its value is the error. */
#define LIMITS_FAIL(rows, line, key, fmt, ...)                                                     \
	config_fail(&(rows)->r.source, line, NULL, "%s: " fmt,                                     \
		limits_rows_place(rows, key, (char[LIMITS_PLACE_SIZE]){0}), __VA_ARGS__)

/* Room for `n` more of `size` bytes each; NULL: no memory.  Valid until the next one. */
void *limits_array_grow(struct limits_array *array, size_t n, size_t size);

/* One more tenant, which rows->tenant names, with the defaults; its policies come next. */
int limits_rows_tenant(struct limits_rows *rows, unsigned line);

/* The last one; valid until the next one. */
struct limits_tenant *limits_rows_last(struct limits_rows *rows);

/* One more policy of the last tenant, rows->policy, with rows->policy_streams. */
int limits_rows_policy(struct limits_rows *rows, unsigned line);

/* No tenant is there twice, and no policy of a tenant. */
int limits_rows_unique(struct limits_rows *rows);

/* All that was gathered becomes *out's. */
void limits_rows_give(struct limits_rows *rows, struct limits_yaml *out);

/* Ends them: also what was not given. */
void limits_rows_free(struct limits_rows *rows);

#endif
