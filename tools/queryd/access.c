/*
 * access.c - who may ask: bearer tokens over HTTP and gRPC, against query.tokens_file.
 *
 *	access_renew --new tokens--> [ lock ] <--- access_judge, any thread, many at a time
 *
 * All entries are looked at for each token, and each is compared whole: how long it takes
 * says nothing about what is in the file.
 *
 * Runs in: queryd, any thread.  Blocks in: reading the file; its own locks, for microseconds.
 */
#include "access.h"

#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "shm/check.h"
#include "shm/log.h"

#define LOG_EVERY_MS 10000

_Static_assert(TOKENS_HASH_SIZE == SHA256_DIGEST_LENGTH, "the file has SHA-256");

struct access {
	char *path;
	pthread_rwlock_t lock;
	struct tokens *tokens;
	_Atomic uint64_t refused[ACCESS_PROTOCOLS][ACCESS_VERDICTS];
	pthread_mutex_t log_lock;
	struct log_limit limit;
};

/* clang-format off */
static const struct verdict {
	const char *word, *words;
} verdicts[ACCESS_VERDICTS] = {
	[ACCESS_GRANTED]       = { "granted", "" },
	[ACCESS_NO_TOKEN]      = { "no_token", "a token is needed: send the header \"Authorization: Bearer TOKEN\"" },
	[ACCESS_UNKNOWN_TOKEN] = { "unknown_token", "this token is not known here: query.tokens_file does not have it" },
	[ACCESS_OUT_OF_SCOPE]  = { "scope", "this token may not ask that: its scopes in query.tokens_file do not have it" },
};
/* clang-format on */

const char *access_words(enum access_verdict verdict)
{
	return verdicts[verdict].words;
}

const char *access_word(enum access_verdict verdict)
{
	return verdicts[verdict].word;
}

/* --- the file --------------------------------------------------------------------------------- */

/* NULL with a line in `why`. */
static struct tokens *load(const char *path, char why[ACCESS_WHY_SIZE])
{
	char reason[TOKENS_WHY_SIZE], quoted[600];
	unsigned mode;
	struct tokens *tokens = tokens_load(path, &mode, reason);

	if (tokens == NULL)
		snprintf(why, ACCESS_WHY_SIZE, "query.tokens_file: %s", reason);
	else if ((mode & S_IWOTH) != 0)
		log_warn("access.exposed",
			"file=%s mode=%04o hint=\"every user can write it, and give himself every "
			"scope; chmod o-rwx it\"",
			log_quote(quoted, sizeof(quoted), path), mode);
	else if ((mode & S_IRWXO) != 0)
		log_warn("access.exposed",
			"file=%s mode=%04o hint=\"every user can read it; chmod o-rwx it\"",
			log_quote(quoted, sizeof(quoted), path), mode);
	return tokens;
}

