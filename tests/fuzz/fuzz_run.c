/*
 * fuzz_run.c - a reader in a hostile run directory: table, stats and limits, changed as the input
 * says.
 *
 *	how:1	bit 0: STALE_OK		bit 1: and one of tallyctl's commands, by the rest
 *	then	0 patch		changes the table		\  the files are put in
 *		1 patch		... partition 0's stats		 > place and attached
 *		2 patch		... limits			/  at the first 3
 *		3		asks everything; what is patched from now on changes under the map
 */
#include "ask_all.h"
#include "mapped.h"
#include "patch.h"
#include "run.h"

enum { TABLE, STATS, LIMITS, FILES };

static struct image good[FILES], bad[FILES];
static char stats_path[TABLE_DIR_NAME_SIZE + sizeof("/stats")];
static const char *const names[FILES] = {TABLE_NAME, stats_path, LIMITS_NAME};

static void image_load(struct image *image, const char *name)
{
	int fd = openat(fuzz_run.dirfd, name, O_RDONLY | O_CLOEXEC);

	hold(fd >= 0);
	image->len = image->cap = (size_t)lseek(fd, 0, SEEK_END);
	image->bytes = realloc(image->bytes, image->len);
	hold(pread(fd, image->bytes, image->len, 0) == (ssize_t)image->len);
	close(fd);
}

/* Another file under the name: one that is mapped is never cut. */
static void image_store(const struct image *image, const char *name)
{
	int fd = openat(fuzz_run.dirfd, "fresh", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);

	hold(fd >= 0);
	hold(write(fd, image->bytes, image->len) == (ssize_t)image->len);
	close(fd);
	hold(renameat(fuzz_run.dirfd, "fresh", fuzz_run.dirfd, name) == 0);
}

static void begin(void)
{
	static bool begun;
	char dir[TABLE_DIR_NAME_SIZE];

	if (begun)
		return;
	fuzz_run_start();
	atexit(fuzz_run_end);
	table_dir_name(dir, 0, RUN_GENERATION);
	snprintf(stats_path, sizeof(stats_path), "%s/stats", dir);
	image_load(&good[STATS], stats_path);
	image_load(&good[LIMITS], LIMITS_NAME);
	begun = true;
}

/* The good ones, of this moment. */
static void reset(void)
{
	fuzz_run_refresh();
	free(good[TABLE].bytes);
	good[TABLE].len = good[TABLE].cap = fuzz_run.table.segment.size;
	good[TABLE].bytes = fuzz_copy(fuzz_run.table.segment.map, good[TABLE].len);
	for (int i = 0; i < FILES; i++)
		image_reset(&bad[i], &good[i]);
}

static struct tally *attach(unsigned how)
{
	struct tally *tally = NULL;
	int err;

	for (int i = 0; i < FILES; i++)
		image_store(&bad[i], names[i]);
	err = tally_open(fuzz_run.dir, how & 1 ? TALLY_STALE_OK : 0, &tally);
	hold_code(err);
	hold((err == 0) == (tally != NULL));
	return tally;
}

/* Under the map. */
static void overwrite(int which)
{
	int fd = openat(fuzz_run.dirfd, names[which], O_WRONLY | O_CLOEXEC);

	hold(fd >= 0);
	hold(pwrite(fd, bad[which].bytes, bad[which].len, 0) == (ssize_t)bad[which].len);
	hold(ftruncate(fd, (off_t)bad[which].len) == 0);
	close(fd);
}

static void change(struct input *in, int which, bool mapped)
{
	size_t len = bad[which].len;

	image_patch(&bad[which], in);
	if (!mapped)
		return;
	if (which == TABLE) /* it is never cut; stats may be, between two calls */
		bad[which].len = len;
	if (which == LIMITS) /* immutable: replaced */
		image_store(&bad[which], names[which]);
	else
		overwrite(which);
}

static void ask(struct tally *tally, unsigned how)
{
	ask_all(tally);
	if (how & 2)
		say_one(tally, fuzz_run.dir, how >> 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct input in = {data, len};
	struct tally *tally = NULL;
	bool asked = false;
	unsigned how;

	begin();
	reset();
	how = (unsigned)take(&in, 1);
	while (in.left > 0) {
		int what = (int)take(&in, 1) % (FILES + 1);

		if (what < FILES) {
			change(&in, what, asked);
			continue;
		}
		if (!asked)
			tally = attach(how);
		asked = true;
		if (tally == NULL)
			return 0;
		ask(tally, how);
	}
	if (!asked)
		tally = attach(how);
	if (tally == NULL)
		return 0;
	ask(tally, how);
	tally_close(&tally);
	hold(client_env_count() == 0);
	return 0;
}
