/* machine.h -- what we run on, as numbers with units; read from and printed as a text file of
 * "name value" lines with # comments.  Every number in a shipped file has its source beside it.
 *
 * The model behind the numbers is in docs/machine.md; sim prices with it, strategies look at it
 * when they propose knobs.  Numbers that a file may leave out are 0 there, which stands for what
 * the comment says; curves have no points.
 */
#ifndef SG_MACHINE_H
#define SG_MACHINE_H

#include "core/problem.h"

enum {
    SG_MACHINE_NAME = 48,
    SG_MOST_SMS = 4096,
    SG_TILES = 8,
    SG_POINTS = 10,
    SG_MACHINE_COLLS = 4,                     /* kinds of collectives, indexed by sg_coll_kind */
    SG_MACHINE_CURVES = SG_MACHINE_COLLS + 2, /* behind them gathers and scatters in windows */
    SG_RING_RANKS = 64                        /* most ranks of a ring */
};

typedef struct sg_tile {
    int32_t m, n;
    double rate; /* of gemm_tflops that tiles of this shape reach; 0 is taken as 1 */
    double late; /* part of what addends take that no other tile hides; 0 is taken as 1 */
} sg_tile;

/* Has an SM two such tiles under way, of which one gets its addends while the other is
 * multiplied? */
static inline bool sg_tile_pingpong(const sg_tile *tile)
{
    return tile->late > 0 && tile->late < 1;
}

/* A measured curve, points in ascending order. */
typedef struct sg_point {
    double at, value;
} sg_point;

typedef struct sg_curve {
    int points;
    sg_point point[SG_POINTS];
} sg_curve;

/* How ranks are connected. */
typedef enum sg_topology {
    SG_SWITCH, /* a port per rank, nothing shared behind it */
    SG_MESH,   /* a link for every pair */
    SG_RING,   /* a link to each neighbour; others are reached through the ranks between, the short
              * way */
    SG_PCIE,   /* a link per rank to the bridge of its half, halves are connected */
    SG_NODES,  /* switches of node_ranks, a NIC per rank between nodes */
    SG_TOPOLOGIES
} sg_topology;

