/*
 * screen.h - the whole terminal, by ncurses: cells that are put, keys that are read.
 *
 *	screen_refusal -> screen_open -> { begin -> put ... -> end -> key } -> screen_close
 *
 * Only what has changed is sent to the terminal.  However the program ends (but for SIGKILL),
 * the terminal is as it was before.
 */
#ifndef TALLYCTL_SCREEN_H
#define TALLYCTL_SCREEN_H

#include <stdbool.h>

#include "top.h"

/* Why this terminal cannot be used so; NULL: it can. */
const char *screen_refusal(void);

/* False after a line on stderr. */
bool screen_open(void);
void screen_close(void);

/* A frame: all cells are blank at its begin, and shown at its end. */
void screen_begin(struct top_pen *pen);
void screen_end(const struct top_pen *pen);

/*
 * A character, or one of enum top_key; TOP_NONE when none came within `ms`, TOP_QUIT when
 * somebody wants an end (signal, or the terminal has gone).
 */
int screen_key(int ms);

/* After screen_close: the signal that ended it, if one did, takes its usual effect. */
void screen_obey(void);

#endif
