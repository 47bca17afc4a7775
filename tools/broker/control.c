/*
 * control.c - one command a line: what a test does to the cluster.
 *
 *	line --words--> command table --> rd_kafka_mock_... --> "ok" | "error what to do"
 *
 * Runs in: broker, main thread.  Blocks in: librdkafka's mock, which answers
 * from its own thread (see wake.h).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "control.h"
#include "wake.h"

#define WORDS_MAX  66
#define ERRORS_MAX (WORDS_MAX - 2)

struct words {
	int n;
	char *word[WORDS_MAX];
};

bool control_number(const char *text, long low, long high, long *number)
{
	char *end;

	if (*text != '-' && (*text < '0' || *text > '9'))
		return false;
	errno = 0;
	*number = strtol(text, &end, 10);
	return errno == 0 && end != text && *end == '\0' && *number >= low && *number <= high;
}

static const char *outcome(rd_kafka_resp_err_t err)
{
	return err ? rd_kafka_err2str(err) : NULL;
}

/* Word `i`, when there is one, as a broker id; else -1 = all. */
static bool broker_id(const struct control *control, const struct words *w, int i, long *id)
{
	*id = -1;
	return i >= w->n || control_number(w->word[i], 1, control->brokers, id);
}

static const char *no_broker = "no such broker; they are numbered from 1";

static const char *do_down(struct control *control, const struct words *w)
{
	long id;

	if (!broker_id(control, w, 1, &id))
		return no_broker;
	return outcome(rd_kafka_mock_broker_set_down(control->cluster, (int32_t)id));
}

static const char *do_up(struct control *control, const struct words *w)
{
	long id;

	if (!broker_id(control, w, 1, &id))
		return no_broker;
	return outcome(rd_kafka_mock_broker_set_up(control->cluster, (int32_t)id));
}

static const char *do_rtt(struct control *control, const struct words *w)
{
	long ms, id;

	if (!control_number(w->word[1], 0, 3600000, &ms))
		return "MS must be from 0 to 3600000";
	if (!broker_id(control, w, 2, &id))
		return no_broker;
	return outcome(rd_kafka_mock_broker_set_rtt(control->cluster, (int32_t)id, (int)ms));
}

static const struct control_topic *find_topic(const struct control *control, const char *name)
{
	for (int i = 0; i < control->n_topics; i++)
		if (strcmp(control->topic[i].name, name) == 0)
			return &control->topic[i];
	return NULL;
}

static const char *do_leader(struct control *control, const struct words *w)
{
	const struct control_topic *topic = find_topic(control, w->word[1]);
	long partition, id;

	if (!topic) /* the mock would make it */
		return "no such topic; make it with --topic or 'topic'";
	if (!control_number(w->word[2], 0, topic->partitions - 1, &partition))
		return "the topic has no such partition";
	if (!control_number(w->word[3], -1, control->brokers, &id) || id == 0)
		return no_broker;
	return outcome(rd_kafka_mock_partition_set_leader(
		control->cluster, w->word[1], (int32_t)partition, (int32_t)id));
}

static bool api_key(const char *text, long *key)
{
	static const char *const name[] = {"Produce", "Fetch", "ListOffsets",
		"Metadata", [8] = "OffsetCommit", "OffsetFetch", "FindCoordinator", "JoinGroup",
		"Heartbeat", "LeaveGroup", "SyncGroup", [18] = "ApiVersions",
		[22] = "InitProducerId", [24] = "AddPartitionsToTxn", "AddOffsetsToTxn",
		"EndTxn", [28] = "TxnOffsetCommit"};

	for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++)
		if (name[i] && strcasecmp(name[i], text) == 0) {
			*key = (long)i;
			return true;
		}
	return control_number(text, 0, INT16_MAX, key);
}

static bool error_code(const char *text, long *code)
{
	const struct rd_kafka_err_desc *desc;
	size_t n;

	rd_kafka_get_err_descs(&desc, &n);
	for (size_t i = 0; i < n; i++)
		if (desc[i].name && strcasecmp(desc[i].name, text) == 0) {
			*code = desc[i].code;
			return true;
		}
	return control_number(text, -300, 1000, code);
}

