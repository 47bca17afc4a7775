/*
 * cpu.h - one core for the whole process while it replays.
 *
 * Pinned, the pipeline is cheaper and faster than spread over two cores: its
 * messages are made in one thread and used in another.
 */
#ifndef TALLY_WORKER_CPU_H
#define TALLY_WORKER_CPU_H

/* Pins the calling thread; threads it makes later inherit that.  Best effort.  cpu < 0: nothing. */
void cpu_pin(int cpu);

/* Gives all threads of the process the cores back that it had before cpu_pin. */
void cpu_unpin(void);

#endif
