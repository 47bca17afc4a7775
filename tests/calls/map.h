/*
 * map.h - what the watched processes and `sites` share: one mapped file per program.
 *
 *	process: site reached -> counts it; armed -> fails it once, says when and in which process
 *	sites:   lists the sites, arms one
 *
 * A site is a chain of up to three calls inside the program: the one that is watched, its
 * caller, and the caller of that: so that a function which wraps a call is not one site.
 */
#ifndef TALLY_TESTS_CALLS_MAP_H
#define TALLY_TESTS_CALLS_MAP_H

#include <stdatomic.h>
#include <stdint.h>

#define MAP_MAGIC UINT64_C(0x736c6c6163796c74)
#define SITES_MAX 8192
#define FRAMES	  3
#define ENV_MAP	  "TALLY_CALLS_MAP"

struct site {
	_Atomic uint64_t key; /* 0: free */
	uint32_t call;
	uint32_t frames[FRAMES]; /* in the program's file, of the instruction after the call */
	_Atomic uint32_t count;
	_Atomic uint32_t armed;	 /* fails at this many arrivals from now; 0: never */
	_Atomic uint32_t error;	 /* which of the call's */
	_Atomic uint32_t failed; /* the how manieth failure of all */
	_Atomic uint32_t pid;
};

struct map {
	uint64_t magic;
	_Atomic uint32_t failures, lost; /* lost: no free place */
	struct site sites[SITES_MAX];
};

#endif
