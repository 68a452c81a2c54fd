/* Carries the metadata that a frame brings along, from a demuxer or an element of its own stream, into the batch. */
#include "carry_meta.h"

static GList *
users (const SluiceProvider *provider, gpointer owner, gint field)
{
  return *(GList **) ((guint8 *) owner + provider->offset[field]);
}

/* Remove the user metas without a copy function, with which NVIDIA's copy crashes. */
static void
drop_uncopyable (const SluiceProvider *provider, gpointer owner, gint field, void (*remove) (gpointer, gpointer))
{
  for (GList *link = users (provider, owner, field); link != NULL;) {
    gpointer user = link->data;
    link = link->next;
    if (FIELD (provider, user, BASE_COPY, gpointer) == NULL)
      remove (owner, user);
  }
}

/* What a copy loses: the parents of objects, which may stand behind their children, and the names of classifiers. */
static void
restore_links (const SluiceProvider *provider, gpointer source, gpointer copy)
{
  g_autoptr (GHashTable) copies = g_hash_table_new (NULL, NULL);
  GList *from = users (provider, source, FIELD_FRAME_OBJECTS), *to = users (provider, copy, FIELD_FRAME_OBJECTS);
  for (; from != NULL && to != NULL; from = from->next, to = to->next)
    g_hash_table_insert (copies, from->data, to->data);
  from = users (provider, source, FIELD_FRAME_OBJECTS);
  to = users (provider, copy, FIELD_FRAME_OBJECTS);
  for (; from != NULL && to != NULL; from = from->next, to = to->next) {
    gpointer parent = FIELD (provider, from->data, OBJECT_PARENT, gpointer);
    FIELD (provider, to->data, OBJECT_PARENT, gpointer) = parent ? g_hash_table_lookup (copies, parent) : NULL;
    GList *classifier = users (provider, from->data, FIELD_OBJECT_CLASSIFIERS);
    GList *twin = users (provider, to->data, FIELD_OBJECT_CLASSIFIERS);
    for (; classifier != NULL && twin != NULL; classifier = classifier->next, twin = twin->next)
      FIELD (provider, twin->data, CLASSIFIER_TYPE, const gchar *) =
          FIELD (provider, classifier->data, CLASSIFIER_TYPE, const gchar *);
  }
}

gpointer
sluice_carried_frame (const SluiceProvider *provider, GstBuffer *buffer)
{
  gpointer batch = provider->find_batch (buffer);
  GList *frames = batch ? FIELD (provider, batch, BATCH_FRAME_LIST, GList *) : NULL;
  return frames != NULL && frames->next == NULL ? frames->data : NULL;
}

void
sluice_carry_frame (const SluiceProvider *provider, gpointer source, gpointer copy)
{
  gpointer owner = FIELD (provider, source, BASE_BATCH, gpointer);
  provider->lock (owner);
  drop_uncopyable (provider, source, FIELD_FRAME_USERS, provider->remove_user_from_frame);
  for (GList *link = users (provider, source, FIELD_FRAME_OBJECTS); link != NULL; link = link->next)
    drop_uncopyable (provider, link->data, FIELD_OBJECT_USERS, provider->remove_user_from_object);
  /* A copy reverses every list, so a copy of a copy has its order. */
  gpointer turned_batch = provider->create_batch (1);
  FIELD (provider, turned_batch, BATCH_MAX_FRAMES, guint32) = 1;
  gpointer turned = provider->acquire_frame (turned_batch);
  provider->copy_frame (source, turned);
  provider->add_frame (turned_batch, turned);
  provider->copy_frame (turned, copy);
  restore_links (provider, source, copy);
  provider->destroy_batch (turned_batch);
  provider->unlock (owner);
}
