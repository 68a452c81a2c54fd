/* Surfaces brought from GPU memory into the host's, into buffers that are used again. */
#include "cuda.h"
#include "surface.h"

#include <string.h>

/* ---- buffers ---- */

#define GRAIN ((gsize)1 << 16) /* sizes are rounded up to it, so that frames of nearly the same size share buffers */
#define MOST_IDLE 32           /* buffers kept without use, */
#define MOST_IDLE_BYTES ((gsize)128 << 20) /* and their bytes: 40 frames of 1080p */
#define MOST_PINNED ((gsize)512 << 20)     /* page-locked bytes; the system can't page them out, so others are not */

typedef struct {
  void *data;
  gsize size;
  int device;
  gboolean pinned;
} Block;

static GMutex mutex;
static GQueue idle = G_QUEUE_INIT; /* the last used in front */
static gsize idle_bytes, pinned_bytes;

static void block_free(Block *block) {
  if (block->pinned)
    cuda_host_free(block->device, block->data);
  else
    g_free(block->data);
  g_free(block);
}

/* Takes out what is too much, from the end; with the mutex. The result is for the caller to free, without it. */
static GSList *surplus(void) {
  GSList *blocks = NULL;
  while (idle.length > MOST_IDLE || idle_bytes > MOST_IDLE_BYTES) {
    Block *block = g_queue_pop_tail(&idle);
    idle_bytes -= block->size;
    if (block->pinned) pinned_bytes -= block->size;
    blocks = g_slist_prepend(blocks, block);
  }
  return blocks;
}

static void give_back(gpointer data) {
  Block *block = data;
  g_mutex_lock(&mutex);
  g_queue_push_head(&idle, block);
  idle_bytes += block->size;
  GSList *blocks = surplus();
  g_mutex_unlock(&mutex);
  g_slist_free_full(blocks, (GDestroyNotify)block_free);
}

static Block *find_idle(gsize size) {
  for (GList *item = idle.head; item != NULL; item = item->next) {
    Block *block = item->data;
    if (block->size != size) continue;
    g_queue_delete_link(&idle, item);
    idle_bytes -= size;
    return block;
  }
  return NULL;
}

/* A buffer for copies from a device; NULL where there is no memory left. */
static Block *block_take(int device, gsize needed) {
  gsize size = (needed + GRAIN - 1) / GRAIN * GRAIN;
  g_mutex_lock(&mutex);
  Block *block = find_idle(size);
  gboolean pin = block == NULL && pinned_bytes + size <= MOST_PINNED;
  if (pin) pinned_bytes += size;
  g_mutex_unlock(&mutex);
  if (block != NULL) return block;
  block = g_new0(Block, 1);
  *block = (Block){pin ? cuda_host_new(device, size) : NULL, size, device, TRUE};
  if (block->data != NULL) return block;
  if (pin) {
    g_mutex_lock(&mutex);
    pinned_bytes -= size;
    g_mutex_unlock(&mutex);
  }
  block->pinned = FALSE;
  block->data = g_try_malloc(size);
  if (block->data == NULL) g_clear_pointer(&block, g_free);
  return block;
}

/* ---- copies ---- */

typedef struct { /* mirrored by host.py; rows in bytes */
  guint64 from, to_offset;
  guint32 from_pitch, from_row, from_rows;
  guint32 to_pitch, to_row, to_rows;
  guint32 sample; /* bytes of one */
  guint32 unused;
} HostPlane;

/* Repeats the last sample and the last row where the copy has one more: chroma of odd sizes, which NVIDIA rounds down. */
static void complete(const HostPlane *plane, guint8 *to) {
  for (guint row = 0; row < plane->from_rows; row++)
    for (guint at = plane->from_row; at < plane->to_row; at++)
      to[(gsize)row * plane->to_pitch + at] = to[(gsize)row * plane->to_pitch + at - plane->sample];
  for (guint row = plane->from_rows; row < plane->to_rows; row++)
    memcpy(to + (gsize)row * plane->to_pitch, to + (gsize)(row - 1) * plane->to_pitch, plane->to_row);
}

