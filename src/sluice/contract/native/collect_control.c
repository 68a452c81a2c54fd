/* The life of a collector, and the changes that any thread may make to it and to its streams. See collect.h. */
#include "collect.h"

/* ---- references ---- */

Collector *sluice_collector_new(void);
void sluice_collector_end(Collector *collector);

Collector *sluice_collector_new(void) {
  Collector *collector = g_new0(Collector, 1);
  collector->references = 1;
  collector->streams = g_ptr_array_new();
  collector->settings = (CollectSettings){.timeout = -1, .batch_size = 1, .max_same_source = 1, .queue_size = 4};
  collector->last = -1;
  collector->stopped = TRUE;
  g_mutex_init(&collector->lock);
  g_cond_init(&collector->changed);
  return collector;
}

Collector *sluice_collector_ref(Collector *collector) {
  g_atomic_int_inc(&collector->references);
  return collector;
}

void sluice_collector_unref(Collector *collector) {
  if (!g_atomic_int_dec_and_test(&collector->references)) return;
  g_ptr_array_free(collector->streams, TRUE);
  g_mutex_clear(&collector->lock);
  g_cond_clear(&collector->changed);
  g_free(collector);
}

/* ---- changes by any thread ---- */

void sluice_collector_configure(Collector *collector, const CollectSettings *settings);
void sluice_collector_hold_clock(Collector *collector, gint64 now, gint64 running_time);
void sluice_collector_start(Collector *collector);
void sluice_collector_stop(Collector *collector);
Stream *sluice_collector_add(Collector *collector, guint number);
gint64 sluice_stream_remove(Stream *stream, gboolean *noticed);
void sluice_stream_flush(Stream *stream);
void sluice_stream_resume(Stream *stream);
gboolean sluice_stream_mark_ended(Stream *stream, gboolean ended);
void sluice_stream_set_absent(Stream *stream);
void sluice_stream_set_freshest(Stream *stream, gboolean freshest);
void sluice_stream_set_capture(Stream *stream, gint capture);
gboolean sluice_collector_all_ended(Collector *collector);
guint64 sluice_collector_batches(Collector *collector);

static void wake_all(Collector *collector) {
  g_cond_signal(&collector->changed);
  for (guint i = 0; i < collector->streams->len; i++) g_cond_broadcast(&collector_nth(collector, i)->room);
}

void sluice_collector_configure(Collector *collector, const CollectSettings *settings) {
  g_mutex_lock(&collector->lock);
  collector->settings = *settings;
  wake_all(collector);
  g_mutex_unlock(&collector->lock);
}

/* For tests: the time, and the running time or -1, are these until the next call. */
void sluice_collector_hold_clock(Collector *collector, gint64 now, gint64 running_time) {
  g_mutex_lock(&collector->lock);
  collector->clock_held = TRUE;
  collector->held_now = now;
  collector->held_running_time = running_time;
  g_cond_signal(&collector->changed);
  g_mutex_unlock(&collector->lock);
}

/* What streams' threads get for their next frames, unless it is OK. */
void sluice_collector_set_flow(Collector *collector, gint flow) {
  g_mutex_lock(&collector->lock);
  collector->flow = flow;
  g_mutex_unlock(&collector->lock);
}

/* Begins to accept and deliver: empty queues, no stream ended, nothing counted. */
void sluice_collector_start(Collector *collector) {
  GQueue garbage = G_QUEUE_INIT;
  g_mutex_lock(&collector->lock);
  collector->stopped = FALSE;
  collector->flow = GST_FLOW_OK;
  collector->clock_known = FALSE;
  collector->next_pts = collector->batches = 0;
  for (guint i = 0; i < collector->streams->len; i++) {
    stream_discard(collector_nth(collector, i), FALSE, &garbage);
    stream_begin(collector_nth(collector, i));
  }
  g_mutex_unlock(&collector->lock);
  waiting_free_all(&garbage);
}

/* Refuses everything and wakes every waiter; what is queued counts as discarded. */
void sluice_collector_stop(Collector *collector) {
  GQueue garbage = G_QUEUE_INIT, notices;
  g_mutex_lock(&collector->lock);
  collector->stopped = TRUE;
  notices = collector->notices;
  g_queue_init(&collector->notices);
  for (guint i = 0; i < collector->streams->len; i++) stream_discard(collector_nth(collector, i), FALSE, &garbage);
  wake_all(collector);
  g_mutex_unlock(&collector->lock);
  waiting_free_all(&garbage);
  g_queue_clear_full(&notices, (GDestroyNotify)sluice_stream_unref);
}

