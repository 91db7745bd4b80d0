/* calibrate_list.h -- what is measured (calibrate.c), and what each number is fitted to.  The list
 * names strategies, so it lies beside them (src/strategy/calibrate_list.c). */
#ifndef SG_CALIBRATE_LIST_H
#define SG_CALIBRATE_LIST_H

#include "core/machine.h"

/* A problem without its ranks, and a strategy whose knobs, where they are not named, are those that
 * it proposes.  EACH: in every tile shape of the machine. */
typedef struct sg_calibrate_item {
    const char *problem, *strategy;
    bool each;
} sg_calibrate_item;

/* What is timed on machines with workers of their own for each rank, and on pools. */
const sg_calibrate_item *sg_calibrate_items(bool pool, int *count_out);

/* Megabytes (2^20 bytes) of whole messages whose collectives are timed. */
const double *sg_calibrate_messages(bool pool, int *count_out);

/* A line of the file and how its number is found; FITTED: by least squares. */
typedef struct sg_calibrate_number {
    const char *name, *how;
    bool fitted;
    bool pool, own; /* on pools; on machines with workers of their own */
    int ranks;      /* for so many ranks or more */
} sg_calibrate_number;

const sg_calibrate_number *sg_calibrate_numbers(int *count_out);

#endif
