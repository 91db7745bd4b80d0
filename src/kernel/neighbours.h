/* neighbours.h -- which SMs of a GPU share their way to the L2. */
#ifndef SG_NEIGHBOURS_H
#define SG_NEIGHBOURS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

enum { SG_NEIGHBOURS = 16 }; /* SMs that stand side by side in the list, if a GPC has as many */

/* Finds out about the current device's SMs, once, by launches of some microseconds on a stream of
 * its own.  Where other work is in the way for a second, or has some SMs, nothing is known. */
void sg_neighbours_look(void);

/* All SMs of the current device, so many of each GPC side by side, then the rest.  Returns how
 * many; 0: nothing is known, or ROOM is too small. */
int sg_neighbours(uint8_t *sm_out, int room);

#endif
