/*
 * replay.c - instead of libFuzzer: runs the files that are given, once each.
 *
 *	fuzz_record tests/fuzz/corpus/fuzz_record	(a directory: all files in it)
 *
 * For compilers that have no libFuzzer, and for debuggers.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "fuzz.h"

static unsigned long files;

static void run_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = NULL, *exact;
	size_t len = 0, got;

	if (file == NULL) {
		perror(path);
		exit(2);
	}
	do {
		data = realloc(data, len + 65536);
		hold(data != NULL);
		got = fread(data + len, 1, 65536, file);
		len += got;
	} while (got > 0);
	fclose(file);
	exact = fuzz_copy(data, len);
	free(data);
	files++;
	/* The last such line before a crash says which one it was. */
	fprintf(stderr, "input: %s\n", path);
	LLVMFuzzerTestOneInput(exact, len);
	free(exact);
}

static void run(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	char name[4096];

	if (dir == NULL) {
		run_file(path);
		return;
	}
	while ((entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		run_file(name);
	}
	closedir(dir);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		run(argv[i]);
	printf("%s: %lu inputs\n", argv[0], files);
	return files == 0;
}
