/*
 * sink.h - where messages go: a broker (kafka.c) or a file (dump.c).
 */
#ifndef TALLY_LOAD_SINK_H
#define TALLY_LOAD_SINK_H

#include <stdint.h>

#include "message.h"
#include "options.h"
#include "out.h"

struct sink {
	/* Takes a copy of the message.  Waits while there is no room. */
	void (*send)(struct sink *sink, const struct message *message);
	/* Lets `ms` pass, working meanwhile; 0 = only looks. */
	void (*wait)(struct sink *sink, int ms);
	/* Waits until all is delivered or has failed, and frees the sink. */
	void (*finish)(struct sink **sink);
	/* Borrowed from main for life. */
	const struct options *options;
	struct out *out; /* NULL = none */
	struct load_count *count;
};

struct load_count {
	uint64_t delivered, failed, broken; /* broken: among those delivered */
};

/*
 * Both give a sink, or NULL after one line on stderr.  The broker is asked for
 * options->partitions when that is 0.
 */
struct sink *sink_open_kafka(struct options *options, struct out *out, struct load_count *count);
struct sink *sink_open_dump(
	const struct options *options, struct out *out, struct load_count *count);

#endif
