/* gemm_slow.cuh -- carries out a launch on any GPU: any tile, any addends, any alignment.
 *
 * A block takes visits round robin in list order and cuts each tile into parts of M::ROWS x
 * M::COLS.  M says how a part is multiplied and which elements of it a thread holds, four
 * neighbours each, and the thread beside it the next four (M::WORDS, as tagged data needs it), or
 * not:
 *
 *     gemm_any.cu    f32 arithmetic, element by element
 *     gemm_sm80.cu   mma.sync from stages filled by cp.async
 *
 * One thread waits for flags, then a barrier; a barrier, then one thread raises.  Neither way of
 * loading goes through the asynchronous proxy, and none through the L1. */
#pragma once
#include "kernel/copy.cuh"
#include "kernel/instance.h"
#include "kernel/protocol.cuh"

typedef sg_kernel_gemm_param Param;

/* The operands of a part over one slab of k. */
struct Part {
    const char *a, *b; /* first element */
    int64_t a_pitch, b_pitch;
    int rows, cols, k;
};

struct Visit {
    const sg_patch *p;
    int band, col, tile;    /* of the patch */
    int index;              /* which visit of the patch it is */
    int row, rows, x, cols; /* in the patch */
    const Spot *direct;     /* [LEAVES], by rank: peers' own tensors; data NULL: their landings */
};

DEV Visit visit_find(const Param &P, int visit)
{
    const sg_patch *p = P.program.patch + P.patch0;
    while (visit >= sg_walk_visits(p, P.tile_m, P.tile_n))
        visit -= sg_walk_visits(p, P.tile_m, P.tile_n), ++p;
    const int cols = sg_walk_cols(p, P.tile_n);
    Visit v;
    v.p = p;
    v.index = visit;
    sg_walk_tile(p, sg_walk_bands(p, P.tile_m), cols, p->tile0 + visit, &v.band, &v.col);
    v.tile = v.band * cols + v.col;
    const int width = sg_walk_width(p, P.tile_n);
    v.row = v.band * P.tile_m, v.x = v.col * width;
    v.rows = sg_walk_min(P.tile_m, p->rows - v.row), v.cols = sg_walk_min(width, p->cols - v.x);
    return v;
}

/* Every thread of the block calls these. */
DEV void wait_flags(const Param &P, const sg_wait *wait, int waits, const Visit &v, int k,
                    uint64_t epoch, int visit)
{
    for (int i = 0; threadIdx.x == 0 && i < waits; ++i) {
        const sg_flags f = sg_walk_wait(&wait[i], v.p->row0 + v.row, v.rows, k, v.tile);
        for (int j = 0; j < f.count; ++j)
            flag_wait(P.program, wait[i].by, f.first + j * f.step, epoch, P.step, visit);
    }
    __syncthreads();
}

/* Of the block's shared memory: what parts are multiplied from, and behind that peers' tensors. */
enum { LEAVES = 64, DIRECT_AT = SG_INSTANCE_SMEM - LEAVES * (int)sizeof(Spot) };

DEV char *element(const sg_kernel_place &place, int half, int64_t row, int64_t col, int bytes)
{
    return (char *)place.data[half] + row * place.pitch + col * (place.wide ? 4 : bytes);
}

/* Element (ROW, COL) of a visit's tile in an area of its patch. */
DEV char *element_of(const Param &P, const Visit &v, const sg_area &area, int half, int row,
                     int col, int bytes)
{
    const bool tiled = area.tiled;
    if (area.leave && v.direct[area.rank % LEAVES].data != nullptr) {
        const Spot &to = v.direct[area.rank % LEAVES];
        return to.data + (area.row0 + v.row + row) * to.pitch +
               (int64_t)(area.col0 + v.x + col) *
                   element_bytes(P.program, P.program.place[area.buf]);
    }
    return element(P.program.place[area.buf], half,
                   area.row0 + (tiled ? v.index * P.tile_m : v.row) + row,
                   area.col0 + (tiled ? 0 : v.x) + col, bytes);
}

/* Adds, finishes and stores WIDTH neighbours from (ROW, COL) of the tile; OWN is their product.
 * MAY: a bit for each area that may be stored to. */
template <class T, int WIDTH>
DEV void finish_some(const Param &P, const Visit &v, int half, uint64_t may, int row, int col,
                     const float *own)
{
    const sg_kernel_program &program = P.program;
    const sg_patch &p = *v.p;
    const bool product = p.k0 < p.k1;
    float sum[WIDTH], mine[WIDTH], x[WIDTH];
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
        mine[j] = !product                      ? 0.f
                  : p.own_rounded && p.adds > 0 ? to_float(from_float<T>(own[j]))
                                                : own[j];
        sum[j] = product && p.own_at == 0 ? mine[j] : product || p.adds ? -0.f : 0.f;
    }
    for (int i = 0; i < p.adds; ++i) {
        const sg_area &area = program.add[p.add0 + i].area;
        load_some<T, WIDTH>(program.place[area.buf],
                            element_of(P, v, area, half, row, col, sizeof(T)), x);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            sum[j] += x[j];
            if (product && i + 1 == p.own_at) sum[j] += mine[j];
        }
    }
