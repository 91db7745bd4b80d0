/* Which SM begins with which tile of a launch of few rows (deal_seats() in src/kernel/deal.cuh), as
 * the emulator's GPU is asked; and that its block there does (src/kernel/seat_sm90.cuh). */
#include "kernel/instance.h"
#include "kernel/neighbours.h"
#include "kernel_world.h"

enum { SMS = 40, TALL = 128, WIDE = 256, K = 64, OWN = 0, OTHERS = 3 };

/* A launch of tiles of 128x256 on 40 SMs. */
struct wave {
    const std::string what;
    const int bands, cols;
    world w;
    lists l;
    matrix any = matrix(1); /* is not touched */
    sg_kernel_seats memory = {};
    sg_kernel_gemm g;

    wave(const char *name, int rows_of_tiles, int cols_of_tiles)
        : what(name), bands(rows_of_tiles), cols(cols_of_tiles)
    {
    }
    /* DOWN x ACROSS tiles from BAND and COL on, whose rows are PLACE's from ROW on. */
    void patch(int band, int down, int col, int across, int place, int row, int raster);
    void whole(int raster);
    void make(void);
    void aim(void);
    void check(int down, int groups, int full);
    void none(int cluster);
};

void wave::patch(int band, int down, int col, int across, int place, int row, int raster)
{
    sg_patch &p =
        l.rect(band * TALL, down * TALL, across * WIDE, K, area(0, place, row, down * TALL, 0, K),
               area(0, 1, col * WIDE, across * WIDE, 0, K));
    p.col0 = col * WIDE;
    p.raster = (uint8_t)raster;
    l.store(area(0, 2, band * TALL, down * TALL, col * WIDE, across * WIDE));
}

void wave::whole(int raster)
{
    patch(0, bands, 0, cols, OWN, 0, raster);
    make();
}

void wave::make(void)
{
    l.close();
    l.program.rank = &w.rank;
    l.program.place[OWN] = l.program.place[OTHERS] = place_of(any, any, bands * TALL, K, K);
    l.program.place[1] = place_of(any, any, cols * WIDE, K, K);
    l.program.place[2] = place_of(any, any, bands * TALL, cols * WIDE, cols * WIDE);
    const char *why =
        sg_kernel_gemm_make(&g, &l.program, &l.host, 7, 0, (int)l.patch.size(), TALL, WIDE, 0);
    expect(why == nullptr, what + ": is made");
    g.seats = &memory;
}

void wave::aim(void)
{
    const char *why = sg_kernel_gemm_aim(&g);
    if (why == nullptr) why = g.slow;
    expect(why == nullptr, what + ": " + (why ? why : ""));
}

/* Every SM has a seat.  Those of the first FULL GPCs begin with tiles of DOWN bands each, GROUPS
 * GPCs one below the other, and every DOWN side by side with one column. */
void wave::check(int down, int groups, int full)
{
    uint8_t sm[SMS];
    int taken[SMS] = {};
    aim();
    expect(sg_neighbours(sm, SMS) == SMS && g.blocks == SMS, what + ": on all SMs");
    expect(g.param.seats == &memory, what + ": has seats");
    if (g.param.seats == nullptr) return;
    for (int i = 0; i < SMS; ++i) ++taken[g.param.seat[i] % SMS];
    for (int n : taken) expect(n == 1, what + ": a seat for each SM");
    for (int i = 0; i < full * SG_NEIGHBOURS; ++i) {
        const int gpc = i / SG_NEIGHBOURS, at = i % SG_NEIGHBOURS, seat = g.param.seat[sm[i]];
        const sg_kernel_deal &d = g.param.deal[seat];
        const sg_patch &p = l.patch[d.patch];
        const int band = p.row0 / TALL + d.band, col = p.col0 / WIDE + d.col;
        expect(seat < g.param.workers && band == gpc % groups * down + at % down &&
                   col == gpc / groups * (SG_NEIGHBOURS / down) + at / down,
               what + ": SM " + std::to_string(i) + " has tile " + std::to_string(band) + ", " +
                   std::to_string(col));
    }
}

/* There are none, and clusters of CLUSTER blocks. */
void wave::none(int cluster)
{
    int all;
    aim();
    const sg_instance *const i = sg_instance_table(&all) + g.instance;
    expect(g.param.seats == nullptr && i->cm * i->cn == cluster, what);
}

static void whole_waves(void)
{
    struct {
        int bands, cols, raster, down, groups, full;
    } const of[] = {
        {4, 10, SG_BY_COL, 4, 1, 2}, {4, 10, SG_BY_ROW, 4, 1, 2},
        {8, 5, SG_BY_COL, 4, 2, 2}, /* the most rows */
        {2, 20, SG_BY_COL, 2, 1, 2}, {3, 13, SG_BY_COL, 2, 2, 1},
        {4, 9, SG_BY_COL, 4, 1, 2},  /* four SMs have no tile */
        {6, 14, SG_BY_ROW, 2, 2, 1}, /* of which three bands are in the first wave */
        {6, 26, SG_BY_ROW, 2, 1, 1}, /* more tiles than any GPU has SMs */
    };
    for (const auto &x : of) {
        const std::string name = std::to_string(x.bands) + "x" + std::to_string(x.cols) + " tiles";
        wave t(name.c_str(), x.bands, x.cols);
        t.whole(x.raster);
        t.check(x.down, x.groups, x.full);
    }
}

