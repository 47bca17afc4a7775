/*
 * admit.h - admit.sock: questions into the batch, answers after its commit.
 *
 *	query process --TOUCH, ADMIT, RATE--> admit --> usage (batch)
 *	                                        |  admit_waiting: commit now
 *	              <------- ANSWER --- admit_answer(0 | why not)
 */
#ifndef TALLY_WORKER_ADMIT_H
#define TALLY_WORKER_ADMIT_H

#include <ev.h>
#include <stdbool.h>

#include "facts.h"
#include "now.h"

#include "shm/handoff.h"
#include "shm/usage.h"

struct admit;

/* All kept. */
struct admit_options {
	const struct handoff *handoff;
	const char *path; /* generation directory; borrowed */
	struct usage *usage;
	struct facts *facts;
	struct now *now;
	struct ev_loop *loop;
	/* 0: questions may be put into the batch.  Else ERR_NOT_READY, ERR_FULL, ERR_LEASE. */
	int (*may_ask)(void *arg);
	/* Touches have come: they are committed with what else is due. */
	void (*touched)(void *arg);
	void *arg;
};

/* Listens.  Ends the process when it cannot: a worker that nobody can ask is no use. */
void admit_open(const struct admit_options *options, struct admit **out);

/* Somebody waits for an answer: commit, then admit_answer. */
bool admit_waiting(const struct admit *admit);

/* The same, but a commit has been made since: only answers are missing. */
bool admit_judged(const struct admit *admit);

/*
 * After the commit: err 0, and the verdicts are in usage; else nothing was done of
 * what has not been judged before, and the reason why.  Ends the questions
 * (usage_questions_end).
 */
void admit_answer(struct admit *admit, int err);

#endif
