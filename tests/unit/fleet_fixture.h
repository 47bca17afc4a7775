/*
 * fleet_fixture.h - supervisor/fleet with real child processes, whose part is played by the test
 * program itself.
 *
 *	test --plays the group--> fleet --spawns--> this program as "tally-worker" (fleet_worker.c)
 *	  '--script of partition--------------------^   '--journal of partition--> test
 *
 * A script has one line for each start of the worker; the last one is for all
 * that follow.  Words of a line, in order (see fleet_worker.c):
 *
 *	replaying ready drained		says so
 *	phase=N flags=N in_hand=N in_store=N next=N reason=N	into its stats
 *	serve	answers DRAIN, ends at STOP	deaf	hears neither, but lives on
 *	still	no heartbeat any more		tough	ignores SIGABRT
 *	garbage zero stale			one such message
 *	mute	closes the control socket, lives on
 *	flood	garbage for ever		exit=N signal=N	ends so
 *
 * Conditions are waited for by running the loop: fleet_until.
 */
#ifndef TALLY_TESTS_FLEET_FIXTURE_H
#define TALLY_TESTS_FLEET_FIXTURE_H

#include "scratch.h"

#include <ev.h>

#include "shm/config.h"
#include "shm/host.h"
#include "shm/stats.h"
#include "shm/table.h"
#include "supervisor/part.h"

#define FLEET_PARTITIONS 64

struct fixture {
	char path[64]; /* holds "run", the log, and programs */
	struct config config;
	struct ev_loop *loop;
	struct rundir *rundir;
	struct table table;
	struct fleet *fleet;
	struct fleet_options options;
	ev_timer turn;
	bool contacts; /* the coordinator speaks at every turn */
	unsigned released, stopped, asked;
	/* As it was when the last revocation could be acknowledged. */
	unsigned children_at_release; /* that are not reaped */
	unsigned generations_at_release;
	unsigned named_at_release; /* words that are not free */
	int stderr_kept;
};

/* As the worker saw it at its last start. */
struct start {
	int pid;
	uint64_t generation;
	unsigned partitions, adopt, batch_max, n_quarantine;
	int64_t quarantine[4];
};

/* Opens run directory, table and fleet; all workers "replaying ready serve". */
int fleet_setup(void **state);
int fleet_teardown(void **state);

/* First of all in main.  true: this process is a worker, and has played its part. */
bool fleet_main(int argc, char **argv);

/* Workers are spawned from there; at first from the test program. */
void fleet_program(struct fixture *f, const char *path);
void fleet_link_program(const char *path); /* makes it one */

/* Ends fleet and table and opens new ones on the same run directory, as a new supervisor does. */
void fleet_renew(struct fixture *f);

void fleet_script(struct fixture *f, uint32_t partition, const char *script);

/* How often the worker was started; *last as it was told then. */
unsigned fleet_starts(const struct fixture *f, uint32_t partition, struct start *last);

/* How many lines of the worker's journal have this: "start", "draining", "stopping", "still". */
unsigned fleet_journal(const struct fixture *f, uint32_t partition, const char *line);

/* How many lines of the log have this; of those before the first one that has the mark. */
unsigned fleet_logged(const struct fixture *f, const char *what);
unsigned fleet_logged_before(const struct fixture *f, const char *what, const char *mark);

unsigned fleet_descriptors(struct fixture *f);	     /* of this process, at rest */
unsigned fleet_generations(const struct fixture *f); /* directories, trash not counted */

/* One round of the loop, at most 10 ms.  fleet_tick is called in each. */
void fleet_turn(struct fixture *f);
void fleet_run_ms(struct fixture *f, unsigned ms);
void fleet_gave_up(struct fixture *f, const char *what, const char *file, int line);

#define FLEET_PATIENCE_NS UINT64_C(20000000000)
#define fleet_until(f, condition)                                                                  \
	do {                                                                                       \
		uint64_t fleet_end = host_boot_ns() + FLEET_PATIENCE_NS;                           \
		while (!(condition)) {                                                             \
			if (host_boot_ns() > fleet_end)                                            \
				fleet_gave_up(f, #condition, __FILE__, __LINE__);                  \
			fleet_turn(f);                                                             \
		}                                                                                  \
	} while (0)

/* Assigns or takes the partitions from 0 on. */
void fleet_assign(struct fixture *f, uint32_t n);
void fleet_take(struct fixture *f, uint32_t n, enum group_loss loss);
void fleet_give(struct fixture *f, uint32_t partition);

/* Assigns, and waits until all are ready. */
void fleet_begin(struct fixture *f, uint32_t n);

static inline struct table_slot *fleet_slot(struct fixture *f, uint32_t partition)
{
	return table_slot_mut(&f->table, partition);
}

static inline enum part_state fleet_state(const struct fixture *f, uint32_t partition)
{
	return table_word_state(table_word_of(&f->table, partition));
}

static inline uint64_t fleet_generation(const struct fixture *f, uint32_t partition)
{
	return table_word_generation(table_word_of(&f->table, partition));
}

static inline bool fleet_is_ready(const struct fixture *f, uint32_t partition)
{
	return fleet_state(f, partition) == PART_READY;
}

/* What a reader would route by. */
static inline uint32_t fleet_routing(const struct fixture *f)
{
	return atomic_load(&f->table.head->partitions);
}

/* Words that let a reader into a store of before. */
static inline unsigned fleet_count_open(const struct fixture *f)
{
	unsigned n = 0;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		n += fleet_is_ready(f, p);
	return n;
}

static inline unsigned fleet_count_state(const struct fixture *f, enum part_state state)
{
	unsigned n = 0;
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++)
		n += fleet_state(f, p) == state;
	return n;
}

/* kafka.partitions: 0, and the topic has n. */
static inline struct fixture *fleet_follow(void **state, uint32_t n)
{
	struct fixture *f = *state;
	f->fleet->partitions = f->fleet->topic_partitions = 0; /* nothing was known yet */
	fleet_partitions(f->fleet, n);
	assert_int_equal(fleet_routing(f), n);
	return f;
}

/* The directory of this generation is there under its name. */
bool fleet_has(const struct fixture *f, uint32_t partition, uint64_t generation);

/* No such process: ended, and reaped. */
static inline bool fleet_is_reaped(int pid)
{
	return kill(pid, 0) && errno == ESRCH;
}

/* fleet_worker.c */
int fleet_worker_main(void);

#endif
