/*
 * ask_send.c - the part of a question that needs a write: claims, messages, verdicts.
 *
 *	not active -> claim per bucket -> granted k -> k streams, by partition -> ADMIT -> verdicts
 *	                    '----------- full -> looked up once more -> refused
 *
 * Exactly as many streams are sent as were granted, so each has its budget.  The
 * claims of a question keep the order of its streams.
 *
 * Runs in: queryd, asker thread.  Blocks in: nowhere.
 */
#include <stdlib.h>
#include <string.h>

#include "ask_private.h"

#include "shm/check.h"

#define NO_CLAIM   UINT32_MAX
#define NOT_LOOKED (UINT32_MAX - 1)

/* ------------------------------------------------------------------ messages */

static void forget_message(struct ask_message *message)
{
	struct ask_work *work = message->work;
	if (!work)
		return;
	*(message->prev ? &message->prev->next : &work->messages) = message->next;
	if (message->next)
		message->next->prev = message->prev;
	message->work = NULL;
}

static void set_results(
	struct ask_work *work, const uint32_t *streams, size_t n, enum ask_result result)
{
	for (size_t i = 0; i < n; i++)
		work->ask->streams[streams[i]].result = result;
}

/* So many of `streams` go into asker->question: its policies have to have room. */
static size_t fill_question(struct ask_work *work, const uint32_t *streams, size_t n)
{
	struct asker *asker = work->asker;
	struct admit_question *question = &asker->question;
	bool policies = question->kind != ADMIT_RATE;
	size_t i;
	question->n_policies = 0;
	if (n > ADMIT_STREAMS_MAX)
		n = ADMIT_STREAMS_MAX;
	for (i = 0; i < n; i++) {
		const struct ask_stream *stream = &work->ask->streams[streams[i]];
		uint32_t policy = work->policy[streams[i]];
		uint32_t at = policies ? work->policy_mark[policy] : 0;
		if (policies && (at >= question->n_policies ||
					question->policy[at].name.text != work->policies[policy])) {
			if (question->n_policies == ADMIT_POLICIES_MAX)
				break;
			at = work->policy_mark[policy] = question->n_policies++;
			question->policy[at] = (struct admit_policy){
				.name = {.text = work->policies[policy],
					.len = (uint16_t)strlen(work->policies[policy])}};
		}
		asker->streams[i] = (struct admit_stream){
			.hash = stream->hash, .bytes = stream->bytes, .policy = (uint16_t)at};
	}
	question->n_streams = (uint32_t)i;
	question->streams = asker->streams;
	return i;
}

/* What a message is for, and what it may let in. */
struct errand {
	enum ask_purpose purpose;
	struct ledger_bucket *bucket; /* NULL unless for a budget */
	bool limited;		      /* as many as it has streams; false: any number */
};

static struct ask_message *new_message(
	struct ask_work *work, const uint32_t *streams, size_t n, const struct errand *errand)
{
	struct ask_message *message = malloc(sizeof(*message) + n * sizeof(*message->stream));
	must_get(message);
	*message = (struct ask_message){
		.link = {.id = links_next_id(work->asker->links)},
		.work = work,
		.next = work->messages,
		.purpose = errand->purpose,
		.bucket = errand->bucket,
		.reserved = errand->limited ? n : 0,
		.n = (uint32_t)n,
	};
	memcpy(message->stream, streams, n * sizeof(*streams));
	if (message->bucket)
		ledger_hold(message->bucket);
	if (work->messages)
		work->messages->prev = message;
	work->messages = message;
	return message;
}

static void end_message(struct asker *asker, struct ask_message *message, uint64_t used)
{
	struct ask_work *work = message->work;
	size_t n = message->n;
	if (message->bucket) {
		if (message->reserved)
			ledger_return(asker->ledger, message->bucket, message->reserved,
				used < message->reserved ? used : message->reserved);
		ledger_release(message->bucket);
	}
	forget_message(message);
	free(message);
	if (work)
		ask_closed(work, n);
}

static uint64_t budget_of(const struct errand *errand, size_t n)
{
	if (errand->purpose == FOR_RENEWAL)
		return 0;
	return errand->limited ? n : ADMIT_NO_LIMIT;
}

