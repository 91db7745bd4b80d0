/* fuzz_config.c -- config.json files.  The first byte chooses ranks, tokens and pass; whatever the
 * rest is, the parser ends with an error or with problems that the library accepts. */
#include "config.h"
#include "fuzz.h"
#include "shingle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const types[] = {NULL, "f32"};
    if (size == 0) return 0;
    const config_options options = {.ranks = 1 + data[0] % 8,
                                    .tokens = 1 + data[0],
                                    .all_reduce = data[0] & 32,
                                    .pass = (config_pass)((data[0] & 64) / 64 * (1 + data[0] % 2)),
                                    .type = types[data[0] >> 7]};
    char error[FILE_ERROR] = "";
    config_model model;
    if (config_parse((const char *)data + 1, size - 1, "fuzz", &options, &model, error)) {
        for (int i = 0; i < model.products; i++) {
            shingle_shape shape;
            FUZZ_EXPECT(shingle_problem_shape(model.product[i].problem, 0, &shape) == SHINGLE_OK);
            FUZZ_EXPECT(model.product[i].layers >= 0 && model.product[i].layers <= model.layers);
        }
    } else {
        FUZZ_EXPECT(strncmp(error, "fuzz: ", 6) == 0);
    }
    return 0;
}
