/* How long frames are in each element, and how old they are when they leave it, per stream; from the frame metadata that
 * pass the pads, without the GIL.
 *
 * A frame is known again by its stream (pad_index) and number. Its age counts from its ntp_timestamp, which is the
 * capture where the sender told it, else the arrival at the muxer. Streams are forgotten with nv-pad-deleted. With
 * NVDS_ENABLE_LATENCY_MEASUREMENT in the environment the batches also carry NvDsMetaCompLatency, as DeepStream's do. */
#include "latency.h"
#include "provider.h"

#include <stdlib.h>
#include <string.h>

#define IN_FLIGHT 64          /* frames of one stream that may be in one element and are measured */
#define MOST_STREAMS 4096     /* per element; more are not measured */
#define PAD_DELETED 0x1911e   /* GstEventType of nv-pad-deleted */
#define AHEAD (10 * GST_SECOND) /* a sender's clock may be so much ahead of this machine's */
#define COMPONENT_NAME 64
#define LATENCY_META 11       /* NVDS_LATENCY_MEASUREMENT_META */

/* NvDsMetaCompLatency of nvds_latency_meta.h. */
typedef struct {
  gchar component_name[COMPONENT_NAME];
  gdouble in_system_timestamp, out_system_timestamp; /* ms */
  guint source_id, frame_num, pad_index;
  gdouble sub_comp_latencies[160]; /* 16 of 80 bytes */
  guint num_sub_comps;
} CompLatency;

G_STATIC_ASSERT(sizeof(CompLatency) == 1384);
G_STATIC_ASSERT(G_STRUCT_OFFSET(CompLatency, num_sub_comps) == 1376);

typedef struct {
  gint number[IN_FLIGHT];
  gint64 entered[IN_FLIGHT]; /* 0: not in the element */
  guint next;
  SluiceHistogram *inside, *age; /* NULL before the first */
} StreamTimes;

typedef struct {
  GMutex lock;
  gchar name[COMPONENT_NAME];
  GHashTable *streams; /* pad_index to StreamTimes */
  guint64 batches, frames;
  gboolean muxer; /* in front of which frames have no metadata */
} Point;

/* Mirrored by contract/latency.py. */
typedef struct {
  guint point, stream;
  guint kind; /* 0: time in the element; 1: age when leaving it */
  guint reserved;
  SluiceDistribution is;
} SluiceLatencyRow;

typedef struct {
  const SluiceProvider *provider; /* of the process, which stays */
  gint batch_type;
  gboolean attach;
  GMutex lock; /* of `points` */
  GPtrArray *points;
  GType api;
} Latency;

typedef struct {
  Latency *latency;
  Point *point;
  gboolean leaving;
} Watch;

SLUICE_EXPORT gpointer sluice_latency_new(const SluiceProvider *provider, gint batch_type);
SLUICE_EXPORT void sluice_latency_release(gpointer latency);
SLUICE_EXPORT guint sluice_latency_watch(Latency *latency, const gchar *name, GstPad *in, GstPad *out,
                                         gboolean muxer);
SLUICE_EXPORT void sluice_latency_forget(Latency *latency, guint stream);
SLUICE_EXPORT guint sluice_latency_read(Latency *latency, SluiceLatencyRow *rows, guint capacity);
SLUICE_EXPORT void sluice_latency_read_batches(Latency *latency, guint point, guint64 *batches, guint64 *frames);

/* ---- lifetimes ---- */

static void times_free(gpointer data) {
  StreamTimes *times = data;
  g_free(times->inside);
  g_free(times->age);
  g_free(times);
}

static void point_free(gpointer data) {
  Point *point = data;
  g_hash_table_unref(point->streams);
  g_mutex_clear(&point->lock);
  g_free(point);
}

static void latency_clear(gpointer data) {
  Latency *latency = data;
  g_ptr_array_unref(latency->points);
  g_mutex_clear(&latency->lock);
}

void sluice_latency_release(gpointer latency) { g_atomic_rc_box_release_full(latency, latency_clear); }

