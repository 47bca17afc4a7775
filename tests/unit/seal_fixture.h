/*
 * seal_fixture.h - a store with a value of each kind, and everything that can be asked of one.
 *
 *	make_store -> pairs (keys and values, as they lie in LMDB) -> one is spoilt -> is it seen?
 */
#ifndef TALLY_TESTS_SEAL_FIXTURE_H
#define TALLY_TESTS_SEAL_FIXTURE_H

#include "usage_fixture.h"

#define STREAMS 300

/* --- a store, value by value ----------------------------------------------------------------- */

struct pair {
	uint8_t key[300];
	size_t key_len, len;
	uint8_t *value;
};

struct pairs {
	struct pair list[400];
	size_t n;
};

static const struct usage_produce produce = {
	.rate_minutes = 5, .every_s = 60, .outbox_max = UINT64_MAX};

static void add_from_elsewhere(struct usage *usage, uint64_t sequence)
{
	struct record record = record_of("t", "", 3, 1, NOW);

	record.has_source = true;
	memset(record.incarnation, 7, sizeof(record.incarnation));
	record.sequence = sequence;
	assert_int_equal(usage_add(usage, &record, NOW), SKIP_NONE);
}

static void ask(struct usage *usage, uint64_t hash)
{
	struct usage_stream_asked asked = {.tenant = "t",
		.tenant_len = 1,
		.policy = "p",
		.policy_len = 1,
		.hash = hash * 7 + 3,
		.bytes = 5,
		.seen_ms = NOW};

	usage_touch(usage, &asked, NOW);
	usage_rate(usage, &asked, NOW);
}

static struct usage *make(void)
{
	struct usage *usage;

	clean();
	usage = open_usage();
	usage_set_produce(usage, &produce);
	for (uint64_t i = 0; i < STREAMS; i++)
		add(usage, i % 3 ? "t" : "another", i % 2 ? "p" : "", i << 48, 1);
	add_from_elsewhere(usage, 1);
	for (uint64_t i = 0; i < 3; i++)
		ask(usage, i << 50);
	usage_quarantine(usage, 1, (struct store_bytes){"poison", 6});
	usage_advance(usage, 2, NULL);
	commit(usage, NOW);
	usage_questions_end(usage);
	verify(usage);
	return usage;
}

static void take_pairs(struct usage *usage, struct pairs *pairs)
{
	struct store_txn txn = begin_read(usage);
	struct store_bytes key, value;
	bool more;

	pairs->n = 0;
	for (more = store_seek(&txn, (struct store_bytes){"", 1}, &key, &value); more;
		more = store_next(&txn, &key, &value)) {
		struct pair *pair = &pairs->list[pairs->n++];

		assert_true(pairs->n < 400 && key.len <= sizeof(pair->key));
		memcpy(pair->key, key.data, key.len);
		pair->key_len = key.len;
		pair->len = value.len;
		pair->value = malloc(value.len);
		memcpy(pair->value, value.data, value.len);
	}
	store_abort(&txn);
}

static void free_pairs(struct pairs *pairs)
{
	for (size_t i = 0; i < pairs->n; i++)
		free(pairs->list[i].value);
}

/* NULL: it is deleted. */
static void put_raw(struct usage *usage, const struct pair *at, const uint8_t *value, size_t len)
{
	struct store_bytes key = {.data = at->key, .len = at->key_len};
	struct store_txn txn;

	store_begin(&txn, usage_store(usage));
	if (value)
		store_put(&txn, key, (struct store_bytes){.data = value, .len = len});
	else
		store_delete(&txn, key);
	assert_int_equal(store_commit(&txn), 0);
}

/* --- who asks -------------------------------------------------------------------------------- */

static void ask_rows(struct store_txn *txn, uint32_t tenant)
{
	struct window_row row;
	uint64_t buf[64];
	uint32_t seen = 0;
	int policy = -1;

	while (usage_next_row(txn, tenant, &policy, WINDOW, buf, &row))
		seen++;
	usage_check_rows(txn, tenant, seen);
}

