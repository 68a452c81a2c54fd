/* Re-identification features as user metadata: NVIDIA's NvDsObjReid (nvds_tracker_meta.h), with features of its own. */
#include "nvds.h"

typedef struct
{
  guint32 featureSize;
  gfloat *ptr_host;
  gfloat *ptr_dev;
} NvDsObjReid;

G_STATIC_ASSERT (sizeof (NvDsObjReid) == 24);

/* Data for a user meta, with a copy of `size` features. */
SLUICE_EXPORT gpointer
sluice_reid_new (const gfloat *features, guint size)
{
  NvDsObjReid *reid = g_new0 (NvDsObjReid, 1);
  reid->featureSize = size;
  reid->ptr_host = g_memdup2 (features, size * sizeof *features);
  return reid;
}

/* The copy_func of the user meta: given the NvDsUserMeta, returns data for its copy. */
SLUICE_EXPORT gpointer
sluice_reid_copy (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  const NvDsObjReid *reid = ((NvDsUserMeta *) user_meta)->user_meta_data;
  return sluice_reid_new (reid->ptr_host, reid->featureSize);
}

/* The release_func of the user meta. */
SLUICE_EXPORT void
sluice_reid_release (gpointer user_meta, gpointer user_data G_GNUC_UNUSED)
{
  NvDsObjReid *reid = ((NvDsUserMeta *) user_meta)->user_meta_data;
  ((NvDsUserMeta *) user_meta)->user_meta_data = NULL;
  g_free (reid->ptr_host);
  g_free (reid);
}
