/* Products that end inside larger matrices, by the Hopper kernels on the emulator: what follows in
 * rows and in columns stays, wherever in a tile and in a piece the product ends, and however many
 * matrices it goes to. */
#include "kernel_world.h"

enum { ABOVE = 5, BELOW = 3 * 64, BESIDE = 128 }; /* rows and columns around it */
enum { K = 72, MOST = 5 };                        /* areas: of more than four none is looked up */

/* An M x N product in tiles of TM x TN, or of NARROW columns, stored into AREAS matrices. */
static void inside(int m, int n, int tm, int tn, int areas, int narrow = 0)
{
    const std::string what = std::to_string(m) + "x" + std::to_string(n) + " tile " +
                             std::to_string(tm) + "x" + std::to_string(tn) + " in " +
                             std::to_string(areas) + " matrices";
    const int rows = ABOVE + m + BELOW, cols = BESIDE + n + BESIDE;
    static sg_kernel_gemm g; /* large */
    /* The rows and columns that follow are not zero. */
    matrix a = random_matrix((size_t)(m + BELOW) * K), b = random_matrix((size_t)(n + BESIDE) * K);
    matrix c[MOST];
    const std::vector<float> want = product(a.data(), K, b, m, n, K);
    lists l;
    l.rect(0, m, n, K, area(0, 0, 0, m, 0, K), area(0, 1, 0, n, 0, K)).tile_n = narrow;
    for (int i = 0; i < areas; ++i) {
        c[i] = poisoned((size_t)rows * cols);
        l.store(area(0, 2 + i, ABOVE, m, BESIDE, n));
    }
    l.close();
    l.program.place[0] = place_of(a, a, m + BELOW, K, K);
    l.program.place[1] = place_of(b, b, n + BESIDE, K, K);
    for (int i = 0; i < areas; ++i) l.program.place[2 + i] = place_of(c[i], c[i], rows, cols, cols);
    const char *why = sg_kernel_gemm_make(&g, &l.program, &l.host, 7, 0, 1, tm, tn, 0);
    if (why == nullptr) why = sg_kernel_gemm_aim(&g);
    if (why == nullptr) why = g.slow;
    expect(why == nullptr, what + ": " + (why ? why : ""));
    if (why != nullptr) return;
    expect(sg_kernel_gemm_run(&g, 0, nullptr) == cudaSuccess, what + ": stands still");
    int wrong = 0, trampled = 0;
    for (int i = 0; i < areas; ++i)
        for (int at = 0; at < rows * cols; ++at) {
            const int row = at / cols - ABOVE, col = at % cols - BESIDE;
            const T v = c[i][(size_t)at];
            if (row < 0 || row >= m || col < 0 || col >= n)
                trampled += !is_poison(v);
            else
                wrong += __bfloat162float(v) != want[(size_t)row * n + col];
        }
    expect(wrong == 0 && trampled == 0, what + ": " + std::to_string(wrong) + " wrong, " +
                                            std::to_string(trampled) + " trampled");
}

static int most_beyond; /* rows of a load */

static void see(int, const void *, int, int beyond)
{
    most_beyond = beyond > most_beyond ? beyond : most_beyond;
}

/* An M x N product in patches of ROWS each, which end with their matrices: nobody asks for more
 * than what fills eight rows, since what lies beyond takes three times as long as memory; but for
 * the blocks of a CLUSTER that have no tile. */
static void ends(int m, int n, int rows, int tm, int tn, int cluster = 0)
{
    const std::string what = std::to_string(m) + "x" + std::to_string(n) + " by " +
                             std::to_string(rows) + " rows, tile " + std::to_string(tm) + "x" +
                             std::to_string(tn) + " at the end";
    static sg_kernel_gemm g; /* large */
    matrix a = random_matrix((size_t)m * K), b = random_matrix((size_t)n * K);
    matrix c = poisoned((size_t)m * n);
    const std::vector<float> want = product(a.data(), K, b, m, n, K);
    const int patches = (m + rows - 1) / rows;
    lists l;
    for (int i = 0; i < patches; ++i) {
        const int row = i * rows, some = m - row < rows ? m - row : rows;
        l.rect(row, some, n, K, area(0, 3 + i, 0, some, 0, K), area(0, 1, 0, n, 0, K));
        l.store(area(0, 2, row, some, 0, n));
    }
    l.close();
    l.program.place[1] = place_of(b, b, n, K, K);
    l.program.place[2] = place_of(c, c, m, n, n);
    for (int i = 0; i < patches; ++i) {
        sg_kernel_place part = place_of(a, a, m, K, K);
        for (auto &data : part.data) data = (char *)data + (size_t)i * rows * K * sizeof(T);
        part.rows = m - i * rows < rows ? m - i * rows : rows;
        l.program.place[3 + i] = part;
    }
    const char *why = sg_kernel_gemm_make(&g, &l.program, &l.host, 7, 0, patches, tm, tn, 0);
    g.want_cluster = cluster;
    if (why == nullptr) why = sg_kernel_gemm_aim(&g);
    if (why == nullptr) why = g.slow;
    expect(why == nullptr, what + ": " + (why ? why : ""));
    if (why != nullptr) return;
    most_beyond = 0;
    emu_loads_seen(see);
    expect(sg_kernel_gemm_run(&g, 0, nullptr) == cudaSuccess, what + ": stands still");
    emu_loads_seen(nullptr);
    int wrong = 0;
    for (int at = 0; at < m * n; ++at) wrong += __bfloat162float(c[(size_t)at]) != want[(size_t)at];
    expect(wrong == 0 && (most_beyond < 8 || cluster > 1),
           what + ": " + std::to_string(wrong) + " wrong, " + std::to_string(most_beyond) +
               " rows beyond");
}

int main(int argc, char **argv)
{
    const int seed = argc > 1 ? atoi(argv[1]) : 1;
    draw(-seed);
    emu_seed((uint64_t)seed);
    for (int areas = 1; areas <= MOST; areas += 4)
        for (int m : {64, 72, 127, 192, 220, 320}) { /* of 64 rows, and of 128, some or none */
            inside(m, 192, 128, 128, areas);
            inside(m, 320, 128, 256, areas);
            inside(m, 192, 64, 128, areas);
            inside(m, 256, 128, 192, areas);
            inside(m / 2 * 2, 288, 128, 256, areas, 96); /* two rows at a time */
        }
    for (int m : {4, 64, 132, 160, 250, 256, 388}) {
        ends(m, 320, m, 128, 128);
        ends(m, 264, m, 128, 256);
        ends(m, 200, m, 64, 128);
        ends(m, 328, m, 128, 160);
        ends(m, 200, (m + 1) / 2, 128, 128);  /* two owners, one of a row less */
        ends(m + 384, 320, 384, 128, 256, 2); /* whole tiles, and others' that are not */
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
