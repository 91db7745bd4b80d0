/* svg_track.c -- one track of one rank, see svg.h.
 *
 * A track may hold a hundred thousand spans on a thousand pixels.  So it is cut into bins; each bin
 * adds up, owner by owner, how much of the track its spans take, and neighbouring bins that look
 * the same become one box:
 *
 *     blocks busy   |        .----.  <- the last wave leaves blocks idle
 *                   | 1 1 1 2|2222|
 *                   '-----------------> time
 *
 * Boxes of one colour are one path, so the size of the file is bounded by bins, not by spans. */
#include <string.h>

#include "draw/svg.h"

enum { LEVELS = 24, MOST_STRIPES = 8 };

static const double least_separator = 5; /* pixels between lines that part steps and patches */

double sg_svg_x(const sg_svg *v, double us)
{
    return v->left + us / v->us * v->width;
}

/* ---- Colours --------------------------------------------------------------------------------- */

/* Up to eight owners have the colours of Okabe and Ito, which colour-blind people tell apart; more
 * run through viridis, which is ordered by lightness. */
sg_svg_colour sg_svg_owner(const sg_svg *v, int slot)
{
    static const uint32_t few[8] = {0x0072b2, 0xe69f00, 0x009e73, 0xcc79a7,
                                    0x56b4e9, 0xd55e00, 0xf0e442, 0x2b2b2b};
    static const uint32_t viridis[9] = {0x440154, 0x472d7b, 0x3b528b, 0x2c728e, 0x21918c,
                                        0x28ae80, 0x5ec962, 0xaddc30, 0xfde725};
    uint32_t rgb = 0;
    if (v->colours <= 8) {
        rgb = few[slot % 8];
    } else {
        const double at = 8.0 * slot / (v->colours - 1);
        const int i = at < 8 ? (int)at : 7;
        for (int shift = 0; shift < 24; shift += 8) {
            const double a = viridis[i] >> shift & 255;
            const double b = viridis[i + 1] >> shift & 255;
            rgb |= (uint32_t)(a + (b - a) * (at - i) + 0.5) << shift;
        }
    }
    sg_svg_colour colour;
    sg_text text = {colour.text, sizeof colour.text, 0};
    sg_text_add(&text, "#%06x", (unsigned)rgb);
    return colour;
}

/* ---- Bins ------------------------------------------------------------------------------------ */

static int count_bits(uint64_t mask)
{
    int bits = 0;
    for (; mask != 0; mask &= mask - 1) bits++;
    return bits;
}

static void add_share(sg_svg *v, const sg_owners *owners, int32_t bin, float share)
{
    const int bits = count_bits(owners->mask);
    if (bits == 0 || bits > MOST_STRIPES) {
        v->share[(size_t)SG_OWNER_SLOTS * (size_t)v->bins + (size_t)bin] += share;
        return;
    }
    for (int slot = 0; slot < SG_OWNER_SLOTS; slot++)
        if (owners->mask >> slot & 1)
            v->share[(size_t)slot * (size_t)v->bins + (size_t)bin] += share / (float)bits;
}

/* Where a time lies, in bins. */
static double place(const sg_svg *v, double us)
{
    const double at = us / v->us * v->bins;
    return at < 0 ? 0 : at > v->bins ? v->bins : at;
}

static void fill_bins(sg_svg *v, const shingle_timeline *t, int32_t first, int32_t end)
{
    memset(v->share, 0, (size_t)SG_SVG_SLOTS * (size_t)v->bins * sizeof *v->share);
    memset(v->active, 0, (size_t)v->bins * sizeof *v->active);
    memset(v->other, 0, (size_t)v->bins * sizeof *v->other);
    memset(v->middle, 0, (size_t)v->bins);
    double until = 0;
    for (int32_t i = first; i < end; i++) {
        const sg_timeline_span *const s = &t->span[i];
        if (s->does == SG_DOES_WAIT) continue;
        const double a = place(v, s->begin_us);
        const double b = place(v, s->end_us);
        int32_t middle = (int32_t)((a + b) / 2);
        if (middle >= v->bins) middle = v->bins - 1;
        v->middle[middle] = 1;
        for (int32_t bin = (int32_t)a; bin < v->bins && bin < b; bin++) {
            const double from = a > bin ? a : bin;
            const double to = b < bin + 1 ? b : bin + 1;
            add_share(v, &s->owners, bin, (float)((to - from) * s->share));
            if (s->does == SG_DOES_SUM || s->does == SG_DOES_COPY)
                v->other[bin] += (float)((to - from) * s->share);
            if (to > until) v->active[bin] += (float)(to - (from > until ? from : until));
            if (to > until) until = to;
        }
    }
}

/* ---- Boxes ----------------------------------------------------------------------------------- */

/* How the levels of a bin are shared out among owners, and whether most of it is *OTHER than
 * products.  False: nothing is to be seen. */
static bool share_levels(const sg_svg *v, int32_t bin, uint8_t *level, bool *other)
{
    double total = 0;
    double rest[SG_SVG_SLOTS];
    memset(level, 0, SG_SVG_SLOTS);
    if (v->active[bin] < 0.5f && !v->middle[bin]) return false;
    for (int slot = 0; slot < SG_SVG_SLOTS; slot++)
        total += (double)v->share[(size_t)slot * (size_t)v->bins + (size_t)bin];
    if (total <= 0) return false;
    *other = (double)v->other[bin] > total / 2;
    const double height = total / (v->active[bin] > 0 ? (double)v->active[bin] : 1);
    int left = height >= 1 ? LEVELS : (int)(height * LEVELS + 0.5);
    if (left < 1) left = 1;
    const double each = left / total;
    for (int slot = 0; slot < SG_SVG_SLOTS; slot++) {
        rest[slot] = (double)v->share[(size_t)slot * (size_t)v->bins + (size_t)bin] * each;
        level[slot] = (uint8_t)rest[slot];
        rest[slot] -= level[slot];
    }
    for (int slot = 0; slot < SG_SVG_SLOTS; slot++) left -= level[slot];
    while (left-- > 0) {
        int most = 0;
        for (int slot = 1; slot < SG_SVG_SLOTS; slot++)
            if (rest[slot] > rest[most]) most = slot;
        level[most]++;
        rest[most] = -1;
    }
    return true;
}

