/* gemm.cu -- the host side of products: which kernel serves a launch, and its start. */
#include "core/blocks.h"
#include "kernel/deal.cuh"
#include "kernel/maps.cuh"

enum { MAX_INSTANCES = 192 };

/* ---- The table ------------------------------------------------------------------------------- */

const sg_instance *sg_instance_table(int *count_out)
{
    static sg_instance table[MAX_INSTANCES];
    static const int count = [] {
        int n = 0;
        n += sg_instance_bf16(table + n);
        n += sg_instance_bf16_sums(table + n);
        n += sg_instance_bf16_tagged(table + n);
#ifndef SHINGLE_NO_F16
        n += sg_instance_f16(table + n);
        n += sg_instance_f16_sums(table + n);
        n += sg_instance_f16_tagged(table + n);
#endif
        return n;
    }();
    *count_out = count;
    return table;
}

static int current_arch(int *sms_out)
{
    int device = 0, major = 0, minor = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    cudaDeviceGetAttribute(sms_out, cudaDevAttrMultiProcessorCount, device);
    return 10 * major + minor;
}

int sg_kernel_tiles(enum sg_kernel_type type, sg_kernel_tile *tiles_out, int room)
{
    int sms = 0, all = 0, count = 0;
    const sg_instance *table = sg_instance_table(&all);
    const bool hopper = current_arch(&sms) == 90;
    for (int i = 0; hopper && i < 2 * all && count < room; ++i) { /* such with addends first */
        const sg_instance *k = &table[i % all];
        bool known = k->type != (int)type || k->fold != (i < all ? FOLD_ADDENDS : FOLD_NONE);
        for (int j = 0; j < count; ++j) known |= tiles_out[j].m == k->bm && tiles_out[j].n == k->bn;
        if (!known) tiles_out[count++] = sg_kernel_tile{k->bm, k->bn, 0, 0, 0, i < all, 0, 0};
    }
    for (int i = 0; i < all; ++i)
        for (int j = 0; j < count; ++j) {
            const bool same = table[i].type == (int)type && table[i].bm == tiles_out[j].m &&
                              table[i].bn == tiles_out[j].n;
            tiles_out[j].bare |= same && table[i].fold == FOLD_NONE;
            tiles_out[j].narrow += same ? table[i].narrow : 0; /* one has any */
            tiles_out[j].pingpong |= same && table[i].math == SG_KERNEL_PINGPONG;
            tiles_out[j].parts |= same && table[i].fold == FOLD_PARTS;
            if (same && table[i].fold == FOLD_TAGGED) tiles_out[j].tagged |= SG_KERNEL_ONE_HOP;
            if (same && table[i].fold == FOLD_HOPS) tiles_out[j].tagged |= SG_KERNEL_TO_OWNERS;
            if (same && table[i].fold == FOLD_GATHER) tiles_out[j].tagged |= SG_KERNEL_GATHERS;
        }
    /* The slow ones': of other GPUs, and of types that none here has. */
    if (count == 0 && room > 0) tiles_out[count++] = sg_kernel_tile{128, 128, 0, 0, 1, 1, 0, 0};
    return count;
}

/* Of what every block reads, and of what one block reads and nobody again. */
static const uint64_t LAST_OUT = UINT64_C(0x14f0000000000000);
static const uint64_t FIRST_OUT = UINT64_C(0x12f0000000000000);

/* ---- Choosing -------------------------------------------------------------------------------- */

