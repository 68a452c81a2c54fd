/* The queue of one element: what the threads of its two pads do. See inflight.h. */
#include "inflight.h"

struct Inflight {
  gint references;
  gint32 owner;
  GMutex lock;
  GCond room;              /* for the thread of the sink pad */
  GCond ready;             /* for the taking thread */
  GCond idle;              /* for threads that flush or drain */
  GQueue items;            /* of Item */
  Route *route;            /* NULL: all buffers go through Python */
  GstPadChainFunction slow; /* the pad's own chain function, which enters Python */
  guint limit;             /* buffers inside at most */
  guint inside;            /* buffers inside, those included for which there is room only */
  guint64 arrived;         /* buffers since the start */
  guint64 discarded;       /* that arrived and did not leave as downstream had refused one */
  gint32 mark;
  gint flow;               /* what downstream returned last */
  gboolean stopped;
  gboolean flushing;
  gboolean taken;          /* the taking thread works on what it took */
  guint waits_for_room, waits_for_ready, waits_for_idle; /* threads: to wake nobody costs as much as to wake somebody */
  GThread *taker;
};

/* ---- references ---- */

Inflight *sluice_inflight_new(gint32 owner);
void sluice_inflight_unref(Inflight *inflight);
void sluice_item_unref(Item *item);

Inflight *sluice_inflight_new(gint32 owner) {
  Inflight *inflight = g_new0(Inflight, 1);
  inflight->references = 1;
  inflight->owner = owner;
  inflight->limit = 1;
  inflight->stopped = TRUE;
  inflight->flow = GST_FLOW_OK;
  g_mutex_init(&inflight->lock);
  g_cond_init(&inflight->room);
  g_cond_init(&inflight->ready);
  g_cond_init(&inflight->idle);
  return inflight;
}

void sluice_inflight_unref(Inflight *inflight) {
  if (!g_atomic_int_dec_and_test(&inflight->references)) return;
  sluice_route_unref(inflight->route);
  g_mutex_clear(&inflight->lock);
  g_cond_clear(&inflight->room);
  g_cond_clear(&inflight->ready);
  g_cond_clear(&inflight->idle);
  g_free(inflight);
}

static Item *item_new(Inflight *inflight, GstBuffer *buffer) {
  Item *item = g_new0(Item, 1);
  item->references = 1;
  g_atomic_int_inc(&inflight->references);
  item->inflight = inflight;
  item->buffer = buffer;
  return item;
}

void item_unref(Item *item) {
  if (!g_atomic_int_dec_and_test(&item->references)) return;
  gst_clear_buffer(&item->buffer);
  sluice_inflight_unref(item->inflight);
  g_free(item);
}

void sluice_item_unref(Item *item) { item_unref(item); }

/* ---- state ---- */

static void wake_all(Inflight *inflight) {
  g_cond_broadcast(&inflight->room);
  g_cond_broadcast(&inflight->ready);
  g_cond_broadcast(&inflight->idle);
}

void sluice_inflight_start(Inflight *inflight);
void sluice_inflight_end(Inflight *inflight, gboolean stopped);
gboolean sluice_inflight_settle(Inflight *inflight);
void sluice_inflight_resume(Inflight *inflight);
void sluice_inflight_set_limit(Inflight *inflight, guint limit);
void sluice_inflight_set_mark(Inflight *inflight, gint32 mark);
void sluice_inflight_set_flow(Inflight *inflight, gint flow);
void sluice_inflight_set_route(Inflight *inflight, Route *route);
gint sluice_inflight_flow(Inflight *inflight);
gboolean sluice_inflight_drain(Inflight *inflight);
guint64 sluice_inflight_arrived(Inflight *inflight);
guint64 sluice_inflight_discarded(Inflight *inflight);
guint sluice_inflight_length(Inflight *inflight);

/* Begins to accept and deliver, empty. */
void sluice_inflight_start(Inflight *inflight) {
  g_mutex_lock(&inflight->lock);
  inflight->stopped = inflight->flushing = FALSE;
  inflight->inside = 0;
  inflight->arrived = inflight->discarded = 0;
  wake_all(inflight);
  g_mutex_unlock(&inflight->lock);
}

