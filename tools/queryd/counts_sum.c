/*
 * counts_sum.c - what all query processes have counted, and what they have at the moment.
 *
 *	our slot, by its map ------------.
 *	each other one, by open + pread --+--> counted, word by word; tenants, by name
 *
 * A slot that nobody holds has counters, and no gauges.  Files are not mapped: whatever lies there
 * is bytes.
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "counts.h"
#include "counts_private.h"

#include "shm/check.h"

/* Whether another description of the file has the lock. */
static bool is_locked(int fd)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
}

static void add_words(uint64_t *sum, const _Atomic uint64_t *words, bool lives)
{
	for (size_t i = 0; i < COUNTS_WORDS; i++) {
		enum counts_how how = counts_how(i);
		uint64_t value = counts_get(&words[i]);

		if (counts_is_gauge(how) && !lives)
			continue;
		if (how == NOW_LEAST)
			sum[i] = value < sum[i] ? value : sum[i];
		else if (how == NOW_MOST || how == EVER_SAME)
			sum[i] = value > sum[i] ? value : sum[i];
		else
			sum[i] += value;
	}
}

/* Another's, to be read from; -1: there is none, or it is not one. */
static int open_other(const struct counts *counts, unsigned slot, struct counts_head *head)
{
	struct stat st;
	char name[COUNTS_NAME_SIZE];
	int fd;

	if (slot == counts->slot)
		return -1;
	counts_name(slot, name);
	fd = openat(counts->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
		pread(fd, head, sizeof(*head), 0) == (ssize_t)sizeof(*head) &&
		segment_check(head, (size_t)st.st_size, &counts_spec) == 0 &&
		head->schema == counts->schema)
		return fd;
	close(fd);
	return -1;
}

void counts_sum(const struct counts *counts, struct counted *out)
{
	struct counts_head head;
	uint64_t sum[COUNTS_WORDS];

	for (size_t i = 0; i < COUNTS_WORDS; i++)
		sum[i] = counts_how(i) == NOW_LEAST ? UINT64_MAX : 0;
	add_words(sum, counts->file->head.words, true);
	for (unsigned slot = 0; slot < COUNTS_SLOTS; slot++) {
		int fd = open_other(counts, slot, &head);

		if (fd < 0)
			continue;
		add_words(sum, head.words, is_locked(fd));
		close(fd);
	}
	memcpy(out, sum, sizeof(sum));
}

/* Room for all rows of one more slot. */
struct rows_list {
	struct refusals_of *of;
	size_t n;
};

static void append(struct rows_list *list, const struct refusals_rows *rows)
{
	list->of = reallocarray(list->of, list->n + 1 + REFUSALS_TENANTS, sizeof(*list->of));
	must_get(list->of != NULL);
	list->n += refusals_list_rows(rows, list->of + list->n, 1 + REFUSALS_TENANTS);
}

static void append_others(
	const struct counts *counts, enum counts_rows which, struct rows_list *list)
{
	const off_t at =
		(off_t)(offsetof(struct counts_file, rows) + which * sizeof(struct refusals_rows));
	struct refusals_rows *rows = malloc(sizeof(*rows));
	struct counts_head head;

	must_get(rows != NULL);
	for (unsigned slot = 0; slot < COUNTS_SLOTS; slot++) {
		int fd = open_other(counts, slot, &head);

		if (fd < 0)
			continue;
		if (pread(fd, rows, sizeof(*rows), at) == (ssize_t)sizeof(*rows))
			append(list, rows);
		close(fd);
	}
	free(rows);
}

static int by_tenant(const void *a, const void *b)
{
	return strcmp(
		((const struct refusals_of *)a)->tenant, ((const struct refusals_of *)b)->tenant);
}

size_t counts_tenants(const struct counts *counts, enum counts_rows which, struct refusals_of **out)
{
	struct rows_list list = {0};
	size_t n = 0;

	append(&list, &counts->file->rows[which]);
	append_others(counts, which, &list);
	qsort(list.of, list.n, sizeof(*list.of), by_tenant);
	for (size_t i = 0; i < list.n; i++) {
		if (n > 0 && by_tenant(&list.of[n - 1], &list.of[i]) == 0) {
			list.of[n - 1].refused += list.of[i].refused;
			list.of[n - 1].would += list.of[i].would;
		} else
			list.of[n++] = list.of[i];
	}
	*out = list.of;
	return n;
}
