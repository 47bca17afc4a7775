/*
 * test_record.c - record.c against golden bytes, one rule per line, and the
 * rules of UTF-8.  test_record_fuzz.c holds it against protobuf-c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shm/record.h"
#include "utf8.h"

#define BYTES(text) (text), sizeof(text) - 1

static void assert_text(const char *text, size_t len, const char *expected)
{
	assert_int_equal(len, strlen(expected));
	assert_memory_equal(text, expected, len);
}

/* --- golden bytes ---------------------------------------------------------------------------- */

/* zone "z1", tenant "acme", hash 300, size 5, policy "hot" */
#define GOLDEN                                                                                     \
	"\x0a\x02z1\x12\x04"                                                                       \
	"acme\x1a\x0a\x08\xac\x02\x10\x05\x1a\x03hot"

static const struct record golden = {
	.zone = "z1",
	.zone_len = 2,
	.tenant = "acme",
	.tenant_len = 4,
	.policy = "hot",
	.policy_len = 3,
	.hash = 300,
	.size = 5,
};

static void record_decodes_golden_bytes(void **state)
{
	struct record r = {.offset = 7, .timestamp_ms = 8, .has_source = true, .sequence = 9};

	(void)state;
	assert_int_equal(record_decode(BYTES(GOLDEN), &r), SKIP_NONE);
	assert_text(r.zone, r.zone_len, "z1");
	assert_text(r.tenant, r.tenant_len, "acme");
	assert_text(r.policy, r.policy_len, "hot");
	assert_int_equal(r.hash, 300);
	assert_int_equal(r.size, 5);
	assert_int_equal(r.offset, 7); /* what is not in the payload is left alone */
	assert_int_equal(r.timestamp_ms, 8);
	assert_true(r.has_source);
	assert_int_equal(r.sequence, 9);
}

static void record_encodes_golden_bytes(void **state)
{
	uint8_t buf[64];

	(void)state;
	assert_int_equal(record_encode(&golden, buf, sizeof(buf)), sizeof(GOLDEN) - 1);
	assert_memory_equal(buf, GOLDEN, sizeof(GOLDEN) - 1);
}

static void record_encodes_empty_metadata_when_all_is_default(void **state)
{
	struct record r = {.tenant = "t", .tenant_len = 1};
	uint8_t buf[16];

	(void)state;
	assert_int_equal(record_encode(&r, buf, sizeof(buf)), 5);
	assert_memory_equal(buf, "\x12\x01t\x1a\x00", 5);
	assert_int_equal(record_decode(buf, 5, &r), SKIP_NONE);
	assert_int_equal(r.hash, 0);
	assert_int_equal(r.policy_len, 0);
}

static void record_encodes_nothing_when_the_buffer_is_too_small(void **state)
{
	(void)state;
	for (size_t size = 0; size < sizeof(GOLDEN) - 1; size++) {
		uint8_t *exact = malloc(size ? size : 1); /* sanitizers see a byte too much */

		assert_int_equal(record_encode(&golden, exact, size), 0);
		free(exact);
	}
}

static void record_round_trips_when_values_are_extreme(void **state)
{
	static char text[RECORD_TENANT_MAX];
	static const uint64_t number[] = {
		0, 1, 127, 128, 16383, 16384, 1ull << 35, 1ull << 56, 1ull << 63, UINT64_MAX};
	uint8_t buf[1024];

	(void)state;
	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < sizeof(number) / sizeof(*number); i++) {
		struct record out, in = {.tenant = text,
					   .tenant_len = sizeof(text),
					   .policy = text,
					   .policy_len = i % 2 ? sizeof(text) : 127 + i,
					   .hash = number[i],
					   .size = number[9 - i]};
		size_t len = record_encode(&in, buf, sizeof(buf));

		assert_int_not_equal(len, 0);
		assert_int_equal(record_decode(buf, len, &out), SKIP_NONE);
		assert_true(out.hash == in.hash && out.size == in.size);
		assert_int_equal(out.tenant_len, in.tenant_len);
		assert_int_equal(out.policy_len, in.policy_len);
		assert_memory_equal(out.policy, text, out.policy_len);
	}
}

/* --- one rule per line ----------------------------------------------------------------------- */

