/*
 * test_limits_yaml.c - limits.yaml: what is good is taken as it is meant, what is bad is one line.
 */
#include "scratch.h"

#include <time.h>

#include "shm/confine_private.h"
#include "shm/err.h"
#include "supervisor/limits_yaml.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define KEY	 "max_global_streams_per_user"

static const struct limits_defaults strict = {.streams = 5000, .scope = LIMIT_INSTANCE};
static const struct limits_defaults lenient = {
	.streams = 5000, .scope = LIMIT_INSTANCE, .ignore_unknown = true};

static struct limits_yaml yaml;
static struct config_error error;

static void accepts_as(const char *text, const struct limits_defaults *defaults)
{
	if (limits_yaml_parse("l.yaml", text, strlen(text), defaults, &yaml, &error) != 0)
		fail_msg("refused: %s", error.line);
}

static void accepts(const char *text)
{
	accepts_as(text, &strict);
}

static const struct limits_tenant *tenant(const char *name)
{
	for (size_t i = 0; i < yaml.source.n_tenants; i++)
		if (strcmp(yaml.source.tenants[i].name, name) == 0)
			return &yaml.source.tenants[i];
	fail_msg("no tenant %s", name);
	return NULL;
}

static void limits_yaml_takes_tenants_policies_and_dry_runs(void **state)
{
	(void)state;
	accepts("overrides:\n"
		"  a:\n"
		"    " KEY ": 10000\n"
		"    policy_override_limits:\n"
		"      finance: {" KEY ": 2000}\n"
		"      \"\\u00e4 b\":\n"
		"        " KEY ": 0\n"
		"    dry_run: true\n"
		"  '0': {" KEY ": 1000000000000}\n"
		"  c:\n"
		"  d: {}\n"
		"  e: {policy_override_limits: {p: {" KEY ": 1}}}\n"
		"  f: {policy_override_limits: , dry_run: false, " KEY ": 0}\n");
	assert_int_equal(yaml.source.n_tenants, 6);
	assert_true(yaml.source.default_streams == 5000);
	const struct limits_tenant *t = tenant("a");
	assert_true(t->has_streams && t->streams == 10000 && t->dry_run && t->n_policies == 2);
	assert_string_equal(t->policies[0].name, "finance");
	assert_true(t->policies[0].streams == 2000);
	assert_string_equal(t->policies[1].name, "\xc3\xa4 b");
	assert_true(t->policies[1].streams == LIMIT_NONE);
	assert_true(tenant("0")->streams == LIMITS_STREAMS_MAX);
	assert_false(tenant("c")->has_streams || tenant("d")->has_streams || tenant("d")->dry_run);
	assert_string_equal(tenant("e")->policies[0].name, "p");
	assert_true(tenant("f")->has_streams && tenant("f")->streams == LIMIT_NONE);
	limits_yaml_free(&yaml);
	limits_yaml_free(&yaml);
}

static void limits_yaml_has_no_overrides_when_there_are_none(void **state)
{
	static const char *const texts[] = {"{}", "---\n{}\n...\n", "overrides:\n",
		"overrides: null\n", "overrides: {}\n", "\xef\xbb\xbfoverrides:\n"};

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++) {
		accepts(texts[i]);
		assert_int_equal(yaml.source.n_tenants, 0);
		limits_yaml_free(&yaml);
	}
}

static void limits_yaml_refuses_a_file_without_content(void **state)
{
	static const char *const texts[] = {
		"", "\n# nothing\n", "---\n", "---\n...\n", "~", "\xef\xbb\xbf"};

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++) {
		assert_int_equal(limits_yaml_parse("l.yaml", texts[i], strlen(texts[i]), &strict,
					 &yaml, &error),
			ERR_INVALID);
		assert_string_equal(error.line,
			"l.yaml: is empty; write \"overrides: {}\" when no tenant has a limit of "
			"its own");
	}
}

