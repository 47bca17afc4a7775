/*
 * test_tallyctl.c - what tallyctl says of a run directory whose content is known.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "ctl_run.h"

#include "tools/tallyctl/ctl.h"

static char said[65536]; /* stdout and stderr of the last command */

static int setup(void **state)
{
	(void)state;
	ctl_run_start();
	assert_int_equal(tally_open(run.dir, TALLY_STALE_OK, &ctl.tally), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ctl_run_end();
	return 0;
}

/* Runs a command as main does, and keeps what it says. */
static int say(int (*command)(struct ctl *, int, char **), const char *const *words)
{
	int argc = 0, out = dup(1), err = dup(2);
	FILE *file = tmpfile();
	assert_non_null(file);
	while (words[argc])
		argc++;
	assert_int_equal(tally_instance(ctl.tally, &ctl.instance), 0);
	fflush(NULL);
	dup2(fileno(file), 1);
	dup2(fileno(file), 2);
	optind = 0;
	int code = command(&ctl, argc, (char **)(uintptr_t)words);
	fflush(NULL);
	dup2(out, 1);
	dup2(err, 2);
	close(out);
	close(err);
	rewind(file);
	said[fread(said, 1, sizeof said - 1, file)] = 0;
	fclose(file);
	return code;
}
#define SAY(command, ...) say(command, (const char *const[]){__VA_ARGS__, NULL})

static void assert_says(const char *text)
{
	if (!strstr(said, text))
		fail_msg("'%s' is not in:\n%s", text, said);
}

static json_t *parsed(void)
{
	json_error_t error;
	json_t *object = json_loads(said, 0, &error);
	if (!object)
		fail_msg("%s in:\n%s", error.text, said);
	return object;
}

/* ------------------------------------------------------------------ commands */

static void status_ends_with_one_line_that_says_it_all(void **state)
{
	(void)state;
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	assert_says("\n2 of 2 partitions ready\n");
	struct table_slot *slot = table_slot_mut(&run.table, 1);
	run_publish(&run, 0, PART_REPLAYING, 10);
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("\n1 of 2 not ready: p0 replaying 50% (ETA 4.0 s)\n");
	atomic_store(&slot->death, DEATH_SIGNAL);
	atomic_store(&slot->death_code, 11);
	atomic_store(&slot->death_at, (uint64_t)host_wall_ms() * 1000000);
	atomic_store(&slot->retry_in_ms, 12000);
	run_publish(&run, 1, PART_FAILED, 11);
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("2 of 2 not ready: p0 replaying 50% (ETA 4.0 s), "
		    "p1 failed (SIGSEGV, restarts in 12 s)\n");
	atomic_store(&slot->death, DEATH_HANG);
	atomic_store(&slot->death_code, SIGKILL);
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("p1 failed (hang (SIGKILL), restarts in 12 s)\n");
	assert_says("hang (SIGKILL) 0.");
	run_publish(&run, 0, PART_FREE, 0);
	run_publish(&run, 1, PART_READY, 11);
	run_lease(&run, 1, 0);
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("1 of 1 not ready: p1 lease over");
	run_publish(&run, 1, PART_FREE, 0);
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("no partition is assigned here");
}

static void status_says_when_the_topic_has_more_or_fewer_partitions(void **state)
{
	struct table_head *head = table_head_mut(&run.table);
	(void)state;
	atomic_store(&head->topic_partitions, 4);
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	assert_null(strstr(said, "topic has"));
	atomic_store(&head->topic_partitions, 12);
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	assert_says("\ntopic has 12 partitions, 4 are served (kafka.partitions)\n");
	atomic_store(&head->topic_partitions, 1);
	run_publish(&run, 1, PART_FAILED, 0);
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("\ntopic has 1 partition, 4 are routed (kafka.partitions): 3 are missing\n");
	assert_says("  the topic does not have it\n");
	assert_says("\n1 of 2 not ready: p1 failed (the topic does not have it)\n");
	atomic_store(&head->topic_partitions, 3);
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("\ntopic has 3 partitions, 4 are routed (kafka.partitions): 1 is missing\n");
	assert_null(strstr(said, "does not have it")); /* it failed by itself */
}

static void queryd(uint32_t wanted, uint32_t first, uint32_t second, uint32_t deaths)
{
	struct table_head *head = table_head_mut(&run.table);
	atomic_store(&head->query_processes, wanted);
	atomic_store(&head->query_pids[0], first);
	atomic_store(&head->query_pids[1], second);
	atomic_store(&head->query_restarts, deaths);
}

static void status_says_when_no_query_process_lives(void **state)
{
	struct table_head *head = table_head_mut(&run.table);
	char path[100];
	(void)state;
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	assert_says("; no queryd (query.enabled is false)\n");
	queryd(1, 0, 0, 0);
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	assert_says("; queryd is starting\n");
	queryd(1, 0, 0, 14);
	atomic_store(&head->query_death, DEATH_EXIT);
	atomic_store(&head->query_death_code, 1);
	atomic_store(&head->query_died_at, (uint64_t)(host_wall_ms() - 20000) * 1000000);
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("\nQUERYD HAS DIED 14 times, the last 20 s ago (exit 1): nobody answers gRPC "
		    "or HTTP; see \"queryd error\" in the log\n");
	queryd(2, 0, 5833, 3);
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	assert_says("; queryd 1 of 2, pid 5833, 3 restarts\n");
	queryd(2, 5623, 5833, 1);
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	assert_says("; queryd 2 of 2, pids 5623 5833, 1 restart\n");
	assert_null(strstr(said, "HAS DIED"));
	/* It lives, but it did not a moment ago. */
	queryd(1, 5623, 0, 1);
	atomic_store(&head->query_death, DEATH_SIGNAL);
	atomic_store(&head->query_death_code, 11);
	atomic_store(&head->query_died_at, (uint64_t)host_wall_ms() * 1000000);
	snprintf(path, sizeof path, "%s/query.http", run.dir);
	FILE *file = fopen(path, "w");
	fputs("127.0.0.1:3100\n", file);
	fclose(file);
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	assert_says("; queryd pid 5623, 1 restart, the last 0.");
	assert_says(" s ago (SIGSEGV)\nHTTP 127.0.0.1:3100\n");
	ctl.json = true;
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	json_t *object = parsed(), *query = json_object_get(object, "queryd");
	assert_int_equal(json_array_size(json_object_get(query, "pids")), 1);
	assert_string_equal(json_string_value(json_object_get(query, "http")), "127.0.0.1:3100");
	assert_true(json_is_null(json_object_get(query, "grpc")));
	json_decref(object);
}

static void status_tells_a_frozen_tallyd_from_one_that_is_gone(void **state)
{
	struct table_head *head = table_head_mut(&run.table);
	(void)state;
	head->supervisor_pid = 1; /* older than any heartbeat, and always there */
	atomic_store(&head->heartbeat, host_boot_ns() - UINT64_C(8500000000));
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("tallyd pid 1 gives no sign of life for 8.");
	assert_says(" s: it is frozen or stuck (the process is there); this is the last state\n");
	assert_says("\ntallyd is frozen or stuck: 2 of 2 partitions ready\n");
	head->supervisor_pid = 0x3fffffff;
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("tallyd is not running: it is gone without a word, last heartbeat 8.");
	/* Another process has its number: it is younger than the heartbeat. */
	head->supervisor_pid = (uint32_t)getpid();
	atomic_store(&head->heartbeat, 1);
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("tallyd is not running: it is gone without a word");
}

static void status_says_when_a_worker_gives_no_sign_of_life(void **state)
{
	char path[160];
	struct stats stats;
	(void)state;
	atomic_store(&table_slot_mut(&run.table, 0)->pid, 77);
	run_path(&run, 0, 10, path);
	strcat(path, "/stats");
	int fd = open(path, O_RDWR);
	assert_int_equal(pread(fd, &stats, sizeof stats, 0), sizeof stats);
	atomic_store(&stats.heartbeat, host_boot_ns() - UINT64_C(7200000000));
	assert_int_equal(pwrite(fd, &stats, sizeof stats, 0), sizeof stats);
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	assert_says("  no sign of life for 7.");
	atomic_store(&stats.heartbeat, host_boot_ns());
	assert_int_equal(pwrite(fd, &stats, sizeof stats, 0), sizeof stats);
	close(fd);
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	assert_null(strstr(said, "no sign of life"));
}

static void status_names_a_few_of_many_that_are_not_ready(void **state)
{
	(void)state;
	atomic_store(&table_head_mut(&run.table)->partitions, 64);
	for (uint32_t p = 0; p < 64; p++)
		run_publish(&run, p, PART_PENDING, 100 + p);
	assert_int_equal(SAY(ctl_status, "status"), CTL_INCOMPLETE);
	assert_says("64 of 64 not ready: p0 pending, p1 pending, p2 pending, p3 pending, "
		    "p4 pending, p5 pending and 58 more\n");
}

static void commands_answer_and_say_so_when_tallyd_is_stopped(void **state)
{
	(void)state;
	atomic_store(&table_head_mut(&run.table)->stopped, 1);
	run_publish(&run, 0, PART_STOPPED, 10);
	run_publish(&run, 1, PART_STOPPED, 11);
	assert_int_equal(SAY(ctl_tenant, "tenant", "a"), CTL_OK);
	assert_int_equal(strncmp(said, "tallyd is not running: it was stopped", 37), 0);
	assert_says("a: 2 active streams, 150 B in 120 minutes");
	assert_says("2 of 2 partitions answered");
	ctl.json = true;
	assert_int_equal(SAY(ctl_tenant, "tenant", "a"), CTL_OK);
	json_t *object = parsed();
	assert_true(json_is_true(json_object_get(object, "stale")));
	assert_true(json_is_false(json_object_get(object, "alive")));
	json_decref(object);
}

static void commands_say_when_an_answer_is_not_complete(void **state)
{
	(void)state;
	run_publish(&run, 1, PART_PENDING, 99);
	assert_int_equal(SAY(ctl_tenant, "tenant", "a"), CTL_INCOMPLETE);
	assert_says("NOT COMPLETE: 1 of 2 partitions answered");
	assert_int_equal(SAY(ctl_tenants, "tenants"), CTL_INCOMPLETE);
	assert_int_equal(SAY(ctl_top, "top", "-n", "1"), CTL_INCOMPLETE);
	assert_int_equal(SAY(ctl_streams, "streams", "a"), CTL_INCOMPLETE);
	assert_int_equal(SAY(ctl_stream, "stream", "a", "5"), CTL_INCOMPLETE);
	assert_says("belongs to partition 1, which cannot answer");
	run_publish(&run, 0, PART_PENDING, 99);
	assert_int_equal(SAY(ctl_tenant, "tenant", "a"), CTL_INCOMPLETE);
	assert_says("a: no partition can answer (2 of 4 are assigned here); see");
}

static void tenants_escapes_names_and_pages(void **state)
{
	(void)state;
	assert_int_equal(SAY(ctl_tenants, "tenants"), CTL_OK);
	assert_says("b\\x1b[31m\\xc2\\x9b\n");
	assert_null(strchr(said, 0x1b));
	assert_says("3 tenants\n");
	assert_int_equal(SAY(ctl_tenants, "tenants", "--limit", "1", "--after", "a"), CTL_OK);
	assert_says("1 tenant, and more: --after 'b");
	ctl.json = true;
	assert_int_equal(SAY(ctl_tenants, "tenants", "--limit=2"), CTL_OK);
	json_t *object = parsed(), *list = json_object_get(object, "tenants");
	assert_int_equal(json_array_size(list), 2);
	assert_string_equal(
		json_string_value(json_object_get(object, "next_after")), "b\x1b[31m\xc2\x9b");
	json_t *first = json_array_get(list, 0);
	assert_int_equal(json_integer_value(json_object_get(first, "bytes")), 150);
	json_decref(object);
}

static void stream_keeps_all_digits_of_a_hash(void **state)
{
	(void)state;
	const char *name = "b\x1b[31m\xc2\x9b";
	ctl.json = true;
	assert_int_equal(SAY(ctl_stream, "stream", name, "0xfffffffffffffffc"), CTL_OK);
	json_t *object = parsed();
	assert_string_equal(
		json_string_value(json_object_get(object, "hash")), "18446744073709551612");
	assert_true(json_is_true(json_object_get(object, "active")));
	json_decref(object);
	ctl.json = false;
	assert_int_equal(SAY(ctl_stream, "stream", "a", "12"), CTL_INCOMPLETE);
	assert_says("no stream 12");
	assert_int_equal(SAY(ctl_stream, "stream", "a", "-1"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_stream, "stream", "a", "0x"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_stream, "stream", "a", "18446744073709551616"), CTL_TROUBLE);
	assert_says("is not a number from 0 to 18446744073709551615");
	assert_int_equal(SAY(ctl_stream, "stream", "a"), CTL_TROUBLE);
}

/* As from a shell, with nothing attached. */
static void commands_check_their_words_before_they_attach(void **state)
{
	struct ctl none = {.run_dir = "/nowhere"};
	const char *const bad[] = {"status", "--what", NULL}, *const good[] = {"status", NULL};
	(void)state;
	optind = 0;
	assert_int_equal(ctl_status(&none, 2, (char **)(uintptr_t)bad), CTL_TROUBLE);
	assert_null(none.tally);
	optind = 0;
	assert_int_equal(ctl_status(&none, 1, (char **)(uintptr_t)good), CTL_TROUBLE);
	none.run_dir = run.dir;
	optind = 0;
	assert_int_equal(ctl_attach(&none), 0);
	assert_non_null(none.tally);
	assert_int_equal(none.instance.owned, 2);
	tally_close(&none.tally);
}

static void commands_refuse_words_they_do_not_know(void **state)
{
	(void)state;
	assert_int_equal(SAY(ctl_status, "status", "x"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_tenants, "tenants", "x"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_tenants, "tenants", "--limit", "0"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_tenants, "tenants", "--limit"), CTL_TROUBLE);
	assert_says("--limit: needs a value");
	assert_int_equal(SAY(ctl_tenant, "tenant"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_top, "top", "-x"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_top, "top", "-n", "many"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_tenant, "tenant", "nobody"), CTL_INCOMPLETE);
	assert_says("nobody: not found");
}

static void errors_say_what_was_meant(void **state)
{
	(void)state;
	assert_int_equal(SAY(ctl_status, "status", "--wathc"), CTL_TROUBLE);
	assert_says("tallyctl: status: option --wathc: unknown; did you mean --watch?\n");
	assert_int_equal(SAY(ctl_tenants, "tenants", "--limits=3"), CTL_TROUBLE);
	assert_says("tenants: option --limits: unknown; did you mean --limit?\n");
	assert_int_equal(SAY(ctl_top, "top", "--xyzzy"), CTL_TROUBLE);
	assert_says("top: option --xyzzy: unknown; see 'tallyctl help'\n");
	assert_int_equal(SAY(ctl_top, "top", "-xn", "3"), CTL_TROUBLE);
	assert_says("top: option -x: unknown; see 'tallyctl help'\n");
	assert_int_equal(SAY(ctl_top, "top", "-n"), CTL_TROUBLE);
	assert_says("top: option -n: needs a value\n");
	assert_int_equal(SAY(ctl_status, "status", "--watch=0"), CTL_TROUBLE);
	assert_says("--watch: '0' is not a number from 1 to 86400\n");
	assert_int_equal(SAY(ctl_status, "status", "--watch", "5x"), CTL_TROUBLE);
	assert_says("--watch: '5x' is not a number from 1 to 86400\n");
	assert_int_equal(SAY(ctl_tenant, "tenant", "nobody"), CTL_INCOMPLETE);
	assert_says("; 'tallyctl tenants' lists the names\n");
}

static int attach_to(struct ctl *other, int argc, char **argv)
{
	static struct ctl fresh;
	(void)argc;
	(void)other;
	fresh = (struct ctl){.run_dir = argv[0], .run_dir_from = argv[1]};
	int code = ctl_attach(&fresh);
	tally_close(&fresh.tally);
	return code;
}

static void an_instance_that_is_not_there_is_named_with_who_named_it(void **state)
{
	char path[100];
	(void)state;
	snprintf(path, sizeof path, "%s/nothing", run.dir);
	assert_int_equal(SAY(attach_to, path, "TALLY_RUN_DIR"), CTL_TROUBLE);
	assert_says("/nothing does not exist: no Tally has run here (run_dir by TALLY_RUN_DIR); "
		    "start tallyd, or name its run_dir with -d or TALLY_RUN_DIR\n");
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(SAY(attach_to, path, "default"), CTL_TROUBLE);
	assert_says("/nothing: no Tally has run here (run_dir by default); start tallyd");
	snprintf(path, sizeof path, "%s/table", run.dir);
	assert_int_equal(SAY(attach_to, path, "-d"), CTL_TROUBLE);
	assert_says("/table: not a directory; name the run_dir of tallyd (by -d now)");
	assert_int_equal(chmod(run.dir, 0777), 0);
	assert_int_equal(SAY(attach_to, run.dir, "-d"), CTL_TROUBLE);
	assert_says("everybody can write to it, so nothing in it can be trusted");
}

static int refresh(struct ctl *waiting, int argc, char **argv)
{
	(void)waiting;
	(void)argc;
	return ctl_refresh((struct ctl *)(void *)argv[0]);
}

static void who_watches_waits_for_an_instance(void **state)
{
	struct ctl waiting = {.run_dir_from = "default"};
	char nowhere[100], line[256];
	(void)state;
	snprintf(nowhere, sizeof nowhere, "%s/nothing", run.dir);
	waiting.run_dir = nowhere;
	assert_int_equal(ctl_attach_or_wait(&waiting), 0);
	assert_null(waiting.tally);
	assert_int_equal(SAY(refresh, (const char *)&waiting), CTL_TROUBLE);
	snprintf(line, sizeof line,
		"tallyctl: no instance at %s (run_dir by default); waiting for tallyd to start\n",
		nowhere);
	assert_string_equal(said, line);
	waiting.run_dir = run.dir; /* now there is one */
	assert_int_equal(SAY(refresh, (const char *)&waiting), CTL_OK);
	assert_non_null(waiting.tally);
	assert_int_equal(waiting.instance.owned, 2);
	tally_close(&waiting.tally);
}

/* What no start of tallyd would cure is told at once. */
static void who_watches_does_not_wait_in_vain(void **state)
{
	struct ctl waiting = {0};
	char path[100];
	(void)state;
	snprintf(path, sizeof path, "%s/table", run.dir);
	waiting.run_dir = path;
	assert_int_equal(ctl_attach_or_wait(&waiting), CTL_TROUBLE);
	waiting.run_dir = run.dir;
	assert_int_equal(chmod(run.dir, 0777), 0);
	assert_int_equal(ctl_attach_or_wait(&waiting), CTL_TROUBLE);
	assert_null(waiting.tally);
}

static void top_without_a_terminal_prints_and_says_what_else_there_is(void **state)
{
	char once[sizeof said];
	(void)state;
	assert_int_equal(SAY(ctl_top, "top", "--once"), CTL_OK);
	assert_says("#  STREAMS  BYTES  RATE/S  POLICIES  TENANT\n");
	assert_null(strstr(said, "tallyctl:"));
	memcpy(once, said, sizeof once);
	assert_int_equal(SAY(ctl_top, "top"), CTL_OK);
	assert_int_equal(strncmp(said, once, strlen(once)), 0);
	assert_says("tallyctl: top: no full screen here: stdout is no terminal; 'top --once' "
		    "prints without this line, 'top --watch=2' again and again, and with ssh it "
		    "needs 'ssh -t'\n");
	assert_int_equal(SAY(ctl_top, "top", "-n", "1"), CTL_OK);
	assert_null(strstr(said, "tallyctl:"));
	ctl.json = true;
	assert_int_equal(SAY(ctl_top, "top"), CTL_OK);
	json_decref(parsed());
}

static void every_command_prints_json(void **state)
{
	(void)state;
	ctl.json = true;
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	json_t *object = parsed();
	json_t *part = json_array_get(json_object_get(object, "partitions"), 1);
	assert_string_equal(json_string_value(json_object_get(part, "generation")), "11");
	json_t *stats = json_object_get(part, "stats");
	assert_int_equal(json_integer_value(json_object_get(stats, "lag")), 500);
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(stats, "skipped"), "too_old")),
		17);
	json_decref(object);
	assert_int_equal(SAY(ctl_top, "top", "-n", "1"), CTL_OK);
	json_decref(parsed());
	assert_int_equal(SAY(ctl_streams, "streams", "t", "--limit", "2"), CTL_OK);
	object = parsed();
	assert_true(json_is_true(json_object_get(object, "more")));
	json_decref(object);
	assert_int_equal(SAY(ctl_tenant, "tenant", "a"), CTL_OK);
	object = parsed();
	assert_int_equal(json_array_size(json_object_get(object, "by_minute")), RUN_WINDOW + 1);
	assert_int_equal(json_array_size(json_object_get(object, "by_policy")), 2);
	json_decref(object);
}