#define META "\x1a\x02\x08\x07" /* hash 7 */
#define T1   "\x12\x01t"
#define X10  "\xff\xff\xff\xff\xff\xff\xff\xff\xff"

static const struct {
	const char *what, *bytes;
	size_t len;
	enum skip_reason reason;
	uint64_t hash, size;
} rule[] = {
	/* clang-format off */
	{"an empty value",                     BYTES(""),                             SKIP_NO_METADATA, 0, 0},
	{"no metadata, no tenant",             BYTES("\x0a\x01z"),                    SKIP_NO_METADATA, 0, 0},
	{"no metadata",                        BYTES(T1),                             SKIP_NO_METADATA, 0, 0},
	{"no tenant",                          BYTES(META),                           SKIP_NO_TENANT,   7, 0},
	{"an empty tenant",                    BYTES("\x12\x00" META),                SKIP_NO_TENANT,   7, 0},
	{"the last tenant wins, empty too",    BYTES(T1 "\x12\x00" META),             SKIP_NO_TENANT,   7, 0},
	{"fields in another order",            BYTES(META T1),                        SKIP_NONE,        7, 0},
	{"the last hash wins",                 BYTES(T1 "\x1a\x04\x08\x01\x08\x07"),  SKIP_NONE,        7, 0},
	{"a last hash of zero wins",           BYTES(T1 "\x1a\x04\x08\x01\x08\x00"),  SKIP_NONE,        0, 0},
	{"metadata twice is merged",           BYTES(T1 META "\x1a\x02\x10\x05"),     SKIP_NONE,        7, 5},
	{"metadata twice, both have the hash", BYTES(T1 "\x1a\x02\x08\x01" META),     SKIP_NONE,        7, 0},
	{"then empty metadata",                BYTES(T1 META "\x1a\x00"),             SKIP_NONE,        7, 0},

	{"the old record: field 3 a varint",   BYTES(T1 "\x1a\x06\x08\x07\x10\x05\x18\x09"), SKIP_UNDECODABLE, 0, 0},
	{"hash as fixed64",                    BYTES(T1 "\x1a\x09\x09" "12345678"),   SKIP_UNDECODABLE, 0, 0},
	{"hash as text",                       BYTES(T1 "\x1a\x03\x0a\x01x"),         SKIP_UNDECODABLE, 0, 0},
	{"size as fixed32",                    BYTES(T1 "\x1a\x05\x15" "1234"),       SKIP_UNDECODABLE, 0, 0},
	{"a bare StreamMetadata",              BYTES("\x08\xac\x02\x10\x05"),         SKIP_UNDECODABLE, 0, 0},
	{"zone as varint",                     BYTES(T1 META "\x08\x01"),             SKIP_UNDECODABLE, 0, 0},
	{"tenant as varint",                   BYTES("\x10\x01" META),                SKIP_UNDECODABLE, 0, 0},
	{"metadata as varint",                 BYTES(T1 "\x18\x01"),                  SKIP_UNDECODABLE, 0, 0},
	{"metadata as a group",                BYTES(T1 META "\x1b\x1c"),             SKIP_UNDECODABLE, 0, 0},

	{"unknown varint",                     BYTES("\x20\x96\x01" T1 META),         SKIP_NONE,        7, 0},
	{"unknown fixed64",                    BYTES("\x21" "12345678" T1 META),      SKIP_NONE,        7, 0},
	{"unknown bytes",                      BYTES("\x22\x03\x00\xff\x12" T1 META), SKIP_NONE,        7, 0},
	{"unknown fixed32",                    BYTES("\x25" "1234" T1 META),          SKIP_NONE,        7, 0},
	{"unknown in the metadata",            BYTES(T1 "\x1a\x05\x08\x07\x22\x01x"), SKIP_NONE,        7, 0},
	{"unknown group, empty",               BYTES("\x23\x24" T1 META),             SKIP_NONE,        7, 0},
	{"unknown group with known numbers",   BYTES(T1 META "\x23\x12\x01u\x08\x01\x24"), SKIP_NONE,   7, 0},
	{"group in a group",                   BYTES("\x23\x2b\x2c\x24" T1 META),     SKIP_NONE,        7, 0},
	{"group closed by another number",     BYTES("\x23\x2c" T1 META),             SKIP_UNDECODABLE, 0, 0},
	{"group never closed",                 BYTES(T1 META "\x23"),                 SKIP_UNDECODABLE, 0, 0},
	{"group closed, never opened",         BYTES("\x24" T1 META),                 SKIP_UNDECODABLE, 0, 0},
	{"group beyond its metadata",          BYTES(T1 "\x1a\x01\x23\x24"),          SKIP_UNDECODABLE, 0, 0},
	{"wire type 6",                        BYTES("\x26\x00" T1 META),             SKIP_UNDECODABLE, 0, 0},
	{"wire type 7",                        BYTES("\x27\x00" T1 META),             SKIP_UNDECODABLE, 0, 0},
	{"field number 0",                     BYTES("\x00\x01" T1 META),             SKIP_UNDECODABLE, 0, 0},
	{"field number 2^29 - 1",              BYTES("\xf8\xff\xff\xff\x0f\x01" T1 META), SKIP_NONE,    7, 0},
	{"field number 2^29",                  BYTES("\x80\x80\x80\x80\x10\x01" T1 META), SKIP_UNDECODABLE, 0, 0},
	{"a number that is 2 modulo 2^29",     BYTES("\x92\x80\x80\x80\x10\x01t" META), SKIP_UNDECODABLE, 0, 0},
	{"a tag in 5 bytes",                   BYTES("\x92\x80\x80\x80\x00\x01t" META), SKIP_NONE,      7, 0},
	{"a tag in 6 bytes",                   BYTES("\x92\x80\x80\x80\x80\x00\x01t" META), SKIP_UNDECODABLE, 0, 0},

	{"a varint in 10 bytes",               BYTES(T1 "\x1a\x0b\x08" X10 "\x01"),   SKIP_NONE, UINT64_MAX, 0},
	{"a varint with bits above 64",        BYTES(T1 "\x1a\x0b\x08" X10 "\x7f"),   SKIP_NONE, UINT64_MAX, 0},
	{"a varint in 11 bytes",               BYTES(T1 "\x1a\x0c\x08" X10 "\x80\x00"), SKIP_UNDECODABLE, 0, 0},
	{"a longer varint than it need be",    BYTES(T1 "\x1a\x04\x08\x87\x80\x00"),  SKIP_NONE,        7, 0},
	{"a varint that the metadata cuts",    BYTES(T1 "\x1a\x02\x08\x80\x07"),      SKIP_UNDECODABLE, 0, 0},
	{"a length beyond the end",            BYTES(META "\x12\x02t"),               SKIP_UNDECODABLE, 0, 0},
	{"a length in 5 bytes",                BYTES("\x12\x81\x80\x80\x80\x00t" META), SKIP_NONE,      7, 0},
	{"a length in 6 bytes",                BYTES("\x12\x81\x80\x80\x80\x80\x00t" META), SKIP_UNDECODABLE, 0, 0},
	{"a length of 2^32 - 1",               BYTES(META "\x12\xff\xff\xff\xff\x0ft"), SKIP_UNDECODABLE, 0, 0},
	{"fixed64 cut short",                  BYTES(T1 META "\x21" "1234567"),       SKIP_UNDECODABLE, 0, 0},
	{"fixed32 cut short",                  BYTES(T1 META "\x25" "123"),           SKIP_UNDECODABLE, 0, 0},

	{"a tenant with a NUL",                BYTES("\x12\x03" "a\0b" META),         SKIP_UNDECODABLE, 0, 0},
	{"a tenant that is not UTF-8",         BYTES("\x12\x01\xff" META),            SKIP_UNDECODABLE, 0, 0},
	{"a zone that is not UTF-8",           BYTES("\x0a\x01\xc3" T1 META),         SKIP_UNDECODABLE, 0, 0},
	{"a policy that is not UTF-8",         BYTES(T1 "\x1a\x04\x1a\x02\xc0\x80"),  SKIP_UNDECODABLE, 0, 0},
	{"bad text that was replaced",         BYTES("\x12\x01\xff" T1 META),         SKIP_NONE,        7, 0},
	{"undecodable comes before the rest",  BYTES("\x0a\x01\xff"),                 SKIP_UNDECODABLE, 0, 0},
	/* clang-format on */
};

