/*
 * test_queryd_counts.c - what several query processes have counted is added up, and outlives them.
 */
#include "scratch.h"

#include "tools/queryd/ask_private.h"
#include "tools/queryd/counts.h"
#include "tools/queryd/counts_private.h"

#define ROWS	1025
#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

static void gather(void *arg, struct counted *own)
{
	*own = *(const struct counted *)arg;
}

/* One after the other, as with one process after the other. */
static void publish(struct counts *counts, struct counted own)
{
	counts_publish(counts, gather, &own);
}

static struct counted sum_of(const struct counts *counts)
{
	struct counted sum;
	counts_sum(counts, &sum);
	return sum;
}

static void refuse(struct counts *counts, const char *tenant, uint64_t n)
{
	struct refusals *refusals = refusals_new();
	assert_true(refusals_keep_in(refusals, counts_of_refusals(counts)));
	refusals_add(refusals, tenant, n, 0);
	refusals_free(&refusals);
}

static uint64_t refused(const struct counts *counts, const char *tenant)
{
	struct refusals_of *list;
	size_t n = counts_tenants(counts, COUNTS_REFUSED, &list);
	uint64_t found = 0;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i].tenant, tenant))
			found += list[i].refused;
	free(list);
	return found;
}

static void counts_of_each_process_are_the_sum_of_all(void **state)
{
	const struct scratch *s = *state;
	struct counts *of[3];
	for (int i = 0; i < 3; i++) {
		of[i] = counts_open(s->path);
		assert_int_equal(of[i]->slot, i);
		publish(of[i], (struct counted){.grpc.bytes_in = 100u << i, .http.accepted = 1});
		ask_count(&counts_of_asks(of[i])->questions[ASK_EXCEEDS], 10u << i);
		ask_count(&counts_of_asks(of[i])->latency[ASKER_LATENCIES], 1);
		atomic_fetch_add(&counts_of_answers(of[i])[3][1], 1u << i);
		refuse(of[i], "all", 5);
		refuse(of[i], i == 1 ? "one" : "others", 7);
	}
	for (int i = 0; i < 3; i++) {
		struct counted sum = sum_of(of[i]);
		assert_int_equal(sum.grpc.bytes_in, 700);
		assert_int_equal(sum.http.accepted, 3);
		assert_int_equal(sum.ask.questions[ASK_EXCEEDS], 70);
		assert_int_equal(sum.ask.latency[ASKER_LATENCIES], 3);
		assert_int_equal(sum.answers[3][1], 7);
		assert_int_equal(sum.answers[3][0] + sum.answers[2][1] + sum.answers[4][1], 0);
		assert_int_equal(refused(of[i], "all"), 15);
		assert_int_equal(refused(of[i], "one"), 7);
		assert_int_equal(refused(of[i], "others"), 14);
	}
	for (int i = 0; i < 3; i++)
		counts_free(&of[i]);
}

static void counts_go_on_from_where_the_predecessor_was(void **state)
{
	const struct scratch *s = *state;
	struct counts *one = counts_open(s->path), *two = counts_open(s->path);
	publish(one, (struct counted){.peers.lost = 3, .grpc.connections = 8});
	publish(one, (struct counted){.peers.lost = 4, .grpc.connections = 9});
	ask_count(&counts_of_asks(one)->streams[ASK_EXCEEDS][ASK_REJECTED], 40);
	ask_count(&counts_of_asks(one)->under_way, 2);
	refuse(one, "a", 6);
	counts_free(&one);
	struct counted sum = sum_of(two);
	assert_int_equal(sum.peers.lost, 4);
	assert_int_equal(sum.grpc.connections, 0);

	one = counts_open(s->path);
	assert_int_equal(one->slot, 0);
	assert_int_equal(sum_of(two).ask.under_way, 0);
	publish(one, (struct counted){.peers.lost = 1, .grpc.connections = 2});
	ask_count(&counts_of_asks(one)->streams[ASK_EXCEEDS][ASK_REJECTED], 1);
	refuse(one, "a", 1);
	refuse(one, "b", 1);
	sum = sum_of(two);
	assert_int_equal(sum.peers.lost, 5);
	assert_int_equal(sum.grpc.connections, 2);
	assert_int_equal(sum.ask.streams[ASK_EXCEEDS][ASK_REJECTED], 41);
	assert_int_equal(refused(two, "a"), 7);
	assert_int_equal(refused(two, "b"), 1);
	counts_free(&one);
	counts_free(&two);
}

