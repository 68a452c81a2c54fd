/* Pairs of boxes: which overlap, and which are part of every best assignment. Arrays belong to the caller.
 *
 * Boxes are x1, y1, x2, y2. The arithmetic is that of double precision throughout, each operation rounded by itself.
 */
#include "nvds.h"

#include <string.h>

/* As numpy's: what is not a number stays one. */
static inline gdouble
smaller (gdouble x, gdouble y)
{
  return x < y || x != x ? x : y;
}

static inline gdouble
larger (gdouble x, gdouble y)
{
  return x > y || x != x ? x : y;
}

static inline gdouble
area (const gdouble *box)
{
  return (box[2] - box[0]) * (box[3] - box[1]);
}

/* Whether two boxes have an area in common, and its share of what they cover together. */
static inline gboolean
overlap (const gdouble *a, const gdouble *b, gfloat *value)
{
  gdouble width = smaller (a[2], b[2]) - larger (a[0], b[0]);
  if (!(width > 0))
    return FALSE;
  gdouble height = smaller (a[3], b[3]) - larger (a[1], b[1]);
  if (!(height > 0))
    return FALSE;
  gdouble shared = width * height;
  *value = (gfloat) (shared / (area (a) + area (b) - shared));
  return TRUE;
}

/* Of `count` pairs of boxes those that overlap: their places among the pairs, and how much. Returns how many. */
SLUICE_EXPORT gint64
sluice_overlapping (const gdouble *a, const gdouble *b, const gint64 *rows, const gint64 *columns, gint64 count,
    gint64 *places, gfloat *values)
{
  gint64 found = 0;
  for (gint64 i = 0; i < count; i++) {
    if (overlap (a + 4 * rows[i], b + 4 * columns[i], &values[found]))
      places[found++] = i;
  }
  return found;
}

/* The pairs of boxes of the same group that overlap, in the order of a, then of b. Groups count from 0 to below
 * `n_groups`. Returns how many there are; those beyond `room` are not written. */
SLUICE_EXPORT gint64
sluice_overlaps (const gdouble *a, const gint32 *a_groups, gint64 n_a, const gdouble *b, const gint32 *b_groups,
    gint64 n_b, gint64 n_groups, gint64 *rows, gint64 *columns, gfloat *values, gint64 room)
{
  gint64 *ends = g_new0 (gint64, n_groups + 1), *members = g_new (gint64, n_b + 1), found = 0;
  for (gint64 j = 0; j < n_b; j++)
    ends[b_groups[j] + 1]++;
  for (gint64 group = 0; group < n_groups; group++)
    ends[group + 1] += ends[group];
  for (gint64 j = 0; j < n_b; j++)
    members[ends[b_groups[j]]++] = j;   /* the begin of a group moves to its end, which is the next one's begin */
  for (gint64 i = 0; i < n_a; i++) {
    gint64 group = a_groups[i];
    for (gint64 k = group > 0 ? ends[group - 1] : 0; k < ends[group]; k++) {
      gfloat value;
      if (!overlap (a + 4 * i, b + 4 * members[k], &value))
        continue;
      if (found < room) {
        rows[found] = i;
        columns[found] = members[k];
        values[found] = value;
      }
      found++;
    }
  }
  g_free (ends);
  g_free (members);
  return found;
}

/* The first node of the part that a node is known to be in; walked nodes are brought nearer to it. */
static gint64
first_of (gint64 *parents, gint64 node)
{
  while (parents[node] != node)
    node = parents[node] = parents[parents[node]];
  return node;
}

/* The parts of a graph of `size` nodes that hang together: the number of each node's part, in the order of the parts'
 * first nodes. Returns how many there are. */
SLUICE_EXPORT gint64
sluice_connected_components (const gint64 *a, const gint64 *b, gint64 n_edges, gint64 size, gint64 *parts)
{
  gint64 count = 0;
  for (gint64 node = 0; node < size; node++)
    parts[node] = node;
  for (gint64 i = 0; i < n_edges; i++) {
    gint64 one = first_of (parts, a[i]), other = first_of (parts, b[i]);
    parts[MAX (one, other)] = MIN (one, other);
  }
  /* A parent comes before its child, and has its part's number by then. */
  for (gint64 node = 0; node < size; node++)
    parts[node] = parts[node] == node ? count++ : parts[parts[node]];
  return count;
}

/* What is known of a row or a column: the greatest value of its pairs, how many have it, and the next; 0 for none. */
typedef struct
{
  gdouble best, next;
  guint count;
  gboolean taken;
} Side;

static inline void
note_other (Side *side, gdouble value)
{
  if (value == side->best)
    side->count++;
  else if (value > side->next)
    side->next = value;
}

static inline gdouble
next_best (const Side *side)
{
  return side->count > 1 ? side->best : side->next;
}

/* Take, round by round, the pairs that are worth more than the best others of their row and of their column together,
 * and leave out those whose row or column is taken. `order` becomes the numbers of the pairs that are taken, those of
 * a round behind those of the round before, and `left` those of the pairs that stay open. Returns how many are taken. */
SLUICE_EXPORT gint64
sluice_settle (const gint64 *rows, const gint64 *columns, const gdouble *values, gint64 count, gint64 n_rows,
    gint64 n_columns, gint64 rounds, gint64 *order, gint64 *left, gint64 *n_left)
{
  Side *row_sides = g_new0 (Side, n_rows + 1), *column_sides = g_new0 (Side, n_columns + 1);
  gint64 taken = 0, before = -1, open = count;
  for (gint64 i = 0; i < count; i++)
    left[i] = i;
  for (gint64 round = 0; round < rounds && open > 0 && taken != before; round++) {
    before = taken;
    memset (row_sides, 0, sizeof (Side) * n_rows);
    memset (column_sides, 0, sizeof (Side) * n_columns);
    for (gint64 i = 0; i < open; i++) {
      Side *row = &row_sides[rows[left[i]]], *column = &column_sides[columns[left[i]]];
      row->best = MAX (row->best, values[left[i]]);
      column->best = MAX (column->best, values[left[i]]);
    }
    for (gint64 i = 0; i < open; i++) {
      note_other (&row_sides[rows[left[i]]], values[left[i]]);
      note_other (&column_sides[columns[left[i]]], values[left[i]]);
    }
    for (gint64 i = 0; i < open; i++) {
      gdouble value = values[left[i]];
      Side *row = &row_sides[rows[left[i]]], *column = &column_sides[columns[left[i]]];
      if (value == row->best && value == column->best && value > next_best (row) + next_best (column)) {
        row->taken = column->taken = TRUE;
        order[taken++] = left[i];
      }
    }
    gint64 still = 0;
    for (gint64 i = 0; i < open; i++) {
      if (!row_sides[rows[left[i]]].taken && !column_sides[columns[left[i]]].taken)
        left[still++] = left[i];
    }
    open = still;
  }
  g_free (row_sides);
  g_free (column_sides);
  *n_left = open;
  return taken;
}
