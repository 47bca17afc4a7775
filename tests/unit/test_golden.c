/*
 * test_golden.c - the bytes on the wire, held against those that Google's protobuf writes.
 *
 *	tests/golden/golden.txt:  hex --our decoder--> text, as it says
 *	                          hex <--our encoder-- the same text
 *
 * Ours are protobuf-c's for all messages of limits.proto, and shm/record.c for
 * records.  The format of a line is in the head of golden.py.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shm/record.h"
#include "tools/queryd/limits.pb-c.h"

#define GOLDEN_FILE "tests/golden/golden.txt"

struct line {
	char *way, *message, *name, *text, *hex;
	uint8_t *bytes;
	size_t len;
};

static const ProtobufCMessageDescriptor *const descriptors[] = {
	&proto__stream_metadata__descriptor,
	&proto__exceeds_limits_request__descriptor,
	&proto__exceeds_limits_response__descriptor,
	&proto__exceeds_limits_result__descriptor,
	&proto__get_assigned_partitions_request__descriptor,
	&proto__get_assigned_partitions_response__descriptor,
	&proto__update_rates_request__descriptor,
	&proto__update_rates_response__descriptor,
	&proto__update_rates_result__descriptor,
	&proto__stream_metadata_record__descriptor,
};
#define DESCRIPTORS (sizeof(descriptors) / sizeof(*descriptors))

/* --- the file -------------------------------------------------------------------------------- */

static void unhex(struct line *line)
{
	size_t n = strlen(line->hex) / 2;

	line->bytes = malloc(n + 1);
	for (line->len = 0; line->len < n; line->len++)
		if (sscanf(line->hex + 2 * line->len, "%2hhx", &line->bytes[line->len]) != 1)
			fail_msg("%s %s: no hex", line->message, line->name);
}

/* Calls `check` for each line of `message` (NULL = of any); how many there were. */
static unsigned each_line(const char *message, void (*check)(const struct line *line))
{
	FILE *in = fopen(GOLDEN_FILE, "r");
	char *text = NULL;
	size_t size = 0;
	unsigned n = 0;

	if (!in)
		fail_msg("%s cannot be opened: run this from the project's root", GOLDEN_FILE);
	while (getline(&text, &size, in) > 0) {
		char *rest = text;
		struct line line = {0};

		if (text[0] == '#')
			continue;
		text[strcspn(text, "\n")] = '\0';
		line.way = strsep(&rest, "\t");
		line.message = strsep(&rest, "\t");
		line.name = strsep(&rest, "\t");
		line.text = strsep(&rest, "\t");
		line.hex = strsep(&rest, "\t");
		assert_non_null(line.hex);
		if (message && strcmp(line.message, message) != 0)
			continue;
		unhex(&line);
		check(&line);
		free(line.bytes);
		n++;
	}
	free(text);
	fclose(in);
	return n;
}

static void expect_bytes(const struct line *line, const uint8_t *bytes, size_t len)
{
	char *hex = calloc(2, len + 1);

	for (size_t i = 0; i < len; i++)
		sprintf(hex + 2 * i, "%02x", bytes[i]);
	if (len != line->len || memcmp(bytes, line->bytes, len) != 0)
		fail_msg("%s %s: encoded to\n%s\ninstead of\n%s", line->message, line->name, hex,
			line->hex);
	free(hex);
}

static void expect_text(const struct line *line, const char *text)
{
	if (strcmp(text, line->text) != 0)
		fail_msg("%s %s: decoded to\n%s\ninstead of\n%s", line->message, line->name, text,
			line->text);
}

/* --- a message as text ----------------------------------------------------------------------- */

static void write_name(FILE *out, const char *name, bool *first)
{
	fprintf(out, "%s%s=", *first ? "" : " ", name);
	*first = false;
}

static void write_hex(FILE *out, const void *bytes, size_t len)
{
	fputc('<', out);
	for (size_t i = 0; i < len; i++)
		fprintf(out, "%02x", ((const uint8_t *)bytes)[i]);
	fputc('>', out);
}

static bool is_default(const ProtobufCFieldDescriptor *field, const void *at)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_INT64:
		return *(const uint64_t *)at == 0;
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_INT32:
		return *(const uint32_t *)at == 0;
	case PROTOBUF_C_TYPE_STRING:
		return **(const char *const *)at == '\0';
	case PROTOBUF_C_TYPE_MESSAGE:
		return *(const void *const *)at == NULL;
	default:
		fail_msg("a type that limits.proto does not have: %d", (int)field->type);
	}
	return true;
}

static void write_message(FILE *out, const ProtobufCMessage *message);

static void write_value(FILE *out, const ProtobufCFieldDescriptor *field, const void *at)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_UINT64:
		fprintf(out, "%" PRIu64, *(const uint64_t *)at);
		break;
	case PROTOBUF_C_TYPE_INT64:
		fprintf(out, "%" PRId64, *(const int64_t *)at);
		break;
	case PROTOBUF_C_TYPE_UINT32:
		fprintf(out, "%" PRIu32, *(const uint32_t *)at);
		break;
	case PROTOBUF_C_TYPE_INT32:
		fprintf(out, "%" PRId32, *(const int32_t *)at);
		break;
	case PROTOBUF_C_TYPE_STRING:
		write_hex(out, *(const char *const *)at, strlen(*(const char *const *)at));
		break;
	default:
		fputc('{', out);
		write_message(out, *(const ProtobufCMessage *const *)at);
		fputc('}', out);
	}
}

