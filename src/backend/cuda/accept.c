/* accept.c -- which schedules the CUDA backend carries out.
 *
 * A launch by itself runs, be it by a slow kernel, unless it is cut at odd bytes.  One beside other
 * lanes, or with flags, is worth it only as a fast one. */
#include "backend/cuda/cuda.h"
#include "core/sched_rules.h"

_Static_assert((int)SG_F32 == (int)SG_KERNEL_F32 && (int)SG_BF16 == (int)SG_KERNEL_BF16 &&
                   (int)SG_F16 == (int)SG_KERNEL_F16,
               "host and device name types alike");
_Static_assert((int)SG_ACT_NONE == (int)SG_KERNEL_NONE && (int)SG_ACT_RELU == (int)SG_KERNEL_RELU &&
                   (int)SG_ACT_GELU == (int)SG_KERNEL_GELU &&
                   (int)SG_ACT_SILU == (int)SG_KERNEL_SILU,
               "host and device name activations alike");
_Static_assert((int)SG_STUCK_GATE == (int)SG_KERNEL_STUCK_GATE &&
                   (int)SG_STUCK_LEAVE == (int)SG_KERNEL_STUCK_LEAVE &&
                   (int)SG_STUCK_FLAG == (int)SG_KERNEL_STUCK_FLAG &&
                   (int)SG_STUCK_END == (int)SG_KERNEL_STUCK_END,
               "host and device name alike what a rank waits for");

/* ---- Fast kernels ---------------------------------------------------------------------------- */

/* What the kernel of L's tiles, multiplied from TYPE, can do; zeros: there is none. */
static sg_kernel_tile find_fast(sg_type type, const sg_launch *l)
{
    sg_kernel_tile fast[24];
    const int count = sg_kernel_tiles((enum sg_kernel_type)type, fast, 24);
    for (int i = 0; i < count; i++)
        if (fast[i].m == l->tile_m && fast[i].n == l->tile_n) return fast[i];
    return (sg_kernel_tile){0};
}

/* What tensor maps need of rows of this problem's type.  Threads store the sums of TAGGED data. */
static bool is_aligned(const sg_problem *p, bool tagged)
{
    return !sg_problem_has_odd_k(p) && (tagged || !sg_problem_has_odd_n(p));
}

/* The columns that A is part of: those of its buffer, or of one of several C. */
static void columns_of(const sg_sched *s, const sg_area *a, int64_t *low, int64_t *high)
{
    *low = 0;
    *high = s->buf[a->buf].cols;
    if (a->buf == SG_C) (void)sg_problem_b_at(s->problem, a->col0, low, high);
}

static bool is_cut_well(const sg_sched *s, const sg_area *a)
{
    const int64_t bytes = sg_sched_element_bytes(s, a->buf);
    int64_t low = 0;
    int64_t high = 0;
    columns_of(s, a, &low, &high);
    const bool to_the_end = (int64_t)a->col0 + a->cols == high;
    return (a->col0 - low) * bytes % 16 == 0 && (to_the_end || a->cols * bytes % 16 == 0);
}

bool sg_cuda_is_cut_well(const sg_sched *s, const sg_launch *l)
{
    bool well = true;
    for (int32_t i = l->patch0; i < l->patch0 + l->patches && well; i++) {
        const sg_patch *const p = &s->patch[i];
        if (p->k0 < p->k1) well = is_cut_well(s, &p->a) && is_cut_well(s, &p->b);
        for (int32_t j = 0; j < p->adds && well; j++)
            well = is_cut_well(s, &s->add[p->add0 + j].area);
        for (int32_t j = 0; j < p->tos && well; j++) well = is_cut_well(s, &s->to[p->to0 + j]);
    }
    return well;
}

/* Sums alone, which are bound by memory in any kernel. */
static bool has_product(const sg_sched *s, const sg_launch *l)
{
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++)
        if (s->patch[i].k0 < s->patch[i].k1) return true;
    return false;
}

