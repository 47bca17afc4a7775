/*
 * fuzz_http.c - what an HTTP client sends, from the request target to the answer, without a socket.
 *
 *	target '\n' body; the body is what headers say, too
 *
 *	target -> request_parse -> route_find -> (body_add) -> route->answer -> JSON that can be read
 *
 * The answers come from a real run directory.  Questions that write are answered here.
 */
#include <jansson.h>

#include "run.h"

#include "tools/queryd/answer.h"
#include "tools/queryd/posted.h"
#include "tools/queryd/route.h"

static struct query query;

/* Instead of a worker: every kind of result. */
static int ask(struct asker *asker, struct ask *asked, struct tally *again)
{
	(void)asker, (void)again;
	for (size_t i = 0; i < asked->n; i++) {
		asked->streams[i].result = (enum ask_result)(asked->streams[i].hash % 4);
		asked->streams[i].rate = asked->streams[i].bytes;
	}
	return asked->n == 13 ? TALLY_EBUSY : 0;
}

static void end(void)
{
	seats_free(&query.seats);
	conns_free(&query.conns);
	totals_free(&query.totals);
	ranking_free(&query.ranking);
	fuzz_run_end();
}

static void begin(void)
{
	static const struct conns_limits limits = {.many = 10, .waiting_ns = 1, .asking_ns = 1};

	if (query.seats != NULL)
		return;
	fuzz_run_start();
	query.run_dir = fuzz_run.dir;
	query.threads = 2;
	query.metrics_tenants = 3;
	query.seats = seats_new(fuzz_run.dir, 2);
	query.conns = conns_new(&limits);
	query.totals = totals_new(0);
	query.ranking = ranking_new(fuzz_run.dir);
	query.ask = ask;
	atexit(end);
}

/* --- parts ------------------------------------------------------------------------------------- */

static void run_page(const struct request *request)
{
	struct request copy = {.query = fuzz_text(request->query, strlen(request->query))};
	char why[REQUEST_WHY_SIZE] = "", text[REQUEST_CURSOR_SIZE];
	struct tally_cursor cursor = {0}, again = {0};
	struct request_page page;

	if (request_page(&copy, &page, why) != 0) {
		hold_line(why, sizeof(why));
	} else {
		hold(page.limit >= 1 && page.limit <= REQUEST_LIMIT_MAX);
		if (page.after != NULL && request_cursor_parse(page.after, &cursor)) {
			request_cursor_text(&cursor, text);
			hold(request_cursor_parse(text, &again));
			hold(again.partition == cursor.partition && again.from == cursor.from);
		}
	}
	free(copy.query);
}

/* As run_page, of a list that can be looked through. */
static void run_search(const struct request *request)
{
	struct request copy = {.query = fuzz_text(request->query, strlen(request->query))};
	char why[REQUEST_WHY_SIZE] = "";
	struct request_page page;

	if (request_search(&copy, &page, why) != 0)
		hold_line(why, sizeof(why));
	else
		hold(page.limit >= 1 && page.limit <= REQUEST_LIMIT_MAX);
	free(copy.query);
}

/* Nobody comes in by a name that is not there, whatever else he says. */
static void run_origin(const uint8_t *data, size_t len)
{
	struct origin_rules rules = {.names = "a.b, c", .own = "me"};
	char *text = fuzz_text(data, len), *page = strchr(text, '\n');
	struct origin origin = {.method = "GET", .host = text, .fd = -1};
	bool name;

	if (page != NULL)
		*page++ = '\0';
	origin.origin = origin.site = page;
	name = strspn(text, "0123456789.[]:") != strlen(text) && text[0] != '[' &&
	       strcasecmp(text, "me") != 0 && strncasecmp(text, "me:", 3) != 0 &&
	       strncasecmp(text, "localhost", 9) != 0 && strncasecmp(text, "a.b", 3) != 0 &&
	       strncasecmp(text, "c", 1) != 0;
	hold(!name || text[0] == ':' || origin_judge(&rules, &origin) == ORIGIN_OTHER_NAME);
	origin.host = "localhost";
	origin.site = NULL;
	hold(origin_judge(&rules, &origin) == ORIGIN_OURS || page != NULL);
	free(text);
}

