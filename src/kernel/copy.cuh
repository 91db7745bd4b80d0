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
