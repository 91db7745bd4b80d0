/* link.c -- one thread a rank that moves real bytes and holds them back to the machine's rates.
 *
 *     copies        one after the other: copy_us, then bytes / copy_rate
 *     stores        tiles that workers have staged: bytes / store_rate, and store_us until they and
 *                   the flags behind them are there, while the next tiles travel already
 *     collectives   coll_us, then bus bytes / coll_rate
 *     flags         seen by the peer flag_us after they are raised
 *
 * All bytes share the rank's way out, a piece at a time; copies and stores take turns.  A scale
 * model also has the receiver's way in and whatever its machine's topology puts between the two
 * (core/links.h): a piece passes each of them behind what came there before, at the link's own
 * rate, and lands when it has passed them all, so that ranks that meet at a link share it piece by
 * piece.  A piece is copied when it sets off and counts as there when it lands.  Landing times
 * follow from each other, not from when the thread woke up, so rates hold on average however late
 * it wakes.  Without a scale model nothing is held back, and workers store tiles by themselves. */
#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/cpu.h"
#include "core/links.h"

/* A piece travels this long: short enough that copies and tiles share the link fairly and time-outs
 * see progress, long enough that waking up for it costs little. */
static const double piece_us = 2000;
enum { PIECE_BYTES = 1 << 20, LEAST_PIECE_BYTES = 4096 };

/* ---- Rings ----------------------------------------------------------------------------------- */

static int32_t push(sg_ring *ring)
{
    SG_CHECK(ring->count < ring->room);
    return (ring->head + ring->count++) % ring->room;
}

/* DUE behind all that are due by then: what goes to a far peer is due later than
 * what follows it to a near one. */
static void push_due(sg_ring *ring, sg_due *list, const sg_due *due)
{
    int32_t at = push(ring);
    for (int32_t i = ring->count - 1; i > 0; i--) {
        const int32_t before = (ring->head + i - 1) % ring->room;
        if (list[before].at_us <= due->at_us) break;
        list[at] = list[before];
        at = before;
    }
    list[at] = *due;
}

static void pop(sg_ring *ring)
{
    ring->head = (ring->head + 1) % ring->room;
    ring->count--;
}

/* Makes *ITEMS hold at least NEED, and keeps what is in it. */
static shingle_status reserve(void *items, sg_ring *ring, int64_t need, size_t size)
{
    if (need <= ring->room) return SHINGLE_OK;
    char *const bigger = need <= INT32_MAX ? malloc((size_t)need * size) : NULL;
    if (bigger == NULL)
        return sg_fail(SHINGLE_ENOMEM, "no memory for a link of %lld entries", (long long)need);
    char *old = NULL;
    memcpy(&old, items, sizeof old);
    for (int32_t i = 0; i < ring->count; i++)
        memcpy(bigger + (size_t)i * size, old + (size_t)((ring->head + i) % ring->room) * size,
               size);
    free(old);
    memcpy(items, &bigger, sizeof bigger);
    ring->head = 0;
    ring->room = (int32_t)need;
    return SHINGLE_OK;
}

shingle_status sg_link_reserve(sg_link *link, const sg_cpu_plan *plan)
{
    SG_TRY(reserve(&link->store, &link->stores, plan->stores, sizeof *link->store));
    SG_TRY(reserve(&link->arrival, &link->arrivals, plan->stores, sizeof *link->arrival));
    return reserve(&link->post, &link->posts, plan->posts, sizeof *link->post);
}

/* ---- What lanes and workers ask for ---------------------------------------------------------- */

static sg_cpu_rank *rank_of(const sg_link *link)
{
    return &link->cpu->rank[link->rank];
}

static const sg_rates *rates_of(const sg_link *link)
{
    return &link->cpu->rates[sg_lane_run(rank_of(link))->bound->problem.type];
}

/* The machine whose links these are for the run at hand. */
static sg_links links_of(const sg_link *link)
{
    const sg_cpu *const cpu = link->cpu;
    const sg_type type = sg_lane_run(rank_of(link))->bound->problem.type;
    return (sg_links){.machine = &cpu->machine[type], .ranks = cpu->ranks, .all = cpu->ranks};
}

