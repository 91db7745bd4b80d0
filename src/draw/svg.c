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
    TITLE = 52,     /* height of the title */
    TEXT_ROOM = 100 /* characters of a line */
};

/* ---- Style ----------------------------------------------------------------------------------- */

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

typedef struct page {
    sg_svg_panel panel[SG_DRAW_MOST];
    int panels;
    bool used[SG_TRACKS];
    bool sums;  /* some time goes into what is neither product nor transfer */
    bool turns; /* there is a timeline whose ranks share processors */
    bool same;  /* all are of one problem */
    char problem[SG_DRAW_MOST][200];
    double height;
} page;

/* ---- Legend ---------------------------------------------------------------------------------- */

/* Where the next entry stands; entries that do not fit begin a new line. */
typedef struct legend {
    double x, y;
} legend;

static void add_entry(const sg_svg *v, legend *l, const char *swatch, const char *text)
{
    const double width = 30 + (double)strlen(text) * SG_SVG_LETTER;
    if (l->x + width > SG_SVG_PAGE - 8) {
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

/* ---- The page -------------------------------------------------------------------------------- */

static void plan_page(const shingle_timeline *const *timeline, int count, sg_svg *v, page *p)
{
    double y = TITLE;
    p->panels = count;
    p->same = true;
    for (int i = 0; i < count; i++) {
        const shingle_timeline *const t = timeline[i];
        sg_svg_lay_out(t, y, &p->panel[i]);
        y = p->panel[i].y + p->panel[i].h + SG_SVG_AXIS;
        for (int j = 0; j < SG_TRACKS; j++) p->used[j] |= p->panel[i].used[j];
        p->sums |= p->panel[i].sums;
        p->turns |= sg_svg_takes_turns(t);
        if (v->us < t->us) v->us = t->us;
        if (v->us < t->serial_us) v->us = t->serial_us;
        if (v->us < sg_svg_bound(t)) v->us = sg_svg_bound(t);
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
    sg_svg_begin_text(v, 8, 22, "title");
    if (p->same)
        sg_draw_xml(v->out, p->problem[0], TEXT_ROOM);
    else
        sg_text_add(v->out, "%d timelines of several products", p->panels);
    sg_svg_end_text(v);
    sg_svg_begin_text(v, 8, 40, "faint");
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
    sg_svg_end_text(v);
}

static shingle_status print_page(sg_svg *v, page *p)
{
    sg_text_add(v->out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%s\" "
                "viewBox=\"0 0 %d %s\" role=\"img\">\n",
                (int)SG_SVG_PAGE, sg_draw_fixed(p->height, 0).text, (int)SG_SVG_PAGE,
                sg_draw_fixed(p->height, 0).text);
    sg_text_add(v->out, "<title>");
    sg_draw_xml(v->out, p->problem[0], 200);
    sg_text_add(v->out, "</title>\n");
    print_style(v);
    print_patterns(v);
    sg_text_add(v->out, "<rect width=\"100%%\" height=\"100%%\" rx=\"6\" fill=\"#fff\"/>\n");
    print_title(v, p);
    for (int i = 0; i < p->panels; i++)
        SG_TRY(sg_svg_print_panel(v, &p->panel[i], p->same ? NULL : p->problem[i]));
    const sg_svg_panel *const last = &p->panel[p->panels - 1];
    print_legend(v, last->y + last->h + SG_SVG_AXIS + 2, p);
    sg_text_add(v->out, "</svg>\n");
    return SHINGLE_OK;
}

shingle_status sg_svg_print(const shingle_timeline *const *timeline, int count, sg_text *out)
{
    sg_svg v = {.out = out, .left = SG_SVG_LEFT, .width = SG_SVG_WIDTH, .colours = 1};
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