static bool add_boxes(sg_svg *v, const uint8_t *level, bool other, int32_t from, int32_t to)
{
    uint8_t low = 0;
    for (int slot = 0; slot < SG_SVG_SLOTS; slot++) {
        if (level[slot] == 0) continue;
        if (!sg_grow(&v->box, &v->box_room, (int64_t)v->boxes + 1, sizeof *v->box)) return false;
        const uint8_t high = (uint8_t)(low + level[slot]);
        v->box[v->boxes++] = (sg_svg_box){from, to, low, high, (uint8_t)slot, other};
        low = high;
    }
    return true;
}

static bool make_boxes(sg_svg *v)
{
    uint8_t last[SG_SVG_SLOTS] = {0};
    uint8_t level[SG_SVG_SLOTS];
    int32_t from = 0;
    bool open = false;
    bool was_other = false;
    v->boxes = 0;
    for (int32_t bin = 0; bin < v->bins; bin++) {
        bool other = false;
        const bool seen = share_levels(v, bin, level, &other);
        if (open && seen && other == was_other && memcmp(last, level, sizeof level) == 0) continue;
        if (open && !add_boxes(v, last, was_other, from, bin)) return false;
        open = seen;
        was_other = other;
        from = bin;
        memcpy(last, level, sizeof level);
    }
    return !open || add_boxes(v, last, was_other, from, v->bins);
}

/* ---- Printing -------------------------------------------------------------------------------- */

static void print_box(const sg_svg *v, const sg_svg_box *b, double y, double h)
{
    const double top = y + h * (LEVELS - b->high) / LEVELS;
    const double height = h * (b->high - b->low) / LEVELS;
    const double width = (b->to - b->from) * v->bin;
    sg_text_add(v->out, "M%s %s", sg_draw_fixed(v->left + b->from * v->bin, 1).text,
                sg_draw_fixed(top, 2).text);
    sg_text_add(v->out, "h%sv%s", sg_draw_fixed(width, 1).text, sg_draw_fixed(height, 2).text);
    sg_text_add(v->out, "h%sz", sg_draw_fixed(-width, 1).text);
}

static void print_colour(const sg_svg *v, int slot, double y, double h)
{
    bool open = false;
    for (int32_t i = 0; i < v->boxes; i++) {
        if (v->box[i].slot != slot) continue;
        if (!open)
            sg_text_add(v->out, "<path fill=\"%s\" d=\"",
                        slot == SG_OWNER_SLOTS ? SG_SVG_MANY : sg_svg_owner(v, slot).text);
        open = true;
        print_box(v, &v->box[i], y, h);
    }
    if (open) sg_text_add(v->out, "\"/>\n");
}

/* What travels is hatched, whoever's it is, and on processors what is no product. */
static void print_hatch(const sg_svg *v, sg_track track, double y, double h)
{
    static const char *const name[SG_TRACKS] = {"sum", "link", "coll"};
    bool open = false;
    for (int32_t i = 0; i < v->boxes; i++) {
        sg_svg_box all = v->box[i];
        for (; i + 1 < v->boxes && v->box[i + 1].from == all.from; i++)
            all.high = v->box[i + 1].high;
        if (track == SG_TRACK_COMPUTE && !all.other) continue;
        if (!open) sg_text_add(v->out, "<path fill=\"url(#%s)\" d=\"", name[track]);
        open = true;
        print_box(v, &all, y, h);
    }
    if (open) sg_text_add(v->out, "\"/>\n");
}

/* Thin lines where a step or a patch begins, if there is room between them. */
static void print_separators(const sg_svg *v, const shingle_timeline *t, sg_track track,
                             int32_t first, int32_t end, double y, double h)
{
    double last = v->left;
    const sg_timeline_span *before = NULL;
    bool open = false;
    for (int32_t i = first; i < end; i++) {
        const sg_timeline_span *const s = &t->span[i];
        if (s->does == SG_DOES_WAIT) continue;
        const bool same = before != NULL && before->step == s->step && before->patch == s->patch &&
                          before->peer == s->peer;
        before = s;
        const double x = sg_svg_x(v, s->begin_us);
        if (same || x - last < least_separator) continue;
        if (!open)
            sg_text_add(v->out, "<path class=\"%s\" d=\"", track == SG_TRACK_COLL ? "cut" : "part");
        open = true;
        sg_text_add(v->out, "M%s %sv%s", sg_draw_fixed(x, 1).text, sg_draw_fixed(y, 1).text,
                    sg_draw_fixed(h, 1).text);
        last = x;
    }
    if (open) sg_text_add(v->out, "\"/>\n");
}

shingle_status sg_svg_track(sg_svg *v, const shingle_timeline *t, int row, sg_track track, double y,
                            double h)
{
    int32_t first = 0;
    const int32_t end = sg_timeline_range(t, row, track, &first);
    fill_bins(v, t, first, end);
    if (!make_boxes(v)) return sg_fail(SHINGLE_ENOMEM, "no memory for %d boxes", v->boxes);
    for (int slot = 0; slot < SG_SVG_SLOTS; slot++) print_colour(v, slot, y, h);
    print_hatch(v, track, y, h);
    print_separators(v, t, track, first, end, y, h);
    return SHINGLE_OK;
}
