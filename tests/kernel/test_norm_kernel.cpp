/* test_norm_kernel.cpp -- rows that are normed, by the kernel as it stands, on the emulator: places
 * in every raster and half, rows of any length, at 16 bytes and not, several patches a launch.
 * What is right is worked out here, in the order of core/norm.h.
 *     test_norm_kernel [SEED] */
#include <cuda_fp16.h>
#include <math.h>

#include "exact.h"

template <class E> static E element(float v);
template <> float element<float>(float v)
{
    return v;
}
template <> __nv_bfloat16 element<__nv_bfloat16>(float v)
{
    return __float2bfloat16_rn(v);
}
template <> __half element<__half>(float v)
{
    return __float2half_rn(v);
}
static float value(float v)
{
    return v;
}
static float value(__nv_bfloat16 v)
{
    return __bfloat162float(v);
}
static float value(__half v)
{
    return __half2float(v);
}

static float some()
{
    return (float)(draw(2001) - 1000) / 64.f;
}

/* Element 2048 i + 8 t + j of a row is added up by thread t of 256, in its sum j. */
template <class E> static float scale_of(const std::vector<E> &x, float epsilon)
{
    std::vector<float> thread(256, 0.f), warp(8, 0.f);
    for (size_t t = 0; t < 256; ++t) {
        float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        for (size_t at = 8 * t; at < x.size(); at += 2048)
            for (size_t j = 0; j < 8 && at + j < x.size(); ++j)
                sum[j] += value(x[at + j]) * value(x[at + j]);
        thread[t] =
            ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
    }
    for (size_t w = 0; w < 8; ++w) {
        float *at = &thread[32 * w];
        for (int d = 16; d > 0; d /= 2)
            for (int i = 0; i < d; ++i) at[i] += at[i + d];
        warp[w] = at[0];
    }
    const float all =
        ((warp[0] + warp[4]) + (warp[2] + warp[6])) + ((warp[1] + warp[5]) + (warp[3] + warp[7]));
    return 1.f / sqrtf(all / (float)x.size() + epsilon);
}

struct norm_ask {
    int rows, more, n;  /* rows of a first patch, and of a second */
    int tile_m, tile_n; /* of places; TILE_N 0: rows lie as they are */
    int raster, width;
    int pad; /* elements between rows */
    bool bias;
    int odd; /* elements that the bias lies behind a place for 16 bytes */
};

/* Where the sums of row ROW of a patch of ROWS rows are, which begins at place PLACE0. */
static size_t place_of_sum(const norm_ask &q, int rows, int place0, int row0, int row, int col)
{
    if (q.tile_n == 0) return (size_t)(row0 + row) * (size_t)(q.n + q.pad) + (size_t)col;
    const int bands = up(rows, q.tile_m), cols = up(q.n, q.tile_n);
    for (int i = 0; i < bands * cols; ++i) {
        sg_patch p = {};
        int32_t band = 0, strip = 0;
        p.raster = (uint8_t)q.raster, p.width = (uint8_t)q.width;
        sg_walk_tile(&p, bands, cols, i, &band, &strip);
        if (band != row / q.tile_m || strip != col / q.tile_n) continue;
        return ((size_t)(place0 + i) * (size_t)q.tile_m + (size_t)(row % q.tile_m)) *
                   (size_t)q.tile_n +
               (size_t)(col % q.tile_n);
    }
    return 0;
}

