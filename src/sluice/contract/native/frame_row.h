/* One frame to create in a batch's metadata; the numpy dtype FRAME_ROW of _rows.py has the same fields. */
#ifndef SLUICE_FRAME_ROW_H
#define SLUICE_FRAME_ROW_H

#include <glib.h>

typedef struct {
  guint64 buf_pts;
  guint64 ntp_timestamp;
  guint32 pad_index;
  guint32 source_id;
  gint32 frame_num;
  guint32 source_width;
  guint32 source_height;
  guint32 pipeline_width;
  guint32 pipeline_height;
} SluiceFrameRow;

G_STATIC_ASSERT(sizeof(SluiceFrameRow) == 48);

#endif
