/* The metadata structs of DeepStream 9.0 and 9.1 (x86-64 and aarch64 agree), as both providers lay them out in memory.
 *
 * Written from the offsets in ../layouts/deepstream-9.json; the assertions at the end hold the two together. All
 * lists are GLists whose data are the elements; elements belong to the pools of their batch and are never freed alone.
 */
#ifndef SLUICE_NVDS_H
#define SLUICE_NVDS_H

#include <glib.h>
#include <gst/gst.h>

#define SLUICE_EXPORT __attribute__ ((visibility ("default")))

#define NVDS_MAX_LABEL_SIZE 128
#define NVDS_MAX_DISPLAY_ELEMENTS 16
#define NVDS_UNTRACKED_OBJECT_ID G_MAXUINT64

enum
{
  NVDS_BATCH_META = 1,
  NVDS_FRAME_META = 2,
  NVDS_OBJ_META = 3,
  NVDS_DISPLAY_META = 4,
  NVDS_CLASSIFIER_META = 5,
  NVDS_LABEL_INFO_META = 6,
  NVDS_USER_META = 7,
  NVDS_START_USER_META = 0x2001,
  NVDS_BATCH_GST_META = 0x1001,
};

typedef gpointer (*NvDsCopyFunc) (gpointer data, gpointer user_data);
typedef void (*NvDsReleaseFunc) (gpointer data, gpointer user_data);

typedef struct NvDsBatchMeta NvDsBatchMeta;
typedef struct NvDsObjectMeta NvDsObjectMeta;

typedef struct
{
  NvDsBatchMeta *batch_meta;
  gint meta_type;
  gpointer uContext;
  NvDsCopyFunc copy_func;
  NvDsReleaseFunc release_func;
} NvDsBaseMeta;

typedef struct
{
  gint meta_type;
  guint max_elements_in_pool;
  guint element_size;
  guint num_empty_elements;
  guint num_full_elements;
  GList *empty_list;
  GList *full_list;
  NvDsCopyFunc copy_func;
  NvDsReleaseFunc release_func;
} NvDsMetaPool;

struct NvDsBatchMeta
{
  NvDsBaseMeta base_meta;
  guint max_frames_in_batch;
  guint num_frames_in_batch;
  NvDsMetaPool *frame_meta_pool;
  NvDsMetaPool *obj_meta_pool;
  NvDsMetaPool *classifier_meta_pool;
  NvDsMetaPool *display_meta_pool;
  NvDsMetaPool *user_meta_pool;
  NvDsMetaPool *label_info_meta_pool;
  GList *frame_meta_list;
  GList *batch_user_meta_list;
  GRecMutex meta_mutex;
  gint64 misc_batch_info[4];
  gint64 reserved[4];
};

typedef struct
{
  guint source_id;
  gchar *uri;
  gchar *sensor_id;
  gchar *sensor_name;
} NvDsSensorInfo;

typedef struct
{
  NvDsBaseMeta base_meta;
  guint pad_index;
  guint batch_id;
  gint frame_num;
  guint64 buf_pts;
  guint64 ntp_timestamp;
  guint source_id;
  gint num_surfaces_per_frame;
  guint source_frame_width;
  guint source_frame_height;
  guint surface_type;
  guint surface_index;
  guint num_obj_meta;
  gboolean bInferDone;
  GList *obj_meta_list;
  GList *display_meta_list;
  GList *frame_user_meta_list;
  gint64 misc_frame_info[4];
  guint pipeline_width;
  guint pipeline_height;
  NvDsSensorInfo sensorInfo_meta;
  gint64 reserved[4];
} NvDsFrameMeta;

typedef struct
{
  gfloat left, top, width, height;
} NvBbox;

typedef struct
{
  gdouble red, green, blue, alpha;
} NvOSDColor;

typedef struct
{
  gchar *font_name;
  guint font_size;
  NvOSDColor font_color;
} NvOSDFont;

typedef struct
{
  gchar *display_text;
  guint x_offset;
  guint y_offset;
  NvOSDFont font_params;
  gint set_bg_clr;
  NvOSDColor text_bg_clr;
} NvOSDText;

typedef struct
{
  gfloat left, top, width, height;
  guint border_width;
  NvOSDColor border_color;
  guint has_bg_color;
  guint reserved;
  NvOSDColor bg_color;
  gint has_color_info;
  gint color_id;
  gfloat rotation_angle;
} NvOSDRect;

typedef struct
{
  gfloat *data;
  guint size;
  gfloat threshold;
  guint width;
  guint height;
} NvOSDMask;

struct NvDsObjectMeta
{
  NvDsBaseMeta base_meta;
  NvDsObjectMeta *parent;
  gint unique_component_id;
  gint class_id;
  guint64 object_id;
  NvBbox detector_bbox_info;
  NvBbox tracker_bbox_info;
  gfloat confidence;
  gfloat tracker_confidence;
  NvOSDRect rect_params;
  NvOSDMask mask_params;
  NvOSDText text_params;
  gchar obj_label[NVDS_MAX_LABEL_SIZE];
  GList *classifier_meta_list;
  GList *obj_user_meta_list;
  gint64 misc_obj_info[4];
  gint64 reserved[4];
};

typedef struct
{
  NvDsBaseMeta base_meta;
  guint num_labels;
  gint unique_component_id;
  GList *label_info_list;
  const gchar *classifier_type;
} NvDsClassifierMeta;

typedef struct
{
  NvDsBaseMeta base_meta;
  guint num_classes;
  gchar result_label[NVDS_MAX_LABEL_SIZE];
  gchar *pResult_label;
  guint result_class_id;
  guint label_id;
  gfloat result_prob;
} NvDsLabelInfo;