/* Two halves of columns, of which one has others' rows in one patch, and one in two, the last ones
 * first. */
static void patches(void)
{
    wave t("patches", 4, 10);
    for (int col = 0; col < 10; col += 5) {
        t.patch(0, 1, col, 5, OWN, 0, SG_BY_COL);
        if (col > 0) t.patch(2, 2, col, 5, OTHERS, TALL, SG_BY_COL);
        t.patch(1, col > 0 ? 1 : 3, col, 5, OTHERS, 0, SG_BY_COL);
    }
    t.make();
    t.check(4, 1, 2);
}

/* Couriers have the last seats, whatever tiles of the first wave they leave to others. */
static void couriers(void)
{
    wave t("couriers", 4, 16);
    t.whole(SG_BY_ROW);
    t.g.ranks = 2;
    t.g.param.pushes = 8;
    t.check(2, 1, 2);
    expect(t.g.param.workers == 32, "32 of 40 blocks have tiles");
}

static void asked_for(void)
{
    for (int cluster = 1; cluster <= 2; ++cluster) {
        wave t(cluster == 1 ? "single blocks" : "clusters have no seats", 4, 10);
        t.whole(SG_BY_COL);
        t.g.want_cluster = cluster;
        cluster == 1 ? t.check(4, 1, 2) : t.none(2);
    }
    for (int blocks = SMS - 2; blocks <= SMS; blocks += 2) {
        wave t(blocks == SMS ? "all SMs" : "of fewer SMs nobody has a seat", 4, 10);
        t.whole(SG_BY_COL);
        t.g.want_blocks = blocks;
        blocks == SMS ? t.check(4, 1, 2) : t.none(2);
    }
}

static void without(void)
{
    wave memory("no memory", 4, 10);
    memory.whole(SG_BY_COL);
    memory.g.seats = nullptr;
    memory.none(2);
    wave unknown("nothing is known of SMs", 4, 10);
    unknown.whole(SG_BY_COL);
    emu_first_sm(-1);
    unknown.none(2);
    wave beyond("an SM has a number that none should have", 4, 10);
    beyond.whole(SG_BY_COL);
    emu_first_sm(SG_KERNEL_BLOCKS - SMS + 1);
    beyond.none(1);
    emu_first_sm(0);
}

/* ---- On the emulator ------------------------------------------------------------------------- */

enum { FEW_SMS = 8, LOW = 64, NARROW = 128, DOWN = 2, ACROSS = 4, LAUNCHES = 12 };

static const void *a_here;
static std::vector<int> begun[2]; /* of each SM, the first rows of A and B that it asked for */

static void see(int sm, const void *base, int row, int)
{
    int &first = begun[base != a_here][(size_t)sm];
    if (first < 0) first = row;
}

/* Where each block has an SM to itself, its first tile is that of the SM's seat. */
static void seats_are_taken(void)
{
    emu_sms(FEW_SMS);
    const int m = DOWN * LOW, n = ACROSS * NARROW;
    matrix a = random_matrix((size_t)m * K), b = random_matrix((size_t)n * K);
    matrix c = poisoned((size_t)m * n);
    a_here = a.data();
    lists l;
    l.rect(0, m, n, K, area(0, 0, 0, m, 0, K), area(0, 1, 0, n, 0, K));
    l.store(area(0, 2, 0, m, 0, n));
    l.close();
    l.program.place[0] = place_of(a, a, m, K, K);
    l.program.place[1] = place_of(b, b, n, K, K);
    l.program.place[2] = place_of(c, c, m, n, n);
    static sg_kernel_seats memory;
    static sg_kernel_gemm g;
    const char *why = sg_kernel_gemm_make(&g, &l.program, &l.host, 7, 0, 1, LOW, NARROW, 0);
    g.seats = &memory;
    if (why == nullptr) why = sg_kernel_gemm_aim(&g);
    expect(why == nullptr && g.slow == nullptr && g.param.seats != nullptr, "taken seats");
    int alone = 0, elsewhere = 0;
    for (int i = 0; i < LAUNCHES; ++i) {
        for (auto &first : begun) first.assign(FEW_SMS, -1);
        emu_loads_seen(see);
        expect(sg_kernel_gemm_run(&g, 0, nullptr) == cudaSuccess, "taken seats: goes through");
        emu_loads_seen(nullptr);
        bool all = true;
        for (int row : begun[0]) all &= row >= 0;
        alone += all;
        for (int sm = 0; all && sm < FEW_SMS; ++sm) {
            const sg_kernel_deal &d = g.param.deal[g.param.seat[sm]];
            elsewhere += begun[0][(size_t)sm] != d.band * LOW;
            elsewhere += begun[1][(size_t)sm] != d.col * NARROW;
        }
    }
    expect(alone > 0 && elsewhere == 0, std::to_string(elsewhere) + " of " + std::to_string(alone) +
                                            " launches' tiles begin elsewhere");
}

int main(void)
{
    emu_sms(SMS);
    whole_waves();
    patches();
    couriers();
    asked_for();
    without();
    seats_are_taken();
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
