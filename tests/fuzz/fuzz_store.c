/*
 * fuzz_store.c - a store whose pages were overwritten, opened by a reader and by a worker.
 *
 *	input: patches of data.mdb
 *
 *	child: reader   tally_open, everything that can be asked: the same answers, or errors
 *	child: scrub    usage_open, a whole pass of usage_scrub
 *	child: worker   usage_open, three batches with sweeps, the outbox, usage_verify
 *
 * LMDB trusts its pages: it may assert, fault or go round in circles on them.  That is
 * the end of the process that reads them, and of no other: known, and counted here.  A
 * finding is what is ours: a report of a sanitizer, must(), a shape that does not hold, a
 * fault in our own code; and another answer than before from a store in which the scrub
 * finds nothing.  (Not when LMDB's own two pages were overwritten: then it may be an older
 * commit, whole.)  The counts are printed at the end.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "answers.h"
#include "ask_all.h"
#include "patch.h"
#include "run.h"

#include "shm/log.h"

#define PATIENCE_S 5
#define FRAMES_MAX 64

#define LMDB_BYTES 8192 /* its own pages */

enum { READER, SCRUB, WORKER, CHILDREN };
enum step { STEP_OPEN, STEP_WORK, STEP_VERIFY, STEPS };

/* How a child ended; its exit code is EXIT_BASE and one of these, so none of a sanitizer's. */
#define EXIT_BASE 100
enum outcome {
	AS_GOOD,	/* reader: the same answers; others: all is well */
	OTHERWISE,	/* reader: another answer; worker: usage_verify has found it */
	REFUSED,	/* an error code */
	LMDB_FAULT,	/* SIGSEGV, SIGBUS in LMDB */
	LMDB_ASSERTION, /* its abort() */
	HANGS,
	OURS, /* a finding */
	OUTCOMES
};

static const char *const outcome_words[OUTCOMES] = {
	"as_good", "otherwise", "refused", "lmdb_fault", "lmdb_assertion", "hangs", "ours"};

static struct image good, bad;
static char data_path[200];
static struct answers good_answers;
static unsigned long counts[CHILDREN][STEPS][OUTCOMES];

/* What a child leaves. */
static struct {
	int step;
	uint8_t counters[]; /* of coverage: so libFuzzer sees what it has reached */
} * shared;
static int said = -1; /* what the child wrote on stderr */

/* --- coverage ---------------------------------------------------------------------------------- */

/* As libFuzzer is told of it (linked with --wrap). */
void __real___sanitizer_cov_8bit_counters_init(uint8_t *from, uint8_t *to) __attribute__((weak));
void __wrap___sanitizer_cov_8bit_counters_init(uint8_t *from, uint8_t *to);

static uint8_t *counters_begin, *counters_end;

void __wrap___sanitizer_cov_8bit_counters_init(uint8_t *from, uint8_t *to)
{
	counters_begin = from;
	counters_end = to;
	__real___sanitizer_cov_8bit_counters_init(from, to);
}

/* The end of a child. */
_Noreturn static void leave(int outcome)
{
	if (counters_begin != counters_end)
		memcpy(shared->counters, counters_begin, (size_t)(counters_end - counters_begin));
	_exit(EXIT_BASE + outcome);
}

static void take_counters(void)
{
	for (uint8_t *at = counters_begin; at != counters_end; at++)
		if (shared->counters[at - counters_begin] > *at)
			*at = shared->counters[at - counters_begin];
}

/* --- whose fault ------------------------------------------------------------------------------- */

/* LMDB calls nothing of ours: when it is on the stack, it is what is at work. */
static bool in_lmdb(void)
{
	void *frames[FRAMES_MAX];
	int n = backtrace(frames, FRAMES_MAX);
	Dl_info info;

	for (int i = 0; i < n; i++)
		if (dladdr(frames[i], &info) != 0 && info.dli_fname != NULL &&
			strstr(info.dli_fname, "liblmdb") != NULL)
			return true;
	return false;
}

static void on_death(int signo)
{
	void *frames[FRAMES_MAX];

	if (in_lmdb())
		leave(signo == SIGABRT ? LMDB_ASSERTION : LMDB_FAULT);
	backtrace_symbols_fd(frames, backtrace(frames, FRAMES_MAX), STDERR_FILENO);
	leave(OURS);
}

#define TOLD __attribute__((visibility("default"))) /* by a library */

/* A number of pages that is none makes LMDB ask for gigabytes: it is told that there are none. */
TOLD const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1:max_allocation_size_mb=1000";
}

