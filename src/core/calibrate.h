/* calibrate.h -- measures the machine that a group runs on and writes what comes of it as a machine
 * file, every number with how it was found.
 *
 * Hand-picked plans of a few problems are timed in turns.  Bandwidths of collectives are read off
 * directly; all other numbers are fitted (fit.h): where several costs overlap, no single run shows
 * one of them alone. */
#ifndef SG_CALIBRATE_H
#define SG_CALIBRATE_H

#include "core/fit.h"
#include "core/plan.h"

/* Who times.  A plan that it cannot run is SHINGLE_EUNSUPPORTED or SHINGLE_ENOMEM and left out.
 * So is one that fails otherwise, and the file says what it was; several of them end the
 * calibration. */
typedef struct sg_calibrate_watch {
    /* Runs PLAN and stores the slowest rank's time: of its collectives
     * alone (COLLS), or of all of it. */
    shingle_status (*time)(void *context, const shingle_plan *plan, bool colls, double *us_out);
    double (*now_us)(void *context);
    void (*progress)(void *context, int done, int count); /* may be NULL */
    /* Told of every plan's median, as time() understands COLLS; may be NULL. */
    void (*measured)(void *context, const shingle_plan *plan, bool colls, double us);
    bool windows;     /* collectives in windows are timed, too, and kept where they are faster */
    const char *held; /* numbers that are left as they are, with commas between; may be NULL */
    void *context;
} sg_calibrate_watch;

enum { SG_CALIBRATE_TEXT = 16384 };

/* What to begin with is MACHINE; RANKS and SECONDS are the group's and the limit's.  Text of the
 * file goes to TEXT_OUT, which has room for SG_CALIBRATE_TEXT bytes; it parses to MACHINE_OUT.
 * SHINGLE_ETIMEOUT if not every plan could be timed once. */
shingle_status sg_calibrate(const sg_machine *machine, int ranks, double seconds,
                            const sg_calibrate_watch *watch, sg_machine *machine_out,
                            char *text_out);

#endif
