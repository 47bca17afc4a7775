/*
 * handoff.c - all that a worker is told at exec, packed and unpacked by the same file.
 *
 *	struct fixed | quarantine offsets | strings, each NUL-terminated, in a fixed order
 *
 * Both ends are of one build: `fixed.size` and the magic say so, anything else
 * is refused.  The reader still checks every length, so a garbled handoff ends
 * as EXIT_HANDOFF, not as a crash.
 *
 * Runs in: supervisor (pack), worker (unpack).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/check.h"
#include "shm/err.h"
#include "shm/handoff.h"
#include "shm/table.h"
#include "shm/window.h"

#define HANDOFF_MAGIC	 0x54414c4c594f4646u
#define HANDOFF_SIZE_MAX (1u << 20)

/* The plain part of struct handoff: everything before its first pointer. */
struct fixed {
	uint64_t magic, size, n_strings;
	struct handoff plain; /* pointers in it mean nothing */
};

struct buffer {
	char *data;
	size_t len, cap;
	bool failed;
};

static void append(struct buffer *b, const void *data, size_t len)
{
	if (b->failed || len > HANDOFF_SIZE_MAX || b->len + len > HANDOFF_SIZE_MAX) {
		b->failed = true;
		return;
	}
	if (b->len + len > b->cap) {
		size_t cap = (b->len + len) * 2;
		char *data_new = realloc(b->data, cap);
		if (!data_new) {
			b->failed = true;
			return;
		}
		b->data = data_new;
		b->cap = cap;
	}
	memcpy(b->data + b->len, data, len);
	b->len += len;
}

static void append_string(struct buffer *b, const char *text)
{
	append(b, text ? text : "", (text ? strlen(text) : 0) + 1);
}

static void clear_pointers(struct handoff *plain)
{
	plain->run_dir = plain->topic = plain->zone = NULL;
	for (uint32_t i = 0; i < HANDOFF_PROPERTIES_MAX; i++)
		plain->properties[i].name = plain->properties[i].value = NULL;
}

static int write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_from_errno(errno);
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static int seal(const struct buffer *b, int *out)
{
	int fd = memfd_create("tally-handoff", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return err_from_errno(errno);
	int err = write_all(fd, b->data, b->len);
	if (!err &&
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL))
		err = err_from_errno(errno);
	if (err)
		close(fd);
	else
		*out = fd;
	return err;
}

int handoff_pack(const struct handoff *handoff, int *fd)
{
	struct fixed fixed = {.magic = HANDOFF_MAGIC, .size = sizeof fixed, .plain = *handoff};
	struct buffer b = {0};
	if (handoff->n_properties > HANDOFF_PROPERTIES_MAX ||
		handoff->n_quarantine > HANDOFF_QUARANTINE_MAX)
		return ERR_INVALID;
	fixed.n_strings = 3 + 2 * (uint64_t)handoff->n_properties;
	clear_pointers(&fixed.plain);
	append(&b, &fixed, sizeof fixed);
	append_string(&b, handoff->run_dir);
	append_string(&b, handoff->topic);
	append_string(&b, handoff->zone);
	for (uint32_t i = 0; i < handoff->n_properties; i++) {
		append_string(&b, handoff->properties[i].name);
		append_string(&b, handoff->properties[i].value);
	}
	int err = b.failed ? ERR_NOMEM : seal(&b, fd);
	if (b.data)
		explicit_bzero(b.data, b.len); /* passwords */
	free(b.data);
	return err;
}

/* ------------------------------------------------------------------ unpack */

static int read_into(int fd, char *data, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = pread(fd, data + at, len - at, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? err_from_errno(errno) : ERR_FORMAT;
		at += (size_t)n;
	}
	return 0;
}

static int read_all(int fd, char **data, size_t *len)
{
	struct stat st;
	if (fstat(fd, &st))
		return err_from_errno(errno);
	if (st.st_size < (off_t)sizeof(struct fixed) || st.st_size > HANDOFF_SIZE_MAX)
		return ERR_FORMAT;
	*len = (size_t)st.st_size;
	*data = malloc(*len);
	int err = *data ? read_into(fd, *data, *len) : ERR_NOMEM;
	if (err)
		free(*data);
	return err;
}

/* Takes the next string; NULL when there is none or no memory. */
static char *take(const char **at, const char *end)
{
	const char *nul = memchr(*at, 0, (size_t)(end - *at));
	if (!nul)
		return NULL;
	char *text = strdup(*at);
	*at = nul + 1;
	return text;
}

static bool take_strings(struct handoff *h, const char *at, const char *end)
{
	bool ok = (h->run_dir = take(&at, end)) && (h->topic = take(&at, end)) &&
		  (h->zone = take(&at, end));
	for (uint32_t i = 0; ok && i < h->n_properties; i++)
		ok = (h->properties[i].name = take(&at, end)) &&
		     (h->properties[i].value = take(&at, end));
	return ok && at == end;
}

static bool properties_are_plausible(const struct handoff *h)
{
	for (uint32_t i = 0; i < h->n_properties; i++)
		if ((unsigned)h->properties[i].client > FOR_PRODUCERS)
			return false;
	return true;
}

/* A bool is read as a byte first: one that is neither 0 nor 1 must not be read as a bool. */
static bool is_plausible(const struct handoff *h)
{
	unsigned char adopt, produce, confine;
	memcpy(&adopt, &h->adopt, 1);
	memcpy(&produce, &h->produce, 1);
	memcpy(&confine, &h->confine, 1);
	return adopt <= 1 && produce <= 1 && confine <= 1 && properties_are_plausible(h) &&
	       (unsigned)h->log_level <= LOG_LEVEL_DEBUG && (unsigned)h->log_format <= LOG_JSON &&
	       (unsigned)h->on_lookup_failure <= ON_FAILURE_READY &&
	       h->generation <= TABLE_GENERATION_MAX && h->partitions &&
	       h->partition < h->partitions && h->partition < TABLE_CAPACITY && h->window_minutes &&
	       h->window_minutes <= WINDOW_MINUTES_MAX;
}

static int parse(const char *data, size_t len, struct handoff *h)
{
	struct fixed fixed;
	memcpy(&fixed, data, sizeof fixed);
	memcpy(h, &fixed.plain, sizeof *h);
	clear_pointers(h);
	if (fixed.magic != HANDOFF_MAGIC || fixed.size != sizeof fixed ||
		h->n_properties > HANDOFF_PROPERTIES_MAX ||
		h->n_quarantine > HANDOFF_QUARANTINE_MAX ||
		fixed.n_strings != 3 + 2 * (uint64_t)h->n_properties)
		return ERR_FORMAT;
	if (!is_plausible(h))
		return ERR_FORMAT;
	return take_strings(h, data + sizeof fixed, data + len) ? 0 : ERR_FORMAT;
}

int handoff_unpack(int fd, struct handoff *handoff)
{
	char *data = NULL;
	size_t len = 0;
	int err = read_all(fd, &data, &len);
	if (err)
		return err;
	must(data);
	err = parse(data, len, handoff);
	explicit_bzero(data, len);
	free(data);
	if (err)
		handoff_free(handoff);
	return err;
}

void handoff_free(struct handoff *handoff)
{
	free(handoff->run_dir);
	free(handoff->topic);
	free(handoff->zone);
	for (uint32_t i = 0; i < HANDOFF_PROPERTIES_MAX; i++) {
		free(handoff->properties[i].name);
		free(handoff->properties[i].value);
	}
	clear_pointers(handoff);
}
