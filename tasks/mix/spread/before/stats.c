#include "stats.h"

#include <math.h>

void stats_add(struct stats *stats, double value)
{
    stats->count++;
    stats->sum += value;
    stats->squares += value * value;
}

void stats_merge(struct stats *stats, const struct stats *other)
{
    stats->count += other->count;
    stats->sum += other->sum;
    stats->squares += other->squares;
}

double stats_mean(const struct stats *stats)
{
    return stats->sum / stats->count;
}

double stats_deviation(const struct stats *stats)
{
    double mean = stats_mean(stats);

    return sqrt(stats->squares / stats->count - mean * mean);
}
