/*
 * client_history.c - what became of a partition lately.
 *
 *	run directory: history --tally_change--> caller's array
 *
 * Mapped for the call only: it is asked for seldom, and a supervisor may have
 * replaced it since.
 *
 * Runs in: readers.
 */
#include <stdio.h>

#include "shm/client_private.h"
#include "shm/err.h"
#include "shm/history.h"

static void describe(const struct history_change *from, struct tally_change *to)
{
	*to = (struct tally_change){.at_ms = (int64_t)from->at_ms, .generation = from->generation};
	snprintf(to->from, sizeof to->from, "%s", part_state_word(from->from));
	snprintf(to->to, sizeof to->to, "%s", part_state_word(from->to));
	client_text(to->why, sizeof to->why, from->why, sizeof from->why);
	snprintf(to->death, sizeof to->death, "%s", part_death_word(from->death));
	client_describe_death(
		from->death, from->death_code, to->death_detail, sizeof to->death_detail);
}

int tally_history(
	struct tally *tally, uint32_t partition, struct tally_change *out, size_t cap, size_t *n)
{
	struct history_change changes[HISTORY_LENGTH];
	struct history history;
	if (!tally || !n || (cap && !out))
		return TALLY_EINVALID;
	*n = 0;
	int err = client_enter(tally);
	if (!err && partition >= client_partitions(tally))
		err = ERR_INVALID;
	if (err)
		return client_public(err);
	err = history_attach(tally->dirfd, &history);
	if (err == ERR_NOT_FOUND || err == ERR_FORMAT) /* of a tallyd that keeps none, or another */
		return 0;
	if (err)
		return client_public(err);
	*n = history_read(
		&history, partition, changes, cap < HISTORY_LENGTH ? cap : HISTORY_LENGTH);
	for (size_t i = 0; i < *n; i++)
		describe(&changes[i], &out[i]);
	history_close(&history);
	return 0;
}
