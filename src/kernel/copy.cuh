/* copy.cuh -- a step carried out by all threads of some blocks, and rows copied by them: for the
 * kernels of steps.cu, and for what a launch of gemm_slow.cuh carries beside its tiles.
 *
 * One thread of a block waits, then a barrier; all store, then a barrier, then one thread counts
 * the block in; the last block raises.  A release by one thread covers what it has seen through a
 * barrier.  Blocks have at least STEP_SHARED bytes of shared memory. */
#pragma once
#include "kernel/tagged.cuh"

enum { STEP_SHARED = 16 };

DEV void step_wait(const sg_kernel_program &program, int step, const sg_wait &wait, uint64_t epoch)
{
    const sg_flags f = sg_walk_wait(&wait, 0, 0x7fffffff, 0, 0);
    for (int i = 0; i < f.count; ++i)
        flag_wait(program, wait.by, f.first + i * f.step, epoch, step, -1);
}

/* By all threads of a block.  A bit for each area that may be stored to. */
DEV uint64_t step_enter(const sg_kernel_program &program, const sg_kernel_step &s)
{
    uint64_t *allowed = (uint64_t *)shared_memory();
    __syncthreads(); /* a step before this one may still read it */
    if (threadIdx.x == 0) {
        const uint64_t epoch = program.rank ? run_epoch(program.rank) : 0;
        uint64_t may = ~0ull;
        for (int i = 0; i < s.waits; ++i)
            step_wait(program, s.step, program.wait[s.wait0 + i], epoch);
        for (int i = 0; i < s.adds; ++i) {
            const sg_addend &add = program.add[s.add0 + i];
            if (add.awaited) step_wait(program, s.step, add.wait, epoch);
        }
        for (int i = 0; i < s.tos; ++i) {
            const sg_area &to = program.to[s.to0 + i];
            if (to.leave && !hello_wait(program.rank, to.rank, epoch, program.hash,
                                        SG_KERNEL_STUCK_LEAVE, s.step))
                may &= ~(1ull << i % 64);
        }
        *allowed = may;
    }
    __syncthreads();
    return *allowed;
}

/* By all threads, when they have stored: the last block raises. */
DEV void step_leave(const sg_kernel_program &program, const sg_kernel_step &s)
{
    if (s.raises == 0) return;
    __syncthreads();
    if (threadIdx.x != 0) return;
    fence_sys();
    if (gridDim.x > 1 && !count_up(s.ticket, gridDim.x)) return;
    for (int i = 0; i < s.raises; ++i)
        raise_fire(program, raise_find(program, program.raise[s.raise0 + i], 0),
                   run_epoch(program.rank));
}

/* The units of a matrix, dealt to all threads of the grid in turn: no division but the first.  A
 * thread steps over the last row or column by up to as many as there are threads, four times:
 * unsigned, of fewer than 2^31 rows and columns, that stays behind all of them. */
struct Deal {
    uint32_t row, col;           /* this thread's next one */
    uint32_t row_step, col_step; /* to the one after that */
    uint32_t cols;               /* of a row */
};

DEV Deal deal_among(uint32_t cols, uint32_t me, uint32_t all)
{
    return Deal{me / cols, me % cols, all / cols, all % cols, cols};
}

