/*
 * trouble.c - one line on stderr that says what is wrong and what to do.
 */
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl.h"

#include "shm/log.h"

/* Words that were typed, or that somebody sent: none of them drives the terminal. */
static void put_text(const char *text)
{
	for (unsigned n; *text; text += n ? n : 1) {
		n = log_printable(text);
		if (n)
			fwrite(text, 1, n, stderr);
		else
			fprintf(stderr, "\\x%02x", (unsigned char)*text);
	}
}

int ctl_usage(const char *fmt, ...)
{
	char text[4096];
	va_list args;
	fflush(stdout);
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	fputs("tallyctl: ", stderr);
	put_text(text);
	fputc('\n', stderr);
	return CTL_TROUBLE;
}

/* Given the group since this session began, which does not have it yet. */
static bool joined_since(const struct group *group)
{
	struct passwd entry, *user = NULL;
	char texts[4096];
	if (getpwuid_r(getuid(), &entry, texts, sizeof texts, &user) || !user)
		return false;
	for (char **name = group->gr_mem; *name; name++)
		if (!strcmp(*name, user->pw_name))
			return !group_member(group->gr_gid);
	return false;
}

/* Who may read is the group of the directory: name it when it can be seen. */
static int denied(const struct ctl *ctl)
{
	struct stat st;
	if (stat(ctl->run_dir, &st))
		return ctl_usage("%s: permission denied; join group tally-readers or use sudo",
			ctl->run_dir);
	if (st.st_mode & S_IWOTH)
		return ctl_usage("%s: everybody can write to it, so nothing in it can be trusted; "
				 "chmod o-w it, or give tallyd a run_dir of its own",
			ctl->run_dir);
	const struct group *group = getgrgid(st.st_gid);
	const char *name = group ? group->gr_name : "tally-readers";
	if (group && joined_since(group))
		return ctl_usage("%s: permission denied; you are in group %s, but this session "
				 "began before: log in again, or use 'newgrp %s'",
			ctl->run_dir, name, name);
	return ctl_usage(
		"%s: permission denied; join group %s ('sudo usermod -aG %s USER', then log "
		"in again) or use sudo",
		ctl->run_dir, name, name);
}

bool ctl_can_wait(const struct ctl *ctl, int err)
{
	struct stat st;
	bool other = !stat(ctl->run_dir, &st) && !S_ISDIR(st.st_mode);
	return (err == TALLY_ENOTFOUND && !other) || err == TALLY_ESTALE;
}

/* Which directory it was, who said so, and how to say another one. */
static int nothing_there(const struct ctl *ctl)
{
	struct stat st;
	const char *from = ctl->run_dir_from ? ctl->run_dir_from : "-d";
	bool is_dir = !stat(ctl->run_dir, &st);
	if (is_dir && !S_ISDIR(st.st_mode))
		return ctl_usage("%s: not a directory; name the run_dir of tallyd (by %s now) with "
				 "-d or TALLY_RUN_DIR",
			ctl->run_dir, from);
	if (ctl->waits)
		return ctl_usage("no instance at %s (run_dir by %s); waiting for tallyd to start",
			ctl->run_dir, from);
	return ctl_usage("%s%s: no Tally has run here (run_dir by %s); start tallyd, or name its "
			 "run_dir with -d or TALLY_RUN_DIR",
		ctl->run_dir, is_dir ? "" : " does not exist", from);
}

int ctl_cannot_attach(const struct ctl *ctl, int err)
{
	const char *run_dir = ctl->run_dir,
		   *cure = ctl->waits ? "waiting for tallyd to start" : "start tallyd";
	switch (err) {
	case TALLY_EACCESS:
		return denied(ctl);
	case TALLY_ENOTFOUND:
		return nothing_there(ctl);
	case TALLY_ESTALE:
		if (ctl->attached)
			return ctl_usage("%s: tallyd has stopped, and its run directory is gone; "
					 "%s",
				run_dir, cure);
		return ctl_usage("%s: left over from before the last boot; %s", run_dir, cure);
	case TALLY_EFORMAT:
		return ctl_usage("%s: written by another version of Tally; use the tallyctl that "
				 "came with the tallyd that runs",
			run_dir);
	case TALLY_ENAMESPACE:
		return ctl_usage("%s: its tallyd runs in another PID namespace; run tallyctl in "
				 "that container, or ask tally-queryd",
			run_dir);
	default:
		return ctl_usage("%s: %s", run_dir, tally_error(err));
	}
}

int ctl_failed(const struct ctl *ctl, const char *what, int err)
{
	char name[CTL_NAME_SIZE];
	ctl_name(name, what);
	if (err == TALLY_ENOTFOUND)
		ctl_usage("%s: not found in any partition that answered%s; 'tallyctl tenants' "
			  "lists the names",
			name,
			ctl->instance.ready < ctl->instance.owned
				? ", and not all are ready ('tallyctl status')"
				: "");
	else if (err == TALLY_ENOTREADY || err == TALLY_ESTALE)
		ctl_usage("%s: no partition can answer (%" PRIu32 " of %" PRIu32
			  " are assigned here%s); see 'tallyctl status'",
			name, ctl->instance.owned, ctl->instance.partitions,
			ctl->instance.alive ? ""
			: ctl_frozen(ctl)   ? ", tallyd is frozen or stuck"
					    : ", tallyd is not running");
	else if (err == TALLY_EACCESS)
		return denied(ctl);
	else if (err == TALLY_EINVALID)
		return ctl_usage("%s: must have 1 to 256 bytes", name);
	else
		ctl_usage("%s: %s", name, tally_error(err));
	return CTL_INCOMPLETE;
}

bool ctl_number(const char *what, const char *word, uint64_t min, uint64_t max, uint64_t *value)
{
	char *end;
	bool hex = word[0] == '0' && (word[1] == 'x' || word[1] == 'X');
	bool digit = hex ? word[2] && word[2] != '-' : *word >= '0' && *word <= '9';
	errno = 0;
	*value = strtoull(word, &end, hex ? 16 : 10);
	if (digit && !errno && !*end && *value >= min && *value <= max)
		return true;
	ctl_usage("%s: '%s' is not a number from %" PRIu64 " to %" PRIu64, what, word, min, max);
	return false;
}
