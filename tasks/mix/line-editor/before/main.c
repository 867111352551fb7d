#include "history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* a TEXT     appends a line            u   undoes the last change
 * i N TEXT   puts one before line N    r   redoes what was undone
 * c N TEXT   changes line N            p   prints all lines
 * d N        deletes it                n   prints how many there are
 * What cannot be done is answered with "?". */

/* Line number N of "N TEXT", counted from 0, which must be below `limit`; -1 where it is none. */
static long line_number(const char *words, size_t limit, const char **text)
{
    char *end;
    long number = strtol(words, &end, 10);

    *text = *end == ' ' ? end + 1 : end;
    if (end == words || (*end != ' ' && *end != '\0') || number < 1 || (size_t)number > limit)
        return -1;
    return number - 1;
}

static int run(struct history *history, struct buffer *buffer, const char *command)
{
    const char *words = command[0] != '\0' && command[1] == ' ' ? command + 2 : "";
    const char *text;
    long at;

    switch (command[0]) {
    case 'a':
        edit_insert(history, buffer, buffer->count, words);
        return 0;
    case 'i':
        if ((at = line_number(words, buffer->count, &text)) < 0)
            return -1;
        edit_insert(history, buffer, (size_t)at, text);
        return 0;
    case 'c':
        if ((at = line_number(words, buffer->count, &text)) < 0)
            return -1;
        edit_replace(history, buffer, (size_t)at, text);
        return 0;
    case 'd':
        if ((at = line_number(words, buffer->count, &text)) < 0)
            return -1;
        edit_delete(history, buffer, (size_t)at);
        return 0;
    case 'u':
        return history_undo(history, buffer);
    case 'r':
        return history_redo(history, buffer);
    case 'p':
        for (size_t i = 0; i < buffer->count; i++)
            printf("%zu %s\n", i + 1, buffer->lines[i]);
        return 0;
    case 'n':
        printf("%zu\n", buffer->count);
        return 0;
    default:
        return -1;
    }
}

int main(void)
{
    struct buffer buffer = {0};
    struct history history = {0};
    char *line = NULL;
    size_t room = 0;
    ssize_t length;

    while ((length = getline(&line, &room, stdin)) > 0) {
        if (line[length - 1] == '\n')
            line[length - 1] = '\0';
        if (run(&history, &buffer, line) != 0)
            puts("?");
    }
    free(line);
    history_free(&history);
    buffer_free(&buffer);
    return 0;
}
