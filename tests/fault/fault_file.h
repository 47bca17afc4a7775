/*
 * fault_file.h - the file by which tests/tools/fault-ctl.c tells processes where to fail.
 *
 *	fault-ctl arm --> slot: action, countdown --> fault_point: passed++, countdown-- == 1 --> it happens
 *	fault-ctl list, thaw <-- slot: passed, fired, pid <-'
 *
 * Mapped and shared by all processes of a fleet; a slot that is armed fires in whichever process
 * comes by n-th.  Its path is in the environment, as TALLY_FAULTS.
 */
#ifndef TALLY_TESTS_FAULT_FILE_H
#define TALLY_TESTS_FAULT_FILE_H

#include <stdatomic.h>
#include <stdint.h>

#define FAULT_VARIABLE	"TALLY_FAULTS"
#define FAULT_NAME_SIZE 32
#define FAULT_SLOTS_MAX 256

enum fault_action { FAULT_NONE, FAULT_KILL, FAULT_STOP, FAULT_SLEEP, FAULT_ACTIONS };

struct fault_slot {
	char name[FAULT_NAME_SIZE];
	_Atomic uint64_t passed;
	_Atomic int64_t countdown; /* fires when it goes from 1 to 0 */
	_Atomic uint32_t action, ms;
	_Atomic uint32_t fired; /* times */
	_Atomic uint32_t pid;	/* who was stopped here, and has not been woken yet */
};

struct fault_file {
	uint32_t n, unused;
	struct fault_slot slots[FAULT_SLOTS_MAX];
};

#endif
