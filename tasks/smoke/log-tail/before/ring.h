#ifndef RING_H
#define RING_H

#include <stddef.h>

/* Keeps the last `capacity` lines that were pushed. */
struct ring {
    char **lines;
    size_t capacity;
    size_t pushed;
};

int ring_init(struct ring *ring, size_t capacity);
/* Takes the line over; it is freed when it falls out. */
void ring_push(struct ring *ring, char *line);
/* How many lines are kept. */
size_t ring_size(const struct ring *ring);
/* The kept line number `index`, 0 being the oldest. */
const char *ring_get(const struct ring *ring, size_t index);
void ring_free(struct ring *ring);

#endif
