/* Lines and routes: where a thread of Python waits for buffers and for notes of Python's own. See inflight.h. */
#include "inflight.h"

typedef struct {
  GList link;
  Call call;
} Queued;

struct Line {
  gint references;
  GMutex lock;
  GCond changed;
  GQueue queue;      /* of Queued */
  guint waiting;     /* threads at `changed` */
};

/* The line that is open at present for the elements that share a model; none while no model is loaded. */
struct Route {
  gint references;
  GMutex lock;
  Line *line;
};

/* ---- lines ---- */

Line *sluice_line_new(void);
void sluice_line_unref(Line *line);
void sluice_line_note(Line *line, guint64 note);
gint sluice_line_next(Line *line, gint64 timeout, Call *call);
guint sluice_line_length(Line *line);

Line *sluice_line_new(void) {
  Line *line = g_new0(Line, 1);
  line->references = 1;
  g_mutex_init(&line->lock);
  g_cond_init(&line->changed);
  return line;
}

static Line *line_ref(Line *line) {
  if (line != NULL) g_atomic_int_inc(&line->references);
  return line;
}

void sluice_line_unref(Line *line) {
  if (line == NULL || !g_atomic_int_dec_and_test(&line->references)) return;
  GList *link;
  while ((link = g_queue_pop_head_link(&line->queue)) != NULL) {
    Queued *queued = link->data;
    if (queued->call.kind == ITEM) item_unref(GSIZE_TO_POINTER(queued->call.value));
    g_free(queued);
  }
  g_mutex_clear(&line->lock);
  g_cond_clear(&line->changed);
  g_free(line);
}

static void line_put(Line *line, Call call) {
  Queued *queued = g_new0(Queued, 1);
  queued->call = call;
  queued->link.data = queued;
  g_mutex_lock(&line->lock);
  g_queue_push_tail_link(&line->queue, &queued->link);
  gboolean wakes = line->waiting > 0;
  g_mutex_unlock(&line->lock);
  if (wakes) g_cond_signal(&line->changed);
}

/* Puts a number of Python's at the end of the line. */
void sluice_line_note(Line *line, guint64 note) { line_put(line, (Call){.kind = NOTE, .value = note}); }

/* Takes what stands at the head of the line, an item with its buffer, after waiting `timeout` microseconds for it at most; -1: for ever, 0: not
 * at all. */
gint sluice_line_next(Line *line, gint64 timeout, Call *call) {
  gint64 end = timeout > 0 ? g_get_monotonic_time() + timeout : 0;
  gboolean waits = timeout != 0;
  *call = (Call){.kind = NOTHING};
  g_mutex_lock(&line->lock);
  line->waiting++;
  while (line->queue.length == 0 && waits) {
    if (timeout < 0) g_cond_wait(&line->changed, &line->lock);
    else waits = g_cond_wait_until(&line->changed, &line->lock, end);
  }
  line->waiting--;
  GList *link = g_queue_pop_head_link(&line->queue);
  g_mutex_unlock(&line->lock);
  if (link != NULL) {
    *call = ((Queued *)link->data)->call;
    g_free(link->data);
    if (call->kind == ITEM) item_claim(GSIZE_TO_POINTER(call->value), call);
  }
  return call->kind;
}

guint sluice_line_length(Line *line) {
  g_mutex_lock(&line->lock);
  guint length = line->queue.length;
  g_mutex_unlock(&line->lock);
  return length;
}

/* ---- routes ---- */

Route *sluice_route_new(void);
void sluice_route_set(Route *route, Line *line);

Route *sluice_route_new(void) {
  Route *route = g_new0(Route, 1);
  route->references = 1;
  g_mutex_init(&route->lock);
  return route;
}

Route *sluice_route_ref(Route *route) {
  if (route != NULL) g_atomic_int_inc(&route->references);
  return route;
}

void sluice_route_unref(Route *route) {
  if (route == NULL || !g_atomic_int_dec_and_test(&route->references)) return;
  sluice_line_unref(route->line);
  g_mutex_clear(&route->lock);
  g_free(route);
}

/* Opens another line, or NULL for none. Whatever was announced before stands in the old one. */
void sluice_route_set(Route *route, Line *line) {
  line_ref(line);
  g_mutex_lock(&route->lock);
  Line *old = route->line;
  route->line = line;
  g_mutex_unlock(&route->lock);
  sluice_line_unref(old);
}

/* Announces an item, whose reference goes to the line; FALSE, with the reference left, where none is open. */
gboolean route_announce(Route *route, Item *item, gint32 owner) {
  g_mutex_lock(&route->lock);
  gboolean open = route->line != NULL;
  if (open) line_put(route->line, (Call){.kind = ITEM, .owner = owner, .value = GPOINTER_TO_SIZE(item)});
  g_mutex_unlock(&route->lock);
  return open;
}
