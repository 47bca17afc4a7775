/*
 * usage_ask.c - what is asked: it joins the batch, with a ticket for the answer.
 *
 *	usage_budget -> granted[]        usage_commit: left[] = granted[], judged in apply
 *	usage_admit  -> item + ticket -> result[ticket] -> usage_verdict
 *	usage_rate   -> item + ticket -> result[ticket] -> usage_rate_of
 *
 * Budgets are taken from a copy, so that a commit that fails can be made again.
 *
 * Runs in: worker.  Blocks in: nowhere.
 */
#include "shm/usage_private.h"

#include <stdlib.h>
#include <string.h>

#include "shm/check.h"

/* --- in memory ------------------------------------------------------------------------------- */

void asked_begin(struct asked *asked)
{
	asked->left = array_grow(
		asked->left, &asked->left_cap, asked->n_budgets + 1, sizeof(*asked->left));
	if (asked->n_budgets)
		memcpy(asked->left, asked->granted, asked->n_budgets * sizeof(*asked->left));
}

bool asked_take(struct asked *asked, uint32_t ticket)
{
	uint64_t *left = &asked->left[asked->budget[ticket]];

	if (*left == 0)
		return false;
	if (*left != UINT64_MAX)
		(*left)--;
	return true;
}

void asked_clear(struct asked *asked)
{
	asked->n = 0;
	asked->judged = 0;
	asked->n_budgets = 0;
}

void asked_free(struct asked *asked)
{
	free(asked->result);
	free(asked->budget);
	free(asked->granted);
	free(asked->left);
	memset(asked, 0, sizeof(*asked));
}

static uint32_t new_ticket(struct asked *asked, uint32_t budget)
{
	asked->result =
		array_grow(asked->result, &asked->result_cap, asked->n + 1, sizeof(*asked->result));
	asked->budget =
		array_grow(asked->budget, &asked->budget_cap, asked->n + 1, sizeof(*asked->budget));
	asked->result[asked->n] = USAGE_FAILED;
	asked->budget[asked->n] = budget;
	return (uint32_t)asked->n++;
}

/* --- the questions --------------------------------------------------------------------------- */

/* Seen now at the latest, and active in any case: it was when it was asked for. */
static uint32_t seen_at(const struct usage *usage, int64_t seen_ms, int64_t now_ms)
{
	uint32_t window = usage->meta.identity.window_minutes, seen_s = 0;

	if (!window_clamp(seen_ms, now_ms, window, &seen_s))
		(void)window_clamp(now_ms, now_ms, window, &seen_s);
	return seen_s;
}

static struct item *append(struct usage *usage, struct batch *batch,
	const struct usage_stream_asked *asked, enum item_kind kind, int64_t now_ms)
{
	struct item *item = batch_append(batch);

	must(asked->hash % usage->meta.identity.partitions == usage->meta.identity.partition);
	item->hash = asked->hash;
	item->bytes = asked->bytes;
	item->tenant = names_tenant(&usage->names, asked->tenant, asked->tenant_len);
	item->seen_s = seen_at(usage, asked->seen_ms, now_ms);
	item->kind = (uint16_t)kind;
	return item;
}

static struct item *append_stream(struct usage *usage, const struct usage_stream_asked *asked,
	enum item_kind kind, int64_t now_ms)
{
	struct item *item = append(usage, &usage->batch, asked, kind, now_ms);
	bool overflow;

	item->policy = names_policy(
		&usage->names, item->tenant, asked->policy, asked->policy_len, &overflow);
	usage->pending.policy_overflow += overflow;
	return item;
}

uint32_t usage_budget(struct usage *usage, uint64_t streams)
{
	struct asked *asked = &usage->asked;

	asked->granted = array_grow(
		asked->granted, &asked->granted_cap, asked->n_budgets + 1, sizeof(*asked->granted));
	asked->granted[asked->n_budgets] = streams;
	return (uint32_t)asked->n_budgets++;
}

void usage_touch(struct usage *usage, const struct usage_stream_asked *asked, int64_t now_ms)
{
	append_stream(usage, asked, ITEM_TOUCH, now_ms);
}

uint32_t usage_admit(struct usage *usage, const struct usage_stream_asked *asked, uint32_t budget,
	int64_t now_ms)
{
	struct item *item = append_stream(usage, asked, ITEM_ADMIT, now_ms);

	must(budget < usage->asked.n_budgets);
	item->ticket = new_ticket(&usage->asked, budget);
	return item->ticket;
}

uint32_t usage_rate(struct usage *usage, const struct usage_stream_asked *asked, int64_t now_ms)
{
	struct item *item = append(usage, &usage->rates, asked, ITEM_RATE, now_ms);

	item->ticket = new_ticket(&usage->asked, 0);
	return item->ticket;
}

uint32_t usage_judged(const struct usage *usage)
{
	return (uint32_t)usage->asked.judged;
}

enum usage_verdict usage_verdict(const struct usage *usage, uint32_t ticket)
{
	must(ticket < usage->asked.n);
	return (enum usage_verdict)usage->asked.result[ticket];
}

uint64_t usage_rate_of(const struct usage *usage, uint32_t ticket)
{
	must(ticket < usage->asked.n);
	return usage->asked.result[ticket];
}

/* So many names, in the order they came, are committed or needed by the batch. */
static size_t names_used(const struct usage *usage)
{
	const struct names *names = &usage->names;
	size_t used = names->n_committed, at;

	for (size_t i = 0; i < usage->batch.n; i++) {
		const struct item *item = &usage->batch.items[i];

		at = (size_t)(names_by_id(names, 0, item->tenant) - names->names);
		if (at >= used)
			used = at + 1;
		if (item->policy == 0)
			continue;
		at = (size_t)(names_by_id(names, item->tenant + 1, item->policy) - names->names);
		if (at >= used)
			used = at + 1;
	}
	return used;
}

/* The commit has failed.  Names that only the questions had must not be written: they need room. */
static void drop_questions(struct usage *usage)
{
	struct batch *batch = &usage->batch;
	size_t kept = 0;

	for (size_t i = 0; i < batch->n; i++)
		if (batch->items[i].kind != ITEM_ADMIT)
			batch->items[kept++] = batch->items[i];
	batch->n = kept;
	usage->rates.n = 0;
	if (names_pending(&usage->names))
		names_cut(&usage->names, names_used(usage));
}

void usage_questions_end(struct usage *usage)
{
	drop_questions(usage);
	asked_clear(&usage->asked);
}
