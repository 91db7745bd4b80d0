/* Tests of the CPU backend's scale models: what a machine's numbers become, and when bytes, flags
 * and collectives are let through.  No time is measured: what is compared follows from the numbers
 * alone, so link.c is taken in whole, with a group that has no threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "../../src/backend/cpu/link.c"
#include "core/comm.h"
#include "core/disk.h"
#include "core/plan.h"

enum { RANKS = 4 };

static void is_near(double seen, double expected)
{
    if (fabs(seen - expected) > 1e-9 * (1 + fabs(expected)))
        fail_msg("%.12g, expected %.12g", seen, expected);
}

/* ---- What numbers become --------------------------------------------------------------------- */

/* A machine of nodes with a number of its own wherever one is scaled. */
static sg_machine machine_of_nodes(void)
{
    sg_machine m;
    sg_machine_plain(&m);
    snprintf(m.name, sizeof m.name, "nodes");
    m.ranks = 8;
    m.topology = SG_NODES;
    m.node_ranks = 2;
    m.link_gbps = 210;
    m.nic_gbps = 50;
    m.node_us = 5;
    m.peer_us = 3;
    m.copy_us = 7;
    m.store_us = 2.5;
    m.coll_us = 4;
    m.flag_us = 1.5;
    m.copy_gbps = 190;
    m.store_gbps = 170;
    m.coll_gbps = 160;
    for (int kind = 0; kind < SG_MACHINE_COLLS; kind++)
        m.coll_curve[kind] = (sg_curve){2, {{1e6, 40.0 + kind}, {8e6, 90.0 + kind}}};
    return m;
}

static void is_scaled(const sg_machine *of, const sg_machine *m, double rows)
{
    const double s = m->copy_gbps / of->copy_gbps;
    const double later = 1 / s / rows;
    assert_true(s > 0);
    is_near(m->store_gbps, of->store_gbps * s);
    is_near(m->coll_gbps, of->coll_gbps * s);
    is_near(m->link_gbps, of->link_gbps * s);
    is_near(m->nic_gbps, of->nic_gbps * s);
    is_near(m->copy_us, of->copy_us * later);
    is_near(m->peer_us, of->peer_us * later);
    is_near(m->node_us, of->node_us * later);
    is_near(m->store_us, of->store_us * later);
    is_near(m->coll_us, of->coll_us * later);
    is_near(m->flag_us, of->flag_us * later);
    assert_int_equal(m->topology, of->topology);
    assert_int_equal(m->node_ranks, of->node_ranks);
    for (int kind = 0; kind < SG_MACHINE_COLLS; kind++) {
        assert_int_equal(m->coll_curve[kind].points, of->coll_curve[kind].points);
        for (int i = 0; i < of->coll_curve[kind].points; i++) {
            is_near(m->coll_curve[kind].point[i].at, of->coll_curve[kind].point[i].at / rows);
            is_near(m->coll_curve[kind].point[i].value, of->coll_curve[kind].point[i].value * s);
        }
    }
}

static void write_machine(const sg_machine *machine, const char *path)
{
    char text[SG_MACHINE_TEXT];
    const size_t length = sg_machine_print(machine, text, sizeof text);
    assert_true(length < sizeof text);
    assert_int_equal(sg_disk_replace(path, text, length), SHINGLE_OK);
}

/* Rates by one factor, latencies by its inverse and the rows, sizes of messages by the rows. */
static void scale_models_scale_all_alike(void **state)
{
    (void)state;
    char path[] = "/tmp/test_cpu_links_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    const sg_machine of = machine_of_nodes();
    sg_machine read;
    write_machine(&of, path);
    assert_int_equal(sg_machine_read(path, &read), SHINGLE_OK);
    for (int rows = 4; rows <= 16; rows += 12) {
        shingle_comm *comm[RANKS];
        const shingle_config config = {
            .scale_of = path, .scale_rows = rows == 16 ? 0 : rows, .threads = 1};
        if (shingle_open(RANKS, &config, comm) != SHINGLE_OK) fail_msg("%s", shingle_error());
        for (int type = 0; type < SG_TYPES; type++)
            is_scaled(&read, &comm[0]->group->machine_of[type], rows);
        shingle_close(RANKS, comm);
    }
    unlink(path);
}

/* ---- When things are let through ------------------------------------------------------------- */

