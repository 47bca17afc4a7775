/*
 * store-spoil.c - does to a store what nobody should.
 *
 *	store-spoil deadly DIR TEXT	each page that has TEXT becomes a branch without children: LMDB
 *					fails an assertion on it
 *	store-spoil leaves DIR C	the same for each leaf whose keys all begin with C (b: blocks)
 *	store-spoil values DIR C	one byte of each value whose key begins with C
 *	store-spoil copies DIR C	all leaves whose keys begin with C have what one of them has
 *	store-spoil counts DIR N	each value that has pages of its own says that it has N of them
 *	store-spoil random DIR N SEED	random bytes over N pages that are in use, LMDB's own two left out
 *	store-spoil format DIR N	says that it is of format N; "swapped": of the other byte order
 *	store-spoil hold DIR		holds a read transaction, says its process id, until it is killed
 *	store-spoil slots DIR N		holds N more reader slots, likewise
 *	store-spoil mutexes DIR		holds LMDB's own two, likewise
 *	store-spoil garbage DIR SEED	random bytes all over the lock file
 *	store-spoil transaction DIR N	the lock file says that N was the last one
 *
 * The first six write to the file beside LMDB, under whoever has it open; the last five are
 * what a member of the readers' group can do.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/store.h"
#include "shm/usage.h"

#define PAGE	  4096
#define OWN_PAGES 2
#define BRANCH	  1 /* LMDB's P_BRANCH */
#define LEAF	  2
#define OVERFLOW  4
#define BIG	  1 /* LMDB's F_BIGDATA: the value has pages of its own */
#define HEAD_SIZE 16
#define NODE_HEAD 8
#define MAP_BYTES (UINT64_C(1) << 30)
#define SLOTS_MAX 4096

static _Noreturn void fail(const char *what, const char *why)
{
	fprintf(stderr, "store-spoil: %s: %s\n", what, why);
	exit(1);
}

/* --- beside LMDB --------------------------------------------------------------------------- */

static int open_data(const char *dir, uint64_t *pages)
{
	char path[4096];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/data.mdb", dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0)
		fail(path, strerror(errno));
	*pages = (uint64_t)st.st_blocks * 512 / PAGE; /* the rest is a hole */
	return fd;
}

static void write_page(int fd, uint64_t page, const uint8_t *bytes)
{
	if (pwrite(fd, bytes, PAGE, (off_t)(page * PAGE)) != PAGE)
		fail("pwrite", strerror(errno));
}

/* { page number : 8, pad : 2, flags : 2, lower : 2, upper : 2 }, native */
static void make_childless(uint8_t *bytes)
{
	const uint16_t flags = BRANCH, lower = HEAD_SIZE, upper = PAGE;

	memset(bytes + 8, 0, PAGE - 8);
	memcpy(bytes + 10, &flags, 2);
	memcpy(bytes + 12, &lower, 2);
	memcpy(bytes + 14, &upper, 2);
}

static uint16_t number_at(const uint8_t *bytes, unsigned at)
{
	uint16_t n;

	memcpy(&n, bytes + at % (PAGE - 1), sizeof(n));
	return n;
}

/* Nodes { size : 4, flags : 2, key size : 2, key } at the offsets after the head. */
static bool is_leaf_of(const uint8_t *bytes, uint64_t page, char c)
{
	uint64_t number;
	unsigned keys = (number_at(bytes, 12) - HEAD_SIZE) / 2u;

	memcpy(&number, bytes, sizeof(number));
	if (number != page || number_at(bytes, 10) != LEAF || keys == 0 || keys > PAGE / 8)
		return false;
	for (unsigned i = 0; i < keys; i++)
		if (bytes[(number_at(bytes, HEAD_SIZE + 2 * i) + 8u) % PAGE] != (uint8_t)c)
			return false;
	return true;
}

static void spoil_deadly(const char *dir, const char *text, char leaves_of)
{
	uint8_t bytes[PAGE];
	uint64_t pages;
	int fd = open_data(dir, &pages), done = 0;

	for (uint64_t page = OWN_PAGES; page < pages; page++) {
		if (pread(fd, bytes, PAGE, (off_t)(page * PAGE)) != PAGE)
			fail("pread", strerror(errno));
		if (text ? !memmem(bytes, PAGE, text, strlen(text))
			 : !is_leaf_of(bytes, page, leaves_of))
			continue;
		make_childless(bytes);
		write_page(fd, page, bytes);
		done++;
	}
	printf("%d\n", done);
}

