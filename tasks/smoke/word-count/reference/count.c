#include "count.h"

#include <ctype.h>

static int count_block(const unsigned char *block, size_t size, int in_word, struct counts *total)
{
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
    return in_word;
}

int count_stream(FILE *stream, struct counts *total)
{
    unsigned char block[BLOCK_SIZE];
    size_t size;
    int in_word = 0;

    while ((size = fread(block, 1, sizeof block, stream)) > 0)
        in_word = count_block(block, size, in_word, total);
    return ferror(stream) ? -1 : 0;
}
