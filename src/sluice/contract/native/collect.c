/* When a batch of many streams leaves, and which frames are in it.
 *
 * The rule: a batch leaves when it holds min(batch_size, live streams * max_same_source) frames, or when no stream can
 * add to it, or `timeout` after the arrival of the oldest frame waiting. A live stream is one that has not ended and is
 * not absent.
 * Because each waiting frame has its own deadline, a stream whose frames come faster than the timeout keeps its rate
 * beside slower ones. Frames are taken one per stream and turn, beginning after the stream that was taken from last.
 * An event is never taken before the frames that came before it in its stream, nor put into the middle of a batch. */
#include "collect.h"

#define NONE (-1)

static gint64 max_frames(const Collector *collector) { return collector->settings.max_same_source; }

/* ---- time ---- */

gint64 collector_now(const Collector *collector) {
  return collector->clock_held ? collector->held_now : g_get_monotonic_time() * 1000;
}

static gint64 running_time(const Collector *collector) {
  if (collector->clock_held) return collector->held_running_time;
  return collector->clock_known ? collector_now(collector) + collector->clock_offset : NONE;
}

/* For synchronised inputs, notes how the pipeline's running time stands to the monotonic clock. */
void collector_read_clock(Collector *collector, GstElement *element) {
  g_mutex_lock(&collector->lock);
  gboolean wanted = collector->settings.synchronised;
  g_mutex_unlock(&collector->lock);
  GstClock *clock = wanted ? gst_element_get_clock(element) : NULL;
  if (clock == NULL) return;
  gint64 base = (gint64)gst_element_get_base_time(element);
  gint64 offset = (gint64)gst_clock_get_time(clock) - base - g_get_monotonic_time() * 1000;
  gst_object_unref(clock);
  if (base <= 0) return;
  g_mutex_lock(&collector->lock);
  collector->clock_offset = offset;
  collector->clock_known = TRUE;
  g_mutex_unlock(&collector->lock);
}

/* How long a frame has to wait to be on time with synchronised inputs; 0 or less when it is. */
static gint64 early_by(const Collector *collector, const Waiting *frame) {
  gint64 now = collector->settings.synchronised ? running_time(collector) : NONE;
  return now < 0 ? 0 : frame->running_time + collector->settings.early - now;
}

/* ---- the rule; all with the lock held ---- */

static gboolean is_event(const Waiting *waiting) { return waiting->format == NULL; }

/* Whether a frame of a stream whose newest are wanted would be outdated if the one that waits did not leave now. */
static gboolean is_pressed(const Collector *collector, const Stream *stream) {
  return stream->freshest && stream->frames > max_frames(collector);
}

/* Queues a frame. The collecting thread is not woken for one that can neither fill the batch nor set its deadline. */
void collector_put(Waiting *waiting) {
  Stream *stream = waiting->stream;
  Collector *collector = stream->collector;
  waiting->arrival = collector_now(collector);
  g_queue_push_tail(&stream->queue, waiting);
  stream->frames++;
  stream->counts.frames_in++;
  if (is_pressed(collector, stream)) g_cond_signal(&collector->changed);
  if (stream->frames > max_frames(collector) && !collector->settings.synchronised) return;
  collector->missing--;
  if (collector->missing <= 0 || !collector->has_deadline) g_cond_signal(&collector->changed);
}

/* Takes the oldest frames of a stream whose newest are wanted out of its queue, but for so many. */
void stream_make_way(Stream *stream, guint keep, GQueue *garbage) {
  Collector *collector = stream->collector;
  GList *link = stream->queue.head;
  while (link != NULL && stream->freshest && stream->frames > keep) {
    GList *next = link->next;
    if (!is_event(link->data)) {
      g_queue_push_tail(garbage, link->data);
      g_queue_delete_link(&stream->queue, link);
      stream->frames--;
      stream->counts.replaced++;
      collector->missing++;
    }
    link = next;
  }
}