/* A group without threads whose ranks are in a run of a problem in f32. */
typedef struct world {
    sg_cpu cpu;
    struct sg_bound bound;
    sg_cpu_rank rank[RANKS];
    sg_due post[4];
    double taken[64];
} world;

static world *world_of(const sg_machine *machine)
{
    world *const w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->cpu.ranks = RANKS;
    w->cpu.rank = w->rank;
    w->cpu.links_us = w->taken;
    w->bound.problem.type = SG_F32;
    for (int type = 0; type < SG_TYPES; type++) w->cpu.machine[type] = *machine;
    w->cpu.rates[SG_F32] = (sg_rates){.copy_us = machine->copy_us,
                                      .copy_rate = machine->copy_gbps * 1e3,
                                      .store_us = machine->store_us,
                                      .store_rate = machine->store_gbps * 1e3,
                                      .coll_us = machine->coll_us,
                                      .coll_rate = machine->coll_gbps * 1e3,
                                      .flag_us = machine->flag_us};
    for (int r = 0; r < RANKS; r++) {
        w->rank[r].rank = r;
        w->rank[r].run[0].bound = &w->bound;
        w->rank[r].link.cpu = &w->cpu;
        w->rank[r].link.rank = r;
        w->rank[r].link.post = w->post;
        w->rank[r].link.posts.room = 4;
    }
    return w;
}

/* A flag is due when it has passed, and later on another node. */
static void flags_take_longer_to_another_node(void **state)
{
    (void)state;
    sg_machine machine = machine_of_nodes();
    machine.node_us = 1e6;
    world *const w = world_of(&machine);
    sg_link *const link = &w->rank[0].link;
    for (int peer = 1; peer < RANKS; peer++) {
        const double wait = machine.flag_us + (peer < 2 ? 0 : machine.node_us);
        const double before = sg_now_us();
        sg_link_post(link, peer, 7);
        const double after = sg_now_us();
        const double at = link->post[(link->posts.head + link->posts.count - 1) % 4].at_us;
        assert_true(at >= before + wait && at <= after + wait);
        pop(&link->posts);
    }
    free(w);
}

/* Bytes pass all links on their way, some of them more than once, each behind what is there. */
static void bytes_pass_every_link(void **state)
{
    (void)state;
    sg_machine machine = machine_of_nodes();
    machine.topology = SG_PCIE;
    machine.host_staged = 1;
    machine.link_gbps = 20;
    machine.host_gbps = 10;
    world *const w = world_of(&machine);
    sg_link *const link = &w->rank[0].link;
    const sg_links links = {&machine, RANKS, RANKS};
    bool often = false;
    for (int peer = 1; peer < RANKS; peer++) {
        sg_link_use use[SG_LINK_USES];
        const int count = sg_links_path(&links, 0, peer, use);
        double longest = 1e6 / 1e9; /* at a rate that none of them reaches */
        memset(w->taken, 0, sizeof w->taken);
        link->free_us = 0;
        for (int i = 0; i < count; i++) {
            const double us = 1e6 * use[i].weight / (sg_links_gbps(&links, use[i].link) * 1e3);
            longest = fmax(longest, us);
            often = often || use[i].weight > 1;
        }
        is_near(occupy(link, 100, peer, 1e6, 1e9), 100 + longest);
        for (int i = 0; i < count; i++) assert_true(w->taken[use[i].link] <= 100 + longest);
        /* The next one finds them taken. */
        is_near(occupy(link, 0, peer, 1e6, 1e9), 100 + 2 * longest);
        for (int i = 0; i < count; i++) { /* another rank's bytes are on one of them */
            const double us = 1e6 * use[i].weight / (sg_links_gbps(&links, use[i].link) * 1e3);
            memset(w->taken, 0, sizeof w->taken);
            w->taken[use[i].link] = 500;
            link->free_us = 0;
            is_near(occupy(link, 100, peer, 1e6, 1e9), fmax(100 + longest, 500 + us));
        }
    }
    assert_true(often);
    /* The link's own rate, where it is the slowest. */
    memset(w->taken, 0, sizeof w->taken);
    link->free_us = 0;
    is_near(occupy(link, 100, 1, 1e6, 1), 100 + 1e6);
    free(w);
}

/* A collective's rate is that of its message, of which each rank puts so much on the bus: all but
 * its own share, an all-reduce twice. */
