/* exact.cpp -- see exact.h. */
#include "exact.h"

int failed, passed;

void expect(bool ok, const std::string &what)
{
    ok ? ++passed : ++failed;
    if (!ok) printf("FAILED %s\n", what.c_str());
}

static uint64_t state = 1;

int draw(int below)
{
    if (below < 0) state = (uint64_t)-below; /* begins anew */
    state = state * 6364136223846793005u + 1442695040888963407u;
    return below <= 0 ? 0 : (int)((state >> 33) % (uint64_t)below);
}

matrix random_matrix(size_t count)
{
    matrix m(count);
    for (T &v : m) v = __float2bfloat16_rn((float)(draw(3) - 1));
    return m;
}

matrix poisoned(size_t count)
{
    matrix m(count);
    memset((void *)m.data(), 0xff, count * sizeof(T));
    return m;
}

bool is_poison(T v)
{
    uint16_t bits;
    memcpy(&bits, &v, 2);
    return bits == 0xffff;
}

std::vector<float> product(const T *a, int a_pitch, const matrix &b, int m, int n, int k)
{
    std::vector<float> c((size_t)m * n, 0.f), x((size_t)k), y(b.size());
    for (size_t i = 0; i < b.size(); ++i) y[i] = __bfloat162float(b[i]);
    for (int i = 0; i < m; ++i) {
        for (int h = 0; h < k; ++h) x[(size_t)h] = __bfloat162float(a[(size_t)i * a_pitch + h]);
        for (int j = 0; j < n; ++j)
            for (int h = 0; h < k; ++h) c[(size_t)i * n + j] += x[(size_t)h] * y[(size_t)j * k + h];
    }
    return c;
}

void judge(const matrix &c, int pitch, int row0, int rows, int n, const float *want,
           const std::string &what)
{
    int wrong = 0, trampled = 0;
    for (size_t i = 0; i < c.size(); ++i) {
        const int row = (int)(i / (size_t)pitch) - row0, col = (int)(i % (size_t)pitch);
        if (row < 0 || row >= rows || col >= n)
            trampled += !is_poison(c[i]);
        else
            wrong += !(__bfloat162float(c[i]) == want[(size_t)row * n + col]);
    }
    expect(wrong == 0 && trampled == 0, what + ": " + std::to_string(wrong) + " wrong, " +
                                            std::to_string(trampled) + " trampled");
}

sg_area area(int rank, int place, int row0, int rows, int col0, int cols)
{
    sg_area a = {};
    a.rank = (int16_t)rank;
    a.buf = (uint8_t)place;
    a.row0 = row0;
    a.rows = rows;
    a.col0 = col0;
    a.cols = cols;
    return a;
}

int up(int a, int b)
{
    return (a + b - 1) / b;
}