/* Waits at a condition of the queue's, whose `waiting` says for how many threads; with the lock held. */
static void wait_at(Inflight *inflight, GCond *condition, guint *waiting) {
  ++*waiting;
  g_cond_wait(condition, &inflight->lock);
  --*waiting;
}

/* Refuses everything, abandons what is inside and wakes every waiter; but for a stop not the taking thread. */
void sluice_inflight_end(Inflight *inflight, gboolean stopped) {
  GQueue buffers = G_QUEUE_INIT, items = G_QUEUE_INIT;
  Item *item;
  g_mutex_lock(&inflight->lock);
  inflight->stopped |= stopped;
  inflight->flushing = TRUE;
  inflight->inside = 0;
  while ((item = g_queue_pop_head(&inflight->items)) != NULL) {
    if (item->buffer != NULL) g_queue_push_tail(&buffers, g_steal_pointer(&item->buffer));
    g_queue_push_tail(&items, item);
  }
  wake_all(inflight);
  g_mutex_unlock(&inflight->lock);
  g_queue_clear_full(&buffers, (GDestroyNotify)gst_buffer_unref);
  g_queue_clear_full(&items, (GDestroyNotify)item_unref);
}

/* During a flush, waits until the taking thread has finished with what it took before. */
gboolean sluice_inflight_settle(Inflight *inflight) {
  g_mutex_lock(&inflight->lock);
  while (!inflight->stopped && inflight->taken && inflight->taker != g_thread_self())
    wait_at(inflight, &inflight->idle, &inflight->waits_for_idle);
  gboolean running = !inflight->stopped;
  g_mutex_unlock(&inflight->lock);
  return running;
}

#define SET(name, type, member)                                    \
  void sluice_inflight_set_##name(Inflight *inflight, type value) { \
    g_mutex_lock(&inflight->lock);                                  \
    inflight->member = value;                                       \
    wake_all(inflight);                                             \
    g_mutex_unlock(&inflight->lock);                                \
  }

#define GET(name, type, expression)                  \
  type sluice_inflight_##name(Inflight *inflight) {   \
    g_mutex_lock(&inflight->lock);                    \
    type value = expression;                          \
    g_mutex_unlock(&inflight->lock);                  \
    return value;                                     \
  }

SET(limit, guint, limit)
SET(mark, gint32, mark)
SET(flow, gint, flow)
GET(flow, gint, inflight->flow)
GET(arrived, guint64, inflight->arrived)
GET(discarded, guint64, inflight->discarded)
GET(length, guint, inflight->items.length)

/* Accepts again after a flush. */
void sluice_inflight_resume(Inflight *inflight) {
  g_mutex_lock(&inflight->lock);
  inflight->flushing = inflight->stopped;
  wake_all(inflight);
  g_mutex_unlock(&inflight->lock);
}

/* Has the buffers that arrive announced on a route's line; NULL: has them all go through Python. */
void sluice_inflight_set_route(Inflight *inflight, Route *route) {
  sluice_route_ref(route);
  g_mutex_lock(&inflight->lock);
  Route *old = inflight->route;
  inflight->route = route;
  g_mutex_unlock(&inflight->lock);
  sluice_route_unref(old);
}

/* Waits until everything inside has left; FALSE when flushing or stopped. */
gboolean sluice_inflight_drain(Inflight *inflight) {
  g_mutex_lock(&inflight->lock);
  while (!inflight->flushing && (inflight->items.length > 0 || inflight->taken))
    wait_at(inflight, &inflight->idle, &inflight->waits_for_idle);
  gboolean drained = !inflight->flushing;
  g_mutex_unlock(&inflight->lock);
  return drained;
}

/* ---- the sink pad's thread ---- */

gboolean sluice_inflight_reserve(Inflight *inflight);
gboolean sluice_inflight_put(Inflight *inflight, guint64 number, gboolean ready);
void sluice_inflight_ready(Inflight *inflight, guint64 number);
void sluice_inflight_bind(Inflight *inflight, GstPad *pad);

/* Called with the lock held. */
static gboolean wait_for_room(Inflight *inflight) {
  while (!inflight->flushing && inflight->inside >= MAX(1, inflight->limit))
    wait_at(inflight, &inflight->room, &inflight->waits_for_room);
  if (inflight->flushing) return FALSE;
  inflight->inside++;
  return TRUE;
}

