/*
 * fields.h - one table of what is known of a partition and of the instance:
 * it drives the JSON objects and /metrics alike, so neither can forget a field.
 */
#ifndef TALLY_QUERYD_FIELDS_H
#define TALLY_QUERYD_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum field_kind {
	FIELD_TEXT, /* char [] */
	FIELD_BOOL, /* int */
	FIELD_U32,
	FIELD_U64,
	FIELD_ID, /* uint64_t that names something: text in JSON, which has no such numbers */
	FIELD_I64,
	FIELD_OPT,  /* int64_t, -1 = not known: null in JSON, no sample */
	FIELD_TIME, /* int64_t, 0 = never: null in JSON, no sample */
	FIELD_DOUBLE,
};

struct field {
	const char *name; /* in JSON */
	enum field_kind kind;
	size_t at;	    /* offset in the struct */
	const char *metric; /* in metrics_table.c; NULL = none */
	double scale;	    /* metric = value x scale (seconds); 0 = as it is, exactly */
};

/* Of struct tally_partition, without skipped[]; and of struct tally_instance. */
const struct field *fields_of_partition(size_t *n);
const struct field *fields_of_instance(size_t *n);

/* Whether it comes from the worker's stats (and is zero when there are none). */
bool field_from_stats(const struct field *field);

/* Sets the field's key in `object` from the struct at `base`. */
void field_to_json(const struct field *field, const void *base, json_t *object);

/* The sample's value as text; false: there is none now. */
bool field_to_sample(const struct field *field, const void *base, char text[40]);

#endif
