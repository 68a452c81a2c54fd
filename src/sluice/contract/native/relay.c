/* Hands what arrives at a pad on to the appsrcs of other pipelines, without the GIL and without ever waiting unless told
 * to. So that a recorder, a viewer or an encoder can come, go, lag and fail without the pipeline noticing.
 *
 * Times become running times, which never go back: a source that was restarted goes on where it was. Encoded streams
 * ("keyed") can be kept for some seconds in a ring of whole groups of pictures, from which a target may begin in the
 * past; a target that lags loses whole groups, so that what it gets can be decoded. */
#include "nvds.h"

#include <gst/video/video-event.h>

#define GUESSED_DURATION (GST_SECOND / 30)
/* A viewer's clock and the stream's may drift apart by so much before its timestamps jump. */
#define MOST_DRIFT (2 * GST_SECOND)

/* nv-pad-added to update-caps, and the control events: 400 to 410; as DeepStream numbers them. */
#define FIRST_CUSTOM 400
#define LAST_CUSTOM 410

/* More than wait in front of any recorder. */
#define KEYS_KNOWN 1024

enum { TARGET_WAITS = 1, TARGET_REBASED = 2 };

/* Mirrored by app/outputs/relay.py. */
typedef struct {
  guint64 buffers, bytes, keys;     /* that arrived */
  guint64 last_time;                /* running time of the last, GST_CLOCK_TIME_NONE before the first */
  guint64 ring_buffers, ring_bytes; /* that are kept now */
  guint64 targets;                  /* that are attached now */
  guint64 ended;                    /* whether EOS has passed since the last STREAM_START */
} SluiceRelayCounts;

typedef struct {
  guint64 pushed, dropped, ended;
} SluiceTargetCounts;

typedef struct {
  GstElement *appsrc;
  guint64 most;        /* buffers that may wait in the appsrc */
  guint64 until;       /* running time after which the target has ended */
  guint64 interval;    /* of raw frames: the least time between two; 0: all */
  guint64 next;        /* the running time before which none is wanted */
  guint flags;
  gboolean needs_key;
  gboolean begun;
  gint64 shift;        /* of rebased timestamps */
  SluiceTargetCounts counts;
} SluiceTarget;

typedef struct {
  guint64 time;   /* running time of a key frame */
  gint64 arrival; /* when it arrived, in microseconds since 1970 */
} SluiceArrival;

typedef struct {
  GMutex lock; /* never held while anything is pushed to a target that may wait */
  GPtrArray *targets;
  GstSegment segment;
  GstCaps *caps;
  GstPad *pad; /* whose probe this is: whoever attaches holds it */
  gboolean keyed;
  gint64 offset; /* what is added to running times so that they never go back */
  GQueue ring;
  guint64 ring_time, ring_most;
  guint64 key_interval, next_key; /* 0: key frames come as they come; the running time asked for */
  SluiceArrival *arrivals; /* of the last key frames, by their numbers; NULL where nothing is keyed */
  SluiceRelayCounts counts;
} SluiceRelay;

SLUICE_EXPORT gpointer sluice_relay_watch(GstPad *pad, gboolean keyed, guint64 ring_time, guint64 ring_bytes,
                                          guint64 key_interval);
SLUICE_EXPORT void sluice_relay_release(gpointer relay);
SLUICE_EXPORT gpointer sluice_relay_attach(SluiceRelay *relay, GstElement *appsrc, guint64 most, guint flags,
                                           guint64 since, guint64 until, guint64 interval);
SLUICE_EXPORT void sluice_relay_detach(SluiceRelay *relay, SluiceTarget *target);
SLUICE_EXPORT void sluice_relay_extend(SluiceTarget *target, guint64 until);
SLUICE_EXPORT void sluice_relay_read(SluiceRelay *relay, SluiceRelayCounts *out);
SLUICE_EXPORT gint64 sluice_relay_arrival(SluiceRelay *relay, guint64 time);
SLUICE_EXPORT void sluice_relay_read_target(SluiceTarget *target, SluiceTargetCounts *out);

static void target_clear(gpointer data) { gst_object_unref(((SluiceTarget *)data)->appsrc); }

static void target_release(gpointer target) { g_atomic_rc_box_release_full(target, target_clear); }

