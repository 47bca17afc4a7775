/*
 * log.c - one line on stderr per event.
 *
 *	event, fmt --> raw text --escape--> at most 1024 bytes --> one write(2)
 *
 * What a tenant, a broker or a file name contains cannot end a line, start
 * another or move a terminal's cursor.  errno is the same after a call.
 *
 * Runs in: every process, every thread.
 */
#include "shm/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shm/host.h"
#include "shm/log_json.h"

#define LINE_SIZE 1024
#define RAW_SIZE  (LINE_SIZE + 256) /* more than fits, so that a cut shows */

static const char cut_mark[] = "...";

static struct {
	const char *program;
	int instance;
	_Atomic int level;
	_Atomic int format;
	bool journal; /* stderr is the journal's stream: it has the time already */
} self = {.program = "tally", .instance = -1, .level = LOG_LEVEL_INFO};

static const char *const level_words[] = {
	[LOG_LEVEL_ERROR] = "error",
	[LOG_LEVEL_WARN] = "warn",
	[LOG_LEVEL_INFO] = "info",
	[LOG_LEVEL_DEBUG] = "debug",
};

/* sd-daemon(3): `journalctl -p warning` goes by them; a line without one is "info". */
#define PRIORITY_SIZE 3
static const char priorities[][PRIORITY_SIZE + 1] = {
	[LOG_LEVEL_ERROR] = "<3>",
	[LOG_LEVEL_WARN] = "<4>",
	[LOG_LEVEL_INFO] = "<6>",
	[LOG_LEVEL_DEBUG] = "<7>",
};

/* JOURNAL_STREAM is inherited, stderr may have been redirected since: compare. */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void log_init(const char *program, int instance, enum log_level level)
{
	self.program = program;
	self.instance = instance;
	self.journal = stderr_is_journal();
	log_set_level(level);
}

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&self.level, (int)level, memory_order_relaxed);
}

void log_set_format(enum log_format format)
{
	atomic_store_explicit(&self.format, (int)format, memory_order_relaxed);
}

bool log_level_parse(const char *word, enum log_level *level)
{
	for (int i = LOG_LEVEL_ERROR; i <= LOG_LEVEL_DEBUG; i++) {
		if (strcmp(word, level_words[i]) == 0) {
			*level = (enum log_level)i;
			return true;
		}
	}
	return false;
}

/*
 * Characters that show nothing and change what others look like: marks and overrides of
 * direction, zero widths, line and paragraph separators, the byte order mark, tags.
 */
static bool invisible(unsigned long code)
{
	return code == 0x61c || (code >= 0x200b && code <= 0x200f) ||
	       (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
	       code == 0xfeff || (code >= 0xe0000 && code <= 0xe007f);
}

unsigned log_printable(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned long code;
	unsigned n;

	if (s[0] < 0x80)
		return s[0] >= 0x20 && s[0] != 0x7f;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	code = s[0] & (0xff >> (n + 1));
	for (unsigned i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0; /* a NUL stops it as well */
		code = code << 6 | (s[i] & 0x3f);
	}
	if (code < 0xa0 || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff)
		return 0; /* C1 controls, surrogates, beyond Unicode */
	if ((n == 3 && code < 0x800) || (n == 4 && code < 0x10000) || invisible(code))
		return 0;
	return n;
}

/*
 * Copies `from` escaped into out[0..size), NUL-terminated; with `quoted` also
 * escapes '"' and '\'.  What does not fit is cut between characters and marked.
 */
static size_t escape(char *out, size_t size, const char *from, bool quoted)
{
	const char *s = from;
	size_t len = 0, last_fit = 0; /* last_fit: where the mark still has room */
	size_t mark = size > sizeof(cut_mark) ? sizeof(cut_mark) - 1 : 0;

	while (*s) {
		char piece[5] = "";
		size_t n = log_printable(s), width = n;

		if (n == 0)
			width = (size_t)snprintf(
				piece, sizeof(piece), "\\x%02x", (unsigned char)*s);
		else if (quoted && (*s == '"' || *s == '\\'))
			width = (size_t)snprintf(piece, sizeof(piece), "\\%c", *s);
		else
			memcpy(piece, s, n);
		if (len + width >= size) {
			memcpy(out + last_fit, cut_mark, mark);
			len = last_fit + mark;
			break;
		}
		memcpy(out + len, piece, width);
		len += width;
		s += n ? n : 1;
		if (len + mark < size)
			last_fit = len;
	}
	out[len] = '\0';
	return len;
}

/* RFC 3339, UTC; "" in the journal. */
static void put_time(char when[32])
{
	int64_t ms = host_wall_ms();
	time_t seconds = (time_t)(ms / 1000);
	char date[24];
	struct tm tm;

	when[0] = '\0';
	if (self.journal)
		return;
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &tm));
	snprintf(when, 32, "%s.%03dZ", date, (int)(ms % 1000));
}

