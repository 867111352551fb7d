#ifndef STATS_H
#define STATS_H

/* What is known of a series without keeping its values. All zero: no values yet. */
struct stats {
    long count;
    double mean;
    double squares; /* of the distances from the mean */
};

void stats_add(struct stats *stats, double value);
/* Adds everything that `other` has seen. */
void stats_merge(struct stats *stats, const struct stats *other);
double stats_mean(const struct stats *stats);
/* The standard deviation of the whole series (divided by n); 0 for one value. */
double stats_deviation(const struct stats *stats);

#endif
