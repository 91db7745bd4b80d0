/* Sums that are stored into places for tiles, by the Hopper kernels on the emulator: around a
 * ragged tile a place holds zeros, though what is added lies in a matrix that goes on there. */
#include "kernel_world.h"

enum { TALL = 128, WIDE = 192, BEHIND = 2 * TALL }; /* rows that follow an addend */

static std::vector<float> rounded(std::vector<float> sums)
{
    for (float &v : sums) v = __bfloat162float(__float2bfloat16(v));
    return sums;
}

/* ADDS addends of an M x N product, all there; its sum to places. */
static void sums(int m, int n, int k, int adds)
{
    const std::string what = "sums " + std::to_string(m) + "x" + std::to_string(n) + "x" +
                             std::to_string(k) + ", addends " + std::to_string(adds);
    const int bands = up(m, TALL), cols = up(n, WIDE), rows = bands * cols * TALL;
    static sg_kernel_gemm g; /* large */
    matrix a = random_matrix((size_t)m * k), b = random_matrix((size_t)n * k);
    matrix from[3], places = poisoned((size_t)rows * WIDE);
    std::vector<float> want = product(a.data(), k, b, m, n, k);
    world w;
    lists l;
    l.rect(0, m, n, k, area(0, 0, 0, m, 0, k), area(0, 1, 0, n, 0, k)).raster = SG_BY_ROW;
    for (int i = 0; i < adds; ++i) {
        from[i] = random_matrix((size_t)(m + BEHIND) * n);
        for (size_t x = 0; x < want.size(); ++x) want[x] += __bfloat162float(from[i][x]);
        l.adds(area(0, 3 + i, 0, m, 0, n), nullptr);
    }
    want = rounded(want);
    sg_area to = area(0, 2, 0, rows, 0, WIDE);
    to.tiled = 1;
    l.store(to);
    l.close();
    l.program.rank = &w.rank;
    l.program.place[0] = place_of(a, a, m, k, k);
    l.program.place[1] = place_of(b, b, n, k, k);
    l.program.place[2] = place_of(places, places, rows, WIDE, WIDE);
    for (int i = 0; i < adds; ++i)
        l.program.place[3 + i] = place_of(from[i], from[i], m + BEHIND, n, n);
    const char *why = sg_kernel_gemm_make(&g, &l.program, &l.host, 7, 0, 1, TALL, WIDE, 0);
    if (why == nullptr) why = sg_kernel_gemm_aim(&g);
    if (why == nullptr) why = g.slow;
    expect(why == nullptr, what + ": " + (why ? why : ""));
    if (why != nullptr) return;
    expect(sg_kernel_gemm_run(&g, 0, nullptr) == cudaSuccess, what + ": stands still");
    int bad = 0;
    for (int t = 0; t < bands * cols; ++t)
        for (int x = 0; x < TALL * WIDE; ++x) {
            const int row = t / cols * TALL + x / WIDE, col = t % cols * WIDE + x % WIDE;
            const float v = __bfloat162float(places[(size_t)t * TALL * WIDE + x]);
            bad += v != (row < m && col < n ? want[(size_t)row * n + col] : 0.f);
        }
    expect(bad == 0, what + ": " + std::to_string(bad) + " elements of places");
}

int main(int argc, char **argv)
{
    const int seed = argc > 1 ? atoi(argv[1]) : 1;
    draw(-seed);
    emu_seed((uint64_t)seed);
    emu_sms(4); /* blocks with several tiles */
    for (int adds = 0; adds <= 3; ++adds) {
        sums(384, 384, 72, adds);
        sums(200, 392, 136, adds);
        sums(17, 200, 64, adds);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
