/* links.h -- which links a transfer passes, by the machine's topology: for the simulator, and for
 * the CPU backend's scale models, which hold real bytes back at the very same links.
 *
 * Links are numbered: a way out and a way in for every rank, then what the topology adds.  RANKS
 * may be fewer than ALL: then rank r + i * RANKS is an image of rank r, and so are its links. */
#ifndef SG_LINKS_H
#define SG_LINKS_H

#include "core/machine.h"

enum { SG_LINK_USES = 4 + SG_RING_RANKS / 2 };

typedef struct sg_links {
    const sg_machine *machine;
    int ranks, all;
} sg_links;

typedef struct sg_link_use {
    int32_t link;
    double weight; /* how often the bytes pass it */
} sg_link_use;

int64_t sg_links_count(const sg_links *links);
double sg_links_gbps(const sg_links *links, int64_t link);

/* Links that bytes from rank FROM (less than RANKS) to rank TO (less than ALL, another one) pass;
 * how many.  USES has room for SG_LINK_USES. */
int sg_links_path(const sg_links *links, int from, int to, sg_link_use *uses);

/* A rank's ways out and in: what a collective passes, whose rate is the library's. */
int sg_links_ports(const sg_links *links, int rank, sg_link_use *uses);

/* Added to what goes to a peer on another node. */
double sg_links_far_us(const sg_links *links, int from, int to);

#endif
