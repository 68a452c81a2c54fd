/* The end of one stream's source, in front of the mux, over every restart of the source: counts its frames, leaves out
 * those above a target rate, and keeps its times going forward. On the streaming thread, without Python.
 *
 * A source that was opened again begins its times anew, and a camera's clock may jump. So from the second time on, and
 * for live sources from the first, frames leave with running times as timestamps, in a segment from 0, moved on where
 * they would go back. The end of one source is not the stream's end: EOS stops here, and is only noted. */
#include <gst/gst.h>

#define JUMP (2 * GST_SECOND) /* a step of the times beside that of the arrivals, which no network explains */
#define DISORDER (100 * GST_MSECOND) /* what frames in the wrong order may be apart */
#define SMALLEST_STEP 1000    /* nanoseconds by which a frame that comes in disorder follows the one before */

/* Mirrored by app/flow.py. Times are in nanoseconds. */
typedef struct {
  guint64 arrived;      /* frames that came, of all sources */
  guint64 skipped;      /* of them, those left out: above the target rate, or damaged and before a live source's first
                           whole one */
  guint64 last_arrival; /* monotonic time of the last one, 0 before it */
  guint64 last_end;     /* of the last frame that went on, timestamp plus duration */
  guint64 jumps;        /* how often times jumped beside the arrivals */
  gint64 last_jump;     /* by how much the last time */
  guint64 captured;     /* frames of the present source that carried the sender's time */
  guint64 ended;        /* 1 once the present source has ended */
} SluiceStreamCounts;

typedef struct {
  GMutex lock;
  SluiceStreamCounts counts;
  GstPad *pad;          /* of the present source: what comes from another is too late; compared only */
  gboolean live, retimed;
  gboolean begun;       /* the present source has given a frame */
  gboolean whole;       /* and one that is not damaged */
  GstSegment segment;   /* of the present source */
  guint64 period;       /* least distance of frames that go on; 0: all go on */
  guint64 due;          /* when the next frame may go on */
  gint64 offset;        /* by which the present source's running times are moved */
  guint64 last, step;   /* timestamp of the last frame that went on, and its duration */
  guint64 last_time;    /* running time of the present source's last frame, not moved */
  guint64 last_capture; /* its sender's time, 0 without */
} SluiceStreamFlow;

gpointer sluice_stream_flow_new(gboolean live);
void sluice_stream_flow_unref(gpointer flow);
void sluice_stream_flow_watch(SluiceStreamFlow *flow, GstPad *pad, gboolean retimed);
void sluice_stream_flow_leave(SluiceStreamFlow *flow);
void sluice_stream_flow_set_rate(SluiceStreamFlow *flow, guint64 period);
void sluice_stream_flow_read(SluiceStreamFlow *flow, SluiceStreamCounts *out);

static void flow_clear(gpointer data) { g_mutex_clear(&((SluiceStreamFlow *)data)->lock); }

gpointer sluice_stream_flow_new(gboolean live) {
  SluiceStreamFlow *flow = g_atomic_rc_box_new0(SluiceStreamFlow);
  g_mutex_init(&flow->lock);
  flow->live = live;
  return flow;
}

void sluice_stream_flow_unref(gpointer flow) { g_atomic_rc_box_release_full(flow, flow_clear); }

static guint64 capture_time(GstBuffer *buffer) {
  static GstStaticCaps ntp = GST_STATIC_CAPS("timestamp/x-ntp");
  GstCaps *reference = gst_static_caps_get(&ntp);
  GstReferenceTimestampMeta *meta = gst_buffer_get_reference_timestamp_meta(buffer, reference);
  gst_caps_unref(reference);
  return meta == NULL ? 0 : meta->timestamp;
}

static gint64 apart(guint64 one, guint64 other) { return (gint64)(one - other); }

/* How far a step of some clock is from what can be explained: it may lag behind the arrivals, after a network's pause,
 * and may not lead them or go back. */
static gint64 unexplained(gint64 step, gint64 waited) { return step < 0 ? step : MAX(0, step - waited); }

/* Notes a jump of the stream's times, or of its sender's clock; returns that of the times, 0 where they go on as they
 * should. */
