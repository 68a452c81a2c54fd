/* Counts what passes a pad, on the streaming thread and without the GIL: buffers, their timestamps and flags. Can also
 * end the flow after a number of buffers. One entry into Python per buffer and pad would cost more than decoding does. */
#include <gst/gst.h>

typedef struct {
  guint64 buffers;       /* buffers that passed */
  guint64 corrupted;     /* of them, how many carried GST_BUFFER_FLAG_CORRUPTED */
  guint64 disordered;    /* of them, how many did not have a larger PTS than the one before */
  guint64 first_pts;     /* smallest timestamp (PTS, or DTS where there is none), GST_CLOCK_TIME_NONE before the first */
  guint64 last_end;      /* largest timestamp plus duration */
  guint64 segment_start; /* start of the first time segment, GST_CLOCK_TIME_NONE before it */
  guint64 ended;         /* 1 once EOS has passed */
} SluiceFlowCounts;

typedef struct {
  GMutex lock;
  SluiceFlowCounts counts;
  guint64 limit; /* buffers after which EOS is pushed; 0: no limit */
  guint64 previous_pts;
} SluiceFlow;

static void flow_clear(gpointer data) {
  g_mutex_clear(&((SluiceFlow *)data)->lock);
}

void sluice_flow_release(gpointer flow) {
  g_atomic_rc_box_release_full(flow, flow_clear);
}

static void count_buffer(SluiceFlow *flow, GstBuffer *buffer) {
  SluiceFlowCounts *counts = &flow->counts;
  GstClockTime pts = GST_BUFFER_PTS(buffer);
  GstClockTime stamp = GST_BUFFER_DTS_OR_PTS(buffer);

  if (GST_CLOCK_TIME_IS_VALID(pts))
    stamp = pts;
  counts->buffers++;
  if (GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_CORRUPTED))
    counts->corrupted++;
  if (!GST_CLOCK_TIME_IS_VALID(pts) || (counts->buffers > 1 && pts <= flow->previous_pts))
    counts->disordered++;
  flow->previous_pts = GST_CLOCK_TIME_IS_VALID(pts) ? pts : 0;
  if (!GST_CLOCK_TIME_IS_VALID(stamp))
    return;
  if (!GST_CLOCK_TIME_IS_VALID(counts->first_pts) || stamp < counts->first_pts)
    counts->first_pts = stamp;
  if (GST_BUFFER_DURATION_IS_VALID(buffer))
    stamp += GST_BUFFER_DURATION(buffer);
  if (!GST_CLOCK_TIME_IS_VALID(counts->last_end) || stamp > counts->last_end)
    counts->last_end = stamp;
}

static void count_event(SluiceFlow *flow, GstEvent *event) {
  const GstSegment *segment;

  if (GST_EVENT_TYPE(event) == GST_EVENT_EOS)
    flow->counts.ended = 1;
  if (GST_EVENT_TYPE(event) != GST_EVENT_SEGMENT)
    return;
  gst_event_parse_segment(event, &segment);
  if (segment->format == GST_FORMAT_TIME && !GST_CLOCK_TIME_IS_VALID(flow->counts.segment_start))
    flow->counts.segment_start = segment->start;
}

static gboolean count_one(GstBuffer **buffer, guint index, gpointer flow) {
  (void)index;
  count_buffer(flow, *buffer);
  return TRUE;
}

static GstPadProbeReturn flow_probe(GstPad *pad, GstPadProbeInfo *info, gpointer data) {
  SluiceFlow *flow = data;
  gboolean over = FALSE;

  g_mutex_lock(&flow->lock);
  if (info->type & GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM) {
    count_event(flow, GST_PAD_PROBE_INFO_EVENT(info));
  } else {
    over = flow->limit != 0 && flow->counts.buffers >= flow->limit;
    if (!over && info->type & GST_PAD_PROBE_TYPE_BUFFER_LIST)
      gst_buffer_list_foreach(GST_PAD_PROBE_INFO_BUFFER_LIST(info), count_one, flow);
    else if (!over)
      count_buffer(flow, GST_PAD_PROBE_INFO_BUFFER(info));
  }
  g_mutex_unlock(&flow->lock);
  if (!over)
    return GST_PAD_PROBE_OK;
  gst_pad_push_event(pad, gst_event_new_eos());
  gst_mini_object_unref(info->data);
  info->data = NULL;
  GST_PAD_PROBE_INFO_FLOW_RETURN(info) = GST_FLOW_EOS;
  return GST_PAD_PROBE_HANDLED;
}

/* Starts counting at a pad and returns a reference to the counts, to be given back with sluice_flow_release(). With a
 * limit, EOS follows that many buffers and whatever comes later is dropped with GST_FLOW_EOS (source pads only). */
gpointer sluice_flow_watch(GstPad *pad, guint64 limit) {
  SluiceFlow *flow = g_atomic_rc_box_new0(SluiceFlow);

  g_mutex_init(&flow->lock);
  flow->limit = limit;
  flow->counts.first_pts = flow->counts.last_end = flow->counts.segment_start = GST_CLOCK_TIME_NONE;
  gst_pad_add_probe(pad,
      GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_BUFFER_LIST | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, flow_probe,
      g_atomic_rc_box_acquire(flow), sluice_flow_release);
  return flow;
}

void sluice_flow_read(SluiceFlow *flow, SluiceFlowCounts *out) {
  g_mutex_lock(&flow->lock);
  *out = flow->counts;
  g_mutex_unlock(&flow->lock);
}
