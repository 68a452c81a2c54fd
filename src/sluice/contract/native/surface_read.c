/* Checked reading of any NvBufSurface, ours or foreign. */
#define _GNU_SOURCE /* process_vm_readv */
#include "surface.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAX_SURFACES 1024 /* the largest batch-size of nvstreammux */
#define MAX_SIDE 32768
#define MAX_BYTES_PER_PIXEL 16

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

gboolean check_surface(const NvBufSurfaceParams *params, char *error, gsize room) {
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
gboolean read_surfaces(GstBuffer *buffer, NvBufSurface *header, NvBufSurfaceParams **list, gboolean *ours,
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
    g_clear_pointer(list, g_free);
    return FAIL("surfaceList points to %p, where %u surfaces cannot be read", (void *)header->surfaceList,
                header->numFilled);
  }
  return TRUE;
}

typedef struct { /* mirrored by surface.py */
  guint32 mem_type, gpu_id, capacity, filled, ours;
} BatchInfo;

void flatten_surface(const NvBufSurfaceParams *params, SurfaceInfo *info) {
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
    if (i < places) flatten_surface(&list[i], &surfaces[i]);
  }
  g_free(list);
  *batch = (BatchInfo){header.memType, header.gpuId, header.batchSize, header.numFilled, ours};
  if (keep != NULL) *keep = gst_buffer_copy_region(buffer, GST_BUFFER_COPY_MEMORY, 0, -1);
  return header.numFilled;
}

/* Mirrored by surface.py. */
typedef struct {
  GstBuffer *keep; /* whose only memory is the batch */
  SurfaceInfo surface;
  BatchInfo batch;
} RawRead;

gint sluice_raw_read(const RawFrame *raw, RawRead *read, char *error, gsize room);

/* Reads a raw buffer as a batch of one; the number of surfaces, or -1 with the reason in `error`. */
gint sluice_raw_read(const RawFrame *raw, RawRead *read, char *error, gsize room) {
  GstBuffer *keep = gst_buffer_new();
  gint filled = -1;
  if (batch_single(keep, raw, error, room)) filled = sluice_batch_read(keep, &read->batch, &read->surface, 1, NULL, error, room);
  if (filled < 0) gst_clear_buffer(&keep);
  read->keep = keep;
  return filled;
}
