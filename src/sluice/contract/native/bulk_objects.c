/* The objects of frames, one frame or all of a batch, read in one call; what a tracker says of them written in one.
 *
 * As in bulk.c everything is checked before anything is changed.
 */
#include "provider.h"

#include <math.h>
#include <string.h>

/* One object as it is read; the numpy dtype of bulk.py has the same fields. */
typedef struct
{
  guint64 address;
  guint64 parent;
  guint64 object_id;
  gint32 class_id;
  gint32 unique_component_id;
  gfloat confidence;
  gfloat tracker_confidence;
  gfloat box[4];
  gfloat rotation;
  gfloat detector_box[4];
  gfloat tracker_box[4];
  gchar label[NVDS_MAX_LABEL_SIZE];
} SluiceObjectRow;

G_STATIC_ASSERT (sizeof (SluiceObjectRow) == 224);

static void
read_object (const SluiceProvider *provider, gpointer object, SluiceObjectRow *row)
{
  row->address = GPOINTER_TO_SIZE (object);
  row->parent = FIELD (provider, object, OBJECT_PARENT, guint64);
  row->object_id = FIELD (provider, object, OBJECT_ID, guint64);
  row->class_id = FIELD (provider, object, OBJECT_CLASS, gint32);
  row->unique_component_id = FIELD (provider, object, OBJECT_COMPONENT, gint32);
  row->confidence = FIELD (provider, object, OBJECT_CONFIDENCE, gfloat);
  row->tracker_confidence = FIELD (provider, object, OBJECT_TRACKER_CONFIDENCE, gfloat);
  memcpy (row->box, &FIELD (provider, object, RECT_BOX, gfloat), sizeof row->box);
  row->rotation = FIELD (provider, object, RECT_ROTATION, gfloat);
  memcpy (row->detector_box, &FIELD (provider, object, OBJECT_DETECTOR_BOX, gfloat), sizeof row->detector_box);
  memcpy (row->tracker_box, &FIELD (provider, object, OBJECT_TRACKER_BOX, gfloat), sizeof row->tracker_box);
  memcpy (row->label, &FIELD (provider, object, OBJECT_LABEL, gchar), sizeof row->label);
}

/* Read the objects of a frame in list order. Returns how many there are; rows beyond `capacity` are not written. */
SLUICE_EXPORT gint64
sluice_read_objects (const SluiceProvider *provider, gpointer frame, SluiceObjectRow *rows, guint capacity,
    gboolean wait)
{
  gpointer batch = FIELD (provider, frame, BASE_BATCH, gpointer);
  if (!sluice_enter (provider, batch, wait))
    return SLUICE_BUSY;
  guint count = 0;
  for (GList *link = FIELD (provider, frame, FRAME_OBJECTS, GList *); link != NULL; link = link->next, count++) {
    if (count < capacity)
      read_object (provider, link->data, &rows[count]);
  }
  provider->unlock (batch);
  return count;
}

/* One frame as it is read with its objects; the numpy dtype of _rows.py has the same fields. */
typedef struct
{
  guint64 address;
  guint64 buf_pts;
  guint32 pad_index;
  guint32 batch_id;
  guint32 surface_type;
  guint32 objects;
  gint32 frame_num;
  gint32 infer_done;
} SluiceFrameInfo;

G_STATIC_ASSERT (sizeof (SluiceFrameInfo) == 40);

/* Read the frames of a batch in list order, and the objects of all of them one frame after the other. Returns how many
 * objects there are; rows beyond `row_room` and frames beyond `frame_room` are not written. */
