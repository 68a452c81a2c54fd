/* The portable provider's copies.
 *
 * As NVIDIA's: everything that is added at the front comes out reversed, pipeline_width, pipeline_height and
 * classifier_type are lost, a parent survives only when it was copied before its child, and user metas without a
 * copy_func are left out.
 */
#include "nvds.h"

#include <string.h>

static void
add_to_batch (gpointer owner, NvDsUserMeta *user)
{
  sluice_nvds_add_user_meta_to_batch (owner, user);
}

static void
add_to_frame (gpointer owner, NvDsUserMeta *user)
{
  sluice_nvds_add_user_meta_to_frame (owner, user);
}

static void
add_to_object (gpointer owner, NvDsUserMeta *user)
{
  sluice_nvds_add_user_meta_to_obj (owner, user);
}


static void
copy_user_metas (GList *list, NvDsBatchMeta *batch, gpointer owner, void (*add) (gpointer owner, NvDsUserMeta *copy))
{
  for (; list != NULL; list = list->next) {
    NvDsUserMeta *source = list->data;
    if (source->base_meta.copy_func == NULL)
      continue;
    NvDsUserMeta *copy = sluice_nvds_acquire_user_meta_from_pool (batch);
    copy->base_meta.meta_type = source->base_meta.meta_type;
    copy->base_meta.uContext = source->base_meta.uContext;
    copy->base_meta.copy_func = source->base_meta.copy_func;
    copy->base_meta.release_func = source->base_meta.release_func;
    copy->user_meta_data = source->base_meta.copy_func (source, NULL);
    add (owner, copy);
  }
}

static void
copy_labels (NvDsClassifierMeta *source, NvDsClassifierMeta *copy)
{
  for (GList *link = source->label_info_list; link != NULL; link = link->next) {
    NvDsLabelInfo *from = link->data;
    NvDsLabelInfo *to = sluice_nvds_acquire_label_info_meta_from_pool (copy->base_meta.batch_meta);
    to->num_classes = from->num_classes;
    memcpy (to->result_label, from->result_label, sizeof to->result_label);
    to->pResult_label = g_strdup (from->pResult_label);
    to->result_class_id = from->result_class_id;
    to->label_id = from->label_id;
    to->result_prob = from->result_prob;
    sluice_nvds_add_label_info_meta_to_classifier (copy, to);
  }
}

static void
copy_classifiers (NvDsObjectMeta *source, NvDsObjectMeta *copy)
{
  for (GList *link = source->classifier_meta_list; link != NULL; link = link->next) {
    NvDsClassifierMeta *from = link->data;
    NvDsClassifierMeta *to = sluice_nvds_acquire_classifier_meta_from_pool (copy->base_meta.batch_meta);
    to->unique_component_id = from->unique_component_id;
    copy_labels (from, to);
    sluice_nvds_add_classifier_meta_to_object (copy, to);
  }
}

static void
copy_object_fields (const NvDsObjectMeta *source, NvDsObjectMeta *copy)
{
  NvDsBaseMeta base = copy->base_meta;
  *copy = *source;
  copy->base_meta = base;
  copy->parent = NULL;
  copy->classifier_meta_list = NULL;
  copy->obj_user_meta_list = NULL;
  copy->text_params.display_text = g_strdup (source->text_params.display_text);
  if (source->mask_params.size > 0)
    copy->mask_params.data = g_memdup2 (source->mask_params.data, source->mask_params.size);
}

static void
copy_objects (NvDsFrameMeta *source, NvDsFrameMeta *copy)
{
  NvDsBatchMeta *batch = copy->base_meta.batch_meta;
  GHashTable *copies = g_hash_table_new (NULL, NULL);
  for (GList *link = source->obj_meta_list; link != NULL; link = link->next) {
    NvDsObjectMeta *from = link->data;
    NvDsObjectMeta *to = sluice_nvds_acquire_obj_meta_from_pool (batch);
    copy_object_fields (from, to);
    copy_user_metas (from->obj_user_meta_list, batch, to, add_to_object);
    copy_classifiers (from, to);
    NvDsObjectMeta *parent = from->parent ? g_hash_table_lookup (copies, from->parent) : NULL;
    sluice_nvds_add_obj_meta_to_frame (copy, to, parent);
    g_hash_table_insert (copies, from, to);
  }
  g_hash_table_destroy (copies);
}

static void
copy_displays (NvDsFrameMeta *source, NvDsFrameMeta *copy)
{
  for (GList *link = source->display_meta_list; link != NULL; link = link->next) {
    NvDsDisplayMeta *from = link->data;
    NvDsDisplayMeta *to = sluice_nvds_acquire_display_meta_from_pool (copy->base_meta.batch_meta);
    NvDsBaseMeta base = to->base_meta;
    *to = *from;
    to->base_meta = base;
    to->base_meta.uContext = from->base_meta.uContext;
    for (guint i = 0; i < NVDS_MAX_DISPLAY_ELEMENTS; i++)
      to->text_params[i].display_text = g_strdup (from->text_params[i].display_text);
    sluice_nvds_add_display_meta_to_frame (copy, to);
  }
}

/* Copy the content of one frame into an acquired frame of this or another batch. */
SLUICE_EXPORT void
sluice_nvds_copy_frame_meta (NvDsFrameMeta *source, NvDsFrameMeta *copy)
{
  NvDsBaseMeta base = copy->base_meta;
  *copy = *source;
  copy->base_meta = base;
  copy->num_obj_meta = 0;
  copy->obj_meta_list = copy->display_meta_list = copy->frame_user_meta_list = NULL;
  copy->pipeline_width = copy->pipeline_height = 0;
  copy->sensorInfo_meta.uri = g_strdup (source->sensorInfo_meta.uri);
  copy->sensorInfo_meta.sensor_id = g_strdup (source->sensorInfo_meta.sensor_id);
  copy->sensorInfo_meta.sensor_name = g_strdup (source->sensorInfo_meta.sensor_name);
  copy_objects (source, copy);
  copy_displays (source, copy);
  copy_user_metas (source->frame_user_meta_list, base.batch_meta, copy, add_to_frame);
}

SLUICE_EXPORT gpointer
sluice_nvds_batch_meta_copy_func (gpointer data, gpointer user_data G_GNUC_UNUSED)
{
  NvDsBatchMeta *source = data;
  g_rec_mutex_lock (&source->meta_mutex);
  NvDsBatchMeta *copy = sluice_nvds_create_batch_meta (MAX (source->max_frames_in_batch, source->num_frames_in_batch));
  copy->max_frames_in_batch = source->max_frames_in_batch;
  memcpy (copy->misc_batch_info, source->misc_batch_info, sizeof copy->misc_batch_info);
  memcpy (copy->reserved, source->reserved, sizeof copy->reserved);
  for (GList *link = source->frame_meta_list; link != NULL; link = link->next) {
    NvDsFrameMeta *frame = sluice_nvds_acquire_frame_meta_from_pool (copy);
    sluice_nvds_copy_frame_meta (link->data, frame);
    sluice_nvds_add_frame_meta_to_batch (copy, frame);
  }
  copy_user_metas (source->batch_user_meta_list, copy, copy, add_to_batch);
  g_rec_mutex_unlock (&source->meta_mutex);
  return copy;
}
