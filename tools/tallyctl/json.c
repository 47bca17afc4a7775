/*
 * json.c - the same facts, exactly.
 *
 * 64-bit hashes are strings; counts beyond 2^63 - 1 are cut to that.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"

json_t *ctl_json(const struct ctl *ctl)
{
	json_t *object = json_object();
	ctl_json_text(object, "run_dir", ctl->run_dir);
	json_object_set_new(object, "alive", json_boolean(ctl->instance.alive));
	json_object_set_new(object, "stale", json_boolean(!ctl->instance.alive));
	ctl_json_int(object, "now_ms", tally_now_ms(ctl->tally));
	return object;
}

void ctl_json_print(json_t *object)
{
	/* Pure ASCII: it may go to a terminal, and names may hold anything. */
	char *text = json_dumps(object, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	if (!text)
		abort(); /* out of memory: all texts were checked when they were put in */
	puts(text);
	free(text);
	json_decref(object);
}

void ctl_json_int(json_t *object, const char *key, int64_t value)
{
	json_object_set_new(object, key, json_integer(value));
}

void ctl_json_known(json_t *object, const char *key, int64_t value)
{
	json_object_set_new(object, key, value < 0 ? json_null() : json_integer(value));
}

void ctl_json_count(json_t *object, const char *key, uint64_t value)
{
	ctl_json_int(object, key, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

/* A path may hold bytes that are not UTF-8: those become null. */
void ctl_json_text(json_t *object, const char *key, const char *value)
{
	json_t *text = json_string(value);
	json_object_set_new(object, key, text ? text : json_null());
}

void ctl_json_hash(json_t *object, uint64_t hash)
{
	char text[24];
	snprintf(text, sizeof text, "%" PRIu64, hash);
	ctl_json_text(object, "hash", text);
	snprintf(text, sizeof text, "0x%016" PRIx64, hash);
	ctl_json_text(object, "hash_hex", text);
}

void ctl_json_basis(json_t *object, const struct tally_basis *basis)
{
	json_t *to = json_object();
	ctl_json_count(to, "partitions", basis->partitions);
	ctl_json_count(to, "owned", basis->owned);
	ctl_json_count(to, "answered", basis->answered);
	ctl_json_count(to, "partial", basis->partial);
	if (basis->counted_to_ms > 0)
		ctl_json_count(to, "counted_to_ms", (uint64_t)basis->counted_to_ms);
	json_object_set_new(to, "complete", json_boolean(basis->complete));
	json_object_set_new(to, "stale", json_boolean(basis->stale));
	json_object_set_new(object, "basis", to);
	if (basis->stale)
		json_object_set_new(object, "stale", json_true());
}

json_t *ctl_json_usage(const struct tally_usage *usage)
{
	json_t *object = json_object();
	ctl_json_text(object, "tenant", usage->tenant);
	ctl_json_count(object, "streams", usage->streams);
	ctl_json_count(object, "bytes", usage->bytes);
	ctl_json_count(object, "policies", usage->policies);
	json_object_set_new(object, "bytes_per_sec", json_real(usage->bytes_per_sec));
	return object;
}
