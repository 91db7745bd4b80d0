/* Tests of svg.c, svg_track.c and draw.c: the picture is XML that is closed where it is opened, its
 * texts do not lie over each other, its size does not grow with the number of spans, and files
 * appear complete or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "draw/draw.h"
#include "timelines.h"

static char *picture_of(shingle_timeline *const *timeline, int count)
{
    return text_of(timeline, count, SHINGLE_SVG);
}

/* ---- XML ------------------------------------------------------------------------------------- */

/* Tags close in order, attributes are quoted, no bare & or <. */
static void is_xml(const char *text)
{
    enum { DEEP = 16, NAME = 24 };
    char open[DEEP][NAME];
    int depth = 0;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '&') {
            const size_t length = strcspn(at, ";");
            assert_in_range(length, 2, 6);
        }
        if (*at != '<') continue;
        const bool closes = at[1] == '/';
        const char *const name = at + 1 + closes;
        const size_t length = strcspn(name, " >/");
        const char *const end = strchr(at, '>');
        assert_non_null(end);
        assert_in_range(length, 1, NAME - 1);
        int quotes = 0;
        for (const char *c = at; c < end; c++) quotes += *c == '"';
        assert_int_equal(quotes % 2, 0);
        if (closes) {
            assert_true(depth > 0);
            depth--;
            assert_int_equal(strlen(open[depth]), length);
            assert_memory_equal(open[depth], name, length);
        } else if (end[-1] != '/') {
            assert_true(depth < DEEP);
            memcpy(open[depth], name, length);
            open[depth++][length] = '\0';
        }
        at = end;
    }
    assert_int_equal(depth, 0);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
}

/* ---- Texts do not overlap -------------------------------------------------------------------- */

typedef struct box {
    double x0, x1, y0, y1;
    char text[64];
} box;

/* Boxes of all texts on the page itself; of the legend's, which are moved by their group, too. */
static int find_texts(const char *svg, box *list, int room)
{
    int count = 0;
    double move_x = 0;
    double move_y = 0;
    for (const char *at = svg; (at = strchr(at, '<')) != NULL; at++) {
        if (sscanf(at, "<g transform=\"translate(%lf %lf)\"", &move_x, &move_y) == 2) continue;
        if (strncmp(at, "</g>", 4) == 0) move_x = move_y = 0;
        double x = 0;
        double y = 0;
        char class[40] = "";
        if (sscanf(at, "<text x=\"%lf\" y=\"%lf\" class=\"%39[^\"]\"", &x, &y, class) < 2) continue;
        const char *from = strchr(at, '>') + 1;
        box b = {.text = ""};
        size_t length = 0;
        size_t bytes = 0;
        for (; strncmp(from, "</text>", 7) != 0; from++) {
            if (*from == '<') {
                from = strchr(from, '>');
                continue;
            }
            if (((unsigned char)*from & 0xc0) != 0x80) length++;
            if (bytes + 1 < sizeof b.text) b.text[bytes++] = *from;
        }
        const double size = strstr(class, "title")   ? 15
                            : strstr(class, "head")  ? 14
                            : strstr(class, "small") ? 9
                                                     : 11;
        const bool bold = strstr(class, "name") || strstr(class, "title") || strstr(class, "halo");
        const double width = (double)length * size * (bold ? 0.62 : 0.54);
        b.x0 = x + move_x -
               (strstr(class, "right")    ? width
                : strstr(class, "centre") ? width / 2
                                          : 0);
        b.x1 = b.x0 + width;
        b.y1 = y + move_y;
        b.y0 = b.y1 - size * 0.75;
        assert_true(count < room);
        list[count++] = b;
    }
    return count;
}

static void texts_are_apart(const char *svg)
{
    enum { ROOM = 4000 };
    static box list[ROOM];
    double width = 0;
    assert_int_equal(sscanf(strstr(svg, "width="), "width=\"%lf\"", &width), 1);
    const int count = find_texts(svg, list, ROOM);
    assert_true(count > 10);
    for (int i = 0; i < count; i++) {
        const box *const a = &list[i];
        if (a->x0 < -1 || a->x1 > width + 1) fail_msg("\"%s\" leaves the page", a->text);
        for (int j = 0; j < i; j++) {
            const box *const b = &list[j];
            if (a->x0 < b->x1 && b->x0 < a->x1 && a->y0 < b->y1 && b->y0 < a->y1)
                fail_msg("\"%s\" lies over \"%s\"", a->text, b->text);
        }
    }
}

/* ---- Pictures -------------------------------------------------------------------------------- */

