/*
 * config_table.c - the options of tally.yaml, one row each.
 *
 * A new option is a field in struct config and a row here: parsing, bounds,
 * default, --print-config and etc/tally.yaml follow from it.
 *
 * Runs in: supervisor, query process, tests.
 */
#include "shm/config_table.h"

#include <string.h>

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)
#define MIB    (INT64_C(1) << 20)
#define TIB    (INT64_C(1) << 40)

/* The field's offset, when it has the type that the row's kind writes. */
#define AT(field, kind)                                                                            \
	_Generic(&((struct config *)0)->field, __typeof__(kind) *                                  \
		 : offsetof(struct config, field)),                                                \
		sizeof(((struct config *)0)->field)
#define AT_TEXT(field) offsetof(struct config, field), sizeof(((struct config *)0)->field)

static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
static const char *const formats[] = {"logfmt", "json", NULL}; /* enum log_format */
static const char *const assignors[] = {"cooperative-sticky", "range", "roundrobin", NULL};
static const char *const isolations[] = {"read_committed", "read_uncommitted", NULL};
static const char *const failures[] = {"retry", "ready", NULL};
static const char *const metrics[] = {"tally", "loki", NULL};	     /* enum metrics_names */
static const char *const scopes[] = {"instance", "partition", NULL}; /* enum limit_scope */
static const char *const unknowns[] = {"refuse", "ignore", NULL};

const char *config_path_wrong(const char *text)
{
	if (text[0] != '/')
		return "must be an absolute path, one that starts with /";
	for (const char *s = text; (s = strstr(s, "/..")); s += 3) {
		if (s[3] == '/' || s[3] == '\0')
			return "must not contain \"..\"; write the path it stands for";
	}
	return NULL;
}

static const char *check_directory(const char *text)
{
	if (text[0] == '/' && text[strspn(text, "/")] == '\0')
		return "must not be the root directory; name one for Tally alone, like /run/tally";
	return config_path_wrong(text);
}

static const char *check_program(const char *text)
{
	size_t len = strlen(text);

	if (len > 0 && text[len - 1] == '/')
		return "must be a program, not a directory";
	return len ? config_path_wrong(text) : NULL;
}

static const char *check_file(const char *text)
{
	size_t len = strlen(text);

	if (len > 0 && text[len - 1] == '/')
		return "must be a file, not a directory";
	return len ? config_path_wrong(text) : NULL;
}

/* One of the list, which may have blanks around it. */
static bool peer_ok(const char *from, const char *to)
{
	char entry[256], host[256];
	uint16_t port;

	while (from < to && *from == ' ')
		from++;
	while (to > from && to[-1] == ' ')
		to--;
	if (to - from >= (ptrdiff_t)sizeof(entry))
		return false;
	memcpy(entry, from, (size_t)(to - from));
	entry[to - from] = '\0';
	return config_listen_split(entry, host, sizeof(host), &port) == 0 && port != 0;
}

static const char *check_peers(const char *text)
{
	while (*text) {
		size_t len = strcspn(text, ",");

		if (!peer_ok(text, text + len))
			return "must be host:port with commas between, like "
			       "tally-1:9095,[::1]:9095";
		text += len + (text[len] == ',');
	}
	return NULL;
}

/* Names, without ports, or "*". */
static const char *check_hosts(const char *text)
{
	static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789.-_, ";

	if (strcmp(text, "*") != 0 && text[strspn(text, legal)])
		return "must be names without ports, with commas between, like "
		       "tally.example.com,tally-1; or * for any name";
	return NULL;
}

static const char *check_kafka_name(const char *text)
{
	static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789._-";

	if (text[strspn(text, legal)])
		return "has a character that Kafka does not allow; letters, digits and . _ - are";
	if (strcmp(text, ".") == 0 || strcmp(text, "..") == 0)
		return "must not be \".\" or \"..\"; Kafka does not allow these names";
	return NULL;
}