static gboolean copy_planes(guint mem_type, int device, const HostPlane *planes, guint n, guint8 *to, char *error,
                            gsize room) {
  CudaRows parts[NVBUF_MAX_PLANES];
  for (guint i = 0; i < n; i++)
    parts[i] = (CudaRows){planes[i].from,     planes[i].from_pitch, to + planes[i].to_offset,
                          planes[i].to_pitch, planes[i].from_row,   planes[i].from_rows};
  if (mem_type == NVBUF_MEM_DEFAULT || mem_type == NVBUF_MEM_CUDA_DEVICE || mem_type == NVBUF_MEM_CUDA_UNIFIED)
    return cuda_to_host(device, parts, n, error, room);
  for (guint i = 0; i < n; i++) /* SYSTEM and CUDA_PINNED, see MemType.on_host */
    for (gsize row = 0; row < parts[i].rows; row++)
      memcpy(parts[i].to + row * parts[i].to_pitch,
             (const guint8 *)(guintptr)parts[i].from + row * parts[i].from_pitch, parts[i].row_bytes);
  return TRUE;
}

GstMemory *sluice_host_copy(guint mem_type, int device, const HostPlane *planes, guint n, gsize size, guint64 *data,
                            char *error, gsize room);

/* A memory of the host with a copy of a surface's planes, and where its bytes begin. NULL with the reason. */
GstMemory *sluice_host_copy(guint mem_type, int device, const HostPlane *planes, guint n, gsize size, guint64 *data,
                            char *error, gsize room) {
  Block *block = n <= NVBUF_MAX_PLANES ? block_take(device, size) : NULL;
  if (block == NULL) {
    g_snprintf(error, room, "there is no memory for %" G_GSIZE_FORMAT " bytes", size);
    return NULL;
  }
  if (!copy_planes(mem_type, device, planes, n, block->data, error, room)) {
    give_back(block);
    return NULL;
  }
  for (guint i = 0; i < n; i++) {
    complete(&planes[i], (guint8 *)block->data + planes[i].to_offset);
    count_pixels(HOST_BYTES, (gint64)planes[i].from_row * planes[i].from_rows);
  }
  count_pixels(HOST_FRAMES, 1);
  *data = (guintptr)block->data;
  return gst_memory_new_wrapped(0, block->data, block->size, 0, size, block, give_back);
}

/* ---- buffers of pipelines ---- */

GstBuffer *sluice_host_buffer(GstMemory *memory, GstBuffer *original);

/* A new buffer with a memory, whose reference it takes, and with flags, times and metadata of another. */
GstBuffer *sluice_host_buffer(GstMemory *memory, GstBuffer *original) {
  GstBuffer *made = gst_buffer_new();
  if (original != NULL)
    gst_buffer_copy_into(made, original, GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_TIMESTAMPS | GST_BUFFER_COPY_META, 0,
                         -1);
  gst_buffer_append_memory(made, memory);
  return made;
}

gboolean sluice_host_replace(GstBuffer *buffer, GstBuffer *made, char *error, gsize room);

/* Gives a buffer, whose sole holder the caller is, the memory of another in the place of its own. Where that lay is said
 * by a GstVideoMeta, which goes. A pool's buffer is not changed: its metas are locked, and a decoder's pool that finds
 * other memory in it has a buffer less. */
gboolean sluice_host_replace(GstBuffer *buffer, GstBuffer *made, char *error, gsize room) {
  if (!gst_buffer_is_writable(buffer))
    return FAIL("the buffer is shared by %d holders; only the sole holder may change it: make it writable first",
                GST_MINI_OBJECT_REFCOUNT_VALUE(buffer));
  if (buffer->pool != NULL) return FAIL("the buffer is one of a pool, which needs its memory again; copy it first");
  for (GstMeta *meta; (meta = gst_buffer_get_meta(buffer, GST_VIDEO_META_API_TYPE)) != NULL;)
    if (!gst_buffer_remove_meta(buffer, meta)) break;
  gst_buffer_replace_all_memory(buffer, gst_buffer_get_memory(made, 0));
  return TRUE;
}

gboolean sluice_is_host_batch(GstBuffer *buffer);

/* Whether a buffer is a batch that was made here of raw frames in system memory. */
gboolean sluice_is_host_batch(GstBuffer *buffer) {
  BatchMemory *batch = batch_of(buffer);
  if (batch == NULL || batch->surface.memType != NVBUF_MEM_SYSTEM) return FALSE;
  for (guint i = 0; i < batch->frames; i++)
    if (!batch->frame[i]->mapped) return FALSE;
  return TRUE;
}
