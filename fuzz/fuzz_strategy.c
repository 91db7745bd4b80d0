/* fuzz_strategy.c -- "name{knob=value,...}": no input breaks the parser, and what is printed of an
 * accepted text is accepted and printed alike. */
#include "core/strategy.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char first[512];
    char second[512];
    char *const text = fuzz_string(data, size);
    const sg_strategy *strategy = NULL;
    sg_knobs knobs;
    bool given = false;
    if (sg_strategy_parse(text, &strategy, NULL, &knobs, &given) == SHINGLE_OK) {
        for (int i = 0; i < SG_MAX_KNOBS && strategy->knob[i].name != NULL && given; i++)
            FUZZ_EXPECT(knobs.value[i] >= strategy->knob[i].least &&
                        knobs.value[i] <= strategy->knob[i].most);
        if (given) {
            sg_text printed = {first, sizeof first, 0};
            sg_strategy_print(strategy, &knobs, &printed);
            FUZZ_EXPECT(sg_strategy_parse(first, &strategy, NULL, &knobs, &given) == SHINGLE_OK);
            printed = (sg_text){second, sizeof second, 0};
            sg_strategy_print(strategy, &knobs, &printed);
            FUZZ_EXPECT(strcmp(first, second) == 0);
        }
    } else {
        FUZZ_EXPECT(shingle_error()[0] != '\0' && strchr(shingle_error(), '\n') == NULL);
    }
    free(text);
    return 0;
}
