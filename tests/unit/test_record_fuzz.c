/*
 * test_record_fuzz.c - record.c against protobuf-c over mutated messages.
 *
 *	parts -> mutate -+-> guarded page -> record_decode --.
 *	                 '-> without groups -> protobuf-c ---+-> must agree
 *
 * The rules of record.h for text and length are put on top of what protobuf-c
 * says.  TALLY_SEED=n repeats a run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include "record.pb-c.h"
#include "shm/record.h"
#include "utf8.h"

#define FUZZ_SECONDS 1.5
#define FUZZ_ROUNDS  3000000
#define MESSAGE_MAX  1400

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static uint64_t rng_seed, rng_state;

static uint64_t rng(void)
{
	uint64_t z = rng_state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static size_t rng_below(size_t n)
{
	return (size_t)(rng() % n);
}

/* A page that ends in nothing: a byte too much is a crash. */
static uint8_t *guarded_end(void)
{
	uint8_t *page =
		mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(page, MAP_FAILED);
	assert_int_equal(mprotect(page + 4096, 4096, PROT_NONE), 0);
	return page + 4096;
}

/*
 * What protobuf-c does otherwise, done before it: groups that are balanced are
 * taken out, field numbers out of range and bad groups refused.  What is broken
 * in another way is passed on as it is.  Recursive, unlike the reader under test.
 */
struct plain {
	const uint8_t *in;
	size_t len, at;
	bool refused;
};

static size_t plain_varint(const struct plain *p, size_t at, uint64_t *v)
{
	*v = 0;
	for (size_t i = 0; i < 10 && at + i < p->len; i++) {
		*v |= (uint64_t)(p->in[at + i] & 0x7f) << (7 * i);
		if (!(p->in[at + i] & 0x80))
			return i + 1;
	}
	return 0;
}

/* Bytes of the value after a tag of this wire type, 0 when it is broken. */
static size_t plain_value(const struct plain *p, size_t at, unsigned wire)
{
	uint64_t v;
	size_t n;

	if (wire == 1 || wire == 5) {
		n = wire == 1 ? 8 : 4;
		return n <= p->len - at ? n : 0;
	}
	n = plain_varint(p, at, &v);
	if (wire == 0 || n == 0)
		return n;
	return wire == 2 && n <= 5 && v <= p->len - at - n ? n + (size_t)v : 0;
}

static size_t plain_tag(struct plain *p, size_t at, uint64_t *tag)
{
	size_t n = plain_varint(p, at, tag);

	if (n == 0 || n > 5)
		return 0;
	if (*tag >> 3 == 0 || *tag >> 3 >= 1u << 29)
		p->refused = true;
	return n;
}

/* p->at is behind the start tag of group `field`: moves it behind its end tag. */
static void plain_group(struct plain *p, uint64_t field, int depth)
{
	while (!p->refused) {
		uint64_t tag;
		size_t n = plain_tag(p, p->at, &tag);

		p->at += n;
		if (n == 0 || depth > 32) {
			p->refused = true;
		} else if ((tag & 7) == 3) {
			plain_group(p, tag >> 3, depth + 1);
		} else if ((tag & 7) == 4) {
			p->refused |= tag >> 3 != field;
			return;
		} else {
			n = plain_value(p, p->at, tag & 7);
			p->refused |= n == 0;
			p->at += n;
		}
	}
}

static size_t put(uint8_t *out, uint64_t v)
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		out[n++] = (uint8_t)(v | 0x80);
	out[n++] = (uint8_t)v;
	return n;
}

/* Returns the length of what protobuf-c shall read, or -1: must be undecodable. */
static long plain_message(const uint8_t *in, size_t len, uint8_t *out, bool top)
{
	struct plain p = {in, len, 0, false};
	uint8_t part[2 * MESSAGE_MAX];
	uint64_t tag, head;
	size_t n, size = 0;

	while (p.at < len) {
		size_t start = p.at, tag_len = plain_tag(&p, p.at, &tag);

		if (p.refused)
			return -1;
		if (tag_len && (tag & 7) == 3 && tag >> 3 > 3) {
			p.at += tag_len;
			plain_group(&p, tag >> 3, 1);
			if (p.refused)
				return -1;
			continue;
		}
		n = tag_len ? plain_value(&p, start + tag_len, tag & 7) : 0;
		if (n == 0) { /* broken: protobuf-c has to see it */
			memcpy(out + size, in + start, len - start);
			return (long)(size + len - start);
		}
		p.at = start + tag_len + n;
		if (top && tag == (3 << 3 | 2)) {
			size_t skip = start + tag_len + plain_varint(&p, start + tag_len, &head);
			long inner = plain_message(in + skip, p.at - skip, part, false);

			if (inner < 0)
				return -1;
			size += put(out + size, tag);
			size += put(out + size, (uint64_t)inner);
			memcpy(out + size, part, (size_t)inner);
			size += (size_t)inner;
			continue;
		}
		memcpy(out + size, in + start, p.at - start);
		size += p.at - start;
	}
	return (long)size;
}

