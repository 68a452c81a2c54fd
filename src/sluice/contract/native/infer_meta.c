/* What networks say besides boxes, as user metadata: segmentation maps (type 13), raw outputs (type 12) and features
 * (NvDsObjReid, type 17), and key points, for which DeepStream has no struct.
 *
 * Copy and release are C, since batches are copied and freed on threads that must not need the GIL. They look at the
 * structs below without a table: whatever they copy or release was made here.
 */
#include "provider.h"

#include <string.h>

typedef struct
{
  guint classes;
  guint width;
  guint height;
  gint *class_map;
  gfloat *class_probabilities_map;
  gpointer priv_data;
  gint unique_id;
} NvDsInferSegmentationMeta;

G_STATIC_ASSERT (sizeof (NvDsInferSegmentationMeta) == 48);

typedef struct
{
  guint numDims;
  guint d[8];
  guint numElements;
} NvDsInferDims;

typedef struct
{
  gint dataType;
  NvDsInferDims inferDims;
  gint bindingIndex;
  const gchar *layerName;
  gpointer buffer;
  gint isInput;
} NvDsInferLayerInfo;

G_STATIC_ASSERT (sizeof (NvDsInferLayerInfo) == 72);

typedef struct
{
  guint unique_id;
  guint num_output_layers;
  NvDsInferLayerInfo *output_layers_info;
  gpointer *out_buf_ptrs_host;
  gpointer *out_buf_ptrs_dev;
  gint gpu_id;
  gpointer priv_data;
  guint network_width, network_height, network_channels;
  gboolean maintain_aspect_ratio;
  gboolean symmetric_padding;
} NvDsInferTensorMeta;

G_STATIC_ASSERT (sizeof (NvDsInferTensorMeta) == 72);
G_STATIC_ASSERT (G_STRUCT_OFFSET (NvDsInferTensorMeta, network_width) == 48);

/* NvDsObjReid, and behind it which component made the features. */
typedef struct
{
  guint32 featureSize;
  gfloat *ptr_host;
  gfloat *ptr_dev;
  gint32 unique_id;
  gfloat features[];
} SluiceEmbedding;

G_STATIC_ASSERT (G_STRUCT_OFFSET (SluiceEmbedding, unique_id) == 24);

/* Key points: `count` times x, y and, where `values` is 3, confidence; in pixels of the frame's surface. */
typedef struct
{
  guint32 count;
  guint32 values;
  gint32 unique_id;
  gfloat *points;
  gfloat numbers[];
} SluiceKeypoints;

G_STATIC_ASSERT (G_STRUCT_OFFSET (SluiceKeypoints, points) == 16);

static gint live_metas;

/* How many of these user metas are on batches, and how many buffers of raw outputs there are; a test's ledger. */
SLUICE_EXPORT gint
sluice_live_infer_metas (void)
{
  return g_atomic_int_get (&live_metas);
}

static gpointer
data_of (gpointer user_meta)
{
  return ((NvDsUserMeta *) user_meta)->user_meta_data;
}

static gpointer
take_data (gpointer user_meta)
{
  gpointer data = data_of (user_meta);
  ((NvDsUserMeta *) user_meta)->user_meta_data = NULL;
  g_atomic_int_add (&live_metas, -1);
  return data;
}

/* ---- segmentation ---- */

/* `map` is rows x columns; `probabilities` is classes x rows x columns, or NULL. Both are copied. */
SLUICE_EXPORT gpointer
sluice_segmentation_new (const gint *map, const gfloat *probabilities, guint classes, guint width, guint height,
    gint unique_id)
{
  NvDsInferSegmentationMeta *meta = g_new0 (NvDsInferSegmentationMeta, 1);
  gsize cells = (gsize) width * height;
  meta->classes = classes;
  meta->width = width;
  meta->height = height;
  meta->class_map = g_memdup2 (map, cells * sizeof *map);
  if (probabilities != NULL)
    meta->class_probabilities_map = g_memdup2 (probabilities, cells * classes * sizeof *probabilities);
  meta->unique_id = unique_id;
  g_atomic_int_inc (&live_metas);
  return meta;
}

SLUICE_EXPORT gpointer
sluice_segmentation_copy (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  const NvDsInferSegmentationMeta *meta = data_of (user_meta);
  return sluice_segmentation_new (meta->class_map, meta->class_probabilities_map, meta->classes, meta->width,
      meta->height, meta->unique_id);
}

SLUICE_EXPORT void
sluice_segmentation_release (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  NvDsInferSegmentationMeta *meta = take_data (user_meta);
  g_free (meta->class_map);
  g_free (meta->class_probabilities_map);
  g_free (meta);
}

/* ---- raw outputs ---- */

