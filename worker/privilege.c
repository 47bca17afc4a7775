/*
 * privilege.c - what a worker may still do once it knows what it is for.
 *
 *	reads	its run directory, system files, files that Kafka's properties name
 *	writes	the directory of its generation
 *
 * Runs in: worker, before any thread.
 */
#include "privilege.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shm/confine.h"
#include "shm/log.h"

/* The last one counts, as with librdkafka. */
static const char *property(const struct handoff *handoff, const char *name, const char *alias)
{
	const char *value = NULL;

	for (uint32_t i = 0; i < handoff->n_properties; i++)
		if (strcmp(handoff->properties[i].name, name) == 0 ||
			strcmp(handoff->properties[i].name, alias) == 0)
			value = handoff->properties[i].value;
	return value;
}

/* With GSSAPI, which is its default, librdkafka gets its tickets by a shell that runs kinit. */
static bool runs_kinit(const struct handoff *handoff)
{
	const char *protocol = property(handoff, "security.protocol", "security.protocol");
	const char *mechanism = property(handoff, "sasl.mechanism", "sasl.mechanisms");

	return protocol && strncasecmp(protocol, "sasl", 4) == 0 &&
	       (!mechanism || strcasecmp(mechanism, "GSSAPI") == 0);
}

/* Whatever it is told, librdkafka has all SASL plugins of the system loaded, and Berkeley DB with
 * them; it uses them for GSSAPI alone. */
static void load_no_plugins(void)
{
	setenv("SASL_PATH", "/nonexistent", 1);
}

void privilege_drop(const struct handoff *handoff, const char *dir)
{
	static const char *const named[] = {"SSL_CERT_FILE", "SSL_CERT_DIR"};
	struct confine confine;

	if (!runs_kinit(handoff))
		load_no_plugins();
	if (!handoff->confine || runs_kinit(handoff)) {
		log_info("confine.off", "why=\"%s\"",
			handoff->confine ? "kinit is run for sasl.mechanism GSSAPI"
					 : "supervisor.confine is false");
		return;
	}
	confine_begin(&confine, CONFINE_WORKER);
	confine_allow(&confine, handoff->run_dir, CONFINE_READ);
	confine_allow(&confine, dir, CONFINE_OWN);
	for (uint32_t i = 0; i < handoff->n_properties; i++)
		if (handoff->properties[i].value[0] == '/')
			confine_allow_file(&confine, handoff->properties[i].value);
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		if (getenv(named[i]))
			confine_allow_file(&confine, getenv(named[i]));
	confine_enter(&confine);
}
