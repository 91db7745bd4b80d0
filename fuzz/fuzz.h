/* fuzz.h -- what every fuzz target shares.  libFuzzer calls LLVMFuzzerTestOneInput; in builds
 * without it tests/replay.c calls it for each file of the committed corpus. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input as a string: what stands before its first zero byte.  Release with free. */
static inline char *fuzz_string(const uint8_t *data, size_t size)
{
    char *const text = malloc(size + 1);
    if (text == NULL) abort();
    if (size > 0) memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* What must hold of every input.  A failure ends the program, which is what libFuzzer looks for. */
#define FUZZ_EXPECT(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
