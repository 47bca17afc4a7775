/*
 * config.h - tally.yaml: one table of options gives parsing, bounds, unit,
 * default, prose, --print-config and the sample file.
 *
 *	tally.yaml --config_load--> struct config (values are passed on as arguments, never global)
 *
 * A mistake is one line: "tally.yaml:12: kafka.topic: must not be empty; name
 * the topic that ...".  Unknown keys, duplicate keys, wrong types, wrong units
 * and values out of bounds are all mistakes.
 */
#ifndef TALLY_SHM_CONFIG_H
#define TALLY_SHM_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "shm/log.h"

#define CONFIG_TEXT_SIZE      256
#define CONFIG_PROPERTIES_MAX 96
#define CONFIG_OPTIONS_MAX    96

struct config_property {
	char *name, *value;
	char *path; /* the file that the value is in; value = NULL until it is read.  NULL: none */
	unsigned mode; /* of that file */
	unsigned line; /* in tally.yaml, for messages; 0: not known */
};

struct config {
	char run_dir[CONFIG_TEXT_SIZE]; /* run_dir */
	char instance[64];		/* instance: name in logs and metrics; "" = host name */
	char zone[64];			/* zone */
	uint32_t log_level;		/* log_level: enum log_level */
	uint32_t log_format;		/* log_format: enum log_format */
	int64_t clock_offset_ms;	/* clock_offset */

	char brokers[1024];			  /* kafka.brokers -> bootstrap.servers */
	char topic[CONFIG_TEXT_SIZE];		  /* kafka.topic */
	char group[CONFIG_TEXT_SIZE];		  /* kafka.group */
	char group_instance_id[CONFIG_TEXT_SIZE]; /* kafka.group_instance_id */
	char assignor[64];			  /* kafka.assignor */
	uint32_t partitions;			  /* kafka.partitions: 0 = what the topic has */
	uint32_t session_timeout_ms;		  /* kafka.session_timeout */
	uint32_t heartbeat_interval_ms;		  /* kafka.heartbeat_interval */
	uint32_t max_poll_interval_ms;		  /* kafka.max_poll_interval */
	bool read_uncommitted; /* kafka.isolation: read_committed | read_uncommitted */
	/* kafka.properties and kafka.secret_files */
	struct config_property properties[CONFIG_PROPERTIES_MAX];
	uint32_t n_properties;
	uint32_t n_secret_files;	    /* so many of them have a path */
	char source[CONFIG_TEXT_SIZE];	    /* file that all this was read from, or its end */
	unsigned mode;			    /* of that file; 0 = from memory */
	unsigned lines[CONFIG_OPTIONS_MAX]; /* where each option is written; 0 = not given */

	uint32_t active_window_ms; /* window.active: whole minutes */
	uint32_t rate_window_ms;   /* window.rate: whole minutes, at most 5 */

	uint32_t replay_margin_ms;    /* replay.margin */
	uint32_t replay_batch;	      /* replay.batch */
	uint32_t replay_concurrency;  /* replay.concurrency */
	uint32_t replay_queue;	      /* replay.queue */
	uint32_t offsets_timeout_ms;  /* replay.offsets_timeout */
	bool ready_on_lookup_failure; /* replay.on_lookup_failure: retry | ready */
	bool cpu_affinity;	      /* replay.cpu_affinity */
	uint32_t flush_ms;	      /* replay.flush */
	uint32_t stall_timeout_ms;    /* replay.stall_timeout */

	uint64_t store_map_bytes; /* store.map_size */
	uint32_t store_readers;	  /* store.readers */

	bool produce;		   /* produce.enabled */
	uint32_t produce_every_ms; /* produce.interval: whole seconds */
	uint64_t outbox_max;	   /* produce.outbox: rows, of one partition */

	char limits_file[CONFIG_TEXT_SIZE]; /* limits.file: "" = none */
	uint64_t default_streams;	    /* limits.max_global_streams_per_user; 0 = no limit */
	uint32_t limit_scope;		    /* limits.scope: enum limit_scope */
	bool limits_dry_run;		    /* limits.dry_run */
	bool limits_ignore_unknown;	    /* limits.unknown_keys: refuse | ignore */

	uint32_t revoke_deadline_ms;  /* supervisor.revoke_deadline */
	uint32_t drain_ms;	      /* supervisor.drain */
	uint32_t lost_grace_ms;	      /* supervisor.lost_grace: 0 = one session timeout */
	uint32_t stop_deadline_ms;    /* supervisor.stop_deadline */
	uint32_t commit_allowance_ms; /* supervisor.commit_allowance: longest commit, taken off the
					 lease */
	uint32_t hang_timeout_ms;     /* supervisor.hang_timeout */
	uint32_t restart_min_ms;      /* supervisor.restart_min */
	uint32_t restart_max_ms;      /* supervisor.restart_max */
	char worker_program[CONFIG_TEXT_SIZE]; /* supervisor.worker_program: "" = beside tallyd */
	char query_program[CONFIG_TEXT_SIZE];  /* supervisor.query_program: "" = beside tallyd */
	char reader_group[64]; /* supervisor.reader_group: "" = leave the group as it is */
	bool confine;	       /* supervisor.confine */

