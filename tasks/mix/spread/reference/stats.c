#include "stats.h"

#include <math.h>

/* Squares of large values differ in digits that a double does not have, so only distances from the mean are squared. */
void stats_add(struct stats *stats, double value)
{
    double before = value - stats->mean;

    stats->count++;
    stats->mean += before / stats->count;
    stats->squares += before * (value - stats->mean);
}

void stats_merge(struct stats *stats, const struct stats *other)
{
    double apart = other->mean - stats->mean;
    long count = stats->count + other->count;

    if (other->count == 0)
        return;
    stats->mean += apart * other->count / count;
    stats->squares += other->squares + apart * apart * ((double)stats->count * other->count / count);
    stats->count = count;
}

double stats_mean(const struct stats *stats)
{
    return stats->mean;
}

double stats_deviation(const struct stats *stats)
{
    return sqrt(stats->squares / stats->count);
}
