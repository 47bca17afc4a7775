/*
 * test_worker_admit.c - admit.sock from the outside: what is asked is judged, what is garbage is cut
 * off, and nobody else notices.
 */
#include "usage_fixture.h"

#include <ev.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "shm/admit.h"
#include "shm/host.h"
#include "worker/admit.h"

#define PARTITION  3
#define PARTITIONS 7
#define GENERATION 1234

struct bench {
	struct handoff handoff;
	struct table table;
	struct stats stats;
	struct facts facts;
	struct now now;
	struct usage *usage;
	struct admit *admit;
	struct ev_loop *loop;
	int may, touches;
	int commit_err; /* what the commit gives */
	bool busy;	/* no commit now */
};

static struct bench b;

static int may_ask(void *arg)
{
	(void)arg;
	return b.may;
}

static void touched(void *arg)
{
	(void)arg;
	b.touches++;
}

static void open_bench(void)
{
	static struct admit *opened[32]; /* nobody closes them: the process ends */
	static unsigned n_opened;
	static struct table_head head;

	memset(&b, 0, sizeof(b));
	b.handoff = (struct handoff){
		.partition = PARTITION, .partitions = PARTITIONS, .generation = GENERATION};
	b.table.head = &head;
	facts_start(&b.facts, &b.stats);
	now_start(&b.now, &b.table, 0);
	b.usage = open_usage();
	usage_set_produce(b.usage,
		&(struct usage_produce){.rate_minutes = 5, .every_s = 60, .outbox_max = 1000});
	b.loop = ev_loop_new(EVFLAG_AUTO);
	admit_open(&(struct admit_options){.handoff = &b.handoff,
			   .path = dir,
			   .usage = b.usage,
			   .facts = &b.facts,
			   .now = &b.now,
			   .loop = b.loop,
			   .may_ask = may_ask,
			   .touched = touched},
		&b.admit);
	assert_true(n_opened < sizeof(opened) / sizeof(opened[0]));
	opened[n_opened++] = b.admit;
}

static int each_teardown(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/" ADMIT_NAME, dir);
	unlink(path);
	usage_close(&b.usage);
	return 0;
}

/* What the worker's loop does before it sleeps. */
static void turn(void)
{
	ev_run(b.loop, EVRUN_NOWAIT);
	if (!admit_waiting(b.admit) || b.busy)
		return;
	if (!b.commit_err)
		assert_int_equal(try_commit(b.usage, now_ms(&b.now), 0), 0);
	admit_answer(b.admit, b.commit_err);
}

static int dial(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%.80s/" ADMIT_NAME, dir);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static struct admit_question *question_of(enum admit_kind kind, uint64_t budget)
{
	static struct admit_question q;

	q = (struct admit_question){.kind = kind,
		.id = 77,
		.generation = GENERATION,
		.seen_ms = host_wall_ms(),
		.tenant = {"t", 1},
		.n_buckets = kind == ADMIT_ADMIT,
		.n_policies = kind != ADMIT_RATE};
	q.budget[0] = budget;
	q.policy[0] = (struct admit_policy){.name = {"", 0}};
	return &q;
}

static void ask(int fd, struct admit_question *q, unsigned from, unsigned n)
{
	static struct admit_stream streams[ADMIT_STREAMS_MAX];
	static uint8_t bytes[ADMIT_MESSAGE_MAX];
	size_t len;

	for (unsigned i = 0; i < n; i++)
		streams[i] = (struct admit_stream){.hash = (from + i) * PARTITIONS + PARTITION,
			.bytes = 10,
			.policy = (uint16_t)(q->n_policies ? i % q->n_policies : 0)};
	q->streams = streams;
	q->n_streams = n;
	len = admit_pack(q, bytes);
	assert_true(len > 0);
	assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
}

/* Turns the loop until there is an answer.  false: the connection is gone. */
static bool hear(int fd, struct admit_answer *answer)
{
	static uint8_t bytes[ADMIT_MESSAGE_MAX];

	for (int i = 0; i < 1000; i++) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t n;

		turn();
		if (poll(&p, 1, 10) <= 0)
			continue;
		n = recv(fd, bytes, sizeof(bytes), 0);
		if (n <= 0)
			return false;
		assert_true(admit_unpack_answer(bytes, (size_t)n, answer));
		return true;
	}
	fail_msg("no answer");
	return false;
}

