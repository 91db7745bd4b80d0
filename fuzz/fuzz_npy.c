/* fuzz_npy.c -- headers of .npy files: no input breaks the parser, and what it accepts is an array
 * that fits into memory's numbers. */
#include "fuzz.h"
#include "npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[FILE_ERROR] = "";
    npy_array array;
    size_t data_at = 0;
    if (npy_parse(data, size, "fuzz", &array, &data_at, error)) {
        FUZZ_EXPECT(data_at <= size);
        FUZZ_EXPECT(array.dims == 1 || array.dims == 2);
        const size_t cols = array.dims == 2 ? (size_t)array.extent[1] : 1;
        FUZZ_EXPECT(array.data_bytes == (size_t)array.extent[0] * cols * array.item_bytes);
        FUZZ_EXPECT(array.data == NULL);
    } else {
        FUZZ_EXPECT(strncmp(error, "fuzz: ", 6) == 0);
    }
    return 0;
}
