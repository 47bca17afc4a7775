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

#endif