static void record_follows_each_rule_of_the_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rule) / sizeof(*rule); i++) {
		struct record r;
		enum skip_reason got = record_decode(rule[i].bytes, rule[i].len, &r);

		if (got != rule[i].reason)
			fail_msg("%s: %s instead of %s", rule[i].what, skip_reason_word(got),
				skip_reason_word(rule[i].reason));
		if (got != SKIP_UNDECODABLE && (r.hash != rule[i].hash || r.size != rule[i].size))
			fail_msg("%s: wrong hash or size", rule[i].what);
	}
}

static void record_bounds_tenant_and_policy(void **state)
{
	static char text[RECORD_TENANT_MAX + 1];
	uint8_t buf[1024];
	struct record r;

	(void)state;
	memset(text, 'x', sizeof(text));
	for (size_t over = 0; over < 2; over++) {
		struct record tenant = {.tenant = text, .tenant_len = RECORD_TENANT_MAX + over};
		struct record policy = {.tenant = "t",
			.tenant_len = 1,
			.policy = text,
			.policy_len = RECORD_POLICY_MAX + over};
		enum skip_reason expected = over ? SKIP_UNDECODABLE : SKIP_NONE;
		size_t len = record_encode(&tenant, buf, sizeof(buf));

		assert_int_equal(record_decode(buf, len, &r), expected);
		len = record_encode(&policy, buf, sizeof(buf));
		assert_int_equal(record_decode(buf, len, &r), expected);
	}
}