static void limits_yaml_dry_run_is_the_default_one_when_a_tenant_says_nothing(void **state)
{
	const struct limits_defaults dry = {
		.streams = LIMIT_NONE, .dry_run = true, .scope = LIMIT_PARTITION};

	(void)state;
	accepts_as("overrides: {a: {" KEY ": 1}, b: {dry_run: false}, c: }\n", &dry);
	assert_true(tenant("a")->dry_run && tenant("c")->dry_run && !tenant("b")->dry_run);
	assert_true(yaml.source.default_dry_run);
	assert_true(yaml.source.default_streams == LIMIT_NONE);
	assert_int_equal(yaml.source.scope, LIMIT_PARTITION);
	limits_yaml_free(&yaml);
}

static void limits_yaml_passes_over_unknown_keys_when_told_so(void **state)
{
	(void)state;
	accepts_as("multi_kv_config: {mirror_enabled: false, list: [1, [2, {a: b}], 3]}\n"
		   "overrides:\n"
		   "  a:\n"
		   "    ingestion_rate_mb: 10\n"
		   "    ingestion_rate_mb: 11\n"
		   "    retention_stream:\n"
		   "      - {selector: '{a=\"b\"}', priority: 1, period: 24h}\n"
		   "    " KEY ": 7\n"
		   "    policy_override_limits:\n"
		   "      rates: {ingestion_rate_mb: 1}\n"
		   "      empty:\n"
		   "      p: {ingestion_rate_mb: 1, " KEY ": 3, max: {x: [y]}}\n"
		   "configs: ~\n",
		&lenient);
	assert_int_equal(yaml.source.n_tenants, 1);
	assert_true(tenant("a")->streams == 7);
	assert_int_equal(tenant("a")->n_policies, 1);
	assert_string_equal(tenant("a")->policies[0].name, "p");
	limits_yaml_free(&yaml);
}

/* --- what is refused -------------------------------------------------------------------------- */

#define T "overrides:\n  tenant-a:\n    "
#define A "overrides.tenant-a"
#define P T "policy_override_limits:\n      finance:\n        "
#define F "overrides.tenant-a.policy_override_limits.finance"

