/*
 * fuzz_record.c - a message of the topic -> struct record, and back.
 */
#include "fuzz.h"

static void hold_text(const uint8_t *data, size_t len, const char *text, size_t n, size_t most)
{
	hold(n <= most);
	if (n == 0)
		return;
	hold((const uint8_t *)text >= data && (const uint8_t *)text + n <= data + len);
	hold(record_text_ok(text, n));
}

static void hold_same(const char *a, size_t a_len, const char *b, size_t b_len)
{
	hold(a_len == b_len && (a_len == 0 || memcmp(a, b, a_len) == 0));
}

/* What was understood can be written, and is understood again as the same. */
static void hold_round(const struct record *record, size_t len)
{
	size_t room = len + 64, n;
	uint8_t *bytes = malloc(room);
	struct record again = {0};

	hold(bytes != NULL);
	n = record_encode(record, bytes, room);
	hold(n > 0 && n <= room);
	hold(record_encode(record, bytes, n - 1) == 0);
	hold(record_encode(record, bytes, n) == n);
	hold(record_decode(bytes, n, &again) == SKIP_NONE);
	hold_same(record->zone, record->zone_len, again.zone, again.zone_len);
	hold_same(record->tenant, record->tenant_len, again.tenant, again.tenant_len);
	hold_same(record->policy, record->policy_len, again.policy, again.policy_len);
	hold(record->hash == again.hash && record->size == again.size);
	free(bytes);
}

static void run_source(const uint8_t *data, size_t len)
{
	uint8_t header[RECORD_HEADER_SIZE];
	struct record record = {0};

	record_source(data, len, &record);
	hold(record.has_source == (len == RECORD_HEADER_SIZE));
	if (!record.has_source)
		return;
	record_encode_source(&record, header);
	hold(memcmp(header, data, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct record record = {0};
	enum skip_reason reason = record_decode(data, len, &record);

	run_source(data, len);
	record_text_ok(data, len);
	hold(reason <= SKIP_NO_TENANT);
	if (reason == SKIP_UNDECODABLE)
		return 0;
	hold_text(data, len, record.zone, record.zone_len, len);
	hold_text(data, len, record.tenant, record.tenant_len, RECORD_TENANT_MAX);
	hold_text(data, len, record.policy, record.policy_len, RECORD_POLICY_MAX);
	hold((reason == SKIP_NO_TENANT) <= (record.tenant_len == 0));
	if (reason == SKIP_NONE)
		hold_round(&record, len);
	return 0;
}
