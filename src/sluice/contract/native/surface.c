/* Batches of surfaces as GstMemory.
 *
 * A batch is one GstBuffer with one GstMemory of the allocator below. Mapping that memory gives an NvBufSurface, as
 * with NVIDIA's elements. The memory owns one reference of a Frame per surface; a Frame owns the buffer that came in
 * and, for raw video, the map of it. So the pixels live as long as anybody holds the memory, in whatever buffer it has
 * been moved to. A copy of the memory is a copy of the descriptor that shares the Frames: pixels are copied only by
 * sluice_batch_make_frames_writable, and for frames whose planes do not lie in one allocation.
 *
 * Nothing here touches Python, so that all of it runs on GStreamer's threads without the GIL. */
#define _GNU_SOURCE
#include "nvbufsurface_abi.h"

#include <errno.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

_Static_assert(sizeof(NvBufSurface) == 72 && offsetof(NvBufSurface, surfaceList) == 24, "NvBufSurface");
_Static_assert(sizeof(NvBufSurfaceParams) == 416 && offsetof(NvBufSurfaceParams, dataPtr) == 40 &&
                   offsetof(NvBufSurfaceParams, mappedAddr) == 280 && offsetof(NvBufSurfaceParams, _reserved) == 384,
               "NvBufSurfaceParams");
_Static_assert(sizeof(NvBufSurfacePlaneParams) == 232 && offsetof(NvBufSurfacePlaneParams, _reserved) == 104,
               "NvBufSurfacePlaneParams");

#define MAX_SURFACES 1024 /* the largest batch-size of nvstreammux */
#define MAX_SIDE 32768
#define MAX_BYTES_PER_PIXEL 16
#define COLOUR_TAG 3 /* the element of NvBufSurfaceParams._reserved that formats.colour_tag describes */
#define SLUICE_MEMORY "SluiceSurface"
#define SLUICE_MAP_CUDA (GST_MAP_FLAG_LAST << 1) /* GST_MAP_CUDA of gst/cuda/gstcudamemory.h */

/* ---- counters ---- */

enum { HOST_MAPS, COPIES, LIVE_TENSORS, LIVE_BATCHES, LIVE_FRAMES, N_COUNTERS };
static gint64 counters[N_COUNTERS];

static void count(int which, gint64 by) { __atomic_add_fetch(&counters[which], by, __ATOMIC_RELAXED); }

gint64 sluice_counter(int which);
void sluice_count_copy(void);
void sluice_count_live_tensor(int by);

gint64 sluice_counter(int which) {
  return which >= 0 && which < N_COUNTERS ? __atomic_load_n(&counters[which], __ATOMIC_RELAXED) : -1;
}

void sluice_count_copy(void) { count(COPIES, 1); }

void sluice_count_live_tensor(int by) { count(LIVE_TENSORS, by); }

/* ---- frames ---- */

typedef struct {
  gint references;
  gboolean mapped;
  GstBuffer *buffer;
  GstVideoFrame video; /* valid while mapped */
} Frame;

static void frame_unref(Frame *frame) {
  if (!g_atomic_int_dec_and_test(&frame->references)) return;
  if (frame->mapped) gst_video_frame_unmap(&frame->video);
  gst_buffer_unref(frame->buffer);
  g_free(frame);
  count(LIVE_FRAMES, -1);
}

static Frame *frame_ref(Frame *frame) {
  g_atomic_int_inc(&frame->references);
  return frame;
}

/* Takes ownership of the buffer. */
static Frame *frame_new(GstBuffer *buffer) {
  Frame *frame = g_new0(Frame, 1);
  frame->references = 1;
  frame->buffer = buffer;
  count(LIVE_FRAMES, 1);
  return frame;
}

static gboolean frame_map(Frame *frame, const GstVideoInfo *info, guint flags) {
  frame->mapped = gst_video_frame_map(&frame->video, info, frame->buffer, flags | GST_VIDEO_FRAME_MAP_FLAG_NO_REF);
  if (frame->mapped && !(flags & SLUICE_MAP_CUDA)) count(HOST_MAPS, 1);
  return frame->mapped;
}

