/* perfetto.c -- timelines in Chrome's trace format, a JSON object that ui.perfetto.dev and
 * chrome://tracing open.
 *
 *     process   a rank of a timeline            "predicted ring, rank 0"
 *     thread    a track, or a part of it        "compute", "compute 2", "link", "link waits"
 *     X event   a span                          ts and dur in microseconds, three digits
 *     s, f      from the transfer that a rank waited for to the end of that wait
 *
 * Spans of one track may overlap (groups of blocks, workers), which this format does not allow in a
 * thread: each goes to the first part of its track that is free, so that within a thread nothing
 * overlaps and begins only grow. */
#include <stdlib.h>
#include <string.h>

#include "draw/draw.h"

enum {
    PARTS = 64,    /* of a track; more at once share the last one's time */
    KINDS = 2,     /* work and waits have threads of their own */
    MOST_BACK = 64 /* transfers that are looked at to find the one a wait ended with */
};

/* Nanoseconds, so that ends and begins are compared as they are printed. */
static int64_t ns_of(double us)
{
    return (int64_t)(us * 1e3 + 0.5);
}

typedef struct writer {
    sg_text *out;
    int64_t events, flows;
    int32_t *part_of; /* [span]: the part of its track that it stands in */
} writer;

static void begin_event(writer *w)
{
    sg_text_add(w->out, w->events++ > 0 ? ",\n{" : "\n{");
}

static int thread_of(sg_track track, bool waits, int part)
{
    return (((int)track * KINDS + waits) * PARTS) + part + 1;
}

static int process_of(int index, int row)
{
    return index * SG_TIMELINE_RANKS + row + 1;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static void name_process(writer *w, const shingle_timeline *t, int process, int row)
{
    begin_event(w);
    sg_text_add(w->out,
                "\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":\"",
                process);
    sg_text_add(w->out, "%s ", t->measured ? "measured" : "predicted");
    const size_t length = strcspn(t->strategy, "{");
    sg_text_add(w->out, "%.*s, rank %d\"}}", (int)length, t->strategy, t->rank[row]);
    begin_event(w);
    sg_text_add(w->out,
                "\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"tid\":0,\"args\":{"
                "\"sort_index\":%d}}",
                process, process);
}

static void name_thread(writer *w, int process, sg_track track, bool waits, int part)
{
    const int thread = thread_of(track, waits, part);
    begin_event(w);
    sg_text_add(
        w->out,
        "\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s%s",
        process, thread, sg_timeline_track_name(track), waits ? " waits" : "");
    if (part > 0) sg_text_add(w->out, " %d", part + 1);
    sg_text_add(w->out, "\"}}");
    begin_event(w);
    sg_text_add(w->out,
                "\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%d,\"tid\":%d,\"args\":{"
                "\"sort_index\":%d}}",
                process, thread, thread);
}

/* ---- Spans ----------------------------------------------------------------------------------- */

static void print_span(writer *w, const sg_timeline_span *s, int process, int thread, int64_t begin,
                       int64_t end)
{
    begin_event(w);
    sg_text_add(w->out, "\"ph\":\"X\",\"name\":\"%s", sg_timeline_does_name((sg_does)s->does));
    if (s->peer >= 0 && s->does != SG_DOES_COPY)
        sg_text_add(w->out, s->does == SG_DOES_WAIT ? " for %d" : " to %d", s->peer);
    if (s->owners.one >= 0 && s->does != SG_DOES_WAIT)
        sg_text_add(w->out, ", rows of %d", s->owners.one);
    sg_text_add(w->out, "\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%s",
                sg_timeline_does_name((sg_does)s->does), process, thread,
                sg_draw_fixed((double)begin / 1e3, 3).text);
    sg_text_add(w->out, ",\"dur\":%s,\"args\":{\"step\":%d",
                sg_draw_fixed((double)(end - begin) / 1e3, 3).text, s->step);
    if (s->patch >= 0)
        sg_text_add(w->out, ",\"patch\":%d,\"tile\":%d,\"tiles\":%d", s->patch, s->tile0, s->tiles);
    if (s->owners.one >= 0) sg_text_add(w->out, ",\"owner\":%d", s->owners.one);
    if (s->peer >= 0) sg_text_add(w->out, ",\"peer\":%d", s->peer);
    if (s->bytes > 0) sg_text_add(w->out, ",\"bytes\":%lld", (long long)s->bytes);
    sg_text_add(w->out, "}}");
}

/* Puts the spans of a track (its waits or the rest) into parts and prints them, part by part in the
 * order of time. */
static void print_track(writer *w, const shingle_timeline *t, int index, int row, sg_track track,
                        bool waits)
{
    int64_t until[PARTS];
    int parts = 0;
    int32_t first = 0;
    const int process = process_of(index, row);
    const int32_t end = sg_timeline_range(t, row, track, &first);
    for (int32_t i = first; i < end; i++) {
        const sg_timeline_span *const s = &t->span[i];
        if ((s->does == SG_DOES_WAIT) != waits) continue;
        int64_t from = ns_of(s->begin_us);
        int64_t to = ns_of(s->end_us);
        int part = 0;
        while (part < parts && until[part] > from) part++;
        if (part == parts && parts < PARTS) {
            name_thread(w, process, track, waits, part);
            until[parts++] = 0;
        }
        if (part == PARTS) { /* more at once than anybody can look at */
            part--;
            from = until[part];
            if (to < from) to = from;
        }
        until[part] = to;
        w->part_of[i] = part;
        print_span(w, s, process, thread_of(track, waits, part), from, to);
    }
}

/* ---- Flows ----------------------------------------------------------------------------------- */

/* The transfer from the rank of ROW to PEER that ended last before UNTIL_US, or NULL. */
static const sg_timeline_span *find_transfer(const shingle_timeline *t, int row, int peer,
                                             double until_us)
{
    int32_t first = 0;
    int32_t high = sg_timeline_range(t, row, SG_TRACK_LINK, &first);
    int32_t low = first;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (t->span[middle].begin_us < until_us)
            low = middle + 1;
        else
            high = middle;
    }
    const sg_timeline_span *best = NULL;
    for (int32_t i = low - 1; i >= first && i >= low - MOST_BACK; i--) {
        const sg_timeline_span *const s = &t->span[i];
        if (s->peer != peer || s->does == SG_DOES_WAIT || s->end_us > until_us) continue;
        if (best == NULL || s->end_us > best->end_us) best = s;
    }
    return best;
}

