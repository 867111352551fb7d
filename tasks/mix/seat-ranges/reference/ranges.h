#ifndef RANGES_H
#define RANGES_H

#include <stddef.h>

#define MAX_SEAT 9999

struct range {
    int first;
    int last;
};

struct ranges {
    /* In order and apart from each other, so there are at most as many as every other seat. */
    struct range item[(MAX_SEAT + 1) / 2];
    size_t count;
};

/* Reads a list as "1-3,7". Returns 0, or -1 when it is no list of seats from 1 to MAX_SEAT. */
int ranges_read(struct ranges *ranges, const char *text);
/* How many seats are in the list. */
long ranges_seats(const struct ranges *ranges);
void ranges_print(const struct ranges *ranges);

#endif
