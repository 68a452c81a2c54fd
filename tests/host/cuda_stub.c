/* A libcuda.so.1 for machines without a GPU: device memory is the host's, copies are made where a stream is waited for,
 * and calls without the right context fail as the driver's do. What a test asks for and sees are the stub_ variables. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, ILLEGAL_ADDRESS = 700 };
enum { DEVICES = 2, DEPTH = 8, QUEUED = 64 };

int stub_fail_copy;       /* the result of the next copy; once */
int stub_fail_wait;       /* the result of the next wait; once */
int stub_fail_host_alloc; /* 1: there is no page-locked memory */
int stub_copies, stub_waits, stub_pinned, stub_pinned_made, stub_last_device = -1;

typedef struct { /* written from NVIDIA's cuda.h and not taken from the code under test */
  size_t srcXInBytes, srcY;
  int srcMemoryType;
  const void *srcHost;
  unsigned long long srcDevice;
  void *srcArray;
  size_t srcPitch, dstXInBytes, dstY;
  int dstMemoryType;
  void *dstHost;
  unsigned long long dstDevice;
  void *dstArray;
  size_t dstPitch, WidthInBytes, Height;
} CUDA_MEMCPY2D;

static int contexts[DEVICES]; /* their addresses are the contexts */
static _Thread_local void *stack[DEPTH];
static _Thread_local int depth;

int stub_depth(void) { return depth; }

static int current_device(void) { return depth == 0 ? -1 : (int)((int *)stack[depth - 1] - contexts); }

int cuDevicePrimaryCtxRetain(void **context, int device) {
  if (device < 0 || device >= DEVICES) return INVALID_DEVICE;
  *context = &contexts[device];
  return OK;
}

int cuCtxPushCurrent_v2(void *context) {
  if (depth == DEPTH) return INVALID_CONTEXT;
  stack[depth++] = context;
  return OK;
}

int cuCtxPopCurrent_v2(void **context) {
  if (depth == 0) return INVALID_CONTEXT;
  *context = stack[--depth];
  return OK;
}

int cuGetErrorName(int error, const char **name) {
  *name = error == INVALID_VALUE     ? "CUDA_ERROR_INVALID_VALUE"
          : error == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : error == INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT"
                                     : NULL;
  return *name == NULL ? INVALID_VALUE : OK;
}

typedef struct {
  pthread_mutex_t mutex;
  int device, queued;
  CUDA_MEMCPY2D copy[QUEUED];
} Stream;

int cuStreamCreate(Stream **stream, unsigned flags) {
  if (current_device() < 0) return INVALID_CONTEXT;
  if (flags != 1) return INVALID_VALUE;
  *stream = calloc(1, sizeof **stream);
  (*stream)->device = current_device();
  pthread_mutex_init(&(*stream)->mutex, NULL);
  return OK;
}

static int fail_once(int *result) { return __atomic_exchange_n(result, OK, __ATOMIC_SEQ_CST); }

int cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, Stream *stream) {
  int failure = fail_once(&stub_fail_copy), result = OK;
  if (failure != OK) return failure;
  if (stream == NULL || current_device() != stream->device) return INVALID_CONTEXT;
  if (copy->srcMemoryType != 2 || copy->dstMemoryType != 1) return INVALID_VALUE;
  if (copy->srcPitch < copy->WidthInBytes || copy->dstPitch < copy->WidthInBytes) return INVALID_VALUE;
  pthread_mutex_lock(&stream->mutex);
  if (stream->queued == QUEUED)
    result = OUT_OF_MEMORY;
  else
    stream->copy[stream->queued++] = *copy;
  pthread_mutex_unlock(&stream->mutex);
  stub_last_device = stream->device;
  __atomic_add_fetch(&stub_copies, 1, __ATOMIC_SEQ_CST);
  return result;
}

int cuStreamSynchronize(Stream *stream) {
  if (current_device() != stream->device) return INVALID_CONTEXT;
  pthread_mutex_lock(&stream->mutex);
  for (int i = 0; i < stream->queued; i++) {
    const CUDA_MEMCPY2D *copy = &stream->copy[i];
    for (size_t row = 0; row < copy->Height; row++)
      memcpy((char *)copy->dstHost + (copy->dstY + row) * copy->dstPitch + copy->dstXInBytes,
             (const char *)(uintptr_t)copy->srcDevice + (copy->srcY + row) * copy->srcPitch + copy->srcXInBytes,
             copy->WidthInBytes);
  }
  stream->queued = 0;
  pthread_mutex_unlock(&stream->mutex);
  __atomic_add_fetch(&stub_waits, 1, __ATOMIC_SEQ_CST);
  return fail_once(&stub_fail_wait);
}

int cuMemHostAlloc(void **data, size_t size, unsigned flags) {
  if (current_device() < 0) return INVALID_CONTEXT;
  if (flags != 1) return INVALID_VALUE;
  if (stub_fail_host_alloc) return OUT_OF_MEMORY;
  *data = malloc(size);
  memset(*data, 0xA5, size); /* what is left over from a frame before must not be seen as this one's */
  __atomic_add_fetch(&stub_pinned, 1, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&stub_pinned_made, 1, __ATOMIC_SEQ_CST);
  return OK;
}

int cuMemFreeHost(void *data) {
  if (current_device() < 0) return INVALID_CONTEXT;
  free(data);
  __atomic_sub_fetch(&stub_pinned, 1, __ATOMIC_SEQ_CST);
  return OK;
}