static void print_flow_end(writer *w, const char *phase, int process, int thread, double us)
{
    begin_event(w);
    sg_text_add(
        w->out,
        "\"ph\":\"%s\",\"name\":\"arrives\",\"cat\":\"flow\",\"id\":%lld,\"pid\":%d,\"tid\":%d,"
        "\"ts\":%s%s}",
        phase, (long long)w->flows, process, thread, sg_draw_fixed((double)ns_of(us) / 1e3, 3).text,
        phase[0] == 'f' ? ",\"bp\":\"e\"" : "");
}

/* From what ended a wait to the wait. */
static void print_flows(writer *w, const shingle_timeline *t, int index)
{
    for (int32_t i = 0; i < t->spans; i++) {
        const sg_timeline_span *const wait = &t->span[i];
        if (wait->does != SG_DOES_WAIT || wait->peer < 0) continue;
        const int from = sg_timeline_row(t, wait->peer);
        if (from < 0) continue;
        const sg_timeline_span *const sent = find_transfer(t, from, wait->rank, wait->end_us);
        if (sent == NULL || sent->end_us <= wait->begin_us) continue;
        w->flows++;
        print_flow_end(w, "s", process_of(index, from),
                       thread_of((sg_track)sent->track, false, w->part_of[sent - t->span]),
                       sent->begin_us);
        print_flow_end(w, "f", process_of(index, sg_timeline_row(t, wait->rank)),
                       thread_of((sg_track)wait->track, true, w->part_of[i]), wait->end_us);
    }
}

/* ---- All ------------------------------------------------------------------------------------- */

static shingle_status print_timeline(writer *w, const shingle_timeline *t, int index)
{
    w->part_of = calloc((size_t)t->spans + 1, sizeof *w->part_of);
    if (w->part_of == NULL) return sg_fail(SHINGLE_ENOMEM, "no memory for %d spans", t->spans);
    for (int row = 0; row < t->shown; row++) {
        name_process(w, t, process_of(index, row), row);
        for (int track = 0; track < SG_TRACKS; track++) {
            print_track(w, t, index, row, (sg_track)track, false);
            print_track(w, t, index, row, (sg_track)track, true);
        }
    }
    print_flows(w, t, index);
    free(w->part_of);
    w->part_of = NULL;
    return SHINGLE_OK;
}

static void print_facts(writer *w, const shingle_timeline *t)
{
    sg_text_add(w->out, "{\"plan\":\"");
    sg_draw_json(w->out, t->plan, 4000);
    sg_text_add(w->out, "\",\"machine\":\"");
    sg_draw_json(w->out, t->machine, sizeof t->machine);
    sg_text_add(w->out, "\",\"measured\":%s,\"us\":%s", t->measured ? "true" : "false",
                sg_draw_fixed(t->us, 3).text);
    sg_text_add(w->out, ",\"gemm_us\":%s", sg_draw_fixed(t->gemm_us, 3).text);
    sg_text_add(w->out, ",\"coll_us\":%s", sg_draw_fixed(t->coll_us, 3).text);
    sg_text_add(w->out, ",\"serial_us\":%s", sg_draw_fixed(t->serial_us, 3).text);
    sg_text_add(w->out, ",\"exposed_us\":%s", sg_draw_fixed(t->exposed_us, 3).text);
    sg_text_add(w->out, ",\"spans\":%d,\"lost\":%lld}", t->spans, (long long)t->lost);
}

shingle_status sg_perfetto_print(const shingle_timeline *const *timeline, int count, sg_text *out)
{
    writer w = {.out = out};
    sg_text_add(out, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"version\":\"");
    sg_draw_json(out, shingle_version(), 40);
    sg_text_add(out, "\",\"timelines\":[");
    for (int i = 0; i < count; i++) {
        if (i > 0) sg_text_add(out, ",");
        print_facts(&w, timeline[i]);
    }
    sg_text_add(out, "]},\n\"traceEvents\":[");
    for (int i = 0; i < count; i++) SG_TRY(print_timeline(&w, timeline[i], i));
    sg_text_add(out, "\n]}\n");
    return SHINGLE_OK;
}
