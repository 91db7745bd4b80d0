/* machine.h -- what we run on, as numbers with units; read from and printed as a text file of
 * "name value" lines with # comments.  Every number in a shipped file has its source beside it.
 *
 * The model behind the numbers (used by sim, and by strategies when they propose knobs):
 *
 *     product   a tile of tile_m x tile_n over k takes its flops at gemm_tflops / sms per block;
 *               a launch of fewer tiles than blocks leaves blocks idle (waves); the vendor's
 *               product has no waves
 *     copy      copy_us + bytes / copy_gbps on the rank's engine, one after the other
 *     store     tiles stored to a peer by the product itself: store_us + bytes / store_gbps
 *     coll      coll_us + bus bytes / coll_gbps of the library's collective, coll_sms SMs taken
 *     flag      flag_us from raising to seeing; launch_us for a kernel; join_us for joining lanes
 */
#ifndef SG_MACHINE_H
#define SG_MACHINE_H

#include "core/problem.h"

enum { SG_MACHINE_NAME = 48, SG_TILES = 4 };

typedef struct sg_tile {
    int32_t m, n;
    double rate; /* of gemm_tflops that tiles of this shape reach; 0 is taken as 1 */
} sg_tile;

typedef struct sg_machine {
    char name[SG_MACHINE_NAME];
    int ranks;                    /* ranks that the links reach; problems may have fewer */
    int sms;                      /* blocks of a product that run at once on a rank */
    double gemm_tflops[SG_TYPES]; /* a rank's sustained rate, per type */
    double mem_gbps;              /* a rank's memory, bytes read and written */
    double copy_gbps;             /* copy engine to a peer, egress of a rank */
    double copy_us;               /* its cost per copy */
    double store_gbps;            /* stores of tiles to peers by a product */
    double store_us;              /* from the last store to the flag seen at the peer */
    double coll_gbps;             /* bus bandwidth of library collectives, large messages */
    double coll_us;               /* their cost at size zero */
    int coll_sms;                 /* SMs they hold; 0 if none */
    double flag_us;               /* a flag from rank to rank, or lane to lane */
    double launch_us;             /* one more launch on a lane */
    double join_us;               /* fork and join of lanes around a run */
    double epilogue_us;           /* of one tile, when nothing hides it */
    sg_tile tile[SG_TILES]; /* tile shapes of the tile program, best for large products first */
    int tiles;
} sg_machine;

/* Parses the text of a machine file; NAME stands for it in errors, which give line and column. */
shingle_status sg_machine_parse(const char *text, const char *name, sg_machine *machine_out);
shingle_status sg_machine_read(const char *path, sg_machine *machine_out);
size_t sg_machine_print(const sg_machine *machine, char *text, size_t room);

/* A machine of round numbers, for checks and tests that need some machine but no particular one. */
void sg_machine_plain(sg_machine *machine_out);

/* What the public handle is: the numbers and their text. */
enum { SG_MACHINE_TEXT = 1024 };

struct shingle_machine {
    sg_machine numbers;
    char text[SG_MACHINE_TEXT];
};

void sg_machine_handle(const sg_machine *numbers, struct shingle_machine *handle_out);

#endif
