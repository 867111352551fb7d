#ifndef HISTORY_H
#define HISTORY_H

#include "buffer.h"

/* How many changes can be undone. */
#define HISTORY_SIZE 100

enum change_kind { INSERTED, DELETED, REPLACED };

struct change {
    enum change_kind kind;
    size_t at;
    char *line; /* what stood there before; NULL for INSERTED */
};

/* The last changes of a buffer, to be undone from the newest to the oldest, and redone. */
struct history {
    struct change done[HISTORY_SIZE];
    size_t count;
    struct change undone[HISTORY_SIZE];
    size_t undone_count;
};

void edit_insert(struct history *history, struct buffer *buffer, size_t at, const char *text);
void edit_delete(struct history *history, struct buffer *buffer, size_t at);
void edit_replace(struct history *history, struct buffer *buffer, size_t at, const char *text);
/* Return 0, or -1 when there is nothing to undo or redo. */
int history_undo(struct history *history, struct buffer *buffer);
int history_redo(struct history *history, struct buffer *buffer);
void history_free(struct history *history);

#endif
