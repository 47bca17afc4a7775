/*
 * http.c - one request: from its first byte to the last one of its answer.
 *
 *	target -> begin_request -> (body: kept for a POST) -> respond -> completed
 *	                                               |
 *	  may he? route -> seat -> build -> seat_still_valid -> MHD_queue_response
 *	                             ^  |         | no, 3 times: 503
 *	                             '--|---------'
 *	           ^-- ranking_wake ----' later: the connection sleeps, not its thread
 *
 * Promise: what was read from stores is checked after the response has been
 * made; from there to the send there is nothing but the queue of this very
 * connection.
 *
 * Runs in: queryd, threads of libmicrohttpd; wake in the ranking's thread, and in main.  Blocks in:
 * answers to POST, as long as answer_exceeds.c says.
 */
#include "http_private.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "metrics.h"
#include "route.h"

#include "shm/host.h"

#define TRIES	  3
#define LATER_MAX 3

/* One request, from its first line to the last byte of its answer. */
struct asked {
	char *target;	/* as it was sent; NULL: there was no memory for it */
	size_t ignored; /* bytes of a body that nobody wants */
	bool started;	/* its headers are complete */
	bool posts;	/* a POST where one is taken: its body is kept */
	bool allowed;	/* the token was looked at when the headers were there */
	struct body body;
	unsigned later;	  /* so often it has slept */
	uint64_t pass_no; /* ... until this one of the ranking */
	struct ranking_waiter waiter;
};

static struct conn *conn_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info == NULL ? NULL : info->socket_context;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static struct question question_of(
	struct query *query, struct MHD_Connection *connection, struct asked *asked)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return (struct question){
		.query = query,
		.body = &asked->body,
		.authorization = header(connection, MHD_HTTP_HEADER_AUTHORIZATION),
		.if_none_match = header(connection, MHD_HTTP_HEADER_IF_NONE_MATCH),
		.fd = info == NULL ? -1 : info->connect_fd,
		.pass_no = &asked->pass_no,
	};
}

/* --- an answer ----------------------------------------------------------------------------------
 */

