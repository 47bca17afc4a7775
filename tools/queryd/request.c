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

#include "shm/percent.h"
#include "shm/record.h"

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
		if (!percent_decode(at, false)) {
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

/* Where a parameter's text goes; NULL: the list does not take it. */
static char **page_text(struct request_page *page, const char *name, bool search)
{
	if (strcmp(name, "after") == 0)
		return &page->after;
	if (search && strcmp(name, "sort") == 0)
		return &page->sort;
	return search && strcmp(name, "q") == 0 ? &page->query : NULL;
}

static bool page_parameter(char *name, struct request_page *page, bool search, char **limit,
	char why[REQUEST_WHY_SIZE])
{
	char *value = strchr(name, '='), **to;

	if (value != NULL)
		*value++ = '\0';
	to = strcmp(name, "limit") == 0 ? limit : page_text(page, name, search);
	if (to == NULL) {
		snprintf(why, REQUEST_WHY_SIZE, "unknown parameter; this list takes %s only",
			search ? "after=, limit=, sort= and q=" : "after= and limit=");
		return false;
	}
	if (value == NULL || !percent_decode(value, true)) {
		snprintf(why, REQUEST_WHY_SIZE,
			"%s has no value, or one with a broken percent escape", name);
		return false;
	}
	if (*to != NULL) {
		snprintf(why, REQUEST_WHY_SIZE, "%s is given twice", name);
		return false;
	}
	*to = value;
	return to != limit || page_limit(value, page, why);
}

static int read_page(
	struct request *request, struct request_page *page, bool search, char why[REQUEST_WHY_SIZE])
{
	char *at, *next, *limit = NULL;

	*page = (struct request_page){.limit = REQUEST_LIMIT_DEFAULT};
	for (at = request->query; at != NULL; at = next) {
		next = strchr(at, '&');
		if (next != NULL)
			*next++ = '\0';
		if (*at != '\0' && !page_parameter(at, page, search, &limit, why))
			return TALLY_EINVALID;
	}
	return 0;
}

int request_page(struct request *request, struct request_page *page, char why[REQUEST_WHY_SIZE])
{
	return read_page(request, page, false, why);
}

int request_search(struct request *request, struct request_page *page, char why[REQUEST_WHY_SIZE])
{
	return read_page(request, page, true, why);
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
		if (percent_hex(*hex) < 0)
			return false;
		from = from << 4 | (uint64_t)percent_hex(*hex);
	}
	*cursor = (struct tally_cursor){.partition = (uint32_t)partition, .from = from};
	return true;
}
