/*
 * kafka_version.c - the librdkafka that we run with, and what it lacks for Tally.
 *
 *	rd_kafka_version() --rows of the table--> tallyd --version, kafka.client and kafka.scram
 *	                                            in the log
 *
 * The rows are from librdkafka's CHANGELOG.md, the number is that of the issue
 * there.  Only what a consumer group member that fetches nothing, a simple
 * consumer or an idempotent producer can meet.
 *
 * Runs in: supervisor.
 */
#include <librdkafka/rdkafka.h>
#include <string.h>
#include <strings.h>

#include "shm/log.h"
#include "shm/tally.h"
#include "supervisor/kafka_version.h"

#define ALWAYS 0

/* clang-format off */
static const struct kafka_gap gaps[] = {
	{ ALWAYS, 0x020100, "leader_epochs",
	  "no leader epochs: a log that is truncated while it is read goes unnoticed (KIP-320)",
	  "Tally compares the record that it read last with the log whenever the leader may have changed" },
	{ ALWAYS, 0x020200, "fetch_backoff",
	  "no fetch.queue.backoff.ms: a full queue stops fetching for 1 s",
	  "Tally wakes the fetching thread while a worker is behind" },
	{ ALWAYS, 0x020200, "reauthentication",
	  "no re-authentication on a live connection (KIP-368)",
	  "brokers with connections.max.reauth.ms close it, and the client connects again" },
	{ ALWAYS, 0x020200, "unsecured_tokens",
	  "tokens of enable.sasl.oauthbearer.unsecure.jwt crash the process when they are renewed",
	  "Tally refuses that property" },
	{ ALWAYS, 0x020300, "close_before_assign",
	  "freeing a cooperative-sticky member before its first assignment may abort (#4381)",
	  "a stop in the first seconds leaves the client to the end of the process" },
	{ ALWAYS, 0x020300, "producer_desync",
	  "an idempotent producer may end with a fatal error after a lost connection (#4438)",
	  "its records are still in the outbox" },
	{ ALWAYS, 0x020400, "assign_while_closing",
	  "closing hangs when an assignment arrives meanwhile (#4527)",
	  "the stop ends at its deadline, and the group waits for the session timeout" },
	{ ALWAYS, 0x020601, "sticky_loop",
	  "the cooperative-sticky assignor may loop for ever, with some orders of members (#4783)",
	  "its leases end and others take over; restart the instance that is at 100 % CPU" },
	{ ALWAYS, 0x020601, "scram_nonce",
	  "SASL/SCRAM is refused by brokers that compare the nonce, Kafka 4.4 among them (#4895)",
	  "use PLAIN over TLS or client certificates there" },
	{ 0x020500, 0x020503, "telemetry_abort",
	  "pushing metrics to a broker that asks for them may abort the process (KIP-714)",
	  "set kafka.properties enable.metrics.push to false" },
	{ 0x020600, 0x020601, "fetch_before_2_7",
	  "fetching from Kafka before 2.7 fails (#4870)",
	  "take another version of librdkafka" },
	{ ALWAYS, 0x020a00, "forget_brokers",
	  "brokers that have left the cluster are not forgotten (#4557)",
	  "each process goes on trying to reach them until it is started again" },
	{ 0x020a00, 0x020a01, "rebootstrap_loop",
	  "after all brokers were down the client may not find back (#5088)",
	  "take another version of librdkafka" },
	{ ALWAYS, 0x020b00, "gssapi_join_v0",
	  "no SASL/GSSAPI with brokers that do not offer JoinGroup v0, like Kafka 4.0 (#4948)",
	  "use another mechanism there" },
	{ ALWAYS, 0x020e02, "leave_without_coordinator",
	  "leaving the group while the coordinator is away may crash (2.14.2)",
	  "a stop in an outage may end in a core; nothing is lost" },
};
/* clang-format on */

const struct kafka_gap *kafka_gaps(size_t *n)
{
	*n = sizeof gaps / sizeof *gaps;
	return gaps;
}

bool kafka_gap_holds(const struct kafka_gap *gap, int version)
{
	uint32_t release = (uint32_t)version >> 8; /* the last byte counts candidates */
	return gap->from <= release && release < gap->until;
}

const struct kafka_gap *kafka_gap_of_mechanism(const struct config *config, int version)
{
	const char *mechanism = ""; /* the last one counts */
	for (uint32_t i = 0; i < config->n_properties; i++)
		if (!strcmp(config->properties[i].name, "sasl.mechanism") ||
			!strcmp(config->properties[i].name, "sasl.mechanisms"))
			mechanism = config->properties[i].value;
	for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++)
		if (!strncasecmp(mechanism, "SCRAM-", 6) && !strcmp(gaps[i].word, "scram_nonce") &&
			kafka_gap_holds(&gaps[i], version))
			return &gaps[i];
	return NULL;
}

void kafka_version_warn(const struct config *config)
{
	const struct kafka_gap *gap = kafka_gap_of_mechanism(config, rd_kafka_version());
	if (gap)
		log_warn("kafka.scram",
			"needs=%u.%u.%u has=%s hint=\"brokers of today refuse it; use PLAIN over "
			"TLS or client certificates, or a newer librdkafka\"",
			gap->until >> 16, gap->until >> 8 & 0xff, gap->until & 0xff,
			rd_kafka_version_str());
}

static void features(char *out, size_t size)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	if (rd_kafka_conf_get(conf, "builtin.features", out, &size) != RD_KAFKA_CONF_OK)
		snprintf(out, size, "unknown");
	rd_kafka_conf_destroy(conf);
}

static void built_with(char out[16])
{
	snprintf(out, 16, "%d.%d.%d", RD_KAFKA_VERSION >> 24, RD_KAFKA_VERSION >> 16 & 0xff,
		RD_KAFKA_VERSION >> 8 & 0xff);
}

void kafka_version_print(FILE *out)
{
	char list[512], built[16];
	features(list, sizeof list);
	built_with(built);
	fprintf(out, "tallyd %d.%d\nlibrdkafka %s, built with %s\nfeatures: %s\n",
		TALLY_VERSION_MAJOR, TALLY_VERSION_MINOR, rd_kafka_version_str(), built, list);
	for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++)
		if (kafka_gap_holds(&gaps[i], rd_kafka_version()))
			fprintf(out, "before %u.%u.%u: %s; %s\n", gaps[i].until >> 16,
				gaps[i].until >> 8 & 0xff, gaps[i].until & 0xff, gaps[i].lacks,
				gaps[i].consequence);
}

void kafka_version_log(void)
{
	char list[512], built[16], lacks[512] = "";
	size_t len = 0;
	features(list, sizeof list);
	built_with(built);
	for (size_t i = 0; i < sizeof gaps / sizeof *gaps && len < sizeof lacks; i++)
		if (kafka_gap_holds(&gaps[i], rd_kafka_version()))
			len += (size_t)snprintf(lacks + len, sizeof lacks - len, "%s%s",
				len ? "," : "", gaps[i].word);
	log_info("kafka.client",
		"version=%s built=%s features=%s lacks=\"%s\" hint=\"see tallyd --version\"",
		rd_kafka_version_str(), built, list, lacks);
}
