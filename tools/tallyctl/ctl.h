/*
 * ctl.h - what the subcommands of tallyctl share.
 *
 *	main: options -> command->run(ctl, words) -> ctl_attach -> answer -> exit code
 *
 * Text goes to stdout in columns, numbers shortened; --json gives the same
 * facts exactly.  Trouble is one line on stderr.
 */
#ifndef TALLYCTL_CTL_H
#define TALLYCTL_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "shm/tally.h"

#define CTL_TEXT_SIZE 32	/* of a number */
#define CTL_NAME_SIZE (4 * 257) /* of a name, escaped */

enum ctl_exit {
	CTL_OK = 0,
	CTL_INCOMPLETE = 1, /* check: some would be rejected */
	CTL_TROUBLE = 2,
	CTL_UNDECIDED = 3 /* check: none would be rejected, but some could not be decided */
};

struct ctl {
	const char *run_dir, *run_dir_from; /* where it was named: "-d", ...; NULL: -d */
	struct tally *tally;
	bool attached; /* once */
	bool waits;    /* for an instance: ctl_attach_or_wait */
	bool json;
	const char *token_file, *cert_file; /* for tally-queryd; NULL: see ctl_query */
	struct tally_instance instance;
	unsigned rows, columns; /* that there are for an answer; 0: as many as it likes */
};

/* Prints an answer; gives an exit code. */
typedef int ctl_show_fn(struct ctl *ctl, void *arg);

int ctl_status(struct ctl *ctl, int argc, char **argv);
int ctl_tenants(struct ctl *ctl, int argc, char **argv);
int ctl_tenant(struct ctl *ctl, int argc, char **argv);
int ctl_stream(struct ctl *ctl, int argc, char **argv);
int ctl_streams(struct ctl *ctl, int argc, char **argv);
int ctl_top(struct ctl *ctl, int argc, char **argv);
int ctl_check(struct ctl *ctl, int argc, char **argv);
int ctl_explain(struct ctl *ctl, int argc, char **argv);
int ctl_config(struct ctl *ctl, int argc, char **argv);

/* --- attach.c --------------------------------------------------------------------------------- */

/*
 * Opens the run directory, once the words of the command are known to be good.  0, or
 * CTL_TROUBLE after a line on stderr.
 */
int ctl_attach(struct ctl *ctl);

/*
 * For those who look again and again: where there is no instance yet, ctl_refresh will find it.
 * 0, or CTL_TROUBLE after a line on stderr: no start of tallyd will help.
 */
int ctl_attach_or_wait(struct ctl *ctl);

/*
 * What the instance says now, also one that was started anew or is back.  0, or CTL_TROUBLE after a
 * line on stderr.
 */
int ctl_refresh(struct ctl *ctl);

/* --- instance.c ------------------------------------------------------------------------------- */

void ctl_print_instance(struct ctl *ctl);

/* Of how many tenants, since when; or that they were refused, and why.  "" = none published. */
#define CTL_LIMITS_SIZE (CTL_NAME_SIZE + 160)
void ctl_limits_text(const struct ctl *ctl, char *to, size_t size);

/* There should be query processes, there were, and none lives. */
bool ctl_queryd_died(const struct tally_instance *instance);

/* --- partition.c ------------------------------------------------------------------------------ */

void ctl_print_partition(const struct ctl *ctl, const struct tally_partition *partition);

/* --- changes.c ------------------------------------------------------------------------------- */

/* The last changes of its state, as a table. */
void ctl_print_changes(const struct ctl *ctl, uint32_t partition);
json_t *ctl_json_changes(const struct ctl *ctl, uint32_t partition);

/* --- query.c ---------------------------------------------------------------------------------- */

#define CTL_ADDRESS_SIZE 300
/*
 * What a query process has announced in the file `name` of the run directory, like
 * "127.0.0.1:3100".  TALLY_ENOTFOUND: there is none; TALLY_EINVALID: it holds no address.
 */