static bool is_wide(const sg_sched *s, const sg_launch *l)
{
    bool wide = false;
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        for (int32_t j = 0; j < p->adds; j++) wide |= s->buf[s->add[p->add0 + j].area.buf].wide;
        for (int32_t j = 0; j < p->tos; j++) wide |= s->buf[s->to[p->to0 + j].buf].wide;
    }
    return wide;
}

/* Counts areas of buffer BUF among the addends and stores of patches PATCH0 to END. */
static int32_t count_areas(const sg_sched *s, int buf, int32_t patch0, int32_t end)
{
    int32_t count = 0;
    for (int32_t i = patch0; i < end; i++) {
        const sg_patch *const p = &s->patch[i];
        for (int32_t j = 0; j < p->adds; j++) count += s->add[p->add0 + j].area.buf == buf;
        for (int32_t j = 0; j < p->tos; j++) count += s->to[p->to0 + j].buf == buf;
    }
    return count;
}

/* Are all areas of BUF in the schedule places for tiles of launch L? */
static bool is_of_launch(const sg_sched *s, const sg_launch *l, int buf)
{
    int32_t others = -count_areas(s, buf, l->patch0, l->patch0 + l->patches);
    for (int32_t i = 0; i < s->adds; i++) others += s->add[i].area.buf == buf;
    for (int32_t i = 0; i < s->tos; i++) others += s->to[i].buf == buf;
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        others += step->kind == SG_COPY && step->u.copy.src.buf == buf;
        others += step->kind == SG_COLL && step->u.coll.self.buf == buf;
    }
    for (int32_t i = 0; i < s->adds; i++)
        others += s->add[i].area.buf == buf && !s->add[i].area.tiled;
    for (int32_t i = 0; i < s->tos; i++) others += s->to[i].buf == buf && !s->to[i].tiled;
    return others == 0;
}

bool sg_cuda_owns_parts(const sg_sched *s, const sg_launch *l)
{
    bool owns = is_wide(s, l);
    for (int buf = 0; buf < s->bufs && owns; buf++)
        if (s->buf[buf].wide && count_areas(s, buf, l->patch0, l->patch0 + l->patches) > 0)
            owns = s->buf[buf].arena == SG_LOCAL && is_of_launch(s, l, buf);
    return owns;
}

static bool ends_matrix(const sg_sched *s, const sg_area *a)
{
    return (int64_t)a->col0 + a->cols == s->buf[a->buf].cols;
}

/* Do parts of k end with a stage of the fast kernels, or with their matrices? */
static bool ends_stages(const sg_sched *s, const sg_launch *l)
{
    bool does = true;
    for (int32_t i = l->patch0; i < l->patch0 + l->patches && does; i++) {
        const sg_patch *const p = &s->patch[i];
        does = (p->k1 - p->k0) % SG_KERNEL_STAGE_K == 0 ||
               (ends_matrix(s, &p->a) && ends_matrix(s, &p->b));
    }
    return does;
}

/* Do patches go on with products? */
static bool goes_on(const sg_sched *s, const sg_launch *l)
{
    bool does = false;
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) does |= s->patch[i].more > 0;
    return does;
}

/* Columns of the tiles of some patches, if they are not the launch's; 0: they are. */
static int32_t narrow_of(const sg_sched *s, const sg_launch *l)
{
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++)
        if (s->patch[i].tile_n > 0) return s->patch[i].tile_n;
    return 0;
}

static bool has_addends(const sg_sched *s, const sg_launch *l)
{
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++)
        if (s->patch[i].adds > 0) return true;
    return false;
}

/* Of the matrix that TO is an area of. */
static int64_t rows_at(const sg_sched *s, const sg_area *to)
{
    return to->buf == SG_C ? sg_problem_c_rows(s->problem, to->rank) : s->buf[to->buf].rows;
}

/* Columns of the pieces in which tiles of L are stored (W in shape_sm90.cuh); 0: of all. */
static int32_t piece_of(const sg_sched *s, const sg_launch *l)
{
    enum { WIDE = 64, NARROW = 32, NARROWEST = 16 };
    const int32_t cols = l->tile_n | narrow_of(s, l);
    const bool whole = cols == 80 || cols == 112;
    if (cols % WIDE == 0) return WIDE;
    if (cols % NARROW == 0) return NARROW;
    return whole && !has_addends(s, l) ? 0 : NARROWEST;
}