static void status_tells_all_of_one_partition(void **state)
{
	(void)state;
	assert_int_equal(SAY(ctl_status, "status", "--partition", "1"), CTL_OK);
	assert_says("\npartition 1\n");
	assert_says("\ngeneration         11\n");
	assert_says("\ntoo_old            17\n");
	assert_says("\nasked_rejected     0\n");
	assert_says("\n1 of 1 partition ready\n");
	assert_int_equal(SAY(ctl_status, "status", "--partition=3"), CTL_INCOMPLETE);
	assert_says("1 of 1 not ready: p3 free\n");
	assert_int_equal(SAY(ctl_status, "status", "--partition=4"), CTL_TROUBLE);
	assert_says("there is no partition 4; streams are routed over 4\n");
	assert_int_equal(SAY(ctl_status, "status", "--partition=x"), CTL_TROUBLE);
	ctl.json = true;
	assert_int_equal(SAY(ctl_status, "status", "--partition=1"), CTL_OK);
	json_t *object = parsed();
	assert_int_equal(json_array_size(json_object_get(object, "partitions")), 1);
	json_t *stats =
		json_object_get(json_array_get(json_object_get(object, "partitions"), 0), "stats");
	assert_true(json_is_integer(json_object_get(stats, "confirmed")));
	json_decref(object);
}

