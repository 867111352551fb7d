#include "ring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int usage(void)
{
    fputs("usage: lasttail COUNT < file\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    char *end, *line = NULL;
    size_t room = 0;
    struct ring ring;
    long count;

    if (argc != 2)
        return usage();
    errno = 0;
    count = strtol(argv[1], &end, 10);
    if (errno != 0 || *end != '\0' || end == argv[1] || count < 0 || count > 1000000)
        return usage();
    if (ring_init(&ring, (size_t)count) != 0)
        return 1;
    while (getline(&line, &room, stdin) != -1) {
        char *copy = strdup(line);

        if (copy == NULL)
            return 1;
        ring_push(&ring, copy);
    }
    for (size_t i = 0; i < ring_size(&ring); i++)
        fputs(ring_get(&ring, i), stdout);
    free(line);
    ring_free(&ring);
    return 0;
}