/* Waits for room for one more buffer of Python's and takes it; FALSE when flushing or stopped. */
gboolean sluice_inflight_reserve(Inflight *inflight) {
  g_mutex_lock(&inflight->lock);
  gboolean taken = wait_for_room(inflight);
  inflight->arrived += taken;
  g_mutex_unlock(&inflight->lock);
  return taken;
}

/* Puts an entry of Python's, which waits until it is `ready`; FALSE when flushing or stopped. */
gboolean sluice_inflight_put(Inflight *inflight, guint64 number, gboolean ready) {
  g_mutex_lock(&inflight->lock);
  gboolean accepted = !inflight->flushing;
  if (accepted) {
    Item *item = item_new(inflight, NULL);
    item->number = number;
    item->state = ready ? PUSH : WAITING;
    g_queue_push_tail(&inflight->items, item);
    g_cond_signal(&inflight->ready);
  }
  g_mutex_unlock(&inflight->lock);
  return accepted;
}

/* Lets an entry of Python's leave; without effect where it has left or was abandoned. */
void sluice_inflight_ready(Inflight *inflight, guint64 number) {
  g_mutex_lock(&inflight->lock);
  for (GList *link = inflight->items.head; link != NULL; link = link->next) {
    Item *item = link->data;
    if (item->buffer == NULL && item->number == number) item->state = PUSH;
  }
  g_cond_signal(&inflight->ready);
  g_mutex_unlock(&inflight->lock);
}

/* Puts a buffer and announces it; FALSE where no line is open, with nothing changed. */
static gboolean put_direct(Inflight *inflight, GstBuffer *buffer, GstFlowReturn *answer) {
  gboolean open = TRUE;
  *answer = GST_FLOW_OK;
  g_mutex_lock(&inflight->lock);
  if (inflight->flow != GST_FLOW_OK) {
    inflight->discarded++;
    *answer = inflight->flow;
  } else if (!wait_for_room(inflight)) {
    *answer = GST_FLOW_FLUSHING;
  } else {
    Item *item = item_new(inflight, buffer);
    item->references = 2;
    item->number = inflight->arrived;
    item->mark = inflight->mark;
    open = inflight->route != NULL && route_announce(inflight->route, item, inflight->owner);
    if (open) {
      inflight->arrived++;
      g_queue_push_tail(&inflight->items, item);
    } else {
      inflight->inside--;
      item->buffer = NULL;
      item->references = 1;
      item_unref(item);
    }
  }
  g_mutex_unlock(&inflight->lock);
  if (*answer != GST_FLOW_OK) gst_buffer_unref(buffer);
  return open;
}

static GstFlowReturn inflight_chain(GstPad *pad, GstObject *parent, GstBuffer *buffer) {
  Inflight *inflight = gst_pad_get_element_private(pad);
  GstFlowReturn answer;
  g_mutex_lock(&inflight->lock);
  gboolean direct = inflight->route != NULL;
  g_mutex_unlock(&inflight->lock);
  if (!direct || !gst_pad_has_current_caps(pad) || !put_direct(inflight, buffer, &answer))
    return inflight->slow(pad, parent, buffer);
  return answer;
}

/* Lets the buffers that arrive at a pad, whose chain function of Python's is set already, go past Python. */
void sluice_inflight_bind(Inflight *inflight, GstPad *pad) {
  g_atomic_int_inc(&inflight->references);
  g_object_set_data_full(G_OBJECT(pad), "sluice-inflight", inflight, (GDestroyNotify)sluice_inflight_unref);
  gst_pad_set_element_private(pad, inflight);
  inflight->slow = GST_PAD_CHAINFUNC(pad);
  GST_PAD_CHAINFUNC(pad) = inflight_chain; /* the setter would free what Python's function is called with */
}

/* ---- the thread that works on the buffers ---- */

gboolean sluice_item_finish(Item *item, GstBuffer *buffer, gint state, gboolean last);
gboolean sluice_item_wanted(Item *item);

/* Whether an item was not abandoned. */
gboolean sluice_item_wanted(Item *item) {
  g_mutex_lock(&item->inflight->lock);
  gboolean wanted = item->buffer != NULL;
  g_mutex_unlock(&item->inflight->lock);
  return wanted;
}

