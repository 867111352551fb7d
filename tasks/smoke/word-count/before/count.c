#include "count.h"

#include <ctype.h>

static void count_block(const unsigned char *block, size_t size, struct counts *total)
{
    int in_word = 0;

    for (size_t i = 0; i < size; i++) {
        if (block[i] == '\n')
            total->lines++;
        if (isspace(block[i])) {
            in_word = 0;
        } else if (!in_word) {
            in_word = 1;
            total->words++;
        }
    }
    total->bytes += size;
}

int count_stream(FILE *stream, struct counts *total)
{
    unsigned char block[BLOCK_SIZE];
    size_t size;

    while ((size = fread(block, 1, sizeof block, stream)) > 0)
        count_block(block, size, total);
    return ferror(stream) ? -1 : 0;
}
