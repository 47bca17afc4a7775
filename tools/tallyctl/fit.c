/*
 * fit.c - text in so many cells of a terminal: names, and bars.
 *
 *	any bytes --escaped as ctl_name does--> cells --cut, padded--> exactly so wide
 *
 * A name must not drive the terminal, nor push what stands beside it out of its
 * column: what has no width, or one that terminals do not agree on, is escaped.
 *
 * Cells are those of wcwidth() and so of the locale; without UTF-8 all but ASCII is escaped.
 */
#include <langinfo.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "ctl.h"

#include "shm/log.h"

#define MARKS_MAX 2 /* on one character; more run into the lines above and below */

/* One character as it is shown. */
struct glyph {
	unsigned bytes; /* of the text */
	unsigned cells;
	bool escaped; /* shown as \xNN for each of its bytes */
};

bool ctl_utf8(void)
{
	return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

static bool selects_variation(wchar_t code)
{
	return (code >= 0xfe00 && code <= 0xfe0f) || (code >= 0xe0100 && code <= 0xe01ef);
}

/* `marks`: how many more may be put on the character before; 0 at the start. */
static struct glyph glyph_at(const char *at, unsigned *marks)
{
	struct glyph glyph = {.bytes = log_printable(at)};
	mbstate_t start = {0};
	wchar_t code = 0;
	int cells = -1;
	if (glyph.bytes && mbrtowc(&code, at, glyph.bytes, &start) == glyph.bytes &&
		!selects_variation(code))
		cells = wcwidth(code);
	if (cells > 0)
		*marks = MARKS_MAX;
	if (cells == 0 && *marks) {
		--*marks;
	} else if (cells <= 0) {
		glyph.bytes = glyph.bytes ? glyph.bytes : 1;
		glyph.escaped = true;
		cells = 4 * (int)glyph.bytes;
		*marks = 0;
	}
	glyph.cells = (unsigned)cells;
	return glyph;
}

unsigned ctl_width(const char *text)
{
	unsigned cells = 0, marks = 0;
	while (*text) {
		struct glyph glyph = glyph_at(text, &marks);
		cells += glyph.cells;
		text += glyph.bytes;
	}
	return cells;
}

/* As much of `text` as fits into `cells`; gives how many it took. */
static unsigned put(char *to, size_t size, const char *text, unsigned cells)
{
	unsigned used = 0, marks = 0;
	size_t len = 0;
	while (*text) {
		struct glyph glyph = glyph_at(text, &marks);
		size_t need = glyph.escaped ? glyph.cells : glyph.bytes;
		if (used + glyph.cells > cells || len + need >= size)
			break;
		if (!glyph.escaped)
			memcpy(to + len, text, glyph.bytes);
		for (unsigned i = 0; glyph.escaped && i < glyph.bytes; i++)
			snprintf(to + len + 4 * (size_t)i, 5, "\\x%02x", (unsigned char)text[i]);
		len += need;
		used += glyph.cells;
		text += glyph.bytes;
	}
	to[len] = 0;
	return used;
}

static size_t pad(char *to, size_t size, size_t len, unsigned cells)
{
	for (; cells && len + 1 < size; cells--)
		to[len++] = ' ';
	to[len] = 0;
	return len;
}

char *ctl_fit(char *to, size_t size, const char *text, unsigned cells, enum ctl_side side)
{
	unsigned width = ctl_width(text);
	if (width > cells) {
		unsigned used = put(to, size, text, cells ? cells - 1 : 0);
		size_t len = strlen(to);
		if (cells && len + 4 < size)
			len += (size_t)snprintf(to + len, size - len, "%s", ctl_utf8() ? "…" : "~");
		if (side != CTL_ASIS && cells)
			pad(to, size, len, cells - used - 1);
		return to;
	}
	size_t front = side == CTL_RIGHT ? pad(to, size, 0, cells - width) : 0;
	put(to + front, size - front, text, cells);
	if (side == CTL_LEFT)
		pad(to, size, strlen(to), cells - width);
	return to;
}

/* Half a cell is the finest step that every console has. */
char *ctl_bar(char *to, size_t size, unsigned cells, double share)
{
	bool utf8 = ctl_utf8();
	const char *full = utf8 ? "█" : "#", *half = utf8 ? "▌" : "#", *rest = utf8 ? "░" : ".";
	unsigned steps = share >= 1 ? 2 * cells : share > 0 ? (unsigned)(share * 2 * cells) : 0;
	size_t len = 0;
	if (!steps && share > 0)
		steps = 1; /* something is not nothing, */
	if (steps >= 2 * cells && share < 1)
		steps = 2 * cells - 1; /* and nearly all is not all */
	if (!utf8)
		steps = share < 1 && steps == 2 * cells - 1 ? steps - 1 : (steps + 1) & ~1u;
	*to = 0;
	for (unsigned i = 0; i < cells && len + 4 < size; i++)
		len += (size_t)snprintf(to + len, size - len, "%s",
			steps >= 2 * (i + 1) ? full
			: steps == 2 * i + 1 ? half
					     : rest);
	return to;
}

/* Bytes of a sequence of ctl_sgr, which has no width; 0: none starts here. */
static size_t sgr_at(const char *at)
{
	if (at[0] != '\033' || at[1] != '[')
		return 0;
	size_t digits = strspn(at + 2, "0123456789;");
	return at[2 + digits] == 'm' ? digits + 3 : 0;
}

void ctl_plain(char *text)
{
	char *to = text;
	for (size_t sgr; *text; text += sgr ? sgr : 1) {
		sgr = sgr_at(text);
		if (!sgr)
			*to++ = *text;
	}
	*to = 0;
}

size_t ctl_wrap(const char *line, unsigned cells)
{
	unsigned used = 0, marks = 0;
	size_t at = 0, blank = 0;
	while (line[at] && line[at] != '\n') {
		size_t sgr = sgr_at(line + at);
		if (sgr) {
			at += sgr;
			continue;
		}
		struct glyph glyph = glyph_at(line + at, &marks);
		if (used + glyph.cells > cells)
			return blank && line[at] != ' ' ? blank : at ? at : glyph.bytes;
		if (line[at] == ' ')
			blank = at;
		used += glyph.cells;
		at += glyph.bytes;
	}
	return at;
}
