/* draw.h -- timelines as text: what svg.c and perfetto.c share.  Both write through sg_text, first
 * without room to learn the length, and print numbers through this file, so that a program's locale
 * cannot put commas into them. */
#ifndef SG_DRAW_H
#define SG_DRAW_H

#include "core/timeline.h"

enum { SG_DRAW_MOST = 64 }; /* timelines in one picture */

typedef struct sg_draw_number {
    char text[32];
} sg_draw_number;

/* VALUE with DIGITS (0 to 3) digits behind the point; what is not finite or beyond 1e15 becomes
 * 0. */
sg_draw_number sg_draw_fixed(double value, int digits);

/* VALUE with DIGITS significant figures, zeros cut off. */
sg_draw_number sg_draw_figures(double value, int digits);

/* TEXT as it may stand in XML or in a JSON string, cut behind MOST bytes (at a whole character)
 * with three dots.  Bytes that are not UTF-8 become "?". */
void sg_draw_xml(sg_text *out, const char *text, size_t most);
void sg_draw_json(sg_text *out, const char *text, size_t most);

/* Svg.  A failure is memory. */
shingle_status sg_svg_print(const shingle_timeline *const *timeline, int count, sg_text *out);

/* Chrome's trace format. */
shingle_status sg_perfetto_print(const shingle_timeline *const *timeline, int count, sg_text *out);

#endif
