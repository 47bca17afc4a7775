/*
 * host.h - what the machine says of itself: clocks, boot, namespace.
 */
#ifndef TALLY_SHM_HOST_H
#define TALLY_SHM_HOST_H

#include <stdint.h>

#define HOST_BOOT_ID_SIZE 16

/* Wall time, Unix milliseconds. */
int64_t host_wall_ms(void);

/* CLOCK_BOOTTIME in ns: counts suspend, never steps.  All leases and heartbeats use it. */
uint64_t host_boot_ns(void);

/* The kernel's boot id, as 16 raw bytes.  ERR_IO when it cannot be read. */
int host_boot_id(uint8_t id[HOST_BOOT_ID_SIZE]);

/* Inode of this process's PID namespace; 0 when it cannot be read. */
uint64_t host_pid_namespace(void);

/* 64 random bits (getrandom). */
uint64_t host_random(void);

#endif