static void ask_streams(struct store_txn *txn, uint32_t tenant)
{
	struct usage_stream stream;

	for (uint64_t i = 0; i < STREAMS; i++) {
		usage_find_stream(txn, tenant, (i << 48) * 7 + 3, &stream);
		usage_find_stream(txn, tenant, (i << 48) * 7 + 4, &stream);
	}
	usage_find_stream(txn, tenant, 0, &stream);
	usage_find_stream(txn, tenant, UINT64_MAX, &stream);
}

/* Everything that a reader can; the first error. */
static int ask_all(struct usage *usage)
{
	static const char *const names[] = {"another", "t", "a", "b", "tt"};
	static struct usage_stream streams[STREAMS + 1];
	struct store_txn txn = begin_read(usage);
	char name[USAGE_NAME_SIZE + 1];
	struct usage_meta meta;
	uint32_t tenant = UINT32_MAX, id;
	int err = usage_read_meta(&txn, &meta);

	for (size_t i = 0; i < 5; i++)
		usage_find_tenant(&txn, names[i], strlen(names[i]), &id);
	while (usage_next_tenant(&txn, &tenant, name))
		;
	for (tenant = 0; tenant < 2; tenant++) {
		if (!usage_policy_name(&txn, tenant, 1, name))
			usage_corrupt(&txn); /* as client.c does: a row has it */
		ask_rows(&txn, tenant);
		ask_streams(&txn, tenant);
		usage_list_streams(&txn, tenant, 0, streams, STREAMS + 1);
	}
	err = err ? err : txn.err;
	store_abort(&txn);
	return err;
}

static int ask_outbox(struct usage *usage)
{
	struct usage_outgoing rows[8];
	int n = usage_outbox_list(usage, 0, rows, 8);

	return n < 0 ? n : 0;
}

static int scrub(struct usage *usage)
{
	char why[256];
	int err = usage_scrub(usage, usage_scrub_steps(usage) + 10, why);

	assert_true(err == 0 || err == ERR_CORRUPT);
	assert_true(err == 0 || why[0] != '\0');
	return err;
}

static int check(struct usage *usage)
{
	struct store_txn txn = begin_read(usage);
	char why[256];
	int err = usage_verify(&txn, why);

	store_abort(&txn);
	return err;
}

static int reopen(struct usage **usage)
{
	struct usage_options options = default_options();
	bool boot_differs;

	usage_close(usage);
	return usage_open(&options, usage, &boot_differs);
}

/* Who has to see it, by the kind of its key. */
static void assert_seen(struct usage **usage, const struct pair *at)
{
	char kind = (char)at->key[0];

	if (strchr("bhtTpm", kind) && ask_all(*usage) == 0)
		fail_msg("no reader sees it: %c, %zu bytes", kind, at->key_len);
	if (kind == 'o')
		assert_int_equal(ask_outbox(*usage), ERR_CORRUPT);
	if (kind != 'q' && scrub(*usage) != ERR_CORRUPT)
		fail_msg("the scrub does not see it: %c, %zu bytes", kind, at->key_len);
	if (strchr("bhtTpfoqr", kind) && check(*usage) != ERR_CORRUPT)
		fail_msg("usage_verify does not see it: %c", kind);
	if (strchr("fTp", kind))
		assert_int_equal(reopen(usage), ERR_CORRUPT);
}

static void assert_good(struct usage *usage)
{
	assert_int_equal(ask_all(usage), 0);
	assert_int_equal(ask_outbox(usage), 0);
	assert_int_equal(scrub(usage), 0);
	verify(usage);
}

/* For each value of a store: `spoil` it, and see. */
static void each_value(void (*spoil)(struct usage *usage, const struct pairs *pairs, size_t i))
{
	static struct pairs pairs;
	struct usage *usage = make();

	assert_good(usage);
	take_pairs(usage, &pairs);
	for (size_t i = 0; i < pairs.n; i++) {
		const struct pair *pair = &pairs.list[i];

		spoil(usage, &pairs, i);
		assert_seen(&usage, pair);
		if (!usage) { /* it cannot be opened any more */
			usage = make();
			free_pairs(&pairs);
			take_pairs(usage, &pairs);
			continue;
		}
		put_raw(usage, pair, pair->value, pair->len);
		assert_int_equal(reopen(&usage), 0);
		usage_set_produce(usage, &produce);
	}
	assert_good(usage);
	free_pairs(&pairs);
	usage_close(&usage);
	clean();
}

#endif
