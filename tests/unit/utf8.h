/*
 * utf8.h - code points into bytes, by the tests' own hand.
 */
#ifndef TALLY_TESTS_UTF8_H
#define TALLY_TESTS_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Also those that UTF-8 forbids, as if they were allowed; below 0x200000.  How many bytes. */
size_t utf8_encode(uint32_t code, uint8_t out[4]);

#endif
