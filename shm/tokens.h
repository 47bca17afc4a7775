/*
 * tokens.h - query.tokens_file: which tokens there are, and what each of them may ask.
 *
 *	# who     who has it
 *	sha256:5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8  admin
 *	sha256:4e738ca5563c06cfd0018299933d58db1dd8bf97f6973dc99bf6cdc64b5550bd  metrics read:team-a read:team%20b
 *
 * One line for each token: the SHA-256 of it in hexadecimal, and its scopes; a '#' that begins
 * a word begins a comment.  The file knows no token, so whoever reads it has none.
 *
 *	admin		everything
 *	ask		gRPC, and the POSTs that ask
 *	read		all that is read over HTTP
 *	metrics		/metrics and /ready
 *	read:TENANT	what is read of one tenant; percent-encoded, as in a URL
 *
 * Anything else is a mistake: one line with the file's line and what to write, which shows
 * nothing of what it found, since that may be a token.  All of the file counts or nothing.
 * Who computes hashes and compares them is tools/queryd/access.c.
 */
#ifndef TALLY_SHM_TOKENS_H
#define TALLY_SHM_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKENS_MAX	 1024
#define TOKENS_HASH_SIZE 32
#define TOKENS_WHY_SIZE	 512
#define TOKENS_NAME_MAX	 256 /* bytes of a tenant's name */
#define TOKENS_TEXT_MAX	 512 /* bytes of a token itself */

/* What a token may; and what a question needs: any one of these. */
enum token_scope {
	TOKEN_ASK = 1,
	TOKEN_READ = 2,
	TOKEN_METRICS = 4,
	TOKEN_TENANT = 8, /* of a question: a token for its tenant will do */
	TOKEN_ADMIN = 16  /* of a token */
};

struct token {
	uint8_t hash[TOKENS_HASH_SIZE];
	unsigned scopes;
	unsigned line;
	size_t tenants_at, tenants_n; /* of tokens->tenants */
};

struct tokens {
	struct token of[TOKENS_MAX];
	size_t n;
	char **tenants; /* names that point into text */
	size_t tenants_n;
	char *text;
};

/*
 * Reads and checks the file; *mode gets its mode.  NULL with one line in `why`.  At most 1 MiB.
 */
struct tokens *tokens_load(const char *path, unsigned *mode, char why[TOKENS_WHY_SIZE]);

/* The same from memory (`text` is copied); `name` stands for the file in messages. */
struct tokens *tokens_parse(
	const char *name, const char *text, size_t len, char why[TOKENS_WHY_SIZE]);

void tokens_free(struct tokens **tokens);

/*
 * May this token do what needs any of `needs`?  With TOKEN_TENANT one for `tenant` will do;
 * tenant NULL: one for any tenant, whoever asks looks again when he knows which.
 */
bool tokens_allow(
	const struct tokens *tokens, const struct token *token, unsigned needs, const char *tenant);

/*
 * A file that has one token and nothing else, for those who show it: its text, with the newline
 * at its end taken off.  NULL with one line in `why`.  tokens_wipe ends it.
 */
char *tokens_read_one(const char *path, unsigned *mode, char why[TOKENS_WHY_SIZE]);
void tokens_wipe(char **token);

#endif
