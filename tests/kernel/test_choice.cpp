/* Which of several kernels of a tile serves a launch (src/kernel/gemm.cu), as the emulator's GPU is
 * asked: nothing is carried out. */
#include "kernel/instance.h"
#include "kernel/neighbours.h"
#include "kernel_world.h"

enum { SMS = 8, MANY_SMS = 40, TALL = 128, TALLER = 256 };

static sg_kernel_gemm g; /* the last one; large */
static sg_kernel_seats memory;

/* Tiles of a cluster, down and across, and blocks that take tiles. */
struct shape {
    int down, across, workers;
};

/* Of BANDS x COLS tiles of HEIGHT x WIDTH in one patch, which WAITS for a flag or not, and RAISES
 * others or not, over K. */
static shape chosen(int bands, int cols, int width, bool waits, bool raises = false, int k = 64,
                    sg_kernel_seats *seats = nullptr, int height = TALL)
{
    const std::string what = std::to_string(bands) + "x" + std::to_string(cols) + " tiles of " +
                             std::to_string(height) + "x" + std::to_string(width) +
                             (waits ? ", waiting" : "");
    const int m = bands * height, n = cols * width;
    matrix a = random_matrix((size_t)m * k), b = random_matrix((size_t)n * k);
    matrix c = poisoned((size_t)m * n);
    world w;
    lists l;
    l.rect(0, m, n, k, area(0, 0, 0, m, 0, k), area(0, 1, 0, n, 0, k));
    sg_wait wait = {};
    wait.by = 1;
    wait.per = SG_PER_PATCH;
    if (waits) l.waits(wait);
    l.store(area(0, 2, 0, m, 0, n));
    if (raises) l.raises(1, SG_PER_TILE, 0, 1);
    l.close();
    l.program.rank = &w.rank;
    l.program.place[0] = place_of(a, a, m, k, k);
    l.program.place[1] = place_of(b, b, n, k, k);
    l.program.place[2] = place_of(c, c, m, n, n);
    const char *why = sg_kernel_gemm_make(&g, &l.program, &l.host, 7, 0, 1, height, width, 0);
    if (seats == nullptr) g.want_math = SG_KERNEL_PINGPONG;
    g.seats = seats;
    if (why == nullptr) why = sg_kernel_gemm_aim(&g);
    if (why == nullptr) why = g.slow;
    expect(why == nullptr, what + ": " + (why ? why : ""));
    if (why != nullptr) return shape{0, 0, 0};
    int all;
    const sg_instance *const i = sg_instance_table(&all) + g.instance;
    printf("%s: clusters of %d x %d\n", what.c_str(), i->cm, i->cn);
    return shape{i->cm, i->cn, g.param.workers};
}

/* Who has which seat of BANDS x COLS tiles, if any has: SMs side by side read the same rows and
 * columns. */
static bool seated(int bands, int cols, int width, int k = 64)
{
    const shape s = chosen(bands, cols, width, false, false, k, &memory);
    if (g.param.seats == nullptr) return false;
    uint8_t sm[MANY_SMS];
    std::vector<int> taken(MANY_SMS, 0);
    expect(sg_neighbours(sm, MANY_SMS) == MANY_SMS && g.blocks == MANY_SMS, "on all SMs");
    expect(s.down == 1 && s.across == 1, "by single blocks");
    for (int i = 0; i < MANY_SMS; ++i) ++taken[g.param.seat[i]];
    for (int n : taken) expect(n == 1, "a seat for each SM");
    const int down = bands < 4 ? 2 : 4;
    for (int i = 0; i < 32; ++i) {
        int band, col;
        sg_walk_unit(&g.param.first, TALL, width, 1, 1, g.param.seat[sm[i]], &band, &col);
        const int from = i / SG_NEIGHBOURS * SG_NEIGHBOURS / down;
        expect(band < down && col >= from && col < from + SG_NEIGHBOURS / down,
               "SM " + std::to_string(i) + " has tile " + std::to_string(band) + ", " +
                   std::to_string(col));
    }
    return true;
}