/* One of the list: "host", "host:9092", "ssl://host:9092", "[::1]:9092". */
static bool broker_ok(const char *s, size_t len)
{
	const char *end = s + len, *colon = memrchr(s, ':', len);
	long port = 0;

	if (colon && (size_t)(end - colon) > 2 && colon[1] == '/')
		colon = NULL; /* of "ssl://" */
	if (len == 0 || colon == s || memchr(s, ' ', len))
		return false;
	if (!colon || end[-1] == ']')
		return true;
	for (s = colon + 1; s < end && *s >= '0' && *s <= '9' && port <= 65535; s++)
		port = port * 10 + (*s - '0');
	return s == end && port > 0 && port <= 65535;
}

static const char *check_brokers(const char *text)
{
	for (const char *s = text;; s++) {
		size_t len, trimmed;

		s += strspn(s, " ");
		len = trimmed = strcspn(s, ",");
		while (trimmed > 0 && s[trimmed - 1] == ' ')
			trimmed--;
		if (!broker_ok(s, trimmed))
			return "must be host or host:port (9092 is the default), with commas "
			       "between several: a:9092,b:9092";
		s += len;
		if (*s == '\0')
			return NULL;
	}
}

static const struct config_section sections[] = {
	{"", "This instance"},
	{"kafka", "Kafka: where the records come from, and membership in the consumer group"},
	{"window", "What counts as active"},
	{"replay", "How a worker reads its partition"},
	{"store", "The stores: one for each partition, in shared memory"},
	{"produce", "What is written to the topic"},
	{"limits", "How many active streams a tenant may have"},
	{"supervisor", "Deadlines of the supervisor, and the programs that it starts"},
	{"query", "The query process"},
};

