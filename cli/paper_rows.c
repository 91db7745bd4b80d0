/* paper_rows.c -- see paper_rows.h.  Tables hold what is printed in the
 * sources; times are milliseconds. */
#include "paper_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "out.h"

enum { MOST_ROWS = 200 };

static paper_row *add_row(paper_list *list, const char *place, const char *machine,
                          const char *strategy, double low, double high)
{
    paper_row *const row = &list->row[list->rows++];
    memset(row, 0, sizeof *row);
    row->place = place;
    row->machine = machine;
    row->strategy = strategy;
    row->low = low;
    row->high = high;
    return row;
}

static void name_problem(paper_row *row, int index, const char *op, const char *type, int m, int n,
                         int k, int ranks)
{
    snprintf(row->problem[index], sizeof row->problem[index], "%s:%s:%dx%dx%d:r%d", op, type, m, n,
             k, ranks);
}

/* ---- FLUX ------------------------------------------------------------------------------------ */

/* A layer of GPT-3 175B on eight ranks: the first product gathers, the second scatters. */
enum { GPT_WIDE = 49152, GPT_NARROW = 12288, GPT_RANKS = 8 };

static paper_row *add_gpt(paper_list *list, bool gather, const char *place, const char *machine,
                          const char *type, int m, double low, double high)
{
    paper_row *const row =
        add_row(list, place, machine, gather ? "fused_in" : "fused_out", low, high);
    if (gather)
        name_problem(row, 0, "ag_gemm", type, m, GPT_WIDE / GPT_RANKS, GPT_NARROW, GPT_RANKS);
    else
        name_problem(row, 0, "gemm_rs", type, m, GPT_NARROW, GPT_WIDE / GPT_RANKS, GPT_RANKS);
    return row;
}

/* docs/performance_report.md at 79807b7 and docs/performance.md at 5671878, m 4096: times of torch
 * with NCCL and of Flux. */
static const struct {
    const char *place, *machine, *type;
    bool gather;
    double serial_ms, flux_ms;
} flux_times[] = {
    {"performance_report.md", "a800x8", "bf16", true, 3.099, 2.469},
    {"performance_report.md", "a800x8", "bf16", false, 3.100, 2.508},
    {"performance_report.md", "h800x8", "bf16", true, 1.429, 0.957},
    {"performance_report.md", "h800x8", "bf16", false, 1.408, 0.932},
    {"performance.md", "l20x8", "f16", true, 16.946, 5.903},
    {"performance.md", "l20x8", "f16", false, 17.664, 5.730},
};

/* Section 5 of the paper: ranges of overlap efficiency over m and over both products. */
static const struct {
    const char *machine;
    double low, high;             /* m 1024 to 8192 */
    double small_low, small_high; /* m 64 and 512 */
} flux_ranges[] = {
    {"a100-pcie-x8", 0.41, 0.57, -0.02, 0.41},
    {"a100x8", 0.36, 0.96, 0.14, 0.88},
    {"h800x8", 0.37, 0.93, -1.65, -0.82},
};

static void add_flux(paper_list *list)
{
    static const int rows_of[] = {1024, 2048, 4096, 8192, 64, 512};
    list->source = "FLUX, arXiv 2406.06858, and documents of bytedance/flux";
    list->note =
        "paper: ranges over m and both products, an efficiency between low and high agrees";
    for (size_t i = 0; i < sizeof flux_times / sizeof flux_times[0]; i++) {
        const double speedup = flux_times[i].serial_ms / flux_times[i].flux_ms;
        add_gpt(list, flux_times[i].gather, flux_times[i].place, flux_times[i].machine,
                flux_times[i].type, 4096, speedup, speedup);
    }
    for (int i = 0; i < 3 * 6 * 2; i++) {
        const int at = i / 12;
        const int m = rows_of[i % 12 / 2];
        const bool small = m < 1024;
        paper_row *const row =
            add_gpt(list, i % 2 == 0, small ? "paper, small m" : "paper, section 5",
                    flux_ranges[at].machine, "bf16", m,
                    small ? flux_ranges[at].small_low : flux_ranges[at].low,
                    small ? flux_ranges[at].small_high : flux_ranges[at].high);
        row->what = PAPER_HIDDEN;
    }
}

/* ---- FlashOverlap ---------------------------------------------------------------------------- */

/* evaluation/results.csv of infinigence/FlashOverlap at e704f6e: times without overlap and with it,
 * means where a case stands there twice. */
