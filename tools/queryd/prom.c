/*
 * prom.c - the Prometheus text format 0.0.4.
 *
 *	# HELP name text		(escaped: backslash, line feed)
 *	# TYPE name gauge
 *	name{label="value"} 1		(escaped: backslash, line feed, double quote)
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "prom.h"

#include <inttypes.h>

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

void prom_sample(FILE *out, const char *name, const char *const *labels, const char *value)
{
	fputs(name, out);
	for (unsigned i = 0; labels != NULL && labels[i] != NULL; i += 2) {
		fprintf(out, "%c%s=\"", i == 0 ? '{' : ',', labels[i]);
		escaped(out, labels[i + 1], 1);
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

void prom_single(FILE *out, const char *name, const char *type, const char *help, uint64_t value)
{
	prom_head(out, name, type, help);
	prom_count(out, name, NULL, value);
}
