/* Where a frame's ntp_timestamp comes from: see capture.h. The texts are constants, so copies cost nothing. */
#include "capture.h"

static const gchar *const TEXTS[] = { NULL, "arrival", "rtcp" };

SLUICE_EXPORT gpointer
sluice_capture_copy (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  return ((NvDsUserMeta *) user_meta)->user_meta_data;
}

static void
capture_release (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  ((NvDsUserMeta *) user_meta)->user_meta_data = NULL;
}

const gchar *
sluice_capture_told (const SluiceProvider *provider, gpointer user)
{
  gboolean ours = FIELD (provider, user, BASE_COPY, gpointer) == (gpointer) sluice_capture_copy;
  return ours ? ((NvDsUserMeta *) user)->user_meta_data : NULL;
}

static void
forget (const SluiceProvider *provider, gpointer frame)
{
  for (GList *link = FIELD (provider, frame, FRAME_USERS, GList *); link != NULL;) {
    gpointer user = link->data;
    link = link->next;
    if (sluice_capture_told (provider, user) != NULL)
      provider->remove_user_from_frame (frame, user);
  }
}

void
sluice_tell_capture (const SluiceProvider *provider, gpointer batch, gpointer frame, Capture from, gint meta_type)
{
  forget (provider, frame);
  if (from == CAPTURE_UNTOLD)
    return;
  NvDsUserMeta *user = provider->acquire_user (batch);
  user->user_meta_data = (gpointer) TEXTS[from];
  user->base_meta.meta_type = meta_type;
  user->base_meta.uContext = NULL;
  user->base_meta.copy_func = sluice_capture_copy;
  user->base_meta.release_func = capture_release;
  provider->add_user_to_frame (frame, user);
}
