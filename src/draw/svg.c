/* svg.c -- timelines as one picture:
 *
 *     title
 *     panel    headline; reference lines; a group of tracks for each rank; axis
 *     panel    the same scale, so that lengths compare
 *     legend
 *
 * The page has its own white ground: it reads the same in print and on a dark page.  Fonts are the
 * reader's; widths of texts are estimated on the wide side. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "draw/svg.h"

enum {
    LEFT = 96,
    WIDTH = 960,
    RIGHT = 124,
    PAGE = LEFT + WIDTH + RIGHT,
    TITLE = 52,     /* height of the title */
    HEAD = 74,      /* of a panel's headline and labels of its lines */
    AXIS = 34,      /* of an axis and the space below it */
    TEXT_ROOM = 100 /* characters of a line */
};

static const double letter = 6.3; /* width of a character of 11 pixels, wide ones among them */

static const double least_ms = 9999.5; /* pictures of so many microseconds are in milliseconds */
static const double least_label =
    0.0025; /* of a run: shorter gaps are launches, and have no label */

/* Heights of what a panel is made of. */
typedef struct sizes {
    double track[SG_TRACKS];
    double between; /* ranks */
} sizes;

static sizes sizes_for(int ranks)
{
    if (ranks <= 8) return (sizes){{20, 12, 12}, 7};
    if (ranks <= 16) return (sizes){{14, 8, 8}, 5};
    if (ranks <= 32) return (sizes){{9, 5, 5}, 3};
    return (sizes){{7, 4, 4}, 2};
}

/* A timeline on the page. */
typedef struct panel {
    const shingle_timeline *timeline;
    sizes size;
    bool used[SG_TRACKS];
    bool sums;
    double rank_h; /* of one rank */
    double y;      /* of its first rank */
    double h;      /* of all its ranks */
} panel;

