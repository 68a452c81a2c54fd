/* CUDA without linking to it: the libraries are used where something else in the process has loaded them. */
#ifndef SLUICE_CUDA_H
#define SLUICE_CUDA_H

#include <gst/gst.h>
#include <stdint.h>

G_GNUC_INTERNAL gboolean cuda_after(int device, uint64_t stream, void (*call)(void *), void *data);
G_GNUC_INTERNAL void cuda_complete(GstMemory *memory);
G_GNUC_INTERNAL void cuda_open(GObject *context, guint device);

#endif