static bool serves(const sg_kernel_gemm *g, const sg_instance *k, const needs *n)
{
    const bool gathers = g->param.takes > 0;
    const Fold adds = n->owners            ? FOLD_HOPS
                      : n->tagged          ? FOLD_TAGGED
                      : n->part_place >= 0 ? FOLD_PARTS
                      : n->adds            ? FOLD_ADDENDS
                      : gathers            ? FOLD_GATHER
                                           : FOLD_NONE;
    if (gathers && adds != FOLD_GATHER) return false;
    const Fold fold = g->want_split > 1 ? FOLD_SLICES : adds;
    const int cluster = k->cm * k->cn;
    if (k->type != g->param.program.type || k->bm != g->param.tile_m || k->bn != g->param.tile_n ||
        k->narrow != g->param.narrow)
        return false;
    if (k->fold != fold || (n->onto && !k->onto)) return false;
    if (n->goes_on && fold > FOLD_ADDENDS) return false;
    if (n->col_step < (k->piece_cols <= 64 ? k->piece_cols : ANY_COL)) return false;
    if (n->odd_rows % instance_line(k->piece_cols) != 0) return false;
    if (g->want_cluster > 0 && cluster != g->want_cluster) return false;
    if (g->want_math != SG_KERNEL_ANY_MATH && k->math != g->want_math) return false;
    /* Ping-pong, addends come last, behind an epilogue and behind the zeros that fill a place. */
    if (k->math == SG_KERNEL_PINGPONG && n->adds &&
        (n->late || n->waits || n->sums_in_places || g->param.epilogue))
        return false;
    if (cluster == 1) return true;
    if (n->seats && k->math != SG_KERNEL_PINGPONG) return false;
    if (g->want_cluster > 0 && !n->per_tile) return true;
    int64_t tiles, units;
    count_tiles(g, k, &tiles, &units);
    const int blocks = g->want_blocks > 0 ? g->want_blocks : g->sms;
    if (n->per_tile || blocks % cluster != 0) return false;
    /* A line of a stage whose row begins at odd 16 bytes lies in five sectors of the L2 and not in
     * four, and is joined with nobody's: single blocks take up to 60 % longer by it, clusters that
     * share 5 to 25 (results/gpu/odd_h200_v1.json). */
    if (n->straddles) return sg_blocks_share_odd(units * cluster, tiles);
    /* Tiles that share ask the L2 for less.  It joins what SMs ask for in step, which those that
     * wait for rows are not; but a block without a tile costs more than sharing A saves, and in
     * more than two waves 128x192 loses 2 % by sharing B (results/gpu/tries_4xh100_v2.json). */
    if (k->fold == FOLD_NONE && k->cn > 1 && k->bn <= 128)
        return n->waits && units * cluster == tiles;
    if (k->fold == FOLD_NONE && k->bn == 192 && (!n->waits || tiles > 2 * blocks)) return false;
    return units * cluster * 50 <= tiles * 51;
}

/* Words of peers that a block waits for one behind the other, at most, for a tile of P. */
static int64_t words_of(const sg_kernel_gemm *g, const sg_patch *p)
{
    int64_t words = 0;
    for (int i = 0; i < p->waits; ++i) {
        const sg_wait *w = &g->lists->wait[p->wait0 + i];
        words += w->per == SG_PER_ROWS ? sg_walk_div(g->param.tile_m, w->chunk) + 1 : 1;
    }
    words *= sg_walk_slabs(p);
    for (int i = 0; i < p->adds; ++i) words += g->lists->add[p->add0 + i].awaited != 0;
    return words;
}

/* Naps, each a quarter of a microsecond or more, of who waits for another role: a limit for each
 * word that this one may have to wait for, of two tiles, the hellos and the gate, and four for what
 * it computes.  No less than ten seconds each, since a launch that starts early counts from then
 * on, behind whatever runs before it.  No more than a quarter of an hour, which is what the type
 * holds. */
static uint32_t patience_of(const sg_kernel_gemm *g)
{
    const uint64_t limit_ns = g->param.program.limit_ns, most = UINT32_MAX - 1;
    const uint64_t least_ns = 10000000000;
    const uint64_t naps = (limit_ns > least_ns ? limit_ns : least_ns) / 1000 * 4;
    int64_t words = 0, visit = 0;
    for (int i = 0; i < g->param.patches; ++i) {
        const sg_patch *p = &g->lists->patch[g->param.patch0 + i];
        visit = words_of(g, p) + (p->goes_on ? visit : 0);
        words = words < visit ? visit : words;
    }
    words = 2 * words + (g->param.leaves ? g->ranks : 0) + 1 + 4;
    return (uint32_t)(naps < most / (uint64_t)words ? naps * (uint64_t)words : most);
}

/* -1: there is none. */
static int first_that_serves(const sg_kernel_gemm *g, const needs *n)
{
    int all;
    const sg_instance *table = sg_instance_table(&all);
    for (int i = 0; i < all; ++i)
        if (serves(g, &table[i], n)) return i;
    return -1;
}

