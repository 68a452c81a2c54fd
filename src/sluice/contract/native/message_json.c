/* The messages of Sluice's own schema for a whole batch in one call, as sluice/messages/schema/sluice.py makes them.
 *
 * Only frames whose message is made of the frame's and its objects' own fields are told here. One that carries user
 * metadata, or an object with results of classifiers, user metadata or a label that is not UTF-8, is left to Python.
 */
#include "capture.h"
#include "provider.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include <time.h>

#define UNTRACKED G_MAXUINT64
#define NO_TIME G_MAXUINT64
#define SECOND G_GUINT64_CONSTANT (1000000000)

/* What became of a frame; mirrored by messages/plain.py. */
enum
{
  FRAME_TOLD,
  FRAME_NOT_DUE,
  FRAME_EMPTY,
  FRAME_LEFT,
};

SLUICE_EXPORT gint64 sluice_attach_message (const SluiceProvider *provider, gpointer frame, gconstpointer bytes,
    guint size, guint component_id, gboolean wait);

/* 10^n is exact in a double up to here, so that one multiplication or division is rounded once. */
#define MOST_EXACT 22
static const gdouble powers[MOST_EXACT + 1] = { 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12,
  1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22
};

/* A decimal number: digits * 10^exponent. */
typedef struct
{
  guint64 digits;
  gint exponent;
} Decimal;

/* Round a positive number to `count` digits and tell whether that reads back as the same 32-bit float. */
static gboolean
round_to (gfloat value, gint magnitude, gint count, Decimal *found)
{
  gint shift = count - 1 - magnitude;
  found->exponent = -shift;
  if (ABS (shift) <= MOST_EXACT) {
    gdouble scaled = shift >= 0 ? value * powers[shift] : value / powers[-shift];
    found->digits = (guint64) llrint (scaled);
    gdouble back = shift >= 0 ? found->digits / powers[shift] : found->digits * powers[-shift];
    return (gfloat) back == value;
  }
  gchar text[32], format[8];
  g_snprintf (format, sizeof format, "%%.%de", count - 1);
  g_ascii_formatd (text, sizeof text, format, value);
  gchar *e = strchr (text, 'e');
  found->exponent = (gint) g_ascii_strtoll (e + 1, NULL, 10) - (count - 1);
  found->digits = 0;
  for (gchar *c = text; c < e; c++)
    if (g_ascii_isdigit (*c))
      found->digits = found->digits * 10 + (guint64) (*c - '0');
  return (gfloat) g_ascii_strtod (text, NULL) == value;
}

/* The shortest decimal that reads back as the same 32-bit float, of a positive finite number; of some powers of two,
 * whose neighbours below are nearer than those above, one digit longer. */
static Decimal
shortest (gfloat value)
{
  Decimal found = { 0, 0 };
  gint magnitude = (gint) floor (log10 (value));
  /* 6 digits always fit into a normal float, 9 always tell it. */
  for (gint count = value < FLT_MIN ? 1 : 6; count <= 9 && !round_to (value, magnitude, count, &found); count++) {
  }
  while (found.digits != 0 && found.digits % 10 == 0) {
    found.digits /= 10;
    found.exponent++;
  }
  return found;
}

/* A number as Python writes a float; null where JSON has none. */
static void
put_number (GString *out, gfloat value)
{
  if (!isfinite (value)) {
    g_string_append (out, "null");
    return;
  }
  if (signbit (value))
    g_string_append_c (out, '-');
  if (value == 0) {
    g_string_append (out, "0.0");
    return;
  }
  Decimal number = shortest (fabsf (value));
  gchar digits[24];
  gint count = g_snprintf (digits, sizeof digits, "%" G_GUINT64_FORMAT, number.digits);
  gint point = count + number.exponent;
  if (point <= -4 || point > 16) {
    g_string_append_c (out, digits[0]);
    if (count > 1) {
      g_string_append_c (out, '.');
      g_string_append_len (out, digits + 1, count - 1);
    }
    g_string_append_printf (out, "e%c%02d", point > 0 ? '+' : '-', ABS (point - 1));
  } else if (point <= 0) {
    g_string_append_printf (out, "0.%.*s%s", -point, "0000", digits);
  } else if (point < count) {
    g_string_append_len (out, digits, point);
    g_string_append_c (out, '.');
    g_string_append_len (out, digits + point, count - point);
  } else {
    g_string_append_len (out, digits, count);
    g_string_append_printf (out, "%.*s.0", point - count, "0000000000000000");
  }
}

/* A text as Python's json writes it with ensure_ascii=False. */
static void
put_text (GString *out, const gchar *text)
{
  static const gchar *const shorts = "\"\\\n\r\t\f\b", *const letters = "\"\\nrtfb";
  g_string_append_c (out, '"');
  for (const gchar *c = text; *c != '\0'; c++) {
    const gchar *found = strchr (shorts, *c);
    if (found != NULL) {
      g_string_append_c (out, '\\');
      g_string_append_c (out, letters[found - shorts]);
    } else if ((guchar) * c < 0x20) {
      g_string_append_printf (out, "\\u%04x", (guint) * c);
    } else {
      g_string_append_c (out, *c);
    }
  }
  g_string_append_c (out, '"');
}

