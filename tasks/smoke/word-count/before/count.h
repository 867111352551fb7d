#ifndef COUNT_H
#define COUNT_H

#include <stddef.h>
#include <stdio.h>

#define BLOCK_SIZE 4096

struct counts {
    unsigned long lines;
    unsigned long words;
    unsigned long bytes;
};

/* Adds up a stream. Returns 0, or -1 when it could not be read. */
int count_stream(FILE *stream, struct counts *total);

#endif
