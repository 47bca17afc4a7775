/*
 * attach.c - tallyctl opens the run directory, when the words of its command are known to be good.
 */
#include "ctl.h"

static int attach(struct ctl *ctl)
{
	if (ctl->tally)
		return 0;
	int err = tally_open(ctl->run_dir, TALLY_STALE_OK, &ctl->tally);
	if (!err)
		err = tally_instance(ctl->tally, &ctl->instance);
	if (err)
		tally_close(&ctl->tally);
	else
		ctl->attached = true;
	return err;
}

int ctl_attach(struct ctl *ctl)
{
	int err = attach(ctl);
	return err ? ctl_cannot_attach(ctl, err) : 0;
}

int ctl_attach_or_wait(struct ctl *ctl)
{
	int err = attach(ctl);
	ctl->waits = true;
	return !err || ctl_can_wait(ctl, err) ? 0 : ctl_cannot_attach(ctl, err);
}

int ctl_refresh(struct ctl *ctl)
{
	if (!ctl->tally)
		return ctl_attach(ctl);
	tally_idle(ctl->tally);
	int err = tally_instance(ctl->tally, &ctl->instance);
	return err ? ctl_cannot_attach(ctl, err) : 0;
}
