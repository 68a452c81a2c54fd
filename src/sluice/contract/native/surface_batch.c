/* Making batches: of raw frames, of NvBufSurfaces, of a single frame. */
#include "cuda.h"
#include "surface.h"

/* The device of a CUDA frame, whose pixels are made complete and reachable: GstCudaMemory begins {GstMemory;
 * GstCudaContext *}, the context knows its device. 0 where the memory is another's. */
static guint cuda_device_of(GstBuffer *buffer) {
  struct CudaMemory {
    GstMemory memory;
    GObject *context;
  } *memory = NULL;
  guint device = 0;
  if (gst_buffer_n_memory(buffer) > 0) memory = (struct CudaMemory *)gst_buffer_peek_memory(buffer, 0);
  if (memory != NULL && gst_memory_is_type(&memory->memory, "gst.cuda.memory")) {
    g_object_get(memory->context, "cuda-device-id", &device, NULL);
    cuda_open(memory->context, device);
    cuda_complete(&memory->memory);
  }
  return device;
}

/* A frame whose planes no descriptor fits is replaced by a copy that one fits. */
static Placement place(Frame **frame, const RawFrame *raw, guint flags, NvBufSurfaceParams *params) {
  Placement placement = describe_frame(&(*frame)->video, raw->color_format, raw->tag, params);
  if (placement != SCATTERED || flags & SLUICE_MAP_CUDA) return placement;
  Frame *copy = frame_copy(*frame, flags);
  if (copy == NULL) return SCATTERED;
  frame_unref(*frame);
  *frame = copy;
  return describe_frame(&copy->video, raw->color_format, raw->tag, params);
}

/* Maps one raw frame and describes it. NULL, with the reason, where the buffer is not what the caps say. */
static Frame *take_raw_frame(const RawFrame *raw, guint flags, NvBufSurfaceParams *params, char *error, gsize room) {
  const GstVideoInfo *info = raw->info;
  const GstVideoMeta *meta = gst_buffer_get_video_meta(raw->buffer);
  if (meta != NULL && (meta->format != GST_VIDEO_INFO_FORMAT(info) || (gint)meta->width != info->width ||
                       (gint)meta->height != info->height)) {
    g_snprintf(error, room, "has a GstVideoMeta of %s %ux%u, the caps say %s %dx%d",
               gst_video_format_to_string(meta->format), meta->width, meta->height, GST_VIDEO_INFO_NAME(info),
               info->width, info->height);
    return NULL;
  }
  gsize size = gst_buffer_get_size(raw->buffer);
  if (meta == NULL && size < info->size) {
    g_snprintf(error, room, "has %" G_GSIZE_FORMAT " bytes, %s %dx%d takes %" G_GSIZE_FORMAT, size,
               GST_VIDEO_INFO_NAME(info), info->width, info->height, info->size);
    return NULL;
  }
  gboolean merged = meta == NULL && gst_buffer_n_memory(raw->buffer) > 1; /* by mapping, into one memory */
  Frame *frame = frame_new(gst_buffer_ref(raw->buffer));
  if (!frame_map(frame, info, flags)) {
    g_snprintf(error, room, "of %" G_GSIZE_FORMAT " bytes cannot be mapped as %s %dx%d", size,
               GST_VIDEO_INFO_NAME(info), info->width, info->height);
    frame_unref(frame);
    return NULL;
  }
  if (merged) count_pixels(COPIES, 1);
  Placement placement = place(&frame, raw, flags, params);
  if (placement != ONE_ALLOCATION) {
    g_snprintf(error, room, "has planes that %s",
               placement == TOO_SMALL    ? "reach beyond its memory"
               : placement == BAD_STRIDE ? "have a stride below the bytes of a row"
                                         : "do not lie in one allocation");
    frame_unref(frame);
    return NULL;
  }
  return frame;
}