/* Stops for good, and gives up the caller's reference and the streams. */
void sluice_collector_end(Collector *collector) {
  sluice_collector_stop(collector);
  g_mutex_lock(&collector->lock);
  GPtrArray *streams = collector->streams;
  collector->streams = g_ptr_array_new();
  g_mutex_unlock(&collector->lock);
  g_ptr_array_set_free_func(streams, (GDestroyNotify)sluice_stream_unref);
  g_ptr_array_unref(streams);
  sluice_collector_unref(collector);
}

/* Adds a stream and returns a reference of it. */
Stream *sluice_collector_add(Collector *collector, guint number) {
  Stream *stream = stream_new(collector, number);
  guint place = 0;
  g_mutex_lock(&collector->lock);
  while (place < collector->streams->len && collector_nth(collector, place)->number < number) place++;
  g_ptr_array_insert(collector->streams, (gint)place, sluice_stream_ref(stream));
  wake_all(collector);
  g_mutex_unlock(&collector->lock);
  return stream;
}

/* Takes a stream out at once, wakes its waiter, and returns how many of its frames were discarded. Unless stopped, the
 * collecting thread gets a notice of it. */
gint64 sluice_stream_remove(Stream *stream, gboolean *noticed) {
  Collector *collector = stream->collector;
  GQueue garbage = G_QUEUE_INIT;
  g_mutex_lock(&collector->lock);
  gint64 discarded = stream->frames;
  stream->removed = TRUE;
  stream_discard(stream, FALSE, &garbage);
  gboolean present = g_ptr_array_remove(collector->streams, stream);
  *noticed = present && !collector->stopped;
  if (*noticed) g_queue_push_tail(&collector->notices, sluice_stream_ref(stream));
  g_cond_broadcast(&stream->room);
  wake_all(collector);
  g_mutex_unlock(&collector->lock);
  waiting_free_all(&garbage);
  if (present) sluice_stream_unref(stream);
  return discarded;
}

/* Refuses a stream's data until it is resumed and discards what waits, but what describes the frames to come. */
void sluice_stream_flush(Stream *stream) {
  GQueue garbage = G_QUEUE_INIT;
  g_mutex_lock(&stream->collector->lock);
  stream->flushing = TRUE;
  stream_discard(stream, TRUE, &garbage);
  g_cond_broadcast(&stream->room);
  wake_all(stream->collector);
  g_mutex_unlock(&stream->collector->lock);
  waiting_free_all(&garbage);
}

/* Accepts a stream's data again after a flush; it has no segment and has not ended any more. */
void sluice_stream_resume(Stream *stream) {
  g_mutex_lock(&stream->collector->lock);
  stream->flushing = stream->ended = FALSE;
  stream->flushed = TRUE;
  stream->shift = 0;
  stream_leave_segment(stream);
  wake_all(stream->collector);
  g_mutex_unlock(&stream->collector->lock);
}

static gboolean all_ended(const Collector *collector) {
  for (guint i = 0; i < collector->streams->len; i++)
    if (!collector_nth(collector, i)->ended) return FALSE;
  return collector->streams->len > 0;
}

/* Notes that a stream has ended, or goes on after all; returns whether there is none that has not ended. */
gboolean sluice_stream_mark_ended(Stream *stream, gboolean ended) {
  g_mutex_lock(&stream->collector->lock);
  stream->ended = ended;
  gboolean all = all_ended(stream->collector);
  g_cond_signal(&stream->collector->changed);
  g_mutex_unlock(&stream->collector->lock);
  return all;
}

/* Lets no batch wait for the stream until a frame of it comes: its source is away, or was not there yet. */
void sluice_stream_set_absent(Stream *stream) {
  g_mutex_lock(&stream->collector->lock);
  stream->absent = TRUE;
  g_cond_signal(&stream->collector->changed);
  g_mutex_unlock(&stream->collector->lock);
}

/* Whether a frame that waits gives way to a newer one, rather than have the source wait. */
void sluice_stream_set_freshest(Stream *stream, gboolean freshest) {
  g_mutex_lock(&stream->collector->lock);
  stream->freshest = freshest;
  g_cond_broadcast(&stream->room);
  g_mutex_unlock(&stream->collector->lock);
}

/* What ntp_timestamp of the stream's frames is, and is said to be. */
void sluice_stream_set_capture(Stream *stream, gint capture) {
  g_mutex_lock(&stream->collector->lock);
  stream->capture = (Capture)capture;
  g_mutex_unlock(&stream->collector->lock);
}

gboolean sluice_collector_all_ended(Collector *collector) {
  g_mutex_lock(&collector->lock);
  gboolean all = all_ended(collector);
  g_mutex_unlock(&collector->lock);
  return all;
}

guint64 sluice_collector_batches(Collector *collector) {
  g_mutex_lock(&collector->lock);
  guint64 batches = collector->batches;
  g_mutex_unlock(&collector->lock);
  return batches;
}
