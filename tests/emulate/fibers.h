/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EMULATE_FIBERS_H
#define EMULATE_FIBERS_H

#include <stddef.h>

/* A GPU's threads in software.  The blocks of a launch run one after the other, each block's
 * threads as fibers that run until they wait: in turn, upwards in one block and downwards in
 * the next, a warp a step at a time in two and as far as it gets in the two that follow, so
 * that a barrier that is missing shows.  Shared memory is poisoned before each block.  What on
 * a GPU would hang or be undefined (a barrier that not all threads come to, a collective of a
 * warp with lanes missing) ends the program with a message. */
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

struct uint3 {
    unsigned x, y, z;
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

void emulate_run(const char *kernel, dim3 grid, dim3 block, size_t shared,
                 void (*body)(void *arg), void *arg);
[[noreturn]] void emulate_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

void *emulate_shared(void); /* the block's dynamic shared memory */
int emulate_lane(void);
void emulate_syncthreads(void);

/* All lanes of mask come here with the same op; the last one does it for all: in[lane] and
 * out[lane] are what the lanes of mask have passed, the others' are not to be touched. */
typedef void emulate_op(unsigned mask, const void *const in[32], void *const out[32]);
void emulate_warp(unsigned mask, emulate_op *op, const void *in, void *out);

/* cp.async: nothing arrives before the wait that asks for it. */
void emulate_async(void *to, const void *from, size_t bytes, size_t given);
void emulate_async_commit(void);
void emulate_async_wait(int groups); /* until at most so many are under way */

#endif