static const struct {
    const char *op;
    int ranks, m, n, k;
    double serial_ms, signal_ms;
} flash_times[] = {
    {"gemm_ar", 2, 8192, 8192, 2048, 2.1673, 1.8224},
    {"gemm_ar", 2, 4096, 8192, 8192, 2.7553, 2.5515},
    {"gemm_ar", 2, 8192, 8192, 4096, 3.1017, 2.6763},
    {"gemm_ar", 2, 16384, 8192, 2048, 4.1899, 3.1993},
    {"gemm_ar", 2, 16384, 16384, 2048, 7.9678, 5.8403},
    {"gemm_ar", 2, 8192, 8192, 8192, 5.0777, 4.7621},
    {"gemm_ar", 2, 16384, 8192, 4096, 6.0589, 5.0076},
    {"gemm_ar", 2, 16384, 8192, 8192, 10.2069, 9.2488},
    {"gemm_ar", 2, 16384, 16384, 4096, 11.8151, 9.7402},
    {"gemm_ar", 2, 16384, 16384, 8192, 20.3868, 18.2407},
    {"gemm_ar", 4, 8192, 8192, 2048, 2.5469, 2.1341},
    {"gemm_ar", 4, 8192, 8192, 4096, 3.5007, 3.1269},
    {"gemm_ar", 4, 16384, 8192, 2048, 4.9007, 3.7400},
    {"gemm_ar", 4, 8192, 8192, 8192, 5.4672, 4.9290},
    {"gemm_ar", 4, 16384, 8192, 4096, 6.7244, 5.3159},
    {"gemm_ar", 4, 16384, 16384, 2048, 9.4734, 6.9574},
    {"gemm_ar", 4, 16384, 8192, 8192, 10.9049, 9.5805},
    {"gemm_ar", 4, 16384, 16384, 4096, 13.1867, 10.1564},
    {"gemm_ar", 4, 16384, 16384, 8192, 22.1003, 18.7587},
    {"gemm_ar", 8, 8192, 8192, 2048, 2.7326, 2.3808},
    {"gemm_ar", 8, 8192, 8192, 4096, 3.6519, 3.2395},
    {"gemm_ar", 8, 16384, 8192, 2048, 5.2084, 4.1536},
    {"gemm_ar", 8, 8192, 8192, 8192, 5.6077, 5.0545},
    {"gemm_ar", 8, 16384, 8192, 4096, 7.0419, 5.8014},
    {"gemm_ar", 8, 16384, 16384, 2048, 10.1949, 7.7377},
    {"gemm_ar", 8, 16384, 8192, 8192, 11.2957, 9.9323},
    {"gemm_ar", 8, 16384, 16384, 4096, 13.8909, 10.5819},
    {"gemm_ar", 8, 16384, 16384, 8192, 22.9982, 19.1768},
    {"gemm_rs", 2, 8192, 8192, 2048, 1.7508, 1.6131},
    {"gemm_rs", 2, 4096, 8192, 8192, 2.5195, 2.5095},
    {"gemm_rs", 2, 8192, 8192, 4096, 2.7635, 2.5922},
    {"gemm_rs", 2, 16384, 8192, 2048, 3.3541, 2.8602},
    {"gemm_rs", 2, 8192, 8192, 8192, 4.7175, 4.6559},
    {"gemm_rs", 2, 16384, 8192, 4096, 5.2831, 4.9486},
    {"gemm_rs", 2, 16384, 16384, 2048, 6.3373, 5.3213},
    {"gemm_rs", 2, 16384, 8192, 8192, 9.5882, 9.0787},
    {"gemm_rs", 2, 16384, 16384, 4096, 10.3930, 9.5420},
    {"gemm_rs", 2, 16384, 16384, 8192, 19.8293, 17.9347},
    {"gemm_rs", 4, 8192, 8192, 2048, 1.9429, 1.8234},
    {"gemm_rs", 4, 8192, 8192, 4096, 2.9017, 2.6634},
    {"gemm_rs", 4, 16384, 8192, 2048, 3.6529, 3.0248},
    {"gemm_rs", 4, 8192, 8192, 8192, 4.8860, 4.7579},
    {"gemm_rs", 4, 16384, 8192, 4096, 5.5968, 5.0454},
    {"gemm_rs", 4, 16384, 16384, 2048, 6.9848, 5.5938},
    {"gemm_rs", 4, 16384, 8192, 8192, 9.8939, 9.2712},
    {"gemm_rs", 4, 16384, 16384, 4096, 10.9266, 9.7911},
    {"gemm_rs", 4, 16384, 16384, 8192, 20.2104, 18.3974},
    {"gemm_rs", 8, 8192, 8192, 2048, 2.0289, 1.8397},
    {"gemm_rs", 8, 8192, 8192, 4096, 2.9890, 2.7499},
    {"gemm_rs", 8, 16384, 8192, 2048, 3.7662, 3.2722},
    {"gemm_rs", 8, 8192, 8192, 8192, 4.9874, 4.8362},
    {"gemm_rs", 8, 16384, 8192, 4096, 5.7335, 5.1774},
    {"gemm_rs", 8, 16384, 16384, 2048, 7.2831, 5.9913},
    {"gemm_rs", 8, 16384, 8192, 8192, 10.1241, 9.4859},
    {"gemm_rs", 8, 16384, 16384, 4096, 11.1732, 9.8782},
    {"gemm_rs", 8, 16384, 16384, 8192, 20.5892, 18.6331},
};

