/* Tests of perfetto.c: what is written parses, is what Chrome's format asks for
 * (within a thread spans begin in order and never overlap, so they nest trivially),
 * and says the same as the timeline. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "timelines.h"

enum { MOST_THREADS = 4096 };

static json_t *trace_of(shingle_timeline *const *timeline, int count)
{
    char *const text = text_of(timeline, count, SHINGLE_TRACE);
    json_error_t error;
    json_t *const json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL) fail_msg("line %d, column %d: %s", error.line, error.column, error.text);
    free(text);
    return json;
}

static const char *text_at(const json_t *event, const char *key)
{
    const char *const text = json_string_value(json_object_get(event, key));
    assert_non_null(text);
    return text;
}

static double number_at(const json_t *event, const char *key)
{
    const json_t *const value = json_object_get(event, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

typedef struct thread {
    double process, id;
    double until;
    bool named;
} thread;

typedef struct threads {
    thread of[MOST_THREADS];
    int count;
} threads;

static thread *thread_of(threads *all, const json_t *event)
{
    const double process = number_at(event, "pid");
    const double id = number_at(event, "tid");
    for (int i = 0; i < all->count; i++)
        if (all->of[i].process == process && all->of[i].id == id) return &all->of[i];
    assert_true(all->count < MOST_THREADS);
    all->of[all->count] = (thread){process, id, 0, false};
    return &all->of[all->count++];
}

/* Names come before spans, spans do not overlap; returns their total. */
static double check_spans(const json_t *events, int64_t *count_out)
{
    static threads all;
    all.count = 0;
    double total = 0;
    size_t i = 0;
    const json_t *event = NULL;
    *count_out = 0;
    json_array_foreach(events, i, event)
    {
        const char *const phase = text_at(event, "ph");
        thread *const t = thread_of(&all, event);
        if (strcmp(phase, "M") == 0) {
            if (strcmp(text_at(event, "name"), "thread_name") == 0) {
                assert_false(t->named);
                t->named = true;
            }
        } else if (strcmp(phase, "X") == 0) {
            const double begin = number_at(event, "ts");
            const double us = number_at(event, "dur");
            assert_true(t->named);
            assert_true(begin >= t->until - 1e-6 && us >= 0);
            t->until = begin + us;
            total += us;
            ++*count_out;
            assert_true(json_is_integer(json_object_get(json_object_get(event, "args"), "step")));
        } else {
            assert_true(strcmp(phase, "s") == 0 || strcmp(phase, "f") == 0);
        }
    }
    return total;
}

static double total_us(const shingle_timeline *t)
{
    double total = 0;
    for (int32_t i = 0; i < t->spans; i++) total += t->span[i].end_us - t->span[i].begin_us;
    return total;
}

static void traces_say_what_timelines_say(void **state)
{
    (void)state;
    static const char *const asked[][2] = {{"ag_gemm:bf16:2048x1024x512:r4", "serial"},
                                           {"ag_gemm:bf16:2048x1024x512:r4", "direct"},
                                           {"ag_gemm:bf16:2048x1024x512:r4", "fused_in"},
                                           {"gemm_rs:bf16:4096x2048x512:r8", "ring"},
                                           {"gemm_rs:bf16:4096x2048x512:r8", "fused_out"},
                                           {"gemm_ar:bf16:4096x2048x512:r4", "sliced"}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        shingle_timeline *const t = predict(asked[i][0], asked[i][1]);
        json_t *const trace = trace_of(&t, 1);
        int64_t spans = 0;
        const double total = check_spans(json_object_get(trace, "traceEvents"), &spans);
        assert_int_equal(spans, t->spans);
        /* Ends and begins are rounded to a nanosecond. */
        assert_true(fabs(total - total_us(t)) <= 0.001 * t->spans + 0.001);
        const json_t *const facts =
            json_array_get(json_object_get(json_object_get(trace, "otherData"), "timelines"), 0);
        assert_string_equal(text_at(facts, "plan"), t->plan);
        assert_true(fabs(number_at(facts, "us") - t->us) < 0.001);
        assert_int_equal((int64_t)number_at(facts, "spans"), t->spans);
        json_decref(trace);
        shingle_timeline_free(t);
    }
}

