// When every role of every block did what, in the last run of plans: two ranks, on two GPUs.
//
//     lab_stamps SUITE OUT [ranks=2]     lines of SUITE: a problem and a strategy with its knobs
//
// Each plan is timed and checked as `shingle bench` does, by kernels compiled with SHINGLE_STAMPS (stamp.cuh), and what the
// last of its runs noted goes to OUT, for stamps.py:
//
//     plan PROBLEM STRATEGY US WRONG
//     RANK BLOCK ROLE EVENT CLOCK NS VALUE        a note a line, in the order in which the role made them
#include "kernel/ptx.cuh"
#include "kernel/stamp.cuh"
#include "shingle.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print(FILE *out, int rank, const Stamps *s) {
    for (int block = 0; block < STAMP_BLOCKS; ++block)
        for (int role = 0; role < STAMP_ROLES; ++role)
            for (int i = 0; i < s->count[block][role]; ++i) {
                const Stamp &x = s->stamp[block][role][i];
                fprintf(out, "%d %d %d %d %u %u %d\n", rank, block, role, x.event, x.clock, x.ns, x.value);
            }
}

int main(int argc, char **argv) {
    int ranks = 2;
    shingle_comm *comm[64];
    shingle_config config = {};
    config.backend = "cuda", config.timeout_seconds = 3;
    if (argc > 3) sscanf(argv[3], "ranks=%d", &ranks);
    FILE *suite = argc > 2 ? fopen(argv[1], "r") : nullptr, *out = argc > 2 ? fopen(argv[2], "w") : nullptr;
    Stamps *stamps = (Stamps *)malloc(sizeof *stamps);
    if (!suite || !out || !stamps) return fprintf(stderr, "lab_stamps SUITE OUT [ranks=N]\n"), 1;
    if (shingle_open(ranks, &config, comm) != SHINGLE_OK) return fprintf(stderr, "%s\n", shingle_error()), 1;
    char line[512], problem[256], strategy[256];
    int failed = 0;
    while (fgets(line, sizeof line, suite)) {
        if (line[0] == '#' || sscanf(line, "%255s %255s", problem, strategy) != 2) continue;
        shingle_bench_options options = {};
        shingle_bench_result result = {};
        options.strategy = strategy, options.iterations = 7, options.warmup = 1;
        if (shingle_bench(ranks, comm, problem, &options, &result) != SHINGLE_OK) {
            printf("%s %s: %s\n", problem, strategy, shingle_error()), ++failed;
            continue;
        }
        fprintf(out, "plan %s %s %.2f %lld\n", problem, result.strategy, result.overlapped_us, (long long)result.wrong);
        printf("%s %s: %.2f us, %.2f the product alone, %lld wrong\n", problem, result.strategy, result.overlapped_us, result.gemm_us, (long long)result.wrong), fflush(stdout);
        for (int r = 0; r < ranks; ++r) {
            const int status = sg_kernel_stamps(r, stamps);
            if (status) printf("rank %d: CUDA error %d\n", r, status), ++failed;
            else print(out, r, stamps);
        }
    }
    shingle_close(ranks, comm);
    return failed || fclose(out);
}
