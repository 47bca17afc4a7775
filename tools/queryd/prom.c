/*
 * prom.c - the Prometheus text format 0.0.4.
 *
 *	# HELP name text		(escaped: backslash, line feed)
 *	# TYPE name gauge
 *	name{label="value"} 1		(escaped: backslash, line feed, double quote)
 *
 * Strangers choose names of tenants.  The format has no escape for what moves a
 * terminal's cursor (but the line feed), and Prometheus refuses the whole answer for one byte that is no
 * UTF-8; so a value that has any of these has it as \xNN, and its backslashes too.  One
 * that has "\x" in it is written so as well: then no two values are written alike.
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "prom.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "shm/record.h"

static void escaped(FILE *out, const char *text, int quotes)
{
	for (; *text != '\0'; text++) {
		if (*text == '\n')
			fputs("\\n", out);
		else if (*text == '\\')
			fputs("\\\\", out);
		else if (*text == '"' && quotes)
			fputs("\\\"", out);
		else
			putc_unlocked(*text, out);
	}
}

void prom_head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s ", name);
	escaped(out, help, 0);
	fprintf(out, "\n# TYPE %s %s\n", name, type);
}

/* C0 but the line feed, DEL and, of UTF-8 text, C1: U+0080 to U+009F. */
static bool is_control(const unsigned char *at)
{
	return (*at < 0x20 && *at != '\n') || *at == 0x7f ||
	       (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0);
}

static bool is_plain(const char *value)
{
	if (!record_text_ok(value, strlen(value)) || strstr(value, "\\x") != NULL)
		return false;
	for (const char *at = value; *at != '\0'; at++)
		if (is_control((const unsigned char *)at))
			return false;
	return true;
}

/* In hexadecimal: all that is not plain, and of odd bytes all that are not ASCII. */
static void put_value(FILE *out, const char *value)
{
	bool text_ok = record_text_ok(value, strlen(value));
	unsigned rest = 0; /* of a control character of two bytes */

	if (is_plain(value)) {
		escaped(out, value, 1);
		return;
	}
	for (const unsigned char *at = (const unsigned char *)value; *at != '\0'; at++) {
		if (rest == 0 && is_control(at))
			rest = *at == 0xc2 ? 2 : 1;
		if (rest > 0 || *at == '\\' || (*at >= 0x80 && !text_ok))
			fprintf(out, "\\\\x%02x", *at);
		else if (*at == '"' || *at == '\n')
			fputs(*at == '"' ? "\\\"" : "\\n", out);
		else
			putc_unlocked(*at, out);
		rest -= rest > 0;
	}
}

void prom_sample(FILE *out, const char *name, const char *const *labels, const char *value)
{
	fputs(name, out);
	for (unsigned i = 0; labels != NULL && labels[i] != NULL; i += 2) {
		fprintf(out, "%c%s=\"", i == 0 ? '{' : ',', labels[i]);
		put_value(out, labels[i + 1]);
		putc_unlocked('"', out);
	}
	fprintf(out, "%s %s\n", labels != NULL && labels[0] != NULL ? "}" : "", value);
}

void prom_count(FILE *out, const char *name, const char *const *labels, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	prom_sample(out, name, labels, text);
}
