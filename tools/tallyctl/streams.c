/*
 * streams.c - tallyctl streams NAME: a tenant's active streams, by partition and hash.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"

#define PAGE 1000

static int parse(int argc, char **argv, uint64_t *limit)
{
	static const struct option options[] = {{"limit", required_argument, NULL, 'l'}, {0}};
	int option;
	*limit = 1000;
	while ((option = getopt_long(argc, argv, ":l:", options, NULL)) != -1) {
		if (option != 'l')
			return ctl_bad_option("streams", options, argv, option);
		if (!ctl_number("--limit", optarg, 1, UINT32_MAX, limit))
			return CTL_TROUBLE;
	}
	if (optind + 1 != argc)
		return ctl_usage("streams: needs one NAME; 'tallyctl tenants' lists them");
	return CTL_OK;
}

static void add_row(const struct ctl *ctl, struct ctl_table *table, const struct tally_stream *s)
{
	char hash[CTL_TEXT_SIZE], partition[CTL_TEXT_SIZE], seen[CTL_TEXT_SIZE],
		rate[CTL_TEXT_SIZE], policy[CTL_NAME_SIZE];
	snprintf(hash, sizeof hash, "0x%016" PRIx64, s->hash);
	snprintf(partition, sizeof partition, "%" PRIu32, s->partition);
	ctl_table_row(table, (const char *[]){partition, hash,
				     ctl_span(seen, tally_now_ms(ctl->tally) - s->last_seen_ms),
				     ctl_bytes(rate, s->bytes_per_sec),
				     *s->policy ? ctl_name(policy, s->policy) : "(default)"});
}

static void add_json(json_t *array, const struct tally_stream *s)
{
	json_t *one = json_object();
	ctl_json_hash(one, s->hash);
	ctl_json_count(one, "partition", s->partition);
	ctl_json_int(one, "last_seen_ms", s->last_seen_ms);
	json_object_set_new(one, "bytes_per_sec", json_real(s->bytes_per_sec));
	ctl_json_text(one, "policy", s->policy);
	json_array_append_new(array, one);
}

struct listing {
	struct ctl_table table;
	json_t *array;
	struct tally_basis basis;
	uint64_t n;
	bool more;
};

static int list(struct ctl *ctl, const char *tenant, uint64_t limit, struct listing *to)
{
	struct tally_stream *page = calloc(PAGE, sizeof *page);
	struct tally_cursor cursor = {0};
	int err = page ? 0 : TALLY_ENOMEM;
	bool whole = true; /* a whole list has whole pages only */
	while (!err && !cursor.done && to->n < limit) {
		size_t got, cap = limit - to->n < PAGE ? (size_t)(limit - to->n) : PAGE;
		struct tally_basis basis = {0};
		err = tally_streams(ctl->tally, tenant, &cursor, page, cap, &got, &basis);
		if (whole)
			to->basis = basis;
		whole = whole && basis.complete;
		for (size_t i = 0; !err && i < got; i++) {
			if (ctl->json)
				add_json(to->array, &page[i]);
			else
				add_row(ctl, &to->table, &page[i]);
		}
		to->n += err ? 0 : got;
	}
	to->more = !cursor.done;
	free(page);
	return err;
}

int ctl_streams(struct ctl *ctl, int argc, char **argv)
{
	static const char *const headings[] = {">P", "HASH", ">SEEN AGO", ">RATE/S", "POLICY"};
	struct listing to = {0};
	uint64_t limit;
	if (parse(argc, argv, &limit) || ctl_attach(ctl))
		return CTL_TROUBLE;
	to.array = json_array();
	ctl_table_start(&to.table, 5, headings);
	int err = list(ctl, argv[optind], limit, &to);
	if (err) {
		json_decref(to.array);
		ctl_table_drop(&to.table);
		return ctl_failed(ctl, argv[optind], err);
	}
	if (ctl->json) {
		json_t *object = ctl_json(ctl);
		ctl_json_text(object, "tenant", argv[optind]);
		ctl_table_drop(&to.table);
		json_object_set_new(object, "streams", to.array);
		json_object_set_new(object, "more", json_boolean(to.more));
		ctl_json_basis(object, &to.basis);
		ctl_json_print(object);
	} else {
		json_decref(to.array);
		ctl_print_stale(ctl);
		ctl_table_end(&to.table);
		printf("%" PRIu64 " active stream%s%s\n", to.n, to.n == 1 ? "" : "s",
			to.more ? ", and more: raise --limit" : "");
		ctl_print_basis(&to.basis);
	}
	return to.basis.complete ? CTL_OK : CTL_INCOMPLETE;
}