/* What is cut at odd bytes is left to the slow kernels by a tile of this shape (lower.c). */
static void no_fast_tile_is_256x256()
{
    int all;
    const sg_instance *table = sg_instance_table(&all);
    for (int i = 0; i < all; ++i)
        expect(table[i].bm != 256 || table[i].bn != 256, "a fast tile of 256x256");
}

/* A type that no fast kernel has here (SHINGLE_F16=OFF) has the tiles of the slow ones. */
static void other_types_have_slow_tiles()
{
    sg_kernel_tile tile[24] = {};
    expect(sg_kernel_tiles(SG_KERNEL_BF16, tile, 24) > 8, "many tiles of bf16");
    for (sg_kernel_type type : {SG_KERNEL_F16, SG_KERNEL_F32}) {
        expect(sg_kernel_tiles(type, tile, 24) == 1, "one slow tile");
        expect(tile[0].m == 128 && tile[0].n == 128 && tile[0].bare && tile[0].adds, "that does");
        expect(!tile[0].parts && !tile[0].tagged && !tile[0].narrow, "no more than it can");
    }
}

/* A tile that has clusters alone, for few rows that would have seats in another one. */
static bool clustered(int bands, int cols, int width)
{
    const shape s = chosen(bands, cols, width, false, false, 64, &memory, TALLER);
    return s.down * s.across == 2 && g.param.seats == nullptr;
}

int main(void)
{
    no_fast_tile_is_256x256();
    other_types_have_slow_tiles();
    emu_sms(SMS);
    /* 128x192 ping-pong shares B where rows are waited for, in up to two waves. */
    expect(chosen(4, 4, 192, true).down == 2, "two waves that wait share B");
    expect(chosen(4, 5, 192, true).down == 1, "three waves that wait do not");
    expect(chosen(4, 4, 192, false).down == 1, "two waves that wait for nothing do not");
    expect(chosen(3, 4, 192, true).down == 1, "a cluster has no half");
    /* Rows of an odd multiple of 16 bytes are shared wherever few tiles are left out. */
    expect(chosen(4, 5, 192, true, false, 72).down == 2, "three waves of odd rows share B");
    expect(chosen(4, 4, 192, false, false, 72).down == 2, "odd rows that wait for nothing, too");
    expect(chosen(4, 5, 192, true, false, 80).down == 1, "rows of whole sectors are not odd");
    expect(chosen(3, 4, 192, true, false, 72).down == 1, "nor does half a cluster share them");
    expect(chosen(4, 4, 128, false).down == 2, "128x128 shares B");
    expect(chosen(4, 5, 128, true).down == 2, "also where it waits, in three waves");
    /* Two waves of 40 SMs are dealt to 38, if nobody waits for the second. */
    emu_sms(MANY_SMS);
    expect(chosen(4, 19, 128, false).workers == 38, "76 tiles are dealt to 38 SMs");
    expect(chosen(4, 19, 128, true).workers == 38, "those that wait, too");
    expect(chosen(4, 19, 128, false, true).workers == 40, "others wait for the last ones");
    expect(chosen(4, 17, 128, false).workers == 40, "34 SMs would be too few");
    expect(seated(4, 10, 256) && seated(2, 20, 256) && seated(2, 20, 96), "few rows have seats");
    expect(!seated(1, 40, 256), "of one band all read the same");
    expect(!seated(9, 5, 256), "of many rows they do not wait for the L2");
    expect(!seated(4, 10, 256, 72), "nobody shares odd rows");
    expect(!seated(4, 10, 128), "128x128 stays ping-pong, in clusters");
    expect(clustered(4, 10, 160), "256x160 has clusters and no seats");
    expect(clustered(4, 10, 128), "256x128, too");
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