/* How many frames a stream can give now, and whether that is all it can give to this batch. */
static gint64 ready_frames(const Collector *collector, const Stream *stream, gboolean *complete) {
  gint64 limit = max_frames(collector), ready = 0;
  for (const GList *link = stream->queue.head; link != NULL && ready < limit; link = link->next) {
    const Waiting *waiting = link->data;
    *complete = ready > 0;
    if (is_event(waiting)) return ready;
    *complete = FALSE;
    if (early_by(collector, waiting) > 0) return ready;
    ready++;
  }
  /* A full queue cannot grow until something is taken from it. */
  *complete = ready >= MIN(limit, (gint64)collector->settings.queue_size);
  return ready;
}

/* The sooner of two waits, either of which may be NONE. */
static gint64 sooner(gint64 one, gint64 other) {
  if (one < 0 || other < 0) return MAX(one, other);
  return MIN(one, other);
}

/* How long until the next batch is due by what is known now: 0 for now, NONE for until a change. */
static gint64 time_to_wait(Collector *collector) {
  gint64 total = 0, live = 0, until_on_time = NONE, oldest = G_MAXINT64;
  gboolean all_complete = TRUE, pressed = FALSE;
  for (guint i = 0; i < collector->streams->len; i++) {
    const Stream *stream = collector_nth(collector, i);
    const Waiting *head = g_queue_peek_head((GQueue *)&stream->queue);
    gboolean awaited = !stream->ended && !stream->absent;
    if (head == NULL && !awaited) continue;
    gboolean complete;
    gint64 ready = ready_frames(collector, stream, &complete);
    gint64 early = head == NULL ? 0 : early_by(collector, head);
    total += ready;
    live += awaited;
    all_complete &= complete;
    pressed |= is_pressed(collector, stream);
    if (early > 0) until_on_time = sooner(until_on_time, early);
    if (ready > 0) oldest = MIN(oldest, head->arrival);
  }
  gint64 full = MIN((gint64)collector->settings.batch_size, MAX(1, live) * max_frames(collector));
  collector->missing = full - total;
  if (total == 0) return until_on_time;
  if (total >= full || all_complete || pressed) return 0;
  if (collector->settings.timeout < 0) return until_on_time;
  gint64 left = oldest + collector->settings.timeout - collector_now(collector);
  return sooner(until_on_time, MAX(left, 0));
}

gint64 sluice_collector_wait_time(Collector *collector);

gint64 sluice_collector_wait_time(Collector *collector) {
  g_mutex_lock(&collector->lock);
  gint64 wait = time_to_wait(collector);
  g_mutex_unlock(&collector->lock);
  return wait;
}

/* The index of the stream whose turn it is. */
static guint first_in_turn(const Collector *collector) {
  for (guint i = 0; i < collector->streams->len; i++)
    if (collector_nth(collector, i)->number > collector->last) return i;
  return 0;
}

static Stream *in_turn(const Collector *collector, guint first, guint step) {
  return collector_nth(collector, (first + step) % collector->streams->len);
}

/* With synchronised inputs, discards the frames at the heads of the queues that have missed their time. */
static void discard_late(Collector *collector, GQueue *garbage) {
  for (guint i = 0; collector->settings.synchronised && i < collector->streams->len; i++) {
    Stream *stream = collector_nth(collector, i);
    Waiting *head;
    while ((head = g_queue_peek_head(&stream->queue)) != NULL && !is_event(head) &&
           early_by(collector, head) < -collector->settings.late) {
      g_queue_push_tail(garbage, g_queue_pop_head(&stream->queue));
      stream->frames--;
      stream->counts.late++;
      stream->counts.discarded++;
      g_cond_signal(&stream->room);
    }
  }
}

