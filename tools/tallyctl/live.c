/*
 * live.c - tallyctl top on the whole terminal.
 *
 *	.-> top_read, details -> top_arrange -> top_draw -> screen_key -> top_key -.
 *	'---- each second, and at once when a key asks for it ---------------------'
 *
 * It asks nobody: while tallyd is stopped it shows what is left, and when another one starts,
 * that one.  What takes long to read is read less often, so keys are answered.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "screen.h"
#include "top.h"

#define BUDGET_MS 100
#define REST	  4 /* of five parts of the time: for keys */

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ------------------------------------------------------------------ details of one */

static int show_partition(struct ctl *ctl, void *arg)
{
	const struct top_ui *ui = arg;
	struct tally_partition partition;
	if (tally_partition(ctl->tally, ui->of_partition, &partition)) {
		printf("there is no partition %" PRIu32 " now\n", ui->of_partition);
		return CTL_INCOMPLETE;
	}
	ctl_print_partition(ctl, &partition);
	return CTL_OK;
}

/* What `tallyctl tenant` and `tallyctl explain` say. */
static int show_tenant(struct ctl *ctl, void *arg)
{
	struct top_ui *ui = arg;
	char *tenant[] = {"tenant", ui->of, NULL}, *explain[] = {"explain", ui->of, NULL};
	int code = ctl_tenant(ctl, 2, tenant);
	if (code == CTL_TROUBLE)
		return code;
	putchar('\n');
	return ctl_explain(ctl, 2, explain);
}

static void read_detail(struct top_data *data, struct top_ui *ui)
{
	int code;
	free(data->detail);
	data->detail = NULL;
	if (!ui->detail || !data->ctl->tally || *data->trouble)
		return;
	data->detail = ctl_capture(data->ctl,
		ui->of_pane == TOP_PARTS ? show_partition : show_tenant, ui, &code, NULL);
	ctl_plain(data->detail);
}

/* ------------------------------------------------------------------ the loop */

/* Gives when to read again. */
static int64_t read_all(struct top_data *data, struct top_ui *ui, uint64_t seconds)
{
	int64_t began = now_ms();
	top_read(data, BUDGET_MS);
	read_detail(data, ui);
	top_arrange(ui, data);
	ui->again = false;
	int64_t took = now_ms() - began, every = (int64_t)seconds * 1000;
	return now_ms() + (took * REST > every ? took * REST : every - took);
}

static void draw(const struct top_data *data, struct top_ui *ui)
{
	struct top_pen pen;
	screen_begin(&pen);
	top_draw(data, ui, &pen);
	screen_end(&pen);
}

static void run(struct top_data *data, struct top_ui *ui, uint64_t seconds)
{
	int64_t next = now_ms();
	while (!ui->quit) {
		int64_t left = next - now_ms();
		if (ui->again || (left <= 0 && !ui->paused)) {
			next = read_all(data, ui, seconds);
			left = next - now_ms();
		}
		draw(data, ui);
		int key = screen_key(ui->paused || left > 1000 ? 1000 : left > 0 ? (int)left : 0);
		while (key != TOP_NONE && !ui->quit) { /* a paste is one frame */
			top_key(ui, data, key);
			key = ui->again ? TOP_NONE : screen_key(0);
		}
	}
}

int top_live(struct ctl *ctl, uint64_t seconds)
{
	struct top_data data = {.ctl = ctl};
	struct top_ui ui = {.focus = TOP_TENANTS};
	if (!screen_open())
		return CTL_TROUBLE;
	run(&data, &ui, seconds);
	screen_close();
	top_free(&data);
	top_ui_free(&ui);
	screen_obey();
	return CTL_OK;
}
