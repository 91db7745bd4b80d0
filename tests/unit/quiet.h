/* quiet.h -- a machine on which nothing costs anything but products, for
 * times that are counted by hand. */
#ifndef TESTS_QUIET_H
#define TESTS_QUIET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "core/machine.h"

/* SMS tiles of SIDE x SIDE at once, in f32, each of which takes TILE_US over DEPTH columns of k. */
static inline sg_machine quiet_machine(int sms, int side, int depth, double tile_us)
{
    sg_machine m;
    sg_machine_plain(&m);
    m.sms = sms;
    m.coll_sms = 0;
    m.gemm_tflops[SG_F32] = 2.0 * side * side * depth * sms / (tile_us * 1e6);
    m.mem_gbps = m.copy_gbps = m.store_gbps = m.coll_gbps = 1e6;
    m.copy_us = m.store_us = m.coll_us = m.flag_us = 0;
    m.launch_us = m.join_us = m.epilogue_us = 0;
    m.tile[0] = (sg_tile){side, side, 1, 1};
    m.tiles = 1;
    return m;
}

/* Off by PART of it at most. */
static inline void expect_about_us(double seen, double expected, double part)
{
    if (fabs(seen - expected) > part * (1 + expected))
        fail_msg("%g us, expected %g", seen, expected);
}

static inline void expect_us(double seen, double expected)
{
    expect_about_us(seen, expected, 1e-6);
}

#endif
