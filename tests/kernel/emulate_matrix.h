/* emulate_matrix.h -- of emulate.h: matrix instructions.  Those of a warpgroup read their operands
 * when it waits for them, and not before: as late as they may. */
#ifndef SG_EMULATE_MATRIX_H
#define SG_EMULATE_MATRIX_H

struct emu_product_of {
    void (*multiply)(float *sums, uint32_t a, uint32_t b, bool keep);
    float *sums;
    uint32_t a, b; /* in shared memory */
    bool keep;     /* adds to the sums */
    uint32_t batch;
};

void emu_product(const emu_product_of &product);
void emu_products_commit(void);
void emu_products_wait(int batches); /* until so many are under way */

static inline void wgmma_fence()
{
}
static inline void wgmma_commit()
{
    emu_products_commit();
}
/* The four warps of a warpgroup wait for their products together. */
template <int N> static inline void wgmma_wait()
{
    emu_products_wait(N);
    emu_group_barrier();
}
static inline uint64_t wgmma_operand(uint32_t at)
{
    return at;
}
template <int N> static inline void regs_up()
{
}
template <int N> static inline void regs_down()
{
}
static inline void keep_order(float &)
{
}
static inline void compute_now(int)
{
}

template <class T> static inline float emu_value(const uint8_t *p)
{
    T v;
    memcpy((void *)&v, p, sizeof v);
    return (float)v;
}

/* 16 elements of row ROW of an operand whose first one has address START, APART from each other. */
template <class T> static inline void emu_operand(uint32_t start, int row, float *v, int apart)
{
    for (int half = 0; half < 2; ++half) {
        const uint32_t at = start + (uint32_t)row * 128 + (uint32_t)half * 16;
        const uint8_t *p = emu_shared(at ^ (at >> 7 & 7) << 4);
        for (int k = 0; k < 8; ++k) v[(half * 8 + k) * apart] = emu_value<T>(p + 2 * k);
    }
}

template <class T, int N> struct Wgmma {
    static void issue(float (&d)[N / 2], uint64_t a, uint64_t b, int keep)
    {
        emu_product({multiply, d, (uint32_t)a << 4, (uint32_t)b << 4, keep != 0, 0});
    }
    static void multiply(float *d, uint32_t a_at, uint32_t b_at, bool keep)
    {
        const int thread = (int)threadIdx.x % 128, lane = thread % 32;
        float y[16][N / 4]; /* of the columns that this thread has */
        for (int c = 0; c < N / 4; ++c)
            emu_operand<T>(b_at, c / 2 * 8 + lane % 4 * 2 + c % 2, &y[0][c], N / 4);
        for (int h = 0; h < 2; ++h) {
            float x[16], sum[N / 4];
            emu_operand<T>(a_at, thread / 32 * 16 + lane / 4 + 8 * h, x, 1);
            for (int c = 0; c < N / 4; ++c) sum[c] = keep ? d[c / 2 * 4 + 2 * h + c % 2] : 0.f;
            for (int k = 0; k < 16; ++k)
                for (int c = 0; c < N / 4; ++c) sum[c] += x[k] * y[k][c];
            for (int c = 0; c < N / 4; ++c) d[c / 2 * 4 + 2 * h + c % 2] = sum[c];
        }
    }
};

/* Lane 8 q + r holds the address of row r of matrix q, thread t columns 2 (t % 4) of row t / 4. */
static inline void stmatrix4(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    uint32_t *words = emu_warp_words();
    const unsigned lane = threadIdx.x % 32;
    const uint32_t v[4] = {a, b, c, d};
    words[lane] = to;
    emu_warp_barrier();
    for (unsigned q = 0; q < 4; ++q)
        memcpy(emu_shared_write(words[8 * q + lane / 4] + lane % 4 * 4), &v[q], 4);
    emu_warp_barrier();
}
static inline void ldmatrix4(uint32_t from, uint32_t (&v)[4])
{
    uint32_t *words = emu_warp_words();
    const unsigned lane = threadIdx.x % 32;
    words[lane] = from;
    emu_warp_barrier();
    for (unsigned q = 0; q < 4; ++q)
        memcpy(&v[q], emu_shared_read(words[8 * q + lane / 4] + lane % 4 * 4), 4);
    emu_warp_barrier();
}

/* Thread t holds rows t / 4 and t / 4 + 8, columns 2 (t % 4) and 8 on, of A; row t / 4 of B. */
template <class T>
static inline void emu_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    uint32_t *words = emu_warp_words();
    const unsigned lane = threadIdx.x % 32;
    const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    memcpy(words + 6 * lane, mine, sizeof mine);
    emu_warp_barrier();
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned row = lane / 4, col = lane % 4 * 2 + (i & 1);
        for (unsigned k = 0; k < 16; ++k) {
            const unsigned lower = (i >> 1) + (k >= 8 ? 2 : 0), at = k % 8;
            const uint8_t *x = (uint8_t *)&words[6 * (row * 4 + at / 2) + lower];
            const uint8_t *y = (uint8_t *)&words[6 * (col * 4 + at / 2) + 4 + (k >= 8)];
            d[i] += emu_value<T>(x + at % 2 * 2) * emu_value<T>(y + at % 2 * 2);
        }
    }
    emu_warp_barrier();
}
static inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    emu_mma<__nv_bfloat16>(d, a, b0, b1);
}
static inline void mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    emu_mma<__half>(d, a, b0, b1);
}
static inline void cp_async16(uint32_t to, const void *from, int bytes)
{
    memset(emu_shared(to), 0, 16);
    memcpy(emu_shared(to), from, (size_t)bytes);
}
static inline void cp_async_commit()
{
}
template <int N> static inline void cp_async_wait()
{
}

static inline uint32_t pack_bf16(float lo, float hi)
{
    const __nv_bfloat16 v[2] = {__float2bfloat16_rn(lo), __float2bfloat16_rn(hi)};
    uint32_t w;
    memcpy(&w, v, 4);
    return w;
}
static inline uint32_t pack_f16(float lo, float hi)
{
    const __half v[2] = {__float2half_rn(lo), __float2half_rn(hi)};
    uint32_t w;
    memcpy(&w, v, 4);
    return w;
}

#endif