static bool takes(const struct route *route, const char *method)
{
	if (route->takes == ROUTE_POSTS)
		return strcmp(method, "POST") == 0;
	return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

/*
 * What a path needs.  A token that may do anything at all learns that there is no such
 * path; whoever has none learns nothing.
 */
static bool allowed(const struct question *question, const struct route *route,
	const struct request *request, struct answer *answer)
{
	const unsigned any = TOKEN_ASK | TOKEN_READ | TOKEN_METRICS | TOKEN_TENANT;

	return question_allowed(question, route == NULL ? any : route->needs,
		route == NULL ? NULL : route_tenant(route, request), answer);
}

/* What goes wrong before a route is asked; true: the answer is there. */
static bool refused(const struct question *question, const struct route *route, const char *method,
	bool looked_at, struct answer *answer)
{
	const struct request *request = question->request;

	if (!looked_at && !allowed(question, route, request, answer))
		return true;
	if (route == NULL)
		answer_error(
			answer, 404, "not_found", "there is no such path; see tally-queryd(8)");
	else if (!takes(route, method))
		answer_error(answer, 405, "method", "%s takes %s only", route->pattern,
			route->takes == ROUTE_POSTS ? "POST" : "GET and HEAD");
	else if (route->query == QUERY_REFUSED && request->query[0] != '\0')
		answer_error(answer, 400, "invalid", "%s takes no parameters", route->pattern);
	else
		return false;
	return true;
}

/* One try.  0: built; ANSWER_AGAIN, ANSWER_LATER. */
static int build(struct question *question, struct asked *asked, const char *method,
	const struct route **route, struct answer *answer)
{
	struct query *query = question->query;
	struct seat *seat = question->seat;
	char why[REQUEST_WHY_SIZE] = "";
	struct request request;
	int err;

	seat_again(seat);
	err = request_parse(&request, asked->target, why);
	question->request = &request;
	*route = err == 0 ? route_find(&request) : NULL;
	if (err == TALLY_EINVALID) {
		if (allowed(question, NULL, &request, answer))
			answer_error(answer, 400, "invalid", "%s", why);
		err = 0;
	} else if (err == 0 && !refused(question, *route, method, asked->allowed, answer)) {
		if ((*route)->table != TABLE_UNUSED)
			err = seat_attach(query->seats, seat);
		if (err == 0 || (*route)->table != TABLE_NEEDED)
			err = (*route)->answer(question, answer);
	}
	request_free(&request);
	if (err != 0 && err != ANSWER_AGAIN && err != ANSWER_LATER) {
		answer_failure(answer, query, err);
		err = 0;
	}
	return err;
}

/* No memory for one: no answer.  It may be what keeps a browser from running what it shows. */
static void add_header(struct MHD_Response **response, const char *name, const char *value)
{
	if (*response == NULL || MHD_add_response_header(*response, name, value) == MHD_YES)
		return;
	MHD_destroy_response(*response);
	*response = NULL;
}

/* The web page shows names that strangers chose: nothing but its own files is ever run or loaded. */
static void page_headers(struct MHD_Response **response, const struct answer *answer)
{
	add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
	add_header(response, MHD_HTTP_HEADER_ETAG, answer->etag);
	add_header(response, "Referrer-Policy", "no-referrer");
	add_header(response, "Cross-Origin-Opener-Policy", "same-origin");
	add_header(response, "Content-Security-Policy",
		"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
		"img-src 'self' data:; base-uri 'none'; form-action 'none'; "
		"frame-ancestors 'none'");
}

/* Of the API: it is no page, and in no page. */
static void data_headers(struct MHD_Response **response)
{
	add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	add_header(
		response, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
}

/* Takes the answer's body. */
static struct MHD_Response *response_of(const struct route *route, struct answer *answer)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(answer->len, answer->body, MHD_RESPMEM_MUST_FREE);

	if (response == NULL)
		return NULL;
	answer->body = NULL;
	add_header(&response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
	if (answer->etag[0] != '\0')
		page_headers(&response, answer);
	else
		data_headers(&response);
	add_header(&response, "Cross-Origin-Resource-Policy", "same-origin");
	add_header(&response, "X-Content-Type-Options", "nosniff");
	add_header(&response, MHD_HTTP_HEADER_SERVER, "tally-queryd/" QUERYD_VERSION);
	if (answer->status == 405)
		add_header(&response, MHD_HTTP_HEADER_ALLOW,
			route != NULL && route->takes == ROUTE_POSTS ? "POST" : "GET, HEAD");
	if (answer->status == 401)
		add_header(&response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"tally\"");
	if (answer->status == 503)
		add_header(&response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
	return response;
}

static void count(struct query *query, const struct route *route, unsigned status)
{
	_Atomic uint64_t(*answers)[ANSWER_STATUSES] =
		query->counted != NULL ? query->counted : query->answers;

	atomic_fetch_add(&answers[route_index(route)][answer_status_index(status)], 1);
}

/* Queues it when everything that it stands on still holds.  false: it does not. */
static bool queue(struct MHD_Connection *connection, struct seat *seat, const struct route *route,
	struct answer *answer, enum MHD_Result *result)
{
	struct MHD_Response *response = response_of(route, answer);
	bool valid = true;

	*result = MHD_NO;
	if (response != NULL && seat_still_valid(seat))
		*result = MHD_queue_response(connection, answer->status, response);
	else if (response != NULL)
		valid = false;
	if (response != NULL)
		MHD_destroy_response(response);
	return valid;
}

static void wake(void *connection)
{
	MHD_resume_connection(connection);
}

/* The connection sleeps until the ranking has been made; then it is as if it had just asked. */
static enum MHD_Result sleep_until_ranked(
	struct server *server, struct MHD_Connection *connection, struct asked *asked)
{
	struct ranking *ranking = server->http->query->ranking;

	asked->later++;
	asked->waiter = (struct ranking_waiter){.wake = wake, .arg = connection};
	MHD_suspend_connection(connection);
	ranking_wake(ranking, &asked->waiter);
	if (atomic_load(
		    &server->ending)) /* since it was looked at: who ends it may not have seen it */
		ranking_wake_all(ranking);
	return MHD_YES;
}

static enum MHD_Result respond(struct server *server, struct MHD_Connection *connection,
	struct asked *asked, const char *method)
{
	struct query *query = server->http->query;
	struct question question = question_of(query, connection, asked);
	struct seat *seat = seats_take(query->seats);
	const struct route *route = NULL;
	struct answer answer = {0};
	enum MHD_Result result = MHD_NO;
	bool sent = false;
	int err = 0;

	question.seat = seat;

	for (int tries = 0; tries < TRIES && !sent && err != ANSWER_LATER; tries++) {
		if (tries > 0) {
			atomic_fetch_add(&query->rebuilt, 1);
			asked->pass_no = 0;
		}
		err = build(&question, asked, method, &route, &answer);
		if (err == 0)
			sent = queue(connection, seat, route, &answer, &result);
	}
	if (err == ANSWER_LATER && asked->later < LATER_MAX && !atomic_load(&server->ending)) {
		seats_give(query->seats, seat);
		answer_clear(&answer);
		return sleep_until_ranked(server, connection, asked);
	}
	if (!sent) {
		seat_again(seat); /* what follows stands on nothing */
		answer_error(&answer, 503, "not_ready",
			"partitions kept changing while this was read; ask again");
		queue(connection, seat, route, &answer, &result);
	}
	seats_give(query->seats, seat);
	count(query, route, answer.status);
	answer_clear(&answer);
	return result;
}

/* --- the body of a POST -------------------------------------------------------------------------
 */

static const struct route *route_of(const struct asked *asked)
{
	char why[REQUEST_WHY_SIZE];
	const struct route *route = NULL;
	struct request request;

	if (request_parse(&request, asked->target, why) == 0)
		route = route_find(&request);
	request_free(&request);
	return route;
}

/*
 * application/json and nothing else: it is what makes a browser ask first before a
 * foreign page may send it, and nobody here says yes.
 */
static bool is_json(const char *type)
{
	static const char json[] = "application/json";

	if (type == NULL || strncasecmp(type, json, sizeof(json) - 1) != 0)
		return false;
	type += sizeof(json) - 1;
	return type[strspn(type, " \t")] == '\0' || type[strspn(type, " \t")] == ';';
}

/* What the headers say is wrong with a body, before it comes; true: the answer is there. */
static bool body_refused(struct MHD_Connection *connection, struct answer *answer)
{
	const char *length = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
	const char *encoding = header(connection, MHD_HTTP_HEADER_CONTENT_ENCODING);
	uint64_t bytes;

	if (!is_json(header(connection, MHD_HTTP_HEADER_CONTENT_TYPE)))
		answer_error(answer, 415, "content_type",
			"the body must be JSON, with the header Content-Type: application/json");
	else if (encoding != NULL && strcasecmp(encoding, "identity") != 0)
		answer_error(answer, 415, "content_encoding", "the body must not be compressed");
	else if (length != NULL &&
		 (!request_number(length, 0, UINT64_MAX, &bytes) || bytes > BODY_MAX))
		answer_error(answer, 413, "too_large",
			"the body has more than %u bytes: ask about fewer streams at a time",
			BODY_MAX);
	else
		return false;
	return true;
}

/* A foreign page made a browser send it; true: the answer is there. */
static bool foreign(struct query *query, struct MHD_Connection *connection, const char *method,
	int fd, struct answer *answer)
{
	const struct origin origin = {
		.method = method,
		.host = header(connection, MHD_HTTP_HEADER_HOST),
		.origin = header(connection, MHD_HTTP_HEADER_ORIGIN),
		.site = header(connection, "Sec-Fetch-Site"),
		.mode = header(connection, "Sec-Fetch-Mode"),
		.fd = fd,
	};
	enum origin_verdict verdict = origin_judge(&query->origins, &origin);

	if (verdict == ORIGIN_OURS)
		return false;
	origin_log(verdict, &origin);
	if (verdict == ORIGIN_OTHER_NAME)
		answer_error(answer, 421, "host",
			"this server does not go by the name \"%.253s\": ask by address or as "
			"localhost, or add the name to query.http_hosts",
			origin.host);
	else
		answer_error(answer, 403, "origin",
			"a web page of another origin may not ask this server");
	return true;
}

/* What the headers say is wrong already; true: the answer is there. */
static bool refused_early(struct http *http, struct MHD_Connection *connection, struct asked *asked,
	const char *method, const struct route *route, struct answer *answer)
{
	struct question question = question_of(http->query, connection, asked);

	if (foreign(http->query, connection, method, question.fd, answer))
		return true;
	if (!asked->posts || route == NULL)
		return false;
	/* Nobody's body is taken in before he may ask. */
	asked->allowed = question_allowed(&question, route->needs, NULL, answer);
	return !asked->allowed || body_refused(connection, answer);
}

/* The headers are complete.  An answer that is given here ends the connection. */
static enum MHD_Result begin_body(struct http *http, struct MHD_Connection *connection,
	struct asked *asked, const char *method)
{
	const struct route *route = strcmp(method, "POST") == 0 ? route_of(asked) : NULL;
	enum MHD_Result result = MHD_YES;
	struct answer answer = {0};
	struct MHD_Response *response;

	asked->posts = route != NULL && route->takes == ROUTE_POSTS;
	if (!refused_early(http, connection, asked, method, route, &answer))
		return MHD_YES;
	response = response_of(route, &answer);
	if (response == NULL)
		result = MHD_NO;
	else {
		result = MHD_queue_response(connection, answer.status, response);
		MHD_destroy_response(response);
	}
	count(http->query, route, answer.status);
	answer_clear(&answer);
	return result;
}

/* --- what the library calls ---------------------------------------------------------------------
 */

void *http_begin_request(void *arg, const char *target, struct MHD_Connection *connection)
{
	struct asked *asked = calloc(1, sizeof(*asked));

	(void)arg;
	(void)connection;
	if (asked != NULL)
		asked->target = strdup(target);
	return asked;
}

enum MHD_Result http_handle(void *arg, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size,
	void **context)
{
	struct server *server = arg;
	struct http *http = server->http;
	struct asked *asked = *context;
	size_t size;

	(void)url; /* decoded, so '/' and %2F are one: the raw target is what counts */
	(void)version;
	if (asked == NULL || asked->target == NULL)
		return MHD_NO;
	if (!asked->started) {
		asked->started = true;
		conns_asking(http->query->conns, conn_of(connection), host_boot_ns());
		return begin_body(http, connection, asked, method);
	}
	size = *upload_size;
	*upload_size = 0;
	if (size == 0)
		return respond(server, connection, asked, method);
	if (asked->posts)
		return body_add(&asked->body, &http->query->bodies, upload, size) ? MHD_YES
										  : MHD_NO;
	asked->ignored += size;
	return asked->ignored > HTTP_BODY_MAX ? MHD_NO : MHD_YES;
}

void http_completed(void *arg, struct MHD_Connection *connection, void **context,
	enum MHD_RequestTerminationCode code)
{
	struct http *http = arg;
	struct asked *asked = *context;

	(void)code;
	conns_answered(http->query->conns, conn_of(connection), host_boot_ns());
	if (asked != NULL) {
		body_free(&asked->body, &http->query->bodies);
		free(asked->target);
	}
	free(asked);
	*context = NULL;
}