/* Flows begin at a span and end at a wait, in pairs. */
static void flows_come_in_pairs(void **state)
{
    (void)state;
    shingle_timeline *const t = predict("ag_gemm:bf16:512x512x8192:r4", "ring");
    json_t *const trace = trace_of(&t, 1);
    const json_t *const events = json_object_get(trace, "traceEvents");
    size_t i = 0;
    const json_t *event = NULL;
    double open = 0;
    double at = 0;
    json_array_foreach(events, i, event)
    {
        const char *const phase = text_at(event, "ph");
        if (strcmp(phase, "s") == 0) {
            assert_true(open == 0);
            open = number_at(event, "id");
            at = number_at(event, "ts");
        } else if (strcmp(phase, "f") == 0) {
            assert_true(open > 0 && number_at(event, "id") == open);
            assert_true(number_at(event, "ts") >= at);
            assert_string_equal(text_at(event, "bp"), "e");
            open = 0;
        }
    }
    assert_true(open == 0);
    json_decref(trace);
    shingle_timeline_free(t);
}

/* Overlapping spans of one track go to threads of their own, even more than there are. */
static void overlaps_are_parted(void **state)
{
    (void)state;
    shingle_timeline *const t = predict("gemm:bf16:512x512x64:r2", "serial");
    for (int i = 0; i < 200; i++) {
        const sg_timeline_span span = {.begin_us = i * 0.25,
                                       .end_us = 100 + i,
                                       .share = 0.005,
                                       .owners = {1, 0},
                                       .patch = 0,
                                       .tiles = 1,
                                       .peer = -1,
                                       .does = SG_DOES_PRODUCT};
        assert_true(sg_timeline_add(t, &span));
    }
    t->us = 400;
    assert_int_equal(sg_timeline_end(t), SHINGLE_OK);
    json_t *const trace = trace_of(&t, 1);
    int64_t spans = 0;
    check_spans(json_object_get(trace, "traceEvents"), &spans);
    assert_int_equal(spans, t->spans);
    json_decref(trace);
    shingle_timeline_free(t);
}

static void texts_are_escaped(void **state)
{
    (void)state;
    shingle_timeline *const t = predict("gemm_rs:bf16:2048x1024x512:r4", "ring");
    strcpy(t->machine, "a \"b\" \\ <c>\n\x01 \xc3\xa9 \xff");
    json_t *const trace = trace_of(&t, 1);
    const json_t *const facts =
        json_array_get(json_object_get(json_object_get(trace, "otherData"), "timelines"), 0);
    assert_string_equal(text_at(facts, "machine"), "a \"b\" \\ <c>\n\x01 \xc3\xa9 ?");
    json_decref(trace);
    shingle_timeline_free(t);
}

/* A program may have a locale whose numbers have commas. */
static void locales_do_not_matter(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    bool set = false;
    for (int i = 0; i < 4 && !set; i++) set = setlocale(LC_ALL, names[i]) != NULL;
    if (!set) skip();
    shingle_timeline *const t = predict("gemm_rs:bf16:2048x1024x512:r4", "ring");
    json_t *const trace = trace_of(&t, 1);
    int64_t spans = 0;
    const double total = check_spans(json_object_get(trace, "traceEvents"), &spans);
    setlocale(LC_ALL, "C");
    assert_true(fabs(total - total_us(t)) <= 0.001 * t->spans + 0.001);
    json_decref(trace);
    shingle_timeline_free(t);
}

static void several_stand_side_by_side(void **state)
{
    (void)state;
    shingle_timeline *const both[2] = {predict("gemm_rs:bf16:2048x1024x512:r4", "serial"),
                                       predict("gemm_rs:bf16:2048x1024x512:r4", "ring")};
    json_t *const trace = trace_of(both, 2);
    int64_t spans = 0;
    const double total = check_spans(json_object_get(trace, "traceEvents"), &spans);
    assert_int_equal(spans, both[0]->spans + both[1]->spans);
    assert_true(fabs(total - total_us(both[0]) - total_us(both[1])) <= 0.002 * (double)spans);
    json_decref(trace);
    shingle_timeline_free(both[0]);
    shingle_timeline_free(both[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traces_say_what_timelines_say),
        cmocka_unit_test(flows_come_in_pairs),
        cmocka_unit_test(overlaps_are_parted),
        cmocka_unit_test(texts_are_escaped),
        cmocka_unit_test(locales_do_not_matter),
        cmocka_unit_test(several_stand_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
