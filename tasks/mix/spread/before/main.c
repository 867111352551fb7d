#include "stats.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void report(const char *name, const struct stats *stats)
{
    if (stats->count == 0)
        printf("%s 0 - -\n", name);
    else
        printf("%s %ld %.9g %.6g\n", name, stats->count, stats_mean(stats), stats_deviation(stats));
}

/* Reads one number a line; a line "-- NAME" begins the next series. At the end comes a line for all of them. */
int main(void)
{
    char line[256], name[256] = "";
    struct stats all = {0}, series = {0};
    long number = 0;

    while (fgets(line, sizeof line, stdin) != NULL) {
        char *end;
        double value;

        number++;
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "-- ", 3) == 0) {
            if (name[0] != '\0')
                report(name, &series);
            stats_merge(&all, &series);
            series = (struct stats){0};
            strcpy(name, line + 3);
            continue;
        }
        errno = 0;
        value = strtod(line, &end);
        if (end == line || *end != '\0' || !isfinite(value)) {
            fprintf(stderr, "spread: line %ld: no number\n", number);
            return 1;
        }
        stats_add(&series, value);
    }
    if (name[0] != '\0')
        report(name, &series);
    stats_merge(&all, &series);
    report("all", &all);
    return 0;
}
