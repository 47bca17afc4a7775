/*
 * test_config_secret.c - kafka.secret_files: which files are read, which are refused, and that no
 * line shows what is in them.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/config_fixture.h"

#define SECRET "hunter2"

static char dir[] = "/tmp/tally-secret-XXXXXX";
static char path[64], yaml[1024];
static struct config_secrets secrets;

static int make_dir(void **state)
{
	(void)state;
	snprintf(path, sizeof(path), "%s/pw", mkdtemp(dir));
	snprintf(yaml, sizeof(yaml),
		MIN_YAML "  properties: {sasl.username: tally}\n"
			 "  secret_files: {sasl.password: %s}\n",
		path);
	return 0;
}

static int drop_dir(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

static void write_secret(const char *text, size_t len, mode_t mode)
{
	FILE *out = fopen(path, "w");

	assert_non_null(out);
	assert_int_equal(fwrite(text, 1, len, out), len);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static int load(void)
{
	return config_secrets_load("t.yaml", &config, &secrets, &error);
}

static void reads(const char *text, size_t len, const char *value)
{
	write_secret(text, len, 0600);
	accepts(yaml);
	if (load() != 0)
		fail_msg("refused: %s", error.line);
	config_secrets_swap(&config, &secrets);
	assert_string_equal(config.properties[1].value, value);
	config_secrets_free(&secrets);
	config_free(&config);
}

/* With the path and the reason, and nothing of the content. */
static void refuses_file(const char *reason)
{
	char line[512];

	snprintf(line, sizeof(line), "t.yaml:5: kafka.secret_files: sasl.password: %s: %s", path,
		reason);
	accepts(yaml);
	assert_int_equal(load(), ERR_INVALID);
	assert_string_equal(error.line, line);
	config_free(&config);
}

static void config_secret_is_the_file_without_its_last_newline(void **state)
{
	char *pem = malloc(65539);

	(void)state;
	reads(SECRET "\n", 8, SECRET);
	reads(SECRET "\r\n", 9, SECRET);
	reads(SECRET, 7, SECRET);
	reads(SECRET "\n\n", 9, SECRET "\n");
	reads("BEGIN\nEND\n", 10, "BEGIN\nEND");
	reads(" a b ", 5, " a b ");
	assert_non_null(pem);
	memset(pem, 'x', 65536);
	pem[65536] = '\0';
	reads(pem, 65536, pem);
	memcpy(pem + 65536, "\r\n", 3);
	char *full = strndup(pem, 65536);
	assert_non_null(full);
	reads(pem, 65538, full);
	free(full);
	free(pem);
}

static void config_secret_refuses_files_that_cannot_be_meant(void **state)
{
	char *large = calloc(1, 65537);

	(void)state;
	unlink(path);
	refuses_file("No such file or directory; create it, or correct the path");
	assert_int_equal(mkfifo(path, 0600), 0);
	refuses_file("is not a regular file; name one that has the value and nothing else");
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	refuses_file("is not a regular file; name one that has the value and nothing else");
	rmdir(path);
	write_secret("", 0, 0600);
	refuses_file("is empty; write the value into it");
	write_secret("\n", 1, 0600);
	refuses_file("is empty; write the value into it");
	write_secret(SECRET "\0x\n", 10, 0600);
	refuses_file("contains a NUL byte; name a file that has the value as text");
	assert_non_null(large);
	memset(large, 'x', 65537);
	write_secret(large, 65537, 0600);
	refuses_file("is larger than 64 KiB; name a file that has the value and nothing else");
	free(large);
}

static void config_secret_that_cannot_be_read_again_leaves_the_old_one(void **state)
{
	(void)state;
	write_secret("old", 3, 0600);
	accepts(yaml);
	assert_int_equal(load(), 0);
	config_secrets_swap(&config, &secrets);
	config_secrets_free(&secrets);
	write_secret("", 0, 0600);
	assert_int_equal(load(), ERR_INVALID);
	assert_string_equal(config.properties[1].value, "old");
	write_secret("new", 3, 0600);
	assert_int_equal(load(), 0);
	config_secrets_swap(&config, &secrets);
	assert_string_equal(config.properties[1].value, "new");
	config_secrets_swap(&config, &secrets); /* and back */
	assert_string_equal(config.properties[1].value, "old");
	assert_string_equal(config.properties[0].value, "tally");
	config_secrets_free(&secrets);
	config_free(&config);
}

static void config_load_does_not_open_the_files(void **state)
{
	(void)state;
	unlink(path);
	accepts(yaml);
	assert_int_equal(config.n_secret_files, 1);
	assert_string_equal(config.properties[1].path, path);
	assert_null(config.properties[1].value);
	config_free(&config);
	assert_int_equal(config.n_secret_files, 0);
}

static void config_refuses_properties_too_large_for_a_handoff(void **state)
{
	char *big = malloc(65536), text[2048];
	size_t len = (size_t)sprintf(text, MIN_YAML "  secret_files:\n");

	(void)state;
	assert_non_null(big);
	memset(big, 'x', 65536);
	write_secret(big, 65536, 0600);
	for (int i = 0; i < 8; i++)
		len += (size_t)sprintf(text + len, "    a%d: %s\n", i, path);
	accepts(text);
	assert_int_equal(load(), ERR_INVALID);
	assert_non_null(strstr(error.line, "larger than 512 KiB together"));
	config_free(&config);
	free(big);
}

