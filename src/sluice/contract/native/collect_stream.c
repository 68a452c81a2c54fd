/* One stream of a collector: what its pad's thread does with the frames and events that arrive. See collect.h. */
#include "collect.h"

#include <time.h>

#define NTP_TO_UNIX (G_GUINT64_CONSTANT(2208988800) * GST_SECOND) /* from 1900 to 1970 (RFC 868) */
#define LARGE_FRAME 3000000 /* bytes: 1920x1080 in 4:2:0 has 3,110,400 */

/* ---- references ---- */

static Format *format_new(const StreamFormat *is) {
  Format *format = g_new0(Format, 1);
  format->references = 1;
  format->is = *is;
  if (is->raw.info != NULL) {
    format->info = *is->raw.info;
    format->is.raw.info = &format->info;
  }
  return format;
}

void format_unref(Format *format) {
  if (format != NULL && g_atomic_int_dec_and_test(&format->references)) g_free(format);
}

void waiting_free(gpointer data) {
  Waiting *waiting = data;
  gst_mini_object_unref(waiting->object);
  format_unref(waiting->format);
  g_free(waiting);
}

void waiting_free_all(GQueue *queue) { g_queue_clear_full(queue, waiting_free); }

Stream *stream_new(Collector *collector, guint number) {
  Stream *stream = g_new0(Stream, 1);
  stream->references = 1;
  stream->number = number;
  stream->collector = sluice_collector_ref(collector);
  g_cond_init(&stream->room);
  stream_begin(stream);
  return stream;
}

Stream *sluice_stream_ref(Stream *stream) {
  g_atomic_int_inc(&stream->references);
  return stream;
}

void sluice_stream_unref(Stream *stream) {
  if (!g_atomic_int_dec_and_test(&stream->references)) return;
  waiting_free_all(&stream->queue);
  format_unref(stream->format);
  g_cond_clear(&stream->room);
  sluice_collector_unref(stream->collector);
  g_free(stream);
}

/* ---- state ---- */

void stream_leave_segment(Stream *stream) {
  gst_segment_init(&stream->segment, GST_FORMAT_TIME);
  stream->next_pts = stream->running_time = 0;
}

/* As before the first event. Called with the lock held, with nothing in the queue. */
void stream_begin(Stream *stream) {
  stream->ended = stream->flushing = stream->absent = stream->flushed = stream->moved = FALSE;
  stream->counts = (StreamCounts){0};
  format_unref(stream->format);
  stream->format = NULL;
  stream->next_number = stream->reached = stream->shift = 0;
  stream_leave_segment(stream);
}

gboolean stream_refuses(const Stream *stream) {
  return stream->collector->stopped || stream->flushing || stream->removed;
}

/* Moves what waits to `garbage`, but where wanted those events that describe the frames still to come. */
void stream_discard(Stream *stream, gboolean keep_caps, GQueue *garbage) {
  GQueue kept = G_QUEUE_INIT;
  Waiting *waiting;
  while ((waiting = g_queue_pop_head(&stream->queue)) != NULL) {
    GstEventType type = waiting->format == NULL ? GST_EVENT_TYPE(waiting->object) : GST_EVENT_UNKNOWN;
    gboolean keep = keep_caps && (type == GST_EVENT_STREAM_START || type == GST_EVENT_CAPS);
    g_queue_push_tail(keep ? &kept : garbage, waiting);
  }
  stream->queue = kept;
  stream->counts.discarded += stream->frames;
  stream->frames = 0;
}

void sluice_stream_set_format(Stream *stream, const StreamFormat *is);
void sluice_stream_renumber(Stream *stream);
void sluice_stream_read_counts(Stream *stream, StreamCounts *counts);

/* Takes what the frames from now on are; those that wait stay what they were. */
void sluice_stream_set_format(Stream *stream, const StreamFormat *is) {
  Format *format = format_new(is);
  g_mutex_lock(&stream->collector->lock);
  format_unref(stream->format);
  stream->format = format;
  g_mutex_unlock(&stream->collector->lock);
}

/* Counts the frames from 0 again. */
void sluice_stream_renumber(Stream *stream) {
  g_mutex_lock(&stream->collector->lock);
  stream->next_number = 0;
  g_mutex_unlock(&stream->collector->lock);
}

