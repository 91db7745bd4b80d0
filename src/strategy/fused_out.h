/* fused_out.h -- what both files of this strategy know: its knobs, and which go together. */
#ifndef SG_FUSED_OUT_H
#define SG_FUSED_OUT_H

#include "core/strategy.h"

enum { SUBS, LAG, TILE_M, TILE_N, ONCE, SPLITS, STRIPS, TAGGED };
enum { MOST_STRIPS = 64 };

/* Has TAGGED a meaning with the other KNOBS? */
bool sg_fused_out_may_be_tagged(const sg_problem *problem, const sg_knobs *knobs);

bool sg_fused_out_accepts(const sg_problem *problem, sg_text *why);
int sg_fused_out_propose(const sg_problem *problem, const sg_machine *machine, sg_knobs *sets,
                         sg_text *why);

#endif
