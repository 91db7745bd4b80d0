/* deal.cuh -- how a launch is dealt to its blocks: units of tiles, who carries rows, and where each
 * block begins (gemm.cu). */
#pragma once
#include "core/blocks.h"
#include "kernel/needs.cuh"
#include "kernel/neighbours.h"

/* Tiles, and tiles that clusters of K would go through. */
static void count_tiles(const sg_kernel_gemm *g, const sg_instance *k, int64_t *tiles_out,
                        int64_t *units_out)
{
    *tiles_out = *units_out = 0;
    /* Of tagged data the patches behind the products sum these tiles. */
    const int patches = k->fold == FOLD_TAGGED ? 1
                        : k->fold == FOLD_HOPS ? g->param.products
                                               : g->param.patches;
    for (int i = 0; i < (g->param.joined ? 1 : patches); ++i) {
        const sg_patch *p =
            g->param.joined ? &g->param.first : &g->lists->patch[g->param.patch0 + i];
        *tiles_out += sg_walk_visits(p, k->bm, k->bn);
        *units_out += sg_walk_units(p, k->bm, k->bn, k->cm, k->cn);
    }
}

/* A launch without tiles has blocks for what it carries, and one for the run protocol. */
static int64_t blocks_for(const sg_kernel_gemm *g, int64_t units)
{
    return units > 0 ? units : g->param.pushes > 0 ? g->sms : 1;
}

/* Of MOST blocks, or clusters, those that take tiles. */
static int32_t workers_for(const sg_kernel_gemm *g, int32_t most)
{
    const int64_t blocks = blocks_for(g, g->param.units);
    const bool even =
        g->param.units > 0 && g->param.split == 1 &&
        sg_blocks_alike(&g->lists->patch[g->param.patch0], g->param.joined ? 1 : g->param.patches);
    return even ? sg_blocks_even(g->param.units, most) : (int32_t)(blocks < most ? blocks : most);
}

enum { STEPS_OF_HERALD = 8 };
enum { COURIER_ROOM = 150000 }; /* bytes that one has under way at a time */

/* Blocks that only carry rows: as many as may be had of MOST without one more wave. */
static int couriers_for(const sg_kernel_gemm *g, int64_t most, int cluster)
{
    int64_t tiles = (int64_t)g->param.units * cluster;
    if (g->param.narrow > 0)
        tiles = sg_blocks_in_waves(&g->lists->patch[g->param.patch0], g->param.patches,
                                   g->param.tile_m, g->param.tile_n);
    if (g->param.pushes == 0 || tiles == 0 || most < 1) return 0;
    const int64_t workers =
        (sg_blocks_fewest(tiles, (int32_t)most) + cluster - 1) / cluster * cluster;
    const int64_t spare = (most - workers) / cluster * cluster;
    if (g->param.takes > 0) return (int)spare; /* everybody carries, they with more warps */
    return sg_blocks_couriers(&g->lists->patch[g->param.patch0], g->param.patches,
                              (double)g->carried, (int32_t)spare, (int32_t)workers) /
           cluster * cluster;
}

/* Steps that storers carry beside couriers: the first one, if all tiles that run at once wait for
 * it, or if each of few couriers would have it under way for long (two H200s, 512x5120x8192 in four
 * parts of k 80 us, so 70; results/gpu/early_2xh200_v1.json).  To a single peer, in one wave: of
 * several, own rows end before others' are wanted. */
static int early_steps(const sg_kernel_gemm *g, const sg_instance *k, int couriers)
{
    const bool wave = (int64_t)g->param.units * k->cm * k->cn <= g->param.workers;
    if (couriers == 0 || g->param.pushes < 2 || g->param.takes > 0) return 0;
    if (g->ranks == 2 && couriers < SG_COURIERS_OF_HERALD && wave) return 1;
    return sg_blocks_all_wait(&g->lists->patch[g->param.patch0], g->param.patches, k->bm, k->bn,
                              g->param.workers);
}

/* Has each courier steps of its own?  Those that it can have in its memory at once. */
static bool whole_steps(const sg_kernel_gemm *g, int couriers)
{
    const int64_t most = (int64_t)COURIER_ROOM * g->param.pushes;
    return couriers > 0 && g->carried > 0 && g->carried <= most && g->param.takes == 0 &&
           g->param.pushes >= g->param.early + 2 * couriers;
}

