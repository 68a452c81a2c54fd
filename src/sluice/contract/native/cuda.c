/* CUDA without linking to it: the libraries are used where something else in the process has loaded them. */
#define _GNU_SOURCE
#include "cuda.h"

#include <dlfcn.h>

#define MAX_DEVICES 64
#define OPENED "sluice-opened" /* set on a GstCudaContext whose memory other contexts can reach */

/* For functions that report into (char *error, gsize room). */
#define FAIL(...) (g_snprintf(error, room, __VA_ARGS__), FALSE)

typedef void *Context;
typedef void *Stream;
typedef int Result; /* CUresult; 0 is success */

typedef struct { /* CUDA_MEMCPY2D of cuda.h, version 2 */
  gsize from_x, from_y;
  guint from_type;
  const void *from_host;
  guint64 from_device;
  void *from_array;
  gsize from_pitch;
  gsize to_x, to_y;
  guint to_type;
  void *to_host;
  guint64 to_device;
  void *to_array;
  gsize to_pitch;
  gsize row_bytes, rows;
} Copy2D;
_Static_assert(sizeof(Copy2D) == 128, "CUDA_MEMCPY2D");

enum { ON_HOST = 1, ON_DEVICE = 2 };     /* CUmemorytype */
enum { NON_BLOCKING = 1, PORTABLE = 1 }; /* of CUstream_flags: waits for no other stream; of cuMemHostAlloc: for all
                                            contexts */

static struct {
  Result (*retain_primary)(Context *, int device);
  Result (*push)(Context);
  Result (*pop)(Context *);
  Result (*enable_peer)(Context, unsigned flags);
  Result (*launch_host)(void *stream, void (*call)(void *), void *data);
  Result (*stream_new)(Stream *, unsigned flags);
  Result (*stream_wait)(Stream);
  Result (*copy_2d)(const Copy2D *, Stream);
  Result (*host_new)(void **, size_t size, unsigned flags);
  Result (*host_free)(void *);
  Result (*error_name)(Result, const char **);
} cuda;

static struct {
  void (*sync)(GstMemory *);        /* since 1.24 */
  void *(*handle)(GObject *context);
} gst_cuda;

/* A function of a library, or NULL where nobody has loaded it or it is too old. */
static void *loaded_function(const char *library, const char *name) {
  void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  void *function = handle != NULL ? dlsym(handle, name) : NULL;
  if (handle != NULL) dlclose(handle);
  return function;
}

#define LOOK_UP(target, library, name) *(void **)&(target) = loaded_function(library, name)

static void look_up_cuda(void) {
  static gsize done = 0;
  if (!g_once_init_enter(&done)) return;
  LOOK_UP(cuda.retain_primary, "libcuda.so.1", "cuDevicePrimaryCtxRetain");
  LOOK_UP(cuda.stream_new, "libcuda.so.1", "cuStreamCreate");
  LOOK_UP(cuda.stream_wait, "libcuda.so.1", "cuStreamSynchronize");
  LOOK_UP(cuda.copy_2d, "libcuda.so.1", "cuMemcpy2DAsync_v2");
  LOOK_UP(cuda.host_new, "libcuda.so.1", "cuMemHostAlloc");
  LOOK_UP(cuda.host_free, "libcuda.so.1", "cuMemFreeHost");
  LOOK_UP(cuda.error_name, "libcuda.so.1", "cuGetErrorName");
  LOOK_UP(cuda.push, "libcuda.so.1", "cuCtxPushCurrent_v2");
  LOOK_UP(cuda.pop, "libcuda.so.1", "cuCtxPopCurrent_v2");
  LOOK_UP(cuda.enable_peer, "libcuda.so.1", "cuCtxEnablePeerAccess");
  LOOK_UP(cuda.launch_host, "libcuda.so.1", "cuLaunchHostFunc");
  g_once_init_leave(&done, 1);
}

static void look_up_gst_cuda(void) {
  static gsize done = 0;
  if (!g_once_init_enter(&done)) return;
  LOOK_UP(gst_cuda.sync, "libgstcuda-1.0.so.0", "gst_cuda_memory_sync");
  LOOK_UP(gst_cuda.handle, "libgstcuda-1.0.so.0", "gst_cuda_context_get_handle");
  g_once_init_leave(&done, 1);
}

/* The context that CUDA's runtime, and with it PyTorch, uses on a device; kept for as long as the process lives. */
static Context primary_context(int device) {
  static Context kept[MAX_DEVICES];
  static GMutex mutex;
  if (device < 0 || device >= MAX_DEVICES || cuda.retain_primary == NULL || cuda.push == NULL) return NULL;
  g_mutex_lock(&mutex);
  if (kept[device] == NULL && cuda.retain_primary(&kept[device], device) != 0) kept[device] = NULL;
  Context context = kept[device];
  g_mutex_unlock(&mutex);
  return context;
}

/* ---- copies to the host ---- */

static const char *name_of(Result result) {
  const char *name = NULL;
  if (cuda.error_name == NULL || cuda.error_name(result, &name) != 0 || name == NULL) return "an unknown error";
  return name;
}

/* The stream that copies of a device go through, so that they wait for no model; its context must be current. */
static Result copy_stream(int device, Stream *stream) {
  static Stream kept[MAX_DEVICES];
  static GMutex mutex;
  g_mutex_lock(&mutex);
  Result result = kept[device] == NULL ? cuda.stream_new(&kept[device], NON_BLOCKING) : 0;
  *stream = kept[device];
  g_mutex_unlock(&mutex);
  return result;
}

