/*
 * percent.h - percent-escapes, as in URLs.  Pure.
 */
#ifndef TALLY_SHM_PERCENT_H
#define TALLY_SHM_PERCENT_H

#include <stdbool.h>

/* 0 to 15; -1: is none. */
int percent_hex(char c);

/*
 * Decodes in place; '+' becomes a blank when `plus`.  false: an escape that is
 * none, or a NUL; the text is spoilt then.
 */
bool percent_decode(char *text, bool plus);

#endif
