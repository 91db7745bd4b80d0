/* What the emulator says of ordinary instructions and the bulk engine with no fence between
 * them, of flags with none before, and of what nobody waits for: a kernel that lacks a fence or a
 * wait must be stopped, whatever the order of its threads, and the same with it must not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel_emulated.h"

enum { THREADS = 128, OTHER = 32, PLACE = 0, WORD = 128, BARRIER = 256 };

static bool fenced;
static uint64_t flag, raised;
static uint32_t counter;
static uint32_t memory[4] __attribute__((aligned(16)));

static void store_out(void)
{
    bulk_store(memory, PLACE, sizeof memory);
    bulk_commit();
    bulk_wait<0>();
}

static void written_and_stored(void)
{
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < 4; ++i) shared_store(PLACE + 4 * i, i);
        if (fenced) proxy_fence_shared();
    }
    named_sync(1, THREADS);
    if (threadIdx.x == OTHER) store_out();
}

/* A fence by another thread than the one that wrote is none. */
static void stored_behind_a_strange_fence(void)
{
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < 4; ++i) shared_store(PLACE + 4 * i, i);
        if (fenced) proxy_fence_shared();
    }
    named_sync(1, THREADS);
    if (threadIdx.x != OTHER) return;
    proxy_fence_shared();
    store_out();
}

static void load_in(void)
{
    mbar_expect(BARRIER, sizeof memory);
    bulk_load(PLACE, memory, sizeof memory, BARRIER);
    while (!mbar_try(BARRIER, 0)) emu_yield();
}

static void read_and_loaded(void)
{
    float v[4];
    if (threadIdx.x == 0) {
        mbar_init(BARRIER, 1);
        shared_load4(PLACE, v);
        if (fenced) proxy_fence_shared();
    }
    named_sync(1, THREADS);
    if (threadIdx.x == OTHER) load_in();
}

static void written_and_loaded(void)
{
    if (threadIdx.x == 0) {
        mbar_init(BARRIER, 1);
        shared_store(PLACE, 1);
        if (fenced) proxy_fence_shared();
    }
    named_sync(1, THREADS);
    if (threadIdx.x == OTHER) load_in();
}

static void seen_and_stored(void)
{
    if (threadIdx.x != 0) return;
    if (load_acquire(&flag) != 1) return;
    if (fenced) proxy_fence_global();
    store_out();
}

static void told_and_stored(void)
{
    if (threadIdx.x == 0) shared_store(WORD, 0);
    named_sync(1, THREADS);
    if (threadIdx.x == 1) load_acquire(&flag);
    if (threadIdx.x < 32) emu_warp_barrier();
    if (threadIdx.x == 0) {
        if (fenced) proxy_fence_global();
        progress_release(WORD, 1);
    }
    if (threadIdx.x != OTHER) return;
    while (progress_acquire(WORD) != 1) emu_yield();
    store_out();
}

static void stored_and_raised(void)
{
    if (threadIdx.x != 0) return;
    store_out();
    if (fenced) fence_sys();
    store_relaxed(&raised, 1);
}

/* A flag of another rank's. */
static void raised_behind_a_fence_for_one(void)
{
    if (threadIdx.x != 0) return;
    store_out();
    fenced ? fence_sys() : fence_gpu();
    store_relaxed(&raised, 1);
}

/* The last one who counts has a fence for all. */
static void stored_and_counted(void)
{
    if (threadIdx.x != 0) return;
    store_out();
    if (fenced) fence_gpu();
    if (count_up(&counter, 1)) store_relaxed(&raised, 1);
}

static void stored_by_others_and_raised(void)
{
    __syncthreads();
    if (threadIdx.x != 0) return;
    if (fenced) fence_sys();
    store_relaxed(&raised, 1);
}

static void counted_by_others_and_raised(void)
{
    if (threadIdx.x != 0) return;
    load_acquire_gpu(&counter);
    if (fenced) fence_sys();
    store_relaxed(&raised, 1);
}

static void stored_and_ended(void)
{
    if (threadIdx.x != 0) return;
    bulk_store(memory, PLACE, sizeof memory);
    bulk_commit();
    if (fenced) bulk_wait<0>();
}

static void read_and_ended(void)
{
    if (threadIdx.x != 0) return;
    bulk_store(memory, PLACE, sizeof memory);
    bulk_commit();
    bulk_wait_read<0>();
    if (fenced) bulk_wait<0>();
}

/* Operands of ones, and then of zeros. */
static void multiplied_and_written(void)
{
    enum { OF_A = 64 * 128, OF_BOTH = OF_A + 8 * 128 };
    const auto fill = [](uint32_t word) {
        for (uint32_t at = 4 * threadIdx.x; at < OF_BOTH; at += 4 * THREADS) shared_store(at, word);
        named_sync(1, THREADS);
    };
    float sums[4];
    fill(0x3f803f80);
    Wgmma<__nv_bfloat16, 8>::issue(sums, wgmma_operand(0), wgmma_operand(OF_A / 16), 0);
    wgmma_commit();
    if (fenced) wgmma_wait<0>();
    fill(0);
    wgmma_wait<0>();
    if (sums[0] == 16.f) return;
    fprintf(stderr, "products of what was written behind\n");
    abort();
}

static const struct {
    const char *name;
    void (*body)(void);
    const char *defect;
} cases[] = {
    {"written and stored", written_and_stored, "a bulk store of what was written"},
    {"a strange fence", stored_behind_a_strange_fence, "a bulk store of what was written"},
    {"read and loaded", read_and_loaded, "a bulk load into what was read"},
    {"written and loaded", written_and_loaded, "a bulk load into what was written"},
    {"a flag seen", seen_and_stored, "a bulk copy behind a flag"},
    {"a flag told", told_and_stored, "a bulk copy behind a flag"},
    {"stored and raised", stored_and_raised, "a flag is raised with no fence"},
    {"a fence for one", raised_behind_a_fence_for_one, "a flag is raised with no fence"},
    {"stored and counted", stored_and_counted, "counted with no fence"},
    {"stored by others", stored_by_others_and_raised, "a flag is raised with no fence"},
    {"counted by others", counted_by_others_and_raised, "a flag is raised with no fence"},
    {"stored and ended", stored_and_ended, "ends before its stores"},
    {"read and ended", read_and_ended, "ends before its stores"},
    {"multiplied and written", multiplied_and_written, "products of what was written"},
};

/* Runs BODY in a process of its own; what it says goes to SAID.  True: it ends by itself. */
static bool ends(void (*body)(void), char *said, size_t room)
{
    int pipes[2], status = 0;
    if (pipe(pipes) != 0) return false;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        cudaLaunchConfig_t config = {};
        config.gridDim.x = 1, config.blockDim.x = THREADS;
        _exit(emu_launch(&config, body) == cudaSuccess ? 0 : 1);
    }
    close(pipes[1]);
    const ssize_t bytes = read(pipes[0], said, room - 1);
    said[bytes > 0 ? bytes : 0] = '\0';
    close(pipes[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(void)
{
    int passed = 0, failed = 0;
    char said[256];
    flag = 1;
    for (const auto &c : cases)
        for (uint64_t seed = 1; seed <= 5; ++seed) {
            emu_seed(seed);
            for (int with = 0; with < 2; ++with) {
                fenced = with;
                const bool right =
                    ends(c.body, said, sizeof said) ? fenced : !fenced && strstr(said, c.defect);
                if (!right)
                    printf("FAILED %s, %s a fence or wait, seed %d: '%s'\n", c.name,
                           with ? "with" : "without", (int)seed, said);
                passed += right, failed += !right;
            }
        }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
