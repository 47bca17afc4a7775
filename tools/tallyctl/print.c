/*
 * print.c - numbers, times and names for people.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"

#include "shm/log.h"

const char *ctl_s(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* Three digits that count: 1.23M, 12.3M, 123M. */
static char *scaled(char *to, double n, double step, const char *const *units, size_t n_units)
{
	size_t unit = 0;
	while (n >= step * 0.9995 && unit + 1 < n_units) {
		n /= step;
		unit++;
	}
	int decimals = unit == 0 ? 0 : n < 9.995 ? 2 : n < 99.95 ? 1 : 0;
	snprintf(to, CTL_TEXT_SIZE, "%.*f%s", decimals, n, units[unit]);
	return to;
}

char *ctl_count(char to[CTL_TEXT_SIZE], uint64_t n)
{
	static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
	if (n < 100000) {
		snprintf(to, CTL_TEXT_SIZE, "%" PRIu64, n);
		return to;
	}
	return scaled(to, (double)n, 1000, units, sizeof units / sizeof *units);
}

char *ctl_bytes(char to[CTL_TEXT_SIZE], double n)
{
	static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
	return scaled(to, n, 1024, units, sizeof units / sizeof *units);
}

char *ctl_offset(char to[CTL_TEXT_SIZE], int64_t offset)
{
	if (offset < 0)
		snprintf(to, CTL_TEXT_SIZE, "-");
	else
		snprintf(to, CTL_TEXT_SIZE, "%" PRId64, offset);
	return to;
}

int64_t ctl_minus(int64_t a, int64_t b)
{
	int64_t difference;
	if (__builtin_sub_overflow(a, b, &difference))
		return a < b ? INT64_MIN : INT64_MAX;
	return difference;
}

char *ctl_span(char to[CTL_TEXT_SIZE], int64_t ms)
{
	int64_t minutes = ms / 60000, hours = minutes / 60, days = hours / 24;
	if (ms < 10000)
		snprintf(to, CTL_TEXT_SIZE, "%.1f s", ms > 0 ? (double)ms / 1000 : 0);
	else if (ms < 120000)
		snprintf(to, CTL_TEXT_SIZE, "%" PRId64 " s", ms / 1000);
	else if (hours < 2)
		snprintf(to, CTL_TEXT_SIZE, "%" PRId64 " min", minutes);
	else if (days < 2)
		snprintf(to, CTL_TEXT_SIZE, "%" PRId64 " h %" PRId64 " min", hours, minutes % 60);
	else
		snprintf(to, CTL_TEXT_SIZE, "%" PRId64 " d %" PRId64 " h", days, hours % 24);
	return to;
}

char *ctl_clock(char to[CTL_TEXT_SIZE], int64_t unix_ms)
{
	time_t seconds = (time_t)(unix_ms / 1000);
	struct tm tm;
	if (!gmtime_r(&seconds, &tm) || !strftime(to, CTL_TEXT_SIZE, "%Y-%m-%d %H:%M:%SZ", &tm))
		snprintf(to, CTL_TEXT_SIZE, "-");
	return to;
}

char *ctl_name(char to[CTL_NAME_SIZE], const char *name)
{
	size_t len = 0;
	for (const char *at = name; *at && len + 5 < CTL_NAME_SIZE;) {
		unsigned n = log_printable(at);
		if (n) {
			memcpy(to + len, at, n);
			len += n;
			at += n;
			continue;
		}
		len += (size_t)snprintf(
			to + len, CTL_NAME_SIZE - len, "\\x%02x", (unsigned char)*at++);
	}
	to[len] = 0;
	return to;
}

/* CLOCK_BOOTTIME ms at which a process started; -1: there is none. */
static int64_t started_ms(uint32_t pid)
{
	char path[64], text[1024];
	unsigned long long ticks;
	snprintf(path, sizeof path, "/proc/%" PRIu32 "/stat", pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return -1;
	text[fread(text, 1, sizeof text - 1, file)] = 0;
	fclose(file);
	/* Its name may hold anything, so count from behind it: the state is the third. */
	const char *at = strrchr(text, ')');
	if (!at || strspn(at + 1, " ") != 1 || at[2] == 'Z' || at[2] == 'X')
		return -1;
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (!at || sscanf(at, "%llu", &ticks) != 1)
		return -1;
	return (int64_t)(ticks * 1000 / (unsigned long long)sysconf(_SC_CLK_TCK));
}

/* A process that started after the last heartbeat is another one with its number. */
bool ctl_frozen(const struct ctl *ctl)
{
	const struct tally_instance *in = &ctl->instance;
	struct timespec now;
	if (in->alive || in->stopped || !in->supervisor_pid)
		return false;
	clock_gettime(CLOCK_BOOTTIME, &now);
	int64_t beat = now.tv_sec * 1000 + now.tv_nsec / 1000000 - in->heartbeat_age_ms;
	int64_t started = started_ms(in->supervisor_pid);
	return started >= 0 && started <= beat;
}

void ctl_stale_text(const struct ctl *ctl, char *to, size_t size)
{
	char span[CTL_TEXT_SIZE];
	ctl_span(span, ctl->instance.heartbeat_age_ms);
	if (ctl->instance.alive)
		*to = 0;
	else if (ctl_frozen(ctl))
		snprintf(to, size,
			"tallyd pid %" PRIu32
			" gives no sign of life for %s: it is frozen or stuck (the process is "
			"there); this is the last state",
			ctl->instance.supervisor_pid, span);
	else
		snprintf(to, size,
			"tallyd is not running: it %s, last heartbeat %s ago; this is the last "
			"state",
			ctl->instance.stopped ? "was stopped" : "is gone without a word", span);
}

void ctl_print_stale(const struct ctl *ctl)
{
	char text[256];
	ctl_stale_text(ctl, text, sizeof text);
	if (*text)
		printf("%s%s%s\n", ctl_sgr(CTL_BAD), text, ctl_sgr(CTL_PLAIN));
}

void ctl_print_basis(const struct tally_basis *basis)
{
	char to[CTL_TEXT_SIZE];
	if (!basis->complete)
		printf("NOT COMPLETE: ");
	printf("%" PRIu32 " of %" PRIu32 " partition%s answered (of %" PRIu32 " of the topic)%s\n",
		basis->answered, basis->owned, ctl_s(basis->owned), basis->partitions,
		basis->stale ? ", not all of them ready: may be old" : "");
	if (basis->partial)
		printf("%" PRIu32 " more %s behind: what was counted there so far%s%s, is in it\n",
			basis->partial, basis->partial == 1 ? "is" : "are",
			basis->counted_to_ms ? ", up to " : "",
			basis->counted_to_ms ? ctl_clock(to, basis->counted_to_ms) : "");
}

/* ------------------------------------------------------------------ a small picture */

void ctl_sparkline(const char *label, const uint64_t *values, size_t n)
{
	static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const plain[] = {" ", ".", ",", ":", "-", "=", "+", "*", "#"};
	bool utf8 = ctl_utf8();
	uint64_t max = 1;
	for (size_t i = 0; i < n; i++)
		max = values[i] > max ? values[i] : max;
	printf("%s |", label);
	for (size_t i = 0; i < n; i++) {
		unsigned step = values[i] ? 1 + (unsigned)((double)values[i] / (double)max * 7) : 0;
		fputs(utf8 ? blocks[step] : plain[step], stdout);
	}
	printf("|");
}
