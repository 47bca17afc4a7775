/*
 * limits_yaml.h - limits.yaml: the limits of tenants as an operator writes them.
 *
 *	overrides:
 *	  tenant-a:
 *	    max_global_streams_per_user: 10000	# 0: no limit
 *	    dry_run: true
 *	    policy_override_limits:
 *	      finance:
 *	        max_global_streams_per_user: 2000
 *
 * The shape is that of Loki's runtime overrides; dry_run is ours.  A mistake is
 * one line: "limits.yaml:12: overrides.tenant-a.max_global_streams_per_user:
 * ...; what to do".
 */
#ifndef TALLY_SUPERVISOR_LIMITS_YAML_H
#define TALLY_SUPERVISOR_LIMITS_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/config.h"
#include "shm/limits.h"

#define LIMITS_FILE_MAX	    (64u << 20) /* bytes */
#define LIMITS_TENANTS_MAX  1000000
#define LIMITS_POLICIES_MAX 1000000 /* of all tenants */

/* From tally.yaml, section limits. */
struct limits_defaults {
	uint64_t streams; /* LIMIT_NONE or >= 1 */
	bool dry_run, ignore_unknown;
	enum limit_scope scope;
};
struct limits_defaults limits_defaults_of(const struct config *config);

struct limits_yaml {
	struct limits_source source; /* points into what follows; version 0 */
	struct limits_tenant *tenants;
	struct limits_policy *policies;
	char *names;
};

/* The defaults alone: no file. */
void limits_yaml_none(const struct limits_defaults *defaults, struct limits_yaml *out);

/* A file: ERR_* with one line in *error, and nothing in *out to be freed. */
int limits_yaml_load(const char *path, const struct limits_defaults *defaults,
	struct limits_yaml *out, struct config_error *error);

/* The same from memory; `name` stands for the file. */
int limits_yaml_parse(const char *name, const char *text, size_t len,
	const struct limits_defaults *defaults, struct limits_yaml *out,
	struct config_error *error);

void limits_yaml_free(struct limits_yaml *yaml);

#endif
