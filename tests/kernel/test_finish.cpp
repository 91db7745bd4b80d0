/* test_finish.cpp -- bias and activation, by all kernels on the emulator: of the columns of a
 * patch, nothing of the bias is read beyond them, and only final patches have any.
 *     test_finish [SEED] */
#include <algorithm>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emulate.h"
#include "kernel/device.cuh"
#include "kernel_world.h"

static const char *const names[] = {"none", "relu", "gelu", "silu"};

static double activated(int act, double x)
{
    const double u = 1.5957691216 * (x + 0.044715 * x * x * x);
    if (act == SG_KERNEL_RELU) return x < 0 ? 0 : x;
    if (act == SG_KERNEL_GELU) return x / (1 + exp(-u));
    return act == SG_KERNEL_SILU ? x / (1 + exp(-x)) : x;
}

/* N elements, behind which no memory is. */
struct at_the_end {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *const all =
        (char *)mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    T *const data;

    explicit at_the_end(int n) : data((T *)(all + page) - n)
    {
        mprotect(all + page, page, PROT_NONE);
    }
    ~at_the_end()
    {
        munmap(all, 2 * page);
    }
};

/* Columns of a patch that is not final, and then of one that is.  TILED: those of the first go to
 * places for tiles. */
static void finished(int m, int n0, int n1, int k, int tm, int tn, int act, bool tiled, int arch)
{
    const std::string what = std::string(names[act]) + " " + std::to_string(m) + "x" +
                             std::to_string(n0) + "+" + std::to_string(n1) + "x" +
                             std::to_string(k) + (tiled ? " tiled" : "") + " arch " +
                             std::to_string(arch);
    const int n = n0 + n1, pitch = up(n, 8) * 8, bands = up(m, tm), strips = up(n0, tn);
    static sg_kernel_gemm g; /* large */
    matrix a = random_matrix((size_t)m * k), b = random_matrix((size_t)n * k);
    matrix c = poisoned((size_t)m * pitch), places = poisoned((size_t)bands * strips * tm * tn);
    matrix numbers = wide_matrix((size_t)n);
    for (T &v : a) v = __float2bfloat16_rn(__bfloat162float(v) / 8); /* sums are a few units */
    std::vector<float> want = product(a.data(), k, b, m, n, k);
    at_the_end bias(n);
    for (int i = 0; i < n; ++i)
        bias.data[i] = __float2bfloat16_rn(__bfloat162float(numbers[(size_t)i]) / 8);
    for (size_t i = 0; i < want.size(); ++i) {
        const int col = (int)(i % (size_t)n);
        const double x = (double)want[i] + __bfloat162float(bias.data[col]);
        if (col >= n0) want[i] = __bfloat162float(__float2bfloat16_rn((float)activated(act, x)));
    }
    world w;
    lists l;
    for (int i = 0; i < 2; ++i) {
        const int col0 = i ? n0 : 0, cols = i ? n1 : n0;
        sg_patch &p = l.rect(0, m, cols, k, area(0, 0, 0, m, 0, k), area(0, 1, col0, cols, 0, k));
        p.col0 = col0, p.final = i;
        sg_area to = area(0, 2, 0, m, col0, cols);
        if (tiled && i == 0) to = area(0, 3, 0, bands * strips * tm, 0, tn), to.tiled = 1;
        p.raster = SG_BY_ROW;
        l.store(to);
    }
    l.close();
    l.program.rank = &w.rank;
    l.program.bias = bias.data, l.program.act = act;
    l.program.place[0] = place_of(a, a, m, k, k);
    l.program.place[1] = place_of(b, b, n, k, k);
    l.program.place[2] = place_of(c, c, m, n, pitch);
    l.program.place[3] = place_of(places, places, bands * strips * tm, tn, tn);
    const char *why = sg_kernel_gemm_make(&g, &l.program, &l.host, 7, 0, 2, tm, tn, 0);
    if (arch != 0) g.arch = arch;
    if (why == nullptr) why = sg_kernel_gemm_aim(&g);
    if (why == nullptr && arch == 0) why = g.slow;
    expect(why == nullptr, what + ": " + (why ? why : ""));
    if (why != nullptr) return;
    expect(sg_kernel_gemm_run(&g, 0, nullptr) == cudaSuccess, what + ": stands still");
    /* A place holds zeros where the patch has no rows or columns. */
    for (int row = 0; tiled && row < m; ++row)
        for (int col = 0; col < n0; ++col) {
            const int tile = row / tm * strips + col / tn;
            T &at = places[(size_t)(tile * tm + row % tm) * tn + col % tn];
            std::swap(at, c[(size_t)row * pitch + col]);
        }
    judge(c, pitch, 0, m, n, want.data(), what);
    int left = 0;
    for (const T &v : places) left += !(tiled && __bfloat162float(v) == 0.f) && !is_poison(v);
    expect(left == 0, what + ": " + std::to_string(left) + " numbers beside");
}

/* NaN stays, whatever is far enough below zero vanishes, and nothing else is infinite. */
template <bool EXACT> static void extremes()
{
    static const float values[] = {0.f,   -0.f,   1e-30f,   -1e-30f,   0.5f,   -0.5f, 7.f,
                                   -7.f,  87.5f,  -87.5f,   88.5f,     -88.5f, 1e19f, -1e19f,
                                   3e38f, -3e38f, INFINITY, -INFINITY, NAN,    1.f,   -20.f};
    enum { VALUES = sizeof values / sizeof *values };
    for (int act = SG_KERNEL_RELU; act <= SG_KERNEL_SILU; ++act) {
        float got[VALUES];
        memcpy(got, values, sizeof got);
        activate<EXACT>(act, got);
        for (int i = 0; i < VALUES; ++i) {
            const double x = (double)values[i], low = x < -1e4 ? -1e4 : x;
            const double want = activated(act, x > 1e4 ? 1e4 : low) * (x > 1e4 ? x / 1e4 : 1);
            const double off = fabs((double)got[i] - want);
            const bool same = x != x ? got[i] != got[i] : (double)got[i] == want;
            expect(same || off <= 1e-5 * fabs(want) + 1e-34, std::string(names[act]) + " of " +
                                                                 std::to_string(x) + " is " +
                                                                 std::to_string(got[i]));
        }
    }
}

int main(int argc, char **argv)
{
    const int seed = argc > 1 ? atoi(argv[1]) : 1;
    draw(-seed);
    emu_seed((uint64_t)seed);
    extremes<false>();
    extremes<true>();
    for (int act = SG_KERNEL_NONE; act <= SG_KERNEL_SILU; ++act)
        for (int tiled = 0; tiled < 2; ++tiled) {
            finished(70, 128, 77, 72, 64, 128, act, tiled, 0);
            finished(100, 128, 128, 40, 128, 128, act, tiled, 0);
            finished(30, 64, 41, 40, 64, 64, act, tiled, 80);
            finished(30, 64, 41, 40, 64, 64, act, tiled, 70);
        }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
