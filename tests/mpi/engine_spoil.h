/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENGINE_SPOIL_H
#define ENGINE_SPOIL_H

/* Supports programs that put numbers of their own into a gradient. */
#include "engine/engine_inside.h"

/* The unit whose gradient a backward makes first, the last one, or, tied, the embedding; and
   the buffer to which the backward of that micro-batch adds.  While that is asked for, it is
   zero, or holds what the micro-batches before it gave. */
static inline int spoilt_unit(const struct engine *e)
{
    return e->model->tied ? 0 : e->model->units - 1;
}

static inline float *spoilt_gradient(struct engine *e, int micro)
{
    float *first = e->model->tied ? e->buffers.tied_gradient : e->buffers.gradient;

    if (!e->step.space.apart)
        return e->unit[spoilt_unit(e)].grads;
    return first + micro % e->step.space.apart * e->unit[spoilt_unit(e)].trained;
}

#endif
