/*
 * top.h - tallyctl top on the whole terminal: what is read, how it is shown, what keys do.
 *
 *	top_read ------> struct top_data --.
 *	                                   +--> top_draw --> pen (screen.c; tests: memory)
 *	key --top_key--> struct top_ui ----'
 *
 * Reading knows nothing of screens, drawing and keys nothing of terminals.
 */
#ifndef TALLYCTL_TOP_H
#define TALLYCTL_TOP_H

#include "ctl.h"

/* --- top_data.c: what there is ----------------------------------------------------------------- */

#define TOP_TENANTS_MAX 50000

struct top_tenant {
	char name[257];
	uint64_t streams, bytes;
	double bytes_per_sec;
	/* Its bucket that is nearest to its share, once it has been read (`round` > 0). */
	uint64_t limit, share, used; /* used: active streams of that bucket */
	char policy[257];
	bool dry_run, full;
	double nearness; /* used / share; 0 = no limit */
	uint64_t round;	 /* of top_read, in which the bucket was read last */
	bool listed;	 /* has an entry of its own in the limits ... */
	uint64_t as_of;	 /* ... of this version, plus one; 0 = not looked up */
};

struct top_data {
	struct ctl *ctl;
	char trouble[1024]; /* why nothing can be read now; "" = it can */
	struct tally_partition *parts;
	struct top_tenant *tenants;
	size_t n_parts, n_tenants;
	bool more_tenants; /* than TOP_TENANTS_MAX: those with fewer streams are left out */
	int tenants_err;   /* why there are none: TALLY_E... */
	size_t unread;	   /* tenants whose limits have not been read yet */
	struct tally_basis basis;
	int64_t now_ms;		     /* wall time, when it was read */
	char *detail;		     /* text about what was chosen; NULL: nothing was */
	char http[CTL_ADDRESS_SIZE]; /* of a query process; "" = none */
	uint64_t rounds;
	size_t next; /* tenant whose limits are the next to be read */
	/* What holds for all tenants without an entry; not `common_known`: not read in this round. */
	bool common_known, common_dry_run;
	struct tally_bucket common;
};

/*
 * Reads all anew; the limits of tenants for at most `budget_ms`, and goes on with the others the
 * next time.  Trouble is told in `trouble`.
 */
void top_read(struct top_data *data, int64_t budget_ms);
void top_free(struct top_data *data);

/* The bucket that is nearest to its share becomes the tenant's. */
void top_choose_bucket(struct top_tenant *tenant, const struct tally_bucket *buckets, size_t n,
	const struct tally_tenant_limits *limits);

/* --- top_keys.c: what is looked at --------------------------------------------------------------- */

enum top_key {
	TOP_NONE = 0x110000, /* above all characters */
	TOP_QUIT,
	TOP_RESIZED,
	TOP_UP,
	TOP_DOWN,
	TOP_PAGE_UP,
	TOP_PAGE_DOWN,
	TOP_HOME,
	TOP_END,
	TOP_BACKSPACE,
	TOP_HELP
};

enum top_pane { TOP_PARTS, TOP_TENANTS, TOP_PANES };
enum top_order { TOP_BY_NUMBER, TOP_BY_TROUBLE, TOP_PART_ORDERS };
enum top_sort { TOP_BY_NEARNESS, TOP_BY_STREAMS, TOP_BY_RATE, TOP_BY_NAME, TOP_SORTS };

struct top_list {
	size_t *order; /* indices of what is shown, in that order */
	size_t n;
	size_t at, first; /* chosen one; first in the window */
	size_t page;	  /* rows of the window */
	bool follows;	  /* the chosen one is a certain one, not just the first of the list */
	char chosen[257]; /* its name */
};

struct top_ui {
	enum top_pane focus;
	bool zoomed, paused, help, typing, quit, again;
	struct top_list list[TOP_PANES];
	enum top_order order;
	enum top_sort sort;
	char search[128], before[128]; /* before: when typing began */
	size_t scroll, scroll_max;     /* of help and details */
	/* Details of one: of a partition, or a tenant. */
	bool detail;
	char of[257];
	uint32_t of_partition;
	enum top_pane of_pane;
};

void top_ui_free(struct top_ui *ui);

/* Filters and sorts, and finds the chosen ones again. */
void top_arrange(struct top_ui *ui, const struct top_data *data);

/* A key, as screen_key gives it.  `ui->again`: data should be read at once. */
void top_key(struct top_ui *ui, const struct top_data *data, int key);

/* --- top_view.c: how it is shown ----------------------------------------------------------------- */

/* What is drawn with.  Text has been escaped and fits; `reverse`: on a bar. */
struct top_pen {
	unsigned rows, columns;
	void (*put)(struct top_pen *pen, unsigned row, unsigned column, enum ctl_style style,
		bool reverse, const char *text);
	int cursor_row, cursor_column; /* where the cursor is shown; row -1: nowhere */
};

void top_draw(const struct top_data *data, struct top_ui *ui, struct top_pen *pen);

/* --- live.c: all of it together ------------------------------------------------------------------- */

/* Until somebody has seen enough.  Gives an exit code. */
int top_live(struct ctl *ctl, uint64_t seconds);

#endif