/* ------------------------------------------------------------------ limits */

/* Half of the partitions are ours; tenant "a" has one stream without and one with policy gold. */
static void publish_limits(uint64_t streams, uint64_t gold, enum limit_scope scope, bool dry_run)
{
	static uint64_t version;
	const struct limits_policy policy = {"gold", gold};
	const struct limits_tenant tenant = {.name = "a",
		.streams = streams,
		.has_streams = true,
		.dry_run = dry_run,
		.policies = &policy,
		.n_policies = 1};
	const struct limits_source source = {.version = ++version,
		.default_streams = 7,
		.scope = scope,
		.tenants = &tenant,
		.n_tenants = 1};
	assert_int_equal(limits_write(run.dirfd, &source), 0);
	atomic_store(&table_head_mut(&run.table)->limits_version, version);
}

static void status_says_which_limits_hold(void **state)
{
	struct table_head *head = table_head_mut(&run.table);
	(void)state;
	publish_limits(4, 2, LIMIT_INSTANCE, false);
	atomic_store(&head->limits_state, LOAD_NONE);
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	assert_says("\nlimits: 7 active streams for every tenant (no limits.file)\n");
	atomic_store(&head->limits_state, LOAD_OK);
	atomic_store(&head->limits_tenants, 2);
	atomic_store(&head->limits_loaded_at, (uint64_t)host_wall_ms() - 3000);
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	assert_says("\nlimits of 2 tenants, 7 for others, loaded 3.");
	const struct limits_source dry = {.version = 1000,
		.default_streams = LIMIT_NONE,
		.default_dry_run = true,
		.scope = LIMIT_INSTANCE};
	assert_int_equal(limits_write(run.dirfd, &dry), 0);
	atomic_store(&head->limits_version, 1000);
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	assert_says("\nlimits of 2 tenants, none for others, loaded 3.");
	assert_says(" s ago; DRY RUN: nothing is rejected\n");
	atomic_store(&head->limits_state, LOAD_NONE);
	assert_int_equal(SAY(ctl_status, "status"), CTL_OK);
	assert_says(
		"\nlimits: none for any tenant (no limits.file); DRY RUN: nothing is rejected\n");
}