static void watch_free(gpointer data) {
  sluice_latency_release(((Watch *)data)->latency);
  g_free(data);
}

/* ---- clocks ---- */

static gint64 now_ns(void) { return g_get_monotonic_time() * 1000; }

static gdouble wall_ms(void) { return (gdouble)g_get_real_time() / 1000.0; }

/* ---- DeepStream's own record ---- */

static gpointer comp_copy(gpointer user_meta, gpointer user_data) {
  (void)user_data;
  return g_memdup2(((NvDsUserMeta *)user_meta)->user_meta_data, sizeof(CompLatency));
}

static void comp_release(gpointer user_meta, gpointer user_data) {
  (void)user_data;
  g_free(((NvDsUserMeta *)user_meta)->user_meta_data);
  ((NvDsUserMeta *)user_meta)->user_meta_data = NULL;
}

static CompLatency *comp_add(const Latency *latency, gpointer batch, const gchar *prefix, const gchar *name) {
  const SluiceProvider *provider = latency->provider;
  CompLatency *comp = g_new0(CompLatency, 1);
  g_snprintf(comp->component_name, sizeof comp->component_name, "%s%s", prefix, name);
  comp->in_system_timestamp = wall_ms();
  NvDsUserMeta *user = provider->acquire_user(batch);
  user->base_meta.meta_type = LATENCY_META;
  user->base_meta.uContext = NULL;
  user->base_meta.copy_func = comp_copy;
  user->base_meta.release_func = comp_release;
  user->user_meta_data = comp;
  provider->add_user_to_batch(batch, user);
  return comp;
}

/* Notes when a batch leaves an element, in what was added as it came: found by name, which a copied batch keeps. */
static void comp_leave(const Latency *latency, gpointer batch, const gchar *name) {
  for (GList *link = FIELD(latency->provider, batch, BATCH_USERS, GList *); link != NULL; link = link->next) {
    NvDsUserMeta *user = link->data;
    CompLatency *comp = user->user_meta_data;
    if (user->base_meta.meta_type == LATENCY_META && comp != NULL && comp->out_system_timestamp == 0 &&
        strncmp(comp->component_name, name, COMPONENT_NAME) == 0)
      comp->out_system_timestamp = wall_ms();
  }
}

/* The muxer's, one per frame; in since the frame's arrival where that is what ntp_timestamp says. */
static void comp_of_frame(const Latency *latency, gpointer batch, gpointer frame, const gchar *name) {
  const SluiceProvider *provider = latency->provider;
  CompLatency *comp = comp_add(latency, batch, "nvstreammux-", name);
  guint64 ntp = FIELD(provider, frame, FRAME_NTP, guint64);
  comp->source_id = FIELD(provider, frame, FRAME_SOURCE, guint);
  comp->pad_index = FIELD(provider, frame, FRAME_PAD, guint);
  comp->frame_num = (guint)FIELD(provider, frame, FRAME_NUMBER, gint);
  comp->out_system_timestamp = comp->in_system_timestamp;
  if (ntp != 0 && (gdouble)ntp / 1e6 < comp->in_system_timestamp) comp->in_system_timestamp = (gdouble)ntp / 1e6;
}

static void attach_comps(const Latency *latency, const Point *point, gpointer batch, gboolean leaving) {
  const SluiceProvider *provider = latency->provider;
  sluice_enter(provider, batch, TRUE);
  if (leaving && !point->muxer) comp_leave(latency, batch, point->name);
  else if (!leaving) comp_add(latency, batch, "", point->name);
  else
    for (GList *link = FIELD(provider, batch, BATCH_FRAME_LIST, GList *); link != NULL; link = link->next)
      comp_of_frame(latency, batch, link->data, point->name);
  provider->unlock(batch);
}

/* ---- our own measurement ---- */

