/*
 * ask_fixture.h - a run directory with workers that are asked over their sockets.
 *
 *	test = supervisor (table, limits) + asker (its loop is turned by hand)
 *	children = workers: a store, and admit.sock; they do what `struct lever` says
 */
#ifndef TALLY_TESTS_ASK_FIXTURE_H
#define TALLY_TESTS_ASK_FIXTURE_H

#include "client_run.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "shm/admit.h"
#include "shm/limits.h"
#include "tools/queryd/ask_private.h"

/* What is wrong with a worker's answers. */
enum spoil { SPOIL_NOTHING, SPOIL_KIND, SPOIL_SHORT, SPOIL_LONG, SPOIL_GENERATION, SPOIL_ID };

/* Shared with one worker: what it shall do, and what it has done. */
struct lever {
	_Atomic int up;			   /* it listens */
	_Atomic int hold;		   /* questions are taken and not answered */
	_Atomic int deaf;		   /* nothing is taken */
	_Atomic int not_ready;		   /* the status of all answers */
	_Atomic int spoil;		   /* enum spoil: it has done it, and answers nonsense */
	_Atomic int outbox_full;	   /* new streams fail */
	_Atomic int64_t ahead_ms;	   /* of its clock */
	_Atomic uint64_t admits, admitted; /* messages, streams */
	_Atomic uint64_t touches, touched, touched_bytes;
	_Atomic uint64_t held; /* questions that wait now */
};

#define FAKE_HELD 4096
#define FAKE_FDS  16

struct fake {
	struct lever *lever;
	struct usage *usage;
	int fds[FAKE_FDS]; /* 0: listening */
	int n_fds;
	struct {
		int fd;
		uint8_t *bytes;
		size_t len;
	} held[FAKE_HELD];
	size_t n_held;
	uint32_t tickets[ADMIT_STREAMS_MAX];
};

static struct usage_stream_asked fake_stream(const struct admit_question *question, uint32_t i)
{
	struct admit_stream stream = admit_stream_at(question, i);
	struct usage_stream_asked asked = {
		.tenant = question->tenant.text,
		.tenant_len = question->tenant.len,
		.policy = "",
		.hash = stream.hash,
		.bytes = stream.bytes,
		.seen_ms = question->seen_ms,
	};
	if (question->n_policies) {
		asked.policy = question->policy[stream.policy].name.text;
		asked.policy_len = question->policy[stream.policy].name.len;
	}
	return asked;
}

static void fake_put(struct fake *fake, const struct admit_question *question, int64_t now)
{
	uint32_t budget[ADMIT_BUCKETS_MAX];
	for (uint16_t i = 0; i < question->n_buckets; i++)
		budget[i] = usage_budget(fake->usage, question->budget[i]);
	for (uint32_t i = 0; i < question->n_streams; i++) {
		struct admit_stream stream = admit_stream_at(question, i);
		struct usage_stream_asked asked = fake_stream(question, i);
		if (question->kind == ADMIT_TOUCH) {
			usage_touch(fake->usage, &asked, now);
			atomic_fetch_add(&fake->lever->touched, 1);
			atomic_fetch_add(&fake->lever->touched_bytes, stream.bytes);
		} else if (question->kind == ADMIT_ADMIT) {
			fake->tickets[i] = usage_admit(fake->usage, &asked,
				budget[question->policy[stream.policy].bucket], now);
			atomic_fetch_add(&fake->lever->admitted, 1);
		} else {
			fake->tickets[i] = usage_rate(fake->usage, &asked, now);
		}
	}
}

static void fake_spoil(enum spoil how, struct admit_answer *answer)
{
	if (how == SPOIL_KIND)
		answer->asked = answer->asked == ADMIT_RATE ? ADMIT_ADMIT : ADMIT_RATE;
	if (how == SPOIL_SHORT)
		answer->n--;
	if (how == SPOIL_LONG)
		answer->n++;
	if (how == SPOIL_GENERATION)
		answer->generation++;
	if (how == SPOIL_ID)
		answer->id += 1000000;
}

