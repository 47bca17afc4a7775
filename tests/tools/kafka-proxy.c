/*
 * kafka-proxy.c - stands between a Kafka client and a plaintext broker, and spoils what is fetched.
 *
 *	kafka-proxy --listen ADDRESS:PORT --to ADDRESS:PORT --ready-file PATH
 *	            [--until-eof] [--die-with-parent=PID]
 *
 *	client --frames--> which are Fetch, by correlation id --> broker
 *	client <-- spoiled, or as it is (kafka/spoil.c) <--frames-- broker
 *
 * Commands on stdin, one a line; each is answered on stdout with "ok", or "error" and why:
 *
 *	pass                  as it is, from now on; undoes all of the others
 *	flip   TOPIC PARTITION [COUNT] [at=OFFSET] [bit=N]   one bit of the records
 *	crc    TOPIC PARTITION [COUNT] [at=OFFSET]           the crc of the batch
 *	magic  TOPIC PARTITION [COUNT] [at=OFFSET]           a layout nobody knows
 *	codec  TOPIC PARTITION [COUNT] [at=OFFSET]           a codec nobody knows, right crc
 *	cut    TOPIC PARTITION [COUNT] [at=OFFSET]           ends in mid-batch
 *	garble TOPIC PARTITION [COUNT] [at=OFFSET]           absurd lengths, right crc
 *	drop                  closes every connection and refuses new ones
 *	stall                 accepts them, and forwards nothing
 *
 * Of each response the first batch is spoiled, with at= the one that holds OFFSET; with COUNT only
 * in so many responses.  A line on stderr for each.  The broker has to advertise the proxy's
 * address (a listener of its own), or its metadata lead past it.
 *
 * Blocks in: poll.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/tools/kafka/spoil.h"
#include "tests/tools/text.h"

#define CONNECTIONS_MAX 256
#define FETCHES_MAX	64
#define WORDS_MAX	8
#define FRAME_MAX	(100u << 20)
#define READ_SIZE	65536u
#define WAITING_MAX	(1u << 20) /* unsent: no more is read until it is less */
#define API_FETCH	1

enum { CLIENT, BROKER };

/* From one side to the other: sent | whole frames | the beginning of the next one. */
struct stream {
	uint8_t *data;
	size_t sent, ready, len, size;
};

struct fetch {
	uint32_t id;
	int version;
};

struct connection {
	bool used, told;
	int fd[2];
	struct stream from[2];
	struct fetch fetch[FETCHES_MAX];
	int n_fetches;
};

static struct proxy {
	struct sockaddr_in listen, to;
	int listener, holder; /* -1: dropped */
	bool stalled;
	struct connection connection[CONNECTIONS_MAX];
	struct spoil_rules rules;
} proxy = {.listener = -1};

static _Noreturn void fail(const char *what, const char *why)
{
	fprintf(stderr, "kafka-proxy: %s: %s\n", what, why);
	exit(2);
}

/* --- connections ----------------------------------------------------------------------------- */

static void close_connection(struct connection *c)
{
	for (int side = 0; side < 2; side++) {
		close(c->fd[side]);
		free(c->from[side].data);
	}
	memset(c, 0, sizeof(*c));
}

static void accept_one(void)
{
	struct connection *c = proxy.connection;
	int client = accept4(proxy.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), broker;

	if (client < 0)
		return;
	broker = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	while (c < proxy.connection + CONNECTIONS_MAX && c->used)
		c++;
	if (c == proxy.connection + CONNECTIONS_MAX || broker < 0 ||
		(connect(broker, (struct sockaddr *)&proxy.to, sizeof(proxy.to)) != 0 &&
			errno != EINPROGRESS)) {
		fprintf(stderr, "kafka-proxy: refused a client: %s\n",
			broker < 0 ? strerror(errno) : "no broker, or too many connections");
		close(client);
		close(broker);
		return;
	}
	c->used = true;
	c->fd[CLIENT] = client;
	c->fd[BROKER] = broker;
}

/* --- frames ---------------------------------------------------------------------------------- */

/* size 4, api 2, version 2, correlation id 4 */
static void see_request(struct connection *c, const uint8_t *frame, size_t len)
{
	if (len < 12 || spoil_get(frame + 4, 2) != API_FETCH)
		return;
	if (c->n_fetches == FETCHES_MAX)
		memmove(c->fetch, c->fetch + 1, sizeof(c->fetch[0]) * (size_t)--c->n_fetches);
	c->fetch[c->n_fetches++] = (struct fetch){
		.id = (uint32_t)spoil_get(frame + 8, 4), .version = (int)spoil_get(frame + 6, 2)};
}

