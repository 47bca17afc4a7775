/*
 * fuzz_grpc.c - a client of the gRPC server that says whatever it likes: bytes, frames, calls.
 *
 *	how:1	bit 0: preface and SETTINGS come first		bit 1: the server drains at the end
 *	then	0 n:1 bytes:n				as they are
 *		1 type:1 flags:1 stream:1 n:2 payload:n	a frame, its length right
 *		2 path:1 extra:1 flags:1		a call on the next stream: headers as they should be,
 *							and one of `extras`
 *		3 flags:1 n:2 bytes:n			a message on the last stream
 *		4 name:1 value:1 name value		a call with this header
 *		5					the server's turn; what it says is read
 *		6 n:2					the call that is kept is answered, or fails
 *		7 id:1 value:4				SETTINGS
 *		8 stream:1 by:4				WINDOW_UPDATE
 *		9 stream:1				RST_STREAM
 *
 * At its end nothing of the connection may be left, and a well-behaved client is served.
 */
#include <errno.h>
#include <ev.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fuzz.h"

#include "shm/host.h"
#include "shm/log.h"
#include "tools/queryd/descriptors.h"
#include "tools/queryd/grpc.h"

#define OUT_MAX	   (256 * 1024)
#define GIVE_UP_NS UINT64_C(20000000000)

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, WINDOW_UPDATE = 8 };
enum { END_STREAM = 1, END_HEADERS = 4 };

static struct {
	struct ev_loop *loop;
	struct grpc_server *server;
	struct sockaddr_un address;
	socklen_t address_len;
	struct grpc_call *kept;
	bool drained;
} self;

/* --- the server -------------------------------------------------------------------------------- */

static void echo(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	(void)arg;
	grpc_reply(call, message, len);
}

static void forget(void *arg)
{
	(void)arg;
	self.kept = NULL;
}

static void keep(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	(void)message, (void)len, (void)arg;
	if (self.kept != NULL) {
		grpc_fail(call, GRPC_RESOURCE_EXHAUSTED, "one is kept\n\x80 \xc3\xa4%");
		return;
	}
	grpc_on_end(call, forget, NULL);
	self.kept = call;
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
	if (message != NULL)
		grpc_send(call, message, len);
	else
		grpc_fail(call, GRPC_OK, NULL);
}

/* "no" may not. */
static enum grpc_status may(
	const char *authorization, size_t len, int fd, const char **why, void *arg)
{
	(void)fd, (void)arg;
	if (authorization == NULL || len == 0 || memcmp(authorization, "n", 1) != 0)
		return GRPC_OK;
	*why = "not you";
	return GRPC_UNAUTHENTICATED;
}

static void start(void)
{
	static const struct grpc_method methods[] = {
		{"/t.E/Echo", echo, GRPC_UNARY},
		{"/t.E/Keep", keep, GRPC_UNARY},
		{"/t.E/Thrice", thrice, GRPC_SERVER_STREAM},
		{"/t.E/Chat", chat, GRPC_BIDI},
		{NULL, NULL, GRPC_UNARY},
	};
	static struct grpc_options options = {.methods = methods,
		.may = may,
		.message_max = 65536,
		.connections_max = 10,
		.streams_max = 16};
	char why[GRPC_WHY_SIZE];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	/* The kernel makes a name: tests beside this one do not meet. */
	self.address = (struct sockaddr_un){.sun_family = AF_UNIX};
	self.address_len = sizeof(self.address);
	hold(fd >= 0);
	hold(bind(fd, (struct sockaddr *)&self.address, sizeof(sa_family_t)) == 0);
	hold(getsockname(fd, (struct sockaddr *)&self.address, &self.address_len) == 0);
	hold(listen(fd, 16) == 0);
	options.loop = self.loop;
	options.descriptors = queryd_descriptors(&options.descriptors_len);
	self.server = grpc_start(&options, fd, why);
	hold(self.server != NULL);
	self.drained = false;
}

static void end(void)
{
	grpc_free(&self.server);
	ev_loop_destroy(self.loop);
}

static void begin(void)
{
	if (self.loop != NULL)
		return;
	signal(SIGPIPE, SIG_IGN);
	log_set_level(LOG_LEVEL_ERROR);
	self.loop = ev_loop_new(EVFLAG_AUTO);
	start();
	atexit(end);
}

static struct grpc_facts facts(void)
{
	struct grpc_facts now;

	grpc_facts(self.server, &now);
	return now;
}

/* --- a client ---------------------------------------------------------------------------------- */

struct client {
	int fd;
	bool gone; /* the server has ended it */
	uint32_t next, last;
	size_t sent, heard;
	uint8_t tail[64]; /* of what was heard */
	size_t tail_len;
};

static void turn(void)
{
	ev_run(self.loop, EVRUN_NOWAIT);
}

