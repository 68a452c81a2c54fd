/* CUDA without linking to it: the libraries are used where something else in the process has loaded them. */
#ifndef SLUICE_CUDA_H
#define SLUICE_CUDA_H

#include <gst/gst.h>
#include <stdint.h>

G_GNUC_INTERNAL gboolean cuda_after(int device, uint64_t stream, void (*call)(void *), void *data);
G_GNUC_INTERNAL void cuda_complete(GstMemory *memory);
G_GNUC_INTERNAL void cuda_open(GObject *context, guint device);

typedef struct { /* rows of a device's memory, and where in the host's they go */
  guint64 from;
  gsize from_pitch;
  guint8 *to;
  gsize to_pitch, row_bytes, rows;
} CudaRows;

G_GNUC_INTERNAL gboolean cuda_to_host(int device, const CudaRows *parts, guint n, char *error, gsize room);
G_GNUC_INTERNAL void *cuda_host_new(int device, gsize size);
G_GNUC_INTERNAL void cuda_host_free(int device, void *data);

#endif