/* It has found something: also in LMDB's calls of memcpy. */
TOLD void __asan_on_error(void);
void __asan_on_error(void)
{
	if (in_lmdb())
		leave(LMDB_FAULT);
}

static void watch(void)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], on_death);
	signal(SIGALRM, SIG_DFL);
	alarm(PATIENCE_S);
}

/* --- the children ------------------------------------------------------------------------------ */

static int body_reader(void)
{
	static const int outcomes[] = {
		[ANSWERS_SAME] = AS_GOOD, [ANSWERS_REFUSED] = REFUSED, [ANSWERS_OTHER] = OTHERWISE};
	struct tally *tally = NULL;
	static struct answers answers;

	hold(tally_open(fuzz_run.dir, 0, &tally) == 0); /* the table is good */
	answers_take(&answers, tally);
	shared->step = STEP_WORK;
	ask_all(tally);
	shared->step = STEP_VERIFY;
	tally_close(&tally);
	return outcomes[answers_judge(&answers, &good_answers)];
}

static struct usage *open_usage(int *err)
{
	static char path[160];
	struct usage *usage = NULL;
	bool boot;
	struct usage_options options = {.path = path,
		.map_bytes = 64 << 20,
		.readers_max = 64,
		.identity = {.format = USAGE_FORMAT,
			.partitions = RUN_PARTITIONS,
			.window_minutes = RUN_WINDOW,
			.generation = RUN_GENERATION,
			.topic = "usage"}};

	run_path(&fuzz_run, 0, RUN_GENERATION, path);
	host_boot_id(options.identity.boot_id);
	*err = usage_open(&options, &usage, &boot);
	return usage;
}

/* Known streams, new ones, and one tenant more. */
static int add_batch(struct usage *usage, int round, int64_t now)
{
	int64_t offset = usage_meta(usage)->next_offset;

	if (offset < 0 || offset > INT64_MAX - 100)
		return -1;
	for (uint64_t i = 0; i < 40; i++) {
		uint64_t hash = (i + (uint64_t)round * 20) * RUN_PARTITIONS;
		struct record record = {.tenant = i % 8	  ? "t"
						  : i % 3 ? "new"
							  : "b",
			.policy = i % 3 ? "" : "gold",
			.policy_len = i % 3 ? 0 : 4,
			.hash = hash * (i % 2 ? UINT64_C(0x9e3779b97f4a7c) : 1),
			.size = i,
			.timestamp_ms = now,
			.offset = offset++};

		record.tenant_len = strlen(record.tenant);
		usage_add(usage, &record, now);
	}
	usage_advance(usage, offset, NULL);
	return 0;
}

static int work(struct usage *usage)
{
	const struct usage_produce produce = {.rate_minutes = 5, .every_s = 60, .outbox_max = 1000};
	struct usage_outgoing rows[8];
	int64_t now = host_wall_ms();
	int err = 0;

	usage_set_produce(usage, &produce);
	for (int round = 0; round < 3 && err == 0; round++) {
		err = add_batch(usage, round, now);
		usage_produce_due(usage, now);
		if (err == 0)
			err = usage_commit(
				usage, &(struct usage_commit){.now_ms = now, .sweep_blocks = 100});
	}
	if (err == 0 && usage_outbox_list(usage, 0, rows, 8) < 0)
		err = -1;
	return err;
}

static int body_scrub(void)
{
	struct usage *usage;
	char why[256];
	int err;

	usage = open_usage(&err);
	if (err != 0)
		return REFUSED;
	shared->step = STEP_WORK;
	err = usage_scrub(usage, usage_scrub_steps(usage) + 10, why);
	if (err != 0)
		return REFUSED;
	hold(usage_scrubbed(usage) > 0);
	shared->step = STEP_VERIFY;
	usage_close(&usage);
	return AS_GOOD;
}

static int body_worker(void)
{
	struct usage *usage;
	struct store_txn txn;
	char why[256];
	int err;

	usage = open_usage(&err);
	if (err != 0)
		return REFUSED;
	shared->step = STEP_WORK;
	err = work(usage);
	if (err != 0)
		return REFUSED;
	shared->step = STEP_VERIFY;
	store_begin_read(&txn, usage_store(usage));
	err = txn.err;
	if (err == 0)
		err = usage_verify(&txn, why);
	store_abort(&txn);
	usage_close(&usage);
	return err != 0 ? OTHERWISE : AS_GOOD;
}