/* clang-format off */
static const struct config_option options[] = {

/* --- top level ------------------------------------------------------------------------------- */
	{ "", "run_dir", CONFIG_TEXT, AT_TEXT(run_dir), 1, 60, .preset = "/run/tally",
	  .check = check_directory, .prose =
	  "Directory for the stores and sockets, one for each instance; it should be on tmpfs. Members "
	  "of its group may read the stores." },
	{ "", "instance", CONFIG_TEXT, AT_TEXT(instance), 0, 63, .preset = "", .example = "tally-0",
	  .prose = "Name of this instance in logs and metrics. When not given: the host name." },
	{ "", "zone", CONFIG_TEXT, AT_TEXT(zone), 0, 63, .preset = "", .example = "zone-a",
	  .prose = "Zone of this instance, written into the records that it produces." },
	{ "", "log_level", CONFIG_NUMBER, AT(log_level, uint32_t), 0, 3, .words = levels,
	  .preset = "info", .prose =
	  "Least important lines to log; read again on SIGHUP, for all processes." },
	{ "", "log_format", CONFIG_NUMBER, AT(log_format, uint32_t), 0, 1, .words = formats,
	  .preset = "logfmt", .prose =
	  "What a line of the log is: words and key=value, or a JSON object." },
	{ "", "clock_offset", CONFIG_SHIFT, AT(clock_offset_ms, int64_t), -3650 * DAY, 3650 * DAY,
	  .preset = "0s", .prose =
	  "For tests and drills: added to wall time by every process; read again on SIGHUP." },

/* --- kafka ----------------------------------------------------------------------------------- */
	{ "kafka", "brokers", CONFIG_TEXT, AT_TEXT(brokers), 1, 1023, .check = check_brokers,
	  .example = "127.0.0.1:9092", .prose =
	  "Brokers to begin with, host or host:port with commas between; 9092 is the default." },
	{ "kafka", "topic", CONFIG_TEXT, AT_TEXT(topic), 1, 249, .check = check_kafka_name,
	  .example = "ingest-limits", .prose =
	  "Topic that the ingest nodes write their stream metadata records to." },
	{ "kafka", "group", CONFIG_TEXT, AT_TEXT(group), 1, 255, .preset = "tally", .prose =
	  "Consumer group. The instances of one zone are one group and share the partitions; every "
	  "zone has a group of its own." },
	{ "kafka", "group_instance_id", CONFIG_TEXT, AT_TEXT(group_instance_id), 0, 249, .preset = "",
	  .example = "tally-0", .check = check_kafka_name, .prose =
	  "Static membership: with a name that no other member of the group has, a restart within the "
	  "session timeout moves no partition." },
	{ "kafka", "assignor", CONFIG_TEXT, AT_TEXT(assignor), 1, 63, .words = assignors,
	  .preset = "cooperative-sticky", .prose =
	  "How the group shares its partitions; the same in all members. The eager ones, range and "
	  "roundrobin, take all partitions away at every change." },
	{ "kafka", "partitions", CONFIG_NUMBER, AT(partitions, uint32_t), 0, 1024, .preset = "0",
	  .prose =
	  "Partitions by whose number streams are routed (hash % partitions); the topic must have as "
	  "many at least, and those beyond are refused. 0: as many as it has; when that changes, all "
	  "partitions are rebuilt." },
	{ "kafka", "session_timeout", CONFIG_DURATION, AT(session_timeout_ms, uint32_t), SECOND,
	  30 * MINUTE, .preset = "45s", .prose =
	  "After so long without a heartbeat the group gives this instance's partitions to others. "
	  "The brokers have bounds of their own for it." },
	{ "kafka", "heartbeat_interval", CONFIG_DURATION, AT(heartbeat_interval_ms, uint32_t), 100,
	  10 * MINUTE, .preset = "3s", .prose =
	  "How often the group hears from this instance. Must be shorter than the session timeout; a "
	  "third of it or less is wise." },
	{ "kafka", "max_poll_interval", CONFIG_DURATION, AT(max_poll_interval_ms, uint32_t), SECOND,
	  24 * HOUR, .preset = "5m", .prose =
	  "Longest time for an answer to a change in the group. At least the session timeout." },
	{ "kafka", "isolation", CONFIG_BOOL, AT(read_uncommitted, bool), 0, 1, .words = isolations,
	  .preset = "read_committed", .prose = "Which records of transactional producers count." },
	{ "kafka", "properties", CONFIG_PROPERTIES, AT_TEXT(properties), 0, CONFIG_PROPERTIES_MAX,
	  .preset = "", .example =
	  "security.protocol: sasl_ssl\nsasl.mechanism: PLAIN\nsasl.username: tally", .prose =
	  "Any other property of librdkafka, as name: value. Those that Tally decides itself are "
	  "refused, with the option to use instead. Passwords and keys are better off in "
	  "kafka.secret_files." },
	{ "kafka", "secret_files", CONFIG_SECRET_FILES, AT(n_secret_files, uint32_t), 0,
	  CONFIG_PROPERTIES_MAX, .preset = "", .example =
	  "sasl.password: /etc/tally/sasl.password\n"
	  "ssl.key.pem: /run/credentials/tally.service/kafka.key", .prose =
	  "Properties of librdkafka whose value is the content of a file, without a newline at its "
	  "end: at most 64 KiB, readable by Tally's user and by nobody else. A credential of systemd "
	  "(LoadCredential=) is such a file. Read again on SIGHUP, for workers that start afterwards." },

/* --- window ---------------------------------------------------------------------------------- */
	{ "window", "active", CONFIG_DURATION, AT(active_window_ms, uint32_t), MINUTE, 7 * DAY,
	  .step = MINUTE, .preset = "2h", .prose =
	  "A stream is active when it was seen within this time." },
	{ "window", "rate", CONFIG_DURATION, AT(rate_window_ms, uint32_t), MINUTE, 5 * MINUTE,
	  .step = MINUTE, .preset = "5m", .prose = "Time over which a stream's rate is taken." },

/* --- replay ---------------------------------------------------------------------------------- */
	{ "replay", "margin", CONFIG_DURATION, AT(replay_margin_ms, uint32_t), MINUTE, 7 * DAY,
	  .preset = "10m", .prose =
	  "A replay starts so much before the active window: a minute, and the longest outage of the "
	  "producers that is to be survived." },
	{ "replay", "batch", CONFIG_NUMBER, AT(replay_batch, uint32_t), 1, 1000000,
	  .preset = "1000000", .prose =
	  "Most records in one transaction. A replay takes 250000, or a fourth of the streams, or 50 for "
	  "each tenant and each of its policies, whichever is most; what comes in half a second; and never "
	  "more than this. Takes 64 bytes a record in every worker that is behind." },
	{ "replay", "concurrency", CONFIG_NUMBER, AT(replay_concurrency, uint32_t), 1, 1024,
	  .preset = "16", .prose = "Most partitions that replay at once; the others wait." },
	{ "replay", "queue", CONFIG_NUMBER, AT(replay_queue, uint32_t), 1, 10000000,
	  .preset = "100000", .prose =
	  "Records that a worker fetches ahead. More is faster while replaying, and takes memory in "
	  "every worker that is behind." },
	{ "replay", "offsets_timeout", CONFIG_DURATION, AT(offsets_timeout_ms, uint32_t), SECOND, HOUR,
	  .preset = "30s", .prose =
	  "Time for finding the offset to start from by its time; after that the whole log is read." },
	{ "replay", "on_lookup_failure", CONFIG_BOOL, AT(ready_on_lookup_failure, bool), 0, 1,
	  .words = failures, .preset = "retry", .prose =
	  "When the start or the end of the log cannot be had. retry: ask for ever, questions are "
	  "answered \"failed\" meanwhile. ready: answer at once from what is known so far." },
	{ "replay", "cpu_affinity", CONFIG_BOOL, AT(cpu_affinity, bool), 0, 1, .preset = "true",
	  .prose = "Keep each worker on one CPU while it replays." },
	{ "replay", "flush", CONFIG_DURATION, AT(flush_ms, uint32_t), 1, 10 * SECOND,
	  .preset = "50ms", .prose = "Longest time that a record waits for its transaction." },
	{ "replay", "stall_timeout", CONFIG_DURATION, AT(stall_timeout_ms, uint32_t), SECOND, HOUR,
	  .preset = "30s", .prose =
	  "A partition that has more to read but delivers nothing for so long is reported as stalled." },

/* --- store ----------------------------------------------------------------------------------- */
	{ "store", "map_size", CONFIG_BYTES, AT(store_map_bytes, uint64_t), MIB, 4 * TIB,
	  .step = 4096, .preset = "16GiB", .prose =
	  "Most that one partition's store can grow to. Address space only: memory is taken as it is "
	  "needed." },
	{ "store", "readers", CONFIG_NUMBER, AT(store_readers, uint32_t), 16, 65536,
	  .preset = "1024", .prose = "Most readers of one store at the same time." },

/* --- produce --------------------------------------------------------------------------------- */
	{ "produce", "enabled", CONFIG_BOOL, AT(produce, bool), 0, 1, .preset = "true", .prose =
	  "Write what was admitted here to the topic, for the other zones and for whoever owns the "
	  "partition next. false only for an instance that nobody asks." },
	{ "produce", "interval", CONFIG_DURATION, AT(produce_every_ms, uint32_t), SECOND, HOUR,
	  .step = SECOND, .preset = "1m", .prose =
	  "A stream is written at most once in this time, with all its bytes since the last one." },
	{ "produce", "outbox", CONFIG_COUNT, AT(outbox_max, uint64_t), 1000, 100000000,
	  .preset = "1000000", .prose =
	  "Most records of one partition that wait for Kafka. From half of it on only new streams add "
	  "to it; when it is full they are answered \"failed\"." },

/* --- limits ---------------------------------------------------------------------------------- */
	{ "limits", "file", CONFIG_TEXT, AT_TEXT(limits_file), 0, 255, .preset = "",
	  .example = "/etc/tally/limits.yaml", .check = check_file, .prose =
	  "Limits of tenants and policies, in the shape of Loki's runtime overrides. Read again when it "
	  "changes and on SIGHUP, all of it or nothing." },
	{ "limits", "max_global_streams_per_user", CONFIG_COUNT, AT(default_streams, uint64_t), 0,
	  INT64_C(1000000000000), .preset = "5000", .prose =
	  "Active streams that a tenant may have when the file does not say. 0: no limit." },
	{ "limits", "scope", CONFIG_NUMBER, AT(limit_scope, uint32_t), 0, 1, .words = scopes,
	  .preset = "instance", .prose =
	  "How a limit is shared. instance: by the number of partitions that an instance owns, judged "
	  "over all of them; exact with one instance. partition: each partition gets its part, rounded "
	  "up, as in Loki; for fleets with both." },
	{ "limits", "dry_run", CONFIG_BOOL, AT(limits_dry_run, bool), 0, 1, .preset = "false", .prose =
	  "Reject nothing, and count what would have been rejected. A tenant's dry_run in the file has "
	  "precedence." },
	{ "limits", "unknown_keys", CONFIG_BOOL, AT(limits_ignore_unknown, bool), 0, 1,
	  .words = unknowns, .preset = "refuse", .prose =
	  "Keys in the file that Tally does not know. ignore: for a file that has other limits of Loki, "
	  "too; a misspelt limit goes unnoticed then." },

/* --- supervisor ------------------------------------------------------------------------------ */
	{ "supervisor", "revoke_deadline", CONFIG_DURATION, AT(revoke_deadline_ms, uint32_t), 100,
	  5 * MINUTE, .preset = "5s", .prose =
	  "Partitions that are taken away are given back to the group after this time at the latest." },
	{ "supervisor", "drain", CONFIG_DURATION, AT(drain_ms, uint32_t), 0, 10 * SECOND,
	  .preset = "100ms", .prose =
	  "Time for a worker that is to lose its partition to hand its last records to Kafka." },
	{ "supervisor", "lost_grace", CONFIG_DURATION, AT(lost_grace_ms, uint32_t), 0, HOUR,
	  .preset = "0s", .prose =
	  "After the session was lost, stores are kept for so long from the next assignment on, in "
	  "case their partitions come back. 0: one session timeout." },
	{ "supervisor", "stop_deadline", CONFIG_DURATION, AT(stop_deadline_ms, uint32_t), 100,
	  10 * MINUTE, .preset = "10s", .prose =
	  "When Tally stops, workers that have not ended after this time are killed." },
	{ "supervisor", "commit_allowance", CONFIG_DURATION, AT(commit_allowance_ms, uint32_t), 1,
	  10 * MINUTE, .preset = "1s", .prose =
	  "Longest time that a commit may take. A lease ends a heartbeat interval and this time before "
	  "the session does." },
	{ "supervisor", "hang_timeout", CONFIG_DURATION, AT(hang_timeout_ms, uint32_t), SECOND, HOUR,
	  .preset = "30s", .prose =
	  "A worker without a sign of life for so long is aborted and started again." },
	{ "supervisor", "restart_min", CONFIG_DURATION, AT(restart_min_ms, uint32_t), 1, MINUTE,
	  .preset = "100ms", .prose =
	  "Pause before a dead worker is started again; doubled at each death without progress." },
	{ "supervisor", "restart_max", CONFIG_DURATION, AT(restart_max_ms, uint32_t), 1, HOUR,
	  .preset = "60s", .prose = "Longest such pause." },
	{ "supervisor", "worker_program", CONFIG_TEXT, AT_TEXT(worker_program), 0, 255, .preset = "",
	  .example = "/usr/bin/tally-worker", .check = check_program, .prose =
	  "Program of the workers. When not given: tally-worker in the directory of tallyd." },
	{ "supervisor", "query_program", CONFIG_TEXT, AT_TEXT(query_program), 0, 255, .preset = "",
	  .example = "/usr/bin/tally-queryd", .check = check_program, .prose =
	  "Program of the query process. When not given: tally-queryd in the directory of tallyd." },
	{ "supervisor", "reader_group", CONFIG_TEXT, AT_TEXT(reader_group), 0, 63, .preset = "",
	  .example = "tally-readers", .prose =
	  "Group that may read the stores. When not given: the group that run_dir has." },
	{ "supervisor", "confine", CONFIG_BOOL, AT(confine, bool), 0, 1, .preset = "true", .prose =
	  "Workers and query processes give up what they do not need: privileges, files (Landlock) and "
	  "system calls (seccomp), as far as the kernel can. false: for debugging." },

/* --- query ----------------------------------------------------------------------------------- */
	{ "query", "enabled", CONFIG_BOOL, AT(query_enabled, bool), 0, 1, .preset = "true",
	  .prose = "Start the query process." },
	{ "query", "http_listen", CONFIG_LISTEN, AT_TEXT(http_listen), 1, 255,
	  .preset = "127.0.0.1:3100", .prose =
	  "Address for HTTP; port 0: any free one. Anywhere but on this machine it should have "
	  "http_tls_* and tokens_file: whoever reaches it may ask otherwise." },
	{ "query", "http_tls_cert", CONFIG_TEXT, AT_TEXT(http_tls_cert), 0, 255, .preset = "",
	  .example = "/etc/tally/http.crt", .check = check_file, .prose =
	  "Certificate (PEM, with its chain) for HTTP with TLS. When not given: cleartext. Read again "
	  "on SIGHUP, like the other two." },
	{ "query", "http_tls_key", CONFIG_TEXT, AT_TEXT(http_tls_key), 0, 255, .preset = "",
	  .example = "/etc/tally/http.key", .check = check_file, .prose = "Its key (PEM)." },
	{ "query", "http_tls_client_ca", CONFIG_TEXT, AT_TEXT(http_tls_client_ca), 0, 255,
	  .preset = "", .example = "/etc/tally/clients-ca.crt", .check = check_file, .prose =
	  "Clients must show a certificate of this authority (PEM). When not given: any client may "
	  "connect." },
	{ "query", "http_hosts", CONFIG_TEXT, AT_TEXT(http_hosts), 0, 1023, .preset = "",
	  .example = "tally.example.com", .check = check_hosts, .prose =
	  "Names, with commas between, that clients may call this server by over HTTP (header Host), "
	  "as through a reverse proxy; * = any. Addresses, localhost and the machine's own name always "
	  "work. When not given: any name with TLS or tokens_file, and from other machines; else none, "
	  "since it may be that of a web page that makes a browser ask here (DNS rebinding)." },
	{ "query", "http_threads", CONFIG_NUMBER, AT(http_threads, uint32_t), 1, 64, .preset = "4",
	  .prose =
	  "Threads that answer HTTP; all but one may wait for questions that write." },
	{ "query", "metrics_tenants", CONFIG_NUMBER, AT(metrics_tenants, uint32_t), 0, 1000,
	  .preset = "100", .prose =
	  "So many of the largest tenants, and of those nearest to a limit, are in /metrics." },
	{ "query", "metrics_names", CONFIG_NUMBER, AT(metrics_names, uint32_t), 0, 1,
	  .words = metrics, .preset = "tally", .prose =
	  "Names in /metrics. tally: ours (man tally-metrics). loki: also those of Loki's "
	  "ingest-limits, with their labels, so that panels made for it go on working; ours stay, "
	  "since most have no counterpart there and our alerts stand on them." },
	{ "query", "grpc_listen", CONFIG_LISTEN, AT_TEXT(grpc_listen), 1, 255,
	  .preset = "127.0.0.1:9095", .prose = "Address for gRPC; port 0: any free one." },
	{ "query", "grpc_tls_cert", CONFIG_TEXT, AT_TEXT(grpc_tls_cert), 0, 255, .preset = "",
	  .example = "/etc/tally/grpc.crt", .check = check_file, .prose =
	  "Certificate (PEM, with its chain) for gRPC with TLS. When not given: cleartext. Read again "
	  "on SIGHUP, like the other two." },
	{ "query", "grpc_tls_key", CONFIG_TEXT, AT_TEXT(grpc_tls_key), 0, 255, .preset = "",
	  .example = "/etc/tally/grpc.key", .check = check_file, .prose = "Its key (PEM)." },
	{ "query", "grpc_tls_client_ca", CONFIG_TEXT, AT_TEXT(grpc_tls_client_ca), 0, 255,
	  .preset = "", .example = "/etc/tally/clients-ca.crt", .check = check_file, .prose =
	  "Clients must show a certificate of this authority (PEM). When not given: any client may "
	  "ask." },
	{ "query", "grpc_max_message", CONFIG_BYTES, AT(grpc_max_message, uint64_t), 64 * 1024,
	  256 * MIB, .preset = "4MiB", .prose = "Largest request, unpacked." },
	{ "query", "grpc_connections", CONFIG_NUMBER, AT(grpc_connections, uint32_t), 1, 65536,
	  .preset = "1024", .prose = "Most connections of one query process; three quarters of them from one address." },
	{ "query", "grpc_streams", CONFIG_NUMBER, AT(grpc_streams, uint32_t), 1, 65536,
	  .preset = "256", .prose = "Most calls at the same time on one connection." },
	{ "query", "processes", CONFIG_NUMBER, AT(query_processes, uint32_t), 1, 64, .preset = "1",
	  .prose =
	  "Query processes; they share the addresses, whose ports must not be 0 then. With several, a "
	  "limit can be passed by as many streams as the others have just under way." },
	{ "query", "peers", CONFIG_TEXT, AT_TEXT(peers), 0, 1023, .preset = "",
	  .example = "tally-1:9095,tally-2:9095", .check = check_peers, .prose =
	  "gRPC addresses of the other instances, host:port with commas between; a name with several "
	  "addresses stands for all of them, and our own may be among them. The front-end service asks "
	  "them for streams that are not served here." },
	{ "query", "peers_token_file", CONFIG_TEXT, AT_TEXT(peers_token_file), 0, 255, .preset = "",
	  .example = "/etc/tally/peers.token", .check = check_file, .prose =
	  "File with the token that is shown to them, one that their tokens_file has with scope ask. "
	  "Read again on SIGHUP." },
	{ "query", "tokens_file", CONFIG_TEXT, AT_TEXT(tokens_file), 0, 255, .preset = "",
	  .example = "/etc/tally/tokens", .check = check_file, .prose =
	  "Who may ask what, over HTTP and gRPC: lines of \"sha256:HEX SCOPE ...\" with the SHA-256 of "
	  "a token and admin, ask, read, metrics or read:TENANT. When not given: whoever reaches an "
	  "address may ask all. Read again on SIGHUP, all of it or nothing." },
};
/* clang-format on */

#define N_OPTIONS  (sizeof(options) / sizeof(options[0]))
#define N_SECTIONS (sizeof(sections) / sizeof(sections[0]))
_Static_assert(N_OPTIONS <= CONFIG_OPTIONS_MAX, "room for the lines");
_Static_assert(N_SECTIONS <= CONFIG_SECTIONS_MAX, "room for the lines");

const struct config_option *config_options(size_t *n)
{
	*n = N_OPTIONS;
	return options;
}

const struct config_section *config_sections(size_t *n)
{
	*n = N_SECTIONS;
	return sections;
}

const struct config_option *config_option_find(const char *section, const char *key)
{
	for (size_t i = 0; i < N_OPTIONS; i++) {
		if (strcmp(options[i].section, section) == 0 && strcmp(options[i].key, key) == 0)
			return &options[i];
	}
	return NULL;
}

int config_option_index(const struct config_option *option)
{
	return (int)(option - options);
}

int config_section_index(const char *name)
{
	for (size_t i = 0; i < N_SECTIONS; i++) {
		if (strcmp(sections[i].name, name) == 0)
			return (int)i;
	}
	return -1;
}
