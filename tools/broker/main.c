/*
 * main.c - tally-broker: librdkafka's mock cluster as a program.
 *
 *	options --> rd_kafka_mock_cluster (its own thread, 127.0.0.1)
 *	                  ^
 *	stdin  --lines----' control.c          stdout: "ready ADDRESS", then one answer a line
 *
 * A broker for tests and demonstrations.  It keeps 5 MiB or 100,000 batches of
 * each partition, in memory, and has no look-up by timestamp.
 *
 * Runs in: broker.  Blocks in: poll.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "control.h"
#include "ports.h"
#include "wake.h"

#define LINE_SIZE 4096

struct options {
	int brokers;
	unsigned port;
	int n_topics;
	struct control_topic topic[CONTROL_TOPICS_MAX];
	const char *ready_file;
	bool until_eof;
	bool die_with_parent;
	pid_t parent;
};

static const char help[] =
	"usage: tally-broker [options]\n"
	"A Kafka broker for tests, in memory, on 127.0.0.1.\n"
	"  --brokers N            size of the cluster (1)\n"
	"  --port P               port of the first broker, the others follow; 0 = any free ones "
	"(0)\n"
	"  --topic NAME:N         makes a topic with N partitions; can be given again\n"
	"  --ready-file PATH      the address is written there when it can be used\n"
	"  --until-eof            ends when stdin does\n"
	"  --die-with-parent[=PID]  ends with the process that started it\n"
	"Commands on stdin, one a line: down [BROKER], up [BROKER], rtt MS [BROKER],\n"
	"leader TOPIC PART BROKER, errors API CODE..., topic NAME PARTITIONS, quit.\n";

static _Noreturn void __attribute__((format(printf, 1, 2))) usage_error(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fputs("tally-broker: ", stderr);
	vfprintf(stderr, fmt, args);
	fputs("; see --help\n", stderr);
	va_end(args);
	exit(2);
}

static long number(const char *option, const char *text, long low, long high)
{
	long n;

	if (!control_number(text, low, high, &n))
		usage_error("--%s: '%s' is not a number from %ld to %ld", option, text, low, high);
	return n;
}

static void add_topic(struct options *o, const char *text)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;

	if (len == 0 || len >= sizeof(o->topic[0].name))
		usage_error("--topic: '%s' is not NAME:PARTITIONS", text);
	if (o->n_topics == CONTROL_TOPICS_MAX)
		usage_error("--topic: at most %d", CONTROL_TOPICS_MAX);
	memcpy(o->topic[o->n_topics].name, text, len);
	o->topic[o->n_topics++].partitions = (int)number("topic", colon + 1, 1, 10000);
}

static void parse(struct options *o, int argc, char **argv)
{
	static const struct option list[] = {
		/* clang-format off */
		{"brokers",         required_argument, NULL, 'b'},
		{"port",            required_argument, NULL, 'p'},
		{"topic",           required_argument, NULL, 't'},
		{"ready-file",      required_argument, NULL, 'r'},
		{"until-eof",       no_argument,       NULL, 'e'},
		{"die-with-parent", optional_argument, NULL, 'd'},
		{"help",            no_argument,       NULL, 'h'},
		{0},
		/* clang-format on */
	};
	int c;

	while ((c = getopt_long(argc, argv, "", list, NULL)) != -1) {
		switch (c) {
		case 'b':
			o->brokers = (int)number("brokers", optarg, 1, 100);
			break;
		case 'p':
			o->port = (unsigned)number("port", optarg, 0, 65535);
			break;
		case 't':
			add_topic(o, optarg);
			break;
		case 'r':
			o->ready_file = optarg;
			break;
		case 'e':
			o->until_eof = true;
			break;
		case 'd':
			o->die_with_parent = true;
			if (optarg)
				o->parent = (pid_t)number("die-with-parent", optarg, 1, INT_MAX);
			break;
		case 'h':
			fputs(help, stdout);
			exit(0);
		default:
			exit(2); /* getopt has said why */
		}
	}
	if (optind < argc)
		usage_error("'%s': there are no arguments but options", argv[optind]);
	if (o->port + (unsigned)o->brokers - 1 > 65535)
		usage_error("--port: no room for %d brokers above %u", o->brokers, o->port);
}

/* From here the kernel ends us with the parent; it may have gone before. */
static void follow_parent(const struct options *o)
{
	if (!o->die_with_parent)
		return;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != o->parent) {
		fprintf(stderr, "tally-broker: the parent (pid %d) has gone\n", (int)o->parent);
		exit(2);
	}
}

