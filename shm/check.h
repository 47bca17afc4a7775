/*
 * check.h - must(): a broken promise of our own stops the process with a core.
 *
 * For bugs only.  What the operator, the broker, a disk or a peer can cause is
 * an error code (err.h), never a must().
 */
#ifndef TALLY_SHM_CHECK_H
#define TALLY_SHM_CHECK_H

_Noreturn void must_failed(const char *what, const char *file, int line);

#define must(x) ((x) ? (void)0 : must_failed(#x, __FILE__, __LINE__))

/*
 * must_get(): what the system has to give and did not (memory, a descriptor, a
 * thread), where nothing can be done without.  One line with errno in words,
 * then exit code 1: no core, no signal, so that no record is blamed for it;
 * whoever started the process starts it again.
 */
_Noreturn void must_get_failed(const char *what, const char *file, int line);

#define must_get(x) ((x) ? (void)0 : must_get_failed(#x, __FILE__, __LINE__))

#endif
