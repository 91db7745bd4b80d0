/* moves_link.h -- sums of a gather along k, which patches hand on: for moves.c alone. */
#ifndef SG_MOVES_LINK_H
#define SG_MOVES_LINK_H

#include "core/moves.h"

/* Do the sums of its patches stay apart? */
bool sg_moves_apart(const sg_sched *s, const sg_gathering *gathering);

/* Appends what PATCH, the latest, adds and stores. */
void sg_moves_link(sg_sched *s, const sg_patch *patch, sg_gathering *gathering, bool apart);

#endif
