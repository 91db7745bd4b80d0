/* test_kernel.cpp -- the Hopper product as it stands, on the emulator: ragged shapes, clusters,
 * waits in any order of arrival, addends, places for tiles, slices of k, raises, several
 * destinations.  Data are small integers, so that every result has one right value; what must not
 * be written is poison.
 *     test_kernel [SEED]      a draw of the order in which everything happens */
#include "arrivals.h"

/* For launches of W's rank 0; NULL: of no rank. */
static void finish(lists &l, world *w)
{
    l.close();
    l.program.rank = w != nullptr ? &w->rank : nullptr;
    if (w != nullptr && draw(2)) l.program.own = w->words[0];
}

static int arch; /* 0: Hopper; 80, 70: the slower kernels */
static int math; /* enum sg_kernel_math */
static bool own_parts;

static bool carry_out(lists &l, int patch0, int patches, int tm, int tn, int cluster, int blocks,
                      const std::string &what)
{
    static sg_kernel_gemm g; /* large */
    const char *why =
        sg_kernel_gemm_make(&g, &l.program, &l.host, 7, patch0, patches, tm, tn, blocks);
    g.want_cluster = cluster;
    g.want_math = math;
    g.own_parts = own_parts;
    if (arch != 0) g.arch = arch;
    if (why == nullptr) why = sg_kernel_gemm_aim(&g);
    if (why == nullptr && arch == 0 && l.patch[(size_t)patch0].k1 > 0) why = g.slow;
    expect(why == nullptr, what + ": " + (why ? why : ""));
    if (why != nullptr) return false;
    const bool ok = sg_kernel_gemm_run(&g, 0, nullptr) == cudaSuccess;
    expect(ok, what + ": stands still");
    return ok;
}

static std::string named(const char *what, int m, int n, int k, int tm, int tn)
{
    return std::string(what) + " " + std::to_string(m) + "x" + std::to_string(n) + "x" +
           std::to_string(k) + " tile " + std::to_string(tm) + "x" + std::to_string(tn);
}

static void single(int m, int n, int k, int tm, int tn, int cluster)
{
    const std::string what =
        named("single", m, n, k, tm, tn) + " cluster " + std::to_string(cluster);
    matrix a = random_matrix((size_t)m * k), b = random_matrix((size_t)n * k),
           bias = random_matrix((size_t)n);
    matrix c = poisoned((size_t)m * (n + 8));
    std::vector<float> want = product(a.data(), k, b, m, n, k);
    for (size_t i = 0; i < want.size(); ++i) {
        want[i] += __bfloat162float(bias[i % (size_t)n]);
        if (want[i] < 0) want[i] = 0;
    }
    world w;
    lists l;
    l.rect(0, m, n, k, area(0, 0, 0, m, 0, k), area(0, 1, 0, n, 0, k));
    l.store(area(0, 2, 0, m, 0, n));
    const int bands = up(m, tm), cols = up(n, tn);
    l.raises(0, SG_PER_TILE, 250, 1);
    for (int i = 0; i < 16; ++i) l.raises(2, SG_PER_PATCH, 5 + i, bands * cols); /* > RAISES */
    l.program.bias = bias.data();
    l.program.act = SG_KERNEL_RELU;
    finish(l, &w);
    l.program.place[0] = place_of(a, a, m, k, k);
    l.program.place[1] = place_of(b, b, n, k, k);
    l.program.place[2] = place_of(c, c, m, n, n + 8);
    if (!carry_out(l, 0, 1, tm, tn, cluster, 0, what)) return;
    judge(c, n + 8, 0, m, n, want.data(), what);
    int bad = 0;
    for (int i = 0; i <= bands * cols; ++i)
        bad += (w.word(0, 0, 250 + i) == w.rank.epoch) != (i < bands * cols);
    for (int i = 0; i < 16; ++i) bad += w.word(2, 0, 5 + i) != w.rank.epoch;
    for (uint32_t x : l.count) bad += x != 0;
    expect(bad == 0 && w.trouble.kind == 0, what + ": raises");
}

