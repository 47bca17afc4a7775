/*
 * confine.h - a process gives up what it does not need: privileges, files, system calls.
 *
 *	confine_begin -> confine_allow, confine_allow_file, confine_connect -> confine_enter
 *
 * For the processes that read what strangers wrote.  What was opened before
 * stays open; from confine_enter on nothing else can be had, by any thread that
 * is made afterwards:
 *
 *	no_new_privs, no capability in any set
 *	Landlock	reads: system files and what was allowed; writes: only what was
 *			allowed; TCP: no bind; no signal to a process outside
 *	seccomp		calls not on the list fail with ENOSYS, and the kernel's log has
 *			them; calls that only an intruder makes (execve, ptrace, mount,
 *			bpf, ...) end the process with SIGSYS
 *
 * ENOSYS, not EPERM and not death: libraries have a way round a call that the
 * kernel does not know, so that a list that lacks something costs that thing
 * and not the service.
 *
 * What the kernel cannot do is left out, and one line of the log says what is
 * in force.  A build with a sanitizer keeps files and calls: its run time needs
 * them.
 *
 * Call before the first thread is made, and from one thread only.
 */
#ifndef TALLY_SHM_CONFINE_H
#define TALLY_SHM_CONFINE_H

#include <stdbool.h>
#include <stdint.h>

enum confine_role {
	CONFINE_WORKER, /* makes, cuts and removes files; listens on a local socket */
	CONFINE_QUERY	/* makes no file, connects to allowed TCP ports only, leaves no core */
};

enum confine_access {
	CONFINE_READ,  /* files and directories */
	CONFINE_WRITE, /* and the bytes of files that are there */
	CONFINE_OWN    /* and makes, cuts and removes files and sockets */
};

struct confine {
	enum confine_role role;
	int abi;     /* of Landlock; 0 = none */
	int ruleset; /* of Landlock; -1 = none */
};

void confine_begin(struct confine *confine, enum confine_role role);

/* A directory and all that it will ever hold, or a file.  One that is not there is passed over. */
void confine_allow(struct confine *confine, const char *path, enum confine_access access);

/* Reading a file that may be replaced, by a rename or behind a link: its directories, so to say. */
void confine_allow_file(struct confine *confine, const char *path);

/* CONFINE_QUERY: a TCP port on any host. */
void confine_connect(struct confine *confine, uint16_t port);

/* Logs what is in force from here on. */
void confine_enter(struct confine *confine);

#endif