static void lay_out(const shingle_timeline *t, double y, panel *p)
{
    *p = (panel){.timeline = t, .size = sizes_for(t->shown), .y = y + HEAD};
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

/* ---- Texts ----------------------------------------------------------------------------------------- */

static void begin_text(const sg_svg *v, double x, double y, const char *class)
{
    sg_text_add(v->out, "<text x=\"%s\" y=\"%s\" class=\"%s\">", sg_draw_fixed(x, 1).text,
                sg_draw_fixed(y, 1).text, class);
}

static void end_text(const sg_svg *v)
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

/* ---- Style ----------------------------------------------------------------------------------------- */

static void print_style(const sg_svg *v)
{
    sg_text_add(v->out, "<style>"
                        "text{font-family:system-ui,\"DejaVu Sans\",Helvetica,Arial,sans-serif;"
                        "font-size:11px;fill:" SG_SVG_INK "}"
                        ".title{font-size:15px;font-weight:bold}"
                        ".head{font-size:14px}"
                        ".name{font-weight:bold}"
                        ".faint{fill:" SG_SVG_FAINT "}"
                        ".small{font-size:9px;fill:" SG_SVG_FAINT "}"
                        ".right{text-anchor:end}"
                        ".centre{text-anchor:middle}"
                        ".red{fill:" SG_SVG_EXPOSED "}"
                        ".halo{paint-order:stroke;stroke:#fff;stroke-width:3.5px;"
                        "stroke-linejoin:round;font-weight:bold}"
                        ".grid{stroke:" SG_SVG_GRID ";fill:none}"
                        ".axis{stroke:" SG_SVG_FAINT ";fill:none}"
                        ".part{stroke:#fff;stroke-width:1;fill:none}"
                        ".cut{stroke:" SG_SVG_INK ";stroke-width:1;fill:none}"
                        ".gap{fill:url(#gap);stroke:" SG_SVG_EXPOSED ";stroke-width:0.8}"
                        ".turn{fill:" SG_SVG_GRID "}"
                        ".sliver{fill:" SG_SVG_EXPOSED ";fill-opacity:0.6}"
                        ".bound{stroke:" SG_SVG_INK ";stroke-dasharray:5 3;fill:none}"
                        ".serial{stroke:" SG_SVG_INK ";stroke-dasharray:1.5 2.5;fill:none}"
                        ".end{stroke:" SG_SVG_INK ";stroke-width:1.6;fill:none}"
                        "</style>\n");
}

static void print_pattern(const sg_svg *v, const char *name, int step, int angle, const char *paint)
{
    sg_text_add(v->out,
                "<pattern id=\"%s\" width=\"%d\" height=\"%d\" patternUnits=\"userSpaceOnUse\" "
                "patternTransform=\"rotate(%d)\">%s</pattern>\n",
                name, step, step, angle, paint);
}

static void print_patterns(const sg_svg *v)
{
    sg_text_add(v->out, "<defs>\n");
    print_pattern(v, "link", 5, 45, "<path d=\"M0 0v5\" stroke=\"#fff\" stroke-width=\"3\"/>");
    print_pattern(v, "sum", 4, 0, "<path d=\"M0 2h4\" stroke=\"#fff\" stroke-width=\"1.4\"/>");
    print_pattern(v, "coll", 4, 0, "<path d=\"M0 0v4\" stroke=\"#fff\" stroke-width=\"3\"/>");
    print_pattern(v, "gap", 6, -45,
                  "<path d=\"M0 0h6v6h-6z\" fill=\"#fff\"/>"
                  "<path d=\"M0 0v6\" stroke=\"" SG_SVG_EXPOSED "\" stroke-width=\"1.6\" "
                  "stroke-opacity=\"0.55\"/>");
    sg_text_add(v->out, "</defs>\n");
}

/* ---- Axis and lines -------------------------------------------------------------------------------- */

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

static void print_grid(const sg_svg *v, const panel *p)
{
    const double step = tick_us(v);
    sg_text_add(v->out, "<path class=\"grid\" d=\"");
    for (int i = 0; i * step <= v->us; i++)
        sg_text_add(v->out, "M%s %sv%s", sg_draw_fixed(sg_svg_x(v, i * step), 1).text,
                    sg_draw_fixed(p->y - 4, 1).text, sg_draw_fixed(p->h + 8, 1).text);
    sg_text_add(v->out, "\"/>\n");
}

static void print_axis(const sg_svg *v, const panel *p)
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
        begin_text(v, sg_svg_x(v, i * step), y + 16, "centre faint");
        sg_text_add(v->out, "%s", sg_draw_fixed(i * step / (ms ? 1e3 : 1), 3).text);
        end_text(v);
    }
    begin_text(v, v->left + v->width + 26, y + 16, "faint");
    sg_text_add(v->out, ms ? "ms" : "\xc2\xb5s");
    end_text(v);
}

/* A line across all ranks at US, with its label above: to its left or to its right. */
static void print_line(const sg_svg *v, const panel *p, const char *class, const char *name,
                       double us, bool to_left, double y)
{
    const double x = sg_svg_x(v, us);
    if (us <= 0 || us > v->us) return;
    sg_text_add(v->out, "<path class=\"%s\" d=\"M%s %sV%s\"/>\n", class, sg_draw_fixed(x, 1).text,
                sg_draw_fixed(y - 9, 1).text, sg_draw_fixed(p->y + p->h + 4, 1).text);
    begin_text(v, to_left ? x - 4 : x + 4, y, to_left ? "right" : "");
    sg_text_add(v->out, "%s %s", name, duration_of(v, us).text);
    end_text(v);
}

static double bound_of(const shingle_timeline *t)
{
    return t->gemm_us > t->coll_us ? t->gemm_us : t->coll_us;
}

/* Does a line at US stand where a label to the right of X would? */
static bool is_in_way(const sg_svg *v, double us, double x)
{
    const double at = sg_svg_x(v, us);
    return at > x && at < x + 14 * letter;
}

/* The bound's label stands to the left of its line and serial's to the right, so they cannot meet;
 * the end has a row of its own. */
static void print_lines(const sg_svg *v, const panel *p)
{
    const shingle_timeline *const t = p->timeline;
    const double bound = bound_of(t);
    const double end = sg_svg_x(v, t->us);
    const bool left = end > v->left + v->width * 0.95 || is_in_way(v, bound, end) ||
                      is_in_way(v, t->serial_us, end);
    print_line(v, p, "bound", t->gemm_us > t->coll_us ? "bound: product" : "bound: collective",
               bound, sg_svg_x(v, bound) > v->left + 24 * letter, p->y - 22);
    print_line(v, p, "serial", "serial", t->serial_us, false, p->y - 22);
    print_line(v, p, "end", "done", t->us, left, p->y - 8);
}

