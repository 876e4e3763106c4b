/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_SPANS_H
#define DATA_DATA_SPANS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Describes a source's tokens for training as adjacent spans, each of one kind.
 *
 *     tokens   | question     answer  | question  answer |
 *     kind     | DOCUMENT |          0| DOCUMENT|       0|
 *              | CONTEXT             | CONTEXT          |
 */
enum {
    SPAN_CONTEXT = 1, /* its tokens are not targets */
    SPAN_DOCUMENT = 2 /* a document begins with it */
};

struct spans { /* count 0: one document, all tokens are targets */
    int64_t count;
    int64_t *begin;      /* [count], owned, ascending; begin[0] is 0 */
    unsigned char *kind; /* [count], owned */
    size_t space[2];
};

/* Adds a span; ERR_SYS if there is no memory. */
int spans_add(struct spans *s, int64_t begin, int kind, struct err *err);
void spans_release(struct spans *s);
/*
 * Applies spans to the window of seq tokens at `at`: targets (the next tokens) in a context
 * become -1. begins: (seq) or NULL; set to the position in the window at which each token's
 * document begins, 0 if before the window; then a target that begins another document becomes
 * -1, too.
 */
void spans_apply(const struct spans *s, int64_t at, int seq, int32_t *targets, int32_t *begins);

#endif
