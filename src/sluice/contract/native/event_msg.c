/* Event messages as user metadata: NVIDIA's NvDsEventMsgMeta (nvdsmeta_schema.h), which nvmsgconv turns into messages.
 *
 * Copy and release are C, since batches are copied and freed on threads that must not need the GIL. They own the texts
 * and the vehicle's description that `sluice_event_message_set` writes, which is all that these messages point to.
 */
#include <string.h>

#include "nvds.h"

enum
{
  OBJECT_VEHICLE = 0,           /* NVDS_OBJECT_TYPE_VEHICLE */
};

typedef struct
{
  gint type;
  gint objType;
  gfloat bbox[4];               /* top, left, width, height */
  gdouble location[3], coordinate[3];
  gpointer signature[2];
  gint objClassId;
  gint sensorId, moduleId, placeId, componentId;
  gint frameId;
  gdouble confidence;
  guint64 trackingId;
  gchar *ts;
  gchar *objectId;
  gchar *sensorStr;
  guint8 entries[13600];
  guint8 unused[96];            /* count to videoPath: all NULL or 0 here */
  gpointer extMsg;
  guint extMsgSize;
  gpointer pose[2], embedding[2];
  gboolean has3DTracking;       /* a C++ bool; its other bytes are padding */
  gfloat feet[4];
  gpointer convexHull[2];
  gfloat box3d[12];
  guint8 box3d_rest[48];
  gfloat visibility;
} NvDsEventMsgMeta;

G_STATIC_ASSERT (sizeof (NvDsEventMsgMeta) == 14040);
G_STATIC_ASSERT (G_STRUCT_OFFSET (NvDsEventMsgMeta, objClassId) == 88);
G_STATIC_ASSERT (G_STRUCT_OFFSET (NvDsEventMsgMeta, confidence) == 112);
G_STATIC_ASSERT (G_STRUCT_OFFSET (NvDsEventMsgMeta, ts) == 128);
G_STATIC_ASSERT (G_STRUCT_OFFSET (NvDsEventMsgMeta, entries) == 152);
G_STATIC_ASSERT (G_STRUCT_OFFSET (NvDsEventMsgMeta, extMsg) == 13848);
G_STATIC_ASSERT (G_STRUCT_OFFSET (NvDsEventMsgMeta, has3DTracking) == 13896);
G_STATIC_ASSERT (G_STRUCT_OFFSET (NvDsEventMsgMeta, box3d) == 13936);
G_STATIC_ASSERT (G_STRUCT_OFFSET (NvDsEventMsgMeta, visibility) == 14032);

typedef struct
{
  gchar *type, *make, *model, *color, *region, *license;
} NvDsVehicleObject;

G_STATIC_ASSERT (sizeof (NvDsVehicleObject) == 48);

/* What a message says; mirrored by pyservicemaker/event_message.py. The texts are copied. */
typedef struct
{
  gint32 type;
  gint32 object_type;
  gint32 class_id;
  gint32 source_id;
  gint32 frame_number;
  gint32 has_box3d;
  gfloat box[4];                /* top, left, width, height */
  gfloat box3d[12];             /* centre, size, rotation, velocity: x, y, z each */
  gdouble confidence;
  guint64 tracking_id;
  const gchar *timestamp;
  const gchar *label;
  const gchar *sensor;
  const gchar *vehicle_type;
  const gchar *vehicle_make;
  const gchar *vehicle_color;
} SluiceEventMessage;

static void
free_contents (NvDsEventMsgMeta *message)
{
  g_free (message->ts);
  g_free (message->objectId);
  g_free (message->sensorStr);
  NvDsVehicleObject *vehicle = message->extMsg;
  if (vehicle != NULL) {
    g_free (vehicle->type);
    g_free (vehicle->make);
    g_free (vehicle->color);
    g_free (vehicle);
  }
}

static gpointer
new_vehicle (const gchar *type, const gchar *make, const gchar *color)
{
  NvDsVehicleObject *vehicle = g_new0 (NvDsVehicleObject, 1);
  vehicle->type = g_strdup (type);
  vehicle->make = g_strdup (make);
  vehicle->color = g_strdup (color);
  return vehicle;
}

/* Empty data for an event message's user meta. */
SLUICE_EXPORT gpointer
sluice_event_message_new (void)
{
  return g_new0 (NvDsEventMsgMeta, 1);
}

/* Write what a message says over what it said before. */
SLUICE_EXPORT void
sluice_event_message_set (gpointer data, const SluiceEventMessage *said)
{
  NvDsEventMsgMeta *message = data;
  free_contents (message);
  memset (message, 0, sizeof *message);
  message->type = said->type;
  message->objType = said->object_type;
  message->objClassId = said->class_id;
  message->sensorId = message->placeId = message->moduleId = said->source_id;
  message->frameId = said->frame_number;
  memcpy (message->bbox, said->box, sizeof message->bbox);
  message->confidence = said->confidence;
  message->trackingId = said->tracking_id;
  message->ts = g_strdup (said->timestamp);
  message->objectId = g_strdup (said->label);
  message->sensorStr = g_strdup (said->sensor);
  if (said->object_type == OBJECT_VEHICLE) {
    message->extMsg = new_vehicle (said->vehicle_type, said->vehicle_make, said->vehicle_color);
    message->extMsgSize = sizeof (NvDsVehicleObject);
  }
  if (said->has_box3d) {
    message->has3DTracking = TRUE;
    memcpy (message->box3d, said->box3d, sizeof message->box3d);
  }
}

/* The copy_func of the user meta: given the NvDsUserMeta, returns data for its copy. */
SLUICE_EXPORT gpointer
sluice_event_message_copy (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  const NvDsEventMsgMeta *message = ((NvDsUserMeta *) user_meta)->user_meta_data;
  NvDsEventMsgMeta *copy = g_memdup2 (message, sizeof *message);
  copy->ts = g_strdup (message->ts);
  copy->objectId = g_strdup (message->objectId);
  copy->sensorStr = g_strdup (message->sensorStr);
  const NvDsVehicleObject *vehicle = message->extMsg;
  if (vehicle != NULL)
    copy->extMsg = new_vehicle (vehicle->type, vehicle->make, vehicle->color);
  return copy;
}

/* The release_func of the user meta. */
SLUICE_EXPORT void
sluice_event_message_release (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  NvDsEventMsgMeta *message = ((NvDsUserMeta *) user_meta)->user_meta_data;
  ((NvDsUserMeta *) user_meta)->user_meta_data = NULL;
  free_contents (message);
  g_free (message);
}
