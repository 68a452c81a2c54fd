/* What the files of the mux's frame collection share. Mirrored, where Python reads it, by contract/_collect.py.
 *
 * A collector has streams; a stream has a bounded queue of buffers and of the events between them. The streams' threads
 * put, one thread collects. Everything is under the collector's lock, which is never held while a buffer or an event is
 * let go, a message posted or a clock read: each may end in code that waits for Python's interpreter. */
#ifndef SLUICE_COLLECT_H
#define SLUICE_COLLECT_H

#include "capture.h"
#include "frame_row.h"
#include "surface.h"

/* Times are in nanoseconds, -1 for none. */
typedef struct {
  gint64 timeout;             /* after which a waiting frame leaves in a batch that is not full; -1: never */
  gint64 early, late;         /* of synchronised inputs: how long before and after its time a frame takes part */
  guint32 batch_size;         /* the most frames of a batch */
  guint32 max_same_source;    /* the most frames of one stream in one batch */
  guint32 queue_size;         /* frames of one stream that may wait before its thread does */
  guint32 synchronised;       /* whether `early` and `late` count */
  guint32 wall_clock;         /* whether ntp_timestamp is this machine's time, not the sender's */
} CollectSettings;

typedef struct {
  guint64 frames_in, frames_out, discarded, late, refused, untimed, replaced;
} StreamCounts;

/* What is the same for all frames of a stream until its next caps. */
typedef struct {
  RawFrame raw;               /* buffer is NULL; info is NULL for NvBufSurfaces */
  guint64 duration;           /* of a frame that has none itself */
  guint32 source_id;
  guint32 width, height;
  guint32 pipeline_width, pipeline_height;
} StreamFormat;

typedef struct {
  gint references;
  StreamFormat is;            /* is.raw.info points to the copy below */
  GstVideoInfo info;
} Format;

typedef struct Collector Collector;

typedef struct {
  gint references;
  guint number;
  Collector *collector;
  GCond room;
  GQueue queue;               /* of Waiting */
  guint frames;               /* how many of them are frames */
  gboolean ended, flushing, removed;
  gboolean absent;            /* no frames are to be expected for now; until one comes */
  Capture capture;            /* what ntp_timestamp is, and is said to be; untold: as the settings say */
  gboolean freshest;          /* a frame that waits gives way to a newer one */
  StreamCounts counts;
  Format *format;             /* of the frames that come now; NULL before the first caps */
  GstSegment segment;
  guint64 next_pts;           /* for a frame that has none */
  guint64 running_time;       /* of the last frame */
  guint64 reached;            /* the running time at which the last frame that left ends */
  guint64 shift;              /* of running times, since the last flush */
  gboolean flushed;           /* since the last frame */
  gboolean moved;             /* by the shift, and nobody was told yet */
  guint64 next_number;
} Stream;

/* One frame or one event of a queue. */
typedef struct {
  GstMiniObject *object;
  Stream *stream;             /* a reference once it is taken from the queue */
  Format *format;             /* of frames only */
  gint64 arrival, running_time;
  Capture capture;            /* what is said of the row's ntp_timestamp */
  SluiceFrameRow row;
} Waiting;

struct Collector {
  gint references;            /* of the streams, and one of whoever made it */
  GMutex lock;
  GCond changed;              /* for the thread that collects */
  CollectSettings settings;
  GPtrArray *streams;         /* in the order of their numbers, with a reference each */
  GQueue notices;             /* streams that were removed, with a reference each */
  gint64 last;                /* the number of the stream that was taken from last, -1 before */
  gint64 missing;             /* what the collecting thread waits for: so many more frames, */
  gboolean has_deadline;      /* and whether it looks again by itself before */
  gboolean stopped;
  gint flow;                  /* what downstream returned last */
  gboolean clock_known;
  gint64 clock_offset;        /* running time less monotonic time */
  gboolean clock_held;        /* by a test, at these times */
  gint64 held_now, held_running_time;
  guint64 batches;            /* that were made */
  guint64 next_pts;           /* the least that the next batch's may be; the collecting thread's */
};

typedef enum { STOPPED, EVENT, BATCH } StepKind;

/* The streams in the order of their numbers. */
static inline Stream *collector_nth(const Collector *collector, guint index) {
  return g_ptr_array_index(collector->streams, index);
}

G_GNUC_INTERNAL void waiting_free(gpointer waiting);
G_GNUC_INTERNAL void waiting_free_all(GQueue *queue);
G_GNUC_INTERNAL void format_unref(Format *format);
G_GNUC_INTERNAL Stream *stream_new(Collector *collector, guint number);
G_GNUC_INTERNAL void stream_begin(Stream *stream);
G_GNUC_INTERNAL void stream_leave_segment(Stream *stream);
G_GNUC_INTERNAL gboolean stream_refuses(const Stream *stream);
G_GNUC_INTERNAL void stream_discard(Stream *stream, gboolean keep_caps, GQueue *garbage);
G_GNUC_INTERNAL void stream_make_way(Stream *stream, guint keep, GQueue *garbage);
G_GNUC_INTERNAL gint64 collector_now(const Collector *collector);
G_GNUC_INTERNAL void collector_put(Waiting *waiting);
G_GNUC_INTERNAL void collector_read_clock(Collector *collector, GstElement *element);
G_GNUC_INTERNAL StepKind collector_wait(Collector *collector, Stream **of, GstEvent **event, GQueue *taken);
G_GNUC_INTERNAL void collector_let_go(Collector *collector, GQueue *taken, gboolean refused);

Collector *sluice_collector_ref(Collector *collector);
void sluice_collector_unref(Collector *collector);
Stream *sluice_stream_ref(Stream *stream);
void sluice_stream_unref(Stream *stream);
void sluice_collector_set_flow(Collector *collector, gint flow);
GstFlowReturn sluice_stream_put(Stream *stream, GstElement *element, GstBuffer *buffer);

#endif
