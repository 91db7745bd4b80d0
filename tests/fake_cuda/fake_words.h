/* fake_words.h -- what the functions of fake_kernel.c and fake_steps.c share: words of the run
 * protocol, bounded waits, elements of places. */
#ifndef FAKE_WORDS_H
#define FAKE_WORDS_H

#include "core/data.h"
#include "fake.h"
#include "kernel/kernel.h"

/* A wait that is not over.  Since when, and whether it should be given up. */
typedef struct patience {
    double since_us;
} patience;

typedef struct missing {
    int kind, by, flag;
    uint64_t seen, wanted;
} missing;

bool fake_aborted(const sg_kernel_rank *rank);

/* True if the wait is given up. */
bool fake_give_up(sg_kernel_rank *rank, patience *p, const missing *m, int step, int visit);

bool fake_flags_up(const sg_kernel_rank *rank, int by, struct sg_flags f, missing *m);
/* Has the data of WAIT's rank come to rows ROW .. + ROWS of a tagged AREA? */
bool fake_words_here(const sg_kernel_program *p, const struct sg_area *area, int64_t row,
                     int32_t rows, const struct sg_wait *wait, missing *m);
/* Puts rows ROW .. + ROWS of AREA back to rest, if it is tagged. */
void fake_rest(const sg_kernel_program *p, const struct sg_area *area, int64_t row, int32_t rows);
bool fake_may_leave(const sg_kernel_program *p, const struct sg_area *area, missing *m);
void fake_raise(const sg_kernel_program *p, const struct sg_raise *r, int32_t at);

/* Is there what a copy waits for: flags, or the words of tagged data that it takes? */
bool fake_may_copy(const sg_kernel_program *p, const sg_kernel_step *s, missing *m);
/* Copies to all stores of S, but not to peers' own tensors unless it MAY, and raises its flags, if
 * anybody waits for them. */
void fake_copy(const sg_kernel_program *p, const sg_kernel_step *s, bool may);

/* Which half of the workspace the run uses. */
int fake_half(const sg_kernel_rank *rank, int baked);

/* The sum of the products of COUNT elements of TYPE from X0 of X and Y0 of Y on. */
float fake_sum(sg_type type, const void *x, int64_t x0, const void *y, int64_t y0, int64_t count);

/* The sum of the products of COUNT neighbours from (A_ROW, 0) of A and (B_ROW, 0) of B on, which
 * are of the product's type. */
float fake_dot(const sg_kernel_program *p, const struct sg_area *a, int64_t a_row,
               const struct sg_area *b, int64_t b_row, int32_t count);

/* Elements of AREA; stored ones go where its rank's hello says if DIRECT. */
float fake_get(const sg_kernel_program *p, const struct sg_area *a, int64_t row, int64_t col);
void fake_put(const sg_kernel_program *p, const struct sg_area *a, int64_t row, int64_t col,
              float value, bool direct);
float fake_finish(const sg_kernel_program *p, float x, int64_t col);

/* What begins and ends a run. */
typedef struct fake_run {
    sg_kernel_rank *rank;
    uint64_t hash, c, c_stride;
    int baked, hello, gate, done, step;
    patience patience;
} fake_run;

void fake_say_hello(const fake_run *r);
bool fake_gate_open(const sg_kernel_rank *rank, int baked, missing *m);

/* True if the run has ended, or has failed. */
bool fake_end(fake_run *r);

#endif
