/*
 * counts.c - what query processes have counted: a mapped file each, and all of them added up.
 *
 *	slot 0, 1, ...: not there --make--> locked, ours
 *	                there, nobody's --> ours, from what it has; garbage: made anew
 *	                locked by another --> the next one
 *
 *	counts_publish: word of the slot = what it had when we took it + what we have counted
 *
 * The lock is one of fcntl's open file descriptions: it goes with the process, and a reader can see
 * without taking it whether somebody has it, which is what a gauge of that slot stands on.
 *
 * Runs in: queryd; counts_open before there are threads, counts_publish in any.  Blocks in: its mutex.
 */
#include "counts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "counts_private.h"
#include "route.h"

#include "shm/check.h"
#include "shm/err.h"
#include "shm/log.h"

const struct segment_spec counts_spec = {COUNTS_MAGIC, COUNTS_VERSION, sizeof(struct counts_file)};

/* --- what a word is ------------------------------------------------------------------------------
 */

#define AT(member)  (offsetof(struct counted, member) / sizeof(uint64_t))
#define ONE(member) AT(member), AT(member) + 1
#define ALL(member)                                                                                \
	AT(member), AT(member) + sizeof(((struct counted *)0)->member) / sizeof(uint64_t)

/* clang-format off */
static const struct {
	size_t from, to;
	enum counts_how how;
} rules[] = {
	{ ONE(ask.under_way), NOW_SUM_IN_PLACE }, /* before the rule that it is an exception of */
	{ AT(ask), AT(ask.touches_waiting), EVER_IN_PLACE }, /* struct ask_counts */
	{ ONE(ask.touches_waiting), NOW_SUM },
	{ ONE(ask.links_open), NOW_SUM },
	{ ONE(ask.link_waiting), NOW_SUM },
	{ ONE(ask.ledger_accounts), NOW_MOST },	/* each keeps those that it was asked about */
	{ ONE(ask.ledger_waiting), NOW_SUM },
	{ ONE(ask.ledger_reserved), NOW_SUM },
	{ ONE(grpc.connections), NOW_SUM },
	{ ONE(grpc.calls), NOW_SUM },
	{ ONE(grpc.memory), NOW_SUM },
	{ ONE(peers.known), NOW_MOST },
	{ ONE(peers.connected), NOW_LEAST },	/* below `known`: some process misses one */
	{ ONE(peers.partitions), NOW_LEAST },
	{ ONE(peers.calls), NOW_SUM },
	{ ALL(totals), EVER_SAME },
	{ ONE(http.started_ms), NOW_MOST },
	{ ONE(http.connections), NOW_SUM },
	{ ALL(answers), EVER_IN_PLACE },
};
/* clang-format on */

_Static_assert(sizeof(struct counted) % sizeof(uint64_t) == 0 &&
		       sizeof(_Atomic uint64_t) == sizeof(uint64_t),
	"words and nothing else");
_Static_assert(
	offsetof(struct counted, ask.touches_waiting) == sizeof(struct ask_counts) &&
		offsetof(struct asker_facts, streams) == offsetof(struct ask_counts, streams) &&
		offsetof(struct asker_facts, under_way) == offsetof(struct ask_counts, under_way) &&
		offsetof(struct asker_facts, latency_ns) == offsetof(struct ask_counts, latency_ns),
	"the asker writes its words in place");

enum counts_how counts_how(size_t word)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (word >= rules[i].from && word < rules[i].to)
			return rules[i].how;
	return EVER;
}

/* Routes come and go from version to version, and with them what a word means. */
static uint64_t schema(void)
{
	uint64_t hash = XXH3_64bits(rules, sizeof(rules)) ^ COUNTS_WORDS;
	const struct route *route;

	for (unsigned i = 0; (route = route_at(i)) != NULL; i++)
		hash = XXH3_64bits_withSeed(route->pattern, strlen(route->pattern), hash);
	for (unsigned i = 0, status; (status = answer_status_at(i)) != 0; i++)
		hash = XXH3_64bits_withSeed(&status, sizeof(status), hash);
	for (unsigned i = 0; i < ASKER_LATENCIES; i++) {
		uint64_t ns = asker_latency_ns(i);

		hash = XXH3_64bits_withSeed(&ns, sizeof(ns), hash);
	}
	return hash;
}

