/*
 * wake.h - makes the mock cluster's thread look at its queue now.
 *
 * Each call of rd_kafka_mock_... waits for the cluster's thread, which
 * sometimes misses that it was called and then looks only a second later
 * (librdkafka 2.0.2; 64 calls took up to 16 s).  Anything that happens on its
 * sockets wakes it, so a call that is not through after WAKE_MS is helped by a
 * connection that is closed at once.
 */
#ifndef TALLY_BROKER_WAKE_H
#define TALLY_BROKER_WAKE_H

#define WAKE_MS 3

/* `address`: "127.0.0.1:port,...", as the cluster tells it; the first is used.  0 or an errno. */
int wake_start(const char *address);

/* Around calls into the mock cluster. */
void wake_begin(void);
void wake_end(void);

#endif