/* Blocks that only raise flags, see herald_sm90.cuh: of those that are left over, SPARE of them, or
 * of *COURIERS, if these share steps and can spare one.  On two ranks four cannot, nor need they
 * (two H100s, 512x5120x8192: 75.5 us, with a herald for one of them 80); on four, where a step has
 * three flags, they can if there are many steps (512x12288x12288: 271 us, 264). */
static int heralds_for(const sg_kernel_gemm *g, int cluster, int spare, int *couriers)
{
    const bool many = g->ranks > 2 && g->param.pushes >= STEPS_OF_HERALD;
    const int least = many ? SG_COURIERS_LEAST : SG_COURIERS_OF_HERALD, rest = *couriers - cluster;
    if (*couriers < least || g->param.takes > 0 || whole_steps(g, *couriers)) return 0;
    if (spare >= cluster) return cluster;
    if (rest < SG_COURIERS_ENOUGH &&
        !sg_blocks_carry_in_time(&g->lists->patch[g->param.patch0], g->param.patches,
                                 (double)g->carried, rest, g->param.workers))
        return 0;
    *couriers = rest;
    return cluster;
}

/* As many as let the first tiles begin and go on, since the links stand still meanwhile.  Two ranks
 * take up to a tenth less for it (results/gpu/pauses_2xh200_v1.json), four mostly more, by 8 % at
 * most (results/gpu/pauses_4xh200_v1.json). */
enum { PAUSES = 2 };

static int pauses_for(const sg_kernel_gemm *g)
{
    return g->param.heralds > 0 && g->ranks == 2 ? PAUSES : 0;
}

/* Flag INDEX, raised by BY, for sg_kernel_deal.  Partner: watcher_first(). */
static int32_t deal_flag(int by, int index)
{
    const bool fits = index < 1 << SG_KERNEL_DEAL_BITS && by < 1 << (31 - SG_KERNEL_DEAL_BITS);
    return fits ? by << SG_KERNEL_DEAL_BITS | index : -1;
}

/* What a block's first slab waits for: block AT of the cluster whose unit of
 * P begins with BAND and COL. */
static int32_t first_flag(const sg_kernel_gemm *g, const sg_instance *k, const sg_patch *p,
                          int band, int col, int at)
{
    const int down = band + at % k->cm, over = col + at / k->cm, row = down * k->bm;
    if (p->waits != 1 || row >= p->rows) return -1;
    const sg_wait *wait = &g->lists->wait[p->wait0];
    const sg_flags f = sg_walk_wait(wait, p->row0 + row, sg_walk_min(k->bm, p->rows - row), p->k0,
                                    down * sg_walk_cols(p, k->bn) + over);
    return f.count == 1 ? deal_flag(wait->by, f.first) : -1;
}

/* How that block loads its tile. */
static sg_kernel_loads first_loads(const sg_kernel_gemm *g, const sg_instance *k, const sg_patch *p,
                                   int band, int col, int at)
{
    const int im = at % k->cm, in = at / k->cm, width = p->tile_n > 0 ? p->tile_n : k->bn;
    return instance_loads(&g->param, p, (band + im) * k->bm, (col + in) * width, k->bm, k->bn,
                          k->cm, k->cn, im, in);
}

/* Where each block that takes tiles begins. */
static const char *deal_first(sg_kernel_gemm *g, const sg_instance *k)
{
    if (g->param.workers > SG_KERNEL_BLOCKS) return "the GPU has too many SMs";
    if (k->fold == FOLD_SLICES) return nullptr;
    const sg_patch *first = g->param.joined ? &g->param.first : &g->lists->patch[g->param.patch0];
    int patch = -1, base = 0, end = 0, band, col;
    const int cluster = k->cm * k->cn;
    for (int block = 0; block < g->param.workers && block / cluster < g->param.units; ++block) {
        const int unit = block / cluster;
        while (unit >= end) {
            base = end;
            end += sg_walk_units(&first[++patch], k->bm, k->bn, k->cm, k->cn);
        }
        sg_walk_unit(&first[patch], k->bm, k->bn, k->cm, k->cn, unit - base, &band, &col);
        if (col > UINT16_MAX) return "the launch has too many columns of tiles";
        g->param.deal[block] =
            sg_kernel_deal{base,
                           end,
                           band,
                           (uint16_t)col,
                           (uint16_t)patch,
                           first_loads(g, k, &first[patch], band, col, block % cluster),
                           first_flag(g, k, &first[patch], band, col, block % cluster)};
    }
    return nullptr;
}

