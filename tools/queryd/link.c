/*
 * link.c - connections to the workers: one per partition, over its admit.sock.
 *
 *	closed --first message--> open --EAGAIN--> open, queue --writable--> open
 *	   ^                        |
 *	   '-- EOF, error, nonsense, another generation: all that is under way is lost
 *
 * A socket's path may be longer than sun_path: it is reached through the
 * descriptor of its directory.
 *
 * Runs in: queryd, asker thread.  Blocks in: nowhere.
 */
#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "shm/check.h"
#include "shm/host.h"
#include "shm/log.h"
#include "shm/table.h"

#define ANSWERS_AT_ONCE 64 /* of one connection, before others have their turn */

struct link {
	struct links *links;
	uint64_t generation;
	uint32_t partition;
	int fd;
	ev_io readable, writable;
	struct link_message *first, *last; /* sent ones before those that wait */
	struct link_message *waiting;	   /* first that has not been sent */
	size_t n, queued_bytes;
	uint64_t asked_ns; /* the last question */
	uint64_t since_ns; /* it has not answered since; 0: it owes nothing */
	bool silent;
};

struct links {
	struct links_options options;
	struct links_facts facts;
	uint64_t last_id;
	struct log_limit nonsense;
	struct link *at[TABLE_CAPACITY];
	uint8_t buffer[ADMIT_MESSAGE_MAX + 1];
};

struct links *links_new(const struct links_options *options)
{
	struct links *links = calloc(1, sizeof(*links));
	must_get(links);
	links->options = *options;
	return links;
}

uint64_t links_next_id(struct links *links)
{
	return ++links->last_id;
}

const struct links_facts *links_facts(const struct links *links)
{
	return &links->facts;
}

/* ------------------------------------------------------------------ messages of a connection */

static void append(struct link *link, struct link_message *message)
{
	message->next = NULL;
	message->prev = link->last;
	*(link->last ? &link->last->next : &link->first) = message;
	link->last = message;
	link->n++;
	link->links->facts.waiting++;
}

static void take_out(struct link *link, struct link_message *message)
{
	if (link->waiting == message)
		link->waiting = message->next;
	*(message->prev ? &message->prev->next : &link->first) = message->next;
	*(message->next ? &message->next->prev : &link->last) = message->prev;
	link->n--;
	link->links->facts.waiting--;
	if (message->queued)
		link->queued_bytes -= message->len;
	free(message->queued);
	message->queued = NULL;
}

/* Answers come in the order of the questions, or nearly. */
static struct link_message *find(struct link *link, uint64_t id)
{
	struct link_message *message = link->first;
	while (message && message != link->waiting && message->id != id)
		message = message->next;
	return message == link->waiting ? NULL : message;
}

/* ------------------------------------------------------------------ opening and losing */

static void lose(struct link *link)
{
	struct links *links = link->links;
	links->at[link->partition] = NULL;
	ev_io_stop(links->options.loop, &link->readable);
	ev_io_stop(links->options.loop, &link->writable);
	close(link->fd);
	links->facts.open--;
	while (link->first) {
		struct link_message *message = link->first;
		links->facts.lost += message->sent;
		take_out(link, message);
		links->options.done(message, NULL, links->options.arg);
	}
	free(link);
}

static int connect_to(const char *run_dir, uint32_t partition, uint64_t generation)
{
	char name[TABLE_DIR_NAME_SIZE], path[4096];
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	table_dir_name(name, partition, generation);
	int n = snprintf(path, sizeof(path), "%s/%s", run_dir, name);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -1;
	int dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return -1;
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" ADMIT_NAME, dir);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		close(fd);
		fd = -1;
	}
	close(dir);
	return fd;
}

static void read_answers(struct ev_loop *loop, ev_io *watcher, int events);
static void write_waiting(struct ev_loop *loop, ev_io *watcher, int events);