static void pictures_are_sound(void **state)
{
    (void)state;
    static const char *const asked[][2] = {
        {"gemm:bf16:512x512x64:r1", "serial"},
        {"ag_gemm:bf16:8192x7168x8192:r4", "fused_in"},
        {"gemm_rs:bf16:8192x8192x3584:r8", "fused_out"},
        {"gemm_rs:bf16:4096x2048x512:r16", "ring"},
        {"gemm_ar:bf16:4096x2048x512:r24:bias:gelu", "sliced"},
        {"gemm_rs:f16:300x900x512:r5:rows=100,0,50,150,0", "direct"},
        {"gemm_rs:bf16:4096x2048x512:r64", "ring"},
        {"gemm_rs:bf16:4096x512x64:r200", "serial"},
    };
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        shingle_timeline *both[2] = {predict(asked[i][0], "serial"),
                                     predict(asked[i][0], asked[i][1])};
        char *const svg = picture_of(both, 2);
        is_xml(svg);
        texts_are_apart(svg);
        assert_null(strstr(svg, "http://www.w3.org/1999")); /* nothing is fetched */
        assert_null(strstr(svg, "<script"));
        assert_int_equal(strstr(svg, "ranks shown") != NULL, both[0]->problem.ranks > 64);
        free(svg);
        shingle_timeline_free(both[0]);
        shingle_timeline_free(both[1]);
    }
}

/* Lines that lie close together: a strategy far slower than its bound, by whatever factor. */
static void labels_of_lines_are_apart(void **state)
{
    (void)state;
    for (double slower = 1; slower < 100; slower *= 1.07) {
        shingle_timeline *const t = predict("gemm_rs:bf16:2048x1024x512:r4", "ring");
        t->gemm_us = t->us / slower;
        t->coll_us = t->gemm_us * 0.7;
        t->serial_us = t->gemm_us * 1.7;
        char *const svg = picture_of(&t, 1);
        texts_are_apart(svg);
        free(svg);
        shingle_timeline_free(t);
    }
}

/* What is exposed is marked with its length: a serial plan's whole collective. */
static void exposed_time_is_marked(void **state)
{
    (void)state;
    shingle_timeline *const t = predict("gemm_rs:bf16:8192x8192x3584:r4", "serial");
    char *const svg = picture_of(&t, 1);
    char label[40];
    double longest = 0;
    for (int32_t i = 0; i < t->gaps; i++)
        longest = fmax(longest, t->gap[i].end_us - t->gap[i].begin_us);
    snprintf(label, sizeof label, ">%.0f \xc2\xb5s</text>", longest);
    if (strstr(svg, label) == NULL) fail_msg("no label %s", label);
    int marks = 0;
    for (const char *at = svg; (at = strstr(at, "class=\"gap\" d=\"M")) != NULL; at++) marks++;
    assert_true(marks >= 4);
    assert_non_null(strstr(svg, "class=\"bound\" d=\"M"));
    assert_non_null(strstr(svg, "class=\"serial\" d=\"M"));
    free(svg);
    shingle_timeline_free(t);
}

/* A hundred thousand spans make no larger file than the pixels ask for. */
static void size_is_bounded(void **state)
{
    (void)state;
    shingle_timeline *const t = predict("gemm_rs:bf16:512x512x64:r2", "serial");
    for (int i = 0; i < 100000; i++) {
        const int rank = i % 2;
        const sg_timeline_span span = {.begin_us = i * 0.01,
                                       .end_us = i * 0.01 + 0.004,
                                       .share = 1,
                                       .owners = {UINT64_C(1) << (i / 7 % 2), i / 7 % 2},
                                       .step = i,
                                       .patch = i,
                                       .tiles = 1,
                                       .rank = (int16_t)rank,
                                       .peer = -1,
                                       .does = SG_DOES_PRODUCT};
        assert_true(sg_timeline_add(t, &span));
    }
    t->us = t->rank_us[0] = t->rank_us[1] = 1000;
    assert_int_equal(sg_timeline_end(t), SHINGLE_OK);
    const shingle_timeline *const list[] = {t};
    const int64_t length = shingle_timeline_text(list, 1, SHINGLE_SVG, NULL, 0);
    assert_in_range(length, 1000, 700000);
    shingle_timeline_free(t);
}

static void texts_are_cut_not_overrun(void **state)
{
    (void)state;
    shingle_timeline *const t = predict("gemm_rs:bf16:512x512x64:r2", "ring");
    const shingle_timeline *const list[] = {t};
    strcpy(t->machine, "<a> & \"b\" \xff");
    char *const all = picture_of((shingle_timeline *const *)&t, 1);
    is_xml(all);
    assert_non_null(strstr(all, "&lt;a&gt; &amp; &quot;b&quot; ?"));
    char cut[100];
    memset(cut, 'x', sizeof cut);
    assert_int_equal(shingle_timeline_text(list, 1, SHINGLE_SVG, cut, 60), strlen(all));
    assert_int_equal(strlen(cut), 59);
    assert_memory_equal(cut, all, 59);
    for (size_t i = 60; i < sizeof cut; i++) assert_int_equal(cut[i], 'x');
    free(all);
    shingle_timeline_free(t);
}

