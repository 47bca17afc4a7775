/*
 * calls.h - the calls that fail in turn: what each is, how it says that it failed, and with what.
 *
 * `map.h` has what is shared between the processes that are watched and `sites`, the program
 * that arms a site.  A call that a program imports is in this list or in infallible.txt; else
 * the test is red.
 */
#ifndef TALLY_TESTS_CALLS_H
#define TALLY_TESTS_CALLS_H

#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <lmdb.h>
#include <netdb.h>
#include <nghttp2/nghttp2.h>
#include <yaml.h>
#include <zlib.h>

/* How a call fails.  The real one is not called, but for ENDS_*: what is ended there is ended. */
enum how {
	MINUS,	   /* -1, errno */
	NONE,	   /* NULL, errno */
	MAP,	   /* MAP_FAILED, errno */
	NUMBER,	   /* the number itself: errno, LMDB, Kafka, nghttp2, zlib, resolver */
	NEGATIVE,  /* the number, negative (sd_notify) */
	KAFKA,	   /* a new rd_kafka_error_t with this code */
	CONF,	   /* RD_KAFKA_CONF_INVALID, and a text at argument 3 of size argument 4 */
	CLIENT,	   /* NULL, and a text at argument 2 of size argument 3: rd_kafka_new */
	ZERO,	   /* 0, and the number at where argument 0 points: libyaml's parser */
	NO,	   /* 0: MHD_NO, OpenSSL */
	ENDS,	   /* done, but -1, errno: close */
	ENDS_FILE, /* done, but EOF, errno: fclose */
	ENDS_TXN,  /* mdb_txn_abort instead, then the number */
};