void sluice_stream_read_counts(Stream *stream, StreamCounts *counts) {
  g_mutex_lock(&stream->collector->lock);
  *counts = stream->counts;
  g_mutex_unlock(&stream->collector->lock);
}

/* ---- events ---- */

/* Moves the running times of the segment, which is what came from above until then. */
static void shift_segment(Stream *stream, guint64 shift) {
  stream->segment.base += shift;
  stream->shift = shift;
  stream->moved = shift != 0;
}

gboolean sluice_stream_put_event(Stream *stream, GstEvent *event);

/* Queues an event, whose reference is given away; with the lock held. */
static void queue_event(Stream *stream, GstEvent *event) {
  Waiting *waiting = g_new0(Waiting, 1);
  waiting->object = GST_MINI_OBJECT_CAST(event);
  waiting->stream = stream;
  g_queue_push_tail(&stream->queue, waiting);
  g_cond_signal(&stream->collector->changed);
}

/* Queues an event behind the frames that came before it; FALSE where the stream takes nothing. */
gboolean sluice_stream_put_event(Stream *stream, GstEvent *event) {
  Collector *collector = stream->collector;
  g_mutex_lock(&collector->lock);
  if (GST_EVENT_TYPE(event) == GST_EVENT_SEGMENT) {
    const GstSegment *segment;
    gst_event_parse_segment(event, &segment);
    if (segment->format == GST_FORMAT_TIME) {
      gst_segment_copy_into(segment, &stream->segment);
      stream->next_pts = segment->start;
    } else {
      stream_leave_segment(stream);
    }
    shift_segment(stream, stream->shift);
  }
  gboolean taken = !stream_refuses(stream);
  if (taken) queue_event(stream, gst_event_ref(event));
  g_mutex_unlock(&collector->lock);
  return taken;
}

/* ---- frames ---- */

static guint64 wall_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (guint64)now.tv_sec * GST_SECOND + (guint64)now.tv_nsec;
}

/* The sender's time in nanoseconds since 1970, from an NTP reference timestamp; 0 without one. */
static guint64 sender_time(GstBuffer *buffer) {
  static GstStaticCaps ntp = GST_STATIC_CAPS("timestamp/x-ntp");
  GstCaps *reference = gst_static_caps_get(&ntp);
  GstReferenceTimestampMeta *meta = gst_buffer_get_reference_timestamp_meta(buffer, reference);
  gst_caps_unref(reference);
  return meta == NULL || meta->timestamp < NTP_TO_UNIX ? 0 : meta->timestamp - NTP_TO_UNIX;
}

/* The running time of a frame, moved on where a flush has set the stream back. Nothing behind is flushed with one stream
 * of many, so its time goes on: frames of before would all be late there, and leave at once. */
static guint64 going_on(Stream *stream, guint64 running_time) {
  gboolean back = stream->flushed && running_time < stream->reached;
  stream->flushed = FALSE;
  if (!back) return running_time;
  shift_segment(stream, stream->reached - running_time);
  return stream->reached;
}

/* Describes a frame of the stream; its number and times count as used whether it is queued afterwards or not. */
static Waiting *describe(Stream *stream, GstBuffer *buffer) {
  gboolean by_sender = stream->capture == CAPTURE_UNTOLD ? !stream->collector->settings.wall_clock
                                                         : stream->capture == CAPTURE_SENDER;
  guint64 ntp = by_sender ? sender_time(buffer) : wall_clock();
  const StreamFormat *is = &stream->format->is;
  Waiting *waiting = g_new0(Waiting, 1);
  guint64 pts = GST_BUFFER_PTS(buffer);
  if (!GST_CLOCK_TIME_IS_VALID(pts)) {
    pts = stream->next_pts;
    stream->counts.untimed++;
  }
  stream->next_pts = pts + (GST_BUFFER_DURATION_IS_VALID(buffer) ? GST_BUFFER_DURATION(buffer) : is->duration);
  guint64 running_time = gst_segment_to_running_time(&stream->segment, GST_FORMAT_TIME, pts);
  if (GST_CLOCK_TIME_IS_VALID(running_time)) /* else outside of the segment */
    stream->running_time = going_on(stream, running_time);
  g_atomic_int_inc(&stream->format->references);
  waiting->object = GST_MINI_OBJECT_CAST(buffer);
  waiting->stream = stream;
  waiting->format = stream->format;
  waiting->running_time = (gint64)stream->running_time;
  if (ntp != 0) waiting->capture = by_sender ? CAPTURE_SENDER : stream->capture;
  waiting->row = (SluiceFrameRow){
      .buf_pts = pts,
      .ntp_timestamp = ntp,
      .pad_index = stream->number,
      .source_id = is->source_id,
      .frame_num = (gint32)(stream->next_number++ & G_MAXINT32),
      .source_width = is->width,
      .source_height = is->height,
      .pipeline_width = is->pipeline_width,
      .pipeline_height = is->pipeline_height,
  };
  return waiting;
}