#pragma unroll
    for (int j = 0; j < WIDTH && p.final; ++j) {
        const T *bias = (const T *)program.bias;
        if (bias != nullptr) sum[j] += to_float(bias[p.col0 + v.x + col + j]);
    }
    if (p.final) activate<sizeof(T) == 4>(program.act, sum);
    for (int i = 0; i < p.tos; ++i) {
        if (!(may >> i & 1)) continue;
        const sg_area &area = program.to[p.to0 + i];
        store_some<T, WIDTH>(program.place[area.buf],
                             element_of(P, v, area, half, row, col, sizeof(T)), sum);
    }
}

/* Are rows of the tile in all areas of the patch made of whole units of 16 bytes? */
template <class T> DEV bool in_units(const Param &P, const Visit &v, int half)
{
    const sg_patch &p = *v.p;
    uintptr_t odd = (uintptr_t)v.cols * sizeof(T);
    for (int i = 0; i < p.adds + p.tos; ++i) {
        const sg_area &area =
            i < p.adds ? P.program.add[p.add0 + i].area : P.program.to[p.to0 + i - p.adds];
        odd |= (uintptr_t)element_of(P, v, area, half, 0, 0, sizeof(T));
        odd |= (uintptr_t)P.program.place[area.buf].pitch;
    }
    return odd % 16 == 0;
}

/* All of a visit without a product. */
template <class T, int WIDTH>
DEV void sum_visit(const Param &P, const Visit &v, int half, uint64_t may)
{
    const int units = v.cols / WIDTH;
    for (int i = threadIdx.x; i < units * v.rows; i += SG_INSTANCE_THREADS)
        finish_some<T, WIDTH>(P, v, half, may, i / units, i % units * WIDTH, nullptr);
}

/* Places for tiles are filled with zeros beyond the patch. */
template <class T> DEV void blank_rest(const Param &P, const Visit &v, int half)
{
    if (v.rows == P.tile_m && v.cols == P.tile_n) return;
    const sg_patch &p = *v.p;
    const float zero = 0.f;
    for (int t = 0; t < p.tos; ++t) {
        const sg_area &area = P.program.to[p.to0 + t];
        for (int i = threadIdx.x; area.tiled && i < P.tile_m * P.tile_n; i += SG_INSTANCE_THREADS) {
            const int row = i / P.tile_n, col = i % P.tile_n;
            if (row >= v.rows || col >= v.cols)
                store_some<T, 1>(P.program.place[area.buf],
                                 element_of(P, v, area, half, row, col, sizeof(T)), &zero);
        }
    }
}

DEV void wait_addends(const Param &P, const Visit &v, uint64_t epoch, int visit)
{
    for (int i = 0; i < v.p->adds; ++i) {
        const sg_addend &add = P.program.add[v.p->add0 + i];
        wait_flags(P, &add.wait, add.awaited, v, v.p->k0, epoch, visit);
    }
}

/* ---- Tagged data
 * ------------------------------------------------------------------------------------------
 *
 * In the words and places of tagged.cuh, as the fast kernels that other ranks may have: flags are
 * neither raised nor awaited, and columns beyond the patch, up to the tile's, travel as zeros. */

DEV bool stores_tagged(const Param &P, const sg_patch &p)
{
    return p.tos > 0 && is_tagged(P.program, P.program.to[p.to0]);
}

DEV bool adds_tagged(const Param &P, const sg_patch &p)
{
    return p.adds > 0 && is_tagged(P.program, P.program.add[p.add0].area);
}

/* That of eight columns from COL on in row ROW of a visit's tile. */
DEV char *word_of(const Param &P, const Visit &v, const sg_area &area, int half, int row, int col)
{
    const int64_t tile = (area.row0 + (int64_t)v.index * P.tile_m) * (P.tile_n * 2);
    const int word = (row / 8 * (P.tile_n / WORD_COLS) + col / WORD_COLS) * 32;
    return (char *)P.program.place[area.buf].data[half] + tile +
           (int64_t)(word + row % 8 * 4 + col % WORD_COLS / 8) * WORD_BYTES;
}

/* A thread's part of a product, four neighbours at a time with the four of the
 * thread beside it, to every rank. */
