/*
 * reload.c - SIGHUP: what is read again while all goes on.
 *
 *	tally.yaml -> log_level, clock_offset, section limits; kafka.secret_files
 *	limits.yaml -> <run_dir>/limits		(limits_load.c)
 *	SIGHUP -> query processes		their certificates
 *
 * Everything else in tally.yaml needs a restart: reload.needs_restart names what differs.
 *
 * Runs in: supervisor.  Blocks in: reading tally.yaml and the secret files.
 */
#include "supervisor/reload.h"

#include <inttypes.h>
#include <string.h>

#include "shm/config.h"
#include "shm/log.h"
#include "supervisor/fleet_retry.h"
#include "supervisor/settings.h"

/* What limits_load and workers that start later go by. */
static void take(struct config *config, const struct config *fresh)
{
	config->log_level = fresh->log_level;
	config->clock_offset_ms = fresh->clock_offset_ms;
	memcpy(config->lines, fresh->lines, sizeof config->lines);
	memcpy(config->limits_file, fresh->limits_file, sizeof config->limits_file);
	config->default_streams = fresh->default_streams;
	config->limit_scope = fresh->limit_scope;
	config->limits_dry_run = fresh->limits_dry_run;
	config->limits_ignore_unknown = fresh->limits_ignore_unknown;
}

/* Options that are read at start only: whoever changed one waits for it otherwise. */
static void warn_needs_restart(const struct config *config, struct config *fresh)
{
	char names[400];
	if (!fresh->instance[0]) /* that is the host's name, since the start */
		memcpy(fresh->instance, config->instance, sizeof fresh->instance);
	if (config_differences(config, fresh, names, sizeof names))
		log_warn("reload.needs_restart", "options=\"%s\"", names);
}

static void renew_secrets(const struct reload *what)
{
	setup_renew_secrets(what->config_path, what->setup);
	if (!what->setup->config.n_secret_files)
		return;
	group_renew_credentials(what->group);
	fleet_retry(what->fleet);
}

bool reload(const struct reload *what)
{
	static struct config fresh, before; /* large */
	struct config *config = &what->setup->config;
	struct config_error error;
	if (config_load(what->config_path, &fresh, &error)) {
		char text[600];
		log_error("reload.refused", "error=%s", log_quote(text, sizeof text, error.line));
		return false;
	}
	log_set_level((enum log_level)fresh.log_level);
	before = *config; /* what it points to is not touched by take */
	take(config, &fresh);
	atomic_store(&table_head_mut(what->table)->log_level, fresh.log_level);
	atomic_store(&table_head_mut(what->table)->clock_offset_ms, fresh.clock_offset_ms);
	log_info("reload.done", "log_level=%u clock_offset_ms=%" PRId64, fresh.log_level,
		fresh.clock_offset_ms);
	settings_log_changes(&before, config);
	warn_needs_restart(config, &fresh);
	settings_publish(what->dirfd, what->config_path, config, &fresh);
	config_free(&fresh);
	renew_secrets(what);
	limits_load_now(what->limits);
	if (what->query)
		query_reload(what->query);
	return true;
}
