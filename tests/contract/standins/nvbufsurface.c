/* Stands in for NVIDIA's libnvbufsurface and libnvbufsurftransform where there is no GPU: surfaces in the process's own
 * memory, and a conversion of UYVY (and of NV12, its luma) to grey RGBA by the nearest pixel. Structures are written
 * from the published field tables, not taken from the code under test. STANDIN_TRANSFORM_FAILS makes it refuse. */
#include <stdint.h>
#include <stdlib.h>
#include <stdbool.h>

typedef struct {
  uint32_t n, width[4], height[4], pitch[4], offset[4], psize[4], bytes[4];
  void *reserved[16];
} Planes;
typedef struct {
  uint32_t width, height, pitch, format, layout;
  uint64_t descriptor;
  uint32_t size;
  unsigned char *data;
  Planes planes;
  void *mapped[11], *extended, *cuda, *reserved[4];
} Surface;
typedef struct {
  uint32_t gpu, capacity, filled;
  bool contiguous;
  uint32_t memory;
  Surface *list;
  bool imported;
  void *reserved[4];
} Batch;
typedef struct {
  uint32_t gpu, width, height, size;
  bool contiguous;
  uint32_t format, layout, memory;
  void *reserved[4];
} Wanted;
typedef struct {
  uint32_t mode;
  int32_t gpu;
  void *stream, *reserved[4];
} Session;
typedef struct {
  uint32_t flags, flip, filter;
  void *from, *to, *reserved[4];
} Params;

int standin_alive, standin_waiting, standin_filter, standin_gpu = -1;
static __thread int sessions;

int NvBufSurfaceCreate(Batch **out, uint32_t capacity, Wanted *wanted) {
  if (wanted->width > 4096 || wanted->memory != 2 || wanted->format != 19) return -1;
  Batch *batch = calloc(1, sizeof *batch);
  Surface *one = batch->list = calloc(capacity, sizeof *one);
  uint32_t pitch = (wanted->width * 4 + 255) / 256 * 256;
  batch->capacity = capacity;
  batch->memory = wanted->memory;
  batch->gpu = wanted->gpu;
  *one = (Surface){.width = wanted->width, .height = wanted->height, .pitch = pitch, .format = wanted->format,
                   .size = pitch * wanted->height, .data = calloc(pitch, wanted->height),
                   .planes = {.n = 1, .width = {wanted->width}, .height = {wanted->height}, .pitch = {pitch},
                              .psize = {pitch * wanted->height}, .bytes = {4}}};
  *out = batch;
  standin_alive++;
  return 0;
}

int NvBufSurfaceDestroy(Batch *batch) {
  free(batch->list->data);
  free(batch->list);
  free(batch);
  standin_alive--;
  return 0;
}

int NvBufSurfTransformSetSessionParams(Session *session) {
  sessions = session->mode == 1;
  standin_gpu = session->gpu;
  return 0;
}

static unsigned char luma(const Surface *from, uint32_t x, uint32_t y) {
  const unsigned char *row = from->data + from->planes.offset[0] + (uint64_t)y * from->planes.pitch[0];
  return from->format == 10 ? row[2 * x + 1] : row[x];
}

int NvBufSurfTransformAsync(Batch *from, Batch *to, Params *params, void **sync) {
  if (!sessions || getenv("STANDIN_TRANSFORM_FAILS")) return -2;
  if (from->filled != to->filled || params->flags != 4) return -3;
  for (uint32_t i = 0; i < from->filled; i++) {
    const Surface *source = &from->list[i];
    Surface *target = &to->list[i];
    for (uint32_t y = 0; y < target->height; y++)
      for (uint32_t x = 0; x < target->width; x++) {
        unsigned char *pixel = target->data + (uint64_t)y * target->pitch + 4 * x;
        pixel[0] = pixel[1] = pixel[2] = luma(source, x * source->width / target->width, y * source->height / target->height);
        pixel[3] = 255;
      }
  }
  standin_filter = (int)params->filter;
  standin_waiting++;
  *sync = calloc(1, 1);
  return 0;
}

int NvBufSurfTransformSyncObjWait(void *sync, uint32_t milliseconds) { return sync && milliseconds ? 0 : -1; }

int NvBufSurfTransformSyncObjDestroy(void **sync) {
  free(*sync);
  *sync = NULL;
  standin_waiting--;
  return 0;
}
