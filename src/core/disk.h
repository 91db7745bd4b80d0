/* disk.h -- whole files: read, and replaced so that they are complete or as they were. */
#ifndef SG_DISK_H
#define SG_DISK_H

#include "core/base.h"

/* Reads a whole file of at most LIMIT bytes into *DATA_OUT (malloc, zero-terminated). */
shingle_status sg_disk_read(const char *path, int64_t limit, char **data_out, size_t *bytes_out);

/* Makes BYTES of DATA the contents of the file that PATH leads to.  A new file beside
 * it takes its name, once all is on the disk, and its mode; links stay links, and pipes
 * and devices are written into.  A file that its owner has made read-only is not replaced. */
shingle_status sg_disk_replace(const char *path, const char *data, size_t bytes);

/* Says so before: SHINGLE_EIO if a file is there and may not be replaced. */
shingle_status sg_disk_check(const char *path);

/* Makes an empty file where PATH leads to, if PATH is a link and there is none: only then has the
 * file a path of its own. */
shingle_status sg_disk_make_target(const char *path);

#endif
