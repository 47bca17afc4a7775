/*
 * metrics_print.c - the table of metrics as a man page: tally-metrics(7).
 *
 *	metrics_table --> tally-queryd --print-metrics --> etc/man/tally-metrics.7
 *
 * Lines are broken at sentences and before column 80, as mandoc -Tlint wants it.
 *
 * Runs in: queryd, before anything else.  Blocks in: nowhere.
 */
#include "metrics_table.h"

#include <string.h>

#define COLUMNS 79

static const char front[] =
	".\\\" Made by tally-queryd --print-metrics; make check compares it with that.\n"
	".TH TALLY-METRICS 7 \"2026-12-01\" \"Tally\" \"Miscellaneous\"\n"
	".SH NAME\n"
	"tally-metrics \\- what tally-queryd shows at /metrics\n"
	".SH DESCRIPTION\n"
	"All metrics that\n"
	".BR tally-queryd (8)\n"
	"shows at\n"
	".IR /metrics ,\n"
	"in Prometheus' text format 0.0.4, with their labels, type, unit and meaning.\n"
	"The lines HELP and TYPE of each are there as long as there is an instance,\n"
	"samples when there is something to say.\n"
	".PP\n"
	"Their number depends on the partitions that the instance owns, and on\n"
	".BR query.metrics_tenants ;\n"
	"not on how many tenants or streams there are.\n"
	".PP\n"
	"Counters never fall but to 0.\n"
	"Those of workers go on when a worker dies and is started again, and when\n"
	".BR tallyd (8)\n"
	"starts again and adopts what it left.\n"
	"Those of query processes lie in\n"
	".BR run_dir ,\n"
	"too: they go on when a query process or tallyd is started again, as long as\n"
	"that directory stays and the version is the same.\n"
	"Those of tallyd start again with it.\n"
	".PP\n"
	"With\n"
	".BR query.processes \" > 1\"\n"
	"it does not matter which of them a scrape reaches: what they count is shown as\n"
	"the sum of all, also of those that have ended, and what they have at the moment\n"
	"as that of all which run.\n"
	"What the others have at the moment may be a second old.\n"
	".PP\n"
	"A scrape is answered 200 also when there is no instance, with\n"
	".B tally_up\n"
	"0 and what the query process knows of itself.\n"
	"When it has no memory for an answer, that is 503: then nothing is known of the\n"
	"instance, and nothing is said.\n"
	".PP\n"
	"Alerts and a dashboard over these metrics are in\n"
	".I share/doc/tally\n"
	"below the prefix.\n"
	".SH METRICS\n";

static const char back[] =
	".SH NOT GIVEN\n"
	"Of the metrics of Loki's ingest-limits these have no counterpart here, since\n"
	"there is nothing that they could speak of:\n"
	".TP\n"
	".B loki_ingest_limits_frontend_accepted_streams_cache_size\n"
	"There is no such cache.\n"
	".TP\n"
	".B loki_ingest_limits_client_request_duration_seconds\n"
	"There is no network between front-end and partitions; see\n"
	".B tally_ask_duration_seconds\n"
	"and\n"
	".BR tally_peers_calls_total .\n"
	".TP\n"
	".BR loki_ring_* ,\\  loki_kafka_client_*\n"
	"There is no ring, and another client; see\n"
	".BR tally_group_state ,\n"
	".B tally_records_sent_total\n"
	"and\n"
	".BR tally_send_errors_total .\n"
	".TP\n"
	".BR loki_distributor_*\n"
	"The distributor has them.\n"
	".SH SEE ALSO\n"
	".BR tally-queryd (8),\n"
	".BR tallyd (8),\n"
	".BR tallyctl (1)\n";

/* `\e` is roff's backslash; a line may not begin with what is a request. */
static size_t put_word(FILE *out, const char *word, size_t len, bool first)
{
	size_t width = 0;

	if (first && (*word == '.' || *word == '\''))
		width += (size_t)fprintf(out, "\\&");
	for (size_t i = 0; i < len; i++)
		if (word[i] == '\\' || word[i] == '-')
			width += (size_t)fprintf(out, "\\%c", word[i] == '\\' ? 'e' : '-');
		else
			width += (size_t)fprintf(out, "%c", word[i]);
	return width;
}

static bool ends_sentence(const char *word, size_t len)
{
	return len > 0 && word[len - 1] == '.';
}

static void put_text(FILE *out, const char *text)
{
	size_t at = 0;

	while (*text != '\0') {
		size_t len = strcspn(text, " ");

		if (at > 0 && at + 1 + len > COLUMNS) {
			putc('\n', out);
			at = 0;
		} else if (at > 0)
			at += (size_t)fprintf(out, " ");
		at += put_word(out, text, len, at == 0);
		if (ends_sentence(text, len) && text[len] != '\0') {
			putc('\n', out);
			at = 0;
		}
		text += len + (text[len] == ' ');
	}
	putc('\n', out);
}

/* tally_x{partition,state}, its type and unit. */
static void put_metric(FILE *out, const struct metric *metric)
{
	fprintf(out, ".TP\n.BR %s", metric->name);
	if (metric->labels[0] != '\0')
		fputs(" {", out);
	for (const char *at = metric->labels; *at != '\0'; at++)
		fputs(*at == ',' ? " , " : (const char[]){*at, '\0'}, out);
	fputs(metric->labels[0] != '\0' ? "}\n" : "\n", out);
	fprintf(out, ".IR %s", metric->type);
	if (metric->unit[0] != '\0')
		fprintf(out, " \", %s\"", metric->unit);
	fputs("\n.br\n", out);
	put_text(out, metric->help);
}

void metrics_print(FILE *out)
{
	size_t n;
	const struct metric *table = metrics_table(&n);

	fputs(front, out);
	for (size_t i = 0; i < n; i++) {
		if (table[i].type != NULL) {
			put_metric(out, &table[i]);
			continue;
		}
		fprintf(out, ".SS %s\n", table[i].name);
		put_text(out, table[i].help);
	}
	fputs(back, out);
}
