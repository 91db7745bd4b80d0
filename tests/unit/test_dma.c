/* Tests of the strategy `dma`: how many products and copies each of its forms makes, in which order
 * and on which lanes, and which knobs it proposes.  That the schedules are right is proved by
 * check; here it is the shape that counts: a form that hides nothing would pass every proof. */
#include "built.h"
#include "core/check.h"

extern const sg_strategy sg_strategy_dma;

enum { RANKS = 4, CHUNKS = 3, TILE_M = 4, TILE_N = 8 };
enum { FORM, CHUNKS_KNOB, LANES, STREAMS, BLOCKS };
enum { UNIFORM, HETERO, UNFUSED, UNIFORM_2D };

static const char gather[] = "ag_gemm:bf16:96x64x384:r4";
static const char *const scatters[] = {"gemm_rs:bf16:96x72x64:r4", "gemm_ar:bf16:96x72x64:r4",
                                       "gemm_a2a:bf16:96x72x64:r4"};
enum { SCATTERS = sizeof scatters / sizeof scatters[0] };

static sg_knobs knobs_of(int form, int lanes, int streams)
{
    return (sg_knobs){{form, CHUNKS, lanes, streams, 5, TILE_M, TILE_N}};
}

/* All of RANKS. */
static void build_dma(const char *text, const sg_knobs *knobs, built *b)
{
    build_with(text, &sg_strategy_dma, knobs, b);
    assert_int_equal(b->problem.ranks, RANKS);
}

static int count(const sg_sched *s, sg_kind kind)
{
    int found = 0;
    for (int32_t i = 0; i < s->steps; i++) found += s->step[i].kind == kind;
    return found;
}

/* The INDEX-th step of KIND; from the end for -1, -2, ... */
static const sg_step *nth(const sg_sched *s, sg_kind kind, int index)
{
    if (index < 0) index += count(s, kind);
    for (int32_t i = 0; i < s->steps; i++)
        if (s->step[i].kind == kind && index-- == 0) return &s->step[i];
    fail_msg("there is no such step");
    return NULL;
}

static const sg_patch *patch_at(const sg_sched *s, const sg_step *launch, int index)
{
    assert_true(index < launch->u.launch.patches);
    return &s->patch[launch->u.launch.patch0 + index];
}