static void admit_answers_after_the_commit_with_a_verdict_for_each_stream(void **state)
{
	struct admit_answer answer;
	int fd;

	(void)state;
	open_bench();
	fd = dial();
	ask(fd, question_of(ADMIT_ADMIT, 2), 0, 3);
	assert_true(hear(fd, &answer));
	assert_int_equal(answer.id, 77);
	assert_int_equal(answer.status, ADMIT_DONE);
	assert_int_equal(answer.n, 3);
	assert_int_equal(answer.verdicts[0], ADMIT_NEW);
	assert_int_equal(answer.verdicts[1], ADMIT_NEW);
	assert_int_equal(answer.verdicts[2], ADMIT_REJECTED);
	assert_int_equal(usage_meta(b.usage)->streams, 2);
	ask(fd, question_of(ADMIT_ADMIT, 0), 1, 1);
	assert_true(hear(fd, &answer));
	assert_int_equal(answer.verdicts[0], ADMIT_KNOWN);
	assert_int_equal(stats_get(&b.stats, asked_new), 2);
	assert_int_equal(stats_get(&b.stats, asked_rejected), 1);
	assert_int_equal(stats_get(&b.stats, asked_known), 1);
	close(fd);
}

/* Six streams of two policies, of which each takes from the budget of the other one's number. */
static void ask_for_two_policies(int fd, unsigned from, uint64_t gold, uint64_t silver)
{
	struct admit_question *q = question_of(ADMIT_ADMIT, silver);

	q->n_buckets = q->n_policies = 2;
	q->budget[1] = gold;
	q->policy[0] = (struct admit_policy){.name = {"gold", 4}, .bucket = 1};
	q->policy[1] = (struct admit_policy){.name = {"silver", 6}, .bucket = 0};
	ask(fd, q, from, 6);
}

static void heard_new(int fd, unsigned gold, unsigned silver)
{
	struct admit_answer answer;
	unsigned n[2] = {0};

	assert_true(hear(fd, &answer));
	assert_int_equal(answer.n, 6);
	for (unsigned i = 0; i < 6; i++)
		n[i % 2] += answer.verdicts[i] == ADMIT_NEW;
	assert_int_equal(n[0], gold);
	assert_int_equal(n[1], silver);
}

static void admit_takes_each_stream_from_the_budget_of_its_policy(void **state)
{
	int fd, other;

	(void)state;
	open_bench();
	fd = dial();
	other = dial();
	b.busy = true; /* both are in one batch */
	ask_for_two_policies(fd, 0, 3, 1);
	while (usage_pending(b.usage) < 6)
		turn();
	ask_for_two_policies(other, 10, 0, 2);
	while (usage_pending(b.usage) < 12)
		turn();
	b.busy = false;
	heard_new(fd, 3, 1);
	heard_new(other, 0, 2);
	assert_int_equal(usage_meta(b.usage)->streams, 6);
	close(fd);
	close(other);
}

static void admit_takes_touches_without_an_answer(void **state)
{
	int fd;

	(void)state;
	open_bench();
	fd = dial();
	ask(fd, question_of(ADMIT_TOUCH, 0), 0, 5);
	while (b.touches == 0)
		turn();
	assert_int_equal(usage_pending(b.usage), 5);
	assert_false(admit_waiting(b.admit));
	commit(b.usage, now_ms(&b.now));
	assert_int_equal(usage_meta(b.usage)->streams, 5);
	assert_int_equal(usage_meta(b.usage)->bytes, 50);
	close(fd);
}

static void admit_gives_rates(void **state)
{
	struct admit_answer answer;
	int fd;

	(void)state;
	open_bench();
	fd = dial();
	ask(fd, question_of(ADMIT_RATE, 0), 0, 2);
	assert_true(hear(fd, &answer));
	assert_int_equal(answer.status, ADMIT_DONE);
	assert_int_equal(answer.asked, ADMIT_RATE);
	assert_int_equal(answer.n, 2);
	assert_int_equal(usage_meta(b.usage)->streams, 0);
	assert_int_equal(usage_meta(b.usage)->rates, 2);
	close(fd);
}

static void admit_refuses_what_is_not_for_this_store(void **state)
{
	struct admit_question *q;
	struct admit_answer answer;
	int fd;

	(void)state;
	open_bench();
	fd = dial();
	q = question_of(ADMIT_ADMIT, 9);
	q->generation++;
	ask(fd, q, 0, 1);
	assert_true(hear(fd, &answer));
	assert_int_equal(answer.status, ADMIT_NOT_READY);
	b.handoff.partitions = 5; /* another routing */
	ask(fd, question_of(ADMIT_ADMIT, 9), 1, 1);
	assert_true(hear(fd, &answer));
	assert_int_equal(answer.status, ADMIT_NOT_READY);
	assert_int_equal(usage_pending(b.usage), 0);
	close(fd);
}