static const char *do_errors(struct control *control, const struct words *w)
{
	rd_kafka_resp_err_t errors[ERRORS_MAX];
	long key, code;
	size_t n = 0;

	if (!api_key(w->word[1], &key))
		return "API must be a number or a name such as Produce, Fetch, Heartbeat";
	if (w->n == 3 && strcmp(w->word[2], "clear") == 0) {
		rd_kafka_mock_clear_request_errors(control->cluster, (int16_t)key);
		return NULL;
	}
	for (int i = 2; i < w->n; i++) {
		if (!error_code(w->word[i], &code))
			return "CODE must be a number or a name such as NOT_COORDINATOR, "
			       "_TRANSPORT";
		errors[n++] = (rd_kafka_resp_err_t)code;
	}
	rd_kafka_mock_push_request_errors_array(control->cluster, (int16_t)key, n, errors);
	return NULL;
}

static bool topic_name_ok(const char *name)
{
	const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t len = strspn(name, letters);

	return len > 0 && name[len] == '\0' && len < sizeof(((struct control_topic *)0)->name);
}

const char *control_topic(struct control *control, const char *name, int partitions)
{
	struct control_topic *topic = &control->topic[control->n_topics];
	rd_kafka_resp_err_t err;

	if (!topic_name_ok(name))
		return "a topic has a name of up to 249 letters, digits and . _ -";
	if (control->n_topics == CONTROL_TOPICS_MAX)
		return "too many topics";
	err = rd_kafka_mock_topic_create(control->cluster, name, partitions, control->brokers);
	for (int p = 0; p < partitions && !err; p++) /* the mock's choice is random */
		err = rd_kafka_mock_partition_set_leader(
			control->cluster, name, p, p % control->brokers + 1);
	if (err)
		return rd_kafka_err2str(err);
	snprintf(topic->name, sizeof(topic->name), "%s", name);
	topic->partitions = partitions;
	control->n_topics++;
	return NULL;
}

static const char *do_topic(struct control *control, const struct words *w)
{
	long partitions;

	if (!control_number(w->word[2], 1, 10000, &partitions))
		return "PARTITIONS must be from 1 to 10000";
	return control_topic(control, w->word[1], (int)partitions);
}

static const char *do_quit(struct control *control, const struct words *w)
{
	(void)w;
	control->quit = true;
	return NULL;
}

static const struct command {
	const char *name;
	int args_min, args_max;
	const char *(*run)(struct control *, const struct words *);
	const char *usage;
} command[] = {
	/* clang-format off */
	{"down",   0, 1,          do_down,   "down [BROKER]"},
	{"up",     0, 1,          do_up,     "up [BROKER]"},
	{"rtt",    1, 2,          do_rtt,    "rtt MS [BROKER]"},
	{"leader", 3, 3,          do_leader, "leader TOPIC PART BROKER"},
	{"errors", 2, ERRORS_MAX, do_errors, "errors API CODE..."},
	{"topic",  2, 2,          do_topic,  "topic NAME PARTITIONS"},
	{"quit",   0, 0,          do_quit,   "quit"},
	/* clang-format on */
};

static void answer(const char *wrong)
{
	if (wrong)
		printf("error %s\n", wrong);
	else
		printf("ok\n");
	fflush(stdout);
}

void control_line(struct control *control, char *line)
{
	struct words w = {0};
	char text[64], *rest = line, *word;
	const char *wrong;

	while (w.n < WORDS_MAX && (word = strtok_r(rest, " \t\r\n", &rest)))
		w.word[w.n++] = word;
	if (w.n == 0)
		return;
	for (size_t i = 0; i < sizeof(command) / sizeof(*command); i++) {
		const struct command *c = &command[i];

		if (strcmp(c->name, w.word[0]) != 0)
			continue;
		if (w.n - 1 >= c->args_min && w.n - 1 <= c->args_max) {
			wake_begin();
			wrong = c->run(control, &w);
			wake_end();
			answer(wrong);
			return;
		}
		snprintf(text, sizeof(text), "usage: %s", c->usage);
		answer(text);
		return;
	}
	answer("unknown command; down, up, rtt, leader, errors, topic, quit");
}