static void check_says_what_would_come_in(void **state)
{
	(void)state;
	publish_limits(4, 2, LIMIT_INSTANCE, false); /* shares 2 and 1 */
	assert_int_equal(SAY(ctl_check, "check", "a", "4", "0x10"), CTL_OK);
	assert_says("0  0x0000000000000004  known\n0  0x0000000000000010  new\n");
	assert_says("\n2 of 2 would come in\n");
	/* In the order of options that people type; full, but known is known. */
	assert_int_equal(SAY(ctl_check, "check", "--policy=gold", "a", "8", "16"), CTL_INCOMPLETE);
	assert_says("0  0x0000000000000008  known\n0  0x0000000000000010  full\n");
	assert_says("\n1 of 2 would come in, 1 would be rejected\n");
	assert_int_equal(SAY(ctl_check, "check", "a", "16", "3"), CTL_UNDECIDED);
	assert_says("3  0x0000000000000003  elsewhere\n");
	assert_says("\n1 of 2 would come in\n1 of 2 belongs to another instance (partition 3): ask "
		    "there, or use --admit\n");
	assert_int_equal(SAY(ctl_check, "check", "a", "2", "3", "7"), CTL_UNDECIDED);
	assert_says("3 of 3 belong to other instances (partitions 2 3): ask there");
	run_publish(&run, 1, PART_PENDING, 12);
	assert_int_equal(SAY(ctl_check, "check", "a", "4", "1"), CTL_UNDECIDED);
	assert_says("1  0x0000000000000001  not ready\n");
	assert_says("1 of 2 would come in, 1 could not be decided: see 'tallyctl status'\n");
	run_publish(&run, 1, PART_READY, 11);
	/* Each has room, both have not; one that is named twice is one. */
	assert_int_equal(SAY(ctl_check, "check", "a", "16", "17", "16"), CTL_INCOMPLETE);
	assert_says("each of the 2 new ones has room, all together have not: 1 fit\n");
	assert_int_equal(SAY(ctl_check, "check", "a", "16", "16"), CTL_OK);
	publish_limits(2, 2, LIMIT_INSTANCE, true);
	assert_int_equal(SAY(ctl_check, "check", "a", "16"), CTL_OK);
	assert_says("full\n1 of 1 would come in\ndry run: what is full is let in all the same");
	ctl.json = true;
	publish_limits(2, 2, LIMIT_INSTANCE, false);
	assert_int_equal(SAY(ctl_check, "check", "a", "18446744073709551612", "4"), CTL_INCOMPLETE);
	json_t *object = parsed();
	json_t *first = json_array_get(json_object_get(object, "results"), 0);
	assert_string_equal(
		json_string_value(json_object_get(first, "hash")), "18446744073709551612");
	assert_string_equal(json_string_value(json_object_get(first, "result")), "full");
	assert_int_equal(json_integer_value(json_object_get(object, "rejected")), 1);
	assert_true(json_is_false(json_object_get(object, "admitted")));
	json_decref(object);
}

