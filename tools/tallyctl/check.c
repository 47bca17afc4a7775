/*
 * check.c - tallyctl check TENANT HASH...: may these streams come in?
 *
 *	map --tally_check--> known | new | full | not ready | elsewhere     changes nothing
 *	--admit: tally-queryd is asked (query.c), and they are in
 *
 * Read with a handle of its own that takes no store that is not ready: what
 * an old store says is no answer here.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

#define PARTITIONS_NAMED 8

static const char elsewhere[] = "elsewhere";

struct ask {
	const char *tenant, *policy;
	uint64_t bytes;
	bool admit;
	const char *token_file, *cert_file;
	uint64_t *hashes;
	size_t n;
};

static int parse_hashes(int argc, char **argv, struct ask *ask)
{
	if (argc - optind < 2)
		return ctl_usage("check: needs a tenant's NAME and at least one HASH (decimal or "
				 "0x...)");
	ask->tenant = argv[optind++];
	ask->hashes = calloc((size_t)(argc - optind), sizeof *ask->hashes);
	if (!ask->hashes)
		abort();
	for (; optind < argc; optind++)
		if (!ctl_number("HASH", argv[optind], 0, UINT64_MAX, &ask->hashes[ask->n++]))
			return CTL_TROUBLE;
	return CTL_OK;
}

static int parse(int argc, char **argv, struct ask *ask)
{
	static const struct option options[] = {
		{"policy", required_argument, NULL, 'p'},
		{"bytes", required_argument, NULL, 'b'},
		{"admit", no_argument, NULL, 'a'},
		{"token-file", required_argument, NULL, 't'},
		{"cert-file", required_argument, NULL, 'c'},
		{0},
	};
	int option;
	*ask = (struct ask){.policy = ""};
	while ((option = getopt_long(argc, argv, ":p:b:a", options, NULL)) != -1) {
		if (option == 'p')
			ask->policy = optarg;
		else if (option == 'a')
			ask->admit = true;
		else if (option == 't')
			ask->token_file = optarg;
		else if (option == 'c')
			ask->cert_file = optarg;
		else if (option != 'b')
			return ctl_bad_option("check", options, argv, option);
		else if (!ctl_number("--bytes", optarg, 0, UINT64_MAX, &ask->bytes))
			return CTL_TROUBLE;
	}
	if ((ask->token_file || ask->cert_file) && !ask->admit)
		return ctl_usage("check: --token-file and --cert-file count only with --admit: "
				 "nobody is asked without it");
	if (ask->bytes && !ask->admit)
		return ctl_usage("check: --bytes counts only with --admit: nothing is written "
				 "without it");
	return parse_hashes(argc, argv, ask);
}

/* ------------------------------------------------------------------ one line a stream */

struct verdicts {
	const char **words; /* by stream */
	uint32_t *partitions;
	size_t in, out, unknown;
	size_t elsewhere; /* of the unknown ones */
	char note[200];
};

static bool is_elsewhere(const struct verdicts *verdicts, size_t i)
{
	return verdicts->words[i] == elsewhere;
}

/* The first of those elsewhere with its partition. */
static bool names_partition(const struct verdicts *verdicts, size_t i)
{
	if (!is_elsewhere(verdicts, i))
		return false;
	for (size_t k = 0; k < i; k++)
		if (is_elsewhere(verdicts, k) && verdicts->partitions[k] == verdicts->partitions[i])
			return false;
	return true;
}

/* "1 of 4 belongs to another instance (partition 1): ask there, or use --admit" */
static void print_elsewhere(const struct ask *ask, const struct verdicts *verdicts)
{
	size_t distinct = 0, named = 0, n = verdicts->elsewhere;
	for (size_t i = 0; i < ask->n; i++)
		distinct += names_partition(verdicts, i);
	if (!n)
		return;
	printf("%zu of %zu %s (partition%s", n, ask->n,
		n == 1 ? "belongs to another instance" : "belong to other instances",
		ctl_s(distinct));
	for (size_t i = 0; i < ask->n && named < PARTITIONS_NAMED; i++)
		if (names_partition(verdicts, i)) {
			printf(" %" PRIu32, verdicts->partitions[i]);
			named++;
		}
	printf("%s): ask there, or use --admit\n", named < distinct ? " ..." : "");
}