/* What the store was asked, as an answer. */
static void fake_answer(struct fake *fake, const struct admit_question *question, int fd)
{
	static uint8_t out[ADMIT_MESSAGE_MAX], verdicts[ADMIT_STREAMS_MAX];
	static uint64_t rates[ADMIT_STREAMS_MAX];
	struct admit_answer answer = {
		.id = question->id,
		.generation = question->generation,
		.asked = question->kind,
		.n = question->n_streams,
		.verdicts = verdicts,
		.rates = (uint8_t *)rates,
	};
	for (uint32_t i = 0; i < question->n_streams; i++)
		if (question->kind == ADMIT_ADMIT)
			verdicts[i] = (uint8_t)usage_verdict(fake->usage, fake->tickets[i]);
		else
			rates[i] = usage_rate_of(fake->usage, fake->tickets[i]);
	fake_spoil((enum spoil)atomic_load(&fake->lever->spoil), &answer);
	size_t len = admit_pack_answer(&answer, out);
	if (!len)
		_exit(20);
	(void)!send(fd, out, len, MSG_NOSIGNAL); /* who asked may have gone, and fd with it */
}

static void fake_do(struct fake *fake, int fd, const uint8_t *bytes, size_t len)
{
	static struct admit_question question;
	static uint8_t out[ADMIT_MESSAGE_MAX];
	int64_t now = host_wall_ms() + atomic_load(&fake->lever->ahead_ms);
	if (!admit_unpack(bytes, len, &question))
		_exit(21);
	int refuse = question.kind != ADMIT_TOUCH ? atomic_load(&fake->lever->not_ready) : 0;
	if (refuse) {
		struct admit_answer answer = {.id = question.id,
			.generation = question.generation,
			.asked = question.kind,
			.status = (enum admit_status)refuse};
		size_t n = admit_pack_answer(&answer, out);
		send(fd, out, n, MSG_NOSIGNAL);
		return;
	}
	usage_set_produce(fake->usage,
		&(struct usage_produce){.rate_minutes = 5,
			.every_s = 60,
			.outbox_max = atomic_load(&fake->lever->outbox_full) ? 0 : 10000000});
	fake_put(fake, &question, now);
	if (usage_commit(fake->usage, &(struct usage_commit){.now_ms = now}))
		_exit(22);
	if (question.kind == ADMIT_TOUCH)
		atomic_fetch_add(&fake->lever->touches, 1);
	else
		fake_answer(fake, &question, fd);
	usage_questions_end(fake->usage);
}

/* false: the peer has gone. */
static bool fake_take(struct fake *fake, int fd)
{
	static uint8_t bytes[ADMIT_MESSAGE_MAX];
	ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	struct admit_question question;
	if (!admit_unpack(bytes, (size_t)n, &question))
		_exit(23);
	if (question.kind == ADMIT_ADMIT)
		atomic_fetch_add(&fake->lever->admits, 1);
	if (question.kind == ADMIT_TOUCH || !atomic_load(&fake->lever->hold)) {
		fake_do(fake, fd, bytes, (size_t)n);
		return true;
	}
	if (fake->n_held == FAKE_HELD)
		_exit(24);
	uint8_t *copy = malloc((size_t)n);
	memcpy(copy, bytes, (size_t)n);
	fake->held[fake->n_held].fd = fd;
	fake->held[fake->n_held].bytes = copy;
	fake->held[fake->n_held++].len = (size_t)n;
	atomic_store(&fake->lever->held, fake->n_held);
	return true;
}