static void check_trusts_nothing_that_is_not_ready(void **state)
{
	(void)state;
	run_publish(&run, 0, PART_DRAINING, 10);
	assert_int_equal(SAY(ctl_check, "check", "a", "4"), CTL_UNDECIDED);
	assert_says("not ready");
	atomic_store(&table_head_mut(&run.table)->stopped, 1);
	run_publish(&run, 0, PART_STOPPED, 10);
	run_publish(&run, 1, PART_STOPPED, 11);
	assert_int_equal(SAY(ctl_check, "check", "a", "4"), CTL_UNDECIDED);
	assert_null(strstr(said, "known"));
}

static void check_refuses_what_it_does_not_know(void **state)
{
	(void)state;
	char name[400] = {0};
	memset(name, 'x', 300);
	assert_int_equal(SAY(ctl_check, "check"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_check, "check", "a"), CTL_TROUBLE);
	assert_says("needs a tenant's NAME and at least one HASH");
	assert_int_equal(SAY(ctl_check, "check", "a", "x"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_check, "check", "a", "1", "--what"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_check, "check", "a", "1", "--bytes", "5"), CTL_TROUBLE);
	assert_says("--bytes counts only with --admit");
	assert_int_equal(SAY(ctl_check, "check", name, "1"), CTL_TROUBLE);
	assert_int_equal(SAY(ctl_check, "check", "a", "1", "--policy", name), CTL_TROUBLE);
	assert_says("a policy's at most 256");
	assert_int_equal(SAY(ctl_check, "check", "\x1b[31m", "4"), CTL_OK);
	assert_null(strchr(said, 0x1b));
}