static int narrow; /* columns of tiles of all rows but the second rank's; 0: as of these */

static void gather(int m, int n, int k, int tm, int tn, int cluster, int chunk, int chunk_k)
{
    const std::string what = named("gather", m, n, k, tm, tn) + " cluster " +
                             std::to_string(cluster) + " chunk " + std::to_string(chunk) + "," +
                             std::to_string(chunk_k) +
                             (narrow ? " narrow " + std::to_string(narrow) : "");
    int base[RANKS + 1];
    for (int r = 0; r <= RANKS; ++r) base[r] = r * (m / RANKS) + (r < m % RANKS ? r : m % RANKS);
    matrix a = random_matrix((size_t)m * k), b = random_matrix((size_t)n * k);
    matrix c = poisoned((size_t)m * n), gathered = poisoned((size_t)m * k), other = gathered;
    const std::vector<float> want = product(a.data(), k, b, m, n, k);
    world w;
    w.rank.limit_ns *= (uint64_t)odds / 20;
    lists l;
    arriving = arrival{&w, &a, &gathered, k, {}};
    const int slabs = chunk_k ? up(k, chunk_k) : 1;
    for (int q = 0; q < RANKS; ++q) {
        const int rows = base[q + 1] - base[q];
        l.rect(base[q], rows, n, k, area(0, q ? 3 : 0, base[q], rows, 0, k),
               area(0, 1, 0, n, 0, k));
        l.store(area(0, 2, base[q], rows, 0, n));
        l.patch.back().tile_n = q != 1 ? narrow : 0;
        if (q == 0) continue;
        sg_wait wait = {};
        wait.by = (int16_t)q;
        wait.per = SG_PER_ROWS;
        wait.flag0 = 250;
        wait.row0 = base[q];
        wait.rows = rows;
        wait.chunk = chunk;
        wait.chunk_k = chunk_k;
        wait.chunks_k = slabs;
        l.waits(wait);
        l.patch.back().slab = chunk_k;
        for (int x = 0, i = 0; x < rows; x += chunk, ++i)
            for (int s = 0; s < slabs; ++s) {
                const int k0 = s * chunk_k, width = chunk_k && k - k0 > chunk_k ? chunk_k : k - k0;
                arriving.left.push_back({q, 250 + i * slabs + s, base[q] + x,
                                         rows - x < chunk ? rows - x : chunk, k0, width});
            }
    }
    finish(l, &w);
    l.program.place[0] = place_of(a, a, m, k, k);
    l.program.place[1] = place_of(b, b, n, k, k);
    l.program.place[2] = place_of(c, c, m, n, n);
    l.program.place[3] = place_of(other, gathered, m, k, k); /* the run uses half 1 */
    if (odds > 20) l.program.own = w.words[0];
    w.rank.limit_ns *= 1 + arriving.left.size() / 32; /* they come one by one */
    const size_t later = arriving.left.size() / (odds > 20 ? 2 : 1);
    while (arriving.left.size() > later) arrive();
    emu_outside(arrive);
    const bool ok = carry_out(l, 0, RANKS, tm, tn, cluster, 0, what);
    emu_outside(nullptr);
    if (!ok) return;
    judge(c, n, 0, m, n, want.data(), what);
    expect(w.trouble.kind == 0 && arriving.left.empty(), what + ": trouble");
}

static int senders = RANKS - 1; /* whose tiles own ones add in scatter() ... */
static bool rounded;            /* ... when they have been rounded */
static int stores = 1;          /* times that its tiles go to the own tensor */

/* Own tiles add those of peers, which arrive tile by tile, and go to three tensors.  AWAY: whose
 * hello is missing; 0: nobody's. */
