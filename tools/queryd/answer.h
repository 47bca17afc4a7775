/*
 * answer.h - what every answer is made of: status, body, errors, basis.
 *
 * An answer is built whole in memory, checked (seat_still_valid), and sent.
 * The functions that build one return 0 (it is built; an error that the
 * client made is an answer too), a TALLY_E* to be answered by answer_failure,
 * or ANSWER_AGAIN: what was read does not fit together, read it again;
 * or ANSWER_LATER: when the ranking of tenants has been made (question_ranked).
 */
#ifndef TALLY_QUERYD_ANSWER_H
#define TALLY_QUERYD_ANSWER_H

#include <jansson.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "access.h"
#include "ask.h"
#include "body.h"
#include "conns.h"
#include "origin.h"
#include "ranking.h"
#include "request.h"
#include "seats.h"
#include "totals.h"

#include "shm/tally.h"

#define ANSWER_AGAIN 1
#define ANSWER_LATER 2

#define ANSWER_ROUTES_MAX 24
#define ANSWER_STATUSES	  12
#define ANSWER_ETAG_SIZE  24

struct counts;
struct counted;

/* What lives as long as the process. */
struct query {
	const char *run_dir;
	unsigned threads;
	unsigned metrics_tenants;
	bool metrics_loki; /* Loki's names of metrics, too */
	int64_t started_at_ms;
	struct seats *seats;
	struct conns *conns;
	struct totals *totals;
	struct ranking *ranking;
	/* Answers by route (route_index; the last: no route) and status (answer_status_at). */
	_Atomic uint64_t answers[ANSWER_ROUTES_MAX + 1][ANSWER_STATUSES];
	_Atomic uint64_t rebuilt; /* answers built again because a partition left meanwhile */
	_Atomic size_t bodies;	  /* bytes of request bodies that are held */
	struct access *access;	  /* NULL: everybody may ask everything */
	struct origin_rules origins;
	/*
	 * asker_submit: asks, and waits for the answer until the question's deadline.  0: every
	 * stream has its result; else a TALLY_E*.  NULL: no questions that write are taken.
	 */
	int (*ask)(struct asker *asker, struct ask *ask, struct tally *again);
	struct asker *asker;
	_Atomic unsigned asking;   /* threads that wait for an answer of it */
	struct services *services; /* gRPC; NULL: none */
	/*
	 * What all query processes have counted, and where answers are counted in it; NULL: none,
	 * then they are counted in `answers`.
	 */
	struct counts *counts;
	_Atomic uint64_t (*counted)[ANSWER_STATUSES];
	/* asker_counted, or NULL: nothing of these two is in /metrics. */
	void (*gather)(struct asker *asker, struct services *services, struct counted *own);
};

struct question {
	struct query *query;
	struct seat *seat;
	struct request *request;
	struct body *body;	   /* of a POST */
	const char *authorization; /* the header; NULL = none */
	const char *if_none_match; /* the same */
	int fd;			   /* the connection's, for the log */
	uint64_t *pass_no;	   /* that it waits for; NULL: it waits in question_ranked */
};

struct answer {
	unsigned status;
	const char *type; /* of the content; static */
	char *body;	  /* owned, malloc'ed */
	size_t len;
	char etag
		[ANSWER_ETAG_SIZE]; /* of a file of the web page, quoted; "" = an answer of the API */
};

void answer_clear(struct answer *answer);

/* The statuses that answers can have, in a fixed order, for counting; 0 beyond the last. */
unsigned answer_status_at(unsigned index);
unsigned answer_status_index(unsigned status);

/* Takes `json` and makes it the body. */
void answer_json(struct answer *answer, unsigned status, json_t *json);

/* {"error": word, "reason": sentence} */
void answer_error(struct answer *answer, unsigned status, const char *word, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Turns a TALLY_E* into an answer; to be used when nothing better is known. */
void answer_failure(struct answer *answer, const struct query *query, int err);

/* 503 not_ready: no partition can answer. */
void answer_not_ready(struct answer *answer, const struct tally_basis *basis);

/*
 * May whoever asks do what needs one of `needs` (enum token_scope), of this tenant?  false: the
 * answer is 401 or 403.
 */
bool question_allowed(
	const struct question *question, unsigned needs, const char *tenant, struct answer *answer);

/* For what reads the ranking of tenants: 0: it can be read; ANSWER_LATER. */
int question_ranked(struct question *question);

/* The question in the body; NULL: the answer is an error already. */
struct posted *question_posted(struct question *question, struct answer *answer);

/* JSON values.  Text that is not UTF-8 gets '?' for its odd bytes; large numbers saturate. */
json_t *answer_text(const char *text);
json_t *answer_count(uint64_t count);
json_t *answer_basis(const struct tally_basis *basis);

/* --- the answers, one function per route ------------------------------------------------------ */

int answer_page(struct question *question, struct answer *answer);
int answer_page_file(struct question *question, struct answer *answer);
int answer_healthz(struct question *question, struct answer *answer);
int answer_ready(struct question *question, struct answer *answer);
int answer_metrics(struct question *question, struct answer *answer);
int answer_instance(struct question *question, struct answer *answer);
int answer_partitions(struct question *question, struct answer *answer);
int answer_partition(struct question *question, struct answer *answer);
int answer_processes(struct question *question, struct answer *answer);
int answer_tenants(struct question *question, struct answer *answer);
int answer_tenant(struct question *question, struct answer *answer);
int answer_streams(struct question *question, struct answer *answer);
int answer_usage(struct question *question, struct answer *answer);
int answer_limits(struct question *question, struct answer *answer);
int answer_check(struct question *question, struct answer *answer);
int answer_exceeds_loki(struct question *question, struct answer *answer);
int answer_exceeds(struct question *question, struct answer *answer);
int answer_update_rates(struct question *question, struct answer *answer);

/* /api/v1/tenants with q= or sort=: answer_ranked.c. */
int answer_ranked(
	struct question *question, const struct request_page *page, struct answer *answer);

/* All partitions that are not free; *partitions is freed by the caller.  0 or a TALLY_E*. */
int answer_list_partitions(struct tally *tally, struct tally_partition **partitions, size_t *n);

#endif
