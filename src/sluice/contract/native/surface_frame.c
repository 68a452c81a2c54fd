/* Frames: counted references of a buffer and its map, and their description as NvBufSurfaceParams. */
#include "surface.h"

#include <string.h>

/* ---- counters ---- */

static gint64 counters[N_COUNTERS];

void count_pixels(int which, gint64 by) { __atomic_add_fetch(&counters[which], by, __ATOMIC_RELAXED); }

gint64 sluice_counter(int which);
void sluice_count_copy(void);
void sluice_count_live_tensor(int by);

gint64 sluice_counter(int which) {
  return which >= 0 && which < N_COUNTERS ? __atomic_load_n(&counters[which], __ATOMIC_RELAXED) : -1;
}

void sluice_count_copy(void) { count_pixels(COPIES, 1); }

void sluice_count_live_tensor(int by) { count_pixels(LIVE_TENSORS, by); }

/* ---- frames ---- */

void frame_unref(Frame *frame) {
  if (!g_atomic_int_dec_and_test(&frame->references)) return;
  if (frame->mapped) gst_video_frame_unmap(&frame->video);
  gst_buffer_unref(frame->buffer);
  g_free(frame);
  count_pixels(LIVE_FRAMES, -1);
}

Frame *frame_ref(Frame *frame) {
  g_atomic_int_inc(&frame->references);
  return frame;
}

/* Takes ownership of the buffer. */
Frame *frame_new(GstBuffer *buffer) {
  Frame *frame = g_new0(Frame, 1);
  frame->references = 1;
  frame->buffer = buffer;
  count_pixels(LIVE_FRAMES, 1);
  return frame;
}

gboolean frame_map(Frame *frame, const GstVideoInfo *info, guint flags) {
  frame->mapped = gst_video_frame_map(&frame->video, info, frame->buffer, flags | GST_VIDEO_FRAME_MAP_FLAG_NO_REF);
  if (frame->mapped && !(flags & SLUICE_MAP_CUDA)) count_pixels(HOST_MAPS, 1);
  return frame->mapped;
}

/* Whether nobody but this frame's owner can see its pixels. */
gboolean frame_is_exclusive(Frame *frame) {
  return g_atomic_int_get(&frame->references) == 1 && gst_buffer_is_writable(frame->buffer) &&
         gst_buffer_is_all_memory_writable(frame->buffer);
}

/* A frame with the same pixels in one allocation of its own, with the flags, times and metas of the original. */
Frame *frame_copy(Frame *source, guint map_flags) {
  const GstVideoInfo *from = &source->video.info;
  GstVideoInfo info;
  gst_video_info_set_interlaced_format(&info, GST_VIDEO_INFO_FORMAT(from), from->interlace_mode, from->width,
                                       from->height);
  info.colorimetry = from->colorimetry;
  info.chroma_site = from->chroma_site;
  Frame *copy = frame_new(gst_buffer_new_allocate(NULL, info.size, NULL));
  GstVideoFrame target;
  gboolean copied = gst_video_frame_map(&target, &info, copy->buffer, GST_MAP_WRITE);
  if (copied) {
    copied = gst_video_frame_copy(&target, &source->video);
    gst_video_frame_unmap(&target);
  }
  gst_buffer_copy_into(copy->buffer, source->buffer,
                       GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_TIMESTAMPS | GST_BUFFER_COPY_META, 0, -1);
  if (!copied || !frame_map(copy, &info, map_flags)) {
    frame_unref(copy);
    return NULL;
  }
  count_pixels(COPIES, 1);
  return copy;
}

/* ---- descriptors of raw frames ---- */

static guint first_component(const GstVideoFormatInfo *format, guint plane) {
  guint component = 0;
  while (component + 1 < GST_VIDEO_FORMAT_INFO_N_COMPONENTS(format) &&
         GST_VIDEO_FORMAT_INFO_PLANE(format, component) != plane)
    component++;
  return component;
}

static guint plane_width(const GstVideoFrame *video, guint component) {
  guint width = GST_VIDEO_FRAME_COMP_WIDTH(video, component);
  return GST_VIDEO_FRAME_FORMAT(video) == GST_VIDEO_FORMAT_YUY2 ? (width + 1) & ~1u : width;
}

/* Describes a mapped frame; ONE_ALLOCATION only if every plane lies inside the memory that the first one lies in. */
Placement describe_frame(const GstVideoFrame *video, guint32 color_format, guint64 tag, NvBufSurfaceParams *out) {
  const GstMapInfo *first = &video->map[0];
  const guint planes = GST_VIDEO_FRAME_N_PLANES(video);
  const guint8 *base = video->data[0];
  gboolean scattered = FALSE;
  memset(out, 0, sizeof *out);
  for (guint plane = 0; plane < planes; plane++) {
    const GstMapInfo *map = video->meta ? &video->map[plane] : first;
    const guint8 *data = video->data[plane];
    guint component = first_component(video->info.finfo, plane);
    gint stride = GST_VIDEO_FRAME_PLANE_STRIDE(video, plane);
    guint height = GST_VIDEO_FRAME_COMP_HEIGHT(video, component), width = plane_width(video, component);
    guint bytes = GST_VIDEO_FRAME_COMP_PSTRIDE(video, component);
    if (stride < 0 || (guint)stride < width * bytes) return BAD_STRIDE;
    gsize needed = (gsize)stride * (height - 1) + (gsize)width * bytes;
    if (data < map->data || data + needed > map->data + map->size) return TOO_SMALL;
    scattered |= map->memory != first->memory || data < base || (gsize)(data - base) + needed > G_MAXUINT32;
    out->planeParams.width[plane] = width;
    out->planeParams.height[plane] = height;
    out->planeParams.pitch[plane] = stride;
    out->planeParams.offset[plane] = data - base;
    out->planeParams.psize[plane] = stride * height;
    out->planeParams.bytesPerPix[plane] = bytes;
    /* The last row need not be padded to the pitch, so this is not always the end of a psize. */
    out->dataSize = MAX(out->dataSize, (guint32)(data - base + needed));
  }
  out->width = GST_VIDEO_FRAME_WIDTH(video);
  out->height = GST_VIDEO_FRAME_HEIGHT(video);
  out->pitch = out->planeParams.pitch[0];
  out->colorFormat = color_format;
  out->dataPtr = (void *)base;
  out->planeParams.num_planes = planes;
  out->_reserved[COLOUR_TAG] = (void *)(guintptr)tag;
  return scattered ? SCATTERED : ONE_ALLOCATION;
}