/* Whether nobody but this frame's owner can see its pixels. */
static gboolean frame_is_exclusive(Frame *frame) {
  return g_atomic_int_get(&frame->references) == 1 && gst_buffer_is_writable(frame->buffer) &&
         gst_buffer_is_all_memory_writable(frame->buffer);
}

/* A frame with the same pixels in one allocation of its own, with the flags, times and metas of the original. */
static Frame *frame_copy(Frame *source, guint map_flags) {
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
  count(COPIES, 1);
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

typedef enum { ONE_ALLOCATION, SCATTERED, BAD_STRIDE, TOO_SMALL } Placement;

/* Describes a mapped frame; ONE_ALLOCATION only if every plane lies inside the memory that the first one lies in. */
static Placement describe(const GstVideoFrame *video, guint32 color_format, guint64 tag, NvBufSurfaceParams *out) {
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

/* ---- the memory ---- */

typedef struct {
  GstMemory memory;
  NvBufSurface surface; /* of a parent only; a shared part points to its parent's */
  guint frames;
  Frame **frame;
} BatchMemory;

typedef GstAllocator SluiceBatchAllocator;
typedef GstAllocatorClass SluiceBatchAllocatorClass;
static GType sluice_batch_allocator_get_type(void);
G_DEFINE_TYPE(SluiceBatchAllocator, sluice_batch_allocator, GST_TYPE_ALLOCATOR)

static GstAllocator *the_allocator(void) {
  static gsize allocator = 0;
  if (g_once_init_enter(&allocator)) {
    GstAllocator *made = g_object_new(sluice_batch_allocator_get_type(), NULL);
    gst_object_ref_sink(made);
    GST_OBJECT_FLAG_SET(made, GST_OBJECT_FLAG_MAY_BE_LEAKED);
    g_once_init_leave(&allocator, (gsize)made);
  }
  return (GstAllocator *)allocator;
}

static BatchMemory *owner_of(GstMemory *memory) { return (BatchMemory *)(memory->parent ? memory->parent : memory); }

static BatchMemory *batch_memory_new(guint capacity, guint frames, guint mem_type, guint gpu_id) {
  BatchMemory *batch = g_new0(BatchMemory, 1);
  gst_memory_init(&batch->memory, 0, the_allocator(), NULL, sizeof(NvBufSurface), 0, 0, sizeof(NvBufSurface));
  batch->surface.batchSize = capacity;
  batch->surface.memType = mem_type;
  batch->surface.gpuId = gpu_id;
  batch->surface.surfaceList = g_new0(NvBufSurfaceParams, MAX(capacity, 1));
  batch->frame = g_new0(Frame *, MAX(frames, 1));
  count(LIVE_BATCHES, 1);
  return batch;
}

static GstMemory *batch_alloc(GstAllocator *allocator, gsize size, GstAllocationParams *params) {
  (void)allocator, (void)size, (void)params;
  return NULL; /* a batch is made of frames, never of a size */
}

static void batch_free(GstAllocator *allocator, GstMemory *memory) {
  (void)allocator;
  BatchMemory *batch = (BatchMemory *)memory;
  if (memory->parent == NULL) {
    for (guint i = 0; i < batch->frames; i++) frame_unref(batch->frame[i]);
    g_free(batch->frame);
    g_free(batch->surface.surfaceList);
    count(LIVE_BATCHES, -1);
  }
  g_free(batch);
}

static gpointer batch_map(GstMemory *memory, gsize size, GstMapFlags flags) {
  (void)size, (void)flags;
  return &owner_of(memory)->surface;
}

static void batch_unmap(GstMemory *memory) { (void)memory; }

static GstMemory *batch_copy(GstMemory *memory, gssize offset, gssize size) {
  (void)offset, (void)size; /* part of a descriptor would be of no use */
  BatchMemory *from = owner_of(memory);
  BatchMemory *copy =
      batch_memory_new(from->surface.batchSize, from->frames, from->surface.memType, from->surface.gpuId);
  memcpy(copy->surface.surfaceList, from->surface.surfaceList, from->surface.batchSize * sizeof(NvBufSurfaceParams));
  copy->surface.numFilled = from->surface.numFilled;
  copy->surface.isImportedBuf = from->surface.isImportedBuf;
  for (guint i = 0; i < from->frames; i++) copy->frame[i] = frame_ref(from->frame[i]);
  copy->frames = from->frames;
  return &copy->memory;
}

static GstMemory *batch_share(GstMemory *memory, gssize offset, gssize size) {
  BatchMemory *owner = owner_of(memory), *part = g_new0(BatchMemory, 1);
  gsize length = size == -1 ? memory->size - offset : (gsize)size;
  gst_memory_init(&part->memory, GST_MINI_OBJECT_FLAGS(&owner->memory) | GST_MINI_OBJECT_FLAG_LOCK_READONLY,
                  memory->allocator, &owner->memory, memory->maxsize, memory->align, memory->offset + offset, length);
  return &part->memory;
}

static void sluice_batch_allocator_class_init(SluiceBatchAllocatorClass *klass) {
  klass->alloc = batch_alloc;
  klass->free = batch_free;
}

static void sluice_batch_allocator_init(SluiceBatchAllocator *allocator) {
  allocator->mem_type = SLUICE_MEMORY;
  allocator->mem_map = batch_map;
  allocator->mem_unmap = batch_unmap;
  allocator->mem_copy = batch_copy;
  allocator->mem_share = batch_share;
  GST_OBJECT_FLAG_SET(allocator, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
}

static BatchMemory *batch_of(GstBuffer *buffer) {
  if (gst_buffer_n_memory(buffer) != 1) return NULL;
  GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
  return gst_memory_is_type(memory, SLUICE_MEMORY) ? owner_of(memory) : NULL;
}

/* ---- making batches ---- */

#define FAIL(...) (g_snprintf(error, room, __VA_ARGS__), FALSE)

/* The device of a CUDA frame: GstCudaMemory begins {GstMemory; GstCudaContext *}, the context knows its device. */
static guint cuda_device_of(GstBuffer *buffer) {
  struct CudaMemory {
    GstMemory memory;
    GObject *context;
  } *memory = NULL;
  guint device = 0;
  if (gst_buffer_n_memory(buffer) > 0) memory = (struct CudaMemory *)gst_buffer_peek_memory(buffer, 0);
  if (memory != NULL && gst_memory_is_type(&memory->memory, "gst.cuda.memory"))
    g_object_get(memory->context, "cuda-device-id", &device, NULL);
  return device;
}

typedef struct {
  GstBuffer *buffer;
  const GstVideoInfo *info;
  guint64 tag;
  guint32 color_format;
  guint32 on_cuda;
} RawFrame;

/* A frame whose planes no descriptor fits is replaced by a copy that one fits. */
static Placement place(Frame **frame, const RawFrame *raw, guint flags, NvBufSurfaceParams *params) {
  Placement placement = describe(&(*frame)->video, raw->color_format, raw->tag, params);
  if (placement != SCATTERED || flags & SLUICE_MAP_CUDA) return placement;
  Frame *copy = frame_copy(*frame, flags);
  if (copy == NULL) return SCATTERED;
  frame_unref(*frame);
  *frame = copy;
  return describe(&copy->video, raw->color_format, raw->tag, params);
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
  Frame *frame = frame_new(gst_buffer_ref(raw->buffer));
  if (!frame_map(frame, info, flags)) {
    g_snprintf(error, room, "of %" G_GSIZE_FORMAT " bytes cannot be mapped as %s %dx%d", size,
               GST_VIDEO_INFO_NAME(info), info->width, info->height);
    frame_unref(frame);
    return NULL;
  }
  if (meta == NULL && gst_buffer_n_memory(raw->buffer) > 1) count(COPIES, 1); /* mapping has merged the memories */
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

gboolean sluice_batch_raw(GstBuffer *out, const RawFrame *frames, guint n, guint capacity, char *error, gsize room);

/* Appends to `out` the memory of a batch of raw frames; the frames' buffers are referenced, not copied. */
gboolean sluice_batch_raw(GstBuffer *out, const RawFrame *frames, guint n, guint capacity, char *error, gsize room) {
  gboolean on_cuda = n > 0 && frames[0].on_cuda;
  guint flags = GST_MAP_READ | (on_cuda ? SLUICE_MAP_CUDA : 0);
  BatchMemory *batch = batch_memory_new(capacity, n, on_cuda ? NVBUF_MEM_CUDA_DEVICE : NVBUF_MEM_SYSTEM,
                                        on_cuda ? cuda_device_of(frames[0].buffer) : 0);
  for (guint i = 0; i < n; i++) {
    const RawFrame *raw = &frames[i];
    char reason[160] = "is in another kind of memory than frame 0: CUDA and system memory do not mix in a batch";
    Frame *frame = NULL;
    if ((raw->on_cuda != 0) == on_cuda)
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

/* ---- reading any NvBufSurface, ours or foreign ---- */

/* Copies what a foreign, perhaps wrong, pointer names; an address that is not mapped is an error, not a crash. */
static gboolean peek(void *to, const void *from, gsize size) {
  struct iovec local = {to, size}, remote = {(void *)from, size};
  ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  if (got == (ssize_t)size) return TRUE;
  if (got < 0 && (errno == ENOSYS || errno == EPERM)) { /* forbidden in this sandbox: all that is left is trust */
    memcpy(to, from, size);
    return TRUE;
  }
  return FALSE;
}

gboolean sluice_is_readable(const void *address, gsize size);

gboolean sluice_is_readable(const void *address, gsize size) {
  char byte;
  return size > 0 && peek(&byte, address, 1) && peek(&byte, (const char *)address + size - 1, 1);
}

static gboolean check_plane(const NvBufSurfaceParams *params, guint plane, char *error, gsize room) {
  const NvBufSurfacePlaneParams *all = &params->planeParams;
  guint width = all->width[plane], height = all->height[plane], bytes = all->bytesPerPix[plane];
  if (width < 1 || width > MAX_SIDE || height < 1 || height > MAX_SIDE || bytes < 1 || bytes > MAX_BYTES_PER_PIXEL)
    return FAIL("plane %u is %ux%u with %u bytes per pixel", plane, width, height, bytes);
  if (all->pitch[plane] < width * bytes)
    return FAIL("plane %u has a pitch of %u, but %u pixels of %u bytes take %u", plane, all->pitch[plane], width, bytes,
                width * bytes);
  guint64 end = all->offset[plane] + (guint64)all->pitch[plane] * (height - 1) + width * bytes;
  if (params->dataSize != 0 && end > params->dataSize)
    return FAIL("plane %u ends at byte %" G_GUINT64_FORMAT " of %u", plane, end, params->dataSize);
  return TRUE;
}

static gboolean check_surface(const NvBufSurfaceParams *params, char *error, gsize room) {
  guint planes = params->planeParams.num_planes;
  if (params->width < 1 || params->width > MAX_SIDE || params->height < 1 || params->height > MAX_SIDE)
    return FAIL("its size is %ux%u; 1 to %d is possible", params->width, params->height, MAX_SIDE);
  if (planes < 1 || planes > NVBUF_MAX_PLANES)
    return FAIL("it has %u planes; 1 to %d are possible", planes, NVBUF_MAX_PLANES);
  if (params->layout > 1) return FAIL("its layout is %u; 0 and 1 are possible", params->layout);
  for (guint plane = 0; plane < planes; plane++)
    if (!check_plane(params, plane, error, room)) return FALSE;
  return TRUE;
}

/* Copies header and list of the NvBufSurface in a buffer's memory; `list` is for the caller to g_free. */
static gboolean read_surfaces(GstBuffer *buffer, NvBufSurface *header, NvBufSurfaceParams **list, gboolean *ours,
                              char *error, gsize room) {
  GstMapInfo map;
  *ours = batch_of(buffer) != NULL;
  if (gst_buffer_n_memory(buffer) != 1)
    return FAIL("the buffer has %u memories; a batch of surfaces has one", gst_buffer_n_memory(buffer));
  GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
  if (!gst_memory_map(memory, &map, GST_MAP_READ)) return FAIL("the buffer's memory cannot be mapped for reading");
  gsize size = map.size;
  if (size >= sizeof *header) memcpy(header, map.data, sizeof *header);
  gst_memory_unmap(memory, &map);
  if (size < sizeof *header)
    return FAIL("the memory maps to %" G_GSIZE_FORMAT " bytes; an NvBufSurface has %zu", size, sizeof *header);
  if (header->batchSize > MAX_SURFACES || header->numFilled > header->batchSize)
    return FAIL("batchSize is %u and numFilled %u; at most %d, and no more filled than that, are possible",
                header->batchSize, header->numFilled, MAX_SURFACES);
  if (header->memType > NVBUF_MEM_CUDA_ARRAY)
    return FAIL("memType is %u; 0 to %d are possible", header->memType, NVBUF_MEM_CUDA_ARRAY);
  gsize bytes = header->numFilled * sizeof(NvBufSurfaceParams);
  *list = g_malloc(MAX(bytes, 1));
  if (bytes == 0) return TRUE;
  if (*ours) {
    memcpy(*list, header->surfaceList, bytes);
  } else if (header->surfaceList == NULL || (guintptr)header->surfaceList % sizeof(void *) != 0 ||
             !peek(*list, header->surfaceList, bytes)) {
    g_free(*list);
    return FAIL("surfaceList points to %p, where %u surfaces cannot be read", (void *)header->surfaceList,
                header->numFilled);
  }
  return TRUE;
}

typedef struct { /* mirrored by surface.py */
  guint64 data;
  guint64 tag;
  guint32 width, height, color_format, layout, data_size, planes;
  guint32 plane[NVBUF_MAX_PLANES][5]; /* width, height, pitch, offset, bytes per pixel */
} SurfaceInfo;

typedef struct { /* mirrored by surface.py */
  guint32 mem_type, gpu_id, capacity, filled, ours;
} BatchInfo;

static void flatten(const NvBufSurfaceParams *params, SurfaceInfo *info) {
  const NvBufSurfacePlaneParams *all = &params->planeParams;
  *info = (SurfaceInfo){.data = (guintptr)params->dataPtr,
                        .tag = (guintptr)params->_reserved[COLOUR_TAG],
                        .width = params->width,
                        .height = params->height,
                        .color_format = params->colorFormat,
                        .layout = params->layout,
                        .data_size = params->dataSize,
                        .planes = all->num_planes};
  for (guint i = 0; i < all->num_planes; i++) {
    guint32 plane[5] = {all->width[i], all->height[i], all->pitch[i], all->offset[i], all->bytesPerPix[i]};
    memcpy(info->plane[i], plane, sizeof plane);
  }
}

gint sluice_batch_read(GstBuffer *buffer, BatchInfo *batch, SurfaceInfo *surfaces, guint places, GstBuffer **keep,
                       char *error, gsize room);

/* Reads and checks a batch. Returns the number of filled surfaces (of which at most `places` are written), or -1 with
 * the reason in `error`. `keep`, when not NULL, receives a buffer that shares only the memory. */
gint sluice_batch_read(GstBuffer *buffer, BatchInfo *batch, SurfaceInfo *surfaces, guint places, GstBuffer **keep,
                       char *error, gsize room) {
  NvBufSurface header;
  NvBufSurfaceParams *list = NULL;
  gboolean ours;
  if (!read_surfaces(buffer, &header, &list, &ours, error, room)) return -1;
  for (guint i = 0; i < header.numFilled; i++) {
    char reason[128];
    if (!check_surface(&list[i], reason, sizeof reason)) {
      g_free(list);
      g_snprintf(error, room, "surface %u of %u is not valid: %s", i, header.numFilled, reason);
      return -1;
    }
    if (i < places) flatten(&list[i], &surfaces[i]);
  }
  g_free(list);
  *batch = (BatchInfo){header.memType, header.gpuId, header.batchSize, header.numFilled, ours};
  if (keep != NULL) *keep = gst_buffer_copy_region(buffer, GST_BUFFER_COPY_MEMORY, 0, -1);
  return header.numFilled;
}

/* ---- batches of surfaces that are NvBufSurfaces already ---- */

gboolean sluice_batch_surfaces(GstBuffer *out, GstBuffer **frames, guint n, guint capacity, char *error, gsize room);

/* Appends to `out` the memory of a batch whose surfaces are struct copies of those in the given buffers. */
gboolean sluice_batch_surfaces(GstBuffer *out, GstBuffer **frames, guint n, guint capacity, char *error, gsize room) {
  BatchMemory *batch = batch_memory_new(capacity, capacity, NVBUF_MEM_CUDA_DEVICE, 0);
  for (guint i = 0; i < n; i++) {
    NvBufSurface header;
    NvBufSurfaceParams *list = NULL;
    gboolean ours;
    char reason[192] = "";
    if (read_surfaces(frames[i], &header, &list, &ours, reason, sizeof reason)) {
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
    Frame *frame = frame_new(gst_buffer_ref(frames[i]));
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

GstBuffer *sluice_batch_original(GstBuffer *buffer, guint index);

/* A new reference of the buffer that surface `index` came in with; NULL where the batch is not ours or has no such. */
GstBuffer *sluice_batch_original(GstBuffer *buffer, guint index) {
  BatchMemory *batch = batch_of(buffer);
  return batch != NULL && index < batch->frames ? gst_buffer_ref(batch->frame[index]->buffer) : NULL;
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

gboolean sluice_batch_single(GstBuffer *out, const RawFrame *raw, char *error, gsize room);

/* Appends to `out` a batch of one surface over the memory of a raw buffer, which stays writable itself. */
gboolean sluice_batch_single(GstBuffer *out, const RawFrame *raw, char *error, gsize room) {
  RawFrame shared = *raw;
  shared.buffer = memory_only(raw->buffer);
  gboolean done = sluice_batch_raw(out, &shared, 1, 1, error, room);
  gst_buffer_unref(shared.buffer);
  return done;
}

/* ---- writing pixels ---- */

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
  if (describe(&batch->frame[index]->video, params->colorFormat, tag, &fresh) != ONE_ALLOCATION)
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
    count(COPIES, 1);
  } else if (!gst_buffer_is_all_memory_writable(buffer)) {
    gst_buffer_replace_memory(buffer, 0, gst_memory_copy(gst_buffer_peek_memory(buffer, 0), 0, -1));
    count(COPIES, 1);
  }
  GstVideoFrame *video = g_new0(GstVideoFrame, 1);
  if (!gst_video_frame_map(video, raw->info, buffer, GST_MAP_READWRITE | GST_VIDEO_FRAME_MAP_FLAG_NO_REF)) {
    g_snprintf(error, room, "the buffer of %" G_GSIZE_FORMAT " bytes cannot be mapped for writing as %s %dx%d",
               gst_buffer_get_size(buffer), GST_VIDEO_INFO_NAME(raw->info), raw->info->width, raw->info->height);
    g_free(video);
    return NULL;
  }
  count(HOST_MAPS, 1);
  if (describe(video, raw->color_format, raw->tag, &params) != ONE_ALLOCATION) {
    g_snprintf(error, room, "the planes of the buffer reach beyond its memory, or have a stride below a row's bytes");
    sluice_raw_end_writing(video);
    return NULL;
  }
  flatten(&params, surface);
  *keep = gst_memory_ref(video->map[0].memory);
  return video;
}
