/*
 * config_yaml.c - libyaml's events, one at a time, or one line that says what is wrong.
 *
 * Runs in: supervisor, query process, tests.  Blocks in: nowhere.
 */
#include "shm/config_yaml.h"

#include <stdlib.h>
#include <string.h>

#include "shm/err.h"

int config_yaml_open(struct config_reader *r)
{
	if (r->len >= 3 && memcmp(r->text, "\xef\xbb\xbf", 3) == 0) {
		r->text += 3; /* a byte order mark, which libyaml does not pass over here */
		r->len -= 3;
	}
	if (!yaml_parser_initialize(&r->yaml))
		return config_no_memory(&r->source);
	yaml_parser_set_encoding(&r->yaml, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r->yaml, (const unsigned char *)r->text, r->len);
	memset(&r->event, 0, sizeof(r->event));
	return 0;
}

static void wipe(void *from, const void *to)
{
	if (from)
		explicit_bzero(from, (size_t)((const char *)to - (char *)from));
}

/* A value may be a password. */
static void drop_event(struct config_reader *r)
{
	if (r->event.type == YAML_SCALAR_EVENT)
		explicit_bzero(r->event.data.scalar.value, r->event.data.scalar.length);
	yaml_event_delete(&r->event);
}

void config_yaml_close(struct config_reader *r)
{
	drop_event(r);
	wipe(r->yaml.raw_buffer.start, r->yaml.raw_buffer.end);
	wipe(r->yaml.buffer.start, r->yaml.buffer.end);
	yaml_parser_delete(&r->yaml);
}

unsigned config_yaml_line(const struct config_reader *r)
{
	return (unsigned)r->event.start_mark.line + 1;
}

/* The indentation of this line (1-based) has a tab. */
static bool line_has_tab(const struct config_reader *r, size_t line)
{
	const char *s = r->text, *end = r->text + r->len;

	while (--line > 0 && (s = memchr(s, '\n', (size_t)(end - s))))
		s++;
	for (; s && s < end && (*s == ' ' || *s == '\t'); s++) {
		if (*s == '\t')
			return true;
	}
	return false;
}

static int fail_syntax(struct config_reader *r)
{
	const yaml_parser_t *yaml = &r->yaml;
	unsigned line = (unsigned)yaml->problem_mark.line + 1;

	if (yaml->error == YAML_MEMORY_ERROR)
		return config_no_memory(&r->source);
	if (yaml->error == YAML_READER_ERROR) {
		line = 1;
		for (size_t i = 0; i < yaml->problem_offset && i < r->len; i++)
			line += r->text[i] == '\n';
		return config_fail(&r->source, line, NULL,
			"not valid YAML: %s (byte %zu); the file must be UTF-8 text", yaml->problem,
			yaml->problem_offset);
	}
	if (line_has_tab(r, line))
		return config_fail(
			&r->source, line, NULL, "not valid YAML: a tab; indent with blanks only");
	return config_fail(&r->source, line, NULL, "not valid YAML: %s%s%s",
		yaml->problem ? yaml->problem : "syntax error", yaml->context ? " " : "",
		yaml->context ? yaml->context : "");
}

static int refuse_cleverness(struct config_reader *r)
{
	const yaml_event_t *e = &r->event;
	bool anchor = false, tag = false;

	if (e->type == YAML_SCALAR_EVENT) {
		anchor = e->data.scalar.anchor;
		tag = e->data.scalar.tag;
	} else if (e->type == YAML_MAPPING_START_EVENT) {
		anchor = e->data.mapping_start.anchor;
		tag = e->data.mapping_start.tag;
	} else if (e->type == YAML_SEQUENCE_START_EVENT) {
		anchor = e->data.sequence_start.anchor;
		tag = e->data.sequence_start.tag;
	}
	if (anchor || e->type == YAML_ALIAS_EVENT)
		return config_fail(&r->source, config_yaml_line(r), NULL,
			"anchors and aliases (& and *) are not used here; write the value out, in "
			"quotes if it begins with one of these");
	if (tag)
		return config_fail(&r->source, config_yaml_line(r), NULL,
			"tags (!) are not used here; leave it out, or put the value into quotes");
	return 0;
}

int config_yaml_next(struct config_reader *r)
{
	drop_event(r);
	if (!yaml_parser_parse(&r->yaml, &r->event))
		return fail_syntax(r);
	return refuse_cleverness(r);
}

bool config_yaml_null(const struct config_reader *r)
{
	static const char *const words[] = {"", "~", "null", "Null", "NULL"};
	const yaml_event_t *e = &r->event;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (e->type == YAML_SCALAR_EVENT &&
			e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
			strcmp((const char *)e->data.scalar.value, words[i]) == 0)
			return true;
	}
	return false;
}

int config_yaml_scalar(
	struct config_reader *r, const char *name, const char *kind, const char **text)
{
	const yaml_event_t *e = &r->event;

	if (e->type != YAML_SCALAR_EVENT)
		return config_fail(&r->source, config_yaml_line(r), name,
			"must be one value, not a %s; write %s",
			e->type == YAML_MAPPING_START_EVENT ? "map" : "list", kind);
	if (config_yaml_null(r))
		return config_fail(&r->source, config_yaml_line(r), name,
			"has no value; write %s, or take the line out", kind);
	*text = (const char *)e->data.scalar.value;
	if (strlen(*text) != e->data.scalar.length)
		return config_fail(&r->source, config_yaml_line(r), name,
			"contains a NUL character; take it out");
	return 0;
}

int config_yaml_key(struct config_reader *r, char **key)
{
	const yaml_event_t *e = &r->event;
	const char *text;
	int err = config_yaml_next(r);

	*key = NULL;
	if (err || e->type == YAML_MAPPING_END_EVENT)
		return err;
	err = config_yaml_scalar(r, "a key", "the name of an option", &text);
	if (err)
		return err;
	*key = strdup(text);
	return *key ? 0 : config_no_memory(&r->source);
}

int config_yaml_end(struct config_reader *r)
{
	int err = config_yaml_next(r); /* end of document */

	if (!err)
		err = config_yaml_next(r);
	if (!err && r->event.type != YAML_STREAM_END_EVENT)
		err = config_fail(&r->source, config_yaml_line(r), NULL,
			"a second YAML document (---) begins here; there must be only one");
	return err;
}
