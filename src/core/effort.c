/* effort.c -- see effort.h. */
#include "core/effort.h"

#include <string.h>

#include "core/race.h"

static const struct level {
    const char *name;
    int plans; /* that are timed beside the serial one */
    double seconds;
} levels[] = {{"estimate", 0, 0},
              {"measure", 3, 5},
              {"patient", 8, 20},
              {"exhaustive", SG_RACE_PLANS - 1, 120}};

enum { LEVELS = sizeof levels / sizeof levels[0], LEVEL_DEFAULT = 1 };

static shingle_status find_level(const char *name, const struct level **level_out)
{
    *level_out = &levels[LEVEL_DEFAULT];
    if (name == NULL) return SHINGLE_OK;
    for (int i = 0; i < LEVELS; i++) {
        if (strcmp(levels[i].name, name) != 0) continue;
        *level_out = &levels[i];
        return SHINGLE_OK;
    }
    return sg_fail(SHINGLE_EINVAL,
                   "level \"%.40s\"; estimate, measure, patient or exhaustive is accepted", name);
}

/* A count of plans or a level asks for measuring, too. */
shingle_status sg_effort_read(const shingle_plan_options *o, sg_effort *e)
{
    const struct level *level = NULL;
    if (o->measure < 0)
        return sg_fail(SHINGLE_EINVAL, "measure is %d; 0 or more plans", o->measure);
    if (!(o->measure_seconds >= 0) || !(o->measure_seconds <= SG_EFFORT_SECONDS))
        return sg_fail(SHINGLE_EINVAL, "measure_seconds is %g; 0 (default) to %d",
                       o->measure_seconds, SG_EFFORT_SECONDS);
    const char *const level_name = sg_given(o->level);
    SG_TRY(find_level(level_name, &level));
    *e = (sg_effort){.plans = o->measure > 0 ? o->measure : level->plans,
                     .seconds = o->measure_seconds > 0 ? o->measure_seconds : level->seconds};
    if (e->seconds <= 0) e->seconds = levels[LEVEL_DEFAULT].seconds;
    const bool wants = o->measure > 0 || level_name != NULL;
    const char *const choose = sg_given(o->choose);
    const char *const by = choose != NULL ? choose : wants ? "measure" : "predict";
    if (strcmp(by, "predict") == 0)
        e->by = SG_BY_PREDICTION;
    else if (strcmp(by, "static") == 0)
        e->by = SG_BY_RULE;
    else if (strcmp(by, "measure") == 0)
        e->by = e->plans > 0 ? SG_BY_TIMING : SG_BY_PREDICTION;
    else
        return sg_fail(SHINGLE_EINVAL, "choose \"%.40s\"; static, predict or measure is accepted",
                       by);
    if (wants && e->by != SG_BY_TIMING && strcmp(by, "measure") != 0)
        return sg_fail(SHINGLE_EINVAL,
                       "choose \"%s\" measures nothing; measure and level are for "
                       "\"measure\"",
                       by);
    if (o->measure_seconds > 0 && e->by != SG_BY_TIMING)
        return sg_fail(SHINGLE_EINVAL,
                       "measure_seconds is %g, and nothing is measured; 0 is accepted, or beside "
                       "it measure, choose \"measure\" or a level that measures",
                       o->measure_seconds);
    if (e->by == SG_BY_RULE && sg_given(o->strategy) != NULL)
        return sg_fail(SHINGLE_EINVAL,
                       "choose \"static\": strategy \"%.60s\" leaves nothing to choose; one of "
                       "the two is accepted",
                       o->strategy);
    return SHINGLE_OK;
}

shingle_status sg_effort_measures(const shingle_plan_options *options, bool *measures_out)
{
    sg_effort e = {0};
    SG_TRY(sg_effort_read(options, &e));
    *measures_out = e.by == SG_BY_TIMING;
    return SHINGLE_OK;
}
