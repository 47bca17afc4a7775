/*
 * store-spoil.c - does to a store what nobody should.
 *
 *	store-spoil deadly DIR TEXT	each page that has TEXT becomes a branch without children: LMDB
 *					fails an assertion on it
 *	store-spoil leaves DIR C	the same for each leaf whose keys all begin with C (b: blocks)
 *	store-spoil random DIR N SEED	random bytes over N pages that are in use, LMDB's own two left out
 *	store-spoil format DIR N	says that it is of format N; "swapped": of the other byte order
 *	store-spoil hold DIR		holds a read transaction, says its process id, until it is killed
 *	store-spoil slots DIR N		holds N more reader slots, likewise
 *
 * The first three write to the file beside LMDB, under whoever has it open; the last two are
 * what a member of the readers' group can do.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/store.h"
#include "shm/usage.h"

#define PAGE	  4096
#define OWN_PAGES 2
#define BRANCH	  1 /* LMDB's P_BRANCH */
#define LEAF	  2
#define HEAD_SIZE 16
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
	struct usage_meta meta;
	int err = store_open_writer(dir, MAP_BYTES, 126, &store);

	if (err)
		fail(dir, err_text(err));
	store_begin(&txn, store);
	store_reserve(&txn, &(struct store_need){.pages = 16});
	if (!store_get(&txn, key, &value) || value.len != sizeof(meta))
		fail(dir, "no meta row of this version");
	memcpy(&meta, value.data, sizeof(meta));
	meta.identity.format = strcmp(format, "swapped") == 0
				       ? __builtin_bswap32(meta.identity.format)
				       : (uint32_t)strtoul(format, NULL, 10);
	store_put(&txn, key, (struct store_bytes){.data = &meta, .len = sizeof(meta)});
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

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";

	if (strcmp(what, "deadly") == 0 && argc == 4)
		spoil_deadly(argv[2], argv[3], 0);
	else if (strcmp(what, "leaves") == 0 && argc == 4)
		spoil_deadly(argv[2], NULL, argv[3][0]);
	else if (strcmp(what, "random") == 0 && argc == 5)
		spoil_random(argv[2], (unsigned)atoi(argv[3]), (unsigned)atoi(argv[4]));
	else if (strcmp(what, "format") == 0 && argc == 4)
		spoil_format(argv[2], argv[3]);
	else if (strcmp(what, "hold") == 0 && argc == 3)
		hold(argv[2], 1);
	else if (strcmp(what, "slots") == 0 && argc == 4)
		hold(argv[2], (unsigned)atoi(argv[3]));
	else
		fail("usage", "deadly DIR TEXT | leaves DIR C | random DIR N SEED | format DIR "
			      "N|swapped | hold DIR "
			      "| slots DIR N");
	return 0;
}
