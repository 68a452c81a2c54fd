/* Counts the objects that pass a pad, per stream and class, without the GIL and in bounded memory. */
#include "provider.h"

#include <string.h>

#define PAD_DELETED 0x1911e /* GstEventType of nv-pad-deleted */
#define MOST_STREAMS 4096
#define MOST_CLASSES 32     /* per stream by name; all others are one */
#define LABEL 64
#define OTHER "other"

typedef struct {
  gint class_id;
  guint64 count;
  gchar label[LABEL];
} ClassCount;

typedef struct {
  guint known;
  ClassCount classes[MOST_CLASSES];
  guint64 others;
} StreamObjects;

/* Mirrored by contract/object_counts.py. */
typedef struct {
  guint64 count;
  guint stream;
  gint class_id; /* -1 for the others */
  gchar label[LABEL];
} SluiceObjectCount;

typedef struct {
  GMutex lock;
  const SluiceProvider *provider;
  gint batch_type;
  GType api;
  GHashTable *streams;
} ObjectCounts;

SLUICE_EXPORT gpointer sluice_objects_watch(const SluiceProvider *provider, gint batch_type, GstPad *pad);
SLUICE_EXPORT void sluice_objects_release(gpointer counts);
SLUICE_EXPORT guint sluice_objects_read(ObjectCounts *counts, SluiceObjectCount *rows, guint capacity);

static void counts_clear(gpointer data) {
  ObjectCounts *counts = data;
  g_hash_table_unref(counts->streams);
  g_mutex_clear(&counts->lock);
}

void sluice_objects_release(gpointer counts) { g_atomic_rc_box_release_full(counts, counts_clear); }

static StreamObjects *objects_of(ObjectCounts *counts, guint stream) {
  StreamObjects *objects = g_hash_table_lookup(counts->streams, GUINT_TO_POINTER(stream));
  if (objects != NULL || g_hash_table_size(counts->streams) >= MOST_STREAMS) return objects;
  objects = g_new0(StreamObjects, 1);
  g_hash_table_insert(counts->streams, GUINT_TO_POINTER(stream), objects);
  return objects;
}

static void add_object(const SluiceProvider *provider, StreamObjects *objects, gpointer object) {
  gint class_id = FIELD(provider, object, OBJECT_CLASS, gint);
  for (guint i = 0; i < objects->known; i++)
    if (objects->classes[i].class_id == class_id) {
      objects->classes[i].count++;
      return;
    }
  if (objects->known == MOST_CLASSES) {
    objects->others++;
    return;
  }
  ClassCount *added = &objects->classes[objects->known++];
  added->class_id = class_id;
  added->count = 1;
  g_strlcpy(added->label, &FIELD(provider, object, OBJECT_LABEL, gchar), sizeof added->label);
}

static void add_frame(ObjectCounts *counts, gpointer frame) {
  const SluiceProvider *provider = counts->provider;
  GList *link = FIELD(provider, frame, FRAME_OBJECTS, GList *);
  StreamObjects *objects = link == NULL ? NULL : objects_of(counts, FIELD(provider, frame, FRAME_PAD, guint));
  for (; objects != NULL && link != NULL; link = link->next) add_object(provider, objects, link->data);
}

static void add_batch(ObjectCounts *counts, gpointer batch) {
  sluice_enter(counts->provider, batch, TRUE); /* a branch of a tee may write objects */
  g_mutex_lock(&counts->lock);
  for (GList *link = FIELD(counts->provider, batch, BATCH_FRAME_LIST, GList *); link != NULL; link = link->next)
    add_frame(counts, link->data);
  g_mutex_unlock(&counts->lock);
  counts->provider->unlock(batch);
}

static void take_event(ObjectCounts *counts, GstEvent *event) {
  guint stream;
  if ((guint)GST_EVENT_TYPE(event) != PAD_DELETED ||
      !gst_structure_get_uint(gst_event_get_structure(event), "source-id", &stream))
    return;
  g_mutex_lock(&counts->lock);
  g_hash_table_remove(counts->streams, GUINT_TO_POINTER(stream));
  g_mutex_unlock(&counts->lock);
}

static GstPadProbeReturn objects_probe(GstPad *pad, GstPadProbeInfo *info, gpointer data) {
  ObjectCounts *counts = data;
  gpointer state = NULL;
  GstMeta *meta;
  (void)pad;
  if (info->type & GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM) {
    take_event(counts, GST_PAD_PROBE_INFO_EVENT(info));
    return GST_PAD_PROBE_OK;
  }
  while ((meta = gst_buffer_iterate_meta_filtered(GST_PAD_PROBE_INFO_BUFFER(info), &state, counts->api)) != NULL)
    if (FIELD(counts->provider, meta, META_TYPE, gint) == counts->batch_type)
      add_batch(counts, FIELD(counts->provider, meta, META_DATA, gpointer));
  return GST_PAD_PROBE_OK;
}

/* Counts at a pad for as long as it lives; returns a reference, for sluice_objects_release(). */
gpointer sluice_objects_watch(const SluiceProvider *provider, gint batch_type, GstPad *pad) {
  ObjectCounts *counts = g_atomic_rc_box_new0(ObjectCounts);
  g_mutex_init(&counts->lock);
  counts->provider = provider;
  counts->batch_type = batch_type;
  counts->api = g_type_from_name("NvDsMetaAPI");
  counts->streams = g_hash_table_new_full(NULL, NULL, NULL, g_free);
  gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, objects_probe,
                    g_atomic_rc_box_acquire(counts), sluice_objects_release);
  return counts;
}

static guint add_row(SluiceObjectCount *rows, guint capacity, guint n, guint stream, gint class_id, guint64 count,
                     const gchar *label) {
  if (n < capacity) {
    rows[n] = (SluiceObjectCount){.count = count, .stream = stream, .class_id = class_id};
    g_strlcpy(rows[n].label, label, LABEL);
  }
  return n + 1;
}

/* Fills rows with what was counted; returns how many there are, which may be more. */
guint sluice_objects_read(ObjectCounts *counts, SluiceObjectCount *rows, guint capacity) {
  GHashTableIter each;
  gpointer key, value;
  guint n = 0;
  g_mutex_lock(&counts->lock);
  g_hash_table_iter_init(&each, counts->streams);
  while (g_hash_table_iter_next(&each, &key, &value)) {
    const StreamObjects *objects = value;
    for (guint i = 0; i < objects->known; i++)
      n = add_row(rows, capacity, n, GPOINTER_TO_UINT(key), objects->classes[i].class_id, objects->classes[i].count,
                  objects->classes[i].label);
    if (objects->others) n = add_row(rows, capacity, n, GPOINTER_TO_UINT(key), -1, objects->others, OTHER);
  }
  g_mutex_unlock(&counts->lock);
  return n;
}