static const char *aim_fast(sg_kernel_gemm *g, needs *n)
{
    int all;
    g->param.joined = n->joined;
    if (n->joined) g->param.first = n->first;
    const sg_instance *table = sg_instance_table(&all);
    n->seats = wants_seats(g, n);
    int best = first_that_serves(g, n);
    if (best < 0 && n->seats) { /* some tiles have clusters alone */
        n->seats = false;
        best = first_that_serves(g, n);
    }
    if (best < 0) return "there is no fast kernel for this tile";
    if (n->waits && g->param.program.rank == nullptr) return "there are no flags to wait for";
    const sg_instance *k = &table[best];
    const char *why = make_maps(g, k, n);
    if (why != nullptr) return why;
    int64_t tiles, units;
    count_tiles(g, k, &tiles, &units);
    const int cluster = k->cm * k->cn;
    const bool seated = cluster == 1 && n->seats;
    g->param.tiled = n->places;
    g->param.onto = n->onto;
    g->param.goes_on = n->goes_on;
    g->param.parts = n->parts > 0 ? n->parts : 0;
    g->param.part_place = n->part_place;
    g->param.split = g->want_split > 1 ? g->want_split : 1;
    g->param.skew = g->param.split > 1 ? g->want_skew : 0;
    g->param.units = (int32_t)(units * g->param.split);
    if (n->b_read <= n->b_most) {
        g->param.keep_a = LAST_OUT;
        g->param.keep_b = FIRST_OUT;
    }
    /* Few rows are bound by memory; many share what they load, and ask for it at once anyway. */
    g->param.ahead = 64 * (n->a_rows <= 128 ? 8 : n->a_rows <= 512 ? 1 : 0);
    const int64_t most = g->want_blocks > 0 ? g->want_blocks : g->sms;
    int couriers = couriers_for(g, most, cluster);
    const int room = (int)most - couriers;
    g->param.workers = workers_for(g, room / cluster) * cluster;
    g->early = g->param.early = early_steps(g, k, couriers);
    g->param.heralds = heralds_for(g, cluster, room - g->param.workers, &couriers);
    if (seated) g->param.workers = (int)most - couriers - g->param.heralds;
    g->blocks = g->param.workers + couriers + g->param.heralds;
    g->param.whole = g->param.heralds == 0 && whole_steps(g, couriers);
    g->param.pauses = pauses_for(g);
    g->param.patience = patience_of(g);
    why = deal_first(g, k);
    if (why != nullptr) return why;
    g->param.seats = seated && deal_seats(g) ? g->seats : nullptr;
    if (cudaFuncSetAttribute(k->function, cudaFuncAttributeMaxDynamicSharedMemorySize, k->smem) !=
        cudaSuccess)
        return "the GPU refuses the kernel's shared memory";
    g->instance = best;
    return nullptr;
}

/* ONTO: who stores may add. */
static const char *aim_by(sg_kernel_gemm *g, bool onto, needs *n)
{
    const char *why = read_needs(g, onto, n);
    return why != nullptr ? why : aim_fast(g, n);
}

static const void *slow_kernel(const sg_kernel_gemm *g)
{
    return g->instance == -2 ? sg_instance_sm80(g->param.program.type)
                             : sg_instance_any(g->param.program.type);
}

/* Words of TAGGED data are eight neighbours, which two threads beside each other have in the
 * slowest kernel alone. */
static const char *aim_slow(sg_kernel_gemm *g, bool tagged)
{
    int64_t tiles = 0;
    for (int i = 0; i < g->param.patches; ++i) {
        const sg_patch *p = &g->lists->patch[g->param.patch0 + i];
        tiles += sg_walk_visits(p, g->param.tile_m, g->param.tile_n);
    }
    if (g->want_split > 1) return "no kernel cuts k for this launch";
    const int64_t most = g->want_blocks > 0 ? g->want_blocks : g->sms;
    g->param.split = 1;
    g->param.tiled = 0;
    for (int i = 0; i < g->param.patches; ++i) {
        const sg_patch *p = &g->lists->patch[g->param.patch0 + i];
        for (int j = 0; j < p->tos && !tagged; ++j)
            g->param.tiled |= g->lists->to[p->to0 + j].tiled;
    }
    g->param.units = (int32_t)tiles;
    const int64_t blocks = blocks_for(g, tiles);
    g->blocks = (int32_t)(blocks < most ? blocks : most);
    bool aligned = g->arch >= 80 && !tagged;
    for (int i = 0; i < g->param.patches; ++i) {
        const sg_patch *p = &g->lists->patch[g->param.patch0 + i];
        const sg_area *const area[2] = {&p->a, &p->b};
        for (int j = 0; j < 2 && p->k0 < p->k1; ++j) {
            const sg_kernel_place *place = &g->param.program.place[area[j]->buf];
            aligned &= (uintptr_t)place->data[0] % 16 == 0 && (uintptr_t)place->data[1] % 16 == 0 &&
                       place->pitch % 16 == 0 && area[j]->col0 % 8 == 0 && !place->wide;
        }
        aligned &= p->slab % 8 == 0;
    }
    const bool fast = aligned && sg_instance_sm80(g->param.program.type) != nullptr;
    g->instance = fast ? -2 : -1;
    if (cudaFuncSetAttribute(slow_kernel(g), cudaFuncAttributeMaxDynamicSharedMemorySize,
                             SG_INSTANCE_SMEM) != cudaSuccess)
        return "the GPU refuses the kernel's shared memory";
    return nullptr;
}