/* clang-format off */
#define CALLS(CALL) \
	/* memory */ \
	CALL(malloc,			NONE,	ENOMEM) \
	CALL(calloc,			NONE,	ENOMEM) \
	CALL(realloc,			NONE,	ENOMEM) \
	CALL(reallocarray,		NONE,	ENOMEM) \
	CALL(posix_memalign,		NUMBER,	ENOMEM) \
	CALL(aligned_alloc,		NONE,	ENOMEM) \
	CALL(strdup,			NONE,	ENOMEM) \
	CALL(strndup,			NONE,	ENOMEM) \
	CALL(open_memstream,		NONE,	ENOMEM) \
	CALL(mmap,			MAP,	ENOMEM, EAGAIN) \
	CALL(munmap,			MINUS,	ENOMEM) \
	CALL(madvise,			MINUS,	EAGAIN, ENOSYS) \
	CALL(memfd_create,		MINUS,	EMFILE, ENOMEM, ENOSYS) \
	/* files */ \
	CALL(open,			MINUS,	EMFILE, ENOENT, EACCES, EIO, EINTR) \
	CALL(openat,			MINUS,	EMFILE, ENOSPC, EACCES, EIO, EINTR) \
	CALL(open64,			MINUS,	EMFILE, ENOENT, EACCES, EIO, EINTR) \
	CALL(openat64,			MINUS,	EMFILE, ENOSPC, EACCES, EIO, EINTR) \
	CALL(fopen,			NONE,	EMFILE, ENOENT, EACCES, ENOMEM) \
	CALL(opendir,			NONE,	EMFILE, EACCES, ENOMEM) \
	CALL(fdopendir,			NONE,	ENOMEM, EMFILE) \
	CALL(readdir,			NONE,	EIO, ENOENT) \
	CALL(close,			ENDS,	EIO, EINTR) \
	CALL(fclose,			ENDS_FILE, ENOSPC, EIO) \
	CALL(dup,			MINUS,	EMFILE) \
	CALL(pipe2,			MINUS,	EMFILE) \
	CALL(fcntl,			MINUS,	ENOMEM, EINTR, EAGAIN) \
	CALL(flock,			MINUS,	EINTR, ENOLCK, EAGAIN) \
	CALL(read,			MINUS,	EIO, EINTR, EAGAIN) \
	CALL(pread,			MINUS,	EIO, EINTR) \
	CALL(write,			MINUS,	ENOSPC, EIO, EINTR, EAGAIN) \
	CALL(pwrite,			MINUS,	ENOSPC, EIO, EINTR) \
	CALL(ftruncate,			MINUS,	ENOSPC, EIO, EINTR) \
	CALL(fallocate,			MINUS,	ENOSPC, EINTR, EOPNOTSUPP) \
	CALL(posix_fallocate,		NUMBER,	ENOSPC, EINTR, EOPNOTSUPP) \
	CALL(stat,			MINUS,	EIO, ENOENT, EACCES) \
	CALL(lstat,			MINUS,	EIO, ENOENT, EACCES) \
	CALL(fstat,			MINUS,	EIO, ENOMEM) \
	CALL(fstatat,			MINUS,	EIO, ENOENT, EACCES) \
	CALL(access,			MINUS,	EIO, EACCES) \
	CALL(realpath,			NONE,	ENOENT, ENOMEM) \
	CALL(__realpath_chk,		NONE,	ENOENT, ENOMEM) \
	CALL(readlink,			MINUS,	EIO, ENOENT) \
	CALL(mkdir,			MINUS,	ENOSPC, EROFS, EACCES) \
	CALL(mkdirat,			MINUS,	ENOSPC, EROFS, EACCES) \
	CALL(rename,			MINUS,	ENOSPC, EIO, EACCES) \
	CALL(renameat,			MINUS,	ENOSPC, EIO, EACCES) \
	CALL(renameat2,			MINUS,	ENOSPC, EIO, EACCES) \
	CALL(unlink,			MINUS,	EIO, EACCES) \
	CALL(unlinkat,			MINUS,	EIO, EACCES) \
	CALL(chmod,			MINUS,	EPERM, EROFS) \
	CALL(fchmod,			MINUS,	EPERM, EROFS) \
	CALL(fchmodat,			MINUS,	EPERM, EROFS) \
	CALL(fchown,			MINUS,	EPERM, EROFS) \
	/* sockets */ \
	CALL(socket,			MINUS,	EMFILE, ENOBUFS, EACCES) \
	CALL(socketpair,		MINUS,	EMFILE, ENOBUFS) \
	CALL(bind,			MINUS,	EADDRINUSE, EACCES, ENOSPC) \
	CALL(listen,			MINUS,	EADDRINUSE) \
	CALL(accept,			MINUS,	EMFILE, ECONNABORTED, EAGAIN) \
	CALL(accept4,			MINUS,	EMFILE, ECONNABORTED, EAGAIN, ENOBUFS) \
	CALL(connect,			MINUS,	ECONNREFUSED, EAGAIN, ENOENT) \
	CALL(send,			MINUS,	ENOBUFS, EAGAIN, EPIPE, ECONNRESET, EINTR) \
	CALL(sendto,			MINUS,	ENOBUFS, EAGAIN, EPIPE, EINTR) \
	CALL(sendmsg,			MINUS,	ENOBUFS, EAGAIN, EPIPE, EINTR) \
	CALL(recv,			MINUS,	ECONNRESET, EAGAIN, EINTR, ENOMEM) \
	CALL(recvfrom,			MINUS,	ECONNRESET, EAGAIN, EINTR) \
	CALL(recvmsg,			MINUS,	ECONNRESET, EAGAIN, EINTR) \
	CALL(shutdown,			MINUS,	ENOTCONN) \
	CALL(setsockopt,		MINUS,	ENOPROTOOPT, ENOMEM) \
	CALL(getsockopt,		MINUS,	ENOPROTOOPT, ENOBUFS) \
	CALL(getsockname,		MINUS,	ENOBUFS) \
	CALL(getpeername,		MINUS,	ENOTCONN) \
	CALL(getaddrinfo,		NUMBER,	EAI_AGAIN, EAI_MEMORY, EAI_SYSTEM) \
	CALL(getnameinfo,		NUMBER,	EAI_AGAIN, EAI_MEMORY) \
	CALL(poll,			MINUS,	EINTR, ENOMEM) \
	CALL(eventfd,			MINUS,	EMFILE, ENOMEM) \
	CALL(eventfd_read,		MINUS,	EAGAIN, EINTR) \
	CALL(eventfd_write,		MINUS,	EAGAIN, EINTR) \
	/* processes */ \
	CALL(posix_spawn,		NUMBER,	EAGAIN, ENOMEM, ENOENT, EACCES) \
	CALL(posix_spawn_file_actions_init, NUMBER, ENOMEM) \
	CALL(posix_spawn_file_actions_adddup2, NUMBER, ENOMEM, EBADF) \
	CALL(posix_spawn_file_actions_addclosefrom_np, NUMBER, ENOMEM) \
	CALL(posix_spawnattr_init,	NUMBER,	ENOMEM) \
	CALL(pidfd_open,		MINUS,	EMFILE, ENOMEM, ENOSYS) \
	CALL(pidfd_send_signal,		MINUS,	EPERM, ENOSYS) \
	CALL(waitid,			MINUS,	EINTR, ECHILD) \
	CALL(waitpid,			MINUS,	EINTR, ECHILD) \
	CALL(kill,			MINUS,	EPERM) \
	CALL(prctl,			MINUS,	EINVAL, EPERM) \
	CALL(syscall,			MINUS,	ENOSYS, EPERM) \
	CALL(seccomp_init,		NONE,	ENOMEM) \
	CALL(seccomp_attr_set,		NEGATIVE, EINVAL) \
	CALL(seccomp_rule_add,		NEGATIVE, ENOMEM) \
	CALL(seccomp_rule_add_array,	NEGATIVE, ENOMEM) \
	CALL(seccomp_load,		NEGATIVE, EINVAL, ENOMEM) \
	CALL(getrlimit,			MINUS,	EINVAL) \
	CALL(setrlimit,			MINUS,	EPERM) \
	CALL(sched_getaffinity,		MINUS,	EINVAL) \
	CALL(sched_setaffinity,		MINUS,	EINVAL, EPERM) \
	CALL(sysconf,			MINUS,	EINVAL) \
	CALL(gethostname,		MINUS,	ENAMETOOLONG) \
	CALL(getgrnam,			NONE,	EMFILE, EIO, ENOMEM) \
	CALL(getrandom,			MINUS,	EINTR, ENOSYS, EAGAIN) \
	CALL(nanosleep,			MINUS,	EINTR) \
	CALL(sigtimedwait,		MINUS,	EAGAIN, EINTR) \
	CALL(sd_notify,			NEGATIVE, ECONNREFUSED, ENOBUFS) \
	CALL(sd_notifyf,		NEGATIVE, ECONNREFUSED, ENOBUFS) \
	CALL(sd_listen_fds_with_names,	NEGATIVE, ENOMEM) \
	CALL(sd_is_socket_inet,		NEGATIVE, EINVAL) \
	/* threads */ \
	CALL(pthread_create,		NUMBER,	EAGAIN) \
	CALL(sem_wait,			MINUS,	EINTR) \
	CALL(ev_loop_new,		NONE,	ENOMEM, EMFILE) \
	/* LMDB */ \
	CALL(mdb_env_create,		NUMBER,	ENOMEM) \
	CALL(mdb_env_open,		NUMBER,	MDB_INVALID, MDB_VERSION_MISMATCH, ENOENT, EACCES, EAGAIN, ENOMEM, EMFILE) \
	CALL(mdb_env_set_mapsize,	NUMBER,	ENOMEM, EINVAL) \
	CALL(mdb_env_set_maxreaders,	NUMBER,	EINVAL) \
	CALL(mdb_env_get_fd,		NUMBER,	EINVAL) \
	CALL(mdb_env_stat,		NUMBER,	EINVAL) \
	CALL(mdb_txn_begin,		NUMBER,	MDB_READERS_FULL, MDB_PANIC, MDB_MAP_RESIZED, ENOMEM) \
	CALL(mdb_txn_renew,		NUMBER,	MDB_READERS_FULL, MDB_PANIC, MDB_BAD_RSLOT) \
	CALL(mdb_txn_commit,		ENDS_TXN, ENOSPC, EIO, MDB_MAP_FULL, MDB_PANIC, ENOMEM) \
	CALL(mdb_dbi_open,		NUMBER,	MDB_DBS_FULL, ENOMEM, MDB_CORRUPTED) \
	CALL(mdb_stat,			NUMBER,	EINVAL) \
	CALL(mdb_get,			NUMBER,	MDB_CORRUPTED, MDB_PAGE_NOTFOUND, MDB_BAD_TXN) \
	CALL(mdb_put,			NUMBER,	MDB_MAP_FULL, MDB_CORRUPTED, MDB_TXN_FULL, ENOMEM, EIO) \
	CALL(mdb_del,			NUMBER,	MDB_MAP_FULL, MDB_CORRUPTED, EIO) \
	CALL(mdb_cursor_open,		NUMBER,	ENOMEM) \
	CALL(mdb_cursor_renew,		NUMBER,	EINVAL, MDB_BAD_TXN) \
	CALL(mdb_cursor_get,		NUMBER,	MDB_CORRUPTED, MDB_PAGE_NOTFOUND, MDB_BAD_TXN) \
	CALL(mdb_cursor_put,		NUMBER,	MDB_MAP_FULL, MDB_CORRUPTED, MDB_TXN_FULL, ENOMEM) \
	CALL(mdb_cursor_del,		NUMBER,	MDB_MAP_FULL, MDB_CORRUPTED) \
	CALL(mdb_reader_check,		NUMBER,	EINVAL, MDB_PANIC) \
	CALL(mdb_reader_list,		NUMBER,	EINVAL) \
	/* librdkafka: what allocates inside ends in its own assertion, and cannot fail */ \
	CALL(rd_kafka_new,		CLIENT,	ENOMEM, EAGAIN) \
	CALL(rd_kafka_conf_set,		CONF,	EINVAL) \
	CALL(rd_kafka_conf_get,		NUMBER,	-2) \
	CALL(rd_kafka_conf_interceptor_add_on_new, NUMBER, RD_KAFKA_RESP_ERR__CONFLICT) \
	CALL(rd_kafka_interceptor_add_on_request_sent, NUMBER, RD_KAFKA_RESP_ERR__CONFLICT) \
	CALL(rd_kafka_interceptor_add_on_response_received, NUMBER, RD_KAFKA_RESP_ERR__CONFLICT) \
	CALL(rd_kafka_topic_new,	NONE,	ENOMEM, EINVAL) \
	CALL(rd_kafka_clusterid,	NONE,	ETIMEDOUT) \
	CALL(rd_kafka_set_log_queue,	NUMBER,	RD_KAFKA_RESP_ERR__NOT_CONFIGURED) \
	CALL(rd_kafka_poll_set_consumer, NUMBER, RD_KAFKA_RESP_ERR__UNKNOWN_GROUP) \
	CALL(rd_kafka_subscribe,	NUMBER,	RD_KAFKA_RESP_ERR__FATAL, RD_KAFKA_RESP_ERR__INVALID_ARG) \
	CALL(rd_kafka_metadata,		NUMBER,	RD_KAFKA_RESP_ERR__TRANSPORT, RD_KAFKA_RESP_ERR__TIMED_OUT) \
	CALL(rd_kafka_assign,		NUMBER,	RD_KAFKA_RESP_ERR__STATE, RD_KAFKA_RESP_ERR__FATAL) \
	CALL(rd_kafka_incremental_assign, KAFKA, RD_KAFKA_RESP_ERR__STATE, RD_KAFKA_RESP_ERR__FATAL) \
	CALL(rd_kafka_incremental_unassign, KAFKA, RD_KAFKA_RESP_ERR__STATE, RD_KAFKA_RESP_ERR__FATAL) \
	CALL(rd_kafka_consumer_close_queue, KAFKA, RD_KAFKA_RESP_ERR__STATE) \
	CALL(rd_kafka_sasl_set_credentials, KAFKA, RD_KAFKA_RESP_ERR__STATE) \
	CALL(rd_kafka_sasl_background_callbacks_enable, KAFKA, RD_KAFKA_RESP_ERR__STATE) \
	CALL(rd_kafka_consume_start_queue, MINUS, EINVAL, ENOENT) \
	CALL(rd_kafka_consume_stop,	MINUS,	EINVAL, ENOENT) \
	CALL(rd_kafka_consume_batch_queue, MINUS, ESRCH, EINVAL) \
	CALL(rd_kafka_offsets_for_times, NUMBER, RD_KAFKA_RESP_ERR__TRANSPORT, RD_KAFKA_RESP_ERR__TIMED_OUT, \
						RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION) \
	CALL(rd_kafka_produceva,	KAFKA,	RD_KAFKA_RESP_ERR__QUEUE_FULL, RD_KAFKA_RESP_ERR__FATAL) \
	CALL(rd_kafka_purge,		NUMBER,	RD_KAFKA_RESP_ERR__INVALID_ARG) \
	/* HTTP, gRPC, JSON, YAML, TLS */ \
	CALL(MHD_start_daemon,		NONE,	ENOMEM, EMFILE) \
	CALL(MHD_create_response_from_buffer, NONE, ENOMEM) \
	CALL(MHD_add_response_header,	NO,	ENOMEM) \
	CALL(MHD_queue_response,	NO,	ENOMEM) \
	CALL(nghttp2_option_new,	NUMBER,	NGHTTP2_ERR_NOMEM) \
	CALL(nghttp2_session_callbacks_new, NUMBER, NGHTTP2_ERR_NOMEM) \
	CALL(nghttp2_session_server_new2, NUMBER, NGHTTP2_ERR_NOMEM) \
	CALL(nghttp2_session_client_new, NUMBER, NGHTTP2_ERR_NOMEM) \
	CALL(nghttp2_session_mem_recv,	NUMBER,	NGHTTP2_ERR_NOMEM, NGHTTP2_ERR_BAD_CLIENT_MAGIC) \
	CALL(nghttp2_session_mem_send,	NUMBER,	NGHTTP2_ERR_NOMEM) \
	CALL(nghttp2_session_resume_data, NUMBER, NGHTTP2_ERR_NOMEM) \
	CALL(nghttp2_session_set_local_window_size, NUMBER, NGHTTP2_ERR_NOMEM) \
	CALL(nghttp2_session_set_stream_user_data, NUMBER, NGHTTP2_ERR_INVALID_ARGUMENT) \
	CALL(nghttp2_submit_goaway,	NUMBER,	NGHTTP2_ERR_NOMEM) \
	CALL(nghttp2_submit_ping,	NUMBER,	NGHTTP2_ERR_NOMEM) \
	CALL(nghttp2_submit_request,	NUMBER,	NGHTTP2_ERR_NOMEM, NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE) \
	CALL(nghttp2_submit_response,	NUMBER,	NGHTTP2_ERR_NOMEM) \
	CALL(nghttp2_submit_rst_stream,	NUMBER,	NGHTTP2_ERR_NOMEM) \
	CALL(nghttp2_submit_settings,	NUMBER,	NGHTTP2_ERR_NOMEM) \
	CALL(nghttp2_submit_shutdown_notice, NUMBER, NGHTTP2_ERR_NOMEM) \
	CALL(nghttp2_submit_trailer,	NUMBER,	NGHTTP2_ERR_NOMEM) \
	CALL(inflate,			NUMBER,	Z_MEM_ERROR) \
	CALL(inflateInit2_,		NUMBER,	Z_MEM_ERROR) \
	CALL(SSL_CTX_new,		NONE,	ENOMEM) \
	CALL(SSL_CTX_ctrl,		NO,	EINVAL) \
	CALL(SSL_CTX_set_cipher_list,	NO,	EINVAL) \
	CALL(SSL_CTX_set_alpn_protos,	NUMBER,	1) \
	CALL(SSL_CTX_set_default_verify_paths, NO, EINVAL) \
	CALL(SSL_CTX_load_verify_file,	NO,	EINVAL) \
	CALL(SSL_CTX_use_certificate_chain_file, NO, EINVAL) \
	CALL(SSL_CTX_use_PrivateKey_file, NO,	EINVAL) \
	CALL(SSL_load_client_CA_file,	NONE,	EINVAL) \
	CALL(SSL_new,			NONE,	ENOMEM) \
	CALL(SSL_ctrl,			NO,	ENOMEM) \
	CALL(SSL_set_fd,		NO,	ENOMEM) \
	CALL(SSL_do_handshake,		MINUS,	ECONNRESET) \
	CALL(SSL_read,			MINUS,	ECONNRESET) \
	CALL(SSL_write,			MINUS,	ECONNRESET) \
	CALL(SSL_shutdown,		MINUS,	ECONNRESET) \
	CALL(X509_VERIFY_PARAM_set1_host, NO,	ENOMEM) \
	CALL(X509_VERIFY_PARAM_set1_ip_asc, NO,	ENOMEM) \
	CALL(i2d_X509_PUBKEY,		NUMBER,	-1) \
	CALL(json_loadb,		NONE,	ENOMEM) \
	CALL(json_dumpfd,		MINUS,	ENOSPC, EIO) \
	CALL(json_pack,			NONE,	ENOMEM) \
	CALL(protobuf_c_message_unpack,	NONE,	ENOMEM) \
	CALL(yaml_parser_initialize,	ZERO,	YAML_MEMORY_ERROR) \
	CALL(yaml_parser_parse,		ZERO,	YAML_MEMORY_ERROR)
/* clang-format on */

#define ERRORS_MAX 8

struct call {
	const char *name;
	enum how how;
	int n_errors;
	int errors[ERRORS_MAX];
	const char *words; /* of the errors, with commas */
};

#define CALL(name, how, ...)                                                                       \
	{#name, how, sizeof((int[]){__VA_ARGS__}) / sizeof(int), {__VA_ARGS__}, #__VA_ARGS__},
static const struct call calls[] = {CALLS(CALL)};
#undef CALL
#define N_CALLS (sizeof calls / sizeof *calls)

#endif
