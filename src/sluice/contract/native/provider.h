/* A metadata provider as the bulk functions see it: its functions, and where its structs have their fields.
 *
 * The fields come from the layout table chosen at run time, not from nvds.h: another DeepStream release may differ.
 * The order of both lists is read from here by provider.py through sluice_function_name() and sluice_field_name().
 */
#ifndef SLUICE_PROVIDER_H
#define SLUICE_PROVIDER_H

#include "frame_row.h"
#include "nvds.h"

#include <math.h>

/* X (member, symbol, result, arguments) */
#define SLUICE_FUNCTIONS(X) \
  X (create_batch, "nvds_create_batch_meta", gpointer, (guint max_frames)) \
  X (destroy_batch, "nvds_destroy_batch_meta", gint, (gpointer batch)) \
  X (add_meta, "gst_buffer_add_nvds_meta", gpointer, \
      (GstBuffer *buffer, gpointer data, gpointer user_data, gpointer copy, gpointer release)) \
  X (lock, "nvds_acquire_meta_lock", void, (gpointer batch)) \
  X (unlock, "nvds_release_meta_lock", void, (gpointer batch)) \
  X (acquire_frame, "nvds_acquire_frame_meta_from_pool", gpointer, (gpointer batch)) \
  X (acquire_object, "nvds_acquire_obj_meta_from_pool", gpointer, (gpointer batch)) \
  X (acquire_user, "nvds_acquire_user_meta_from_pool", gpointer, (gpointer batch)) \
  X (acquire_classifier, "nvds_acquire_classifier_meta_from_pool", gpointer, (gpointer batch)) \
  X (acquire_label, "nvds_acquire_label_info_meta_from_pool", gpointer, (gpointer batch)) \
  X (add_frame, "nvds_add_frame_meta_to_batch", void, (gpointer batch, gpointer frame)) \
  X (add_object, "nvds_add_obj_meta_to_frame", void, (gpointer frame, gpointer object, gpointer parent)) \
  X (add_classifier, "nvds_add_classifier_meta_to_object", void, (gpointer object, gpointer classifier)) \
  X (add_label, "nvds_add_label_info_meta_to_classifier", void, (gpointer classifier, gpointer label)) \
  X (add_user_to_batch, "nvds_add_user_meta_to_batch", void, (gpointer batch, gpointer user)) \
  X (add_user_to_frame, "nvds_add_user_meta_to_frame", void, (gpointer frame, gpointer user)) \
  X (add_user_to_object, "nvds_add_user_meta_to_obj", void, (gpointer object, gpointer user)) \
  X (remove_object, "nvds_remove_obj_meta_from_frame", void, (gpointer frame, gpointer object)) \
  X (remove_user_from_frame, "nvds_remove_user_meta_from_frame", void, (gpointer frame, gpointer user)) \
  X (remove_user_from_object, "nvds_remove_user_meta_from_object", void, (gpointer object, gpointer user)) \
  X (copy_frame, "nvds_copy_frame_meta", void, (gpointer source, gpointer copy)) \
  X (find_batch, "gst_buffer_get_nvds_batch_meta", gpointer, (GstBuffer *buffer))

