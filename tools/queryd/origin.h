/*
 * origin.h - whether a request was meant for us, or a web page of somebody else made a browser
 * send it.
 *
 * Two ways there are to that, and neither needs more than an operator who looks at a page:
 *
 *	rebinding	the page's own name is made to lead to 127.0.0.1, and then the browser takes us
 *			for the page's server.  Told by the header Host: names are the attacker's,
 *			addresses cannot be, so whoever asks by address (probes, Prometheus) is served.
 *	across origins	the page asks us by our address.  Told by Sec-Fetch-Site, or Origin.
 *
 * With TLS or tokens names need no check: the page has no certificate for its name, and no token.
 * Clients that are no browsers send neither of the other headers.
 *
 * Pure but for getsockname and the log.  Thread safe.
 */
#ifndef TALLY_QUERYD_ORIGIN_H
#define TALLY_QUERYD_ORIGIN_H

#include <stdbool.h>

struct origin_rules {
	const char *names; /* query.http_hosts; "", NULL = not given; borrowed */
	bool guarded;	   /* by TLS or tokens */
	char own[65];	   /* the name of this machine; "" = none */
};

/* Headers; NULL = it was not sent. */
struct origin {
	const char *method, *host, *origin, *site, *mode;
	int fd; /* the connection's */
};

enum origin_verdict { ORIGIN_OURS, ORIGIN_OTHER_NAME, ORIGIN_OTHER_PAGE };

enum origin_verdict origin_judge(const struct origin_rules *rules, const struct origin *origin);

/* Says now and then that somebody was refused. */
void origin_log(enum origin_verdict verdict, const struct origin *origin);

#endif
