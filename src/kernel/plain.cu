/* plain.cu -- which kernel, order and slices of k for a product by itself: a rough model of the
 * H200 in cycles.  The ranking is what matters; a planner that times the first few gets the
 * best. */
#include "kernel/instance.h"

enum { MOST_CHOICES = 256, STAGE = SG_KERNEL_STAGE_K };

/* Bytes a cycle: out of the L2 and into its shared memory, for an SM; out of memory for all, and
 * for one block alone.  The L2 joins what several SMs ask for at nearly the same time, but no
 * multicast: where four bands or more run side by side in one wave, so much of it is read, and more
 * goes in.  Ping-pong tiles, whose stages nobody waits for between two tiles, get a little more. */
static const double CLOCK_GHZ = 1.75, L2_BYTES = 52, PINGPONG_L2_BYTES = 54, SM_BYTES = 60,
                    HBM_BYTES = 2400, BLOCK_BYTES = 21, JOINED = 0.62, JOINED_SM_BYTES = 72;
static const uint64_t KEEP_NORMAL = UINT64_C(0x1000000000000000);
static const uint64_t FIRST_OUT = UINT64_C(0x12f0000000000000);
static const uint64_t LAST_OUT = UINT64_C(0x14f0000000000000);

typedef struct choice {
    const sg_instance *k;
    int width, split, skew;
    double us;
} choice;

static double most(double a, double b)
{
    return a > b ? a : b;
}

/* Between two tiles, in cycles: ping-pong, one stores under the products of the other; otherwise
 * half of it shows, and all of it where no register holds a finished tile. */
static double change_of_tile(const sg_instance *k)
{
    if (k->math == SG_KERNEL_PINGPONG) return 150;
    return k->bm > 128 ? k->bm * k->bn * 0.12 : 500 + k->bm * k->bn * 0.012;
}

static double predict_us(const sg_instance *k, const sg_kernel_plain *q, int sms, int split)
{
    const int cluster = k->cm * k->cn, groups = sms / cluster;
    const int down = sg_walk_div(sg_walk_div(q->m, k->bm), k->cm);
    const int over = sg_walk_div(sg_walk_div(q->n, k->bn), k->cn);
    const int stages = sg_walk_div(sg_walk_div(q->k, STAGE), split);
    const int rows = sg_walk_min(k->bm, sg_walk_div(q->m, 8) * 8);
    const double math = k->bm * k->bn / 32.0 * (k->math == SG_KERNEL_PINGPONG ? 1.01 : 1.03);
    const double visits = ceil((double)down * over * split / groups);
    const bool joined = cluster == 1 && visits == 1 && down >= 4;
    const double into = (rows + k->bn) * 128 / (joined ? JOINED_SM_BYTES : SM_BYTES);
    const double out = k->math == SG_KERNEL_PINGPONG ? PINGPONG_L2_BYTES : L2_BYTES;
    const double load = (rows / (double)k->cn + k->bn / (double)k->cm) * 128 / out;
    const double stage = most(math, most(into, joined ? load * JOINED : load)) + 4;
    const double cycles = visits * (stages * stage + change_of_tile(k)) + k->bm * k->bn * 0.03;
    const double bytes = 2.0 * ((double)q->m * q->k + (double)q->n * q->k + (double)q->m * q->n);
    const double blocks = most(1, fmin(sms, (double)down * over * split * cluster));
    const double memory = most(bytes / HBM_BYTES, bytes / blocks / BLOCK_BYTES);
    const double fold = split > 1 ? 3500 + (split - 1) * k->bm * k->bn * 4.0 / 40 : 0;
    /* Of equals, few waves, and few bands, since each reads all of B. */
    const double start = 7000 + 100 * visits + 50 * down + 150 * (cluster - 1);
    return (start + most(cycles, memory) + fold) / CLOCK_GHZ / 1000;
}

/* At most four of one kernel are kept, the best first. */
static int insert(choice *list, int count, choice c)
{
    int same = 0, at = count;
    for (int i = 0; i < count; ++i) same += list[i].k == c.k && list[i].us <= c.us;
    if (same >= 4 || count == MOST_CHOICES) return count;
    while (at > 0 && list[at - 1].us > c.us) list[at] = list[at - 1], --at;
    list[at] = c;
    return count + 1;
}

