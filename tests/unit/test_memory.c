/* Runs out of memory at every single allocation of the planning path, one after the other: each
 * time the call says SHINGLE_ENOMEM, leaks nothing, writes no output, and works the next time.
 *
 * The build renames malloc, calloc, realloc, aligned_alloc and free inside a copy of the library,
 * so that its calls come here, and those of other libraries do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/check.h"
#include "core/tuned_file.h"

/* ---- The allocator --------------------------------------------------------------------------- */

void *hooked_malloc(size_t bytes);
void *hooked_calloc(size_t count, size_t bytes);
void *hooked_realloc(void *old, size_t bytes);
void *hooked_aligned_alloc(size_t align, size_t bytes);
void hooked_free(void *memory);

enum { SLOTS = 1 << 16 };

static void *live[SLOTS]; /* pieces not yet freed, hashed by address */
static int live_count;
static long countdown = -1; /* allocations until the failing one; negative: none fails */
static bool fired;

static int slot_of(const void *memory)
{
    int slot = (int)(sg_mix((uintptr_t)memory) % SLOTS);
    while (live[slot] != NULL && live[slot] != memory) slot = (slot + 1) % SLOTS;
    return slot;
}

static void *keep(void *memory)
{
    if (memory == NULL) return NULL;
    live[slot_of(memory)] = memory;
    live_count++;
    if (live_count > SLOTS / 2) abort();
    return memory;
}

static void forget(const void *memory)
{
    int slot = slot_of(memory);
    if (memory == NULL || live[slot] == NULL) return;
    live[slot] = NULL;
    live_count--;
    /* Entries behind the hole are put in again, so that searches do not end at it. */
    for (slot = (slot + 1) % SLOTS; live[slot] != NULL; slot = (slot + 1) % SLOTS) {
        void *const moved = live[slot];
        live[slot] = NULL;
        live[slot_of(moved)] = moved;
    }
}

static bool fails(void)
{
    if (countdown < 0 || countdown-- > 0) return false;
    fired = true;
    return true;
}

void *hooked_malloc(size_t bytes)
{
    return fails() ? NULL : keep(malloc(bytes));
}

void *hooked_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : keep(calloc(count, bytes));
}

void *hooked_aligned_alloc(size_t align, size_t bytes)
{
    return fails() ? NULL : keep(aligned_alloc(align, bytes));
}

void *hooked_realloc(void *old, size_t bytes)
{
    if (fails()) return NULL;
    forget(old);
    return keep(realloc(old, bytes));
}

void hooked_free(void *memory)
{
    forget(memory);
    free(memory);
}

/* ---- The calls ------------------------------------------------------------------------------- */

static const char *problem;
static const char *machine_path;

static shingle_status plan_it(void)
{
    shingle_machine *machine = NULL;
    SG_TRY(shingle_machine_load(machine_path, &machine));
    shingle_plan *plan = NULL;
    const shingle_status status = shingle_plan_for(problem, machine, NULL, &plan);
    assert_true(status == SHINGLE_OK || plan == NULL);
    shingle_machine_free(machine);
    shingle_plan_free(plan);
    return status;
}

static shingle_plan *planned; /* made before memory runs short */

static shingle_status parse_it(void)
{
    shingle_plan *plan = NULL;
    const shingle_status status = shingle_plan_parse(shingle_plan_text(planned), &plan);
    assert_true(status == SHINGLE_OK || plan == NULL);
    shingle_plan_free(plan);
    return status;
}

static shingle_status check_it(void)
{
    return shingle_plan_check(planned, NULL);
}

static shingle_status print_it(void)
{
    static char text[1 << 16];
    const int64_t length = shingle_plan_schedule(planned, 1, text, sizeof text);
    return length >= 0 ? SHINGLE_OK : SHINGLE_ENOMEM;
}

static shingle_status draw_it(void)
{
    shingle_timeline *timeline = NULL;
    SG_TRY(shingle_timeline_predict(planned, NULL, &timeline));
    const shingle_timeline *const list[] = {timeline};
    const int64_t svg = shingle_timeline_text(list, 1, SHINGLE_SVG, NULL, 0);
    const int64_t trace = shingle_timeline_text(list, 1, SHINGLE_TRACE, NULL, 0);
    shingle_timeline_free(timeline);
    return svg > 0 && trace > 0 ? SHINGLE_OK : SHINGLE_ENOMEM;
}

