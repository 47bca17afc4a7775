/*
 * apply.h - one record of the log into the batch.
 */
#ifndef TALLY_WORKER_APPLY_H
#define TALLY_WORKER_APPLY_H

#include <stdint.h>

#include "source.h"

#include "shm/handoff.h"
#include "shm/record.h"
#include "shm/usage.h"

/*
 * Decodes and adds it, or counts why not; returns the reason.  Whatever the
 * record is made of, it is counted exactly once and never stops the partition.
 */
enum skip_reason apply_record(struct usage *usage, const struct handoff *handoff,
	const struct source_event *event, int64_t now_ms);

#endif
