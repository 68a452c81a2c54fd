/* Distributions of times in bounded memory; see histogram.c and latency.c. */
#ifndef SLUICE_LATENCY_H
#define SLUICE_LATENCY_H

#include <glib.h>

/* Bounds of the buckets that are reported, in milliseconds; what is longer than the last is in one more bucket. */
#define LATENCY_BOUNDS 15

/* Mirrored by contract/latency.py. Times in nanoseconds; the quantiles are of the last half to whole minute. */
typedef struct {
  guint64 count, sum, longest;
  guint64 recent, p50, p95, p99;
  guint64 buckets[LATENCY_BOUNDS + 1]; /* each with what is in it alone */
} SluiceDistribution;

typedef struct SluiceHistogram SluiceHistogram;

G_GNUC_INTERNAL SluiceHistogram *histogram_new(void);
G_GNUC_INTERNAL void histogram_add(SluiceHistogram *histogram, guint64 value, gint64 now);
G_GNUC_INTERNAL void histogram_read(const SluiceHistogram *histogram, gint64 now, SluiceDistribution *out);

#endif
