/*
 * sites.c - makes a map, arms a site in it, and lists what was reached and what has failed.
 *
 *	sites new MAP
 *	sites list MAP             KEY CALL COUNT ERRORS FAILED PID FRAMES: a line for each site
 *	sites arm MAP KEY ERROR N  it fails with the ERRORth of its errors, the Nth time from now
 *	sites disarm MAP           what has not failed by now does not
 *	sites names                the calls that can be made to fail
 *	sites errors               CALL ERROR ERROR ...: with what, in the order of their numbers
 *
 * FRAMES are places in the program's file, comma between, for addr2line.
 *
 * Runs in: tests/calls/.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/calls/calls.h"
#include "tests/calls/map.h"

static int new_map(const char *path)
{
	static const struct map empty = {.magic = MAP_MAGIC};
	int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
	bool good = fd >= 0 && write(fd, &empty, sizeof empty) == (ssize_t)sizeof empty;
	if (!good)
		perror(path);
	return good ? 0 : 1;
}

static struct map *open_map(const char *path)
{
	int fd = open(path, O_RDWR);
	struct map *map =
		fd < 0 ? MAP_FAILED
		       : mmap(NULL, sizeof *map, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED || map->magic != MAP_MAGIC) {
		fprintf(stderr, "sites: %s is no map\n", path);
		exit(2);
	}
	return map;
}

static void list(const struct map *map)
{
	for (size_t i = 0; i < SITES_MAX; i++) {
		const struct site *s = &map->sites[i];
		uint64_t key = atomic_load(&s->key);
		if (!key)
			continue;
		printf("%016" PRIx64 " %s %u %d %u %u ", key, calls[s->call].name,
			atomic_load(&s->count), calls[s->call].n_errors, atomic_load(&s->failed),
			atomic_load(&s->pid));
		for (unsigned f = 0; f < FRAMES && s->frames[f]; f++)
			printf("%s%#x", f ? "," : "", s->frames[f] - 1);
		putchar('\n');
	}
	if (atomic_load(&map->lost))
		fprintf(stderr, "sites: %u arrivals had no place\n", atomic_load(&map->lost));
}

static int arm(struct map *map, const char *key, const char *error, const char *n)
{
	for (size_t i = 0; i < SITES_MAX; i++) {
		struct site *s = &map->sites[i];
		if (atomic_load(&s->key) != strtoull(key, NULL, 16))
			continue;
		atomic_store(&s->failed, 0);
		atomic_store(&s->error, (uint32_t)strtoul(error, NULL, 10));
		atomic_store(&s->armed, (uint32_t)strtoul(n, NULL, 10));
		return 0;
	}
	fprintf(stderr, "sites: no site %s\n", key);
	return 1;
}

static void disarm(struct map *map)
{
	for (size_t i = 0; i < SITES_MAX; i++)
		atomic_store(&map->sites[i].armed, 0);
}

static int usage(void)
{
	fputs("usage: sites new MAP | list MAP | arm MAP KEY ERROR N | disarm MAP | names | "
	      "errors\n",
		stderr);
	return 2;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	if (!strcmp(what, "names") && argc == 2) {
		for (size_t i = 0; i < N_CALLS; i++)
			puts(calls[i].name);
		return 0;
	}
	if (!strcmp(what, "errors") && argc == 2) {
		for (size_t i = 0; i < N_CALLS; i++)
			printf("%s %s\n", calls[i].name, calls[i].words);
		return 0;
	}
	if (!strcmp(what, "new") && argc == 3)
		return new_map(argv[2]);
	if (!strcmp(what, "list") && argc == 3)
		return list(open_map(argv[2])), 0;
	if (!strcmp(what, "disarm") && argc == 3)
		return disarm(open_map(argv[2])), 0;
	if (!strcmp(what, "arm") && argc == 6)
		return arm(open_map(argv[2]), argv[3], argv[4], argv[5]);
	return usage();
}