static void explain_says_where_a_limit_comes_from(void **state)
{
	(void)state;
	assert_int_equal(SAY(ctl_explain, "explain", "a"), CTL_OK);
	assert_says("a: limit of active streams: unlimited\n");
	assert_says("limit     no limits have been published\n");
	assert_says("the next new stream is let in: there is no limit\n");
	publish_limits(5, 2, LIMIT_INSTANCE, false);
	assert_int_equal(SAY(ctl_explain, "explain", "a"), CTL_OK);
	assert_says("a: limit of active streams: 5\n");
	assert_says("limit     its entry in limits.yaml\n");
	assert_says("share     5 x 2 owned / 4 partitions, rounded up, = 3\n");
	assert_says("active    1 (default bucket) in 2 partitions, 2 of them ready\n");
	assert_says("\nheadroom  2\ndry run   no\n");
	assert_null(strstr(said, "seen      never"));
	assert_says("5      3        1         2  (default)\n");
	assert_says("2      1        1         0  gold\n");
	assert_says("1  gold       gold\n");
	assert_says("0  ready        2  decided here\n1  ready        0  decided here\n");
	assert_says("\nthe next new stream is let in: 2 more fit\n");
	assert_says("the next new stream of policy gold is rejected (reason 2, max streams): 1 "
		    "active streams fill the share of 1; there is room again when 1 of them has "
		    "expired\n");
	assert_says("streams of the other 2 partitions are decided by other instances\n");
	/* One that nobody has heard of, by default; its name is hostile. */
	assert_int_equal(SAY(ctl_explain, "explain", "\x1b[2Jx"), CTL_OK);
	assert_says("user: limits.file is not set\n");
	assert_says("\nseen      never: no partition of this instance has heard of it\n");
	atomic_store(&table_head_mut(&run.table)->limits_state, LOAD_OK);
	assert_int_equal(SAY(ctl_explain, "explain", "\x1b[2Jx"), CTL_OK);
	assert_says("\\x1b[2Jx: limit of active streams: 7\n");
	assert_says("limits.yaml has no entry for it\n");
	assert_null(strchr(said, 0x1b));
	assert_int_equal(SAY(ctl_explain, "explain"), CTL_TROUBLE);
}