static void scatter(int m, int n, int k, int tm, int tn, int cluster, int own_at, int away)
{
    const std::string what = named("scatter", m, n, k, tm, tn) + " cluster " +
                             std::to_string(cluster) + " own " + std::to_string(own_at) +
                             (rounded ? " rounded, of " + std::to_string(senders) : "") +
                             (away ? ", hello " + std::to_string(away) + " is missing" : "");
    matrix a = random_matrix((size_t)m * k), b = random_matrix((size_t)n * k);
    matrix inbox = random_matrix((size_t)2 * m * n), late = poisoned((size_t)2 * m * n);
    const size_t all = (size_t)m * n;
    for (T &v : a) v = __float2bfloat16_rn(__bfloat162float(v) / 4);
    /* Of two, only sums in the listed order have the right bits. */
    for (size_t i = 0; i < all && senders > 1; ++i) {
        inbox[i] = __float2bfloat16_rn(__bfloat162float(inbox[i]) * (1 << 24));
        inbox[all + i] = __float2bfloat16_rn(-__bfloat162float(inbox[i]));
    }
    std::vector<float> want = product(a.data(), k, b, m, n, k);
    for (size_t i = 0; i < all; ++i) {
        const float own = rounded ? __bfloat162float(__float2bfloat16(want[i])) : want[i];
        float sum = own_at == 0 ? own : 0.f;
        for (int q = 0; q < senders; ++q) {
            sum += __bfloat162float(inbox[(size_t)q * all + i]);
            if (q + 1 == own_at) sum += own;
        }
        want[i] = __bfloat162float(__float2bfloat16(sum));
    }
    const int row0 = 5; /* other rows before and behind */
    matrix c[RANKS];
    for (matrix &x : c) x = poisoned((size_t)(m + 2 * row0) * n);
    world w;
    w.rank.limit_ns *= 1 + (uint64_t)(up(m, tm) * up(n, tn)) / 16; /* they come one by one */
    if (away) w.rank.limit_ns = 300000;
    for (int q = 1; q < RANKS; ++q)
        if (q != away) w.hello[(size_t)(2 * q) + (w.rank.epoch & 1)] = {w.rank.epoch, 99, 0, 0};
    lists l;
    sg_patch &p = l.rect(0, m, n, k, area(0, 0, 0, m, 0, k), area(0, 1, 0, n, 0, k));
    p.own_at = (uint16_t)own_at, p.own_rounded = rounded;
    const int tiles = up(m, tm) * up(n, tn);
    arriving = arrival{&w, &inbox, &late, n, {}};
    for (int q = 1; q <= senders; ++q) {
        sg_wait wait = {};
        wait.by = (int16_t)q;
        wait.per = SG_PER_TILE;
        wait.flag0 = 100;
        l.adds(area(0, 3, (q - 1) * m, m, 0, n), &wait);
        arrive_in_tiles(q, 100, (q - 1) * m, m, n, tm, tn);
    }
    for (int q = 0; q < RANKS; ++q) {
        sg_area to = area(q, 4 + q, row0, m, 0, n);
        to.leave = q > 0;
        for (int i = 0; i < (q > 0 ? 1 : stores); ++i) l.store(to);
        if (q > 0) l.raises(q, SG_PER_PATCH, 1, tiles);
    }
    finish(l, &w);
    l.program.hash = 99;
    l.program.place[0] = place_of(a, a, m, k, k);
    l.program.place[1] = place_of(b, b, n, k, k);
    l.program.place[3] = place_of(late, late, 2 * m, n, n);
    for (int q = 0; q < RANKS; ++q)
        l.program.place[4 + q] = place_of(c[q], c[q], m + 2 * row0, n, n);
    emu_outside(arrive);
    const bool ok = carry_out(l, 0, 1, tm, tn, cluster, 0, what);
    emu_outside(nullptr);
    if (!ok) return;
    if (away) {
        const sg_kernel_trouble &t = w.trouble;
        expect(t.kind == SG_KERNEL_STUCK_LEAVE && t.late && t.by == away && t.step == 7,
               what + ": trouble");
        expect(w.abort[0] == w.rank.epoch, what + ": abort");
        judge(c[away], n, 0, 0, n, nullptr, what + ", its tensor");
        return;
    }
    for (int q = 0; q < RANKS; ++q) judge(c[q], n, row0, m, n, want.data(), what);
    expect(w.trouble.kind == 0, what + ": trouble");
    expect(w.word(1, 0, 1) == w.rank.epoch && w.word(2, 0, 1) == w.rank.epoch, what + ": raises");
}

