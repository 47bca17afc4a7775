/*
 * test_handoff.c - what a worker is told: all of it arrives, and nothing garbled is believed.
 */
#include "scratch.h"

#include <sys/mman.h>

#include "shm/err.h"
#include "shm/handoff.h"
#include "shm/table.h"
#include "shm/window.h"

static struct handoff sample(void)
{
	return (struct handoff){
		.partition = 7,
		.partitions = 64,
		.generation = 1234567890123,
		.table_nonce = UINT64_MAX - 3,
		.supervisor_pid = 4242,
		.cpu = -1,
		.adopt = true,
		.batch_max = 1,
		.log_level = LOG_LEVEL_DEBUG,
		.window_minutes = 120,
		.replay_margin_s = 600,
		.offsets_timeout_ms = 30000,
		.batch_records = 1000000,
		.flush_ms = 50,
		.stall_timeout_ms = 60000,
		.queue_records = 100000,
		.readers_max = 512,
		.map_bytes = UINT64_C(1) << 40,
		.on_lookup_failure = ON_FAILURE_READY,
		.produce = true,
		.produce_every_s = 61,
		.outbox_max = UINT64_C(5000000000),
		.confine = true,
		.run_dir = (char *)"/run/tally",
		.topic = (char *)"topic with blanks",
		.zone = (char *)"zone-\xc3\xa4",
		.properties = {{(char *)"bootstrap.servers", (char *)"127.0.0.1:9092",
				       FOR_ALL_CLIENTS},
			{(char *)"sasl.password", (char *)"se=cr et\n", FOR_PRODUCERS},
			{(char *)"empty", (char *)"", FOR_CONSUMERS}},
		.n_properties = 3,
		.quarantine = {0, 5, INT64_MAX},
		.n_quarantine = 3,
	};
}

#define SAME(field) assert_int_equal(got->field, want->field)

static void assert_same(const struct handoff *got, const struct handoff *want)
{
	SAME(partition), SAME(partitions), SAME(generation), SAME(table_nonce);
	SAME(supervisor_pid), SAME(cpu), SAME(adopt), SAME(batch_max), SAME(log_level),
		SAME(log_format);
	SAME(window_minutes), SAME(replay_margin_s), SAME(offsets_timeout_ms);
	SAME(batch_records), SAME(flush_ms), SAME(stall_timeout_ms), SAME(queue_records);
	SAME(readers_max), SAME(map_bytes), SAME(on_lookup_failure);
	SAME(produce), SAME(produce_every_s), SAME(outbox_max), SAME(confine);
	assert_string_equal(got->run_dir, want->run_dir);
	assert_string_equal(got->topic, want->topic);
	assert_string_equal(got->zone, want->zone ? want->zone : "");
	SAME(n_properties), SAME(n_quarantine);
	for (uint32_t i = 0; i < want->n_properties; i++) {
		assert_string_equal(got->properties[i].name, want->properties[i].name);
		assert_string_equal(got->properties[i].value, want->properties[i].value);
		SAME(properties[i].client);
	}
	for (uint32_t i = 0; i < want->n_quarantine; i++)
		SAME(quarantine[i]);
}

/* All there is of it is read: a sanitizer sees what should not be. */
static size_t measure(const struct handoff *h)
{
	size_t n = strlen(h->run_dir) + strlen(h->topic) + strlen(h->zone);
	for (uint32_t i = 0; i < h->n_properties; i++)
		n += strlen(h->properties[i].name) + strlen(h->properties[i].value);
	for (uint32_t i = 0; i < h->n_quarantine; i++)
		n += h->quarantine[i] & 1;
	return n + (h->adopt ? 1 : 0) + (h->produce ? 1 : 0);
}

static char *packed(const struct handoff *h, size_t *len)
{
	struct stat st;
	int fd;
	assert_int_equal(handoff_pack(h, &fd), 0);
	assert_int_equal(fstat(fd, &st), 0);
	*len = (size_t)st.st_size;
	char *data = malloc(*len);
	assert_int_equal(pread(fd, data, *len, 0), *len);
	close(fd);
	return data;
}

static int unpack(const char *data, size_t len, struct handoff *h)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(write(fd, data, len), len);
	int err = handoff_unpack(fd, h);
	close(fd);
	return err;
}

