/*
 * tenant.c - tallyctl tenant NAME: total, policies, and the last minutes as a picture.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"

#define BARS   60
#define OTHERS 25 /* columns of what stands around them */

struct answer {
	struct tally_usage usage;
	struct tally_policy *policies;
	struct tally_minute *minutes;
	size_t n_policies, n_minutes;
};

static void release(struct answer *answer)
{
	free(answer->policies);
	free(answer->minutes);
}

static int ask(struct ctl *ctl, const char *name, struct answer *answer)
{
	size_t minutes = (size_t)ctl->instance.window_minutes + 1;
	struct tally_basis basis;
	*answer = (struct answer){.minutes = calloc(minutes, sizeof *answer->minutes)};
	answer->policies = calloc(1024, sizeof *answer->policies);
	if (!answer->minutes || !answer->policies)
		return TALLY_ENOMEM;
	int err = tally_tenant(ctl->tally, name, &answer->usage);
	if (!err)
		err = tally_policies(
			ctl->tally, name, answer->policies, 1024, &answer->n_policies, &basis);
	if (!err)
		err = tally_histogram(
			ctl->tally, name, answer->minutes, minutes, &answer->n_minutes, &basis);
	if (answer->n_policies > 1024)
		answer->n_policies = 1024;
	return err;
}

/* ------------------------------------------------------------------ text */

static void print_policies(const struct answer *answer)
{
	static const char *const headings[] = {">STREAMS", ">BYTES", "POLICY"};
	char streams[CTL_TEXT_SIZE], bytes[CTL_TEXT_SIZE], name[CTL_NAME_SIZE];
	struct ctl_table table;
	ctl_table_start(&table, 3, headings);
	for (size_t i = 0; i < answer->n_policies; i++) {
		const struct tally_policy *policy = &answer->policies[i];
		ctl_table_row(&table,
			(const char *[]){ctl_count(streams, policy->streams),
				ctl_bytes(bytes, (double)policy->bytes),
				*policy->policy ? ctl_name(name, policy->policy) : "(default)"});
	}
	ctl_table_end(&table);
}

/* The window in at most BARS bars of whole minutes; the last one ends now. */
static void print_minutes(const struct answer *answer)
{
	uint64_t streams[BARS] = {0}, bytes[BARS] = {0}, top_streams = 0, top_bytes = 0;
	char text[CTL_TEXT_SIZE];
	unsigned columns = ctl_columns();
	size_t room = !columns || columns > BARS + OTHERS ? BARS
		      : columns > 2 * OTHERS		  ? columns - OTHERS
							  : OTHERS;
	size_t n = answer->n_minutes, each = (n + room - 1) / room, bars = (n + each - 1) / each;
	for (size_t i = 0; i < n; i++) {
		size_t bar = bars - 1 - (n - 1 - i) / each;
		streams[bar] += answer->minutes[i].streams;
		bytes[bar] += answer->minutes[i].bytes;
		top_streams = streams[bar] > top_streams ? streams[bar] : top_streams;
		top_bytes = bytes[bar] > top_bytes ? bytes[bar] : top_bytes;
	}
	printf("last %zu minutes, %zu min a bar, now at the right:\n", n, each);
	ctl_sparkline("last seen", streams, bars);
	printf(" max %s\n", ctl_count(text, top_streams));
	ctl_sparkline("bytes    ", bytes, bars);
	printf(" max %s\n", ctl_bytes(text, (double)top_bytes));
}

static int print_text(struct ctl *ctl, void *arg)
{
	const struct answer *answer = arg;
	char name[CTL_NAME_SIZE], bytes[CTL_TEXT_SIZE], streams[CTL_TEXT_SIZE], rate[CTL_TEXT_SIZE];
	const struct tally_usage *usage = &answer->usage;
	ctl_print_stale(ctl);
	printf("%s: %s active stream%s, %s in %" PRIu32 " minutes, %s/s in the last %" PRIu32
	       "\n\n",
		ctl_name(name, usage->tenant), ctl_count(streams, usage->streams),
		usage->streams == 1 ? "" : "s", ctl_bytes(bytes, (double)usage->bytes),
		ctl->instance.window_minutes, ctl_bytes(rate, usage->bytes_per_sec),
		ctl->instance.rate_minutes);
	if (answer->n_policies) {
		print_policies(answer);
		putchar('\n');
		print_minutes(answer);
		putchar('\n');
	}
	ctl_print_basis(&usage->basis);
	return CTL_OK;
}

/* ------------------------------------------------------------------ JSON */

static void print_json(const struct ctl *ctl, const struct answer *answer)
{
	json_t *to = ctl_json(ctl), *policies = json_array(), *minutes = json_array();
	json_object_update_missing_new(to, ctl_json_usage(&answer->usage));
	for (size_t i = 0; i < answer->n_policies; i++) {
		json_t *one = json_object();
		ctl_json_text(one, "policy", answer->policies[i].policy);
		ctl_json_count(one, "streams", answer->policies[i].streams);
		ctl_json_count(one, "bytes", answer->policies[i].bytes);
		json_array_append_new(policies, one);
	}
	for (size_t i = 0; i < answer->n_minutes; i++) {
		json_t *one = json_object();
		ctl_json_int(one, "minute", answer->minutes[i].minute);
		ctl_json_count(one, "streams", answer->minutes[i].streams);
		ctl_json_count(one, "bytes", answer->minutes[i].bytes);
		json_array_append_new(minutes, one);
	}
	json_object_set_new(to, "by_policy", policies);
	json_object_set_new(to, "by_minute", minutes);
	ctl_json_basis(to, &answer->usage.basis);
	ctl_json_print(to);
}

int ctl_tenant(struct ctl *ctl, int argc, char **argv)
{
	struct answer answer;
	if (argc != 2)
		return ctl_usage("tenant: needs one NAME; 'tallyctl tenants' lists them");
	if (ctl_attach(ctl))
		return CTL_TROUBLE;
	int err = ask(ctl, argv[1], &answer);
	int code = CTL_INCOMPLETE;
	if (err) {
		code = ctl_failed(ctl, argv[1], err);
	} else {
		if (ctl->json)
			print_json(ctl, &answer);
		else
			ctl_wrapped(ctl, print_text, &answer);
		code = answer.usage.basis.complete ? CTL_OK : CTL_INCOMPLETE;
	}
	release(&answer);
	return code;
}