/* The own product goes to the own inbox, and a patch without a product behind it adds up all
 * inboxes, tile by tile as they come: a launch of an all-reduce with one hop. */
static void one_hop(int m, int n, int k, int tm, int tn)
{
    const std::string what = named("one hop", m, n, k, tm, tn);
    matrix a = random_matrix((size_t)m * k), b = random_matrix((size_t)n * k);
    matrix inbox = random_matrix((size_t)2 * m * n), late = poisoned((size_t)3 * m * n);
    matrix c = poisoned((size_t)m * n);
    std::vector<float> want = product(a.data(), k, b, m, n, k);
    for (int i = 0; i < 2 * m * n; ++i)
        want[(size_t)(i % (m * n))] += __bfloat162float(inbox[(size_t)i]);
    world w;
    lists l;
    const int tiles = up(m, tm) * up(n, tn);
    sg_wait wait = {};
    wait.per = SG_PER_TILE;
    wait.flag0 = 100;
    l.rect(0, m, n, k, area(0, 0, 0, m, 0, k), area(0, 1, 0, n, 0, k));
    l.store(area(0, 3, 2 * m, m, 0, n));
    l.raises(0, SG_PER_TILE, 100, 1);
    l.rect(0, m, n, 0, sg_area{}, sg_area{});
    arriving = arrival{&w, &inbox, &late, n, {}};
    for (int q = 1; q < RANKS; ++q) {
        wait.by = (int16_t)q;
        l.adds(area(0, 3, (q - 1) * m, m, 0, n), &wait);
        arrive_in_tiles(q, 100, (q - 1) * m, m, n, tm, tn);
    }
    wait.by = 0;
    l.adds(area(0, 3, 2 * m, m, 0, n), &wait);
    l.store(area(0, 4, 0, m, 0, n));
    finish(l, &w);
    l.program.place[0] = place_of(a, a, m, k, k);
    l.program.place[1] = place_of(b, b, n, k, k);
    l.program.place[3] = place_of(late, late, 3 * m, n, n);
    l.program.place[4] = place_of(c, c, m, n, n);
    const int blocks = arch != 0; /* the emulator has the slower kernels' blocks one by one */
    emu_outside(arrive);
    const bool ok = carry_out(l, 0, 2, tm, tn, 0, blocks, what);
    emu_outside(nullptr);
    if (!ok) return;
    judge(c, n, 0, m, n, want.data(), what);
    expect(w.trouble.kind == 0, what + ": trouble");
}