static void hear(struct client *client)
{
	static uint8_t bytes[65536];
	ssize_t n;

	while ((n = recv(client->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
		size_t keep_n = (size_t)n < sizeof(client->tail) ? (size_t)n : sizeof(client->tail);

		memcpy(client->tail, bytes + n - keep_n, keep_n);
		client->tail_len = keep_n;
		client->heard += (size_t)n;
	}
	if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
		client->gone = true;
}

static void client_send(struct client *client, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	if (client->sent + len > OUT_MAX)
		return;
	client->sent += len;
	while (len > 0 && !client->gone) {
		ssize_t n = send(client->fd, at, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0) {
			at += n;
			len -= (size_t)n;
			continue;
		}
		if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS) {
			client->gone = true;
			return;
		}
		turn();
		hear(client);
	}
}

static void frame(struct client *client, unsigned type, unsigned flags, uint32_t stream,
	const void *payload, size_t len)
{
	uint8_t head[9] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, (uint8_t)type,
		(uint8_t)flags, (uint8_t)(stream >> 24), (uint8_t)(stream >> 16),
		(uint8_t)(stream >> 8), (uint8_t)stream};

	client_send(client, head, sizeof(head));
	client_send(client, payload, len);
}

static void greet(struct client *client)
{
	client_send(client, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
	frame(client, SETTINGS, 0, 0, NULL, 0);
}

static void client_begin(struct client *client)
{
	*client = (struct client){.next = 1, .last = 1};
	client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	hold(client->fd >= 0);
	hold(connect(client->fd, (struct sockaddr *)&self.address, self.address_len) == 0);
	turn();
}

/* --- headers: not indexed, not Huffman coded ----------------------------------------------------- */

struct block {
	uint8_t bytes[1024];
	size_t len;
};

static void put_text(struct block *block, const void *text, size_t len)
{
	hold(len < 127 && block->len + len + 1 <= sizeof(block->bytes));
	block->bytes[block->len++] = (uint8_t)len;
	memcpy(block->bytes + block->len, text, len);
	block->len += len;
}

static void put_header(struct block *block, const char *name, const char *value)
{
	block->bytes[block->len++] = 0;
	put_text(block, name, strlen(name));
	put_text(block, value, strlen(value));
}

static const char *const paths[] = {"/t.E/Echo", "/t.E/Keep", "/t.E/Thrice", "/t.E/Chat",
	"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "/nobody/here", "*"};
static const char *const extras[][2] = {{NULL, NULL}, {"grpc-encoding", "gzip"},
	{"grpc-encoding", "zstd"}, {"grpc-timeout", "100m"}, {"grpc-timeout", "1n"},
	{"grpc-timeout", "99999999H"}, {"content-type", "text/html"}, {"content-length", "5"},
	{"x-scope-orgid", "t"}, {"connection", "close"}, {":status", "200"}, {"te", "gzip"},
	{"accept-encoding", "gzip"}, {"grpc-accept-encoding", "gzip"}, {"authorization", "no"},
	{"authorization", "Bearer x"}, {"authorization", ""}};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void put_usual(struct block *block, const char *path)
{
	put_header(block, ":method", "POST");
	put_header(block, ":scheme", "http");
	put_header(block, ":path", path);
	put_header(block, ":authority", "x");
	put_header(block, "te", "trailers");
	put_header(block, "content-type", "application/grpc");
}

static void call(struct client *client, const struct block *block, unsigned flags)
{
	client->last = client->next;
	client->next += 2;
	frame(client, HEADERS, END_HEADERS | (flags & END_STREAM), client->last, block->bytes,
		block->len);
}

static void message(struct client *client, unsigned flags, const uint8_t *bytes, size_t n)
{
	uint8_t head[14] = {(uint8_t)((n + 5) >> 16), (uint8_t)((n + 5) >> 8), (uint8_t)(n + 5),
		DATA, flags & END_STREAM, 0, 0, (uint8_t)(client->last >> 8), (uint8_t)client->last,
		flags >> 1 & 1, 0, 0, (uint8_t)(n >> 8), (uint8_t)n};

	client_send(client, head, sizeof(head));
	client_send(client, bytes, n);
}

/* --- what the input says ------------------------------------------------------------------------- */

static void do_bytes(struct client *client, struct input *in)
{
	const uint8_t *bytes;
	size_t n = take_bytes(in, (size_t)take(in, 1), &bytes);

	client_send(client, bytes, n);
}

static void do_frame(struct client *client, struct input *in)
{
	unsigned type = (unsigned)take(in, 1), flags = (unsigned)take(in, 1);
	uint32_t stream = (uint32_t)take(in, 1);
	const uint8_t *bytes;
	size_t n = take_bytes(in, (size_t)take(in, 2), &bytes);

	frame(client, type, flags, stream, bytes, n);
}

static void do_call(struct client *client, struct input *in)
{
	struct block block = {.len = 0};
	unsigned path = (unsigned)take(in, 1), extra = (unsigned)take(in, 1) % COUNT(extras);

	put_usual(&block, paths[path % COUNT(paths)]);
	if (extras[extra][0] != NULL)
		put_header(&block, extras[extra][0], extras[extra][1]);
	call(client, &block, (unsigned)take(in, 1));
}

static void do_message(struct client *client, struct input *in)
{
	unsigned flags = (unsigned)take(in, 1);
	const uint8_t *bytes;
	size_t n = take_bytes(in, (size_t)take(in, 2) % 16000, &bytes);

	message(client, flags, bytes, n);
}

static void do_header(struct client *client, struct input *in)
{
	size_t name_n = (size_t)take(in, 1) % 100, value_n = (size_t)take(in, 1) % 100;
	struct block block = {.len = 0};
	const uint8_t *text;

	put_usual(&block, paths[0]);
	block.bytes[block.len++] = 0;
	name_n = take_bytes(in, name_n, &text);
	put_text(&block, text, name_n);
	value_n = take_bytes(in, value_n, &text);
	put_text(&block, text, value_n);
	call(client, &block, 0);
}

static void do_turn(struct client *client, struct input *in)
{
	(void)in;
	turn();
	hear(client);
}

static void do_answer(struct client *client, struct input *in)
{
	static const uint8_t much[65535];
	struct grpc_call *kept;
	size_t n = (size_t)take(in, 2);

	turn();
	kept = self.kept;
	self.kept = NULL;
	if (kept == NULL)
		return;
	if (n % 3 == 0)
		grpc_fail(kept, (enum grpc_status)(n % GRPC_STATUSES), "so it is");
	else
		grpc_reply(kept, much, n);
	hear(client);
}

static void do_settings(struct client *client, struct input *in)
{
	uint8_t setting[6] = {0};

	setting[1] = (uint8_t)take(in, 1);
	for (int i = 2; i < 6; i++)
		setting[i] = (uint8_t)take(in, 1);
	frame(client, SETTINGS, 0, 0, setting, sizeof(setting));
}

static void do_window(struct client *client, struct input *in)
{
	uint32_t stream = (uint32_t)take(in, 1);
	uint8_t by[4];

	for (int i = 0; i < 4; i++)
		by[i] = (uint8_t)take(in, 1);
	frame(client, WINDOW_UPDATE, 0, stream, by, sizeof(by));
}

static void do_reset(struct client *client, struct input *in)
{
	static const uint8_t cancel[4] = {0, 0, 0, 8};

	frame(client, RST_STREAM, 0, (uint32_t)take(in, 1), cancel, sizeof(cancel));
}

/* --- the whole ----------------------------------------------------------------------------------- */

/* Closed by us: nothing of it may be left. */
static void client_end(struct client *client)
{
	uint64_t give_up = host_boot_ns() + GIVE_UP_NS;

	close(client->fd);
	while (facts().connections > 0) {
		turn();
		hold(host_boot_ns() < give_up);
	}
	hold(facts().calls == 0 && facts().memory == 0);
	hold(self.kept == NULL);
}

static void hold_served(void)
{
	struct block block = {.len = 0};
	struct client client;
	uint64_t give_up = host_boot_ns() + GIVE_UP_NS;
	uint64_t before = facts().answers[GRPC_OK];

	client_begin(&client);
	greet(&client);
	put_usual(&block, paths[0]);
	call(&client, &block, 0);
	message(&client, END_STREAM, (const uint8_t *)"served?", 7);
	while (facts().answers[GRPC_OK] == before) {
		turn();
		hear(&client);
		hold(!client.gone && host_boot_ns() < give_up);
	}
	client_end(&client);
}

static void all_gone(void *arg)
{
	(void)arg;
	self.drained = true;
}

/* After GOAWAY: the client still has to be let go, and then the server is over. */
static void drain(struct client *client)
{
	uint64_t give_up = host_boot_ns() + GIVE_UP_NS;

	grpc_drain(self.server, all_gone, NULL);
	turn();
	hear(client);
	close(client->fd);
	while (!self.drained) {
		turn();
		hold(host_boot_ns() < give_up);
	}
	hold(facts().calls == 0 && facts().memory == 0);
	grpc_free(&self.server);
	start();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static void (*const dos[])(struct client *, struct input *) = {do_bytes, do_frame, do_call,
		do_message, do_header, do_turn, do_answer, do_settings, do_window, do_reset};
	struct input in = {data, len};
	struct client client;
	unsigned how;

	begin();
	client_begin(&client);
	how = (unsigned)take(&in, 1);
	if (how & 1)
		greet(&client);
	while (in.left > 0 && !client.gone)
		dos[take(&in, 1) % COUNT(dos)](&client, &in);
	turn();
	hear(&client);
	if (how & 2)
		drain(&client);
	else
		client_end(&client);
	hold_served();
	return 0;
}
