/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_H
#define KERN_KERN_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"
#include "dev/dev.h"
#include "kern/kern_ops.h"

/*
 * Provides the kernels of a device, for the network and the engine: with the same meaning on
 * every device (kern_cpu.h defines each), executed in the order of one queue.
 *
 *     device   act          weight       table
 *     CPU      f32          f32          kern_cpu_ops.c, over kern_cpu*.c
 *     GPU      f32 or bf16  f32 or bf16  kern_cuda.c, over kern_cuda*.cu and cuBLASLt
 *
 * act is the type of activations and of their gradients, called a in the comments of the table;
 * weight, called w, is that of parameters as the network reads them.  Gradients of parameters,
 * statistics of rows (mean, rstd, lse), the rope table, states of the optimizer are f32
 * everywhere, and so is all arithmetic inside a kernel.  Backward kernels ADD to arguments
 * named dw, db, dx, dtable and WRITE all other outputs.  Pointers are device memory unless
 * marked host.  Matrices are row-major, ld in elements; a pointer into a matrix may be at any
 * column.  Kernels neither allocate nor wait unless their comment says so.  Equal inputs give
 * equal bits on one kind of device.
 */
/*
 * Which kernels compute attention in bf16, for shapes that cuDNN supports.  USUAL: cuDNN's
 * forward and a backward of our own, which is faster than cuDNN's backward with equal bits.
 * CUDNN_ATOMIC: both of cuDNN, with a backward whose bits differ from run to run.
 */
enum kern_attention { KERN_ATTENTION_USUAL, KERN_ATTENTION_OWN, KERN_ATTENTION_CUDNN_ATOMIC };

struct kern {
    const struct kern_ops *op;
    struct device *device;      /* borrowed */
    enum device_kind kind;      /* the device's */
    struct device_queue *queue; /* borrowed: the queue that the caller opened */
    enum dtype act, weight;
    int row_elems; /* rows are fast if a multiple of this many elements apart: 1, GPU 8 */
    int64_t bytes; /* device memory that the table holds */
    enum kern_attention attention; /* set before attention_bytes; ignored on a CPU */
    /* CPU: cross_entropy writes the loss of each row here, -1 if its target is negative; NULL:
       none; borrowed */
    float *losses;
    void *own; /* the table's state */
};

/*
 * Opens the table of a device.  compute: f32 or bf16, the type of products.  On a CPU act and
 * weight are always f32; on a GPU act is compute, and weight as given (f32, bf16).  device and
 * queue are borrowed until kern_close.  ERR_ABSENT: the device lacks the types.
 */
int kern_open(struct kern *out, struct device *device, struct device_queue *queue,
              enum dtype compute, enum dtype weight, struct err *err);
void kern_close(struct kern *k);

/* The tables: kern_cpu_ops.c; kern_cuda.c, or kern_cuda_none.c.  They set op, own, bytes; all
   other members are set already. */
int kern_open_cpu(struct kern *out, struct err *err);
int kern_open_cuda(struct kern *out, struct err *err);

#endif
