/* steps.cu -- steps that are not products, and the run protocol: kernels of
 * one warp or of a few blocks. */
#include "kernel/copy.cuh"
#include "kernel/instance.h"
#include "kernel/norm.cuh"
#include "kernel/protocol.cuh"

enum { THREADS = SG_KERNEL_STEP_THREADS };

/* Where addends and stores of a reduction begin, the first ones of each: worked out once a block,
 * and kept in shared memory behind what copy.cuh has there. */
enum { SPOTS = 64, REDUCE_SHARED = STEP_SHARED + 2 * SPOTS * (int)sizeof(Spot) };

/* ---- Starting -------------------------------------------------------------------------------- */

static bool can_start_early(void)
{
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           major >= 9;
}

template <class... P, class... A>
static cudaError_t start(void (*kernel)(P...), int blocks, int threads, unsigned how,
                         cudaStream_t stream, const A &...args)
{
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute early;
    config.gridDim = dim3((unsigned)(blocks > 0 ? blocks : 1));
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = REDUCE_SHARED; /* the most that any of them takes */
    config.stream = stream;
    config.attrs = &early;
    if ((how & SG_KERNEL_EARLY) && can_start_early()) {
        early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        early.val.programmaticStreamSerializationAllowed = 1;
        config.numAttrs = 1;
    }
    return cudaLaunchKernelEx(&config, kernel, args...);
}

/* What every kernel does first: nothing of an earlier one is read before. */
static __device__ void come_in()
{
    launch_wait();
    launch_next();
}

/* ---- The run protocol ------------------------------------------------------------------------ */

static __global__ void begin_kernel(sg_kernel_rank *rank, uint64_t hash, const void *c,
                                    int64_t c_stride, int baked, int hello, int gate)
{
    const int lane = threadIdx.x;
    sg_kernel_hello *there = lane < rank->ranks ? hello_address(rank, lane) : nullptr;
    come_in();
    if (hello) protocol_hello(rank, there, lane, hash, c, c_stride);
    if (gate) protocol_gate(rank, own_words(rank), lane, baked, -1);
}

static __global__ void end_kernel(sg_kernel_rank *rank, uint64_t hash, int baked, int hello,
                                  int done)
{
    come_in();
    const sg_kernel_words *own = own_words(rank);
    const Leaving at = protocol_leaving(rank, own, threadIdx.x, hash, baked, hello);
    const int32_t leaving = load_relaxed((const int32_t *)&rank->leaving);
    const bool ok = leaving == 0 && protocol_clear(rank, own, threadIdx.x);
    protocol_end(rank, at, threadIdx.x, hash, hello, done, ok, true);
}

cudaError_t sg_kernel_begin(sg_kernel_rank *rank, uint64_t hash, const void *c, int64_t c_stride,
                            int baked, int hello, int gate, unsigned how, cudaStream_t stream)
{
    return start(begin_kernel, 1, LANES, how, stream, rank, hash, c, c_stride, baked, hello, gate);
}

cudaError_t sg_kernel_end(sg_kernel_rank *rank, uint64_t hash, int baked, int hello, int done,
                          unsigned how, cudaStream_t stream)
{
    return start(end_kernel, 1, LANES, how, stream, rank, hash, baked, hello, done);
}

/* ---- Flags and copies ------------------------------------------------------------------------ */

static __global__ void flag_kernel(const __grid_constant__ sg_kernel_program program,
                                   const sg_kernel_step s)
{
    come_in();
    step_enter(program, s);
    step_leave(program, s);
}

cudaError_t sg_kernel_flag(const sg_kernel_program *program, const sg_kernel_step *step,
                           unsigned how, cudaStream_t stream)
{
    return start(flag_kernel, 1, 1, how, stream, *program, *step);
}

static __global__ void __launch_bounds__(THREADS, SG_KERNEL_STEP_BLOCKS)
    copy_kernel(const __grid_constant__ sg_kernel_program program, const sg_kernel_step s)
{
    come_in();
    copy_step(program, s, run_half(program));
}

cudaError_t sg_kernel_copy(const sg_kernel_program *program, const sg_kernel_step *step, int blocks,
                           unsigned how, cudaStream_t stream)
{
    return start(copy_kernel, blocks, THREADS, how, stream, *program, *step);
}

static __global__ void __launch_bounds__(THREADS, SG_KERNEL_STEP_BLOCKS)
    copies_kernel(const __grid_constant__ sg_kernel_program program, const sg_kernel_move *move,
                  int count, int64_t rows)
{
    come_in();
    copy_moves(program, move, count, rows, run_half(program));
}

cudaError_t sg_kernel_copies(const sg_kernel_program *program, const sg_kernel_move *move,
                             int count, int64_t rows, int blocks, unsigned how, cudaStream_t stream)
{
    return start(copies_kernel, blocks, THREADS, how, stream, *program, move, count, rows);
}

