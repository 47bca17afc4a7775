/*
 * watch.c - the same answer again and again, until somebody has seen enough.
 *
 *	refresh -> show(), captured -> on a terminal: drawn over the one before
 *	   ^                           else: printed, a blank line between; trouble on stderr, once
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

char *ctl_capture(struct ctl *ctl, ctl_show_fn *show, void *arg, int *code, char **trouble)
{
	char *text = NULL;
	size_t size, trouble_size;
	FILE *out = stdout, *err = stderr, *memory = open_memstream(&text, &size);
	FILE *other = trouble ? open_memstream(trouble, &trouble_size) : memory;
	if (!memory || !other)
		abort();
	stdout = memory;
	stderr = other;
	*code = show(ctl, arg);
	stdout = out;
	stderr = err;
	if ((trouble && fclose(other)) || fclose(memory))
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

/* Not the last one: a cursor that stands behind it is in the next line on some of them. */
unsigned ctl_columns(void)
{
	unsigned rows, columns;
	if (!isatty(STDOUT_FILENO))
		return 0;
	ctl_terminal_size(&rows, &columns);
	return columns > 1 ? columns - 1 : 1;
}

int ctl_wrapped(struct ctl *ctl, ctl_show_fn *show, void *arg)
{
	unsigned columns = ctl_columns();
	int code;
	if (!columns)
		return show(ctl, arg);
	char *text = ctl_capture(ctl, show, arg, &code, NULL);
	for (const char *at = text; *at;) {
		size_t n = ctl_wrap(at, columns);
		printf("%.*s\n", (int)n, at);
		at += n;
		at += *at == ' ' || *at == '\n';
	}
	free(text);
	return code;
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

/* SIGWINCH comes while we wait, and only then.  `mask`: for that time. */
static void catch_resize(sigset_t *mask)
{
	struct sigaction action = {.sa_handler = on_resize};
	sigset_t resize;
	sigemptyset(&resize);
	sigaddset(&resize, SIGWINCH);
	sigprocmask(SIG_BLOCK, &resize, mask);
	sigaction(SIGWINCH, &action, NULL);
}

static int show_in_place(struct ctl *ctl, struct round *round, struct frame *frame)
{
	int code;
	ctl_terminal_size(&frame->rows, &frame->columns);
	ctl->columns = frame->columns - 1;
	ctl->rows = frame->rows;
	char *text = ctl_capture(ctl, refresh_and_show, round, &code, NULL);
	draw(frame, text);
	free(text);
	return code;
}

/* Trouble that goes on is told once: `told`. */
static int show_below(struct ctl *ctl, struct round *round, char **told, bool *first)
{
	int code;
	char *trouble, *text = ctl_capture(ctl, refresh_and_show, round, &code, &trouble);
	if (*text) {
		printf("%s%s", *first || ctl->json ? "" : "\n", text);
		*first = false;
	}
	if (!*told || strcmp(*told, trouble)) {
		fflush(stdout);
		fputs(trouble, stderr);
	}
	free(text);
	free(*told);
	*told = trouble;
	return code;
}

int ctl_watch(struct ctl *ctl, uint64_t seconds, ctl_show_fn *show, void *arg)
{
	struct round round = {show, arg};
	struct frame frame = {0};
	sigset_t mask;
	bool in_place = ctl_terminal() && !ctl->json, first = true;
	char *told = NULL;
	if (ctl_attach_or_wait(ctl))
		return CTL_TROUBLE;
	catch_resize(&mask);
	for (;;) {
		int code = in_place ? show_in_place(ctl, &round, &frame)
				    : show_below(ctl, &round, &told, &first);
		/* Whoever reads the other end of a pipe may have gone. */
		if (fflush(stdout)) {
			free(told);
			return code;
		}
		frame.cleared = wait_for_next(seconds, &mask);
	}
}
