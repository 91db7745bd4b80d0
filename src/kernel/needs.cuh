/* needs.cuh -- what a launch needs of the kernel that serves it, as read
 * from its patches (gemm.cu). */
#pragma once
#include "kernel/instance.h"

enum {
    USE_A = 1,
    USE_B = 2,
    USE_PIECE = 4,
    USE_ROW = 8,
    USE_NARROW = 16,
    USE_A_REST = 32,
    USE_B_REST = 64,
    USES = 7
};                          /* of a place: a bit for each of its maps */
enum { ANY_COL = 1 << 30 }; /* none ends inside a matrix */

typedef struct needs {
    uint8_t use[SG_KERNEL_PLACES];
    int a_rows;          /* the most of a place that is read as A */
    int odd_rows;        /* of patches that end inside a matrix and a piece: all their bits */
    int least_odd;       /* rows of such a piece, the fewest; 0: there is none */
    int col_step;        /* columns at which stores may end inside a matrix, or ANY_COL */
    bool straddles;      /* rows of A or B begin at odd 16 bytes, see serves() */
    bool goes_on, slabs; /* patches go on with products; or wait inside theirs */
    bool onto;           /* what is added is added where it is stored */
    bool adds, waits, per_tile; /* per_tile: a visit is a tile, whatever the cluster */
    bool late;   /* an own product that is not rounded is added behind two addends, or one beside
               * many */
    bool places; /* something else than parts is stored into places for tiles */
    bool sums_in_places;    /* so is what has addends */
    int64_t b_read, b_most; /* elements of B that are read by all tiles; of the largest B */
    int parts, part_place;  /* as in sg_kernel_gemm_param; parts -1: not yet known */
    bool tagged, owners;    /* it is a launch of tagged data; of products for owners */
    bool joined;            /* whose rows fit a tile together, as in `first` */
    bool seats;             /* it matters which SM has which tile, see wants_seats() */
    sg_patch first;
    const char *never; /* why no kernel can serve it, which of tagged data is possible */
} needs;

static bool ends_inside(const sg_kernel_place *place, int col0, int cols)
{
    return col0 + cols != place->cols;
}

static bool is_straddling(const sg_kernel_place *place)
{
    return ((uintptr_t)place->data[0] | (uintptr_t)place->data[1] | (uint64_t)place->pitch) % 32 !=
           0;
}

static const char *read_operands(const sg_kernel_gemm *g, const sg_patch *p, needs *n)
{
    const sg_kernel_place *place = g->param.program.place;
    if (place[p->a.buf].wide || place[p->b.buf].wide) return "an operand is f32";
    if ((p->k1 - p->k0) % 64 != 0 && (ends_inside(&place[p->a.buf], p->a.col0, p->k1 - p->k0) ||
                                      ends_inside(&place[p->b.buf], p->b.col0, p->k1 - p->k0)))
        return "a part of k ends inside a stage";
    n->straddles |= is_straddling(&place[p->a.buf]) || is_straddling(&place[p->b.buf]);
    n->use[p->a.buf] |= USE_A;
    n->use[p->b.buf] |= p->tile_n > 0 ? USE_NARROW : USE_B;
    const sg_kernel_place *b = &place[p->b.buf];
    /* Who takes rows in loads B before these are here. */
    if (g->param.takes > 0 && b->data[0] != b->data[1]) return "B is on its way, too";
    n->b_read += (int64_t)sg_walk_bands(p, g->param.tile_m) * p->cols * (p->k1 - p->k0);
    if ((int64_t)b->rows * b->cols > n->b_most) n->b_most = (int64_t)b->rows * b->cols;
    if (place[p->a.buf].rows > n->a_rows) n->a_rows = place[p->a.buf].rows;
    return nullptr;
}

/* AREA is wide: does it have places for tiles that hold parts? */
static const char *read_part(const sg_kernel_gemm *g, const sg_area *area, needs *n)
{
    const sg_kernel_place *place = &g->param.program.place[area->buf];
    if (!g->own_parts || !area->tiled) return "f32 sums are shared with other launches";
    if (n->part_place >= 0 && n->part_place != area->buf) return "parts are in two matrices";
    if (area->col0 != 0 || place->cols != g->param.tile_n || place->pitch != 4 * place->cols ||
        place->data[0] != place->data[1] || (uintptr_t)place->data[0] % 16 != 0)
        return "parts are not in places of tiles";
    n->part_place = area->buf;
    return nullptr;
}

