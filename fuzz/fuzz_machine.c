/* fuzz_machine.c -- machine files: no input breaks the parser, errors are one line that begins with
 * the file, and what is printed of an accepted machine is accepted and printed alike. */
#include "core/machine.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char first[8192];
    static char second[8192];
    char *const text = fuzz_string(data, size);
    sg_machine machine;
    sg_machine printed;
    if (sg_machine_parse(text, "fuzz", &machine) == SHINGLE_OK) {
        const size_t length = sg_machine_print(&machine, first, sizeof first);
        FUZZ_EXPECT(length < sizeof first);
        FUZZ_EXPECT(sg_machine_parse(first, "printed", &printed) == SHINGLE_OK);
        FUZZ_EXPECT(memcmp(&printed, &machine, sizeof machine) == 0);
        sg_machine_print(&printed, second, sizeof second);
        FUZZ_EXPECT(strcmp(first, second) == 0);
    } else {
        FUZZ_EXPECT(strncmp(shingle_error(), "fuzz", 4) == 0);
        FUZZ_EXPECT(strchr(shingle_error(), '\n') == NULL);
    }
    free(text);
    return 0;
}