static void relay_clear(gpointer data) {
  SluiceRelay *relay = data;
  g_ptr_array_unref(relay->targets);
  gst_clear_caps(&relay->caps);
  g_queue_clear_full(&relay->ring, (GDestroyNotify)gst_buffer_unref);
  g_free(relay->arrivals);
  g_mutex_clear(&relay->lock);
}

void sluice_relay_release(gpointer relay) { g_atomic_rc_box_release_full(relay, relay_clear); }

static gboolean is_key(GstBuffer *buffer) { return !GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT); }

static void target_end(SluiceTarget *target) {
  gint flow;
  if (__atomic_exchange_n(&target->counts.ended, 1, __ATOMIC_SEQ_CST)) return;
  g_signal_emit_by_name(target->appsrc, "end-of-stream", &flow);
}

/* ---- one buffer to one target ---- */

static gboolean has_room(SluiceTarget *target) {
  guint64 level;
  if (target->flags & TARGET_WAITS) return TRUE;
  g_object_get(target->appsrc, "current-level-buffers", &level, NULL);
  return level < target->most;
}

/* A copy with the times of the viewer's own pipeline. */
static GstBuffer *rebased(SluiceTarget *target, GstBuffer *buffer) {
  gint64 now = (gint64)gst_element_get_current_running_time(target->appsrc);
  gint64 time = (gint64)GST_BUFFER_PTS(buffer);
  GstBuffer *copy = gst_buffer_copy(buffer);
  if (now < 0) now = 0; /* not playing yet */
  if (!target->begun || ABS(time + target->shift - now) > (gint64)MOST_DRIFT) target->shift = now - time;
  GST_BUFFER_PTS(copy) = (GstClockTime)(time + target->shift);
  GST_BUFFER_DTS(copy) = GST_CLOCK_TIME_NONE;
  return copy;
}

static void target_push(SluiceTarget *target, GstBuffer *buffer, gboolean keyed) {
  GstFlowReturn flow = GST_FLOW_ERROR;
  if (target->counts.ended) return;
  if (keyed && target->needs_key && !is_key(buffer)) {
    target->counts.dropped += target->begun;
    return;
  }
  if (target->interval) {
    if (GST_BUFFER_PTS(buffer) < target->next) return;
    /* Kept in step, so that the rate is the one wanted and not the next lower part of the stream's. */
    target->next = MAX(target->next, GST_BUFFER_PTS(buffer) - MIN(GST_BUFFER_PTS(buffer), target->interval)) + target->interval;
  }
  if (!has_room(target)) {
    target->counts.dropped++; /* of raw frames the appsrc itself then lets go of the oldest */
    target->needs_key = keyed;
    if (keyed) return;
  }
  GstBuffer *pushed = target->flags & TARGET_REBASED ? rebased(target, buffer) : gst_buffer_ref(buffer);
  target->needs_key = FALSE;
  target->begun = TRUE;
  g_signal_emit_by_name(target->appsrc, "push-buffer", pushed, &flow);
  gst_buffer_unref(pushed);
  target->counts.pushed += flow == GST_FLOW_OK;
  if (GST_BUFFER_PTS(buffer) >= __atomic_load_n(&target->until, __ATOMIC_SEQ_CST)) target_end(target);
}

/* ---- times ---- */

static guint64 own_time(SluiceRelay *relay, GstBuffer *buffer) {
  guint64 last = relay->counts.last_time;
  guint64 duration = GST_BUFFER_DURATION_IS_VALID(buffer) && GST_BUFFER_DURATION(buffer) > 0 ? GST_BUFFER_DURATION(buffer)
                                                                                           : GUESSED_DURATION;
  guint64 time = gst_segment_to_running_time(&relay->segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer));
  if (!GST_CLOCK_TIME_IS_VALID(time)) return GST_CLOCK_TIME_IS_VALID(last) ? last + duration : 0;
  if (GST_CLOCK_TIME_IS_VALID(last) && (gint64)time + relay->offset <= (gint64)last)
    relay->offset = (gint64)(last + duration) - (gint64)time;
  return (guint64)((gint64)time + relay->offset);
}