static shingle_status simulate_it(void)
{
    shingle_simulation simulation;
    return shingle_plan_simulate(planned, NULL, &simulation);
}

static shingle_status reproduce_it(void)
{
    shingle_plan *plan = NULL;
    const shingle_plan_options options = {.reproducible = 1};
    const shingle_status status = shingle_plan_for(problem, NULL, &options, &plan);
    shingle_plan_free(plan);
    return status;
}

static char folder[] = "/tmp/shingle-memory-XXXXXX";

/* Puts the plan into a file of tuned plans and reads that. */
static shingle_status tune_it(void)
{
    char path[64];
    sg_tuned_list list = {NULL, 0, 0};
    shingle_plan *plan = NULL;
    snprintf(path, sizeof path, "%s/plans", folder);
    SG_TRY(sg_plan_copy(planned, &plan));
    plan->measured_us = 5;
    shingle_status status = sg_tuned_file_put(path, "here", plan);
    sg_plan_free(plan);
    if (status == SHINGLE_OK) status = sg_tuned_file_read(path, "here", &list);
    sg_tuned_list_free(&list);
    return status;
}

static int drop_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static shingle_status shape_it(void)
{
    shingle_shape shape;
    return shingle_problem_shape(problem, 0, &shape);
}

static void fail_at_each(const char *name, shingle_status (*call)(void))
{
    assert_int_equal(call(), SHINGLE_OK); /* what is made once is made here */
    const int before = live_count;
    long tried = 0;
    for (long n = 0;; n++) {
        countdown = n;
        fired = false;
        sg_check_forget(); /* proofs allocate, too */
        const shingle_status status = call();
        countdown = -1;
        tried++;
        if (live_count != before)
            fail_msg("%s of %s, allocation %ld fails: %d pieces leak", name, problem, n,
                     live_count - before);
        if (!fired) {
            assert_int_equal(status, SHINGLE_OK);
            break;
        }
        if (status != SHINGLE_ENOMEM)
            fail_msg("%s of %s, allocation %ld fails: status %d, \"%s\"", name, problem, n,
                     (int)status, shingle_error());
        assert_true(strlen(shingle_error()) > 0);
        if (call() != SHINGLE_OK)
            fail_msg("%s of %s after a failure: \"%s\"", name, problem, shingle_error());
    }
    print_message("%s of %s: %ld failures\n", name, problem, tried - 1);
}

static void planning_survives_short_memory(void **state)
{
    (void)state;
    static const char *const problems[] = {
        "ag_gemm:f32:96x64x48:r3:rows=50,6,40:bias:gelu",
        "gemm_rs:bf16:64x48x40:r2:cyclic=8",
        "gemm_ar:f16:40x40x40:r4",
        "ag_gemm:f32:64x64x64:r2:cyclic=2:return_a",
        "gemm_rs:f32:64x48x40:r2:norm",
        "a2a_gemm:f32:6x8x7:r2:counts=1,2/3,4:b=3,5:return_a",
        "ag_gemm:f32:8x8x9:r2:gather=k:accumulate",
    };
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        problem = problems[i];
        shingle_machine *machine = NULL;
        assert_int_equal(shingle_machine_load(machine_path, &machine), SHINGLE_OK);
        assert_int_equal(shingle_plan_for(problem, machine, NULL, &planned), SHINGLE_OK);
        fail_at_each("shape", shape_it);
        fail_at_each("plan", plan_it);
        fail_at_each("parse", parse_it);
        fail_at_each("check", check_it);
        fail_at_each("schedule", print_it);
        fail_at_each("timeline", draw_it);
        fail_at_each("simulation", simulate_it);
        fail_at_each("reproducible plan", reproduce_it);
        fail_at_each("tuned plan", tune_it);
        shingle_plan_free(planned);
        shingle_machine_free(machine);
    }
}

int main(void)
{
    machine_path = "machines/h200x4.machine"; /* tests run in the source folder */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(planning_survives_short_memory, drop_folder),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
