/*
 * colour.c - styles of text, for terminals whose owner wants them.
 *
 * None when stdout is no terminal, TERM says that it cannot, or NO_COLOR is set to
 * anything (https://no-color.org).  No fact is told by colour alone.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"

bool ctl_no_color(void)
{
	const char *no = getenv("NO_COLOR");
	return no && *no;
}

bool ctl_terminal(void)
{
	const char *term = getenv("TERM");
	return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

const char *ctl_sgr(enum ctl_style style)
{
	static const char *const codes[] = {
		[CTL_PLAIN] = "\033[0m",
		[CTL_DIM] = "\033[2m",
		[CTL_BOLD] = "\033[1m",
		[CTL_GOOD] = "\033[32m",
		[CTL_WARN] = "\033[33m",
		[CTL_BAD] = "\033[1;31m",
	};
	return ctl_terminal() && !ctl_no_color() ? codes[style] : "";
}

enum ctl_style ctl_state_style(const struct tally_partition *p)
{
	if (p->ready)
		return CTL_GOOD;
	if (!strcmp(p->state, "failed") || !strcmp(p->state, "ready"))
		return CTL_BAD; /* ready by its word, but the lease is over */
	return !strcmp(p->state, "stopped") || !strcmp(p->state, "free") ? CTL_DIM : CTL_WARN;
}