typedef struct sg_machine {
    char name[SG_MACHINE_NAME];
    int ranks;                    /* ranks that the links reach; problems may have fewer */
    int sms;                      /* blocks of a product that run at once on a rank */
    double gemm_tflops[SG_TYPES]; /* a rank's sustained rate, per type */
    double mem_gbps;              /* a rank's memory, bytes read and written */
    double copy_gbps;             /* one copy engine to a peer */
    double copy_us;               /* its cost per copy */
    double store_gbps;            /* stores of tiles to peers by a product, all SMs of a rank */
    double store_us;              /* from the last store to the flag seen at the peer */
    double coll_gbps;             /* bus bandwidth of library collectives, large messages */
    double coll_us;               /* their cost at size zero */
    int coll_sms;                 /* SMs they hold; 0 if none */
    double flag_us;               /* a flag from rank to rank, or lane to lane */
    double launch_us;             /* one more launch on a lane */
    double join_us;               /* fork and join of lanes around a run */
    double epilogue_us;           /* of a launch's last tiles, when nothing hides it */
    double run_us;                /* begin and end of a run that peers take part in; 0: flag_us */
    double tagged_us;             /* from the last tagged word's arrival to the end of its run; 0:
                                     what flags would take, and nobody proposes it */
    double tagged_gbps;           /* tagged data stored to peers; 0: store_gbps */
    double hop_us;    /* from the last tagged product's arrival at the owner to its sum's
                                     leaving; 0: as tagged_us, and nobody proposes two hops */
    double lane_us;   /* a step behind one of another lane; 0: flag_us */
    double land_gbps; /* rows of C that peers stored go there at the end of a run, at this rate of
                         the rows; 0: they are stored where they belong */
    sg_tile tile[SG_TILES]; /* tile shapes of the tile program, best for large products first */
    int tiles;

    /* Links.  Each way, unless it says otherwise. */
    sg_topology topology;
    double link_gbps; /* a rank's port (switch, pcie, nodes), one link (mesh, ring); 0: whatever the
                         fastest of copies, stores and collectives needs */
    double host_gbps; /* pcie: all that passes the bridge of one half, both ways; 0: not limited */
    int numa_ranks;   /* pcie: ranks of one half; 0: all */
    double numa_gbps; /* pcie: from one half to the others; 0: not limited */
    int host_staged; /* pcie: 1: no peer access, bytes pass through host memory, the bridge twice */
    int node_ranks;  /* nodes: ranks of one node */
    double nic_gbps; /* nodes: a rank's NIC */
    double node_us;  /* nodes: added to whatever goes from node to node */

    /* Copies and products. */
    int copy_engines;   /* copies of a rank that run at once; 0: 1 */
    double peer_us;     /* a copy to another peer than its engine's last one: added to copy_us */
    double local_gbps;  /* a copy engine within a rank's memory; 0: half of mem_gbps */
    double sum_gbps;    /* sums and copies by SMs, bytes read and written there; 0: mem_gbps */
    double visit_us;    /* a tile's cost that does not depend on k */
    double add_us;      /* the same of a tile's first addend, beside that ... */
    double more_add_us; /* ... and of each further one; 0: add_us */
    double amid_part;   /* a tile with addends that tiles without them follow counts so many times
                           its bytes on the link; 0: 1 */
    double here_us;     /* the same of what C held before the launch; 0: add_us */
    double onto_us;     /* the same of an addend that who stores the tile adds; 0: add_us */
    double onto_part;   /* such a tile counts so many times its bytes on the link; 0: 1 */
    double landed_us;   /* until it has come, in a scatter of one wave; 0: store_us */
    double idle_part;  /* part of its time that a tile takes less where all other SMs stand still */
    double mem_part;   /* part of what its operands and result take at mem_gbps that a product does
                          not hide */
    double asked_cols; /* columns per SM with which the vendor's product reaches 0.63 (1 - 1/e) of
                          mem_gbps; 0: all of it with any */
    double fed_part;   /* part of its rate that a tile smaller than 128 x 160 keeps at least while
                          its rows of A still arrive; 0: 1 */
    double odd_gbps;   /* of A and B that one SM loads where rows begin at odd 16 bytes; 0: any */
    double piece_us;   /* of 32 columns in which a tile leaves that is no multiple of 64 wide */
    double bias_us, relu_us, gate_us; /* of bias, relu, gelu or silu of a tile of 32768 numbers */
    double sm_gbps;        /* memory that one SM reads and writes for its tile; 0: all of it */
    double take_gbps;      /* of tagged rows, to where tiles load them; 0: mem_gbps */
    double take_us;        /* from then on until tiles see them; 0: flag_us */
    double stage_us;       /* of a tile that waits for such rows, for 64 of k at least */
    double stage_least_us; /* of any tile */
    double patch_us;       /* of a launch, for each patch that it has more than a few */
    double cache_mb;       /* 1e6 bytes of B that stay at hand until they are read again; 0: 48 */
    double vendor;         /* rate of the vendor's product, of gemm_tflops; 0: 1 */
    double burst;          /* a run's products go this much faster ... */
    double vendor_burst;   /* the same of the vendor's, which takes other power; 0: burst */
    double burst_us;       /* ... for this long, before power or heat slow them; 0: never */

    /* Contention: factors of at least 1; 0: 1. */
    double gemm_by_copy;   /* products are slower while the rank's engine or stores move bytes */
    double vendor_by_copy; /* the same of the vendor's; 0: gemm_by_copy */
    double push_kb;        /* of what a launch pushes, so much is under way in each block */
    double push_us;        /* least time of each but the first of what a launch pushes */
    double push_part;      /* of its speed that a product loses while its launch carries pushes */
    double courier_gbps;   /* a block without tiles carries pushes at this rate; 0: storers do */
    double gemm_by_coll;   /* while a collective runs, beside the SMs it takes */
    double copy_by_gemm;   /* copies are slower by this while a product runs */
    double coll_by_gemm;   /* collectives are */

    double turn_us;     /* added to a collective on a lane that has products, too */
    double ragged_us;   /* a gather or scatter whose shares differ: for each of them ... */
    double ragged_gbps; /* ... and for what the busiest rank moves; 0: as if they were even */

    sg_curve coll_curve[SG_MACHINE_CURVES]; /* bytes of the whole message: bus bandwidth in gbps */
    sg_curve coll_part;                     /* SMs that a collective is given: part of that */

    /* Machines whose ranks share one set of workers (the CPU backend). */
    int pool;            /* workers; 0: ranks share nothing, and what follows is not used */
    double pack_gbps;    /* one worker brings B into order, once a run; 0: no cost */
    double unit_us;      /* handing out one unit of work and ending it */
    double work_row;     /* what a tile costs beside its multiply-adds, in multiply-adds: for every
                            row and k, */
    double work_col;     /* for every column and k, */
    double work_element; /* and for every element */
} sg_machine;

