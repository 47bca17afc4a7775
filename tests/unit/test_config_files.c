/*
 * test_config_files.c - files that properties name: opened before librdkafka does, and the line for
 * a mistake with a property.
 */
#include <unistd.h>

#include "tests/unit/config_fixture.h"

static void config_files_refuses_what_cannot_be_opened(void **state)
{
	static const char *const names[] = {"ssl.ca.location", "ssl.certificate.location",
		"ssl.key.location", "ssl.crl.location", "ssl.keystore.location"};
	char text[512], line[512];

	(void)state;
	for (size_t i = 0; i < COUNT(names); i++) {
		snprintf(text, sizeof(text), MIN_YAML "  properties:\n    a: b\n    %s: /nope\n",
			names[i]);
		snprintf(line, sizeof(line),
			"t.yaml:6: kafka.properties: %s: cannot read /nope: No such file or "
			"directory; create it, or correct the path",
			names[i]);
		accepts(text);
		assert_int_equal(config_files_check(&config, &error), ERR_INVALID);
		assert_string_equal(error.line, line);
		config_free(&config);
	}
}

static void files(const char *properties, int err)
{
	char text[512];

	snprintf(text, sizeof(text), MIN_YAML "  properties: {%s}\n", properties);
	accepts(text);
	assert_int_equal(config_files_check(&config, &error), err);
	config_free(&config);
}

static void config_files_takes_what_librdkafka_would(void **state)
{
	(void)state;
	files("ssl.key.location: /dev/null, ssl.ca.location: /", 0);
	files("ssl.ca.location: probe", 0);
	files("ssl.key.location: ''", 0);
	files("sasl.username: /nope", 0);
	files("ssl.key.location: probe", ERR_INVALID);
	files("ssl.key.location: /", ERR_INVALID);
	assert_non_null(strstr(error.line, "cannot read /: Is a directory; name a file"));
}

static void config_files_does_not_show_a_path_that_is_secret(void **state)
{
	(void)state;
	accepts(MIN_YAML "  secret_files: {ssl.key.location: /a}\n");
	config.properties[0].value = strdup("/hunter2");
	assert_int_equal(config_files_check(&config, &error), ERR_INVALID);
	assert_string_equal(error.line,
		"t.yaml:4: kafka.secret_files: ssl.key.location: cannot read the file that it "
		"names: No such file or directory; create it, or correct the path");
	config_free(&config);
}

static void config_property_mistake_has_the_line_until_it_is_forgotten(void **state)
{
	(void)state;
	accepts(MIN_YAML "  properties:\n    a: 1\n\n    b: 2\n");
	assert_int_equal(config_property_fail(&config, "b", &error, "is %d", 2), ERR_INVALID);
	assert_string_equal(error.line, "t.yaml:7: kafka.properties: b: is 2");
	config_property_fail(&config, "client.id", &error, "is bad");
	assert_string_equal(error.line, "t.yaml: kafka: client.id: is bad");
	config_property_fail(&config, NULL, &error, "are bad");
	assert_string_equal(error.line, "t.yaml: kafka.properties: are bad");
	config_forget_lines(&config);
	config_property_fail(&config, "b", &error, "is %d", 2);
	assert_string_equal(error.line, "t.yaml: kafka.properties: b: is 2");
	config_free(&config);
}

static void config_nearest_of_finds_a_name_that_is_near_only(void **state)
{
	static const char *const names[] = {"sasl.mechanisms", "sasl.mechanism", "acks",
		"a.name.that.is.longer.than.the.sixty.four.letters.that.are.compared.here"};
	char absurd[200];

	(void)state;
	assert_ptr_equal(config_nearest_of("sasl.mechanisim", names, COUNT(names)), names[1]);
	assert_ptr_equal(config_nearest_of("ack", names, COUNT(names)), names[2]);
	assert_null(config_nearest_of("no.such.thing", names, COUNT(names)));
	assert_null(config_nearest_of("acks", names, 0));
	memset(absurd, 'a', sizeof(absurd) - 1);
	absurd[sizeof(absurd) - 1] = '\0';
	assert_null(config_nearest_of(absurd, names, COUNT(names)));
}

