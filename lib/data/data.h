/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_H
#define DATA_DATA_H

#include <stdint.h>

#include "base/err.h"

/*
 * Tokens and micro-batches.  A text file is its bytes, tokens 0..255, mapped, never copied.
 * Micro-batch i (counted over the whole run, all ranks) is a function of (seed, i) alone: the
 * same data for every rank count with the same product of ranks and accumulation.
 */
struct data {
    const unsigned char *text; /* mapped */
    int64_t tokens;
    uint64_t seed;
};

/* ERR_INPUT when the file has fewer than seq + 1 tokens; vocab bounds the tokens. */
int data_open(struct data *d, const char *path, int seq, int64_t vocab, uint64_t seed,
              struct err *err);
void data_close(struct data *d);
/* Fills tokens and targets, (batch, seq): each row a window that starts anywhere. */
void data_batch(const struct data *d, int64_t index, int batch, int seq, int32_t *tokens,
                int32_t *targets);

#endif