	bool query_enabled;		    /* query.enabled */
	char http_listen[CONFIG_TEXT_SIZE]; /* query.http_listen: "127.0.0.1:3100"; port 0 = any
					       free one */
	char http_hosts[1024];		    /* query.http_hosts: names of ours, commas; * = any */
	uint32_t http_threads;		    /* query.http_threads */
	uint32_t metrics_tenants; /* query.metrics_tenants: so many of the largest tenants in
				     /metrics */
	uint32_t metrics_names;	  /* query.metrics_names: enum metrics_names */
	uint32_t query_processes; /* query.processes */
	char grpc_listen[CONFIG_TEXT_SIZE];	   /* query.grpc_listen; port 0 = any free one */
	char grpc_tls_cert[CONFIG_TEXT_SIZE];	   /* query.grpc_tls_cert: "" = cleartext */
	char grpc_tls_key[CONFIG_TEXT_SIZE];	   /* query.grpc_tls_key */
	char grpc_tls_client_ca[CONFIG_TEXT_SIZE]; /* query.grpc_tls_client_ca: "" = any client */
	uint64_t grpc_max_message;		   /* query.grpc_max_message: bytes */
	uint32_t grpc_connections;		   /* query.grpc_connections: of each process */
	uint32_t grpc_streams;			   /* query.grpc_streams: of a connection */
	char http_tls_cert[CONFIG_TEXT_SIZE];	   /* query.http_tls_cert: "" = cleartext */
	char http_tls_key[CONFIG_TEXT_SIZE];	   /* query.http_tls_key */
	char http_tls_client_ca[CONFIG_TEXT_SIZE]; /* query.http_tls_client_ca: "" = any client */
	char tokens_file[CONFIG_TEXT_SIZE]; /* query.tokens_file: "" = no tokens are wanted */
	char peers[1024]; /* query.peers: gRPC addresses of other instances, host:port, commas */
	char peers_token_file[CONFIG_TEXT_SIZE]; /* query.peers_token_file: "" = none is shown */
	uint32_t query_file_lines[8]; /* where the files of query are written; 0 = nowhere */
};

/* Loki's are beside ours. */
enum metrics_names { METRICS_TALLY, METRICS_LOKI };

struct config_error {
	char line[512]; /* one line, no newline: what is wrong, where, and what to do */
};

/* Defaults alone (kafka.brokers and kafka.topic have none and stay empty). */
void config_defaults(struct config *config);

/*
 * Reads and checks a file.  ERR_INVALID or an error of opening it, with *error
 * filled and nothing in *config to be freed.
 */
int config_load(const char *path, struct config *config, struct config_error *error);

/* The same from memory; `name` stands for the file in messages.  For tests. */
int config_parse(const char *name, const char *text, size_t len, struct config *config,
	struct config_error *error);

/* Wipes and frees the properties; the rest stays as it is. */
void config_free(struct config *config);

/* The value of this librdkafka property must not be logged or shown. */
bool config_property_secret(const char *name);

/*
 * The values of kafka.secret_files.  config_load does not read them: the query
 * process has no use for them.  `load` reads all or none, `swap` puts them into
 * the configuration and what was there into *secrets, `free` wipes.
 */
struct config_secrets {
	struct {
		char *value;
		unsigned mode;
	} of[CONFIG_PROPERTIES_MAX];
	uint32_t n;
};
int config_secrets_load(const char *config_path, const struct config *config,
	struct config_secrets *secrets, struct config_error *error);
void config_secrets_swap(struct config *config, struct config_secrets *secrets);
void config_secrets_free(struct config_secrets *secrets);

/* The same as config_property_secret, or given by kafka.secret_files. */
bool config_hides(const struct config *config, const char *name);

/* Calls `say` for each file with a secret that every user may read or write. */
void config_exposed(const char *config_path, const struct config *config,
	void (*say)(const char *path, unsigned mode, const char *property));

/*
 * Takes a listen address apart: "127.0.0.1:3100", "[::1]:3100", "localhost:0".
 * The host comes without brackets.  ERR_INVALID when it is none, or host is too
 * small for it.
 */
int config_listen_split(const char *listen, char *host, size_t size, uint16_t *port);

/*
 * The line for a mistake with a property, with the line that it is on:
 * "tally.yaml:6: kafka.properties: sasl.mechanism: ...".  `name` NULL: it is not
 * known which one.  Returns ERR_INVALID.
 */
int config_property_fail(const struct config *config, const char *name, struct config_error *error,
	const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The file may be edited from now on: messages name no line of it any more. */
void config_forget_lines(struct config *config);

/* The one of `names` that is nearest to `name`; NULL when none is near. */
const char *config_nearest_of(const char *name, const char *const *names, size_t n);

/*
 * Files that properties like ssl.ca.location name: can they be opened?  The query
 * process has no use for them, so config_load does not look.
 */
int config_files_check(const struct config *config, struct config_error *error);

/*
 * The files of query.grpc_tls_*, query.http_tls_* and the two of tokens: are they there, and
 * what they should be?  What is in the PEM is left to the query process.
 */
int config_query_files_check(const struct config *config, struct config_error *error);

/* Calls `found` with every absolute path that an option of this section has. */
void config_each_path(const struct config *config, const char *section,
	void (*found)(void *arg, const char *path), void *arg);

/*
 * Names of the options that differ, "kafka.topic,query.peers", cut to fit.  Gives how many;
 * a map counts as one.
 */
size_t config_differences(const struct config *a, const struct config *b, char *names, size_t size);

/*
 * Every option as it holds, in the order of the table; of a map one for each entry.
 * Values of properties that are secrets are "(hidden)".
 */
struct config_shown {
	const char *name;   /* "kafka.topic", "kafka.properties.security.protocol" */
	const char *value;  /* as one would write it: "45s", "true" */
	const char *preset; /* the default; NULL: none */
	unsigned line;	    /* of the file; 0: not given, or not known any more */
};
typedef void config_shown_fn(void *arg, const struct config_shown *shown);
void config_each(const struct config *config, config_shown_fn *each, void *arg);

/* --print-config: every option with section, default, unit, bounds and prose: a valid tally.yaml.
 */
void config_print(FILE *out);

#endif
