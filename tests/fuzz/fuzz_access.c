/*
 * fuzz_access.c - who may ask: the Authorization header of a stranger, and the file of tokens.
 *
 *	header '\n' file
 *
 *	header -> access_judge, against a file that is known: only its tokens are granted anything
 *	file   -> tokens_parse: taken, or refused with a line that shows nothing of it
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

#include "tools/queryd/access.h"

/* Of the tokens "a" and "b". */
static const char known[] =
	"sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb admin\n"
	"sha256:3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d read:t\n";

static struct access *access_known;

static void end(void)
{
	access_free(&access_known);
}

static void begin(void)
{
	char path[64], why[ACCESS_WHY_SIZE] = "";
	int fd;

	if (access_known != NULL)
		return;
	fd = memfd_create("fuzz-tokens", MFD_CLOEXEC);
	hold(fd >= 0 && write(fd, known, sizeof(known) - 1) == sizeof(known) - 1);
	hold(fchmod(fd, 0600) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	access_known = access_new(path, why);
	hold(access_known != NULL);
	atexit(end);
}

/* The token in a header of the right form, as a person would find it. */
static bool ends_with(const char *header, size_t len, char token)
{
	while (len > 0 && (header[len - 1] == ' ' || header[len - 1] == '\t'))
		len--;
	return len >= 8 && header[len - 1] == token;
}

static void run_header(const char *header, size_t len)
{
	static const unsigned needs[] = {
		TOKEN_ASK, TOKEN_READ, TOKEN_METRICS, TOKEN_READ | TOKEN_TENANT, TOKEN_TENANT, 0};
	static const char *const tenants[] = {NULL, "t", "u"};

	for (size_t n = 0; n < sizeof(needs) / sizeof(needs[0]); n++)
		for (size_t t = 0; t < 3; t++) {
			enum access_verdict verdict =
				access_judge(access_known, header, len, needs[n], tenants[t]);
			bool a = ends_with(header, len, 'a'), b = ends_with(header, len, 'b');

			hold(verdict < ACCESS_VERDICTS);
			if (verdict == ACCESS_GRANTED)
				hold(a || (b && needs[n] & TOKEN_TENANT && t != 2));
			else
				hold(access_words(verdict)[0] != '\0');
		}
}

static void run_file(const char *text, size_t len)
{
	char why[TOKENS_WHY_SIZE] = "";
	struct tokens *tokens = tokens_parse("f", text, len, why);

	if (tokens == NULL) {
		hold_line(why, sizeof(why));
		return;
	}
	hold(tokens->n <= TOKENS_MAX);
	for (size_t i = 0; i < tokens->n; i++) {
		const struct token *token = &tokens->of[i];

		hold(token->tenants_at + token->tenants_n <= tokens->tenants_n);
		hold(tokens_allow(tokens, token, TOKEN_TENANT, NULL) == (token->tenants_n > 0));
		for (size_t k = 0; k < token->tenants_n; k++) {
			const char *name = tokens->tenants[token->tenants_at + k];

			hold(strlen(name) >= 1 && strlen(name) <= TOKENS_NAME_MAX);
			hold(tokens_allow(tokens, token, TOKEN_TENANT, name));
		}
	}
	tokens_free(&tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const uint8_t *line = len > 0 ? memchr(data, '\n', len) : NULL;
	size_t n = line != NULL ? (size_t)(line - data) : len;
	size_t rest = line != NULL ? len - n - 1 : 0;
	char *header = (char *)fuzz_copy(data, n),
	     *file = (char *)fuzz_copy(data + len - rest, rest);

	begin();
	run_header(header, n);
	run_file(file, rest);
	free(header);
	free(file);
	return 0;
}
