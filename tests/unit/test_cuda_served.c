/* Every launch that the CUDA backend accepts is served by a fast kernel where one is asked for: the
 * rules of accept.c beside those of src/kernel/gemm.cu (fake_cuda/aimed.cpp), which aims all plans
 * that strategies propose, without a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef SG_WITH_CUDA
int main(void)
{
    return 77; /* no headers of CUDA here */
}
#else

#include "backend/cuda/cuda.h"
#include "core/comm.h"
#include "core/plan.h"
#include "core/propose.h"
#include "core/tensors.h"
#include "fake_world.h"

/* Dense tensors at addresses that nobody reads. */
static void place_tensors(const sg_problem *p, int rank, shingle_tensors *t)
{
    uintptr_t at = (uintptr_t)1 << 40;
    const uintptr_t apart = (uintptr_t)1 << 36;
    t->a = (void *)(at += apart);
    t->b = (void *)(at += apart);
    t->c = (void *)(at += apart);
    for (int i = 0; i < p->b_count - 1; i++) {
        t->more_b[i] = (void *)(at += apart);
        t->more_c[i] = (void *)(at += apart);
    }
    if (p->return_a) t->returned_a = (void *)(at += apart);
    if (p->norm) t->residual = (void *)(at += apart), t->gain = (void *)(at += apart);
    if (p->bias) t->bias = (void *)(at += apart);
    if (sg_tensors_check(p, rank, t) != SHINGLE_OK) fail_msg("%s", shingle_error());
}

static bool multiplies(const sg_sched *s, const sg_launch *l)
{
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++)
        if (s->patch[i].k0 < s->patch[i].k1) return true;
    return false;
}

/* Launches of RANK's part of PLAN that were aimed; a slow one fails. */
static int aim_all(sg_cuda_rank *rank, const sg_problem *p, shingle_plan *plan)
{
    sg_bound *const bound = plan->bound;
    const sg_cuda_plan *const mine = bound->backend;
    sg_run run = {.bound = bound, .work = bound->work, .kinds = ~0u};
    int aimed = 0;
    place_tensors(p, rank->rank, &run.tensors);
    for (int32_t i = 0; i < bound->sched.steps; i++) {
        const sg_kernel_gemm *const gemm = mine->step[i].gemm;
        if (bound->sched.step[i].kind != SG_LAUNCH || gemm == NULL) continue;
        if (mine->step[i].lt != NULL || !multiplies(&bound->sched, &bound->sched.step[i].u.launch))
            continue;
        rank->said = NULL;
        rank->apart = false;
        if (sg_cuda_aim_launch(rank, &run, i) != SHINGLE_OK)
            fail_msg("%s: %s", plan->text, shingle_error());
        if (gemm->slow != NULL)
            fail_msg("%s: step %d of rank %d: %s", plan->text, (int)i, rank->rank, gemm->slow);
        aimed++;
    }
    return aimed;
}

static bool is_accepted(sg_cuda *cuda, const sg_problem *p, const sg_strategy *strategy,
                        const sg_knobs *knobs)
{
    bool accepted = true;
    for (int r = 0; r < p->ranks && accepted; r++) {
        char words[512];
        sg_text why = {words, sizeof words, 0};
        sg_sched sched;
        memset(&sched, 0, sizeof sched);
        accepted = sg_plan_build(p, strategy, knobs, r, &sched) == SHINGLE_OK &&
                   sg_cuda_accepts(cuda, &sched, &why);
        sg_sched_free(&sched);
    }
    return accepted;
}

static int aim_plan(world *w, const sg_strategy *strategy, const sg_knobs *knobs)
{
    const sg_problem *const p = &w->problem;
    sg_cuda *const cuda = w->comm[0]->group->self;
    int aimed = 0;
    if (!is_accepted(cuda, p, strategy, knobs)) return 0;
    for (int r = 0; r < w->ranks; r++)
        if (sg_plan_make(p, strategy, knobs, &w->plan[r]) != SHINGLE_OK ||
            sg_comm_bind(w->comm[r], w->plan[r]) != SHINGLE_OK)
            fail_msg("%s", shingle_error());
    for (int r = 0; r < w->ranks; r++) aimed += aim_all(&cuda->rank[r], p, w->plan[r]);
    for (int r = 0; r < w->ranks; r++) shingle_plan_free(w->plan[r]);
    return aimed;
}

/* All that is proposed for TEXT. */
static int aim_problem(world *w, const char *text)
{
    int aimed = 0;
    assert_int_equal(sg_problem_parse(text, &w->problem), SHINGLE_OK);
    const sg_machine *const machine = sg_comm_machine(w->comm[0], w->problem.type);
    for (int i = 0; sg_strategy_at(i) != NULL; i++) {
        sg_knobs sets[SG_MAX_KNOB_SETS];
        char words[512];
        sg_text why = {words, sizeof words, 0};
        memset(sets, 0, sizeof sets);
        const int count = sg_strategy_propose(sg_strategy_at(i), &w->problem, machine, sets, &why);
        for (int j = 0; j < count; j++) aimed += aim_plan(w, sg_strategy_at(i), &sets[j]);
    }
    sg_problem_free(&w->problem);
    return aimed;
}

static void aim_those(int ranks, const char *const *texts, int count)
{
    world w;
    open_group(&w, ranks, 20);
    for (int i = 0; i < count; i++)
        if (aim_problem(&w, texts[i]) < 10) fail_msg("nothing of %s was aimed", texts[i]);
    close_group(&w);
}

static void on_two_ranks(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "ag_gemm:bf16:4002x1792x512:r2:silu",
        "ag_gemm:bf16:1025x1024x512:r2:gelu",
        "gemm_rs:bf16:1000x1032x512:r2:bias",
        "ag_gemm:bf16:200x1536x512:r2:gather=b",
        "ag_gemm:bf16:512x1024x256:r2:b=768,256",
        "gemm_ar:bf16:257x1096x328:r2:relu",
        "a2a_gemm:bf16:513x320x192:r2:return_a",
        "gemm_rs:bf16:600x1056x512:r2:norm:cyclic=100",
        "ag_gemm:bf16:520x544x768:r2:gather=k:accumulate",
    };
    aim_those(2, texts, sizeof texts / sizeof texts[0]);
}

static void on_four_ranks(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "gemm_rs:bf16:2048x192x512:r4",          "gemm_a2a:bf16:64x128x512:r4",
        "ag_gemm:bf16:200x1792x512:r4:gather=b", "gemm_ar:bf16:100x1032x1024:r4:silu",
        "gemm_rs:bf16:1007x320x192:r4",          "ag_gemm:bf16:1000x1008x1032:r4",
    };
    aim_those(4, texts, sizeof texts / sizeof texts[0]);
}

static int share(void **state)
{
    (void)state;
    setenv("SHINGLE_SHARE_GPU", "1", 1);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    unsetenv("SHINGLE_SHARE_GPU");
    return 0;
}

static void on_eight_ranks(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "gemm_ar:bf16:128x1032x256:r8",
        "ag_gemm:bf16:200x1536x512:r8:gather=b",
        "gemm_rs:bf16:256x1024x128:r8:norm",
    };
    aim_those(8, texts, sizeof texts / sizeof texts[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_two_ranks),
        cmocka_unit_test(on_four_ranks),
        cmocka_unit_test_setup_teardown(on_eight_ranks, share, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
