/* record.c -- see record.h. */
#include "core/record.h"

#include <stdlib.h>
#include <string.h>

shingle_status sg_record_make(uint64_t hash, int ranks, int64_t room, sg_record **record_out)
{
    if (ranks < 1 || ranks > SG_LOCAL_RANKS)
        return sg_fail(SHINGLE_EUNSUPPORTED, "%d ranks; 1 to %d can be recorded", ranks,
                       (int)SG_LOCAL_RANKS);
    int64_t bytes = 0;
    sg_record *record = NULL;
    if (room >= 0 && sg_mul(room, sizeof(sg_mark), &bytes) && bytes < INT64_MAX / 2)
        record = malloc(sizeof *record + (size_t)bytes);
    if (record == NULL)
        return sg_fail(SHINGLE_ENOMEM, "no memory to record %lld spans", (long long)room);
    *record = (sg_record){.hash = hash, .ranks = ranks, .room = room};
    *record_out = record;
    return SHINGLE_OK;
}

void sg_record_begin(sg_record *record, int rank, uint64_t hash, uint64_t epoch, double now_us)
{
    if (record == NULL || record->hash != hash || record->epoch[rank] != 0) return;
    record->epoch[rank] = epoch;
    record->begin_us[rank] = now_us;
}

void sg_record_end(sg_record *record, int rank, uint64_t epoch, double now_us)
{
    if (sg_record_is_on(record, rank, epoch)) record->end_us[rank] = now_us;
}

void sg_record_recover(sg_record *record)
{
    bool whole = true;
    if (record == NULL) return;
    for (int r = 0; r < record->ranks; r++) whole &= record->end_us[r] > 0;
    if (whole) return;
    memset(record->epoch, 0, sizeof record->epoch);
    memset(record->begin_us, 0, sizeof record->begin_us);
    memset(record->end_us, 0, sizeof record->end_us);
    record->marks = record->lost = 0;
}

void sg_record_add(sg_record *record, const sg_mark *mark)
{
    if (record->marks < record->room)
        record->mark[record->marks++] = *mark;
    else
        record->lost++;
}