static StreamTimes *times_of(Point *point, guint stream) {
  StreamTimes *times = g_hash_table_lookup(point->streams, GUINT_TO_POINTER(stream));
  if (times != NULL || g_hash_table_size(point->streams) >= MOST_STREAMS) return times;
  times = g_new0(StreamTimes, 1);
  g_hash_table_insert(point->streams, GUINT_TO_POINTER(stream), times);
  return times;
}

static void frame_enters(StreamTimes *times, gint number, gint64 now) {
  guint slot = times->next++ % IN_FLIGHT;
  times->number[slot] = number;
  times->entered[slot] = now;
}

static void note(SluiceHistogram **histogram, guint64 value, gint64 now) {
  if (*histogram == NULL) *histogram = histogram_new();
  histogram_add(*histogram, value, now);
}

/* Frames mostly leave in the order they came in, so the search begins with the oldest. */
static void frame_leaves(StreamTimes *times, gint number, guint64 ntp, guint64 wall, gint64 now) {
  for (guint i = 0; i < IN_FLIGHT; i++) {
    guint slot = (times->next + i) % IN_FLIGHT;
    if (times->entered[slot] == 0 || times->number[slot] != number) continue;
    note(&times->inside, (guint64)MAX(0, now - times->entered[slot]), now);
    times->entered[slot] = 0;
    break;
  }
  if (ntp != 0 && ntp < wall + AHEAD) note(&times->age, wall > ntp ? wall - ntp : 0, now);
}

static void take_batch(const Latency *latency, Point *point, gpointer batch, gboolean leaving) {
  const SluiceProvider *provider = latency->provider;
  gint64 now = now_ns();
  guint64 wall = (guint64)g_get_real_time() * 1000;
  g_mutex_lock(&point->lock);
  point->batches += leaving;
  for (GList *link = FIELD(provider, batch, BATCH_FRAME_LIST, GList *); link != NULL; link = link->next) {
    StreamTimes *times = times_of(point, FIELD(provider, link->data, FRAME_PAD, guint));
    gint number = FIELD(provider, link->data, FRAME_NUMBER, gint);
    point->frames += leaving;
    if (times == NULL) continue;
    if (!leaving) frame_enters(times, number, now);
    else frame_leaves(times, number, FIELD(provider, link->data, FRAME_NTP, guint64), wall, now);
  }
  g_mutex_unlock(&point->lock);
}

static gpointer batch_on(const Latency *latency, GstBuffer *buffer) {
  gpointer state = NULL, found = NULL;
  GstMeta *meta;
  while ((meta = gst_buffer_iterate_meta_filtered(buffer, &state, latency->api)) != NULL)
    if (FIELD(latency->provider, meta, META_TYPE, gint) == latency->batch_type)
      found = FIELD(latency->provider, meta, META_DATA, gpointer);
  return found;
}

static void point_forget(Point *point, guint stream) {
  g_mutex_lock(&point->lock);
  g_hash_table_remove(point->streams, GUINT_TO_POINTER(stream));
  g_mutex_unlock(&point->lock);
}

static GstPadProbeReturn latency_probe(GstPad *pad, GstPadProbeInfo *info, gpointer data) {
  const Watch *watch = data;
  guint stream;
  (void)pad;
  if (info->type & GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM) {
    GstEvent *event = GST_PAD_PROBE_INFO_EVENT(info);
    if ((guint)GST_EVENT_TYPE(event) == PAD_DELETED && watch->leaving &&
        gst_structure_get_uint(gst_event_get_structure(event), "source-id", &stream))
      point_forget(watch->point, stream);
    return GST_PAD_PROBE_OK;
  }
  gpointer batch = batch_on(watch->latency, GST_PAD_PROBE_INFO_BUFFER(info));
  if (batch == NULL) return GST_PAD_PROBE_OK;
  take_batch(watch->latency, watch->point, batch, watch->leaving);
  if (watch->latency->attach) attach_comps(watch->latency, watch->point, batch, watch->leaving);
  return GST_PAD_PROBE_OK;
}

/* ---- for Python ---- */

