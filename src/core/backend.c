/* backend.c -- what the public header says about backends. */
#include "core/backend.h"

const char *shingle_backend_name(int index)
{
    const sg_backend *const backend = sg_backend_at(index);
    return backend != NULL ? backend->name : NULL;
}

const char *shingle_backend_brief(int index)
{
    const sg_backend *const backend = sg_backend_at(index);
    return backend != NULL ? backend->brief : NULL;
}