static void
put_unsigned (GString *out, const gchar *name, guint64 value)
{
  gchar text[24];
  g_snprintf (text, sizeof text, "%" G_GUINT64_FORMAT, value);
  g_string_append (out, name);
  g_string_append (out, text);
}

static void
put_signed (GString *out, const gchar *name, gint value)
{
  gchar text[16];
  g_snprintf (text, sizeof text, "%d", value);
  g_string_append (out, name);
  g_string_append (out, text);
}

/* Nanoseconds since 1970 as RFC 3339 in UTC with milliseconds. */
static void
put_utc (GString *out, guint64 ntp)
{
  time_t seconds = (time_t) (ntp / SECOND);
  struct tm moment;
  gmtime_r (&seconds, &moment);
  g_string_append_printf (out, ",\"utc\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ\"", moment.tm_year + 1900,
      moment.tm_mon + 1, moment.tm_mday, moment.tm_hour, moment.tm_min, moment.tm_sec,
      (gint) (ntp % SECOND / 1000000));
}

/* Where the time comes from, where the frame says so. */
static void
put_capture (const SluiceProvider *provider, gpointer frame, GString *out)
{
  for (GList *link = FIELD (provider, frame, FRAME_USERS, GList *); link != NULL; link = link->next) {
    const gchar *told = sluice_capture_told (provider, link->data);
    if (told != NULL)
      g_string_append_printf (out, ",\"utc_from\":\"%s\"", told);
  }
}

static void
put_head (const SluiceProvider *provider, gpointer frame, const guint32 *size, GString *out)
{
  guint64 pts = FIELD (provider, frame, FRAME_PTS, guint64), ntp = FIELD (provider, frame, FRAME_NTP, guint64);
  guint source_width = FIELD (provider, frame, FRAME_SOURCE_WIDTH, guint);
  guint source_height = FIELD (provider, frame, FRAME_SOURCE_HEIGHT, guint);
  put_unsigned (out, "{\"version\":\"sluice/1\",\"stream\":", FIELD (provider, frame, FRAME_PAD, guint));
  put_signed (out, ",\"frame\":", FIELD (provider, frame, FRAME_NUMBER, gint));
  if (pts == NO_TIME)
    g_string_append (out, ",\"pts\":null");
  else
    put_unsigned (out, ",\"pts\":", pts);
  if (ntp != 0 && ntp != NO_TIME) {
    put_utc (out, ntp);
    put_capture (provider, frame, out);
  }
  if (size[0] != 0 && size[1] != 0) {
    put_unsigned (out, ",\"width\":", size[0]);
    put_unsigned (out, ",\"height\":", size[1]);
  }
  if (source_width != 0 && source_height != 0) {
    put_unsigned (out, ",\"source_width\":", source_width);
    put_unsigned (out, ",\"source_height\":", source_height);
  }
  g_string_append (out, FIELD (provider, frame, FRAME_INFER_DONE, gint) ? ",\"inferred\":true" : ",\"inferred\":false");
}

/* The place of an object among those of its frame, in the order in which they were added; -1: it is not there. */
static gint
place_of (GList *last, gpointer object)
{
  gint place = 0;
  for (GList *link = last; link != NULL; link = link->prev, place++) {
    if (link->data == object)
      return place;
  }
  return -1;
}

static void
put_object (const SluiceProvider *provider, gpointer object, GList *last, GString *out)
{
  guint64 id = FIELD (provider, object, OBJECT_ID, guint64);
  gfloat confidence = FIELD (provider, object, OBJECT_CONFIDENCE, gfloat);
  gfloat angle = FIELD (provider, object, RECT_ROTATION, gfloat);
  gpointer parent = FIELD (provider, object, OBJECT_PARENT, gpointer);
  const gfloat *box = &FIELD (provider, object, RECT_BOX, gfloat);
  gboolean predicted = confidence < 0;
  g_string_append_c (out, '{');
  if (id != UNTRACKED) {
    put_unsigned (out, "\"id\":", id);
    g_string_append_c (out, ',');
  }
  g_string_append (out, "\"label\":");
  put_text (out, &FIELD (provider, object, OBJECT_LABEL, gchar));
  put_signed (out, ",\"class_id\":", FIELD (provider, object, OBJECT_CLASS, gint));
  if (!predicted) {
    g_string_append (out, ",\"confidence\":");
    put_number (out, confidence);
  }
  put_signed (out, ",\"component\":", FIELD (provider, object, OBJECT_COMPONENT, gint));
  for (guint i = 0; i < 4; i++) {
    g_string_append (out, i == 0 ? ",\"box\":[" : ",");
    put_number (out, box[i]);
  }
  g_string_append_c (out, ']');
  if (angle != 0) {
    g_string_append (out, ",\"angle\":");
    put_number (out, angle);
  }
  if (predicted)
    g_string_append (out, ",\"predicted\":true");
  if (parent != NULL) {
    gint place = place_of (last, parent);
    if (place >= 0)
      put_signed (out, ",\"parent\":", place);
  }
  g_string_append_c (out, '}');
}

