/*
 * given.h - what an option says, or the usual.
 */
#ifndef TALLY_QUERYD_GIVEN_H
#define TALLY_QUERYD_GIVEN_H

#include <stdbool.h>
#include <stddef.h>

/* Neither NULL nor "". */
static inline bool is_given(const char *text)
{
	return text != NULL && text[0] != '\0';
}

static inline unsigned or_usual(unsigned value, unsigned usual)
{
	return value != 0 ? value : usual;
}

#endif
