/*
 * seats.c - libtally handles for the threads that answer.
 *
 *	request -> seats_take -> seat_attach -> calls -> seat_still_valid -> send -> seats_give
 *	                                          timer -> seats_idle -> tally_idle on free seats
 *
 * Runs in: queryd, any thread.  Blocks in: its own mutex, held for a few lines.
 */
#include "seats.h"

#include <pthread.h>
#include <stdlib.h>

#include "ranking.h"

#include "shm/check.h"

struct seats {
	pthread_mutex_t lock;
	const char *run_dir;
	unsigned n;
	struct seat seat[];
};

struct seats *seats_new(const char *run_dir, unsigned threads)
{
	struct seats *seats = calloc(1, sizeof(*seats) + (threads + 1) * sizeof(struct seat));

	if (seats == NULL)
		return NULL;
	pthread_mutex_init(&seats->lock, NULL);
	seats->run_dir = run_dir;
	seats->n = threads + 1;
	return seats;
}

void seats_free(struct seats **seats)
{
	if (*seats == NULL)
		return;
	for (unsigned i = 0; i < (*seats)->n; i++)
		seat_detach(&(*seats)->seat[i]);
	pthread_mutex_destroy(&(*seats)->lock);
	free(*seats);
	*seats = NULL;
}

static struct seat *take_from(struct seats *seats, unsigned from, unsigned to)
{
	struct seat *seat = NULL;

	pthread_mutex_lock(&seats->lock);
	for (unsigned i = from; i < to && seat == NULL; i++)
		if (!seats->seat[i].taken)
			seat = &seats->seat[i];
	if (seat != NULL)
		seat->taken = true;
	pthread_mutex_unlock(&seats->lock);
	return seat;
}

struct seat *seats_take(struct seats *seats)
{
	struct seat *seat = take_from(seats, 0, seats->n);

	must_get(seat != NULL);
	seat_again(seat);
	return seat;
}

void seats_give(struct seats *seats, struct seat *seat)
{
	pthread_mutex_lock(&seats->lock);
	seat->taken = false;
	pthread_mutex_unlock(&seats->lock);
}

static void idle_one(struct tally *tally)
{
	if (tally != NULL)
		tally_idle(tally);
}

void seats_idle(struct seats *seats)
{
	for (unsigned i = 0; i < seats->n; i++) {
		struct seat *seat = take_from(seats, i, i + 1);

		if (seat == NULL)
			continue; /* in use: it lets go by itself */
		idle_one(seat->table);
		for (unsigned j = 0; j < SEAT_STORE_CALLS; j++)
			idle_one(seat->store[j]);
		seats_give(seats, seat);
	}
}

static int attach_one(struct seats *seats, struct tally **tally)
{
	return *tally != NULL ? 0 : tally_open(seats->run_dir, TALLY_PARTIAL_OK, tally);
}

int seat_attach(struct seats *seats, struct seat *seat)
{
	int err = attach_one(seats, &seat->table);

	for (unsigned i = 0; i < SEAT_STORE_CALLS && err == 0; i++)
		err = attach_one(seats, &seat->store[i]);
	if (err != 0)
		seat_detach(seat);
	return err;
}

void seat_detach(struct seat *seat)
{
	if (seat->table != NULL)
		tally_close(&seat->table);
	for (unsigned i = 0; i < SEAT_STORE_CALLS; i++)
		if (seat->store[i] != NULL)
			tally_close(&seat->store[i]);
	seat_again(seat);
}

void seat_again(struct seat *seat)
{
	seat->calls = 0;
	seat->ranking = NULL;
}

struct tally *seat_store(struct seat *seat)
{
	must(seat->calls < SEAT_STORE_CALLS);
	return seat->store[seat->calls++];
}

bool seat_still_valid(struct seat *seat)
{
	for (unsigned i = 0; i < seat->calls; i++)
		if (!tally_still_valid(seat->store[i]))
			return false;
	return seat->ranking == NULL || ranking_still_valid(seat->ranking, seat->ranking_id);
}