/* Whether a frame's message is made of its own fields, its surface's size and its objects' own fields alone. */
static gboolean
is_plain (const SluiceProvider *provider, gpointer frame, guint surfaces)
{
  if (FIELD (provider, frame, FRAME_BATCH_ID, guint) >= surfaces)
    return FALSE;
  for (GList *link = FIELD (provider, frame, FRAME_USERS, GList *); link != NULL; link = link->next) {
    if (sluice_capture_told (provider, link->data) == NULL)
      return FALSE;
  }
  for (GList *link = FIELD (provider, frame, FRAME_OBJECTS, GList *); link != NULL; link = link->next) {
    const gchar *label = &FIELD (provider, link->data, OBJECT_LABEL, gchar);
    if (FIELD (provider, link->data, OBJECT_CLASSIFIERS, GList *) != NULL
        || FIELD (provider, link->data, OBJECT_USERS, GList *) != NULL
        || memchr (label, '\0', NVDS_MAX_LABEL_SIZE) == NULL || !g_utf8_validate (label, -1, NULL))
      return FALSE;
  }
  return TRUE;
}

/* What is told of streams besides their frames: for each its number, and members of its messages as JSON that begins
 * with a comma. */
typedef struct
{
  guint count;
  const guint32 *streams;
  const gchar *const *members;
} StreamMembers;

static void
put_members (const StreamMembers *told, guint stream, GString *out)
{
  for (guint i = 0; i < told->count; i++) {
    if (told->streams[i] == stream) {
      g_string_append (out, told->members[i]);
      return;
    }
  }
}

/* Make the message of a frame in `out` and attach it. */
static void
tell (const SluiceProvider *provider, gpointer frame, const guint32 *size, const StreamMembers *members,
    guint component_id, GString *out)
{
  GList *objects = FIELD (provider, frame, FRAME_OBJECTS, GList *), *last = g_list_last (objects);
  g_string_truncate (out, 0);
  put_head (provider, frame, size, out);
  put_members (members, FIELD (provider, frame, FRAME_PAD, guint), out);
  g_string_append (out, ",\"objects\":[");
  /* Objects are added at the front of the list: backwards is the order in which the detector wrote them. */
  for (GList *link = last; link != NULL; link = link->prev) {
    if (link != last)
      g_string_append_c (out, ',');
    put_object (provider, link->data, last, out);
  }
  g_string_append (out, "]}");
  sluice_attach_message (provider, frame, out->str, (guint) out->len, component_id, TRUE);
}

/* Attach a message to every frame of a batch that is due and can be told here.
 *
 * Args:
 *   sizes: width and height of each surface, [surfaces, 2]; 0 where it is not known.
 *   frame_interval: frames whose number is a multiple of it are due.
 *   empty_frames: whether frames without objects have a message.
 *   streams, members, told: of `told` streams the number, and members of their messages as JSON after a comma.
 *   results: for each frame in list order what became of it, of at most `room`.
 *
 * Returns the number of frames, of which no more than `room` were looked at. */
SLUICE_EXPORT gint64
sluice_attach_plain_messages (const SluiceProvider *provider, gpointer batch, const guint32 *sizes, guint surfaces,
    guint frame_interval, guint empty_frames, const guint32 *streams, const gchar *const *members, guint told,
    guint component_id, guint8 *results, guint room, gboolean wait)
{
  const StreamMembers stream_members = { told, streams, members };
  if (!sluice_enter (provider, batch, wait))
    return SLUICE_BUSY;
  GString *out = g_string_sized_new (4096);
  guint count = 0;
  for (GList *link = FIELD (provider, batch, BATCH_FRAME_LIST, GList *); link != NULL; link = link->next, count++) {
    gpointer frame = link->data;
    if (count >= room)
      continue;
    if (FIELD (provider, frame, FRAME_NUMBER, gint) % (gint) frame_interval != 0)
      results[count] = FRAME_NOT_DUE;
    else if (!is_plain (provider, frame, surfaces))
      results[count] = FRAME_LEFT;
    else if (FIELD (provider, frame, FRAME_OBJECTS, GList *) == NULL && !empty_frames)
      results[count] = FRAME_EMPTY;
    else {
      tell (provider, frame, sizes + 2 * FIELD (provider, frame, FRAME_BATCH_ID, guint), &stream_members,
          component_id, out);
      results[count] = FRAME_TOLD;
    }
  }
  g_string_free (out, TRUE);
  provider->unlock (batch);
  return count;
}
