/* The portable provider: pools, lists and copies of NvDsBatchMeta, as NVIDIA's libnvds_meta behaves.
 *
 * The functions have that library's names behind the prefix sluice_, so that both can live in one process and read each
 * other's bare batches. Everything is allocated with GLib. Deliberate differences, all where the original corrupts its
 * counters or crashes: clearing display metas returns them to their own pool; a batch of zero frames can grow; a copy
 * of a batch whose max_frames_in_batch is 0 gets pools for the frames it has; the counters change under the lock.
 */
#include "nvds.h"

#include <string.h>

#define MIN_DISPLAY_AND_USER 8
#define PER_FRAME 8
#define MAX_GROWTH 128

static gint live_batches;

/* How many batches of this provider exist; a test's ledger. */
SLUICE_EXPORT gint
sluice_live_batches (void)
{
  return g_atomic_int_get (&live_batches);
}

/* ---- pools ---- */

/* The base fields are set once, here: what a user changes in them survives recycling, as with NVIDIA's library. */
static void
pool_grow (NvDsBatchMeta *batch, NvDsMetaPool *pool, guint count)
{
  for (guint i = 0; i < count; i++) {
    NvDsBaseMeta *base = g_malloc0 (pool->element_size);
    base->batch_meta = batch;
    base->meta_type = pool->meta_type;
    base->release_func = pool->release_func;
    pool->empty_list = g_list_prepend (pool->empty_list, base);
  }
  pool->num_empty_elements += count;
  pool->max_elements_in_pool += count;
}

static NvDsMetaPool *
pool_new (NvDsBatchMeta *batch, gint meta_type, guint element_size, guint count, NvDsReleaseFunc release)
{
  NvDsMetaPool *pool = g_new0 (NvDsMetaPool, 1);
  pool->meta_type = meta_type;
  pool->element_size = element_size;
  pool->release_func = release;
  pool_grow (batch, pool, count);
  return pool;
}

static gpointer
pool_acquire (NvDsBatchMeta *batch, NvDsMetaPool *pool)
{
  g_rec_mutex_lock (&batch->meta_mutex);
  if (pool->empty_list == NULL)
    pool_grow (batch, pool, pool->max_elements_in_pool ? MIN (MAX_GROWTH, 2 * pool->max_elements_in_pool) : PER_FRAME);
  GList *link = pool->empty_list;
  pool->empty_list = g_list_remove_link (pool->empty_list, link);
  pool->full_list = g_list_concat (link, pool->full_list);
  pool->num_empty_elements--;
  pool->num_full_elements++;
  gpointer element = link->data;
  g_rec_mutex_unlock (&batch->meta_mutex);
  return element;
}

/* Release one element and move it to the head of the empty list. The lock is held. */
void
sluice_pool_return (NvDsMetaPool *pool, gpointer element)
{
  NvDsBaseMeta *base = element;
  GList *link = g_list_find (pool->full_list, element);
  if (link == NULL) {
    g_warning ("element %p is not in use in the pool of meta type %d", element, pool->meta_type);
    return;
  }
  if (base->release_func != NULL)
    base->release_func (element, NULL);
  /* The release may have moved other elements of the same pool, never this one. */
  pool->full_list = g_list_remove_link (pool->full_list, link);
  pool->empty_list = g_list_concat (link, pool->empty_list);
  pool->num_full_elements--;
  pool->num_empty_elements++;
}

static gboolean
pool_free (NvDsMetaPool *pool)
{
  while (pool->full_list != NULL)
    sluice_pool_return (pool, pool->full_list->data);
  if (g_list_length (pool->empty_list) != pool->max_elements_in_pool) {
    g_warning ("the pool of meta type %d has %u elements, not the %u it made", pool->meta_type,
        g_list_length (pool->empty_list), pool->max_elements_in_pool);
    return FALSE;
  }
  g_list_free_full (pool->empty_list, g_free);
  g_free (pool);
  return TRUE;
}

void
sluice_clear_list (NvDsMetaPool *pool, GList **list)
{
  while (*list != NULL) {
    gpointer element = (*list)->data;
    *list = g_list_delete_link (*list, *list);
    sluice_pool_return (pool, element);
  }
}

static void
zero_after_base (gpointer element, gsize size)
{
  memset ((guint8 *) element + sizeof (NvDsBaseMeta), 0, size - sizeof (NvDsBaseMeta));
}

/* ---- what each kind of element owns ---- */

static void
release_label (gpointer data, gpointer user_data G_GNUC_UNUSED)
{
  NvDsLabelInfo *label = data;
  g_free (label->pResult_label);
  zero_after_base (label, sizeof *label);
}

