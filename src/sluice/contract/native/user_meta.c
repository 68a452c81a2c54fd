/* Sluice's own user metas: texts, bytes and Python objects whose copy and release functions need no GIL.
 *
 * A text is a C string, so that other code can read it; bytes are a GBytes. Python objects of one batch, and of its
 * copies, form a group: the objects are let go together, in one entry into the interpreter, when the last meta of the
 * group is released. A meta of its own on the batch keeps the group until then.
 */
#include "provider.h"

void sluice_python_drop_all (gpointer *objects, guint count);

typedef struct
{
  gint refs;                    /* the metas of the group: one per payload and batch, one keeper per batch */
  GMutex mutex;
  GPtrArray *entries;
  GPtrArray *objects;
} SluiceGroup;

typedef struct
{
  SluiceGroup *group;
  gpointer object;
} SluiceEntry;

static gint live_payloads;
static gint drains;

/* How many payloads are on batches; a test's ledger. */
SLUICE_EXPORT gint
sluice_live_payloads (void)
{
  return g_atomic_int_get (&live_payloads);
}

/* How often Python was entered to let objects go. */
SLUICE_EXPORT gint
sluice_python_drains (void)
{
  return g_atomic_int_get (&drains);
}

static gpointer
take_data (gpointer user_meta)
{
  gpointer data = ((NvDsUserMeta *) user_meta)->user_meta_data;
  ((NvDsUserMeta *) user_meta)->user_meta_data = NULL;
  g_atomic_int_add (&live_payloads, -1);
  return data;
}

SLUICE_EXPORT gpointer
sluice_text_copy (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  g_atomic_int_inc (&live_payloads);
  return g_strdup (((NvDsUserMeta *) user_meta)->user_meta_data);
}

SLUICE_EXPORT void
sluice_text_release (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  g_free (take_data (user_meta));
}

SLUICE_EXPORT gpointer
sluice_bytes_copy (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  g_atomic_int_inc (&live_payloads);
  return g_bytes_ref (((NvDsUserMeta *) user_meta)->user_meta_data);
}

SLUICE_EXPORT void
sluice_bytes_release (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  g_bytes_unref (take_data (user_meta));
}

/* ---- Python objects ---- */

static void
group_unref (SluiceGroup *group)
{
  if (!g_atomic_int_dec_and_test (&group->refs))
    return;
  if (group->objects->len > 0) {
    g_atomic_int_inc (&drains);
    sluice_python_drop_all (group->objects->pdata, group->objects->len);
  }
  g_ptr_array_free (group->objects, TRUE);
  g_ptr_array_free (group->entries, TRUE);
  g_mutex_clear (&group->mutex);
  g_free (group);
}

static gpointer
keeper_copy (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  SluiceGroup *group = ((NvDsUserMeta *) user_meta)->user_meta_data;
  g_atomic_int_inc (&group->refs);
  return group;
}

static void
keeper_release (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  SluiceGroup *group = ((NvDsUserMeta *) user_meta)->user_meta_data;
  ((NvDsUserMeta *) user_meta)->user_meta_data = NULL;
  group_unref (group);
}

SLUICE_EXPORT gpointer
sluice_object_copy (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  SluiceEntry *entry = ((NvDsUserMeta *) user_meta)->user_meta_data;
  g_atomic_int_inc (&live_payloads);
  g_atomic_int_inc (&entry->group->refs);
  return entry;
}

SLUICE_EXPORT void
sluice_object_release (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  SluiceEntry *entry = take_data (user_meta);
  group_unref (entry->group);
}

static NvDsUserMeta *
new_user (const SluiceProvider *provider, gpointer batch, gint meta_type, gpointer data, NvDsCopyFunc copy,
    NvDsReleaseFunc release)
{
  NvDsUserMeta *user = provider->acquire_user (batch);
  user->base_meta.meta_type = meta_type;
  user->base_meta.uContext = NULL;
  user->base_meta.copy_func = copy;
  user->base_meta.release_func = release;
  user->user_meta_data = data;
  return user;
}

static SluiceGroup *
group_of (const SluiceProvider *provider, gpointer batch, gint keeper_type)
{
  for (GList *link = FIELD (provider, batch, BATCH_USERS, GList *); link != NULL; link = link->next) {
    NvDsUserMeta *user = link->data;
    if (user->base_meta.release_func == keeper_release)
      return user->user_meta_data;
  }
  SluiceGroup *group = g_new0 (SluiceGroup, 1);
  group->refs = 1;
  g_mutex_init (&group->mutex);
  group->entries = g_ptr_array_new_with_free_func (g_free);
  group->objects = g_ptr_array_new ();
  provider->add_user_to_batch (batch, new_user (provider, batch, keeper_type, group, keeper_copy, keeper_release));
  return group;
}

static SluiceEntry *
new_entry (SluiceGroup *group, gpointer object)
{
  SluiceEntry *entry = g_new (SluiceEntry, 1);
  entry->group = group;
  entry->object = object;
  g_atomic_int_inc (&group->refs);
  /* Copies of a batch share the group, each under its own lock. */
  g_mutex_lock (&group->mutex);
  g_ptr_array_add (group->entries, entry);
  g_ptr_array_add (group->objects, object);
  g_mutex_unlock (&group->mutex);
  return entry;
}

/* ---- attach ---- */

typedef enum
{
  PAYLOAD_TEXT,
  PAYLOAD_BYTES,
  PAYLOAD_OBJECT,
} SluicePayloadKind;

typedef struct
{
  gint kind;
  gint meta_type;
  gint keeper_type;             /* of PAYLOAD_OBJECT */
  gconstpointer data;           /* a text, bytes, or an object of which a reference is handed over */
  gsize size;                   /* of bytes */
} SluicePayload;

static NvDsUserMeta *
payload_user (const SluiceProvider *provider, gpointer batch, const SluicePayload *payload)
{
  g_atomic_int_inc (&live_payloads);
  switch (payload->kind) {
    case PAYLOAD_TEXT:
      return new_user (provider, batch, payload->meta_type, g_strdup (payload->data), sluice_text_copy,
          sluice_text_release);
    case PAYLOAD_BYTES:
      return new_user (provider, batch, payload->meta_type, g_bytes_new (payload->data, payload->size),
          sluice_bytes_copy, sluice_bytes_release);
    default:
    {
      SluiceGroup *group = group_of (provider, batch, payload->keeper_type);
      return new_user (provider, batch, payload->meta_type, new_entry (group, (gpointer) payload->data),
          sluice_object_copy, sluice_object_release);
    }
  }
}

/* Put a payload on a batch, frame or object (`level` is its NvDsMetaType). Returns the address of the user meta. */
SLUICE_EXPORT gint64
sluice_attach_payload (const SluiceProvider *provider, gpointer owner, const SluicePayload *payload, gint level,
    gboolean wait)
{
  gpointer batch = level == NVDS_BATCH_META ? owner : FIELD (provider, owner, BASE_BATCH, gpointer);
  if (!sluice_enter (provider, batch, wait))
    return SLUICE_BUSY;
  NvDsUserMeta *user = payload_user (provider, batch, payload);
  if (level == NVDS_BATCH_META)
    provider->add_user_to_batch (batch, user);
  else if (level == NVDS_FRAME_META)
    provider->add_user_to_frame (owner, user);
  else
    provider->add_user_to_object (owner, user);
  provider->unlock (batch);
  return (gint64) GPOINTER_TO_SIZE (user);
}
