/*
 * access.h - who may ask: bearer tokens over HTTP and gRPC, against query.tokens_file.
 *
 *	"Bearer x" -> SHA-256 -> the file's hashes, all of them, in constant time -> scopes
 *
 * Without a file everybody may ask everything, and nothing here costs anything: the
 * access is NULL then, which all functions take.  No token, and no part of one, is in any
 * message, log or metric.  Thread safe.
 */
#ifndef TALLY_QUERYD_ACCESS_H
#define TALLY_QUERYD_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/tokens.h"

#define ACCESS_WHY_SIZE (TOKENS_WHY_SIZE + 32)

struct access;

enum access_verdict {
	ACCESS_GRANTED,
	ACCESS_NO_TOKEN,      /* none, or not in the form of one */
	ACCESS_UNKNOWN_TOKEN, /* the file does not have it */
	ACCESS_OUT_OF_SCOPE,  /* it may not do this */
	ACCESS_VERDICTS
};

enum access_protocol { ACCESS_HTTP, ACCESS_GRPC, ACCESS_PROTOCOLS };

/* The whole file, or NULL with one line in `why`. */
struct access *access_new(const char *path, char why[ACCESS_WHY_SIZE]);
void access_free(struct access **access);

/* Reads the file again.  false with a line in `why`: what was read before stays in force. */
bool access_renew(struct access *access, char why[ACCESS_WHY_SIZE]);

/*
 * May whoever sent this Authorization header (NULL: none) do what needs one of `needs`
 * (enum token_scope), of this tenant (NULL: see tokens_allow)?
 */
enum access_verdict access_judge(struct access *access, const char *authorization, size_t len,
	unsigned needs, const char *tenant);

/* One line for the one who asked. */
const char *access_words(enum access_verdict verdict);

/* Somebody was refused: counted, and logged now and then with the other side of the socket. */
void access_refused(
	struct access *access, enum access_protocol protocol, enum access_verdict verdict, int fd);

/* --- for metrics ------------------------------------------------------------------------------ */

size_t access_tokens(struct access *access);
uint64_t access_count(
	struct access *access, enum access_protocol protocol, enum access_verdict verdict);
const char *access_word(enum access_verdict verdict); /* "no_token" */

#endif