DEV Deal deal_begin(uint32_t cols)
{
    return deal_among(cols, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
}

DEV void deal_step(Deal &d)
{
    d.row += d.row_step, d.col += d.col_step;
    if (d.col >= d.cols) d.col -= d.cols, ++d.row;
}

/* ROWS of ROW_BYTES by all threads of the grid, or of this block ALONE, past the L1, in units of
 * 16, 4 or 2 bytes: no element is smaller. */
template <class Unit, bool ALONE>
DEV void copy_rows(const Spot &from, const Spot &to, uint32_t rows, int64_t row_bytes)
{
    if (row_bytes <= 0) return;
    const uint32_t cols = (uint32_t)(row_bytes / (int64_t)sizeof(Unit));
    Deal load = ALONE ? deal_among(cols, threadIdx.x, blockDim.x) : deal_begin(cols), store = load;
    while (load.row < rows) {
        Unit v[4];
#pragma unroll
        for (int j = 0; j < 4; ++j, deal_step(load))
            if (load.row < rows)
                v[j] = __ldcg((const Unit *)(from.data + load.row * from.pitch) + load.col);
#pragma unroll
        for (int j = 0; j < 4; ++j, deal_step(store))
            if (store.row < rows) ((Unit *)(to.data + store.row * to.pitch))[store.col] = v[j];
    }
}

template <bool ALONE = false>
DEV void copy_any(const Spot &from, const Spot &to, int rows, int64_t row_bytes)
{
    const uintptr_t odd = (uintptr_t)from.data | (uintptr_t)to.data | (uintptr_t)from.pitch |
                          (uintptr_t)to.pitch | (uintptr_t)row_bytes;
    if (odd % 16 == 0)
        copy_rows<uint4, ALONE>(from, to, (uint32_t)rows, row_bytes);
    else if (odd % 4 == 0)
        copy_rows<uint32_t, ALONE>(from, to, (uint32_t)rows, row_bytes);
    else
        copy_rows<uint16_t, ALONE>(from, to, (uint32_t)rows, row_bytes);
}

/* The 16 bytes from FROM on, a multiple of that, of which those in [LOW, HIGH) are there. */
DEV uint4 word_within(const char *from, const char *low, const char *high)
{
    if (from >= low && from + 16 <= high) return __ldcg((const uint4 *)from);
    uint64_t half[2] = {0, 0};
#pragma unroll 1
    for (int i = 0; i < 8; ++i) {
        const char *at = from + 2 * i;
        if (at < low || at >= high) continue;
        const uint64_t two = (uint64_t)__ldcg((const unsigned short *)at) << (i % 4 * 16);
        half[0] |= i < 4 ? two : 0, half[1] |= i < 4 ? 0 : two;
    }
    return make_uint4((uint32_t)half[0], (uint32_t)(half[0] >> 32), (uint32_t)half[1],
                      (uint32_t)(half[1] >> 32));
}

/* 16 bytes from byte SHIFT of A on, an even one, that go on in B. */
DEV uint4 word_shifted(const uint4 &a, const uint4 &b, int shift)
{
    uint32_t w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 6; ++i) w[i] = shift & 8 ? w[i + 2] : w[i];
#pragma unroll
    for (int i = 0; i < 5; ++i) w[i] = shift & 4 ? w[i + 1] : w[i];
    const int bits = shift % 4 * 8;
#pragma unroll
    for (int i = 0; i < 4; ++i) w[i] = (uint32_t)(((uint64_t)w[i + 1] << 32 | w[i]) >> bits);
    return make_uint4(w[0], w[1], w[2], w[3]);
}

/* As copy_any(), whose units are small where addresses are odd: a warp reads 32 words of a row that
 * begin at multiples of 16 bytes, and stores the 31 between them that do so where they go; what is
 * left at the row's ends goes two bytes at a time. */
DEV void copy_shifted(const Spot &from, const Spot &to, uint32_t rows, int64_t row_bytes)
{
    enum { WORD = 16, WARP = 32, STORED = WARP - 1 };
    if (row_bytes <= 0 || rows == 0) return;
    const int lane = (int)threadIdx.x % WARP;
    const uint32_t warps = blockDim.x / WARP, warp = threadIdx.x / WARP;
    const uint32_t chunks = (uint32_t)(row_bytes / (WORD * STORED)) + 1;
    const char *low = from.data, *high = from.data + (rows - 1) * from.pitch + row_bytes;
    for (Deal d = deal_among(chunks, blockIdx.x * warps + warp, gridDim.x * warps); d.row < rows;
         deal_step(d)) {
        const char *src = from.data + d.row * from.pitch;
        char *dst = to.data + d.row * to.pitch;
        const int odd = (int)((0 - (uintptr_t)dst) % WORD);
        const int head = row_bytes < odd ? (int)row_bytes : odd;
        const int words = (int)((row_bytes - head) / WORD), word = (int)d.col * STORED + lane;
        const int shift = (int)((uintptr_t)(src + head) % WORD);
        const int64_t at = (int64_t)word * WORD + head;
        uint4 a = make_uint4(0, 0, 0, 0), b;
        if (word <= words) a = word_within(src + at - shift, low, high);
        b.x = __shfl_sync(0xffffffff, a.x, (lane + 1) % WARP);
        b.y = __shfl_sync(0xffffffff, a.y, (lane + 1) % WARP);
        b.z = __shfl_sync(0xffffffff, a.z, (lane + 1) % WARP);
        b.w = __shfl_sync(0xffffffff, a.w, (lane + 1) % WARP);
        if (word < words && lane < STORED) *(uint4 *)(dst + at) = word_shifted(a, b, shift);
        if (d.col > 0) continue;
        /* Eight lanes for the row's beginning, and others for its end. */
        const int64_t end = head + (int64_t)words * WORD;
        const int64_t byte = lane < 8 ? 2 * lane : end + 2 * (lane - 8);
        if (byte < (lane < 8 ? (int64_t)head : row_bytes))
            *(unsigned short *)(dst + byte) = __ldcg((const unsigned short *)(src + byte));
    }
}

/* ---- Tagged data ----------------------------------------------------------------------------- */

/* Reads a word once it is there, and puts it back to rest.  False: time is up, or somebody has
 * given up.  Partner: whoever stores tagged words at a peer. */