/* A set of points of measurement. `provider` is the process's; `batch_type` is NVDS_BATCH_GST_META. */
gpointer sluice_latency_new(const SluiceProvider *provider, gint batch_type) {
  Latency *latency = g_atomic_rc_box_new0(Latency);
  latency->provider = provider;
  latency->batch_type = batch_type;
  latency->attach = getenv("NVDS_ENABLE_LATENCY_MEASUREMENT") != NULL; /* whatever its value, as in DeepStream */
  latency->api = g_type_from_name("NvDsMetaAPI");
  latency->points = g_ptr_array_new_with_free_func(point_free);
  g_mutex_init(&latency->lock);
  return latency;
}

static void add_watch(Latency *latency, Point *point, GstPad *pad, gboolean leaving) {
  Watch *watch = g_new(Watch, 1);
  *watch = (Watch){g_atomic_rc_box_acquire(latency), point, leaving};
  gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, latency_probe, watch,
                    watch_free);
}

/* Measures between two pads from now on, for as long as they live; without `in` only how old the frames are at `out`.
 * Returns the point's number. */
guint sluice_latency_watch(Latency *latency, const gchar *name, GstPad *in, GstPad *out, gboolean muxer) {
  Point *point = g_new0(Point, 1);
  g_mutex_init(&point->lock);
  g_strlcpy(point->name, name, sizeof point->name);
  point->streams = g_hash_table_new_full(NULL, NULL, NULL, times_free);
  point->muxer = muxer;
  g_mutex_lock(&latency->lock);
  g_ptr_array_add(latency->points, point);
  guint number = latency->points->len - 1;
  g_mutex_unlock(&latency->lock);
  if (in != NULL) add_watch(latency, point, in, FALSE);
  add_watch(latency, point, out, TRUE);
  return number;
}

/* Forgets a stream at every point. */
void sluice_latency_forget(Latency *latency, guint stream) {
  g_mutex_lock(&latency->lock);
  for (guint i = 0; i < latency->points->len; i++) point_forget(g_ptr_array_index(latency->points, i), stream);
  g_mutex_unlock(&latency->lock);
}

static guint read_one(const SluiceHistogram *histogram, guint point, guint stream, guint kind, SluiceLatencyRow *rows,
                      guint capacity, guint n) {
  if (histogram == NULL) return n;
  if (n < capacity) {
    rows[n] = (SluiceLatencyRow){.point = point, .stream = stream, .kind = kind};
    histogram_read(histogram, now_ns(), &rows[n].is);
  }
  return n + 1;
}

/* Fills rows with what there is of every point and stream; returns how many there are, which may be more. */
guint sluice_latency_read(Latency *latency, SluiceLatencyRow *rows, guint capacity) {
  guint n = 0;
  g_mutex_lock(&latency->lock);
  for (guint i = 0; i < latency->points->len; i++) {
    Point *point = g_ptr_array_index(latency->points, i);
    GHashTableIter each;
    gpointer stream, times;
    g_mutex_lock(&point->lock);
    g_hash_table_iter_init(&each, point->streams);
    while (g_hash_table_iter_next(&each, &stream, &times)) {
      n = read_one(((StreamTimes *)times)->inside, i, GPOINTER_TO_UINT(stream), 0, rows, capacity, n);
      n = read_one(((StreamTimes *)times)->age, i, GPOINTER_TO_UINT(stream), 1, rows, capacity, n);
    }
    g_mutex_unlock(&point->lock);
  }
  g_mutex_unlock(&latency->lock);
  return n;
}

/* How many batches, and frames in them, have left a point. */
void sluice_latency_read_batches(Latency *latency, guint point, guint64 *batches, guint64 *frames) {
  g_mutex_lock(&latency->lock);
  Point *found = g_ptr_array_index(latency->points, point);
  g_mutex_lock(&found->lock);
  *batches = found->batches;
  *frames = found->frames;
  g_mutex_unlock(&found->lock);
  g_mutex_unlock(&latency->lock);
}