static void run_posted(const uint8_t *data, size_t len)
{
	char why[POSTED_WHY_SIZE] = "", *body = (char *)fuzz_copy(data, len);
	struct posted posted;
	int err = posted_parse(&posted, body, len, why);

	hold(err == 0 || err == TALLY_EINVALID);
	hold(memchr(why, '\0', sizeof(why)) != NULL && (err == 0 || why[0] != '\0'));
	if (err == 0) {
		hold(strlen(posted.tenant) >= 1 && strlen(posted.tenant) <= REQUEST_NAME_MAX);
		hold(record_text_ok(posted.tenant, strlen(posted.tenant)));
		hold(posted.n <= len / 2);
		for (size_t i = 0; i < posted.n; i++)
			hold(strlen(posted.streams[i].policy) <= REQUEST_NAME_MAX);
	}
	posted_free(&posted);
	free(body);
}

/* --- the whole --------------------------------------------------------------------------------- */

static bool known_status(unsigned status)
{
	for (unsigned i = 0; answer_status_at(i) != 0; i++)
		if (answer_status_at(i) == status)
			return true;
	return false;
}

static void hold_answer(const struct answer *answer)
{
	json_t *json;

	hold(known_status(answer->status) && answer->type != NULL && answer->body != NULL);
	hold(strlen(answer->body) == answer->len);
	hold(answer->len == 0 || record_text_ok(answer->body, answer->len));
	if (strcmp(answer->type, "application/json") != 0)
		return;
	for (size_t i = 0; i < answer->len; i++) /* metrics have no way to escape these */
		hold((unsigned char)answer->body[i] >= 0x20 || answer->body[i] == '\n');
	json = json_loadb(answer->body, answer->len, JSON_DECODE_INT_AS_REAL, NULL);
	hold(json != NULL);
	json_decref(json);
}

/* In two pieces, as a network would. */
static void fill(struct body *body, const uint8_t *data, size_t len)
{
	hold(body_add(body, &query.bodies, (const char *)data, len / 3));
	hold(body_add(body, &query.bodies, (const char *)data + len / 3, len - len / 3));
}

static void run_route(const struct route *route, struct request *request, struct body *body)
{
	struct question question = {.query = &query, .request = request, .body = body};
	struct answer answer = {0};
	int err = 0;

	question.seat = seats_take(query.seats);
	seat_again(question.seat);
	if (route->table != TABLE_UNUSED)
		err = seat_attach(query.seats, question.seat);
	hold(err == 0);
	err = route->answer(&question, &answer);
	if (err != 0 && err != ANSWER_AGAIN)
		answer_failure(&answer, &query, err);
	if (err != ANSWER_AGAIN)
		hold_answer(&answer);
	seat_still_valid(question.seat);
	seats_give(query.seats, question.seat);
	answer_clear(&answer);
}

static void run_target(const char *target, const uint8_t *data, size_t len)
{
	char why[REQUEST_WHY_SIZE] = "";
	const struct route *route;
	struct request request;
	struct body body = {0};

	if (request_parse(&request, target, why) != 0) {
		hold_line(why, sizeof(why));
		request_free(&request);
		return;
	}
	hold(request.segments >= 1 && request.segments <= REQUEST_SEGMENTS_MAX);
	run_page(&request);
	run_search(&request);
	route = route_find(&request);
	if (route != NULL) {
		hold(route_at(route_index(route)) == route);
		fill(&body, data, len);
		run_route(route, &request, &body);
		body_free(&body, &query.bodies);
		hold(query.bodies == 0);
	}
	request_free(&request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct input in = {data, len};
	const uint8_t *line, *end_of_line;
	size_t n;
	char *target;

	begin();
	fuzz_run_refresh();
	end_of_line = memchr(in.at, '\n', in.left);
	n = take_bytes(&in, end_of_line != NULL ? (size_t)(end_of_line - in.at) : in.left, &line);
	take(&in, 1);
	target = fuzz_text(line, n);
	run_target(target, in.at, in.left);
	run_posted(in.at, in.left);
	run_origin(in.at, in.left);
	free(target);
	return 0;
}