/* A whole number of characters, none of them NUL; by decoding, not by ranges. */
static bool oracle_text(const ProtobufCBinaryData *text)
{
	for (size_t i = 0, n; i < text->len; i += n) {
		const uint8_t *s = text->data + i;
		uint32_t cp;
		uint8_t again[4];

		n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
		if (i + n > text->len)
			return false;
		cp = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
		for (size_t k = 1; k < n; k++)
			cp = cp << 6 | (s[k] & 63);
		if (cp == 0 || (cp >= 0xd800 && cp < 0xe000) || cp > 0x10ffff)
			return false;
		if (utf8_encode(cp, again) != n || memcmp(again, s, n) != 0)
			return false;
	}
	return true;
}

static bool same_text(const ProtobufCBinaryData *a, const char *text, size_t len)
{
	return a->len == len && (len == 0 || memcmp(a->data, text, len) == 0);
}

/* What protobuf-c made of it, by the rules of record.h; NULL = it refused. */
static enum skip_reason oracle_decode(const Oracle__Record *m, const struct record *got, bool *same)
{
	ProtobufCBinaryData policy = {0};
	uint64_t hash = 0, size = 0;

	*same = true;
	if (!m)
		return SKIP_UNDECODABLE;
	for (size_t i = 0; i < m->n_metadata; i++) {
		const Oracle__Metadata *part = m->metadata[i];

		hash = part->has_stream_hash ? part->stream_hash : hash;
		size = part->has_total_size ? part->total_size : size;
		policy = part->has_ingestion_policy ? part->ingestion_policy : policy;
	}
	if (m->tenant.len > RECORD_TENANT_MAX || policy.len > RECORD_POLICY_MAX)
		return SKIP_UNDECODABLE;
	if (!oracle_text(&m->zone) || !oracle_text(&m->tenant) || !oracle_text(&policy))
		return SKIP_UNDECODABLE;
	*same = same_text(&m->zone, got->zone, got->zone_len) &&
		same_text(&m->tenant, got->tenant, got->tenant_len) &&
		same_text(&policy, got->policy, got->policy_len) && hash == got->hash &&
		size == got->size;
	if (m->n_metadata == 0)
		return SKIP_NO_METADATA;
	return m->tenant.len ? SKIP_NONE : SKIP_NO_TENANT;
}

/* --- messages to try ------------------------------------------------------------------------- */

static size_t make_text(uint8_t *out)
{
	static const size_t odd[] = {0, 127, 128, 255, 256, 257};
	size_t len = rng_below(12) ? rng_below(24) : odd[rng_below(6)], n = 0;
	uint8_t at[4];

	while (n < len) {
		uint32_t cp = rng_below(8) ? 1 + (uint32_t)rng_below(127)
					   : 1 + (uint32_t)rng_below(0x10ffff);
		size_t k = utf8_encode(cp, at);

		if (n + k > len) { /* sometimes half a character at the end */
			at[0] = rng_below(8) ? 'e' : at[0];
			k = 1;
		}
		memcpy(out + n, at, k);
		n += k;
	}
	return len;
}

static uint64_t make_number(void)
{
	return rng() >> rng_below(64);
}

/* One field of any number and type, most often one that fits. */
static size_t make_field(uint8_t *out, bool top)
{
	static const uint8_t any[] = {0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5, 5, 6, 7, 0, 2};
	uint8_t text[300];
	unsigned known = top && rng_below(16) ? 2 : 3; /* a text is no metadata */
	unsigned field = 1 + (unsigned)rng_below(rng_below(8) ? known : 40);
	unsigned fits = top ? 2 : field < 3 ? 0 : 2;
	unsigned wire = rng_below(64) && field < 4 ? fits : any[rng_below(sizeof(any))];
	size_t len, n = put(out, (uint64_t)field << 3 | wire);

	switch (wire) {
	case 0:
		return n + put(out + n, make_number());
	case 2:
		len = make_text(text);
		n += put(out + n, len);
		memcpy(out + n, text, len);
		return n + len;
	case 3:
		if (rng_below(2)) {
			out[n++] = 4 << 3 | 0;
			out[n++] = 1;
		}
		return n + put(out + n, (uint64_t)field << 3 | 4);
	case 4:
		return n;
	default:
		memset(out + n, 0x5a, 8);
		return n + (wire == 1 ? 8 : 4);
	}
}

