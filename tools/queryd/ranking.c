/*
 * ranking.c - tenants by how near they are to their limit, and by other things.
 *
 *	tally_top --usage--> limits (map) --share--> used = counted / share --sort--> kept
 *	                       '-- policies with own limits: tally_buckets
 *	ranking_read: query, order, the first rows, copied out
 *
 * Only the first of the two handles is stood on: while it vouches for its pass, every
 * partition has been ready since, also when the buckets were read with the second.
 *
 * Runs in: queryd, any thread.  Blocks in: its own mutex, for a pass over all tenants.
 */
#include "ranking.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
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

struct ranking {
	pthread_mutex_t lock;
	const char *run_dir;
	struct tally *pass, *buckets;
	struct limits limits; /* no map: none */
	struct tally_usage *usage;
	struct standing *standing;
	size_t n;
	struct tally_basis basis;
	int64_t as_of_ms;
	uint64_t id; /* grows with each pass; 0 = none yet */
	uint64_t until_ns, asked_ns;
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
	ranking->run_dir = run_dir;
	return ranking;
}

static void forget(struct ranking *ranking)
{
	for (size_t i = 0; i < ranking->n && ranking->standing != NULL; i++)
		free(ranking->standing[i].policy);
	free(ranking->usage);
	free(ranking->standing);
	ranking->usage = NULL;
	ranking->standing = NULL;
	ranking->n = 0;
	ranking->until_ns = 0;
}

static void let_go(struct ranking *ranking)
{
	forget(ranking);
	if (ranking->limits.segment.map != NULL)
		limits_detach(&ranking->limits);
	ranking->limits = (struct limits){0};
	if (ranking->pass != NULL)
		tally_close(&ranking->pass);
	if (ranking->buckets != NULL)
		tally_close(&ranking->buckets);
}

void ranking_free(struct ranking **ranking)
{
	if (*ranking == NULL)
		return;
	let_go(*ranking);
	pthread_mutex_destroy(&(*ranking)->lock);
	free(*ranking);
	*ranking = NULL;
}

void ranking_idle(struct ranking *ranking)
{
	if (ranking == NULL || pthread_mutex_trylock(&ranking->lock) != 0)
		return; /* in use: it lets go by itself */
	if (ranking->pass != NULL && host_boot_ns() - ranking->asked_ns > UNUSED_NS)
		let_go(ranking);
	if (ranking->pass != NULL)
		tally_idle(ranking->pass);
	if (ranking->buckets != NULL)
		tally_idle(ranking->buckets);
	pthread_mutex_unlock(&ranking->lock);
}

/* --- a pass ------------------------------------------------------------------------------------ */

static int attach(struct ranking *ranking)
{
	int err = ranking->pass != NULL ? 0 : tally_open(ranking->run_dir, 0, &ranking->pass);

	if (err == 0 && ranking->buckets == NULL)
		err = tally_open(ranking->run_dir, 0, &ranking->buckets);
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
	const struct tally_basis *basis = &ranking->basis;
	uint64_t share = TALLY_UNLIMITED, part;

	if (entry->streams != LIMIT_NONE && limits_scope(&ranking->limits) == LIMIT_INSTANCE)
		share = limits_share(entry->streams, basis->owned, basis->partitions);
	else if (entry->streams != LIMIT_NONE) {
		part = limits_share(entry->streams, 1, basis->partitions);
		if (__builtin_mul_overflow(part, basis->owned, &share))
			share = TALLY_UNLIMITED - 1;
	}
	stand(&ranking->standing[i], entry->streams, share, ranking->usage[i].streams);
}

/* Policies have limits of their own: the bucket that is nearest to its share. */
static void stand_nearest(struct ranking *ranking, size_t i)
{
	struct standing *standing = &ranking->standing[i], one = {0};
	struct tally_tenant_limits limits;
	struct tally_bucket buckets[64];
	size_t n, nearest = 0;

	if (tally_buckets(
		    ranking->buckets, ranking->usage[i].tenant, -1, &limits, buckets, 64, &n) != 0)
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

	for (size_t i = 0; i < ranking->n; i++) {
		const char *tenant = ranking->usage[i].tenant;
		struct limits_entry entry;

		ranking->standing[i].used = -1;
		if (!limits_known)
			continue;
		limits_find(&ranking->limits, tenant, strlen(tenant), &entry);
		ranking->standing[i].dry_run = entry.dry_run;
		if (entry.n_policies == 0)
			stand_whole(ranking, i, &entry);
		else if (asked++ < RANKING_BUCKETS_MAX)
			stand_nearest(ranking, i);
	}
}

