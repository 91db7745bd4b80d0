/* machine.c -- see machine.h.  A machine file is a list of "name value" lines; which names there
 * are, and what values each takes, is one table below, used by parser and printer alike. */
#include "core/machine.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/disk.h"
#include "core/machine_line.h"

/* One line of a file, printed if it is needed or not 0. */
typedef struct field {
    const char *name;
    size_t offset; /* in sg_machine */
    bool whole;    /* an int, otherwise a double */
    bool needed;
    double least, most;
} field;

#define LINE(name, whole, needed, least, most)                                                     \
    {                                                                                              \
#name, offsetof(sg_machine, name), whole, needed, least, most                              \
    }
#define WHOLE(name, least, most) LINE(name, true, true, least, most)
#define REAL(name, least, most) LINE(name, false, true, least, most)
#define MAY_WHOLE(name, least, most) LINE(name, true, false, least, most)
#define MAY_REAL(name, least, most) LINE(name, false, false, least, most)
#define RATE(type, at)                                                                             \
    {                                                                                              \
        "gemm_tflops_" #type, offsetof(sg_machine, gemm_tflops) + (at) * sizeof(double), false,    \
            true, 1e-6, 1e6                                                                        \
    }

static const field fields[] = {
    WHOLE(ranks, 1, SG_MAX_RANKS),
    WHOLE(sms, 1, SG_MOST_SMS),
    RATE(f32, SG_F32),
    RATE(bf16, SG_BF16),
    RATE(f16, SG_F16),
    REAL(mem_gbps, 1e-6, 1e6),
    REAL(copy_gbps, 1e-6, 1e6),
    REAL(copy_us, 0, 1e6),
    REAL(store_gbps, 1e-6, 1e6),
    REAL(store_us, 0, 1e6),
    REAL(coll_gbps, 1e-6, 1e6),
    REAL(coll_us, 0, 1e6),
    WHOLE(coll_sms, 0, 4096),
    REAL(flag_us, 0, 1e6),
    REAL(launch_us, 0, 1e6),
    REAL(join_us, 0, 1e6),
    REAL(epilogue_us, 0, 1e6),
    MAY_REAL(run_us, 1e-6, 1e6),
    MAY_REAL(tagged_us, 0, 1e6),
    MAY_REAL(tagged_gbps, 1e-6, 1e6),
    MAY_REAL(hop_us, 1e-6, 1e6),
    MAY_REAL(lane_us, 1e-6, 1e6),
    MAY_REAL(land_gbps, 1e-6, 1e6),
    MAY_REAL(link_gbps, 1e-6, 1e6),
    MAY_REAL(host_gbps, 1e-6, 1e6),
    MAY_WHOLE(numa_ranks, 1, SG_MAX_RANKS),
    MAY_REAL(numa_gbps, 1e-6, 1e6),
    MAY_WHOLE(host_staged, 0, 1),
    MAY_WHOLE(node_ranks, 1, SG_MAX_RANKS),
    MAY_REAL(nic_gbps, 1e-6, 1e6),
    MAY_REAL(node_us, 0, 1e6),
    MAY_WHOLE(copy_engines, 1, 64),
    MAY_REAL(peer_us, 0, 1e6),
    MAY_REAL(local_gbps, 1e-6, 1e6),
    MAY_REAL(sum_gbps, 1e-6, 1e6),
    MAY_REAL(visit_us, 0, 1e6),
    MAY_REAL(add_us, 0, 1e6),
    MAY_REAL(more_add_us, 1e-6, 1e6),
    MAY_REAL(amid_part, 1, 1e3),
    MAY_REAL(here_us, 1e-6, 1e6),
    MAY_REAL(onto_us, 1e-6, 1e6),
    MAY_REAL(onto_part, 1, 100),
    MAY_REAL(landed_us, 1e-6, 1e6),
    MAY_REAL(idle_part, 0, 0.95),
    MAY_REAL(mem_part, 0, 1),
    MAY_REAL(asked_cols, 0, 1e6),
    MAY_REAL(fed_part, 0.05, 1),
    MAY_REAL(odd_gbps, 1e-6, 1e6),
    MAY_REAL(piece_us, 0, 1e6),
    MAY_REAL(bias_us, 0, 1e6),
    MAY_REAL(relu_us, 0, 1e6),
    MAY_REAL(gate_us, 0, 1e6),
    MAY_REAL(sm_gbps, 1e-6, 1e6),
    MAY_REAL(take_gbps, 1e-6, 1e6),
    MAY_REAL(take_us, 1e-6, 1e6),
    MAY_REAL(stage_us, 0, 1e6),
    MAY_REAL(stage_least_us, 0, 1e6),
    MAY_REAL(patch_us, 0, 1e6),
    MAY_REAL(cache_mb, 1e-6, 1e6),
    MAY_REAL(vendor, 0.01, 10),
    MAY_REAL(burst, 1, 10),
    MAY_REAL(vendor_burst, 1, 10),
    MAY_REAL(burst_us, 0, 999999999),
    MAY_REAL(gemm_by_copy, 1, 100),
    MAY_REAL(vendor_by_copy, 1, 100),
    MAY_REAL(push_kb, 0, 1e6),
    MAY_REAL(push_us, 0, 1e6),
    MAY_REAL(push_part, 0, 0.95),
    MAY_REAL(courier_gbps, 1e-6, 1e6),
    MAY_REAL(turn_us, 0, 1e6),
    MAY_REAL(ragged_us, 0, 1e6),
    MAY_REAL(ragged_gbps, 1e-6, 1e6),
    MAY_REAL(gemm_by_coll, 1, 100),
    MAY_REAL(copy_by_gemm, 1, 100),
    MAY_REAL(coll_by_gemm, 1, 100),
    MAY_WHOLE(pool, 1, 4096),
    MAY_REAL(pack_gbps, 1e-6, 1e6),
    MAY_REAL(unit_us, 0, 1e6),
    MAY_REAL(work_row, 0, 1e6),
    MAY_REAL(work_col, 0, 1e6),
    MAY_REAL(work_element, 0, 1e6),
};

