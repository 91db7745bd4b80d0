/* fuzz_plan.c -- the text of plans: no input breaks the parser, and an accepted plan's text parses
 * to the same plan. */
#include "fuzz.h"
#include "shingle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = fuzz_string(data, size);
    shingle_plan *plan = NULL;
    shingle_plan *again = NULL;
    if (shingle_plan_parse(text, &plan) == SHINGLE_OK) {
        FUZZ_EXPECT(shingle_plan_parse(shingle_plan_text(plan), &again) == SHINGLE_OK);
        FUZZ_EXPECT(strcmp(shingle_plan_text(plan), shingle_plan_text(again)) == 0);
    } else {
        FUZZ_EXPECT(plan == NULL);
        FUZZ_EXPECT(shingle_error()[0] != '\0' && strchr(shingle_error(), '\n') == NULL);
    }
    shingle_plan_free(again);
    shingle_plan_free(plan);
    free(text);
    return 0;
}