static void counts_of_gauges_are_of_those_that_live(void **state)
{
	const struct scratch *s = *state;
	struct counts *of[3];
	for (unsigned i = 0; i < 3; i++) {
		of[i] = counts_open(s->path);
		publish(of[i], (struct counted){.ask.links_open = 2 + i,
				       .ask.ledger_accounts = 10 + i,
				       .peers.known = 5,
				       .peers.connected = 5 - i,
				       .http.started_ms = 1000 + i,
				       .totals.records = 70 + i});
	}
	struct counted sum = sum_of(of[0]);
	assert_int_equal(sum.ask.links_open, 9);
	assert_int_equal(sum.ask.ledger_accounts, 12);
	assert_int_equal(sum.peers.known, 5);
	assert_int_equal(sum.peers.connected, 3);
	assert_int_equal(sum.http.started_ms, 1002);
	assert_int_equal(sum.totals.records, 72); /* all of them count the same records */
	counts_free(&of[2]);
	sum = sum_of(of[0]);
	assert_int_equal(sum.ask.links_open, 5);
	assert_int_equal(sum.ask.ledger_accounts, 11);
	assert_int_equal(sum.peers.connected, 4);
	assert_int_equal(sum.http.started_ms, 1001);
	assert_int_equal(sum.totals.records, 72);
	counts_free(&of[0]);
	counts_free(&of[1]);
}

static void count_until_killed(const char *dir, int ready)
{
	struct counts *counts = counts_open(dir);
	for (int i = 0; i < 1000; i++)
		ask_count(&counts_of_asks(counts)->from_map, 1);
	if (write(ready, "x", 1) == 1)
		pause();
	_exit(1);
}

/* All at once, so that they meet where files are made. */
static void counts_of_killed_processes_stay_and_each_has_a_slot_of_its_own(void **state)
{
	const struct scratch *s = *state;
	pid_t pids[16];
	int ends[2];
	char byte;
	for (int round = 1; round <= 2; round++) {
		assert_int_equal(pipe(ends), 0);
		for (int i = 0; i < 16; i++)
			if (!(pids[i] = scratch_fork()))
				count_until_killed(s->path, ends[1]);
		for (int i = 0; i < 16; i++)
			assert_int_equal(read(ends[0], &byte, 1), 1);
		for (int i = 0; i < 16; i++) {
			assert_int_equal(kill(pids[i], SIGKILL), 0);
			assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
		}
		close(ends[0]);
		close(ends[1]);
		struct counts *counts = counts_open(s->path);
		assert_in_range(counts->slot, 0, 15);
		assert_int_equal(sum_of(counts).ask.from_map, round * 16000);
		counts_free(&counts);
	}
	assert_int_equal(faccessat(s->fd, "query.15.counts", F_OK, 0), 0);
	assert_int_not_equal(faccessat(s->fd, "query.16.counts", F_OK, 0), 0);
}

/* --- what is not as it should be -----------------------------------------------------------------
 */