/* Figure 10 of v1 (13 of v2): speed-ups by K (rows, in 1024) and by M * N
 * (columns, in 1024 * 1024). */
enum { GRID = 7 };
static const struct grid {
    const char *place, *machine, *op;
    int ranks, first_mn, step_mn;
    int k[GRID];
    double speedup[GRID][GRID];
} flash_grids[] = {
    {"figure 10, left",
     "rtx4090x4",
     "gemm_rs",
     2,
     16,
     8,
     {16, 14, 12, 10, 8, 6, 4},
     {{1.26, 1.38, 1.42, 1.45, 1.40, 1.41, 1.44},
      {1.29, 1.41, 1.42, 1.44, 1.44, 1.46, 1.46},
      {1.32, 1.40, 1.46, 1.48, 1.52, 1.52, 1.51},
      {1.30, 1.41, 1.45, 1.48, 1.50, 1.52, 1.54},
      {1.19, 1.30, 1.30, 1.36, 1.36, 1.41, 1.46},
      {1.20, 1.32, 1.37, 1.40, 1.41, 1.42, 1.46},
      {1.21, 1.26, 1.31, 1.34, 1.35, 1.34, 1.33}}},
    {"figure 10, right",
     "a800x8",
     "gemm_ar",
     4,
     64,
     32,
     {8, 7, 6, 5, 4, 3, 2},
     {{1.08, 1.11, 1.10, 1.10, 1.12, 1.19, 1.17},
      {1.12, 1.12, 1.17, 1.16, 1.18, 1.21, 1.19},
      {1.14, 1.17, 1.20, 1.21, 1.22, 1.22, 1.25},
      {1.15, 1.18, 1.20, 1.22, 1.22, 1.22, 1.22},
      {1.20, 1.24, 1.19, 1.20, 1.23, 1.27, 1.28},
      {1.14, 1.26, 1.29, 1.32, 1.33, 1.36, 1.35},
      {1.13, 1.23, 1.29, 1.33, 1.31, 1.34, 1.35}}},
};

/* Figure 9 of v1: mean speed-ups on RTX 4090, M * N of 16 to 64 and K of 8 to 16. */
static const struct {
    const char *op;
    int ranks;
    double speedup;
} flash_bars[] = {
    {"gemm_ar", 2, 1.31}, {"gemm_ar", 4, 1.22}, {"gemm_ar", 8, 1.20},
    {"gemm_rs", 2, 1.35}, {"gemm_rs", 4, 1.34}, {"gemm_rs", 8, 1.23},
};

/* The figures give M * N alone; n is taken to be 8192. */
enum { FLASH_N = 8192, FLASH_ROWS = 1024 * 1024 / FLASH_N };

static const char flash_strategy[] = "signal";

static void add_grid(paper_list *list, const struct grid *g)
{
    for (int i = 0; i < GRID * GRID; i++) {
        const double speedup = g->speedup[i / GRID][i % GRID];
        paper_row *const row =
            add_row(list, g->place, g->machine, flash_strategy, speedup, speedup);
        const int mn = g->first_mn + g->step_mn * (i % GRID);
        name_problem(row, 0, g->op, "f16", mn * FLASH_ROWS, FLASH_N, g->k[i / GRID] * 1024,
                     g->ranks);
    }
}

static void add_flash(paper_list *list)
{
    static const int bar_mn[] = {16, 32, 64};
    static const int bar_k[] = {8, 12, 16};
    list->source = "FlashOverlap, arXiv 2504.19519, and infinigence/FlashOverlap";
    list->note = "figures give M * N alone: n is taken to be 8192; f16 with f16 sums";
    for (size_t i = 0; i < sizeof flash_times / sizeof flash_times[0]; i++) {
        const double speedup = flash_times[i].serial_ms / flash_times[i].signal_ms;
        paper_row *const row =
            add_row(list, "results.csv", "a800x8", flash_strategy, speedup, speedup);
        name_problem(row, 0, flash_times[i].op, "f16", flash_times[i].m, flash_times[i].n,
                     flash_times[i].k, flash_times[i].ranks);
    }
    for (int i = 0; i < 2; i++) add_grid(list, &flash_grids[i]);
    for (size_t i = 0; i < sizeof flash_bars / sizeof flash_bars[0]; i++) {
        paper_row *const row =
            add_row(list, "figure 9", flash_bars[i].ranks > 4 ? "rtx4090x8" : "rtx4090x4",
                    flash_strategy, flash_bars[i].speedup, flash_bars[i].speedup);
        row->over = PAPER_MEAN;
        for (int p = 0; p < 9; p++)
            name_problem(row, p, flash_bars[i].op, "f16", bar_mn[p / 3] * FLASH_ROWS, FLASH_N,
                         bar_k[p % 3] * 1024, flash_bars[i].ranks);
    }
}

