/*
 * client_reader.h - a run directory and one handle of libtally on it, for the tests of one program.
 */
#ifndef TALLY_TESTS_CLIENT_READER_H
#define TALLY_TESTS_CLIENT_READER_H

#include "client_run.h"

static struct run run;
static struct tally *tally;
TEST_SUPPRESS static struct tally_usage usage; /* that assert_streams has seen last */

TEST_SUPPRESS static int reader_setup(void **state)
{
	(void)state;
	run_start(&run);
	assert_int_equal(tally_open(run.dir, 0, &tally), 0);
	return 0;
}

/* Partition 0: generation g holds g streams; 3 is published. */
TEST_SUPPRESS static int reader_setup_generations(void **state)
{
	(void)state;
	run_start(&run);
	run_write_n(&run, 0, 3, 3);
	run_write_n(&run, 0, 5, 5);
	run_write_n(&run, 1, 7, 7);
	run_publish(&run, 0, PART_READY, 3);
	assert_int_equal(tally_open(run.dir, 0, &tally), 0);
	return 0;
}

static int reader_teardown(void **state)
{
	(void)state;
	tally_close(&tally);
	run_end(&run);
	return 0;
}

TEST_SUPPRESS static void assert_streams(struct tally *t, uint64_t streams)
{
	assert_int_equal(tally_tenant(t, "t", &usage), 0);
	assert_int_equal(usage.streams, streams);
}

/* As the supervisor does it: the file first, then its version. */
TEST_SUPPRESS static void publish_limits(const struct limits_source *source)
{
	assert_int_equal(limits_write(run.dirfd, source), 0);
	atomic_store(&table_head_mut(&run.table)->limits_version, source->version);
}

#endif