/* One output as contract/infer_meta.py gives it. */
typedef struct
{
  const gchar *name;
  gconstpointer values;
  guint64 bytes;
  gint32 data_type;
  guint32 dims;
  guint32 shape[8];
  guint32 elements;
} SluiceLayer;

typedef struct
{
  gint32 unique_id;
  guint32 count;
  const SluiceLayer *layers;
  guint32 width, height, channels;
  gint32 maintain_aspect_ratio, symmetric_padding;
} SluiceOutputs;

#define LINE 64                 /* outputs begin at multiples of this, as vector code likes it */

static gsize
padded (gsize bytes)
{
  return (bytes + LINE - 1) / LINE * LINE;
}

static void
outputs_cleared (gpointer block G_GNUC_UNUSED)
{
  g_atomic_int_add (&live_metas, -1);
}

/* The outputs and their names in one block that all copies of the metadata share. */
static gpointer
new_block (const SluiceOutputs *outputs, NvDsInferLayerInfo *infos)
{
  gsize size = LINE, names = 0;
  for (guint i = 0; i < outputs->count; i++) {
    size += padded (outputs->layers[i].bytes);
    names += strlen (outputs->layers[i].name) + 1;
  }
  guint8 *block = g_atomic_rc_box_alloc (size + names);
  guint8 *place = (guint8 *) padded (GPOINTER_TO_SIZE (block));
  gchar *name = (gchar *) block + size;
  for (guint i = 0; i < outputs->count; i++) {
    const SluiceLayer *layer = &outputs->layers[i];
    NvDsInferLayerInfo *info = &infos[i];
    info->dataType = layer->data_type;
    info->inferDims.numDims = layer->dims;
    memcpy (info->inferDims.d, layer->shape, sizeof info->inferDims.d);
    info->inferDims.numElements = layer->elements;
    info->bindingIndex = (gint) i + 1;  /* the input is 0 */
    info->layerName = strcpy (name, layer->name);
    info->buffer = memcpy (place, layer->values, layer->bytes);
    place += padded (layer->bytes);
    name += strlen (layer->name) + 1;
  }
  g_atomic_int_inc (&live_metas);
  return block;
}

SLUICE_EXPORT gpointer
sluice_outputs_new (const SluiceOutputs *outputs)
{
  NvDsInferTensorMeta *meta = g_new0 (NvDsInferTensorMeta, 1);
  meta->unique_id = (guint) outputs->unique_id;
  meta->num_output_layers = outputs->count;
  meta->output_layers_info = g_new0 (NvDsInferLayerInfo, outputs->count);
  meta->out_buf_ptrs_host = g_new0 (gpointer, outputs->count);
  meta->out_buf_ptrs_dev = g_new0 (gpointer, outputs->count);
  meta->priv_data = new_block (outputs, meta->output_layers_info);
  for (guint i = 0; i < outputs->count; i++)
    meta->out_buf_ptrs_host[i] = meta->output_layers_info[i].buffer;
  meta->network_width = outputs->width;
  meta->network_height = outputs->height;
  meta->network_channels = outputs->channels;
  meta->maintain_aspect_ratio = outputs->maintain_aspect_ratio;
  meta->symmetric_padding = outputs->symmetric_padding;
  g_atomic_int_inc (&live_metas);
  return meta;
}

SLUICE_EXPORT gpointer
sluice_outputs_copy (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  const NvDsInferTensorMeta *meta = data_of (user_meta);
  NvDsInferTensorMeta *copy = g_memdup2 (meta, sizeof *meta);
  gsize count = meta->num_output_layers;
  copy->output_layers_info = g_memdup2 (meta->output_layers_info, count * sizeof *meta->output_layers_info);
  copy->out_buf_ptrs_host = g_memdup2 (meta->out_buf_ptrs_host, count * sizeof (gpointer));
  copy->out_buf_ptrs_dev = g_memdup2 (meta->out_buf_ptrs_dev, count * sizeof (gpointer));
  copy->priv_data = g_atomic_rc_box_acquire (meta->priv_data);
  g_atomic_int_inc (&live_metas);
  return copy;
}

SLUICE_EXPORT void
sluice_outputs_release (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  NvDsInferTensorMeta *meta = take_data (user_meta);
  g_free (meta->output_layers_info);
  g_free (meta->out_buf_ptrs_host);
  g_free (meta->out_buf_ptrs_dev);
  g_atomic_rc_box_release_full (meta->priv_data, outputs_cleared);
  g_free (meta);
}

/* ---- embeddings and key points ---- */

static gpointer
new_embedding (const gfloat *features, guint count, gint unique_id)
{
  SluiceEmbedding *embedding = g_malloc0 (sizeof *embedding + count * sizeof *features);
  embedding->featureSize = count;
  embedding->ptr_host = memcpy (embedding->features, features, count * sizeof *features);
  embedding->unique_id = unique_id;
  g_atomic_int_inc (&live_metas);
  return embedding;
}