/* Addends of a product: as many parts as those of every other one, and right before itself. */
static const char *read_parts(const sg_kernel_gemm *g, const sg_patch *p, needs *n)
{
    int parts = 0;
    for (int i = 0; i < p->adds; ++i) {
        const sg_addend *add = &g->lists->add[p->add0 + i];
        if (!g->param.program.place[add->area.buf].wide) continue;
        const char *why = read_part(g, &add->area, n);
        if (why != nullptr) return why;
        if (p->k0 >= p->k1 || i >= p->own_at) return "parts are not before a product";
        ++parts;
    }
    for (int i = p->own_at - parts; i < p->own_at && p->k0 < p->k1; ++i)
        if (!g->param.program.place[g->lists->add[p->add0 + i].area.buf].wide)
            return "parts are not right before their product";
    if (p->adds == 0 || p->k0 >= p->k1) return nullptr;
    if (n->parts >= 0 && n->parts != parts) return "products have different numbers of parts";
    if (parts > 0 && p->own_rounded) return "a part of k is rounded";
    n->parts = parts;
    return nullptr;
}

/* A patch that stores a part does nothing else. */
static const char *read_leaving(const sg_kernel_gemm *g, const sg_patch *p, needs *n)
{
    const sg_area *to = &g->lists->to[p->to0];
    if (p->tos != 1 || p->adds > 0 || p->final || p->k0 >= p->k1) return "a result is f32";
    n->per_tile = true;
    return read_part(g, to, n);
}

static bool own_is_late(const sg_patch *p)
{
    return p->k0 >= p->k1 || (p->own_at > 1 && !p->own_rounded);
}

/* Does P store, for one, where its addend lies, in the memory of this run? */
static bool stores_there(const sg_kernel_gemm *g, const sg_patch *p)
{
    const sg_area *add = &g->lists->add[p->add0].area;
    const sg_kernel_place *place = g->param.program.place, *from = &place[add->buf];
    bool there = false;
    for (int i = 0; i < p->tos; ++i) {
        const sg_area *to = &g->lists->to[p->to0 + i];
        there |= to->row0 == add->row0 && to->col0 == add->col0 &&
                 place[to->buf].pitch == from->pitch && place[to->buf].data[0] == from->data[0];
    }
    return there;
}

/* May all that the launch adds be added by who stores it, who then counts its tiles where a loader
 * would count what it waits for? */
static bool adds_onto(const sg_kernel_gemm *g)
{
    bool all = !g->param.epilogue && g->param.pushes == 0, any = false;
    for (int i = 0; i < g->param.patches; ++i) {
        const sg_patch *p = &g->lists->patch[g->param.patch0 + i];
        all &= p->waits == 0 && (p->adds == 0 || (p->onto && p->k0 < p->k1 && stores_there(g, p)));
        any |= p->adds > 0;
        for (int j = 0; j < p->tos; ++j) all &= !g->lists->to[p->to0 + j].tiled;
    }
    return all && any;
}

/* Reads the patches of a launch; the reason is why no fast kernel can serve them. */
static const char *read_patch(const sg_kernel_gemm *g, const sg_patch *p, needs *n)
{
    const sg_kernel_place *place = g->param.program.place;
    if (p->k0 >= p->k1 && p->adds == 0) return "there is no product";
    if (p->k0 >= p->k1 && p->waits > 0) return "a sum waits for more than its addends";
    const char *why = p->k0 < p->k1 ? read_operands(g, p, n) : nullptr;
    if (why != nullptr) return why;
    n->waits |= p->waits > 0;
    n->goes_on |= p->goes_on != 0;
    n->slabs |= p->slab > 0;
    n->per_tile |= p->tiles > 0;
    if (p->tile_n > 0 && p->tile_n != g->param.narrow) return "tiles have three widths";
    for (int i = 0; i < p->waits; ++i)
        n->per_tile |= g->lists->wait[p->wait0 + i].per == SG_PER_TILE;
    if (p->goes_on) return nullptr;
    for (int i = 0; i < p->adds && !n->onto; ++i) {
        const sg_addend *add = &g->lists->add[p->add0 + i];
        if (!place[add->area.buf].wide) n->use[add->area.buf] |= USE_PIECE;
        n->adds = true;
        n->per_tile |= add->area.tiled;
    }
    n->late |= p->adds > SG_INSTANCE_SLOT_ADDS || (p->adds > 0 && own_is_late(p));
    why = read_parts(g, p, n);
    if (why != nullptr) return why;
    for (int i = 0; i < p->tos; ++i) {
        const sg_area *to = &g->lists->to[p->to0 + i];
        if (place[to->buf].wide) return read_leaving(g, p, n);
        if (to->leave && to->rank >= 64) return "it stores into tensors of ranks beyond 64";
        n->use[to->buf] |= USE_PIECE;
        n->per_tile |= to->tiled;
        n->places |= to->tiled;
        n->sums_in_places |= to->tiled && p->adds > 0;
        if (to->tiled) continue;
        const int odd = p->rows % 64;
        if (odd != 0 && to->row0 + p->rows != place[to->buf].rows) {
            n->use[to->buf] |= USE_ROW, n->odd_rows |= p->rows;
            n->least_odd = n->least_odd == 0 || odd < n->least_odd ? odd : n->least_odd;
        }
        while (ends_inside(&place[to->buf], to->col0, p->cols) && p->cols % n->col_step != 0)
            n->col_step /= 2;
    }
    return nullptr;
}