static void fake_turn(struct fake *fake)
{
	struct pollfd polls[FAKE_FDS];
	int n = fake->n_fds;
	if (atomic_load(&fake->lever->deaf)) {
		usleep(1000);
		return;
	}
	if (fake->n_held && !atomic_load(&fake->lever->hold)) {
		for (size_t i = 0; i < fake->n_held; i++) {
			fake_do(fake, fake->held[i].fd, fake->held[i].bytes, fake->held[i].len);
			free(fake->held[i].bytes);
		}
		fake->n_held = 0;
		atomic_store(&fake->lever->held, 0);
	}
	for (int i = 0; i < n; i++)
		polls[i] = (struct pollfd){.fd = fake->fds[i], .events = POLLIN};
	poll(polls, (nfds_t)n, fake->n_held ? 1 : 5);
	for (int i = n - 1; i > 0; i--)
		if (polls[i].revents && !fake_take(fake, fake->fds[i])) {
			close(fake->fds[i]);
			fake->fds[i] = fake->fds[--fake->n_fds];
		}
	if (polls[0].revents && fake->n_fds < FAKE_FDS) {
		int fd = accept4(fake->fds[0], NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			fake->fds[fake->n_fds++] = fd;
	}
}

static void fake_run(
	const struct run *run, uint32_t partition, uint64_t generation, struct lever *lever)
{
	static struct fake fake;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[160];
	bool boot;
	struct usage_options options = {
		.path = path,
		.map_bytes = 256 << 20,
		.readers_max = 64,
		.identity = {.format = USAGE_FORMAT,
			.partition = partition,
			.partitions = RUN_PARTITIONS,
			.window_minutes = RUN_WINDOW,
			.generation = generation,
			.topic = "usage"},
	};
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run_path(run, partition, generation, path);
	mkdir(path, 0750);
	host_boot_id(options.identity.boot_id);
	if (usage_open(&options, &fake.usage, &boot))
		_exit(10);
	usage_set_produce(fake.usage,
		&(struct usage_produce){.rate_minutes = 5, .every_s = 60, .outbox_max = 10000000});
	usage_commit(fake.usage, &(struct usage_commit){.now_ms = host_wall_ms()});
	snprintf(address.sun_path, sizeof address.sun_path, "%.90s/" ADMIT_NAME, path);
	unlink(address.sun_path);
	fake.lever = lever;
	fake.fds[0] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bind(fake.fds[0], (struct sockaddr *)&address, sizeof address) ||
		listen(fake.fds[0], 64))
		_exit(11);
	fake.n_fds = 1;
	atomic_store(&lever->up, 1);
	for (;;)
		fake_turn(&fake);
}

/* ------------------------------------------------------------------ the bench */

static struct {
	struct run run;
	struct lever *lever; /* of each partition */
	pid_t pid[RUN_PARTITIONS];
	struct asker *asker;
	ev_timer beat;
	uint64_t limits_version;
} bench;

static void bench_beat(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)timer;
	(void)events;
	atomic_store(&table_head_mut(&bench.run.table)->heartbeat, host_boot_ns());
}

TEST_SUPPRESS static void bench_start_worker(uint32_t partition, uint64_t generation)
{
	struct lever *lever = &bench.lever[partition];
	atomic_store(&lever->up, 0);
	fflush(NULL);
	bench.pid[partition] = fork();
	if (bench.pid[partition] == 0)
		fake_run(&bench.run, partition, generation, lever);
	assert_true(bench.pid[partition] > 0);
	while (!atomic_load(&lever->up)) {
		int status;
		assert_int_equal(waitpid(bench.pid[partition], &status, WNOHANG), 0);
		usleep(500);
	}
}

TEST_SUPPRESS static void bench_kill_worker(uint32_t partition)
{
	int status;
	if (bench.pid[partition] <= 0)
		return;
	kill(bench.pid[partition], SIGKILL);
	assert_int_equal(waitpid(bench.pid[partition], &status, 0), bench.pid[partition]);
	if (WIFEXITED(status))
		print_message("worker %u ended with %d\n", partition, WEXITSTATUS(status));
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	bench.pid[partition] = 0;
}

TEST_SUPPRESS static void bench_limits(struct limits_source *source)
{
	source->version = ++bench.limits_version;
	assert_int_equal(limits_write(bench.run.dirfd, source), 0);
	atomic_store(&table_head_mut(&bench.run.table)->limits_version, source->version);
}

/* One limit for everybody; LIMIT_NONE. */
TEST_SUPPRESS static void bench_limit(uint64_t streams)
{
	bench_limits(&(struct limits_source){.default_streams = streams});
}

