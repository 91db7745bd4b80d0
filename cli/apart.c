/* apart.c -- see apart.h. */
#include "apart.h"

#include <stdlib.h>

#include "cli.h"
#include "deal.h"
#include "file.h"
#include "out.h"

/* One file of a path. */
typedef struct place {
    const apart_file *of;
    int rank;
    file_identity identity;
} place;

static int files_of(const apart_file *file, int ranks)
{
    if (file->path == NULL) return 0;
    return file->by_rank ? deal_files(file->path, ranks) : 1;
}

/* Each is asked for once: the pairs of 64 ranks' files are many. */
static void find(const apart_file *file, int rank, place *at)
{
    char name[FILE_PATH];
    *at = (place){.of = file, .rank = rank};
    if (!file->by_rank)
        file_identify(file->path, &at->identity);
    else if (deal_file(file->path, rank, name))
        file_identify(name, &at->identity);
}

static int fail_as_one(const place *one, const place *other)
{
    const apart_file *const a = one->of;
    const apart_file *const b = other->of;
    if (a == b)
        return out_error(CLI_USAGE,
                         "%s %s: one and the same file of ranks %d and %d; a file for each rank is "
                         "needed",
                         a->what, a->path, one->rank, other->rank);
    return out_error(CLI_USAGE, "%s %s and %s %s have a file in common", a->what, a->path, b->what,
                     b->path);
}

int apart_check(const apart_file *file, int files, int ranks)
{
    int count = 0;
    for (int i = 0; i < files; i++) count += files_of(&file[i], ranks);
    place *const at = out_get((size_t)count * sizeof *at);
    count = 0;
    for (int i = 0; i < files; i++)
        for (int r = 0; r < files_of(&file[i], ranks); r++) find(&file[i], r, &at[count++]);
    int code = CLI_OK;
    for (int i = 0; i < count && at[i].of->written && code == CLI_OK; i++)
        for (int j = i + 1; j < count && code == CLI_OK; j++)
            if (file_is_one(&at[i].identity, &at[j].identity)) code = fail_as_one(&at[i], &at[j]);
    free(at);
    return code;
}