/* AREA is in places for tiles of tagged words. */
static bool is_tagged(const sg_kernel_gemm *g, const sg_area *area)
{
    const sg_kernel_place *place = &g->param.program.place[area->buf];
    return place->tagged && area->tiled && area->col0 == 0 && place->cols == g->param.tile_n &&
           !place->wide && ((uintptr_t)place->data[0] | (uintptr_t)place->data[1]) % 16 == 0;
}

/* Are all addends and stores of P that are not into C in places of tagged tiles?
 * LAST: it stores into C, too. */
static bool in_places(const sg_kernel_gemm *g, const sg_patch *p, bool last)
{
    bool all = true;
    for (int i = 0; i < p->tos - last; ++i) all &= is_tagged(g, &g->lists->to[p->to0 + i]);
    for (int i = 0; i < p->adds; ++i) all &= is_tagged(g, &g->lists->add[p->add0 + i].area);
    return all;
}

/* Does the last store of P go to an own matrix?  COL0: where the patch begins there. */
static bool ends_in_c(const sg_kernel_gemm *g, const sg_patch *p, int col0)
{
    const sg_area *to = &g->lists->to[p->to0 + p->tos - 1];
    const sg_kernel_place *place = &g->param.program.place[to->buf];
    return p->tos > 0 && !to->tiled && !to->leave && !place->wide && !place->tagged &&
           (col0 < 0 || to->col0 == col0);
}

static bool walks_as(const sg_patch *p, const sg_patch *q)
{
    return p->rows == q->rows && p->cols == q->cols && p->col0 == q->col0 &&
           p->raster == q->raster && p->width == q->width && p->tile0 == q->tile0 &&
           p->tiles == q->tiles;
}

/* Two patches over the same tiles: a product that all ranks get, and the sum of what all have
 * sent. */
static const char *one_hop_fault(const sg_kernel_gemm *g)
{
    const sg_patch *p = &g->lists->patch[g->param.patch0], *sum = p + 1;
    if (g->param.patches != 2 || p->k0 >= p->k1 || sum->k0 < sum->k1 || p->adds > 0 ||
        sum->tos != 1)
        return "tagged data is sent by one patch and added up by another";
    if (p->waits > 0 || sum->waits > 0 || p->final || sum->adds != p->tos || p->tos > 32)
        return "a launch of tagged data waits for other things, or is of more than 32 ranks";
    if (!walks_as(p, sum)) return "tagged data is not added up as it is sent";
    if (!in_places(g, p, false) || !in_places(g, sum, true))
        return "tagged data is not in places of tiles";
    if (!ends_in_c(g, sum, -1)) return "a sum of tagged data is not stored into an own matrix";
    return nullptr;
}

/* Products for owners, the own one last; the own sum, if there is one; and, unless owners of rows
 * keep their sums, what the other owners send.  Owners have columns of the same rows, or rows of
 * the same columns. */
static const char *to_owners_fault(const sg_kernel_gemm *g)
{
    const int count = g->param.products, behind = g->param.patches - count, ranks = g->ranks;
    const sg_patch *first = &g->lists->patch[g->param.patch0], *sum = first + count;
    const bool own = behind > 0 && sum->adds > 1;
    const int come = behind - own;
    if (count < 1 || (come != 0 && come != count - own) || ranks > 16)
        return "tagged data for owners is of other patches, or of more than 16 ranks";
    for (int i = 0; i < count; ++i) {
        const sg_patch *p = first + i;
        if (p->k0 >= p->k1 || p->adds > 0 || p->tos != 1 || p->waits > 0 || p->final ||
            p->raster != first->raster || p->tile0 != 0 || p->tiles != 0 ||
            (p->rows != first->rows && p->cols != first->cols) || !in_places(g, p, false))
            return "tagged data for owners is not of bare products in places of tiles";
    }
    for (int i = 0; i < behind; ++i) {
        const sg_patch *q = sum + i, *p = own && i == 0 ? sum - 1 : first + i - own;
        const bool sums = own && i == 0;
        if (q->k0 < q->k1 || q->waits > 0 || !walks_as(p, q))
            return "tagged data is not added up as it is sent";
        if (sums ? q->adds != ranks || (q->tos != ranks && q->tos != 1)
                 : q->adds != 1 || q->tos != 1 || q->final)
            return "tagged data for owners is not added up once";
        if (!in_places(g, q, true)) return "tagged data is not in places of tiles";
        if (!ends_in_c(g, q, q->col0))
            return "a sum of tagged data is not stored into an own matrix";
    }
    return nullptr;
}

