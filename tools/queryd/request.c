/*
 * request.c - a request's raw target, taken apart.
 *
 *	/api/v1/tenants/a%2Fb/streams?limit=10&after=3.00ff...
 *	 |   |    |      |      |     '-- request_page, request_cursor_parse
 *	 '---+----+------+------'-- segment[], decoded one by one
 *
 * Nothing that a client can send gets past this file half understood: it is
 * decoded whole or refused with one line.
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/record.h"

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool request_decode(char *text, bool plus)
{
	char *out = text;

	for (const char *in = text; *in != '\0'; in++) {
		int high, low;

		if (*in != '%') {
			*out++ = (char)(plus && *in == '+' ? ' ' : *in);
			continue;
		}
		high = hex_digit(in[1]);
		low = high < 0 ? -1 : hex_digit(in[2]);
		if (low < 0 || (high == 0 && low == 0))
			return false;
		*out++ = (char)(high << 4 | low);
		in += 2;
	}
	*out = '\0';
	return true;
}

bool request_name_ok(const char *name, const char *what, char why[REQUEST_WHY_SIZE])
{
	size_t len = strlen(name);

	if (len == 0)
		snprintf(why, REQUEST_WHY_SIZE, "%s is empty", what);
	else if (len > REQUEST_NAME_MAX)
		snprintf(why, REQUEST_WHY_SIZE, "%s has %zu bytes; at most %d are allowed", what,
			len, REQUEST_NAME_MAX);
	else if (!record_text_ok(name, len))
		snprintf(why, REQUEST_WHY_SIZE, "%s is not UTF-8", what);
	else
		return true;
	return false;
}

bool request_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	uint64_t value = 0;

	if (*text == '\0')
		return false;
	for (; *text != '\0'; text++) {
		unsigned digit = (unsigned)(*text - '0');

		if (*text < '0' || *text > '9' || value > (UINT64_MAX - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	*out = value;
	return value >= min && value <= max;
}

/* Where the path starts; NULL when there is none. */
static char *path_of(char *raw)
{
	if (strncmp(raw, "http://", 7) == 0)
		raw = strchr(raw + 7, '/');
	return raw != NULL && *raw == '/' ? raw : NULL;
}

int request_parse(struct request *request, const char *target, char why[REQUEST_WHY_SIZE])
{
	char *at, *next;

	memset(request, 0, sizeof(*request));
	request->raw = strdup(target);
	if (request->raw == NULL)
		return TALLY_ENOMEM;
	request->query = strchr(request->raw, '?');
	if (request->query != NULL)
		*request->query++ = '\0';
	else
		request->query = request->raw + strlen(request->raw);
	at = path_of(request->raw);
	if (at == NULL) {
		snprintf(why, REQUEST_WHY_SIZE, "the request target has no path");
		return TALLY_EINVALID;
	}
	for (at++; at != NULL; at = next) {
		next = strchr(at, '/');
		if (next != NULL)
			*next++ = '\0';
		if (request->segments == REQUEST_SEGMENTS_MAX) {
			snprintf(why, REQUEST_WHY_SIZE, "the path has more than %d parts",
				REQUEST_SEGMENTS_MAX);
			return TALLY_EINVALID;
		}
		if (!request_decode(at, false)) {
			snprintf(why, REQUEST_WHY_SIZE,
				"the path holds a broken percent escape or a NUL");
			return TALLY_EINVALID;
		}
		request->segment[request->segments++] = at;
	}
	return 0;
}

void request_free(struct request *request)
{
	free(request->raw);
	memset(request, 0, sizeof(*request));
}

static bool page_limit(const char *value, struct request_page *page, char why[REQUEST_WHY_SIZE])
{
	uint64_t limit;

	if (request_number(value, 1, REQUEST_LIMIT_MAX, &limit)) {
		page->limit = (unsigned)limit;
		return true;
	}
	snprintf(why, REQUEST_WHY_SIZE, "limit must be a whole number from 1 to %d",
		REQUEST_LIMIT_MAX);
	return false;
}

static bool page_parameter(
	char *name, struct request_page *page, bool *limited, char why[REQUEST_WHY_SIZE])
{
	char *value = strchr(name, '=');

	if (value != NULL)
		*value++ = '\0';
	if (strcmp(name, "limit") != 0 && strcmp(name, "after") != 0) {
		snprintf(why, REQUEST_WHY_SIZE,
			"unknown parameter; this list takes after= and limit= only");
		return false;
	}
	if (value == NULL || !request_decode(value, true)) {
		snprintf(why, REQUEST_WHY_SIZE,
			"%s has no value, or one with a broken percent escape", name);
		return false;
	}
	if (*name == 'l' ? *limited : page->after != NULL) {
		snprintf(why, REQUEST_WHY_SIZE, "%s is given twice", name);
		return false;
	}
	if (*name == 'a') {
		page->after = value;
		return true;
	}
	*limited = true;
	return page_limit(value, page, why);
}

int request_page(struct request *request, struct request_page *page, char why[REQUEST_WHY_SIZE])
{
	bool limited = false;
	char *at, *next;

	*page = (struct request_page){.limit = REQUEST_LIMIT_DEFAULT};
	for (at = request->query; at != NULL; at = next) {
		next = strchr(at, '&');
		if (next != NULL)
			*next++ = '\0';
		if (*at != '\0' && !page_parameter(at, page, &limited, why))
			return TALLY_EINVALID;
	}
	return 0;
}

void request_cursor_text(const struct tally_cursor *cursor, char text[REQUEST_CURSOR_SIZE])
{
	snprintf(text, REQUEST_CURSOR_SIZE, "%u.%016llx", (unsigned)cursor->partition,
		(unsigned long long)cursor->from);
}

bool request_cursor_parse(const char *text, struct tally_cursor *cursor)
{
	char copy[REQUEST_CURSOR_SIZE], *hex;
	uint64_t partition, from = 0;

	if (strlen(text) >= sizeof(copy))
		return false;
	strcpy(copy, text);
	hex = strchr(copy, '.');
	if (hex == NULL || strlen(hex + 1) != 16)
		return false;
	*hex++ = '\0';
	if (!request_number(copy, 0, UINT32_MAX, &partition))
		return false;
	for (; *hex != '\0'; hex++) {
		if (hex_digit(*hex) < 0)
			return false;
		from = from << 4 | (uint64_t)hex_digit(*hex);
	}
	*cursor = (struct tally_cursor){.partition = (uint32_t)partition, .from = from};
	return true;
}
