/* NVIDIA's converter of surfaces (nvbufsurftransform.h) into surfaces of its own making, for memory, layouts and pixel
 * formats that nothing else here reads. Its libraries are opened when they are first needed. */
#define _GNU_SOURCE
#include "surface.h"

#include <dlfcn.h>
#include <string.h>

#define COMPUTE_ON_GPU 1     /* NvBufSurfTransformCompute_GPU */
#define FLAG_FILTER 4        /* NVBUFSURF_TRANSFORM_FILTER */
#define FOR_EVER 0xffffffffu /* milliseconds */

typedef struct { /* NvBufSurfTransformConfigParams */
  uint32_t compute_mode;
  int32_t gpu_id;
  void *cuda_stream;
  void *reserved[4];
} Session;

typedef struct { /* NvBufSurfTransformParams */
  uint32_t flags, flip, filter;
  void *source_rect, *target_rect;
  void *reserved[4];
} Params;

typedef struct { /* NvBufSurfaceCreateParams */
  uint32_t gpu_id, width, height, size;
  bool contiguous;
  uint32_t color_format, layout, mem_type;
  void *reserved[4];
} Create;

_Static_assert(sizeof(Session) == 48 && sizeof(Params) == 64 && sizeof(Create) == 64, "nvbufsurftransform.h");

typedef struct {
  int (*create)(NvBufSurface **surface, uint32_t capacity, Create *params);
  int (*destroy)(NvBufSurface *surface);
  int (*set_session)(Session *session);
  int (*transform)(NvBufSurface *source, NvBufSurface *target, Params *params, void **sync);
  int (*wait)(void *sync, uint32_t milliseconds);
  int (*forget)(void **sync);
} Transform;

/* One surface and where it goes; mirrored by transform.py. */
typedef struct {
  GstBuffer *buffer;
  guint64 index;
  NvBufSurface *target;
} Job;

/* A conversion that was queued, with the lists that it may still look at. */
typedef struct {
  void *sync;
  NvBufSurfaceParams *lists;
} Queued;

Transform *sluice_transform_open(const char *folder, char *error, gsize room);
NvBufSurface *sluice_transform_target(const Transform *transform, guint gpu, guint width, guint height, guint format,
                                      SurfaceInfo *info, char *error, gsize room);
void sluice_transform_release(const Transform *transform, NvBufSurface *target);
Queued *sluice_transform_queue(const Transform *transform, guint gpu, void *stream, const Job *jobs, guint n,
                               guint filter, char *error, gsize room);
void sluice_transform_finish(const Transform *transform, Queued *queued);

static void *open_library(const char *folder, const char *name, char *error, gsize room) {
  char *path = g_build_filename(folder, name, NULL);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) g_snprintf(error, room, "%s", dlerror());
  g_free(path);
  return library;
}

/* Opens the libraries of a folder, for good. */
Transform *sluice_transform_open(const char *folder, char *error, gsize room) {
  void *surfaces = open_library(folder, "libnvbufsurface.so", error, room);
  void *transforms = surfaces ? open_library(folder, "libnvbufsurftransform.so", error, room) : NULL;
  if (transforms == NULL) return NULL;
  Transform *transform = g_new(Transform, 1);
  struct {
    void *library;
    const char *name;
    void *place;
  } wanted[] = {
      {surfaces, "NvBufSurfaceCreate", &transform->create},
      {surfaces, "NvBufSurfaceDestroy", &transform->destroy},
      {transforms, "NvBufSurfTransformSetSessionParams", &transform->set_session},
      {transforms, "NvBufSurfTransformAsync", &transform->transform},
      {transforms, "NvBufSurfTransformSyncObjWait", &transform->wait},
      {transforms, "NvBufSurfTransformSyncObjDestroy", &transform->forget},
  };
  for (guint i = 0; i < G_N_ELEMENTS(wanted); i++) {
    void *symbol = dlsym(wanted[i].library, wanted[i].name);
    if (symbol == NULL) {
      g_snprintf(error, room, "the libraries in %s have no %s", folder, wanted[i].name);
      g_free(transform);
      return NULL;
    }
    memcpy(wanted[i].place, &symbol, sizeof symbol);
  }
  return transform;
}