/* Products of rows that lie one behind the other and fit a tile: then B need not be read for each
 * owner.  *ALL_OUT: all of them as one. */
static bool join_products(const sg_kernel_gemm *g, sg_patch *all_out)
{
    const sg_patch *first = &g->lists->patch[g->param.patch0];
    const int count = g->param.products;
    int begin = first->row0, end = begin, rows = 0;
    bool joins = count > 1 && g->param.patches - count <= 1; /* sums go on otherwise */
    for (int i = 0; i < count; ++i) {
        const sg_patch *p = first + i;
        joins &= p->a.buf == first->a.buf && p->a.col0 == first->a.col0 &&
                 p->a.row0 - p->row0 == first->a.row0 - first->row0 && p->b.buf == first->b.buf &&
                 p->b.row0 == first->b.row0 && p->b.col0 == first->b.col0 && p->k0 == first->k0 &&
                 p->k1 == first->k1 && p->col0 == first->col0 && p->cols == first->cols;
        begin = sg_walk_min(begin, p->row0);
        if (end < p->row0 + p->rows) end = p->row0 + p->rows;
        rows += p->rows;
    }
    *all_out = *first;
    all_out->a.row0 += begin - first->row0;
    all_out->row0 = begin, all_out->rows = rows;
    return joins && rows == end - begin && rows <= g->param.tile_m;
}

static const char *tagged_fault(const sg_kernel_gemm *g, bool owners)
{
    if (g->param.program.type == SG_KERNEL_F32) return "tagged data is of 16 bits";
    if (g->param.tile_m % 8 != 0 || g->param.tile_n % 32 != 0)
        return "places of these tiles do not hold words";
    if (g->param.program.rank == nullptr) return "tagged data is for ranks of a group";
    if (g->param.pushes > 0) return "a launch of tagged data carries no rows";
    return owners ? to_owners_fault(g) : one_hop_fault(g);
}

/* ONTO: who stores may add, see adds_onto(). */
static const char *read_needs(const sg_kernel_gemm *g, bool onto, needs *n)
{
    memset(n, 0, sizeof *n);
    n->col_step = ANY_COL;
    n->parts = n->part_place = -1;
    for (int i = 0; i < g->param.patches && !n->tagged; ++i) {
        const sg_patch *p = &g->lists->patch[g->param.patch0 + i];
        for (int j = 0; j < p->tos; ++j)
            n->tagged |= g->param.program.place[g->lists->to[p->to0 + j].buf].tagged != 0;
    }
    const sg_patch *first = &g->lists->patch[g->param.patch0];
    n->owners = n->tagged && first->tos == 1 && g->ranks > 1;
    if (n->tagged) n->never = tagged_fault(g, n->owners);
    if (n->never != nullptr) return n->never;
    if (g->arch != 90) return "the GPU is no Hopper";
    if (g->param.program.type == SG_KERNEL_F32) return "f32 has no matrix instructions";
    n->per_tile = n->tagged;
    n->onto = onto && adds_onto(g);
    for (int i = 0; i < (n->owners ? g->param.products : 1) && n->tagged; ++i) {
        const char *why = read_operands(g, first + i, n);
        if (why != nullptr) return why;
    }
    n->joined = n->owners && join_products(g, &n->first);
    if (n->tagged) return nullptr;
    for (int i = 0; i < g->param.patches; ++i) {
        const char *why = read_patch(g, &g->lists->patch[g->param.patch0 + i], n);
        if (why != nullptr) return why;
        if (n->part_place >= 0 &&
            (n->places || n->goes_on || g->lists->patch[g->param.patch0 + i].tos == 0))
            return "parts stand beside places, or beside patches that store nothing";
    }
    if (n->goes_on && n->slabs) return "products go on beside slabs";
    return nullptr;
}
