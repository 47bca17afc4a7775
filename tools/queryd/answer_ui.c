/*
 * answer_ui.c - the web page: files of ui/, as they are, in this program.
 *
 *	/            ui/index.html
 *	/ui/NAME     the other files of ui/
 *
 * They hold no data, so they need no token; what they show they ask from the API, which
 * does.  Nothing is made of what a client sends.  The file's hash is its ETag.
 *
 * Runs in: queryd, any thread.  Blocks in: nowhere.
 */
#include "answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

/* The assembler puts them here, found from the directory that is built in; the Makefile knows. */
#define FILE_OF(symbol, path)                                                                      \
	__asm__(".pushsection .rodata\n"                                                           \
		".globl queryd_ui_" #symbol "\n.globl queryd_ui_" #symbol "_end\n"                 \
		".hidden queryd_ui_" #symbol "\n.hidden queryd_ui_" #symbol "_end\n"               \
		"queryd_ui_" #symbol ":\n.incbin \"tools/queryd/ui/" path "\"\n"                   \
		"queryd_ui_" #symbol "_end:\n.byte 0\n.popsection\n");                             \
	extern const char queryd_ui_##symbol[], queryd_ui_##symbol##_end[]

FILE_OF(page, "index.html");
FILE_OF(style, "style.css");
FILE_OF(app, "app.js");
FILE_OF(net, "net.js");
FILE_OF(text, "text.js");
FILE_OF(parts, "parts.js");
FILE_OF(partitions, "partitions.js");
FILE_OF(tenants, "tenants.js");
FILE_OF(machine, "machine.js");
FILE_OF(plot, "plot.js");
FILE_OF(icon, "icon.svg");
FILE_OF(uplot, "uPlot.iife.min.js");
FILE_OF(uplot_style, "uPlot.min.css");
FILE_OF(uplot_licence, "uPlot.LICENSE.txt");

#define SCRIPT "text/javascript; charset=utf-8"
#define STYLE  "text/css; charset=utf-8"
#define ONE(name, type, symbol)                                                                    \
	{                                                                                          \
		name, type, queryd_ui_##symbol, queryd_ui_##symbol##_end                           \
	}

/* clang-format off */
static const struct page_file {
	const char *name, *type, *from, *end;
} files[] = {
	ONE("",                  "text/html; charset=utf-8",  page), /* "/" */
	ONE("style.css",         STYLE,                       style),
	ONE("app.js",            SCRIPT,                      app),
	ONE("net.js",            SCRIPT,                      net),
	ONE("text.js",           SCRIPT,                      text),
	ONE("parts.js",          SCRIPT,                      parts),
	ONE("partitions.js",     SCRIPT,                      partitions),
	ONE("tenants.js",        SCRIPT,                      tenants),
	ONE("machine.js",        SCRIPT,                      machine),
	ONE("plot.js",           SCRIPT,                      plot),
	ONE("icon.svg",          "image/svg+xml",             icon),
	ONE("uPlot.iife.min.js", SCRIPT,                      uplot),
	ONE("uPlot.min.css",     STYLE,                       uplot_style),
	ONE("uPlot.LICENSE.txt", "text/plain; charset=utf-8", uplot_licence),
};
/* clang-format on */

static int answer_file(
	const struct page_file *file, const struct question *question, struct answer *answer)
{
	const char *known = question->if_none_match;
	size_t len = (size_t)(file->end - file->from);
	bool same;

	answer_clear(answer);
	snprintf(answer->etag, sizeof(answer->etag), "\"%016" PRIx64 "\"",
		(uint64_t)XXH3_64bits(file->from, len));
	same = known != NULL && (strcmp(known, "*") == 0 || strstr(known, answer->etag) != NULL);
	answer->status = same ? 304 : 200;
	answer->type = file->type;
	answer->len = same ? 0 : len;
	answer->body = malloc(answer->len + 1);
	if (answer->body == NULL)
		return TALLY_ENOMEM;
	memcpy(answer->body, file->from, answer->len);
	answer->body[answer->len] = '\0';
	return 0;
}

int answer_page(struct question *question, struct answer *answer)
{
	return answer_file(&files[0], question, answer);
}

int answer_page_file(struct question *question, struct answer *answer)
{
	const char *name = question->request->segment[1];

	for (size_t i = 1; i < sizeof(files) / sizeof(files[0]); i++)
		if (strcmp(files[i].name, name) == 0)
			return answer_file(&files[i], question, answer);
	answer_error(answer, 404, "not_found", "the web page has no such file");
	return 0;
}
