/*
 * counts.h - what query processes have counted: a mapped file each, and all of them added up.
 *
 *	process --counts_open, its slot--> query.0.counts --.
 *	process --counts_open, its slot--> query.1.counts --+--counts_sum--> /metrics of any of them
 *	one that has ended                 query.2.counts --'
 *
 * A slot is a file that nobody holds, or a new one; whoever has it holds a lock on it for life, so it
 * has one writer.  A process goes on from what its predecessor in the slot has left: counters never
 * fall, not when one is killed, and not when tallyd starts again in the same run directory.
 * Which slot a process gets does not matter to a sum.
 *
 * Counters of questions and HTTP answers are added to where they lie (relaxed atomics, as they
 * would be in memory of one's own).  The others are put there once a second and at each scrape.
 *
 * A process that cannot have a slot counts in memory of its own, and says so in its log.
 */
#ifndef TALLY_QUERYD_COUNTS_H
#define TALLY_QUERYD_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "access.h"
#include "answer.h"
#include "asker.h"
#include "grpc.h"
#include "peers.h"
#include "refusals.h"
#include "totals.h"

#define COUNTS_SLOTS   64
#define COUNTS_VERSION 1
#define COUNTS_NAME    "query.%u.counts" /* in run_dir; mode 0600 */

struct counts;

/*
 * All that is counted, in the order in which it lies in the file.  What is not said in counts.c to be
 * something else is a counter, and the sum of all slots.
 */
struct counted {
	struct asker_facts ask;
	struct grpc_facts grpc;
	struct peers_facts peers;
	struct totals_sum totals;
	struct counted_http {
		uint64_t started_ms; /* Unix: the process that started last */
		uint64_t rebuilt;
		uint64_t connections, accepted, ended_for_room, ended_late;
	} http;
	uint64_t refused[ACCESS_PROTOCOLS][ACCESS_VERDICTS];
	uint64_t answers[ANSWER_ROUTES_MAX + 1][ANSWER_STATUSES];
};

/* Never NULL.  Before anything is given up (privilege.c): it may make a file. */
struct counts *counts_open(const char *run_dir);
void counts_free(struct counts **counts);

/* --- what is written in place ----------------------------------------------------------------- */

struct ask_counts *counts_of_asks(struct counts *counts);
struct refusals_rows *counts_of_refusals(struct counts *counts);
struct refusals_rows *counts_of_accepted(struct counts *counts);
_Atomic uint64_t (*counts_of_answers(struct counts *counts))[ANSWER_STATUSES];

/* --- what is put there now and then ----------------------------------------------------------- */

/* `gather` says what this process has counted since it started; one at a time.  Thread safe. */
void counts_publish(
	struct counts *counts, void (*gather)(void *arg, struct counted *own), void *arg);

/* --- readers: any thread ---------------------------------------------------------------------- */

/* Of all slots, with our own as it is now. */
void counts_sum(const struct counts *counts, struct counted *sum);

/* By tenant, of all slots, in the order of names; given: the caller frees it.  How many. */
enum counts_rows { COUNTS_REFUSED, COUNTS_ACCEPTED };
size_t counts_tenants(
	const struct counts *counts, enum counts_rows rows, struct refusals_of **list);

#endif
