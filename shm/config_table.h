/*
 * config_table.h - the option table and what is done with one row.  Inside config*.c only.
 *
 *	config_table.c   the rows
 *	config_value.c   one value: text <-> field, bounds, kind in words
 *	config_rules.c   what several options must fulfil together
 *	config_print.c   rows -> sample file
 *	config_show.c    struct config -> what holds, for people
 *	config_property.c  librdkafka properties: refused, secret
 *	config_map.c     the maps of them
 *	config_secret.c  the files that their values are in
 *	config_files.c   the files that their values name
 *	config_message.c the line for a mistake
 *	config_yaml.c    libyaml, made plain (config_yaml.h)
 *	config.c         file -> rows -> struct config
 *
 * Tests read the table too: they try every row at both of its bounds.
 */
#ifndef TALLY_SHM_CONFIG_TABLE_H
#define TALLY_SHM_CONFIG_TABLE_H

#include "shm/config.h"

#define CONFIG_SECTIONS_MAX 12
#define CONFIG_VALUE_SIZE   160 /* for a value or a kind in words */
#define CONFIG_WHY_SIZE	    320

enum config_type {
	CONFIG_TEXT,	    /* char[]: min..max bytes */
	CONFIG_LISTEN,	    /* char[]: host:port */
	CONFIG_BOOL,	    /* bool; with words: which of the two */
	CONFIG_NUMBER,	    /* uint32_t; with words: which of them */
	CONFIG_DURATION,    /* uint32_t, ms */
	CONFIG_SHIFT,	    /* int64_t, ms, may be negative */
	CONFIG_BYTES,	    /* uint64_t */
	CONFIG_COUNT,	    /* uint64_t */
	CONFIG_PROPERTIES,  /* a map: property of librdkafka -> value */
	CONFIG_SECRET_FILES /* a map: property of librdkafka -> file that has the value */
};

static inline bool config_is_map(enum config_type type)
{
	return type >= CONFIG_PROPERTIES;
}

struct config_option {
	const char *section, *key; /* section "" = top level */
	enum config_type type;
	size_t offset, size; /* of the field in struct config */
	int64_t min, max;    /* of the value; of a text's length */
	int64_t step;	     /* > 1: must be a multiple */
	const char *const *words;
	const char *preset;  /* the default; NULL: required */
	const char *example; /* for the sample file when there is no default, or it is empty */
	const char *(*check)(const char *text); /* NULL, or what is wrong and what to write */
	const char *prose;
};

struct config_section {
	const char *name, *prose;
};

/* All rows; those of a section follow each other, sections in the order of config_sections. */
const struct config_option *config_options(size_t *n);
const struct config_section *config_sections(size_t *n);

/* The row of a key, or its number; NULL and -1 when there is none. */
const struct config_option *config_option_find(const char *section, const char *key);
int config_option_index(const struct config_option *option);
int config_section_index(const char *name);

/* "kafka.topic", "run_dir" */
const char *config_option_name(const struct config_option *option, char buf[CONFIG_VALUE_SIZE]);

/* The nearest known name, as "kafka.topic" in buf; NULL when none is near. */
const char *config_nearest(const char *section, const char *key, char buf[CONFIG_VALUE_SIZE]);

/* Why a librdkafka property must not be given, and what to do instead; NULL: it may. */
const char *config_property_refused(const char *name);

/* What to do about a file that cannot be opened, by errno. */
const char *config_file_action(int err);

/* An absolute path without ".."; else what is wrong and what to write. */
const char *config_path_wrong(const char *text);

/* Sets a field (not a map).  ERR_INVALID with the reason in `why`. */
int config_value_set(const struct config_option *option, const char *text, struct config *config,
	char why[CONFIG_WHY_SIZE]);

/* "a duration from 1s to 30m" */
const char *config_value_kind(const struct config_option *option, char buf[CONFIG_VALUE_SIZE]);

/* A number as it would be written for this option: "45s", "16GiB", "1024". */
const char *config_value_text(
	const struct config_option *option, int64_t value, char buf[CONFIG_VALUE_SIZE]);

/* A numeric field's value. */
int64_t config_value_get(const struct config_option *option, const struct config *config);

/* Where things were written, for messages.  Line 0: not in the file. */
struct config_source {
	const char *name;
	unsigned line[CONFIG_OPTIONS_MAX];
	unsigned section_line[CONFIG_SECTIONS_MAX];
	struct config_error *error;
};

/* Fills source->error; returns ERR_INVALID.  `key` may be NULL. */
int config_fail(struct config_source *source, unsigned line, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* The same for want of memory; returns ERR_NOMEM. */
int config_no_memory(struct config_source *source);

/* Required options and rules over several options. */
int config_check_rules(struct config_source *source, struct config *config);

#endif
