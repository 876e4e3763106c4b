/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of the GPU in software, and how they go wrong when they are told to. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "late.h"

enum { PAGE = 4096 };

struct copying {
    void *to;
    const void *from; /* NULL: what stands behind this */
    size_t bytes;
    char spoilt; /* 'f': a bit of it flips; 'l': it is lost; 0 */
};

static void copy(void *arg)
{
    const struct copying *c = arg;

    if (c->spoilt != 'l')
        memcpy(c->to, c->from ? c->from : c + 1, c->bytes);
    if (c->spoilt == 'f')
        ((unsigned char *)c->to)[c->bytes / 2] ^= 4;
}

/* Memory of the host that no device knows: read when the call is made. */
static int is_pageable(const void *p)
{
    return emulated_memory_of(p) == 0;
}

/* EMULATED_COPY: 'f' flips, 'l' is lost, and nobody is told. */
static char spoilt(const void *to, const void *from, size_t bytes)
{
    static atomic_int copies;
    const char *want = getenv("EMULATED_COPY"), *way = want ? strchr(want, '-') : NULL;
    const char *n = way ? strchr(way, ':') : NULL;

    if (!n || bytes < PAGE || emulated_memory_of(way[1] == 'o' ? from : to) != 'd')
        return 0;
    return atomic_fetch_add(&copies, 1) + 1 == atoi(n + 1) ? *want : 0;
}

static void copy_later(const struct copying *c, cudaStream_t stream)
{
    if (!emulated_is_late() || !stream || !is_pageable(c->from)) {
        emulated_do(stream, copy, c, sizeof *c);
    } else {
        struct copying *with = malloc(sizeof *with + c->bytes);
        if (!with)
            abort();
        *with = (struct copying){c->to, NULL, c->bytes, c->spoilt};
        memcpy(with + 1, c->from, c->bytes);
        emulated_do(stream, copy, with, sizeof *with + c->bytes);
        free(with);
    }
    if (emulated_is_late() && stream && !emulated_is_captured(stream) && is_pageable(c->to))
        emulated_run_to(stream, stream->asked);
}

/* Places know whose they are; copies of a device by a stream of another are allowed. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    cudaError_t rc = emulated_said(emulated_capture_may("cudaMemcpyAsync", stream));

    (void)kind;
    if (rc == cudaSuccess)
        rc = emulated_said(emulated_default_may(stream));
    if (rc == cudaSuccess)
        rc = emulated_begin("cudaMemcpyAsync", NULL);
    if (rc != cudaSuccess)
        return rc;
    copy_later(&(struct copying){to, from, bytes, spoilt(to, from, bytes)}, stream);
    emulated_end();
    return cudaSuccess;
}

struct copying_rows {
    char *to;
    const char *from;
    size_t to_row, from_row, bytes, rows;
};

static void copy_rows(void *arg)
{
    const struct copying_rows *c = arg;

    for (size_t i = 0; i < c->rows; i++)
        memcpy(c->to + i * c->to_row, c->from + i * c->from_row, c->bytes);
}

/* Within a device. */
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_row, const void *from, size_t from_row,
                              size_t bytes, size_t rows, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    const struct copying_rows c = {to, from, to_row, from_row, bytes, rows};
    cudaError_t rc = emulated_said(emulated_capture_may("cudaMemcpy2DAsync", stream));

    if (rc == cudaSuccess)
        rc = emulated_said(emulated_default_may(stream));
    if (rc == cudaSuccess &&
        (kind != cudaMemcpyDeviceToDevice || to_row < bytes || from_row < bytes))
        rc = emulated_said(cudaErrorInvalidValue);
    if (rc == cudaSuccess)
        rc = emulated_begin("cudaMemcpy2DAsync", NULL);
    if (rc != cudaSuccess)
        return rc;
    emulated_do(stream, copy_rows, &c, sizeof c);
    emulated_end();
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaError_t rc = emulated_said(emulated_capture_may("cudaMemcpy", NULL));

    return rc == cudaSuccess ? cudaMemcpyAsync(to, from, bytes, kind, NULL) : rc;
}