static const double most_tile_rate = 2; /* of the first one's */
enum { FIELDS = sizeof fields / sizeof fields[0], MAX_TILE = 4096 };

#define W(word) #word /* a strategy has this name, and the core names none */
static const char *const topologies[SG_TOPOLOGIES] = {"switch", "mesh", W(ring), "pcie", "nodes"};
static const char *const colls[SG_MACHINE_CURVES] = {
    "all_gather", "reduce_scatter",     "all_reduce",
    "all_to_all", "all_gather_windows", "reduce_scatter_windows"};

#define ACCEPTED                                                                                   \
    "name, ranks, sms, gemm_tflops_f32, gemm_tflops_bf16, gemm_tflops_f16, mem_gbps, copy_gbps, "  \
    "copy_us, store_gbps, store_us, coll_gbps, coll_us, coll_sms, flag_us, launch_us, join_us, "   \
    "epilogue_us, tile or a line that may be left out (docs/machine.md)"

/* ---- Reading --------------------------------------------------------------------------------- */

static shingle_status take_end(sg_machine_reader *r)
{
    sg_machine_skip_blanks(r);
    return sg_machine_at_end(r)
               ? SHINGLE_OK
               : sg_machine_fail_at(r, r->at, "the end of the line or a # comment expected");
}

/* The rest of the line, blanks at its end left out. */
static shingle_status take_name(sg_machine_reader *r, sg_machine *m)
{
    size_t length = 0;
    for (size_t i = 0; !sg_machine_at_end(r); i++, r->at++) {
        const char c = *r->at;
        if (!sg_machine_is_blank(c) && (c < '!' || c > '~'))
            return sg_machine_fail_at(r, r->at, "printable ASCII makes a name");
        if (i + 1 < sizeof m->name) m->name[i] = c;
        if (!sg_machine_is_blank(c)) length = i + 1;
        if (length + 1 > sizeof m->name)
            return sg_machine_fail_at(r, r->at, "a name of at most 47 letters expected");
    }
    if (length == 0) return sg_machine_fail_at(r, r->at, "a name for the machine expected");
    /* Blanks behind it are no part of it. */
    memset(m->name + length, '\0', sizeof m->name - length);
    return SHINGLE_OK;
}

/* A part of something, if there is one more word in the line. */
static shingle_status take_tile_part(sg_machine_reader *r, const char *name, double most,
                                     double *part)
{
    sg_machine_skip_blanks(r);
    return sg_machine_at_end(r) ? SHINGLE_OK
                                : sg_machine_take_number(
                                      r, &(sg_machine_range){name, false, 0.01, most}, '\0', part);
}