static void put(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

/* --- a slot ---------------------------------------------------------------------------------------
 */

void counts_name(unsigned slot, char name[COUNTS_NAME_SIZE])
{
	snprintf(name, COUNTS_NAME_SIZE, COUNTS_NAME, slot);
}

static int lock(int fd)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (fcntl(fd, F_OFD_SETLK, &whole) == 0)
		return 0;
	return errno == EAGAIN || errno == EACCES ? ERR_BUSY : err_from_errno(errno);
}

/* Somebody may have put another file in its place before we had the lock. */
static bool still_named(int dir, const char *name, int fd)
{
	struct stat ours, theirs;

	return fstat(fd, &ours) == 0 && fstatat(dir, name, &theirs, AT_SYMLINK_NOFOLLOW) == 0 &&
	       ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

static bool rows_make_sense(struct counts_file *file)
{
	bool ok = true;

	for (int i = 0; i < 2; i++) {
		struct refusals *refusals = refusals_new();

		ok = refusals_keep_in(refusals, &file->rows[i]) && ok;
		refusals_free(&refusals);
	}
	return ok;
}

/* A predecessor's: ERR_FORMAT when it is not one. */
static int map_existing(struct counts *counts, int fd)
{
	struct counts_file *file;
	struct stat st;
	int err;

	if (fstat(fd, &st) != 0)
		return err_from_errno(errno);
	if (!S_ISREG(st.st_mode) || st.st_size != (off_t)sizeof(*file))
		return ERR_FORMAT;
	file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return err_from_errno(errno);
	err = segment_check(file, sizeof(*file), &counts_spec);
	if (err == 0 && (file->head.schema != counts->schema || !rows_make_sense(file)))
		err = ERR_FORMAT;
	if (err != 0)
		munmap(file, sizeof(*file));
	else
		counts->file = file;
	return err;
}

/*
 * Whole and locked before it can be found.  `over`: what is there has no other owner, and goes;
 * else ERR_BUSY when somebody was faster.
 */
static int make(struct counts *counts, const char *name, bool over)
{
	char building[64], temporary[72];
	struct segment segment;
	int fd, err;

	snprintf(building, sizeof(building), "query.counts.%ld", (long)getpid());
	snprintf(temporary, sizeof(temporary), "%s.new", building);
	err = segment_create(counts->dir, building, &counts_spec, 0600, &segment, &fd);
	if (err != 0)
		return err;
	((struct counts_file *)segment.map)->head.schema = counts->schema;
	err = lock(fd);
	if (err == 0 && renameat2(counts->dir, temporary, counts->dir, name,
				over ? 0 : RENAME_NOREPLACE) != 0)
		err = errno == EEXIST ? ERR_BUSY : err_from_errno(errno);
	if (err != 0) {
		unlinkat(counts->dir, temporary, 0);
		segment_detach(&segment);
		close(fd);
		return err;
	}
	counts->file = segment.map;
	counts->fd = fd;
	return 0;
}

static int take_existing(struct counts *counts, const char *name, int fd)
{
	int err = lock(fd);

	if (err == 0 && !still_named(counts->dir, name, fd))
		err = ERR_BUSY;
	if (err != 0)
		return err;
	err = map_existing(counts, fd);
	if (err == 0)
		counts->fd = fd;
	if (err != ERR_FORMAT)
		return err;
	log_warn("counts.anew",
		"file=%s text=\"not what this version writes: its counters start at 0\"", name);
	return make(counts, name, true);
}

static int take(struct counts *counts, unsigned slot)
{
	char name[COUNTS_NAME_SIZE];
	int fd, err;

	counts_name(slot, name);
	fd = openat(counts->dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? make(counts, name, false) : err_from_errno(errno);
	err = take_existing(counts, name, fd);
	if (counts->fd != fd)
		close(fd);
	return err;
}

/* The first that can be had.  Gauges are nobody's any more. */
static int take_any(struct counts *counts)
{
	int err = ERR_BUSY, odd = 0;

	for (counts->slot = 0; counts->slot < COUNTS_SLOTS; counts->slot++) {
		err = take(counts, counts->slot);
		if (err == 0)
			break;
		if (err != ERR_BUSY)
			odd = err;
	}
	if (err != 0)
		return odd != 0 ? odd : err;
	for (size_t i = 0; i < COUNTS_WORDS; i++) {
		if (counts_is_gauge(counts_how(i)))
			put(&counts->file->head.words[i], 0);
		counts->before[i] = counts_get(&counts->file->head.words[i]);
	}
	return 0;
}

static void use_own_memory(struct counts *counts, int err)
{
	counts->slot = COUNTS_SLOTS;
	counts->file = calloc(1, sizeof(*counts->file));
	must_get(counts->file != NULL);
	log_warn("counts.alone",
		"error=\"%s\" text=\"cannot have a file query.N.counts in run_dir: the other query "
		"processes do not show what this one counts, and it starts at 0\"",
		err_text(err));
}

struct counts *counts_open(const char *run_dir)
{
	struct counts *counts = calloc(1, sizeof(*counts));
	int err;

	must_get(counts != NULL);
	pthread_mutex_init(&counts->publishing, NULL);
	counts->fd = -1;
	counts->schema = schema();
	counts->dir = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = counts->dir < 0 ? err_from_errno(errno) : take_any(counts);
	if (err != 0)
		use_own_memory(counts, err);
	else
		log_info("counts.slot", "file=" COUNTS_NAME, counts->slot);
	return counts;
}

void counts_free(struct counts **handle)
{
	struct counts *counts = *handle;

	if (counts == NULL)
		return;
	if (counts->slot < COUNTS_SLOTS)
		munmap(counts->file, sizeof(*counts->file));
	else
		free(counts->file);
	if (counts->fd >= 0)
		close(counts->fd);
	if (counts->dir >= 0)
		close(counts->dir);
	pthread_mutex_destroy(&counts->publishing);
	free(counts);
	*handle = NULL;
}

/* --- writers --------------------------------------------------------------------------------------
 */

struct ask_counts *counts_of_asks(struct counts *counts)
{
	return (struct ask_counts *)(void *)&counts->file->head.words[AT(ask)];
}

struct refusals_rows *counts_of_refusals(struct counts *counts)
{
	return &counts->file->rows[COUNTS_REFUSED];
}

struct refusals_rows *counts_of_accepted(struct counts *counts)
{
	return &counts->file->rows[COUNTS_ACCEPTED];
}

_Atomic uint64_t (*counts_of_answers(struct counts *counts))[ANSWER_STATUSES]
{
	return (_Atomic uint64_t(*)[ANSWER_STATUSES])(void *)&counts->file->head.words[AT(answers)];
}

void counts_publish(
	struct counts *counts, void (*gather)(void *arg, struct counted *own), void *arg)
{
	struct counted own = {0};
	uint64_t value[COUNTS_WORDS];

	pthread_mutex_lock(&counts->publishing); /* what was gathered later is put later */
	gather(arg, &own);
	memcpy(value, &own, sizeof(value));
	for (size_t i = 0; i < COUNTS_WORDS; i++) {
		enum counts_how how = counts_how(i);

		if (how == EVER)
			value[i] += counts->before[i];
		if (!counts_is_in_place(how))
			put(&counts->file->head.words[i], value[i]);
	}
	pthread_mutex_unlock(&counts->publishing);
}
