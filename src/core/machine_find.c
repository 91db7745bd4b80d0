/* machine_find.c -- where a machine lies that is given by name. */
#include <dlfcn.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "core/machine.h"

#ifndef SG_DATADIR
#define SG_DATADIR "/usr/local/share/shingle"
#define SG_DATA_FROM_LIB "../share/shingle"
#endif

/* The folder of the library, or of the program that it is a part of, with a slash; "": unknown. */
static void own_folder(sg_text *folder)
{
    static const char inside;
    Dl_info about;
    if (dladdr(&inside, &about) == 0 || about.dli_fname == NULL) return;
    const char *const slash = strrchr(about.dli_fname, '/');
    if (slash != NULL)
        sg_text_add(folder, "%.*s", (int)(slash + 1 - about.dli_fname), about.dli_fname);
}

shingle_status sg_machine_find(const char *name, char *path, size_t room)
{
    char own[PATH_MAX] = "";
    own_folder(&(sg_text){own, sizeof own, 0});
    /* The working folder; beside the library, so that an installation may be moved; its build tree;
     * and where it was configured to be installed. */
    const char *const places[][3] = {{"", "", ""},
                                     {own, SG_DATA_FROM_LIB, "/"},
                                     {own, "share/shingle", "/"},
                                     {SG_DATADIR, "/", ""}};
    const bool is_path = strchr(name, '/') != NULL;
    for (size_t i = 0; !is_path && i < sizeof places / sizeof *places; i++) {
        sg_text text = {path, room, 0};
        sg_text_add(&text, "%s%s%smachines/%s.machine", places[i][0], places[i][1], places[i][2],
                    name);
        if (text.length < room && access(path, F_OK) == 0) return SHINGLE_OK;
    }
    /* A path that is not there is left to who reads it. */
    if (!is_path && strchr(name, '.') == NULL && access(name, F_OK) != 0)
        return sg_fail(SHINGLE_EIO,
                       "machine \"%.60s\" is neither in ./machines nor in " SG_DATADIR
                       "/machines; a name there or a path is accepted",
                       name);
    sg_text text = {path, room, 0};
    sg_text_add(&text, "%s", name);
    return text.length < room ? SHINGLE_OK
                              : sg_fail(SHINGLE_EINVAL, "the path %.60s... is too long", name);
}
