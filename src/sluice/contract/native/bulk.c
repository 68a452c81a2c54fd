/* Many objects or frames in one call, under one hold of the meta lock, through either provider.
 *
 * Every function checks all it was given before it changes anything, so that no acquired element is ever left
 * unattached (overlays draw every acquired object). Functions with `wait` FALSE return SLUICE_BUSY instead of blocking.
 */
#include "masks.h"

#include <math.h>
#include <string.h>

#define NAME_OF_FIELD(name, path) path,
#define NAME_OF_FUNCTION(member, symbol, result, arguments) symbol,

static const gchar *const field_names[] = { SLUICE_FIELDS (NAME_OF_FIELD) NULL };
static const gchar *const function_names[] = { SLUICE_FUNCTIONS (NAME_OF_FUNCTION) NULL };

/* The path of one entry of SluiceProvider.offset; NULL after the last. */
SLUICE_EXPORT const gchar *
sluice_field_name (guint index)
{
  return field_names[index];
}

/* The symbol of one function pointer of SluiceProvider; NULL after the last. */
SLUICE_EXPORT const gchar *
sluice_function_name (guint index)
{
  return function_names[index];
}

/* Objects to write. Pointers that may be NULL say so. Boxes are left, top, width, height. */
typedef struct
{
  guint count;
  gint unique_component_id;
  const gfloat *boxes;
  const gfloat *scores;
  const gint32 *class_ids;
  const gchar *const *labels;   /* NULL: none; entries may be NULL */
  guint label_count;            /* 0: one label per row; otherwise a table by class */
  const gchar *const *texts;    /* NULL: the labels; entries may be NULL */
  const gfloat *rotation;       /* NULL: 0; degrees clockwise */
  const SluiceMask *masks;      /* NULL: none */
  gfloat mask_threshold;
  const guint64 *parents;       /* NULL: none; 0: none */
  const gdouble *border_colors; /* red, green, blue, alpha */
  guint border_color_step;      /* 0: one for all, 4: one per row */
  const gdouble *bg_colors;     /* NULL: no background */
  guint bg_color_step;
  guint border_width;
  guint font_size;
  gfloat text_rise;             /* how far the text lies above the box */
  gboolean detector_boxes;      /* the boxes are a detector's: also write detector_bbox_info */
  const guint64 *object_ids;    /* NULL: untracked */
  const gfloat *tracker_boxes;  /* NULL: left alone */
  const gfloat *tracker_confidences;    /* NULL: left alone */
  gint infer_done;              /* what the frame's bInferDone becomes; -1: left alone */
} SluiceObjectRows;

static const NvOSDColor white = { 1, 1, 1, 1 };
static const NvOSDColor black = { 0, 0, 0, 1 };

/* One acquire or add function of the provider, on an element of which `first` is or belongs to the batch. Returns the
 * address of what was acquired. */
SLUICE_EXPORT gint64
sluice_single_call (const SluiceProvider *provider, gpointer function, gpointer first, gpointer second, gpointer third,
    gboolean wait)
{
  gpointer batch = sluice_batch_of (provider, first);
  if (!sluice_enter (provider, batch, wait))
    return SLUICE_BUSY;
  gpointer (*call) (gpointer, gpointer, gpointer) = (gpointer (*) (gpointer, gpointer, gpointer)) function;
  gpointer result = call (first, second, third);
  provider->unlock (batch);
  return (gint64) GPOINTER_TO_SIZE (result);
}

gint64
sluice_check_box (const gfloat *box, guint i)
{
  if (!sluice_all_finite (box, 4))
    return SLUICE_FAULT (FAULT_BOX, i);
  return box[2] < 0 || box[3] < 0 ? SLUICE_FAULT (FAULT_BOX_SIZE, i) : 0;
}

