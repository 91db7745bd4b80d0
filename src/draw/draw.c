/* draw.c -- see draw.h; and the public calls that write timelines. */
#include "draw/draw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/disk.h"

/* ---- Numbers --------------------------------------------------------------------------------- */

sg_draw_number sg_draw_fixed(double value, int digits)
{
    static const int64_t ten[] = {1, 10, 100, 1000};
    sg_draw_number n;
    if (!(value > -1e15 && value < 1e15)) value = 0;
    const int64_t scaled = (int64_t)(value * (double)ten[digits] + (value < 0 ? -0.5 : 0.5));
    const uint64_t size = (uint64_t)(scaled < 0 ? -scaled : scaled);
    const uint64_t whole = size / (uint64_t)ten[digits];
    uint64_t part = size % (uint64_t)ten[digits];
    int length =
        snprintf(n.text, sizeof n.text, "%s%llu", scaled < 0 ? "-" : "", (unsigned long long)whole);
    if (part == 0) return n;
    int places = digits;
    for (; part % 10 == 0; part /= 10) places--;
    length += snprintf(n.text + length, sizeof n.text - (size_t)length, ".%0*llu", places,
                       (unsigned long long)part);
    return n;
}

sg_draw_number sg_draw_figures(double value, int digits)
{
    double step = 1;
    int places = digits - 1;
    while (value >= 10 * step && places > 0) {
        step *= 10;
        places--;
    }
    return sg_draw_fixed(value, places > 3 ? 3 : places);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* Bytes of the character at TEXT, 0 if it is not UTF-8. */
static size_t character(const unsigned char *text)
{
    if (text[0] < 0x80) return 1;
    const size_t length = text[0] >= 0xf0 && text[0] < 0xf5 ? 4
                          : text[0] >= 0xe0                 ? 3
                          : text[0] >= 0xc2                 ? 2
                                                            : 0;
    if (text[0] >= 0xf5) return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80) return 0;
    /* Overlong forms and surrogates. */
    if (length == 3 && ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f)))
        return 0;
    if (length == 4 && ((text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f)))
        return 0;
    return length;
}

typedef void (*special_fn)(sg_text *out, unsigned char c);

static void xml_special(sg_text *out, unsigned char c)
{
    switch (c) {
    case '<': sg_text_add(out, "&lt;"); break;
    case '>': sg_text_add(out, "&gt;"); break;
    case '&': sg_text_add(out, "&amp;"); break;
    case '"': sg_text_add(out, "&quot;"); break;
    default: sg_text_add(out, "%c", c < 0x20 || c == 0x7f ? ' ' : c); break;
    }
}

static void json_special(sg_text *out, unsigned char c)
{
    if (c == '"' || c == '\\')
        sg_text_add(out, "\\%c", c);
    else if (c < 0x20)
        sg_text_add(out, "\\u%04x", c);
    else
        sg_text_add(out, "%c", c);
}

static void add_text(sg_text *out, const char *text, size_t most, special_fn special)
{
    const unsigned char *at = (const unsigned char *)text;
    const bool cut = strlen(text) > most;
    const unsigned char *const end = at + (cut ? most - 3 : strlen(text));
    while (*at != '\0') {
        const size_t length = character(at);
        if (at + (length > 0 ? length : 1) > end) break;
        if (length > 1)
            sg_text_add(out, "%.*s", (int)length, (const char *)at);
        else
            special(out, length == 1 ? *at : '?');
        at += length > 0 ? length : 1;
    }
    if (cut) sg_text_add(out, "...");
}

void sg_draw_xml(sg_text *out, const char *text, size_t most)
{
    add_text(out, text, most, xml_special);
}

void sg_draw_json(sg_text *out, const char *text, size_t most)
{
    add_text(out, text, most, json_special);
}

/* ---- The public calls ------------------------------------------------------------------------ */

static shingle_status print(const shingle_timeline *const *timeline, int count,
                            shingle_picture picture, sg_text *out)
{
    if (timeline == NULL) return sg_fail(SHINGLE_EINVAL, "no timelines to draw");
    if (count < 1 || count > SG_DRAW_MOST)
        return sg_fail(SHINGLE_EINVAL, "%d timelines; 1 to %d fit into one picture", count,
                       (int)SG_DRAW_MOST);
    for (int i = 0; i < count; i++)
        if (timeline[i] == NULL)
            return sg_fail(SHINGLE_EINVAL, "timeline %d of %d is NULL", i, count);
    if (picture != SHINGLE_SVG && picture != SHINGLE_TRACE)
        return sg_fail(SHINGLE_EINVAL, "picture %d; SHINGLE_SVG or SHINGLE_TRACE is accepted",
                       (int)picture);
    return picture == SHINGLE_SVG ? sg_svg_print(timeline, count, out)
                                  : sg_perfetto_print(timeline, count, out);
}

int64_t shingle_timeline_text(const shingle_timeline *const *timeline, int count,
                              shingle_picture picture, char *text, size_t size)
{
    sg_text out = {text, text != NULL ? size : 0, 0};
    if (out.room > 0) text[0] = '\0';
    if (print(timeline, count, picture, &out) != SHINGLE_OK) return -1;
    return (int64_t)out.length;
}

static bool ends_in(const char *path, const char *ending)
{
    const size_t length = strlen(path);
    const size_t end = strlen(ending);
    return length > end && strcmp(path + length - end, ending) == 0;
}

shingle_status shingle_timeline_write(const shingle_timeline *const *timeline, int count,
                                      const char *path)
{
    if (path == NULL || (!ends_in(path, ".svg") && !ends_in(path, ".json")))
        return sg_fail(SHINGLE_EINVAL,
                       "file \"%s\" for a timeline; a name in front of .svg or .json is accepted",
                       path != NULL ? path : "");
    const shingle_picture picture = ends_in(path, ".svg") ? SHINGLE_SVG : SHINGLE_TRACE;
    sg_text length = {NULL, 0, 0};
    SG_TRY(print(timeline, count, picture, &length));
    char *const text = malloc(length.length + 1);
    shingle_status status = SHINGLE_OK;
    if (text == NULL)
        status = sg_fail(SHINGLE_ENOMEM, "no memory for a picture of %zu bytes", length.length);
    sg_text out = {text, text != NULL ? length.length + 1 : 0, 0};
    if (status == SHINGLE_OK) status = print(timeline, count, picture, &out);
    if (status == SHINGLE_OK) status = sg_disk_replace(path, text, out.length);
    free(text);
    return status;
}