/* A raster in two ranges into places for tiles, then a sum of places and a product. */
static void tiled(int m, int n, int k, int tm, int tn)
{
    const std::string what = named("tiled", m, n, k, tm, tn);
    matrix a = random_matrix((size_t)m * k), b = random_matrix((size_t)n * k);
    std::vector<float> want = product(a.data(), k, b, m, n, k);
    for (float &v : want) v *= 2;
    const int bands = up(m, tm), cols = up(n, tn), all = bands * cols, low = all / 3;
    matrix c = poisoned((size_t)m * n), sum = c, places = poisoned((size_t)all * tm * tn);
    world w;
    lists l;
    const sg_area of_a = area(0, 0, 0, m, 0, k), of_b = area(0, 1, 0, n, 0, k);
    const uint8_t width = 2;
    for (int part = 0; part < 2; ++part) {
        if (part == 0 && low == 0) continue;
        sg_patch &p = l.rect(0, m, n, k, of_a, of_b);
        p.width = width;
        p.tile0 = part ? low : 0;
        p.tiles = part ? all - low : low;
        sg_area to = area(0, 3, p.tile0 * tm, p.tiles * tm, 0, tn);
        to.tiled = 1;
        l.store(to);
    }
    const int first = (int)l.patch.size();
    sg_area from = area(0, 3, 0, all * tm, 0, tn);
    from.tiled = 1;
    for (int i = 0; i < 2; ++i) { /* places and a product; places alone, twice */
        l.rect(0, m, n, i ? 0 : k, of_a, of_b).width = width;
        for (int j = 0; j <= i; ++j) l.adds(from, nullptr);
        l.store(area(0, i ? 4 : 2, 0, m, 0, n));
    }
    finish(l, &w);
    l.program.place[0] = place_of(a, a, m, k, k);
    l.program.place[1] = place_of(b, b, n, k, k);
    l.program.place[2] = place_of(c, c, m, n, n);
    l.program.place[3] = place_of(places, places, all * tm, tn, tn);
    l.program.place[4] = place_of(sum, sum, m, n, n);
    if (!carry_out(l, 0, first, tm, tn, 0, 0, what)) return;
    int bad = 0;
    for (int i = 0; i < all; ++i) {
        int band, col;
        sg_walk_tile(&l.patch[0], bands, cols, i, &band, &col);
        for (int x = 0; x < tm * tn; ++x) {
            const int row = band * tm + x / tn, column = col * tn + x % tn;
            const float v = __bfloat162float(places[(size_t)i * tm * tn + x]);
            bad += v != (row < m && column < n ? want[(size_t)row * n + column] / 2 : 0.f);
        }
    }
    expect(bad == 0, what + ": places");
    if (!carry_out(l, first, 1, tm, tn, 0, 0, what)) return;
    judge(c, n, 0, m, n, want.data(), what);
    if (!carry_out(l, first + 1, 1, tm, tn, 0, 0, what + ", no product")) return;
    judge(sum, n, 0, m, n, want.data(), what + ", no product");
}

/* Parts of k in patches of their own: sums in f32 go from visit to visit of the launch. */
struct parted {
    world w;
    lists l;
    int m, n, k, tm, tn, count, tiles;
    matrix a, b;

    /* Places, or flags, of part PART of SIDE begin here. */
    int first(int side, int part) const
    {
        return (side * (count - 1) + part) * tiles;
    }
    sg_area places(int side, int part) const
    {
        sg_area of = area(0, 3, first(side, part) * tm, tiles * tm, 0, tn);
        of.tiled = 1;
        return of;
    }
    /* Appends the patches of SIDE's rows, all but the last with what they leave, and
     * adds their sums in order to SUM.  The data are such that only sums in the listed
     * order have the right bits. */
    void patches(int side, std::vector<float> &sum)
    {
        const int each = up(up(k, count), 64) * 64;
        for (int part = 0; part < count; ++part) {
            const int k0 = part * each, k1 = k - k0 < each ? k : k0 + each;
            sg_patch &p = l.rect(side ? 0 : m, m, n, k, area(0, 0, 0, m, k0, k1 - k0),
                                 area(0, 1, 0, n, k0, k1 - k0));
            p.width = 2;
            p.k0 = k0, p.k1 = k1, p.final = part + 1 == count;
            if (!p.final) {
                l.store(places(side, part));
                l.raises(0, SG_PER_TILE, 10 + first(side, part), 1);
            }
            for (int i = 0; i < m; ++i)
                for (int j = 0; j < n; ++j) {
                    float x = 0.f;
                    for (int h = k0; h < k1; ++h)
                        x += __bfloat162float(a[(size_t)i * k + h]) *
                             __bfloat162float(b[(size_t)j * k + h]);
                    sum[(size_t)i * n + j] += x;
                }
        }
    }
    /* Behind OTHERS addends, to the last patch of SIDE. */
    void add(int side, int others)
    {
        sg_wait wait = {};
        wait.per = SG_PER_TILE;
        for (int part = 0; part + 1 < count; ++part) {
            wait.flag0 = 10 + first(side, part);
            l.adds(places(side, part), &wait);
        }
        l.patch.back().own_at = (uint16_t)(others + count - 1);
    }
};

