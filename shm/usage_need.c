/*
 * usage_need.c - what applying a batch can need of the file system, on the safe side.
 *
 *	streams of the batch -> blocks, those that split, leaves that list them
 *	tenants, policies    -> rows, and where a tenant says how many it has
 *
 * Runs in: worker.  Blocks in: nowhere.
 */
#include "shm/usage_private.h"

#define INLINE_MAX	1900 /* a value this long shares a page with its key and others */
#define BLOCKS_PER_LEAF 30   /* at least; LMDB merges leaves that are less than a quarter full */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static size_t row_size(const struct usage *usage)
{
	return window_row_size(usage->meta.identity.window_minutes) + SEAL_SIZE;
}

uint64_t row_run(const struct usage *usage)
{
	size_t size = row_size(usage);

	return size <= STORE_BLOCK_SIZE ? 0 : size / STORE_BLOCK_SIZE + 1;
}

/* Single pages that putting a row can dirty. */
static uint64_t row_pages(const struct usage *usage)
{
	size_t size = row_size(usage);

	return size > INLINE_MAX && size <= STORE_BLOCK_SIZE ? 3 : 2;
}

/* `there` blocks with `entries` streams in all: so many of them can be full at most. */
struct blocks_there {
	uint64_t blocks, entries;
};

static void need_of(const struct usage *usage, const struct batch *batch, struct blocks_there there,
	bool has_rows, struct store_need *need)
{
	uint64_t streams = 0, tenants = 0, rows = 0, tenant_rows = 0, blocks, leaves;

	for (size_t i = 0; i < batch->n; i++) {
		const struct item *item = &batch->items[i];

		if (i == 0 || item->tenant != item[-1].tenant) {
			tenants++;
			streams++;
			rows += tenant_rows;
			tenant_rows = 0;
		} else if (item->hash != item[-1].hash) {
			streams++;
		}
		tenant_rows = min_u64(tenant_rows + 2, usage->names.policies[item->tenant]);
	}
	rows += tenant_rows;
	/* Each block is a page; one new stream splits a full one.  Where it is listed is a leaf,
	 * which may split. */
	blocks = min_u64(streams, there.blocks + tenants) +
		 min_u64(streams, there.entries / USAGE_BLOCK_SLOTS) +
		 2 * (streams / (USAGE_BLOCK_SLOTS / 2)) + tenants;
	leaves = min_u64(blocks, there.blocks / BLOCKS_PER_LEAF + tenants + 1) +
		 blocks / BLOCKS_PER_LEAF;
	need->pages += blocks + leaves;
	if (!has_rows)
		return;
	need->pages += rows * row_pages(usage) + tenants; /* where it says how many it has */
	need->runs += rows * row_run(usage);
}

void apply_need(const struct usage *usage, struct store_need *need)
{
	const struct usage_meta *meta = &usage->meta;

	need_of(usage, &usage->batch, (struct blocks_there){meta->blocks, meta->streams}, true,
		need);
	need_of(usage, &usage->rates, (struct blocks_there){meta->rate_blocks, meta->rates}, false,
		need);
}