/* One message of the first of these streams, all of one part.  How many it took. */
static size_t send_message(struct ask_work *work, const struct ask_part *part,
	const uint32_t *streams, size_t n, const struct errand *errand)
{
	struct asker *asker = work->asker;
	struct admit_question *question = &asker->question;
	question->kind = errand->purpose == FOR_RATES ? ADMIT_RATE : ADMIT_ADMIT;
	question->generation = part->generation;
	question->seen_ms = work->seen_ms;
	question->tenant.text = work->ask->tenant;
	question->tenant.len = (uint16_t)strlen(work->ask->tenant);
	size_t taken = fill_question(work, streams, n);
	question->n_buckets = question->kind == ADMIT_ADMIT;
	question->budget[0] = budget_of(errand, taken);
	struct ask_message *message = new_message(work, streams, taken, errand);
	message->partition = part->partition;
	question->id = message->link.id;
	size_t len = admit_pack(question, asker->packed);
	must(len);
	enum link_result result = links_ask(asker->links, part->partition, part->generation,
		asker->packed, len, &message->link);
	if (result == LINK_OK)
		return taken;
	set_results(work, streams, taken, result == LINK_GONE ? ASK_UNSERVED : ASK_FAILED);
	end_message(asker, message, 0);
	return taken;
}

static void send_part(struct ask_work *work, const struct ask_part *part, const uint32_t *streams,
	size_t n, const struct errand *errand)
{
	while (n) {
		size_t taken = send_message(work, part, streams, n, errand);
		streams += taken;
		n -= taken;
	}
}

/* These streams of any parts. */
static void send_streams(
	struct ask_work *work, const uint32_t *streams, size_t n, const struct errand *errand)
{
	ask_group(work, streams, n);
	for (size_t p = 0; p < work->n_parts; p++)
		send_part(work, &work->parts[p], work->grouped + work->parts[p].from,
			work->parts[p].count, errand);
}

void ask_send_rates(struct ask_work *work)
{
	work->open += work->n;
	for (size_t i = 0; i < work->n_parts; i++) {
		struct ask_part *part = &work->parts[i];
		if (part->generation)
			send_part(work, part, work->order + part->first, part->n,
				&(struct errand){.purpose = FOR_RATES});
		else
			ask_closed(work, part->n); /* they have got their results */
	}
}

/* They are active, so no budget is needed: with none, nobody comes in who is not. */
void ask_renew(struct ask_work *work)
{
	size_t n = 0;
	for (size_t i = 0; i < work->n; i++)
		if (work->state[i] == STREAM_TO_RENEW)
			work->candidate[n++] = (uint32_t)i;
	work->open += n;
	send_streams(work, work->candidate, n, &(struct errand){.purpose = FOR_RENEWAL});
}

/* ------------------------------------------------------------------ verdicts */

static enum ask_result result_of(uint8_t verdict)
{
	switch (verdict) {
	case ADMIT_KNOWN:
	case ADMIT_NEW:
		return ASK_ACCEPTED;
	case ADMIT_REJECTED:
		return ASK_REJECTED;
	default:
		return ASK_FAILED;
	}
}

/* A stream without a budget that its worker finds expired is claimed for, later. */
static void take_verdict(struct ask_message *message, uint32_t stream, uint8_t verdict)
{
	struct ask_work *work = message->work;
	bool expired = message->purpose == FOR_RENEWAL && verdict == ADMIT_REJECTED;
	work->ask->streams[stream].result = expired ? ASK_FAILED : result_of(verdict);
	work->state[stream] = expired ? STREAM_TO_CLAIM : STREAM_SETTLED;
	work->again += expired;
}

/* How many of its streams are new. */
static uint64_t take_verdicts(struct ask_message *message, const struct admit_answer *answer)
{
	uint64_t used = 0;
	for (uint32_t i = 0; i < message->n; i++) {
		used += answer->verdicts[i] == ADMIT_NEW;
		if (message->work)
			take_verdict(message, message->stream[i], answer->verdicts[i]);
	}
	return used;
}

static void take_rates(struct ask_message *message, const struct admit_answer *answer)
{
	struct ask_work *work = message->work;
	for (uint32_t i = 0; work && i < message->n; i++) {
		struct ask_stream *stream = &work->ask->streams[message->stream[i]];
		stream->result = ASK_ACCEPTED;
		stream->rate = admit_rate_at(answer, i);
	}
}