/* Rows that such pieces leave together: they fill 128 bytes. */
static int32_t line_of(const sg_sched *s, const sg_launch *l)
{
    enum { WIDE = 64 };
    const int32_t piece = piece_of(s, l);
    return piece > 0 ? WIDE / piece : WIDE;
}

/* Rows of a patch that ends inside a matrix are stored by themselves in pieces of 64 columns, and
 * else by blocks, over whatever stands behind it. */
static bool tramples(const sg_sched *s, const sg_launch *l)
{
    const int32_t line = line_of(s, l);
    bool does = false;
    for (int32_t i = l->patch0; i < l->patch0 + l->patches && line > 1; i++) {
        const sg_patch *const p = &s->patch[i];
        for (int32_t j = p->to0; j < p->to0 + p->tos; j++) {
            const sg_area *const to = &s->to[j];
            does |=
                !to->tiled && p->rows % line != 0 && (int64_t)to->row0 + p->rows != rows_at(s, to);
        }
    }
    return does;
}

/* ---- Columns and matrices -------------------------------------------------------------------- */

/* Is TO an area of the own C that ends where a place of C does that is made for it
 * (sg_cuda_clip_place())? */
static bool is_clipped(const sg_sched *s, const sg_area *to)
{
    enum { BOX = 64 };
    int32_t end[SG_CUDA_CLIPPED];
    int ends = 0;
    if (s->problem->gather != SG_GATHER_B) return false;
    for (int32_t i = 0; i < s->tos; i++) {
        const sg_area *const each = &s->to[i];
        const int32_t at = each->col0 + each->cols;
        int64_t low = 0;
        int64_t high = 0;
        columns_of(s, each, &low, &high);
        if (each->buf != SG_C || each->rank != s->rank || low > 0) continue;
        if (at == high || each->cols % BOX == 0) continue;
        int known = 0;
        while (known < ends && end[known] != at) known++;
        if (known == SG_CUDA_CLIPPED) continue;
        if (known == ends) end[ends++] = at;
        if (to->buf == SG_C && to->rank == s->rank && to->col0 + to->cols == at) return true;
    }
    return false;
}

/* Columns of a patch that ends inside a matrix are whole pieces. */
static bool ends_pieces(const sg_sched *s, const sg_launch *l)
{
    const int32_t piece = piece_of(s, l);
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        if (piece > 0 && p->cols % piece == 0) continue;
        for (int32_t j = p->to0; j < p->to0 + p->tos; j++) {
            const sg_area *const to = &s->to[j];
            int64_t low = 0;
            int64_t high = 0;
            columns_of(s, to, &low, &high);
            const bool inside = !to->tiled && !s->buf[to->buf].wide && to->col0 + to->cols != high;
            if (inside && !is_clipped(s, to)) return false;
        }
    }
    return true;
}

/* Rows of buffers of the plan, as wide as it has cut them. */
static bool has_even_rows(const sg_sched *s, const sg_launch *l)
{
    bool even = true;
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        for (int32_t j = 0; j < p->adds + p->tos; j++) {
            const sg_area *const a =
                j < p->adds ? &s->add[p->add0 + j].area : &s->to[p->to0 + j - p->adds];
            const int64_t bytes = s->buf[a->buf].cols * sg_sched_element_bytes(s, a->buf);
            even &= a->tiled || a->buf < SG_USER_BUFS || bytes % 16 == 0;
        }
    }
    return even;
}

/* What a launch has a tensor map for: a matrix in one of its uses. */
enum { PIECES, ROWS, OPERAND_A, OPERAND_B, NARROW_B };

typedef struct mapped {
    int use, buf, rank, part; /* part: of several B or C */
} mapped;

