/*
 * confine_fixture.h - what a confined process can do, tried from inside.
 *
 *	fork -> confine_me -> one try -> its errno is the exit code, or SIGSYS ends it
 */
#ifndef TALLY_TESTS_CONFINE_FIXTURE_H
#define TALLY_TESTS_CONFINE_FIXTURE_H

#include "scratch.h"

#include "shm/confine_private.h"

#define KILLED (128 + SIGSYS)

/* Every child's; set before the fork. */
struct confined {
	char reads[96], writes[96], owns[96],
		others[96]; /* directories, of one file each, "there" */
	char file[160];	    /* if any: one that may be read */
	uint16_t port;	    /* of a listener, which may be connected to */
	uint16_t other_port;
};
extern struct confined confined;

/* A scratch directory with the four; scratch_teardown ends it. */
int confine_setup(void **state);

/* Under valgrind or a sanitizer, which do what is forbidden. */
bool confine_in_valgrind(void);
bool confine_cannot(void);
bool confine_has_landlock(int abi);

/* In the child: confines it to what `confined` says. */
void confine_me(enum confine_role role);

/* In a confined child: its errno, 0 when it worked, or 128 + the signal. */
int confine_tried(enum confine_role role, int (*try)(void));

/* DIR/NAME with these flags, mode 0640; as open(2). */
int confine_open_in(const char *dir, const char *name, int flags);

#endif