static enum outcome outcome_of(int status)
{
	int outcome = WEXITSTATUS(status) - EXIT_BASE;

	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGALRM ? HANGS : OURS;
	return outcome >= 0 && outcome < OUTCOMES ? (enum outcome)outcome : OURS;
}

static void print_said(void)
{
	static char text[65536];
	ssize_t n = pread(said, text, sizeof(text), 0);

	if (n > 0)
		fwrite(text, 1, (size_t)n, stderr);
}

static enum outcome run_child(int which, int (*body)(void))
{
	static const char *const who[CHILDREN] = {"reader", "scrub", "worker"};
	enum outcome outcome;
	int status = -1;
	pid_t pid;

	shared->step = STEP_OPEN;
	hold(ftruncate(said, 0) == 0 && lseek(said, 0, SEEK_SET) == 0);
	fflush(NULL);
	pid = fork();
	hold(pid >= 0);
	if (pid == 0) {
		dup2(said, STDERR_FILENO);
		watch();
		leave(body());
	}
	while (waitpid(pid, &status, 0) != pid)
		hold(errno == EINTR); /* libFuzzer's clock */
	take_counters();
	outcome = outcome_of(status);
	counts[which][shared->step][outcome]++;
	if (outcome == OURS) {
		print_said();
		fprintf(stderr, "%s, step %d: status %#x\n", who[which], shared->step,
			(unsigned)status);
		abort();
	}
	return outcome;
}

/* --- the whole --------------------------------------------------------------------------------- */

/* The pages that are in use; behind them is a hole, as large as the map. */
static off_t file_size;

static void put_data(const struct image *image)
{
	int fd = open(data_path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	hold(fd >= 0);
	hold(write(fd, image->bytes, image->len) == (ssize_t)image->len);
	hold(image->len < good.len || ftruncate(fd, file_size) == 0);
	close(fd);
}

static void get_data(struct image *image)
{
	int fd = open(data_path, O_RDONLY | O_CLOEXEC);
	static const uint8_t nothing[4096];
	size_t used;

	hold(fd >= 0);
	file_size = lseek(fd, 0, SEEK_END);
	image->cap = (size_t)file_size;
	image->bytes = malloc(image->cap);
	hold(image->bytes != NULL);
	hold(pread(fd, image->bytes, image->cap, 0) == file_size);
	close(fd);
	for (used = image->cap; memcmp(image->bytes + used - 4096, nothing, 4096) == 0;)
		used -= 4096;
	image->bytes = realloc(image->bytes, used);
	image->len = image->cap = used;
}

static void end(void)
{
	static const char *const who[CHILDREN] = {"reader", "scrub", "worker"};
	static const char *const steps[STEPS] = {"open", "work", "verify"};

	for (int c = 0; c < CHILDREN; c++)
		for (int s = 0; s < STEPS; s++) {
			printf("%s %-6s", who[c], steps[s]);
			for (int o = 0; o < OUTCOMES; o++)
				printf(" %s=%lu", outcome_words[o], counts[c][s][o]);
			printf("\n");
		}
	fuzz_run_end();
}

static void begin(void)
{
	struct tally *tally = NULL;

	if (good.bytes != NULL)
		return;
	shared = mmap(NULL, sizeof(*shared) + (size_t)(counters_end - counters_begin),
		PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	said = memfd_create("said", MFD_CLOEXEC);
	hold(shared != MAP_FAILED && said >= 0);
	fuzz_run_start();
	run_path(&fuzz_run, 0, RUN_GENERATION, data_path);
	strcat(data_path, "/data.mdb");
	get_data(&good);
	hold(tally_open(fuzz_run.dir, 0, &tally) == 0);
	answers_take(&good_answers, tally);
	hold(strstr(good_answers.list[0].text, "\nt 3") != NULL); /* 300 streams and more */
	tally_close(&tally);
	atexit(end);
}

/* Overwritten, too. */
static bool has_lmdb_pages(void)
{
	return bad.len < LMDB_BYTES || memcmp(bad.bytes, good.bytes, LMDB_BYTES) != 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct input in = {data, len};
	enum outcome reader, scrub;

	begin();
	fuzz_run_refresh();
	image_reset(&bad, &good);
	while (in.left > 0)
		image_patch(&bad, &in);
	put_data(&bad);
	scrub = run_child(SCRUB, body_scrub);
	put_data(&bad);
	reader = run_child(READER, body_reader);
	if (reader == OTHERWISE && scrub == AS_GOOD && !has_lmdb_pages()) {
		print_said();
		hold(false);
	}
	put_data(&bad);
	run_child(WORKER, body_worker);
	return 0;
}