static int count_map(const sg_sched *s, mapped *map, int maps, const sg_area *a, int use)
{
    int64_t low = 0;
    int64_t high = 0;
    int part = 0;
    if (a->buf == SG_B) part = sg_problem_b_at(s->problem, a->row0, &low, &high);
    if (a->buf == SG_C) part = sg_problem_b_at(s->problem, a->col0, &low, &high);
    if (s->buf[a->buf].wide || maps > SG_KERNEL_MAPS) return maps; /* parts of k have none */
    for (int i = 0; i < maps; i++)
        if (map[i].use == use && map[i].buf == a->buf && map[i].rank == a->rank &&
            map[i].part == part)
            return maps;
    if (maps < SG_KERNEL_MAPS) map[maps] = (mapped){use, a->buf, a->rank, part};
    return maps + 1;
}

/* Are there maps for all that L reads, adds and stores? */
static bool has_maps(const sg_sched *s, const sg_launch *l)
{
    enum { BOX = 64 };
    mapped map[SG_KERNEL_MAPS];
    int maps = 0;
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) {
        const sg_patch *const p = &s->patch[i];
        if (p->k0 < p->k1) {
            maps = count_map(s, map, maps, &p->a, OPERAND_A);
            maps = count_map(s, map, maps, &p->b, p->tile_n > 0 ? NARROW_B : OPERAND_B);
        }
        for (int32_t j = p->add0; j < p->add0 + p->adds; j++)
            maps = count_map(s, map, maps, &s->add[j].area, PIECES);
        for (int32_t j = p->to0; j < p->to0 + p->tos; j++) {
            const sg_area *const to = &s->to[j];
            maps = count_map(s, map, maps, to, PIECES);
            if (!to->tiled && p->rows % BOX != 0 && (int64_t)to->row0 + p->rows != rows_at(s, to))
                maps = count_map(s, map, maps, to, ROWS);
        }
    }
    return maps <= SG_KERNEL_MAPS;
}

/* ---- The vendor's ---------------------------------------------------------------------------- */

/* Is AREA of the run at an address that the host knows, and not in the other half next time? */
static bool is_fixed(const sg_sched *s, const sg_area *area)
{
    return !sg_buf_is_shared(&s->buf[area->buf]) || s->baked;
}

