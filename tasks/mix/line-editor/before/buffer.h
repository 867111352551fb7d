#ifndef BUFFER_H
#define BUFFER_H

#include <stddef.h>

/* The lines of a text, each a string of its own. */
struct buffer {
    char **lines;
    size_t count;
    size_t room;
};

/* Puts a line, which is taken over, before line `at` (0 is the first; `count` appends). */
void buffer_insert(struct buffer *buffer, size_t at, char *line);
/* Takes line `at` out and hands it over. */
char *buffer_take(struct buffer *buffer, size_t at);
void buffer_free(struct buffer *buffer);

#endif
