/* A distribution of times: eight buckets per power of two, so that a quantile is right to a sixteenth, from a microsecond
 * to two minutes. Quantiles are of two windows of half a minute, the one being filled and the one before. */
#include "latency.h"

#include <string.h>

#define LOWEST_BIT 10 /* the first bucket ends at 2^10 ns */
#define HIGHEST_BIT 37
#define PARTS 8
#define BUCKETS ((HIGHEST_BIT - LOWEST_BIT) * PARTS)
#define WINDOW (30 * G_GINT64_CONSTANT(1000000000)) /* ns */

struct SluiceHistogram {
  guint64 count, sum, longest;
  guint64 buckets[LATENCY_BOUNDS + 1];
  gint64 began; /* of the window being filled */
  guint32 window[2][BUCKETS];
};

static const guint64 bounds_ms[LATENCY_BOUNDS] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000};

SluiceHistogram *histogram_new(void) { return g_new0(SluiceHistogram, 1); }

static guint bucket_of(guint64 value) {
  if (value < ((guint64)1 << LOWEST_BIT)) return 0;
  guint bit = 63 - (guint)__builtin_clzll(value);
  if (bit >= HIGHEST_BIT) return BUCKETS - 1;
  return (bit - LOWEST_BIT) * PARTS + (guint)((value >> (bit - 3)) & (PARTS - 1));
}

/* The middle of a bucket. */
static guint64 value_of(guint bucket) {
  guint bit = LOWEST_BIT + bucket / PARTS;
  guint64 width = (guint64)1 << (bit - 3);
  return ((guint64)1 << bit) + (bucket % PARTS) * width + width / 2;
}

static void turn(SluiceHistogram *histogram, gint64 now) {
  if (now < histogram->began + WINDOW) return;
  if (now < histogram->began + 2 * WINDOW) memcpy(histogram->window[1], histogram->window[0], sizeof histogram->window[0]);
  else memset(histogram->window[1], 0, sizeof histogram->window[1]);
  memset(histogram->window[0], 0, sizeof histogram->window[0]);
  histogram->began = now;
}

void histogram_add(SluiceHistogram *histogram, guint64 value, gint64 now) {
  guint bound = 0;
  turn(histogram, now);
  while (bound < LATENCY_BOUNDS && value > bounds_ms[bound] * 1000000) bound++;
  histogram->buckets[bound]++;
  histogram->count++;
  histogram->sum += value;
  histogram->longest = MAX(histogram->longest, value);
  histogram->window[0][bucket_of(value)]++;
}

/* What is in a bucket of the windows that still count. */
static guint64 recent_in(const SluiceHistogram *histogram, gint64 age, guint bucket) {
  guint64 found = age < 2 * WINDOW ? histogram->window[0][bucket] : 0;
  return found + (age < WINDOW ? histogram->window[1][bucket] : 0);
}

static guint64 quantile(const SluiceHistogram *histogram, gint64 age, guint64 total, guint percent) {
  guint64 wanted = (total * percent + 99) / 100, seen = 0;
  for (guint bucket = 0; bucket < BUCKETS; bucket++) {
    seen += recent_in(histogram, age, bucket);
    if (seen >= wanted && seen > 0) return MIN(value_of(bucket), histogram->longest);
  }
  return 0;
}

void histogram_read(const SluiceHistogram *histogram, gint64 now, SluiceDistribution *out) {
  gint64 age = now - histogram->began;
  out->count = histogram->count;
  out->sum = histogram->sum;
  out->longest = histogram->longest;
  memcpy(out->buckets, histogram->buckets, sizeof out->buckets);
  out->recent = 0;
  for (guint bucket = 0; bucket < BUCKETS; bucket++) out->recent += recent_in(histogram, age, bucket);
  out->p50 = quantile(histogram, age, out->recent, 50);
  out->p95 = quantile(histogram, age, out->recent, 95);
  out->p99 = quantile(histogram, age, out->recent, 99);
}
