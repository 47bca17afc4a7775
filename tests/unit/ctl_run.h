/*
 * ctl_run.h - the run directory that tests of tallyctl look at, and a struct ctl for it.
 *
 *	partition 0, ready	tenant "a": a stream in the default bucket, one of policy "gold";
 *				a tenant whose name would drive a terminal: a stream
 *	partition 1, ready	tenant "t": three streams
 */
#ifndef TALLY_TESTS_CTL_RUN_H
#define TALLY_TESTS_CTL_RUN_H

#include "client_run.h"

#include "tools/tallyctl/ctl.h"

static struct run run;
static struct ctl ctl;

static void ctl_run_start(void)
{
	static const struct put puts[] = {
		{"a", "", 4, 100, 0},
		{"a", "gold", 8, 50, 0},
		{"b\x1b[31m\xc2\x9b", "", UINT64_MAX - 3, 1, 0},
	};
	run_start(&run);
	run_write(&run, 0, 10, puts, 3);
	run_write_n(&run, 1, 11, 3);
	run_publish(&run, 0, PART_READY, 10);
	run_publish(&run, 1, PART_READY, 11);
	ctl = (struct ctl){.run_dir = run.dir};
}

static void ctl_run_end(void)
{
	tally_close(&ctl.tally);
	run_end(&run);
}

#endif
