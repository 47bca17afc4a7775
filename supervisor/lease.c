/*
 * lease.c - how long what we were assigned is surely still ours.  Pure.
 *
 * Runs in: supervisor.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/lease.h"

/* Behind the value that begins at `s`: an object.  NULL: it does not end. */
static const char *behind_object(const char *s, const char *end)
{
	unsigned depth = 0;
	bool text = false;
	for (; s < end; s++) {
		if (text && *s == '\\')
			s++;
		else if (*s == '"')
			text = !text;
		else if (!text && *s == '{')
			depth++;
		else if (!text && *s == '}' && --depth == 0)
			return s + 1;
	}
	return NULL;
}

/*
 * All but the topics, which we need nothing of: with a thousand partitions they are
 * a megabyte, and reading that takes longer than the pause between two documents.
 */
static json_t *read_rest(const char *json, size_t len)
{
	static const char name[] = "\"topics\":{";
	const char *topics = memmem(json, len, name, sizeof name - 1), *value, *rest;
	value = topics ? topics + sizeof name - 2 : NULL;
	rest = value ? behind_object(value, json + len) : NULL;
	if (!rest)
		return json_loadb(json, len, 0, NULL);
	size_t before = (size_t)(value - json), after = (size_t)(json + len - rest);
	char *copy = malloc(before + 2 + after);
	if (!copy)
		return NULL;
	memcpy(copy, json, before);
	memcpy(copy + before, "{}", 2);
	memcpy(copy + before + 2, rest, after);
	json_t *root = json_loadb(copy, before + 2 + after, 0, NULL);
	free(copy);
	return root ? root : json_loadb(json, len, 0, NULL);
}

static bool is_word(const json_t *object, const char *key, const char *word)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text && !strcmp(text, word);
}

static bool is_joining(const json_t *root)
{
	const json_t *cgrp = json_object_get(root, "cgrp");
	return is_word(cgrp, "join_state", "wait-join") || is_word(cgrp, "join_state", "wait-sync");
}

static bool read_contact(
	const json_t *root, uint32_t session_ms, uint64_t *monotonic_ns, bool *joining)
{
	const json_t *coordinator =
		json_object_get(json_object_get(root, "brokers"), "GroupCoordinator");
	const json_t *ts = json_object_get(root, "ts");
	const json_t *idle = json_object_get(coordinator, "rxidle");
	if (!json_is_integer(ts) || !json_is_integer(idle) || !is_word(coordinator, "state", "UP"))
		return false;
	json_int_t now_us = json_integer_value(ts), idle_us = json_integer_value(idle);
	if (idle_us < 0) /* it has never spoken */
		return false;
	json_int_t sent_us = json_integer_value(json_object_get(coordinator, "txidle"));
	*joining = is_joining(root);
	if (*joining)
		idle_us = (json_int_t)session_ms * 500;
	else if (json_integer_value(json_object_get(coordinator, "waitresp_cnt")))
		return false; /* nobody knows when the request was sent that was answered last */
	else if (sent_us > idle_us)
		idle_us = sent_us;
	if (now_us <= 0 || idle_us > now_us)
		return false;
	*monotonic_ns = (uint64_t)(now_us - idle_us) * 1000;
	return true;
}

bool lease_contact(
	const char *json, size_t len, uint32_t session_ms, uint64_t *monotonic_ns, bool *joining)
{
	json_t *root = read_rest(json, len);
	bool known = root && read_contact(root, session_ms, monotonic_ns, joining);
	json_decref(root);
	return known;
}

bool lease_join_counts(
	const struct lease_past *past, uint64_t now_ns, uint64_t interval_ns, uint64_t session_ns)
{
	if (now_ns - past->document >= 3 * interval_ns)
		return false;
	return !past->assigned || now_ns - past->contact < session_ns;
}

uint64_t lease_until(uint64_t contact_ns, const struct lease_terms *terms)
{
	uint64_t off = (uint64_t)terms->heartbeat_ms + terms->commit_ms;
	if (terms->session_ms <= off)
		return 0;
	return contact_ns + (terms->session_ms - off) * 1000000;
}