static void warn_untimed(GstElement *element, guint number) {
  gst_element_message_full(
      element, GST_MESSAGE_WARNING, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
      g_strdup_printf("sink_%u: frames without a timestamp; theirs are counted from the frame rate", number), NULL,
      __FILE__, __func__, __LINE__);
}

/* How many frames of a stream may wait, this one among them. Large ones in the host's memory are only as many as a batch
 * takes: those behind them would win little time, and four streams of 1080p would hold 12 MB more. */
static guint most_waiting(const Collector *collector, GstBuffer *buffer) {
  const CollectSettings *settings = &collector->settings;
  gboolean large = !settings->synchronised && gst_buffer_get_size(buffer) >= LARGE_FRAME &&
                   gst_memory_is_type(gst_buffer_peek_memory(buffer, 0), GST_ALLOCATOR_SYSMEM);
  return large ? MIN(settings->max_same_source, settings->queue_size) : settings->queue_size;
}

/* Queues a frame, whose reference is given away; waits for room. `element` may be NULL, then nobody is warned. */
GstFlowReturn sluice_stream_put(Stream *stream, GstElement *element, GstBuffer *buffer) {
  Collector *collector = stream->collector;
  Waiting *waiting = NULL;
  GQueue replaced = G_QUEUE_INIT;
  if (element != NULL) collector_read_clock(collector, element);
  g_mutex_lock(&collector->lock);
  GstFlowReturn answer = stream->removed ? GST_FLOW_FLUSHING : collector->flow;
  if (answer == GST_FLOW_OK && stream->format == NULL) answer = GST_FLOW_NOT_NEGOTIATED;
  else if (answer != GST_FLOW_OK && !stream->removed) stream->counts.refused++;
  if (answer == GST_FLOW_OK) {
    guint64 untimed = stream->counts.untimed;
    waiting = describe(stream, buffer);
    if (untimed == 0 && stream->counts.untimed == 1 && element != NULL) {
      g_mutex_unlock(&collector->lock);
      warn_untimed(element, stream->number);
      g_mutex_lock(&collector->lock);
    }
    stream->absent = FALSE;
    stream_make_way(stream, collector->settings.max_same_source, &replaced);
    while (stream->frames >= most_waiting(collector, buffer) && !stream_refuses(stream))
      g_cond_wait(&stream->room, &collector->lock);
    if (stream_refuses(stream)) {
      answer = GST_FLOW_FLUSHING;
    } else {
      if (stream->moved) queue_event(stream, gst_event_new_segment(&stream->segment));
      stream->moved = FALSE;
      collector_put(waiting);
    }
  }
  g_mutex_unlock(&collector->lock);
  waiting_free_all(&replaced);
  if (answer != GST_FLOW_OK) {
    if (waiting != NULL) waiting_free(waiting);
    else gst_buffer_unref(buffer);
  }
  return answer;
}

/* ---- the pad ---- */

static GstFlowReturn stream_chain(GstPad *pad, GstObject *parent, GstBuffer *buffer) {
  return sluice_stream_put(gst_pad_get_element_private(pad), GST_ELEMENT_CAST(parent), buffer);
}

void sluice_stream_bind(Stream *stream, GstPad *pad);
void sluice_stream_chain_on(GstPad *pad);

/* Makes a pad the stream's; it keeps the stream until it is finalised, as its thread may be inside until then. */
void sluice_stream_bind(Stream *stream, GstPad *pad) {
  g_object_set_data_full(G_OBJECT(pad), "sluice-stream", sluice_stream_ref(stream),
                         (GDestroyNotify)sluice_stream_unref);
  gst_pad_set_element_private(pad, stream);
}

/* Lets the frames that arrive at a pad go straight to its stream. */
void sluice_stream_chain_on(GstPad *pad) { gst_pad_set_chain_function(pad, stream_chain); }
