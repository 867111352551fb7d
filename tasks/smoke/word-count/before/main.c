#include "count.h"

#include <errno.h>
#include <string.h>

int main(int argc, char **argv)
{
    int status = 0;

    if (argc < 2) {
        struct counts total = {0};
        if (count_stream(stdin, &total) != 0)
            return 1;
        printf("%lu %lu %lu\n", total.lines, total.words, total.bytes);
        return 0;
    }
    for (int i = 1; i < argc; i++) {
        struct counts total = {0};
        FILE *stream = fopen(argv[i], "rb");

        if (stream == NULL || count_stream(stream, &total) != 0) {
            fprintf(stderr, "wcount: %s: %s\n", argv[i], strerror(errno));
            status = 1;
        } else {
            printf("%lu %lu %lu %s\n", total.lines, total.words, total.bytes, argv[i]);
        }
        if (stream != NULL)
            fclose(stream);
    }
    return status;
}