/* ---- Panels ---------------------------------------------------------------------------------------- */

/* The gaps of a row that are WIDE, or those that are not, as one path.  Of narrow ones, one a pixel. */
static void print_gap_boxes(const sg_svg *v, const panel *p, int row, double y, bool wide)
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

static void print_gaps(const sg_svg *v, const panel *p, int row, double y)
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
        if (g->row != row || h < 12 || width < (double)strlen(d.text) * letter + 3) continue;
        begin_text(v, x + width / 2, y + h / 2 + 4, "centre red halo");
        sg_text_add(v->out, "%s", d.text);
        end_text(v);
    }
}

/* Processors are shared: where a rank neither computes nor is exposed, they serve other ranks. */
static bool takes_turns(const shingle_timeline *t)
{
    return t->workers > 0 && t->workers < t->problem.ranks;
}

static void print_turns(const sg_svg *v, const panel *p, int row, double y)
{
    const shingle_timeline *const t = p->timeline;
    if (!takes_turns(t)) return;
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

/* Ranks that lie too close have a label now and then. */
static void print_labels(const sg_svg *v, const panel *p, int row, double y)
{
    static const char *const name[SG_TRACKS] = {"compute", "link out", "collective"};
    const shingle_timeline *const t = p->timeline;
    const double pitch = p->rank_h + p->size.between;
    const int every = (int)ceil(12 / pitch);
    if (row % every != 0) return;
    const bool roomy = p->size.track[SG_TRACK_COMPUTE] >= 12;
    const double middle = y + p->size.track[SG_TRACK_COMPUTE] / 2 + 4;
    begin_text(v, 8, roomy ? middle : y + 8, roomy ? "name" : "small");
    sg_text_add(v->out, "rank %d", t->rank[row]);
    end_text(v);
    const double exposed = exposed_of(t, row);
    if (exposed >= least_label * t->us) {
        begin_text(v, v->left + v->width + 14, roomy ? middle : y + 8, roomy ? "red" : "small red");
        sg_text_add(v->out, "%s exposed", duration_of(v, exposed).text);
        end_text(v);
    }
    for (int i = 0; i < SG_TRACKS && roomy; i++) {
        if (!p->used[i]) continue;
        begin_text(v, v->left - 6, y + p->size.track[i] / 2 + 3.2, "small right");
        sg_text_add(v->out, "%s", name[i]);
        end_text(v);
        y += p->size.track[i] + 1;
    }
}

static shingle_status print_rank(sg_svg *v, const panel *p, int row)
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
static void print_head(const sg_svg *v, const panel *p, const char *problem)
{
    const shingle_timeline *const t = p->timeline;
    const double y = p->y - HEAD + 14;
    begin_text(v, 8, y, "head");
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
    if (t->us > 0 && bound_of(t) > 0)
        sg_text_add(v->out, ", %s %% of the bound",
                    sg_draw_fixed(100 * bound_of(t) / t->us, 0).text);
    end_text(v);
    begin_text(v, 8, y + 16, "faint");
    if (problem != NULL) {
        sg_draw_xml(v->out, problem, 60);
        sg_text_add(v->out, " ");
    }
    sg_draw_xml(v->out, t->strategy + name, sizeof t->strategy);
    if (t->shown < t->problem.ranks)
        sg_text_add(v->out, "; %d of %d ranks shown", t->shown, t->problem.ranks);
    if (takes_turns(t))
        sg_text_add(v->out, "; %d processors serve %d ranks in turn", t->workers, t->problem.ranks);
    if (t->lost > 0) sg_text_add(v->out, "; %lld spans not recorded", (long long)t->lost);
    end_text(v);
}

static shingle_status print_panel(sg_svg *v, const panel *p, const char *problem)
{
    print_head(v, p, problem);
    print_grid(v, p);
    for (int row = 0; row < p->timeline->shown; row++) SG_TRY(print_rank(v, p, row));
    print_lines(v, p);
    print_axis(v, p);
    return SHINGLE_OK;
}

typedef struct page {
    panel panel[SG_DRAW_MOST];
    int panels;
    bool used[SG_TRACKS];
    bool sums;  /* some time goes into what is neither product nor transfer */
    bool turns; /* there is a timeline whose ranks share processors */
    bool same;  /* all are of one problem */
    char problem[SG_DRAW_MOST][200];
    double height;
} page;

/* ---- Legend ---------------------------------------------------------------------------------------- */

/* Where the next entry stands; entries that do not fit begin a new line. */
typedef struct legend {
    double x, y;
} legend;

static void add_entry(const sg_svg *v, legend *l, const char *swatch, const char *text)
{
    const double width = 30 + (double)strlen(text) * letter;
    if (l->x + width > PAGE - 8) {
        l->x = 8;
        l->y += 18;
    }
    sg_text_add(v->out,
                "<g transform=\"translate(%s %s)\">%s<text x=\"24\" y=\"10\">%s</text></g>\n",
                sg_draw_fixed(l->x, 1).text, sg_draw_fixed(l->y, 1).text, swatch, text);
    l->x += width + 12;
}

static void add_owners(const sg_svg *v, legend *l)
{
    char swatch[2048] = "";
    char text[80] = "";
    if (v->colours <= 8) {
        for (int i = 0; i < v->colours; i++) {
            sg_text s = {swatch, sizeof swatch, 0};
            sg_text t = {text, sizeof text, 0};
            sg_text_add(&s, "<path d=\"M0 0h20v12h-20z\" fill=\"%s\"/>", sg_svg_owner(v, i).text);
            sg_text_add(&t, i == 0 ? "rows of rank %d" : "rank %d", i);
            add_entry(v, l, swatch, text);
        }
        return;
    }
    sg_text s = {swatch, sizeof swatch, 0};
    for (int i = 0; i < 20; i++)
        sg_text_add(&s, "<path d=\"M%d 0h1.1v12h-1.1z\" fill=\"%s\"/>", i,
                    sg_svg_owner(v, (v->colours - 1) * i / 19).text);
    add_entry(v, l, swatch, "rows of the first rank to those of the last");
    add_entry(v, l, "<path d=\"M0 0h20v12h-20z\" fill=\"" SG_SVG_MANY "\"/>", "of many ranks");
}

static void print_legend(const sg_svg *v, double y, const page *p)
{
    legend l = {8, y};
    const char *const blue = "<path d=\"M0 0h20v12h-20z\" fill=\"#0072b2\"/>";
    char swatch[300];
    add_owners(v, &l);
    l.x = 8;
    l.y += 18;
    add_entry(v, &l, blue, "product; height: processors busy");
    if (p->sums)
        add_entry(v, &l,
                  "<path d=\"M0 0h20v12h-20z\" fill=\"#0072b2\"/>"
                  "<path d=\"M0 0h20v12h-20z\" fill=\"url(#sum)\"/>",
                  "sum or copy, no product");
    for (int i = SG_TRACK_LINK; i < SG_TRACKS; i++) {
        if (!p->used[i]) continue;
        sg_text s = {swatch, sizeof swatch, 0};
        sg_text_add(&s, "%s<path d=\"M0 0h20v12h-20z\" fill=\"url(#%s)\"/>", blue,
                    i == SG_TRACK_COLL ? "coll" : "link");
        add_entry(v, &l, swatch,
                  i == SG_TRACK_COLL ? "in a collective" : "on its way to another rank");
    }
    add_entry(v, &l, "<path class=\"gap\" d=\"M0 0h20v12h-20z\"/>",
              "exposed: nothing to multiply, the rank waits");
    if (p->turns)
        add_entry(v, &l, "<path class=\"turn\" d=\"M0 0h20v12h-20z\"/>",
                  "the processors compute for other ranks");
    add_entry(v, &l, "<path class=\"bound\" d=\"M0 6h20\"/>",
              "bound: the longer of product and collective alone");
    add_entry(v, &l, "<path class=\"serial\" d=\"M0 6h20\"/>", "serial: one after the other");
}

/* ---- The page -------------------------------------------------------------------------------------- */

static void plan_page(const shingle_timeline *const *timeline, int count, sg_svg *v, page *p)
{
    double y = TITLE;
    p->panels = count;
    p->same = true;
    for (int i = 0; i < count; i++) {
        const shingle_timeline *const t = timeline[i];
        lay_out(t, y, &p->panel[i]);
        y = p->panel[i].y + p->panel[i].h + AXIS;
        for (int j = 0; j < SG_TRACKS; j++) p->used[j] |= p->panel[i].used[j];
        p->sums |= p->panel[i].sums;
        p->turns |= takes_turns(t);
        if (v->us < t->us) v->us = t->us;
        if (v->us < t->serial_us) v->us = t->serial_us;
        if (v->us < bound_of(t)) v->us = bound_of(t);
        const int ranks = t->problem.ranks;
        if (v->colours < ranks) v->colours = ranks < SG_OWNER_SLOTS ? ranks : SG_OWNER_SLOTS;
        sg_problem_print(&t->problem, p->problem[i], sizeof p->problem[i]);
        if (strcmp(p->problem[0], p->problem[i]) != 0) p->same = false;
    }
    if (v->us <= 0) v->us = 1;
    v->us *= 1.005;
    p->height = y + (v->colours <= 8 ? 60 : 64) + 8;
}

static void print_title(const sg_svg *v, const page *p)
{
    begin_text(v, 8, 22, "title");
    if (p->same)
        sg_draw_xml(v->out, p->problem[0], TEXT_ROOM);
    else
        sg_text_add(v->out, "%d timelines of several products", p->panels);
    end_text(v);
    begin_text(v, 8, 40, "faint");
    for (int i = 0; i < p->panels; i++) {
        bool known = false;
        for (int j = 0; j < i; j++)
            known |= strcmp(p->panel[i].timeline->machine, p->panel[j].timeline->machine) == 0;
        if (known) continue;
        sg_text_add(v->out, i > 0 ? ", " : "on ");
        sg_draw_xml(v->out, p->panel[i].timeline->machine, 64);
    }
    sg_text_add(v->out,
                "; time from the left, all on one scale; a colour is the rank that owns the "
                "rows");
    end_text(v);
}

static shingle_status print_page(sg_svg *v, page *p)
{
    sg_text_add(v->out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%s\" "
                "viewBox=\"0 0 %d %s\" role=\"img\">\n",
                (int)PAGE, sg_draw_fixed(p->height, 0).text, (int)PAGE,
                sg_draw_fixed(p->height, 0).text);
    sg_text_add(v->out, "<title>");
    sg_draw_xml(v->out, p->problem[0], 200);
    sg_text_add(v->out, "</title>\n");
    print_style(v);
    print_patterns(v);
    sg_text_add(v->out, "<rect width=\"100%%\" height=\"100%%\" rx=\"6\" fill=\"#fff\"/>\n");
    print_title(v, p);
    for (int i = 0; i < p->panels; i++)
        SG_TRY(print_panel(v, &p->panel[i], p->same ? NULL : p->problem[i]));
    const panel *const last = &p->panel[p->panels - 1];
    print_legend(v, last->y + last->h + AXIS + 2, p);
    sg_text_add(v->out, "</svg>\n");
    return SHINGLE_OK;
}

shingle_status sg_svg_print(const shingle_timeline *const *timeline, int count, sg_text *out)
{
    sg_svg v = {.out = out, .left = LEFT, .width = WIDTH, .colours = 1};
    page *const p = calloc(1, sizeof *p);
    if (p == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a picture");
    plan_page(timeline, count, &v, p);
    v.bin = v.colours <= 8 ? 0.5 : v.colours <= 32 ? 1 : 2;
    v.bins = (int32_t)(v.width / v.bin);
    v.share = malloc((size_t)SG_SVG_SLOTS * (size_t)v.bins * sizeof *v.share);
    v.active = malloc((size_t)v.bins * sizeof *v.active);
    v.middle = malloc((size_t)v.bins);
    v.other = malloc((size_t)v.bins * sizeof *v.other);
    shingle_status status = SHINGLE_OK;
    if (v.share == NULL || v.active == NULL || v.middle == NULL || v.other == NULL)
        status = sg_fail(SHINGLE_ENOMEM, "no memory for a picture");
    else
        status = print_page(&v, p);
    free(v.share);
    free(v.active);
    free(v.middle);
    free(v.other);
    free(v.box);
    free(p);
    return status;
}