static const struct refused {
	const char *text, *line;
} refused[] = {
	/* numbers */
	{T KEY ": -1\n", "l.yaml:3: " A "." KEY ": -1 is negative; write 0 for no limit"},
	{P KEY ": -5\n", "l.yaml:5: " F "." KEY ": -5 is negative; write 0 for no limit"},
	{T KEY ": 1000000000001\n",
		"l.yaml:3: " A "." KEY
		": 1000000000001 is more than 1000000000000; write 0 for no limit"},
	{T KEY ": 18446744073709551617\n",
		"l.yaml:3: " A "." KEY
		": 18446744073709551617 is more than 1000000000000; write 0 for no limit"},
	{T KEY ": 1.5\n",
		"l.yaml:3: " A "." KEY ": 1.5 is no whole number; write digits only, like 5000, or "
		"0 for no limit"},
	{T KEY ": 1e3\n",
		"l.yaml:3: " A "." KEY ": 1e3 is no whole number; write digits only, like 5000, or "
		"0 for no limit"},
	{T KEY ": 0x10\n",
		"l.yaml:3: " A "." KEY ": 0x10 is no whole number; write digits only, like 5000, "
		"or 0 for no limit"},
	{T KEY ": 5_000\n",
		"l.yaml:3: " A "." KEY ": 5_000 is no whole number; write digits only, like 5000, "
		"or 0 for no limit"},
	{T KEY ": +5\n",
		"l.yaml:3: " A "." KEY ": +5 is no whole number; write digits only, like 5000, or "
		"0 for no limit"},
	{T KEY ": many\n",
		"l.yaml:3: " A "." KEY ": many is no whole number; write digits only, like 5000, "
		"or 0 for no limit"},
	{T KEY ": 010\n", "l.yaml:3: " A "." KEY
			  ": 010 begins with 0, which YAML reads as octal; write it without"},
	{T KEY ": '5'\n",
		"l.yaml:3: " A "." KEY ": is text in quotes; write a number of streams, 0 for no "
		"limit, without quotes"},
	{T KEY ":\n",
		"l.yaml:3: " A "." KEY ": has no value; write a number of streams, 0 for no limit, "
		"or take the line out"},
	{T KEY ": {}\n",
		"l.yaml:3: " A "." KEY ": must be one value, not a map; write a number of streams, "
		"0 for no limit"},
	{T KEY ": [5]\n", "l.yaml:3: " A "." KEY
			  ": must be one value, not a list; write a number of streams, "
			  "0 for no limit"},
	/* dry_run */
	{T "dry_run: yes\n",
		"l.yaml:3: " A ".dry_run: yes is neither true nor false; write one of them"},
	{T "dry_run: 1\n",
		"l.yaml:3: " A ".dry_run: 1 is neither true nor false; write one of them"},
	{T "dry_run: 'true'\n",
		"l.yaml:3: " A ".dry_run: is text in quotes; write true or false, without quotes"},
	{T "dry_run: ~\n",
		"l.yaml:3: " A ".dry_run: has no value; write true or false, or take the line out"},
	/* keys */
	{T "max_global_stream_per_user: 5\n",
		"l.yaml:3: " A ".max_global_stream_per_user: no such key; did you mean " KEY "?"},
	{T "ingestion_rate_mb: 5\n",
		"l.yaml:3: " A ".ingestion_rate_mb: no such key; known here: " KEY
		", dry_run, policy_override_limits; limits.unknown_keys: ignore passes over "
		"others"},
	{P "dry_run: true\n", "l.yaml:5: " F ".dry_run: no such key; known here: " KEY
			      "; limits.unknown_keys: ignore passes over others"},
	{"override:\n  a:\n", "l.yaml:1: override: no such key; did you mean overrides?"},
	{"multi_kv_config:\n  a:\n",
		"l.yaml:1: multi_kv_config: no such key; known here: overrides; "
		"limits.unknown_keys: ignore passes over others"},
	{T "~: 5\n", "l.yaml:3: a key: has no value; write the name of an option, or take the line "
		     "out"},
	/* twice */
	{T KEY ": 5\n    dry_run: true\n    " KEY ": 5\n",
		"l.yaml:5: " A "." KEY ": is given twice, first on line 3; take one out"},
	{P KEY ": 5\n        " KEY ": 6\n",
		"l.yaml:6: " F "." KEY ": is given twice, first on line 5; take one out"},
	{"overrides:\n  b:\n  tenant-a:\n  c:\n  tenant-a:\n  b:\n",
		"l.yaml:5: " A ": is given twice, first on line 3; take one out"},
	{P KEY ": 5\n      x: {" KEY ": 5}\n      finance:\n        " KEY ": 5\n",
		"l.yaml:7: " F ": is given twice, first on line 4; take one out"},
	{"overrides:\noverrides:\n",
		"l.yaml:2: overrides: is given twice, first on line 1; take one out"},
	/* shapes */
	{"overrides: 5\n", "l.yaml:1: overrides: must be a map; write each tenant on the lines "
			   "below, indented"},
	{"overrides:\n  - a\n", "l.yaml:2: overrides: must be a map; write each tenant on the "
				"lines below, indented"},
	{"overrides:\n  tenant-a: 5\n", "l.yaml:2: " A ": must be a map; write its limits on the "
					"lines below, indented"},
	{T "policy_override_limits: [finance]\n",
		"l.yaml:3: " A ".policy_override_limits: must be a map; write each policy on the "
		"lines below, indented"},
	{T "policy_override_limits:\n      finance: 2000\n",
		"l.yaml:4: " F ": must be a map; write " KEY " on the lines below, indented"},
	{T "policy_override_limits:\n      finance:\n",
		"l.yaml:4: " F ": has no limit; write " KEY " below it, or take it out"},
	{T "policy_override_limits:\n      finance: {}\n",
		"l.yaml:4: " F ": has no limit; write " KEY " below it, or take it out"},
	{"- a\n", "l.yaml:1: must be a map; begin with \"overrides:\" and write each tenant below "
		  "it, indented"},
	{"text\n", "l.yaml:1: must be a map; begin with \"overrides:\" and write each tenant below "
		   "it, indented"},
	{"overrides:\n---\noverrides:\n",
		"l.yaml:2: a second YAML document (---) begins here; there must be only one"},
	/* names */
	{"overrides:\n  '': {" KEY ": 1}\n",
		"l.yaml:2: overrides: a tenant has no name; write it before the colon"},
	{"overrides:\n  ~: {" KEY ": 1}\n",
		"l.yaml:2: a key: has no value; write the name of an option, or take the line out"},
	{T "policy_override_limits:\n      '': {" KEY ": 1}\n",
		"l.yaml:4: " A
		".policy_override_limits: a policy has no name; write it before the colon"},
	{"overrides:\n  \"a\\0b\":\n", "l.yaml:2: a key: contains a NUL character; take it out"},
	{"overrides:\n  \xff:\n", "l.yaml:2: not valid YAML: invalid leading UTF-8 octet (byte "
				  "13); the file must be UTF-8 text"},
	/* YAML */
	{"overrides:\n\ta:\n", "l.yaml:2: not valid YAML: a tab; indent with blanks only"},
	{"overrides: {\n", "l.yaml:2: not valid YAML: did not find expected node content while "
			   "parsing a flow node"},
	{"overrides: {a: &a {" KEY ": 1}, b: *a}\n",
		"l.yaml:1: anchors and aliases (& and *) are not used here; write the value out, "
		"in quotes if it begins with one of these"},
	{T KEY ": !!int 5\n", "l.yaml:3: tags (!) are not used here; leave it out, or put the "
			      "value into quotes"},
};