static void put(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

/* The three files of TLS, in /tmp; the answer's line without "t.yaml". */
static void tls(const char *cert, const char *key, int err, const char *line)
{
	char dir[] = "/tmp/tally-tls-XXXXXX", paths[2][64], text[512], want[512];

	assert_non_null(mkdtemp(dir));
	snprintf(paths[0], sizeof(paths[0]), "%s/cert", dir);
	snprintf(paths[1], sizeof(paths[1]), "%s/key", dir);
	if (cert)
		put(paths[0], cert);
	if (key)
		put(paths[1], key);
	snprintf(text, sizeof(text),
		MIN_YAML "query:\n  grpc_tls_cert: %s\n  grpc_tls_key: %s\n"
			 "  grpc_tls_client_ca: %s\n",
		paths[0], paths[1], paths[0]);
	accepts(text);
	assert_int_equal(config_query_files_check(&config, &error), err);
	snprintf(want, sizeof(want), "t.yaml:%c: query.grpc_tls_%s: %s/%s", line[0],
		line[0] == '5' ? "cert" : "key", dir, line + 1);
	if (err)
		assert_string_equal(error.line, want);
	config_free(&config);
	unlink(paths[0]);
	unlink(paths[1]);
	rmdir(dir);
}
#define CERT "text before\n-----BEGIN CERTIFICATE-----\n"
#define KEY  "-----BEGIN EC PARAMETERS-----\nx\n-----BEGIN EC PRIVATE KEY-----\n"

static void config_tls_files_must_be_there_and_pem(void **state)
{
	(void)state;
	tls(CERT, KEY, 0, "");
	tls(NULL, KEY, ERR_INVALID,
		"5cert: No such file or directory; create it, or correct the path");
	tls(CERT, NULL, ERR_INVALID,
		"6key: No such file or directory; create it, or correct the path");
	tls("", KEY, ERR_INVALID,
		"5cert: is no certificate in PEM; it must have a line -----BEGIN CERTIFICATE-----");
	tls(KEY, KEY, ERR_INVALID,
		"5cert: is no certificate in PEM; it must have a line -----BEGIN CERTIFICATE-----");
	tls(" " CERT, "not at the begin of a line -----BEGIN PRIVATE KEY-----\n", ERR_INVALID,
		"6key: is no private key in PEM; it must have a line -----BEGIN PRIVATE KEY-----");
	tls(CERT, "-----BEGIN \nPRIVATE KEY-----", ERR_INVALID,
		"6key: is no private key in PEM; it must have a line -----BEGIN PRIVATE KEY-----");
}

static void config_differences_names_options_and_maps(void **state)
{
	static const char base[] =
		MIN_YAML "  properties: {a.b: 1, c.d: 2}\n  secret_files: {e.f: /e}\n";
	static const struct {
		const char *text, *names;
	} cases[] = {
		{base, ""},
		{MIN_YAML "  properties: {c.d: 2, a.b: 1}\n  secret_files: {e.f: /e}\n", ""},
		{MIN_YAML "  properties: {c.d: 3, a.b: 1}\n  secret_files: {e.f: /e}\n",
			"kafka.properties"},
		{MIN_YAML "  properties: {a.b: 1}\n", "kafka.properties,kafka.secret_files"},
		{MIN_YAML "  properties: {a.b: 1, c.d: 2}\n  secret_files: {e.f: /other}\n"
			  "query: {processes: 2, peers: 'x:1'}\n",
			"kafka.secret_files,query.processes,query.peers"},
	};
	static struct config first; /* large */
	char names[200], few[8];

	(void)state;
	accepts(base);
	first = config;
	for (size_t i = 0; i < COUNT(cases); i++) {
		accepts(cases[i].text);
		config_differences(&first, &config, names, sizeof(names));
		assert_string_equal(names, cases[i].names);
		if (i == COUNT(cases) - 1)
			assert_int_equal(config_differences(&first, &config, few, sizeof(few)), 3);
		config_free(&config);
	}
	config_free(&first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_files_refuses_what_cannot_be_opened),
		cmocka_unit_test(config_tls_files_must_be_there_and_pem),
		cmocka_unit_test(config_differences_names_options_and_maps),
		cmocka_unit_test(config_files_takes_what_librdkafka_would),
		cmocka_unit_test(config_files_does_not_show_a_path_that_is_secret),
		cmocka_unit_test(config_property_mistake_has_the_line_until_it_is_forgotten),
		cmocka_unit_test(config_nearest_of_finds_a_name_that_is_near_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