/* ---- Seats (seat_sm90.cuh) ------------------------------------------------------------------- */

/* A tile of a launch's first wave: the rows of A and the columns of B that it reads, and how many
 * others of the wave come before these. */
typedef struct wave_tile {
    int64_t row_key;
    int32_t col_key, row, col, unit;
    uint64_t order;
} wave_tile;

/* Tiles that SMs begin with, one each; how many there are. */
static int list_wave(const sg_kernel_gemm *g, wave_tile *tile)
{
    const sg_patch *first = g->param.joined ? &g->param.first : &g->lists->patch[g->param.patch0];
    const int bm = g->param.tile_m, bn = g->param.tile_n;
    int count = 0;
    for (int i = 0; i < (g->param.joined ? 1 : g->param.patches); ++i) {
        const sg_patch *p = &first[i];
        const int units = sg_walk_units(p, bm, bn, 1, 1);
        for (int unit = 0; unit < units && count < g->sms; ++unit, ++count) {
            int band, col;
            sg_walk_unit(p, bm, bn, 1, 1, unit, &band, &col);
            const int64_t row = ((int64_t)p->a.buf << 40) + p->a.row0 + band * bm;
            tile[count] = wave_tile{row, p->b.row0 + col * bn, 0, 0, count, 0};
        }
    }
    return count;
}

/* Numbers the rows and columns of COUNT tiles; how many different rows there are. */
static int number_wave(wave_tile *tile, int count)
{
    int rows = 0;
    for (int i = 0; i < count; ++i) {
        bool new_row = true, new_col = true;
        for (int j = 0; j < i; ++j) {
            new_row &= tile[j].row_key != tile[i].row_key;
            new_col &= tile[j].col_key != tile[i].col_key;
        }
        rows += new_row;
        for (int j = 0; j < count; ++j) {
            tile[j].row += new_row && tile[i].row_key < tile[j].row_key;
            tile[j].col += new_col && tile[i].col_key < tile[j].col_key;
        }
    }
    return rows;
}

static int by_order(const void *a, const void *b)
{
    const uint64_t x = ((const wave_tile *)a)->order, y = ((const wave_tile *)b)->order;
    return (x > y) - (x < y);
}

/* Does it help to know which blocks are beside each other?  Not if all read the same rows, nor
 * where rows begin at odd 16 bytes, whose reads nobody shares. */
static bool wants_seats(const sg_kernel_gemm *g, const needs *n)
{
    uint8_t sm[SG_KERNEL_BLOCKS];
    wave_tile tile[SG_KERNEL_BLOCKS];
    if (g->seats == nullptr || n->a_rows > SG_SEATED_ROWS || n->straddles || n->tagged ||
        g->param.takes > 0 || g->want_split > 1 || g->want_cluster > 1)
        return false;
    if (g->want_blocks > 0 && g->want_blocks != g->sms) return false;
    if (sg_neighbours(sm, SG_KERNEL_BLOCKS) != g->sms) return false;
    return number_wave(tile, list_wave(g, tile)) >= 2;
}

/* Gives each SM its seat: tiles of four bands and four columns to the SMs of a GPC; of fewer bands,
 * more columns. */
static bool deal_seats(sg_kernel_gemm *g)
{
    uint8_t sm[SG_KERNEL_BLOCKS];
    wave_tile tile[SG_KERNEL_BLOCKS];
    if (g->blocks != g->sms || sg_neighbours(sm, SG_KERNEL_BLOCKS) != g->sms) return false;
    const int tiles = list_wave(g, tile), rows = number_wave(tile, tiles);
    const int count = sg_walk_min(g->param.workers, tiles); /* the others begin later */
    const int down = rows >= 4 ? 4 : 2, across = SG_NEIGHBOURS / down;
    for (int i = 0; i < count; ++i)
        tile[i].order = (uint64_t)(tile[i].col / across) << 48 |
                        (uint64_t)(tile[i].row / down) << 32 | (uint64_t)tile[i].col << 16 |
                        (uint64_t)tile[i].row;
    qsort(tile, (size_t)count, sizeof *tile, by_order);
    for (int i = 0; i < g->sms; ++i) {
        if (sm[i] >= SG_KERNEL_BLOCKS) return false;
        g->param.seat[sm[i]] = (uint8_t)(i < count ? tile[i].unit : i);
    }
    return true;
}