static void admit_says_why_nothing_was_done(void **state)
{
	static const struct {
		int may, commit_err;
		enum admit_status want;
	} cases[] = {
		{ERR_NOT_READY, 0, ADMIT_NOT_READY},
		{ERR_LEASE, 0, ADMIT_NOT_READY},
		{ERR_FULL, 0, ADMIT_NO_ROOM},
		{0, ERR_FULL, ADMIT_NO_ROOM},
		{0, ERR_LEASE, ADMIT_NOT_READY},
	};
	struct admit_answer answer;
	int fd;

	(void)state;
	open_bench();
	fd = dial();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		b.may = cases[i].may;
		b.commit_err = cases[i].commit_err;
		ask(fd, question_of(ADMIT_ADMIT, 9), 0, 4);
		assert_true(hear(fd, &answer));
		assert_int_equal(answer.status, cases[i].want);
		assert_int_equal(answer.n, 0);
		assert_int_equal(usage_pending(b.usage), 0);
	}
	assert_int_equal(stats_get(&b.stats, asked_failed), 20);
	close(fd);
}

#define MANY_TOUCHES 120000

/* Touches of many streams, and a question behind them: what was sent before it has been read. */
static void touch_many(int fd, enum admit_status want)
{
	struct admit_answer answer;

	for (unsigned from = 0; from < MANY_TOUCHES; from += 2000) {
		ask(fd, question_of(ADMIT_TOUCH, 0), from, 2000);
		turn();
	}
	ask(fd, question_of(ADMIT_ADMIT, 0), 0, 1);
	assert_true(hear(fd, &answer));
	assert_int_equal(answer.status, want);
}

static void admit_holds_touches_within_bounds_while_nothing_can_be_committed(void **state)
{
	static const int errs[] = {ERR_FULL, ERR_LEASE};
	static const enum admit_status status[] = {ADMIT_NO_ROOM, ADMIT_NOT_READY};
	size_t held;
	int fd;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		open_bench();
		fd = dial();
		b.may = errs[i];
		touch_many(fd, status[i]);
		held = usage_pending(b.usage);
		assert_in_range(held, 100000, 110000);
		assert_int_equal(stats_get(&b.stats, touched), held);
		/* They were accepted: they are there when it goes on, and it takes more. */
		b.may = 0;
		commit(b.usage, now_ms(&b.now));
		assert_int_equal(usage_meta(b.usage)->streams, held);
		touch_many(fd, ADMIT_DONE);
		assert_int_equal(usage_meta(b.usage)->streams, MANY_TOUCHES);
		close(fd);
		each_teardown(NULL);
		each_setup(NULL);
	}
	open_bench();
	fd = dial();
	b.may = ERR_NOT_READY; /* whoever has the partition now hears of them */
	touch_many(fd, ADMIT_NOT_READY);
	assert_int_equal(usage_pending(b.usage), 0);
	assert_int_equal(stats_get(&b.stats, touched), 0);
	close(fd);
}

static void admit_answers_what_an_earlier_commit_has_judged(void **state)
{
	struct admit_answer answer;
	int fd, other;

	(void)state;
	open_bench();
	fd = dial();
	other = dial();
	b.busy = true;
	ask(fd, question_of(ADMIT_ADMIT, 9), 0, 1);
	while (!admit_waiting(b.admit))
		turn();
	assert_false(admit_judged(b.admit));
	assert_int_equal(
		try_commit(b.usage, now_ms(&b.now), 0), 0); /* with a full batch of records */
	assert_true(admit_judged(b.admit));
	ask(other, question_of(ADMIT_ADMIT, 9), 1, 1);
	while (admit_judged(b.admit))
		turn();
	b.busy = false;
	b.commit_err = ERR_LEASE;
	assert_true(hear(fd, &answer));
	assert_int_equal(answer.status, ADMIT_DONE);
	assert_int_equal(answer.verdicts[0], ADMIT_NEW);
	assert_true(hear(other, &answer));
	assert_int_equal(answer.status, ADMIT_NOT_READY);
	assert_int_equal(usage_meta(b.usage)->streams, 1);
	close(fd);
	close(other);
}

static void admit_cuts_off_garbage_and_serves_the_others(void **state)
{
	static char garbage[ADMIT_MESSAGE_MAX + 100];
	struct admit_answer answer;
	int good, bad;

	(void)state;
	open_bench();
	good = dial();
	for (size_t len = 1; len <= sizeof(garbage); len = len * 3 + 1) {
		bad = dial();
		memset(garbage, (int)len, sizeof(garbage));
		assert_int_equal(send(bad, garbage, len, MSG_NOSIGNAL), len);
		assert_false(hear(bad, &answer));
		close(bad);
	}
	ask(good, question_of(ADMIT_ADMIT, 9), 0, 1);
	assert_true(hear(good, &answer));
	assert_int_equal(answer.verdicts[0], ADMIT_NEW);
	close(good);
}

