/* tasks.h -- the threads of a test's process and the signals that they take. */
#ifndef TESTS_TASKS_H
#define TESTS_TASKS_H

#include <dirent.h>
#include <stdio.h>

/* The threads of this process, and how many of them would not take SIGNAL. */
static int threads_now(int signal, int *without_out)
{
    DIR *const folder = opendir("/proc/self/task");
    assert_non_null(folder);
    int count = 0;
    *without_out = 0;
    for (const struct dirent *task = readdir(folder); task != NULL; task = readdir(folder)) {
        char name[300], line[200];
        unsigned long long blocked = 0;
        if (task->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "/proc/self/task/%s/status", task->d_name);
        FILE *const file = fopen(name, "r");
        if (file == NULL) continue; /* it has ended */
        while (fgets(line, sizeof line, file) != NULL)
            if (sscanf(line, "SigBlk: %llx", &blocked) == 1) break;
        fclose(file);
        count++;
        *without_out += (int)(blocked >> (signal - 1) & 1);
    }
    closedir(folder);
    return count;
}

#endif
