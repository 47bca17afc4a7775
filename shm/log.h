/*
 * log.h - one line on stderr per event: logfmt, or a JSON object (log_json.h).
 *
 *	worker[7] info replay.commit records=500 next=81200
 *
 * Signed once by log_init; the event is a constant one can grep.  error: a
 * person must act; warn: worse than hoped, healing; info: a state changed;
 * debug: for the reader of code.  When stderr is the journal's stream (JOURNAL_STREAM)
 * a line starts with its priority, "<4>", which the journal takes off; else with an
 * RFC 3339 UTC time with ms.
 *
 * A line is one write(2) of at most 1024 bytes, so lines of several processes
 * on one pipe do not mix.  Control characters, bytes that are not UTF-8 and what turns text
 * round unseen are escaped (\xNN) in the whole line.  Thread safe.
 */
#ifndef TALLY_SHM_LOG_H
#define TALLY_SHM_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_format { LOG_LOGFMT, LOG_JSON };
enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* `instance` < 0: none ("supervisor info ...").  `program` is kept. */
void log_init(const char *program, int instance, enum log_level level);
void log_set_level(enum log_level level);
void log_set_format(enum log_format format);

/* "error", "warn", "info", "debug" -> level; false when it is none of these. */
bool log_level_parse(const char *word, enum log_level *level);

void log_line(enum log_level level, const char *event, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define log_error(event, ...) log_line(LOG_LEVEL_ERROR, event, __VA_ARGS__)
#define log_warn(event, ...)  log_line(LOG_LEVEL_WARN, event, __VA_ARGS__)
#define log_info(event, ...)  log_line(LOG_LEVEL_INFO, event, __VA_ARGS__)
#define log_debug(event, ...) log_line(LOG_LEVEL_DEBUG, event, __VA_ARGS__)

/*
 * Rate limit: true at most once per `every_ms` for one `struct log_limit`
 * (static at the call site, zeroed); *suppressed gets how many were swallowed
 * since the last true.  Not thread safe: one limit belongs to one thread.
 */
struct log_limit {
	uint64_t next_ns;
	unsigned swallowed;
};
bool log_limit_pass(struct log_limit *limit, unsigned every_ms, unsigned *suppressed);

/*
 * Length of the UTF-8 character at `text` when it can be shown as it is; 0: it must be escaped,
 * since it is a control character (C0, DEL, C1), part of no character, or one that nobody sees
 * and that turns text round (bidi) or breaks lines.
 */
unsigned log_printable(const char *text);

/* A value for logfmt: quotes and escapes it when it has blanks, '=' or '"'.  Returns buf. */
const char *log_quote(char *buf, unsigned size, const char *value);

#endif
