/* kernel_emulated.h -- what a test tells the emulator (emulate.cpp). */
#ifndef SG_KERNEL_EMULATED_H
#define SG_KERNEL_EMULATED_H

#include <cuda_runtime_api.h>
#include <stdint.h>

void emu_seed(uint64_t seed);

/* The stream of rank R, and on how many blocks a launch of one of RANKS runs that share a machine;
 * 0: as many as it likes. */
cudaStream_t emu_stream(int r);
int emu_blocks(int ranks);

/* SMs of the GPU from now on; 0: a few, as at first. */
void emu_sms(int count);

/* The number of the first SM; -1: nobody knows which are neighbours. */
void emu_first_sm(int number);

/* Is told of each load of a tensor: which SM asks for rows from ROW on of what lies at BASE, and
 * for how many BEYOND it, which are zeros; NULL: nobody is told. */
void emu_loads_seen(void (*see)(int sm, const void *base, int row, int beyond));

/* Launches run at once on the stream NULL; on others when this is called, all beside each other as
 * far as streams allow.  False: a standstill. */
bool emu_run(void);

/* Called once a round while a launch runs: peers, copy engines.  Returns whether it did
 * anything. */
void emu_outside(bool (*step)(void));

#endif