/* Appends to `out` the memory of a batch of raw frames; the frames' buffers are referenced, not copied. */
static gboolean batch_raw(GstBuffer *out, const RawFrame *frames, guint n, guint capacity, char *error, gsize room) {
  gboolean on_cuda = n > 0 && frames[0].on_cuda;
  guint flags = GST_MAP_READ | (on_cuda ? SLUICE_MAP_CUDA : 0);
  guint device = on_cuda ? cuda_device_of(frames[0].buffer) : 0;
  BatchMemory *batch = batch_memory_new(capacity, n, on_cuda ? NVBUF_MEM_CUDA_DEVICE : NVBUF_MEM_SYSTEM, device);
  for (guint i = 0; i < n; i++) {
    const RawFrame *raw = &frames[i];
    char reason[160] = "is in another kind of memory than frame 0: CUDA and system memory do not mix in a batch";
    Frame *frame = NULL;
    if (on_cuda && raw->on_cuda && i > 0 && cuda_device_of(raw->buffer) != device)
      g_snprintf(reason, sizeof reason, "is on GPU %u and frame 0 on GPU %u; a batch is on one GPU",
                 cuda_device_of(raw->buffer), device);
    else if ((raw->on_cuda != 0) == on_cuda)
      frame = take_raw_frame(raw, flags, &batch->surface.surfaceList[i], reason, sizeof reason);
    if (frame == NULL) {
      gst_memory_unref(&batch->memory);
      return FAIL("frame %u of the batch %s", i, reason);
    }
    batch->frame[batch->frames++] = frame;
    batch->surface.numFilled = batch->frames;
  }
  gst_buffer_append_memory(out, &batch->memory);
  return TRUE;
}

/* ---- batches of surfaces that are NvBufSurfaces already ---- */

/* Appends to `out` the memory of a batch whose surfaces are struct copies of those in the given buffers. */
static gboolean batch_surfaces(GstBuffer *out, const RawFrame *frames, guint n, guint capacity, char *error,
                               gsize room) {
  BatchMemory *batch = batch_memory_new(capacity, capacity, NVBUF_MEM_CUDA_DEVICE, 0);
  for (guint i = 0; i < n; i++) {
    NvBufSurface header;
    NvBufSurfaceParams *list = NULL;
    gboolean ours;
    char reason[192] = "";
    if (read_surfaces(frames[i].buffer, &header, &list, &ours, reason, sizeof reason)) {
      if (i > 0 && (header.memType != batch->surface.memType || header.gpuId != batch->surface.gpuId))
        g_snprintf(reason, sizeof reason, "memory type %u on GPU %u does not mix with frame 0's type %u on GPU %u",
                   header.memType, header.gpuId, batch->surface.memType, batch->surface.gpuId);
      else if (header.numFilled < 1 || header.numFilled > capacity - batch->frames)
        g_snprintf(reason, sizeof reason, "%u surfaces do not fit in the %u places left of %u", header.numFilled,
                   capacity - batch->frames, capacity);
      for (guint k = 0; reason[0] == 0 && k < header.numFilled; k++) check_surface(&list[k], reason, sizeof reason);
    }
    if (reason[0] != 0) {
      g_free(list);
      gst_memory_unref(&batch->memory);
      return FAIL("frame %u of the batch: %s", i, reason);
    }
    batch->surface.memType = header.memType;
    batch->surface.gpuId = header.gpuId;
    Frame *frame = frame_new(gst_buffer_ref(frames[i].buffer));
    for (guint k = 0; k < header.numFilled; k++) {
      batch->surface.surfaceList[batch->frames] = list[k];
      batch->frame[batch->frames++] = k == 0 ? frame : frame_ref(frame);
    }
    batch->surface.numFilled = batch->frames;
    g_free(list);
  }
  gst_buffer_append_memory(out, &batch->memory);
  return TRUE;
}

/* Appends to `out` the memory of a batch of frames of one kind: NvBufSurfaces (without info), or raw video. */
gboolean sluice_batch_frames(GstBuffer *out, const RawFrame *frames, guint n, guint capacity, char *error, gsize room) {
  guint surfaces = 0;
  if (n > capacity) return FAIL("%u frames do not fit in a batch of %u", n, capacity);
  for (guint i = 0; i < n; i++) surfaces += frames[i].info == NULL;
  if (surfaces != 0 && surfaces != n)
    return FAIL("%u of %u frames are NvBufSurfaces and the others raw video; a batch has one kind", surfaces, n);
  return (surfaces ? batch_surfaces : batch_raw)(out, frames, n, capacity, error, room);
}

