/* NvBufSurface as DeepStream 9.0 and 9.1 lay it out on 64-bit Linux (nvbufsurface.h); the offsets are asserted in
 * surface_memory.c. Only what Sluice reads or writes has a name of its own. */
#ifndef SLUICE_NVBUFSURFACE_ABI_H
#define SLUICE_NVBUFSURFACE_ABI_H

#include <stdbool.h>
#include <stdint.h>

#define NVBUF_MAX_PLANES 4
#define NVBUF_MEM_DEFAULT 0
#define NVBUF_MEM_CUDA_PINNED 1
#define NVBUF_MEM_CUDA_DEVICE 2
#define NVBUF_MEM_CUDA_UNIFIED 3
#define NVBUF_MEM_CUDA_ARRAY 7
#define NVBUF_MEM_SYSTEM 6

typedef struct {
  uint32_t num_planes;
  uint32_t width[NVBUF_MAX_PLANES];
  uint32_t height[NVBUF_MAX_PLANES];
  uint32_t pitch[NVBUF_MAX_PLANES];
  uint32_t offset[NVBUF_MAX_PLANES];
  uint32_t psize[NVBUF_MAX_PLANES];
  uint32_t bytesPerPix[NVBUF_MAX_PLANES];
  void *_reserved[16];
} NvBufSurfacePlaneParams;

typedef struct {
  uint32_t width;
  uint32_t height;
  uint32_t pitch;
  uint32_t colorFormat;
  uint32_t layout;
  uint64_t bufferDesc;
  uint32_t dataSize;
  void *dataPtr;
  NvBufSurfacePlaneParams planeParams;
  void *mappedAddr[11];
  void *paramex;
  void *cudaBuffer;
  void *_reserved[4];
} NvBufSurfaceParams;

typedef struct {
  uint32_t gpuId;
  uint32_t batchSize;
  uint32_t numFilled;
  bool isContiguous;
  uint32_t memType;
  NvBufSurfaceParams *surfaceList;
  bool isImportedBuf;
  void *_reserved[4];
} NvBufSurface;

#endif
