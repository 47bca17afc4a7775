/*
 * options.h - the command line of tally-queryd.
 */
#ifndef TALLY_QUERYD_OPTIONS_H
#define TALLY_QUERYD_OPTIONS_H

#define EXIT_USAGE 2 /* the operator's mistake */

struct options {
	const char *config;	      /* borrowed from argv */
	long parent;		      /* 0 = none */
	int last_words;		      /* -1 = nobody hears them */
	int http_socket, grpc_socket; /* that listen already; -1 = open our own */
};

/* Ends the process when all that is asked for is a text, or with one line and EXIT_USAGE. */
void options_read(int argc, char **argv, struct options *options);

#endif