SLUICE_EXPORT gpointer
sluice_embedding_copy (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  const SluiceEmbedding *embedding = data_of (user_meta);
  return new_embedding (embedding->features, embedding->featureSize, embedding->unique_id);
}

static gpointer
new_keypoints (const gfloat *points, guint count, guint values, gint unique_id)
{
  gsize bytes = (gsize) count * values * sizeof *points;
  SluiceKeypoints *keypoints = g_malloc0 (sizeof *keypoints + bytes);
  keypoints->count = count;
  keypoints->values = values;
  keypoints->unique_id = unique_id;
  keypoints->points = memcpy (keypoints->numbers, points, bytes);
  g_atomic_int_inc (&live_metas);
  return keypoints;
}

SLUICE_EXPORT gpointer
sluice_keypoints_copy (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  const SluiceKeypoints *keypoints = data_of (user_meta);
  return new_keypoints (keypoints->numbers, keypoints->count, keypoints->values, keypoints->unique_id);
}

/* The release function of both, which are one block each. */
SLUICE_EXPORT void
sluice_numbers_release (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  g_free (take_data (user_meta));
}

/* ---- attach ---- */

static void
add_user (const SluiceProvider *provider, gpointer owner, gint level, gint meta_type, gpointer data, NvDsCopyFunc copy,
    NvDsReleaseFunc release)
{
  NvDsUserMeta *user = provider->acquire_user (sluice_batch_of (provider, owner));
  user->base_meta.meta_type = meta_type;
  user->base_meta.uContext = NULL;
  user->base_meta.copy_func = copy;
  user->base_meta.release_func = release;
  user->user_meta_data = data;
  if (level == NVDS_FRAME_META)
    provider->add_user_to_frame (owner, user);
  else
    provider->add_user_to_object (owner, user);
}

/* Put data of one of the *_new functions on a frame or an object (`level` is its NvDsMetaType). */
SLUICE_EXPORT gint64
sluice_attach_network_data (const SluiceProvider *provider, gpointer owner, guint level, guint meta_type, gpointer data,
    NvDsCopyFunc copy, NvDsReleaseFunc release, gboolean wait)
{
  gpointer batch = sluice_batch_of (provider, owner);
  if (!sluice_enter (provider, batch, wait))
    return SLUICE_BUSY;
  add_user (provider, owner, (gint) level, (gint) meta_type, data, copy, release);
  provider->unlock (batch);
  return 1;
}

/* Numbers for objects of one frame, a row each, or for one owner. The Python structure of the same name has the same fields. */
typedef struct
{
  guint32 owners;
  gint32 level;
  gint32 meta_type;
  gint32 unique_id;
  guint32 count;                /* numbers of an embedding, or key points */
  guint32 values;               /* per key point; 0 for embeddings */
  gpointer frame;               /* whose objects the owners must be; NULL: one owner, not checked */
  const guint64 *addresses;
  const gfloat *numbers;
} SluiceNumbers;

static void
add_numbers (const SluiceProvider *provider, gpointer owner, const SluiceNumbers *rows, const gfloat *numbers)
{
  if (rows->values == 0)
    add_user (provider, owner, rows->level, rows->meta_type, new_embedding (numbers, rows->count, rows->unique_id),
        sluice_embedding_copy, sluice_numbers_release);
  else
    add_user (provider, owner, rows->level, rows->meta_type,
        new_keypoints (numbers, rows->count, rows->values, rows->unique_id), sluice_keypoints_copy,
        sluice_numbers_release);
}

/* Put an embedding or key points on each of several owners. Returns how many, or a fault, or SLUICE_BUSY. */
SLUICE_EXPORT gint64
sluice_attach_numbers (const SluiceProvider *provider, const SluiceNumbers *rows, gboolean wait)
{
  if (rows->owners == 0)
    return 0;
  gpointer batch = sluice_batch_of (provider, rows->frame ? rows->frame : GSIZE_TO_POINTER (rows->addresses[0]));
  if (!sluice_enter (provider, batch, wait))
    return SLUICE_BUSY;
  gint64 fault = 0;
  if (rows->frame != NULL)
    fault = sluice_check_addresses (FIELD (provider, rows->frame, FRAME_OBJECTS, GList *), rows->addresses,
        rows->owners, FALSE, FAULT_ADDRESS);
  gsize step = (gsize) rows->count * MAX (rows->values, 1);
  for (guint i = 0; fault == 0 && i < rows->owners; i++)
    add_numbers (provider, GSIZE_TO_POINTER (rows->addresses[i]), rows, rows->numbers + i * step);
  provider->unlock (batch);
  return fault != 0 ? fault : (gint64) rows->owners;
}
