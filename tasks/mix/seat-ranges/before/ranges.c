#include "ranges.h"

#include <ctype.h>
#include <stdio.h>

/* The number at *text, which is moved behind it; 0 where there is none. */
static int number(const char **text)
{
    int value = 0;

    while (isdigit((unsigned char)**text))
        value = value * 10 + (*(*text)++ - '0');
    return value;
}

int ranges_read(struct ranges *ranges, const char *text)
{
    ranges->count = 0;
    while (*text != '\0') {
        struct range *range = &ranges->item[ranges->count++];

        range->first = range->last = number(&text);
        if (*text == '-') {
            text++;
            range->last = number(&text);
        }
        if (range->first < 1 || range->last > MAX_SEAT)
            return -1;
        if (*text == ',')
            text++;
        else if (*text != '\0')
            return -1;
    }
    return ranges->count == 0 ? -1 : 0;
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