/* The line, arrow and circle parameters are only copied as a whole here. */
typedef struct
{
  NvDsBaseMeta base_meta;
  guint num_rects, num_labels, num_lines, num_arrows, num_circles;
  NvOSDRect rect_params[NVDS_MAX_DISPLAY_ELEMENTS];
  NvOSDText text_params[NVDS_MAX_DISPLAY_ELEMENTS];
  guint8 shapes[3456];
  gint64 misc_osd_data[4];
  gint64 reserved[4];
} NvDsDisplayMeta;

typedef struct
{
  NvDsBaseMeta base_meta;
  gpointer user_meta_data;
} NvDsUserMeta;

typedef struct
{
  GstMeta meta;
  gpointer meta_data;
  gpointer user_data;
  gint meta_type;
  NvDsCopyFunc copyfunc;
  NvDsReleaseFunc freefunc;
  NvDsCopyFunc gst_to_nvds_meta_transform_func;
  NvDsReleaseFunc gst_to_nvds_meta_release_func;
} NvDsMeta;

G_STATIC_ASSERT (sizeof (NvDsBaseMeta) == 40);
G_STATIC_ASSERT (sizeof (NvDsMetaPool) == 56);
G_STATIC_ASSERT (sizeof (NvDsBatchMeta) == 192);
G_STATIC_ASSERT (G_STRUCT_OFFSET (NvDsBatchMeta, meta_mutex) == 112);
G_STATIC_ASSERT (sizeof (NvDsFrameMeta) == 232);
G_STATIC_ASSERT (G_STRUCT_OFFSET (NvDsFrameMeta, obj_meta_list) == 104);
G_STATIC_ASSERT (G_STRUCT_OFFSET (NvDsFrameMeta, sensorInfo_meta) == 168);
G_STATIC_ASSERT (sizeof (NvOSDRect) == 112);
G_STATIC_ASSERT (sizeof (NvOSDText) == 104);
G_STATIC_ASSERT (sizeof (NvOSDMask) == 24);
G_STATIC_ASSERT (sizeof (NvDsObjectMeta) == 552);
G_STATIC_ASSERT (G_STRUCT_OFFSET (NvDsObjectMeta, obj_label) == 344);
G_STATIC_ASSERT (sizeof (NvDsClassifierMeta) == 64);
G_STATIC_ASSERT (sizeof (NvDsLabelInfo) == 200);
G_STATIC_ASSERT (sizeof (NvDsDisplayMeta) == 7040);
G_STATIC_ASSERT (G_STRUCT_OFFSET (NvDsDisplayMeta, misc_osd_data) == 6976);
G_STATIC_ASSERT (sizeof (NvDsUserMeta) == 48);
G_STATIC_ASSERT (sizeof (NvDsMeta) == 72);

/* The portable provider, as its copies and its GstMeta use it. */
SLUICE_EXPORT NvDsBatchMeta *sluice_nvds_create_batch_meta (guint max_frames);
SLUICE_EXPORT NvDsFrameMeta *sluice_nvds_acquire_frame_meta_from_pool (NvDsBatchMeta *batch);
SLUICE_EXPORT NvDsObjectMeta *sluice_nvds_acquire_obj_meta_from_pool (NvDsBatchMeta *batch);
SLUICE_EXPORT NvDsClassifierMeta *sluice_nvds_acquire_classifier_meta_from_pool (NvDsBatchMeta *batch);
SLUICE_EXPORT NvDsDisplayMeta *sluice_nvds_acquire_display_meta_from_pool (NvDsBatchMeta *batch);
SLUICE_EXPORT NvDsUserMeta *sluice_nvds_acquire_user_meta_from_pool (NvDsBatchMeta *batch);
SLUICE_EXPORT NvDsLabelInfo *sluice_nvds_acquire_label_info_meta_from_pool (NvDsBatchMeta *batch);
SLUICE_EXPORT void sluice_nvds_add_frame_meta_to_batch (NvDsBatchMeta *batch, NvDsFrameMeta *frame);
SLUICE_EXPORT void sluice_nvds_add_obj_meta_to_frame (NvDsFrameMeta *frame, NvDsObjectMeta *object,
    NvDsObjectMeta *parent);
SLUICE_EXPORT void sluice_nvds_add_display_meta_to_frame (NvDsFrameMeta *frame, NvDsDisplayMeta *display);
SLUICE_EXPORT void sluice_nvds_add_classifier_meta_to_object (NvDsObjectMeta *object, NvDsClassifierMeta *classifier);
SLUICE_EXPORT void sluice_nvds_add_label_info_meta_to_classifier (NvDsClassifierMeta *classifier, NvDsLabelInfo *label);
SLUICE_EXPORT void sluice_nvds_add_user_meta_to_batch (NvDsBatchMeta *batch, NvDsUserMeta *user);
SLUICE_EXPORT void sluice_nvds_add_user_meta_to_frame (NvDsFrameMeta *frame, NvDsUserMeta *user);
SLUICE_EXPORT void sluice_nvds_add_user_meta_to_obj (NvDsObjectMeta *object, NvDsUserMeta *user);
SLUICE_EXPORT gpointer sluice_nvds_batch_meta_copy_func (gpointer data, gpointer user_data);
SLUICE_EXPORT void sluice_nvds_batch_meta_release_func (gpointer data, gpointer user_data);

/* Of the pools: an element goes back, and all of a list do; with the batch's lock held. */
G_GNUC_INTERNAL void sluice_pool_return (NvDsMetaPool *pool, gpointer element);
G_GNUC_INTERNAL void sluice_clear_list (NvDsMetaPool *pool, GList **list);

#endif