/* Rows that LAUNCH multiplies, those in place of A apart. */
static void count_rows(const sg_sched *s, const sg_step *launch, int *rows, int *own_rows)
{
    *rows = *own_rows = 0;
    for (int i = 0; i < launch->u.launch.patches; i++) {
        const sg_patch *const p = patch_at(s, launch, i);
        *rows += p->rows;
        if (p->row0 / (96 / RANKS) == s->rank) *own_rows += p->rows;
    }
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Launches of every form, there and back: {own alone, steps, pieces of a step}. */
static void every_form_has_its_products(void **state)
{
    (void)state;
    static const struct {
        int apart, launches;
    } wanted[] = {{0, CHUNKS}, {1, 1 + CHUNKS}, {1, 1 + CHUNKS * (RANKS - 1)}, {0, CHUNKS}};
    for (int form = UNIFORM; form <= UNIFORM_2D; form++) {
        for (int i = -1; i < SCATTERS; i++) {
            const sg_knobs knobs = knobs_of(form, 1, 1);
            built b;
            build_dma(i < 0 ? gather : scatters[i], &knobs, &b);
            for (int r = 0; r < RANKS; r++) {
                const sg_sched *const s = &b.sched[r];
                assert_int_equal(count(s, SG_LAUNCH), wanted[form].launches);
                for (int l = 0; l < wanted[form].launches; l++) {
                    const int own_at = i < 0 ? 0 : wanted[form].launches - 1;
                    int rows = 0;
                    int own = 0;
                    count_rows(s, nth(s, SG_LAUNCH, l), &rows, &own);
                    if (wanted[form].apart)
                        assert_int_equal(own, l == own_at ? rows : 0);
                    else
                        assert_int_equal(own * RANKS, rows); /* the same of every owner */
                    if (form == UNFUSED && l != own_at) assert_int_equal(rows, 96 / RANKS / CHUNKS);
                    if (form == UNIFORM_2D) assert_int_equal(rows, 96);
                }
            }
            discard(&b);
        }
    }
}

/* Nothing of the first product of a hetero form waits, and nothing of its last one is sent. */
static void own_rows_hide_the_first_and_the_last_chunk(void **state)
{
    (void)state;
    for (int form = HETERO; form <= UNFUSED; form++) {
        const sg_knobs knobs = knobs_of(form, 1, 1);
        built b;
        build_dma(gather, &knobs, &b);
        const sg_sched *s = &b.sched[2];
        const sg_step *launch = nth(s, SG_LAUNCH, 0);
        assert_int_equal(launch->u.launch.patches, 1);
        assert_true(patch_at(s, launch, 0)->waits == 0 && patch_at(s, launch, 0)->a.buf == SG_A);
        for (int l = 1; l < count(s, SG_LAUNCH); l++)
            for (int i = 0; i < nth(s, SG_LAUNCH, l)->u.launch.patches; i++)
                assert_true(patch_at(s, nth(s, SG_LAUNCH, l), i)->waits > 0);
        discard(&b);
        for (int j = 0; j < SCATTERS; j++) {
            build_dma(scatters[j], &knobs, &b);
            s = &b.sched[2];
            launch = nth(s, SG_LAUNCH, -1);
            for (int i = 0; i < launch->u.launch.patches; i++)
                assert_int_equal(patch_at(s, launch, i)->raises, 0);
            for (int i = 0; i < nth(s, SG_LAUNCH, -2)->u.launch.patches; i++)
                assert_int_equal(patch_at(s, nth(s, SG_LAUNCH, -2), i)->raises, 1);
            discard(&b);
        }
    }
}

/* Parts of k follow each other; all but the last leave their sum in f32. */
static void columns_of_k_are_summed_in_f32(void **state)
{
    (void)state;
    const sg_knobs knobs = knobs_of(UNIFORM_2D, 1, 1);
    built b;
    build_dma(gather, &knobs, &b);
    const sg_sched *const s = &b.sched[1];
    for (int l = 0; l < CHUNKS; l++) {
        const sg_step *const launch = nth(s, SG_LAUNCH, l);
        for (int i = 0; i < launch->u.launch.patches; i++) {
            const sg_patch *const p = patch_at(s, launch, i);
            const bool last = l == CHUNKS - 1;
            assert_true(p->k0 == l * 128 && p->k1 == (l + 1) * 128 && p->final == last);
            assert_true(p->tos == 1 && p->adds == (l > 0));
            assert_int_equal(s->to[p->to0].buf == SG_C, last);
            if (!last) assert_true(s->buf[s->to[p->to0].buf].wide);
            if (l > 0) assert_int_equal(s->buf[s->add[p->add0].area.buf].wide, 1);
        }
    }
    discard(&b);
}

static void columns_of_c_are_sums_of_their_own(void **state)
{
    (void)state;
    const sg_knobs knobs = knobs_of(UNIFORM_2D, 1, 1);
    for (int j = 0; j < SCATTERS; j++) {
        built b;
        build_dma(scatters[j], &knobs, &b);
        const sg_sched *const s = &b.sched[1];
        for (int l = 0; l < CHUNKS; l++) {
            const sg_step *const launch = nth(s, SG_LAUNCH, l);
            for (int i = 0; i < launch->u.launch.patches; i++) {
                const sg_patch *const p = patch_at(s, launch, i);
                assert_true(p->col0 == l * 24 && p->cols == 24 && p->b.row0 == l * 24);
                assert_true(p->k0 == 0 && p->k1 == 64);
            }
        }
        discard(&b);
    }
}

/* Where columns cannot be cut, or are what moves anyway, 2D is uniform 1D. */
static void two_d_is_one_d_where_it_must_be(void **state)
{
    (void)state;
    static const char *const problems[] = {"ag_gemm:bf16:96x64x384:r4:gather=k",
                                           "ag_gemm:bf16:96x64x384:r4:call=1000",
                                           "gemm_rs:bf16:96x64x384:r4:call=1000"};
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        char text[2][16384] = {"", ""};
        for (int j = 0; j < 2; j++) {
            const sg_knobs knobs = knobs_of(j ? UNIFORM_2D : UNIFORM, 3, 2);
            sg_text t = {text[j], sizeof text[j], 0};
            built b;
            build_dma(problems[i], &knobs, &b);
            sg_sched_print(&b.sched[3], &t);
            assert_true(t.length < sizeof text[j]);
            discard(&b);
        }
        assert_string_equal(text[0], text[1]);
    }
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* Every chunk goes to all peers before the next one goes to any, and no two ranks send to the same
 * peer at the same place of the order. */
static void chunks_go_to_all_peers_at_once(void **state)
{
    (void)state;
    for (int form = UNIFORM; form <= UNIFORM_2D; form++) {
        for (int i = -1; i < SCATTERS; i++) {
            const sg_knobs knobs = knobs_of(form, RANKS - 1, 1);
            built b;
            build_dma(i < 0 ? gather : scatters[i], &knobs, &b);
            const int sends = CHUNKS * (RANKS - 1);
            const int copies = sends * (sg_problem_out(&b.problem) == SG_OUT_ALL ? 2 : 1);
            for (int r = 0; r < RANKS; r++) assert_int_equal(count(&b.sched[r], SG_COPY), copies);
            int order[2 * CHUNKS * (RANKS - 1)]; /* sends first, then finished rows */
            int lists[2] = {0, sends};
            for (int c = 0; c < copies; c++) {
                const bool sums = nth(&b.sched[0], SG_COPY, c)->u.copy.src.buf == SG_C;
                order[lists[sums]++] = c;
            }
            for (int c = 0; c < copies; c++) {
                unsigned peers = 0;
                for (int r = 0; r < RANKS; r++) {
                    const sg_sched *const s = &b.sched[r];
                    const sg_step *const copy = nth(s, SG_COPY, order[c]);
                    const sg_step *const first = nth(s, SG_COPY, order[c - c % (RANKS - 1)]);
                    assert_int_equal(copy->tos, 1);
                    assert_int_equal(copy->u.copy.carrier, SG_BY_ENGINE);
                    const int peer = s->to[copy->to0].rank;
                    assert_int_not_equal(peer, r);
                    /* The rank whose rows come first in a product sends them first. */
                    const int distance = 1 + c % (RANKS - 1);
                    assert_int_equal((peer - r + RANKS) % RANKS,
                                     i < 0 ? RANKS - distance : distance);
                    peers |= 1u << peer;
                    /* The same chunk as the first of its step; its distance tells the lane. */
                    assert_int_equal(s->raise[copy->raise0].flag0, s->raise[first->raise0].flag0);
                    assert_int_equal(copy->lane, distance);
                }
                assert_int_equal(peers, (1u << RANKS) - 1);
            }
            discard(&b);
        }
    }
}

static void lanes_are_at_most_as_many_as_asked_for(void **state)
{
    (void)state;
    for (int lanes = 1; lanes <= SG_MAX_LANES - 1; lanes++) {
        for (int streams = 1; streams <= 2; streams++) {
            const sg_knobs knobs = knobs_of(UNFUSED, lanes, streams);
            unsigned products = 0;
            unsigned copies = 0;
            built b;
            build_dma(scatters[0], &knobs, &b);
            const sg_sched *const s = &b.sched[0];
            for (int32_t i = 0; i < s->steps; i++) {
                if (s->step[i].kind == SG_LAUNCH) products |= 1u << s->step[i].lane;
                if (s->step[i].kind == SG_COPY) copies |= 1u << s->step[i].lane;
            }
            assert_int_equal(products, (1u << streams) - 1);
            const int used = lanes < RANKS - 1 ? lanes : RANKS - 1;
            assert_int_equal(copies, ((1u << used) - 1) << streams);
            discard(&b);
        }
    }
}

/* With fewer lanes than peers every lane carries as much, and no peer is always in the same one. */
static void lanes_carry_alike(void **state)
{
    (void)state;
    for (int i = -1; i < SCATTERS; i++) {
        const sg_knobs knobs = knobs_of(HETERO, 2, 1);
        int carried[2] = {0};
        unsigned lanes_of[RANKS] = {0};
        built b;
        build_dma(i < 0 ? gather : scatters[i], &knobs, &b);
        const sg_sched *const s = &b.sched[1];
        for (int c = 0; c < count(s, SG_COPY); c++) {
            const sg_step *const copy = nth(s, SG_COPY, c);
            assert_in_range(copy->lane, 1, 2);
            carried[copy->lane - 1]++;
            lanes_of[s->to[copy->to0].rank] |= 1u << copy->lane;
        }
        assert_in_range(carried[0] - carried[1] + 2, 0, 4);
        for (int q = 0; q < RANKS; q++) assert_int_equal(lanes_of[q], q == 1 ? 0 : 6);
        discard(&b);
    }
}

/* Two streams share the SMs; the own rows have all of them, so nothing runs beside them. */
static void streams_leave_the_own_rows_alone(void **state)
{
    (void)state;
    const sg_knobs knobs = knobs_of(UNFUSED, 1, 2);
    built b;
    build_dma(gather, &knobs, &b);
    const sg_sched *s = &b.sched[0];
    const int32_t own = (int32_t)(nth(s, SG_LAUNCH, 0) - s->step);
    assert_int_equal(s->step[own].u.launch.blocks, 10);
    assert_true(nth(s, SG_LAUNCH, 1)->lane == 0 && nth(s, SG_LAUNCH, 2)->lane == 1);
    assert_int_equal(nth(s, SG_LAUNCH, 2)->after[0], own);
    for (int l = 1; l < count(s, SG_LAUNCH); l++)
        assert_int_equal(nth(s, SG_LAUNCH, l)->u.launch.blocks, 5);
    discard(&b);

    build_dma(scatters[0], &knobs, &b);
    s = &b.sched[0];
    const sg_step *const last = nth(s, SG_LAUNCH, -1);
    assert_true(last->lane == 0 && last->u.launch.blocks == 10);
    assert_true(last->after[0] >= 0 && s->step[last->after[0]].lane == 1);
    for (const sg_step *step = &s->step[last->after[0] + 1]; step < last; step++)
        assert_false(step->kind == SG_LAUNCH && step->lane == 1);
    discard(&b);
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* A uniform form sums a chunk behind the next product, under which it has come; the others sum
 * behind the own rows.  Addends are in rank order. */
static void sums_stand_behind_what_hides_them(void **state)
{
    (void)state;
    for (int form = UNIFORM; form <= UNIFORM_2D; form++) {
        const bool apart = form == HETERO || form == UNFUSED;
        const sg_knobs knobs = knobs_of(form, 1, 1);
        built b;
        build_dma(scatters[0], &knobs, &b);
        const sg_sched *const s = &b.sched[2];
        assert_int_equal(count(s, SG_REDUCE), CHUNKS);
        for (int c = 0; c < CHUNKS; c++) {
            const sg_step *const sum = nth(s, SG_REDUCE, c);
            const int before = apart || c == CHUNKS - 1 ? -1 : c + 1; /* the product before it */
            assert_true(sum > nth(s, SG_LAUNCH, before));
            if (before >= 0 && before + 1 < count(s, SG_LAUNCH))
                assert_true(sum < nth(s, SG_LAUNCH, before + 1));
            assert_int_equal(sum->u.reduce.adds, RANKS);
            for (int q = 0; q < RANKS; q++) {
                const sg_addend *const add = &s->add[sum->u.reduce.add0 + q];
                assert_int_equal(add->awaited, q != 2);
                if (q != 2) assert_int_equal(add->wait.by, q);
            }
        }
        discard(&b);
    }
}

/* ---- Proposals ------------------------------------------------------------------------------- */

static void proposals_follow_the_machine(void **state)
{
    (void)state;
    sg_machine machine;
    proposals all;
    sg_machine_plain(&machine);
    propose("ag_gemm:bf16:8192x7168x4096:r8", &sg_strategy_dma, &machine, &all);
    assert_true(all.count > 0);
    assert_true(all.set[0].value[FORM] == HETERO && all.set[0].value[CHUNKS_KNOB] == 8);
    assert_int_equal(all.set[0].value[LANES], 1);
    machine.topology = SG_MESH;
    propose("ag_gemm:bf16:2048x7168x8192:r8", &sg_strategy_dma, &machine, &all);
    assert_true(all.count > 0);
    assert_int_equal(all.set[0].value[FORM], UNIFORM_2D);
    assert_int_equal(all.set[0].value[LANES], 7);
    /* Of very many ranks' chunks there would be more copies than are worth issuing. */
    propose("ag_gemm:bf16:1048576x512x256:r1024", &sg_strategy_dma, &machine, &all);
    assert_true(all.count > 0);
    for (int i = 0; i < all.count; i++) assert_int_equal(all.set[i].value[CHUNKS_KNOB], 2);
    static const struct {
        const char *problem, *why;
    } none[] = {{"ag_gemm:bf16:64x64x64:r1", "nobody to talk to"},
                {"gemm:bf16:64x64x64:r4", "no communication"},
                {"ag_gemm:bf16:4x64x1:r4", "too few for chunks"}};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        propose(none[i].problem, &sg_strategy_dma, &machine, &all);
        assert_int_equal(all.count, 0);
        assert_non_null(strstr(all.why, none[i].why));
    }
}

/* Three owners' chunks of two bands of ten tiles leave half of 120 SMs idle, in tiles half as wide
 * none; chunks of four bands, or those of all four owners, fill them in wide ones. */
static void tiles_suit_the_launches(void **state)
{
    (void)state;
    const int width = knob_called(&sg_strategy_dma, "tile_n");
    sg_machine machine = machine_of_tiles(128, 256);
    proposals all;
    machine.sms = 120;
    machine.tiles = 2;
    machine.tile[1] = (sg_tile){128, 128, 0.9, 1};
    propose("ag_gemm:bf16:4096x2560x1024:r4", &sg_strategy_dma, &machine, &all);
    int seen = 0;
    for (int i = 0; i < all.count; i++) {
        const int32_t *const set = all.set[i].value;
        const bool two = set[FORM] == HETERO && set[CHUNKS_KNOB] == 4;
        if (two || (set[FORM] == HETERO && set[CHUNKS_KNOB] == 2) || set[FORM] == UNIFORM) {
            assert_int_equal(set[width], two ? 128 : 256);
            seen++;
        }
    }
    assert_int_equal(seen, 3);
}

/* All that is proposed differs, is within the limits, and is proved, SMs too. */
static void proposals_are_proved(void **state)
{
    (void)state;
    static const char *const problems[] = {"ag_gemm:bf16:1024x512x256:r4",
                                           "ag_gemm:bf16:256x512x1024:r8",
                                           "ag_gemm:bf16:250x510x333:r3:gather=b",
                                           "ag_gemm:f32:250x510x333:r3:gather=k:accumulate",
                                           "gemm_rs:bf16:1000x512x256:r5",
                                           "gemm_ar:bf16:1000x512x256:r8:bias:gelu",
                                           "gemm_a2a:bf16:9x520x64:r3:counts=1,2,6/0,0,1/4,0,0",
                                           "a2a_gemm:bf16:1000x512x256:r4",
                                           "gemm_rs:bf16:999x512x256:r7:cyclic=64",
                                           "ag_gemm:bf16:1024x512x256:r2:call=9000"};
    sg_checker *const checker = sg_checker_new();
    assert_non_null(checker);
    for (int topology = 0; topology < 2; topology++) {
        sg_machine machine;
        sg_machine_plain(&machine);
        machine.topology = topology ? SG_MESH : SG_SWITCH;
        for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
            sg_problem p;
            proposals all;
            assert_int_equal(sg_problem_parse(problems[i], &p), SHINGLE_OK);
            propose_to(&p, &sg_strategy_dma, &machine, &all);
            assert_in_range(all.count, 1, 7);
            for (int j = 0; j < all.count; j++) {
                const sg_knobs *const set = &all.set[j];
                for (int v = 0; v < sg_knob_count(&sg_strategy_dma); v++)
                    assert_in_range(set->value[v], sg_strategy_dma.knob[v].least,
                                    sg_strategy_dma.knob[v].most);
                for (int other = 0; other < j; other++)
                    assert_memory_not_equal(set, &all.set[other], sizeof *set);
                sg_check_result result;
                if (sg_check_built(checker, &p, &sg_strategy_dma, set, machine.sms, &result) !=
                    SHINGLE_OK)
                    fail_msg("%s, set %d: %s", problems[i], j, result.why);
            }
            sg_problem_free(&p);
        }
    }
    sg_checker_free(checker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_has_its_products),
        cmocka_unit_test(own_rows_hide_the_first_and_the_last_chunk),
        cmocka_unit_test(columns_of_k_are_summed_in_f32),
        cmocka_unit_test(columns_of_c_are_sums_of_their_own),
        cmocka_unit_test(two_d_is_one_d_where_it_must_be),
        cmocka_unit_test(chunks_go_to_all_peers_at_once),
        cmocka_unit_test(lanes_are_at_most_as_many_as_asked_for),
        cmocka_unit_test(lanes_carry_alike),
        cmocka_unit_test(streams_leave_the_own_rows_alone),
        cmocka_unit_test(sums_stand_behind_what_hides_them),
        cmocka_unit_test(proposals_follow_the_machine),
        cmocka_unit_test(tiles_suit_the_launches),
        cmocka_unit_test(proposals_are_proved),
    };
    return cmocka_run_group_tests_name("dma", tests, NULL, NULL);
}
