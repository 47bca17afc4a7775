/*
 * test_config_fuzz.c - tally.yaml, damaged in thousands of ways: one line or a good file, never
 * more.
 *
 * Worth most under the address sanitizer.
 */
#include "tests/unit/config_fixture.h"

/* --- fuzz ------------------------------------------------------------------------------------ */

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* One to four changes at random places; returns the new length. */
static size_t mutate(char *text, size_t len, size_t size, uint64_t *seed)
{
	static const char *const tokens[] = {"\t", "&a ", "*a", "!!", ": ", "- ", "[", "{", "}",
		"'", "\"", "\\0", "|", ">", "---\n", "...\n", "%YAML 9\n", "\xff", "\xc2\x9b",
		"<<: ", "? ", "\n", "~", "99999999999999999999", "kafka:\n", "-"};
	unsigned changes = 1 + next_random(seed) % 4;

	while (changes-- > 0 && len > 0) {
		size_t at = next_random(seed) % len, n = next_random(seed) % 40;
		const char *token = tokens[next_random(seed) % COUNT(tokens)];

		if (n > len - at)
			n = len - at;
		switch (next_random(seed) % 4) {
		case 0:
			text[at] = (char)next_random(seed);
			break;
		case 1:
			memmove(text + at, text + at + n, len - at - n);
			len -= n;
			break;
		case 2:
			if (len + n <= size) {
				memmove(text + at + n, text + at, len - at);
				len += n;
			}
			break;
		default:
			n = strlen(token);
			if (len + n <= size) {
				memmove(text + at + n, text + at, len - at);
				memcpy(text + at, token, n);
				len += n;
			}
		}
	}
	return len;
}

static void config_survives_when_the_file_is_damaged(void **state)
{
	size_t len, size, accepted = 0, refused = 0;
	char *sample = printed(&len), *text;
	uint64_t seed = 88172645463325252u;

	(void)state;
	size = len + 512;
	for (int i = 0; i < 4000; i++) {
		size_t n;

		text = malloc(size);
		assert_non_null(text);
		memcpy(text, sample, len);
		n = mutate(text, len, size, &seed);
		text = realloc(text, n ? n : 1); /* exact, for the sanitizer */
		if (config_parse("t.yaml", text, n, &config, &error) == 0) {
			accepted++;
			config_free(&config);
		} else {
			refused++;
			assert_memory_equal(error.line, "t.yaml:", 7);
			assert_true(strlen(error.line) > 15);
			for (const char *s = error.line; *s; s++)
				assert_true((unsigned char)*s >= 0x20);
		}
		free(text);
	}
	free(sample);
	assert_true(accepted > 100 && refused > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_survives_when_the_file_is_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
