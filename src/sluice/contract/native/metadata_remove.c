/* The portable provider: elements of a batch are taken out and lists cleared, by which they go back to their pools. */
#include "nvds.h"

/* ---- one element ---- */

static void
take_out (NvDsBatchMeta *batch, NvDsMetaPool *pool, GList **list, gpointer element, guint *counter)
{
  g_rec_mutex_lock (&batch->meta_mutex);
  GList *link = g_list_find (*list, element);
  if (link != NULL) {
    *list = g_list_delete_link (*list, link);
    sluice_pool_return (pool, element);
    if (counter != NULL)
      (*counter)--;
  }
  g_rec_mutex_unlock (&batch->meta_mutex);
}

SLUICE_EXPORT void
sluice_nvds_remove_frame_meta_from_batch (NvDsBatchMeta *batch, NvDsFrameMeta *frame)
{
  take_out (batch, batch->frame_meta_pool, &batch->frame_meta_list, frame, &batch->num_frames_in_batch);
}

SLUICE_EXPORT void
sluice_nvds_remove_user_meta_from_batch (NvDsBatchMeta *batch, NvDsUserMeta *user)
{
  take_out (batch, batch->user_meta_pool, &batch->batch_user_meta_list, user, NULL);
}

SLUICE_EXPORT void
sluice_nvds_remove_obj_meta_from_frame (NvDsFrameMeta *frame, NvDsObjectMeta *object)
{
  NvDsBatchMeta *batch = frame->base_meta.batch_meta;
  take_out (batch, batch->obj_meta_pool, &frame->obj_meta_list, object, &frame->num_obj_meta);
}

SLUICE_EXPORT void
sluice_nvds_remove_display_meta_from_frame (NvDsFrameMeta *frame, NvDsDisplayMeta *display)
{
  NvDsBatchMeta *batch = frame->base_meta.batch_meta;
  take_out (batch, batch->display_meta_pool, &frame->display_meta_list, display, NULL);
}

SLUICE_EXPORT void
sluice_nvds_remove_user_meta_from_frame (NvDsFrameMeta *frame, NvDsUserMeta *user)
{
  NvDsBatchMeta *batch = frame->base_meta.batch_meta;
  take_out (batch, batch->user_meta_pool, &frame->frame_user_meta_list, user, NULL);
}

SLUICE_EXPORT void
sluice_nvds_remove_user_meta_from_object (NvDsObjectMeta *object, NvDsUserMeta *user)
{
  NvDsBatchMeta *batch = object->base_meta.batch_meta;
  take_out (batch, batch->user_meta_pool, &object->obj_user_meta_list, user, NULL);
}

SLUICE_EXPORT void
sluice_nvds_remove_classifier_meta_from_obj (NvDsObjectMeta *object, NvDsClassifierMeta *classifier)
{
  NvDsBatchMeta *batch = object->base_meta.batch_meta;
  take_out (batch, batch->classifier_meta_pool, &object->classifier_meta_list, classifier, NULL);
}

SLUICE_EXPORT void
sluice_nvds_remove_label_info_meta_from_classifier (NvDsClassifierMeta *classifier, NvDsLabelInfo *label)
{
  NvDsBatchMeta *batch = classifier->base_meta.batch_meta;
  take_out (batch, batch->label_info_meta_pool, &classifier->label_info_list, label, &classifier->num_labels);
}

/* ---- whole lists ---- */

static void
clear_all (NvDsBatchMeta *batch, NvDsMetaPool *pool, GList **list, guint *counter)
{
  g_rec_mutex_lock (&batch->meta_mutex);
  sluice_clear_list (pool, list);
  if (counter != NULL)
    *counter = 0;
  g_rec_mutex_unlock (&batch->meta_mutex);
}

SLUICE_EXPORT void
sluice_nvds_clear_frame_meta_list (NvDsBatchMeta *batch, GList *list G_GNUC_UNUSED)
{
  clear_all (batch, batch->frame_meta_pool, &batch->frame_meta_list, &batch->num_frames_in_batch);
}

SLUICE_EXPORT void
sluice_nvds_clear_batch_user_meta_list (NvDsBatchMeta *batch, GList *list G_GNUC_UNUSED)
{
  clear_all (batch, batch->user_meta_pool, &batch->batch_user_meta_list, NULL);
}

SLUICE_EXPORT void
sluice_nvds_clear_obj_meta_list (NvDsFrameMeta *frame, GList *list G_GNUC_UNUSED)
{
  NvDsBatchMeta *batch = frame->base_meta.batch_meta;
  clear_all (batch, batch->obj_meta_pool, &frame->obj_meta_list, &frame->num_obj_meta);
}

SLUICE_EXPORT void
sluice_nvds_clear_display_meta_list (NvDsFrameMeta *frame, GList *list G_GNUC_UNUSED)
{
  NvDsBatchMeta *batch = frame->base_meta.batch_meta;
  clear_all (batch, batch->display_meta_pool, &frame->display_meta_list, NULL);
}

SLUICE_EXPORT void
sluice_nvds_clear_frame_user_meta_list (NvDsFrameMeta *frame, GList *list G_GNUC_UNUSED)
{
  NvDsBatchMeta *batch = frame->base_meta.batch_meta;
  clear_all (batch, batch->user_meta_pool, &frame->frame_user_meta_list, NULL);
}

SLUICE_EXPORT void
sluice_nvds_clear_classifier_meta_list (NvDsObjectMeta *object, GList *list G_GNUC_UNUSED)
{
  NvDsBatchMeta *batch = object->base_meta.batch_meta;
  clear_all (batch, batch->classifier_meta_pool, &object->classifier_meta_list, NULL);
}

SLUICE_EXPORT void
sluice_nvds_clear_obj_user_meta_list (NvDsObjectMeta *object, GList *list G_GNUC_UNUSED)
{
  NvDsBatchMeta *batch = object->base_meta.batch_meta;
  clear_all (batch, batch->user_meta_pool, &object->obj_user_meta_list, NULL);
}

SLUICE_EXPORT void
sluice_nvds_clear_label_info_meta_list (NvDsClassifierMeta *classifier, GList *list G_GNUC_UNUSED)
{
  NvDsBatchMeta *batch = classifier->base_meta.batch_meta;
  clear_all (batch, batch->label_info_meta_pool, &classifier->label_info_list, &classifier->num_labels);
}