bool sg_cuda_is_vendor(const sg_cuda_rank *rank, const sg_sched *s, const sg_launch *l)
{
    if (rank->vendor == NULL || !l->vendor || l->patches == 0) return false;
    const sg_patch *const patch = &s->patch[l->patch0];
    const sg_act act = patch->final ? s->problem->act : SG_ACT_NONE;
    const sg_area *const to = &s->to[patch->to0];
    if (patch->k0 == patch->k1 || to->leave) return false;
    bool fits = is_fixed(s, &patch->a) && is_fixed(s, &patch->b) && is_fixed(s, to);
    bool narrow = !s->buf[to->buf].wide || s->problem->type == SG_F32;
    for (int32_t i = patch->add0; i < patch->add0 + patch->adds; i++) {
        fits &= is_fixed(s, &s->add[i].area);
        narrow &= !s->buf[s->add[i].area.buf].wide || s->problem->type == SG_F32;
    }
    return fits && narrow && (act == SG_ACT_NONE || act == SG_ACT_RELU);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static const char odd_rows[] = "rows of k or n elements are not multiples of 16 bytes";
static const char odd_cut[] = "columns or k are cut at places that are no multiples of 16 bytes";

/* Says that no fast kernel does WHAT in tiles of L. */
static bool refuse(sg_text *why, const sg_sched *s, const sg_launch *l, const char *what)
{
    sg_text_add(why, "no fast kernel for %s%s in tiles of %dx%d", sg_type_name(s->problem->type),
                what, (int)l->tile_m, (int)l->tile_n);
    return false;
}

static bool stages_accepted(const sg_sched *s, const sg_launch *l, sg_text *why)
{
    if (ends_stages(s, l)) return true;
    sg_text_add(why, "parts of k are no multiples of %d", (int)SG_KERNEL_STAGE_K);
    return false;
}

/* Sums in f32 that go from launch to launch. */
static bool parts_accepted(const sg_sched *s, const sg_launch *l, const sg_kernel_tile *fast,
                           sg_text *why)
{
    if (!sg_cuda_owns_parts(s, l)) {
        sg_text_add(why, "sums that stay in f32 from launch to launch take a slow kernel");
        return false;
    }
    if (!stages_accepted(s, l, why)) return false;
    return fast->parts || refuse(why, s, l, " that adds parts of k");
}

static bool tagged_accepted(const sg_sched *s, const sg_launch *l, const sg_kernel_tile *fast,
                            sg_text *why)
{
    const bool owners = s->problem->ranks > 1 && s->patch[l->patch0].tos == 1;
    if (fast->tagged & (owners ? SG_KERNEL_TO_OWNERS : SG_KERNEL_ONE_HOP)) return true;
    return refuse(why, s, l,
                  owners ? " that sends it as tagged data to owners"
                         : " that sends it as tagged data in one hop");
}

static bool gathers_accepted(const sg_sched *s, const sg_launch *l, const sg_kernel_tile *fast,
                             sg_text *why)
{
    if (!(fast->tagged & SG_KERNEL_GATHERS))
        return refuse(why, s, l, " that gathers it as tagged data");
    return !has_addends(s, l) || refuse(why, s, l, " that gathers it as tagged data with addends");
}

/* Has the device a fast kernel for the tiles of L, and for what becomes of them? */
static bool kernel_accepted(const sg_sched *s, const sg_launch *l, sg_text *why)
{
    const sg_type type = s->problem->type;
    const sg_kernel_tile fast = find_fast(type, l);
    const bool wide = is_wide(s, l) && type != SG_F32;
    const bool tagged = sg_sched_is_tagged(s, l);
    const bool gathers = sg_sched_gathers_tagged(s);
    const bool adds = has_addends(s, l);
    const int32_t narrow = narrow_of(s, l);
    if (wide && !parts_accepted(s, l, &fast, why)) return false;
    if (fast.m == 0) return refuse(why, s, l, "");
    if (goes_on(s, l) && type != SG_F32 && !stages_accepted(s, l, why)) return false;
    if (narrow > 0 && (narrow != fast.narrow || adds)) {
        sg_text_add(why, "no fast kernel for %s in tiles of %dx%d and %dx%d%s", sg_type_name(type),
                    (int)l->tile_m, (int)l->tile_n, (int)l->tile_m, (int)narrow,
                    adds ? " with addends" : "");
        return false;
    }
    if (!wide && !tagged && !gathers && !fast.bare && !adds)
        return refuse(why, s, l, " without addends");
    if (!fast.adds && adds) return refuse(why, s, l, " with addends");
    if (tagged && !tagged_accepted(s, l, &fast, why)) return false;
    return !gathers || gathers_accepted(s, l, &fast, why);
}

/* Do rows, columns and parts of k begin and end where the kernels can load and store them? */
static bool layout_accepted(const sg_sched *s, const sg_launch *l, sg_text *why)
{
    const bool tagged = sg_sched_is_tagged(s, l);
    if (tramples(s, l)) {
        sg_text_add(why, "rows end inside a block of %d, which tiles of %dx%d store whole",
                    (int)line_of(s, l), (int)l->tile_m, (int)l->tile_n);
        return false;
    }
    if (!tagged && !ends_pieces(s, l)) {
        sg_text_add(why, "columns end inside a piece of %d, which tiles of %dx%d store whole",
                    piece_of(s, l) > 0 ? (int)piece_of(s, l) : (int)l->tile_n, (int)l->tile_m,
                    (int)l->tile_n);
        return false;
    }
    if (!tagged && !has_maps(s, l)) {
        sg_text_add(why, "a launch adds and stores more matrices than %d maps are for",
                    (int)SG_KERNEL_MAPS);
        return false;
    }
    if (!sg_cuda_is_cut_well(s, l) || (!tagged && !has_even_rows(s, l))) {
        sg_text_add(why, "%s", odd_cut);
        return false;
    }
    if (!is_aligned(s->problem, tagged)) {
        sg_text_add(why, "%s",
                    tagged ? "rows of k elements are not multiples of 16 bytes" : odd_rows);
        return false;
    }
    return true;
}

static bool launch_accepts(const sg_sched *s, const sg_launch *l, sg_text *why)
{
    if (l->vendor || !has_product(s, l)) return true;
    return kernel_accepted(s, l, why) && layout_accepted(s, l, why);
}

/* What the vendor would multiply is copied to where it is fast (even.c); other launches are not. */
static bool odd_accepts(const sg_sched *s, const sg_launch *l, sg_text *why)
{
    const bool odd = s->problem->type != SG_F32 && !is_aligned(s->problem, false);
    if (!odd || l->vendor || l->norm || sg_sched_is_tagged(s, l)) return true;
    for (int32_t i = l->patch0; i < l->patch0 + l->patches; i++) {
        if (sg_cuda_is_small(&s->patch[i])) continue;
        sg_text_add(why, "%s", odd_rows);
        return false;
    }
    return true;
}

/* None of our kernels, slow ones included, is bound for what is cut at odd bytes: what the vendor's
 * library does not do is refused here, and not when it is bound. */
static bool can_bind(const sg_cuda *cuda, const sg_sched *s, const sg_launch *l, sg_text *why)
{
    if (l->norm || sg_cuda_is_vendor(&cuda->rank[0], s, l) || sg_cuda_is_cut_well(s, l))
        return true;
    sg_text_add(why, "%s", odd_cut);
    return false;
}

/* ---- Schedules ------------------------------------------------------------------------------- */

static bool accepts(const sg_cuda *cuda, const sg_sched *s, sg_text *why)
{
    bool beside = s->flags > 0;
    if (s->problem->call) {
        sg_text_add(why, "the CUDA backend has no calls");
        return false;
    }
    if (s->problem->ranks > SG_CUDA_RANKS) {
        sg_text_add(why, "%d ranks; %d are possible", s->problem->ranks, (int)SG_CUDA_RANKS);
        return false;
    }
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_step *const step = &s->step[i];
        beside |= step->lane > 0;
        if (step->kind != SG_COLL || cuda->ranks == 1 || cuda->collect != NULL) continue;
        sg_text_add(why, "%s", cuda->no_collect);
        return false;
    }
    for (int32_t i = 0; i < s->steps; i++) {
        const sg_launch *const l = &s->step[i].u.launch;
        if (s->step[i].kind != SG_LAUNCH) continue;
        if (beside && !launch_accepts(s, l, why)) return false;
        if (!beside && !odd_accepts(s, l, why)) return false;
        if (!can_bind(cuda, s, l, why)) return false;
    }
    return true;
}