static void collectives_go_by_their_message(void **state)
{
    (void)state;
    const sg_machine machine = machine_of_nodes();
    world *const w = world_of(&machine);
    const sg_link *const link = &w->rank[0].link;
    for (int kind = 0; kind < SG_MACHINE_COLLS; kind++) {
        for (double message = 2e6; message < 8e6; message *= 1.5) {
            const double bus = message * (RANKS - 1) / RANKS * (kind == SG_ALL_REDUCE ? 2 : 1);
            const double us = sg_machine_coll_us(&machine, kind, message, bus) - machine.coll_us;
            is_near(coll_rate(link, kind, bus), bus / us);
        }
    }
    w->cpu.links_us = NULL; /* no model of links: one rate */
    is_near(coll_rate(link, SG_ALL_REDUCE, 1e6), machine.coll_gbps * 1e3);
    free(w);
}

/* What collectives of the serial plan put on the bus: all but the least share, an all-reduce twice
 * all but an even one; an exchange what a rank sends to others or gets, whichever is more. */
static void collectives_count_their_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *problem;
        double bytes[RANKS];
    } cases[] = {
        {"gemm_ar:f32:8x6x4:r4", {288, 288, 288, 288}},
        {"gemm_ar:bf16:8x6x4:r4", {144, 144, 144, 144}},
        {"gemm_rs:f32:8x6x4:r4:rows=4,2,1,1", {168, 168, 168, 168}},
        {"ag_gemm:f32:8x6x4:r4:rows=4,2,1,1", {112, 112, 112, 112}},
        {"a2a_gemm:f32:4x6x4:r4:counts=0,4,0,0/0,0,1,0/0,0,3,2/4,0,0,2", {64, 64, 32, 64}}};
    const shingle_plan_options serial = {.strategy = "serial"};
    const sg_machine machine = machine_of_nodes();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world *const w = world_of(&machine);
        struct sg_bound bound[RANKS];
        sg_work work[RANKS];
        shingle_plan *plan = NULL;
        sg_cpu_coll coll = {.open = true};
        memset(bound, 0, sizeof bound);
        memset(work, 0, sizeof work);
        w->cpu.coll = &coll;
        if (shingle_plan_for(cases[i].problem, NULL, &serial, &plan) != SHINGLE_OK)
            fail_msg("%s", shingle_error());
        for (int r = 0; r < RANKS; r++) {
            sg_sched *const s = &bound[r].sched;
            bound[r].problem = plan->problem;
            assert_int_equal(sg_plan_build(&plan->problem, plan->strategy, &plan->knobs, r, s), 0);
            while (s->step[coll.step[r]].kind != SG_COLL) coll.step[r]++;
            work[r].rank = r;
            w->rank[r].run[0].bound = &bound[r];
            w->rank[r].run[0].work = &work[r];
        }
        for (int r = 0; r < RANKS; r++) is_near(sg_coll_bytes(&w->cpu, r, 0), cases[i].bytes[r]);
        for (int r = 0; r < RANKS; r++) sg_sched_free(&bound[r].sched);
        shingle_plan_free(plan);
        free(w);
    }
}

/* A copy goes at the rate of who carries it, an engine or SMs; within a rank nothing holds it
 * back. */