static void config_refuses_secret_files_that_make_no_sense(void **state)
{
	static const struct {
		const char *map, *line;
	} bad[] = {
		{"{group.id: /a}", "group.id: is set by Tally; use the option kafka.group"},
		{"{sasl.username: /a}", "sasl.username: is under kafka.properties and under "
					"kafka.secret_files; take one out"},
		{"{a: /a, a: /b}", "a: is given twice; take one out"},
		{"{A: /a}", "\"A\": is not the name of a property; they are made of small "
			    "letters, digits and . _ -; write a"},
		{"{a: hunter2}", "a: must be an absolute path, one that starts with /; write the "
				 "path of a file that has the value"},
		{"{a: ''}", "a: must be an absolute path, one that starts with /; write the path "
			    "of a file that has the value"},
		{"{a: /x/../hunter2}", "a: must not contain \"..\"; write the path it stands for; "
				       "write the path of a file that has the value"},
		{"{a: \"/x\\n\"}", "a: must be a path, and has a control character; write the path "
				   "of a file that has the value"},
		{"{a: }", "a: has no value; write the path of a file that has the value, or take "
			  "the line out"},
		{"{a: [/x]}",
			"a: must be one value, not a list; write the path of a file that has the "
			"value"},
		{"{sasl.kerberos.kinit.cmd: /a}",
			"sasl.kerberos.kinit.cmd: is a command line, and every user can see those; "
			"put the secret into a keytab, see sasl.kerberos.keytab"},
		{"/a", "must be a map; write each property on a line of its own, as name: path"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		char text[512], line[512];

		snprintf(text, sizeof(text),
			MIN_YAML "  properties: {sasl.username: x}\n  secret_files: %s\n",
			bad[i].map);
		snprintf(line, sizeof(line), "t.yaml:5: kafka.secret_files: %s", bad[i].line);
		refuses(text, line);
	}
	refuses(MIN_YAML "  secret_files: {a: /a}\n  properties: {a: b}\n",
		"t.yaml:5: kafka.properties: a: is under kafka.properties and under "
		"kafka.secret_files; take one out");
}

static void config_hides_what_comes_from_a_file(void **state)
{
	(void)state;
	accepts(MIN_YAML "  properties: {client.rack: x, sasl.password: y}\n"
			 "  secret_files: {sasl.username: /a}\n");
	assert_true(config_hides(&config, "sasl.username"));
	assert_true(config_hides(&config, "sasl.password"));
	assert_false(config_hides(&config, "client.rack"));
	config_free(&config);
}

static char exposed[256];

static void note(const char *file, unsigned mode, const char *property)
{
	size_t len = strlen(exposed);

	snprintf(exposed + len, sizeof(exposed) - len, "%s %o %s\n", strrchr(file, '/') + 1, mode,
		property);
}

static void exposes(const char *text, mode_t config_mode, mode_t secret_mode, const char *expected)
{
	char file[64];
	FILE *out;

	snprintf(file, sizeof(file), "%s/t.yaml", dir);
	out = fopen(file, "w");
	assert_non_null(out);
	fputs(text, out);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(chmod(file, config_mode), 0);
	write_secret(SECRET, 7, secret_mode);
	assert_int_equal(config_load(file, &config, &error), 0);
	assert_int_equal(load(), 0);
	config_secrets_swap(&config, &secrets);
	config_secrets_free(&secrets);
	exposed[0] = '\0';
	config_exposed(file, &config, note);
	assert_string_equal(exposed, expected);
	config_free(&config);
	unlink(file);
}

static void config_exposed_names_files_that_every_user_can_read(void **state)
{
	(void)state;
	exposes(yaml, 0644, 0600, "");
	exposes(yaml, 0644, 0640, "");
	exposes(yaml, 0644, 0644, "pw 644 sasl.password\n");
	exposes(yaml, 0644, 0602, "pw 602 sasl.password\n");
	exposes(MIN_YAML "  properties: {sasl.password: x, ssl.key.password: y}\n", 0644, 0600,
		"t.yaml 644 sasl.password\n");
	exposes(MIN_YAML "  properties: {sasl.password: x}\n", 0640, 0600, "");
	exposes(MIN_YAML "  properties: {sasl.username: x}\n", 0644, 0600, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_secret_is_the_file_without_its_last_newline),
		cmocka_unit_test(config_secret_refuses_files_that_cannot_be_meant),
		cmocka_unit_test(config_secret_that_cannot_be_read_again_leaves_the_old_one),
		cmocka_unit_test(config_load_does_not_open_the_files),
		cmocka_unit_test(config_refuses_properties_too_large_for_a_handoff),
		cmocka_unit_test(config_refuses_secret_files_that_make_no_sense),
		cmocka_unit_test(config_hides_what_comes_from_a_file),
		cmocka_unit_test(config_exposed_names_files_that_every_user_can_read),
	};

	return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