/* Fast kernels all add up k in the same way; slow ones do it as they are made. */
static bool keeps_order(const sg_cuda *cuda, const sg_sched *s, sg_text *why)
{
    (void)cuda;
    for (int32_t i = 0; i < s->steps; i++)
        if (s->step[i].kind == SG_LAUNCH && !launch_accepts(s, &s->step[i].u.launch, why))
            return false;
    return true;
}

/* Kernels are those of the first rank's GPU, whichever the caller's thread has at
 * hand: all ranks plan alike. */
static bool ask_there(const sg_cuda *cuda, const sg_sched *s, sg_text *why,
                      bool (*ask)(const sg_cuda *, const sg_sched *, sg_text *))
{
    int caller = 0;
    if (sg_cuda_enter(&cuda->rank[0], &caller) != SHINGLE_OK) {
        sg_text_add(why, "%s", shingle_error());
        return false;
    }
    const bool yes = ask(cuda, s, why);
    sg_cuda_leave(&cuda->rank[0], caller);
    return yes;
}

bool sg_cuda_accepts(void *self, const sg_sched *s, sg_text *why)
{
    return ask_there(self, s, why, accepts);
}

bool sg_cuda_keeps_order(void *self, const sg_sched *s, sg_text *why)
{
    return ask_there(self, s, why, keeps_order);
}