static void explain_says_what_happens_next_and_why(void **state)
{
	(void)state;
	publish_limits(2, 2, LIMIT_INSTANCE, true);
	assert_int_equal(SAY(ctl_explain, "explain", "a"), CTL_OK);
	assert_says("dry run   yes: nothing is rejected");
	assert_says("the next new stream is let in, and counted as a would-be rejection: 1 active");
	publish_limits(4, 4, LIMIT_PARTITION, false);
	assert_int_equal(SAY(ctl_explain, "explain", "a"), CTL_OK);
	assert_says("share     4 / 4 = 1 in each of the 2 partitions of this instance\n");
	assert_says("0  ready        2  full\n1  ready        0  decided here\n");
	assert_says("the next new stream depends on its partition: 1 of 2 are full, in the others "
		    "1 more fit\n");
	run_publish(&run, 1, PART_REPLAYING, 11);
	assert_int_equal(SAY(ctl_explain, "explain", "a"), CTL_INCOMPLETE);
	assert_says("1  replaying        0  failed (reason 1) until it is ready\n");
	assert_says("but streams of the 1 partition not ready are not decided: failed");
	run_publish(&run, 0, PART_REPLAYING, 10);
	assert_int_equal(SAY(ctl_explain, "explain", "a"), CTL_INCOMPLETE);
	assert_says("the next new stream nobody decides here: none of the 2 partitions is ready\n");
	atomic_store(&table_head_mut(&run.table)->stopped, 1);
	run_publish(&run, 0, PART_STOPPED, 10);
	run_publish(&run, 1, PART_STOPPED, 11);
	assert_int_equal(SAY(ctl_explain, "explain", "a"), CTL_OK);
	assert_int_equal(strncmp(said, "tallyd is not running", 21), 0);
	assert_says("active    1 (default bucket) in 2 partitions, 0 of them ready\n");
	assert_says("nobody decides: tallyd is not running\n");
	ctl.json = true;
	assert_int_equal(SAY(ctl_explain, "explain", "a"), CTL_OK);
	json_t *object = parsed();
	json_t *gold = json_array_get(json_object_get(object, "buckets"), 1);
	assert_string_equal(json_string_value(json_object_get(gold, "policy")), "gold");
	assert_string_equal(json_string_value(json_object_get(gold, "next")), "undecided");
	assert_int_equal(json_integer_value(json_object_get(gold, "share")), 2);
	assert_int_equal(json_array_size(json_object_get(object, "partitions")), 2);
	assert_true(json_is_true(json_object_get(object, "stale")));
	json_decref(object);
}

/* ------------------------------------------------------------------ check --admit */

/* A tally-queryd of one answer, in a child: takes a request, notes it, answers. */
static pid_t queryd_start(const char *answer)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char path[100], text[64];
	assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	getsockname(fd, (struct sockaddr *)&address, &len);
	snprintf(path, sizeof path, "%s/query.http", run.dir);
	FILE *file = fopen(path, "w");
	fprintf(file, "127.0.0.1:%d\n", ntohs(address.sin_port));
	fclose(file);
	snprintf(path, sizeof path, "%s/request", run.dir);
	pid_t pid = fork();
	if (pid) {
		close(fd);
		return pid;
	}
	alarm(20);
	static char request[65536];
	int to = accept(fd, NULL, NULL);
	size_t got = 0, need = SIZE_MAX;
	while (got < need) {
		ssize_t more = read(to, request + got, sizeof request - 1 - got);
		if (more <= 0)
			_exit(1);
		got += (size_t)more;
		char *body = strstr(request, "\r\n\r\n"),
		     *length = strcasestr(request, "content-length:");
		if (body && length)
			need = (size_t)(body + 4 - request) + strtoul(length + 15, NULL, 10);
	}
	file = fopen(path, "w");
	fputs(request, file);
	fclose(file);
	snprintf(text, sizeof text, "Content-Length: %zu\r\n\r\n",
		strchr(answer, '{') ? strlen(strchr(answer, '{')) : 0);
	dprintf(to, "HTTP/1.1 %.*s\r\n%s%s", (int)strcspn(answer, "{"), answer, text,
		strchr(answer, '{') ? strchr(answer, '{') : "");
	_exit(0);
}

static void queryd_end(pid_t pid)
{
	char path[100];
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	snprintf(path, sizeof path, "%s/request", run.dir);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	said[fread(said, 1, sizeof said - 1, file)] = 0;
	fclose(file);
}