/* A peer's rows, and own ones between what INBOXES peers send, as a scatter has them. */
static void parts(int m, int n, int k, int tm, int tn, int count, int inboxes, int blocks)
{
    const std::string what = named("parts", m, n, k, tm, tn) + " parts " + std::to_string(count) +
                             " inboxes " + std::to_string(inboxes) + " blocks " +
                             std::to_string(blocks);
    const int tiles = up(m, tm) * up(n, tn), behind = 8;
    const size_t all = (size_t)m * n;
    matrix inbox = random_matrix(2 * all), late = poisoned(2 * all);
    matrix c[2] = {poisoned(all + (size_t)(behind * n)), poisoned(all + (size_t)(behind * n))};
    std::vector<float> places((size_t)(count - 1) * 2 * tiles * tm * tn, NAN), want[2];
    parted x = {{},
                {},
                m,
                n,
                k,
                tm,
                tn,
                count,
                tiles,
                random_matrix((size_t)m * k),
                random_matrix((size_t)n * k)};
    for (T &v : inbox) v = __float2bfloat16_rn(__bfloat162float(v) * 1e-3f);
    for (T &v : x.a) v = __float2bfloat16_rn(__bfloat162float(v) * 1024 + (float)draw(5) / 64);
    lists &l = x.l;
    arriving = arrival{&x.w, &inbox, &late, n, {}};
    for (int side = 0; side < 2; ++side) {
        const int peers = side ? inboxes : 0; /* all but the last are before the own parts */
        want[side].assign(all, -0.f);
        for (size_t i = 0; peers > 1 && i < all; ++i) want[side][i] += __bfloat162float(inbox[i]);
        x.patches(side, want[side]);
        for (int q = 0; q < peers; ++q) {
            sg_wait wait = {};
            wait.by = (int16_t)(q + 1);
            wait.per = SG_PER_TILE;
            wait.flag0 = 10;
            if (q == peers - 1) x.add(side, q);
            l.adds(area(0, 4, q * m, m, 0, n), &wait);
            arrive_in_tiles(q + 1, 10, q * m, m, n, tm, tn);
        }
        if (!side) x.add(side, 0);
        for (size_t i = 0; peers > 0 && i < all; ++i) /* the last one's is behind the own product */
            want[side][i] += __bfloat162float(inbox[(size_t)(peers - 1) * all + i]);
        for (float &v : want[side]) v = __bfloat162float(__float2bfloat16_rn(v));
        l.store(area(0, 5 + side, 0, m, 0, n));
    }
    finish(l, &x.w);
    l.program.place[0] = place_of(x.a, x.a, m, k, k);
    l.program.place[1] = place_of(x.b, x.b, n, k, k);
    sg_kernel_place &wide = l.program.place[3];
    wide.data[0] = wide.data[1] = places.data();
    wide.rows = (int32_t)(places.size() / (size_t)tn), wide.cols = tn;
    wide.pitch = 4 * tn, wide.wide = 1;
    l.program.place[4] = place_of(late, late, 2 * m, n, n);
    for (int i = 0; i < 2; ++i) l.program.place[5 + i] = place_of(c[i], c[i], m + behind, n, n);
    own_parts = true;
    emu_outside(arrive);
    const bool ok = carry_out(l, 0, 2 * count, tm, tn, 0, blocks, what);
    emu_outside(nullptr);
    own_parts = false;
    if (!ok) return;
    for (int i = 0; i < 2; ++i) judge(c[i], n, 0, m, n, want[i].data(), what);
    expect(x.w.trouble.kind == 0 && arriving.left.empty(), what + ": trouble");
}