/* "128x256", or "128x128 0.9" where the shape reaches less than the machine's rate, or "128x192 0.9
 * 0.4" where other tiles hide the rest of what addends take. */
static shingle_status take_tile(sg_machine_reader *r, sg_machine *m)
{
    static const sg_machine_range sides = {"a side of a tile", true, 1, MAX_TILE};
    if (m->tiles == SG_TILES) return sg_machine_fail_at(r, r->at, "at most 8 tile lines expected");
    double side[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        SG_TRY(sg_machine_take_number(r, &sides, i == 0 ? 'x' : '\0', &side[i]));
        if (i == 0 && *r->at != 'x')
            return sg_machine_fail_at(r, r->at, "\"x\" and the columns of the tile expected");
        if (i == 0) r->at++;
    }
    double rate = 1;
    double late = 1;
    SG_TRY(take_tile_part(r, "the rate of a tile", most_tile_rate, &rate));
    SG_TRY(take_tile_part(r, "the part of a tile's addends", 1, &late));
    m->tile[m->tiles++] = (sg_tile){(int32_t)side[0], (int32_t)side[1], rate, late};
    return SHINGLE_OK;
}

/* "1:48 4:79.5 ...", up to the end of the line. */
static shingle_status take_curve(sg_machine_reader *r, double least, double most, sg_curve *curve)
{
    const sg_machine_range points = {"a point of the curve", false, 0, 999999999};
    const sg_machine_range values = {"a value of the curve", false, least, most};
    if (curve->points > 0)
        return sg_machine_fail_at(r, r->at, "this curve stands here a second time; once is right");
    do {
        sg_point point;
        const char *const start = r->at;
        if (curve->points == SG_POINTS)
            return sg_machine_fail_at(r, start, "at most 10 points expected");
        SG_TRY(sg_machine_take_number(r, &points, ':', &point.at));
        if (curve->points > 0 && point.at <= curve->point[curve->points - 1].at)
            return sg_machine_fail_at(r, start, "points in ascending order expected");
        if (*r->at != ':')
            return sg_machine_fail_at(r, r->at, "\":\" and the value at this point expected");
        r->at++;
        SG_TRY(sg_machine_take_number(r, &values, '\0', &point.value));
        sg_machine_skip_blanks(r);
        curve->point[curve->points++] = point;
    } while (!sg_machine_at_end(r));
    return SHINGLE_OK;
}

/* WHAT is one of COUNT words. */
static shingle_status take_word(sg_machine_reader *r, const char *what, const char *const *words,
                                int count, const char *accepted, int *index_out)
{
    const char *const word = r->at;
    while (!sg_machine_at_end(r) && !sg_machine_is_blank(*r->at)) r->at++;
    const size_t length = (size_t)(r->at - word);
    for (int i = 0; i < count; i++) {
        if (strlen(words[i]) != length || memcmp(word, words[i], length) != 0) continue;
        *index_out = i;
        return SHINGLE_OK;
    }
    return sg_machine_fail_at(r, word, "%s is \"%.*s\"; %s is accepted", what,
                              (int)sg_min((int64_t)length, 40), word, accepted);
}

static shingle_status take_coll_curve(sg_machine_reader *r, sg_machine *m)
{
    int kind = 0;
    SG_TRY(take_word(r, "coll_curve", colls, SG_MACHINE_CURVES,
                     "all_gather, reduce_scatter, all_reduce, all_to_all, all_gather_windows or "
                     "reduce_scatter_windows",
                     &kind));
    sg_machine_skip_blanks(r);
    SG_TRY(take_curve(r, 1e-6, 1e6, &m->coll_curve[kind]));
    for (int i = 0; i < m->coll_curve[kind].points; i++) m->coll_curve[kind].point[i].at *= 1e6;
    return SHINGLE_OK;
}

static shingle_status take_topology(sg_machine_reader *r, sg_machine *m)
{
    int index = 0;
    SG_TRY(take_word(r, "topology", topologies, SG_TOPOLOGIES, "switch, mesh, ring, pcie or nodes",
                     &index));
    m->topology = (sg_topology)index;
    return SHINGLE_OK;
}

