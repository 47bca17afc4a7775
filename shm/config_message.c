/*
 * config_message.c - the one line for a mistake: where it is, which option, what to do.
 *
 *	tally.yaml:12: kafka.topik: no such option; did you mean kafka.topic?
 *
 * Runs in: supervisor, query process, tests.
 */
#include "shm/config_table.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "shm/err.h"
#include "shm/log.h"

/*
 * A file can name anything: nothing of it may end the line or steer a terminal; and what was cut
 * to fit may end in the middle of a character.
 */
static void blank_controls(char *line)
{
	for (char *s = line; *s;) {
		unsigned n = log_printable(s);

		if (n == 0)
			*s = '?';
		s += n ? n : 1;
	}
}

static size_t append(char *line, size_t size, size_t len, const char *fmt, va_list args)
{
	int n = vsnprintf(line + len, size - len, fmt, args);

	return n < 0 ? len : len + (size_t)n < size ? len + (size_t)n : size - 1;
}

static size_t append_text(char *line, size_t size, size_t len, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	len = append(line, size, len, fmt, args);
	va_end(args);
	return len;
}

int config_fail(struct config_source *source, unsigned line, const char *key, const char *fmt, ...)
{
	char *out = source->error->line;
	size_t size = sizeof(source->error->line), len;
	va_list args;

	/* The end of a long path says more than its beginning. */
	len = strlen(source->name);
	len = append_text(out, size, 0, "%s", source->name + (len > 160 ? len - 160 : 0));
	if (line)
		len = append_text(out, size, len, ":%u", line);
	len = append_text(out, size, len, ": ");
	if (key)
		len = append_text(out, size, len, "%.100s: ", key);
	va_start(args, fmt);
	append(out, size, len, fmt, args);
	va_end(args);
	blank_controls(out);
	return ERR_INVALID;
}

int config_no_memory(struct config_source *source)
{
	config_fail(source, 0, NULL, "out of memory while reading it");
	return ERR_NOMEM;
}

static const struct config_property *find_property(const struct config *config, const char *name)
{
	for (uint32_t i = 0; name && i < config->n_properties; i++) {
		if (strcmp(config->properties[i].name, name) == 0)
			return &config->properties[i];
	}
	return NULL;
}

int config_property_fail(const struct config *config, const char *name, struct config_error *error,
	const char *fmt, ...)
{
	struct config_source source = {.name = config->source, .error = error};
	const struct config_property *property = find_property(config, name);
	const char *map = property && property->path ? "kafka.secret_files" : "kafka.properties";
	char key[CONFIG_VALUE_SIZE], why[sizeof(error->line)];
	va_list args;

	if (name && !property)
		map = "kafka"; /* follows from another option */
	snprintf(key, sizeof(key), "%s%s%.64s", map, name ? ": " : "", name ? name : "");
	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	return config_fail(&source, property ? property->line : 0, key, "%s", why);
}

void config_forget_lines(struct config *config)
{
	for (uint32_t i = 0; i < config->n_properties; i++)
		config->properties[i].line = 0;
}

const char *config_file_action(int err)
{
	if (err == ENOENT || err == ENOTDIR)
		return "create it, or correct the path";
	if (err == EACCES || err == EPERM)
		return "let the user that tallyd runs as read it";
	return "name a file that can be read";
}

static const char *join(const char *section, const char *key, char buf[CONFIG_VALUE_SIZE])
{
	snprintf(buf, CONFIG_VALUE_SIZE, "%.64s%s%.64s", section, *section && *key ? "." : "", key);
	return buf;
}

const char *config_option_name(const struct config_option *option, char buf[CONFIG_VALUE_SIZE])
{
	return join(option->section, option->key, buf);
}

#define NAME_MAX_LEN 64

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned least = a < b ? a : b;

	return least < c ? least : c;
}

/* Letters to change, add, take away, or swap with their neighbour; both at most NAME_MAX_LEN. */
static unsigned distance(const char *a, const char *b)
{
	unsigned rows[3][NAME_MAX_LEN + 1] = {{0}};
	unsigned n = (unsigned)strlen(a), len = (unsigned)strlen(b);

	for (unsigned j = 0; j <= len; j++)
		rows[0][j] = j;
	for (unsigned i = 1; i <= n; i++) {
		unsigned *now = rows[i % 3], *before = rows[(i + 2) % 3], *two = rows[(i + 1) % 3];

		now[0] = i;
		for (unsigned j = 1; j <= len; j++) {
			now[j] = min3(before[j] + 1, now[j - 1] + 1,
				before[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
				two[j - 2] + 1 < now[j])
				now[j] = two[j - 2] + 1;
		}
	}
	return rows[n % 3][len];
}

/* So far away a name is another one. */
static unsigned too_far(const char *name)
{
	size_t len = strlen(name);

	return len > NAME_MAX_LEN ? 0 : 1 + (len < 6 ? 1 : (unsigned)len / 3);
}

const char *config_nearest_of(const char *name, const char *const *names, size_t n)
{
	unsigned best = too_far(name);
	const char *found = NULL;

	for (size_t i = 0; i < n && best > 0; i++) {
		unsigned d = strlen(names[i]) > NAME_MAX_LEN ? best : distance(name, names[i]);

		if (d < best) {
			best = d;
			found = names[i];
		}
	}
	return found;
}

const char *config_nearest(const char *section, const char *key, char buf[CONFIG_VALUE_SIZE])
{
	size_t n_options, n_sections;
	const struct config_option *options = config_options(&n_options);
	const struct config_section *sections = config_sections(&n_sections);
	unsigned best = too_far(key);
	const char *found = NULL;

	if (best == 0)
		return NULL;
	for (size_t i = 0; i < n_options; i++) {
		/* One of the same section wins over an equal one elsewhere. */
		unsigned away = strcmp(section, options[i].section) != 0;
		unsigned d = distance(key, options[i].key) + away;

		if (d < best) {
			best = d;
			found = config_option_name(&options[i], buf);
		}
	}
	for (size_t i = 0; i < n_sections && *section == '\0'; i++) {
		unsigned d = distance(key, sections[i].name);

		if (*sections[i].name && d < best) {
			best = d;
			found = join(sections[i].name, "", buf);
		}
	}
	return found;
}
