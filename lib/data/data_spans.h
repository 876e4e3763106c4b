/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_SPANS_H
#define DATA_DATA_SPANS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Describes a source's tokens for training: spans of tokens, each of one kind, end to end.
 *
 *     tokens   | question     answer  | question  answer |
 *     kind     | DOCUMENT |          0| DOCUMENT|       0|
 *              | CONTEXT             | CONTEXT          |
 */
enum {
    SPAN_CONTEXT = 1, /* its tokens are no targets */
    SPAN_DOCUMENT = 2 /* a document begins with it */
};

struct spans { /* count 0: one document, all of it targets */
    int64_t count;
    int64_t *begin;      /* [count], owned, ascending; the first is 0 */
    unsigned char *kind; /* [count], owned */
    size_t space[2];
};

/* ERR_SYS where there is no memory for another. */
int spans_add(struct spans *s, int64_t begin, int kind, struct err *err);
void spans_release(struct spans *s);
/*
 * For the window of seq tokens at `at`: a target, the next token, that is of a context
 * becomes -1.  begins (seq) or NULL: the position in the window at which the document of each
 * token begins, 0 where that is before the window; then a target that begins another document
 * becomes -1, too.
 */
void spans_apply(const struct spans *s, int64_t at, int seq, int32_t *targets, int32_t *begins);

#endif