/* Added to what goes to PEER if that is on another node. */
static double far_us(const sg_link *link, int peer)
{
    if (link->cpu->links_us == NULL || peer < 0 || peer == link->rank) return 0;
    const sg_links links = links_of(link);
    return sg_links_far_us(&links, link->rank, peer);
}

static void ask(sg_link *link)
{
    pthread_cond_signal(&link->wake);
}

void sg_link_copy(sg_link *link, int32_t step)
{
    rank_of(link)->linked++;
    link->move[push(&link->moves)] = (sg_move){.step = step, .coll = -1, .ready_us = sg_now_us()};
    ask(link);
}

void sg_link_coll(sg_link *link, int32_t step, int32_t coll, int64_t elements)
{
    rank_of(link)->linked++;
    link->move[push(&link->moves)] =
        (sg_move){.step = step, .coll = coll, .total = elements, .ready_us = sg_now_us()};
    ask(link);
}

void sg_link_store(sg_link *link, const sg_store *store)
{
    rank_of(link)->linked += store->last;
    link->store[push(&link->stores)] = *store;
    ask(link);
}

void sg_link_post(sg_link *link, int peer, int32_t flag)
{
    const sg_due due = {.at_us = sg_now_us() + rates_of(link)->flag_us + far_us(link, peer),
                        .step = -1,
                        .peer = peer,
                        .flag = flag};
    push_due(&link->posts, link->post, &due);
    ask(link);
}

void sg_link_watch(sg_link *link)
{
    ask(link);
}

bool sg_link_is_idle(const sg_link *link)
{
    return link->moves.count + link->stores.count + link->arrivals.count + link->posts.count == 0 &&
           !link->busy;
}

