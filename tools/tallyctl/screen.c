/*
 * screen.c - the whole terminal, by ncurses.
 *
 *	put -> cells of a frame -> doupdate: what differs from the frame before
 *	poll(stdin) -> get_wch -> key;  SIGWINCH -> ncurses -> TOP_RESIZED
 *
 * Signals that want an end are only noted, and come through while a key is waited for: so the
 * terminal is always given back.  SIGTSTP and SIGCONT are ncurses' own.
 */
#include <curses.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#undef columns /* term.h's short names for fields of its own */
#undef lines

#include "screen.h"

#define ESCAPE_MS 50 /* what comes so soon after Esc is a key of one name, also over ssh */

static struct {
	SCREEN *terminal;
	bool colours;
	sigset_t mask; /* while a key is waited for */
} screen;

static volatile sig_atomic_t ended_by;

static void on_end(int signal)
{
	ended_by = signal;
}

const char *screen_refusal(void)
{
	const char *term = getenv("TERM");
	int found = 0;
	if (!isatty(STDOUT_FILENO))
		return "stdout is no terminal";
	if (!isatty(STDIN_FILENO))
		return "stdin is no terminal, so there are no keys";
	if (!term || !*term)
		return "TERM is not set";
	if (setupterm(NULL, STDOUT_FILENO, &found) != OK)
		return "there is no description of this TERM (terminfo)";
	const char *address = tigetstr("cup");
	bool can = address && address != (const char *)-1;
	del_curterm(cur_term);
	return can ? NULL : "this TERM cannot place its cursor";
}

/* Those of the terminal's owner: on its own background. */
static void start_colours(void)
{
	static const short colours[] = {
		[CTL_GOOD] = COLOR_GREEN, [CTL_WARN] = COLOR_YELLOW, [CTL_BAD] = COLOR_RED};
	screen.colours = !ctl_no_color() && has_colors() && start_color() == OK &&
			 use_default_colors() == OK;
	for (short style = CTL_GOOD; screen.colours && style <= CTL_BAD; style++)
		init_pair(style, colours[style], -1);
}

static void catch_ends(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction action = {.sa_handler = on_end};
	sigset_t blocked;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGWINCH);
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		sigaddset(&blocked, signals[i]);
		sigaction(signals[i], &action, NULL);
	}
	sigprocmask(SIG_BLOCK, &blocked, &screen.mask);
}

bool screen_open(void)
{
	catch_ends();
	screen.terminal = newterm(NULL, stdout, stdin);
	if (!screen.terminal) {
		ctl_usage("top: ncurses cannot use this terminal; try 'tallyctl top --once'");
		return false;
	}
	set_escdelay(ESCAPE_MS);
	cbreak();
	noecho();
	nonl();
	intrflush(stdscr, FALSE);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	curs_set(0);
	start_colours();
	return true;
}

void screen_close(void)
{
	if (!screen.terminal)
		return;
	curs_set(1);
	endwin();
	delscreen(screen.terminal);
	screen.terminal = NULL;
}

void screen_obey(void)
{
	if (ended_by == 0 || ended_by == SIGINT) /* Ctrl-C is a way to quit */
		return;
	signal(ended_by, SIG_DFL);
	raise(ended_by);
	sigprocmask(SIG_SETMASK, &screen.mask, NULL);
}

/* ------------------------------------------------------------------ a frame */

static attr_t attributes_of(enum ctl_style style, bool reverse)
{
	attr_t attributes = reverse ? A_REVERSE : A_NORMAL;
	if (style == CTL_DIM && !reverse)
		attributes |= A_DIM;
	if (style == CTL_BOLD || style == CTL_BAD)
		attributes |= A_BOLD;
	return attributes;
}

static void put(struct top_pen *pen, unsigned row, unsigned column, enum ctl_style style,
	bool reverse, const char *text)
{
	wchar_t wide[1024] = {0};
	mbstate_t state = {0};
	const char *from = text;
	if (row >= pen->rows || column >= pen->columns)
		return;
	size_t n = mbsrtowcs(wide, &from, sizeof wide / sizeof *wide - 1, &state);
	if (n == (size_t)-1)
		return; /* it has been escaped: never so */
	short pair = screen.colours && style >= CTL_GOOD && !reverse ? (short)style : 0;
	wattr_set(stdscr, attributes_of(style, reverse), pair, NULL);
	mvwaddwstr(stdscr, (int)row, (int)column, wide);
}

void screen_begin(struct top_pen *pen)
{
	int rows = getmaxy(stdscr), columns = getmaxx(stdscr);
	*pen = (struct top_pen){
		.rows = rows > 0 ? (unsigned)rows : 0,
		.columns = columns > 0 ? (unsigned)columns : 0,
		.put = put,
		.cursor_row = -1,
	};
	wattr_set(stdscr, A_NORMAL, 0, NULL);
	werase(stdscr);
}

void screen_end(const struct top_pen *pen)
{
	if (pen->cursor_row >= 0)
		wmove(stdscr, pen->cursor_row, pen->cursor_column);
	curs_set(pen->cursor_row >= 0);
	wnoutrefresh(stdscr);
	doupdate();
}

/* ------------------------------------------------------------------ keys */

static int special(wint_t key)
{
	static const struct {
		wint_t curses;
		int key;
	} keys[] = {
		{KEY_UP, TOP_UP},
		{KEY_DOWN, TOP_DOWN},
		{KEY_PPAGE, TOP_PAGE_UP},
		{KEY_NPAGE, TOP_PAGE_DOWN},
		{KEY_HOME, TOP_HOME},
		{KEY_END, TOP_END},
		{KEY_BACKSPACE, TOP_BACKSPACE},
		{KEY_DC, TOP_BACKSPACE},
		{KEY_ENTER, '\n'},
		{KEY_F(1), TOP_HELP},
		{KEY_RESIZE, TOP_RESIZED},
	};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (keys[i].curses == key)
			return keys[i].key;
	return TOP_NONE;
}

static int next_key(void)
{
	wint_t key;
	switch (wget_wch(stdscr, &key)) {
	case OK:
		if (key == ('l' & 0x1f)) { /* somebody else has written over it */
			clearok(stdscr, TRUE);
			return TOP_RESIZED;
		}
		return (int)key;
	case KEY_CODE_YES:
		return special(key);
	default:
		return TOP_NONE;
	}
}

int screen_key(int ms)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
	int n = ppoll(&in, 1, &wait, &screen.mask);
	if (n > 0) { /* then it has let no signal through: not behind a long paste, either */
		sigset_t blocked;
		sigprocmask(SIG_SETMASK, &screen.mask, &blocked);
		sigprocmask(SIG_SETMASK, &blocked, NULL);
	}
	if (ended_by)
		return TOP_QUIT;
	int key = next_key();
	/* Readable, and nothing to read: the terminal has gone. */
	if (n > 0 && key == TOP_NONE && in.revents & (POLLHUP | POLLERR | POLLNVAL))
		return TOP_QUIT;
	return key;
}