static __global__ void __launch_bounds__(THREADS, SG_KERNEL_STEP_BLOCKS)
    permute_kernel(sg_kernel_place src, sg_kernel_place dst, const int32_t *runs, int count,
                   int64_t row_bytes)
{
    come_in();
    if (runs == nullptr)
        copy_shifted(Spot{(char *)src.data[0], src.pitch}, Spot{(char *)dst.data[0], dst.pitch},
                     (uint32_t)src.rows, row_bytes);
    for (int i = 0; runs != nullptr && i < count; ++i)
        copy_any(Spot{(char *)src.data[0] + runs[3 * i] * src.pitch, src.pitch},
                 Spot{(char *)dst.data[0] + runs[3 * i + 1] * dst.pitch, dst.pitch},
                 runs[3 * i + 2], row_bytes);
}

cudaError_t sg_kernel_permute(const sg_kernel_place *src, const sg_kernel_place *dst,
                              const int32_t *runs, int count, int element_bytes_, int blocks,
                              unsigned how, cudaStream_t stream)
{
    const int64_t row_bytes = (int64_t)src->cols * element_bytes_;
    return start(permute_kernel, blocks, THREADS, how, stream, *src, *dst, runs, count, row_bytes);
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static __device__ Spot *spots_of_block()
{
    return (Spot *)((char *)shared_memory() + STEP_SHARED);
}

/* What becomes of the sums at (ROW, COL). */
template <class T, int WIDTH>
static __device__ void reduce_store(const sg_kernel_program &program, const sg_kernel_step &s,
                                    int half, uint64_t may, int64_t row, int64_t col,
                                    float (&sum)[WIDTH])
{
    const Spot *to = spots_of_block() + SPOTS;
    const sg_area &shape = program.to[s.to0];
#pragma unroll
    for (int j = 0; j < WIDTH && s.final && program.bias != nullptr; ++j)
        sum[j] += to_float(((const T *)program.bias)[shape.col0 + col + j]);
    if (s.final) activate<sizeof(T) == 4>(program.act, sum);
    for (int t = 0; t < s.tos; ++t) {
        if (!(may >> t % 64 & 1)) continue;
        const sg_area &area = program.to[s.to0 + t];
        const sg_kernel_place &place = program.place[area.buf];
        const Spot at = t < SPOTS ? to[t] : spot_of(program, area, half, true);
        store_some<T, WIDTH>(place, at.data + row * at.pitch + col * element_bytes(program, place),
                             sum);
    }
}

/* Any addends. */
template <class T, int WIDTH>
static __device__ void reduce_any(const sg_kernel_program &program, const sg_kernel_step &s,
                                  int half, uint64_t may)
{
    const Spot *from = spots_of_block();
    const sg_area &shape = program.to[s.to0];
    if (shape.cols <= 0) return;
    const uint32_t rows = (uint32_t)shape.rows;
    for (Deal d = deal_begin((uint32_t)(shape.cols / WIDTH)); d.row < rows; deal_step(d)) {
        const int64_t row = d.row, col = (int64_t)d.col * WIDTH;
        float sum[WIDTH], x[WIDTH];
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) sum[j] = s.adds > 0 ? -0.f : 0.f;
        for (int a = 0; a < s.adds; ++a) {
            const sg_area &area = program.add[s.add0 + a].area;
            const sg_kernel_place &place = program.place[area.buf];
            const Spot at = a < SPOTS ? from[a] : spot_of(program, area, half, false);
            load_some<T, WIDTH>(place,
                                at.data + row * at.pitch + col * element_bytes(program, place), x);
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) sum[j] += x[j];
        }
        reduce_store<T, WIDTH>(program, s, half, may, row, col, sum);
    }
}

/* Up to SPOTS addends in units of 16 bytes, all of them of type T: four are under way at a time,
 * since one would have the memory idle for most of its latency. */
template <class T>
static __device__ void reduce_units(const sg_kernel_program &program, const sg_kernel_step &s,
                                    int half, uint64_t may)
{
    constexpr int WIDTH = 16 / (int)sizeof(T), UNDER_WAY = 4;
    const Spot *from = spots_of_block();
    const sg_area &shape = program.to[s.to0];
    const uint32_t rows = (uint32_t)shape.rows;
    for (Deal d = deal_begin((uint32_t)(shape.cols / WIDTH)); d.row < rows; deal_step(d)) {
        float sum[WIDTH];
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) sum[j] = -0.f;
        for (int a = 0; a < s.adds; a += UNDER_WAY) {
            uint4 unit[UNDER_WAY];
#pragma unroll
            for (int i = 0; i < UNDER_WAY; ++i)
                if (a + i < s.adds)
                    unit[i] = __ldcg((const uint4 *)(from[a + i].data + d.row * from[a + i].pitch) +
                                     d.col);
#pragma unroll
            for (int i = 0; i < UNDER_WAY; ++i) {
                if (a + i >= s.adds) break;
                const Lump<T, WIDTH> lump = *(const Lump<T, WIDTH> *)&unit[i];
#pragma unroll
                for (int j = 0; j < WIDTH; ++j) sum[j] += to_float(lump.v[j]);
            }
        }
        reduce_store<T, WIDTH>(program, s, half, may, d.row, (int64_t)d.col * WIDTH, sum);
    }
}