/* Returns its new length. */
static size_t see_response(struct connection *c, uint8_t *frame, size_t len)
{
	int i = 0, version;

	while (len >= 8 && i < c->n_fetches && c->fetch[i].id != spoil_get(frame + 4, 4))
		i++;
	if (len < 8 || i == c->n_fetches)
		return len;
	version = c->fetch[i].version;
	c->fetch[i] = c->fetch[--c->n_fetches];
	if (proxy.rules.n == 0)
		return len;
	if (version >= SPOIL_VERSION_MIN && version <= SPOIL_VERSION_MAX)
		return spoil_response(frame, len, version, &proxy.rules);
	if (!c->told)
		fprintf(stderr, "kafka-proxy: Fetch version %d left as it is: only %d to %d\n",
			version, SPOIL_VERSION_MIN, SPOIL_VERSION_MAX);
	c->told = true;
	return len;
}

/* Room for `more` bytes behind what is there. */
static bool make_room(struct stream *s, size_t more)
{
	uint8_t *data;

	if (s->sent > 0) {
		memmove(s->data, s->data + s->sent, s->len - s->sent);
		s->len -= s->sent;
		s->ready -= s->sent;
		s->sent = 0;
	}
	if (s->len + more <= s->size)
		return true;
	data = realloc(s->data, s->len + more);
	if (data == NULL)
		return false;
	s->data = data;
	s->size = s->len + more;
	return true;
}

/* All frames that are whole now; false when one of them cannot be. */
static bool see_frames(struct connection *c, int side)
{
	struct stream *s = &c->from[side];

	while (s->len - s->ready >= 4) {
		uint8_t *frame = s->data + s->ready;
		size_t len = 4 + (size_t)spoil_get(frame, 4), kept = len;

		if (len > FRAME_MAX) {
			fprintf(stderr, "kafka-proxy: a frame of %zu bytes; not Kafka?\n", len);
			return false;
		}
		if (s->len - s->ready < len)
			return make_room(s, len - (s->len - s->ready));
		if (side == CLIENT)
			see_request(c, frame, len);
		else
			kept = see_response(c, frame, len);
		memmove(frame + kept, frame + len, s->len - s->ready - len);
		s->len -= len - kept;
		s->ready += kept;
	}
	return true;
}

static bool read_from(struct connection *c, int side)
{
	struct stream *s = &c->from[side];
	ssize_t n;

	if (!make_room(s, READ_SIZE))
		return false;
	n = read(c->fd[side], s->data + s->len, s->size - s->len);
	if (n < 0)
		return errno == EAGAIN;
	s->len += (size_t)n;
	return n > 0 && see_frames(c, side);
}

static bool write_from(struct connection *c, int side)
{
	struct stream *s = &c->from[side];
	ssize_t n = send(c->fd[1 - side], s->data + s->sent, s->ready - s->sent, MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN;
	s->sent += (size_t)n;
	return true;
}

static bool serve(struct connection *c, const struct pollfd *fds)
{
	for (int side = 0; side < 2; side++) {
		short events = fds[side].revents;

		if ((events & POLLOUT) && !write_from(c, 1 - side))
			return false;
		if ((events & POLLIN) && !read_from(c, side))
			return false;
		if ((events & (POLLERR | POLLHUP)) && !(events & POLLIN))
			return false;
	}
	return true;
}

/* --- listening ------------------------------------------------------------------------------- */

static struct sockaddr_in address_of(const char *option, const char *text)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	const char *colon = strrchr(text, ':');
	char host[64];

	if (colon == NULL || (size_t)(colon - text) >= sizeof(host))
		fail(option, "expected ADDRESS:PORT");
	snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
	if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
		fail(option, "the address has to be of the kind 127.0.0.1");
	a.sin_port = htons((uint16_t)text_number(option, colon + 1));
	return a;
}

/* Bound, not listening: refuses, and lets nobody else have the port. */
static int bound_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
		bind(fd, (struct sockaddr *)&proxy.listen, sizeof(proxy.listen)) != 0)
		fail("--listen", strerror(errno));
	return fd;
}

static void start_listening(void)
{
	if (proxy.listener >= 0)
		return;
	proxy.listener = bound_socket();
	if (listen(proxy.listener, 128) != 0)
		fail("listen", strerror(errno));
}

static void open_port(void)
{
	socklen_t len = sizeof(proxy.listen);

	proxy.holder = bound_socket();
	if (getsockname(proxy.holder, (struct sockaddr *)&proxy.listen, &len) != 0)
		fail("--listen", strerror(errno));
	start_listening();
}

static void write_ready_file(const char *path)
{
	char half[4096], host[INET_ADDRSTRLEN];
	FILE *out;

	snprintf(half, sizeof(half), "%s.new", path);
	out = fopen(half, "we");
	if (out == NULL)
		fail(half, strerror(errno));
	inet_ntop(AF_INET, &proxy.listen.sin_addr, host, sizeof(host));
	fprintf(out, "%s:%d\n", host, ntohs(proxy.listen.sin_port));
	if (fclose(out) != 0 || rename(half, path) != 0)
		fail(path, strerror(errno));
}