int ctl_address(const struct ctl *ctl, const char *name, char address[CTL_ADDRESS_SIZE]);

/*
 * Posts to the tally-queryd of the run directory.  NULL after a line on stderr.  Shows the token
 * that is in ctl->token_file or the file that TALLY_TOKEN_FILE names; with TLS, whose key the run
 * directory names, the certificate and key in ctl->cert_file or the file of TALLY_CERT_FILE.
 */
json_t *ctl_query(const struct ctl *ctl, const char *path, json_t *question);

/* --- trouble.c -------------------------------------------------------------------------------- */

/* One line on stderr, "tallyctl: " in front.  Gives CTL_TROUBLE. */
int ctl_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* What getopt_long does not like ('?', ':').  `command` "": of tallyctl itself.  Gives CTL_TROUBLE. */
struct option;
int ctl_bad_option(const char *command, const struct option *options, char **argv, int option);

/* The run directory cannot be attached: what to do about it.  Gives CTL_TROUBLE. */
int ctl_cannot_attach(const struct ctl *ctl, int err);

/* A start of tallyd cures it. */
bool ctl_can_wait(const struct ctl *ctl, int err);

/* A call failed: one line.  `what` names what was asked for.  Gives an exit code. */
int ctl_failed(const struct ctl *ctl, const char *what, int err);

/* "123" or "0xff", in min..max; false after a line on stderr. */
bool ctl_number(const char *what, const char *word, uint64_t min, uint64_t max, uint64_t *value);

/* --- suggest.c -------------------------------------------------------------------------------- */

/* The one of `words` that was meant, perhaps; NULL: none is near. */
const char *ctl_nearest(const char *word, const char *const *words, size_t n);

/* --- colour.c --------------------------------------------------------------------------------- */

enum ctl_style { CTL_PLAIN, CTL_DIM, CTL_BOLD, CTL_GOOD, CTL_WARN, CTL_BAD, CTL_STYLES };

bool ctl_no_color(void);		   /* NO_COLOR is set */
bool ctl_terminal(void);		   /* stdout is a terminal that can do more than print */
const char *ctl_sgr(enum ctl_style style); /* "" where no colours are wanted */
enum ctl_style ctl_state_style(const struct tally_partition *partition);

/* --- fit.c ------------------------------------------------------------------------------------ */

/* Cells of a terminal.  The longest text that fills `cells` of them, with its NUL. */
#define CTL_CELLS_SIZE(cells) ((cells)*12 + 5)

enum ctl_side { CTL_ASIS, CTL_LEFT, CTL_RIGHT }; /* padded to the width, or not */

bool ctl_utf8(void);

/* Of a text that is escaped where it must not reach a terminal: see ctl_fit. */
unsigned ctl_width(const char *text);

/*
 * `text` in at most `cells` cells, with a mark where it was cut.  Escapes what ctl_name does, and
 * what has no width of its own.  Gives `to`.
 */
char *ctl_fit(char *to, size_t size, const char *text, unsigned cells, enum ctl_side side);

/* A bar of `cells` cells: not empty above 0, not full below 1.  Gives `to`. */
char *ctl_bar(char *to, size_t size, unsigned cells, double share);

/* Takes ctl_sgr out of a text. */
void ctl_plain(char *text);

/* How many bytes of an escaped line, which may have ctl_sgr in it, go into one row. */
size_t ctl_wrap(const char *line, unsigned cells);

/* --- watch.c ---------------------------------------------------------------------------------- */

/* The value of --watch[=SECONDS], which getopt_long has just found.  False after a line on stderr. */
bool ctl_watch_seconds(const char *what, char **argv, uint64_t *seconds);

/*
 * Shows again and again, and waits where there is no instance; gives an exit code when nobody reads
 * any more.
 */
int ctl_watch(struct ctl *ctl, uint64_t seconds, ctl_show_fn *show, void *arg);

/* What it writes to stdout, and to stderr (NULL: into the same).  To be freed. */
char *ctl_capture(struct ctl *ctl, ctl_show_fn *show, void *arg, int *code, char **trouble);