TEST_SUPPRESS static int bench_setup(void **state)
{
	(void)state;
	memset(&bench, 0, sizeof bench);
	run_start(&bench.run);
	bench.lever = mmap(NULL, RUN_PARTITIONS * sizeof *bench.lever, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(bench.lever != MAP_FAILED);
	bench_limit(LIMIT_NONE);
	for (uint32_t p = 0; p < RUN_PARTITIONS; p++) {
		bench_start_worker(p, 10 + p);
		run_publish(&bench.run, p, PART_READY, 10 + p);
	}
	bench.asker = asker_new(bench.run.dir);
	ev_timer_init(&bench.beat, bench_beat, 0., 0.002);
	ev_timer_start(asker_loop(bench.asker), &bench.beat);
	return 0;
}

TEST_SUPPRESS static int bench_teardown(void **state)
{
	(void)state;
	asker_free(&bench.asker);
	for (uint32_t p = 0; p < RUN_PARTITIONS; p++)
		bench_kill_worker(p);
	munmap(bench.lever, RUN_PARTITIONS * sizeof *bench.lever);
	run_end(&bench.run);
	return 0;
}

/* Turns the loop until it holds. */
#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		uint64_t give_up = host_boot_ns() + UINT64_C(20000000000);                         \
		while (!(condition)) {                                                             \
			assert_true(host_boot_ns() < give_up);                                     \
			ev_run(asker_loop(bench.asker), EVRUN_ONCE);                               \
		}                                                                                  \
	} while (0)

/*
 * The clock of readers and workers: the middle of the minute that is so many after the
 * one of the first call.
 */
TEST_SUPPRESS static void set_minute(int64_t minutes, int64_t workers_ahead_ms)
{
	static int64_t first;
	int64_t wall = host_wall_ms();
	if (!minutes)
		first = wall / 60000;
	int64_t ahead = (first + minutes) * 60000 + 30000 - wall;
	atomic_store(&table_head_mut(&bench.run.table)->clock_offset_ms, ahead);
	for (uint32_t p = 0; p < RUN_PARTITIONS; p++)
		atomic_store(&bench.lever[p].ahead_ms, ahead + workers_ahead_ms);
}

/* --- a question of a test ---------------------------------------------------------------------- */

#define QUERY_MAX 20000

struct query_of_test {
	struct ask ask;
	struct ask_stream streams[QUERY_MAX];
	unsigned done;
};

static void query_done(struct ask *ask)
{
	((struct query_of_test *)ask->arg)->done++;
}

/* To be freed by the caller. */
TEST_SUPPRESS static struct query_of_test *query_new(const char *tenant)
{
	struct query_of_test *query = calloc(1, sizeof *query);
	assert_non_null(query);
	query->ask = (struct ask){
		.tenant = tenant,
		.streams = query->streams,
		.deadline_ns = host_boot_ns() + UINT64_C(15000000000),
		.done = query_done,
		.arg = query,
	};
	return query;
}

TEST_SUPPRESS static void query_add(struct query_of_test *query, uint64_t hash)
{
	assert_true(query->ask.n < QUERY_MAX);
	query->streams[query->ask.n++] = (struct ask_stream){.hash = hash, .bytes = 10};
}

TEST_SUPPRESS static void query_begin(struct query_of_test *query)
{
	assert_int_equal(ask_begin(bench.asker, &query->ask), 0);
}

TEST_SUPPRESS static void query_wait(struct query_of_test *query)
{
	UNTIL(query->done);
	assert_int_equal(query->done, 1);
}

TEST_SUPPRESS static size_t query_count(const struct query_of_test *query, enum ask_result result)
{
	size_t n = 0;
	for (size_t i = 0; i < query->ask.n; i++)
		n += query->streams[i].result == result;
	return n;
}

/* The streams 0 .. n - 1 in one question: so many come in. */
TEST_SUPPRESS static size_t query_many(const char *tenant, uint64_t n)
{
	struct query_of_test *query = query_new(tenant);
	for (uint64_t hash = 0; hash < n; hash++)
		query_add(query, hash);
	query_begin(query);
	query_wait(query);
	size_t accepted = query_count(query, ASK_ACCEPTED);
	free(query);
	return accepted;
}

/* One stream, asked and answered. */
TEST_SUPPRESS static enum ask_result query_one(const char *tenant, uint64_t hash)
{
	struct query_of_test *query = query_new(tenant);
	query_add(query, hash);
	query_begin(query);
	query_wait(query);
	enum ask_result result = query->streams[0].result;
	free(query);
	return result;
}

TEST_SUPPRESS static uint64_t bench_sum(size_t field)
{
	uint64_t sum = 0;
	for (uint32_t p = 0; p < RUN_PARTITIONS; p++)
		sum += atomic_load((_Atomic uint64_t *)((char *)&bench.lever[p] + field));
	return sum;
}
#define SUM(field) bench_sum(offsetof(struct lever, field))

#endif
