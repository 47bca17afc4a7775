/*
 * ranking.c - tenants by how near they are to their limit, and by other things.
 *
 *	ranking_begin --wanted--> a thread of its own:
 *	tally_top --usage--> limits (map) --share--> used = counted / share --> next --swap--> kept
 *	                       '-- policies with own limits: tally_buckets        '--> wake
 *	ranking_read: query, order, the first rows of what is kept, copied out
 *
 * Only the handle of the pass is stood on: while it vouches for it, every partition has
 * been ready since, also when the buckets were read with another.
 *
 * Runs in: queryd, any thread, and one of its own.  Blocks in: its own mutex, while tenants
 * are sorted; ranking_wait.
 */
#include "ranking.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/host.h"
#include "shm/limits.h"

#define SECOND_NS   UINT64_C(1000000000)
#define KEEP_NS	    SECOND_NS	     /* at least, and ... */
#define KEEP_TIMES  10		     /* ... times what the pass took ... */
#define KEEP_MAX_NS (30 * SECOND_NS) /* ... but no longer than this */
#define UNUSED_NS   (20 * SECOND_NS) /* then memory and maps are given back */

/* What goes with usage[i]. */
struct standing {
	char *policy; /* owned; NULL = the default bucket */
	uint64_t limit, share, counted;
	double used;
	bool dry_run, known;
};

/* What a pass found, and the handle that vouches for it. */
struct found {
	struct tally *pass;
	struct tally_usage *usage;
	struct standing *standing;
	size_t n;
	struct tally_basis basis;
	int64_t as_of_ms;
	uint64_t until_ns;
};

struct ranking {
	pthread_mutex_t lock;
	pthread_cond_t wanted, made;
	pthread_t thread;
	const char *run_dir;
	bool started, stop;
	bool wants; /* a pass is to be made, or is being made: what is the thread's is its own */
	struct ranking_waiter *waiters;
	struct found kept;
	uint64_t passes; /* made so far, and the kept one's number */
	int err;	 /* of the last */
	uint64_t asked_ns;
	/* The thread's. */
	struct found next;
	struct tally *buckets;
	struct limits limits; /* no map: none */
};

static const char *const words[RANK_SORTS] = {"headroom", "streams", "rate", "bytes", "name"};

const char *ranking_sort_word(enum ranking_sort sort)
{
	return (unsigned)sort < RANK_SORTS ? words[sort] : NULL;
}

/* --- what is kept ------------------------------------------------------------------------------ */

struct ranking *ranking_new(const char *run_dir)
{
	struct ranking *ranking = calloc(1, sizeof(*ranking));

	if (ranking == NULL)
		return NULL;
	pthread_mutex_init(&ranking->lock, NULL);
	pthread_cond_init(&ranking->wanted, NULL);
	pthread_cond_init(&ranking->made, NULL);
	ranking->run_dir = run_dir;
	return ranking;
}

/* The handle stays. */
static void forget(struct found *found)
{
	for (size_t i = 0; i < found->n && found->standing != NULL; i++)
		free(found->standing[i].policy);
	free(found->usage);
	free(found->standing);
	*found = (struct found){.pass = found->pass};
}

static void let_go_of(struct found *found)
{
	forget(found);
	if (found->pass != NULL)
		tally_close(&found->pass);
}

static void let_go(struct ranking *ranking)
{
	let_go_of(&ranking->kept);
	let_go_of(&ranking->next);
	if (ranking->limits.segment.map != NULL)
		limits_detach(&ranking->limits);
	ranking->limits = (struct limits){0};
	if (ranking->buckets != NULL)
		tally_close(&ranking->buckets);
}

void ranking_free(struct ranking **handle)
{
	struct ranking *ranking = *handle;

	if (ranking == NULL)
		return;
	*handle = NULL;
	pthread_mutex_lock(&ranking->lock);
	ranking->stop = true;
	pthread_cond_signal(&ranking->wanted);
	pthread_mutex_unlock(&ranking->lock);
	if (ranking->started)
		pthread_join(ranking->thread, NULL);
	let_go(ranking);
	pthread_cond_destroy(&ranking->wanted);
	pthread_cond_destroy(&ranking->made);
	pthread_mutex_destroy(&ranking->lock);
	free(ranking);
}