static void admit_survives_one_that_asked_and_left(void **state)
{
	struct admit_answer answer;
	int fd, other;

	(void)state;
	open_bench();
	fd = dial();
	b.busy = true;
	ask(fd, question_of(ADMIT_ADMIT, 9), 0, 1);
	while (!admit_waiting(b.admit))
		turn();
	close(fd);
	turn();
	other = dial(); /* takes the same place */
	ask(other, question_of(ADMIT_ADMIT, 9), 5, 2);
	turn();
	turn();
	b.busy = false;
	assert_true(hear(other, &answer));
	assert_int_equal(answer.n, 2); /* its own answer, not the other's */
	assert_int_equal(usage_meta(b.usage)->streams, 3);
	close(other);
}

static void admit_keeps_answers_for_one_that_does_not_read_and_reads_no_more_of_it(void **state)
{
	struct admit_answer answer;
	int fd;
	unsigned sent = 0, heard = 0;
	static struct admit_stream streams[1000];
	static uint8_t bytes[ADMIT_MESSAGE_MAX];
	struct admit_question *q = question_of(ADMIT_RATE, 0);
	size_t len;

	(void)state;
	open_bench();
	fd = dial();
	for (unsigned i = 0; i < 1000; i++)
		streams[i].hash = i * PARTITIONS + PARTITION;
	q->streams = streams;
	q->n_streams = 1000;
	len = admit_pack(q, bytes);
	/* Until the socket takes no more although the worker has its turns. */
	for (int stuck = 0; stuck < 50;) {
		if (send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
			sent++;
			stuck = 0;
		} else {
			turn();
			stuck++;
		}
	}
	assert_true(sent > 20);
	assert_true(sent < 5000);
	while (heard < sent && hear(fd, &answer))
		heard++;
	assert_int_equal(heard, sent);
	close(fd);
}

static void admit_socket_is_for_our_own_user_alone(void **state)
{
	char path[128];
	struct stat st;

	(void)state;
	open_bench();
	snprintf(path, sizeof(path), "%s/" ADMIT_NAME, dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

#define ROOT   0
#define NOBODY 65534
#define DAEMON 1

/* From any user to any other, by way of root. */
static void be(uid_t uid)
{
	assert_int_equal(seteuid(ROOT), 0);
	assert_int_equal(seteuid(uid), 0);
}

/* Whoever may open the socket, as if its mode and that of its directory let everybody. */
static void open_to_all(void)
{
	char path[128];

	open_bench();
	snprintf(path, sizeof(path), "%s/" ADMIT_NAME, dir);
	assert_int_equal(chmod(path, 0666), 0);
	assert_int_equal(chmod(dir, 0711), 0);
}

static void admit_serves_its_own_user_and_root_and_nobody_else(void **state)
{
	static const struct {
		uid_t peer, worker;
		bool served;
	} cases[] = {
		{ROOT, ROOT, true},
		{NOBODY, ROOT, false},
		{NOBODY, NOBODY, true},
		{DAEMON, NOBODY, false},
		{ROOT, NOBODY, true},
	};
	struct admit_answer answer;

	(void)state;
	if (geteuid() != ROOT)
		skip(); /* nobody else can be played */
	open_to_all();
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd;

		be(cases[i].peer);
		fd = dial();
		ask(fd, question_of(ADMIT_ADMIT, 9), i, 1);
		be(cases[i].worker);
		turn(); /* takes the connection, or not */
		be(ROOT);
		assert_int_equal(hear(fd, &answer), cases[i].served);
		close(fd);
	}
	assert_int_equal(usage_meta(b.usage)->streams, 3);
	assert_int_equal(chmod(dir, 0700), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, each_setup, each_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(admit_answers_after_the_commit_with_a_verdict_for_each_stream),
		TEST(admit_takes_each_stream_from_the_budget_of_its_policy),
		TEST(admit_takes_touches_without_an_answer),
		TEST(admit_gives_rates),
		TEST(admit_refuses_what_is_not_for_this_store),
		TEST(admit_says_why_nothing_was_done),
		TEST(admit_holds_touches_within_bounds_while_nothing_can_be_committed),
		TEST(admit_answers_what_an_earlier_commit_has_judged),
		TEST(admit_cuts_off_garbage_and_serves_the_others),
		TEST(admit_survives_one_that_asked_and_left),
		TEST(admit_keeps_answers_for_one_that_does_not_read_and_reads_no_more_of_it),
		TEST(admit_socket_is_for_our_own_user_alone),
		TEST(admit_serves_its_own_user_and_root_and_nobody_else),
	};

	seed = 0; /* nothing is random here */
	(void)seed;
	return cmocka_run_group_tests(tests, setup, teardown);
}