/* The buffer with its running time, in place where nobody else holds it. Takes and returns a reference. */
static GstBuffer *timed(SluiceRelay *relay, GstBuffer *buffer) {
  guint64 time = own_time(relay, buffer);
  relay->counts.last_time = time;
  guint64 dts = relay->keyed ? time : GST_BUFFER_DTS(buffer); /* no encoder here makes B-frames */
  if (GST_BUFFER_PTS(buffer) == time && GST_BUFFER_DTS(buffer) == dts) return buffer;
  buffer = gst_buffer_make_writable(buffer);
  GST_BUFFER_PTS(buffer) = time;
  GST_BUFFER_DTS(buffer) = dts;
  return buffer;
}

/* ---- the ring ---- */

static void ring_drop_head(SluiceRelay *relay) {
  GstBuffer *oldest = g_queue_pop_head(&relay->ring);
  relay->counts.ring_bytes -= gst_buffer_get_size(oldest);
  gst_buffer_unref(oldest);
}

/* The time of the second key frame in the ring: what is before it can go once that is old enough. */
static guint64 second_key(const SluiceRelay *relay) {
  for (const GList *link = relay->ring.head ? relay->ring.head->next : NULL; link != NULL; link = link->next)
    if (is_key(link->data)) return GST_BUFFER_PTS((GstBuffer *)link->data);
  return GST_CLOCK_TIME_NONE;
}

static void ring_add(SluiceRelay *relay, GstBuffer *buffer) {
  guint64 second;
  if (relay->ring_time == 0 || (relay->ring.length == 0 && !is_key(buffer))) return;
  g_queue_push_tail(&relay->ring, gst_buffer_ref(buffer));
  relay->counts.ring_bytes += gst_buffer_get_size(buffer);
  if (!is_key(buffer) && relay->counts.ring_bytes <= relay->ring_most) return; /* groups end with a key frame */
  while ((second = second_key(relay)) != GST_CLOCK_TIME_NONE &&
         (second + relay->ring_time <= GST_BUFFER_PTS(buffer) || relay->counts.ring_bytes > relay->ring_most))
    do ring_drop_head(relay);
    while (relay->ring.length && !is_key(g_queue_peek_head(&relay->ring)));
  if (relay->counts.ring_bytes > relay->ring_most) /* one group alone is too much */
    while (relay->ring.length) ring_drop_head(relay);
}

/* Gives a target what the ring has, from the last key frame at or before a time. */
static void ring_replay(SluiceRelay *relay, SluiceTarget *target, guint64 since) {
  const GList *begin = relay->ring.head;
  for (const GList *link = begin; link != NULL && GST_BUFFER_PTS((GstBuffer *)link->data) <= since; link = link->next)
    if (is_key(link->data)) begin = link;
  for (; begin != NULL; begin = begin->next) target_push(target, begin->data, TRUE);
}

/* ---- what the pad sees ---- */

static GPtrArray *targets_now(SluiceRelay *relay) {
  GPtrArray *now = g_ptr_array_new_full(relay->targets->len, target_release);
  for (guint i = 0; i < relay->targets->len; i++)
    g_ptr_array_add(now, g_atomic_rc_box_acquire(g_ptr_array_index(relay->targets, i)));
  return now;
}

/* Asks for the next key frame by time, which needs no frame rate. One that somebody else asked for changes nothing. */
static void ask_for_key(SluiceRelay *relay, GstPad *pad, GstBuffer *buffer) {
  if (relay->key_interval == 0 || GST_BUFFER_PTS(buffer) < relay->next_key) return;
  relay->next_key = GST_BUFFER_PTS(buffer) + relay->key_interval;
  gst_pad_push_event(pad, gst_video_event_new_upstream_force_key_unit(relay->next_key, TRUE, 0));
}

static void note_arrival(SluiceRelay *relay, GstBuffer *buffer) {
  if (relay->arrivals == NULL || !is_key(buffer)) return;
  relay->arrivals[relay->counts.keys % KEYS_KNOWN] = (SluiceArrival){ GST_BUFFER_PTS(buffer), g_get_real_time() };
}

