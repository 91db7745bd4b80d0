// ag_gemm.cpp -- the same five calls from C++: the rows of A are gathered from three ranks, which
// own different numbers of them, while the product already runs.  Exits 0 if all is right.
#include <cstdio>
#include <string>
#include <vector>

#include "shingle.h"

namespace {

constexpr int ranks = 3, m = 300, n = 128, k = 192;
constexpr int rows[ranks] = {130, 100, 70};

// Exact in any order of summation: one row of B is picked per row of A.
float a_value(int row, int x)
{
    return x == row % k ? static_cast<float>(row % 50 - 25) : 0.0f;
}

float b_value(int rank, int col, int x)
{
    return static_cast<float>((col * 3 + x + rank) % 17);
}

int fail(const char *what)
{
    std::fprintf(stderr, "%s: %s\n", what, shingle_error());
    return 1;
}

} // namespace

int main()
{
    std::vector<std::vector<float>> a(ranks), b(ranks), c(ranks);
    for (int r = 0, row0 = 0; r < ranks; row0 += rows[r], r++) {
        for (int i = 0; i < rows[r]; i++)
            for (int x = 0; x < k; x++) a[r].push_back(a_value(row0 + i, x));
        for (int j = 0; j < n; j++)
            for (int x = 0; x < k; x++) b[r].push_back(b_value(r, j, x));
        c[r].resize(static_cast<std::size_t>(m) * n);
    }

    std::vector<shingle_comm *> comm(ranks);
    std::vector<shingle_plan *> plan(ranks);
    const std::string problem = "ag_gemm:f32:300x128x192:r3:rows=130,100,70";
    if (shingle_open(ranks, nullptr, comm.data()) != SHINGLE_OK) return fail("open");
    for (int r = 0; r < ranks; r++)
        if (shingle_plan_create(comm[r], problem.c_str(), nullptr, &plan[r]) != SHINGLE_OK)
            return fail("plan");
    for (int r = 0; r < ranks; r++)
        if (shingle_run(plan[r], a[r].data(), b[r].data(), c[r].data(), nullptr) != SHINGLE_OK)
            return fail("run");
    for (int r = 0; r < ranks; r++)
        if (shingle_sync(comm[r], 10.0) != SHINGLE_OK) return fail("sync");

    int wrong = 0;
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++)
                wrong += c[r][static_cast<std::size_t>(i) * n + j] !=
                         a_value(i, i % k) * b_value(r, j, i % k);
    std::printf("%s\n%d wrong elements\n", shingle_plan_reason(plan[0]), wrong);
    shingle_close(ranks, comm.data());
    return wrong != 0;
}
