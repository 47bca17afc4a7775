/*
 * trouble.c - one line on stderr that says what is wrong and what to do.
 */
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

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

/* Who may read is the group of the directory: name it when it can be seen. */
static int denied(const char *run_dir)
{
	struct stat st;
	if (stat(run_dir, &st))
		return ctl_usage(
			"%s: permission denied; join group tally-readers or use sudo", run_dir);
	if (st.st_mode & S_IWOTH)
		return ctl_usage("%s: everybody can write to it, so nothing in it can be trusted; "
				 "chmod o-w it, or give tallyd a run_dir of its own",
			run_dir);
	const struct group *group = getgrgid(st.st_gid);
	return ctl_usage("%s: permission denied; join group %s or use sudo", run_dir,
		group ? group->gr_name : "tally-readers");
}

int ctl_cannot_attach(const char *run_dir, int err)
{
	switch (err) {
	case TALLY_EACCESS:
		return denied(run_dir);
	case TALLY_ENOTFOUND:
		return ctl_usage("%s: no Tally has run here; start tallyd, or name its run_dir "
				 "with -d",
			run_dir);
	case TALLY_ESTALE:
		return ctl_usage("%s: left over from before the last boot; start tallyd", run_dir);
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
		ctl_usage("%s: not found in any partition that answered", name);
	else if (err == TALLY_ENOTREADY || err == TALLY_ESTALE)
		ctl_usage("%s: no partition can answer (%" PRIu32 " of %" PRIu32
			  " are assigned here%s); see 'tallyctl status'",
			name, ctl->instance.owned, ctl->instance.partitions,
			ctl->instance.alive ? ""
			: ctl_frozen(ctl)   ? ", tallyd is frozen or stuck"
					    : ", tallyd is not running");
	else if (err == TALLY_EACCESS)
		return denied(ctl->run_dir);
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
