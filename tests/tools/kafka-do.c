/*
 * kafka-do.c - does one thing to a Kafka cluster, in milliseconds, and ends when it can be seen.
 *
 *	kafka-do --brokers B [--property NAME=VALUE]... COMMAND
 *
 *	create TOPIC PARTITIONS [replication=N] [key=value...]
 *	delete TOPIC
 *	grow TOPIC PARTITIONS
 *	config TOPIC key=value...		no value: back to the default
 *	delete-records TOPIC PARTITION OFFSET	-1: all
 *	offsets TOPIC				partition=P start=S stable=E high=H leader=L
 *	acl allow|drop PRINCIPAL OPERATION TYPE:NAME
 *	put TOPIC [PARTITION] [--txn commit|abort|open] [--id ID] [--compression C] [--batch N]
 *	get TOPIC PARTITION [from=OFFSET]	offset, timestamp, its type, key, value in hex
 *
 *	command --> librdkafka's admin API --> the broker's yes --> asked again until it is so
 *
 * Exit code 0 only then; else 1 and one line with the broker's reason, 2 for a wrong command line.
 * `get` and "stable" are what read_committed lets be seen; a partition without a leader has
 * offsets of -1.  In an acl, TYPE is topic, group or cluster (with the name kafka-cluster).
 * The lines that `put` reads are in kafka/put.c.
 */
#include <getopt.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "tests/tools/kafka/acl.h"
#include "tests/tools/kafka/kafka.h"
#include "tests/tools/kafka/put.h"
#include "tests/tools/kafka/topic.h"
#include "tests/tools/text.h"

/* --- offsets --------------------------------------------------------------------------------- */

struct start_wish {
	rd_kafka_t *rk;
	const char *topic;
	int32_t partition;
	int64_t start;
};

static bool start_is_so(void *arg)
{
	const struct start_wish *w = arg;

	return kafka_look_up_one(w->rk, w->topic, w->partition, -2) >= w->start;
}

static void do_delete_records(struct kafka_run *r)
{
	int32_t partition = (int32_t)text_number("PARTITION", r->arg[1]);
	rd_kafka_topic_partition_list_t *before = rd_kafka_topic_partition_list_new(1);
	const rd_kafka_topic_partition_list_t *done;
	rd_kafka_DeleteRecords_t *delete;
	rd_kafka_event_t *event;

	rd_kafka_topic_partition_list_add(before, r->arg[0], partition)->offset =
		text_number("OFFSET", r->arg[2]);
	delete = rd_kafka_DeleteRecords_new(before);
	rd_kafka_DeleteRecords(r->rk, &delete, 1, r->options, r->queue);
	event = kafka_answer(r, r->arg[0]);
	done = rd_kafka_DeleteRecords_result_offsets(rd_kafka_event_DeleteRecords_result(event));
	if (done->cnt != 1 || done->elems[0].err != 0)
		kafka_fail_err(r->arg[0],
			done->cnt != 1 ? RD_KAFKA_RESP_ERR__FAIL : done->elems[0].err, NULL);
	kafka_wait(start_is_so,
		&(struct start_wish){r->rk, r->arg[0], partition, done->elems[0].offset},
		r->arg[0]);
}

/* Only of partitions that have a leader: nobody else can say. */
static rd_kafka_topic_partition_list_t *ends_of(
	rd_kafka_t *rk, const struct rd_kafka_metadata_topic *t, int64_t which)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(t->partition_cnt);

	for (int i = 0; i < t->partition_cnt; i++)
		if (t->partitions[i].leader >= 0)
			rd_kafka_topic_partition_list_add(list, t->topic, t->partitions[i].id);
	kafka_look_up(rk, list, which);
	return list;
}

static int64_t offset_in(rd_kafka_topic_partition_list_t *list, const char *topic, int32_t p)
{
	const rd_kafka_topic_partition_t *e = rd_kafka_topic_partition_list_find(list, topic, p);

	return e == NULL ? -1 : e->offset;
}

static int by_partition(const void *x, const void *y)
{
	const struct rd_kafka_metadata_partition *a = x, *b = y;

	return a->id < b->id ? -1 : a->id > b->id;
}

static void do_offsets(struct kafka_run *r)
{
	const struct rd_kafka_metadata *md = kafka_metadata(r->rk, r->arg[0]);
	const struct rd_kafka_metadata_topic *t = &md->topics[0];
	rd_kafka_topic_partition_list_t *start, *stable, *high;

	if (t->err != 0)
		kafka_fail_err(r->arg[0], t->err, NULL);
	start = ends_of(r->rk, t, -2);
	stable = ends_of(kafka_reader(r->kafka, "read_committed"), t, -1);
	high = ends_of(r->rk, t, -1);
	qsort(t->partitions, (size_t)t->partition_cnt, sizeof(t->partitions[0]), by_partition);
	for (int i = 0; i < t->partition_cnt; i++) {
		int32_t p = t->partitions[i].id;

		printf("partition=%d start=%" PRId64 " stable=%" PRId64 " high=%" PRId64
		       " leader=%d\n",
			p, offset_in(start, t->topic, p), offset_in(stable, t->topic, p),
			offset_in(high, t->topic, p), t->partitions[i].leader);
	}
}

