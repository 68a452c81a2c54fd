/* DLPack tensors over planes of surfaces (https://dmlc.github.io/dlpack/latest/c_api.html, version 1.0).
 *
 * A tensor holds a buffer that shares only the batch's memory, never the batch's own GstBuffer, which therefore stays
 * writable downstream. Its deleter is C: it needs no GIL, may run on any thread and after the interpreter has ended.
 * The memory of a CUDA tensor is let go once the stream that it was exported for has done what was queued until then. */
#include "cuda.h"

#include <gst/gst.h>
#include <stdint.h>
#include <string.h>

void sluice_count_live_tensor(int by);

#define MAX_RANK 3
#define READ_ONLY 1u /* DLPACK_FLAG_BITMASK_READ_ONLY */
enum { UNSIGNED_INTEGER = 1 };

typedef struct {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor tensor;
  void *context;
  void (*deleter)(struct DLManagedTensor *);
} DLManagedTensor;

typedef struct DLManagedTensorVersioned {
  struct {
    uint32_t major, minor;
  } version;
  void *context;
  void (*deleter)(struct DLManagedTensorVersioned *);
  uint64_t flags;
  DLTensor tensor;
} DLManagedTensorVersioned;

typedef struct {
  int64_t shape[MAX_RANK], strides[MAX_RANK];
  GstMiniObject *keep;
  gboolean has_stream;
  uint64_t stream;
  int32_t device;
  union {
    DLManagedTensor plain;
    DLManagedTensorVersioned versioned;
  } managed;
} Export;

static void free_export(void *data) {
  Export *export = data;
  gst_mini_object_unref(export->keep);
  g_free(export);
  sluice_count_live_tensor(-1);
}

/* A consumer drops a tensor when its last kernel is queued, not when it is done: the memory is let go behind it. */
static void release(Export *export) {
  if (!export->has_stream || !cuda_after(export->device, export->stream, free_export, export)) free_export(export);
}

static void delete_plain(DLManagedTensor *tensor) { release(tensor->context); }

static void delete_versioned(DLManagedTensorVersioned *tensor) { release(tensor->context); }

typedef struct { /* mirrored by dlpack.py */
  uint64_t data;
  uint64_t keep;
  int64_t shape[MAX_RANK], strides[MAX_RANK];
  uint64_t stream; /* the consumer's; only looked at if has_stream */
  int32_t ndim, device_type, device_id, read_only, versioned, has_stream;
} TensorRequest;

void *sluice_dlpack_export(const TensorRequest *request);

/* Returns a DLManagedTensor or DLManagedTensorVersioned of bytes, which holds its own reference of `keep`. */
void *sluice_dlpack_export(const TensorRequest *request) {
  Export *export = g_new0(Export, 1);
  memcpy(export->shape, request->shape, sizeof export->shape);
  memcpy(export->strides, request->strides, sizeof export->strides);
  export->has_stream = request->has_stream != 0;
  export->stream = request->stream;
  export->device = request->device_id;
  export->keep = gst_mini_object_ref((GstMiniObject *)(uintptr_t)request->keep);
  DLTensor tensor = {.data = (void *)(uintptr_t)request->data,
                     .device = {request->device_type, request->device_id},
                     .ndim = request->ndim,
                     .dtype = {UNSIGNED_INTEGER, 8, 1},
                     .shape = export->shape,
                     .strides = export->strides};
  sluice_count_live_tensor(1);
  if (!request->versioned) {
    export->managed.plain = (DLManagedTensor){tensor, export, delete_plain};
    return &export->managed.plain;
  }
  export->managed.versioned =
      (DLManagedTensorVersioned){{1, 0}, export, delete_versioned, request->read_only ? READ_ONLY : 0, tensor};
  return &export->managed.versioned;
}

/* Python's capsule functions, handed in so that this library needs no symbol of Python's to be loaded. */
static int (*capsule_is_valid)(void *, const char *);
static void *(*capsule_get_pointer)(void *, const char *);

void sluice_dlpack_use_capsules(int (*is_valid)(void *, const char *), void *(*get_pointer)(void *, const char *));
void sluice_dlpack_destroy_capsule(void *capsule);

void sluice_dlpack_use_capsules(int (*is_valid)(void *, const char *), void *(*get_pointer)(void *, const char *)) {
  capsule_is_valid = is_valid;
  capsule_get_pointer = get_pointer;
}

/* The capsule's destructor: a consumer has renamed a capsule it took the tensor from; any other is still ours. */
void sluice_dlpack_destroy_capsule(void *capsule) {
  if (capsule_is_valid(capsule, "dltensor"))
    delete_plain(capsule_get_pointer(capsule, "dltensor"));
  else if (capsule_is_valid(capsule, "dltensor_versioned"))
    delete_versioned(capsule_get_pointer(capsule, "dltensor_versioned"));
}