static gint64 find_jump(SluiceStreamFlow *flow, guint64 time, guint64 capture, guint64 now) {
  if (!flow->live || !flow->begun) return 0;
  gint64 waited = apart(now, flow->counts.last_arrival);
  gint64 jump = unexplained(apart(time, flow->last_time), waited);
  gint64 clock = capture && flow->last_capture ? unexplained(apart(capture, flow->last_capture), waited) : 0;
  gint64 largest = ABS(jump) > ABS(clock) ? jump : clock;
  if (ABS(largest) > (gint64)JUMP) {
    flow->counts.jumps++;
    flow->counts.last_jump = largest;
  }
  return jump > (gint64)JUMP || jump < -(gint64)DISORDER ? jump : 0;
}

/* The timestamp with which a frame of this running time leaves: behind that of the frame before. */
static guint64 retime(SluiceStreamFlow *flow, guint64 time, gint64 jump) {
  gboolean restarted = !flow->begun || jump != 0;
  guint64 next = flow->last + MAX(flow->step, SMALLEST_STEP);
  if (flow->counts.last_end == 0) flow->offset = 0; /* the stream's first frame */
  else if (restarted && apart(time + flow->offset, flow->last) <= 0) flow->offset = apart(next, time);
  else if (jump > 0) flow->offset = apart(next, time);
  guint64 moved = time + flow->offset;
  if (flow->counts.last_end == 0 || apart(moved, flow->last) > 0) return moved;
  /* A time twice is one that was lost: h264parse 1.22 loses those of key frames that come in several units. */
  return time == flow->last_time ? next : flow->last + SMALLEST_STEP;
}

static gboolean is_skipped(SluiceStreamFlow *flow, guint64 time) {
  if (flow->period == 0) return FALSE;
  /* Half of a nanosecond's worth of rounding in every frame must not skip one of a stream that has just this rate. */
  guint64 tolerance = flow->period / 64;
  if (flow->due != 0 && time + tolerance < flow->due) return TRUE;
  flow->due = flow->due != 0 && time < flow->due + flow->period ? flow->due + flow->period : time + flow->period;
  return FALSE;
}

/* With the lock held. Returns whether the frame goes on; `*stamp` is its timestamp then. */
static gboolean take_frame(SluiceStreamFlow *flow, GstBuffer *buffer, guint64 *stamp) {
  guint64 now = (guint64)g_get_monotonic_time() * 1000, pts = GST_BUFFER_PTS(buffer);
  guint64 time = gst_segment_to_running_time(&flow->segment, GST_FORMAT_TIME, pts);
  guint64 capture = capture_time(buffer);
  gboolean timed = GST_CLOCK_TIME_IS_VALID(time);
  gint64 jump = timed ? find_jump(flow, time, capture, now) : 0;
  flow->counts.arrived++;
  flow->counts.captured += capture != 0;
  flow->counts.last_arrival = now;
  if (capture) flow->last_capture = capture;
  *stamp = pts;
  if (flow->retimed && timed) *stamp = retime(flow, time, jump);
  if (timed) {
    flow->last_time = time;
    flow->begun = TRUE;
  }
  /* Who comes into the middle of a camera's stream sees nothing but grey until the next key frame. */
  flow->whole |= !flow->live || !GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_CORRUPTED);
  if (!flow->whole) {
    flow->counts.skipped++;
    return FALSE;
  }
  if (!GST_CLOCK_TIME_IS_VALID(*stamp)) return TRUE;
  if (is_skipped(flow, *stamp)) {
    flow->counts.skipped++;
    return FALSE;
  }
  flow->last = *stamp;
  flow->step = GST_BUFFER_DURATION_IS_VALID(buffer) ? GST_BUFFER_DURATION(buffer) : 0;
  flow->counts.last_end = MAX(flow->last + flow->step, 1);
  return TRUE;
}