/* All but the key and value of a map are left out at their defaults. */
static void write_message(FILE *out, const ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *d = message->descriptor;
	bool entry =
		d ==
		&proto__get_assigned_partitions_response__assigned_partitions_entry__descriptor;
	bool first = true;

	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &d->fields[i];
		const char *at = (const char *)message + field->offset;

		if (field->label == PROTOBUF_C_LABEL_REPEATED) {
			size_t n =
				*(const size_t *)((const char *)message + field->quantifier_offset);

			for (size_t j = 0; j < n; j++) {
				write_name(out, field->name, &first);
				write_value(
					out, field, *(const char *const *)at + j * sizeof(void *));
			}
		} else if (entry || !is_default(field, at)) {
			write_name(out, field->name, &first);
			write_value(out, field, at);
		}
	}
}

/* --- protobuf-c ------------------------------------------------------------------------------ */

static unsigned seen[DESCRIPTORS];

static void check_message(const struct line *line)
{
	ProtobufCMessage *message;
	char *text = NULL;
	uint8_t *again;
	size_t size = 0, d = 0;
	FILE *out;

	if (strcmp(line->message, "tally") == 0)
		return;
	/* protobuf-c loses what a second `metadata` does not repeat: records are record.c's. */
	if (strcmp(line->name, "metadata-merged") == 0)
		return;
	while (d < DESCRIPTORS && strcmp(descriptors[d]->short_name, line->message) != 0)
		d++;
	if (d == DESCRIPTORS)
		fail_msg("no message %s", line->message);
	message = protobuf_c_message_unpack(descriptors[d], NULL, line->len, line->bytes);
	if (!message)
		fail_msg("%s %s cannot be decoded", line->message, line->name);
	out = open_memstream(&text, &size);
	write_message(out, message);
	fclose(out);
	expect_text(line, text);
	again = malloc(protobuf_c_message_get_packed_size(message) + 1);
	if (*line->way == '=')
		expect_bytes(line, again, protobuf_c_message_pack(message, again));
	protobuf_c_message_free_unpacked(message, NULL);
	free(again);
	free(text);
	seen[d]++;
}

static void messages_are_as_google_writes_them(void **state)
{
	(void)state;
	each_line(NULL, check_message);
	for (size_t d = 0; d < DESCRIPTORS; d++)
		if (seen[d] < 2)
			fail_msg("%s has %u lines", descriptors[d]->short_name, seen[d]);
}

/* --- record.c -------------------------------------------------------------------------------- */

static void write_record(FILE *out, const struct record *r)
{
	bool first = true, inner = true;

	if (r->zone_len) {
		write_name(out, "zone", &first);
		write_hex(out, r->zone, r->zone_len);
	}
	write_name(out, "tenant", &first);
	write_hex(out, r->tenant, r->tenant_len);
	write_name(out, "metadata", &first);
	fputc('{', out);
	if (r->hash) {
		write_name(out, "streamHash", &inner);
		fprintf(out, "%" PRIu64, r->hash);
	}
	if (r->size) {
		write_name(out, "totalSize", &inner);
		fprintf(out, "%" PRIu64, r->size);
	}
	if (r->policy_len) {
		write_name(out, "ingestionPolicy", &inner);
		write_hex(out, r->policy, r->policy_len);
	}
	fputc('}', out);
}

static void check_record(const struct line *line)
{
	uint8_t buf[4096];
	struct record r = {0};
	char *text = NULL;
	size_t size = 0;
	FILE *out;

	assert_int_equal(record_decode(line->bytes, line->len, &r), SKIP_NONE);
	out = open_memstream(&text, &size);
	write_record(out, &r);
	fclose(out);
	expect_text(line, text);
	if (*line->way == '=')
		expect_bytes(line, buf, record_encode(&r, buf, sizeof(buf)));
	free(text);
}

static void records_are_as_google_writes_them(void **state)
{
	(void)state;
	assert_in_range(each_line("StreamMetadataRecord", check_record), 50, 1000);
}

static void check_header(const struct line *line)
{
	uint8_t buf[RECORD_HEADER_SIZE];
	struct record r = {0};
	char *text = NULL;
	size_t size = 0;
	FILE *out;

	record_source(line->bytes, line->len, &r);
	assert_true(r.has_source);
	out = open_memstream(&text, &size);
	fputs("incarnation=", out);
	write_hex(out, r.incarnation, INCARNATION_SIZE);
	fprintf(out, " sequence=%" PRIu64, r.sequence);
	fclose(out);
	expect_text(line, text);
	record_encode_source(&r, buf);
	expect_bytes(line, buf, sizeof(buf));
	free(text);
}

static void the_header_is_as_it_is_written_down(void **state)
{
	(void)state;
	assert_in_range(each_line("tally", check_header), 3, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_are_as_google_writes_them),
		cmocka_unit_test(records_are_as_google_writes_them),
		cmocka_unit_test(the_header_is_as_it_is_written_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