static struct link *open_link(struct links *links, uint32_t partition, uint64_t generation)
{
	int fd = connect_to(links->options.run_dir, partition, generation);
	if (fd < 0) {
		links->facts.refused++;
		return NULL;
	}
	struct link *link = calloc(1, sizeof(*link));
	must_get(link);
	link->links = links;
	link->partition = partition;
	link->generation = generation;
	link->fd = fd;
	ev_io_init(&link->readable, read_answers, fd, EV_READ);
	ev_io_init(&link->writable, write_waiting, fd, EV_WRITE);
	link->readable.data = link->writable.data = link;
	ev_io_start(links->options.loop, &link->readable);
	links->at[partition] = link;
	links->facts.open++;
	return link;
}

static struct link *link_of(struct links *links, uint32_t partition, uint64_t generation)
{
	if (partition >= TABLE_CAPACITY)
		return NULL;
	struct link *link = links->at[partition];
	if (link && link->generation == generation)
		return link;
	/* Generations only rise: an older one has no worker any more. */
	if (link && link->generation > generation)
		return NULL;
	if (link)
		lose(link);
	return open_link(links, partition, generation);
}

void links_keep(struct links *links, uint32_t partition, uint64_t generation)
{
	struct link *link = partition < TABLE_CAPACITY ? links->at[partition] : NULL;
	if (link && link->generation != generation)
		lose(link);
}

uint64_t links_generation(const struct links *links, uint32_t partition)
{
	return partition < TABLE_CAPACITY && links->at[partition] ? links->at[partition]->generation
								  : 0;
}

void links_free(struct links **links)
{
	if (!*links)
		return;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		if ((*links)->at[p])
			lose((*links)->at[p]);
	free(*links);
	*links = NULL;
}

/* ------------------------------------------------------------------ writing */

