/* Masks of objects, as callers give them and as the metadata has them. */
#ifndef SLUICE_MASKS_H
#define SLUICE_MASKS_H

#include "provider.h"

typedef struct
{
  gconstpointer cells;          /* height * width cells, row by row; NULL: no mask */
  guint width;
  guint height;
  gboolean packed;              /* a cell is a bit, the lowest of a byte first, and stands for 0 or 1; else a gfloat */
} SluiceMask;

/* Allocate the metadata's own masks and fill them, all or none; needs no lock, and takes longer than one should be
 * held. `made` gets `count` pointers, NULL for no mask; it and what of it is left are for sluice_free_masks(). */
G_GNUC_INTERNAL gint64 sluice_make_masks (const SluiceMask *masks, guint count, gfloat ***made);

/* `made` may be NULL. */
G_GNUC_INTERNAL void sluice_free_masks (gfloat **made, guint count);

#endif
