/* steps.cu -- steps that are not products, and the run protocol: kernels of one thread or of a few
 * blocks.
 *
 * One thread of a block waits, then a barrier; all store, then a barrier, then one thread counts the
 * block in; the last block raises.  A release by one thread covers what it has seen through a
 * barrier. */
#include "kernel/device.cuh"
#include "kernel/instance.h"

enum { THREADS = 256, ONE_WARP = 32 };

/* ---- The run protocol -------------------------------------------------------------------------------------- */

/* Partner: hello_wait() at rank Q. */
static __device__ void say_hello(const sg_kernel_rank *rank, int q, uint64_t hash, const void *c,
                                 int64_t c_stride)
{
    sg_kernel_hello *hello = rank->words[q].hello + 2 * rank->rank + (int)(rank->epoch & 1);
    volatile sg_kernel_hello *plain = hello;
    plain->hash = hash, plain->c = (uint64_t)(uintptr_t)c, plain->c_stride = (uint64_t)c_stride;
    store_release(&hello->epoch, rank->epoch);
}

/* Partner: end() at rank Q. */
static __device__ void gate_wait(sg_kernel_rank *rank, int q, int baked, int step)
{
    word_wait(rank, own_words(rank)->done + q, rank->last[half_of_run(rank, baked)],
              Stuck{SG_KERNEL_STUCK_GATE, q, step, -1, -1});
}

static __global__ void begin_kernel(sg_kernel_rank *rank, uint64_t hash, const void *c,
                                    int64_t c_stride, int baked, int hello, int gate)
{
    for (int q = threadIdx.x; hello && q < rank->ranks; q += blockDim.x)
        say_hello(rank, q, hash, c, c_stride);
    for (int q = threadIdx.x; gate && q < rank->ranks; q += blockDim.x)
        gate_wait(rank, q, baked, -1);
}

static __global__ void gate_kernel(sg_kernel_rank *rank, int baked, int step)
{
    for (int q = threadIdx.x; q < rank->ranks; q += blockDim.x) gate_wait(rank, q, baked, step);
}

static __global__ void end_kernel(sg_kernel_rank *rank, uint64_t hash, int baked, int hello,
                                  int done)
{
    const uint64_t epoch = rank->epoch;
    bool ok = true;
    for (int q = threadIdx.x; hello && q < rank->ranks; q += blockDim.x)
        ok &= hello_wait(rank, q, epoch, hash, SG_KERNEL_STUCK_END, -1);
    if (threadIdx.x == 0) ok &= !aborted(rank);
    if (!__syncthreads_and(ok)) return;
    /* Partner: gate_wait() at q.  What this rank read or stored in this half is behind it. */
    for (int q = threadIdx.x; done && q < rank->ranks; q += blockDim.x)
        store_release(rank->words[q].done + rank->rank, epoch);
    __syncthreads();
    if (threadIdx.x != 0) return;
    const int half = half_of_run(rank, baked);
    rank->last[half] = epoch;
    rank->prev_half = half;
    rank->epoch = epoch + 1;
}

static unsigned rank_threads(int ranks)
{
    return (unsigned)(ranks <= ONE_WARP ? ONE_WARP : THREADS);
}

cudaError_t sg_kernel_begin(sg_kernel_rank *rank, int ranks, uint64_t hash, const void *c,
                            int64_t c_stride, int baked, int hello, int gate, unsigned how,
                            cudaStream_t stream)
{
    begin_kernel<<<1, rank_threads(ranks), 0, stream>>>(rank, hash, c, c_stride, baked, hello,
                                                        gate);
    return cudaGetLastError();
}

cudaError_t sg_kernel_gate(sg_kernel_rank *rank, int baked, int step, unsigned how,
                           cudaStream_t stream)
{
    gate_kernel<<<1, ONE_WARP, 0, stream>>>(rank, baked, step);
    return cudaGetLastError();
}

cudaError_t sg_kernel_end(sg_kernel_rank *rank, int ranks, uint64_t hash, int baked, int hello,
                          int done, unsigned how, cudaStream_t stream)
{
    end_kernel<<<1, rank_threads(ranks), 0, stream>>>(rank, hash, baked, hello, done);
    return cudaGetLastError();
}

/* ---- Waits and raises of a step ------------------------------------------------------------------------------- */

static __device__ void step_wait(const sg_kernel_program &program, int step, const sg_wait &wait,
                                 uint64_t epoch)
{
    const sg_flags f = sg_walk_wait(&wait, 0, 0x7fffffff, 0, 0);
    for (int i = 0; i < f.count; ++i)
        flag_wait(program, wait.by, f.first + i * f.step, epoch, step, -1);
}

