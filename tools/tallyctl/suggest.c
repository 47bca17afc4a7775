/*
 * suggest.c - "did you mean": the known word that is nearest to one that was typed.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"

#define WORD_MAX 24

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	a = a < b ? a : b;
	return a < c ? a : c;
}

/* Letters to add, drop, change, or swap with their neighbour (optimal string alignment). */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[3][WORD_MAX + 1] = {{0}};
	size_t n = strlen(a), m = strlen(b);
	if (n > WORD_MAX || m > WORD_MAX)
		return WORD_MAX;
	for (unsigned j = 0; j <= m; j++)
		row[0][j] = j;
	for (unsigned i = 1; i <= n; i++) {
		unsigned *now = row[i % 3], *before = row[(i + 2) % 3], *two = row[(i + 1) % 3];
		now[0] = i;
		for (unsigned j = 1; j <= m; j++) {
			now[j] = least(before[j] + 1, now[j - 1] + 1,
				before[j - 1] + (a[i - 1] != b[j - 1]));
			bool swapped =
				i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
			if (swapped && two[j - 2] + 1 < now[j])
				now[j] = two[j - 2] + 1;
		}
	}
	return row[n % 3][m];
}

/* One letter of three may be wrong; what somebody began to type is near as well. */
const char *ctl_nearest(const char *word, const char *const *words, size_t n)
{
	size_t len = strlen(word);
	unsigned best = (unsigned)(len < 3 ? 1 : len / 3 > 3 ? 3 : len / 3) + 1;
	const char *nearest = NULL;
	for (size_t i = 0; i < n; i++) {
		unsigned far = distance(word, words[i]);
		if (len > 1 && !strncmp(word, words[i], len) && best > 1)
			far = 1;
		if (far < best) {
			best = far;
			nearest = words[i];
		}
	}
	return nearest;
}

int ctl_bad_option(const char *command, const struct option *options, char **argv, int option)
{
	const char *names[16], *near = NULL;
	char shown[64];
	size_t n = 0;
	for (; n < sizeof names / sizeof *names && options[n].name; n++)
		names[n] = options[n].name;
	/* Short ones can be many in a word, and then it is not yet passed. */
	if (optopt > 0 && optopt < 128 && strncmp(argv[optind - 1], "--", 2) != 0)
		snprintf(shown, sizeof shown, "-%c", optopt);
	else
		snprintf(shown, sizeof shown, "%.*s", (int)strcspn(argv[optind - 1], "="),
			argv[optind - 1]);
	if (option != ':' && !strncmp(shown, "--", 2))
		near = ctl_nearest(shown + 2, names, n);
	const char *gap = *command ? ": " : "";
	if (option == ':')
		return ctl_usage("%s%soption %s: needs a value", command, gap, shown);
	if (near)
		return ctl_usage(
			"%s%soption %s: unknown; did you mean --%s?", command, gap, shown, near);
	return ctl_usage("%s%soption %s: unknown; see 'tallyctl help'", command, gap, shown);
}