static void handoff_arrives_whole_when_all_fields_are_set(void **state)
{
	struct handoff want = sample(), got;
	int fd;
	(void)state;
	assert_int_equal(handoff_pack(&want, &fd), 0);
	for (int i = 0; i < 2; i++) { /* wherever the position is */
		assert_int_equal(handoff_unpack(fd, &got), 0);
		assert_same(&got, &want);
		assert_ptr_not_equal(got.topic, want.topic);
		handoff_free(&got);
		assert_null(got.topic);
		handoff_free(&got);
		lseek(fd, 3, SEEK_SET);
	}
	close(fd);
}

static void handoff_arrives_whole_when_it_is_as_large_as_can_be(void **state)
{
	struct handoff want = sample(), got;
	char text[HANDOFF_PROPERTIES_MAX][2000];
	int fd;
	(void)state;
	for (uint32_t i = 0; i < HANDOFF_PROPERTIES_MAX; i++) {
		memset(text[i], 'a' + (int)i % 26, sizeof text[i]);
		text[i][i * 15] = 0;
		want.properties[i] = (struct handoff_property){
			text[i], text[i] + i * 5, (enum handoff_client)(i % 3)};
	}
	want.n_properties = HANDOFF_PROPERTIES_MAX;
	for (int i = 0; i < HANDOFF_QUARANTINE_MAX; i++)
		want.quarantine[i] = INT64_MAX - i;
	want.n_quarantine = HANDOFF_QUARANTINE_MAX;
	want.zone = NULL; /* none is "" */
	assert_int_equal(handoff_pack(&want, &fd), 0);
	assert_int_equal(handoff_unpack(fd, &got), 0);
	assert_same(&got, &want);
	handoff_free(&got);
	close(fd);
}