DEV bool word_take(sg_kernel_rank *rank, char *from, const Stuck &stuck, uint4 *word_out)
{
    uint64_t start = 0;
    for (uint32_t tries = 1;; ++tries) {
        load_tagged(from, word_out);
        if (has_come(*word_out)) break;
        if (start == 0) start = now_ns();
        nap();
        if (tries % 32 != 0) continue;
        const bool late = now_ns() - start > rank->limit_ns;
        if ((late || aborted(rank)) && give_up(rank, stuck, late, 0, run_epoch(rank))) return false;
    }
    rest_tagged(from);
    return true;
}

DEV bool is_tagged(const sg_kernel_program &program, const sg_area &area)
{
    return program.place[area.buf].tagged != 0;
}

/* The eight numbers at FROM, which may stand at any address of theirs. */
DEV uint4 word_at(const char *from)
{
    if ((uintptr_t)from % 16 == 0) return __ldcg((const uint4 *)from);
    uint32_t w[4];
    for (int i = 0; i < 4; ++i) {
        const uint32_t low = __ldcg((const unsigned short *)from + 2 * i);
        w[i] = low | (uint32_t)__ldcg((const unsigned short *)from + 2 * i + 1) << 16;
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
}

/* Rows as tagged data to all areas of S, as gather_send() stores them: nobody waits for its
 * flags. */
DEV void send_step(const sg_kernel_program &program, const sg_kernel_step &s, int half)
{
    const Spot from = spot_of(program, s.src, half, false);
    for (Deal d = deal_begin((uint32_t)s.src.cols / 8); d.row < (uint32_t)s.src.rows;
         deal_step(d)) {
        const uint4 word = word_not_at_rest(word_at(from.data + d.row * from.pitch + d.col * 16));
        for (int i = 0; i < s.tos; ++i) {
            const Spot to = spot_of(program, program.to[s.to0 + i], half, false);
            store_tagged(to.data + d.row * to.pitch + d.col * 16, word);
        }
    }
}

/* What has come, as gather_take() stores it, with the flags of S.  Who has waited in vain goes on
 * to them. */
DEV void take_step(const sg_kernel_program &program, const sg_kernel_step &s, int half)
{
    const Spot from = spot_of(program, s.src, half, false);
    const Spot to = spot_of(program, program.to[s.to0], half, false);
    const sg_wait &wait = program.wait[s.wait0];
    const Stuck stuck = {SG_KERNEL_STUCK_FLAG, wait.by, s.step, -1, wait.flag0};
    uint4 word;
    for (Deal d = deal_begin((uint32_t)s.src.cols / 8); d.row < (uint32_t)s.src.rows;
         deal_step(d)) {
        if (!word_take(program.rank, from.data + d.row * from.pitch + d.col * 16, stuck, &word))
            break;
        *(uint4 *)(to.data + d.row * to.pitch + d.col * 16) = word;
    }
    step_leave(program, s);
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* Copies the source of S to all its areas that may be stored to. */
DEV void copy_step(const sg_kernel_program &program, const sg_kernel_step &s, int half)
{
    if (is_tagged(program, s.src)) return take_step(program, s, half);
    if (s.tos > 0 && is_tagged(program, program.to[s.to0])) return send_step(program, s, half);
    const uint64_t may = step_enter(program, s);
    const Spot from = spot_of(program, s.src, half, false);
    const int64_t row_bytes =
        (int64_t)s.src.cols * element_bytes(program, program.place[s.src.buf]);
    for (int i = 0; i < s.tos; ++i) {
        if (!(may >> i % 64 & 1)) continue;
        const Spot to = spot_of(program, program.to[s.to0 + i], half, true);
        copy_any(from, to, s.src.rows, row_bytes);
    }
    step_leave(program, s);
}

/* Of COUNT copies of ROWS rows together, this block's part of the rows: as many as any other's,
 * however few rows each copy has. */
DEV void copy_moves(const sg_kernel_program &program, const sg_kernel_move *move, int count,
                    int64_t rows, int half)
{
    const int64_t first = rows * blockIdx.x / gridDim.x, end = rows * (blockIdx.x + 1) / gridDim.x;
    int at = 0; /* the last copy that begins no later than at `first` */
    for (int behind = count; behind - at > 1;) {
        const int middle = at + (behind - at) / 2;
        if (move[middle].row <= first)
            at = middle;
        else
            behind = middle;
    }
    for (; at < count && move[at].row < end; ++at) {
        const sg_kernel_move &m = move[at];
        const int64_t x0 = first > m.row ? first - m.row : 0;
        const int64_t x1 = end - m.row < m.src.rows ? end - m.row : m.src.rows;
        if (x0 >= x1) continue;
        Spot from = spot_of(program, m.src, half, false), to = spot_of(program, m.to, half, false);
        from.data += x0 * from.pitch, to.data += x0 * to.pitch;
        copy_any<true>(from, to, (int)(x1 - x0),
                       (int64_t)m.src.cols * element_bytes(program, program.place[m.src.buf]));
    }
}
