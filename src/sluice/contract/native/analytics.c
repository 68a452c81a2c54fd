/* What analytics found, as user metadata: NVIDIA's NvDsAnalyticsFrameMeta and NvDsAnalyticsObjInfo.
 *
 * Both hold containers of the GNU C++ library, whose layout its ABI fixes
 * (https://gcc.gnu.org/onlinedocs/libstdc++/manual/abi.html, _GLIBCXX_USE_CXX11_ABI=1); they are laid out here in C, so
 * that no C++ compiler is needed. Readers in C++ may iterate, look up, copy and extend them: memory comes from malloc,
 * as operator new's does. Copy and release are C, since batches are copied and freed on threads that must not need
 * the GIL.
 */
#include <stdlib.h>
#include <string.h>

#include "nvds.h"

/* ---- std::string ---- */

typedef struct
{
  gchar *data;                  /* `local`, or a block of its own */
  gsize size;
  union
  {
    gchar local[16];
    gsize capacity;
  } rest;
} CxxString;

G_STATIC_ASSERT (sizeof (CxxString) == 32);

static gpointer
zeroed (gsize size)
{
  gpointer block = calloc (1, size);
  if (block == NULL)
    g_error ("sluice: no memory for %" G_GSIZE_FORMAT " bytes of analytics metadata", size);
  return block;
}

static void
string_init (CxxString *string, const gchar *text, gsize size)
{
  string->size = size;
  string->data = string->rest.local;
  if (size >= sizeof string->rest.local) {
    string->data = zeroed (size + 1);
    string->rest.capacity = size;
  }
  memcpy (string->data, text, size);
  string->data[size] = '\0';
}

static void
string_clear (CxxString *string)
{
  if (string->data != string->rest.local)
    free (string->data);
}

/* ---- std::vector<std::string> ---- */

typedef struct
{
  CxxString *begin, *end, *limit;
} CxxVector;

static void
vector_reserve (CxxVector *vector, gsize count)
{
  vector->begin = vector->end = vector->limit = count > 0 ? zeroed (count * sizeof (CxxString)) : NULL;
  vector->limit += count;
}

static void
vector_copy (CxxVector *copy, const CxxVector *from)
{
  vector_reserve (copy, from->end - from->begin);
  for (const CxxString *string = from->begin; string != from->end; string++)
    string_init (copy->end++, string->data, string->size);
}

static void
vector_clear (CxxVector *vector)
{
  for (CxxString *string = vector->begin; string != vector->end; string++)
    string_clear (string);
  free (vector->begin);
}

/* ---- std::unordered_map ---- */

typedef struct CxxLink CxxLink;
struct CxxLink
{
  CxxLink *next;
};

/* With one bucket, which is a member of the map, every key is in it, and a look-up compares with each. */
typedef struct
{
  CxxLink **buckets;
  gsize bucket_count;
  CxxLink before;
  gsize count;
  gfloat max_load;
  gsize next_resize;
  CxxLink *single_bucket;
} CxxMap;

G_STATIC_ASSERT (sizeof (CxxMap) == 56);

typedef struct
{
  CxxLink link;
  CxxString key;
  guint64 value;                /* a bool, an unsigned int or a uint64_t: little-endian, so one member is all three */
  gsize hash;
} TextNode;

typedef struct
{
  CxxLink link;
  gint32 key;
  guint32 value;
} NumberNode;

static void
map_init (CxxMap *map)
{
  map->buckets = &map->single_bucket;
  map->bucket_count = 1;
  map->max_load = 1.0f;
}

static void
map_append (CxxMap *map, CxxLink **last, CxxLink *node)
{
  (*last)->next = node;
  *last = node;
  map->single_bucket = &map->before;
  map->count++;
}

static guint64
shift_mix (guint64 value)
{
  return value ^ (value >> 47);
}

/* std::hash<std::string>, which nodes keep: MurmurHash64A of Austin Appleby (public domain) with the seed that
 * libstdc++ gives it (hash_bytes.cc, functional_hash.h). */
static gsize
text_hash (const gchar *text, gsize size)
{
  const guint64 mul = (G_GUINT64_CONSTANT (0xc6a4a793) << 32) + 0x5bd1e995;
  guint64 hash = G_GUINT64_CONSTANT (0xc70f6907) ^ (size * mul);
  gsize whole = size & ~(gsize) 7;
  for (gsize i = 0; i < whole; i += 8) {
    guint64 data;
    memcpy (&data, text + i, 8);
    hash = (hash ^ (shift_mix (data * mul) * mul)) * mul;
  }
  if (size > whole) {
    guint64 data = 0;
    memcpy (&data, text + whole, size - whole);
    hash = (hash ^ data) * mul;
  }
  return shift_mix (shift_mix (hash) * mul);
}

static CxxLink *
text_node (const gchar *key, gsize size, guint64 value)
{
  TextNode *node = zeroed (sizeof *node);
  string_init (&node->key, key, size);
  node->value = value;
  node->hash = text_hash (key, size);
  return &node->link;
}

static CxxLink *
number_node (gint32 key, guint32 value)
{
  NumberNode *node = zeroed (sizeof *node);
  node->key = key;
  node->value = value;
  return &node->link;
}

static void
text_map_copy (CxxMap *copy, const CxxMap *from)
{
  CxxLink *last = &copy->before;
  map_init (copy);
  for (const CxxLink *link = from->before.next; link != NULL; link = link->next) {
    const TextNode *node = (const TextNode *) link;
    map_append (copy, &last, text_node (node->key.data, node->key.size, node->value));
  }
}