static shingle_status take_field(sg_machine_reader *r, const field *f, sg_machine *m)
{
    double value = 0;
    SG_TRY(sg_machine_take_number(r, &(sg_machine_range){f->name, f->whole, f->least, f->most},
                                  '\0', &value));
    char *const to = (char *)m + f->offset;
    if (f->whole) {
        const int whole = (int)value;
        memcpy(to, &whole, sizeof whole);
    } else {
        memcpy(to, &value, sizeof value);
    }
    return SHINGLE_OK;
}

static bool is_word(const char *word, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(word, name, length) == 0;
}

enum { SEEN_NAME = FIELDS, SEEN_TOPOLOGY, SEEN_LINES };

/* SEEN: of SEEN_LINES lines that may stand once, where they do; none at NULL. */
static shingle_status take_once(sg_machine_reader *r, const char *word, int line,
                                sg_machine_reader *seen)
{
    if (seen[line].at != NULL)
        return sg_machine_fail_at(r, word, "%.*s stands here a second time; once is right",
                                  (int)strcspn(word, " \t\r\n#"), word);
    seen[line] = *r;
    seen[line].at = word;
    return SHINGLE_OK;
}

/* One line that is not empty. */
static shingle_status take_line(sg_machine_reader *r, sg_machine *m, sg_machine_reader *seen)
{
    const char *const word = r->at;
    while (!sg_machine_at_end(r) && !sg_machine_is_blank(*r->at)) r->at++;
    const size_t length = (size_t)(r->at - word);
    sg_machine_skip_blanks(r);
    if (is_word(word, length, "tile")) {
        SG_TRY(take_tile(r, m));
    } else if (is_word(word, length, "name")) {
        SG_TRY(take_once(r, word, SEEN_NAME, seen));
        SG_TRY(take_name(r, m));
    } else if (is_word(word, length, "topology")) {
        SG_TRY(take_once(r, word, SEEN_TOPOLOGY, seen));
        SG_TRY(take_topology(r, m));
    } else if (is_word(word, length, "coll_curve")) {
        SG_TRY(take_coll_curve(r, m));
    } else if (is_word(word, length, "coll_part")) {
        SG_TRY(take_curve(r, 0.01, 1, &m->coll_part));
    } else {
        int i = 0;
        while (i < FIELDS && !is_word(word, length, fields[i].name)) i++;
        if (i == FIELDS)
            return sg_machine_fail_at(
                r, word, "\"%.*s\" is no line of a machine file; " ACCEPTED " is accepted",
                (int)sg_min((int64_t)length, 40), word);
        SG_TRY(take_once(r, word, i, seen));
        SG_TRY(take_field(r, &fields[i], m));
    }
    return take_end(r);
}

/* Does line NAME speak of a single topology? */
static bool is_of_one(const char *name, sg_topology *topology_out)
{
    static const struct {
        const char *name;
        sg_topology topology;
    } of[] = {{"host_gbps", SG_PCIE},   {"numa_ranks", SG_PCIE},  {"numa_gbps", SG_PCIE},
              {"host_staged", SG_PCIE}, {"node_ranks", SG_NODES}, {"nic_gbps", SG_NODES},
              {"node_us", SG_NODES}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        if (strcmp(of[i].name, name) != 0) continue;
        *topology_out = of[i].topology;
        return true;
    }
    return false;
}

/* What the topology needs, and has no number for. */
static const char *missing_link(const sg_machine *m)
{
    if (m->topology == SG_NODES && m->node_ranks == 0) return "node_ranks";
    if (m->topology == SG_NODES && m->nic_gbps <= 0) return "nic_gbps";
    if ((m->topology == SG_MESH || m->topology == SG_RING) && m->link_gbps <= 0) return "link_gbps";
    return NULL;
}

static bool is_zero(const sg_machine *m, const field *f)
{
    const char *const at = (const char *)m + f->offset;
    return f->whole ? *(const int *)(const void *)at == 0 : *(const double *)(const void *)at <= 0;
}

/* What no link of the topology asks for would change nothing: one of the two lines is wrong. */
static shingle_status refuse_unused(const sg_machine *m, const sg_machine_reader *seen)
{
    for (int i = 0; i < FIELDS; i++) {
        sg_topology of = SG_PCIE;
        if (seen[i].at == NULL || !is_of_one(fields[i].name, &of) || m->topology == of) continue;
        if (is_zero(m, &fields[i])) continue; /* as if it were left out */
        return sg_machine_fail_at(&seen[i], seen[i].at,
                                  "topology %s has no %s; topology %s is accepted with it",
                                  topologies[m->topology], fields[i].name, topologies[of]);
    }
    return SHINGLE_OK;
}