template <class M>
DEV void send_words(const Param &P, const Visit &v, int i0, int j0, int half, const float *acc)
{
    typedef typename M::T T;
#pragma unroll
    for (int i = 0; i < M::SUMS; i += 4) {
        const int row = i0 + M::row_of(i), col = j0 + M::col_of(i);
        const uint32_t x = pack<T>(acc[i], acc[i + 1]), y = pack<T>(acc[i + 2], acc[i + 3]);
        const uint32_t z = __shfl_xor_sync(0xffffffff, x, 1), w = __shfl_xor_sync(0xffffffff, y, 1);
        if (row >= v.rows || col >= P.tile_n || col % 8 != 0) continue;
        for (int d = 0; d < v.p->tos; ++d)
            store_tagged(word_of(P, v, P.program.to[v.p->to0 + d], half, row, col),
                         make_uint4(x, y, z, w));
    }
}

/* All of a visit that adds up what ranks have sent: into C and, of an owner's, to all others
 * first. */
template <class T> DEV void sum_words(const Param &P, const Visit &v, int half, int visit)
{
    const sg_patch &p = *v.p;
    const int words = P.tile_n / 8;
    for (int i = threadIdx.x; i < words * v.rows; i += SG_INSTANCE_THREADS) {
        const int row = i / words, col = i % words * 8;
        float sum[8] = {-0.f, -0.f, -0.f, -0.f, -0.f, -0.f, -0.f, -0.f};
        for (int r = 0; r < p.adds; ++r) {
            const sg_addend &add = P.program.add[p.add0 + r];
            const Stuck stuck = {SG_KERNEL_STUCK_FLAG, add.wait.by, P.step, visit,
                                 add.wait.flag0 + v.tile};
            uint4 word;
            if (!word_take(P.program.rank, word_of(P, v, add.area, half, row, col), stuck, &word))
                return;
            word_add<T>(word, sum);
        }
        for (int j = 0; j < 8 && p.final; ++j) {
            const T *bias = (const T *)P.program.bias;
            if (bias != nullptr && col + j < v.cols)
                sum[j] += to_float(bias[p.col0 + v.x + col + j]);
        }
        if (p.final) activate<false>(P.program.act, sum);
        for (int d = 0; d < p.tos - 1; ++d)
            store_tagged(word_of(P, v, P.program.to[p.to0 + d], half, row, col),
                         word_packed<T>(sum));
        const sg_area &to = P.program.to[p.to0 + p.tos - 1];
        for (int j = 0; j < 8 && col + j < v.cols; ++j)
            store_some<T, 1>(P.program.place[to.buf],
                             element_of(P, v, to, half, row, col + j, sizeof(T)), &sum[j]);
    }
}

/* ---- Visits ---------------------------------------------------------------------------------- */

/* One part of a visit: product over all slabs, then every element. */
template <class M>
DEV void carry_out_part(const Param &P, const Visit &v, int i0, int j0, int half, uint64_t epoch,
                        int visit, uint64_t may, char *smem)
{
    typedef typename M::T T;
    float acc[M::SUMS];
#pragma unroll
    for (int i = 0; i < M::SUMS; ++i) acc[i] = 0.f;
    const int slabs = sg_walk_all_slabs(v.p);
    for (int at = 0; at < slabs; ++at) {
        int s = at;
        const sg_patch &p = *sg_walk_slab(v.p, &s);
        const sg_kernel_place &a = P.program.place[p.a.buf], &b = P.program.place[p.b.buf];
        const int k0 = p.k0 + s * p.slab;
        const int k1 = s + 1 < sg_walk_slabs(&p) ? k0 + p.slab : p.k1;
        wait_flags(P, P.program.wait + p.wait0, p.waits, v, k0, epoch, visit);
        if (k0 >= k1) continue;
        const Part part = {element(a, half, p.a.row0 + v.row + i0, p.a.col0 + k0 - p.k0, sizeof(T)),
                           element(b, half, p.b.row0 + v.x + j0, p.b.col0 + k0 - p.k0, sizeof(T)),
                           a.pitch,
                           b.pitch,
                           sg_walk_min(M::ROWS, v.rows - i0),
                           sg_walk_min(M::COLS, v.cols - j0),
                           k1 - k0};
        M::multiply(part, acc, smem);
    }
    if constexpr (M::WORDS) {
        if (stores_tagged(P, *v.p)) {
            if (may != 0) send_words<M>(P, v, i0, j0, half, acc);
            __syncthreads();
            return;
        }
    }
    wait_addends(P, v, epoch, visit);
    /* One place in the code: it is long, and unrolled it is most of what there is to compile. */
    float out[M::SUMS];
#pragma unroll
    for (int i = 0; i < M::SUMS; ++i) out[i] = acc[i];
#pragma unroll 1
    for (int i = 0; i < M::SUMS; ++i) {
        const int row = i0 + M::row_of(i), col = j0 + M::col_of(i);
        if (row < v.rows && col < v.cols) finish_some<T, 1>(P, v, half, may, row, col, &out[i]);
    }
    __syncthreads();
}