SLUICE_EXPORT gint64
sluice_read_batch (const SluiceProvider *provider, gpointer batch, SluiceFrameInfo *frames, guint frame_room,
    SluiceObjectRow *rows, guint row_room, gboolean wait)
{
  if (!sluice_enter (provider, batch, wait))
    return SLUICE_BUSY;
  guint count = 0, place = 0;
  for (GList *link = FIELD (provider, batch, BATCH_FRAME_LIST, GList *); link != NULL && place < frame_room;
      link = link->next, place++) {
    gpointer frame = link->data;
    guint before = count;
    for (GList *each = FIELD (provider, frame, FRAME_OBJECTS, GList *); each != NULL; each = each->next, count++) {
      if (count < row_room)
        read_object (provider, each->data, &rows[count]);
    }
    frames[place] = (SluiceFrameInfo) {
      .address = GPOINTER_TO_SIZE (frame),
      .buf_pts = FIELD (provider, frame, FRAME_PTS, guint64),
      .pad_index = FIELD (provider, frame, FRAME_PAD, guint),
      .batch_id = FIELD (provider, frame, FRAME_BATCH_ID, guint),
      .surface_type = FIELD (provider, frame, FRAME_SURFACE_TYPE, guint),
      .objects = count - before,
      .frame_num = FIELD (provider, frame, FRAME_NUMBER, gint),
      .infer_done = FIELD (provider, frame, FRAME_INFER_DONE, gint),
    };
  }
  provider->unlock (batch);
  return count;
}

/* A tracker's results for objects that are on the frame. */
typedef struct
{
  guint count;
  const guint64 *addresses;
  const guint64 *object_ids;
  const gfloat *boxes;          /* clipped to the surface: what downstream uses */
  const gfloat *tracker_boxes;  /* as the tracker has them */
  const gfloat *confidences;
  gboolean show_ids;            /* append the id to the text */
} SluiceTrackedRows;

static void
append_id (const SluiceProvider *provider, gpointer object, guint64 id)
{
  gchar **text = &FIELD (provider, object, TEXT_DISPLAY, gchar *);
  gboolean empty = *text == NULL || **text == '\0';
  gchar *joined = g_strdup_printf ("%s%s%" G_GUINT64_FORMAT, empty ? "" : *text, empty ? "" : " ", id);
  joined[sluice_fitting (joined, NVDS_MAX_LABEL_SIZE - 1)] = '\0';
  g_free (*text);
  *text = joined;
}

static gint64
check_tracked (const SluiceTrackedRows *rows)
{
  for (guint i = 0; i < rows->count; i++) {
    gint64 fault = sluice_check_box (rows->boxes + 4 * i, i);
    if (fault != 0)
      return fault;
    if (!sluice_all_finite (rows->tracker_boxes + 4 * i, 4))
      return SLUICE_FAULT (FAULT_TRACKER_BOX, i);
    if (!isfinite (rows->confidences[i]))
      return SLUICE_FAULT (FAULT_TRACKER_CONFIDENCE, i);
  }
  return 0;
}

/* Write `count` of the rows, from `first` on, into objects of a frame. */
static void
update_frame (const SluiceProvider *provider, const SluiceTrackedRows *rows, guint first, guint count)
{
  for (guint i = first; i < first + count; i++) {
    gpointer object = GSIZE_TO_POINTER (rows->addresses[i]);
    const gfloat *box = rows->boxes + 4 * i;
    FIELD (provider, object, OBJECT_ID, guint64) = rows->object_ids[i];
    memcpy (&FIELD (provider, object, RECT_BOX, gfloat), box, sizeof (NvBbox));
    memcpy (&FIELD (provider, object, OBJECT_TRACKER_BOX, NvBbox), rows->tracker_boxes + 4 * i, sizeof (NvBbox));
    FIELD (provider, object, OBJECT_TRACKER_CONFIDENCE, gfloat) = rows->confidences[i];
    sluice_place_text (provider, object, box, 20, 10);
    if (rows->show_ids)
      append_id (provider, object, rows->object_ids[i]);
  }
}

/* Write a tracker's results into objects of several frames of a batch: `counts[i]` rows belong to frame i. */
SLUICE_EXPORT gint64
sluice_update_tracked (const SluiceProvider *provider, const guint64 *frames, const guint32 *counts, guint n_frames,
    const SluiceTrackedRows *rows, gboolean wait)
{
  gint64 fault = check_tracked (rows);
  if (fault != 0 || n_frames == 0)
    return fault;
  gpointer batch = FIELD (provider, GSIZE_TO_POINTER (frames[0]), BASE_BATCH, gpointer);
  if (!sluice_enter (provider, batch, wait))
    return SLUICE_BUSY;
  for (guint i = 0, first = 0; fault == 0 && i < n_frames; first += counts[i++]) {
    GList *objects = FIELD (provider, GSIZE_TO_POINTER (frames[i]), FRAME_OBJECTS, GList *);
    fault = sluice_check_addresses (objects, rows->addresses + first, counts[i], FALSE, FAULT_ADDRESS);
  }
  for (guint i = 0, first = 0; fault == 0 && i < n_frames; first += counts[i++])
    update_frame (provider, rows, first, counts[i]);
  provider->unlock (batch);
  return fault != 0 ? fault : (gint64) rows->count;
}