static void
number_map_copy (CxxMap *copy, const CxxMap *from)
{
  CxxLink *last = &copy->before;
  map_init (copy);
  for (const CxxLink *link = from->before.next; link != NULL; link = link->next)
    map_append (copy, &last, number_node (((const NumberNode *) link)->key, ((const NumberNode *) link)->value));
}

static void
map_clear (CxxMap *map, gboolean texts)
{
  for (CxxLink *link = map->before.next, *next; link != NULL; link = next) {
    next = link->next;
    if (texts)
      string_clear (&((TextNode *) link)->key);
    free (link);
  }
  /* A reader that added entries gave the map more buckets. */
  if (map->buckets != &map->single_bucket)
    free (map->buckets);
}

/* ---- the two structs ---- */

#define FRAME_MAPS 4

typedef struct
{
  CxxMap text_maps[FRAME_MAPS]; /* ocStatus, objInROIcnt, objLCCurrCnt, objLCCumCnt */
  guint unique_id;
  CxxMap objCnt;
} NvDsAnalyticsFrameMeta;

#define OBJECT_LISTS 3

typedef struct
{
  CxxVector lists[OBJECT_LISTS];        /* roiStatus, ocStatus, lcStatus */
  CxxString dirStatus;
  guint unique_id;
  CxxString objStatus;
} NvDsAnalyticsObjInfo;

G_STATIC_ASSERT (sizeof (NvDsAnalyticsFrameMeta) == 288);
G_STATIC_ASSERT (sizeof (NvDsAnalyticsObjInfo) == 144);

/* An entry of a frame's maps; mirrored by contract/analytics_meta.py. */
typedef struct
{
  const gchar *key;
  guint64 value;
} SluiceNamed;

/* Data for a frame's user meta. `counts` has the number of entries of each of the four maps, which follow each other in
 * `entries`; `classes` has pairs of class id and number of objects. */
SLUICE_EXPORT gpointer
sluice_analytics_frame_new (const SluiceNamed *entries, const guint *counts, const gint32 *classes, guint class_count,
    guint unique_id)
{
  NvDsAnalyticsFrameMeta *frame = zeroed (sizeof *frame);
  frame->unique_id = unique_id;
  for (guint i = 0; i < FRAME_MAPS; i++) {
    CxxLink *last = &frame->text_maps[i].before;
    map_init (&frame->text_maps[i]);
    for (guint j = 0; j < counts[i]; j++, entries++)
      map_append (&frame->text_maps[i], &last, text_node (entries->key, strlen (entries->key), entries->value));
  }
  CxxLink *last = &frame->objCnt.before;
  map_init (&frame->objCnt);
  for (guint i = 0; i < class_count; i++)
    map_append (&frame->objCnt, &last, number_node (classes[2 * i], (guint32) classes[2 * i + 1]));
  return frame;
}

SLUICE_EXPORT gpointer
sluice_analytics_frame_copy (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  const NvDsAnalyticsFrameMeta *from = ((NvDsUserMeta *) user_meta)->user_meta_data;
  NvDsAnalyticsFrameMeta *copy = zeroed (sizeof *copy);
  for (guint i = 0; i < FRAME_MAPS; i++)
    text_map_copy (&copy->text_maps[i], &from->text_maps[i]);
  copy->unique_id = from->unique_id;
  number_map_copy (&copy->objCnt, &from->objCnt);
  return copy;
}

SLUICE_EXPORT void
sluice_analytics_frame_release (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  NvDsAnalyticsFrameMeta *frame = ((NvDsUserMeta *) user_meta)->user_meta_data;
  ((NvDsUserMeta *) user_meta)->user_meta_data = NULL;
  for (guint i = 0; i < FRAME_MAPS; i++)
    map_clear (&frame->text_maps[i], TRUE);
  map_clear (&frame->objCnt, FALSE);
  free (frame);
}

/* Data for an object's user meta. `counts` has the number of texts of each of the three lists, which follow each other
 * in `texts`. */
SLUICE_EXPORT gpointer
sluice_analytics_object_new (const gchar *const *texts, const guint *counts, const gchar *direction,
    const gchar *status, guint unique_id)
{
  NvDsAnalyticsObjInfo *object = zeroed (sizeof *object);
  object->unique_id = unique_id;
  for (guint i = 0; i < OBJECT_LISTS; i++) {
    vector_reserve (&object->lists[i], counts[i]);
    for (guint j = 0; j < counts[i]; j++, texts++)
      string_init (object->lists[i].end++, *texts, strlen (*texts));
  }
  string_init (&object->dirStatus, direction, strlen (direction));
  string_init (&object->objStatus, status, strlen (status));
  return object;
}

SLUICE_EXPORT gpointer
sluice_analytics_object_copy (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  const NvDsAnalyticsObjInfo *from = ((NvDsUserMeta *) user_meta)->user_meta_data;
  NvDsAnalyticsObjInfo *copy = zeroed (sizeof *copy);
  for (guint i = 0; i < OBJECT_LISTS; i++)
    vector_copy (&copy->lists[i], &from->lists[i]);
  string_init (&copy->dirStatus, from->dirStatus.data, from->dirStatus.size);
  copy->unique_id = from->unique_id;
  string_init (&copy->objStatus, from->objStatus.data, from->objStatus.size);
  return copy;
}

SLUICE_EXPORT void
sluice_analytics_object_release (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  NvDsAnalyticsObjInfo *object = ((NvDsUserMeta *) user_meta)->user_meta_data;
  ((NvDsUserMeta *) user_meta)->user_meta_data = NULL;
  for (guint i = 0; i < OBJECT_LISTS; i++)
    vector_clear (&object->lists[i]);
  string_clear (&object->dirStatus);
  string_clear (&object->objStatus);
  free (object);
}
