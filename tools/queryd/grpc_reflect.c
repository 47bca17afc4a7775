/*
 * grpc_reflect.c - grpc.reflection: tells grpcurl and its like which services are here.
 *
 *	options.descriptors = FileDescriptorSet (protoc --descriptor_set_out)
 *	    = { 1: FileDescriptorProto { 1: name, 2: package, 4: message*, 5: enum*, 6: service* } }*
 *
 * The set is our own, made when we were built; of it only these fields are
 * read, to find the file that somebody asks for.
 *
 * Runs in: queryd, the loop's thread.  Blocks in: nowhere.
 */
#include <stdlib.h>
#include <string.h>

#include "grpc_private.h"
#include "reflection.pb-c.h"
#include "varint.h"

#define SERVICES_MAX 32

typedef Grpc__Reflection__V1__ServerReflectionRequest request_message;
typedef Grpc__Reflection__V1__ServerReflectionResponse response_message;

enum { SET_FILE = 1, FILE_NAME = 1, FILE_PACKAGE = 2, FILE_MESSAGE = 4, FILE_SERVICE = 6 };
enum { ITEM_NAME = 1 }; /* of a message, an enum, a service */

/* --- descriptors ------------------------------------------------------------------------------- */

/* The next field; numbers have an empty value.  false: the end, or not what protoc writes. */
static bool take_field(struct reader *in, uint64_t *number, struct reader *value)
{
	uint64_t tag, n;

	if (!read_varint(in, &tag))
		return false;
	*number = tag >> 3;
	if ((tag & 7) == BYTES)
		return read_bytes(in, value);
	*value = (struct reader){in->at, in->at};
	return (tag & 7) == VARINT && read_varint(in, &n);
}

/* The first of these fields; empty when there is none. */
static struct reader first_of(struct reader in, uint64_t wanted)
{
	struct reader value;
	uint64_t number;

	while (take_field(&in, &number, &value))
		if (number == wanted)
			return value;
	return (struct reader){NULL, NULL};
}

static size_t length(struct reader value)
{
	return (size_t)(value.end - value.at);
}

static bool equals(struct reader value, const char *text)
{
	return length(value) == strlen(text) && memcmp(value.at, text, length(value)) == 0;
}

/* "name" or "name.more" */
static bool begins(const char *symbol, struct reader name)
{
	size_t len = length(name);

	return len > 0 && strncmp(symbol, (const char *)name.at, len) == 0 &&
	       (symbol[len] == '.' || symbol[len] == '\0');
}

static bool has_name(struct reader file, const char *name)
{
	return equals(first_of(file, FILE_NAME), name);
}

static bool has_symbol(struct reader file, const char *symbol)
{
	struct reader package = first_of(file, FILE_PACKAGE), item;
	uint64_t number;

	if (!begins(symbol, package) || symbol[length(package)] == '\0')
		return false;
	while (take_field(&file, &number, &item))
		if (number >= FILE_MESSAGE && number <= FILE_SERVICE &&
			begins(symbol + length(package) + 1, first_of(item, ITEM_NAME)))
			return true;
	return false;
}

static struct reader find_file(const struct grpc_options *options,
	bool (*fits)(struct reader file, const char *text), const char *text)
{
	struct reader set = {options->descriptors, options->descriptors + options->descriptors_len};
	struct reader file;
	uint64_t number;

	while (take_field(&set, &number, &file))
		if (number == SET_FILE && fits(file, text))
			return file;
	return (struct reader){NULL, NULL};
}

/* --- answers ----------------------------------------------------------------------------------- */

static void send_response(
	struct grpc_call *call, request_message *request, response_message *response)
{
	size_t len;
	uint8_t *bytes;

	response->valid_host = request->host;
	response->original_request = request;
	len = grpc__reflection__v1__server_reflection_response__get_packed_size(response);
	bytes = malloc(len);
	if (bytes == NULL) {
		grpc_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	grpc__reflection__v1__server_reflection_response__pack(response, bytes);
	grpc_send(call, bytes, len);
	free(bytes);
}

static void send_error(
	struct grpc_call *call, request_message *request, enum grpc_status status, char *text)
{
	response_message response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
	Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;

	error.error_code = (int)status;
	error.error_message = text;
	response.message_response_case =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
	response.error_response = &error;
	send_response(call, request, &response);
}

static void send_file(struct grpc_call *call, request_message *request, struct reader file)
{
	response_message response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
	Grpc__Reflection__V1__FileDescriptorResponse files =
		GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
	ProtobufCBinaryData one = {length(file), (uint8_t *)(uintptr_t)file.at};

	if (file.at == NULL) {
		send_error(call, request, GRPC_NOT_FOUND, (char[]){"not known here"});
		return;
	}
	files.n_file_descriptor_proto = 1;
	files.file_descriptor_proto = &one;
	response.message_response_case =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
	response.file_descriptor_response = &files;
	send_response(call, request, &response);
}

struct services {
	Grpc__Reflection__V1__ServiceResponse list[SERVICES_MAX];
	Grpc__Reflection__V1__ServiceResponse *pointers[SERVICES_MAX];
	char names[SERVICES_MAX][128];
	size_t n;
};

static void add_services(struct services *services, const struct grpc_method *table)
{
	for (; table->path != NULL && services->n < SERVICES_MAX; table++) {
		size_t i = services->n, len = strcspn(table->path + 1, "/");

		if (len >= sizeof(services->names[i]))
			continue;
		memcpy(services->names[i], table->path + 1, len);
		services->names[i][len] = '\0';
		if (i > 0 && strcmp(services->names[i], services->names[i - 1]) == 0)
			continue; /* the methods of a service stand together */
		grpc__reflection__v1__service_response__init(&services->list[i]);
		services->list[i].name = services->names[i];
		services->pointers[i] = &services->list[i];
		services->n++;
	}
}

static void send_services(struct grpc_call *call, request_message *request)
{
	response_message response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
	Grpc__Reflection__V1__ListServiceResponse list =
		GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
	struct services services = {.n = 0};

	add_services(&services, call->conn->server->options.methods);
	add_services(&services, grpc_health_table());
	list.n_service = services.n;
	list.service = services.pointers;
	response.message_response_case =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
	response.list_services_response = &list;
	send_response(call, request, &response);
}

static void answer_request(struct grpc_call *call, request_message *request)
{
	const struct grpc_options *options = &call->conn->server->options;

	switch (request->message_request_case) {
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
		send_file(call, request, find_file(options, has_name, request->file_by_filename));
		break;
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
		send_file(call, request,
			find_file(options, has_symbol, request->file_containing_symbol));
		break;
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
		send_services(call, request);
		break;
	default:
		send_error(call, request, GRPC_NOT_FOUND, (char[]){"there are no extensions"});
		break;
	}
}

static void reflect(struct grpc_call *call, const uint8_t *message, size_t len, void *arg)
{
	request_message *request;

	(void)arg;
	if (message == NULL) {
		grpc_fail(call, GRPC_OK, NULL);
		return;
	}
	request = grpc__reflection__v1__server_reflection_request__unpack(NULL, len, message);
	if (request == NULL) {
		grpc_fail(call, GRPC_INTERNAL, "this is not a ServerReflectionRequest");
		return;
	}
	answer_request(call, request);
	grpc__reflection__v1__server_reflection_request__free_unpacked(request, NULL);
}

const struct grpc_method *grpc_reflect_table(void)
{
	static const struct grpc_method table[] = {
		{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", reflect, GRPC_BIDI},
		{"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", reflect,
			GRPC_BIDI},
		{NULL, NULL, GRPC_UNARY},
	};

	return table;
}
