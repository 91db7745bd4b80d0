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

matrix wide_matrix(size_t count)
{
    matrix m(count);
    for (T &v : m) v = __float2bfloat16_rn((float)(draw(31) - 15));
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

/* Elements are small whole numbers, or a NaN, and sums of these are the same in any order: several
 * beside each other are something to vectorise. */
static float dot(const float *x, const float *y, int count)
{
    enum { CHAINS = 16 };
    float chain[CHAINS] = {}, sum = 0.f;
    int h = 0;
    for (; h + CHAINS <= count; h += CHAINS)
        for (int i = 0; i < CHAINS; ++i) chain[i] += x[h + i] * y[h + i];
    for (; h < count; ++h) sum += x[h] * y[h];
    for (float part : chain) sum += part;
    return sum;
}

std::vector<float> product(const T *a, int a_pitch, const matrix &b, int m, int n, int k)
{
    std::vector<float> c((size_t)m * n), x((size_t)k), y(b.size());
    for (size_t i = 0; i < b.size(); ++i) y[i] = __bfloat162float(b[i]);
    for (int i = 0; i < m; ++i) {
        for (int h = 0; h < k; ++h) x[(size_t)h] = __bfloat162float(a[(size_t)i * a_pitch + h]);
        for (int j = 0; j < n; ++j) c[(size_t)i * n + j] = dot(x.data(), &y[(size_t)j * k], k);
    }
    return c;
}

static bool is_same(T v, float want)
{
    uint16_t bits;
    memcpy(&bits, &v, 2);
    return isnan(want) ? bits == 0x7fff : __bfloat162float(v) == want;
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
            wrong += !is_same(c[i], want[(size_t)row * n + col]);
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

/* ---- Lists ----------------------------------------------------------------------------------- */

lists::lists() : program(), host()
{
}

sg_patch &lists::rect(int row0, int rows, int n, int k, sg_area a, sg_area b)
{
    sg_patch p = {};
    p.row0 = row0;
    p.rows = rows;
    p.cols = n;
    p.k1 = k;
    p.raster = SG_GROUPED;
    p.width = (uint8_t)(1 + draw(4));
    p.final = 1;
    p.a = a;
    p.b = b;
    p.wait0 = (int32_t)wait.size();
    p.add0 = (int32_t)add.size();
    p.to0 = (int32_t)to.size();
    p.raise0 = (int32_t)raise.size();
    patch.push_back(p);
    return patch.back();
}

void lists::store(sg_area a)
{
    to.push_back(a);
    ++patch.back().tos;
}

void lists::waits(sg_wait w)
{
    wait.push_back(w);
    ++patch.back().waits;
}

void lists::adds(sg_area a, const sg_wait *w)
{
    sg_addend d = {};
    d.area = a;
    if (w != nullptr) d.wait = *w;
    d.awaited = w != nullptr;
    add.push_back(d);
    ++patch.back().adds;
}

void lists::raises(int at, int per, int flag0, int by)
{
    sg_raise r = {};
    r.at = (int16_t)at;
    r.per = (uint8_t)per;
    r.flag0 = flag0;
    r.counter = by > 1 ? (int32_t)raisers.size() : -1;
    if (by > 1) raisers.push_back(by);
    raise.push_back(r);
    ++patch.back().raises;
}

void lists::close()
{
    count.assign(raisers.size() + 1, 0);
    program.patch = patch.data();
    program.wait = wait.data();
    program.add = add.data();
    program.to = to.data();
    program.raise = raise.data();
    program.raisers = raisers.data();
    program.count = count.data();
    program.type = SG_KERNEL_BF16;
    host = sg_kernel_lists{patch.data(), wait.data(), add.data(), to.data(), raise.data()};
}
