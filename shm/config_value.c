/*
 * config_value.c - one option's value: from text into its field, and back.
 *
 *	"45s" --parse--> 45000 --bounds, step--> field
 *
 * Runs in: supervisor, query process, tests.
 */
#include "shm/config_table.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>

#include "shm/check.h"
#include "shm/err.h"

struct unit {
	const char *name;
	int64_t factor;
};

/* Largest first. */
static const struct unit time_units[] = {
	{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}, {NULL, 0}};
static const struct unit size_units[] = {{"TiB", INT64_C(1) << 40}, {"GiB", 1 << 30},
	{"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {NULL, 0}};
static const struct unit no_units[] = {{"", 1}, {NULL, 0}};

static const struct unit *units_of(const struct config_option *option)
{
	switch (option->type) {
	case CONFIG_DURATION:
	case CONFIG_SHIFT:
		return time_units;
	case CONFIG_BYTES:
		return size_units;
	default:
		return no_units;
	}
}

const char *config_value_text(
	const struct config_option *option, int64_t value, char buf[CONFIG_VALUE_SIZE])
{
	const struct unit *unit = units_of(option);

	if (option->words && value >= 0 && value <= option->max)
		return option->words[value];
	if (option->type == CONFIG_BOOL)
		return value ? "true" : "false";
	if (value == 0 && unit == time_units)
		return "0s";
	while (value % unit->factor != 0)
		unit++;
	snprintf(buf, CONFIG_VALUE_SIZE, "%" PRId64 "%s", value / unit->factor, unit->name);
	return buf;
}

static const char *list_words(const char *const *words, char buf[CONFIG_VALUE_SIZE])
{
	int len = snprintf(buf, CONFIG_VALUE_SIZE, "one of");

	for (; *words && len < CONFIG_VALUE_SIZE; words++)
		len += snprintf(buf + len, (size_t)(CONFIG_VALUE_SIZE - len), " %s%s", *words,
			words[1] ? "," : "");
	return buf;
}

const char *config_value_kind(const struct config_option *option, char buf[CONFIG_VALUE_SIZE])
{
	static const char *const nouns[] = {
		[CONFIG_NUMBER] = "a whole number",
		[CONFIG_COUNT] = "a whole number",
		[CONFIG_DURATION] = "a duration",
		[CONFIG_SHIFT] = "a duration",
		[CONFIG_BYTES] = "a size",
	};
	char low[CONFIG_VALUE_SIZE], high[CONFIG_VALUE_SIZE], step[CONFIG_VALUE_SIZE];

	const char *plain = NULL;

	if (option->words)
		return list_words(option->words, buf);
	if (option->type == CONFIG_LISTEN)
		plain = "an address host:port, like 127.0.0.1:3100 or [::1]:3100";
	else if (option->type == CONFIG_BOOL)
		plain = "true or false";
	else if (option->type == CONFIG_PROPERTIES)
		plain = "a map of name: value";
	else if (option->type == CONFIG_SECRET_FILES)
		plain = "a map of name: path";
	if (plain) {
		snprintf(buf, CONFIG_VALUE_SIZE, "%s", plain);
		return buf;
	}
	if (option->type == CONFIG_TEXT) {
		if (option->min)
			snprintf(buf, CONFIG_VALUE_SIZE, "text of %" PRId64 " to %" PRId64 " bytes",
				option->min, option->max);
		else
			snprintf(buf, CONFIG_VALUE_SIZE, "text of at most %" PRId64 " bytes",
				option->max);
		return buf;
	}
	snprintf(buf, CONFIG_VALUE_SIZE, "%s from %.20s to %.20s%s%.20s", nouns[option->type],
		config_value_text(option, option->min, low),
		config_value_text(option, option->max, high),
		option->step > 1 ? ", a multiple of " : "",
		option->step > 1 ? config_value_text(option, option->step, step) : "");
	return buf;
}

/* --- text -> number -------------------------------------------------------------------------- */

/* Digits; false when there are none or they are too many for anything. */
static bool take_digits(const char **text, int64_t *number)
{
	const char *s = *text;

	*number = 0;
	for (; *s >= '0' && *s <= '9'; s++) {
		if (*number > INT64_MAX / 100)
			return false;
		*number = *number * 10 + (*s - '0');
	}
	if (s == *text)
		return false;
	*text = s;
	return true;
}

static const struct unit *take_unit(const char **text, const struct unit *units)
{
	size_t len = strcspn(*text, "0123456789");

	for (; units->name; units++) {
		if (strlen(units->name) == len && strncmp(*text, units->name, len) == 0) {
			*text += len;
			return units;
		}
	}
	return NULL;
}

/* "250000", "45s", "1h30m", "16GiB", "-2d"; parts with units from large to small. */
static bool parse_number(const char *text, const struct unit *units, int64_t *value)
{
	bool negative = *text == '-';
	int64_t sum = 0;

	text += negative;
	if (strcmp(text, "0") == 0 && units == time_units) {
		*value = 0;
		return true;
	}
	do {
		int64_t number;
		const struct unit *unit;

		if (!take_digits(&text, &number))
			return false;
		unit = take_unit(&text, units);
		if (!unit || __builtin_mul_overflow(number, unit->factor, &number) ||
			__builtin_add_overflow(sum, number, &sum))
			return false;
		units = unit + 1;
	} while (*text);
	*value = negative ? -sum : sum;
	return true;
}

static bool parse_word(const char *text, const char *const *words, int64_t *value)
{
	for (*value = 0; words[*value]; ++*value) {
		if (strcmp(text, words[*value]) == 0)
			return true;
	}
	return false;
}

static bool parse(const struct config_option *option, const char *text, int64_t *value)
{
	static const char *const truth[] = {"false", "true", NULL};

	if (option->words)
		return parse_word(text, option->words, value);
	if (option->type == CONFIG_BOOL)
		return parse_word(text, truth, value);
	return parse_number(text, units_of(option), value);
}

static int refuse(const struct config_option *option, const char *text, const char *what,
	char why[CONFIG_WHY_SIZE])
{
	char kind[CONFIG_VALUE_SIZE];
	size_t len = strlen(text);

	snprintf(why, CONFIG_WHY_SIZE, "\"%.40s%s\" %s; write %s", text, len > 40 ? "..." : "",
		what, config_value_kind(option, kind));
	return ERR_INVALID;
}

static void store_number(const struct config_option *option, int64_t value, struct config *config)
{
	void *field = (char *)config + option->offset;

	switch (option->type) {
	case CONFIG_BOOL:
		*(bool *)field = value != 0;
		return;
	case CONFIG_NUMBER:
	case CONFIG_DURATION:
		*(uint32_t *)field = (uint32_t)value;
		return;
	case CONFIG_SHIFT:
		*(int64_t *)field = value;
		return;
	case CONFIG_BYTES:
	case CONFIG_COUNT:
		*(uint64_t *)field = (uint64_t)value;
		return;
	default:
		must(!"a numeric option");
	}
}

int64_t config_value_get(const struct config_option *option, const struct config *config)
{
	const void *field = (const char *)config + option->offset;

	switch (option->type) {
	case CONFIG_BOOL:
		return *(const bool *)field;
	case CONFIG_NUMBER:
	case CONFIG_DURATION:
		return *(const uint32_t *)field;
	case CONFIG_SHIFT:
		return *(const int64_t *)field;
	case CONFIG_BYTES:
	case CONFIG_COUNT:
		return (int64_t) * (const uint64_t *)field;
	default:
		must(!"a numeric option");
	}
	return 0;
}

/* Why a number could not be read, as near as can be told. */
static const char *misread(const struct config_option *option, const char *text)
{
	const struct unit *units = units_of(option);
	bool bare = *text && text[strspn(text, "0123456789")] == '\0';

	if (option->words || option->type == CONFIG_BOOL)
		return "is not a word for this";
	if (bare && units == time_units)
		return "has no unit (ms, s, m, h or d)";
	if (bare && units == size_units)
		return "has no unit (KiB, MiB, GiB or TiB)";
	if (units == time_units)
		return "is not made of whole numbers with units (ms, s, m, h, d)";
	if (units == size_units)
		return "is not made of whole numbers with units (KiB, MiB, GiB, TiB)";
	return "is not a whole number";
}

static int set_number(const struct config_option *option, const char *text, struct config *config,
	char why[CONFIG_WHY_SIZE])
{
	int64_t value;

	if (!parse(option, text, &value))
		return refuse(option, text, misread(option, text), why);
	if (value < option->min || value > option->max)
		return refuse(option, text, "is out of bounds", why);
	if (option->step > 1 && value % option->step != 0)
		return refuse(option, text, "is not a whole multiple", why);
	store_number(option, value, config);
	return 0;
}

/* --- text ------------------------------------------------------------------------------------ */

static int set_text(const struct config_option *option, const char *text, struct config *config,
	char why[CONFIG_WHY_SIZE])
{
	size_t len = strlen(text);
	const char *wrong = option->check ? option->check(text) : NULL;
	char host[CONFIG_TEXT_SIZE];
	uint16_t port;
	int64_t word;

	must(option->max < (int64_t)option->size);
	if (len == 0 && option->min > 0) {
		snprintf(why, CONFIG_WHY_SIZE, "must not be empty. %s", option->prose);
		return ERR_INVALID;
	}
	if (len < (size_t)option->min)
		return refuse(option, text, "is too short", why);
	if (len > (size_t)option->max) {
		snprintf(why, CONFIG_WHY_SIZE,
			"is too long, %zu bytes; at most %" PRId64 " will do", len, option->max);
		return ERR_INVALID;
	}
	if (wrong) {
		snprintf(why, CONFIG_WHY_SIZE, "%s", wrong);
		return ERR_INVALID;
	}
	if (option->words && !parse_word(text, option->words, &word))
		return refuse(option, text, "is not a word for this", why);
	if (option->type == CONFIG_LISTEN &&
		config_listen_split(text, host, sizeof(host), &port) != 0)
		return refuse(option, text, "is no address to listen on", why);
	memcpy((char *)config + option->offset, text, len + 1);
	return 0;
}

int config_value_set(const struct config_option *option, const char *text, struct config *config,
	char why[CONFIG_WHY_SIZE])
{
	for (const char *s = text; *s; s++) {
		if ((unsigned char)*s < 0x20 || *s == 0x7f) {
			snprintf(why, CONFIG_WHY_SIZE,
				"contains a line break, a tab or another control character; write "
				"it on "
				"one line without");
			return ERR_INVALID;
		}
	}
	if (option->type == CONFIG_TEXT || option->type == CONFIG_LISTEN)
		return set_text(option, text, config, why);
	return set_number(option, text, config, why);
}

/* A name, or an IPv4 address when it looks like one. */
static bool host_ok(const char *host)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
	struct in_addr v4;

	if (host[strspn(host, "0123456789.")] == '\0')
		return inet_pton(AF_INET, host, &v4) == 1;
	return host[strspn(host, letters)] == '\0' && host[0] != '-' && host[0] != '.';
}

int config_listen_split(const char *listen, char *host, size_t size, uint16_t *port)
{
	const char *colon = strrchr(listen, ':'), *digits = colon ? colon + 1 : NULL;
	bool brackets = listen[0] == '[';
	size_t len = colon ? (size_t)(colon - listen) : 0;
	struct in6_addr v6;
	int64_t number;

	if (!colon || !take_digits(&digits, &number) || *digits || number > UINT16_MAX)
		return ERR_INVALID;
	if (brackets && (len < 2 || colon[-1] != ']'))
		return ERR_INVALID;
	listen += brackets;
	len -= brackets ? 2 : 0;
	if (len == 0 || len >= size)
		return ERR_INVALID;
	memcpy(host, listen, len);
	host[len] = '\0';
	if (brackets ? inet_pton(AF_INET6, host, &v6) != 1 : !host_ok(host))
		return ERR_INVALID;
	*port = (uint16_t)number;
	return 0;
}