static gboolean copy_rows(int device, const CudaRows *parts, guint n, char *error, gsize room) {
  Stream stream;
  Result result = copy_stream(device, &stream);
  if (result != 0) return FAIL("cuStreamCreate on GPU %d: %s", device, name_of(result));
  guint queued = 0;
  for (; queued < n && result == 0; queued++) {
    const CudaRows *part = &parts[queued];
    Copy2D copy = {.from_type = ON_DEVICE,
                   .from_device = part->from,
                   .from_pitch = part->from_pitch,
                   .to_type = ON_HOST,
                   .to_host = part->to,
                   .to_pitch = part->to_pitch,
                   .row_bytes = part->row_bytes,
                   .rows = part->rows};
    result = cuda.copy_2d(&copy, stream);
  }
  /* Also where one was refused: those before it must not write to memory that is given up. */
  Result waited = cuda.stream_wait(stream);
  if (result != 0) return FAIL("plane %u, cuMemcpy2DAsync on GPU %d: %s", queued - 1, device, name_of(result));
  if (waited != 0) return FAIL("cuStreamSynchronize on GPU %d: %s", device, name_of(waited));
  return TRUE;
}

/* Copies rows that are complete in the memory of a device, and returns when they are in the host's. */
gboolean cuda_to_host(int device, const CudaRows *parts, guint n, char *error, gsize room) {
  look_up_cuda();
  if (cuda.copy_2d == NULL || cuda.stream_new == NULL || cuda.stream_wait == NULL)
    return FAIL("NVIDIA's driver (libcuda.so.1) is not loaded in this process, or has no cuMemcpy2DAsync");
  Context context = primary_context(device), previous;
  if (context == NULL) return FAIL("there is no GPU %d, or its primary context cannot be had", device);
  Result result = cuda.push(context);
  if (result != 0) return FAIL("cuCtxPushCurrent on GPU %d: %s", device, name_of(result));
  gboolean done = copy_rows(device, parts, n, error, room);
  cuda.pop(&previous);
  return done;
}

/* Memory of the host that a device copies to at its full rate; NULL where there is none to be had. */
void *cuda_host_new(int device, gsize size) {
  look_up_cuda();
  Context context = primary_context(device), previous;
  void *data = NULL;
  if (context == NULL || cuda.host_new == NULL || cuda.host_free == NULL || cuda.push(context) != 0) return NULL;
  if (cuda.host_new(&data, size, PORTABLE) != 0) data = NULL;
  cuda.pop(&previous);
  return data;
}

/* Frees what `cuda_host_new` returned. */
void cuda_host_free(int device, void *data) {
  Context context = primary_context(device), previous;
  if (context == NULL || cuda.push(context) != 0) return; /* the driver is being unloaded, and its memory with it */
  cuda.host_free(data);
  cuda.pop(&previous);
}

/* ---- calls behind a stream ---- */

typedef struct {
  void (*call)(void *);
  void *data;
} Later;

static GAsyncQueue *later; /* calls whose stream has got to them; CUDA's own thread may not make them */

static gpointer make_calls(gpointer unused) {
  for (;;) {
    Later *item = g_async_queue_pop(later);
    item->call(item->data);
    g_free(item);
  }
  return unused;
}

static void start_calls(void) {
  static gsize done = 0;
  if (!g_once_init_enter(&done)) return;
  later = g_async_queue_new();
  g_thread_unref(g_thread_new("sluice-cuda", make_calls, NULL));
  g_once_init_leave(&done, 1);
}

static void queue_call(void *item) { g_async_queue_push(later, item); }

/* Has `call(data)` made, on a thread of its own, once all that is queued on a stream now is done. FALSE, with nothing
 * done, where that cannot be. */
gboolean cuda_after(int device, uint64_t stream, void (*call)(void *), void *data) {
  look_up_cuda();
  Context context = primary_context(device), previous;
  if (context == NULL || cuda.launch_host == NULL || cuda.push(context) != 0) return FALSE;
  start_calls();
  Later *item = g_new(Later, 1);
  *item = (Later){call, data};
  gboolean queued = cuda.launch_host((void *)(uintptr_t)stream, queue_call, item) == 0;
  cuda.pop(&previous);
  if (!queued) g_free(item);
  return queued;
}

/* ---- GStreamer's CUDA memory ---- */

/* Waits until what GStreamer has queued on a memory's own stream is done. Before 1.24 its elements wait themselves. */
void cuda_complete(GstMemory *memory) {
  look_up_gst_cuda();
  if (gst_cuda.sync != NULL) gst_cuda.sync(memory);
}

/* Lets the primary context of a device reach the memory of a GstCudaContext, which is another one on that device. */
void cuda_open(GObject *context, guint device) {
  if (g_object_get_data(context, OPENED) != NULL) return;
  look_up_cuda();
  look_up_gst_cuda();
  Context primary = primary_context((int)device), previous;
  void *other = gst_cuda.handle != NULL ? gst_cuda.handle(context) : NULL;
  if (primary != NULL && other != NULL && other != primary && cuda.push(primary) == 0) {
    cuda.enable_peer(other, 0); /* also fails where it was done before */
    cuda.pop(&previous);
  }
  g_object_set_data(context, OPENED, context);
}
