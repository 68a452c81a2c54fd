/* Keeps off a pipeline's bus what nobody reads, in the thread that posts it and without the GIL.
 *
 * Every element that changes its state posts some messages. In GStreamer 1.22 the bus is a GstAtomicQueue, in which
 * each writer spins until all before it are done. When a hundred threads post at once on two cores, and one that is
 * not done waits for its turn, the others use the processor up: starting or stopping 200 streams took minutes. */
#include <gst/gst.h>

typedef struct {
  guint types;     /* GstMessageType; those that are kept */
  guint forwarded; /* of what a bin forwards of its children, those that are kept */
} Kept;

static gboolean is_of(const GstMessage *message, guint types) {
  return !GST_MESSAGE_TYPE_IS_EXTENDED(message) && (GST_MESSAGE_TYPE(message) & types) != 0;
}

static gboolean is_kept(GstMessage *message, const Kept *kept) {
  const GstStructure *structure = gst_message_get_structure(message);
  const GValue *inner;

  if (!is_of(message, kept->types))
    return FALSE;
  if (structure == NULL || !gst_structure_has_name(structure, "GstBinForwarded"))
    return TRUE;
  inner = gst_structure_get_value(structure, "message");
  return inner != NULL && is_of(g_value_get_boxed(inner), kept->forwarded);
}

static GstBusSyncReply sort_out(GstBus *bus, GstMessage *message, gpointer kept) {
  (void)bus;
  if (is_kept(message, kept))
    return GST_BUS_PASS;
  gst_message_unref(message);
  return GST_BUS_DROP;
}

/* Have a bus keep only messages of these types. It takes the place of the bus's sync handler. */
void sluice_bus_keep(GstBus *bus, guint types, guint forwarded) {
  Kept *kept = g_new(Kept, 1);

  *kept = (Kept){ types, forwarded };
  gst_bus_set_sync_handler(bus, sort_out, kept, g_free);
}
