/* Batches of surfaces as GstMemory.
 *
 * A batch is one GstBuffer with one GstMemory of the allocator below. Mapping that memory gives an NvBufSurface, as
 * with NVIDIA's elements. The memory owns one reference of a Frame per surface; a Frame owns the buffer that came in
 * and, for raw video, the map of it. So the pixels live as long as anybody holds the memory, in whatever buffer it has
 * been moved to. A copy of the memory is a copy of the descriptor that shares the Frames: pixels are copied only by
 * surface_write.c, and for frames whose planes do not lie in one allocation.
 *
 * Nothing here touches Python, so that all of it runs on GStreamer's threads without the GIL. */
#include "surface.h"

#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(NvBufSurface) == 72 && offsetof(NvBufSurface, surfaceList) == 24, "NvBufSurface");
_Static_assert(sizeof(NvBufSurfaceParams) == 416 && offsetof(NvBufSurfaceParams, dataPtr) == 40 &&
                   offsetof(NvBufSurfaceParams, mappedAddr) == 280 && offsetof(NvBufSurfaceParams, _reserved) == 384,
               "NvBufSurfaceParams");
_Static_assert(sizeof(NvBufSurfacePlaneParams) == 232 && offsetof(NvBufSurfacePlaneParams, _reserved) == 104,
               "NvBufSurfacePlaneParams");

#define SLUICE_MEMORY "SluiceSurface"

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

BatchMemory *batch_memory_new(guint capacity, guint frames, guint mem_type, guint gpu_id) {
  BatchMemory *batch = g_new0(BatchMemory, 1);
  gst_memory_init(&batch->memory, 0, the_allocator(), NULL, sizeof(NvBufSurface), 0, 0, sizeof(NvBufSurface));
  batch->surface.batchSize = capacity;
  batch->surface.memType = mem_type;
  batch->surface.gpuId = gpu_id;
  batch->surface.surfaceList = g_new0(NvBufSurfaceParams, MAX(capacity, 1));
  batch->frame = g_new0(Frame *, MAX(frames, 1));
  count_pixels(LIVE_BATCHES, 1);
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
    count_pixels(LIVE_BATCHES, -1);
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

BatchMemory *batch_of(GstBuffer *buffer) {
  if (gst_buffer_n_memory(buffer) != 1) return NULL;
  GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
  return gst_memory_is_type(memory, SLUICE_MEMORY) ? owner_of(memory) : NULL;
}
