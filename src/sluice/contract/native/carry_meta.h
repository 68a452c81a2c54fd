/* Carries the metadata that a frame brings along into a batch; see carry_meta.c. */
#ifndef SLUICE_CARRY_META_H
#define SLUICE_CARRY_META_H

#include "provider.h"

/* The only frame of a buffer's NvDsBatchMeta; NULL where it has none, or more than one. */
gpointer sluice_carried_frame (const SluiceProvider *provider, GstBuffer *buffer);

/* Copy all of a frame's metadata, in order and with their links, into a frame acquired from another batch. The frame's
 * own fields (numbers, times, sizes) are the source's after this. User metas that cannot be copied are removed. */
void sluice_carry_frame (const SluiceProvider *provider, gpointer source, gpointer copy);

#endif