#define SLUICE_FIELDS(X) \
  X (META_TYPE, "NvDsMeta.meta_type") \
  X (META_COPY, "NvDsMeta.gst_to_nvds_meta_transform_func") \
  X (META_RELEASE, "NvDsMeta.gst_to_nvds_meta_release_func") \
  X (META_DATA, "NvDsMeta.meta_data") \
  X (BASE_BATCH, "NvDsBaseMeta.batch_meta") \
  X (BASE_COPY, "NvDsBaseMeta.copy_func") \
  X (BASE_RELEASE, "NvDsBaseMeta.release_func") \
  X (BATCH_MAX_FRAMES, "NvDsBatchMeta.max_frames_in_batch") \
  X (BATCH_MUTEX, "NvDsBatchMeta.meta_mutex") \
  X (BATCH_FRAMES, "NvDsBatchMeta.num_frames_in_batch") \
  X (BATCH_FRAME_LIST, "NvDsBatchMeta.frame_meta_list") \
  X (BATCH_USERS, "NvDsBatchMeta.batch_user_meta_list") \
  X (FRAME_PAD, "NvDsFrameMeta.pad_index") \
  X (FRAME_BATCH_ID, "NvDsFrameMeta.batch_id") \
  X (FRAME_NUMBER, "NvDsFrameMeta.frame_num") \
  X (FRAME_PTS, "NvDsFrameMeta.buf_pts") \
  X (FRAME_NTP, "NvDsFrameMeta.ntp_timestamp") \
  X (FRAME_SOURCE, "NvDsFrameMeta.source_id") \
  X (FRAME_SURFACES, "NvDsFrameMeta.num_surfaces_per_frame") \
  X (FRAME_SURFACE_TYPE, "NvDsFrameMeta.surface_type") \
  X (FRAME_SOURCE_WIDTH, "NvDsFrameMeta.source_frame_width") \
  X (FRAME_SOURCE_HEIGHT, "NvDsFrameMeta.source_frame_height") \
  X (FRAME_PIPELINE_WIDTH, "NvDsFrameMeta.pipeline_width") \
  X (FRAME_PIPELINE_HEIGHT, "NvDsFrameMeta.pipeline_height") \
  X (FRAME_INFER_DONE, "NvDsFrameMeta.bInferDone") \
  X (FRAME_OBJECTS, "NvDsFrameMeta.obj_meta_list") \
  X (FRAME_USERS, "NvDsFrameMeta.frame_user_meta_list") \
  X (OBJECT_PARENT, "NvDsObjectMeta.parent") \
  X (OBJECT_COMPONENT, "NvDsObjectMeta.unique_component_id") \
  X (OBJECT_CLASS, "NvDsObjectMeta.class_id") \
  X (OBJECT_ID, "NvDsObjectMeta.object_id") \
  X (OBJECT_DETECTOR_BOX, "NvDsObjectMeta.detector_bbox_info") \
  X (OBJECT_TRACKER_BOX, "NvDsObjectMeta.tracker_bbox_info") \
  X (OBJECT_CONFIDENCE, "NvDsObjectMeta.confidence") \
  X (OBJECT_TRACKER_CONFIDENCE, "NvDsObjectMeta.tracker_confidence") \
  X (OBJECT_LABEL, "NvDsObjectMeta.obj_label") \
  X (OBJECT_CLASSIFIERS, "NvDsObjectMeta.classifier_meta_list") \
  X (OBJECT_USERS, "NvDsObjectMeta.obj_user_meta_list") \
  X (RECT_BOX, "NvDsObjectMeta.rect_params.left") \
  X (RECT_BORDER_WIDTH, "NvDsObjectMeta.rect_params.border_width") \
  X (RECT_BORDER_COLOR, "NvDsObjectMeta.rect_params.border_color") \
  X (RECT_HAS_BG, "NvDsObjectMeta.rect_params.has_bg_color") \
  X (RECT_BG_COLOR, "NvDsObjectMeta.rect_params.bg_color") \
  X (RECT_ROTATION, "NvDsObjectMeta.rect_params.rotation_angle") \
  X (MASK_DATA, "NvDsObjectMeta.mask_params.data") \
  X (MASK_SIZE, "NvDsObjectMeta.mask_params.size") \
  X (MASK_THRESHOLD, "NvDsObjectMeta.mask_params.threshold") \
  X (MASK_WIDTH, "NvDsObjectMeta.mask_params.width") \
  X (MASK_HEIGHT, "NvDsObjectMeta.mask_params.height") \
  X (TEXT_DISPLAY, "NvDsObjectMeta.text_params.display_text") \
  X (TEXT_X, "NvDsObjectMeta.text_params.x_offset") \
  X (TEXT_Y, "NvDsObjectMeta.text_params.y_offset") \
  X (FONT_NAME, "NvDsObjectMeta.text_params.font_params.font_name") \
  X (FONT_SIZE, "NvDsObjectMeta.text_params.font_params.font_size") \
  X (FONT_COLOR, "NvDsObjectMeta.text_params.font_params.font_color") \
  X (TEXT_HAS_BG, "NvDsObjectMeta.text_params.set_bg_clr") \
  X (TEXT_BG_COLOR, "NvDsObjectMeta.text_params.text_bg_clr") \
  X (CLASSIFIER_COMPONENT, "NvDsClassifierMeta.unique_component_id") \
  X (CLASSIFIER_TYPE, "NvDsClassifierMeta.classifier_type") \
  X (LABEL_TEXT, "NvDsLabelInfo.result_label") \
  X (LABEL_LONG_TEXT, "NvDsLabelInfo.pResult_label") \
  X (LABEL_CLASS, "NvDsLabelInfo.result_class_id") \
  X (LABEL_ID, "NvDsLabelInfo.label_id") \
  X (LABEL_PROBABILITY, "NvDsLabelInfo.result_prob")