/* --- records --------------------------------------------------------------------------------- */

static void print_message(const rd_kafka_message_t *m)
{
	static const char *const types[] = {"none", "create", "append"};
	char key[TEXT_SIZE];
	rd_kafka_timestamp_type_t type;
	int64_t timestamp = rd_kafka_message_timestamp(m, &type);

	printf("%" PRId64 "\t%" PRId64 "\t%s\t%s\t", m->offset, timestamp, types[type],
		text_of(key, m->key, m->key_len));
	for (size_t i = 0; i < m->len; i++)
		printf("%02x", ((const uint8_t *)m->payload)[i]);
	puts(m->payload == NULL ? "null" : "");
}

static void do_get(struct kafka_run *r)
{
	rd_kafka_t *rk = kafka_reader(r->kafka, "read_committed");
	rd_kafka_topic_t *t = rd_kafka_topic_new(rk, r->arg[0], NULL);
	int32_t partition = (int32_t)text_number("PARTITION", r->arg[1]);
	int64_t end = kafka_look_up_one(rk, r->arg[0], partition, -1), next;

	if (r->n == 3 && strncmp(r->arg[2], "from=", 5) != 0)
		kafka_fail(r->arg[2], "expected from=OFFSET");
	next = r->n == 3 ? text_number("from", r->arg[2] + 5)
			 : kafka_look_up_one(rk, r->arg[0], partition, -2);
	if (next < end && rd_kafka_consume_start(t, partition, next) != 0)
		kafka_fail_err(r->arg[0], rd_kafka_last_error(), NULL);
	while (next < end) {
		rd_kafka_message_t *m = rd_kafka_consume(t, partition, KAFKA_TIMEOUT_MS);

		if (m == NULL)
			kafka_fail(r->arg[0], "nothing comes");
		if (m->err != 0 && m->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
			kafka_fail_err(r->arg[0], m->err, rd_kafka_message_errstr(m));
		if (m->err == 0 && m->offset < end)
			print_message(m);
		next = m->offset + (m->err == 0);
		rd_kafka_message_destroy(m);
	}
}

/* --- the command line ------------------------------------------------------------------------ */

static const struct command {
	const char *name;
	int args_min, args_max;
	void (*run)(struct kafka_run *);
	const char *usage;
} commands[] = {
	/* clang-format off */
	{"create",         2, 40, topic_create,      "TOPIC PARTITIONS [replication=N]"
						     " [key=value...]"},
	{"delete",         1, 1,  topic_delete,      "TOPIC"},
	{"grow",           2, 2,  topic_grow,        "TOPIC PARTITIONS"},
	{"config",         2, 40, topic_config,      "TOPIC key=value..."},
	{"delete-records", 3, 3,  do_delete_records, "TOPIC PARTITION OFFSET"},
	{"offsets",        1, 1,  do_offsets,        "TOPIC"},
	{"acl",            4, 4,  acl_run,           "allow|drop PRINCIPAL OPERATION TYPE:NAME"},
	{"put",            1, 10, put_run,           "TOPIC [PARTITION] [--txn commit|abort|open]"
						     " [--id ID] [--compression C] [--batch N]"},
	{"get",            2, 3,  do_get,            "TOPIC PARTITION [from=OFFSET]"},
	/* clang-format on */
};

static _Noreturn void usage(void)
{
	fprintf(stderr, "usage: kafka-do --brokers B [--property NAME=VALUE]... COMMAND\n");
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		fprintf(stderr, "  %s %s\n", commands[i].name, commands[i].usage);
	exit(2);
}

static void add_property(struct kafka *k, char *word)
{
	if (k->n_properties == KAFKA_PROPERTIES_MAX)
		kafka_fail(word, "too many properties");
	k->property[k->n_properties][1] = kafka_cut(word);
	k->property[k->n_properties++][0] = word;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"brokers", required_argument, NULL, 'b'},
		{"property", required_argument, NULL, 'p'}, {0}};
	struct kafka kafka = {0};
	struct kafka_run run = {.kafka = &kafka};

	for (int c; (c = getopt_long(argc, argv, "+", options, NULL)) != -1;) {
		if (c == 'b')
			kafka.brokers = optarg;
		else if (c == 'p')
			add_property(&kafka, optarg);
		else
			usage();
	}
	if (kafka.brokers == NULL || optind == argc)
		usage();
	run.n = argc - optind - 1;
	run.arg = argv + optind + 1;
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		const struct command *c = &commands[i];

		if (strcmp(c->name, argv[optind]) != 0)
			continue;
		if (run.n < c->args_min || run.n > c->args_max)
			usage();
		if (c->run != put_run && c->run != do_get)
			kafka_open_admin(&run);
		c->run(&run);
		_exit(fflush(stdout) == 0 ? 0 : 1); /* nothing is left to say good-bye for */
	}
	usage();
}
