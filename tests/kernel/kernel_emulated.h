/* kernel_emulated.h -- what a test tells the emulator (emulate.cpp). */
#ifndef SG_KERNEL_EMULATED_H
#define SG_KERNEL_EMULATED_H

#include <stdint.h>

void emu_seed(uint64_t seed);

/* Called once a round while a launch runs: peers, copy engines.  Returns whether it did anything. */
void emu_outside(bool (*step)(void));

#endif
