/* CUDA without linking to it: the libraries are used where something else in the process has loaded them. */
#define _GNU_SOURCE
#include "cuda.h"

#include <dlfcn.h>

#define MAX_DEVICES 64
#define OPENED "sluice-opened" /* set on a GstCudaContext whose memory other contexts can reach */

typedef void *Context;
typedef int Result; /* CUresult; 0 is success */

static struct {
  Result (*retain_primary)(Context *, int device);
  Result (*push)(Context);
  Result (*pop)(Context *);
  Result (*enable_peer)(Context, unsigned flags);
  Result (*launch_host)(void *stream, void (*call)(void *), void *data);
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
