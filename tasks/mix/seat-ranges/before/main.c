#include "ranges.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    int status = 0;

    if (argc < 2) {
        fputs("usage: seats LIST...\n", stderr);
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        struct ranges ranges;

        if (ranges_read(&ranges, argv[i]) == 0) {
            ranges_print(&ranges);
        } else {
            printf("no list of seats: %s\n", argv[i]);
            status = 1;
        }
    }
    return status;
}
