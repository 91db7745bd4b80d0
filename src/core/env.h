/* env.h -- the one table of environment variables (at most 12), and the only place that reads
 * them. `shingle info --env` prints the table; a SHINGLE_ variable that is not in it is
 * warned about once, when the log opens.  Knobs of strategies are never variables:
 * SHINGLE_STRATEGY takes them all. */
#ifndef SG_ENV_H
#define SG_ENV_H

#include "core/base.h"

/* Value of a variable of the table, its default if unset or empty.  Never NULL. */
const char *sg_env(const char *name);

/* The same as a number of LOW to HIGH; anything else is SHINGLE_EINVAL and named.  A variable
 * without a value (unset, and "" is its default) gives FALLBACK. */
shingle_status sg_env_number(const char *name, double low, double high, double fallback,
                             double *value_out);

/* The same as a whole number, of digits alone as in machine files. */
shingle_status sg_env_count(const char *name, int low, int high, int fallback, int *value_out);

/* The INDEX-th SHINGLE_ variable that is set but not in the table, as a sentence that names the
 * nearest one that is.  False past the end. */
bool sg_env_unknown(int index, char *text, size_t room);

#endif