static void check_admits_by_asking_tally_queryd(void **state)
{
	(void)state;
	pid_t pid = queryd_start("200 OK{\"results\":[{\"result\":\"accepted\"},"
				 "{\"result\":\"rejected\"},{\"result\":\"\\u001b[31mx\"}]}");
	assert_int_equal(SAY(ctl_check, "check", "--admit", "--policy", "gold", "--bytes", "7", "a",
				 "18446744073709551615", "4", "5"),
		CTL_INCOMPLETE);
	assert_says("3  0xffffffffffffffff  accepted\n");
	assert_says("0  0x0000000000000004  rejected\n");
	assert_says("1  0x0000000000000005  unknown\n"); /* hostile */
	assert_says("1 of 3 came in, 1 was rejected, 1 could not be decided");
	queryd_end(pid);
	assert_says("POST /api/v1/exceeds-limits HTTP/1.1\r\n");
	assert_says("Content-Type: application/json\r\n");
	assert_says("{\"tenant\":\"a\",\"streams\":[{\"streamHash\":\"18446744073709551615\","
		    "\"totalSize\":\"7\",\"ingestionPolicy\":\"gold\"},");
	pid = queryd_start("200 OK{\"results\":[{\"result\":\"failed\"}]}");
	assert_int_equal(SAY(ctl_check, "check", "--admit", "a", "1"), CTL_UNDECIDED);
	queryd_end(pid);
	pid = queryd_start("503 Busy{\"error\":\"not_ready\",\"reason\":\"ask \\u001b again\"}");
	assert_int_equal(SAY(ctl_check, "check", "--admit", "a", "1"), CTL_TROUBLE);
	assert_says("answered 503: ask \\x1b again\n");
	queryd_end(pid);
	pid = queryd_start("200 OK");
	assert_int_equal(SAY(ctl_check, "check", "--admit", "a", "1"), CTL_TROUBLE);
	assert_says("not in a way that can be read");
	queryd_end(pid);
	assert_int_equal(SAY(ctl_check, "check", "--admit", "a", "1"), CTL_TROUBLE);
	assert_says("is it running?\n"); /* it has gone */
}

static void check_asks_only_an_address(void **state)
{
	(void)state;
	char path[100];
	assert_int_equal(SAY(ctl_check, "check", "--admit", "a", "1"), CTL_TROUBLE);
	assert_says("no tally-queryd listens for ");
	assert_says(": 'tallyctl status' says whether it is starting, dying or disabled "
		    "(query.enabled)\n");
	static const char *const bad[] = {"", "x", "example.com:80", "127.0.0.1:1/x",
		"@127.0.0.1:1", "127.0.0.1", "file:///x"};
	snprintf(path, sizeof path, "%s/query.http", run.dir);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		FILE *file = fopen(path, "w");
		fputs(bad[i], file);
		fclose(file);
		assert_int_equal(SAY(ctl_check, "check", "--admit", "a", "1"), CTL_TROUBLE);
		assert_says("does not hold an address");
	}
}

/* ------------------------------------------------------------------ numbers */

static void numbers_are_short_and_true(void **state)
{
	(void)state;
	char to[CTL_TEXT_SIZE];
	static const struct {
		uint64_t n;
		const char *count, *bytes;
	} cases[] = {
		{0, "0", "0 B"},
		{999, "999", "999 B"},
		{1024, "1024", "1.00 KiB"},
		{99999, "99999", "97.7 KiB"},
		{100000, "100k", "97.7 KiB"},
		{999499, "999k", "976 KiB"},
		{999999, "1.00M", "977 KiB"},
		{1234567, "1.23M", "1.18 MiB"},
		{UINT64_MAX, "18.4E", "16.0 EiB"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_string_equal(ctl_count(to, cases[i].n), cases[i].count);
		assert_string_equal(ctl_bytes(to, (double)cases[i].n), cases[i].bytes);
	}
	assert_string_equal(ctl_span(to, -5), "0.0 s");
	assert_string_equal(ctl_span(to, 4200), "4.2 s");
	assert_string_equal(ctl_span(to, 119999), "119 s");
	assert_string_equal(ctl_span(to, 7199999), "119 min");
	assert_string_equal(ctl_span(to, 7200000 + 300000), "2 h 5 min");
	assert_string_equal(ctl_span(to, INT64_MAX), "106751991167 d 7 h");
	assert_string_equal(ctl_offset(to, -1), "-");
	assert_string_equal(ctl_offset(to, INT64_MAX), "9223372036854775807");
	assert_string_equal(ctl_clock(to, 1740801906000), "2025-03-01 04:05:06Z");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(status_ends_with_one_line_that_says_it_all),
		TEST(status_says_when_the_topic_has_more_or_fewer_partitions),
		TEST(status_says_when_no_query_process_lives),
		TEST(status_tells_a_frozen_tallyd_from_one_that_is_gone),
		TEST(status_says_when_a_worker_gives_no_sign_of_life),
		TEST(status_says_which_limits_hold),
		TEST(commands_check_their_words_before_they_attach),
		TEST(status_names_a_few_of_many_that_are_not_ready),
		TEST(commands_answer_and_say_so_when_tallyd_is_stopped),
		TEST(commands_say_when_an_answer_is_not_complete),
		TEST(tenants_escapes_names_and_pages),
		TEST(stream_keeps_all_digits_of_a_hash),
		TEST(commands_refuse_words_they_do_not_know),
		TEST(errors_say_what_was_meant),
		TEST(an_instance_that_is_not_there_is_named_with_who_named_it),
		TEST(who_watches_waits_for_an_instance),
		TEST(who_watches_does_not_wait_in_vain),
		TEST(top_without_a_terminal_prints_and_says_what_else_there_is),
		TEST(every_command_prints_json),
		TEST(status_tells_all_of_one_partition),
		TEST(check_says_what_would_come_in),
		TEST(check_trusts_nothing_that_is_not_ready),
		TEST(check_refuses_what_it_does_not_know),
		TEST(explain_says_where_a_limit_comes_from),
		TEST(explain_says_what_happens_next_and_why),
		TEST(check_admits_by_asking_tally_queryd),
		TEST(check_asks_only_an_address),
		cmocka_unit_test(numbers_are_short_and_true),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