/* A surface in device memory, in rows, that a conversion may write to. */
NvBufSurface *sluice_transform_target(const Transform *transform, guint gpu, guint width, guint height, guint format,
                                      SurfaceInfo *info, char *error, gsize room) {
  Create params = {.gpu_id = gpu, .width = width, .height = height, .color_format = format,
                   .mem_type = NVBUF_MEM_CUDA_DEVICE};
  NvBufSurface *target = NULL;
  int failed = transform->create(&target, 1, &params);
  if (failed != 0 || target == NULL) {
    g_snprintf(error, room, "NvBufSurfaceCreate gave %d for %ux%u on GPU %u", failed, width, height, gpu);
    return NULL;
  }
  target->numFilled = 1;
  if (!check_surface(target->surfaceList, error, room)) {
    transform->destroy(target);
    return NULL;
  }
  flatten_surface(target->surfaceList, info);
  return target;
}

void sluice_transform_release(const Transform *transform, NvBufSurface *target) { transform->destroy(target); }

/* Copies the description of one surface of a batch, and the batch's own. */
static gboolean find_source(const Job *job, NvBufSurface *header, NvBufSurfaceParams *params, char *error, gsize room) {
  NvBufSurfaceParams *list = NULL;
  gboolean ours;
  if (!read_surfaces(job->buffer, header, &list, &ours, error, room)) return FALSE;
  gboolean found = job->index < header->numFilled;
  if (found) *params = list[job->index];
  g_free(list);
  if (!found) return FAIL("the batch has %u surfaces, no surface %" G_GUINT64_FORMAT, header->numFilled, job->index);
  return TRUE;
}

/* Queues the conversion of surfaces of one kind of memory on a CUDA stream, each into a target of its own, scaled where
 * the sizes differ. Surfaces and targets must stay until the stream is done; then `sluice_transform_finish`. */
Queued *sluice_transform_queue(const Transform *transform, guint gpu, void *stream, const Job *jobs, guint n,
                               guint filter, char *error, gsize room) {
  NvBufSurfaceParams *lists = g_new0(NvBufSurfaceParams, 2 * n);
  NvBufSurface source = {0}, target = {0};
  for (guint i = 0; i < n; i++) {
    NvBufSurface header;
    gboolean found = find_source(&jobs[i], &header, &lists[i], error, room);
    if (found && i > 0 && header.memType != source.memType)
      found = FAIL("the surfaces are in memory of types %u and %u", source.memType, header.memType);
    if (!found) {
      g_free(lists);
      return NULL;
    }
    source = header;
    target = *jobs[i].target;
    lists[n + i] = *jobs[i].target->surfaceList;
  }
  source.batchSize = source.numFilled = target.batchSize = target.numFilled = n;
  source.isContiguous = target.isContiguous = false;
  source.surfaceList = lists;
  target.surfaceList = lists + n;
  Session session = {.compute_mode = COMPUTE_ON_GPU, .gpu_id = gpu, .cuda_stream = stream};
  Params params = {.flags = FLAG_FILTER, .filter = filter};
  Queued *queued = g_new0(Queued, 1);
  queued->lists = lists;
  int failed = transform->set_session(&session); /* of this thread */
  if (failed == 0) failed = transform->transform(&source, &target, &params, &queued->sync);
  if (failed != 0) {
    g_snprintf(error, room, "NvBufSurfTransform gave %d for colour format %u in memory of type %u", failed,
               lists[0].colorFormat, source.memType);
    sluice_transform_finish(transform, queued);
    return NULL;
  }
  return queued;
}

/* Waits for a conversion, which is over at once where its stream is, and frees what it needed. */
void sluice_transform_finish(const Transform *transform, Queued *queued) {
  if (queued->sync != NULL) {
    transform->wait(queued->sync, FOR_EVER);
    transform->forget(&queued->sync);
  }
  g_free(queued->lists);
  g_free(queued);
}
