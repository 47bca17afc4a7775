/*
 * config_yaml.h - YAML made plain: libyaml's events, without what an option file does not need.
 *
 * Anchors, aliases, tags and nulls are refused, so every value has one line
 * and one meaning, and no file can grow or loop.  Inside config*.c, and for
 * limits.yaml (supervisor/limits_yaml.c).
 */
#ifndef TALLY_SHM_CONFIG_YAML_H
#define TALLY_SHM_CONFIG_YAML_H

#include <yaml.h>

#include "shm/config_table.h"

struct config_reader {
	struct config_source source;
	struct config *config;
	const char *text; /* borrowed */
	size_t len;
	yaml_parser_t yaml;
	yaml_event_t event; /* the one in hand */
};

/* Reads r->text from its beginning.  Ended by config_yaml_close when it returned 0. */
int config_yaml_open(struct config_reader *r);
void config_yaml_close(struct config_reader *r);

/* Takes the next event in hand.  Any error has filled r->source.error. */
int config_yaml_next(struct config_reader *r);

/* After the document's only value: nothing else may follow. */
int config_yaml_end(struct config_reader *r);

/* Line of the event in hand, from 1. */
unsigned config_yaml_line(const struct config_reader *r);

/* The event in hand is a scalar that says "nothing". */
bool config_yaml_null(const struct config_reader *r);

/*
 * The event in hand must be one value; `name` and `kind` say in the error what
 * for.  *text is borrowed until the next event.
 */
int config_yaml_scalar(
	struct config_reader *r, const char *name, const char *kind, const char **text);

/*
 * The next key of a map, as a copy to be freed; *key = NULL at its end.  The
 * event in hand is then the key, with its line.
 */
int config_yaml_key(struct config_reader *r, char **key);

/* The value in hand is the map of this option (config_map.c). */
int config_map_read(struct config_reader *r, const struct config_option *option);

#endif