/* --- commands -------------------------------------------------------------------------------- */

static void do_pass(void)
{
	proxy.rules.n = 0;
	proxy.stalled = false;
	start_listening();
}

static void do_drop(void)
{
	for (struct connection *c = proxy.connection; c < proxy.connection + CONNECTIONS_MAX; c++)
		if (c->used)
			close_connection(c);
	if (proxy.listener >= 0)
		close(proxy.listener);
	proxy.listener = -1;
}

static void do_stall(void)
{
	proxy.stalled = true;
}

/* The words of a command; returns what is wrong with it, or NULL. */
static const char *obey(char **word, int n)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} commands[] = {{"pass", do_pass}, {"drop", do_drop}, {"stall", do_stall}};

	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (strcmp(commands[i].name, word[0]) == 0) {
			commands[i].run();
			return NULL;
		}
	return spoil_add(&proxy.rules, word, n);
}

static void command(char *line)
{
	char *word[WORDS_MAX], *rest = line;
	const char *wrong;
	int n = 0;

	while (n < WORDS_MAX && (word[n] = strtok_r(rest, " \t\r\n", &rest)) != NULL)
		n++;
	if (n == 0)
		return;
	wrong = obey(word, n);
	printf("%s%s\n", wrong ? "error " : "ok", wrong ? wrong : "");
	fflush(stdout);
}

/* False at the end of stdin. */
static bool read_commands(void)
{
	static char text[4096];
	static size_t len;
	ssize_t n = read(STDIN_FILENO, text + len, sizeof(text) - 1 - len);
	char *end;

	if (n <= 0)
		return false;
	len += (size_t)n;
	while ((end = memchr(text, '\n', len)) != NULL) {
		*end = '\0';
		command(text);
		len -= (size_t)(end + 1 - text);
		memmove(text, end + 1, len);
	}
	return len < sizeof(text) - 1;
}

/* --- the loop -------------------------------------------------------------------------------- */

static void prepare(const struct connection *c, struct pollfd *fds)
{
	for (int side = 0; side < 2; side++) {
		const struct stream *in = &c->from[side], *out = &c->from[1 - side];

		fds[side] = (struct pollfd){
			.fd = c->used && !proxy.stalled ? c->fd[side] : -1,
			.events = (short)((in->ready - in->sent < WAITING_MAX ? POLLIN : 0) |
					  (out->ready > out->sent ? POLLOUT : 0)),
		};
	}
}

static void loop(bool until_eof)
{
	static struct pollfd fds[2 + 2 * CONNECTIONS_MAX];
	bool stdin_open = true;

	for (;;) {
		fds[0] = (struct pollfd){.fd = stdin_open ? STDIN_FILENO : -1, .events = POLLIN};
		fds[1] = (struct pollfd){.fd = proxy.listener, .events = POLLIN};
		for (int i = 0; i < CONNECTIONS_MAX; i++)
			prepare(&proxy.connection[i], &fds[2 + 2 * i]);
		if (poll(fds, sizeof(fds) / sizeof(*fds), -1) < 0 && errno != EINTR)
			fail("poll", strerror(errno));
		for (int i = 0; i < CONNECTIONS_MAX; i++)
			if (proxy.connection[i].used &&
				!serve(&proxy.connection[i], &fds[2 + 2 * i]))
				close_connection(&proxy.connection[i]);
		if (fds[1].revents)
			accept_one();
		if (fds[0].revents && !read_commands()) {
			if (until_eof)
				return;
			stdin_open = false;
		}
	}
}

static void follow_parent(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		fail("--die-with-parent", "it has gone");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"listen", required_argument, NULL, 'l'},
		{"to", required_argument, NULL, 't'}, {"ready-file", required_argument, NULL, 'r'},
		{"until-eof", no_argument, NULL, 'e'},
		{"die-with-parent", required_argument, NULL, 'd'}, {0}};
	const char *ready_file = NULL;
	bool until_eof = false;

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == 'l')
			proxy.listen = address_of("--listen", optarg);
		else if (c == 't')
			proxy.to = address_of("--to", optarg);
		else if (c == 'r')
			ready_file = optarg;
		else if (c == 'e')
			until_eof = true;
		else if (c == 'd')
			follow_parent((pid_t)text_number("--die-with-parent", optarg));
		else
			return 2;
	}
	if (proxy.listen.sin_family == 0 || proxy.to.sin_port == 0 || ready_file == NULL ||
		optind != argc)
		fail("usage",
			"kafka-proxy --listen ADDRESS:PORT --to ADDRESS:PORT --ready-file PATH "
			"[--until-eof] [--die-with-parent=PID]");
	signal(SIGPIPE, SIG_IGN);
	open_port();
	write_ready_file(ready_file);
	loop(until_eof);
	return 0;
}