/* What a block does before its tiles: the run's beginning, the gate, and its share of
 * what the launch carries.  By all threads; false: the gate did not open, and nothing is
 * stored into peers' memory. */
DEV bool come_in(const Param &P, int half)
{
    sg_kernel_rank *rank = P.program.rank;
    const sg_kernel_protocol &protocol = P.protocol;
    bool open = true;
    if (threadIdx.x < LANES) {
        if (protocol.begin && protocol.hello && blockIdx.x == 0)
            protocol_hello(
                rank, (int)threadIdx.x < rank->ranks ? hello_address(rank, threadIdx.x) : nullptr,
                threadIdx.x, P.program.hash, protocol.c, protocol.c_stride);
        if (protocol.gate)
            open = protocol_gate(rank, own_words(P.program), threadIdx.x, P.program.baked, P.step);
    }
    if (!__syncthreads_and(open)) return false;
    for (int i = 0; i < P.pushes; ++i) copy_step(P.program, P.push[i], half);
    return true;
}

/* The areas of a patch that may be stored to, a bit each, behind the hellos that they need; by one
 * thread, which leaves word of peers' tensors in DIRECT. */
DEV uint64_t wait_leaves(const Param &P, const sg_patch &p, bool open, Spot *direct)
{
    const uint64_t epoch = P.leaves ? run_epoch(P.program.rank) : 0;
    uint64_t may = open ? ~0ull : 0;
    for (int i = 0; P.leaves && open && i < p.tos; ++i) {
        const sg_area &to = P.program.to[p.to0 + i];
        if (!to.leave) continue;
        if (hello_wait(P.program.rank, to.rank, epoch, P.program.hash, SG_KERNEL_STUCK_LEAVE,
                       P.step))
            direct[to.rank % LEAVES] = hello_tensor(P.program, to.rank, epoch);
        else
            may &= ~(1ull << i);
    }
    return may;
}

template <class M>
__global__ void __launch_bounds__(SG_INSTANCE_THREADS, 1) gemm_slow(const __grid_constant__ Param P)
{
    static_assert(M::SMEM <= DIRECT_AT, "shared memory");
    char *smem = (char *)shared_memory();
    Spot *direct = (Spot *)(smem + DIRECT_AT);
    uint64_t *allowed = (uint64_t *)smem; /* between two visits nothing else is there */
    launch_wait();
    launch_next();
    const uint64_t epoch = P.program.rank ? run_epoch(P.program.rank) : 0;
    const int half = run_half(P.program);
    if (threadIdx.x < LEAVES) direct[threadIdx.x] = Spot{nullptr, 0};
    const bool open = come_in(P, half);
    for (int visit = blockIdx.x; visit < P.units; visit += gridDim.x) {
        Visit v = visit_find(P, visit);
        v.direct = direct;
        const sg_patch &p = *v.p;
        __syncthreads();
        if (threadIdx.x == 0) *allowed = wait_leaves(P, p, open, direct);
        __syncthreads();
        const uint64_t may = *allowed;
        __syncthreads();
        typedef typename M::T T;
        const bool sends = M::WORDS && stores_tagged(P, p);
        if (p.k0 < p.k1) {
            for (int i = 0; i < v.rows; i += M::ROWS)
                for (int j = 0; j < (sends ? P.tile_n : v.cols); j += M::COLS)
                    carry_out_part<M>(P, v, i, j, half, epoch, visit, may, smem);
        } else if (M::WORDS && adds_tagged(P, p)) {
            if constexpr (M::WORDS) sum_words<T>(P, v, half, visit);
        } else {
            wait_flags(P, P.program.wait + p.wait0, p.waits, v, p.k0, epoch, visit);
            wait_addends(P, v, epoch, visit);
            if (in_units<T>(P, v, half))
                sum_visit<T, 16 / (int)sizeof(T)>(P, v, half, may);
            else
                sum_visit<T, 1>(P, v, half, may);
        }
        if (P.tiled && open) blank_rest<T>(P, v, half);
        __syncthreads();
        if (threadIdx.x != 0 || p.raises == 0 || sends) continue;
        fence_sys(); /* of all of the tile: what this thread has seen is what
                      * all stored before the barrier */
        for (int i = 0; i < p.raises; ++i)
            raise_fire(P.program, raise_find(P.program, P.program.raise[p.raise0 + i], v.tile),
                       epoch);
    }
    const auto meet = [] { __syncthreads(); };
    if (P.protocol.end && threadIdx.x < LANES)
        protocol_leave(P.program, P.protocol, protocol_leaving(P.program, P.protocol, threadIdx.x),
                       threadIdx.x, gridDim.x, meet);
    else
        meet();
}
