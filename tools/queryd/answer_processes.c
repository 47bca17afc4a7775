/*
 * answer_processes.c - what each process of the instance takes of the machine.
 *
 *	table: pids --process_read--> /api/v1/processes
 *
 * Two small files for each of at most some thousand processes, and only when asked.
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include <stdlib.h>
#include <unistd.h>

#include "answer.h"
#include "processes.h"

#include "shm/host.h"

static void add(json_t *list, const char *role, int64_t partition, uint32_t pid)
{
	struct process_facts facts = {0};
	bool seen = process_read(pid, &facts);
	json_t *one = json_object();

	json_object_set_new(one, "role", json_string(role));
	json_object_set_new(
		one, "partition", partition < 0 ? json_null() : json_integer(partition));
	json_object_set_new(one, "pid", json_integer(pid));
	json_object_set_new(one, "seen", json_boolean(seen));
	json_object_set_new(one, "rss_bytes", seen ? answer_count(facts.rss_bytes) : json_null());
	json_object_set_new(
		one, "shared_bytes", seen ? answer_count(facts.shared_bytes) : json_null());
	json_object_set_new(one, "cpu_ms", seen ? answer_count(facts.cpu_ms) : json_null());
	json_object_set_new(one, "threads", seen ? answer_count(facts.threads) : json_null());
	json_object_set_new(one, "age_ms", seen ? json_integer(facts.age_ms) : json_null());
	json_array_append_new(list, one);
}

int answer_processes(struct question *question, struct answer *answer)
{
	struct tally *table = question->seat->table;
	struct tally_partition *partitions;
	struct tally_instance instance;
	json_t *json, *list;
	size_t n;
	int err;

	err = tally_instance(table, &instance);
	if (err == 0)
		err = answer_list_partitions(table, &partitions, &n);
	if (err != 0)
		return err;
	list = json_array();
	if (instance.supervisor_pid != 0)
		add(list, "supervisor", -1, instance.supervisor_pid);
	for (size_t i = 0; i < TALLY_QUERY_MAX && instance.query_pids[i] != 0; i++)
		add(list, "query", -1, instance.query_pids[i]);
	for (size_t i = 0; i < n; i++)
		if (partitions[i].pid != 0)
			add(list, "worker", partitions[i].partition, partitions[i].pid);
	free(partitions);
	json = json_object();
	json_object_set_new(json, "processes", list);
	json_object_set_new(json, "answered_by", json_integer(getpid()));
	json_object_set_new(json, "clock_ms", answer_count(host_boot_ns() / 1000000));
	json_object_set_new(json, "now_ms", json_integer(tally_now_ms(table)));
	answer_json(answer, 200, json);
	return 0;
}