static int pass(struct ranking *ranking)
{
	struct tally_instance instance;
	uint64_t begun_ns = host_boot_ns(), took_ns;
	int err = attach(ranking);

	forget(ranking);
	if (err == 0)
		err = tally_instance(ranking->pass, &instance);
	if (err != 0)
		return err;
	/* Not touched, not there: what is not needed of it takes no memory. */
	ranking->usage = calloc(RANKING_TENANTS_MAX, sizeof(*ranking->usage));
	if (ranking->usage == NULL)
		return TALLY_ENOMEM;
	err = tally_top(
		ranking->pass, ranking->usage, RANKING_TENANTS_MAX, &ranking->n, &ranking->basis);
	if (err == 0)
		ranking->standing = calloc(ranking->n + 1, sizeof(*ranking->standing));
	if (err == 0 && ranking->standing == NULL)
		err = TALLY_ENOMEM;
	if (err != 0)
		return err;
	stand_all(ranking, use_limits(ranking, instance.limits_version));
	ranking->as_of_ms = tally_now_ms(ranking->pass);
	took_ns = (host_boot_ns() - begun_ns) * KEEP_TIMES;
	ranking->until_ns = host_boot_ns() + (took_ns < KEEP_NS		     ? KEEP_NS
						     : took_ns > KEEP_MAX_NS ? KEEP_MAX_NS
									     : took_ns);
	ranking->id++;
	return 0;
}

/* --- an answer --------------------------------------------------------------------------------- */

struct order {
	const struct ranking *ranking;
	enum ranking_sort sort;
};

/* Larger first; what has no order by that, by streams, then by name. */
static double weight(const struct order *order, uint32_t i)
{
	const struct tally_usage *usage = &order->ranking->usage[i];

	switch (order->sort) {
	case RANK_HEADROOM:
		return order->ranking->standing[i].used;
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
	const struct tally_usage *usage = order->ranking->usage;
	double wx = weight(order, x), wy = weight(order, y);

	if (wx != wy)
		return wx > wy ? -1 : 1;
	if (order->sort != RANK_NAME && usage[x].streams != usage[y].streams)
		return usage[x].streams > usage[y].streams ? -1 : 1;
	return strcmp(usage[x].tenant, usage[y].tenant);
}

static void copy_row(const struct ranking *ranking, uint32_t i, struct ranked *to)
{
	const struct standing *standing = &ranking->standing[i];

	*to = (struct ranked){
		.usage = ranking->usage[i],
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
	uint32_t *found = calloc(ranking->n + 1, sizeof(*found));

	if (found == NULL)
		return TALLY_ENOMEM;
	*matched = 0;
	for (size_t i = 0; i < ranking->n; i++)
		if (ask->query == NULL || strcasestr(ranking->usage[i].tenant, ask->query) != NULL)
			found[(*matched)++] = (uint32_t)i;
	qsort_r(found, *matched, sizeof(*found), compare, &order);
	for (*n = 0; *n < *matched && *n < ask->rows && *n < RANKING_ROWS_MAX; ++*n)
		copy_row(ranking, found[*n], &out[*n]);
	free(found);
	return 0;
}

static bool holds(const struct ranking *ranking)
{
	return ranking->standing != NULL && tally_still_valid(ranking->pass);
}

int ranking_read(struct ranking *ranking, const struct ranking_ask *ask, struct ranked *out,
	size_t *n, struct ranking_facts *facts)
{
	int err = 0;

	*n = 0;
	*facts = (struct ranking_facts){0};
	if (ranking == NULL)
		return TALLY_EBUSY;
	pthread_mutex_lock(&ranking->lock);
	ranking->asked_ns = host_boot_ns();
	if (ranking->asked_ns >= ranking->until_ns || !holds(ranking))
		err = pass(ranking);
	facts->basis = ranking->basis;
	if (err == 0)
		err = choose(ranking, ask, out, n, &facts->matched);
	else
		forget(ranking);
	facts->id = ranking->id;
	facts->tenants = ranking->n;
	facts->as_of_ms = ranking->as_of_ms;
	pthread_mutex_unlock(&ranking->lock);
	return err;
}

bool ranking_still_valid(struct ranking *ranking, uint64_t id)
{
	bool valid;

	pthread_mutex_lock(&ranking->lock);
	valid = ranking->id == id && holds(ranking);
	pthread_mutex_unlock(&ranking->lock);
	return valid;
}