static GstBuffer *take_buffer(SluiceRelay *relay, GstPad *pad, GstBuffer *buffer) {
  GPtrArray *targets = NULL;
  g_mutex_lock(&relay->lock);
  buffer = timed(relay, buffer);
  relay->counts.buffers++;
  relay->counts.bytes += gst_buffer_get_size(buffer);
  note_arrival(relay, buffer);
  relay->counts.keys += is_key(buffer);
  if (relay->keyed) ring_add(relay, buffer);
  if (relay->targets->len) targets = targets_now(relay);
  g_mutex_unlock(&relay->lock);
  if (relay->keyed) ask_for_key(relay, pad, buffer);
  if (targets == NULL) return buffer;
  for (guint i = 0; i < targets->len; i++) target_push(g_ptr_array_index(targets, i), buffer, relay->keyed);
  g_ptr_array_unref(targets);
  return buffer;
}

/* Events that say which streams are in the batches, and what elements behind are to do. */
static gboolean is_custom(GstEvent *event) {
  guint number = (guint)GST_EVENT_TYPE(event) >> GST_EVENT_NUM_SHIFT;
  return number >= FIRST_CUSTOM && number <= LAST_CUSTOM;
}

static void pass_on(SluiceRelay *relay, GstEvent *event) {
  g_mutex_lock(&relay->lock);
  GPtrArray *targets = targets_now(relay);
  g_mutex_unlock(&relay->lock);
  for (guint i = 0; i < targets->len && !relay->keyed; i++)
    gst_element_send_event(((SluiceTarget *)g_ptr_array_index(targets, i))->appsrc, gst_event_ref(event));
  g_ptr_array_unref(targets);
}

static gboolean collect_custom(GstPad *pad, GstEvent **event, gpointer events) {
  (void)pad;
  if (is_custom(*event)) g_ptr_array_add(events, gst_event_ref(*event));
  return TRUE;
}

/* Gives a target what was said of the streams before it had caps, which come first. */
static void repeat_custom(const SluiceRelay *relay, GstElement *appsrc) {
  if (relay->keyed) return;
  GPtrArray *events = g_ptr_array_new_with_free_func((GDestroyNotify)gst_event_unref);
  gst_pad_sticky_events_foreach(relay->pad, collect_custom, events);
  for (guint i = 0; i < events->len; i++)
    gst_element_send_event(appsrc, gst_event_ref(g_ptr_array_index(events, i)));
  g_ptr_array_unref(events);
}

static void take_caps(SluiceRelay *relay, GstCaps *caps) {
  g_mutex_lock(&relay->lock);
  gboolean first = relay->caps == NULL;
  if (relay->caps == NULL || !gst_caps_is_equal(relay->caps, caps)) {
    gst_caps_replace(&relay->caps, caps);
    while (relay->ring.length) ring_drop_head(relay);
    for (guint i = 0; i < relay->targets->len; i++)
      g_object_set(((SluiceTarget *)g_ptr_array_index(relay->targets, i))->appsrc, "caps", caps, NULL);
  }
  GPtrArray *targets = targets_now(relay);
  g_mutex_unlock(&relay->lock);
  for (guint i = 0; first && i < targets->len; i++)
    repeat_custom(relay, ((SluiceTarget *)g_ptr_array_index(targets, i))->appsrc);
  g_ptr_array_unref(targets);
}

static void take_end(SluiceRelay *relay) {
  g_mutex_lock(&relay->lock);
  relay->counts.ended = 1;
  GPtrArray *targets = targets_now(relay);
  g_mutex_unlock(&relay->lock);
  for (guint i = 0; i < targets->len; i++) target_end(g_ptr_array_index(targets, i));
  g_ptr_array_unref(targets);
}

static void take_event(SluiceRelay *relay, GstEvent *event) {
  GstCaps *caps;
  switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_STREAM_START:
      relay->counts.ended = 0;
      break;
    case GST_EVENT_CAPS:
      gst_event_parse_caps(event, &caps);
      take_caps(relay, caps);
      break;
    case GST_EVENT_SEGMENT:
      gst_event_copy_segment(event, &relay->segment);
      break;
    case GST_EVENT_EOS:
      take_end(relay);
      break;
    default:
      if (relay->caps != NULL && is_custom(event)) pass_on(relay, event);
      break;
  }
}

static GstPadProbeReturn relay_probe(GstPad *pad, GstPadProbeInfo *info, gpointer data) {
  if (info->type & GST_PAD_PROBE_TYPE_BUFFER) info->data = take_buffer(data, pad, GST_PAD_PROBE_INFO_BUFFER(info));
  else take_event(data, GST_PAD_PROBE_INFO_EVENT(info));
  return GST_PAD_PROBE_OK;
}

