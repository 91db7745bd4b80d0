/* tiles.c -- what strategies ask of a machine before they propose: see tiles.h. */
#include "core/tiles.h"

#include "core/split.h"
#include "core/strategy.h"

int sg_blocks_beside(const sg_machine *machine, int wait, sg_text *why)
{
    const int sms = sg_machine_held_sms(machine);
    if (sms == 0) return 0;
    if (sms > wait) return sms - wait;
    sg_decline(why, "a product and %d lanes that wait need more than %d SMs", wait, sms);
    return -1;
}

int64_t sg_tile_waves(const sg_problem *p, const sg_machine *machine, const sg_tile *tile)
{
    const int64_t tiles = sg_ceil_div(p->m, tile->m) * sg_problem_col_tiles(p, tile->n);
    return sg_ceil_div(tiles, machine->sms);
}

double sg_tile_us(const sg_problem *p, const sg_machine *machine, const sg_tile *tile)
{
    const double rate = machine->gemm_tflops[p->type] * (tile->rate > 0 ? tile->rate : 1);
    const double part = p->call ? 1 : sg_machine_tile_part(machine, tile->m, tile->n);
    const double flops = part * sg_problem_flops(p, tile->m, tile->n, (double)p->k);
    return flops * machine->sms / (rate * 1e6) + machine->visit_us;
}

int sg_tile_heights(const sg_machine *machine, int most, int32_t *height)
{
    int count = 0;
    for (int32_t above = 0; count < most; above = height[count++]) {
        int32_t least = 0;
        for (int t = 0; t < machine->tiles; t++) {
            const int32_t m = machine->tile[t].m;
            if (m > above && (least == 0 || m < least)) least = m;
        }
        if (least == 0) break;
        height[count] = least;
    }
    return count;
}

int32_t sg_narrow_tile(const sg_machine *machine, int32_t height, int64_t cols)
{
    enum { STEP = 32, TRIED = 2 }; /* the first tiles are tried anyway */
    const int64_t width = sg_round_up(sg_ceil_div(cols, sg_max(1, machine->sms)), STEP);
    for (int t = 0; t < machine->tiles; t++)
        if (machine->tile[t].m == height && machine->tile[t].n < width + (t < TRIED)) return 0;
    return (int32_t)width;
}

int sg_column_parts(const sg_problem *p, const sg_machine *machine, const sg_tile *tile, bool held,
                    bool cut)
{
    enum { MOST_BANDS = 8 }; /* of more, A is read as often as B was */
    const int64_t bands = sg_ceil_div(p->m, tile->m);
    const int64_t of_rows = sg_min(p->m, p->ranks) * sg_ceil_div(p->most_rows, tile->m);
    const bool moves = sg_problem_out(p) == SG_OUT_ALL && p->ranks > 1 && !p->call;
    if (!moves || machine->pool > 0 || bands > MOST_BANDS || (held && of_rows <= bands)) return 0;
    if (!cut) return 1;
    const int parts = sg_split_parts(bands * sg_ceil_div(p->n, tile->n), p->k, machine->sms);
    return parts > 1 ? parts : 0;
}
