/* The way of buffers through an element whose work is done in Python on another thread, with one entry into Python each.
 *
 * A buffer that arrives at the sink pad is put into the element's queue and, where a line is open, announced on it: a
 * line is what a thread of Python waits at, for the buffers of one or several elements. That thread works on the buffer
 * and says that it is done; the source pad's thread pushes what is done, in the order of arrival. Neither streaming
 * thread needs the GIL. Everything else that keeps its place in the queue (events, buffers that no line takes) is an
 * entry of Python's, known here by a number; the source pad's thread returns to Python for those. */
#ifndef SLUICE_INFLIGHT_H
#define SLUICE_INFLIGHT_H

#include <gst/gst.h>

typedef struct Line Line;
typedef struct Route Route;
typedef struct Inflight Inflight;
typedef struct Item Item;

/* What stands at a line's head. Both are mirrored by contract/inflight.py. */
typedef enum { NOTHING, NOTE, ITEM } CallKind;

typedef struct {
  gint32 kind;
  gint32 owner;    /* of an item: the number given to sluice_inflight_new() */
  guint64 value;   /* a note, or the address of an item, whose reference goes to the caller */
  guint64 buffer;  /* of an item: with a reference of the caller's; 0 where it was abandoned */
  guint64 number;  /* of an item: how many buffers came before it since the start */
  gint32 mark;     /* of an item: that of the queue when it arrived */
} Call;

/* One buffer on its way. Its thread and its queue hold it; `buffer` is given up where the queue is flushed. */
struct Item {
  gint references;
  Inflight *inflight;
  GstBuffer *buffer;     /* NULL once it was abandoned, for an entry of Python's, or pushed */
  guint64 number;        /* of an entry: Python's; of a buffer: how many came before it since the start */
  gint32 mark;           /* that of the queue when it arrived */
  gint state;
};

typedef enum { WAITING, PUSH, DROP, FAILED } ItemState;

G_GNUC_INTERNAL void item_unref(Item *item);
G_GNUC_INTERNAL void item_claim(Item *item, Call *call);
G_GNUC_INTERNAL gboolean route_announce(Route *route, Item *item, gint32 owner);
Route *sluice_route_ref(Route *route);
void sluice_route_unref(Route *route);

#endif