/* LINK_BUSY: not now.  LINK_GONE: the connection is lost. */
static enum link_result send_now(struct link *link, const uint8_t *bytes, size_t len)
{
	ssize_t n;
	do {
		n = send(link->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n >= 0) {
		link->links->facts.sent++;
		return LINK_OK;
	}
	return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM ? LINK_BUSY : LINK_GONE;
}

static enum link_result queue(
	struct link *link, const uint8_t *bytes, size_t len, struct link_message *message)
{
	if (link->queued_bytes + len > LINK_QUEUE_MAX)
		return LINK_BUSY;
	message->queued = malloc(len);
	must_get(message->queued);
	memcpy(message->queued, bytes, len);
	message->len = len;
	link->queued_bytes += len;
	append(link, message);
	if (!link->waiting)
		link->waiting = message;
	ev_io_start(link->links->options.loop, &link->writable);
	return LINK_OK;
}

static void set_silent(struct link *link, bool silent)
{
	if (link->silent == silent)
		return;
	link->silent = silent;
	if (silent)
		log_warn("ask.silent",
			"partition=%u generation=%llu text=\"the worker does not answer; new "
			"streams of its partition are answered failed until it does\"",
			link->partition, (unsigned long long)link->generation);
	else
		log_info("ask.answers", "partition=%u generation=%llu", link->partition,
			(unsigned long long)link->generation);
}

/*
 * What came while this process did not run has been heard; and a worker that takes
 * again what it had not taken is there, even if all of that was withdrawn.
 */
static bool is_silent(struct link *link, uint64_t now_ns)
{
	struct pollfd poll_of = {.fd = link->fd, .events = POLLIN | POLLOUT};
	if (!link->since_ns || now_ns - link->since_ns <= LINK_SILENT_NS)
		return false;
	if (poll(&poll_of, 1, 0) != 1)
		return true;
	if (!link->first && (poll_of.revents & POLLOUT))
		link->since_ns = 0;
	return link->since_ns && !(poll_of.revents & ~POLLOUT);
}

/* Nobody is kept waiting for a worker that hangs, but for one now and then. */
static bool may_ask(struct link *link, uint64_t now_ns)
{
	set_silent(link, is_silent(link, now_ns));
	return !link->silent || now_ns - link->asked_ns > LINK_PROBE_NS;
}

enum link_result links_ask(struct links *links, uint32_t partition, uint64_t generation,
	const uint8_t *bytes, size_t len, struct link_message *message)
{
	struct link *link = link_of(links, partition, generation);
	message->queued = NULL;
	message->sent = false;
	if (!link)
		return LINK_GONE;
	uint64_t now = host_boot_ns();
	if (link->n >= LINK_MESSAGES_MAX || !may_ask(link, now))
		return LINK_BUSY;
	link->asked_ns = now;
	if (!link->since_ns)
		link->since_ns = now;
	enum link_result result = link->waiting ? LINK_BUSY : send_now(link, bytes, len);
	if (result == LINK_BUSY)
		return queue(link, bytes, len, message);
	if (result == LINK_GONE) {
		lose(link);
		return LINK_GONE;
	}
	message->sent = true;
	append(link, message);
	return LINK_OK;
}

enum link_result links_tell(struct links *links, uint32_t partition, uint64_t generation,
	const uint8_t *bytes, size_t len)
{
	struct link *link = link_of(links, partition, generation);
	if (!link)
		return LINK_GONE;
	enum link_result result = link->waiting ? LINK_BUSY : send_now(link, bytes, len);
	if (result == LINK_GONE)
		lose(link);
	return result;
}

bool links_withdraw(struct links *links, uint32_t partition, struct link_message *message)
{
	struct link *link = partition < TABLE_CAPACITY ? links->at[partition] : NULL;
	if (!link || !message->queued)
		return false;
	take_out(link, message);
	return true;
}

static void write_waiting(struct ev_loop *loop, ev_io *watcher, int events)
{
	struct link *link = watcher->data;
	struct links *links = link->links;
	enum link_result result = LINK_OK;
	(void)events;
	while (link->waiting && result == LINK_OK) {
		struct link_message *message = link->waiting;
		result = send_now(link, message->queued, message->len);
		if (result != LINK_OK)
			break;
		link->queued_bytes -= message->len;
		free(message->queued);
		message->queued = NULL;
		message->sent = true;
		link->waiting = message->next;
	}
	if (!link->waiting)
		ev_io_stop(loop, watcher);
	if (result == LINK_GONE)
		lose(link);
	links->options.settle(links->options.arg);
}

/* ------------------------------------------------------------------ reading */

/* false: not an answer to anything that this connection was asked. */
static bool take_answer(struct link *link, size_t len)
{
	struct links *links = link->links;
	struct admit_answer answer;
	if (!admit_unpack_answer(links->buffer, len, &answer) ||
		answer.generation != link->generation)
		return false;
	struct link_message *message = find(link, answer.id);
	if (!message)
		return false;
	take_out(link, message);
	link->since_ns = link->first ? host_boot_ns() : 0;
	set_silent(link, false);
	links->options.done(message, &answer, links->options.arg);
	return true;
}

static void read_answers(struct ev_loop *loop, ev_io *watcher, int events)
{
	struct link *link = watcher->data;
	struct links *links = link->links;
	bool open = true, more = true;
	(void)loop;
	(void)events;
	for (int i = 0; i < ANSWERS_AT_ONCE && open && more; i++) {
		ssize_t n = recv(link->fd, links->buffer, sizeof(links->buffer), MSG_DONTWAIT);
		more = n > 0;
		open = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
		if (more && !take_answer(link, (size_t)n)) {
			unsigned swallowed;
			links->facts.unexpected++;
			open = false;
			if (log_limit_pass(&links->nonsense, 60000, &swallowed))
				log_warn("ask.nonsense",
					"partition=%u suppressed=%u text=\"a worker's answer made "
					"no sense; its connection was ended\"",
					link->partition, swallowed);
		}
	}
	if (!open)
		lose(link);
	links->options.settle(links->options.arg);
}