static void
release_classifier (gpointer data, gpointer user_data G_GNUC_UNUSED)
{
  NvDsClassifierMeta *classifier = data;
  sluice_clear_list (classifier->base_meta.batch_meta->label_info_meta_pool, &classifier->label_info_list);
  zero_after_base (classifier, sizeof *classifier);
}

static void
release_object (gpointer data, gpointer user_data G_GNUC_UNUSED)
{
  NvDsObjectMeta *object = data;
  NvDsBatchMeta *batch = object->base_meta.batch_meta;
  sluice_clear_list (batch->classifier_meta_pool, &object->classifier_meta_list);
  sluice_clear_list (batch->user_meta_pool, &object->obj_user_meta_list);
  g_free (object->text_params.display_text);
  if (object->mask_params.size > 0)
    g_free (object->mask_params.data);
  zero_after_base (object, sizeof *object);
}

static void
release_display (gpointer data, gpointer user_data G_GNUC_UNUSED)
{
  NvDsDisplayMeta *display = data;
  for (guint i = 0; i < NVDS_MAX_DISPLAY_ELEMENTS; i++)
    g_free (display->text_params[i].display_text);
  zero_after_base (display, sizeof *display);
}

static void
release_frame (gpointer data, gpointer user_data G_GNUC_UNUSED)
{
  NvDsFrameMeta *frame = data;
  NvDsBatchMeta *batch = frame->base_meta.batch_meta;
  g_free (frame->sensorInfo_meta.sensor_id);
  g_free (frame->sensorInfo_meta.sensor_name);
  g_free (frame->sensorInfo_meta.uri);
  sluice_clear_list (batch->obj_meta_pool, &frame->obj_meta_list);
  sluice_clear_list (batch->display_meta_pool, &frame->display_meta_list);
  sluice_clear_list (batch->user_meta_pool, &frame->frame_user_meta_list);
  zero_after_base (frame, sizeof *frame);
}

/* ---- batches ---- */

SLUICE_EXPORT NvDsBatchMeta *
sluice_nvds_create_batch_meta (guint max_frames)
{
  NvDsBatchMeta *batch = g_new0 (NvDsBatchMeta, 1);
  batch->base_meta.batch_meta = batch;
  batch->base_meta.meta_type = NVDS_BATCH_META;
  batch->base_meta.copy_func = sluice_nvds_batch_meta_copy_func;
  batch->base_meta.release_func = sluice_nvds_batch_meta_release_func;
  g_rec_mutex_init (&batch->meta_mutex);
  batch->frame_meta_pool = pool_new (batch, NVDS_FRAME_META, sizeof (NvDsFrameMeta), max_frames, release_frame);
  batch->obj_meta_pool = pool_new (batch, NVDS_OBJ_META, sizeof (NvDsObjectMeta), PER_FRAME * max_frames, release_object);
  batch->classifier_meta_pool =
      pool_new (batch, NVDS_CLASSIFIER_META, sizeof (NvDsClassifierMeta), PER_FRAME * max_frames, release_classifier);
  batch->display_meta_pool =
      pool_new (batch, NVDS_DISPLAY_META, sizeof (NvDsDisplayMeta), MIN_DISPLAY_AND_USER, release_display);
  batch->user_meta_pool = pool_new (batch, NVDS_USER_META, sizeof (NvDsUserMeta), MIN_DISPLAY_AND_USER, NULL);
  batch->label_info_meta_pool =
      pool_new (batch, NVDS_LABEL_INFO_META, sizeof (NvDsLabelInfo), PER_FRAME * max_frames, release_label);
  g_atomic_int_inc (&live_batches);
  return batch;
}

SLUICE_EXPORT gboolean
sluice_nvds_destroy_batch_meta (NvDsBatchMeta *batch)
{
  NvDsMetaPool *pools[] = { batch->frame_meta_pool, batch->obj_meta_pool, batch->classifier_meta_pool,
    batch->display_meta_pool, batch->user_meta_pool, batch->label_info_meta_pool
  };
  for (guint i = 0; i < G_N_ELEMENTS (pools); i++) {
    if (!pool_free (pools[i]))
      return FALSE;
  }
  g_list_free (batch->frame_meta_list);
  g_list_free (batch->batch_user_meta_list);
  g_rec_mutex_clear (&batch->meta_mutex);
  g_free (batch);
  g_atomic_int_add (&live_batches, -1);
  return TRUE;
}

SLUICE_EXPORT void
sluice_nvds_batch_meta_release_func (gpointer data, gpointer user_data G_GNUC_UNUSED)
{
  sluice_nvds_destroy_batch_meta (data);
}

SLUICE_EXPORT void
sluice_nvds_acquire_meta_lock (NvDsBatchMeta *batch)
{
  g_rec_mutex_lock (&batch->meta_mutex);
}

