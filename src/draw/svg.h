/* svg.h -- the picture inside: what svg.c (page, panels, legend) and svg_track.c (one track of one
 * rank) share.  Lengths are pixels. */
#ifndef SG_SVG_H
#define SG_SVG_H

#include "draw/draw.h"

/* Colours that are not an owner's. */
#define SG_SVG_INK "#1f2933"
#define SG_SVG_FAINT "#66727f"
#define SG_SVG_GRID "#e3e7ec"
#define SG_SVG_EXPOSED "#b3001b"
#define SG_SVG_MANY "#9fb0bf" /* rows of more owners than can be told apart */

enum { SG_SVG_SLOTS = SG_OWNER_SLOTS + 1 }; /* the last one: many owners */

/* Where time lies on the page, and memory for one track. */
typedef struct sg_svg {
    sg_text *out;
    double left, width; /* of the lanes */
    double us;          /* what WIDTH stands for */
    int colours;        /* owners that are told apart */

    double bin;      /* width of one bin */
    int32_t bins;    /* across WIDTH */
    float *share;    /* [slot][bin]: part of the track that the slot takes */
    float *active;   /* [bin]: part of the bin in which anything goes on */
    float *other;    /* [bin]: part of the track that does not multiply: sums, copies */
    uint8_t *middle; /* [bin]: holds the middle of a span */
    struct sg_svg_box *box;
    int32_t boxes, box_room;
} sg_svg;

typedef struct sg_svg_box {
    int32_t from, to;  /* bins */
    uint8_t low, high; /* levels from the bottom */
    uint8_t slot;
    bool other; /* mostly sums and copies */
} sg_svg_box;

double sg_svg_x(const sg_svg *v, double us);

/* "#rrggbb" of a slot. */
typedef struct sg_svg_colour {
    char text[8];
} sg_svg_colour;

sg_svg_colour sg_svg_owner(const sg_svg *v, int slot);

/* Prints what the rank of ROW does on TRACK into the rectangle from Y on, H high. */
shingle_status sg_svg_track(sg_svg *v, const shingle_timeline *t, int row, sg_track track, double y,
                            double h);

#endif