/* Shows, on a terminal with lines that are broken between words.  Gives its exit code. */
int ctl_wrapped(struct ctl *ctl, ctl_show_fn *show, void *arg);

void ctl_terminal_size(unsigned *rows, unsigned *columns);
unsigned ctl_columns(void); /* for a line on stdout; 0: it is no terminal, as many as it likes */

/* --- print.c ---------------------------------------------------------------------------------- */

/* "" for one, else "s". */
const char *ctl_s(uint64_t n);

/* a - b of numbers from shared memory, at most as large as there is room for. */
int64_t ctl_minus(int64_t a, int64_t b);

/* 1234567 -> "1.23M"; up to 99999 as it is.  All give `to`. */
char *ctl_count(char to[CTL_TEXT_SIZE], uint64_t n);
char *ctl_bytes(char to[CTL_TEXT_SIZE], double n);
char *ctl_offset(char to[CTL_TEXT_SIZE], int64_t offset); /* exact; "-" when not known */
char *ctl_span(char to[CTL_TEXT_SIZE], int64_t ms);	  /* "4.2 s", "3 min", "2 h 5 min" */
char *ctl_clock(char to[CTL_TEXT_SIZE], int64_t unix_ms); /* "2025-03-01 04:05:06Z" */

/* What must not reach a terminal (log_printable) as \xNN: a name must not drive it. */
char *ctl_name(char to[CTL_NAME_SIZE], const char *name);

/* tallyd gives no sign of life, has not stopped, and its process is there all the same. */
bool ctl_frozen(const struct ctl *ctl);

/* "this is not tallyd's present state", when that is so; else "". */
void ctl_stale_text(const struct ctl *ctl, char *to, size_t size);
void ctl_print_stale(const struct ctl *ctl); /* as a line; text only */

/* "6 of 8 partitions answered" line, when not all did; text only. */
void ctl_print_basis(const struct tally_basis *basis);

/* One character per value, as high as its share of the largest. */
void ctl_sparkline(const char *label, const uint64_t *values, size_t n);

/* --- table.c ---------------------------------------------------------------------------------- */

/*
 * Columns as wide as their content; a heading that starts with '>' is right-aligned.  Where a
 * terminal is too narrow some columns are left out, and the widest go on below themselves.
 */
#define CTL_COLUMNS_MAX 12
struct ctl_table {
	unsigned columns, rows;
	unsigned width;		/* at most, by cutting the last column; 0: no bound */
	unsigned screen;	/* ctl_columns() */
	unsigned char spare[4]; /* columns that can be left out, in this order; 0 ends it */
	const char *heading[CTL_COLUMNS_MAX];
	char **cells;	       /* rows x columns */
	unsigned char *styles; /* enum ctl_style of each */
};
void ctl_table_start(struct ctl_table *table, unsigned columns, const char *const *headings);
void ctl_table_row(struct ctl_table *table, const char *const *cells);
void ctl_table_style(struct ctl_table *table, unsigned column, enum ctl_style style); /* last row */
void ctl_table_end(struct ctl_table *table); /* prints and drops */
void ctl_table_drop(struct ctl_table *table);

/* --- json.c ----------------------------------------------------------------------------------- */

/* An object with run_dir, alive, stale, now_ms; ended by ctl_json_print, which prints it. */
json_t *ctl_json(const struct ctl *ctl);
void ctl_json_print(json_t *object);
void ctl_json_count(json_t *object, const char *key, uint64_t value);
void ctl_json_int(json_t *object, const char *key, int64_t value);
void ctl_json_known(json_t *object, const char *key, int64_t value); /* < 0: null */
void ctl_json_text(json_t *object, const char *key, const char *value);
void ctl_json_hash(json_t *object, uint64_t hash); /* a string: JSON numbers lose digits */
void ctl_json_basis(json_t *object, const struct tally_basis *basis);
json_t *ctl_json_usage(const struct tally_usage *usage);

#endif