/* Parses the text of a machine file; NAME stands for it in errors, which give line and column. */
shingle_status sg_machine_parse(const char *text, const char *name, sg_machine *machine_out);

/* Reads the file that NAME stands for, see shingle_file_find. */
shingle_status sg_machine_read(const char *name, sg_machine *machine_out);
size_t sg_machine_print(const sg_machine *machine, char *text, size_t room);

/* The number that line NAME gives ("copy_us", "tile 128x128": its rate, "coll_part 8": with 8 SMs)
 * and what it may be; NULL: there is no such line, or it holds no single number that need not be
 * whole.  LEAST_OUT and MOST_OUT may be NULL. */
double *sg_machine_number(sg_machine *machine, const char *name, double *least_out,
                          double *most_out);

/* What a number that was left out stands for. */
double sg_machine_cached_bytes(const sg_machine *machine);
double sg_machine_link_gbps(const sg_machine *machine);

/* Value of CURVE at AT: between points on a straight line, outside the first or last point's; NONE
 * if it has no points. */
double sg_curve_at(const sg_curve *curve, double at, double none);

/* The curve of collectives of KIND (sg_coll_kind) in windows, or if the machine has none, as
 * others.  Has it? */
int sg_machine_curve(const sg_machine *machine, int kind, bool windows);
bool sg_machine_in_windows(const sg_machine *machine, int kind);

/* How long a collective with curve KIND takes for a message of so many bytes in all, of which
 * BUS_BYTES pass each rank's port; start-up included. */
double sg_machine_coll_us(const sg_machine *machine, int kind, double message, double bus_bytes);

/* The fewest SMs of which is known that a collective that is given them keeps most of its rate;
 * coll_sms if nothing is. */
int sg_machine_few_coll_sms(const sg_machine *machine);

/* SMs that whatever runs on a rank holds, steps that wait among it; 0 where what waits holds no
 * worker, as on a CPU. */
int sg_machine_held_sms(const sg_machine *machine);

/* What a tile of ROWS x COLS takes, in units of its own products: no kernel multiplies fewer rows
 * than the lowest tile of the file has, or fewer than 32 columns; at least 1, and 1 where workers
 * take any. */
double sg_machine_tile_part(const sg_machine *machine, double rows, double cols);

/* The part of the memory's rate that a vendor's product of ROWS x COLS reaches: few columns of few
 * rows have so few tiles that not all SMs ask for B at all times (H200s: of 64 to 256 rows with
 * 1536, 3072, 4096, 5120 and 8192 columns about 0.45, 0.6, 0.75, 0.8 and 0.95, launches left out;
 * results/gpu/unseen_2xh200_v3.json, unseen_4xh200_v2.json, decode_4xh200_v9.json).  With more rows
 * as many columns have more tiles. */
double sg_machine_asked_part(const sg_machine *m, double rows, double cols, double depth);

/* The word of the file. */
const char *sg_topology_name(sg_topology topology);

/* A machine of round numbers, for checks and tests that need some machine but no particular one. */
void sg_machine_plain(sg_machine *machine_out);

/* What the public handle is: the numbers and their text. */
enum { SG_MACHINE_TEXT = 8192 };

struct shingle_machine {
    sg_machine numbers;
    char text[SG_MACHINE_TEXT];
};

void sg_machine_handle(const sg_machine *numbers, struct shingle_machine *handle_out);

#endif
