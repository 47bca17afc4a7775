/*
 * memory.h - how much memory a worker may take, and what it gives back when it rests.
 *
 * Pages have no checksums that LMDB knows of: one that says that a value has a thousand
 * million pages makes LMDB ask for 10 GB, and fill them.  A worker's memory of its own
 * (not the store, which is shared) has a bound far above what a good store can need:
 *
 *	1 GiB			code, threads of three Kafka clients (8 MiB of stack each), what
 *				they fetch and write ahead by default
 *	+ map_bytes / 8		LMDB's lists, 8 bytes for each page of 4096, and names of
 *				tenants, which have a page of the store each
 *	+ batch * 256		records of a batch: 32 bytes, twice (batch, sort), room for a power
 *				of two of them, both sizes while it grows; new names
 *	+ window * 32 KiB	rows of one tenant's policies, 1024 at most
 *	+ what kafka.properties let the clients fetch ahead
 */
#ifndef TALLY_WORKER_MEMORY_H
#define TALLY_WORKER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/handoff.h"

/* Bytes, by the formula above. */
uint64_t memory_need(const struct handoff *handoff);

/* RLIMIT_DATA: that much on top of what the process has by now.  A lower one stays. */
void memory_bound(const struct handoff *handoff);

/* An allocation has failed: is there room for half the need all the same?  Then it was nonsense. */
bool memory_is_there(const struct handoff *handoff);

/* Before any thread. */
void memory_tune(void);

/*
 * What this thread has freed, and others have freed for it, goes back to the system.
 * mimalloc by itself does that only while it is used: what a replay has taken (records
 * fetched ahead, decompressed) would stay with a process that has come to rest.  Threads
 * of librdkafka do the same when they call memory_turn next.  Takes well below a
 * millisecond, or as long as it takes to unmap what is there.
 */
void memory_give_back(void);
void memory_turn(void);

/* Zeroes private memory by giving its pages back: nothing of it is resident until it is used. */
#define MEMORY_LARGE (1024 * 1024) /* from here on that is cheaper than writing them */
void memory_zero(char *block, size_t len);

#endif