static void numbers_are_printed_short(void **state)
{
    (void)state;
    assert_string_equal(sg_draw_fixed(0, 3).text, "0");
    assert_string_equal(sg_draw_fixed(1.25, 1).text, "1.3");
    assert_string_equal(sg_draw_fixed(-1.2504, 3).text, "-1.25");
    assert_string_equal(sg_draw_fixed(-0.0004, 3).text, "0");
    assert_string_equal(sg_draw_fixed(1234.0005, 2).text, "1234");
    assert_string_equal(sg_draw_fixed(0.05, 2).text, "0.05");
    assert_string_equal(sg_draw_fixed((double)NAN, 2).text, "0");
    assert_string_equal(sg_draw_fixed((double)INFINITY, 2).text, "0");
    assert_string_equal(sg_draw_figures(812.44, 3).text, "812");
    assert_string_equal(sg_draw_figures(81.244, 3).text, "81.2");
    assert_string_equal(sg_draw_figures(8.1244, 3).text, "8.12");
    assert_string_equal(sg_draw_figures(123456, 3).text, "123456");
}

/* ---- Files ----------------------------------------------------------------------------------- */

static int files_in(const char *folder)
{
    DIR *const dir = opendir(folder);
    assert_non_null(dir);
    int count = 0;
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void files_appear_whole_or_not(void **state)
{
    (void)state;
    char folder[] = "/tmp/shingle_svg_XXXXXX";
    char path[64];
    struct stat facts;
    assert_non_null(mkdtemp(folder));
    shingle_timeline *const t = predict("gemm_rs:bf16:512x512x64:r2", "ring");
    const shingle_timeline *const list[] = {t};
    const int64_t length = shingle_timeline_text(list, 1, SHINGLE_SVG, NULL, 0);

    snprintf(path, sizeof path, "%s/a.svg", folder);
    for (int i = 0; i < 2; i++) { /* the second time it replaces the first */
        assert_int_equal(shingle_timeline_write(list, 1, path), SHINGLE_OK);
        assert_int_equal(stat(path, &facts), 0);
        assert_int_equal(facts.st_size, length);
        assert_int_equal(files_in(folder), 1);
    }
    snprintf(path, sizeof path, "%s/a.json", folder);
    assert_int_equal(shingle_timeline_write(list, 1, path), SHINGLE_OK);
    assert_int_equal(files_in(folder), 2);

    /* What is replaced keeps its mode. */
    struct stat about;
    snprintf(path, sizeof path, "%s/a.svg", folder);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(shingle_timeline_write(list, 1, path), SHINGLE_OK);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    snprintf(path, sizeof path, "%s/a.png", folder);
    assert_int_equal(shingle_timeline_write(list, 1, path), SHINGLE_EINVAL);
    assert_non_null(strstr(shingle_error(), ".svg or .json"));
    snprintf(path, sizeof path, "%s/none/a.svg", folder);
    assert_int_equal(shingle_timeline_write(list, 1, path), SHINGLE_EIO);
    assert_non_null(strstr(shingle_error(), path));
    assert_int_equal(shingle_timeline_write(list, 1, NULL), SHINGLE_EINVAL);
    assert_int_equal(shingle_timeline_write(list, 0, path), SHINGLE_EINVAL);
    assert_int_equal(shingle_timeline_write(NULL, 1, path), SHINGLE_EINVAL);
    assert_int_equal(shingle_timeline_text(list, SG_DRAW_MOST + 1, SHINGLE_SVG, NULL, 0), -1);
    assert_int_equal(shingle_timeline_text(list, 1, (shingle_picture)7, NULL, 0), -1);
    const shingle_timeline *const none[] = {NULL};
    assert_int_equal(shingle_timeline_text(none, 1, SHINGLE_SVG, NULL, 0), -1);
    /* A name that is taken by a folder: the file cannot appear, and nothing is left. */
    snprintf(path, sizeof path, "%s/b.svg", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(shingle_timeline_write(list, 1, path), SHINGLE_EIO);
    assert_int_equal(files_in(folder), 3);
    rmdir(path);
    snprintf(path, sizeof path, "%s/a.svg", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/a.json", folder);
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
    shingle_timeline_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_are_sound),        cmocka_unit_test(labels_of_lines_are_apart),
        cmocka_unit_test(exposed_time_is_marked),    cmocka_unit_test(size_is_bounded),
        cmocka_unit_test(texts_are_cut_not_overrun), cmocka_unit_test(numbers_are_printed_short),
        cmocka_unit_test(files_appear_whole_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
