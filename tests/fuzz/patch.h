/*
 * patch.h - a good file, changed as the input says: cut, overwritten, pages swapped.
 *
 *	kind:1  bytes  at:3 n:1 bytes:n		fill  at:3 n:2 byte:1
 *	        copy   from:3 to:3 n:2		cut   to:3
 *
 * Inputs that are small can so reach deep into files that are large, and need not
 * hold what differs from machine to machine (boot id, namespace, clocks).
 */
#ifndef TALLY_TESTS_FUZZ_PATCH_H
#define TALLY_TESTS_FUZZ_PATCH_H

#include "fuzz.h"

struct image {
	uint8_t *bytes;
	size_t len, cap;
};

/* As it was. */
FUZZ_UNUSED static void image_reset(struct image *image, const struct image *good)
{
	if (image->cap < good->len) {
		image->bytes = realloc(image->bytes, good->len);
		image->cap = good->len;
	}
	hold(image->bytes != NULL);
	memcpy(image->bytes, good->bytes, good->len);
	image->len = good->len;
}

static void patch_bytes(struct image *image, struct input *in, size_t at)
{
	const uint8_t *bytes;
	size_t n = take_bytes(in, (size_t)take(in, 1), &bytes);

	if (n > image->len - at)
		n = image->len - at;
	if (n > 0)
		memcpy(image->bytes + at, bytes, n);
}

static void patch_fill(struct image *image, struct input *in, size_t at)
{
	size_t n = (size_t)take(in, 2);

	if (n > image->len - at)
		n = image->len - at;
	memset(image->bytes + at, (int)take(in, 1), n);
}

static void patch_copy(struct image *image, struct input *in, size_t from)
{
	size_t to = (size_t)take(in, 3) % image->len, n = (size_t)take(in, 2);

	if (n > image->len - from)
		n = image->len - from;
	if (n > image->len - to)
		n = image->len - to;
	memmove(image->bytes + to, image->bytes + from, n);
}

/* One change; what has no bytes any more stays so. */
FUZZ_UNUSED static void image_patch(struct image *image, struct input *in)
{
	unsigned kind = (unsigned)take(in, 1) % 4;
	size_t at = (size_t)take(in, 3);

	if (image->len == 0)
		return;
	at %= image->len;
	if (kind == 0)
		patch_bytes(image, in, at);
	else if (kind == 1)
		patch_fill(image, in, at);
	else if (kind == 2)
		patch_copy(image, in, at);
	else
		image->len = at;
}

#endif
