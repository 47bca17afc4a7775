/*
 * client.c - a reader's handle, and the protocol that makes its answers safe.
 *
 *	word says ready, lease runs --> that generation's store --> one read transaction,
 *	       ^                                                     copied out
 *	       '-- changed: thrown away, asked again (3 times) <-- word and lease again
 *
 * Nothing that is found in the run directory is believed: names are made here
 * from checked numbers, a store must say itself that it is the one that was
 * meant, and texts are cut and cleaned.  A table that was replaced is found
 * at the start of the next call.
 *
 * The number of partitions can change: then every stream is routed anew, and
 * every partition gets a new generation.  The number is read once a call; a
 * store is read only when it was made for that number, and the answer holds
 * only while the table still says it.
 *
 * Runs in: every reader.  Blocks in: opening files.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/client_private.h"
#include "shm/err.h"
#include "shm/host.h"

#define PEEK_AGAIN_NS UINT64_C(200000000)
#define LOOK_EVERY_NS UINT64_C(10000000) /* at the table's path */

/* ------------------------------------------------------------------ the handle */

/*
 * The time to count with.  As in workers, a leap of the wall clock is followed only when it has
 * lasted: or all streams would have expired at once.
 */
static int64_t corrected_ms(struct tally *tally, uint64_t boot)
{
	int64_t wall = host_wall_ms(), now;
	if (!tally->clock.boot_ns)
		clock_start(&tally->clock, INT64_MIN, wall, boot);
	now = clock_now(&tally->clock, wall, boot);
	if (!clock_stuck(&tally->clock, boot))
		return now;
	/* Gone back for good: the stores are made anew for that, too. */
	clock_start(&tally->clock, INT64_MIN, wall, boot);
	tally->now_ms = INT64_MIN;
	return wall;
}

/* That, plus the offset that all processes of this instance add. */
static int64_t now_of(struct tally *tally, uint64_t boot)
{
	int64_t now = corrected_ms(tally, boot), offset = 0, sum;
	if (tally->attached)
		offset = atomic_load_explicit(
			&tally->table.head->clock_offset_ms, memory_order_relaxed);
	if (!__builtin_add_overflow(now, offset, &sum))
		now = sum;
	if (now > tally->now_ms)
		tally->now_ms = now;
	return tally->now_ms;
}

static bool retired(const struct tally *tally)
{
	return atomic_load_explicit(&tally->table.head->retired, memory_order_acquire);
}

