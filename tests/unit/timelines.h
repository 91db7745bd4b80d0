/* timelines.h -- predicted timelines and what is written of them, for tests of src/draw. */
#ifndef TIMELINES_H
#define TIMELINES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/timeline.h"

static inline shingle_timeline *predict(const char *problem, const char *strategy)
{
    const shingle_plan_options options = {.strategy = strategy};
    shingle_plan *plan = NULL;
    shingle_timeline *t = NULL;
    if (shingle_plan_for(problem, NULL, &options, &plan) != SHINGLE_OK ||
        shingle_timeline_predict(plan, NULL, &t) != SHINGLE_OK)
        fail_msg("%s %s: %s", problem, strategy, shingle_error());
    shingle_plan_free(plan);
    return t;
}

/* The text that is written; its length is what was said. */
static inline char *text_of(shingle_timeline *const *timeline, int count, shingle_picture picture)
{
    const shingle_timeline *const *const list = (const shingle_timeline *const *)timeline;
    const int64_t length = shingle_timeline_text(list, count, picture, NULL, 0);
    if (length <= 0) fail_msg("%s", shingle_error());
    char *const text = malloc((size_t)length + 1);
    assert_non_null(text);
    assert_int_equal(shingle_timeline_text(list, count, picture, text, (size_t)length + 1), length);
    assert_int_equal(strlen(text), length);
    return text;
}

#endif
