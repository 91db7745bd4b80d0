/* fuzz_tuned.c -- files of tuned plans: whatever stands in one, it is read, and what is understood
 * has a time; a plan that is put into it is found again and leaves other lines where they were, or
 * the file is refused for what it is and stays as it was. */
#include <fcntl.h>
#include <unistd.h>

#include "core/tuned_file.h"
#include "fuzz.h"

static const char signature[] = "here";
static const char problem[] = "gemm:f32:4x4x4:r1";

static void write_file(const char *path, const uint8_t *data, size_t size)
{
    const int file = open(path, O_WRONLY | O_TRUNC);
    FUZZ_EXPECT(file >= 0 && write(file, data, size) == (ssize_t)size && close(file) == 0);
}

static int32_t count_plans(const char *path, bool *found)
{
    sg_tuned_list list = {NULL, 0, 0};
    FUZZ_EXPECT(sg_tuned_file_read(path, signature, &list) == SHINGLE_OK);
    *found = false;
    for (int32_t i = 0; i < list.lines; i++) {
        FUZZ_EXPECT(list.line[i].plan->measured_us > 0);
        *found |= strncmp(list.line[i].plan->text, problem, sizeof problem - 1) == 0 &&
                  list.line[i].plan->text[sizeof problem - 1] == ' ';
    }
    const int32_t plans = list.lines;
    sg_tuned_list_free(&list);
    return plans;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[] = "/tmp/fuzz_tuned_XXXXXX";
    static char lock[sizeof path + 8];
    static shingle_plan *plan;
    bool found = false;
    if (plan == NULL) {
        const int file = mkstemp(path);
        FUZZ_EXPECT(file >= 0 && close(file) == 0);
        snprintf(lock, sizeof lock, "%s.lock", path);
        FUZZ_EXPECT(shingle_plan_for(problem, NULL, NULL, &plan) == SHINGLE_OK);
        plan->measured_us = 5;
    }
    const int make = open(path, O_WRONLY | O_CREAT, 0600);
    FUZZ_EXPECT(make >= 0 && close(make) == 0);
    write_file(path, data, size);
    const int32_t before = count_plans(path, &found);
    const bool there = found;
    const shingle_status status = sg_tuned_file_check(path);
    FUZZ_EXPECT(status == SHINGLE_OK || status == SHINGLE_EINVAL);
    FUZZ_EXPECT(sg_tuned_file_put(path, signature, plan) == status);
    const bool put = status == SHINGLE_OK;
    FUZZ_EXPECT(count_plans(path, &found) == before + (put && !there) && found == (put || there));
    unlink(path);
    unlink(lock);
    return 0;
}