/* What was sent and not answered may have been done: it counts until the map is read again. */
static uint64_t take_no_answer(struct ask_message *message)
{
	if (message->work)
		set_results(message->work, message->stream, message->n,
			message->link.sent ? ASK_FAILED : ASK_UNSERVED);
	return message->link.sent ? message->reserved : 0;
}

void ask_answered(struct link_message *link, const struct admit_answer *answer, void *arg)
{
	struct ask_message *message = (struct ask_message *)link;
	enum admit_kind kind = message->purpose == FOR_RATES ? ADMIT_RATE : ADMIT_ADMIT;
	uint64_t used = 0;
	if (!answer || answer->asked != kind ||
		(answer->status == ADMIT_DONE && answer->n != message->n))
		used = take_no_answer(message);
	else if (answer->status != ADMIT_DONE && message->work)
		set_results(message->work, message->stream, message->n,
			answer->status == ADMIT_NOT_READY ? ASK_UNSERVED : ASK_FAILED);
	else if (answer->status == ADMIT_DONE && kind == ADMIT_ADMIT)
		used = take_verdicts(message, answer);
	else if (answer->status == ADMIT_DONE)
		take_rates(message, answer);
	end_message(arg, message, used);
}

/* ------------------------------------------------------------------ claims */

/* Refused, but for those that have become active since they were looked up. */
static void refuse_rest(struct ask_work *work, const uint32_t *streams, size_t n)
{
	uint64_t rejected = 0;
	ask_group(work, streams, n);
	for (size_t p = 0; p < work->n_parts; p++) {
		const struct ask_part *part = &work->parts[p];
		const uint32_t *mine = work->grouped + part->from;
		uint64_t *hashes = work->hash; /* nobody needs what is in it any more */
		uint8_t *active = work->active;
		if (!part->count || !ask_look_up(work, part, mine, part->count, hashes, active))
			continue;
		for (size_t i = 0; i < part->count; i++) {
			work->state[mine[i]] = active[i] ? STREAM_IN_MAP : STREAM_SETTLED;
			work->ask->streams[mine[i]].result =
				active[i] ? ASK_ACCEPTED : ASK_REJECTED;
			rejected += !active[i];
		}
	}
	refusals_add(work->asker->refusals, work->ask->tenant, rejected, 0);
}

static void claim_decided(
	struct ledger_claim *base, enum ledger_verdict verdict, uint64_t granted, uint64_t beyond)
{
	struct ask_claim *claim = (struct ask_claim *)base;
	struct ask_work *work = claim->work;
	struct ledger_bucket *bucket = base->bucket;
	bool limited = verdict == LEDGER_GRANTED;
	const uint32_t *streams = work->candidate + claim->next;
	size_t n = limited ? granted : claim->end - claim->next;
	bool over = claim->next + n == claim->end;
	claim->next += n;
	claim->queued = !over;
	if (beyond)
		refusals_add(work->asker->refusals, work->ask->tenant, 0, beyond);
	if (limited || verdict == LEDGER_UNLIMITED) {
		send_streams(work, streams, n,
			&(struct errand){
				.purpose = FOR_BUDGET, .bucket = bucket, .limited = limited});
	} else if (verdict == LEDGER_FULL && n > ASK_SLICE) {
		claim->to_refuse = n;
		ask_refuse_later(work);
	} else {
		if (verdict == LEDGER_FULL)
			refuse_rest(work, streams, n);
		ask_closed(work, n); /* failed, if not */
	}
	if (over)
		ledger_release(bucket);
}

bool ask_refuse_some(struct ask_work *work, size_t max)
{
	for (size_t i = 0; i < work->n_claims; i++) {
		struct ask_claim *claim = &work->claims[i];
		size_t n = claim->to_refuse < max ? claim->to_refuse : max;
		if (!claim->to_refuse)
			continue;
		if (!n)
			return false;
		refuse_rest(work, work->candidate + claim->end - claim->to_refuse, n);
		claim->to_refuse -= n;
		max -= n;
		ask_closed(work, n);
		if (claim->to_refuse)
			return false;
	}
	return true;
}