static shingle_status check_all(const sg_machine_reader *r, const sg_machine *m,
                                const sg_machine_reader *seen)
{
    const char *missing = seen[SEEN_NAME].at != NULL ? NULL : "name";
    for (int i = FIELDS; i-- > 0;)
        if (fields[i].needed && seen[i].at == NULL) missing = fields[i].name;
    if (m->tiles == 0 && missing == NULL) missing = "tile";
    if (missing != NULL)
        return sg_fail(SHINGLE_EINVAL, "%s:%d:1: the line \"%s VALUE\" is missing", r->file,
                       r->line, missing);
    missing = missing_link(m);
    if (missing != NULL)
        return sg_fail(SHINGLE_EINVAL,
                       "%s:%d:1: the line \"%s VALUE\" is missing, which topology %s needs",
                       r->file, r->line, missing, topologies[m->topology]);
    SG_TRY(refuse_unused(m, seen));
    if (m->coll_sms >= m->sms && m->coll_sms > 0)
        return sg_fail(SHINGLE_EINVAL, "%s:%d:1: coll_sms is %d; less than sms %d is possible",
                       r->file, r->line, m->coll_sms, m->sms);
    if (m->topology == SG_RING && m->ranks > SG_RING_RANKS)
        return sg_fail(SHINGLE_EINVAL, "%s:%d:1: a ring of %d ranks; at most %d are possible",
                       r->file, r->line, m->ranks, SG_RING_RANKS);
    return SHINGLE_OK;
}

shingle_status sg_machine_parse(const char *text, const char *name, sg_machine *machine_out)
{
    sg_machine_reader r = {name, text, text, 1};
    sg_machine m;
    memset(&m, 0, sizeof m);
    sg_machine_reader seen[SEEN_LINES] = {{.at = NULL}};
    for (;;) {
        sg_machine_skip_blanks(&r);
        if (!sg_machine_at_end(&r)) SG_TRY(take_line(&r, &m, seen));
        while (*r.at != '\0' && *r.at != '\n') r.at++;
        if (*r.at == '\0') break;
        r.line_start = ++r.at;
        r.line++;
    }
    SG_TRY(check_all(&r, &m, seen));
    *machine_out = m;
    return SHINGLE_OK;
}

shingle_status sg_machine_read(const char *name, sg_machine *machine_out)
{
    char path[PATH_MAX];
    char *text = NULL;
    size_t bytes = 0;
    SG_TRY(shingle_file_find(SHINGLE_MACHINES, name, path, sizeof path));
    SG_TRY(sg_disk_read(path, INT64_C(1) << 20, &text, &bytes));
    shingle_status status = SHINGLE_OK;
    if (strlen(text) != bytes)
        status = sg_fail(SHINGLE_EINVAL, "%s: a byte of value 0; a machine file is text", path);
    else if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
        status =
            sg_fail(SHINGLE_EINVAL,
                    "%s: a byte order mark at its start; a machine file is text without one", path);
    else
        status = sg_machine_parse(text, path, machine_out);
    free(text);
    return status;
}

/* ---- Printing -------------------------------------------------------------------------------- */

static void print_curve(const sg_curve *curve, const char *name, double unit, sg_text *t)
{
    if (curve->points == 0) return;
    sg_text_add(t, "%s", name);
    for (int i = 0; i < curve->points; i++) {
        sg_text_add(t, " ");
        sg_machine_print_number(curve->point[i].at / unit, t);
        sg_text_add(t, ":");
        sg_machine_print_number(curve->point[i].value, t);
    }
    sg_text_add(t, "\n");
}

static void print_links(const sg_machine *m, sg_text *t)
{
    if (m->topology != SG_SWITCH) sg_text_add(t, "topology %s\n", topologies[m->topology]);
    for (int kind = 0; kind < SG_MACHINE_CURVES; kind++) {
        char name[40] = "";
        sg_text line = {name, sizeof name, 0};
        sg_text_add(&line, "coll_curve %s", colls[kind]);
        print_curve(&m->coll_curve[kind], name, 1e6, t);
    }
    print_curve(&m->coll_part, "coll_part", 1, t);
}

