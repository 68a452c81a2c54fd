/* Memory of Python objects in the hands of others: DLPack tensors of any type, and anything with a GDestroyNotify.
 *
 * The object is let go from whatever thread the last holder is on, with the GIL taken, and with the error that is just
 * being raised put aside: holders are also freed while an exception unwinds the stack, where no Python code may run.
 * Once the interpreter ends, objects are leaked.
 */
#include <stdint.h>
#include <string.h>

#include "nvds.h"

#define READ_ONLY 1u            /* DLPACK_FLAG_BITMASK_READ_ONLY */

void sluice_count_live_tensor (int by);

/* Python's functions, handed in so that this library needs no symbol of Python's to be loaded. */
typedef struct
{
  int (*gil_ensure) (void);
  void (*gil_release) (int state);
  void (*error_fetch) (gpointer *type, gpointer *value, gpointer *traceback);
  void (*error_restore) (gpointer type, gpointer value, gpointer traceback);
  void (*decref) (gpointer object);
  int (*capsule_is_valid) (gpointer capsule, const char *name);
  gpointer (*capsule_pointer) (gpointer capsule, const char *name);
} SluicePython;

static const SluicePython *python;

/* NULL when the interpreter ends. */
SLUICE_EXPORT void
sluice_python_use (const SluicePython *functions)
{
  g_atomic_pointer_set (&python, functions);
}

/* Let references of Python objects go, in one entry into Python. */
void
sluice_python_drop_all (gpointer *objects, guint count)
{
  const SluicePython *functions = g_atomic_pointer_get (&python);
  if (functions == NULL)
    return;
  int state = functions->gil_ensure ();
  gpointer type, value, traceback;
  functions->error_fetch (&type, &value, &traceback);
  for (guint i = 0; i < count; i++)
    functions->decref (objects[i]);
  functions->error_restore (type, value, traceback);
  functions->gil_release (state);
}

/* Let a reference of a Python object go. */
SLUICE_EXPORT void
sluice_python_drop (gpointer object)
{
  sluice_python_drop_all (&object, 1);
}

/* https://dmlc.github.io/dlpack/latest/c_api.html */
typedef struct
{
  gpointer data;
  gint32 device_type, device_id;
  gint32 ndim;
  guint8 code, bits;
  guint16 lanes;
  gint64 *shape;
  gint64 *strides;
  guint64 byte_offset;
} DLTensor;

typedef struct DLManagedTensor
{
  DLTensor tensor;
  gpointer context;
  void (*deleter) (struct DLManagedTensor *);
} DLManagedTensor;

typedef struct DLManagedTensorVersioned
{
  guint32 major, minor;
  gpointer context;
  void (*deleter) (struct DLManagedTensorVersioned *);
  guint64 flags;
  DLTensor tensor;
} DLManagedTensorVersioned;

typedef struct
{
  gpointer object;
  union
  {
    DLManagedTensor plain;
    DLManagedTensorVersioned versioned;
  } managed;
  gint64 sizes[];               /* shape, then strides */
} Export;

static void
release (Export *exported)
{
  sluice_python_drop (exported->object);
  g_free (exported);
  sluice_count_live_tensor (-1);
}

static void
delete_plain (DLManagedTensor *tensor)
{
  release (tensor->context);
}

static void
delete_versioned (DLManagedTensorVersioned *tensor)
{
  release (tensor->context);
}

/* Returns a DLManagedTensor or DLManagedTensorVersioned like `tensor`, which owns the reference of `object`. */
SLUICE_EXPORT gpointer
sluice_python_export (const DLTensor *tensor, gpointer object, int read_only, int versioned)
{
  gsize bytes = (gsize) tensor->ndim * sizeof (gint64);
  Export *exported = g_malloc0 (sizeof (Export) + 2 * bytes);
  exported->object = object;
  DLTensor copy = *tensor;
  copy.shape = exported->sizes;
  copy.strides = exported->sizes + tensor->ndim;
  if (bytes > 0) {
    memcpy (copy.shape, tensor->shape, bytes);
    memcpy (copy.strides, tensor->strides, bytes);
  }
  sluice_count_live_tensor (1);
  if (!versioned) {
    exported->managed.plain = (DLManagedTensor) {copy, exported, delete_plain};
    return &exported->managed.plain;
  }
  exported->managed.versioned =
      (DLManagedTensorVersioned) {1, 0, exported, delete_versioned, read_only ? READ_ONLY : 0, copy};
  return &exported->managed.versioned;
}

/* The capsule's destructor: a consumer has renamed a capsule it took the tensor from; any other is still ours. */
SLUICE_EXPORT void
sluice_python_destroy_capsule (gpointer capsule)
{
  const SluicePython *functions = g_atomic_pointer_get (&python);
  if (functions == NULL)
    return;
  if (functions->capsule_is_valid (capsule, "dltensor"))
    delete_plain (functions->capsule_pointer (capsule, "dltensor"));
  else if (functions->capsule_is_valid (capsule, "dltensor_versioned"))
    delete_versioned (functions->capsule_pointer (capsule, "dltensor_versioned"));
}
