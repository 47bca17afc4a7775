/*
 * fault.h - FAULT("module.step"): a place where a test may kill, stop or delay the process.
 *
 *	FAULT("evict.renamed") --> fault_point --> armed for its n-th passage? --> SIGKILL, SIGSTOP, a pause
 *
 * Nothing, unless compiled with -DTALLY_TEST_FAULTS: that makes variants of the programs for
 * `make faults` and `make soak` (tests/fault/README.md), never the programs.
 */
#ifndef TALLY_SHM_FAULT_H
#define TALLY_SHM_FAULT_H

#ifdef TALLY_TEST_FAULTS
/* tests/fault/fault_point.c */
void fault_point(const char *name);

#define FAULT(name)	  fault_point(name)
#define FAULT_ENVIRONMENT "TALLY_FAULTS=", /* of what a child keeps */
#else
#define FAULT(name) ((void)0)
#define FAULT_ENVIRONMENT
#endif

#endif