/* A flood of questions must not keep a new file out. */
static void init_lock(pthread_rwlock_t *lock)
{
	pthread_rwlockattr_t how;

	pthread_rwlockattr_init(&how);
	pthread_rwlockattr_setkind_np(&how, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(lock, &how);
	pthread_rwlockattr_destroy(&how);
}

struct access *access_new(const char *path, char why[ACCESS_WHY_SIZE])
{
	struct tokens *tokens = load(path, why);
	struct access *access;

	if (tokens == NULL)
		return NULL;
	access = calloc(1, sizeof(*access));
	must_get(access != NULL);
	access->path = strdup(path);
	must_get(access->path != NULL);
	access->tokens = tokens;
	init_lock(&access->lock);
	pthread_mutex_init(&access->log_lock, NULL);
	return access;
}

void access_free(struct access **handle)
{
	struct access *access = *handle;

	*handle = NULL;
	if (access == NULL)
		return;
	tokens_free(&access->tokens);
	pthread_rwlock_destroy(&access->lock);
	pthread_mutex_destroy(&access->log_lock);
	free(access->path);
	free(access);
}

bool access_renew(struct access *access, char why[ACCESS_WHY_SIZE])
{
	struct tokens *fresh, *old;

	if (access == NULL)
		return true;
	fresh = load(access->path, why);
	if (fresh == NULL)
		return false;
	pthread_rwlock_wrlock(&access->lock);
	old = access->tokens;
	access->tokens = fresh;
	pthread_rwlock_unlock(&access->lock);
	tokens_free(&old);
	return true;
}

/* --- a question ------------------------------------------------------------------------------- */

/* RFC 6750: "Bearer", blanks, the token.  false: it is not that. */
static bool take_token(const char *header, size_t len, const char **token, size_t *token_len)
{
	static const char scheme[] = "Bearer";
	size_t at = sizeof(scheme) - 1;

	if (header == NULL || len <= at || strncasecmp(header, scheme, at) != 0 ||
		header[at] != ' ')
		return false;
	while (at < len && header[at] == ' ')
		at++;
	while (len > at && header[len - 1] == ' ')
		len--;
	*token = header + at;
	*token_len = len - at;
	return *token_len > 0 && *token_len <= TOKENS_TEXT_MAX;
}

/* Not ended by the first that fits, on purpose. */
static const struct token *find(const struct tokens *tokens, const uint8_t hash[TOKENS_HASH_SIZE])
{
	const struct token *found = NULL;

	for (size_t i = 0; i < tokens->n; i++)
		if (CRYPTO_memcmp(tokens->of[i].hash, hash, TOKENS_HASH_SIZE) == 0)
			found = &tokens->of[i];
	return found;
}

enum access_verdict access_judge(struct access *access, const char *authorization, size_t len,
	unsigned needs, const char *tenant)
{
	uint8_t hash[TOKENS_HASH_SIZE];
	enum access_verdict verdict;
	const struct token *of;
	const char *token;
	size_t token_len;

	if (access == NULL)
		return ACCESS_GRANTED;
	if (!take_token(authorization, len, &token, &token_len))
		return ACCESS_NO_TOKEN;
	SHA256((const unsigned char *)token, token_len, hash);
	pthread_rwlock_rdlock(&access->lock);
	of = find(access->tokens, hash);
	verdict = of == NULL					    ? ACCESS_UNKNOWN_TOKEN
		  : tokens_allow(access->tokens, of, needs, tenant) ? ACCESS_GRANTED
								    : ACCESS_OUT_OF_SCOPE;
	pthread_rwlock_unlock(&access->lock);
	return verdict;
}

static void peer_text(int fd, char text[NI_MAXHOST])
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);

	if (getpeername(fd, (struct sockaddr *)&address, &len) != 0 ||
		getnameinfo((struct sockaddr *)&address, len, text, NI_MAXHOST, NULL, 0,
			NI_NUMERICHOST) != 0)
		snprintf(text, NI_MAXHOST, "?");
}

void access_refused(
	struct access *access, enum access_protocol protocol, enum access_verdict verdict, int fd)
{
	static const char *const protocols[] = {"http", "grpc"};
	char text[NI_MAXHOST];
	unsigned suppressed;
	bool say;

	atomic_fetch_add(&access->refused[protocol][verdict], 1);
	pthread_mutex_lock(&access->log_lock);
	say = log_limit_pass(&access->limit, LOG_EVERY_MS, &suppressed);
	pthread_mutex_unlock(&access->log_lock);
	if (!say)
		return;
	peer_text(fd, text);
	log_warn("access.refused", "protocol=%s from=%s reason=%s suppressed=%u",
		protocols[protocol], text, verdicts[verdict].word, suppressed);
}

/* --- for metrics ------------------------------------------------------------------------------ */

size_t access_tokens(struct access *access)
{
	size_t n;

	pthread_rwlock_rdlock(&access->lock);
	n = access->tokens->n;
	pthread_rwlock_unlock(&access->lock);
	return n;
}

uint64_t access_count(
	struct access *access, enum access_protocol protocol, enum access_verdict verdict)
{
	return atomic_load(&access->refused[protocol][verdict]);
}