static void record_bounds_the_depth_of_groups(void **state)
{
	uint8_t buf[256];
	struct record r;

	(void)state;
	for (size_t depth = 1; depth <= 100; depth++) {
		memset(buf, 0x23, depth);
		memset(buf + depth, 0x24, depth);
		assert_int_equal(record_decode(buf, 2 * depth, &r),
			depth <= 32 ? SKIP_NO_METADATA : SKIP_UNDECODABLE);
	}
}

static void record_accepts_no_bytes_at_all(void **state)
{
	struct record r;

	(void)state;
	assert_int_equal(record_decode(NULL, 0, &r), SKIP_NO_METADATA);
	assert_non_null(r.tenant);
	assert_int_equal(r.tenant_len + r.zone_len + r.policy_len, 0);
}

static void record_has_a_word_for_every_reason(void **state)
{
	(void)state;
	for (int i = 0; i < SKIP_REASONS; i++)
		for (int j = 0; j < i; j++)
			assert_string_not_equal(skip_reason_word(i), skip_reason_word(j));
	assert_string_equal(skip_reason_word(SKIP_NONE), "applied");
	assert_string_equal(skip_reason_word(SKIP_REASONS), "unknown");
}

/* --- header ---------------------------------------------------------------------------------- */

static void record_source_reads_what_was_encoded(void **state)
{
	struct record in = {.sequence = 0x0102030405060708, .incarnation = "0123456789abcde"};
	uint8_t header[RECORD_HEADER_SIZE];
	struct record out = {0};

	(void)state;
	record_encode_source(&in, header);
	assert_memory_equal(header, "0123456789abcde\0\1\2\3\4\5\6\7\10", sizeof(header));
	record_source(header, sizeof(header), &out);
	assert_true(out.has_source);
	assert_true(out.sequence == in.sequence);
	assert_memory_equal(out.incarnation, in.incarnation, INCARNATION_SIZE);
}

static void record_source_ignores_a_header_of_another_length(void **state)
{
	uint8_t header[RECORD_HEADER_SIZE + 1] = {0};
	struct record r;

	(void)state;
	for (size_t len = 0; len <= sizeof(header); len++) {
		r.has_source = true;
		record_source(header, len, &r);
		assert_int_equal(r.has_source, len == RECORD_HEADER_SIZE);
	}
	record_source(NULL, RECORD_HEADER_SIZE, &r); /* a header may be null */
	assert_false(r.has_source);
}

/* --- UTF-8 ----------------------------------------------------------------------------------- */