/* A block makes two maps, of pieces and of rows, for each peer's tensor that it stores into. */
static void count_remakes(sg_kernel_gemm *g)
{
    memset(g->param.remade, -1, sizeof g->param.remade);
    for (int i = 0; i < g->param.patches; ++i) {
        const sg_patch *p = &g->lists->patch[g->param.patch0 + i];
        for (int j = 0; j < p->tos; ++j) {
            const sg_area *to = &g->lists->to[p->to0 + j];
            if (!to->leave || g->param.remade[to->buf] >= 0) continue;
            g->param.remade[to->buf] = (int8_t)g->param.remakes;
            g->param.remakes += 2;
        }
    }
}

const char *sg_kernel_gemm_make(sg_kernel_gemm *gemm, const sg_kernel_program *program,
                                const sg_kernel_lists *lists, int step, int patch0, int patches,
                                int tile_m, int tile_n, int blocks)
{
    memset(gemm, 0, sizeof *gemm);
    gemm->lists = lists;
    gemm->arch = current_arch(&gemm->sms);
    if (gemm->arch == 0) return "there is no GPU";
    if (blocks > gemm->sms) return "the plan wants more SMs than the GPU has";
    sg_kernel_gemm_param *param = &gemm->param;
    param->program = *program;
    param->step = step;
    param->patch0 = patch0;
    param->patches = patches;
    param->tile_m = tile_m;
    param->tile_n = tile_n;
    if (patches > 0) param->first = lists->patch[patch0];
    while (param->products < patches &&
           lists->patch[patch0 + param->products].k0 < lists->patch[patch0 + param->products].k1)
        ++param->products;
    param->keep_a = param->keep_b = UINT64_C(0x1000000000000000); /* as any other data */
    for (int i = 0; i < patches; ++i) {
        const sg_patch *p = &lists->patch[patch0 + i];
        if (p->tile_n > 0) param->narrow = p->tile_n;
        param->raises |= p->raises > 0;
        for (int j = 0; j < p->tos; ++j) param->leaves |= lists->to[p->to0 + j].leave;
    }
    gemm->want_blocks = blocks;
    gemm->want_split = 1;
    count_remakes(gemm);
    return nullptr;
}

size_t sg_kernel_seats_bytes(const sg_kernel_gemm *gemm)
{
    uint8_t sm[SG_KERNEL_BLOCKS];
    return sg_neighbours(sm, SG_KERNEL_BLOCKS) == gemm->sms ? sizeof(sg_kernel_seats) : 0;
}

size_t sg_kernel_remake_bytes(const sg_kernel_gemm *gemm)
{
    const int blocks = gemm->want_blocks > 0 ? gemm->want_blocks : gemm->sms;
    return (size_t)blocks * (size_t)gemm->param.remakes * sizeof(CUtensorMap);
}

/* The same kernel, by maps of what has moved.  False: more is new than addresses and pitches. */
static bool aim_again(sg_kernel_gemm *g)
{
    int all;
    const bool same = memcmp(g->aimed, g->param.program.place, sizeof g->aimed) == 0;
    if (g->blocks == 0 || same || g->slow != nullptr) return g->blocks > 0 && same;
    if (adds_onto(g) != (bool)g->lies_there) return false;
    const sg_instance *k = &sg_instance_table(&all)[g->instance];
    for (int i = 0; i < SG_KERNEL_PLACES; ++i) {
        const sg_kernel_place *now = &g->param.program.place[i], *was = &g->aimed[i];
        if (memcmp(now, was, sizeof *now) == 0) continue;
        if (now->rows != was->rows || now->cols != was->cols || now->wide != was->wide ||
            now->tagged != was->tagged)
            return false;
        for (int use = 0; use < USES; ++use)
            if (g->param.map_of[i][use] >= 0 && make_map(g, k, i, use)) return false;
    }
    return true;
}

