/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_H
#define KERN_KERN_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"
#include "dev/dev.h"
#include "kern/kern_ops.h"

/*
 * Provides the kernels of a device, by which network and engine compute: the same meaning
 * everywhere (kern_cpu.h says what each does), in the order of one queue.
 *
 *     device   act          weight       table
 *     CPU      f32          f32          kern_cpu_ops.c, over kern_cpu*.c
 *     GPU      f32 or bf16  f32 or bf16  kern_cuda.c, over kern_cuda*.cu and cuBLASLt
 *
 * act is the type of activations and of their gradients, what the comments of the table call
 * a; w is that of parameters as the network reads them.  Gradients of parameters, statistics
 * of rows (mean, rstd, lse), the rope table, states of the optimizer are f32 everywhere, and so
 * is all arithmetic inside a kernel.  Backward kernels ADD to what is named dw, db, dx, dtable
 * and WRITE everything else.  Pointers are memory of the device unless marked host.  Matrices
 * are row-major, ld in elements; a pointer into a matrix may be at any column.  Nothing here
 * allocates or waits but what says so.  Equal inputs give equal bits on one kind of device.
 */
/*
 * Whose kernels, in bf16, where cuDNN has some for the shape.  USUAL: its forward and a
 * backward of our own, which is faster than the one of cuDNN's that gives equal bits.
 * CUDNN_ATOMIC: both its, with a backward whose bits differ from run to run.
 */
enum kern_attention { KERN_ATTENTION_USUAL, KERN_ATTENTION_OWN, KERN_ATTENTION_CUDNN_ATOMIC };

struct kern {
    const struct kern_ops *op;
    struct device *device;      /* borrowed */
    enum device_kind kind;      /* the device's */
    struct device_queue *queue; /* borrowed: what a caller with a thread of its own opened */
    enum dtype act, weight;
    int row_elems; /* fast where rows lie a multiple of so many elements apart: 1, of a GPU 8 */
    int64_t bytes; /* of device memory that it holds for itself */
    enum kern_attention attention; /* set before attention_bytes; on a CPU it is nothing */
    float *losses; /* on a CPU: cross_entropy puts the loss of each row here, -1 where
                      the target is below 0; NULL: nowhere;
                      borrowed */
    void *own;     /* the table's */
};

/*
 * compute: f32 or bf16, the type of products.  On a CPU act and weight are f32 whatever it is;
 * on a GPU act is it, and weight is as said (f32, bf16).  ERR_ABSENT: the device lacks it.
 */
int kern_open(struct kern *out, struct device *device, struct device_queue *queue,
              enum dtype compute, enum dtype weight, struct err *err);
void kern_close(struct kern *k);

/* The tables: kern_cpu_ops.c; kern_cuda.c, or kern_cuda_none.c.  They fill op, own, bytes; the
   rest is there. */
int kern_open_cpu(struct kern *out, struct err *err);
int kern_open_cuda(struct kern *out, struct err *err);

#endif
