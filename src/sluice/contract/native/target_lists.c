/* Lists of a tracker's targets as user metadata: NVIDIA's NvDsTargetMiscDataBatch (nvds_tracker_meta.h), each in one
 * block of memory, so that copying and releasing needs nobody else. */
#include <string.h>

#include "provider.h"

typedef struct
{
  guint32 frameNum;
  guint64 tBbox[14];            /* NvOSD_RectParams */
  gfloat confidence;
  guint32 age;
  gint32 trackerState;
  gfloat visibility;
  gfloat ptWorldFeet[2];
} NvDsTargetMiscDataFrame;

G_STATIC_ASSERT (sizeof (NvDsTargetMiscDataFrame) == 144);
G_STATIC_ASSERT (G_STRUCT_OFFSET (NvDsTargetMiscDataFrame, confidence) == 120);

typedef struct
{
  NvDsTargetMiscDataFrame *list;
  guint32 numObj;
  guint32 numAllocated;
  guint64 uniqueId;
  guint16 classId;
  gchar objLabel[128];
} NvDsTargetMiscDataObject;

G_STATIC_ASSERT (sizeof (NvDsTargetMiscDataObject) == 160);

typedef struct
{
  NvDsTargetMiscDataObject *list;
  guint32 streamID;
  guint64 surfaceStreamID;
  guint32 numAllocated;
  guint32 numFilled;
} NvDsTargetMiscDataStream;

G_STATIC_ASSERT (sizeof (NvDsTargetMiscDataStream) == 32);

typedef struct
{
  NvDsTargetMiscDataStream *list;
  guint32 numAllocated;
  guint32 numFilled;
  gpointer priv_data;
} NvDsTargetMiscDataBatch;

G_STATIC_ASSERT (sizeof (NvDsTargetMiscDataBatch) == 24);

/* A copy of the lists in one block: the batch, its streams, their objects, their frames. */
SLUICE_EXPORT gpointer
sluice_target_lists_new (const NvDsTargetMiscDataBatch *source)
{
  gsize streams = source->numFilled, objects = 0, frames = 0;
  for (gsize i = 0; i < streams; i++) {
    const NvDsTargetMiscDataStream *stream = source->list + i;
    objects += stream->numFilled;
    for (gsize k = 0; k < stream->numFilled; k++)
      frames += stream->list[k].numObj;
  }
  NvDsTargetMiscDataBatch *batch = g_malloc0 (sizeof *batch + streams * sizeof (NvDsTargetMiscDataStream)
      + objects * sizeof (NvDsTargetMiscDataObject) + frames * sizeof (NvDsTargetMiscDataFrame));
  NvDsTargetMiscDataStream *stream = (gpointer) (batch + 1);
  NvDsTargetMiscDataObject *object = (gpointer) (stream + streams);
  NvDsTargetMiscDataFrame *frame = (gpointer) (object + objects);
  batch->list = streams > 0 ? stream : NULL;
  batch->numFilled = batch->numAllocated = source->numFilled;
  for (gsize i = 0; i < streams; i++, stream++) {
    *stream = source->list[i];
    stream->list = object;
    stream->numAllocated = stream->numFilled;
    for (gsize k = 0; k < stream->numFilled; k++, object++) {
      *object = source->list[i].list[k];
      if (object->numObj > 0)
        memcpy (frame, object->list, object->numObj * sizeof *frame);
      object->list = frame;
      object->numAllocated = object->numObj;
      frame += object->numObj;
    }
  }
  return batch;
}

/* The copy_func of the user meta: given the NvDsUserMeta, returns data for its copy. */
SLUICE_EXPORT gpointer
sluice_target_lists_copy (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  return sluice_target_lists_new (((NvDsUserMeta *) user_meta)->user_meta_data);
}

/* The release_func of the user meta. */
SLUICE_EXPORT void
sluice_target_lists_release (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  g_free (((NvDsUserMeta *) user_meta)->user_meta_data);
  ((NvDsUserMeta *) user_meta)->user_meta_data = NULL;
}

/* Put a copy of the lists at the end of a batch's user metas. */
SLUICE_EXPORT gint64
sluice_attach_target_lists (const SluiceProvider *provider, gpointer batch, guint meta_type,
    const NvDsTargetMiscDataBatch *source, gboolean wait)
{
  if (!sluice_enter (provider, batch, wait))
    return SLUICE_BUSY;
  NvDsUserMeta *user = provider->acquire_user (batch);
  user->base_meta.meta_type = (gint) meta_type;
  user->base_meta.uContext = NULL;
  user->base_meta.copy_func = sluice_target_lists_copy;
  user->base_meta.release_func = sluice_target_lists_release;
  user->user_meta_data = sluice_target_lists_new (source);
  provider->add_user_to_batch (batch, user);
  provider->unlock (batch);
  return 1;
}