/* The faults that need no lock: numbers that are not numbers. */
static gint64
check_numbers (const SluiceObjectRows *rows)
{
  for (guint i = 0; i < rows->count; i++) {
    gint64 fault = sluice_check_box (rows->boxes + 4 * i, i);
    if (fault != 0)
      return fault;
    if (!isfinite (rows->scores[i]))
      return SLUICE_FAULT (FAULT_SCORE, i);
    if (rows->rotation != NULL && !isfinite (rows->rotation[i]))
      return SLUICE_FAULT (FAULT_ROTATION, i);
    if (rows->tracker_boxes != NULL && !sluice_all_finite (rows->tracker_boxes + 4 * i, 4))
      return SLUICE_FAULT (FAULT_TRACKER_BOX, i);
    if (rows->tracker_confidences != NULL && !isfinite (rows->tracker_confidences[i]))
      return SLUICE_FAULT (FAULT_TRACKER_CONFIDENCE, i);
  }
  return 0;
}

/* Rows mostly come in the list's order, or in the reverse of it, as objects are added at its head. */
GList *
sluice_find_near (GList *from, guint64 address)
{
  GList *after = from, *before = from != NULL ? from->prev : NULL;
  while (after != NULL || before != NULL) {
    if (after != NULL && GPOINTER_TO_SIZE (after->data) == address)
      return after;
    if (before != NULL && GPOINTER_TO_SIZE (before->data) == address)
      return before;
    after = after != NULL ? after->next : NULL;
    before = before != NULL ? before->prev : NULL;
  }
  return NULL;
}

gint64
sluice_check_addresses (GList *objects, const guint64 *addresses, guint count, gboolean zero_allowed, gint fault)
{
  GList *from = objects;
  for (guint i = 0; i < count; i++) {
    if (addresses[i] == 0 && zero_allowed)
      continue;
    GList *link = sluice_find_near (from, addresses[i]);
    if (link == NULL)
      return SLUICE_FAULT (fault, i);
    from = link;
  }
  return 0;
}

gsize
sluice_fitting (const gchar *text, gsize limit)
{
  const gchar *end = memchr (text, '\0', limit + 1);
  if (end != NULL)
    return (gsize) (end - text);
  gsize length = limit;
  while (length > 0 && ((guchar) text[length] & 0xC0) == 0x80)
    length--;
  return length;
}

/* Where a box's text stands: at its left top; of a turned one at the highest corner, the left one of two. At the left
 * top of the box before it is turned, where nvinfer has it, the text may be far from what is drawn. */
static void
text_corner (const gfloat *box, gfloat degrees, gfloat *x, gfloat *y)
{
  *x = box[0];
  *y = box[1];
  if (ABS (degrees) <= 0.001f) /* nvdsosd's limit for a box that is drawn turned */
    return;
  gdouble along[2] = { cos (degrees * G_PI / 180) / 2, sin (degrees * G_PI / 180) / 2 };
  gdouble highest = G_MAXDOUBLE;
  for (gint corner = 0; corner < 4; corner++) {
    gdouble across = (corner & 1 ? 1 : -1) * (gdouble) box[2], down = (corner & 2 ? 1 : -1) * (gdouble) box[3];
    gdouble left = box[0] + box[2] / 2 + across * along[0] - down * along[1];
    gdouble top = box[1] + box[3] / 2 + across * along[1] + down * along[0];
    if (top < highest - 0.01 || (top < highest + 0.01 && left < *x)) {
      highest = MIN (highest, top);
      *x = (gfloat) left;
      *y = (gfloat) top;
    }
  }
}

void
sluice_place_text (const SluiceProvider *provider, gpointer object, const gfloat *box, gfloat rise, guint font_size)
{
  gfloat x, y;
  text_corner (box, FIELD (provider, object, RECT_ROTATION, gfloat), &x, &y);
  FIELD (provider, object, TEXT_X, guint) = (guint) CLAMP (x, 0.0f, (gfloat) G_MAXINT32);
  FIELD (provider, object, TEXT_Y, guint) = (guint) CLAMP (y - rise, 0.0f, (gfloat) G_MAXINT32);
  FIELD (provider, object, FONT_NAME, const gchar *) = "Serif";
  FIELD (provider, object, FONT_SIZE, guint) = font_size;
  FIELD (provider, object, FONT_COLOR, NvOSDColor) = white;
  FIELD (provider, object, TEXT_HAS_BG, gint) = 1;
  FIELD (provider, object, TEXT_BG_COLOR, NvOSDColor) = black;
}

