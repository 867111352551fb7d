#include "ranges.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>

/* The number at *text, which is moved behind it; 0 where there is none, more than MAX_SEAT where it is too large. */
static int number(const char **text)
{
    int value = 0;

    while (isdigit((unsigned char)**text)) {
        int digit = *(*text)++ - '0';

        if (value <= MAX_SEAT)
            value = value * 10 + digit;
    }
    return value;
}

int ranges_read(struct ranges *ranges, const char *text)
{
    bool taken[MAX_SEAT + 2] = {false};

    for (;;) {
        int first = number(&text), last = first;

        if (*text == '-') {
            text++;
            last = number(&text);
        }
        if (first < 1 || last < first || last > MAX_SEAT)
            return -1;
        for (int seat = first; seat <= last; seat++)
            taken[seat] = true;
        if (*text == '\0')
            break;
        if (*text++ != ',')
            return -1;
    }
    ranges->count = 0;
    for (int seat = 1; seat <= MAX_SEAT; seat++) {
        if (!taken[seat])
            continue;
        if (!taken[seat - 1])
            ranges->item[ranges->count++].first = seat;
        ranges->item[ranges->count - 1].last = seat;
    }
    return 0;
}

long ranges_seats(const struct ranges *ranges)
{
    long seats = 0;

    for (size_t i = 0; i < ranges->count; i++)
        seats += ranges->item[i].last - ranges->item[i].first + 1;
    return seats;
}

void ranges_print(const struct ranges *ranges)
{
    for (size_t i = 0; i < ranges->count; i++) {
        const struct range *range = &ranges->item[i];

        if (i > 0)
            putchar(',');
        if (range->first == range->last)
            printf("%d", range->first);
        else
            printf("%d-%d", range->first, range->last);
    }
    printf(" (%ld)\n", ranges_seats(ranges));
}