static void handoff_cannot_be_changed_when_packed(void **state)
{
	struct handoff h = sample();
	struct stat st;
	int fd;
	(void)state;
	assert_int_equal(handoff_pack(&h, &fd), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(
		fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, st.st_size + 1), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_ptr_equal(mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	close(fd);
}

static void handoff_is_not_packed_when_it_is_too_much(void **state)
{
	struct handoff h = sample();
	int fd = -1;
	(void)state;
	h.n_properties = HANDOFF_PROPERTIES_MAX + 1;
	assert_int_equal(handoff_pack(&h, &fd), ERR_INVALID);
	h = sample();
	h.n_quarantine = HANDOFF_QUARANTINE_MAX + 1;
	assert_int_equal(handoff_pack(&h, &fd), ERR_INVALID);
	h = sample();
	char *large = malloc(2 << 20);
	memset(large, 'l', 2 << 20);
	large[(2 << 20) - 1] = 0;
	h.properties[1].value = large;
	assert_true(handoff_pack(&h, &fd) < 0);
	free(large);
	assert_int_equal(fd, -1);
}

static void handoff_is_refused_when_it_is_cut_or_has_more(void **state)
{
	struct handoff h = sample(), got;
	size_t len;
	char *data = packed(&h, &len);
	(void)state;
	for (size_t n = 0; n < len; n++)
		assert_int_equal(unpack(data, n, &got), ERR_FORMAT);
	data = realloc(data, 2 << 20);
	memset(data + len, 0, (2 << 20) - len);
	assert_int_equal(unpack(data, len, &got), 0);
	handoff_free(&got);
	assert_int_equal(unpack(data, len + 1, &got), ERR_FORMAT);
	assert_int_equal(unpack(data, 2 << 20, &got), ERR_FORMAT);
	free(data);
}

static void check_garbled(const char *data, size_t len, unsigned *refused)
{
	struct handoff got;
	int err = unpack(data, len, &got);
	if (err) {
		assert_int_equal(err, ERR_FORMAT);
		(*refused)++;
		return;
	}
	assert_true(measure(&got) <= len);
	assert_true(got.n_properties <= HANDOFF_PROPERTIES_MAX);
	assert_true(got.n_quarantine <= HANDOFF_QUARANTINE_MAX);
	assert_true(got.partition < got.partitions);
	handoff_free(&got);
}

static void handoff_is_valid_or_refused_when_any_byte_is_garbled(void **state)
{
	static const unsigned char masks[] = {1, 2, 0x80, 0xff};
	struct handoff h = sample();
	uint64_t seed = 88172645463325252u;
	unsigned refused = 0;
	size_t len;
	char *data = packed(&h, &len), *bad = malloc(len);
	(void)state;
	for (size_t at = 0; at < len; at++)
		for (size_t i = 0; i < sizeof masks; i++) {
			data[at] = (char)(data[at] ^ masks[i]);
			check_garbled(data, len, &refused);
			data[at] = (char)(data[at] ^ masks[i]);
		}
	for (int i = 0; i < 5000; i++) {
		memcpy(bad, data, len);
		for (uint64_t n = scratch_random(&seed) % 8; n; n--)
			bad[24 + scratch_random(&seed) % (len - 24)] = (char)scratch_random(&seed);
		check_garbled(bad, len, &refused);
	}
	assert_true(refused > 100);
	free(bad);
	free(data);
}

/* What no supervisor says must not reach the arithmetic behind. */
static void handoff_is_refused_when_a_value_cannot_be(void **state)
{
	struct handoff h, got;
	int fd;
	(void)state;
#define REFUSED(field, value)                                                                      \
	do {                                                                                       \
		h = sample();                                                                      \
		h.field = value;                                                                   \
		assert_int_equal(handoff_pack(&h, &fd), 0);                                        \
		assert_int_equal(handoff_unpack(fd, &got), ERR_FORMAT);                            \
		close(fd);                                                                         \
	} while (0)
	REFUSED(partitions, 0);
	REFUSED(partitions, 7);
	REFUSED(generation, TABLE_GENERATION_MAX + 1);
	REFUSED(window_minutes, 0);
	REFUSED(window_minutes, WINDOW_MINUTES_MAX + 1);
	REFUSED(log_level, (enum log_level)4);
	REFUSED(log_format, (enum log_format)2);
	REFUSED(on_lookup_failure, (enum handoff_on_failure)2);
	REFUSED(properties[2].client, (enum handoff_client)3);
	static const size_t bools[] = {
		offsetof(struct handoff, adopt), offsetof(struct handoff, produce)};
	size_t len;
	h = sample();
	char *data = packed(&h, &len);
	for (size_t i = 0; i < 2; i++) {
		char *byte = data + 24 + bools[i];
		assert_int_equal(*byte, 1);
		*byte = 2;
		assert_int_equal(unpack(data, len, &got), ERR_FORMAT);
		*byte = 1;
		assert_int_equal(unpack(data, len, &got), 0);
		handoff_free(&got);
	}
	/* More than fits, with a count of strings that agrees. */
	uint32_t properties = HANDOFF_PROPERTIES_MAX + 40;
	uint64_t strings = 3 + 2 * (uint64_t)properties;
	data = realloc(data, len + strings);
	memset(data + len, 0, strings);
	memcpy(data + 16, &strings, sizeof strings);
	memcpy(data + 24 + offsetof(struct handoff, n_properties), &properties, sizeof properties);
	for (size_t n = len; n <= len + strings; n++)
		assert_int_equal(unpack(data, n, &got), ERR_FORMAT);
	free(data);
}

static void handoff_is_an_error_when_the_descriptor_is_none_of_ours(void **state)
{
	struct handoff got;
	int pair[2];
	(void)state;
	assert_true(handoff_unpack(-1, &got) < 0);
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	assert_int_equal(handoff_unpack(pair[0], &got), ERR_FORMAT);
	close(pair[0]);
	close(pair[1]);
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	assert_int_equal(handoff_unpack(fd, &got), ERR_FORMAT);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(handoff_arrives_whole_when_all_fields_are_set),
		cmocka_unit_test(handoff_arrives_whole_when_it_is_as_large_as_can_be),
		cmocka_unit_test(handoff_cannot_be_changed_when_packed),
		cmocka_unit_test(handoff_is_not_packed_when_it_is_too_much),
		cmocka_unit_test(handoff_is_refused_when_it_is_cut_or_has_more),
		cmocka_unit_test(handoff_is_valid_or_refused_when_any_byte_is_garbled),
		cmocka_unit_test(handoff_is_refused_when_a_value_cannot_be),
		cmocka_unit_test(handoff_is_an_error_when_the_descriptor_is_none_of_ours),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
