/*
 * tokens.c - query.tokens_file: which tokens there are, and what each of them may ask.
 *
 *	file -> text -> lines -> words: sha256:HEX, scope, scope ... -> struct token
 *
 * A mistake names file and line, says what to write, and repeats nothing of the file.
 *
 * Runs in: supervisor (is the file right?), queryd, tallyctl.  Blocks in: reading the file.
 */
#include "shm/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/percent.h"

#define FILE_SIZE_MAX ((size_t)1 << 20)
#define BLANKS	      " \t\r"

static const char prefix[] = "sha256:";

/* clang-format off */
static const struct word {
	const char *word;
	unsigned scopes;
} words[] = {
	{ "admin",   TOKEN_ADMIN | TOKEN_ASK | TOKEN_READ | TOKEN_METRICS },
	{ "ask",     TOKEN_ASK },
	{ "read",    TOKEN_READ | TOKEN_METRICS },
	{ "metrics", TOKEN_METRICS },
};
/* clang-format on */

/* --- files ------------------------------------------------------------------------------------ */

__attribute__((format(printf, 3, 4))) static bool refuse(
	char why[TOKENS_WHY_SIZE], const char *path, const char *fmt, ...)
{
	int len = snprintf(why, TOKENS_WHY_SIZE, "%.250s", path);
	va_list args;

	va_start(args, fmt);
	vsnprintf(why + len, TOKENS_WHY_SIZE - (size_t)len, fmt, args);
	va_end(args);
	return false;
}

static const char *action(int err)
{
	if (err == ENOENT || err == ENOTDIR)
		return "create it, or correct the path";
	if (err == EACCES || err == EPERM)
		return "let the user that runs this read it";
	return "name a file that can be read";
}

/* All of the file, NUL behind it.  NULL with a line in `why`. */
static char *read_file(
	const char *path, size_t max, size_t *len, unsigned *mode, char why[TOKENS_WHY_SIZE])
{
	/* NONBLOCK: a FIFO must not hang us before it is refused. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *text = malloc(max + 2);
	struct stat st = {0};
	ssize_t n = 1;
	int err = text == NULL ? ENOMEM : fd < 0 || fstat(fd, &st) < 0 ? errno : 0;

	*len = 0;
	while (err == 0 && S_ISREG(st.st_mode) && n > 0 && *len <= max) {
		n = read(fd, text + *len, max + 1 - *len);
		if (n < 0)
			err = errno;
		else
			*len += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	*mode = st.st_mode & 07777;
	if (err != 0)
		refuse(why, path, ": %s; %s", strerror(err), action(err));
	else if (!S_ISREG(st.st_mode))
		refuse(why, path, ": is not a regular file; name one");
	else if (*len > max)
		refuse(why, path, ": is larger than %zu bytes; this cannot be the right file", max);
	else if (memchr(text, '\0', *len) != NULL)
		refuse(why, path, ": contains a NUL byte; it must be text");
	else {
		text[*len] = '\0';
		return text;
	}
	if (text != NULL)
		explicit_bzero(text, *len);
	free(text);
	return NULL;
}

void tokens_wipe(char **token)
{
	if (*token != NULL)
		explicit_bzero(*token, strlen(*token));
	free(*token);
	*token = NULL;
}

char *tokens_read_one(const char *path, unsigned *mode, char why[TOKENS_WHY_SIZE])
{
	size_t len;
	char *text = read_file(path, TOKENS_TEXT_MAX + 2, &len, mode, why);

	if (text == NULL)
		return NULL;
	len = strcspn(text, "\r\n");
	if (text[len + strspn(text + len, "\r\n")] != '\0')
		refuse(why, path,
			": has more than one line; it must have the token and nothing else");
	else if (len == 0)
		refuse(why, path, ": is empty; write the token into it");
	else if (len > TOKENS_TEXT_MAX)
		refuse(why, path, ": a token has at most %d bytes", TOKENS_TEXT_MAX);
	else {
		text[len] = '\0';
		for (const char *at = text; *at > ' ' && *at <= '~'; at++)
			len--;
		if (len == 0)
			return text;
		refuse(why, path, ": a token has letters, digits and signs only, no blanks");
	}
	tokens_wipe(&text);
	return NULL;
}

/* --- lines ------------------------------------------------------------------------------------ */

struct reader {
	struct tokens *tokens;
	const char *name;
	unsigned line;
	char *why;
};

#define WRONG(r, ...) wrong(r, ": " __VA_ARGS__)
__attribute__((format(printf, 2, 3))) static bool wrong(
	const struct reader *r, const char *fmt, ...)
{
	int len = snprintf(r->why, TOKENS_WHY_SIZE, "%.250s:%u", r->name, r->line);
	va_list args;

	va_start(args, fmt);
	vsnprintf(r->why + len, TOKENS_WHY_SIZE - (size_t)len, fmt, args);
	va_end(args);
	return false;
}

static bool take_hash(const struct reader *r, struct token *token, const char *word)
{
	/* What a shell hands to sha256sum when the variable with the token is empty. */
	static const uint8_t nothing[] = {0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14};
	const char *hex = word + sizeof(prefix) - 1;

	if (strncmp(word, prefix, sizeof(prefix) - 1) != 0)
		return WRONG(r, "must begin with sha256: and the SHA-256 of the token, not the "
				"token: printf %%s \"$TOKEN\" | sha256sum");
	if (strlen(hex) != 2 * sizeof(token->hash) ||
		hex[strspn(hex, "0123456789abcdefABCDEF")] != '\0')
		return WRONG(r, "sha256: must be followed by 64 hexadecimal digits: "
				"printf %%s \"$TOKEN\" | sha256sum");
	for (size_t i = 0; i < sizeof(token->hash); i++)
		token->hash[i] =
			(uint8_t)(percent_hex(hex[2 * i]) << 4 | percent_hex(hex[2 * i + 1]));
	if (memcmp(token->hash, nothing, sizeof(nothing)) == 0)
		return WRONG(r, "this is the SHA-256 of nothing; was the token there when it was "
				"made?");
	for (const struct token *old = r->tokens->of; old < token; old++)
		if (memcmp(old->hash, token->hash, sizeof(token->hash)) == 0)
			return WRONG(r, "the same token as on line %u; write all its scopes there",
				old->line);
	return true;
}

static bool take_tenant(const struct reader *r, struct token *token, char *name)
{
	struct tokens *tokens = r->tokens;
	char **grown;

	if (!percent_decode(name, false))
		return WRONG(
			r, "read: a tenant's name has a %% that is no escape; write %%25 for it");
	if (name[0] == '\0' || strlen(name) > TOKENS_NAME_MAX)
		return WRONG(r, "read: must be followed by a tenant's name, of 1 to %d bytes",
			TOKENS_NAME_MAX);
	grown = reallocarray(tokens->tenants, tokens->tenants_n + 1, sizeof(*grown));
	if (grown == NULL)
		return WRONG(r, "out of memory");
	tokens->tenants = grown;
	tokens->tenants[tokens->tenants_n++] = name;
	token->tenants_n++;
	return true;
}

static bool take_scope(const struct reader *r, struct token *token, char *word)
{
	if (strncmp(word, "read:", 5) == 0)
		return take_tenant(r, token, word + 5);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(word, words[i].word) == 0) {
			token->scopes |= words[i].scopes;
			return true;
		}
	return WRONG(r, "there is a scope that is none; there are admin, ask, read, metrics and "
			"read:TENANT, with blanks between");
}