#define SLUICE_FIELD_ENUM(name, path) FIELD_##name,
enum
{
  SLUICE_FIELDS (SLUICE_FIELD_ENUM)
  FIELD_COUNT
};

#define SLUICE_FUNCTION_MEMBER(member, symbol, result, arguments) result (*member) arguments;
typedef struct
{
  SLUICE_FUNCTIONS (SLUICE_FUNCTION_MEMBER)
  gint32 offset[FIELD_COUNT];
} SluiceProvider;

/* One field of an element, as an lvalue. */
#define FIELD(provider, element, name, type) \
  (*(type *) ((guint8 *) (element) + (provider)->offset[FIELD_##name]))

/* What a function returns that must not wait for the meta lock and did not get it. */
#define SLUICE_BUSY G_MININT64

/* A fault found before anything was changed: kind and row in one negative number. */
#define SLUICE_FAULT(kind, row) (-(((gint64) (kind) << 32) + (gint64) (row)))

enum
{
  FAULT_BOX = 1,
  FAULT_BOX_SIZE,
  FAULT_SCORE,
  FAULT_ROTATION,
  FAULT_PARENT,
  FAULT_TRACKER_BOX,
  FAULT_TRACKER_CONFIDENCE,
  FAULT_ADDRESS,
  FAULT_MASK_SIZE,
  FAULT_MASK_MEMORY,
};

/* Take the batch's lock. A caller that holds the GIL must not wait for it: another thread may hold the lock and want
 * the GIL. */
static inline gboolean
sluice_enter (const SluiceProvider *provider, gpointer batch, gboolean wait)
{
  if (!wait)
    return g_rec_mutex_trylock (&FIELD (provider, batch, BATCH_MUTEX, GRecMutex));
  provider->lock (batch);
  return TRUE;
}

static inline gboolean
sluice_all_finite (const gfloat *values, guint count)
{
  for (guint i = 0; i < count; i++) {
    if (!isfinite (values[i]))
      return FALSE;
  }
  return TRUE;
}

/* Add frames to a batch; batch_id is the frame's place in it. `addresses` may be NULL. */
SLUICE_EXPORT gint64 sluice_fill_frames (const SluiceProvider *provider, gpointer batch, const SluiceFrameRow *rows,
    guint count, guint64 *addresses, gboolean wait);

/* Set what a frame's row says; `batch_id` is the frame's place in the batch. */
void sluice_set_frame (const SluiceProvider *provider, gpointer frame, const SluiceFrameRow *row, guint batch_id);

/* The link with this data nearest to a link of the list, or NULL. */
GList *sluice_find_near (GList *from, guint64 address);

/* Check that each address is an object of the frame; in list order or its reverse that takes a step for each.
 * `zero_allowed`: 0 stands for no object. */
gint64 sluice_check_addresses (GList *objects, const guint64 *addresses, guint count, gboolean zero_allowed, gint fault);

/* How many bytes of a UTF-8 text fit into `limit` without cutting a character. */
gsize sluice_fitting (const gchar *text, gsize limit);

/* Where an object's text stands: `rise` above the left top of its box, or the highest corner of one that is turned, but
 * inside the frame; and its looks. */
void sluice_place_text (const SluiceProvider *provider, gpointer object, const gfloat *box, gfloat rise,
    guint font_size);

/* The batch that an element belongs to. */
static inline gpointer
sluice_batch_of (const SluiceProvider *provider, gpointer element)
{
  return FIELD (provider, element, BASE_BATCH, gpointer);
}

/* The fault of a box that row `i` has, numbers that are none or a negative size; 0 for none. */
G_GNUC_INTERNAL gint64 sluice_check_box (const gfloat *box, guint i);

#endif
