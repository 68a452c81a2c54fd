/* Masks of objects: from bits or floats to the floats that the metadata owns. */
#include "masks.h"

#include <string.h>

#define NIBBLE(bits) { (bits) & 1, (bits) >> 1 & 1, (bits) >> 2 & 1, (bits) >> 3 & 1 }

/* Four cells for each half of a byte. */
static const gfloat nibbles[16][4] = { NIBBLE (0), NIBBLE (1), NIBBLE (2), NIBBLE (3), NIBBLE (4), NIBBLE (5),
  NIBBLE (6), NIBBLE (7), NIBBLE (8), NIBBLE (9), NIBBLE (10), NIBBLE (11), NIBBLE (12), NIBBLE (13), NIBBLE (14),
  NIBBLE (15)
};

static void
unpack (const guint8 *bits, gsize cells, gfloat *target)
{
  for (; cells >= 8; cells -= 8, bits++, target += 8) {
    memcpy (target, nibbles[*bits & 15], sizeof *nibbles);
    memcpy (target + 4, nibbles[*bits >> 4], sizeof *nibbles);
  }
  for (gsize cell = 0; cell < cells; cell++)
    target[cell] = *bits >> cell & 1;
}

gint64
sluice_make_masks (const SluiceMask *masks, guint count, gfloat ***made)
{
  gint64 fault = 0;
  *made = g_new0 (gfloat *, count);
  for (guint i = 0; fault == 0 && i < count; i++) {
    gsize cells = (gsize) masks[i].width * masks[i].height;
    if (masks[i].cells == NULL || cells == 0)
      continue;
    gfloat *target = NULL;
    if (cells > G_MAXUINT32 / sizeof *target)   /* the metadata tells the size in bytes as an unsigned int */
      fault = SLUICE_FAULT (FAULT_MASK_SIZE, i);
    else if ((target = g_try_malloc (cells * sizeof *target)) == NULL)
      fault = SLUICE_FAULT (FAULT_MASK_MEMORY, i);
    else if (masks[i].packed)
      unpack (masks[i].cells, cells, target);
    else
      memcpy (target, masks[i].cells, cells * sizeof *target);
    (*made)[i] = target;
  }
  if (fault != 0) {
    sluice_free_masks (*made, count);
    *made = NULL;
  }
  return fault;
}

void
sluice_free_masks (gfloat **made, guint count)
{
  for (guint i = 0; made != NULL && i < count; i++)
    g_free (made[i]);
  g_free (made);
}