static int watch_signals(void)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN); /* nobody may read the answers any more */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL); /* before librdkafka starts its threads */
	return signalfd(-1, &set, SFD_CLOEXEC);
}

static rd_kafka_t *new_handle(void)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char why[512];
	rd_kafka_t *rk;

	(void)rd_kafka_conf_set(conf, "log_level", "4", why, sizeof(why));
	rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	if (!rk) {
		fprintf(stderr, "tally-broker: %s\n", why);
		exit(2);
	}
	return rk;
}

static rd_kafka_mock_cluster_t *new_cluster(rd_kafka_t *rk, const struct options *o)
{
	rd_kafka_mock_cluster_t *cluster;

	ports_start(o->port);
	cluster = rd_kafka_mock_cluster_new(rk, o->brokers);
	ports_end();
	if (!cluster || wake_start(rd_kafka_mock_cluster_bootstraps(cluster)) != 0) {
		fprintf(stderr, "tally-broker: the cluster could not be made; out of memory?\n");
		exit(2);
	}
	return cluster;
}

static void make_topics(struct control *control, const struct options *o)
{
	for (int i = 0; i < o->n_topics; i++) {
		const char *name = o->topic[i].name, *wrong;

		wake_begin();
		wrong = control_topic(control, name, o->topic[i].partitions);
		wake_end();
		if (wrong)
			usage_error("--topic: %s: %s", name, wrong);
	}
}

/* A reader of the file sees nothing or the whole address. */
static void write_ready_file(const char *path, const char *address)
{
	char temporary[PATH_MAX];
	FILE *f;
	bool ok;

	snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid());
	f = fopen(temporary, "w");
	ok = f && fprintf(f, "%s\n", address) > 0;
	if (f && fclose(f) != 0)
		ok = false;
	if (!ok || rename(temporary, path) != 0) {
		fprintf(stderr, "tally-broker: --ready-file: %s: %s\n", path, strerror(errno));
		(void)unlink(temporary);
		exit(2);
	}
}

struct input {
	char buf[LINE_SIZE];
	size_t len;
	bool skip; /* the rest of a line that was too long */
};

/* Reads what there is and carries out whole lines.  False at the end. */
static bool read_commands(struct input *in, struct control *control)
{
	ssize_t n = read(STDIN_FILENO, in->buf + in->len, sizeof(in->buf) - in->len);
	char *end;

	if (n <= 0)
		return n < 0 && (errno == EINTR || errno == EAGAIN);
	in->len += (size_t)n;
	while (!control->quit && (end = memchr(in->buf, '\n', in->len))) {
		*end++ = '\0';
		if (!in->skip)
			control_line(control, in->buf);
		in->skip = false;
		in->len -= (size_t)(end - in->buf);
		memmove(in->buf, end, in->len);
	}
	if (in->len == sizeof(in->buf)) {
		if (!in->skip)
			printf("error a line has at most %d bytes\n", LINE_SIZE - 1);
		fflush(stdout);
		in->skip = true;
		in->len = 0;
	}
	return true;
}

static void serve(struct control *control, int signals, bool until_eof)
{
	static struct input in;
	struct pollfd fds[] = {
		{.fd = signals, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};

	while (!control->quit) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return;
		if (fds[0].revents)
			return;
		if (fds[1].revents && !read_commands(&in, control)) {
			if (until_eof)
				return;
			fds[1].fd = -1;
		}
	}
}

int main(int argc, char **argv)
{
	static struct options o = {.brokers = 1};
	static struct control control;
	int signals;

	o.parent = getppid();
	parse(&o, argc, argv);
	follow_parent(&o);
	signals = watch_signals();
	if (o.ready_file)
		(void)unlink(o.ready_file); /* of an earlier broker */
	control.cluster = new_cluster(new_handle(), &o);
	control.brokers = o.brokers;
	make_topics(&control, &o);
	if (o.ready_file)
		write_ready_file(o.ready_file, rd_kafka_mock_cluster_bootstraps(control.cluster));
	printf("ready %s\n", rd_kafka_mock_cluster_bootstraps(control.cluster));
	fflush(stdout);
	serve(&control, signals, o.until_eof);
	if (o.ready_file)
		(void)unlink(o.ready_file);
	fflush(stdout);
	_exit(0); /* all was in memory; librdkafka's own farewell may take a second */
}