/* The run directory may have been made anew since: a restart of the service does that. */
static int open_dir(struct tally *tally)
{
	struct stat st;
	int fd = open(tally->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_from_errno(errno);
	if (tally->dirfd >= 0)
		close(tally->dirfd);
	tally->dirfd = fd;
	if (fstat(fd, &st))
		return err_from_errno(errno);
	return st.st_mode & S_IWOTH ? ERR_ACCESS : 0;
}

/* The head's numbers, read once: they set the bounds of all that follows. */
static int read_head(struct tally *tally)
{
	const struct table_head *head = tally->table.head;
	size_t slots = (tally->table.segment.size - TABLE_SLOTS_AT) / sizeof(struct table_slot);
	uint32_t window = head->window_minutes, rate = head->rate_minutes;
	if (window < 1 || window > WINDOW_MINUTES_MAX || rate < 1 || rate > RATE_MINUTES)
		return ERR_FORMAT;
	void *row = realloc(tally->row, window_row_size(window));
	if (!row)
		return ERR_NOMEM;
	tally->row = row;
	tally->window = window;
	tally->rate = rate;
	tally->slots = slots > TABLE_CAPACITY ? TABLE_CAPACITY : (uint32_t)slots;
	return 0;
}

static void detach_table(struct tally *tally)
{
	if (tally->attached)
		table_detach(&tally->table);
	tally->attached = false;
	tally->limits_tried = false;
}

/* Lets go of maps whose generation is no longer in the table. */
static void prune(struct tally *tally, bool all)
{
	for (uint32_t p = 0; p < TABLE_CAPACITY; p++) {
		struct client_part *part = &tally->parts[p];
		if (!part->env)
			continue;
		uint64_t word = all || p >= tally->slots ? 0 : table_word_of(&tally->table, p);
		if (table_word_state(word) == PART_FREE ||
			table_word_generation(word) != part->generation)
			client_env_release(&part->env);
	}
}

static int attach(struct tally *tally)
{
	detach_table(tally);
	int err = open_dir(tally);
	if (!err)
		err = table_attach(tally->dirfd, &tally->table);
	if (!err) {
		tally->attached = true;
		err = read_head(tally);
		if (err)
			detach_table(tally);
	}
	prune(tally, !tally->attached);
	if (!err)
		tally->attached_once = true;
	/* What was there and is not any more has stopped. */
	return err == ERR_NOT_FOUND && tally->attached_once ? ERR_STALE : err;
}

/* As the table says now. */
static uint32_t read_partitions(const struct tally *tally)
{
	uint32_t n = atomic_load_explicit(&tally->table.head->partitions, memory_order_acquire);
	return n < tally->slots ? n : tally->slots;
}

/*
 * Whoever puts another table in this one's place marks it first.  The path, which costs more than a
 * look-up, is looked at for what nobody could mark: a directory that was made anew by hand.
 */
static bool replaced(struct tally *tally)
{
	if (retired(tally))
		return true;
	if (tally->boot_ns - tally->looked_at_ns < LOOK_EVERY_NS)
		return false;
	tally->looked_at_ns = tally->boot_ns;
	return table_replaced(tally->dirfd, &tally->table);
}

int client_enter(struct tally *tally)
{
	int err = 0;
	tally->n_stands = 0;
	if (tally->pid != client_pid())
		return ERR_INVALID;
	tally->boot_ns = host_boot_ns();
	if (!tally->attached || replaced(tally))
		err = attach(tally);
	tally->partitions = err ? 0 : read_partitions(tally);
	now_of(tally, tally->boot_ns);
	return err;
}

int tally_open(const char *run_dir, unsigned flags, struct tally **out)
{
	if (!out)
		return TALLY_EINVALID;
	*out = NULL;
	if (!run_dir || !*run_dir || flags & ~(TALLY_STALE_OK | TALLY_PARTIAL_OK))
		return TALLY_EINVALID;
	struct tally *tally = calloc(1, sizeof *tally);
	if (!tally)
		return TALLY_ENOMEM;
	tally->dirfd = -1;
	tally->flags = flags;
	tally->pid = client_pid();
	tally->run_dir = realpath(run_dir, NULL);
	int err = tally->run_dir ? attach(tally) : err_from_errno(errno);
	if (err)
		tally_close(&tally);
	*out = tally;
	return client_public(err);
}

void tally_close(struct tally **handle)
{
	struct tally *tally = handle ? *handle : NULL;
	if (!tally)
		return;
	*handle = NULL;
	if (tally->pid == client_pid()) /* a child must not end its parent's maps */
		prune(tally, true);
	detach_table(tally);
	client_limits_drop(tally);
	if (tally->dirfd >= 0)
		close(tally->dirfd);
	free(tally->counts);
	free(tally->run_dir);
	free(tally->row);
	free(tally);
}

void tally_idle(struct tally *tally)
{
	if (!tally || tally->pid != client_pid())
		return;
	if (!tally->attached || table_replaced(tally->dirfd, &tally->table))
		attach(tally);
	else
		prune(tally, false);
}

int64_t tally_now_ms(struct tally *tally)
{
	return now_of(tally, host_boot_ns());
}

/* ------------------------------------------------------------------ the protocol */

uint32_t client_partitions(const struct tally *tally)
{
	return tally->partitions;
}

bool client_usable(const struct tally *tally, struct client_stand *stand, uint64_t boot_ns)
{
	const struct table *table = &tally->table;
	enum part_state state = table_word_state(stand->word);
	stand->ready = table_is_ready(table, stand->partition, stand->word, boot_ns);
	stand->partial =
		!stand->ready &&
		(state == PART_REPLAYING || !table_is_whole(table, stand->partition, stand->word));
	if (stand->ready ||
		(tally->flags & TALLY_PARTIAL_OK &&
			table_is_replaying(table, stand->partition, stand->word, boot_ns)))
		return true;
	return tally->flags & TALLY_STALE_OK && state != PART_FREE && state < PART_STATES &&
	       !retired(tally) && table_word_of(table, stand->partition) == stand->word;
}

/*
 * Right after a transaction: the word stands; an answer that became stale meanwhile is stale.  The
 * time is the call's: what leases say by then is looked at when all has been read.
 */
static bool still_usable(const struct tally *tally, struct client_stand *stand, uint64_t boot_ns)
{
	bool was_ready = stand->ready, was_partial = stand->partial;
	bool usable = client_usable(tally, stand, boot_ns);
	stand->ready = stand->ready && was_ready;
	stand->partial = stand->partial || was_partial;
	return usable;
}

int tally_still_valid(struct tally *tally)
{
	if (!tally || !tally->attached || tally->pid != client_pid() || retired(tally))
		return 0;
	uint64_t boot_ns = host_boot_ns();
	for (uint32_t i = 0; i < tally->n_stands; i++) {
		struct client_stand now = tally->stands[i];
		if (!client_usable(tally, &now, boot_ns) || (tally->stands[i].ready && !now.ready))
			return 0;
	}
	/* After the words: what was published under another number is seen by then. */
	return read_partitions(tally) == tally->partitions;
}

/* A store that is not the one the word names is not read, however it came to be there. */
static int check_identity(
	struct tally *tally, struct store *store, uint32_t partition, uint64_t generation)
{
	struct store_txn txn;
	struct usage_meta meta;
	store_begin_read(&txn, store);
	int err = txn.err ? txn.err : usage_read_meta(&txn, &meta);
	store_abort(&txn);
	if (err)
		return err == ERR_NOT_FOUND ? ERR_NOT_READY : err;
	const struct usage_identity *id = &meta.identity;
	bool same = id->format == USAGE_FORMAT && id->partition == partition &&
		    id->partitions == tally->partitions && id->generation == generation &&
		    id->window_minutes == tally->window &&
		    !memcmp(id->boot_id, tally->table.head->boot_id, sizeof id->boot_id);
	return same ? 0 : ERR_IDENTITY;
}

static int part_store(
	struct tally *tally, uint32_t partition, uint64_t generation, struct store **store)
{
	struct client_part *part = &tally->parts[partition];
	char name[TABLE_DIR_NAME_SIZE];
	if (part->env && (part->generation != generation || part->partitions != tally->partitions))
		client_env_release(&part->env);
	if (!part->env) {
		table_dir_name(name, partition, generation);
		int err = client_env_acquire(tally->dirfd, tally->run_dir, name, &part->env);
		if (!err)
			err = check_identity(
				tally, client_env_store(part->env), partition, generation);
		if (err) {
			client_env_release(&part->env);
			return err == ERR_NOT_FOUND ? ERR_NOT_READY : err;
		}
		part->generation = generation;
		part->partitions = tally->partitions;
		part->asked = 0;
	}
	*store = client_env_store(part->env);
	return 0;
}

/* What this thread is reading; generation 0 = nothing. */
static _Thread_local struct {
	volatile uint64_t generation;
	volatile uint32_t partition;
} reading;

bool client_reading(uint32_t *partition, uint64_t *generation)
{
	*partition = reading.partition;
	*generation = reading.generation;
	return reading.generation != 0;
}

static void (*hear_corrupt)(uint32_t partition, uint64_t generation);

void client_on_corrupt(void (*hear)(uint32_t partition, uint64_t generation))
{
	hear_corrupt = hear;
}

/* How far it has come. */
static int read_progress(struct client_stand *stand, struct store_txn *txn)
{
	struct usage_meta meta;
	int err = usage_read_meta(txn, &meta);
	if (!err && meta.fingerprint.timestamp_ms > 0)
		stand->counted_to_ms = meta.fingerprint.timestamp_ms;
	return err;
}

static int read_store(struct tally *tally, struct client_visit *visit, struct client_stand *stand,
	client_read_fn *read, void *arg)
{
	struct store_txn *txn = visit->txn;
	struct store *store;
	int err = part_store(tally, visit->partition, visit->generation, &store);
	if (err)
		return err;
	store_begin_read(txn, store);
	if (!txn->err)
		err = read(visit, arg);
	if (!txn->err && stand->partial && (!err || err == ERR_NOT_FOUND)) {
		int unread = read_progress(stand, txn);
		err = unread ? unread : err;
	}
	if (txn->err)
		err = txn->err;
	store_abort(txn);
	return err;
}

static int read_once(
	struct tally *tally, struct client_stand *stand, client_read_fn *read, void *arg)
{
	struct store_txn txn;
	struct client_visit visit = {
		.tally = tally,
		.txn = &txn,
		.partition = stand->partition,
		.generation = table_word_generation(stand->word),
		.now_minute = window_minute_of_ms(tally->now_ms),
	};
	reading.partition = visit.partition;
	reading.generation = visit.generation;
	int err = read_store(tally, &visit, stand, read, arg);
	reading.generation = 0;
	return err;
}

/* The same partition may be read in several transactions of one call: all of one word. */
static int stand_on(struct tally *tally, const struct client_stand *stand)
{
	struct client_stand *last = tally->n_stands ? &tally->stands[tally->n_stands - 1] : NULL;
	if (last && last->partition == stand->partition) {
		last->ready = last->ready && stand->ready;
		last->partial = last->partial || stand->partial;
		if (stand->partial)
			last->counted_to_ms = stand->counted_to_ms;
		return last->word == stand->word ? 0 : ERR_NOT_READY;
	}
	if (tally->n_stands == TABLE_CAPACITY)
		return ERR_INVALID;
	tally->stands[tally->n_stands++] = *stand;
	return 0;
}

int client_visit(struct tally *tally, uint32_t partition, client_read_fn *read, void *arg)
{
	for (int tries = 0; tries < CLIENT_TRIES; tries++) {
		struct client_stand stand = {.partition = partition};
		stand.word = table_word_of(&tally->table, partition);
		if (!client_usable(tally, &stand, tally->boot_ns))
			return ERR_NOT_READY;
		int err = read_once(tally, &stand, read, arg);
		bool stands = !err || err == ERR_NOT_FOUND;
		if (!stands) /* nobody asks again whether it was ready */
			tally->boot_ns = host_boot_ns();
		if (!still_usable(tally, &stand, tally->boot_ns))
			continue;
		if (err == ERR_CORRUPT && hear_corrupt)
			hear_corrupt(partition, table_word_generation(stand.word));
		if (!stands)
			return err;
		int stood = stand_on(tally, &stand);
		return stood ? stood : err;
	}
	return ERR_NOT_READY;
}

static int read_nothing(struct client_visit *visit, void *arg)
{
	(void)visit;
	(void)arg;
	return 0;
}

int client_look(struct tally *tally, uint32_t partition, struct client_stand *stand)
{
	*stand = (struct client_stand){
		.partition = partition, .word = table_word_of(&tally->table, partition)};
	if (!client_usable(tally, stand, tally->boot_ns))
		return ERR_NOT_READY;
	return stand->partial ? read_once(tally, stand, read_nothing, NULL) : 0;
}

/*
 * Opening waits for whoever is opening it: LMDB's lock.  That is a worker of a pending
 * partition, which may hang there, and nobody must hang with it; so one that is pending
 * (or may be in a moment) is read only when it is open here already.  One that could not
 * be opened is not tried again at every question.
 */
static bool may_peek(const struct tally *tally, uint32_t partition, uint64_t word, uint64_t now)
{
	const struct client_part *part = &tally->parts[partition];
	enum part_state state = table_word_state(word);
	if (part->env && part->generation == table_word_generation(word))
		return part->partitions == tally->partitions;
	if (state != PART_REPLAYING && state != PART_READY && state != PART_DRAINING)
		return false;
	return part->unopened != table_word_generation(word) ||
	       now - part->unopened_at_ns >= PEEK_AGAIN_NS;
}

int client_peek(struct tally *tally, uint32_t partition, client_read_fn *read, void *arg)
{
	struct client_part *part = &tally->parts[partition];
	struct client_stand stand = {
		.partition = partition, .word = table_word_of(&tally->table, partition)};
	uint64_t now = host_boot_ns();
	if (!table_word_generation(stand.word) || retired(tally) ||
		!may_peek(tally, partition, stand.word, now))
		return ERR_NOT_READY;
	int err = read_once(tally, &stand, read, arg);
	if (!part->env) {
		part->unopened = table_word_generation(stand.word);
		part->unopened_at_ns = now;
	}
	return err == ERR_NOT_FOUND ? 0 : err;
}

int client_unanswered(const struct tally *tally)
{
	return table_is_alive(&tally->table, host_boot_ns()) ? ERR_NOT_READY : ERR_STALE;
}

int client_call(struct tally *tally, client_body_fn *body, void *arg)
{
	for (int tries = 0; tries < CLIENT_TRIES; tries++) {
		int err = client_enter(tally);
		if (!err)
			err = body(tally, arg);
		if (!tally->attached || err == ERR_NOMEM || err == ERR_INVALID ||
			tally_still_valid(tally))
			return client_public(err);
	}
	return client_public(client_unanswered(tally));
}

const struct client_stand *client_last(const struct tally *tally)
{
	return &tally->stands[tally->n_stands - 1];
}

void client_basis_add(struct tally_basis *basis, const struct client_stand *stand)
{
	if (!stand->partial) {
		basis->answered++;
		basis->stale |= !stand->ready;
	} else if (!basis->partial++ || stand->counted_to_ms < basis->counted_to_ms) {
		basis->counted_to_ms = stand->counted_to_ms;
	}
}

void client_basis_end(struct tally_basis *basis)
{
	basis->complete = basis->owned > 0 && basis->answered == basis->owned;
}

int client_scan(struct tally *tally, const struct client_scan *scan, struct tally_basis *basis)
{
	int first = 0;
	*basis = (struct tally_basis){.partitions = client_partitions(tally)};
	for (uint32_t p = 0; p < basis->partitions; p++) {
		enum part_state state = table_word_state(table_word_of(&tally->table, p));
		if (state == PART_FREE || state >= PART_STATES)
			continue;
		basis->owned++;
		int err = client_visit(tally, p, scan->read, scan->arg);
		if (!err)
			err = scan->take(scan->arg);
		if (err == ERR_NOMEM)
			return err;
		if (err && err != ERR_NOT_READY && !first)
			first = err;
		if (!err)
			client_basis_add(basis, client_last(tally));
	}
	client_basis_end(basis);
	if (basis->answered || basis->partial)
		return 0;
	return first ? first : client_unanswered(tally);
}