static void limits_yaml_says_in_one_line_what_is_wrong(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(refused); i++) {
		const char *text = refused[i].text;

		if (limits_yaml_parse("l.yaml", text, strlen(text), &strict, &yaml, &error) == 0)
			fail_msg("accepted: %s", text);
		assert_string_equal(error.line, refused[i].line);
		assert_null(yaml.tenants);
	}
}

/* What is passed over must still be YAML without cleverness. */
static void limits_yaml_refuses_bombs_also_when_unknown_keys_are_passed_over(void **state)
{
	size_t deep = 1 << 20;
	char *text = malloc(deep + 8);

	(void)state;
	memcpy(text, "x: ", 3);
	memset(text + 3, '[', deep);
	assert_true(limits_yaml_parse("l.yaml", text, deep + 3, &lenient, &yaml, &error) < 0);
	assert_string_equal(error.line,
		"l.yaml:1: maps and lists are nested more than 100 deep; no limits are so");
	strcpy(text, "x: &a [1]\ny: [*a, *a]\n");
	assert_true(limits_yaml_parse("l.yaml", text, strlen(text), &lenient, &yaml, &error) < 0);
	assert_non_null(strstr(error.line, "anchors and aliases"));
	free(text);
}

static void limits_yaml_counts_the_bytes_of_a_name(void **state)
{
	char name[LIMITS_NAME_MAX + 2], text[1024];

	(void)state;
	memset(name, 'n', sizeof name);
	name[LIMITS_NAME_MAX] = '\0';
	snprintf(text, sizeof text, "overrides: {\"%s\": {" KEY ": 3}}\n", name);
	accepts(text);
	assert_true(tenant(name)->streams == 3);
	limits_yaml_free(&yaml);
	snprintf(text, sizeof text, "overrides: {\"%sm\": {" KEY ": 3}}\n", name);
	assert_true(limits_yaml_parse("l.yaml", text, strlen(text), &strict, &yaml, &error) < 0);
	assert_string_equal(error.line,
		"l.yaml:1: overrides: the name of a tenant, nnnnnnnnnnnnnnnnnnnn..., has 257 "
		"bytes; at most 256 can be");
	snprintf(text, sizeof text, "overrides: {\"%s\": {" KEY ": -3}}\n", name);
	assert_true(limits_yaml_parse("l.yaml", text, strlen(text), &strict, &yaml, &error) < 0);
	assert_string_equal(error.line,
		"l.yaml:1: overrides.nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn..."
		"." KEY ": -3 is negative; write 0 for no limit");
}