/* Where byte `at` of a node's value lies in the file; 0: it was there already. */
static off_t place_of(const uint8_t *bytes, uint64_t page, unsigned node, bool *been)
{
	unsigned data = node + NODE_HEAD + number_at(bytes, node + 6);
	uint64_t number = page;
	uint32_t size;

	memcpy(&size, bytes + node % (PAGE - sizeof(size)), sizeof(size));
	size = size > 700 ? 700 : size / 2; /* of a block: in its first stream */
	if (!(number_at(bytes, node + 4) & BIG))
		return (off_t)(page * PAGE + data + size);
	memcpy(&number, bytes + data % (PAGE - sizeof(number)), sizeof(number));
	if (been[number])
		return 0;
	been[number] = true;
	return (off_t)(number * PAGE + HEAD_SIZE + size);
}

static void spoil_byte(int fd, off_t at)
{
	uint8_t byte;

	if (pread(fd, &byte, 1, at) != 1)
		fail("pread", strerror(errno));
	byte ^= 0x11;
	if (pwrite(fd, &byte, 1, at) != 1)
		fail("pwrite", strerror(errno));
}

static void spoil_values(const char *dir, char c)
{
	uint8_t bytes[PAGE];
	uint64_t pages, number;
	int fd = open_data(dir, &pages), done = 0;
	bool *been = calloc(pages, sizeof(*been));

	for (uint64_t page = OWN_PAGES; been && page < pages; page++) {
		if (pread(fd, bytes, PAGE, (off_t)(page * PAGE)) != PAGE)
			fail("pread", strerror(errno));
		memcpy(&number, bytes, sizeof(number));
		if (number != page || number_at(bytes, 10) != LEAF)
			continue;
		for (unsigned i = HEAD_SIZE; i < number_at(bytes, 12); i += 2) {
			unsigned node = number_at(bytes, i);
			off_t at = bytes[(node + NODE_HEAD) % PAGE] == (uint8_t)c
					   ? place_of(bytes, page, node, been)
					   : 0;

			if (at == 0)
				continue;
			spoil_byte(fd, at);
			done++;
		}
	}
	free(been);
	printf("%d\n", done);
}

static void spoil_copies(const char *dir, char c)
{
	uint8_t bytes[PAGE], first[PAGE];
	uint64_t pages;
	int fd = open_data(dir, &pages), done = 0;

	for (uint64_t page = OWN_PAGES; page < pages; page++) {
		if (pread(fd, bytes, PAGE, (off_t)(page * PAGE)) != PAGE)
			fail("pread", strerror(errno));
		if (!is_leaf_of(bytes, page, c))
			continue;
		if (done++ == 0) {
			memcpy(first, bytes, PAGE);
			continue;
		}
		memcpy(first, &page, sizeof(page)); /* it says where it is */
		write_page(fd, page, first);
	}
	printf("%d\n", done);
}

/* { page number : 8, pad : 2, flags : 2, pages : 4 } */
static void spoil_counts(const char *dir, uint32_t n)
{
	uint8_t bytes[HEAD_SIZE];
	uint64_t pages, number;
	int fd = open_data(dir, &pages), done = 0;

	for (uint64_t page = OWN_PAGES; page < pages; page++) {
		if (pread(fd, bytes, HEAD_SIZE, (off_t)(page * PAGE)) != HEAD_SIZE)
			fail("pread", strerror(errno));
		memcpy(&number, bytes, sizeof(number));
		if (number != page || number_at(bytes, 10) != OVERFLOW)
			continue;
		if (pwrite(fd, &n, sizeof(n), (off_t)(page * PAGE + 12)) != sizeof(n))
			fail("pwrite", strerror(errno));
		done++;
	}
	printf("%d\n", done);
}

static void spoil_random(const char *dir, unsigned n, unsigned seed)
{
	uint8_t bytes[PAGE];
	uint64_t pages;
	int fd = open_data(dir, &pages);

	srandom(seed);
	for (unsigned i = 0; i < n && pages > OWN_PAGES; i++) {
		for (int b = 0; b < PAGE; b++)
			bytes[b] = (uint8_t)random();
		write_page(fd, OWN_PAGES + (uint64_t)random() % (pages - OWN_PAGES), bytes);
	}
}

/* --- through LMDB -------------------------------------------------------------------------- */

static void spoil_format(const char *dir, const char *format)
{
	struct store_bytes key = {.data = "m", .len = 1}, value;
	struct store_txn txn;
	struct store *store;
	char meta[2 * sizeof(struct usage_meta)];
	uint32_t was;
	int err = store_open_writer(dir, MAP_BYTES, 126, &store);

	if (err)
		fail(dir, err_text(err));
	store_begin(&txn, store);
	store_reserve(&txn, &(struct store_need){.pages = 16});
	if (!store_get(&txn, key, &value) || value.len < sizeof(struct usage_meta) ||
		value.len > sizeof(meta))
		fail(dir, "no meta row of this version");
	memcpy(meta, value.data, value.len);
	memcpy(&was, meta, sizeof(was)); /* comes first, for ever */
	was = strcmp(format, "swapped") == 0 ? __builtin_bswap32(was)
					     : (uint32_t)strtoul(format, NULL, 10);
	memcpy(meta, &was, sizeof(was));
	store_put(&txn, key, (struct store_bytes){.data = meta, .len = value.len});
	err = store_commit(&txn);
	if (err)
		fail(dir, err_text(err));
	store_close(&store);
}

