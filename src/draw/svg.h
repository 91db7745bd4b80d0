/* svg.h -- the picture inside: what svg.c (page, title, legend), svg_panel.c (one timeline) and
 * svg_track.c (one track of one rank) share.  Lengths are pixels. */
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

/* ---- Texts ----------------------------------------------------------------------------------- */

/* Width of a character of 11 pixels, wide ones among them. */
#define SG_SVG_LETTER 6.3

void sg_svg_begin_text(const sg_svg *v, double x, double y, const char *class);
void sg_svg_end_text(const sg_svg *v);

/* ---- Panels ---------------------------------------------------------------------------------- */

enum {
    SG_SVG_LEFT = 112,
    SG_SVG_WIDTH = 960,
    SG_SVG_RIGHT = 124,
    SG_SVG_PAGE = SG_SVG_LEFT + SG_SVG_WIDTH + SG_SVG_RIGHT,
    SG_SVG_HEAD = 74, /* of a panel: its headline and labels of its lines */
    SG_SVG_AXIS = 34  /* below a panel: its axis, and space */
};

/* Heights of what a panel is made of. */
typedef struct sg_svg_sizes {
    double track[SG_TRACKS];
    double between; /* ranks */
} sg_svg_sizes;

/* A timeline on the page. */
typedef struct sg_svg_panel {
    const shingle_timeline *timeline;
    sg_svg_sizes size;
    bool used[SG_TRACKS];
    bool sums;
    double rank_h; /* of one rank */
    double y;      /* of its first rank */
    double h;      /* of all its ranks */
} sg_svg_panel;

/* Where T's panel stands if Y is free from there on. */
void sg_svg_lay_out(const shingle_timeline *t, double y, sg_svg_panel *p);

/* PROBLEM is named in the headline, if it is not NULL. */
shingle_status sg_svg_print_panel(sg_svg *v, const sg_svg_panel *p, const char *problem);

/* The longer of product and collective alone. */
double sg_svg_bound(const shingle_timeline *t);

/* Do the ranks share fewer processors than there are ranks?  Where a rank then neither computes nor
 * is exposed, they serve others. */
bool sg_svg_takes_turns(const shingle_timeline *t);

#endif