/* ---- for Python ---- */

/* Watches a pad for as long as it lives; returns a reference, for sluice_relay_release(). Of a keyed stream `ring_time`
 * nanoseconds are kept, but never more than `ring_bytes`, and every `key_interval` the encoder is asked for a key. */
gpointer sluice_relay_watch(GstPad *pad, gboolean keyed, guint64 ring_time, guint64 ring_bytes, guint64 key_interval) {
  SluiceRelay *relay = g_atomic_rc_box_new0(SluiceRelay);
  g_mutex_init(&relay->lock);
  relay->targets = g_ptr_array_new_with_free_func(target_release);
  gst_segment_init(&relay->segment, GST_FORMAT_TIME);
  relay->pad = pad;
  relay->keyed = keyed;
  relay->ring_time = ring_time;
  relay->ring_most = ring_bytes;
  relay->key_interval = key_interval;
  relay->arrivals = keyed ? g_new0(SluiceArrival, KEYS_KNOWN) : NULL;
  relay->counts.last_time = GST_CLOCK_TIME_NONE;
  gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, relay_probe,
                    g_atomic_rc_box_acquire(relay), sluice_relay_release);
  return relay;
}

/* Has an appsrc get what arrives from now on, or from `since` where the ring goes back so far (GST_CLOCK_TIME_NONE: not),
 * to `until`, and raw frames no more often than every `interval`. Returns a reference, for sluice_relay_detach(). */
gpointer sluice_relay_attach(SluiceRelay *relay, GstElement *appsrc, guint64 most, guint flags, guint64 since,
                             guint64 until, guint64 interval) {
  SluiceTarget *target = g_atomic_rc_box_new0(SluiceTarget);
  target->appsrc = gst_object_ref(appsrc);
  target->most = most;
  target->flags = flags;
  target->until = until;
  target->interval = interval;
  target->needs_key = TRUE;
  g_mutex_lock(&relay->lock);
  if (relay->caps != NULL) {
    g_object_set(appsrc, "caps", relay->caps, NULL);
    repeat_custom(relay, appsrc);
  }
  if (GST_CLOCK_TIME_IS_VALID(since)) ring_replay(relay, target, since);
  g_ptr_array_add(relay->targets, g_atomic_rc_box_acquire(target));
  gboolean ended = relay->counts.ended != 0;
  g_mutex_unlock(&relay->lock);
  if (ended) target_end(target);
  return target;
}

/* Ends a target after what it has got so far, and gives it back. */
void sluice_relay_detach(SluiceRelay *relay, SluiceTarget *target) {
  g_mutex_lock(&relay->lock);
  g_ptr_array_remove(relay->targets, target);
  g_mutex_unlock(&relay->lock);
  target_end(target);
  target_release(target);
}

/* Lets a target go on to a later time than it was to. */
void sluice_relay_extend(SluiceTarget *target, guint64 until) {
  guint64 now = __atomic_load_n(&target->until, __ATOMIC_SEQ_CST);
  while (until > now && !__atomic_compare_exchange_n(&target->until, &now, until, FALSE, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    ;
}

void sluice_relay_read(SluiceRelay *relay, SluiceRelayCounts *out) {
  g_mutex_lock(&relay->lock);
  *out = relay->counts;
  out->ring_buffers = relay->ring.length;
  out->targets = relay->targets->len;
  g_mutex_unlock(&relay->lock);
}

void sluice_relay_read_target(SluiceTarget *target, SluiceTargetCounts *out) { *out = target->counts; }

/* When the key frame with this running time arrived, in microseconds since 1970; -1 where it is not known any more. */
gint64 sluice_relay_arrival(SluiceRelay *relay, guint64 time) {
  gint64 arrival = -1;
  g_mutex_lock(&relay->lock);
  guint64 known = relay->arrivals == NULL ? 0 : MIN(relay->counts.keys, KEYS_KNOWN);
  for (guint64 back = 1; back <= known && arrival < 0; back++) {
    const SluiceArrival *key = &relay->arrivals[(relay->counts.keys - back) % KEYS_KNOWN];
    if (key->time == time) arrival = key->arrival;
  }
  g_mutex_unlock(&relay->lock);
  return arrival;
}