/* Slices of k, twice with the same words. */
static void slices(int m, int n, int k, int tm, int tn, int cluster, int split, int skew)
{
    const std::string what = named("slices", m, n, k, tm, tn) + " cluster " +
                             std::to_string(cluster) + " split " + std::to_string(split) +
                             " skew " + std::to_string(skew);
    matrix a = random_matrix((size_t)m * k), b = random_matrix((size_t)n * k);
    const std::vector<float> want = product(a.data(), k, b, m, n, k);
    const int units = up(up(m, tm), 2) * 2 * up(up(n, tn), 2) * 2;
    std::vector<float> partial((size_t)(split - 1) * units * tm * tn);
    std::vector<uint32_t> fold((size_t)units * 2, 0);
    for (int round = 0; round < 2; ++round) {
        matrix c = poisoned((size_t)m * n);
        lists l;
        l.rect(0, m, n, k, area(0, 0, 0, m, 0, k), area(0, 1, 0, n, 0, k));
        l.store(area(0, 2, 0, m, 0, n));
        finish(l, nullptr);
        l.program.place[0] = place_of(a, a, m, k, k);
        l.program.place[1] = place_of(b, b, n, k, k);
        l.program.place[2] = place_of(c, c, m, n, n);
        static sg_kernel_gemm g;
        const char *why = sg_kernel_gemm_make(&g, &l.program, &l.host, 0, 0, 1, tm, tn, 0);
        g.want_split = split;
        g.want_skew = skew;
        g.want_cluster = cluster;
        g.param.partial = partial.data();
        g.param.fold = fold.data();
        memset(partial.data(), 0xff, partial.size() * 4);
        if (why == nullptr) why = sg_kernel_gemm_aim(&g);
        if (why == nullptr) why = g.slow;
        expect(why == nullptr, what + ": " + (why ? why : ""));
        if (why != nullptr) return;
        expect(sg_kernel_gemm_run(&g, 0, nullptr) == cudaSuccess, what + ": stands still");
        judge(c, n, 0, m, n, want.data(), what);
    }
}

/* Ping-pong: addends under the products of the other. */
static void hidden_addends(void)
{
    for (int i = 0, own = 0; i < 5; ++i, own = own < senders ? own + 1 : 0) {
        senders = i < 2 ? 1 : 2, rounded = i % 2 == 0;
        for (int m = 100; m <= 1924; m += 608)
            for (int cluster = 1; cluster <= 2; ++cluster)
                scatter(m, 392, 328, 128, 192, cluster, own, 0);
        for (int m = 100; m <= 708; m += 608) scatter(m, 520, 328, 128, 128, 2, own, 0);
        scatter(768, 264, 64, 128, 192, 1 + i % 2, own, own > 0 ? 0 : 2);
    }
}

/* Blocks with one tile, and with several of both widths. */
static void narrow_tiles(void)
{
    math = SG_KERNEL_ANY_MATH, narrow = 96;
    emu_sms(18), gather(420, 584, 328, 128, 256, 0, 60, 64);
    emu_sms(6), gather(396, 520, 456, 128, 256, 0, 128, 200);
    narrow = 0;
}

static void slower_kernels(void)
{
    for (arch = 80; arch >= 70; arch -= 10) {
        single(200, 136, 72, 128, 128, 0);
        single(70, 56, 40, 96, 40, 0);
        gather(200, 136, 136, 128, 128, 0, 40, 72);
        narrow = 40;
        gather(200, 136, 136, 128, 128, 0, 40, 72);
        narrow = 0;
        scatter(150, 136, 72, 128, 64, 0, 1, 0);
        scatter(70, 136, 72, 64, 128, 0, 1, 2);
        one_hop(150, 136, 72, 64, 128);
        parts(150, 136, 200, 64, 128, 2, 2, 1);
        tiled(150, 136, 72, 64, 128);
        tiled(50, 45, 8, 32, 20);
    }
}