static void counts_of_garbage_are_begun_anew(void **state)
{
	const struct scratch *s = *state;
	size_t len;
	struct counts *counts = counts_open(s->path), *other;
	ask_count(&counts_of_asks(counts)->from_map, 5);
	counts_free(&counts);
	char *good = scratch_read(s->fd, "query.0.counts", &len);
	assert_int_equal(len, sizeof(struct counts_file));
	struct counts_file *file = (void *)good;
	for (int what = 0; what < 7; what++) {
		struct counts_file *bad = malloc(len);
		size_t size = len;
		*bad = *file;
		switch (what) {
		case 0:
			bad->head.segment.magic[3] ^= 1;
			break;
		case 1:
			bad->head.segment.version++;
			break;
		case 2:
			bad->head.schema++;
			break; /* another set of routes */
		case 3:
			size = 100;
			break;
		case 4:
			size = 0;
			break;
		case 5:
			bad->rows[1].n = ROWS + 1;
			break;
		default:
			bad->rows[0].n = 2; /* of a tenant without a name */
			break;
		}
		scratch_write(s->fd, "query.0.counts", bad, size);
		free(bad);
		counts = counts_open(s->path);
		assert_int_equal(counts->slot, 0);
		assert_int_equal(sum_of(counts).ask.from_map, 0);
		ask_count(&counts_of_asks(counts)->from_map, 1);
		other = counts_open(s->path);
		assert_int_equal(other->slot, 1);
		assert_int_equal(sum_of(other).ask.from_map, 1);
		counts_free(&counts);
		counts_free(&other);
	}
	scratch_write(s->fd, "query.0.counts", good, len); /* and what is good is taken */
	counts = counts_open(s->path);
	assert_int_equal(sum_of(counts).ask.from_map, 5);
	counts_free(&counts);
	free(good);
}

static void counts_of_others_that_are_garbage_are_passed_over(void **state)
{
	const struct scratch *s = *state;
	struct counts *counts = counts_open(s->path);
	ask_count(&counts_of_asks(counts)->from_map, 5);
	refuse(counts, "a", 1);
	scratch_write(s->fd, "query.1.counts", "TALLYCNT and then nothing", 25);
	assert_int_equal(mkdirat(s->fd, "query.2.counts", 0700), 0);
	assert_int_equal(symlinkat("query.0.counts", s->fd, "query.3.counts"), 0);
	assert_int_equal(mkfifoat(s->fd, "query.4.counts", 0600), 0);
	assert_int_equal(sum_of(counts).ask.from_map, 5);
	assert_int_equal(refused(counts, "a"), 1);
	struct counts *of[4];
	for (int i = 0; i < 4; i++)
		of[i] = counts_open(s->path);
	assert_int_equal(of[0]->slot, 1); /* made anew */
	assert_in_range(of[3]->slot, 4, 6);
	ask_count(&counts_of_asks(of[3])->from_map, 2);
	assert_int_equal(sum_of(counts).ask.from_map, 7);
	for (int i = 0; i < 4; i++)
		counts_free(&of[i]);
	counts_free(&counts);
}

static void counts_are_ones_own_when_there_can_be_no_file(void **state)
{
	const struct scratch *s = *state;
	char path[4096];
	snprintf(path, sizeof path, "%s/nowhere", s->path);
	struct counts *counts = counts_open(path);
	assert_int_equal(counts->slot, COUNTS_SLOTS);
	publish(counts, (struct counted){.peers.lost = 3, .peers.connected = 2});
	ask_count(&counts_of_asks(counts)->from_map, 5);
	refuse(counts, "a", 4);
	struct counted sum = sum_of(counts);
	assert_int_equal(sum.peers.lost, 3);
	assert_int_equal(sum.peers.connected, 2);
	assert_int_equal(sum.ask.from_map, 5);
	assert_int_equal(refused(counts, "a"), 4);
	counts_free(&counts);
}

static void counts_are_not_for_the_group(void **state)
{
	const struct scratch *s = *state;
	struct stat st;
	mode_t mask = umask(0);
	struct counts *counts = counts_open(s->path);
	umask(mask);
	assert_int_equal(fstatat(s->fd, "query.0.counts", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	counts_free(&counts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(counts_of_each_process_are_the_sum_of_all),
		TEST(counts_go_on_from_where_the_predecessor_was),
		TEST(counts_of_gauges_are_of_those_that_live),
		TEST(counts_of_killed_processes_stay_and_each_has_a_slot_of_its_own),
		TEST(counts_of_garbage_are_begun_anew),
		TEST(counts_of_others_that_are_garbage_are_passed_over),
		TEST(counts_are_ones_own_when_there_can_be_no_file),
		TEST(counts_are_not_for_the_group),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