/* By all threads of a block.  A bit for each area that may be stored to. */
static __device__ uint64_t step_enter(const sg_kernel_program &program, const sg_kernel_step &s)
{
    __shared__ uint64_t allowed;
    const uint64_t epoch = program.rank ? program.rank->epoch : 0;
    if (threadIdx.x == 0) {
        uint64_t may = ~0ull;
        for (int i = 0; i < s.waits; ++i)
            step_wait(program, s.step, program.wait[s.wait0 + i], epoch);
        for (int i = 0; i < s.adds; ++i) {
            const sg_addend &add = program.add[s.add0 + i];
            if (add.waits) step_wait(program, s.step, add.wait, epoch);
        }
        for (int i = 0; i < s.tos; ++i) {
            const sg_area &to = program.to[s.to0 + i];
            if (to.leave && !hello_wait(program.rank, to.rank, epoch, program.hash,
                                        SG_KERNEL_STUCK_LEAVE, s.step))
                may &= ~(1ull << i % 64);
        }
        allowed = may;
    }
    __syncthreads();
    return allowed;
}

/* By all threads, when they have stored: the last block raises. */
static __device__ void step_leave(const sg_kernel_program &program, const sg_kernel_step &s)
{
    if (s.raises == 0) return;
    __syncthreads();
    if (threadIdx.x != 0) return;
    if (gridDim.x > 1) {
        if (count_up(s.ticket) + 1 < gridDim.x) return;
        store_relaxed(s.ticket, 0);
    }
    for (int i = 0; i < s.raises; ++i)
        raise_fire(raise_find(program, program.raise[s.raise0 + i], 0), program.rank->epoch);
}

static __global__ void flag_kernel(const __grid_constant__ sg_kernel_program program,
                                   const sg_kernel_step s)
{
    step_enter(program, s);
    step_leave(program, s);
}

cudaError_t sg_kernel_flag(const sg_kernel_program *program, const sg_kernel_step *step,
                           unsigned how, cudaStream_t stream)
{
    flag_kernel<<<1, 1, 0, stream>>>(*program, *step);
    return cudaGetLastError();
}

/* ---- Copies ---------------------------------------------------------------------------------------------------- */

static __device__ int element_bytes(const sg_kernel_program &program, const sg_kernel_place &place)
{
    return place.wide || program.type == SG_KERNEL_F32 ? 4 : 2;
}

static __device__ char *corner(const sg_kernel_program &program, const sg_area &area, int half)
{
    const sg_kernel_place &place = program.place[area.buf];
    return (char *)place.data[half] + area.row0 * place.pitch +
           (int64_t)area.col0 * element_bytes(program, place);
}

/* ROWS of ROW_BYTES by all threads of the grid, past the L1, in units of 16, 4 or 1 bytes. */
template <class Unit>
static __device__ void copy_rows(const char *from, int64_t from_pitch, char *to, int64_t to_pitch,
                                 int rows, int64_t row_bytes)
{
    const int64_t units = row_bytes / (int64_t)sizeof(Unit), all = units * rows;
    const int64_t stride = (int64_t)gridDim.x * blockDim.x;
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < all; i += 4 * stride) {
        Unit v[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int64_t x = i + j * stride, row = x / units;
            v[j] = __ldcg((const Unit *)(from + row * from_pitch) + (x - row * units));
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int64_t x = i + j * stride, row = x / units;
            ((Unit *)(to + row * to_pitch))[x - row * units] = v[j];
        }
    }
    for (; i < all; i += stride) {
        const int64_t row = i / units;
        ((Unit *)(to + row * to_pitch))[i - row * units] =
            __ldcg((const Unit *)(from + row * from_pitch) + (i - row * units));
    }
}

static __device__ void copy_any(const char *from, int64_t from_pitch, char *to, int64_t to_pitch,
                                int rows, int64_t row_bytes)
{
    const uintptr_t odd = (uintptr_t)from | (uintptr_t)to | (uintptr_t)from_pitch |
                          (uintptr_t)to_pitch | (uintptr_t)row_bytes;
    if (odd % 16 == 0)
        copy_rows<uint4>(from, from_pitch, to, to_pitch, rows, row_bytes);
    else if (odd % 4 == 0)
        copy_rows<uint32_t>(from, from_pitch, to, to_pitch, rows, row_bytes);
    else
        copy_rows<uint8_t>(from, from_pitch, to, to_pitch, rows, row_bytes);
}

static __global__ void __launch_bounds__(THREADS)
    copy_kernel(const __grid_constant__ sg_kernel_program program, const sg_kernel_step s)
{
    const uint64_t may = step_enter(program, s);
    const int half = half_of_run(program);
    const sg_kernel_place &src = program.place[s.src.buf];
    const int64_t row_bytes = (int64_t)s.src.cols * element_bytes(program, src);
    for (int i = 0; i < s.tos; ++i) {
        const sg_area &to = program.to[s.to0 + i];
        if (may >> i % 64 & 1)
            copy_any(corner(program, s.src, half), src.pitch, corner(program, to, half),
                     program.place[to.buf].pitch, s.src.rows, row_bytes);
    }
    step_leave(program, s);
}