size_t sg_machine_print(const sg_machine *m, char *text, size_t room)
{
    sg_text t = {text, room, 0};
    if (room > 0) text[0] = '\0';
    sg_text_add(&t, "name %s\n", m->name);
    for (int i = 0; i < FIELDS; i++) {
        const char *const from = (const char *)m + fields[i].offset;
        double value = 0;
        int whole = 0;
        if (fields[i].whole)
            memcpy(&whole, from, sizeof whole);
        else
            memcpy(&value, from, sizeof value);
        if (!fields[i].needed && (fields[i].whole ? whole == 0 : value <= 0)) continue;
        sg_text_add(&t, "%s ", fields[i].name);
        sg_machine_print_number(fields[i].whole ? whole : value, &t);
        sg_text_add(&t, "\n");
    }
    for (int i = 0; i < m->tiles; i++) {
        sg_text_add(&t, "tile %dx%d", m->tile[i].m, m->tile[i].n);
        const bool late = m->tile[i].late > 0 && m->tile[i].late != 1;
        if (late || (m->tile[i].rate > 0 && m->tile[i].rate != 1)) {
            sg_text_add(&t, " ");
            sg_machine_print_number(m->tile[i].rate > 0 ? m->tile[i].rate : 1, &t);
        }
        if (late) {
            sg_text_add(&t, " ");
            sg_machine_print_number(m->tile[i].late, &t);
        }
        sg_text_add(&t, "\n");
    }
    print_links(m, &t);
    return t.length;
}

/* ---- Numbers by name ------------------------------------------------------------------------- */

/* Parts of what is whole: of the first tile's rate, of a collective's bandwidth. */
static double *part_number(sg_machine *m, const char *name)
{
    char one[32] = "";
    for (int i = 0; i < m->tiles; i++) {
        sg_text text = {one, sizeof one, 0};
        sg_text_add(&text, "tile %dx%d", m->tile[i].m, m->tile[i].n);
        if (strcmp(one, name) == 0) return &m->tile[i].rate;
    }
    for (int i = 0; i < m->coll_part.points; i++) {
        sg_text text = {one, sizeof one, 0};
        sg_text_add(&text, "coll_part %.0f", m->coll_part.point[i].at);
        if (strcmp(one, name) == 0) return &m->coll_part.point[i].value;
    }
    return NULL;
}

double *sg_machine_number(sg_machine *m, const char *name, double *least_out, double *most_out)
{
    double *number = part_number(m, name);
    double least = 0.01;
    double most = number != NULL && strncmp(name, "tile", 4) == 0 ? most_tile_rate : 1;
    for (int i = 0; i < FIELDS && number == NULL; i++) {
        if (fields[i].whole || strcmp(fields[i].name, name) != 0) continue;
        number = (double *)(void *)((char *)m + fields[i].offset);
        least = fields[i].least;
        most = fields[i].most;
    }
    if (number != NULL && least_out != NULL) *least_out = least;
    if (number != NULL && most_out != NULL) *most_out = most;
    return number;
}

/* ---- Names ----------------------------------------------------------------------------------- */

const char *sg_topology_name(sg_topology topology)
{
    return topologies[topology];
}

/* ---- Public calls ---------------------------------------------------------------------------- */

void sg_machine_handle(const sg_machine *numbers, struct shingle_machine *handle_out)
{
    handle_out->numbers = *numbers;
    sg_machine_print(numbers, handle_out->text, sizeof handle_out->text);
}

shingle_status shingle_machine_load(const char *path, shingle_machine **machine_out)
{
    if (sg_given(path) == NULL || machine_out == NULL)
        return sg_fail(SHINGLE_EINVAL, "no path or no place for the machine; both are needed");
    sg_machine numbers;
    SG_TRY(sg_machine_read(path, &numbers));
    shingle_machine *const machine = malloc(sizeof *machine);
    if (machine == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for a machine");
    sg_machine_handle(&numbers, machine);
    *machine_out = machine;
    return SHINGLE_OK;
}

void shingle_machine_free(shingle_machine *machine)
{
    free(machine);
}

const char *shingle_machine_text(const shingle_machine *machine)
{
    return machine != NULL ? machine->text : "";
}