/* Hand a mask over to an object. */
static void
write_mask (const SluiceProvider *provider, gpointer object, const SluiceMask *mask, gfloat **made, gfloat threshold)
{
  FIELD (provider, object, MASK_DATA, gpointer) = g_steal_pointer (made);
  FIELD (provider, object, MASK_SIZE, guint) = mask->width * mask->height * (guint) sizeof (gfloat);
  FIELD (provider, object, MASK_THRESHOLD, gfloat) = threshold;
  FIELD (provider, object, MASK_WIDTH, guint) = mask->width;
  FIELD (provider, object, MASK_HEIGHT, guint) = mask->height;
}

static const gchar *
label_of (const SluiceObjectRows *rows, guint row)
{
  if (rows->labels == NULL)
    return NULL;
  if (rows->label_count == 0)
    return rows->labels[row];
  gint class_id = rows->class_ids[row];
  return class_id >= 0 && (guint) class_id < rows->label_count ? rows->labels[class_id] : NULL;
}

static void
write_text (const SluiceProvider *provider, gpointer object, const SluiceObjectRows *rows, guint row)
{
  const gchar *label = label_of (rows, row);
  const gchar *text = rows->texts != NULL ? rows->texts[row] : label;
  if (label != NULL) {
    gchar *target = &FIELD (provider, object, OBJECT_LABEL, gchar);
    gsize length = sluice_fitting (label, NVDS_MAX_LABEL_SIZE - 1);
    memcpy (target, label, length);
    target[length] = '\0';
  }
  FIELD (provider, object, TEXT_DISPLAY, gchar *) = g_strdup (text);
  sluice_place_text (provider, object, rows->boxes + 4 * row, rows->text_rise, rows->font_size);
}

static void
write_rect (const SluiceProvider *provider, gpointer object, const SluiceObjectRows *rows, guint row)
{
  memcpy (&FIELD (provider, object, RECT_BOX, gfloat), rows->boxes + 4 * row, sizeof (NvBbox));
  FIELD (provider, object, RECT_ROTATION, gfloat) = rows->rotation ? rows->rotation[row] : 0;
  FIELD (provider, object, RECT_BORDER_WIDTH, guint) = rows->border_width;
  memcpy (&FIELD (provider, object, RECT_BORDER_COLOR, NvOSDColor), rows->border_colors + rows->border_color_step * row,
      sizeof (NvOSDColor));
  if (rows->bg_colors != NULL) {
    FIELD (provider, object, RECT_HAS_BG, guint) = 1;
    memcpy (&FIELD (provider, object, RECT_BG_COLOR, NvOSDColor), rows->bg_colors + rows->bg_color_step * row,
        sizeof (NvOSDColor));
  }
}

/* `masks` are those that were made of the rows'; NULL where they have none. */
static void
write_object (const SluiceProvider *provider, gpointer object, const SluiceObjectRows *rows, guint row, gfloat **masks)
{
  FIELD (provider, object, OBJECT_COMPONENT, gint) = rows->unique_component_id;
  FIELD (provider, object, OBJECT_CONFIDENCE, gfloat) = rows->scores[row];
  FIELD (provider, object, OBJECT_CLASS, gint) = rows->class_ids[row];
  FIELD (provider, object, OBJECT_ID, guint64) = rows->object_ids ? rows->object_ids[row] : NVDS_UNTRACKED_OBJECT_ID;
  write_rect (provider, object, rows, row);
  if (rows->detector_boxes)
    memcpy (&FIELD (provider, object, OBJECT_DETECTOR_BOX, NvBbox), rows->boxes + 4 * row, sizeof (NvBbox));
  if (rows->tracker_boxes != NULL)
    memcpy (&FIELD (provider, object, OBJECT_TRACKER_BOX, NvBbox), rows->tracker_boxes + 4 * row, sizeof (NvBbox));
  if (rows->tracker_confidences != NULL)
    FIELD (provider, object, OBJECT_TRACKER_CONFIDENCE, gfloat) = rows->tracker_confidences[row];
  write_text (provider, object, rows, row);
  if (masks != NULL && masks[row] != NULL)
    write_mask (provider, object, &rows->masks[row], &masks[row], rows->mask_threshold);
}