static uint32_t claim_on(struct ask_work *work, struct ledger_bucket *bucket)
{
	uint32_t *note = ledger_note(bucket);
	if (*note < work->n_claims && work->claims[*note].claim.bucket == bucket)
		return *note;
	if (work->n_claims == work->claims_cap) {
		work->claims_cap = work->claims_cap ? work->claims_cap * 2 : 8;
		work->claims = reallocarray(work->claims, work->claims_cap, sizeof(*work->claims));
		must_get(work->claims);
	}
	ledger_hold(bucket);
	work->claims[work->n_claims] = (struct ask_claim){
		.claim = {.bucket = bucket, .decided = claim_decided}, .work = work};
	return *note = (uint32_t)work->n_claims++;
}

static uint32_t claim_for(struct ask_work *work, int32_t partition, const char *policy)
{
	struct ledger_bucket *bucket;
	if (ledger_bucket(work->asker->ledger, work->ask->tenant, partition, policy, &bucket))
		return NO_CLAIM;
	uint32_t claim = claim_on(work, bucket);
	ledger_release(bucket); /* the claim holds it */
	return claim;
}

static void forget_marks(struct ask_work *work)
{
	for (size_t i = 0; i < work->n_policies; i++)
		work->policy_mark[i] = NOT_LOOKED;
}

/* Gives each open stream the claim of its bucket; the streams in the order given. */
static void choose_claims(
	struct ask_work *work, int32_t partition, const uint32_t *streams, size_t n)
{
	for (size_t i = 0; i < n; i++) /* of another partition: another bucket */
		work->policy_mark[work->policy[streams ? streams[i] : i]] = NOT_LOOKED;
	for (size_t i = 0; i < n; i++) {
		uint32_t stream = streams ? streams[i] : (uint32_t)i;
		uint32_t policy = work->policy[stream];
		work->claim_of[stream] = NO_CLAIM;
		if (work->state[stream] != STREAM_OPEN)
			continue;
		work->state[stream] = STREAM_SETTLED;
		if (work->policy_mark[policy] == NOT_LOOKED)
			work->policy_mark[policy] =
				claim_for(work, partition, work->policies[policy]);
		work->claim_of[stream] = work->policy_mark[policy];
		if (work->claim_of[stream] != NO_CLAIM)
			work->claims[work->claim_of[stream]].end++;
	}
}

/* Puts the streams of each claim together, in the order of the question. */
static void lay_out(struct ask_work *work)
{
	size_t at = 0;
	for (size_t i = 0; i < work->n_claims; i++) {
		size_t n = work->claims[i].end;
		work->claims[i].next = work->claims[i].end = at;
		at += n;
	}
	for (size_t i = 0; i < work->n; i++)
		if (work->claim_of[i] != NO_CLAIM)
			work->candidate[work->claims[work->claim_of[i]].end++] = (uint32_t)i;
	work->open += at;
}

void ask_claim_all(struct ask_work *work)
{
	struct ledger *ledger = work->asker->ledger;
	bool by_partition;
	work->n_claims = 0;
	if (ledger_by_partition(ledger, work->ask->tenant, &by_partition))
		return; /* all of them failed */
	if (!by_partition)
		choose_claims(work, -1, NULL, work->n);
	for (size_t p = 0; by_partition && p < work->n_parts; p++) {
		const struct ask_part *part = &work->parts[p];
		choose_claims(work, (int32_t)part->partition, work->order + part->first, part->n);
	}
	forget_marks(work);
	lay_out(work);
	for (size_t i = 0; i < work->n_claims; i++) {
		struct ask_claim *claim = &work->claims[i];
		claim->claim.want = claim->end - claim->next;
		claim->queued = true;
		ledger_claim(ledger, &claim->claim);
	}
}

void ask_abandon(struct ask_work *work)
{
	while (work->messages) {
		struct ask_message *message = work->messages;
		/* What a worker has not taken yet is not asked any more: its budget is free. */
		if (links_withdraw(work->asker->links, message->partition, &message->link))
			end_message(work->asker, message, 0);
		else
			forget_message(message);
	}
	for (size_t i = 0; i < work->n_claims; i++) {
		struct ask_claim *claim = &work->claims[i];
		if (!claim->queued)
			continue;
		claim->queued = false;
		ledger_withdraw(work->asker->ledger, &claim->claim);
		ledger_release(claim->claim.bucket);
	}
	work->n_claims = 0;
}