static int list_choices(const sg_kernel_plain *q, int sms, choice *list)
{
    int all, count = 0;
    const sg_instance *table = sg_instance_table(&all);
    for (int i = 0; i < all; ++i) {
        const sg_instance *k = &table[i];
        const int bands = sg_walk_div(q->m, k->bm), cols = sg_walk_div(q->n, k->bn);
        const bool slices = k->fold == FOLD_SLICES;
        if (k->type != q->type || (k->bm > 64 && q->m <= 64)) continue;
        if (k->fold != FOLD_NONE && !slices) continue; /* it adds what other launches have */
        if ((k->cm > 1 && bands < 2) || (k->cn > 1 && cols < 2)) continue;
        /* Groups of bands about as high as makes a wave's tiles a square of operand bytes. */
        const int wave = (int)most(1, round(sqrt(sms * (double)k->bn / k->bm)));
        const int width = sg_walk_min(bands, sg_walk_min(wave, 255));
        for (int split = slices ? 2 : 1; split <= (slices ? 8 : 1); ++split) {
            if (split > 1 &&
                (split * 4 > sg_walk_div(q->k, STAGE) || (int64_t)bands * cols * split > 2 * sms))
                continue;
            const double us = predict_us(k, q, sms, split);
            /* A slice that others wait for computes four stages less. */
            count = insert(list, count, choice{k, width, split, split > 1 ? 4 : 0, us});
            if (split > 1) count = insert(list, count, choice{k, width, split, 0, us * 1.0001});
            if (split > 1) count = insert(list, count, choice{k, width, split, 6, us * 1.0002});
            for (int part = 1; part <= 3; ++part) {
                static const double share[4] = {1, 0.5, 0.75, 2};
                const int other = sg_walk_min(bands, sg_walk_min((int)(wave * share[part]), 255));
                if (other > 0 && other != width)
                    count = insert(list, count, choice{k, other, split, 0, us * (1 + 2e-4 * part)});
            }
        }
    }
    return count;
}

const char *sg_kernel_plain_choose(sg_kernel_plain *q, int rank)
{
    int device = 0, sms = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        return "there is no GPU";
    choice list[MOST_CHOICES];
    const int count = list_choices(q, sms, list);
    if (rank < 0 || rank >= count) return "there is no further choice";
    const choice *c = &list[rank];
    const sg_instance *k = c->k;
    const int cluster = k->cm * k->cn;
    const int64_t units = (int64_t)sg_walk_div(sg_walk_div(q->m, k->bm), k->cm) *
                          sg_walk_div(sg_walk_div(q->n, k->bn), k->cn);
    memset(&q->patch, 0, sizeof q->patch);
    memset(&q->to, 0, sizeof q->to);
    q->to.buf = 2;
    q->to.rows = q->patch.rows = q->m;
    q->to.cols = q->patch.cols = q->n;
    q->patch.k1 = q->k;
    q->patch.raster = SG_GROUPED;
    q->patch.width = (uint8_t)c->width;
    q->patch.final = 1;
    q->patch.tos = 1;
    q->patch.a.rows = q->m;
    q->patch.b.buf = 1;
    q->patch.b.rows = q->n;
    q->patch.a.cols = q->patch.b.cols = q->k;
    q->tile_m = k->bm;
    q->tile_n = k->bn;
    q->cluster = cluster;
    q->math = k->math;
    q->split = c->split;
    q->skew = c->skew;
    q->blocks = 0;
    q->keep_a = q->m <= 128 ? LAST_OUT : KEEP_NORMAL; /* rows of A are read by all, B by one */
    q->keep_b = q->m <= 128 ? FIRST_OUT : KEEP_NORMAL;
    q->partial_bytes = (c->split - 1) * units * cluster * k->bm * k->bn * 4;
    q->fold_bytes =
        c->split > 1 ? units * cluster * (k->groups / (k->math == SG_KERNEL_PINGPONG ? 2 : 1)) * 4
                     : 0;
    q->predicted_us = c->us;
    return nullptr;
}

const char *sg_kernel_plain_make(sg_kernel_gemm *gemm, const sg_kernel_plain *plain,
                                 const sg_kernel_program *program, const sg_kernel_lists *lists,
                                 float *partial, uint32_t *fold)
{
    const char *why = sg_kernel_gemm_make(gemm, program, lists, 0, 0, 1, plain->tile_m,
                                          plain->tile_n, plain->blocks);
    if (why != nullptr) return why;
    gemm->want_split = plain->split;
    gemm->want_skew = plain->skew;
    gemm->want_cluster = plain->cluster;
    gemm->want_math = plain->math;
    gemm->param.partial = partial;
    gemm->param.fold = fold;
    gemm->param.keep_a = plain->keep_a;
    gemm->param.keep_b = plain->keep_b;
    return nullptr;
}