SLUICE_EXPORT void
sluice_nvds_release_meta_lock (NvDsBatchMeta *batch)
{
  g_rec_mutex_unlock (&batch->meta_mutex);
}

/* ---- acquire ---- */

SLUICE_EXPORT NvDsFrameMeta *
sluice_nvds_acquire_frame_meta_from_pool (NvDsBatchMeta *batch)
{
  return pool_acquire (batch, batch->frame_meta_pool);
}

SLUICE_EXPORT NvDsObjectMeta *
sluice_nvds_acquire_obj_meta_from_pool (NvDsBatchMeta *batch)
{
  return pool_acquire (batch, batch->obj_meta_pool);
}

SLUICE_EXPORT NvDsClassifierMeta *
sluice_nvds_acquire_classifier_meta_from_pool (NvDsBatchMeta *batch)
{
  return pool_acquire (batch, batch->classifier_meta_pool);
}

SLUICE_EXPORT NvDsDisplayMeta *
sluice_nvds_acquire_display_meta_from_pool (NvDsBatchMeta *batch)
{
  return pool_acquire (batch, batch->display_meta_pool);
}

SLUICE_EXPORT NvDsUserMeta *
sluice_nvds_acquire_user_meta_from_pool (NvDsBatchMeta *batch)
{
  return pool_acquire (batch, batch->user_meta_pool);
}

SLUICE_EXPORT NvDsLabelInfo *
sluice_nvds_acquire_label_info_meta_from_pool (NvDsBatchMeta *batch)
{
  return pool_acquire (batch, batch->label_info_meta_pool);
}

/* ---- add: frames and batch user metas at the end, everything else at the front ---- */

static void
add (NvDsBatchMeta *batch, GList **list, gpointer element, guint *counter, gboolean append)
{
  g_rec_mutex_lock (&batch->meta_mutex);
  *list = append ? g_list_append (*list, element) : g_list_prepend (*list, element);
  if (counter != NULL)
    (*counter)++;
  g_rec_mutex_unlock (&batch->meta_mutex);
}

SLUICE_EXPORT void
sluice_nvds_add_frame_meta_to_batch (NvDsBatchMeta *batch, NvDsFrameMeta *frame)
{
  add (batch, &batch->frame_meta_list, frame, &batch->num_frames_in_batch, TRUE);
}

SLUICE_EXPORT void
sluice_nvds_add_user_meta_to_batch (NvDsBatchMeta *batch, NvDsUserMeta *user)
{
  add (batch, &batch->batch_user_meta_list, user, NULL, TRUE);
}

SLUICE_EXPORT void
sluice_nvds_add_obj_meta_to_frame (NvDsFrameMeta *frame, NvDsObjectMeta *object, NvDsObjectMeta *parent)
{
  object->parent = parent;
  add (frame->base_meta.batch_meta, &frame->obj_meta_list, object, &frame->num_obj_meta, FALSE);
}

SLUICE_EXPORT void
sluice_nvds_add_display_meta_to_frame (NvDsFrameMeta *frame, NvDsDisplayMeta *display)
{
  add (frame->base_meta.batch_meta, &frame->display_meta_list, display, NULL, FALSE);
}

SLUICE_EXPORT void
sluice_nvds_add_user_meta_to_frame (NvDsFrameMeta *frame, NvDsUserMeta *user)
{
  add (frame->base_meta.batch_meta, &frame->frame_user_meta_list, user, NULL, FALSE);
}

SLUICE_EXPORT void
sluice_nvds_add_user_meta_to_obj (NvDsObjectMeta *object, NvDsUserMeta *user)
{
  add (object->base_meta.batch_meta, &object->obj_user_meta_list, user, NULL, FALSE);
}

SLUICE_EXPORT void
sluice_nvds_add_classifier_meta_to_object (NvDsObjectMeta *object, NvDsClassifierMeta *classifier)
{
  add (object->base_meta.batch_meta, &object->classifier_meta_list, classifier, NULL, FALSE);
}

SLUICE_EXPORT void
sluice_nvds_add_label_info_meta_to_classifier (NvDsClassifierMeta *classifier, NvDsLabelInfo *label)
{
  add (classifier->base_meta.batch_meta, &classifier->label_info_list, label, &classifier->num_labels, FALSE);
}

/* ---- look ---- */

SLUICE_EXPORT NvDsFrameMeta *
sluice_nvds_get_nth_frame_meta (GList *list, guint index)
{
  return g_list_nth_data (list, index);
}

/* The text must live as long as the process: the quark keeps the pointer. */
SLUICE_EXPORT gint
sluice_nvds_get_user_meta_type (const gchar *text)
{
  return NVDS_START_USER_META + (gint) g_quark_from_static_string (text);
}
