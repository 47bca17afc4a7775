/*
 * metrics_processes.c - memory and processor time of tallyd, its workers, its query processes.
 *
 *	pids in the table --process_read--> tally_process_*
 *
 * A process that has gone meanwhile has no samples.
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include <stdio.h>
#include <stdlib.h>

#include "metrics.h"
#include "metrics_table.h"
#include "processes.h"
#include "prom.h"

#include "shm/check.h"

struct process {
	const char *kind;
	char partition[16]; /* "" = none */
	uint64_t resident, private, cpu_ms;
};

/* Adds what the process uses; false: there is no such process. */
static bool add(struct process *to, uint32_t pid)
{
	struct process_facts facts;

	if (!process_read(pid, &facts))
		return false;
	to->resident += facts.rss_bytes;
	to->private +=
		facts.rss_bytes > facts.shared_bytes ? facts.rss_bytes - facts.shared_bytes : 0;
	to->cpu_ms += facts.cpu_ms;
	return true;
}

static size_t look_at_all(const struct scrape *scrape, struct process *list)
{
	const struct tally_instance *instance = &scrape->instance;
	bool query = false;
	size_t n = 0;

	list[n] = (struct process){.kind = "supervisor"};
	n += instance->alive && add(&list[n], instance->supervisor_pid);
	list[n] = (struct process){.kind = "query"};
	for (unsigned i = 0; i < TALLY_QUERY_MAX && instance->query_pids[i] != 0; i++)
		query |= add(&list[n], instance->query_pids[i]);
	n += query;
	for (size_t p = 0; p < scrape->n; p++) {
		list[n] = (struct process){.kind = "worker"};
		metrics_number(list[n].partition, scrape->partitions[p].partition);
		n += add(&list[n], scrape->partitions[p].pid);
	}
	return n;
}

static void write_one(
	FILE *out, const char *name, const struct process *process, uint64_t value, double scale)
{
	char text[40];

	snprintf(text, sizeof(text), "%.15g", (double)value * scale);
	prom_sample(out, name,
		PROM_LABELS("process", process->kind, "partition", process->partition), text);
}

void metrics_processes(struct scrape *scrape)
{
	static const char resident[] = "tally_process_resident_memory_bytes",
			  private[] = "tally_process_private_memory_bytes",
			  cpu[] = "tally_process_cpu_seconds_total";
	struct process *list = calloc(scrape->n + 2, sizeof(*list));
	FILE *out = scrape->out;
	size_t n;

	must_get(list != NULL);
	n = look_at_all(scrape, list);
	metrics_head(out, resident);
	for (size_t i = 0; i < n; i++)
		write_one(out, resident, &list[i], list[i].resident, 1);
	metrics_head(out, private);
	for (size_t i = 0; i < n; i++)
		write_one(out, private, &list[i], list[i].private, 1);
	metrics_head(out, cpu);
	for (size_t i = 0; i < n; i++)
		write_one(out, cpu, &list[i], list[i].cpu_ms, 1e-3);
	free(list);
}