static size_t make_message(uint8_t *out)
{
	uint8_t part[4 * 300];
	size_t n = 0, inner, fields = rng_below(6);

	for (size_t i = 0; i < fields && n < 600; i++) {
		if (rng_below(2)) {
			n += make_field(out + n, true);
			continue;
		}
		inner = 0;
		for (size_t k = rng_below(5); k > 0 && inner < 300; k--)
			inner += make_field(part + inner, false);
		if (n + inner > MESSAGE_MAX - 320)
			break;
		n += put(out + n, 3 << 3 | 2);
		n += put(out + n, inner);
		memcpy(out + n, part, inner);
		n += inner;
	}
	return n;
}

static size_t mutate(uint8_t *buf, size_t len)
{
	static const uint8_t odd[] = {0x00, 0x7f, 0x80, 0xff, 0x12, 0x1a, 0x23, 0x24, 0x0a, 0xc0};

	for (size_t k = rng_below(2) ? rng_below(4) : 0; k > 0 && len > 0; k--) {
		size_t at = rng_below(len);

		switch (rng_below(6)) {
		case 0:
			buf[at] ^= (uint8_t)(1u << rng_below(8));
			break;
		case 1:
			buf[at] = odd[rng_below(sizeof(odd))];
			break;
		case 2:
			len = at;
			break;
		case 3:
			memmove(buf + at, buf + at + 1, --len - at);
			break;
		case 4:
			memmove(buf + at + 1, buf + at, len++ - at);
			buf[at] = odd[rng_below(sizeof(odd))];
			break;
		default:
			buf[at] = (uint8_t)rng();
		}
	}
	return len;
}

static void report(const uint8_t *buf, size_t len, enum skip_reason got, enum skip_reason expected)
{
	print_message("value (%zu bytes):", len);
	for (size_t i = 0; i < len; i++)
		print_message(" %02x", buf[i]);
	fail_msg("%s, protobuf-c says %s, TALLY_SEED=%llu", skip_reason_word(got),
		skip_reason_word(expected), (unsigned long long)rng_seed);
}

static void record_agrees_with_protobuf_c_over_mutated_messages(void **state)
{
	const char *given = getenv("TALLY_SEED");
	uint8_t *end = guarded_end();
	uint8_t buf[MESSAGE_MAX + 8], simple[2 * MESSAGE_MAX];
	size_t rounds = 0, seen[SKIP_REASONS] = {0};
	double until = now_s() + FUZZ_SECONDS;

	(void)state;
	rng_seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) * 1000003;
	rng_state = rng_seed;
	while (rounds < FUZZ_ROUNDS && ((rounds & 1023) != 0 || now_s() < until)) {
		size_t len = mutate(buf, make_message(buf));
		long n = plain_message(buf, len, simple, true);
		Oracle__Record *m = n < 0 ? NULL : oracle__record__unpack(NULL, (size_t)n, simple);
		struct record r;
		enum skip_reason got, expected;
		bool same;

		memcpy(end - len, buf, len);
		got = record_decode(end - len, len, &r);
		expected = oracle_decode(m, &r, &same);
		if (got != expected || !same)
			report(buf, len, got, expected);
		if (m)
			oracle__record__free_unpacked(m, NULL);
		seen[got]++;
		rounds++;
	}
	print_message("TALLY_SEED=%llu: %zu messages, %zu applied, %zu undecodable\n",
		(unsigned long long)rng_seed, rounds, seen[SKIP_NONE], seen[SKIP_UNDECODABLE]);
	assert_true(seen[SKIP_NONE] > rounds / 20); /* else it has tested little */
	assert_true(seen[SKIP_UNDECODABLE] > rounds / 20);
	assert_true(seen[SKIP_NO_TENANT] > rounds / 50);
	assert_true(seen[SKIP_NO_METADATA] > rounds / 50);
	assert_int_equal(munmap(end - 4096, 2 * 4096), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(record_agrees_with_protobuf_c_over_mutated_messages),
	};

	return cmocka_run_group_tests_name("record_fuzz", tests, NULL, NULL);
}
