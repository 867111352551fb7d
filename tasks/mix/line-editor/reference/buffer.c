#include "buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buffer_insert(struct buffer *buffer, size_t at, char *line)
{
    if (buffer->count == buffer->room) {
        buffer->room = buffer->room ? 2 * buffer->room : 16;
        buffer->lines = realloc(buffer->lines, buffer->room * sizeof *buffer->lines);
        if (buffer->lines == NULL) {
            perror("led");
            exit(1);
        }
    }
    memmove(&buffer->lines[at + 1], &buffer->lines[at], (buffer->count - at) * sizeof *buffer->lines);
    buffer->lines[at] = line;
    buffer->count++;
}

char *buffer_take(struct buffer *buffer, size_t at)
{
    char *line = buffer->lines[at];

    buffer->count--;
    memmove(&buffer->lines[at], &buffer->lines[at + 1], (buffer->count - at) * sizeof *buffer->lines);
    return line;
}

void buffer_free(struct buffer *buffer)
{
    for (size_t i = 0; i < buffer->count; i++)
        free(buffer->lines[i]);
    free(buffer->lines);
}
