/*
 * posted.c - the body of a question: a tenant and its streams, as JSON.
 *
 *	bytes --reader--> { key : value } --two tables of keys--> tenant, streams
 *
 * The first thing that is wrong is kept, and everything after it does nothing:
 * so the grammar below reads straight on.
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "posted.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "request.h"

#include "shm/record.h"

#define NAME_SHOWN 60 /* bytes of a key that is shown */

struct reader {
	char *start, *at, *end;
	int err;
	char *why;
	long stream; /* being read; -1 = none */
};

/* --- what is wrong ---------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void refuse(struct reader *r, const char *fmt, ...)
{
	va_list args;
	int len;

	if (r->err != 0)
		return;
	r->err = TALLY_EINVALID;
	va_start(args, fmt);
	len = vsnprintf(r->why, POSTED_WHY_SIZE, fmt, args);
	va_end(args);
	if (len < 0 || len >= POSTED_WHY_SIZE)
		return;
	if (r->stream >= 0)
		snprintf(r->why + len, POSTED_WHY_SIZE - (size_t)len, " (stream %ld, byte %td)",
			r->stream, r->at - r->start);
	else
		snprintf(r->why + len, POSTED_WHY_SIZE - (size_t)len, " (byte %td)",
			r->at - r->start);
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* The next byte that is no blank; 0 at the end, and after an error. */
static char peek(struct reader *r)
{
	while (r->at < r->end &&
		(*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
		r->at++;
	return r->err != 0 || r->at == r->end ? '\0' : *r->at;
}

static void expect(struct reader *r, char c, const char *what)
{
	if (peek(r) != c)
		refuse(r, "there should be %s", what);
	else
		r->at++;
}

static unsigned hex4(struct reader *r)
{
	unsigned value = 0;

	for (int i = 0; i < 4; i++, r->at++) {
		char c = r->at < r->end ? *r->at : '\0';

		if (c >= '0' && c <= '9')
			value = value << 4 | (unsigned)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			value = value << 4 | (unsigned)((c | 0x20) - 'a' + 10);
		else {
			refuse(r, "\\u takes four hexadecimal digits");
			return 0;
		}
	}
	return value;
}

static char *put_utf8(char *to, unsigned c)
{
	if (c < 0x80) {
		*to++ = (char)c;
		return to;
	}
	if (c < 0x800)
		*to++ = (char)(0xc0 | c >> 6);
	else {
		if (c < 0x10000)
			*to++ = (char)(0xe0 | c >> 12);
		else {
			*to++ = (char)(0xf0 | c >> 18);
			*to++ = (char)(0x80 | (c >> 12 & 0x3f));
		}
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
	}
	*to++ = (char)(0x80 | (c & 0x3f));
	return to;
}

/* After "\u": one code point, of two escapes when it is a surrogate. */
static unsigned read_code_point(struct reader *r)
{
	unsigned c = hex4(r), low;

	if (c == 0)
		refuse(r, "text must not hold a NUL");
	if (c < 0xd800 || c > 0xdfff)
		return c;
	if (c > 0xdbff || r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u') {
		refuse(r, "half of a surrogate pair");
		return 0;
	}
	r->at += 2;
	low = hex4(r);
	if (low < 0xdc00 || low > 0xdfff)
		refuse(r, "half of a surrogate pair");
	return 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff);
}

/* After "\"; decoded text is never longer than its escape. */
static char *read_escape(struct reader *r, char *to)
{
	static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
	char c = r->at < r->end ? *r->at++ : '\0';
	const char *at = c != '\0' ? strchr(from, c) : NULL;

	if (at != NULL)
		*to++ = into[at - from];
	else if (c == 'u')
		to = put_utf8(to, read_code_point(r));
	else
		refuse(r, "unknown escape in a text");
	return to;
}

/* A text, decoded in place and ended by NUL; "" after an error. */
static char *read_text(struct reader *r, const char *what)
{
	static char none[1];
	char *text, *to;

	if (peek(r) != '"') {
		refuse(r, "%s must be a text in quotes", what);
		return none;
	}
	text = to = ++r->at;
	while (r->err == 0 && r->at < r->end && *r->at != '"') {
		unsigned char c = (unsigned char)*r->at++;

		if (c < 0x20)
			refuse(r, "control characters in a text must be escaped");
		else if (c == '\\')
			to = read_escape(r, to);
		else
			*to++ = (char)c;
	}
	if (r->at == r->end)
		refuse(r, "a text does not end");
	if (r->err == 0 && !record_text_ok(text, (size_t)(to - text)))
		refuse(r, "%s is not UTF-8", what);
	if (r->err != 0)
		return none;
	r->at++;
	*to = '\0';
	return text;
}

/* A whole number; as a JSON number or as a text of digits. */
static uint64_t read_number(struct reader *r, const char *what)
{
	char digits[24], c = peek(r);
	uint64_t value = 0;
	size_t len = 0;
	const char *text = digits;

	if (c == '"') {
		text = read_text(r, what);
	} else {
		while (r->at + len < r->end && len < sizeof(digits) - 1 &&
			strchr("+-.0123456789eE", r->at[len]) != NULL && r->at[len] != '\0')
			len++;
		memcpy(digits, r->at, len);
		digits[len] = '\0';
	}
	if (r->err == 0 && (!request_number(text, 0, UINT64_MAX, &value) ||
				   (text[0] == '0' && text[1] != '\0')))
		refuse(r,
			"%s must be a whole number from 0 to 18446744073709551615, without sign, "
			"fraction or exponent",
			what);
	if (r->err == 0)
		r->at += len;
	return value;
}

/* --- objects ---------------------------------------------------------------------------------- */

struct key {
	const char *name;
	void (*read)(struct reader *r, void *to);
	bool needed;
};

/* All members of an object, each by its key's function, none twice. */
static void read_object(struct reader *r, const char *what, const struct key *keys, void *to)
{
	unsigned seen = 0, i;

	if (peek(r) != '{')
		refuse(r, "%s must be an object", what);
	else
		r->at++;
	for (bool first = true; r->err == 0 && peek(r) != '}'; first = false) {
		const char *name;

		if (!first)
			expect(r, ',', "',' or '}'");
		name = read_text(r, "a key");
		for (i = 0; keys[i].name != NULL && strcmp(keys[i].name, name) != 0; i++)
			;
		if (keys[i].name == NULL)
			refuse(r, "%s has no key \"%.*s\"", what, NAME_SHOWN, name);
		if (seen & 1u << i)
			refuse(r, "\"%s\" is given twice", name);
		seen |= 1u << i;
		expect(r, ':', "':'");
		if (r->err == 0)
			keys[i].read(r, to);
	}
	for (i = 0; keys[i].name != NULL; i++)
		if (keys[i].needed && !(seen & 1u << i))
			refuse(r, "%s has no \"%s\"", what, keys[i].name);
	expect(r, '}', "'}'");
}

static void read_hash(struct reader *r, void *to)
{
	((struct ask_stream *)to)->hash = read_number(r, "streamHash");
}

static void read_size(struct reader *r, void *to)
{
	((struct ask_stream *)to)->bytes = read_number(r, "totalSize");
}

static void read_policy(struct reader *r, void *to)
{
	const char *policy = read_text(r, "ingestionPolicy");

	if (strlen(policy) > REQUEST_NAME_MAX)
		refuse(r, "ingestionPolicy has %zu bytes; at most %d are allowed", strlen(policy),
			REQUEST_NAME_MAX);
	((struct ask_stream *)to)->policy = policy;
}

static const struct key stream_keys[] = {
	{"streamHash", read_hash, true},
	{"totalSize", read_size, false},
	{"ingestionPolicy", read_policy, false},
	{NULL, NULL, false},
};

static bool reserve(struct posted *posted)
{
	struct ask_stream *grown;

	/* Capacities are powers of two: full when n is one. */
	if (posted->n > 0 && (posted->n < 16 || (posted->n & (posted->n - 1)) != 0))
		return true;
	grown = reallocarray(
		posted->streams, posted->n < 16 ? 16 : posted->n * 2, sizeof(*posted->streams));
	if (grown == NULL)
		return false;
	posted->streams = grown;
	return true;
}

static void read_streams(struct reader *r, void *to)
{
	struct posted *posted = to;

	if (peek(r) != '[')
		refuse(r, "streams must be a list");
	else
		r->at++;
	for (bool first = true; r->err == 0 && peek(r) != ']'; first = false) {
		if (!first)
			expect(r, ',', "',' or ']'");
		if (posted->n == ASK_STREAMS_MAX)
			refuse(r, "there are more than %d streams", ASK_STREAMS_MAX);
		if (r->err == 0 && !reserve(posted))
			r->err = TALLY_ENOMEM;
		if (r->err != 0)
			return;
		r->stream = (long)posted->n;
		posted->streams[posted->n] = (struct ask_stream){.policy = ""};
		read_object(r, "a stream", stream_keys, &posted->streams[posted->n++]);
	}
	r->stream = -1;
	expect(r, ']', "']'");
}

static void read_tenant(struct reader *r, void *to)
{
	char why[REQUEST_WHY_SIZE];
	const char *tenant = read_text(r, "tenant");

	if (r->err == 0 && !request_name_ok(tenant, "tenant", why))
		refuse(r, "%s", why);
	((struct posted *)to)->tenant = tenant;
}

static const struct key question_keys[] = {
	{"tenant", read_tenant, true},
	{"streams", read_streams, true},
	{NULL, NULL, false},
};

/* --- the whole -------------------------------------------------------------------------------- */

int posted_parse(struct posted *posted, char *body, size_t len, char why[POSTED_WHY_SIZE])
{
	struct reader r = {.start = body, .at = body, .end = body + len, .why = why, .stream = -1};

	*posted = (struct posted){0};
	if (len == 0)
		refuse(&r, "the body is empty; it should be {\"tenant\":..., \"streams\":[...]}");
	read_object(&r, "the question", question_keys, posted);
	if (r.err == 0 && (peek(&r) != '\0' || r.at != r.end))
		refuse(&r, "there is something behind the question");
	return r.err;
}

void posted_free(struct posted *posted)
{
	free(posted->streams);
	*posted = (struct posted){0};
}
