/* plans_folder.h -- a folder of a test program's own, and the file of tuned plans in it. */
#ifndef TESTS_PLANS_FOLDER_H
#define TESTS_PLANS_FOLDER_H

#include <stdio.h>
#include <stdlib.h>

static char folder[] = "/tmp/shingle_plans_XXXXXX";
static char path[64]; /* there is nothing yet */

/* Set-up and tear-down of a group of tests. */
static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof path, "%s/plans", folder);
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    char command[80];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

#endif
