/*
 * rundir.h - the run directory: opened safely, one supervisor, generations made and evicted.
 *
 *	<run_dir>/lock                  flock: one supervisor per directory
 *	<run_dir>/p<partition>.<gen>/   a generation's life
 *	<run_dir>/trash.p<...>/         evicted: renamed first, unlinked by a thread
 *
 * Touches only what is its own: directories with exactly our names, of our
 * uid, that are no symbolic links.  Everything else is left and named in the
 * log.  A generation number never repeats, across restarts too.
 */
#ifndef TALLY_SUPERVISOR_RUNDIR_H
#define TALLY_SUPERVISOR_RUNDIR_H

#include <stdbool.h>
#include <stdint.h>

struct rundir;

/*
 * Opens (creates when only the last component is missing), checks owner and
 * mode, takes the lock, sweeps leftovers: older generations go to the trash,
 * the newest of each partition is kept as a candidate for adoption.
 * reader_group "" = leave the group as it is.
 * 0, or a negative ERR_* with one line in `why`.
 */
int rundir_open(const char *path, const char *reader_group, struct rundir **out, char why[512]);

/* Also ends the unlinking thread, after it has emptied the trash. */
void rundir_close(struct rundir **rundir);

int rundir_fd(const struct rundir *rundir); /* borrowed */

/* The newest leftover generation of a partition; 0 = none.  Taken: it is the caller's now. */
uint64_t rundir_take_leftover(struct rundir *rundir, uint32_t partition);

/* Evicts every leftover that was not taken.  Returns how many. */
unsigned rundir_evict_leftovers(struct rundir *rundir);

/* Makes the directory of a new generation. */
int rundir_new_generation(struct rundir *rundir, uint32_t partition, uint64_t *generation);

/*
 * Renames a generation's directory to the trash and wakes the thread that
 * unlinks it.  From here on no path leads to it.  A missing one is no error.
 */
int rundir_evict(struct rundir *rundir, uint32_t partition, uint64_t generation);

#endif
