/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRAIN_TRAIN_GENERATE_H
#define TRAIN_TRAIN_GENERATE_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/*
 * A text that a model continues; texts are borrowed, NULL where not given.  Without a
 * tokenizer the tokens are the text's bytes; with one an empty text stands for <|endoftext|>,
 * and that token ends what is written.
 */
enum { TRAIN_PROMPT_LENGTH = 256, TRAIN_PROMPT_LENGTH_MAX = 1 << 24 };

struct train_prompt {
    const char *text;
    const char *from;          /* a checkpoint, a run, a Hugging Face folder */
    const char *tokenizer;     /* a folder (data/bpe.h), "bytes"; NULL: from's */
    const char *seed;          /* as typed; 1 */
    int64_t length;            /* most tokens to write */
    double temperature, top_p; /* temperature 0: the likeliest token */
    int json;                  /* one document at the end */
    FILE *out;
    FILE *talk; /* what is wrong with the checkpoint all the same; NULL: nowhere */
};

/* One process, no MPI.  Writes the text and what follows, as it comes. */
int train_generate(const struct train_prompt *p, struct err *err);

#endif
