/* What classifiers say of objects, written as nvinfer writes it: NvDsClassifierMeta with its labels. */
#include "provider.h"

#include <string.h>

typedef struct
{
  guint32 class_id;
  guint32 label_id;
  gfloat probability;
  const gchar *label;           /* NULL for none */
} SluiceLabel;

/* One classifier's result on one object. */
typedef struct
{
  guint64 object;
  const gchar *type;            /* never freed */
  const gchar *text;            /* appended to the object's text; NULL for nothing */
  const SluiceLabel *labels;
  guint32 count;
  gint32 unique_id;
} SluiceClassification;

static void
write_label (const SluiceProvider *provider, gpointer classifier, const SluiceLabel *from)
{
  gpointer label = provider->acquire_label (sluice_batch_of (provider, classifier));
  FIELD (provider, label, LABEL_CLASS, guint32) = from->class_id;
  FIELD (provider, label, LABEL_ID, guint32) = from->label_id;
  FIELD (provider, label, LABEL_PROBABILITY, gfloat) = from->probability;
  if (from->label != NULL) {
    gsize length = sluice_fitting (from->label, NVDS_MAX_LABEL_SIZE - 1);
    gchar *target = &FIELD (provider, label, LABEL_TEXT, gchar);
    memcpy (target, from->label, length);
    target[length] = '\0';
    if (from->label[length] != '\0')
      FIELD (provider, label, LABEL_LONG_TEXT, gchar *) = g_strdup (from->label);
  }
  provider->add_label (classifier, label);
}

static void
append_text (const SluiceProvider *provider, gpointer object, const gchar *text)
{
  gchar **shown = &FIELD (provider, object, TEXT_DISPLAY, gchar *);
  if (*shown == NULL)
    sluice_place_text (provider, object, &FIELD (provider, object, RECT_BOX, gfloat), 10, 11);
  gchar *joined = g_strconcat (*shown != NULL ? *shown : "", " ", text, NULL);
  g_free (*shown);
  *shown = joined;
}

static void
write_classification (const SluiceProvider *provider, gpointer object, const SluiceClassification *row)
{
  gpointer classifier = provider->acquire_classifier (sluice_batch_of (provider, object));
  FIELD (provider, classifier, CLASSIFIER_COMPONENT, gint) = row->unique_id;
  FIELD (provider, classifier, CLASSIFIER_TYPE, const gchar *) = row->type;
  for (guint i = 0; i < row->count; i++)
    write_label (provider, classifier, &row->labels[i]);
  if (row->text != NULL)
    append_text (provider, object, row->text);
  provider->add_classifier (object, classifier);
}

/* Add classifier results to objects of a frame, as nvinfer does. Returns how many, or a fault, or SLUICE_BUSY. */
SLUICE_EXPORT gint64
sluice_write_classifications (const SluiceProvider *provider, gpointer frame, const SluiceClassification *rows,
    guint count, gboolean wait)
{
  gpointer batch = sluice_batch_of (provider, frame);
  if (!sluice_enter (provider, batch, wait))
    return SLUICE_BUSY;
  gint64 fault = 0;
  GList *found = FIELD (provider, frame, FRAME_OBJECTS, GList *);
  for (guint i = 0; fault == 0 && i < count; i++) {
    found = sluice_find_near (found, rows[i].object);
    if (found == NULL)
      fault = SLUICE_FAULT (FAULT_ADDRESS, i);
  }
  for (guint i = 0; fault == 0 && i < count; i++)
    write_classification (provider, GSIZE_TO_POINTER (rows[i].object), &rows[i]);
  provider->unlock (batch);
  return fault != 0 ? fault : (gint64) count;
}