const char *sg_kernel_gemm_aim(sg_kernel_gemm *gemm)
{
    const sg_kernel_program *program = &gemm->param.program;
    const char *why = nullptr;
    gemm->param.epilogue = program->bias != nullptr || program->act != SG_KERNEL_NONE;
    if (needs n; !aim_again(gemm)) {
        if (gemm->param.patches > 0) gemm->param.first = gemm->lists->patch[gemm->param.patch0];
        gemm->slow = aim_by(gemm, true, &n);
        /* Some tiles have no kernel but those whose math adds. */
        if (gemm->slow != nullptr && n.onto) gemm->slow = aim_by(gemm, false, &n);
        if (gemm->slow != nullptr) why = n.never != nullptr ? n.never : aim_slow(gemm, n.tagged);
        gemm->lies_there = adds_onto(gemm);
    }
    gemm->param.early = gemm->early;
    if (why == nullptr)
        memcpy(gemm->aimed, program->place, sizeof gemm->aimed);
    else
        gemm->blocks = 0; /* maps of both: the next aim makes all of them */
    return why;
}

cudaError_t sg_kernel_load(void)
{
    int all;
    const sg_instance *table = sg_instance_table(&all);
    cudaFuncAttributes attributes;
    cudaError_t status = sg_instance_load_steps();
    for (int type = 0; type < 3 && status == cudaSuccess; ++type) {
        status = cudaFuncGetAttributes(&attributes, sg_instance_any(type));
        const void *sm80 = sg_instance_sm80(type);
        if (status == cudaSuccess && sm80 != nullptr)
            status = cudaFuncGetAttributes(&attributes, sm80);
    }
    int sms = 0;
    if (current_arch(&sms) != 90) return status;
    sg_neighbours_look();
    for (int i = 0; i < all && status == cudaSuccess; ++i)
        status = cudaFuncGetAttributes(&attributes, table[i].function);
    return status;
}

/* ---- Starting -------------------------------------------------------------------------------- */

cudaError_t sg_kernel_gemm_run(const sg_kernel_gemm *gemm, unsigned how, cudaStream_t stream)
{
    const sg_kernel_protocol *protocol = &gemm->param.protocol;
    if (gemm->param.units == 0 && gemm->param.pushes == 0 && !protocol->begin && !protocol->end)
        return cudaSuccess;
    if (gemm->param.split > 1 &&
        (gemm->param.pushes > 0 || protocol->begin || protocol->gate || protocol->end))
        return cudaErrorInvalidValue; /* a product cut along k has no turn and carries nothing */
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attr[2];
    config.gridDim = dim3((unsigned)gemm->blocks);
    config.stream = stream;
    config.attrs = attr;
    const void *function;
    if (gemm->instance >= 0) {
        int all;
        const sg_instance *k = &sg_instance_table(&all)[gemm->instance];
        function = k->function;
        config.blockDim = dim3((unsigned)k->threads);
        config.dynamicSmemBytes = (size_t)k->smem;
        if (k->cm * k->cn > 1) {
            cudaLaunchAttribute *a = &attr[config.numAttrs++];
            a->id = cudaLaunchAttributeClusterDimension;
            a->val.clusterDim.x = (unsigned)(k->cm * k->cn);
            a->val.clusterDim.y = a->val.clusterDim.z = 1;
        }
    } else {
        function = slow_kernel(gemm);
        config.blockDim = dim3(SG_INSTANCE_THREADS);
        config.dynamicSmemBytes = SG_INSTANCE_SMEM;
    }
    if ((how & SG_KERNEL_EARLY) && gemm->arch >= 90) {
        cudaLaunchAttribute *a = &attr[config.numAttrs++];
        a->id = cudaLaunchAttributeProgrammaticStreamSerialization;
        a->val.programmaticStreamSerializationAllowed = 1;
    }
    void *args[] = {(void *)&gemm->param};
    return cudaLaunchKernelExC(&config, function, args);
}
