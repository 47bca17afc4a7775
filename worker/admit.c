/*
 * admit.c - admit.sock: questions into the batch, answers after its commit.
 *
 *	accept -> conn: message -> admit_unpack -> usage_touch | usage_admit | usage_rate
 *	                                |              waiting[] { conn, id, first ticket, n }
 *	                   not ours: cut off
 *	commit -> admit_answer: waiting[] -> admit_pack_answer -> send
 *
 * A peer that garbles loses its connection; it is nobody but a query process of
 * our own user.  While answers wait to be sent nothing more is read from that peer,
 * so what is kept for it is bounded by what it had asked in one go.
 *
 * Runs in: worker, main thread.  Blocks in: nowhere.
 */
#include "admit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "quit.h"

#include "shm/admit.h"
#include "shm/check.h"
#include "shm/err.h"
#include "shm/log.h"

#define CONNS_MAX	  256
#define BACKLOG		  64
#define MESSAGES_PER_WAKE 32
#define HELD_TOUCHES_MAX  100000 /* in a batch that cannot be committed */
#define SOCKET_BYTES	  (1 << 20)

struct reply {
	struct reply *next;
	size_t len;
	uint8_t bytes[];
};

struct conn {
	struct admit *admit;
	int fd; /* -1 = free */
	ev_io read, write;
	struct reply *first, **last; /* that the socket had no room for */
	unsigned number;	     /* of this use of the slot */
};

/* A question whose answer is due after the commit. */
struct waiting {
	unsigned conn, number;
	uint64_t id;
	enum admit_kind kind;
	uint32_t ticket, n;
};

struct admit {
	struct admit_options o;
	int fd;
	ev_io accept;
	struct conn conns[CONNS_MAX];
	unsigned numbers;
	struct waiting *waiting;
	size_t n_waiting, cap;
	struct log_limit strange, dropped, refused;
	uint8_t message[ADMIT_MESSAGE_MAX + 1];
	uint8_t answer[ADMIT_MESSAGE_MAX];
};

#define COUNT(admit, field, n)                                                                     \
	stats_set((admit)->o.facts->stats, field, stats_get((admit)->o.facts->stats, field) + (n))

/* --- a connection -------------------------------------------------------------------------- */

static void conn_close(struct conn *conn)
{
	struct reply *reply = conn->first, *next;

	ev_io_stop(conn->admit->o.loop, &conn->read);
	ev_io_stop(conn->admit->o.loop, &conn->write);
	close(conn->fd);
	conn->fd = -1;
	for (; reply; reply = next) {
		next = reply->next;
		free(reply);
	}
	conn->first = NULL;
}

static void conn_keep(struct conn *conn, const uint8_t *bytes, size_t len)
{
	struct reply *reply = malloc(sizeof(*reply) + len);

	must_get(reply);
	reply->next = NULL;
	reply->len = len;
	memcpy(reply->bytes, bytes, len);
	*conn->last = reply;
	conn->last = &reply->next;
	ev_io_stop(conn->admit->o.loop, &conn->read);
	ev_io_start(conn->admit->o.loop, &conn->write);
}

