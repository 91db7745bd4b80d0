/* effort.h -- how much is tried before a plan is chosen, as a user's options say. */
#ifndef SG_EFFORT_H
#define SG_EFFORT_H

#include "core/base.h"

enum { SG_EFFORT_SECONDS = 3600 }; /* the most that may be asked for */

typedef struct sg_effort {
    enum { SG_BY_PREDICTION, SG_BY_RULE, SG_BY_TIMING } by;
    int plans; /* that are timed beside the serial one */
    double seconds;
} sg_effort;

/* OPTIONS with their defaults filled in; SHINGLE_EINVAL if they are not right. */
shingle_status sg_effort_read(const shingle_plan_options *options, sg_effort *effort_out);

/* Whether OPTIONS ask for plans to be timed; SHINGLE_EINVAL if they are not right. */
shingle_status sg_effort_measures(const shingle_plan_options *options, bool *measures_out);

#endif