static void record_text_accepts_every_character_but_nul_and_surrogates(void **state)
{
	uint8_t text[4];

	(void)state;
	for (uint32_t cp = 0; cp < 0x110800; cp++) {
		bool fine = cp != 0 && (cp < 0xd800 || cp > 0xdfff) && cp < 0x110000;

		if (record_text_ok(text, utf8_encode(cp, text)) != fine)
			fail_msg("U+%04X", cp);
	}
}

/*
 * All strings of up to 3 bytes, tried one by one, behind `lead` letters: as
 * many as Unicode says must be accepted.  With the test above: exactly those.
 */
static void record_text_accepts_nothing_else_in_three_bytes(void **state)
{
	const size_t lead = 7; /* the first byte is the last of eight */
	uint8_t text[16] = "letters";
	size_t accepted[4] = {0};

	(void)state;
	for (uint32_t v = 0; v < 1u << 24; v++) {
		text[lead] = (uint8_t)(v >> 16);
		text[lead + 1] = (uint8_t)(v >> 8);
		text[lead + 2] = (uint8_t)v;
		accepted[3] += record_text_ok(text, lead + 3);
		if ((v & 0xff) == 0)
			accepted[2] += record_text_ok(text, lead + 2);
		if ((v & 0xffff) == 0)
			accepted[1] += record_text_ok(text, lead + 1);
	}
	assert_int_equal(accepted[1], 127);
	assert_int_equal(accepted[2], 127 * 127 + 1920);
	assert_int_equal(accepted[3], 127 * 127 * 127 + 2 * 127 * 1920 + 63488 - 2048);
}

/* Four bytes: every pair in front, and those behind that differ in kind. */
static void record_text_accepts_nothing_else_in_four_bytes(void **state)
{
	static const uint8_t kind[] = {0x00, 0x7f, 0x80, 0x9f, 0xa0, 0xbf, 0xc0, 0xff};
	size_t accepted = 0;

	(void)state;
	for (uint32_t v = 0; v < (16u * 256 * 64); v++) {
		uint8_t text[4] = {(uint8_t)(0xf0 | v >> 14), (uint8_t)(v >> 6), kind[v >> 3 & 7],
			kind[v & 7]};

		accepted += record_text_ok(text, sizeof(text));
	}
	/* F0 90..BF, F1-F3 80..BF, F4 80..8F: 256 leading pairs, times 4 x 4 tails */
	assert_int_equal(accepted, (48 + 3 * 64 + 16) * 16);
}

static void record_text_finds_a_bad_byte_at_every_place(void **state)
{
	static const uint8_t bad[] = {0x00, 0x80, 0xc1, 0xf5, 0xff};
	char text[40];

	(void)state;
	for (size_t len = 1; len <= sizeof(text); len++) {
		memset(text, 0x01, len); /* 1: what a borrow in the subtraction would hit */
		assert_true(record_text_ok(text, len));
		for (size_t at = 0; at < len; at++)
			for (size_t i = 0; i < sizeof(bad); i++) {
				text[at] = (char)bad[i];
				assert_false(record_text_ok(text, len));
				text[at] = 0x01;
			}
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(record_decodes_golden_bytes),
		cmocka_unit_test(record_encodes_golden_bytes),
		cmocka_unit_test(record_encodes_empty_metadata_when_all_is_default),
		cmocka_unit_test(record_encodes_nothing_when_the_buffer_is_too_small),
		cmocka_unit_test(record_round_trips_when_values_are_extreme),
		cmocka_unit_test(record_follows_each_rule_of_the_table),
		cmocka_unit_test(record_bounds_tenant_and_policy),
		cmocka_unit_test(record_bounds_the_depth_of_groups),
		cmocka_unit_test(record_accepts_no_bytes_at_all),
		cmocka_unit_test(record_has_a_word_for_every_reason),
		cmocka_unit_test(record_source_reads_what_was_encoded),
		cmocka_unit_test(record_source_ignores_a_header_of_another_length),
		cmocka_unit_test(record_text_accepts_every_character_but_nul_and_surrogates),
		cmocka_unit_test(record_text_accepts_nothing_else_in_three_bytes),
		cmocka_unit_test(record_text_accepts_nothing_else_in_four_bytes),
		cmocka_unit_test(record_text_finds_a_bad_byte_at_every_place),
	};

	return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