/* Remove objects from a frame. Objects that had one of them as parent get none, where NVIDIA's leaves the pointer. */
static void
remove_from (const SluiceProvider *provider, gpointer frame, const guint64 *addresses, guint count)
{
  GHashTable *removed = g_hash_table_new (NULL, NULL);
  for (guint i = 0; i < count; i++) {
    gpointer object = GSIZE_TO_POINTER (addresses[i]);
    if (g_hash_table_add (removed, object))
      provider->remove_object (frame, object);
  }
  for (GList *link = FIELD (provider, frame, FRAME_OBJECTS, GList *); link != NULL; link = link->next) {
    gpointer *parent = &FIELD (provider, link->data, OBJECT_PARENT, gpointer);
    if (*parent != NULL && g_hash_table_contains (removed, *parent))
      *parent = NULL;
  }
  g_hash_table_destroy (removed);
}

/* Whether an object has user data, whose release is somebody else's code. */
static gboolean
any_has_users (const SluiceProvider *provider, const guint64 *addresses, guint count)
{
  for (guint i = 0; i < count; i++) {
    if (FIELD (provider, GSIZE_TO_POINTER (addresses[i]), OBJECT_USERS, GList *) != NULL)
      return TRUE;
  }
  return FALSE;
}

/* Remove objects from several frames of a batch: `counts[i]` addresses are of objects of frame i. Without `wait` also
 * objects with user data make it return SLUICE_BUSY, as their release may wait for anything. */
SLUICE_EXPORT gint64
sluice_remove_objects (const SluiceProvider *provider, const guint64 *frames, const guint32 *counts, guint n_frames,
    const guint64 *addresses, gboolean wait)
{
  if (n_frames == 0)
    return 0;
  gpointer batch = FIELD (provider, GSIZE_TO_POINTER (frames[0]), BASE_BATCH, gpointer);
  gint64 fault = 0;
  guint total = 0;
  if (!sluice_enter (provider, batch, wait))
    return SLUICE_BUSY;
  for (guint i = 0; fault == 0 && i < n_frames; total += counts[i++]) {
    GList *objects = FIELD (provider, GSIZE_TO_POINTER (frames[i]), FRAME_OBJECTS, GList *);
    fault = sluice_check_addresses (objects, addresses + total, counts[i], FALSE, FAULT_ADDRESS);
  }
  if (fault == 0 && !wait && any_has_users (provider, addresses, total)) {
    provider->unlock (batch);
    return SLUICE_BUSY;
  }
  for (guint i = 0, first = 0; fault == 0 && i < n_frames; first += counts[i++]) {
    if (counts[i] > 0)
      remove_from (provider, GSIZE_TO_POINTER (frames[i]), addresses + first, counts[i]);
  }
  provider->unlock (batch);
  return fault != 0 ? fault : (gint64) total;
}

void
sluice_set_frame (const SluiceProvider *provider, gpointer frame, const SluiceFrameRow *row, guint batch_id)
{
  FIELD (provider, frame, FRAME_PAD, guint) = row->pad_index;
  FIELD (provider, frame, FRAME_SOURCE, guint) = row->source_id;
  FIELD (provider, frame, FRAME_BATCH_ID, guint) = batch_id;
  FIELD (provider, frame, FRAME_NUMBER, gint) = row->frame_num;
  FIELD (provider, frame, FRAME_PTS, guint64) = row->buf_pts;
  FIELD (provider, frame, FRAME_NTP, guint64) = row->ntp_timestamp;
  FIELD (provider, frame, FRAME_SURFACES, gint) = 1;
  FIELD (provider, frame, FRAME_SOURCE_WIDTH, guint) = row->source_width;
  FIELD (provider, frame, FRAME_SOURCE_HEIGHT, guint) = row->source_height;
  FIELD (provider, frame, FRAME_PIPELINE_WIDTH, guint) = row->pipeline_width;
  FIELD (provider, frame, FRAME_PIPELINE_HEIGHT, guint) = row->pipeline_height;
}