static void idle(struct tally *tally)
{
	if (tally != NULL)
		tally_idle(tally);
}

void ranking_idle(struct ranking *ranking)
{
	if (ranking == NULL)
		return;
	pthread_mutex_lock(&ranking->lock);
	if (!ranking->wants && host_boot_ns() - ranking->asked_ns > UNUSED_NS)
		let_go(ranking);
	idle(ranking->kept.pass);
	if (!ranking->wants) {
		idle(ranking->next.pass);
		idle(ranking->buckets);
	}
	pthread_mutex_unlock(&ranking->lock);
}

/* --- a pass ------------------------------------------------------------------------------------ */

static int attach(struct ranking *ranking)
{
	int err = ranking->next.pass != NULL
			  ? 0
			  : tally_open(ranking->run_dir, TALLY_PARTIAL_OK, &ranking->next.pass);

	if (err == 0 && ranking->buckets == NULL)
		err = tally_open(ranking->run_dir, TALLY_PARTIAL_OK, &ranking->buckets);
	return err;
}

/* The limits in force.  None that can be read: nobody's limit is known. */
static bool use_limits(struct ranking *ranking, uint64_t version)
{
	int dirfd;
	bool ok;

	if (ranking->limits.segment.map != NULL && limits_version(&ranking->limits) == version)
		return true;
	if (ranking->limits.segment.map != NULL)
		limits_detach(&ranking->limits);
	ranking->limits = (struct limits){0};
	dirfd = open(ranking->run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return false;
	ok = limits_attach(dirfd, &ranking->limits) == 0;
	close(dirfd);
	return ok;
}

static void stand(struct standing *standing, uint64_t limit, uint64_t share, uint64_t counted)
{
	standing->limit = limit;
	standing->share = share;
	standing->counted = counted;
	standing->known = true;
	standing->used = share == TALLY_UNLIMITED ? -1
			 : share == 0		  ? 1
						  : (double)counted / (double)share;
}

/* The default bucket has all streams. */
static void stand_whole(struct ranking *ranking, size_t i, const struct limits_entry *entry)
{
	const struct tally_basis *basis = &ranking->next.basis;
	uint64_t share = TALLY_UNLIMITED, part;

	if (entry->streams != LIMIT_NONE && limits_scope(&ranking->limits) == LIMIT_INSTANCE)
		share = limits_share(entry->streams, basis->owned, basis->partitions);
	else if (entry->streams != LIMIT_NONE) {
		part = limits_share(entry->streams, 1, basis->partitions);
		if (__builtin_mul_overflow(part, basis->owned, &share))
			share = TALLY_UNLIMITED - 1;
	}
	stand(&ranking->next.standing[i], entry->streams, share, ranking->next.usage[i].streams);
}

/* Policies have limits of their own: the bucket that is nearest to its share. */
static void stand_nearest(struct ranking *ranking, size_t i)
{
	struct standing *standing = &ranking->next.standing[i], one = {0};
	struct tally_tenant_limits limits;
	struct tally_bucket buckets[64];
	size_t n, nearest = 0;

	if (tally_buckets(ranking->buckets, ranking->next.usage[i].tenant, -1, &limits, buckets, 64,
		    &n) != 0)
		return;
	for (size_t b = 0; b < n && b < 64; b++) {
		stand(&one, buckets[b].limit, buckets[b].share, buckets[b].streams);
		if (b > 0 && one.used <= standing->used)
			continue;
		one.dry_run = standing->dry_run;
		*standing = one;
		nearest = b;
	}
	if (nearest > 0)
		standing->policy = strdup(buckets[nearest].policy);
}

static void stand_all(struct ranking *ranking, bool limits_known)
{
	size_t asked = 0;

	for (size_t i = 0; i < ranking->next.n; i++) {
		const char *tenant = ranking->next.usage[i].tenant;
		struct limits_entry entry;

		ranking->next.standing[i].used = -1;
		if (!limits_known)
			continue;
		limits_find(&ranking->limits, tenant, strlen(tenant), &entry);
		ranking->next.standing[i].dry_run = entry.dry_run;
		if (entry.n_policies == 0)
			stand_whole(ranking, i, &entry);
		else if (asked++ < RANKING_BUCKETS_MAX)
			stand_nearest(ranking, i);
	}
}

/*
 * Room for as many as there can be is not touched, and so not there, but for those that there are.
 * Of the kernel: from an allocator it would be used again, and then it would be cleared.
 */
static int look(struct found *found)
{
	size_t size = RANKING_TENANTS_MAX * sizeof(*found->usage), n = 0;
	struct tally_usage *all = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int err;

	if (all == MAP_FAILED)
		return TALLY_ENOMEM;
	err = tally_top(found->pass, all, RANKING_TENANTS_MAX, &n, &found->basis);
	if (err == 0)
		found->usage = malloc((n + 1) * sizeof(*found->usage));
	if (err == 0 && found->usage == NULL)
		err = TALLY_ENOMEM;
	if (err == 0) {
		memcpy(found->usage, all, n * sizeof(*found->usage));
		found->n = n;
	}
	munmap(all, size);
	return err;
}

static int pass(struct ranking *ranking)
{
	struct found *next = &ranking->next;
	struct tally_instance instance;
	uint64_t begun_ns = host_boot_ns(), took_ns;
	int err = attach(ranking);

	if (err == 0)
		err = tally_instance(next->pass, &instance);
	if (err != 0)
		return err;
	err = look(next);
	if (err == 0)
		next->standing = calloc(next->n + 1, sizeof(*next->standing));
	if (err == 0 && next->standing == NULL)
		err = TALLY_ENOMEM;
	if (err != 0)
		return err;
	stand_all(ranking, use_limits(ranking, instance.limits_version));
	next->as_of_ms = tally_now_ms(next->pass);
	took_ns = (host_boot_ns() - begun_ns) * KEEP_TIMES;
	next->until_ns = host_boot_ns() + (took_ns < KEEP_NS		  ? KEEP_NS
						  : took_ns > KEEP_MAX_NS ? KEEP_MAX_NS
									  : took_ns);
	return 0;
}

static void wake_all(struct ranking *ranking)
{
	struct ranking_waiter *waiter;

	while ((waiter = ranking->waiters) != NULL) {
		ranking->waiters = waiter->next;
		waiter->wake(waiter->arg);
	}
	pthread_cond_broadcast(&ranking->made);
}

static void *run(void *arg)
{
	struct ranking *ranking = arg;
	struct found old;
	int err;

	pthread_mutex_lock(&ranking->lock);
	while (!ranking->stop) {
		if (!ranking->wants) {
			pthread_cond_wait(&ranking->wanted, &ranking->lock);
			continue;
		}
		pthread_mutex_unlock(&ranking->lock);
		forget(&ranking->next);
		err = pass(ranking);
		pthread_mutex_lock(&ranking->lock);
		old = ranking->kept;
		ranking->kept = ranking->next;
		ranking->next = old;
		ranking->err = err;
		ranking->passes++;
		ranking->wants = false;
		wake_all(ranking);
	}
	pthread_mutex_unlock(&ranking->lock);
	return NULL;
}

/* --- waiting for one ---------------------------------------------------------------------------- */

static bool holds(const struct ranking *ranking)
{
	return ranking->kept.standing != NULL && tally_still_valid(ranking->kept.pass);
}

bool ranking_begin(struct ranking *ranking, uint64_t *pass_no)
{
	bool ready;

	pthread_mutex_lock(&ranking->lock);
	ranking->asked_ns = host_boot_ns();
	if (*pass_no != 0)
		ready = ranking->passes >= *pass_no;
	else
		ready = ranking->asked_ns < ranking->kept.until_ns && holds(ranking);
	if (!ready && !ranking->started)
		ranking->started = pthread_create(&ranking->thread, NULL, run, ranking) == 0;
	if (!ready && !ranking->started)
		ready = true; /* and there is nothing to be read */
	if (!ready && *pass_no == 0) {
		*pass_no = ranking->passes + 1;
		ranking->wants = true;
		pthread_cond_signal(&ranking->wanted);
	}
	pthread_mutex_unlock(&ranking->lock);
	return ready;
}

void ranking_wake(struct ranking *ranking, struct ranking_waiter *waiter)
{
	pthread_mutex_lock(&ranking->lock);
	waiter->next = ranking->waiters;
	ranking->waiters = waiter;
	if (!ranking->wants)
		wake_all(ranking);
	pthread_mutex_unlock(&ranking->lock);
}

void ranking_wake_all(struct ranking *ranking)
{
	pthread_mutex_lock(&ranking->lock);
	wake_all(ranking);
	pthread_mutex_unlock(&ranking->lock);
}

void ranking_wait(struct ranking *ranking)
{
	uint64_t pass_no = 0;

	if (ranking_begin(ranking, &pass_no))
		return;
	pthread_mutex_lock(&ranking->lock);
	while (ranking->passes < pass_no)
		pthread_cond_wait(&ranking->made, &ranking->lock);
	pthread_mutex_unlock(&ranking->lock);
}

/* --- an answer --------------------------------------------------------------------------------- */

struct order {
	const struct ranking *ranking;
	enum ranking_sort sort;
};

/* Larger first; what has no order by that, by streams, then by name. */
static double weight(const struct order *order, uint32_t i)
{
	const struct tally_usage *usage = &order->ranking->kept.usage[i];

	switch (order->sort) {
	case RANK_HEADROOM:
		return order->ranking->kept.standing[i].used;
	case RANK_RATE:
		return usage->bytes_per_sec;
	case RANK_BYTES:
		return (double)usage->bytes;
	case RANK_STREAMS:
		return (double)usage->streams;
	default:
		return 0;
	}
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct order *order = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const struct tally_usage *usage = order->ranking->kept.usage;
	double wx = weight(order, x), wy = weight(order, y);

	if (wx != wy)
		return wx > wy ? -1 : 1;
	if (order->sort != RANK_NAME && usage[x].streams != usage[y].streams)
		return usage[x].streams > usage[y].streams ? -1 : 1;
	return strcmp(usage[x].tenant, usage[y].tenant);
}

static void copy_row(const struct ranking *ranking, uint32_t i, struct ranked *to)
{
	const struct standing *standing = &ranking->kept.standing[i];

	*to = (struct ranked){
		.usage = ranking->kept.usage[i],
		.limit = standing->limit,
		.share = standing->share,
		.counted = standing->counted,
		.used = standing->used,
		.dry_run = standing->dry_run,
		.known = standing->known,
	};
	if (standing->policy != NULL)
		strncpy(to->policy, standing->policy, sizeof(to->policy) - 1);
}

static int choose(const struct ranking *ranking, const struct ranking_ask *ask, struct ranked *out,
	size_t *n, size_t *matched)
{
	struct order order = {ranking, ask->sort};
	uint32_t *found = calloc(ranking->kept.n + 1, sizeof(*found));

	if (found == NULL)
		return TALLY_ENOMEM;
	*matched = 0;
	for (size_t i = 0; i < ranking->kept.n; i++)
		if (ask->query == NULL ||
			strcasestr(ranking->kept.usage[i].tenant, ask->query) != NULL)
			found[(*matched)++] = (uint32_t)i;
	qsort_r(found, *matched, sizeof(*found), compare, &order);
	for (*n = 0; *n < *matched && *n < ask->rows && *n < RANKING_ROWS_MAX; ++*n)
		copy_row(ranking, found[*n], &out[*n]);
	free(found);
	return 0;
}

int ranking_read(struct ranking *ranking, const struct ranking_ask *ask, struct ranked *out,
	size_t *n, struct ranking_facts *facts)
{
	int err;

	*n = 0;
	*facts = (struct ranking_facts){0};
	if (ranking == NULL)
		return TALLY_EBUSY;
	pthread_mutex_lock(&ranking->lock);
	err = ranking->err != 0 ? ranking->err : holds(ranking) ? 0 : RANKING_LEFT;
	facts->basis = ranking->kept.basis;
	if (err == 0)
		err = choose(ranking, ask, out, n, &facts->matched);
	facts->id = ranking->passes;
	facts->tenants = ranking->kept.n;
	facts->as_of_ms = ranking->kept.as_of_ms;
	pthread_mutex_unlock(&ranking->lock);
	return err;
}

bool ranking_still_valid(struct ranking *ranking, uint64_t id)
{
	bool valid;

	pthread_mutex_lock(&ranking->lock);
	valid = ranking->passes == id && holds(ranking);
	pthread_mutex_unlock(&ranking->lock);
	return valid;
}
