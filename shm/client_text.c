/*
 * client_text.c - the words of libtally: codes, and texts that can be trusted.
 *
 *	ERR_* --client_public--> TALLY_E* --tally_error--> a sentence
 *	bytes of a mapped file --client_text--> NUL-terminated UTF-8
 *
 * Runs in: every reader.  Blocks in: nowhere.
 */
#include <string.h>

#include "shm/client_private.h"
#include "shm/err.h"
#include "shm/record.h"

_Static_assert(TALLY_ENOMEM == ERR_NOMEM && TALLY_EIO == ERR_IO && TALLY_ECORRUPT == ERR_CORRUPT &&
		       TALLY_EFORMAT == ERR_FORMAT && TALLY_EACCESS == ERR_ACCESS &&
		       TALLY_ENOTFOUND == ERR_NOT_FOUND && TALLY_EBUSY == ERR_BUSY &&
		       TALLY_ESTALE == ERR_STALE && TALLY_ENOTREADY == ERR_NOT_READY &&
		       TALLY_EINVALID == ERR_INVALID && TALLY_ENAMESPACE == ERR_NAMESPACE,
	"public codes are the internal ones");

int client_public(int err)
{
	switch (err) {
	case 0:
	case ERR_NOMEM:
	case ERR_CORRUPT:
	case ERR_FORMAT:
	case ERR_ACCESS:
	case ERR_NOT_FOUND:
	case ERR_BUSY:
	case ERR_STALE:
	case ERR_NOT_READY:
	case ERR_INVALID:
	case ERR_NAMESPACE:
		return err;
	case ERR_IDENTITY:
		return ERR_NOT_READY;
	default:
		return ERR_IO;
	}
}

const char *tally_error(int err)
{
	switch (err) {
	case 0:
		return "success";
	case TALLY_ENOMEM:
		return "out of memory";
	case TALLY_ECORRUPT:
		return "the store contradicts itself; its worker will make a new one";
	case TALLY_EFORMAT:
		return "not written by this version of Tally; use the tools that came with the "
		       "tallyd "
		       "that runs";
	case TALLY_EACCESS:
		return "permission denied, or a run directory that everybody can write; "
		       "join the group of the run directory";
	case TALLY_ENOTFOUND:
		return "not found";
	case TALLY_EBUSY:
		return "all reader slots of a store are taken; try again or raise store.readers";
	case TALLY_ESTALE:
		return "tallyd has stopped or is gone";
	case TALLY_ENOTREADY:
		return "the partition that could answer is not ready";
	case TALLY_EINVALID:
		return "an argument out of its range";
	case TALLY_ENAMESPACE:
		return "tallyd runs in another PID namespace; read from its own, or ask "
		       "tally-queryd";
	case TALLY_EIO:
		return "the operating system refused";
	default:
		return "an error code that this version does not know";
	}
}

void client_text(char *to, size_t size, const char *from, size_t max)
{
	size_t len = strnlen(from, max < size - 1 ? max : size - 1);
	memcpy(to, from, len);
	to[len] = 0;
	len = strlen(to); /* the file may change under us */
	if (record_text_ok(to, len))
		return;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)to[i] >= 0x80)
			to[i] = '?';
}

bool client_name_ok(const char *name)
{
	size_t len = name ? strnlen(name, USAGE_NAME_SIZE + 1) : 0;
	return len > 0 && len <= USAGE_NAME_SIZE;
}
