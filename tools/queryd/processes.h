/*
 * processes.h - what a process takes of the machine, by /proc.
 */
#ifndef TALLY_QUERYD_PROCESSES_H
#define TALLY_QUERYD_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

struct process_facts {
	uint64_t rss_bytes;    /* resident */
	uint64_t shared_bytes; /* of that, pages of files: the store's, and the program's */
	uint64_t cpu_ms;       /* of all its threads, user and system, since it started */
	uint64_t threads;
	int64_t age_ms;
};

/* false: there is no such process, or /proc does not show it to us. */
bool process_read(uint32_t pid, struct process_facts *facts);

/* The same from the text of /proc/PID/stat and statm: pure. */
bool process_parse(
	const char *stat, const char *statm, uint64_t boot_ms, struct process_facts *facts);

#endif