GstBuffer *sluice_batch_original(GstBuffer *buffer, guint index);

/* A new reference of the buffer that surface `index` came in with; NULL where the batch is not ours or has no such. */
GstBuffer *sluice_batch_original(GstBuffer *buffer, guint index) {
  BatchMemory *batch = batch_of(buffer);
  return batch != NULL && index < batch->frames ? gst_buffer_ref(batch->frame[index]->buffer) : NULL;
}

/* A new buffer with surface `index` of any batch, ours or foreign, alone in a batch of one. A foreign batch's buffer is
 * held as long as the memory lives, so that no pool gives its pixels out anew. NULL where there is no such surface. */
static GstBuffer *slice(GstBuffer *buffer, guint index, char *error, gsize room) {
  NvBufSurface header;
  NvBufSurfaceParams *list = NULL;
  gboolean ours;
  char reason[128];
  if (!read_surfaces(buffer, &header, &list, &ours, error, room)) return NULL;
  if (index >= header.numFilled) {
    g_snprintf(error, room, "there is no surface %u in a batch of %u", index, header.numFilled);
    g_free(list);
    return NULL;
  }
  if (!check_surface(&list[index], reason, sizeof reason)) {
    g_snprintf(error, room, "surface %u is not valid: %s", index, reason);
    g_free(list);
    return NULL;
  }
  BatchMemory *batch = batch_memory_new(1, 1, header.memType, header.gpuId);
  batch->surface.surfaceList[0] = list[index];
  batch->frame[0] = ours ? frame_ref(batch_of(buffer)->frame[index]) : frame_new(gst_buffer_ref(buffer));
  batch->surface.numFilled = batch->frames = 1;
  g_free(list);
  GstBuffer *alone = gst_buffer_new();
  gst_buffer_append_memory(alone, &batch->memory);
  gst_buffer_copy_into(alone, buffer, GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_TIMESTAMPS, 0, -1);
  return alone;
}

static gboolean is_single_surface(GstBuffer *buffer) {
  NvBufSurface header;
  NvBufSurfaceParams *list = NULL;
  gboolean ours;
  char reason[128];
  if (!read_surfaces(buffer, &header, &list, &ours, reason, sizeof reason)) return FALSE;
  g_free(list);
  return header.numFilled == 1;
}

GstBuffer *sluice_batch_frame(GstBuffer *buffer, guint index, char *error, gsize room);

/* A reference of a buffer with the pixels of surface `index` and no other: the very one that came in, or a slice. */
GstBuffer *sluice_batch_frame(GstBuffer *buffer, guint index, char *error, gsize room) {
  BatchMemory *batch = batch_of(buffer);
  Frame *frame = batch != NULL && index < batch->frames ? batch->frame[index] : NULL;
  if (frame != NULL && (frame->mapped || is_single_surface(frame->buffer))) return gst_buffer_ref(frame->buffer);
  return slice(buffer, index, error, room);
}

/* ---- one raw buffer as a batch of one ---- */

/* A buffer with the memory and the GstVideoMeta of another, which stays writable. */
static GstBuffer *memory_only(GstBuffer *buffer) {
  GstBuffer *made = gst_buffer_copy_region(buffer, GST_BUFFER_COPY_MEMORY, 0, -1);
  GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
  if (meta != NULL) {
    GstVideoMeta *same = gst_buffer_add_video_meta_full(made, meta->flags, meta->format, meta->width, meta->height,
                                                        meta->n_planes, meta->offset, meta->stride);
    same->map = meta->map;
    same->unmap = meta->unmap;
  }
  return made;
}

/* Appends to `out` a batch of one surface over the memory of a raw buffer, which stays writable itself. */
gboolean batch_single(GstBuffer *out, const RawFrame *raw, char *error, gsize room) {
  RawFrame shared = *raw;
  shared.buffer = memory_only(raw->buffer);
  gboolean done = batch_raw(out, &shared, 1, 1, error, room);
  gst_buffer_unref(shared.buffer);
  return done;
}