static void print_text(const struct ask *ask, const struct verdicts *verdicts)
{
	static const char *const headings[] = {">P", "HASH", "RESULT"};
	struct ctl_table table;
	ctl_table_start(&table, 3, headings);
	for (size_t i = 0; i < ask->n; i++) {
		char partition[CTL_TEXT_SIZE], hash[CTL_TEXT_SIZE];
		snprintf(partition, sizeof partition, "%" PRIu32, verdicts->partitions[i]);
		snprintf(hash, sizeof hash, "0x%016" PRIx64, ask->hashes[i]);
		ctl_table_row(&table, (const char *[]){partition, hash, verdicts->words[i]});
	}
	ctl_table_end(&table);
	printf("%zu of %zu %s in", verdicts->in, ask->n, ask->admit ? "came" : "would come");
	if (verdicts->out)
		printf(", %zu %s rejected", verdicts->out,
			!ask->admit	     ? "would be"
			: verdicts->out == 1 ? "was"
					     : "were");
	if (verdicts->unknown > verdicts->elsewhere)
		printf(", %zu could not be decided: see 'tallyctl status'",
			verdicts->unknown - verdicts->elsewhere);
	putchar('\n');
	print_elsewhere(ask, verdicts);
	if (*verdicts->note)
		puts(verdicts->note);
}

static void print_json(const struct ctl *ctl, const struct ask *ask,
	const struct verdicts *verdicts, const struct tally_tenant_limits *limits)
{
	json_t *to = ctl_json(ctl), *array = json_array();
	ctl_json_text(to, "tenant", ask->tenant);
	ctl_json_text(to, "policy", ask->policy);
	json_object_set_new(to, "admitted", json_boolean(ask->admit));
	for (size_t i = 0; i < ask->n; i++) {
		json_t *one = json_object();
		ctl_json_hash(one, ask->hashes[i]);
		ctl_json_count(one, "partition", verdicts->partitions[i]);
		ctl_json_text(one, "result", verdicts->words[i]);
		json_array_append_new(array, one);
	}
	json_object_set_new(to, "results", array);
	ctl_json_count(to, "in", verdicts->in);
	ctl_json_count(to, "rejected", verdicts->out);
	ctl_json_count(to, "undecided", verdicts->unknown);
	ctl_json_count(to, "elsewhere", verdicts->elsewhere);
	ctl_json_text(to, "note", verdicts->note);
	if (limits) {
		json_object_set_new(to, "dry_run", json_boolean(limits->dry_run));
		ctl_json_basis(to, &limits->basis);
	}
	ctl_json_print(to);
}

static int exit_code(const struct verdicts *verdicts)
{
	return verdicts->out ? CTL_INCOMPLETE : verdicts->unknown ? CTL_UNDECIDED : CTL_OK;
}

/* ------------------------------------------------------------------ from the map */

/* Not assigned to us, while others are: no state of ours that passes. */
static bool belongs_elsewhere(const struct ctl *ctl, uint32_t partition)
{
	struct tally_partition p;
	return ctl->instance.alive && ctl->instance.owned &&
	       !tally_partition(ctl->tally, partition, &p) && !strcmp(p.state, "free");
}

static const char *word_of(const struct ctl *ctl, const struct tally_check *check)
{
	static const char *const words[] = {"known", "new", "full"};
	if (!check->result)
		return words[check->verdict];
	if (check->result == TALLY_ENOTREADY && belongs_elsewhere(ctl, check->partition))
		return elsewhere;
	return check->result == TALLY_ENOTREADY || check->result == TALLY_ESTALE
		       ? "not ready"
		       : tally_error(check->result);
}

/* New streams in one bucket take its room together: how many fit; TALLY_UNLIMITED = all. */
static uint64_t room_of(struct tally *tally, const struct ask *ask)
{
	struct tally_tenant_limits limits;
	struct tally_bucket *buckets = NULL;
	uint64_t room = TALLY_UNLIMITED;
	size_t n = 0;
	if (!tally_buckets(tally, ask->tenant, -1, &limits, NULL, 0, &n))
		buckets = calloc(n + 1, sizeof *buckets);
	size_t cap = n;
	if (buckets && !tally_buckets(tally, ask->tenant, -1, &limits, buckets, cap, &n)) {
		room = buckets[0].headroom;
		for (size_t i = 1; i < n && i < cap; i++)
			if (!strcmp(buckets[i].policy, ask->policy))
				room = buckets[i].headroom;
	}
	free(buckets);
	return room;
}

static bool named_before(const struct tally_check *list, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (list[k].hash == list[i].hash)
			return true;
	return false;
}

static void count_verdicts(const struct ctl *ctl, struct tally *tally, const struct ask *ask,
	const struct tally_check *list, const struct tally_tenant_limits *limits,
	struct verdicts *verdicts)
{
	uint64_t strangers = 0, room;
	for (size_t i = 0; i < ask->n; i++) {
		verdicts->words[i] = word_of(ctl, &list[i]);
		verdicts->elsewhere += is_elsewhere(verdicts, i);
		verdicts->partitions[i] = list[i].partition;
		if (list[i].result)
			verdicts->unknown++;
		else if (list[i].verdict == TALLY_FULL && !limits->dry_run)
			verdicts->out++;
		else
			verdicts->in++;
		strangers +=
			!list[i].result && list[i].verdict == TALLY_NEW && !named_before(list, i);
	}
	if (limits->dry_run)
		snprintf(verdicts->note, sizeof verdicts->note,
			"dry run: what is full is let in all the same, and counted");
	else if (strangers > 1 && (room = room_of(tally, ask)) < strangers) {
		snprintf(verdicts->note, sizeof verdicts->note,
			"each of the %" PRIu64 " new ones has room, all together have not: %" PRIu64
			" fit",
			strangers, room);
		verdicts->out += strangers - room;
		verdicts->in -= strangers - room;
	}
}

