/* What the files of the pixel half share: frames, the memory of a batch, and its checked reading. */
#ifndef SLUICE_SURFACE_H
#define SLUICE_SURFACE_H

#include "nvbufsurface_abi.h"

#include <gst/gst.h>
#include <gst/video/video.h>

#define COLOUR_TAG 3 /* the element of NvBufSurfaceParams._reserved that formats.colour_tag describes */
#define SLUICE_MAP_CUDA (GST_MAP_FLAG_LAST << 1) /* GST_MAP_CUDA of gst/cuda/gstcudamemory.h */

/* For functions that report into (char *error, gsize room). */
#define FAIL(...) (g_snprintf(error, room, __VA_ARGS__), FALSE)

enum { HOST_MAPS, COPIES, LIVE_TENSORS, LIVE_BATCHES, LIVE_FRAMES, HOST_FRAMES, HOST_BYTES, N_COUNTERS };

G_GNUC_INTERNAL void count_pixels(int which, gint64 by);

/* One frame of a batch: the buffer that came in and, for raw video, the map of it. */
typedef struct {
  gint references;
  gboolean mapped;
  GstBuffer *buffer;
  GstVideoFrame video; /* valid while mapped */
} Frame;

G_GNUC_INTERNAL Frame *frame_new(GstBuffer *buffer);
G_GNUC_INTERNAL Frame *frame_ref(Frame *frame);
G_GNUC_INTERNAL void frame_unref(Frame *frame);
G_GNUC_INTERNAL gboolean frame_map(Frame *frame, const GstVideoInfo *info, guint flags);
G_GNUC_INTERNAL gboolean frame_is_exclusive(Frame *frame);
G_GNUC_INTERNAL Frame *frame_copy(Frame *source, guint map_flags);

typedef enum { ONE_ALLOCATION, SCATTERED, BAD_STRIDE, TOO_SMALL } Placement;

G_GNUC_INTERNAL Placement describe_frame(const GstVideoFrame *video, guint32 color_format, guint64 tag,
                                         NvBufSurfaceParams *out);

typedef struct {
  GstMemory memory;
  NvBufSurface surface; /* of a parent only; a shared part points to its parent's */
  guint frames;
  Frame **frame;
} BatchMemory;

G_GNUC_INTERNAL BatchMemory *batch_memory_new(guint capacity, guint frames, guint mem_type, guint gpu_id);
G_GNUC_INTERNAL BatchMemory *batch_of(GstBuffer *buffer);

/* One frame as Python describes it (mirrored by _pixels.py). */
typedef struct {
  GstBuffer *buffer;
  const GstVideoInfo *info; /* NULL where the buffer maps to an NvBufSurface; then nothing below counts */
  guint64 tag;
  guint32 color_format;
  guint32 on_cuda;
} RawFrame;

typedef struct { /* mirrored by surface.py */
  guint64 data;
  guint64 tag;
  guint32 width, height, color_format, layout, data_size, planes;
  guint32 plane[NVBUF_MAX_PLANES][5]; /* width, height, pitch, offset, bytes per pixel */
} SurfaceInfo;

G_GNUC_INTERNAL gboolean read_surfaces(GstBuffer *buffer, NvBufSurface *header, NvBufSurfaceParams **list,
                                       gboolean *ours, char *error, gsize room);
G_GNUC_INTERNAL gboolean check_surface(const NvBufSurfaceParams *params, char *error, gsize room);
G_GNUC_INTERNAL void flatten_surface(const NvBufSurfaceParams *params, SurfaceInfo *info);

G_GNUC_INTERNAL gboolean batch_single(GstBuffer *out, const RawFrame *raw, char *error, gsize room);
gboolean sluice_batch_frames(GstBuffer *out, const RawFrame *frames, guint n, guint capacity, char *error, gsize room);

#endif
