/*
 * status.h - the parts of tallyctl status, and what tallyctl top shows of them, too.
 */
#ifndef TALLYCTL_STATUS_H
#define TALLYCTL_STATUS_H

#include "ctl.h"

#define STATUS_NOTES_SIZE   256
#define STATUS_SUMMARY_SIZE 1536

/* --- status_words.c --------------------------------------------------------------------------- */

bool status_replaying(const struct tally_partition *p);

/* "81% (ETA 4.0 s)"; "" when it does not replay. */
void status_replay(const struct tally_partition *p, char *to, size_t size);

/* The last death, what is wrong, what is to come; "-" for nothing. */
void status_notes(const struct ctl *ctl, const struct tally_partition *p, char *to, size_t size);

/* Records in quarantine: told to be passed over, or passed over already. */
uint64_t status_quarantined(const struct tally_partition *p);

/* Broken records, or ones sent to the wrong partition: somebody should look at who writes them. */
uint64_t status_unusable(const struct tally_partition *p);

/* One line that says whether all is well. */
void status_summary(
	const struct ctl *ctl, const struct tally_partition *list, size_t n, char *to, size_t size);

/* --- status_json.c ---------------------------------------------------------------------------- */

void status_json(
	const struct ctl *ctl, const struct tally_partition *list, size_t n, const char *summary);

#endif
