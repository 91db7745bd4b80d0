/* svg_panel.c -- one timeline on the page, see svg.h: headline, reference lines, a group of tracks
 * for each rank with its figures, and the axis. */
#include <math.h>
#include <string.h>

#include "draw/svg.h"

/* Pictures of so many microseconds are in milliseconds. */
static const double least_ms = 9999.5;

/* Of a run: what is exposed for shorter are launches, and has no label. */
static const double least_label = 0.0025;

static sg_svg_sizes sizes_for(int ranks)
{
    if (ranks <= 8) return (sg_svg_sizes){{20, 12, 12}, 7};
    if (ranks <= 16) return (sg_svg_sizes){{14, 8, 8}, 5};
    if (ranks <= 32) return (sg_svg_sizes){{9, 5, 5}, 3};
    return (sg_svg_sizes){{7, 4, 4}, 2};
}

void sg_svg_lay_out(const shingle_timeline *t, double y, sg_svg_panel *p)
{
    *p = (sg_svg_panel){.timeline = t, .size = sizes_for(t->shown), .y = y + SG_SVG_HEAD};
    p->used[SG_TRACK_COMPUTE] = true;
    for (int32_t i = 0; i < t->spans; i++) {
        const sg_timeline_span *const s = &t->span[i];
        if (s->does != SG_DOES_WAIT) p->used[s->track] = true;
        p->sums |=
            s->track == SG_TRACK_COMPUTE && (s->does == SG_DOES_SUM || s->does == SG_DOES_COPY);
    }
    for (int i = 0; i < SG_TRACKS; i++)
        if (p->used[i]) p->rank_h += p->size.track[i] + 1;
    p->h = t->shown * (p->rank_h + p->size.between) - p->size.between;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

void sg_svg_begin_text(const sg_svg *v, double x, double y, const char *class)
{
    sg_text_add(v->out, "<text x=\"%s\" y=\"%s\" class=\"%s\">", sg_draw_fixed(x, 1).text,
                sg_draw_fixed(y, 1).text, class);
}

void sg_svg_end_text(const sg_svg *v)
{
    sg_text_add(v->out, "</text>\n");
}

/* "812 us" or "13.4 ms", three figures, in one unit all over the page. */
typedef struct duration {
    char text[40];
} duration;

static duration duration_of(const sg_svg *v, double us)
{
    duration d;
    sg_text text = {d.text, sizeof d.text, 0};
    if (v->us < least_ms)
        sg_text_add(&text, "%s \xc2\xb5s", sg_draw_figures(us, 3).text);
    else
        sg_text_add(&text, "%s ms", sg_draw_figures(us / 1e3, 3).text);
    return d;
}

/* ---- Axis and lines -------------------------------------------------------------------------- */

/* Distance of ticks: 1, 2 or 5 times a power of ten, at least 70 pixels. */
static double tick_us(const sg_svg *v)
{
    static const double of_ten[] = {1, 2, 5, 10};
    const double least = 70 / v->width * v->us;
    const double ten = pow(10, floor(log10(least)));
    for (int i = 0; i < 4; i++)
        if (of_ten[i] * ten >= least) return of_ten[i] * ten;
    return 10 * ten;
}

static void print_grid(const sg_svg *v, const sg_svg_panel *p)
{
    const double step = tick_us(v);
    sg_text_add(v->out, "<path class=\"grid\" d=\"");
    for (int i = 0; i * step <= v->us; i++)
        sg_text_add(v->out, "M%s %sv%s", sg_draw_fixed(sg_svg_x(v, i * step), 1).text,
                    sg_draw_fixed(p->y - 4, 1).text, sg_draw_fixed(p->h + 8, 1).text);
    sg_text_add(v->out, "\"/>\n");
}

static void print_axis(const sg_svg *v, const sg_svg_panel *p)
{
    const double step = tick_us(v);
    const double y = p->y + p->h + 4;
    const bool ms = v->us >= least_ms;
    sg_text_add(v->out, "<path class=\"axis\" d=\"M%s %sh%s", sg_draw_fixed(v->left, 1).text,
                sg_draw_fixed(y, 1).text, sg_draw_fixed(v->width, 1).text);
    for (int i = 0; i * step <= v->us; i++)
        sg_text_add(v->out, "M%s %sv4", sg_draw_fixed(sg_svg_x(v, i * step), 1).text,
                    sg_draw_fixed(y, 1).text);
    sg_text_add(v->out, "\"/>\n");
    for (int i = 0; i * step <= v->us; i++) {
        sg_svg_begin_text(v, sg_svg_x(v, i * step), y + 16, "centre faint");
        sg_text_add(v->out, "%s", sg_draw_fixed(i * step / (ms ? 1e3 : 1), 3).text);
        sg_svg_end_text(v);
    }
    sg_svg_begin_text(v, v->left + v->width + 26, y + 16, "faint");
    sg_text_add(v->out, ms ? "ms" : "\xc2\xb5s");
    sg_svg_end_text(v);
}

/* A line across all ranks at US, with its label above: to its left or to
 * its right; NAME may be NULL. */
static void print_line(const sg_svg *v, const sg_svg_panel *p, const char *class, const char *name,
                       double us, bool to_left, double y)
{
    const double x = sg_svg_x(v, us);
    if (us <= 0 || us > v->us) return;
    sg_text_add(v->out, "<path class=\"%s\" d=\"M%s %sV%s\"/>\n", class, sg_draw_fixed(x, 1).text,
                sg_draw_fixed(y - 9, 1).text, sg_draw_fixed(p->y + p->h + 4, 1).text);
    if (name == NULL) return;
    sg_svg_begin_text(v, to_left ? x - 4 : x + 4, y, to_left ? "right" : "");
    sg_text_add(v->out, "%s %s", name, duration_of(v, us).text);
    sg_svg_end_text(v);
}

double sg_svg_bound(const shingle_timeline *t)
{
    return t->gemm_us > t->coll_us ? t->gemm_us : t->coll_us;
}

/* Does a line at US stand where a label to the right of X would? */
static bool is_in_way(const sg_svg *v, double us, double x)
{
    const double at = sg_svg_x(v, us);
    return at > x && at < x + 14 * SG_SVG_LETTER;
}

/* The bound's label stands to the left of its line and serial's to the right, so they cannot meet;
 * the end has a row of its own. */
static void print_lines(const sg_svg *v, const sg_svg_panel *p)
{
    const shingle_timeline *const t = p->timeline;
    const double bound = sg_svg_bound(t);
    const double end = sg_svg_x(v, t->us);
    const bool left = end > v->left + v->width * 0.95 || is_in_way(v, bound, end) ||
                      is_in_way(v, t->serial_us, end);
    const bool fits = sg_svg_x(v, bound) > 26 * SG_SVG_LETTER;
    const char *name = t->gemm_us > t->coll_us ? "bound: product" : "bound: collective";
    if (!fits && sg_svg_x(v, t->serial_us) < sg_svg_x(v, bound) + 26 * SG_SVG_LETTER) name = NULL;
    print_line(v, p, "bound", name, bound, fits, p->y - 22);
    print_line(v, p, "serial", "serial", t->serial_us, false, p->y - 22);
    print_line(v, p, "end", "done", t->us, left, p->y - 8);
}

/* ---- Panels ---------------------------------------------------------------------------------- */

/* The gaps of a row that are WIDE, or those that are not, as one path.  Of narrow ones, one a
 * pixel. */
static void print_gap_boxes(const sg_svg *v, const sg_svg_panel *p, int row, double y, bool wide)
{
    const shingle_timeline *const t = p->timeline;
    const double h = p->size.track[SG_TRACK_COMPUTE];
    double last = 0;
    bool open = false;
    for (int32_t i = 0; i < t->gaps; i++) {
        const sg_timeline_gap *const g = &t->gap[i];
        const double x = sg_svg_x(v, g->begin_us);
        const double width = sg_svg_x(v, g->end_us) - x;
        if (g->row != row || width < 0.4 || wide != (width >= 4) || (!wide && x < last + 1))
            continue;
        if (!open) sg_text_add(v->out, "<path class=\"%s\" d=\"", wide ? "gap" : "sliver");
        open = true;
        last = x;
        sg_text_add(v->out, "M%s %sh%s", sg_draw_fixed(x, 1).text, sg_draw_fixed(y, 1).text,
                    sg_draw_fixed(width, 1).text);
        sg_text_add(v->out, "v%sh%sz", sg_draw_fixed(h, 1).text, sg_draw_fixed(-width, 1).text);
    }
    if (open) sg_text_add(v->out, "\"/>\n");
}

static void print_gaps(const sg_svg *v, const sg_svg_panel *p, int row, double y)
{
    const shingle_timeline *const t = p->timeline;
    const double h = p->size.track[SG_TRACK_COMPUTE];
    print_gap_boxes(v, p, row, y, false);
    print_gap_boxes(v, p, row, y, true);
    for (int32_t i = 0; i < t->gaps; i++) {
        const sg_timeline_gap *const g = &t->gap[i];
        const double x = sg_svg_x(v, g->begin_us);
        const double width = sg_svg_x(v, g->end_us) - x;
        const duration d = duration_of(v, g->end_us - g->begin_us);
        if (g->row != row || h < 12 || width < (double)strlen(d.text) * SG_SVG_LETTER + 3) continue;
        sg_svg_begin_text(v, x + width / 2, y + h / 2 + 4, "centre red halo");
        sg_text_add(v->out, "%s", d.text);
        sg_svg_end_text(v);
    }
}

/* Processors are shared: where a rank neither computes nor is exposed, they serve other ranks. */
bool sg_svg_takes_turns(const shingle_timeline *t)
{
    return t->workers > 0 && t->workers < t->problem.ranks;
}

static void print_turns(const sg_svg *v, const sg_svg_panel *p, int row, double y)
{
    const shingle_timeline *const t = p->timeline;
    if (!sg_svg_takes_turns(t)) return;
    sg_text_add(v->out, "<path class=\"turn\" d=\"M%s %sh%s", sg_draw_fixed(sg_svg_x(v, 0), 1).text,
                sg_draw_fixed(y, 1).text,
                sg_draw_fixed(t->rank_us[row] / v->us * v->width, 1).text);
    sg_text_add(v->out, "v%sH%sz\"/>\n", sg_draw_fixed(p->size.track[SG_TRACK_COMPUTE], 1).text,
                sg_draw_fixed(sg_svg_x(v, 0), 1).text);
}

static double exposed_of(const shingle_timeline *t, int row)
{
    double sum = 0;
    for (int32_t i = 0; i < t->gaps; i++)
        if (t->gap[i].row == row) sum += t->gap[i].end_us - t->gap[i].begin_us;
    return sum;
}

/* How much of its processors' time a rank computes, of all the time until the slowest is done. */
static double busy_of(const shingle_timeline *t, int row)
{
    int32_t i = 0;
    const int32_t end = sg_timeline_range(t, row, SG_TRACK_COMPUTE, &i);
    double sum = 0;
    for (; i < end; i++)
        if (t->span[i].does != SG_DOES_WAIT)
            sum += t->span[i].share * (t->span[i].end_us - t->span[i].begin_us);
    return t->us > 0 ? sum / t->us : 0;
}

/* What stands to the right of a rank. */
static void print_figures(const sg_svg *v, const sg_svg_panel *p, int row, double y, bool roomy)
{
    const shingle_timeline *const t = p->timeline;
    const double x = v->left + v->width + 14;
    const double h = p->size.track[SG_TRACK_COMPUTE];
    const double exposed = exposed_of(t, row);
    if (exposed >= least_label * t->us) {
        sg_svg_begin_text(v, x, roomy ? y + h / 2 + 4 : y + 8, roomy ? "red" : "small red");
        sg_text_add(v->out, "%s exposed", duration_of(v, exposed).text);
        sg_svg_end_text(v);
    }
    if (!roomy || sg_svg_takes_turns(t) || p->rank_h < h + 8) return;
    sg_svg_begin_text(v, x, y + h + 10, "small");
    sg_text_add(v->out, "processors %s %% busy", sg_draw_fixed(100 * busy_of(t, row), 0).text);
    sg_svg_end_text(v);
}

/* Ranks that lie too close have a label now and then. */
static void print_labels(const sg_svg *v, const sg_svg_panel *p, int row, double y)
{
    static const char *const name[SG_TRACKS] = {"compute", "link out", "collective"};
    const shingle_timeline *const t = p->timeline;
    const double pitch = p->rank_h + p->size.between;
    const int every = (int)ceil(12 / pitch);
    if (row % every != 0) return;
    const bool roomy = p->size.track[SG_TRACK_COMPUTE] >= 12;
    const double middle = y + p->size.track[SG_TRACK_COMPUTE] / 2 + 4;
    sg_svg_begin_text(v, 8, roomy ? middle : y + 8, roomy ? "name" : "small");
    sg_text_add(v->out, "rank %d", t->rank[row]);
    sg_svg_end_text(v);
    print_figures(v, p, row, y, roomy);
    for (int i = 0; i < SG_TRACKS && roomy; i++) {
        if (!p->used[i]) continue;
        sg_svg_begin_text(v, v->left - 6, y + p->size.track[i] / 2 + 3.2, "small right");
        sg_text_add(v->out, "%s", name[i]);
        sg_svg_end_text(v);
        y += p->size.track[i] + 1;
    }
}

static shingle_status print_rank(sg_svg *v, const sg_svg_panel *p, int row)
{
    double y = p->y + row * (p->rank_h + p->size.between);
    print_labels(v, p, row, y);
    for (int i = 0; i < SG_TRACKS; i++) {
        if (!p->used[i]) continue;
        if (i == SG_TRACK_COMPUTE) print_turns(v, p, row, y);
        SG_TRY(sg_svg_track(v, p->timeline, row, (sg_track)i, y, p->size.track[i]));
        if (i == SG_TRACK_COMPUTE) print_gaps(v, p, row, y);
        y += p->size.track[i] + 1;
    }
    return SHINGLE_OK;
}

/* "ring, predicted: 812 us, 1.47 x as fast as serial, ..." and the rest in a smaller line. */
static void print_head(const sg_svg *v, const sg_svg_panel *p, const char *problem)
{
    const shingle_timeline *const t = p->timeline;
    const double y = p->y - SG_SVG_HEAD + 14;
    sg_svg_begin_text(v, 8, y, "head");
    sg_text_add(v->out, "<tspan class=\"name\">");
    const size_t name = strcspn(t->strategy, "{");
    char strategy[sizeof t->strategy];
    memcpy(strategy, t->strategy, name);
    strategy[name] = '\0';
    sg_draw_xml(v->out, strategy, 40);
    sg_text_add(v->out, "</tspan>, %s: %s", t->measured ? "measured" : "predicted",
                duration_of(v, t->us).text);
    if (t->serial_us > 0 && t->us > 0 && fabs(t->serial_us - t->us) > 0.002 * t->us)
        sg_text_add(v->out, ", %s \xc3\x97 as fast as serial",
                    sg_draw_figures(t->serial_us / t->us, 3).text);
    if (t->us > 0 && sg_svg_bound(t) > 0)
        sg_text_add(v->out, ", %s %% of the bound",
                    sg_draw_fixed(100 * sg_svg_bound(t) / t->us, 0).text);
    sg_svg_end_text(v);
    sg_svg_begin_text(v, 8, y + 16, "faint");
    if (problem != NULL) {
        sg_draw_xml(v->out, problem, 60);
        sg_text_add(v->out, " ");
    }
    sg_draw_xml(v->out, t->strategy + name, sizeof t->strategy);
    if (t->shown < t->problem.ranks)
        sg_text_add(v->out, "; %d of %d ranks shown", t->shown, t->problem.ranks);
    if (sg_svg_takes_turns(t))
        sg_text_add(v->out, "; %d processors serve %d ranks in turn", t->workers, t->problem.ranks);
    if (t->lost > 0) sg_text_add(v->out, "; %lld spans not recorded", (long long)t->lost);
    sg_svg_end_text(v);
}

shingle_status sg_svg_print_panel(sg_svg *v, const sg_svg_panel *p, const char *problem)
{
    print_head(v, p, problem);
    print_grid(v, p);
    for (int row = 0; row < p->timeline->shown; row++) SG_TRY(print_rank(v, p, row));
    print_lines(v, p);
    print_axis(v, p);
    return SHINGLE_OK;
}
