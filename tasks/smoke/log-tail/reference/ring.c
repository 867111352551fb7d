#include "ring.h"

#include <stdlib.h>

int ring_init(struct ring *ring, size_t capacity)
{
    ring->lines = calloc(capacity ? capacity : 1, sizeof *ring->lines);
    ring->capacity = capacity;
    ring->pushed = 0;
    return ring->lines == NULL ? -1 : 0;
}

void ring_push(struct ring *ring, char *line)
{
    size_t slot;

    if (ring->capacity == 0) {
        free(line);
        return;
    }
    slot = ring->pushed % ring->capacity;
    free(ring->lines[slot]);
    ring->lines[slot] = line;
    ring->pushed++;
}

size_t ring_size(const struct ring *ring)
{
    return ring->pushed < ring->capacity ? ring->pushed : ring->capacity;
}

const char *ring_get(const struct ring *ring, size_t index)
{
    size_t oldest = ring->pushed > ring->capacity ? ring->pushed % ring->capacity : 0;

    return ring->lines[(oldest + index) % ring->capacity];
}

void ring_free(struct ring *ring)
{
    for (size_t i = 0; i < ring->capacity; i++)
        free(ring->lines[i]);
    free(ring->lines);
}
