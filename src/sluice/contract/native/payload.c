/* Messages as user metadata: NVIDIA's NvDsPayload (nvdsmeta_schema.h), so that its message brokers can send them.
 *
 * Copy and release are C, since batches are copied and freed on threads that must not need the GIL.
 */
#include "provider.h"

enum
{
  NVDS_PAYLOAD_META = 8,
};

typedef struct
{
  gpointer payload;             /* the bytes, without a NUL at the end */
  guint payloadSize;
  guint componentId;
} NvDsPayload;

G_STATIC_ASSERT (sizeof (NvDsPayload) == 16);

/* A payload with a copy of the bytes, for an NvDsUserMeta's user_meta_data. */
static gpointer
payload_new (gconstpointer bytes, guint size, guint component_id)
{
  NvDsPayload *payload = g_new (NvDsPayload, 1);
  payload->payload = g_memdup2 (bytes, size);
  payload->payloadSize = size;
  payload->componentId = component_id;
  return payload;
}

/* The copy_func of the user meta: given the NvDsUserMeta, returns data for its copy. */
SLUICE_EXPORT gpointer
sluice_payload_copy (gpointer data, gpointer user_data G_GNUC_UNUSED)
{
  const NvDsPayload *payload = ((NvDsUserMeta *) data)->user_meta_data;
  return payload_new (payload->payload, payload->payloadSize, payload->componentId);
}

/* The release_func of the user meta. */
SLUICE_EXPORT void
sluice_payload_release (gpointer data, gpointer user_data G_GNUC_UNUSED)
{
  NvDsUserMeta *user_meta = data;
  NvDsPayload *payload = user_meta->user_meta_data;
  user_meta->user_meta_data = NULL;
  g_free (payload->payload);
  g_free (payload);
}

/* Add a message to the front of a frame's user metas. */
SLUICE_EXPORT gint64
sluice_attach_message (const SluiceProvider *provider, gpointer frame, gconstpointer bytes, guint size,
    guint component_id, gboolean wait)
{
  gpointer batch = FIELD (provider, frame, BASE_BATCH, gpointer);
  if (!sluice_enter (provider, batch, wait))
    return SLUICE_BUSY;
  NvDsUserMeta *user = provider->acquire_user (batch);
  user->base_meta.meta_type = NVDS_PAYLOAD_META;
  user->base_meta.uContext = NULL;
  user->base_meta.copy_func = sluice_payload_copy;
  user->base_meta.release_func = sluice_payload_release;
  user->user_meta_data = payload_new (bytes, size, component_id);
  provider->add_user_to_frame (frame, user);
  provider->unlock (batch);
  return 0;
}
