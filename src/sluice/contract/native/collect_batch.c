/* What the collecting thread does: makes batches with their metadata and pushes them, until there is an event to handle.
 * All of it runs without Python; see collect.h. */
#include "carry_meta.h"
#include "collect.h"

#define LEAST_STEP (100 * GST_USECOND)

/* Mirrored by contract/_collect.py. */
typedef struct {
  GstPad *pad;                    /* where the batches go; NULL: to the caller, one by one */
  const SluiceProvider *provider;
  guint32 capacity;               /* of the batches */
  gint32 meta_type;               /* NVDS_BATCH_GST_META */
  gint32 capture_type;            /* of the user metas that say what ntp_timestamp is */
} Output;

typedef struct {
  gpointer stream;                /* of an event: by its address, without a reference */
  GstEvent *event;                /* a reference; NULL for the notice that the stream was removed */
  GstBuffer *batch;               /* a reference, where the output has no pad */
  gint32 flow;                    /* what downstream returned to the last batch, or GST_FLOW_ERROR for none made */
} Step;

gint sluice_collector_run(Collector *collector, const Output *output, Step *step, char *error, gsize room);

/* Adds one frame to a batch's metadata, with all that it brings along. */
static void add_frame(const Output *output, gpointer batch, const SluiceFrameRow *row, Capture capture,
                      GstBuffer *buffer, guint place) {
  const SluiceProvider *provider = output->provider;
  gpointer frame = provider->acquire_frame(batch);
  gpointer carried = sluice_carried_frame(provider, buffer);
  if (carried != NULL) sluice_carry_frame(provider, carried, frame);
  sluice_set_frame(provider, frame, row, place);
  if (capture != CAPTURE_UNTOLD || carried != NULL)
    sluice_tell_capture(provider, batch, frame, capture, output->capture_type);
  provider->add_frame(batch, frame);
}

/* Describes the frames in new metadata of the batch. */
static gboolean add_metadata(GstBuffer *batch, const Output *output, const SluiceFrameRow *rows, const Capture *captures,
                             const RawFrame *frames, guint n, char *error, gsize room) {
  const SluiceProvider *provider = output->provider;
  gpointer meta = provider->create_batch(output->capacity);
  FIELD(provider, meta, BATCH_MAX_FRAMES, guint32) = output->capacity; /* copies need it */
  provider->lock(meta);
  for (guint i = 0; i < n; i++) add_frame(output, meta, &rows[i], captures[i], frames[i].buffer, i);
  provider->unlock(meta);
  gpointer attached = provider->add_meta(batch, meta, NULL, FIELD(provider, meta, BASE_COPY, gpointer),
                                         FIELD(provider, meta, BASE_RELEASE, gpointer));
  if (attached == NULL) {
    provider->destroy_batch(meta);
    return FAIL("GStreamer refused the metadata of a batch");
  }
  FIELD(provider, attached, META_TYPE, gint32) = output->meta_type;
  return TRUE;
}

/* A batch of the frames that were taken; NULL, with the reason, where they make none. Its PTS is their largest running
 * time, or LEAST_STEP more than the last batch's: encoders give pictures of the same time none, which muxers of files
 * refuse, and files count in ticks of some microseconds. */
static GstBuffer *make_batch(Collector *collector, const GQueue *taken, const Output *output, char *error,
                             gsize room) {
  g_autofree RawFrame *frames = g_new(RawFrame, taken->length);
  g_autofree SluiceFrameRow *rows = g_new(SluiceFrameRow, taken->length);
  g_autofree Capture *captures = g_new(Capture, taken->length);
  GstBuffer *batch = gst_buffer_new();
  guint n = 0;
  for (const GList *link = taken->head; link != NULL; link = link->next, n++) {
    const Waiting *frame = link->data;
    frames[n] = frame->format->is.raw;
    frames[n].buffer = GST_BUFFER_CAST(frame->object);
    rows[n] = frame->row;
    captures[n] = frame->capture;
    collector->next_pts = MAX(collector->next_pts, (guint64)frame->running_time);
  }
  GST_BUFFER_PTS(batch) = collector->next_pts;
  collector->next_pts += LEAST_STEP;
  if (!sluice_batch_frames(batch, frames, n, output->capacity, error, room) ||
      !add_metadata(batch, output, rows, captures, frames, n, error, room))
    gst_clear_buffer(&batch);
  return batch;
}

/* Waits for an event or for frames, and makes the batch of those; `*kind` is BATCH too where they make none. */
static GstBuffer *next_batch(Collector *collector, const Output *output, Step *step, StepKind *kind, char *error,
                             gsize room) {
  GQueue taken = G_QUEUE_INIT;
  Stream *of = NULL;
  g_mutex_lock(&collector->lock);
  *kind = collector_wait(collector, &of, &step->event, &taken);
  gboolean refused = collector->flow != GST_FLOW_OK;
  g_mutex_unlock(&collector->lock);
  step->stream = of;
  if (of != NULL) sluice_stream_unref(of);
  if (*kind != BATCH) return NULL;
  step->flow = GST_FLOW_OK;
  GstBuffer *batch = NULL;
  if (!refused && (batch = make_batch(collector, &taken, output, error, room)) == NULL) step->flow = GST_FLOW_ERROR;
  /* Before the batch is pushed, so that it alone holds the frames. */
  collector_let_go(collector, &taken, batch == NULL);
  return batch;
}

/* Makes batches and pushes them until there is something for the caller: an event, a refusal, a failure, the end. What
 * downstream returns is what the streams get from then on. */
gint sluice_collector_run(Collector *collector, const Output *output, Step *step, char *error, gsize room) {
  StepKind kind;
  *step = (Step){0};
  do {
    GstBuffer *batch = next_batch(collector, output, step, &kind, error, room);
    if (batch != NULL && output->pad == NULL) {
      step->batch = batch;
      return kind;
    }
    if (batch != NULL) step->flow = gst_pad_push(output->pad, batch);
  } while (kind == BATCH && step->flow == GST_FLOW_OK);
  if (kind == BATCH) sluice_collector_set_flow(collector, step->flow);
  return kind;
}