int main(int argc, char **argv)
{
    const int seed = argc > 1 ? atoi(argv[1]) : 1;
    draw(-seed);
    emu_seed((uint64_t)seed);
    single(200, 520, 72, 128, 256, 2);
    single(130, 264, 200, 128, 256, 1);
    single(300, 264, 136, 128, 128, 2);
    single(65, 136, 8, 64, 128, 1);
    single(100, 264, 64, 64, 128, 2);
    for (int tall = 64; tall <= 128; tall += 64) single(200, 368, 136, tall, 112, 1);
    single(300, 328, 136, 128, 80, 1);
    for (int c = 1; c <= 2; ++c) gather(300, 264, 136, 128, 128, c, 20 + 20 * c, 64 * (c - 1));
    gather(200, 264, 200, 64, 128, 1, 20, 72);
    gather(300, 264, 136, 128, 256, 2, 100, 0);
    emu_sms(1), odds = 320; /* tiles that begin in one chunk, of which one needs the next, too */
    for (int i = 0; i < 4; ++i) gather(384, 136, 72, 64, 128, 1, 100, 0);
    emu_sms(0), odds = 20;
    for (int i = 0; i < 4; ++i) gather(384, 560, 200, 128, 80 + i % 2 * 32, 1 + i / 2, 64, 64);
    emu_sms(18); /* blocks that begin with what others send, of one flag a slab */
    for (odds = 640; odds > 40; odds /= 2)
        for (int c = 1; c <= 2; ++c) gather(768, 264, 136, 128, 128, c, 128, 64);
    emu_sms(0);
    odds = 20;
    for (int own = 0; own < 3; ++own)
        scatter(200, 136, 72, own == 1 ? 64 : 128, own == 2 ? 256 : 128, 0, own, 0);
    for (int width = 160; width <= 224; width += 32) {
        const int ragged = width == 192 ? 9 : 6; /* pieces of 32 columns store two rows at a time */
        gather(384 - ragged, 264, 136, 128, width, 1, 64 - ragged, 64);
        scatter(192 - ragged, 264, 72, 128, width, 1, 1, 0);
    }
    for (stores = 3; stores > 0; stores -= 2) /* of five areas none is looked up */
        for (int away = 1; away < RANKS; ++away) scatter(70, 136, 72, 64, 128, 1, 1, away);
    stores = 1;
    emu_sms(4); /* blocks with several tiles */
    rounded = true;
    for (senders = 1; senders < RANKS; ++senders)
        for (int own = 0; own <= senders; ++own)
            for (int width = 128; width <= 256; width += 32) {
                const int ragged = width % 64 == 0 ? 8 : 24;
                scatter(768 - ragged, 520, 72, 128, width, 0, own, 0);
            }
    senders = RANKS - 1;
    for (int c = 1; c <= 2; ++c) scatter(700, 264, 200, 128, 256, c, 1, 0);
    scatter(328, 264, 136, 64, 128, 1, 2, 0);
    scatter(700, 264, 72, 128, 128, 1, 1, 2);
    rounded = false;
    emu_sms(0);
    one_hop(200, 264, 136, 128, 256);
    one_hop(300, 264, 72, 128, 128);
    for (int width = 32; width <= 128; width += 32) one_hop(64, 192, 520, 64, width);
    for (int width = 64; width <= 96; width += 32) one_hop(256, 576, 72, 128, width);
    tiled(200, 264, 72, 128, 128);
    tiled(100, 264, 72, 64, 128);
    parts(200, 264, 200, 128, 256, 2, 2, 0);
    parts(70, 520, 328, 128, 256, 3, 1, 3);
    parts(100, 264, 328, 64, 128, 2, 2, 4);
    parts(7, 520, 712, 64, 256, 4, 2, 0);
    parts(256, 256, 712, 128, 128, 4, 2, 4);
    slices(100, 136, 520, 64, 128, 1, 3, 0);
    slices(300, 200, 520, 128, 160, 2, 2, 2);
    for (int i = 0; i < 24; ++i) slices(40, 64, 256, 64, 64, 1, 4, 0); /* all at a time */
    math = SG_KERNEL_PINGPONG;
    for (int k = 64; k <= 200; k += 136) single(300, 520, k, 128, 128, 2);
    single(1300, 264, 72, 128, 128, 2);
    single(700, 520, 456, 128, 128, 2);
    for (int width = 176; width <= 192; width += 16) single(130, 1264, 392, 128, width, 1);
    for (int w = 128; w <= 192; w += 64) gather(w > 128 ? 1100 : 768, 520, 392, 128, w, 2, 60, 64);
    for (int w = 176; w <= 192; w += 16) gather(w > 176 ? 700 : 768, 264, 200, 128, w, 1, 100, 72);
    emu_sms(4);
    hidden_addends();
    narrow_tiles();
    emu_sms(0), rounded = false;
    slower_kernels();
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