cudaError_t sg_kernel_copy(const sg_kernel_program *program, const sg_kernel_step *step, int blocks,
                           unsigned how, cudaStream_t stream)
{
    copy_kernel<<<(unsigned)(blocks > 0 ? blocks : 1), THREADS, 0, stream>>>(*program, *step);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(THREADS)
    permute_kernel(sg_kernel_place src, sg_kernel_place dst, const int32_t *runs, int count,
                   int64_t row_bytes)
{
    for (int i = 0; i < count; ++i)
        copy_any((const char *)src.data[0] + runs[3 * i] * src.pitch, src.pitch,
                 (char *)dst.data[0] + runs[3 * i + 1] * dst.pitch, dst.pitch, runs[3 * i + 2],
                 row_bytes);
}

cudaError_t sg_kernel_permute(const sg_kernel_place *src, const sg_kernel_place *dst,
                              const int32_t *runs, int count, int element_bytes_, int blocks,
                              unsigned how, cudaStream_t stream)
{
    permute_kernel<<<(unsigned)(blocks > 0 ? blocks : 1), THREADS, 0, stream>>>(
        *src, *dst, runs, count, (int64_t)src->cols * element_bytes_);
    return cudaGetLastError();
}

/* ---- Sums -------------------------------------------------------------------------------------------------------- */

template <class T, int WIDTH>
static __device__ void reduce_all(const sg_kernel_program &program, const sg_kernel_step &s,
                                  int half, uint64_t may)
{
    const sg_area &shape = program.to[s.to0];
    const int64_t units = shape.cols / WIDTH, all = units * shape.rows;
    const int64_t stride = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += stride) {
        const int64_t row = i / units, col = (i - row * units) * WIDTH;
        float sum[WIDTH], x[WIDTH];
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) sum[j] = s.adds > 0 ? -0.f : 0.f;
        for (int a = 0; a < s.adds; ++a) {
            const sg_area &area = program.add[s.add0 + a].area;
            const sg_kernel_place &place = program.place[area.buf];
            load_some<T, WIDTH>(place,
                                corner(program, area, half) + row * place.pitch +
                                    col * element_bytes(program, place),
                                x);
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) sum[j] += x[j];
        }
#pragma unroll
        for (int j = 0; j < WIDTH && s.final; ++j) {
            if (program.bias != nullptr)
                sum[j] += to_float(((const T *)program.bias)[shape.col0 + col + j]);
            sum[j] = activate<sizeof(T) == 4>(program.act, sum[j]);
        }
        for (int t = 0; t < s.tos; ++t) {
            const sg_area &area = program.to[s.to0 + t];
            const sg_kernel_place &place = program.place[area.buf];
            if (may >> t % 64 & 1)
                store_some<T, WIDTH>(place,
                                     corner(program, area, half) + row * place.pitch +
                                         col * element_bytes(program, place),
                                     sum);
        }
    }
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    reduce_kernel(const __grid_constant__ sg_kernel_program program, const sg_kernel_step s)
{
    const uint64_t may = step_enter(program, s);
    const int half = half_of_run(program);
    constexpr int WIDTH = 16 / (int)sizeof(T);
    uintptr_t odd = (uintptr_t)(program.to[s.to0].cols % WIDTH);
    for (int i = 0; i < s.adds + s.tos; ++i) {
        const sg_area &area =
            i < s.adds ? program.add[s.add0 + i].area : program.to[s.to0 + i - s.adds];
        odd |= (uintptr_t)corner(program, area, half) | (uintptr_t)program.place[area.buf].pitch;
    }
    if (odd % 16 == 0)
        reduce_all<T, WIDTH>(program, s, half, may);
    else
        reduce_all<T, 1>(program, s, half, may);
    step_leave(program, s);
}

cudaError_t sg_kernel_reduce(const sg_kernel_program *program, const sg_kernel_step *step,
                             int blocks, unsigned how, cudaStream_t stream)
{
    const unsigned grid = (unsigned)(blocks > 0 ? blocks : 1);
    if (program->type == SG_KERNEL_BF16)
        reduce_kernel<__nv_bfloat16><<<grid, THREADS, 0, stream>>>(*program, *step);
    else if (program->type == SG_KERNEL_F16)
        reduce_kernel<__half><<<grid, THREADS, 0, stream>>>(*program, *step);
    else
        reduce_kernel<float><<<grid, THREADS, 0, stream>>>(*program, *step);
    return cudaGetLastError();
}

cudaError_t sg_instance_load_steps(void)
{
    const void *const kernels[] = {
        (const void *)begin_kernel,
        (const void *)gate_kernel,
        (const void *)end_kernel,
        (const void *)flag_kernel,
        (const void *)copy_kernel,
        (const void *)permute_kernel,
        (const void *)reduce_kernel<float>,
        (const void *)reduce_kernel<__nv_bfloat16>,
        (const void *)reduce_kernel<__half>,
    };
    cudaFuncAttributes attributes;
    cudaError_t status = cudaSuccess;
    for (const void *kernel : kernels) {
        if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel);
        /* An SM keeps its division into cache and shared memory while a block is on it: kernels that
         * wait for each other agree on one, or they could not share an SM. */
        if (status == cudaSuccess)
            status = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                          cudaSharedmemCarveoutMaxShared);
    }
    return status;
}