static _Noreturn void hold(const char *dir, unsigned n)
{
	static struct store_txn txns[SLOTS_MAX];
	struct store *store;
	int err = store_open_reader(dir, &store);

	for (unsigned i = 0; i < n && i < SLOTS_MAX && !err; i++) {
		store_begin_read(&txns[i], store);
		err = txns[i].err;
	}
	if (err && err != ERR_BUSY) /* all of them are taken: as it should be */
		fail(dir, err_text(err));
	printf("holding %d\n", (int)getpid());
	fflush(stdout);
	for (;;)
		pause();
}

/* --- the lock file ------------------------------------------------------------------------- */

/* What LMDB has at its beginning; slots of readers follow. */
struct lock_head {
	uint32_t magic, format;
	pthread_mutex_t readers;
	uint64_t transaction;
	uint32_t slots, pad;
	pthread_mutex_t writer;
};
_Static_assert(offsetof(struct lock_head, writer) == 64, "LMDB's, with mutexes of 40 bytes");

static struct lock_head *map_lock(const char *dir, size_t *size)
{
	char path[4096];
	struct stat st;
	void *map;
	int fd;

	snprintf(path, sizeof(path), "%s/lock.mdb", dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0)
		fail(path, strerror(errno));
	*size = (size_t)st.st_size;
	map = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		fail(path, strerror(errno));
	return map;
}

/* A reader like others: with nobody in the store, LMDB would make the mutexes anew. */
static _Noreturn void hold_mutexes(const char *dir)
{
	struct store *store;
	size_t size;
	int err = store_open_reader(dir, &store);
	struct lock_head *head = err ? NULL : map_lock(dir, &size);

	if (err)
		fail(dir, err_word(err));

	pthread_mutex_lock(&head->writer);
	pthread_mutex_lock(&head->readers);
	printf("holding %d\n", (int)getpid());
	fflush(stdout);
	for (;;)
		pause();
}

static void spoil_lock(const char *dir, unsigned seed)
{
	size_t size;
	uint8_t *bytes = (uint8_t *)map_lock(dir, &size);

	srandom(seed);
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)random();
}

static void spoil_transaction(const char *dir, uint64_t n)
{
	size_t size;

	map_lock(dir, &size)->transaction = n;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";

	if (strcmp(what, "deadly") == 0 && argc == 4)
		spoil_deadly(argv[2], argv[3], 0);
	else if (strcmp(what, "leaves") == 0 && argc == 4)
		spoil_deadly(argv[2], NULL, argv[3][0]);
	else if (strcmp(what, "values") == 0 && argc == 4)
		spoil_values(argv[2], argv[3][0]);
	else if (strcmp(what, "copies") == 0 && argc == 4)
		spoil_copies(argv[2], argv[3][0]);
	else if (strcmp(what, "counts") == 0 && argc == 4)
		spoil_counts(argv[2], (uint32_t)strtoul(argv[3], NULL, 10));
	else if (strcmp(what, "random") == 0 && argc == 5)
		spoil_random(argv[2], (unsigned)atoi(argv[3]), (unsigned)atoi(argv[4]));
	else if (strcmp(what, "format") == 0 && argc == 4)
		spoil_format(argv[2], argv[3]);
	else if (strcmp(what, "hold") == 0 && argc == 3)
		hold(argv[2], 1);
	else if (strcmp(what, "mutexes") == 0 && argc == 3)
		hold_mutexes(argv[2]);
	else if (strcmp(what, "garbage") == 0 && argc == 4)
		spoil_lock(argv[2], (unsigned)strtoul(argv[3], NULL, 10));
	else if (strcmp(what, "transaction") == 0 && argc == 4)
		spoil_transaction(argv[2], strtoull(argv[3], NULL, 10));
	else if (strcmp(what, "slots") == 0 && argc == 4)
		hold(argv[2], (unsigned)atoi(argv[3]));
	else
		fail("usage", "deadly DIR TEXT | leaves DIR C | values DIR C | copies DIR C | "
			      "counts DIR N | random DIR N SEED | format DIR N|swapped | "
			      "hold DIR | slots DIR N");
	return 0;
}
