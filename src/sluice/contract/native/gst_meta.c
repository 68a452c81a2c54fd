/* The portable provider's GstMeta "NvDsMeta": what ties a batch to a GstBuffer, as NVIDIA's libnvdsgst_meta does.
 *
 * Only one library may register that name in a process. sluice_nvds_meta_get_info() returns NULL when another has.
 */
#include "nvds.h"

#include <string.h>

static gboolean
meta_init (GstMeta *meta, gpointer params G_GNUC_UNUSED, GstBuffer *buffer G_GNUC_UNUSED)
{
  memset ((guint8 *) meta + sizeof (GstMeta), 0, sizeof (NvDsMeta) - sizeof (GstMeta));
  return TRUE;
}

static void
meta_free (GstMeta *meta, GstBuffer *buffer G_GNUC_UNUSED)
{
  NvDsMeta *nvds = (NvDsMeta *) meta;
  if (nvds->freefunc != NULL && nvds->meta_data != NULL)
    nvds->freefunc (nvds->meta_data, nvds->user_data);
}

SLUICE_EXPORT NvDsMeta *sluice_gst_buffer_add_nvds_meta (GstBuffer *buffer, gpointer data, gpointer user_data,
    NvDsCopyFunc copy, NvDsReleaseFunc release);

/* Whole and partial copies carry the meta; other transforms (scaling and the like) do not. */
static gboolean
meta_transform (GstBuffer *target, GstMeta *meta, GstBuffer *buffer G_GNUC_UNUSED, GQuark type,
    gpointer data G_GNUC_UNUSED)
{
  NvDsMeta *source = (NvDsMeta *) meta;
  if (!GST_META_TRANSFORM_IS_COPY (type) || source->copyfunc == NULL || source->meta_data == NULL)
    return TRUE;
  NvDsMeta *copy = sluice_gst_buffer_add_nvds_meta (target, source->copyfunc (source->meta_data, NULL), NULL,
      source->copyfunc, source->freefunc);
  copy->meta_type = source->meta_type;
  copy->gst_to_nvds_meta_transform_func = source->gst_to_nvds_meta_transform_func;
  copy->gst_to_nvds_meta_release_func = source->gst_to_nvds_meta_release_func;
  return TRUE;
}

SLUICE_EXPORT GType
sluice_nvds_meta_api_get_type (void)
{
  static GType type;
  static const gchar *tags[] = { "nvdsmeta", NULL };
  if (g_once_init_enter (&type))
    g_once_init_leave (&type, gst_meta_api_type_register ("NvDsMetaAPI", tags));
  return type;
}

SLUICE_EXPORT const GstMetaInfo *
sluice_nvds_meta_get_info (void)
{
  static const GstMetaInfo *own;
  static gsize tried;
  if (g_once_init_enter (&tried)) {
    if (gst_meta_get_info ("NvDsMeta") == NULL && g_type_from_name ("NvDsMetaAPI") == 0)
      own = gst_meta_register (sluice_nvds_meta_api_get_type (), "NvDsMeta", sizeof (NvDsMeta), meta_init, meta_free,
          meta_transform);
    g_once_init_leave (&tried, 1);
  }
  return own;
}

/* The LOCKABLE flag makes GStreamer accept the buffer although it is shared, as a tee's branches are: metadata is
 * written in place. Whoever does this at the same time would lose the flag, so one at a time. */
SLUICE_EXPORT NvDsMeta *
sluice_gst_buffer_add_nvds_meta (GstBuffer *buffer, gpointer data, gpointer user_data, NvDsCopyFunc copy,
    NvDsReleaseFunc release)
{
  static GMutex mutex;
  g_mutex_lock (&mutex);
  gboolean lockable = GST_MINI_OBJECT_FLAG_IS_SET (buffer, GST_MINI_OBJECT_FLAG_LOCKABLE);
  GST_MINI_OBJECT_FLAG_SET (buffer, GST_MINI_OBJECT_FLAG_LOCKABLE);
  NvDsMeta *meta = (NvDsMeta *) gst_buffer_add_meta (buffer, sluice_nvds_meta_get_info (), NULL);
  if (!lockable)
    GST_MINI_OBJECT_FLAG_UNSET (buffer, GST_MINI_OBJECT_FLAG_LOCKABLE);
  g_mutex_unlock (&mutex);
  if (meta != NULL) {
    meta->meta_data = data;
    meta->user_data = user_data;
    meta->copyfunc = copy;
    meta->freefunc = release;
  }
  return meta;
}

SLUICE_EXPORT NvDsMeta *
sluice_gst_buffer_get_nvds_meta (GstBuffer *buffer)
{
  return (NvDsMeta *) gst_buffer_get_meta (buffer, sluice_nvds_meta_api_get_type ());
}

/* The last batch on the buffer. */
SLUICE_EXPORT NvDsBatchMeta *
sluice_gst_buffer_get_nvds_batch_meta (GstBuffer *buffer)
{
  gpointer state = NULL;
  NvDsBatchMeta *found = NULL;
  GstMeta *meta;
  while ((meta = gst_buffer_iterate_meta_filtered (buffer, &state, sluice_nvds_meta_api_get_type ())) != NULL) {
    if (((NvDsMeta *) meta)->meta_type != NVDS_BATCH_GST_META)
      continue;
    if (found != NULL)
      GST_WARNING ("more than one NvDsBatchMeta on buffer %p", (gpointer) buffer);
    found = ((NvDsMeta *) meta)->meta_data;
  }
  return found;
}

static gboolean
drop_batch (GstBuffer *buffer G_GNUC_UNUSED, GstMeta **meta, gpointer api)
{
  if ((*meta)->info->api == GPOINTER_TO_SIZE (api) && ((NvDsMeta *) *meta)->meta_type == NVDS_BATCH_GST_META)
    *meta = NULL;
  return TRUE;
}

/* Takes the batches off a buffer, whose sole holder the caller is, and frees them. `info` is what the library that owns
 * NvDsMeta in this process has registered. */
SLUICE_EXPORT void
sluice_drop_batches (GstBuffer *buffer, const GstMetaInfo *info)
{
  gst_buffer_foreach_meta (buffer, drop_batch, GSIZE_TO_POINTER (info->api));
}