/* false: no room now.  A connection that is broken is closed. */
static bool conn_try(struct conn *conn, const uint8_t *bytes, size_t len)
{
	ssize_t n;

	do
		n = send(conn->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return false;
	if (n < 0)
		conn_close(conn);
	return true;
}

static void conn_send(struct conn *conn, const struct admit_answer *answer)
{
	struct admit *admit = conn->admit;
	size_t len = admit_pack_answer(answer, admit->answer);

	must(len > 0);
	if (conn->first || !conn_try(conn, admit->answer, len))
		conn_keep(conn, admit->answer, len);
}

static void on_writable(struct ev_loop *loop, ev_io *io, int events)
{
	struct conn *conn = io->data;

	(void)events;
	while (conn->fd >= 0 && conn->first) {
		struct reply *reply = conn->first;

		if (!conn_try(conn, reply->bytes, reply->len))
			return;
		if (conn->fd < 0)
			return;
		conn->first = reply->next;
		free(reply);
	}
	if (conn->fd < 0)
		return;
	conn->last = &conn->first;
	ev_io_stop(loop, &conn->write);
	ev_io_start(loop, &conn->read);
}

/* --- questions ----------------------------------------------------------------------------- */

static enum admit_status status_of(int err)
{
	return err == 0 ? ADMIT_DONE : err == ERR_FULL ? ADMIT_NO_ROOM : ADMIT_NOT_READY;
}

static void refuse(struct conn *conn, const struct admit_question *question, int err)
{
	if (question->kind == ADMIT_ADMIT)
		COUNT(conn->admit, asked_failed, question->n_streams);
	conn_send(conn, &(struct admit_answer){.id = question->id,
				.generation = question->generation,
				.status = status_of(err),
				.asked = question->kind});
}

static struct usage_stream_asked stream_of(
	const struct admit_question *question, struct admit_stream stream)
{
	struct usage_stream_asked asked = {
		.tenant = question->tenant.text,
		.tenant_len = question->tenant.len,
		.policy = "",
		.hash = stream.hash,
		.bytes = stream.bytes,
		.seen_ms = question->seen_ms,
	};

	if (question->kind != ADMIT_RATE) {
		asked.policy = question->policy[stream.policy].name.text;
		asked.policy_len = question->policy[stream.policy].name.len;
	}
	return asked;
}

static void take_touches(struct admit *admit, const struct admit_question *question, int err)
{
	int64_t now = now_ms(admit->o.now);
	unsigned more;

	/* They were accepted, so they stay in a batch that waits, within bounds. */
	if ((err && err != ERR_FULL && err != ERR_LEASE) ||
		(err && usage_pending(admit->o.usage) > HELD_TOUCHES_MAX)) {
		if (log_limit_pass(&admit->dropped, 10000, &more))
			log_warn("admit.touches_dropped", "streams=%u reason=%s suppressed=%u",
				question->n_streams, err_word(err), more);
		return;
	}
	for (uint32_t i = 0; i < question->n_streams; i++) {
		struct usage_stream_asked asked = stream_of(question, admit_stream_at(question, i));

		usage_touch(admit->o.usage, &asked, now);
	}
	COUNT(admit, touched, question->n_streams);
	admit->o.touched(admit->o.arg);
}

static void wait_for_commit(
	struct conn *conn, const struct admit_question *question, uint32_t first_ticket)
{
	struct admit *admit = conn->admit;

	if (admit->n_waiting == admit->cap) {
		admit->cap = admit->cap ? 2 * admit->cap : 64;
		admit->waiting = reallocarray(admit->waiting, admit->cap, sizeof(*admit->waiting));
		must_get(admit->waiting);
	}
	admit->waiting[admit->n_waiting++] =
		(struct waiting){.conn = (unsigned)(conn - admit->conns),
			.number = conn->number,
			.id = question->id,
			.kind = question->kind,
			.ticket = first_ticket,
			.n = question->n_streams};
}

static void take_admits(struct conn *conn, const struct admit_question *question)
{
	struct usage *usage = conn->admit->o.usage;
	int64_t now = now_ms(conn->admit->o.now);
	uint32_t budget = 0, first = 0;

	for (uint16_t i = 0; i < question->n_buckets; i++) {
		uint32_t index = usage_budget(usage, question->budget[i]);

		if (i == 0)
			budget = index;
	}
	for (uint32_t i = 0; i < question->n_streams; i++) {
		struct admit_stream stream = admit_stream_at(question, i);
		struct usage_stream_asked asked = stream_of(question, stream);
		uint16_t policy = stream.policy;
		uint32_t ticket =
			usage_admit(usage, &asked, budget + question->policy[policy].bucket, now);

		if (i == 0)
			first = ticket;
	}
	wait_for_commit(conn, question, first);
}

static void take_rates(struct conn *conn, const struct admit_question *question)
{
	int64_t now = now_ms(conn->admit->o.now);
	uint32_t first = 0;

	for (uint32_t i = 0; i < question->n_streams; i++) {
		struct usage_stream_asked asked = stream_of(question, admit_stream_at(question, i));
		uint32_t ticket = usage_rate(conn->admit->o.usage, &asked, now);

		if (i == 0)
			first = ticket;
	}
	COUNT(conn->admit, rated, question->n_streams);
	wait_for_commit(conn, question, first);
}

/* Each stream belongs to this partition: else the peer has another routing. */
static bool is_ours(const struct admit *admit, const struct admit_question *question)
{
	const struct handoff *handoff = admit->o.handoff;

	if (question->generation != handoff->generation)
		return false;
	for (uint32_t i = 0; i < question->n_streams; i++)
		if (admit_stream_at(question, i).hash % handoff->partitions != handoff->partition)
			return false;
	return true;
}

static void take_question(struct conn *conn, const struct admit_question *question)
{
	struct admit *admit = conn->admit;
	int err = is_ours(admit, question) ? admit->o.may_ask(admit->o.arg) : ERR_NOT_READY;

	if (question->kind == ADMIT_TOUCH)
		take_touches(admit, question, err);
	else if (err)
		refuse(conn, question, err);
	else if (question->kind == ADMIT_ADMIT)
		take_admits(conn, question);
	else
		take_rates(conn, question);
}

/* false: nothing more is there now, or the connection is gone. */
static bool take_message(struct conn *conn)
{
	static struct admit_question question; /* large */
	struct admit *admit = conn->admit;
	unsigned more;
	ssize_t n =
		recv(conn->fd, admit->message, sizeof(admit->message), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return errno == EINTR;
	if (n > 0 && admit_unpack(admit->message, (size_t)n, &question)) {
		take_question(conn, &question);
		return conn->fd >= 0 && !conn->first;
	}
	if (n > 0 && log_limit_pass(&admit->strange, 5000, &more))
		log_warn("admit.strange", "bytes=%zd suppressed=%u action=\"cut off\"", n, more);
	conn_close(conn);
	return false;
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	struct conn *conn = io->data;

	(void)loop;
	(void)events;
	for (int i = 0; i < MESSAGES_PER_WAKE && take_message(conn); i++)
		;
}

/* --- listening ----------------------------------------------------------------------------- */

static bool is_one_of_us(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

static void conn_open(struct admit *admit, struct conn *conn, int fd)
{
	int size = SOCKET_BYTES;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	conn->admit = admit;
	conn->fd = fd;
	conn->first = NULL;
	conn->last = &conn->first;
	conn->number = ++admit->numbers;
	ev_io_init(&conn->read, on_readable, fd, EV_READ);
	ev_io_init(&conn->write, on_writable, fd, EV_WRITE);
	conn->read.data = conn->write.data = conn;
	ev_io_start(admit->o.loop, &conn->read);
}

static void on_accept(struct ev_loop *loop, ev_io *io, int events)
{
	struct admit *admit = io->data;
	int fd = accept4(admit->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	bool ours = fd >= 0 && is_one_of_us(fd);
	unsigned more;

	(void)loop;
	(void)events;
	if (fd < 0)
		return;
	for (unsigned i = 0; i < CONNS_MAX && ours; i++) {
		if (admit->conns[i].fd < 0) {
			conn_open(admit, &admit->conns[i], fd);
			return;
		}
	}
	if (log_limit_pass(&admit->refused, 10000, &more))
		log_warn("admit.refused", "reason=\"%s\" most=%d suppressed=%u",
			ours ? "too many connections" : "another user", CONNS_MAX, more);
	close(fd);
}

static int open_socket(const char *dir)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/" ADMIT_NAME, dir);
	int fd;

	if (n < 0 || (size_t)n >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	unlink(address.sun_path); /* a predecessor's: we hold the lock of this generation */
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
		chmod(address.sun_path, 0600) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	close(fd);
	return -1;
}

void admit_open(const struct admit_options *options, struct admit **out)
{
	struct admit *admit = calloc(1, sizeof(*admit));

	must_get(admit);
	admit->o = *options;
	for (unsigned i = 0; i < CONNS_MAX; i++)
		admit->conns[i].fd = -1;
	admit->fd = open_socket(options->path);
	if (admit->fd < 0) {
		log_error("admit.no_socket", "dir=%s error=\"%s\"", options->path, strerror(errno));
		quit_internal(ADMIT_NAME, err_from_errno(errno));
	}
	ev_io_init(&admit->accept, on_accept, admit->fd, EV_READ);
	admit->accept.data = admit;
	ev_io_start(options->loop, &admit->accept);
	*out = admit;
}

/* --- answers ------------------------------------------------------------------------------- */

bool admit_waiting(const struct admit *admit)
{
	return admit->n_waiting > 0;
}

bool admit_judged(const struct admit *admit)
{
	const struct waiting *last;

	if (admit->n_waiting == 0)
		return false;
	last = &admit->waiting[admit->n_waiting - 1];
	return last->ticket + last->n <= usage_judged(admit->o.usage);
}

static void count_verdict(struct admit *admit, enum usage_verdict verdict)
{
	switch (verdict) {
	case USAGE_KNOWN:
		COUNT(admit, asked_known, 1);
		break;
	case USAGE_NEW:
		COUNT(admit, asked_new, 1);
		break;
	case USAGE_REJECTED:
		COUNT(admit, asked_rejected, 1);
		break;
	case USAGE_FAILED:
		COUNT(admit, asked_failed, 1);
		break;
	}
}

_Static_assert((int)USAGE_KNOWN == (int)ADMIT_KNOWN && (int)USAGE_NEW == (int)ADMIT_NEW &&
		       (int)USAGE_REJECTED == (int)ADMIT_REJECTED &&
		       (int)USAGE_FAILED == (int)ADMIT_FAILED,
	"one list");

/* The verdicts or rates of one question. */
static void fill(
	struct admit *admit, const struct waiting *waiting, uint8_t *verdicts, uint64_t *rates)
{
	for (uint32_t i = 0; i < waiting->n; i++) {
		if (waiting->kind == ADMIT_RATE) {
			rates[i] = usage_rate_of(admit->o.usage, waiting->ticket + i);
			continue;
		}
		verdicts[i] = (uint8_t)usage_verdict(admit->o.usage, waiting->ticket + i);
		count_verdict(admit, (enum usage_verdict)verdicts[i]);
	}
}

static void answer_one(struct admit *admit, const struct waiting *waiting, int err)
{
	static uint8_t verdicts[ADMIT_STREAMS_MAX];
	static uint64_t rates[ADMIT_STREAMS_MAX];
	struct conn *conn = &admit->conns[waiting->conn];
	struct admit_answer answer = {.id = waiting->id,
		.generation = admit->o.handoff->generation,
		.status = status_of(err),
		.asked = waiting->kind};

	if (err) {
		COUNT(admit, asked_failed, waiting->n);
	} else {
		fill(admit, waiting, verdicts, rates);
		answer.n = waiting->n;
		answer.verdicts = verdicts;
		answer.rates = (const uint8_t *)rates;
	}
	if (conn->fd >= 0 && conn->number == waiting->number)
		conn_send(conn, &answer);
}

void admit_answer(struct admit *admit, int err)
{
	for (size_t i = 0; i < admit->n_waiting; i++) {
		const struct waiting *waiting = &admit->waiting[i];
		bool judged = waiting->ticket + waiting->n <= usage_judged(admit->o.usage);

		answer_one(admit, waiting, judged ? 0 : err);
	}
	admit->n_waiting = 0;
	usage_questions_end(admit->o.usage);
}