/* Takes a reference of an item's buffer, so that it stays even if it is abandoned, and says what is known of it. */
void item_claim(Item *item, Call *call) {
  Inflight *inflight = item->inflight;
  g_mutex_lock(&inflight->lock);
  call->number = item->number;
  call->mark = item->mark;
  if (item->buffer != NULL) call->buffer = GPOINTER_TO_SIZE(gst_buffer_ref(item->buffer));
  g_mutex_unlock(&inflight->lock);
}

/* Gives back the reference of a claim (NULL where there was nothing to claim) and that of the item, and says what becomes
 * of it. The last reference of a buffer, which may free metadata and thereby enter Python, is given up only where `last`
 * allows it; FALSE, with nothing done, where it is not. */
gboolean sluice_item_finish(Item *item, GstBuffer *buffer, gint state, gboolean last) {
  Inflight *inflight = item->inflight;
  g_mutex_lock(&inflight->lock);
  gboolean held = item->buffer != NULL;
  gboolean finishes = held || buffer == NULL || last, wakes = FALSE;
  if (finishes) {
    if (held && buffer != NULL) gst_buffer_unref(buffer);
    item->state = state;
    wakes = inflight->waits_for_ready > 0 && g_queue_peek_head(&inflight->items) == item;
  }
  g_mutex_unlock(&inflight->lock);
  if (!finishes) return FALSE;
  if (wakes) g_cond_signal(&inflight->ready);
  if (!held && buffer != NULL) gst_buffer_unref(buffer);
  item_unref(item);
  return TRUE;
}

/* ---- the source pad's thread ---- */

typedef enum { END, ENTRY, FAILURE } TakeKind;

gint sluice_inflight_take(Inflight *inflight, GstPad *pad, guint64 *number);

/* Takes the oldest item once it may leave, and says whether somebody waits for its room; NULL when stopped. Called and
 * left with the lock held. */
static Item *take_head(Inflight *inflight, gboolean *room) {
  *room = FALSE;
  const Item *head;
  inflight->taken = FALSE;
  if (inflight->waits_for_idle > 0) g_cond_broadcast(&inflight->idle);
  while (!inflight->stopped && ((head = g_queue_peek_head(&inflight->items)) == NULL || head->state == WAITING))
    wait_at(inflight, &inflight->ready, &inflight->waits_for_ready);
  if (inflight->stopped) return NULL;
  inflight->taken = TRUE;
  inflight->taker = g_thread_self();
  Item *item = g_queue_pop_head(&inflight->items);
  if (item->buffer != NULL) {
    inflight->inside--;
    *room = inflight->waits_for_room > 0;
  }
  return item;
}

/* Pushes buffers in their order until there is something for Python: an entry of its own, or an item that failed, whose
 * number it gets, or the end. What downstream returns is what the next chain calls return. */
gint sluice_inflight_take(Inflight *inflight, GstPad *pad, guint64 *number) {
  gint found = END;
  gboolean room;
  Item *item;
  g_mutex_lock(&inflight->lock);
  while (found == END && (item = take_head(inflight, &room)) != NULL) {
    GstBuffer *buffer = g_steal_pointer(&item->buffer);
    gboolean refused = inflight->flow != GST_FLOW_OK;
    gint state = item->state;
    *number = item->number;
    if (buffer == NULL) found = ENTRY;
    else if (refused) inflight->discarded++;
    else if (state == FAILED) found = FAILURE;
    g_mutex_unlock(&inflight->lock);
    if (room) g_cond_signal(&inflight->room); /* not with the lock, at which the woken thread would stop again */
    item_unref(item);
    gint flow = GST_FLOW_OK;
    gboolean pushed = buffer != NULL && !refused && state == PUSH;
    if (pushed) flow = gst_pad_push(pad, buffer);
    else if (buffer != NULL) gst_buffer_unref(buffer);
    g_mutex_lock(&inflight->lock);
    if (pushed) inflight->flow = flow;
  }
  g_mutex_unlock(&inflight->lock);
  return found;
}

/* Notes that a buffer of Python's has left the queue. */
void sluice_inflight_release(Inflight *inflight);

void sluice_inflight_release(Inflight *inflight) {
  g_mutex_lock(&inflight->lock);
  if (inflight->inside > 0) inflight->inside--;
  g_cond_signal(&inflight->room);
  g_mutex_unlock(&inflight->lock);
}