/* --- files ------------------------------------------------------------------------------------ */

static const char *load_error(const struct scratch *s, const char *name)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", s->path, name);
	alarm(20); /* a hang is a failure */
	assert_true(limits_yaml_load(path, &strict, &yaml, &error) < 0);
	alarm(0);
	assert_memory_equal(error.line, path, strlen(path));
	return error.line + strlen(path);
}

static void limits_yaml_says_what_is_wrong_with_the_file(void **state)
{
	const struct scratch *s = *state;
	int fd;

	assert_string_equal(load_error(s, "none"),
		": No such file or directory; create it, or correct the path");
	assert_int_equal(mkfifoat(s->fd, "fifo", 0600), 0);
	assert_string_equal(
		load_error(s, "fifo"), ": is not a regular file; name one in limits.file");
	assert_int_equal(mkdirat(s->fd, "dir", 0700), 0);
	assert_string_equal(
		load_error(s, "dir"), ": is not a regular file; name one in limits.file");
	fd = openat(s->fd, "large", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, LIMITS_FILE_MAX + 1), 0);
	close(fd);
	assert_string_equal(
		load_error(s, "large"), ": is larger than 64 MiB; these cannot be limits");
	scratch_write(s->fd, "bad", "overrides:\n  a: 5\n", 18);
	assert_memory_equal(load_error(s, "bad"), ":2: overrides.a: ", 17);
}

static void limits_yaml_takes_the_sample_file(void **state)
{
	(void)state;
	if (limits_yaml_load("etc/limits.yaml", &strict, &yaml, &error) != 0)
		fail_msg("refused: %s", error.line);
	assert_int_equal(yaml.source.n_tenants, 4);
	assert_true(tenant("tenant-c")->streams == LIMIT_NONE);
	assert_int_equal(tenant("tenant-b")->n_policies, 2);
	assert_true(tenant("tenant-d")->dry_run);
	limits_yaml_free(&yaml);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts); /* others use this machine, too */
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void limits_yaml_loads_100000_tenants_fast_and_publishes_them(void **state)
{
	const struct scratch *s = *state;
	const int n = 100000;
	char path[128];
	double began;
	FILE *out;

	snprintf(path, sizeof path, "%s/l.yaml", s->path);
	out = fopen(path, "we");
	fputs("overrides:\n", out);
	for (int i = 0; i < n; i++)
		fprintf(out,
			"  tenant-%d:\n    " KEY ": %d\n    policy_override_limits:\n"
			"      finance:\n        " KEY ": %d\n",
			i, i + 1, i + 2);
	assert_int_equal(fclose(out), 0);
	began = seconds();
	assert_int_equal(limits_yaml_load(path, &strict, &yaml, &error), 0);
	assert_int_equal(limits_write(s->fd, &yaml.source), 0);
	began = seconds() - began;
	print_message("%d tenants in %.2f s of CPU\n", n, began);
	assert_int_equal(yaml.source.n_tenants, n);
	struct limits limits;
	assert_int_equal(limits_attach(s->fd, &limits), 0);
	for (int i = 0; i < n; i += 997) {
		struct limits_entry entry;
		uint64_t streams;
		char name[32];

		snprintf(name, sizeof name, "tenant-%d", i);
		limits_find(&limits, name, strlen(name), &entry);
		assert_true(entry.streams == (uint64_t)i + 1);
		assert_true(limits_policy(&limits, &entry, "finance", 7, &streams));
		assert_true(streams == (uint64_t)i + 2);
	}
	limits_detach(&limits);
	limits_yaml_free(&yaml);
	if (!CONFINE_SANITIZED)
		assert_true(began < 2); /* 0.4 s */
}

