/*
 * conns.c - which connections there are, and which of them have to go.
 *
 *	conns_add -> [ waiting, oldest first ] --conns_asking--> [ asking, oldest first ]
 *	                       ^-------------conns_answered-------------'
 *
 * Each list is in order of time, so the oldest is always its head: making
 * room and expiring cost nothing per connection that stays.
 *
 * Runs in: queryd, any thread.  Blocks in: its own mutex, held for a few lines.
 */
#include "conns.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>

struct conn {
	TAILQ_ENTRY(conn) link;
	uint64_t since_ns;
	int fd;
	bool asking;
	bool ended; /* shut down; waits for its thread to close it */
};

TAILQ_HEAD(conn_list, conn);

struct conns {
	pthread_mutex_t lock;
	struct conns_limits limits;
	struct conns_facts facts;
	struct conn_list waiting, asking, ended;
	unsigned leaving; /* on the list `ended` */
};

struct conns *conns_new(const struct conns_limits *limits)
{
	struct conns *conns = calloc(1, sizeof(*conns));

	if (conns == NULL)
		return NULL;
	pthread_mutex_init(&conns->lock, NULL);
	conns->limits = *limits;
	TAILQ_INIT(&conns->waiting);
	TAILQ_INIT(&conns->asking);
	TAILQ_INIT(&conns->ended);
	return conns;
}

void conns_free(struct conns **conns)
{
	if (*conns == NULL)
		return;
	pthread_mutex_destroy(&(*conns)->lock);
	free(*conns);
	*conns = NULL;
}

static struct conn_list *list_of(struct conns *conns, const struct conn *conn)
{
	if (conn->ended)
		return &conns->ended;
	return conn->asking ? &conns->asking : &conns->waiting;
}

static void end(struct conns *conns, struct conn *conn)
{
	TAILQ_REMOVE(list_of(conns, conn), conn, link);
	conn->ended = true;
	conns->leaving++;
	TAILQ_INSERT_TAIL(&conns->ended, conn, link);
	shutdown(conn->fd, SHUT_RDWR);
}

struct conn *conns_add(struct conns *conns, int fd, uint64_t now_ns)
{
	struct conn *conn = calloc(1, sizeof(*conn));
	struct conn *oldest;

	if (conn == NULL)
		return NULL;
	conn->fd = fd;
	conn->since_ns = now_ns;
	pthread_mutex_lock(&conns->lock);
	oldest = TAILQ_FIRST(&conns->waiting);
	if (oldest != NULL && conns->facts.open - conns->leaving >= conns->limits.many) {
		end(conns, oldest);
		conns->facts.ended_for_room++;
	}
	TAILQ_INSERT_TAIL(&conns->waiting, conn, link);
	conns->facts.open++;
	conns->facts.accepted++;
	pthread_mutex_unlock(&conns->lock);
	return conn;
}

void conns_remove(struct conns *conns, struct conn *conn)
{
	if (conn == NULL)
		return;
	pthread_mutex_lock(&conns->lock);
	TAILQ_REMOVE(list_of(conns, conn), conn, link);
	conns->facts.open--;
	conns->facts.asking -= conn->asking;
	conns->leaving -= conn->ended;
	pthread_mutex_unlock(&conns->lock);
	free(conn);
}

static void move(struct conns *conns, struct conn *conn, bool asking, uint64_t now_ns)
{
	if (conn == NULL)
		return;
	pthread_mutex_lock(&conns->lock);
	TAILQ_REMOVE(list_of(conns, conn), conn, link);
	conns->facts.asking += (unsigned)asking - (unsigned)conn->asking;
	conn->asking = asking;
	conn->since_ns = now_ns;
	TAILQ_INSERT_TAIL(list_of(conns, conn), conn, link);
	pthread_mutex_unlock(&conns->lock);
}

void conns_asking(struct conns *conns, struct conn *conn, uint64_t now_ns)
{
	move(conns, conn, true, now_ns);
}

void conns_answered(struct conns *conns, struct conn *conn, uint64_t now_ns)
{
	move(conns, conn, false, now_ns);
}

static void expire_list(
	struct conns *conns, struct conn_list *list, uint64_t longest_ns, uint64_t now_ns)
{
	struct conn *conn;

	while ((conn = TAILQ_FIRST(list)) != NULL && now_ns > conn->since_ns &&
		now_ns - conn->since_ns > longest_ns) {
		end(conns, conn);
		conns->facts.ended_late++;
	}
}

void conns_expire(struct conns *conns, uint64_t now_ns)
{
	pthread_mutex_lock(&conns->lock);
	expire_list(conns, &conns->waiting, conns->limits.waiting_ns, now_ns);
	expire_list(conns, &conns->asking, conns->limits.asking_ns, now_ns);
	pthread_mutex_unlock(&conns->lock);
}

void conns_facts(struct conns *conns, struct conns_facts *facts)
{
	pthread_mutex_lock(&conns->lock);
	*facts = conns->facts;
	pthread_mutex_unlock(&conns->lock);
}
