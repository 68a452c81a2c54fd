/* Writing pixels: only those that nobody else can see; others are copied first. */
#include "surface.h"

#include <string.h>

static gboolean require_sole_holder(GstBuffer *buffer, char *error, gsize room) {
  if (gst_buffer_is_writable(buffer)) return TRUE;
  return FAIL("the buffer is shared by %d holders; only the sole holder may write: make it writable first",
              GST_MINI_OBJECT_REFCOUNT_VALUE(buffer));
}

/* Makes the buffer's only memory a batch of ours that nobody else sees; a shared one is replaced by a copy of its
 * descriptor, which is a batch that shares the frames. */
static BatchMemory *own_batch(GstBuffer *buffer, char *error, gsize room) {
  if (!require_sole_holder(buffer, error, room)) return NULL;
  if (batch_of(buffer) == NULL) {
    g_snprintf(error, room, "the buffer is not a batch that sluicemux made: nobody can tell who else reads its pixels");
    return NULL;
  }
  GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
  if (memory->parent != NULL || !gst_memory_is_writable(memory))
    gst_buffer_replace_memory(buffer, 0, gst_memory_copy(memory, 0, -1));
  return batch_of(buffer);
}

/* Describes a frame anew after its map has changed. */
static gboolean redescribe(BatchMemory *batch, guint index, char *error, gsize room) {
  NvBufSurfaceParams *params = &batch->surface.surfaceList[index];
  NvBufSurfaceParams fresh;
  guint64 tag = (guintptr)params->_reserved[COLOUR_TAG];
  if (describe_frame(&batch->frame[index]->video, params->colorFormat, tag, &fresh) != ONE_ALLOCATION)
    return FAIL("surface %u no longer lies in one allocation", index);
  if (memcmp(&fresh, params, sizeof fresh) != 0) *params = fresh; /* a reader may be looking at the same values */
  return TRUE;
}

static gboolean remap(BatchMemory *batch, guint index, guint flags, char *error, gsize room) {
  Frame *frame = batch->frame[index];
  GstVideoInfo info = frame->video.info;
  gst_video_frame_unmap(&frame->video);
  if (!frame_map(frame, &info, flags)) return FAIL("surface %u cannot be mapped anew", index);
  return redescribe(batch, index, error, room);
}

/* Maps a frame for writing; a frame somebody else can see is first replaced in the batch by a copy. */
static gboolean make_frame_writable(BatchMemory *batch, guint index, char *error, gsize room) {
  Frame *frame = batch->frame[index];
  if (!frame->mapped || batch->surface.memType != NVBUF_MEM_SYSTEM)
    return FAIL("surface %u has memory type %u; only system memory can be written here", index, batch->surface.memType);
  if (frame_is_exclusive(frame)) return remap(batch, index, GST_MAP_READWRITE, error, room);
  Frame *copy = frame_copy(frame, GST_MAP_READWRITE);
  if (copy == NULL) return FAIL("surface %u cannot be copied", index);
  batch->frame[index] = copy;
  frame_unref(frame);
  return redescribe(batch, index, error, room);
}

gboolean sluice_batch_make_writable(GstBuffer *buffer, const guint32 *indices, guint n, char *error, gsize room);

/* Lets the caller, who is the buffer's sole holder, write the pixels of the surfaces named. */
gboolean sluice_batch_make_writable(GstBuffer *buffer, const guint32 *indices, guint n, char *error, gsize room) {
  BatchMemory *batch = own_batch(buffer, error, room);
  if (batch == NULL) return FALSE;
  for (guint i = 0; i < n; i++) {
    if (indices[i] >= batch->frames)
      return FAIL("there is no surface %u in a batch of %u", indices[i], batch->frames);
    if (!make_frame_writable(batch, indices[i], error, room)) return FALSE;
  }
  return TRUE;
}

gboolean sluice_batch_end_writing(GstBuffer *buffer, char *error, gsize room);

/* Maps every frame for reading again: while a memory is mapped for writing nobody else may share it. */
gboolean sluice_batch_end_writing(GstBuffer *buffer, char *error, gsize room) {
  BatchMemory *batch = batch_of(buffer);
  for (guint i = 0; batch != NULL && i < batch->frames; i++) {
    Frame *frame = batch->frame[i];
    if (frame->mapped && frame->video.map[0].flags & GST_MAP_WRITE && !remap(batch, i, GST_MAP_READ, error, room))
      return FALSE;
  }
  return TRUE;
}

void sluice_raw_end_writing(GstVideoFrame *video);

void sluice_raw_end_writing(GstVideoFrame *video) {
  gst_video_frame_unmap(video);
  g_free(video);
}

GstVideoFrame *sluice_raw_write(const RawFrame *raw, SurfaceInfo *surface, GstMemory **keep, char *error, gsize room);

/* Maps a raw buffer, whose sole holder the caller is, for writing. Memory that somebody else can see is replaced by a
 * copy first. `keep` receives a reference of the memory; the result is for sluice_raw_end_writing. */
GstVideoFrame *sluice_raw_write(const RawFrame *raw, SurfaceInfo *surface, GstMemory **keep, char *error, gsize room) {
  GstBuffer *buffer = raw->buffer;
  NvBufSurfaceParams params;
  if (!require_sole_holder(buffer, error, room)) return NULL;
  if (gst_buffer_n_memory(buffer) > 1) { /* merging keeps every offset of a GstVideoMeta */
    gst_buffer_replace_all_memory(buffer, gst_buffer_get_all_memory(buffer));
    count_pixels(COPIES, 1);
  } else if (!gst_buffer_is_all_memory_writable(buffer)) {
    gst_buffer_replace_memory(buffer, 0, gst_memory_copy(gst_buffer_peek_memory(buffer, 0), 0, -1));
    count_pixels(COPIES, 1);
  }
  GstVideoFrame *video = g_new0(GstVideoFrame, 1);
  if (!gst_video_frame_map(video, raw->info, buffer, GST_MAP_READWRITE | GST_VIDEO_FRAME_MAP_FLAG_NO_REF)) {
    g_snprintf(error, room, "the buffer of %" G_GSIZE_FORMAT " bytes cannot be mapped for writing as %s %dx%d",
               gst_buffer_get_size(buffer), GST_VIDEO_INFO_NAME(raw->info), raw->info->width, raw->info->height);
    g_free(video);
    return NULL;
  }
  count_pixels(HOST_MAPS, 1);
  if (describe_frame(video, raw->color_format, raw->tag, &params) != ONE_ALLOCATION) {
    g_snprintf(error, room, "the planes of the buffer reach beyond its memory, or have a stride below a row's bytes");
    sluice_raw_end_writing(video);
    return NULL;
  }
  flatten_surface(&params, surface);
  *keep = gst_memory_ref(video->map[0].memory);
  return video;
}