/* --- fuzz ------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static size_t mutate(char *text, size_t len, size_t size, uint64_t *seed)
{
	static const char *const tokens[] = {"\t", "&a ", "*a", "!!", ": ", "- ", "[", "{", "}",
		"'", "\"", "\\0", "|", ">", "---\n", "\xff", "\xc2\x9b", "<<: ", "? ", "\n", "~",
		"99999999999999999999", "overrides:\n", "-", "0", KEY, "  "};

	for (uint64_t changes = 1 + next_random(seed) % 4; changes > 0 && len > 0; changes--) {
		size_t at = next_random(seed) % len, n = next_random(seed) % 40;
		const char *token = tokens[next_random(seed) % COUNT(tokens)];

		n = n > len - at ? len - at : n;
		switch (next_random(seed) % 3) {
		case 0:
			text[at] = (char)next_random(seed);
			break;
		case 1:
			memmove(text + at, text + at + n, len - at - n);
			len -= n;
			break;
		default:
			n = strlen(token);
			if (len + n > size)
				break;
			memmove(text + at + n, text + at, len - at);
			memcpy(text + at, token, n);
			len += n;
		}
	}
	return len;
}

/* A good file is published and found again; a bad one is one line. */
static bool survives(int dirfd, const char *text, size_t len)
{
	struct limits limits;

	if (limits_yaml_parse("l.yaml", text, len,
		    next_random(&(uint64_t){len + 1}) % 2 ? &strict : &lenient, &yaml,
		    &error) != 0) {
		assert_memory_equal(error.line, "l.yaml:", 7);
		assert_null(strchr(error.line, '\n'));
		return false;
	}
	assert_int_equal(limits_write(dirfd, &yaml.source), 0);
	assert_int_equal(limits_attach(dirfd, &limits), 0);
	for (size_t i = 0; i < yaml.source.n_tenants; i++) {
		const struct limits_tenant *t = &yaml.source.tenants[i];
		struct limits_entry entry;

		limits_find(&limits, t->name, strlen(t->name), &entry);
		assert_true(entry.listed && entry.n_policies == t->n_policies);
		assert_true(entry.streams == (t->has_streams ? t->streams : 5000));
	}
	limits_detach(&limits);
	limits_yaml_free(&yaml);
	return true;
}

static void limits_yaml_survives_when_the_file_is_damaged(void **state)
{
	static const char sample[] = "# limits\noverrides:\n"
				     "  tenant-a:\n    " KEY ": 10000\n    dry_run: true\n"
				     "  tenant-b:\n    policy_override_limits:\n"
				     "      finance:\n        " KEY ": 2000\n"
				     "      ops: {" KEY ": 0}\n"
				     "  \"c\": {ingestion: [1, {a: b}]}\n  d:\n";
	const struct scratch *s = *state;
	size_t accepted = 0, runs = 20000;
	uint64_t seed = 88172645463325252u;

	for (size_t i = 0; i < runs; i++) {
		size_t size = sizeof sample + 256, len;
		char *text = malloc(size);

		memcpy(text, sample, sizeof sample - 1);
		len = mutate(text, sizeof sample - 1, size, &seed);
		text = realloc(text, len ? len : 1); /* exact, for the sanitizer */
		accepted += survives(s->fd, text, len);
		free(text);
	}
	print_message("%zu of %zu accepted\n", accepted, runs);
	assert_true(accepted > runs / 50 && accepted < runs);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_yaml_takes_tenants_policies_and_dry_runs),
		cmocka_unit_test(limits_yaml_has_no_overrides_when_there_are_none),
		cmocka_unit_test(limits_yaml_refuses_a_file_without_content),
		cmocka_unit_test(limits_yaml_dry_run_is_the_default_one_when_a_tenant_says_nothing),
		cmocka_unit_test(limits_yaml_passes_over_unknown_keys_when_told_so),
		cmocka_unit_test(limits_yaml_says_in_one_line_what_is_wrong),
		cmocka_unit_test(limits_yaml_refuses_bombs_also_when_unknown_keys_are_passed_over),
		cmocka_unit_test(limits_yaml_counts_the_bytes_of_a_name),
		TEST(limits_yaml_says_what_is_wrong_with_the_file),
		cmocka_unit_test(limits_yaml_takes_the_sample_file),
		TEST(limits_yaml_loads_100000_tenants_fast_and_publishes_them),
		TEST(limits_yaml_survives_when_the_file_is_damaged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