static GstPadProbeReturn pass_buffer(SluiceStreamFlow *flow, GstPad *pad, GstPadProbeInfo *info) {
  GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER(info);
  guint64 stamp;
  g_mutex_lock(&flow->lock);
  gboolean goes_on = flow->pad == pad && take_frame(flow, buffer, &stamp);
  g_mutex_unlock(&flow->lock);
  if (!goes_on) return GST_PAD_PROBE_DROP;
  if (stamp != GST_BUFFER_PTS(buffer)) {
    buffer = gst_buffer_make_writable(buffer);
    GST_BUFFER_PTS(buffer) = stamp;
    info->data = buffer;
  }
  return GST_PAD_PROBE_OK;
}

/* Tells the application, which looks now and then only. */
static void post_ended(GstPad *pad) {
  GstElement *element = gst_pad_get_parent_element(pad);
  if (element == NULL) return;
  gst_element_post_message(
      element, gst_message_new_element(GST_OBJECT(element), gst_structure_new_empty("sluice-source-ended")));
  gst_object_unref(element);
}

static GstPadProbeReturn pass_event(SluiceStreamFlow *flow, GstPad *pad, GstPadProbeInfo *info) {
  GstEvent *event = GST_PAD_PROBE_INFO_EVENT(info), *plain = NULL;
  const GstSegment *segment;
  GstSegment from_zero;
  if (GST_EVENT_TYPE(event) != GST_EVENT_EOS && GST_EVENT_TYPE(event) != GST_EVENT_SEGMENT) return GST_PAD_PROBE_OK;
  g_mutex_lock(&flow->lock);
  gboolean present = flow->pad == pad;
  if (present && GST_EVENT_TYPE(event) == GST_EVENT_EOS) {
    flow->counts.ended = 1;
  } else if (present) {
    gst_event_parse_segment(event, &segment);
    if (segment->format == GST_FORMAT_TIME) gst_segment_copy_into(segment, &flow->segment);
    gst_segment_init(&from_zero, GST_FORMAT_TIME);
    if (flow->retimed) plain = gst_event_new_segment(&from_zero);
  }
  g_mutex_unlock(&flow->lock);
  if (present && GST_EVENT_TYPE(event) == GST_EVENT_EOS) post_ended(pad);
  if (!present || GST_EVENT_TYPE(event) == GST_EVENT_EOS) return GST_PAD_PROBE_DROP;
  if (plain != NULL) {
    gst_event_set_seqnum(plain, gst_event_get_seqnum(event));
    gst_event_unref(event);
    info->data = plain;
  }
  return GST_PAD_PROBE_OK;
}

static GstPadProbeReturn stream_probe(GstPad *pad, GstPadProbeInfo *info, gpointer flow) {
  return info->type & GST_PAD_PROBE_TYPE_BUFFER ? pass_buffer(flow, pad, info) : pass_event(flow, pad, info);
}

/* Takes a pad as that of the stream's present source; what comes from the one before is dropped from now on. */
void sluice_stream_flow_watch(SluiceStreamFlow *flow, GstPad *pad, gboolean retimed) {
  g_mutex_lock(&flow->lock);
  flow->pad = pad;
  flow->retimed = retimed;
  flow->begun = flow->whole = FALSE;
  flow->counts.ended = flow->counts.captured = 0;
  flow->last_capture = 0;
  gst_segment_init(&flow->segment, GST_FORMAT_TIME);
  g_mutex_unlock(&flow->lock);
  gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, stream_probe,
                    g_atomic_rc_box_acquire(flow), sluice_stream_flow_unref);
}

/* Lets nothing more of the present source through. */
void sluice_stream_flow_leave(SluiceStreamFlow *flow) {
  g_mutex_lock(&flow->lock);
  flow->pad = NULL;
  g_mutex_unlock(&flow->lock);
}

/* Lets frames pass no closer to each other than this many nanoseconds; 0: all. */
void sluice_stream_flow_set_rate(SluiceStreamFlow *flow, guint64 period) {
  g_mutex_lock(&flow->lock);
  flow->period = period;
  flow->due = 0;
  g_mutex_unlock(&flow->lock);
}

void sluice_stream_flow_read(SluiceStreamFlow *flow, SluiceStreamCounts *out) {
  g_mutex_lock(&flow->lock);
  *out = flow->counts;
  g_mutex_unlock(&flow->lock);
}