void sg_link_drop(sg_link *link)
{
    link->moves.count = link->stores.count = link->arrivals.count = link->posts.count = 0;
    link->air = SG_AIR_NOTHING;
    link->free_us = link->engine_us = 0;
    link->engine_peer = -1;
    ask(link);
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* A copy's source and one of its destinations. */
typedef struct ends {
    const sg_run *run;
    int want, count; /* which destination, and how many there are */
    int peer;
    sg_place from, to;
    int64_t rows, row_bytes;
} ends;

static void find_end(void *context, const sg_access *access)
{
    ends *const e = context;
    const sg_area *const area = &access->area;
    if (access->role == SG_ROLE_SRC) {
        e->from = sg_exec_address(e->run, area);
        e->rows = area->rows;
        e->row_bytes = (int64_t)area->cols * sg_type_bytes(e->from.type);
    }
    if (access->what != SG_WRITES || e->count++ != e->want) return;
    e->peer = area->rank;
    e->to = sg_exec_address(e->run, area);
}

static ends ends_of(const sg_run *run, const sg_move *move)
{
    ends e = {.run = run, .want = move->to};
    sg_step_access(&run->bound->sched, move->step, NULL, find_end, &e);
    return e;
}

/* Bytes [FROM, FROM + BYTES) of a matrix whose rows stand one behind the other. */
static void copy_bytes(const ends *e, int64_t from, int64_t bytes)
{
    while (bytes > 0) {
        const int64_t row = from / e->row_bytes;
        const int64_t at = from % e->row_bytes;
        const int64_t here = sg_min(bytes, e->row_bytes - at);
        memcpy(e->to.data + row * e->to.stride_bytes + at,
               e->from.data + row * e->from.stride_bytes + at, (size_t)here);
        from += here;
        bytes -= here;
    }
}

static int64_t piece_of(double rate, int64_t left)
{
    if (rate <= 0) return sg_min(left, PIECE_BYTES);
    const int64_t bytes = (int64_t)(rate * piece_us);
    return sg_min(left, bytes > LEAST_PIECE_BYTES ? bytes : LEAST_PIECE_BYTES);
}

/* ---- In the air ------------------------------------------------------------------------------ */

/* BYTES to PEER (-1: a collective's) leave when the link is free and not before READY_US; when they
 * land, having passed all other links on their way. */
static double occupy(sg_link *link, double ready_us, int peer, double bytes, double rate)
{
    double *const taken = link->cpu->links_us;
    link->sent_to = peer;
    link->sent_bytes = bytes;
    link->sent_us = link->free_us > ready_us ? link->free_us : ready_us;
    if (rate <= 0) {
        link->sent_us = sg_now_us();
        return 0;
    }
    double land_us = link->sent_us + bytes / rate;
    if (taken != NULL && peer != link->rank) {
        const sg_links links = links_of(link);
        sg_link_use use[SG_LINK_USES];
        const int count = peer < 0 ? sg_links_ports(&links, link->rank, use)
                                   : sg_links_path(&links, link->rank, peer, use);
        for (int i = 0; i < count; i++) {
            double *const until = &taken[use[i].link];
            const double start = *until > link->sent_us ? *until : link->sent_us;
            *until = start + bytes * use[i].weight / (sg_links_gbps(&links, use[i].link) * 1e3);
            if (land_us < *until) land_us = *until;
        }
    }
    return link->free_us = land_us;
}

/* The rate of a collective that puts BYTES on the bus, after its start-up. */
static double coll_rate(const sg_link *link, int kind, double bytes)
{
    const sg_rates *const rates = rates_of(link);
    if (link->cpu->links_us == NULL || link->cpu->ranks < 2) return rates->coll_rate;
    const double others = link->cpu->ranks - 1;
    const double message = bytes * link->cpu->ranks / (others * (kind == SG_ALL_REDUCE ? 2 : 1));
    const double us =
        sg_machine_coll_us(links_of(link).machine, kind, message, bytes) - rates->coll_us;
    return us > 0 ? bytes / us : 0;
}

/* Sets the first copy or collective's next piece off.  The mutex is let go while bytes move. */
static void send_move(sg_link *link)
{
    sg_cpu *const cpu = link->cpu;
    sg_move *const move = &link->move[link->moves.head];
    const sg_run *const run = sg_lane_run(rank_of(link));
    const sg_rates *const rates = rates_of(link);
    const sg_move now = *move;
    link->air = SG_AIR_MOVE;
    link->busy = true;
    if (now.coll >= 0) {
        const double bytes = sg_coll_bytes(cpu, link->rank, now.coll);
        const double share = now.total > 0 ? bytes / (double)now.total : 0; /* per element */
        const int kind = run->bound->sched.step[now.step].u.coll.kind;
        const double rate = cpu->held ? coll_rate(link, kind, bytes) : 0;
        link->piece = piece_of(share > 0 ? rate / share : 0, now.total - now.done);
        link->land_us = occupy(link, now.next_us, -1, (double)link->piece * share, rate);
        pthread_mutex_unlock(&cpu->mutex);
        sg_coll_move(cpu, link->rank, now.coll, now.done, now.done + link->piece);
    } else {
        const ends e = ends_of(run, &now);
        const bool by_engine = run->bound->sched.step[now.step].u.copy.carrier == SG_BY_ENGINE;
        const double out_rate = by_engine ? rates->copy_rate : rates->store_rate;
        const double rate = e.peer == link->rank ? 0 : out_rate;
        move->total = e.rows * e.row_bytes;
        link->piece = piece_of(rate, move->total - now.done);
        link->land_us = occupy(link, now.next_us, e.peer, (double)link->piece, rate);
        pthread_mutex_unlock(&cpu->mutex);
        copy_bytes(&e, now.done, link->piece);
    }
    pthread_mutex_lock(&cpu->mutex);
    link->busy = false;
}

static void send_store(sg_link *link)
{
    sg_cpu *const cpu = link->cpu;
    const sg_store store = link->store[link->stores.head];
    const sg_cpu_plan *const plan = sg_lane_plan(rank_of(link));
    const sg_rates *const rates = rates_of(link);
    const ends e = {
        .from = {plan->staging + store.slot * plan->slot_bytes, store.row_bytes, store.to.type},
        .to = store.to,
        .rows = store.rows,
        .row_bytes = store.row_bytes};
    const int64_t bytes = store.rows * store.row_bytes;
    link->air = SG_AIR_STORE;
    link->busy = true;
    link->land_us = occupy(link, store.ready_us, store.peer, (double)bytes, rates->store_rate);
    pthread_mutex_unlock(&cpu->mutex);
    copy_bytes(&e, 0, bytes);
    pthread_mutex_lock(&cpu->mutex);
    link->busy = false;
}

/* ---- Landing --------------------------------------------------------------------------------- */

static void land_store(sg_link *link)
{
    const sg_store store = link->store[link->stores.head];
    pop(&link->stores);
    sg_cpu_plan *const plan = sg_lane_plan(rank_of(link));
    sg_trace_piece(link, store.step, &store.visit);
    if (store.frees) plan->slot_used[store.slot] = 0;
    const sg_due due = {.at_us =
                            link->land_us + rates_of(link)->store_us + far_us(link, store.peer),
                        .step = store.step,
                        .visit = store.visit,
                        .weight = store.weight};
    if (store.last) push_due(&link->arrivals, link->arrival, &due);
    sg_pool_wake(link->cpu);
}

static void land_move(sg_link *link)
{
    sg_cpu *const cpu = link->cpu;
    sg_cpu_rank *const rank = rank_of(link);
    sg_move *const move = &link->move[link->moves.head];
    if (move->done == 0) link->sent_us = move->from_us;
    sg_trace_piece(link, move->step, NULL);
    move->done += link->piece;
    move->next_us = link->land_us;
    if (move->done < move->total) return;
    if (move->coll < 0) {
        link->engine_us = link->land_us;
        if (++move->to < ends_of(sg_lane_run(rank), move).count) {
            move->done = 0;
            move->started = false;
            return;
        }
    }
    const sg_move done = *move;
    pop(&link->moves);
    rank->linked--;
    if (done.coll >= 0)
        sg_coll_part_done(cpu, done.coll);
    else
        sg_lane_done(cpu, rank, done.step, NULL, sg_lane_plan(rank)->step[done.step].weight, false);
}

static void land(sg_link *link)
{
    const bool is_store = link->air == SG_AIR_STORE;
    link->air = SG_AIR_NOTHING;
    sg_pool_progress(link->cpu);
    if (is_store)
        land_store(link);
    else
        land_move(link);
}

/* Flags and finished units whose time has come; when the next one's comes. */
static double deliver(sg_link *link, double now)
{
    sg_cpu *const cpu = link->cpu;
    sg_cpu_rank *const rank = rank_of(link);
    while (link->arrivals.count > 0 && link->arrival[link->arrivals.head].at_us <= now) {
        const sg_due due = link->arrival[link->arrivals.head];
        pop(&link->arrivals);
        rank->linked--;
        sg_lane_done(cpu, rank, due.step, &due.visit, due.weight, true);
    }
    while (link->posts.count > 0 && link->post[link->posts.head].at_us <= now) {
        const sg_due due = link->post[link->posts.head];
        pop(&link->posts);
        sg_run_post(sg_lane_run(rank), due.peer, due.flag);
        cpu->look |= UINT64_C(1) << due.peer;
        sg_pool_progress(cpu);
        sg_pool_wake(cpu);
    }
    double next = DBL_MAX;
    if (link->arrivals.count > 0) next = link->arrival[link->arrivals.head].at_us;
    if (link->posts.count > 0 && link->post[link->posts.head].at_us < next)
        next = link->post[link->posts.head].at_us;
    return next;
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* What a copy or a collective costs before its first byte. */
static double latency_us(sg_link *link, const sg_move *move)
{
    const sg_rates *const rates = rates_of(link);
    if (move->coll >= 0) return rates->coll_us;
    const sg_run *const run = sg_lane_run(rank_of(link));
    if (sg_step_is_push(&run->bound->sched.step[move->step])) return 0;
    if (link->cpu->links_us == NULL) return rates->copy_us;
    const int peer = ends_of(sg_lane_run(rank_of(link)), move).peer;
    const bool changes = link->engine_peer >= 0 && link->engine_peer != peer;
    link->engine_peer = peer;
    return rates->copy_us + far_us(link, peer) + (changes ? links_of(link).machine->peer_us : 0);
}

/* When the first copy or collective may send its next piece. */
static double move_time(sg_link *link)
{
    if (link->moves.count == 0) return DBL_MAX;
    sg_move *const move = &link->move[link->moves.head];
    if (!move->started) {
        const double floor_us = latency_us(link, move);
        const double from =
            move->coll < 0 && link->engine_us > move->ready_us ? link->engine_us : move->ready_us;
        move->from_us = link->cpu->held ? from : sg_now_us();
        move->next_us = link->cpu->held ? from + floor_us : 0;
        move->started = true;
    }
    return move->next_us;
}

/* Sets the next piece off, if one may; when to look again. */
static double send(sg_link *link, double now)
{
    const double move_us = move_time(link);
    const bool can_move = move_us <= now;
    const bool can_store = link->stores.count > 0;
    if (!can_move && !can_store) return move_us;
    const bool is_store = can_store && (!can_move || link->prefer_store);
    link->prefer_store = !is_store;
    if (link->cpu->delay_us > 0) {
        link->busy = true;
        pthread_mutex_unlock(&link->cpu->mutex);
        sg_pool_delay(link->cpu, &link->random);
        pthread_mutex_lock(&link->cpu->mutex);
        link->busy = false;
        if (link->cpu->failed) return now;
    }
    if (is_store)
        send_store(link);
    else
        send_move(link);
    return now;
}

static void *carry(void *context)
{
    sg_link *const link = context;
    sg_cpu *const cpu = link->cpu;
    pthread_mutex_lock(&cpu->mutex);
    while (!cpu->stop) {
        if (cpu->failed) {
            link->air = SG_AIR_NOTHING;
            sg_pool_settle(cpu);
            pthread_cond_wait(&link->wake, &cpu->mutex);
            continue;
        }
        const double now = sg_now_us();
        if (link->air != SG_AIR_NOTHING && link->land_us <= now) land(link);
        double next = deliver(link, now);
        while (cpu->look != 0) { /* what begins now may post to this very link */
            sg_lane_advance(cpu);
            next = deliver(link, now);
        }
        const double other = link->air != SG_AIR_NOTHING ? link->land_us : send(link, now);
        if (other < next) next = other;
        if (next <= now || cpu->failed) continue;
        const double call_us = sg_pool_judge_calls(cpu);
        if (call_us < next) next = call_us;
        if (cpu->failed) continue;
        if (next == DBL_MAX) {
            pthread_cond_wait(&link->wake, &cpu->mutex);
        } else {
            const struct timespec until = sg_deadline(next);
            pthread_cond_timedwait(&link->wake, &cpu->mutex, &until);
        }
    }
    pthread_mutex_unlock(&cpu->mutex);
    return NULL;
}

shingle_status sg_link_start(sg_cpu *cpu, sg_link *link, int rank)
{
    link->cpu = cpu;
    link->rank = rank;
    link->engine_peer = -1;
    link->moves.room = SG_MAX_LANES;
    sg_cond_init(&link->wake);
    const int error = sg_thread_start(&link->thread, carry, link);
    if (error != 0)
        return sg_fail(SHINGLE_EBACKEND, "cannot start the link of rank %d: %s", rank,
                       strerror(error));
    link->started = true;
    return SHINGLE_OK;
}

void sg_link_stop(sg_link *link)
{
    if (link->cpu == NULL) return;
    if (link->started) {
        pthread_mutex_lock(&link->cpu->mutex);
        pthread_cond_signal(&link->wake);
        pthread_mutex_unlock(&link->cpu->mutex);
        pthread_join(link->thread, NULL);
    }
    pthread_cond_destroy(&link->wake);
    free(link->store);
    free(link->arrival);
    free(link->post);
}