template <class T>
static __global__ void __launch_bounds__(THREADS, SG_KERNEL_STEP_BLOCKS)
    reduce_kernel(const __grid_constant__ sg_kernel_program program, const sg_kernel_step s)
{
    come_in();
    const uint64_t may = step_enter(program, s);
    const int half = run_half(program);
    constexpr int WIDTH = 16 / (int)sizeof(T);
    for (int i = threadIdx.x; i < 2 * SPOTS; i += blockDim.x) {
        const int j = i % SPOTS;
        if (i < SPOTS ? j < s.adds : j < s.tos)
            spots_of_block()[i] = i < SPOTS
                                      ? spot_of(program, program.add[s.add0 + j].area, half, false)
                                      : spot_of(program, program.to[s.to0 + j], half, true);
    }
    __syncthreads();
    uintptr_t odd = (uintptr_t)(program.to[s.to0].cols % WIDTH);
    bool wide = false;
    for (int i = 0; i < s.adds + s.tos; ++i) {
        const sg_area &area =
            i < s.adds ? program.add[s.add0 + i].area : program.to[s.to0 + i - s.adds];
        const Spot spot = spot_of(program, area, half, i >= s.adds);
        odd |= (uintptr_t)spot.data | (uintptr_t)spot.pitch;
        wide |= i < s.adds && program.place[area.buf].wide;
    }
    if (odd % 16 != 0)
        reduce_any<T, 1>(program, s, half, may);
    else if (wide || s.adds == 0 || s.adds > SPOTS)
        reduce_any<T, WIDTH>(program, s, half, may);
    else if (program.to[s.to0].cols > 0)
        reduce_units<T>(program, s, half, may);
    step_leave(program, s);
}

cudaError_t sg_kernel_reduce(const sg_kernel_program *program, const sg_kernel_step *step,
                             int blocks, unsigned how, cudaStream_t stream)
{
    void (*const kernel)(sg_kernel_program, sg_kernel_step) =
        program->type == SG_KERNEL_BF16  ? reduce_kernel<__nv_bfloat16>
        : program->type == SG_KERNEL_F16 ? reduce_kernel<__half>
                                         : reduce_kernel<float>;
    return start(kernel, blocks, THREADS, how, stream, *program, *step);
}

/* ---- Norm ------------------------------------------------------------------------------------ */

static_assert((int)NORM_SHARED <= (int)REDUCE_SHARED && (int)NORM_THREADS == (int)THREADS,
              "start() is for it, too");

/* Blocks beside each other on an SM, which hide each other's loads: as many as do not spill. */
template <class T> struct NormBlocks {
    enum { VALUE = sizeof(T) == 2 ? 4 : 3 };
};

template <class T>
static __global__ void __launch_bounds__(NORM_THREADS, NormBlocks<T>::VALUE)
    norm_kernel(const __grid_constant__ sg_kernel_program program, const sg_kernel_norm norm)
{
    const NormAt at = norm_ahead<T>(program, norm);
    come_in();
    norm_all<T>(program, norm, at);
}

cudaError_t sg_kernel_norm_run(const sg_kernel_program *program, const sg_kernel_norm *norm,
                               int sms, unsigned how, cudaStream_t stream)
{
    void (*const kernel)(sg_kernel_program, sg_kernel_norm) =
        program->type == SG_KERNEL_BF16  ? norm_kernel<__nv_bfloat16>
        : program->type == SG_KERNEL_F16 ? norm_kernel<__half>
                                         : norm_kernel<float>;
    const int most = sms * (program->type == SG_KERNEL_F32 ? (int)NormBlocks<float>::VALUE
                                                           : (int)NormBlocks<__half>::VALUE);
    return start(kernel, norm->rows < most ? norm->rows : most, NORM_THREADS, how, stream, *program,
                 *norm);
}

cudaError_t sg_instance_load_steps(void)
{
    const void *const kernels[] = {
        (const void *)begin_kernel,
        (const void *)end_kernel,
        (const void *)flag_kernel,
        (const void *)copy_kernel,
        (const void *)copies_kernel,
        (const void *)permute_kernel,
        (const void *)reduce_kernel<float>,
        (const void *)reduce_kernel<__nv_bfloat16>,
        (const void *)reduce_kernel<__half>,
        (const void *)norm_kernel<float>,
        (const void *)norm_kernel<__nv_bfloat16>,
        (const void *)norm_kernel<__half>,
    };
    cudaFuncAttributes attributes;
    cudaError_t status = cudaSuccess;
    for (const void *kernel : kernels) {
        if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel);
        /* An SM keeps its division into cache and shared memory while a block is on it: kernels
         * that wait for each other agree on one, or they could not share an SM. */
        if (status == cudaSuccess)
            status = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                          cudaSharedmemCarveoutMaxShared);
    }
    return status;
}
