#include "history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *copy(const char *text)
{
    char *line = strdup(text);

    if (line == NULL) {
        perror("led");
        exit(1);
    }
    return line;
}

static void remember(struct history *history, enum change_kind kind, size_t at, char *line)
{
    history->done[history->count++] = (struct change){kind, at, line};
}

void edit_insert(struct history *history, struct buffer *buffer, size_t at, const char *text)
{
    buffer_insert(buffer, at, copy(text));
    remember(history, INSERTED, at, NULL);
}

void edit_delete(struct history *history, struct buffer *buffer, size_t at)
{
    char *line = buffer_take(buffer, at);

    remember(history, DELETED, at, line);
    free(line);
}

void edit_replace(struct history *history, struct buffer *buffer, size_t at, const char *text)
{
    remember(history, REPLACED, at, buffer->lines[at]);
    buffer->lines[at] = copy(text);
}

/* Does the opposite of a change. What it returns is the opposite of that. */
static struct change revert(struct buffer *buffer, struct change change)
{
    struct change back = {change.kind, change.at, NULL};

    switch (change.kind) {
    case INSERTED:
        back.kind = DELETED;
        back.line = buffer_take(buffer, change.at);
        break;
    case DELETED:
        back.kind = INSERTED;
        buffer_insert(buffer, change.at, change.line);
        break;
    case REPLACED:
        buffer->lines[change.at] = change.line;
        back.line = change.line;
        break;
    }
    return back;
}

int history_undo(struct history *history, struct buffer *buffer)
{
    if (history->count == 0)
        return -1;
    history->undone[history->undone_count++] = revert(buffer, history->done[--history->count]);
    return 0;
}

int history_redo(struct history *history, struct buffer *buffer)
{
    if (history->undone_count == 0)
        return -1;
    history->done[history->count++] = revert(buffer, history->undone[--history->undone_count]);
    return 0;
}

void history_free(struct history *history)
{
    for (size_t i = 0; i < history->count; i++)
        free(history->done[i].line);
    for (size_t i = 0; i < history->undone_count; i++)
        free(history->undone[i].line);
}
