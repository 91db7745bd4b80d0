/* recording.h -- a group's record of one run, from shingle_timeline_start to stop. */
#ifndef SG_RECORDING_H
#define SG_RECORDING_H

#include "core/comm.h"
#include "core/timeline.h"

/* Forgets what is being recorded; takes a group that records nothing. */
void sg_recording_drop(sg_group *group);

#endif