template <class E> static void norm_of(const norm_ask &q, int type)
{
    const int all = q.rows + q.more, pitch = q.n + q.pad;
    const int strips = q.tile_n > 0 ? up(q.n, q.tile_n) : 0;
    const int first = strips * up(q.rows, q.tile_m);
    const int places = first + strips * up(q.more, q.tile_m);
    const size_t room =
        q.tile_n > 0 ? (size_t)places * (size_t)(q.tile_m * q.tile_n) : (size_t)all * (size_t)pitch;
    std::vector<E> sums(room, element<E>(77.f)), other(room, element<E>(99.f)), gain;
    std::vector<E> bias((size_t)q.odd, element<E>(11.f));
    std::vector<E> residual((size_t)all * (size_t)pitch, element<E>(5.f)), c = residual;
    std::vector<E> want_c = c, want = residual;
    const float epsilon = 1e-3f;
    for (int col = 0; col < q.n; ++col) {
        gain.push_back(element<E>(some()));
        bias.push_back(element<E>(some()));
    }
    for (int row = 0; row < all; ++row) {
        const bool second = row >= q.rows;
        std::vector<E> x;
        for (int col = 0; col < q.n; ++col) {
            const size_t at = (size_t)row * (size_t)pitch + (size_t)col;
            E &sum = sums[place_of_sum(q, second ? q.more : q.rows, second ? first : 0,
                                       second ? q.rows : 0, second ? row - q.rows : row, col)];
            sum = element<E>(some());
            residual[at] = element<E>(some());
            /* A second patch is not final. */
            const float y =
                value(sum) + (q.bias && !second ? value(bias[(size_t)(q.odd + col)]) : 0.f);
            x.push_back(element<E>(value(element<E>(y)) + value(residual[at])));
            want[at] = x.back();
        }
        const float scale = scale_of(x, epsilon);
        for (int col = 0; col < q.n; ++col)
            want_c[(size_t)row * (size_t)pitch + (size_t)col] =
                element<E>(value(x[(size_t)col]) * scale * value(gain[(size_t)col]));
    }

    lists l;
    for (int i = 0; i < 2; ++i) {
        const int row0 = i == 0 ? 0 : q.rows, rows = i == 0 ? q.rows : q.more;
        if (rows == 0) continue;
        sg_patch &p = l.rect(row0, rows, q.n, 0, sg_area{}, sg_area{});
        p.raster = (uint8_t)q.raster, p.width = (uint8_t)q.width, p.final = i == 0;
        sg_area from = area(0, 1, row0, rows, 0, q.n);
        if (q.tile_n > 0) {
            from = area(0, 1, i == 0 ? 0 : first * q.tile_m, strips * up(rows, q.tile_m) * q.tile_m,
                        0, q.tile_n);
            from.tiled = 1;
        }
        l.adds(from, nullptr);
        l.store(area(0, 2, row0, rows, 0, q.n));
    }
    l.close();
    sg_kernel_rank rank = {}; /* its run uses half 1 */
    l.program.rank = &rank;
    l.program.type = type;
    l.program.bias = q.bias ? bias.data() + q.odd : nullptr;
    const auto put = [&](int i, std::vector<E> &data, int rows, int cols, int from_row) {
        sg_kernel_place &p = l.program.place[i];
        p = {};
        p.data[0] = p.data[1] = data.data();
        p.rows = rows, p.cols = cols, p.pitch = from_row * (int64_t)sizeof(E);
    };
    put(1, sums, all, q.n, q.tile_n > 0 ? q.tile_n : pitch);
    l.program.place[1].data[0] = other.data();
    put(2, c, all, q.n, pitch);
    put(3, residual, all, q.n, pitch);
    const sg_kernel_norm norm = {0,          (int32_t)l.patch.size(), q.tile_m, all, 3, epsilon,
                                 gain.data()};
    const std::string what = "norm of " + std::to_string(q.rows) + "+" + std::to_string(q.more) +
                             "x" + std::to_string(q.n) + ", type " + std::to_string(type);
    const bool ran = sg_kernel_norm_run(&l.program, &norm, 1 + draw(2), 0, nullptr) == cudaSuccess;
    expect(ran, what + ": runs");
    expect(memcmp(c.data(), want_c.data(), c.size() * sizeof(E)) == 0, what + ": C");
    expect(memcmp(residual.data(), want.data(), want.size() * sizeof(E)) == 0, what + ": residual");
}

static void norm(const norm_ask &q)
{
    norm_of<float>(q, SG_KERNEL_F32);
    norm_of<__nv_bfloat16>(q, SG_KERNEL_BF16);
    norm_of<__half>(q, SG_KERNEL_F16);
}

int main(int argc, char **argv)
{
    const int seed = argc > 1 ? atoi(argv[1]) : 1;
    draw(-seed);
    emu_seed((uint64_t)seed);
    norm({5, 0, 40, 4, 0, SG_BY_ROW, 1, 0, false, 0});
    norm({80, 0, 2048, 4, 0, SG_BY_ROW, 1, 0, false, 0}); /* a block's rows follow each other */
    norm({3, 2, 2056, 4, 0, SG_BY_ROW, 1, 8, true, 0});
    norm({2, 1, 9001, 4, 0, SG_BY_ROW, 1, 3, false, 0});
    norm({1, 0, 18432, 4, 0, SG_BY_ROW, 1, 0, true, 0});
    norm({7, 9, 100, 4, 32, SG_GROUPED, 2, 4, true, 0});
    norm({7, 9, 100, 4, 32, SG_BY_COL, 1, 4, false, 0});
    norm({17, 3, 264, 4, 40, SG_GROUPED, 3, 0, false, 0});
    norm({5, 4, 37, 2, 4, SG_BY_ROW, 1, 1, true, 0});
    norm({6, 0, 1, 4, 1, SG_GROUPED, 2, 0, false, 0});
    norm({50, 40, 264, 4, 0, SG_BY_ROW, 1, 0, true, 1}); /* the second patch alone is fast */
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