static void copies_go_at_the_rate_of_their_carrier(void **state)
{
    enum { BYTES = 64 * 64 * 4 };
    (void)state;
    const sg_machine machine = machine_of_nodes();
    for (int by = SG_BY_ENGINE; by <= SG_BY_SMS; by++) {
        for (int peer = 0; peer < 2; peer++) {
            world *const w = world_of(&machine);
            sg_link *const link = &w->rank[0].link;
            sg_problem p;
            uint8_t from[BYTES], to[BYTES];
            uint8_t *inbox[RANKS] = {to, to, to, to};
            for (int i = 0; i < BYTES; i++) from[i] = (uint8_t)(i % 251), to[i] = 0;
            assert_int_equal(sg_problem_parse("gemm:f32:64x64x64:r4", &p), SHINGLE_OK);
            sg_sched *const s = &w->bound.sched;
            sg_sched_begin(s, &p, 0);
            const int source = sg_sched_buf(s, SG_LOCAL, "source", 64, 64, SG_FIXED);
            const int target = sg_sched_buf(s, SG_SYM, "inbox", 64, 64, SG_FIXED);
            sg_sched_copy(s, 0, (sg_carrier)by, sg_area_of(0, source, 0, 64, 0, 64));
            sg_sched_to(s, sg_area_of(peer, target, 0, 64, 0, 64));
            w->bound.local = from;
            w->bound.sym[0] = inbox;
            w->cpu.links_us = NULL;
            pthread_mutex_lock(&w->cpu.mutex);
            link->move[0] = (sg_move){.step = 0, .coll = -1, .next_us = 100};
            link->moves.count = 1;
            send_move(link);
            pthread_mutex_unlock(&w->cpu.mutex);
            const double gbps = by == SG_BY_ENGINE ? machine.copy_gbps : machine.store_gbps;
            is_near(link->land_us, peer > 0 ? 100 + BYTES / (gbps * 1e3) : 0);
            assert_int_equal(link->piece, BYTES);
            assert_int_equal(link->sent_to, peer);
            assert_memory_equal(from, to, BYTES);
            sg_sched_free(s);
            sg_problem_free(&p);
            free(w);
        }
    }
}

/* What an engine brings to a second peer begins when the first one has all, and costs what another
 * peer does. */
static void an_engine_goes_from_peer_to_peer(void **state)
{
    (void)state;
    const sg_machine machine = machine_of_nodes();
    world *const w = world_of(&machine);
    sg_link *const link = &w->rank[0].link;
    sg_problem p;
    uint8_t from[16] = {0}, to[16];
    uint8_t *inbox[RANKS] = {to, to, to, to};
    assert_int_equal(sg_problem_parse("gemm:f32:2x2x2:r4", &p), SHINGLE_OK);
    sg_sched *const s = &w->bound.sched;
    sg_sched_begin(s, &p, 0);
    const int source = sg_sched_buf(s, SG_LOCAL, "source", 2, 2, SG_FIXED);
    const int target = sg_sched_buf(s, SG_SYM, "inbox", 2, 2, SG_FIXED);
    sg_sched_copy(s, 0, SG_BY_ENGINE, sg_area_of(0, source, 0, 2, 0, 2));
    for (int peer = 1; peer < 3; peer++) sg_sched_to(s, sg_area_of(peer, target, 0, 2, 0, 2));
    w->bound.local = from;
    w->bound.sym[0] = inbox;
    w->cpu.held = true;
    link->engine_peer = -1;
    link->move[0] = (sg_move){.step = 0, .coll = -1, .ready_us = 100};
    link->moves = (sg_ring){.count = 1, .room = SG_MAX_LANES};
    is_near(move_time(link), 100 + machine.copy_us);
    pthread_mutex_lock(&w->cpu.mutex);
    send_move(link);
    land_move(link);
    pthread_mutex_unlock(&w->cpu.mutex);
    assert_true(link->land_us > 100 + machine.copy_us);
    is_near(move_time(link), link->land_us + machine.copy_us + machine.node_us + machine.peer_us);
    sg_sched_free(s);
    sg_problem_free(&p);
    free(w);
}

/* A ring that goes round its end when it grows keeps what is in it, and the order. */
static void rings_grow_in_order(void **state)
{
    (void)state;
    int *items = NULL;
    sg_ring ring = {.room = 0};
    assert_int_equal(reserve(&items, &ring, 3, sizeof *items), SHINGLE_OK);
    for (int i = 0; i < 5; i++) {
        items[push(&ring)] = i;
        if (i < 2) pop(&ring);
    }
    assert_int_equal(reserve(&items, &ring, 7, sizeof *items), SHINGLE_OK);
    assert_int_equal(ring.room, 7);
    for (int i = 2; i < 5; i++, pop(&ring)) assert_int_equal(items[ring.head], i);
    assert_int_equal(ring.count, 0);
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scale_models_scale_all_alike),
        cmocka_unit_test(flags_take_longer_to_another_node),
        cmocka_unit_test(bytes_pass_every_link),
        cmocka_unit_test(collectives_go_by_their_message),
        cmocka_unit_test(collectives_count_their_bytes),
        cmocka_unit_test(copies_go_at_the_rate_of_their_carrier),
        cmocka_unit_test(an_engine_goes_from_peer_to_peer),
        cmocka_unit_test(rings_grow_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
