/*
 * attach.c - tallyctl opens the run directory, when the words of its command are known to be good.
 */
#include "ctl.h"

int ctl_attach(struct ctl *ctl)
{
	if (ctl->tally)
		return 0;
	int err = tally_open(ctl->run_dir, TALLY_STALE_OK, &ctl->tally);
	if (!err)
		err = tally_instance(ctl->tally, &ctl->instance);
	if (!err) {
		ctl->attached = true;
		return 0;
	}
	tally_close(&ctl->tally);
	return ctl_cannot_attach(ctl, err);
}

int ctl_refresh(struct ctl *ctl)
{
	if (!ctl->tally)
		return ctl_attach(ctl);
	tally_idle(ctl->tally);
	int err = tally_instance(ctl->tally, &ctl->instance);
	return err ? ctl_cannot_attach(ctl, err) : 0;
}
