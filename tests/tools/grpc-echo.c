/*
 * grpc-echo.c - a gRPC server that says back what it is told, on the stack of tally-queryd.
 *
 *	grpc-echo [--listen 127.0.0.1:0] [--message-max N] [--connections N] [--streams N]
 *	          [--cert F --key F [--client-ca F]] [--patience MS] [--gather]
 *
 *	/test.Echo/Echo		the message, at once: the floor for benchmarks
 *	/test.Echo/Later	the message, 100 ms later
 *	/test.Echo/Never	no answer (deadlines, cancellation)
 *	/test.Echo/Thrice	a stream: the message three times
 *	/test.Echo/Chat		bidi: each message
 *
 * and health, and reflection (of tally-queryd's descriptors).
 *
 * Prints "listening on HOST:PORT" once it does.  SIGHUP: certificates again;
 * SIGTERM: drains, prints what happened ("calls=..."), ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/log.h"
#include "tools/queryd/descriptors.h"
#include "tools/queryd/grpc.h"

static struct grpc_server *server;

static void echo(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	(void)arg;
	grpc_reply(call, message, len);
}

struct later {
	ev_timer timer;
	struct grpc_call *call;
	size_t len;
	uint8_t message[];
};

static void later_now(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct later *later = timer->data;

	(void)loop, (void)revents;
	grpc_reply(later->call, later->message, later->len);
	free(later);
}

static void later_ended(void *arg)
{
	struct later *later = arg;

	ev_timer_stop(EV_DEFAULT, &later->timer);
	free(later);
}

static void echo_later(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	struct later *later = malloc(sizeof(*later) + len);

	(void)arg;
	if (later == NULL)
		abort();
	later->call = call;
	later->len = len;
	if (len > 0)
		memcpy(later->message, message, len);
	ev_timer_init(&later->timer, later_now, 0.1, 0);
	later->timer.data = later;
	ev_timer_start(EV_DEFAULT, &later->timer);
	grpc_on_end(call, later_ended, later);
}

static void never(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	(void)call, (void)message, (void)len, (void)arg;
}

static void thrice(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	(void)arg;
	for (int i = 0; i < 3; i++)
		grpc_send(call, message, len);
	grpc_fail(call, GRPC_OK, NULL);
}

static void chat(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	(void)arg;
	if (message == NULL)
		grpc_fail(call, GRPC_OK, NULL);
	else
		grpc_send(call, message, len);
}

static const struct grpc_method methods[] = {
	{"/test.Echo/Echo", echo, GRPC_UNARY},
	{"/test.Echo/Later", echo_later, GRPC_UNARY},
	{"/test.Echo/Never", never, GRPC_UNARY},
	{"/test.Echo/Thrice", thrice, GRPC_SERVER_STREAM},
	{"/test.Echo/Chat", chat, GRPC_BIDI},
	{NULL, NULL, GRPC_UNARY},
};

static int listen_on(char *text)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof(address);
	char *colon = strrchr(text, ':');
	const int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (colon == NULL || fd < 0)
		return -1;
	*colon = '\0';
	address.sin_port = htons((uint16_t)atoi(colon + 1));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (inet_pton(AF_INET, text, &address.sin_addr) != 1 ||
		bind(fd, (struct sockaddr *)&address, len) != 0 || listen(fd, 1024) != 0 ||
		getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
		perror(text);
		return -1;
	}
	printf("listening on %s:%d\n", text, ntohs(address.sin_port));
	fflush(stdout);
	return fd;
}

static void on_hup(struct ev_loop *loop, ev_signal *signal, int revents)
{
	char why[GRPC_WHY_SIZE];

	(void)loop, (void)signal, (void)revents;
	if (grpc_renew_tls(server, why))
		puts("renewed");
	else
		printf("not renewed: %s\n", why);
	fflush(stdout);
}

static void on_drained(void *arg)
{
	ev_break(arg, EVBREAK_ALL);
}

static void on_term(struct ev_loop *loop, ev_signal *signal, int revents)
{
	(void)signal, (void)revents;
	grpc_drain(server, on_drained, loop);
}

static bool read_options(int argc, char **argv, struct grpc_options *options, char **listen_text)
{
	static const struct option table[] = {
		{"listen", required_argument, NULL, 'l'},
		{"message-max", required_argument, NULL, 'm'},
		{"connections", required_argument, NULL, 'c'},
		{"streams", required_argument, NULL, 's'},
		{"cert", required_argument, NULL, 'C'},
		{"key", required_argument, NULL, 'K'},
		{"client-ca", required_argument, NULL, 'A'},
		{"patience", required_argument, NULL, 'p'},
		{"gather", no_argument, NULL, 'g'},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", table, NULL)) != -1) {
		unsigned long number = optarg == NULL ? 0 : strtoul(optarg, NULL, 10);

		switch (c) {
		case 'l':
			*listen_text = optarg;
			break;
		case 'm':
			options->message_max = number;
			break;
		case 'c':
			options->connections_max = (unsigned)number;
			break;
		case 's':
			options->streams_max = (unsigned)number;
			break;
		case 'C':
			options->cert_file = optarg;
			break;
		case 'K':
			options->key_file = optarg;
			break;
		case 'A':
			options->client_ca_file = optarg;
			break;
		case 'p':
			options->patience.greeting = options->patience.request =
				options->patience.answer = (unsigned)number;
			break;
		case 'g':
			options->gather = true;
			break;
		default:
			return false;
		}
	}
	return optind == argc;
}

static void print_facts(void)
{
	struct grpc_facts facts;
	uint64_t answers = 0;

	grpc_facts(server, &facts);
	for (int i = 0; i < GRPC_STATUSES; i++)
		answers += facts.answers[i];
	printf("answers=%" PRIu64 " ok=%" PRIu64 " cancelled=%" PRIu64 " calls=%" PRIu64
	       " connections=%" PRIu64 " accepted=%" PRIu64 " refused=%" PRIu64 " abused=%" PRIu64
	       " memory=%" PRIu64 "\n",
		answers, facts.answers[GRPC_OK], facts.answers[GRPC_CANCELLED], facts.calls,
		facts.connections, facts.accepted, facts.refused, facts.abused, facts.memory);
}

int main(int argc, char **argv)
{
	struct grpc_options options = {
		.methods = methods,
		.message_max = 4 * 1024 * 1024,
		.connections_max = 1024,
		.streams_max = 256,
		.loop = EV_DEFAULT,
	};
	char address[] = "127.0.0.1:0", *listen_text = address, why[GRPC_WHY_SIZE];
	ev_signal hup, term;
	int fd;

	options.descriptors = queryd_descriptors(&options.descriptors_len);
	if (!read_options(argc, argv, &options, &listen_text))
		return 2;
	log_init("grpc-echo", -1, LOG_LEVEL_INFO);
	signal(SIGPIPE, SIG_IGN);
	fd = listen_on(listen_text);
	if (fd < 0)
		return 1;
	server = grpc_start(&options, fd, why);
	if (server == NULL) {
		fprintf(stderr, "grpc-echo: %s\n", why);
		return 2;
	}
	ev_signal_init(&hup, on_hup, SIGHUP);
	ev_signal_init(&term, on_term, SIGTERM);
	ev_signal_start(options.loop, &hup);
	ev_signal_start(options.loop, &term);
	ev_run(options.loop, 0);
	print_facts();
	grpc_free(&server);
	return 0;
}
