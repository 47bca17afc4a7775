/*
 * commit.c - one commit of the batch: whether it is allowed, and what is done when it cannot be
 * made.
 *
 *	usage_commit ... commit_allowed? -- yes --> committed: facts
 *	      |               '-- no --> ERR_LEASE --.
 *	      '-- no room --------> ERR_FULL --------+--> held: the batch is kept, tried again later
 *	                                                  (ERR_FULL: after a sweep of its own)
 *
 * The lease is looked at after all work is done, immediately before LMDB's
 * commit: a worker that was frozen in the middle of a batch wakes up to a
 * "no".  What remains is the commit itself, which the supervisor takes off the
 * lease as an allowance.
 *
 * Runs in: worker, main thread.  Blocks in: nowhere (a commit is memory only).
 */
#include "commit.h"

#include "memory.h"
#include "quit.h"

#include "shm/err.h"
#include "shm/fault.h"
#include "shm/host.h"
#include "shm/log.h"

#define MS UINT64_C(1000000)
/* How often it is tried again: twice as long each time. */
#define FULL_MIN_MS  100
#define FULL_MAX_MS  2000
#define LEASE_MIN_MS 10 /* a new worker waits for the first lease of its supervisor */
#define LEASE_MAX_MS 100

bool commit_allowed(const struct commit *commit)
{
	const struct handoff *handoff = commit->handoff;
	struct table_entry entry;

	if (atomic_load_explicit(&commit->table->head->retired, memory_order_acquire) ||
		table_read(commit->table, handoff->partition, &entry) != 0 ||
		entry.generation != handoff->generation)
		return false;
	if (entry.state != PART_PENDING && entry.state != PART_REPLAYING &&
		entry.state != PART_READY)
		return false;
	return host_boot_ns() < entry.lease_until;
}

static bool may_commit(void *arg)
{
	FAULT("commit.asked");
	return commit_allowed(arg);
}

static enum worker_flag flag_of(int held)
{
	return held == ERR_FULL ? FLAG_STORE_FULL : FLAG_LEASE_OVER;
}

void commit_release(struct commit *commit)
{
	if (!commit->held)
		return;
	facts_flag(commit->facts, flag_of(commit->held), false);
	if (commit->said)
		log_info("commit.resumed", "after=%s held_ms=%llu next=%lld",
			err_word(commit->held),
			(unsigned long long)((host_boot_ns() - commit->held_since_ns) / MS),
			(long long)usage_meta(commit->usage)->next_offset);
	commit->held = 0;
}

/* A worker may be there before the first lease is: nothing is wrong then. */
static void say_held(const struct commit *commit, int err, unsigned suppressed)
{
	log_line(commit->committed_ns || err == ERR_FULL ? LOG_LEVEL_WARN : LOG_LEVEL_INFO,
		"commit.held", "reason=%s next=%lld kept=%zu suppressed=%u action=\"%s\"",
		err_word(err), (long long)usage_meta(commit->usage)->next_offset,
		usage_pending(commit->usage), suppressed,
		err == ERR_FULL ? "sweeping, trying again; make room in run_dir or raise "
				  "store.map_size"
				: "trying again until there is a lease");
}

void commit_hold(struct commit *commit, int err)
{
	unsigned more;

	if (commit->held != err) {
		if (commit->held)
			facts_flag(commit->facts, flag_of(commit->held), false);
		facts_flag(commit->facts, flag_of(err), true);
		commit->said = false;
		commit->held = err;
		commit->held_since_ns = host_boot_ns();
		commit->held_ms = err == ERR_FULL ? FULL_MIN_MS : LEASE_MIN_MS;
	} else {
		uint32_t most = err == ERR_FULL ? FULL_MAX_MS : LEASE_MAX_MS;

		commit->held_ms = 2 * commit->held_ms < most ? 2 * commit->held_ms : most;
	}
	if (!commit->said && log_limit_pass(&commit->held_limit[err == ERR_FULL], 10000, &more)) {
		commit->said = true;
		say_held(commit, err, more);
	}
	commit->retry_ns = host_boot_ns() + commit->held_ms * MS;
	FAULT("commit.held");
}

static struct usage_commit how_to(struct commit *commit, unsigned sweep_blocks)
{
	return (struct usage_commit){
		.now_ms = now_ms(commit->now),
		.sweep_blocks = sweep_blocks,
		.may_commit = may_commit,
		.arg = commit,
	};
}

/* What is no matter of room or lease ends the process. */
static int judge(struct commit *commit, const char *what, int err)
{
	if (err == ERR_CORRUPT)
		quit_rebuild(commit->facts->stats, REBUILD_CORRUPT, "the store contradicts itself");
	if (err == ERR_NOMEM && memory_is_there(commit->handoff))
		quit_rebuild(commit->facts->stats, REBUILD_CORRUPT,
			"the store asks for more memory than a good one can need");
	if (err && err != ERR_FULL && err != ERR_LEASE)
		quit_internal(what, err);
	return err;
}

static void committed(struct commit *commit, uint64_t began_ns)
{
	commit->committed_ns = host_boot_ns();
	facts_mirror(commit->facts, usage_meta(commit->usage));
	facts_committed(commit->facts, began_ns, commit->committed_ns);
}

int commit_try(struct commit *commit, unsigned sweep_blocks, int64_t *now_out)
{
	uint64_t began_ns = host_boot_ns();
	struct usage_commit how = how_to(commit, sweep_blocks);
	FAULT("commit.begin");
	/* All the work would be done before that is looked at. */
	if (commit->held == ERR_LEASE && !commit_allowed(commit))
		return ERR_LEASE;
	int err = judge(commit, "commit", usage_commit(commit->usage, &how));

	if (err)
		return err;
	FAULT("commit.done");
	committed(commit, began_ns);
	commit_release(commit);
	FAULT("commit.told");
	*now_out = how.now_ms;
	return 0;
}

int commit_sweep(struct commit *commit, unsigned most, unsigned *steps)
{
	uint64_t began_ns = host_boot_ns();
	struct usage_commit how = how_to(commit, most);
	int err = judge(commit, "sweep", usage_sweep(commit->usage, &how, steps));

	if (!err)
		committed(commit, began_ns);
	return err;
}
