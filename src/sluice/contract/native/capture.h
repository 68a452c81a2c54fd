/* Where a frame's ntp_timestamp comes from, told by a user meta of the frame. */
#ifndef SLUICE_CAPTURE_H
#define SLUICE_CAPTURE_H

#include "provider.h"

typedef enum { CAPTURE_UNTOLD, CAPTURE_ARRIVAL, CAPTURE_SENDER } Capture;

/* Say it on a frame, in place of what it brought along. `meta_type` is that of "SLUICE.CAPTURE_TIME". */
void sluice_tell_capture (const SluiceProvider *provider, gpointer batch, gpointer frame, Capture from, gint meta_type);

/* What a user meta says: "rtcp" or "arrival"; NULL where it is about something else. */
const gchar *sluice_capture_told (const SluiceProvider *provider, gpointer user);

#endif
