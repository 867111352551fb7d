'use strict';

/** The nearest-rank percentile: the smallest sample that at least `p` percent of the samples do not exceed. */
function percentile(sorted, p) {
  const rank = Math.ceil((p / 100) * sorted.length);
  return sorted[Math.max(rank, 1) - 1];
}

/** Count, mean, median, p95 and extremes of latencies in milliseconds; null for no samples. */
function summarize(samples) {
  if (samples.length === 0) {
    return null;
  }
  const sorted = samples.sort();
  const sum = sorted.reduce((total, sample) => total + sample, 0);
  return {
    count: sorted.length,
    mean: sum / sorted.length,
    min: sorted[0],
    median: percentile(sorted, 50),
    p95: percentile(sorted, 95),
    max: sorted[sorted.length - 1],
  };
}

module.exports = { percentile, summarize };
