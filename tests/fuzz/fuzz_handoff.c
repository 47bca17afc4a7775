/*
 * fuzz_handoff.c - what a worker reads at its start: a good handoff, changed as the input says.
 *
 *	0 patch
 *	1 n:2		so many properties, in both places that say it
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "patch.h"

#include "shm/err.h"
#include "shm/handoff.h"
#include "shm/table.h"
#include "shm/window.h"

static struct image good;

static int file_of(const struct image *image)
{
	int fd = memfd_create("fuzz-handoff", MFD_CLOEXEC);

	hold(fd >= 0);
	hold(image->len == 0 || write(fd, image->bytes, image->len) == (ssize_t)image->len);
	return fd;
}

static void image_read(struct image *image, int fd)
{
	image->len = image->cap = (size_t)lseek(fd, 0, SEEK_END);
	image->bytes = malloc(image->len);
	hold(image->bytes != NULL);
	hold(pread(fd, image->bytes, image->len, 0) == (ssize_t)image->len);
}

static char *word(const char *text)
{
	return (char *)(uintptr_t)text;
}

static void make_good(void)
{
	struct handoff handoff = {
		.partition = 3,
		.partitions = 8,
		.generation = 77,
		.window_minutes = 120,
		.map_bytes = UINT64_C(1) << 30,
		.run_dir = word("/run/tally"),
		.topic = word("usage"),
		.zone = word("zone-a"),
		.properties = {{word("bootstrap.servers"), word("127.0.0.1:9092"), FOR_ALL_CLIENTS},
			{word("linger.ms"), word("5"), FOR_PRODUCERS}},
		.n_properties = 2,
		.quarantine = {12, 13},
		.n_quarantine = 2,
	};
	int fd;

	hold(handoff_pack(&handoff, &fd) == 0);
	image_read(&good, fd);
	close(fd);
}

static void hold_plausible(const struct handoff *handoff)
{
	size_t length = strlen(handoff->run_dir) + strlen(handoff->topic) + strlen(handoff->zone);

	hold(handoff->partition < handoff->partitions && handoff->partition < TABLE_CAPACITY);
	hold(handoff->generation <= TABLE_GENERATION_MAX);
	hold(handoff->window_minutes >= 1 && handoff->window_minutes <= WINDOW_MINUTES_MAX);
	hold(handoff->n_properties <= HANDOFF_PROPERTIES_MAX);
	hold(handoff->n_quarantine <= HANDOFF_QUARANTINE_MAX);
	for (uint32_t i = 0; i < handoff->n_properties; i++)
		length +=
			strlen(handoff->properties[i].name) + strlen(handoff->properties[i].value);
	hold(length < 1 << 20);
}

/* shm/handoff.c: magic, size, n_strings, then the struct. */
#define STRINGS_AT    16
#define PROPERTIES_AT (24 + offsetof(struct handoff, n_properties))

static void set_properties(struct image *image, uint32_t n)
{
	uint64_t strings = 3 + 2 * (uint64_t)n;

	if (image->len < PROPERTIES_AT + sizeof(n))
		return;
	memcpy(image->bytes + STRINGS_AT, &strings, sizeof(strings));
	memcpy(image->bytes + PROPERTIES_AT, &n, sizeof(n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct image image;
	struct input in = {data, len};
	struct handoff handoff, again;
	int fd, packed;

	if (good.bytes == NULL)
		make_good();
	image_reset(&image, &good);
	while (in.left > 0)
		if (take(&in, 1) % 2)
			set_properties(&image, (uint32_t)take(&in, 2));
		else
			image_patch(&image, &in);
	fd = file_of(&image);
	if (handoff_unpack(fd, &handoff) == 0) {
		hold_plausible(&handoff);
		hold(handoff_pack(&handoff, &packed) == 0);
		hold(handoff_unpack(packed, &again) == 0);
		hold(strcmp(handoff.topic, again.topic) == 0);
		hold(handoff.n_properties == again.n_properties);
		close(packed);
		handoff_free(&again);
		handoff_free(&handoff);
	}
	close(fd);
	return 0;
}