/* Gives the length in `line`, without a newline. */
static size_t format_text(char *line, size_t size, const struct log_head *head, const char *body)
{
	char raw[RAW_SIZE + 200], instance[16] = "";
	size_t len;

	if (head->instance >= 0)
		snprintf(instance, sizeof(instance), "[%d]", head->instance);
	snprintf(raw, sizeof(raw), "%s%s%s%s %s %s%s%s", head->time, *head->time ? " " : "",
		head->program, instance, head->level, head->event, *body ? " " : "", body);
	len = escape(line, size, raw, false);
	while (len > 0 && line[len - 1] == ' ')
		len--;
	return len;
}

void log_line(enum log_level level, const char *event, const char *fmt, ...)
{
	char body[RAW_SIZE] = "", line[LINE_SIZE], when[32];
	int saved_errno = errno;
	struct log_head head = {.time = when,
		.program = self.program,
		.instance = self.instance,
		.level = level_words[level],
		.event = event};
	size_t len, mark = 0;
	ssize_t n;
	va_list args;

	if ((int)level > atomic_load_explicit(&self.level, memory_order_relaxed))
		return;
	put_time(when);
	if (fmt && *fmt) {
		va_start(args, fmt);
		vsnprintf(body, sizeof(body), fmt, args);
		va_end(args);
	}
	if (self.journal) {
		mark = PRIORITY_SIZE;
		memcpy(line, priorities[level], mark);
	}
	if (atomic_load_explicit(&self.format, memory_order_relaxed) == LOG_JSON)
		len = mark + log_json(line + mark, sizeof(line) - mark, &head, body);
	else
		len = mark + format_text(line + mark, sizeof(line) - mark, &head, body);
	line[len++] = '\n'; /* in place of its NUL */
	do
		n = write(STDERR_FILENO, line, len);
	while (n < 0 && errno == EINTR);
	errno = saved_errno;
}

bool log_limit_pass(struct log_limit *limit, unsigned every_ms, unsigned *suppressed)
{
	uint64_t now = host_boot_ns();

	if (now < limit->next_ns) {
		limit->swallowed++;
		return false;
	}
	*suppressed = limit->swallowed;
	limit->swallowed = 0;
	limit->next_ns = now + (uint64_t)every_ms * 1000000;
	return true;
}

static bool needs_quotes(const char *value)
{
	if (*value == '\0')
		return true;
	for (const char *s = value; *s; s++) {
		if (strchr(" =\"\\", *s) || (unsigned char)*s < 0x20 || *s == 0x7f)
			return true;
	}
	return false;
}

const char *log_quote(char *buf, unsigned size, const char *value)
{
	size_t len;

	if (size == 0)
		return "";
	if (!value)
		value = "";
	if (!needs_quotes(value) || size < 3) {
		escape(buf, size, value, false);
		return buf;
	}
	buf[0] = '"';
	len = escape(buf + 1, size - 2, value, true);
	buf[1 + len] = '"';
	buf[2 + len] = '\0';
	return buf;
}