/* The next word of a line, ended; NULL: there is none, or a comment. */
static char *next_word(char **rest)
{
	char *word = *rest + strspn(*rest, BLANKS);
	size_t len = strcspn(word, BLANKS);

	if (*word == '\0' || *word == '#')
		return NULL;
	*rest = word + len + (word[len] != '\0');
	word[len] = '\0';
	return word;
}

static bool take_line(struct reader *r, char *line)
{
	struct tokens *tokens = r->tokens;
	char *word = next_word(&line);
	struct token *token = &tokens->of[tokens->n];

	if (word == NULL)
		return true;
	if (tokens->n == TOKENS_MAX)
		return WRONG(r, "there are more than %d tokens", TOKENS_MAX);
	*token = (struct token){.line = r->line, .tenants_at = tokens->tenants_n};
	if (!take_hash(r, token, word))
		return false;
	while ((word = next_word(&line)) != NULL)
		if (!take_scope(r, token, word))
			return false;
	if (token->scopes == 0 && token->tenants_n == 0)
		return WRONG(r, "the token has no scope; write admin, ask, read, metrics or "
				"read:TENANT behind it");
	tokens->n++;
	return true;
}

/* Takes `text`. */
static struct tokens *parse(const char *name, char *text, char why[TOKENS_WHY_SIZE])
{
	struct tokens *tokens = calloc(1, sizeof(*tokens));
	struct reader r = {.tokens = tokens, .name = name, .why = why};
	char *rest = text, *line;
	bool ok = tokens != NULL && text != NULL;

	if (!ok)
		refuse(why, name, ": out of memory");
	if (tokens != NULL)
		tokens->text = text;
	else
		free(text);
	while (ok && (line = strsep(&rest, "\n")) != NULL) {
		r.line++;
		ok = take_line(&r, line);
	}
	if (ok && tokens->n == 0)
		ok = refuse(why, name,
			": has no token, so nobody could ask; write one, or take the option out");
	if (!ok)
		tokens_free(&tokens);
	return tokens;
}

struct tokens *tokens_parse(
	const char *name, const char *text, size_t len, char why[TOKENS_WHY_SIZE])
{
	return parse(name, strndup(text, len), why);
}

struct tokens *tokens_load(const char *path, unsigned *mode, char why[TOKENS_WHY_SIZE])
{
	size_t len;
	char *text = read_file(path, FILE_SIZE_MAX, &len, mode, why);

	return text == NULL ? NULL : parse(path, text, why);
}

void tokens_free(struct tokens **tokens)
{
	if (*tokens == NULL)
		return;
	free((*tokens)->tenants);
	free((*tokens)->text);
	free(*tokens);
	*tokens = NULL;
}

bool tokens_allow(
	const struct tokens *tokens, const struct token *token, unsigned needs, const char *tenant)
{
	if ((token->scopes & needs) != 0)
		return true;
	if ((needs & TOKEN_TENANT) == 0)
		return false;
	if (tenant == NULL)
		return token->tenants_n > 0;
	for (size_t i = 0; i < token->tenants_n; i++)
		if (strcmp(tokens->tenants[token->tenants_at + i], tenant) == 0)
			return true;
	return false;
}
