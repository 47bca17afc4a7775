/*
 * run.h - a run directory for targets: good, and as a reader of libtally meets it.
 *
 *	table      4 partitions; 0 and 1 are ready, 2 replays, 3 is free
 *	stores     of 0 (three tenants, policies, a few hundred streams) and of 1
 *	stats      of both
 *	limits     of three tenants
 */
#ifndef TALLY_TESTS_FUZZ_RUN_H
#define TALLY_TESTS_FUZZ_RUN_H

#include "tests/unit/client_run.h"

#include "fuzz.h"

#include "shm/limits.h"

#define RUN_GENERATION 3

static struct run fuzz_run;

FUZZ_UNUSED static void fuzz_run_end(void)
{
	run_end(&fuzz_run);
}

static void fuzz_run_limits(void)
{
	static const struct limits_policy policies[] = {{"gold", 50}, {"silver", LIMIT_NONE}};
	static const struct limits_tenant tenants[] = {
		{"t", 100, true, false, policies, 2},
		{"a", LIMIT_NONE, true, true, NULL, 0},
		{"z", 5, false, false, policies, 1},
	};
	const struct limits_source source = {
		.version = 1, .default_streams = 7, .tenants = tenants, .n_tenants = 3};

	hold(limits_write(fuzz_run.dirfd, &source) == 0);
	atomic_store(&table_head_mut(&fuzz_run.table)->limits_version, 1);
}

FUZZ_UNUSED static void fuzz_run_start(void)
{
	static struct put puts[320];

	for (size_t i = 0; i < 320; i++)
		puts[i] = (struct put){i % 16	? "t"
				       : i % 32 ? "a\x1b[31m"
						: "b",
			i % 5 ? "" : "gold", i * RUN_PARTITIONS * UINT64_C(0x9e3779b97f4a7c),
			10 + i, (int64_t)i};
	run_start(&fuzz_run);
	run_write(&fuzz_run, 0, RUN_GENERATION, puts, 320);
	run_write_n(&fuzz_run, 1, RUN_GENERATION, 20);
	run_publish(&fuzz_run, 0, PART_READY, RUN_GENERATION);
	run_publish(&fuzz_run, 1, PART_READY, RUN_GENERATION);
	run_publish(&fuzz_run, 2, PART_REPLAYING, 9);
	fuzz_run_limits();
}

/* The supervisor is alive and leases run: to be called before each input. */
FUZZ_UNUSED static void fuzz_run_refresh(void)
{
	atomic_store(&table_head_mut(&fuzz_run.table)->heartbeat, host_boot_ns());
	for (uint32_t p = 0; p < 3; p++)
		run_lease(&fuzz_run, p, 60000);
}

#endif