/* ---- CommFuse -------------------------------------------------------------------------------- */

static void add_commfuse(paper_list *list)
{
    /* An MLP of 131072 tokens, d 4096, four ranks; the reduce-scatter goes under both of its
     * products, which one product of twice the k stands for. */
    static const struct {
        const char *place, *strategy;
        double low, high;
        bool second_hand;
    } rows[] = {
        {"abstract", "ring", 0, 0, false},
        {"abstract", "direct", 0, 0, false},
        {"table 1, Flash-RS", "ring", 122.3 / 77.1, 122.3 / 77.1, true},
        {"table 1, Flash-RS", "direct", 122.3 / 77.1, 122.3 / 77.1, true},
        {"table 1, data slicing", "sliced", 122.3 / 83.9, 122.3 / 83.9, true},
        {"table 3, Flash-RS", "ring", 1 / (1 - 0.350), 1 / (1 - 0.402), true},
        {"table 3, data slicing", "sliced", 1 / (1 - 0.295), 1 / (1 - 0.350), true},
    };
    list->source = "CommFuse, arXiv 2604.24013";
    list->note = "tables were read in a digest by somebody else: shown, not judged; the machine is "
                 "not named in the paper";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        paper_row *const row =
            add_row(list, rows[i].place, "npux4", rows[i].strategy, rows[i].low, rows[i].high);
        name_problem(row, 0, "gemm_rs", "bf16", 131072, 4096, 8192, 4);
        row->second_hand = rows[i].second_hand;
    }
}

/* ---- FiCCO ----------------------------------------------------------------------------------- */

/* The scenarios as ROCm/iris' benchmark/ops/sweep_bench.py lists them for this paper, n shared by
 * the eight ranks; those that iris cannot run either are left out. */
static const int scenario[][3] = {
    {16384, 16384, 131072}, {131072, 16384, 16384}, {53248, 16384, 131072}, {16384, 53248, 16384},
    {8192, 8192, 262144},   {262144, 8192, 8192},   {28672, 8192, 262144},  {262144, 28672, 8192},
    {196608, 18432, 16384}, {1048576, 10240, 8192}, {147456, 28672, 4096},  {327680, 28672, 4096},
    {229376, 28672, 4096},
};

static void add_ficco(paper_list *list)
{
    static const struct {
        const char *place, *strategy;
        paper_what what;
        paper_over over;
        double value;
    } rows[] = {
        {"abstract, up to", "dma", PAPER_SPEEDUP, PAPER_MOST, 1.6},
        {"abstract, ideal up to", "dma", PAPER_IDEAL, PAPER_MOST, 1.7},
        {"shard P2P, down to", "direct", PAPER_SPEEDUP, PAPER_LEAST, 1 / 3.9},
    };
    list->source = "FiCCO, arXiv 2512.10236";
    list->note = "no figure of a single scenario could be read: extremes over 13 scenarios";
    for (int i = 0; i < 3; i++) {
        paper_row *const row =
            add_row(list, rows[i].place, "mi300x8", rows[i].strategy, rows[i].value, rows[i].value);
        row->what = rows[i].what;
        row->over = rows[i].over;
        for (int p = 0; p < (int)(sizeof scenario / sizeof scenario[0]); p++)
            name_problem(row, p, "ag_gemm", "bf16", scenario[p][0], scenario[p][1] / 8,
                         scenario[p][2], 8);
    }
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*add)(paper_list *list);
} papers[] = {
    {"flux", add_flux},
    {"flashoverlap", add_flash},
    {"commfuse", add_commfuse},
    {"ficco", add_ficco},
};

enum { PAPERS = sizeof papers / sizeof papers[0] };

const char *paper_name(int index)
{
    return index >= 0 && index < PAPERS ? papers[index].name : NULL;
}

bool paper_rows(const char *name, paper_list *list_out)
{
    for (int i = 0; i < PAPERS; i++) {
        if (strcmp(papers[i].name, name) != 0) continue;
        *list_out = (paper_list){.row = out_get(MOST_ROWS * sizeof *list_out->row)};
        papers[i].add(list_out);
        return true;
    }
    return false;
}