static int check(struct ctl *ctl, const struct ask *ask, struct verdicts *verdicts)
{
	struct tally_check *list = calloc(ask->n, sizeof *list);
	struct tally_tenant_limits limits;
	struct tally *tally;
	if (!list)
		abort();
	int err = tally_open(ctl->run_dir, 0, &tally);
	for (size_t i = 0; i < ask->n; i++)
		list[i] = (struct tally_check){.hash = ask->hashes[i], .policy = ask->policy};
	if (!err)
		err = tally_check(tally, ask->tenant, list, ask->n, &limits);
	if (!err)
		count_verdicts(ctl, tally, ask, list, &limits, verdicts);
	tally_close(&tally);
	free(list);
	if (err == TALLY_EINVALID)
		return ctl_usage(
			"check: a tenant's name has 1 to 256 bytes, a policy's at most 256");
	if (err) {
		ctl_failed(ctl, ask->tenant, err);
		return err == TALLY_ENOTREADY || err == TALLY_ESTALE ? CTL_UNDECIDED : CTL_TROUBLE;
	}
	if (ctl->json) {
		print_json(ctl, ask, verdicts, &limits);
	} else {
		ctl_print_stale(ctl);
		print_text(ask, verdicts);
		ctl_print_basis(&limits.basis);
	}
	return exit_code(verdicts);
}

/* ------------------------------------------------------------------ asked, and in */

static json_t *question(const struct ask *ask)
{
	json_t *to = json_object(), *streams = json_array();
	ctl_json_text(to, "tenant", ask->tenant);
	for (size_t i = 0; i < ask->n; i++) {
		json_t *one = json_object();
		char hash[24], bytes[24];
		snprintf(hash, sizeof hash, "%" PRIu64, ask->hashes[i]);
		snprintf(bytes, sizeof bytes, "%" PRIu64, ask->bytes);
		ctl_json_text(one, "streamHash", hash);
		ctl_json_text(one, "totalSize", bytes);
		ctl_json_text(one, "ingestionPolicy", ask->policy);
		json_array_append_new(streams, one);
	}
	json_object_set_new(to, "streams", streams);
	return to;
}

/* Words that are shown are ours: whatever the answer says, nothing else reaches the terminal. */
static const char *known_word(const char *word)
{
	static const char *const words[] = {"accepted", "rejected", "failed", "unserved"};
	for (size_t i = 0; word && i < sizeof words / sizeof *words; i++)
		if (!strcmp(word, words[i]))
			return words[i];
	return "unknown";
}

static int admit(struct ctl *ctl, const struct ask *ask, struct verdicts *verdicts)
{
	json_t *asked = question(ask);
	json_t *answer = ctl_query(ctl, "/api/v1/exceeds-limits", asked);
	json_decref(asked);
	if (!answer)
		return CTL_TROUBLE;
	json_t *results = json_object_get(answer, "results");
	for (size_t i = 0; i < ask->n; i++) {
		json_t *one = json_array_get(results, i);
		const char *word = known_word(json_string_value(json_object_get(one, "result")));
		verdicts->words[i] = word;
		verdicts->partitions[i] =
			ctl->instance.partitions
				? (uint32_t)(ask->hashes[i] % ctl->instance.partitions)
				: 0;
		if (!strcmp(word, "accepted"))
			verdicts->in++;
		else if (!strcmp(word, "rejected"))
			verdicts->out++;
		else
			verdicts->unknown++;
	}
	json_decref(answer);
	if (ctl->json)
		print_json(ctl, ask, verdicts, NULL);
	else
		print_text(ask, verdicts);
	return exit_code(verdicts);
}

int ctl_check(struct ctl *ctl, int argc, char **argv)
{
	struct verdicts verdicts = {0};
	struct ask ask;
	int code = parse(argc, argv, &ask);
	ctl->token_file = ask.token_file;
	ctl->cert_file = ask.cert_file;
	if (!code)
		code = ctl_attach(ctl);
	if (!code) {
		verdicts.words = calloc(ask.n, sizeof *verdicts.words);
		verdicts.partitions = calloc(ask.n, sizeof *verdicts.partitions);
		if (!verdicts.words || !verdicts.partitions)
			abort();
		code = ask.admit ? admit(ctl, &ask, &verdicts) : check(ctl, &ask, &verdicts);
	}
	free(verdicts.words);
	free(verdicts.partitions);
	free(ask.hashes);
	return code;
}
