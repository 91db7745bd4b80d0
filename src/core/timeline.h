/* timeline.h -- what every rank of a plan does and when, in one form for what sim predicts and for
 * what a backend measured.  Plain data: whoever draws or prints it needs no schedule.
 *
 *     rank 0   compute      | product | product |  waits  | sum |
 *              link         | to 1    | to 2    | to 3 |
 *              collective
 *
 * Times count from the start of the run.  Spans are sorted by rank, track and begin; those of one
 * track may overlap: groups of blocks, or workers. */
#ifndef SG_TIMELINE_H
#define SG_TIMELINE_H

#include "core/owners.h"
#include "core/plan.h"
#include "core/record.h"

enum { SG_TIMELINE_RANKS = 64, SG_TIMELINE_SAMPLE = 16 };

typedef enum sg_track { SG_TRACK_COMPUTE, SG_TRACK_LINK, SG_TRACK_COLL, SG_TRACKS } sg_track;

typedef enum sg_does {
    SG_DOES_PRODUCT, /* visits that multiply */
    SG_DOES_SUM,     /* sums without a product */
    SG_DOES_COPY,    /* a copy within the rank */
    SG_DOES_SEND,    /* a copy to a peer */
    SG_DOES_STORE,   /* tiles of a product on their way to a peer */
    SG_DOES_COLL,
    SG_DOES_WAIT,
    SG_DOES
} sg_does;

typedef struct sg_timeline_span {
    double begin_us, end_us;
    double share;     /* of its track, 0 to 1: blocks of all SMs */
    int64_t bytes;    /* that left the rank */
    sg_owners owners; /* whose rows; empty for waits */
    int32_t step;     /* of the rank's schedule; -1: the run protocol */
    int32_t patch;    /* of a launch, otherwise -1 */
    int32_t tile0, tiles;
    int16_t rank, peer; /* peer: receiver, or who is waited for; -1: none */
    uint8_t track, does;
} sg_timeline_span;

/* A rank stands still: neither product nor sum nor copy of its own is under way, though a processor
 * would be free for it. */
typedef struct sg_timeline_gap {
    double begin_us, end_us;
    int32_t row; /* of the rank among those shown */
} sg_timeline_gap;

struct shingle_timeline {
    sg_problem problem; /* its own copy */
    char *plan;         /* text */
    char strategy[96];  /* with knobs */
    char machine[64];
    bool measured;
    int workers;                       /* processors that all ranks share; 0: each has its own */
    int shown;                         /* ranks that have spans: all, or a sample ... */
    int16_t rank[SG_TIMELINE_RANKS];   /* ... which ones ... */
    double rank_us[SG_TIMELINE_RANKS]; /* ... and when each of them was done */
    double us;                         /* the slowest rank's, of all */
    double gemm_us, coll_us;           /* each alone; 0: not known */
    double serial_us;                  /* one after the other; 0: not known */
    double exposed_us;                 /* time in which a rank stands still, mean of those shown */
    sg_timeline_span *span;
    int32_t spans, room;
    int64_t lost;         /* spans for which there was no room */
    sg_timeline_gap *gap; /* by row, then by time */
    int32_t gaps, gap_room;
};

/* A timeline without spans.  Release with shingle_timeline_free. */
shingle_status sg_timeline_make(const shingle_plan *plan, const char *machine,
                                shingle_timeline **timeline_out);

shingle_status sg_timeline_predict(const shingle_plan *plan, const sg_machine *machine,
                                   shingle_timeline **timeline_out);

/* Appends a span; one of a rank that is not shown is dropped.  False: no memory. */
bool sg_timeline_add(shingle_timeline *t, const sg_timeline_span *span);

/* Sorts the spans and fills in what follows from them. */
shingle_status sg_timeline_end(shingle_timeline *t);

/* The row of RANK among those shown, -1 if it is not. */
int sg_timeline_row(const shingle_timeline *t, int rank);

/* Spans of a row on a track: [*FIRST_OUT, result). */
int32_t sg_timeline_range(const shingle_timeline *t, int row, sg_track track, int32_t *first_out);

const char *sg_timeline_track_name(sg_track track);
const char *sg_timeline_does_name(sg_does does);

#endif
