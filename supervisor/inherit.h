/*
 * inherit.h - sockets for the query processes that the service manager has opened.
 *
 *	tally-http.socket, tally-grpc.socket --LISTEN_FDS--> tallyd --> every tally-queryd
 *
 * They stay open while query processes die and are started again: who connects
 * meanwhile waits in their queue.  Protocol: sd_listen_fds(3).
 */
#ifndef TALLY_SUPERVISOR_INHERIT_H
#define TALLY_SUPERVISOR_INHERIT_H

#define INHERIT_WHY_SIZE 256

struct inherit {
	int http, grpc; /* -1 = none: query processes open what query.*_listen says */
};

/*
 * Takes those that were given to this process, by name (FileDescriptorName=):
 * "http", "grpc", one each, listening TCP.  0, or ERR_INVALID with one line in
 * `why`.  None at all is no error.
 */
int inherit_sockets(struct inherit *sockets, char why[INHERIT_WHY_SIZE]);

#endif
