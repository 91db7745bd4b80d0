/* drawing.c -- see drawing.h. */
#include "drawing.h"

#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "file.h"
#include "out.h"

args_option drawing_option(drawing_file *file)
{
    return (args_option){.name = "timeline",
                         .kind = ARGS_TEXT,
                         .value = &file->path,
                         .unit = "FILE",
                         .brief = "draw who does what when: FILE.svg, or FILE.json for Perfetto",
                         .writes = true};
}

bool drawing_wanted(const drawing_file *file)
{
    return file != NULL && file->path != NULL;
}

static bool ends_in(const char *path, const char *ending)
{
    const size_t length = strlen(path);
    const size_t end = strlen(ending);
    return length > end && strcmp(path + length - end, ending) == 0;
}

int drawing_check(const drawing_file *file, int count)
{
    char error[FILE_ERROR];
    if (!drawing_wanted(file)) return CLI_OK;
    if (!ends_in(file->path, ".svg") && !ends_in(file->path, ".json"))
        return out_error(CLI_USAGE,
                         "--timeline is \"%.100s\"; a name in front of .svg or .json is accepted",
                         file->path);
    if (count > DRAWING_MOST)
        return out_error(CLI_USAGE, "--timeline: %d timelines; 1 to %d fit into one file", count,
                         (int)DRAWING_MOST);
    return file_check(file->path, error) ? CLI_OK : out_error(CLI_USAGE, "--timeline: %s", error);
}

void drawing_take(drawing_file *file, shingle_timeline *timeline)
{
    if (timeline == NULL) return;
    if (file->count < DRAWING_MOST)
        file->timeline[file->count++] = timeline;
    else
        shingle_timeline_free(timeline);
}

int drawing_predict(drawing_file *file, const shingle_plan *plan, const shingle_machine *machine)
{
    shingle_timeline *timeline = NULL;
    if (!drawing_wanted(file)) return CLI_OK;
    const shingle_status status = shingle_timeline_predict(plan, machine, &timeline);
    if (status != SHINGLE_OK) return out_status(status);
    drawing_take(file, timeline);
    return CLI_OK;
}

int drawing_end(drawing_file *file, int code, bool quiet)
{
    const bool complete = code == CLI_OK || code == CLI_WRONG;
    const bool draws = complete || (file->partial && code == CLI_FAILED);
    if (drawing_wanted(file) && draws && file->count > 0) {
        const shingle_status status = shingle_timeline_write(
            (const shingle_timeline *const *)file->timeline, file->count, file->path);
        if (status != SHINGLE_OK)
            code = out_error(CLI_FAILED, "%s", shingle_error());
        else if (!quiet)
            printf("\ntimeline: %s\n", file->path);
    }
    for (int i = 0; i < file->count; i++) shingle_timeline_free(file->timeline[i]);
    file->count = 0;
    return code;
}
