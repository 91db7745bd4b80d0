/* What the emulator says of ordinary instructions and the bulk engine with no fence between
 * them: a kernel that lacks a fence must be stopped, whatever the order of its threads, and
 * the same with it must not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel_emulated.h"

enum { THREADS = 64, OTHER = 32, PLACE = 0, WORD = 128, BARRIER = 256 };

static bool fenced;
static uint64_t flag;
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
                    printf("FAILED %s, %s a fence, seed %d: '%s'\n", c.name,
                           with ? "with" : "without", (int)seed, said);
                passed += right, failed += !right;
            }
        }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
