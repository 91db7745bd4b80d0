/* machine_rates.c -- what the numbers of a machine stand for: those that a file leaves out, curves
 * between their points, and a machine that needs no file. */
#include <math.h>

#include "core/machine.h"

double sg_machine_cached_bytes(const sg_machine *machine)
{
    return 1e6 * (machine->cache_mb > 0 ? machine->cache_mb : 48);
}

double sg_machine_link_gbps(const sg_machine *m)
{
    if (m->link_gbps > 0) return m->link_gbps;
    double gbps = m->copy_gbps > m->store_gbps ? m->copy_gbps : m->store_gbps;
    if (gbps < m->coll_gbps) gbps = m->coll_gbps;
    for (int kind = 0; kind < SG_MACHINE_CURVES; kind++)
        for (int i = 0; i < m->coll_curve[kind].points; i++)
            if (gbps < m->coll_curve[kind].point[i].value)
                gbps = m->coll_curve[kind].point[i].value;
    return gbps;
}

double sg_curve_at(const sg_curve *curve, double at, double none)
{
    if (curve->points == 0) return none;
    const sg_point *const point = curve->point;
    if (at <= point[0].at) return point[0].value;
    for (int i = 1; i < curve->points; i++) {
        if (at > point[i].at) continue;
        const double part = (at - point[i - 1].at) / (point[i].at - point[i - 1].at);
        return point[i - 1].value + part * (point[i].value - point[i - 1].value);
    }
    return point[curve->points - 1].value;
}

bool sg_machine_in_windows(const sg_machine *m, int kind)
{
    const int curve = SG_MACHINE_COLLS + kind;
    return curve < SG_MACHINE_CURVES && m->coll_curve[curve].points > 0;
}

int sg_machine_curve(const sg_machine *m, int kind, bool windows)
{
    return windows && sg_machine_in_windows(m, kind) ? SG_MACHINE_COLLS + kind : kind;
}

double sg_machine_coll_us(const sg_machine *m, int kind, double message, double bus_bytes)
{
    const sg_curve *const curve = &m->coll_curve[kind];
    const sg_point *point = curve->point;
    if (curve->points == 0 || message <= 0) return m->coll_us + bus_bytes / (m->coll_gbps * 1e3);
    const double unit = bus_bytes / message / 1e3; /* microseconds a byte of message, at 1 GB/s */
    const double first = point->at * unit / point->value;
    /* Below the first point the start-up alone is known, and above the last its rate. */
    if (message <= point->at) {
        const double start = m->coll_us < first ? m->coll_us : first;
        return start + (first - start) * message / point->at;
    }
    for (int i = 1; i < curve->points; i++, point++) {
        if (message > point[1].at) continue;
        const double low = point[0].at * unit / point[0].value;
        const double high = point[1].at * unit / point[1].value;
        return low + (high - low) * (message - point[0].at) / (point[1].at - point[0].at);
    }
    return message * unit / point->value;
}

int sg_machine_few_coll_sms(const sg_machine *m)
{
    static const double enough = 0.75;
    for (int i = 0; i < m->coll_part.points; i++) {
        const sg_point *const point = &m->coll_part.point[i];
        if (point->at >= 1 && point->at < m->coll_sms && point->value >= enough)
            return (int)point->at;
    }
    return m->coll_sms;
}

int sg_machine_held_sms(const sg_machine *m)
{
    return m->pool > 0 ? 0 : m->sms;
}

double sg_machine_tile_part(const sg_machine *m, double rows, double cols)
{
    static const double least_cols = 32;
    double least_rows = 0;
    if (m->pool > 0) return 1;
    for (int i = 0; i < m->tiles; i++)
        if (i == 0 || m->tile[i].m < least_rows) least_rows = m->tile[i].m;
    return (rows < least_rows ? least_rows / rows : 1) *
           (cols < least_cols ? least_cols / cols : 1);
}

void sg_machine_plain(sg_machine *machine_out)
{
    *machine_out = (sg_machine){
        .name = "plain",
        .ranks = SG_MAX_RANKS,
        .sms = 100,
        .gemm_tflops = {100, 500, 500},
        .mem_gbps = 2000,
        .copy_gbps = 200,
        .copy_us = 4,
        .store_gbps = 200,
        .store_us = 2,
        .coll_gbps = 150,
        .coll_us = 20,
        .coll_sms = 10,
        .flag_us = 1,
        .launch_us = 2,
        .join_us = 4,
        .epilogue_us = 2,
        .tile = {{128, 256, 1, 1}, {128, 128, 0.9, 1}, {64, 128, 0.8, 1}},
        .tiles = 3,
    };
}

double sg_machine_asked_part(const sg_machine *m, double rows, double cols, double depth)
{
    static const double few_rows = 256, least_cols = 64; /* of fewer, libraries split k */
    static const double few_cols = 2560, much_k = 4096;  /* and of much k, of so few */
    const double split = fmax(cols, fmin(few_cols, cols * depth / much_k));
    const double all = fmax(split, least_cols) * fmax(1, rows / few_rows);
    return m->asked_cols > 0 ? -expm1(-all / (m->asked_cols * fmax(m->sms, 1))) : 1;
}
