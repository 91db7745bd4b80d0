/* record.h -- what a backend tells of one run while it is recorded: who did what from when to when.
 *
 * A record is made before the run and read after it; in between the backend only fills it, up to
 * its room, and counts what did not fit.  Whoever fills it orders its own calls: sg_record_add is
 * called by one thread at a time.  timeline.h makes spans of it. */
#ifndef SG_RECORD_H
#define SG_RECORD_H

#include "core/backend.h"

typedef enum sg_deed {
    SG_DEED_WORK,  /* units of a step, carried out by the rank's processors */
    SG_DEED_STORE, /* a launch's tiles on their way to a peer */
    SG_DEED_MOVE   /* a copy, or a rank's part of a collective, on its way out */
} sg_deed;

typedef struct sg_mark {
    double begin_us, end_us; /* of sg_now_us */
    int64_t bytes;           /* that left the rank */
    sg_visit visit;          /* of a launch: what was computed or stored; else its patch is -1 */
    int32_t step;            /* of the rank's schedule */
    int16_t rank, peer;      /* peer: where the bytes went, -1: nowhere or to all */
    uint8_t deed;            /* sg_deed */
} sg_mark;

typedef struct sg_record {
    uint64_t hash; /* of the plan that is recorded; other plans' runs are not */
    int ranks;
    int workers; /* set by the backend: processors that all ranks share; 0: each has its own */
    uint64_t epoch[SG_LOCAL_RANKS]; /* of each rank's recorded run; 0: it has not begun */
    double begin_us[SG_LOCAL_RANKS];
    double end_us[SG_LOCAL_RANKS]; /* 0: it has not ended */
    int64_t marks, room;
    int64_t lost; /* marks that found no room */
    sg_mark mark[];
} sg_record;

/* A record of the next run of the plan with HASH, with room for ROOM marks.  Release with free. */
shingle_status sg_record_make(uint64_t hash, int ranks, int64_t room, sg_record **record_out);

/* The backend's side.  begin: RANK begins run EPOCH of plan HASH; the first after make is the one
 * that is recorded.  is_on: does what RANK does in run EPOCH belong to it?  Takes NULL. */
void sg_record_begin(sg_record *record, int rank, uint64_t hash, uint64_t epoch, double now_us);
void sg_record_end(sg_record *record, int rank, uint64_t epoch, double now_us);
void sg_record_add(sg_record *record, const sg_mark *mark);

/* The group is recovered: a run that some rank has not ended never will be, and the next one is
 * recorded instead.  Takes NULL. */
void sg_record_recover(sg_record *record);

static inline bool sg_record_is_on(const sg_record *record, int rank, uint64_t epoch)
{
    return record != NULL && record->epoch[rank] == epoch;
}

#endif