/* Check the rows and make their masks, then take the lock. Returns 0; or, without the lock, a fault or SLUICE_BUSY. */
static gint64
begin (const SluiceProvider *provider, gpointer batch, const SluiceObjectRows *rows, gfloat ***masks, gboolean wait)
{
  *masks = NULL;
  gint64 fault = check_numbers (rows);
  if (fault == 0 && rows->masks != NULL)
    fault = sluice_make_masks (rows->masks, rows->count, masks);
  if (fault == 0 && !sluice_enter (provider, batch, wait)) {
    sluice_free_masks (*masks, rows->count);
    return SLUICE_BUSY;
  }
  return fault;
}

/* Add the rows from `first` to before `end` to a frame. `addresses` may be NULL. */
static void
write_frame (const SluiceProvider *provider, gpointer batch, gpointer frame, const SluiceObjectRows *rows, guint first,
    guint end, gfloat **masks, guint64 *addresses)
{
  for (guint i = first; i < end; i++) {
    gpointer object = provider->acquire_object (batch);
    write_object (provider, object, rows, i, masks);
    provider->add_object (frame, object, rows->parents ? GSIZE_TO_POINTER (rows->parents[i]) : NULL);
    if (addresses != NULL)
      addresses[i] = GPOINTER_TO_SIZE (object);
  }
  if (rows->infer_done >= 0)
    FIELD (provider, frame, FRAME_INFER_DONE, gboolean) = rows->infer_done;
}

/* Add objects to a frame and write their addresses, in row order. Returns how many, or a fault, or SLUICE_BUSY. */
SLUICE_EXPORT gint64
sluice_write_objects (const SluiceProvider *provider, gpointer frame, const SluiceObjectRows *rows, guint64 *addresses,
    gboolean wait)
{
  gpointer batch = sluice_batch_of (provider, frame);
  gfloat **masks;
  gint64 result = begin (provider, batch, rows, &masks, wait);
  if (result != 0)
    return result;
  if (rows->parents != NULL)
    result = sluice_check_addresses (FIELD (provider, frame, FRAME_OBJECTS, GList *), rows->parents, rows->count, TRUE,
        FAULT_PARENT);
  if (result == 0) {
    write_frame (provider, batch, frame, rows, 0, rows->count, masks, addresses);
    result = rows->count;
  }
  provider->unlock (batch);
  sluice_free_masks (masks, rows->count);
  return result;
}

/* Add objects to many frames of one batch: counts[f] rows, in order, to frames[f]. Rows have no parents. Returns how
 * many, or a fault, or SLUICE_BUSY. */
SLUICE_EXPORT gint64
sluice_write_batch (const SluiceProvider *provider, const guint64 *frames, const guint32 *counts, guint n_frames,
    const SluiceObjectRows *rows, gboolean wait)
{
  if (n_frames == 0)
    return 0;
  gpointer batch = sluice_batch_of (provider, GSIZE_TO_POINTER (frames[0]));
  gfloat **masks;
  gint64 result = begin (provider, batch, rows, &masks, wait);
  if (result != 0)
    return result;
  for (guint f = 0, first = 0; f < n_frames; first += counts[f++])
    write_frame (provider, batch, GSIZE_TO_POINTER (frames[f]), rows, first, first + counts[f], masks, NULL);
  provider->unlock (batch);
  sluice_free_masks (masks, rows->count);
  return rows->count;
}

SLUICE_EXPORT gint64
sluice_fill_frames (const SluiceProvider *provider, gpointer batch, const SluiceFrameRow *rows, guint count,
    guint64 *addresses, gboolean wait)
{
  if (!sluice_enter (provider, batch, wait))
    return SLUICE_BUSY;
  for (guint i = 0; i < count; i++) {
    gpointer frame = provider->acquire_frame (batch);
    sluice_set_frame (provider, frame, &rows[i], FIELD (provider, batch, BATCH_FRAMES, guint));
    provider->add_frame (batch, frame);
    if (addresses != NULL)
      addresses[i] = GPOINTER_TO_SIZE (frame);
  }
  provider->unlock (batch);
  return count;
}
