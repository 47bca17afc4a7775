/*
 * log_json.c - a line of the log as a JSON object.
 *
 * Runs in: every process, every thread.
 */
#include "shm/log_json.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "shm/log.h"

#define DIGITS_MAX 15 /* every reader of JSON keeps so many */
#define KEY_MAX	   64

struct out {
	char *at;
	size_t len, size; /* size: one byte is kept for each of '"', '}' and NUL */
	bool full;
};

static bool room(const struct out *out, size_t n)
{
	return !out->full && out->len + n < out->size;
}

static void put(struct out *out, const char *text, size_t n)
{
	if (!room(out, n)) {
		out->full = true;
		return;
	}
	memcpy(out->at + out->len, text, n);
	out->len += n;
}

/* One character of a value; how many bytes of `s` it was. */
static size_t put_character(struct out *out, const char *s)
{
	unsigned n = log_printable(s);
	char piece[8] = "";
	int len;

	if (n == 0) {
		len = snprintf(piece, sizeof(piece), "\\\\x%02x", (unsigned char)*s);
		put(out, piece, (size_t)len);
	} else if (*s == '"' || *s == '\\')
		put(out, (char[]){'\\', *s}, 2);
	else
		put(out, s, n);
	return n ? n : 1;
}

/* Text up to `end`; with `quoted` a backslash before '"' or '\' is logfmt's. */
static void put_text(struct out *out, const char *s, const char *end, bool quoted)
{
	size_t mark = out->size - 4;

	while (s < end && !out->full) {
		if (quoted && *s == '\\' && s + 1 < end && (s[1] == '"' || s[1] == '\\'))
			s++;
		if (out->len + 6 >= mark) { /* the longest character, and the dots after it */
			memcpy(out->at + out->len, "...", 3);
			out->len += 3;
			out->full = true;
			return;
		}
		s += put_character(out, s);
	}
}

static bool is_number(const char *s, const char *end)
{
	const char *digits = s + (*s == '-');

	if (digits >= end || end - digits > DIGITS_MAX || (*digits == '0' && end - digits > 1))
		return false;
	for (s = digits; s < end; s++)
		if (*s < '0' || *s > '9')
			return false;
	return true;
}

/*
 * A key that is there already, as by the words of somebody else in a text, gets a number: nobody
 * forges "level".  (Quotes in values have a backslash, so this finds keys alone.)
 */
static int new_key(const struct out *out, const char *key, size_t len, char text[KEY_MAX + 16])
{
	int n = 0;

	out->at[out->len] = '\0';
	for (unsigned times = 1; times < 100; times++) {
		char number[4] = "";

		if (times > 1)
			snprintf(number, sizeof(number), "%u", times);
		n = snprintf(text, KEY_MAX + 16,
			",\"%.*s%s\":", (int)(len > KEY_MAX ? KEY_MAX : len), key, number);
		if (!strstr(out->at, text + 1))
			break;
	}
	return n;
}

static bool put_key(struct out *out, const char *key, size_t len)
{
	char text[KEY_MAX + 16];
	int n = new_key(out, key, len, text);

	if (!room(out, (size_t)n + 24)) { /* and a number, or the dots */
		out->full = true;
		return false;
	}
	put(out, text, (size_t)n);
	return true;
}

static void put_pair(struct out *out, const char *key, size_t key_len, const char *value,
	const char *end, bool quoted)
{
	bool was_full;

	if (!put_key(out, key, key_len))
		return;
	if (!quoted && is_number(value, end)) {
		put(out, value, (size_t)(end - value));
		return;
	}
	put(out, "\"", 1);
	put_text(out, value, end, quoted);
	was_full = out->full;
	out->at[out->len++] = '"';
	out->full = was_full;
}

/* Where a value in quotes ends: texts of others in it may have quotes of their own. */
static const char *closing_quote(const char *s)
{
	for (; *s; s++) {
		if (*s == '\\' && s[1])
			s++;
		else if (*s == '"' && (s[1] == ' ' || s[1] == '\0'))
			return s;
	}
	return s;
}

/* Length of the key that `s` begins with; 0: none. */
static size_t key_length(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");

	return s[n] == '=' ? n : 0;
}

static void put_body(struct out *out, const char *s)
{
	while (*(s += strspn(s, " "))) {
		size_t key = key_length(s);
		const char *value = s + key + 1, *end;

		if (key == 0) { /* words, up to the next key */
			for (end = s; *end && !(end[0] == ' ' && key_length(end + 1));)
				end++;
			put_pair(out, "text", 4, s, end, false);
			s = end;
		} else if (*value == '"') {
			end = closing_quote(value + 1);
			put_pair(out, s, key, value + 1, end, true);
			s = *end ? end + 1 : end;
		} else {
			end = value + strcspn(value, " ");
			put_pair(out, s, key, value, end, false);
			s = end;
		}
	}
}

static void __attribute__((format(printf, 2, 3))) put_format(struct out *out, const char *fmt, ...)
{
	char text[200];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	put(out, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

size_t log_json(char *buffer, size_t size, const struct log_head *head, const char *body)
{
	struct out out = {.at = buffer, .size = size - 3};

	put(&out, "{", 1);
	if (*head->time)
		put_format(&out, "\"time\":\"%.40s\",", head->time);
	put_format(&out, "\"program\":\"%.40s\"", head->program);
	if (head->instance >= 0)
		put_format(&out, ",\"instance\":%d", head->instance);
	put_format(&out, ",\"level\":\"%.8s\",\"event\":\"%.60s\"", head->level, head->event);
	put_body(&out, body);
	out.at[out.len++] = '}';
	out.at[out.len] = '\0';
	return out.len;
}
