/*
 * watch.c - the same answer again and again, until somebody has seen enough.
 *
 *	refresh -> show(), captured -> on a terminal: drawn over the one before
 *	   ^                           else: printed, a blank line between
 *	   '---- seconds, or another size of the window
 *
 * Drawn in place it leaves what was on the terminal before where it was, and the last
 * answer below it.  A line is never longer than the terminal: so many lines are so many rows.
 */
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"

struct frame {
	unsigned rows, columns; /* of the terminal */
	unsigned lines, drawn;	/* of the frame so far; of the one before */
	bool cleared;
};

static volatile sig_atomic_t resized;

static void on_resize(int signal)
{
	(void)signal;
	resized = 1;
}

bool ctl_watch_seconds(const char *what, char **argv, uint64_t *seconds)
{
	const char *word = optarg;
	/* "--watch 5" as well: a number there can be nothing else. */
	if (!word && argv[optind] && isdigit((unsigned char)*argv[optind]))
		word = argv[optind++];
	*seconds = 1;
	return !word || ctl_number(what, word, 1, 86400, seconds);
}

char *ctl_capture(struct ctl *ctl, ctl_show_fn *show, void *arg, int *code)
{
	char *text = NULL;
	size_t size;
	FILE *out = stdout, *err = stderr, *memory = open_memstream(&text, &size);
	if (!memory)
		abort();
	stdout = stderr = memory;
	*code = show(ctl, arg);
	stdout = out;
	stderr = err;
	if (fclose(memory))
		abort();
	return text;
}

void ctl_terminal_size(unsigned *rows, unsigned *columns)
{
	struct winsize size;
	*rows = 24;
	*columns = 80;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col)
		return;
	*rows = size.ws_row;
	*columns = size.ws_col;
}

/* ------------------------------------------------------------------ a frame in place */

/* The last row is the cursor's. */
static bool has_room(struct frame *frame, const char *rest)
{
	if (frame->lines + 2 < frame->rows ||
		(frame->lines + 2 == frame->rows && !strchr(rest, '\n')))
		return true;
	if (frame->lines + 2 == frame->rows) {
		printf("... the terminal has no more rows; 'tallyctl top' scrolls\033[K\n");
		frame->lines++;
	}
	return false;
}

static void draw_line(struct frame *frame, const char *line, const char *rest)
{
	do {
		if (!has_room(frame, rest))
			return;
		size_t n = ctl_wrap(line, frame->columns - 1);
		printf("%.*s\033[K\n", (int)n, line);
		frame->lines++;
		line += n + (line[n] == ' ');
	} while (*line);
}

static void draw(struct frame *frame, char *text)
{
	if (frame->cleared)
		fputs("\033[H\033[2J", stdout);
	else if (frame->drawn)
		printf("\r\033[%uA", frame->drawn);
	frame->cleared = false;
	frame->lines = 0;
	for (char *line = text, *end; *line; line = end + 1) {
		end = strchr(line, '\n');
		if (!end)
			break;
		*end = 0;
		draw_line(frame, line, end + 1);
	}
	fputs("\033[J", stdout);
	frame->drawn = frame->lines;
}

/* True when the window has changed. */
static bool wait_for_next(uint64_t seconds, const sigset_t *mask)
{
	struct timespec wait = {.tv_sec = (time_t)seconds};
	ppoll(NULL, 0, &wait, mask);
	bool changed = resized;
	resized = 0;
	return changed;
}

/* ------------------------------------------------------------------ again and again */

struct round {
	ctl_show_fn *show;
	void *arg;
};

static int refresh_and_show(struct ctl *ctl, void *arg)
{
	struct round *round = arg;
	int code = ctl_refresh(ctl);
	return code ? code : round->show(ctl, round->arg);
}

int ctl_watch(struct ctl *ctl, uint64_t seconds, ctl_show_fn *show, void *arg)
{
	struct round round = {show, arg};
	struct frame frame = {0};
	struct sigaction action = {.sa_handler = on_resize};
	sigset_t resize, mask;
	bool in_place = ctl_terminal() && !ctl->json;
	sigemptyset(&resize);
	sigaddset(&resize, SIGWINCH);
	sigprocmask(SIG_BLOCK, &resize, &mask);
	sigaction(SIGWINCH, &action, NULL);
	for (bool first = true;; first = false) {
		int code;
		ctl_terminal_size(&frame.rows, &frame.columns);
		ctl->columns = in_place ? frame.columns - 1 : 0;
		ctl->rows = in_place ? frame.rows : 0;
		char *text = ctl_capture(ctl, refresh_and_show, &round, &code);
		if (in_place)
			draw(&frame, text);
		else
			printf("%s%s", first || ctl->json ? "" : "\n", text);
		free(text);
		/* Whoever reads the other end of a pipe may have gone. */
		if (fflush(stdout))
			return code;
		frame.cleared = wait_for_next(seconds, &mask);
	}
}
