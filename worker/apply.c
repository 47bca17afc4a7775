/*
 * apply.c - one record of the log into the batch.
 *
 *	event -> on the quarantine list? -> kept aside, counted
 *	      -> record_decode -> bad?    -> counted by reason
 *	      -> usage_add                -> added, or counted by reason
 *
 * Runs in: worker, main thread.  Blocks in: nowhere.
 */
#include "apply.h"

#include <stdlib.h>
#include <string.h>

#include "shm/check.h"
#include "shm/fault.h"
#include "shm/log.h"

#define KEY_LEN_SIZE 4

static bool is_quarantined(const struct handoff *handoff, int64_t offset)
{
	for (uint32_t i = 0; i < handoff->n_quarantine; i++)
		if (handoff->quarantine[i] == offset)
			return true;
	return false;
}

/* Kept as { length of the key : 4, big-endian; key; value }. */
static void quarantine(struct usage *usage, const struct source_event *event)
{
	size_t len = KEY_LEN_SIZE + event->key_len + event->value_len;
	uint8_t *raw = malloc(len);

	must_get(raw);
	for (int i = 0; i < KEY_LEN_SIZE; i++)
		raw[i] = (uint8_t)(event->key_len >> (24 - 8 * i));
	if (event->key_len)
		memcpy(raw + KEY_LEN_SIZE, event->key, event->key_len);
	if (event->value_len)
		memcpy(raw + KEY_LEN_SIZE + event->key_len, event->value, event->value_len);
	usage_quarantine(usage, event->offset, (struct store_bytes){raw, len});
	FAULT("quarantine.kept");
	free(raw);
	log_warn("replay.quarantined", "offset=%lld bytes=%zu", (long long)event->offset, len);
}

enum skip_reason apply_record(struct usage *usage, const struct handoff *handoff,
	const struct source_event *event, int64_t now_ms)
{
	struct record record;
	enum skip_reason reason;

	if (is_quarantined(handoff, event->offset)) {
		quarantine(usage, event);
		return SKIP_QUARANTINED;
	}
	reason = record_decode(event->value, event->value_len, &record);
	if (reason != SKIP_NONE) {
		usage_skip(usage, reason);
		return reason;
	}
#ifdef TALLY_TEST_POISON
	/* The one trap for tests of the quarantine; a variant of the program, never the program. */
	if (record.tenant_len == 6 && memcmp(record.tenant, "poison", 6) == 0)
		abort();
#endif
	record.timestamp_ms = event->timestamp_ms;
	record.offset = event->offset;
	record_source(event->header, event->header_len, &record);
	return usage_add(usage, &record, now_ms);
}
