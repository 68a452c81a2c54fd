/* What an element wants to know of the frames of a batch, all at once; see contract/frame_rows.py. */
#include "provider.h"

#define NO_BATCH (-1)
#define REFUSED (-2)

/* Mirrored by contract/frame_rows.py. */
typedef struct {
  guint64 address;
  guint64 pts;
  guint64 ntp;
  guint32 batch_id;
  guint32 source_id;
  gint32 number;
  guint32 extras; /* 1: there are objects, 2: there are user metas */
} FrameRead;

void sluice_read_frames(const SluiceProvider *provider, const guint64 *frames, guint n, FrameRead *rows);
gint sluice_open_frames(const SluiceProvider *provider, GstBuffer *buffer, const SluiceFrameRow *single, gint meta_type,
                        FrameRead *rows, guint places);

static FrameRead read_frame(const SluiceProvider *provider, gpointer frame) {
  return (FrameRead){
      .address = GPOINTER_TO_SIZE(frame),
      .pts = FIELD(provider, frame, FRAME_PTS, guint64),
      .ntp = FIELD(provider, frame, FRAME_NTP, guint64),
      .batch_id = FIELD(provider, frame, FRAME_BATCH_ID, guint32),
      .source_id = FIELD(provider, frame, FRAME_SOURCE, guint32),
      .number = FIELD(provider, frame, FRAME_NUMBER, gint32),
      .extras = (FIELD(provider, frame, FRAME_OBJECTS, GList *) != NULL) |
                (FIELD(provider, frame, FRAME_USERS, GList *) != NULL) << 1,
  };
}

void sluice_read_frames(const SluiceProvider *provider, const guint64 *frames, guint n, FrameRead *rows) {
  for (guint i = 0; i < n; i++) rows[i] = read_frame(provider, GSIZE_TO_POINTER(frames[i]));
}

/* Gives a buffer that nobody batched the metadata of a batch of one; NULL where GStreamer refuses it. */
static gpointer attach_single(const SluiceProvider *provider, GstBuffer *buffer, const SluiceFrameRow *single,
                              gint meta_type) {
  gpointer batch = provider->create_batch(1);
  gpointer copy = FIELD(provider, batch, BASE_COPY, gpointer), release = FIELD(provider, batch, BASE_RELEASE, gpointer);
  SluiceFrameRow row = *single;
  row.buf_pts = GST_BUFFER_PTS(buffer);
  FIELD(provider, batch, BATCH_MAX_FRAMES, guint32) = 1; /* copies need it */
  sluice_fill_frames(provider, batch, &row, 1, NULL, TRUE);
  gpointer meta = provider->add_meta(buffer, batch, NULL, copy, release);
  if (meta == NULL) {
    provider->destroy_batch(batch);
    return NULL;
  }
  FIELD(provider, meta, META_TYPE, gint32) = meta_type;
  FIELD(provider, meta, META_COPY, gpointer) = copy;
  FIELD(provider, meta, META_RELEASE, gpointer) = release;
  return batch;
}

/* Reads the frames of the batch on a buffer, which gets one of a single frame where it has none and `single` is given.
 * Returns their number, of which at most `places` are written, or NO_BATCH, or REFUSED. */
gint sluice_open_frames(const SluiceProvider *provider, GstBuffer *buffer, const SluiceFrameRow *single, gint meta_type,
                        FrameRead *rows, guint places) {
  gpointer batch = provider->find_batch(buffer);
  if (batch == NULL) {
    if (single == NULL) return NO_BATCH;
    if ((batch = attach_single(provider, buffer, single, meta_type)) == NULL) return REFUSED;
  }
  guint n = 0;
  for (const GList *link = FIELD(provider, batch, BATCH_FRAME_LIST, GList *); link != NULL; link = link->next, n++)
    if (n < places) rows[n] = read_frame(provider, link->data);
  return (gint)n;
}