/* Removes one event, or the notice of a removal, and its stream: each may change what the next decision sees. */
static gboolean take_event(Collector *collector, Stream **of, GstEvent **event) {
  *event = NULL;
  if ((*of = g_queue_pop_head(&collector->notices)) != NULL) return TRUE;
  guint first = first_in_turn(collector);
  for (guint step = 0; step < collector->streams->len; step++) {
    Stream *stream = in_turn(collector, first, step);
    Waiting *head = g_queue_peek_head(&stream->queue);
    if (head == NULL || !is_event(head)) continue;
    *of = sluice_stream_ref(stream);
    *event = GST_EVENT_CAST(head->object);
    g_free(g_queue_pop_head(&stream->queue));
    return TRUE;
  }
  return FALSE;
}

/* Moves the frames of a batch to `taken`, one per stream and turn, each with a reference of its stream. */
static void take_frames(Collector *collector, GQueue *taken) {
  guint streams = collector->streams->len, first = first_in_turn(collector), before;
  g_autofree gint64 *left = g_new(gint64, MAX(streams, 1));
  gboolean complete;
  for (guint step = 0; step < streams; step++)
    left[step] = ready_frames(collector, in_turn(collector, first, step), &complete);
  do {
    before = taken->length;
    for (guint step = 0; step < streams && taken->length < collector->settings.batch_size; step++) {
      Stream *stream = in_turn(collector, first, step);
      if (left[step] == 0) continue;
      left[step]--;
      stream->frames--;
      collector->last = stream->number;
      sluice_stream_ref(stream);
      Waiting *frame = g_queue_pop_head(&stream->queue);
      stream->reached = (guint64)frame->running_time + frame->format->is.duration;
      g_queue_push_tail(taken, frame);
      g_cond_signal(&stream->room);
    }
  } while (taken->length > before);
}

/* ---- the collecting thread ---- */

static void wait_for_change(Collector *collector, gint64 wait) {
  collector->has_deadline = wait != NONE;
  if (wait == NONE) g_cond_wait(&collector->changed, &collector->lock);
  else g_cond_wait_until(&collector->changed, &collector->lock, g_get_monotonic_time() + (wait + 999) / 1000);
}

/* Waits for an event at the head of a queue, or for frames to take. Called and left with the lock held. */
StepKind collector_wait(Collector *collector, Stream **of, GstEvent **event, GQueue *taken) {
  GQueue garbage = G_QUEUE_INIT;
  StepKind kind = STOPPED;
  /* What came while the last batch was on its way gives way to the newest; what comes from now on makes haste. */
  for (guint i = 0; !collector->stopped && i < collector->streams->len; i++)
    stream_make_way(collector_nth(collector, i), collector->settings.max_same_source, &garbage);
  while (!collector->stopped && kind == STOPPED) {
    gint64 wait;
    discard_late(collector, &garbage);
    if (take_event(collector, of, event)) {
      kind = EVENT;
    } else if ((wait = time_to_wait(collector)) == 0) {
      take_frames(collector, taken);
      kind = BATCH;
    } else if (garbage.length == 0) {
      wait_for_change(collector, wait);
    }
    if (garbage.length == 0) continue;
    g_mutex_unlock(&collector->lock);
    waiting_free_all(&garbage);
    g_mutex_lock(&collector->lock);
  }
  return kind;
}

/* Lets go of frames that were taken, and counts them as gone out in a batch, or as refused. */
void collector_let_go(Collector *collector, GQueue *taken, gboolean refused) {
  g_mutex_lock(&collector->lock);
  for (GList *link = taken->head; link != NULL; link = link->next) {
    StreamCounts *counts = &((Waiting *)link->data)->stream->counts;
    *(refused ? &counts->refused : &counts->frames_out) += 1;
  }
  collector->batches += !refused;
  g_mutex_unlock(&collector->lock);
  Waiting *frame;
  while ((frame = g_queue_pop_head(taken)) != NULL) {
    Stream *stream = frame->stream;
    waiting_free(frame);
    sluice_stream_unref(stream);
  }
}
