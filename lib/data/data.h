/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_H
#define DATA_DATA_H

#include <stdint.h>

#include "base/err.h"
#include "data/data_encode.h"
#include "data/data_order.h"
#include "data/data_source.h"

/*
 * Provides tokens and micro-batches.  Micro-batch i (counted over the whole run, all ranks) is
 * a function of the options and i alone: the same data for every rank count with the same
 * product of ranks and accumulation, and the position of a run is the number i.
 *
 * Of each source the last `split` of its tokens are kept from training, for evaluation:
 *
 *     0 ............................ train ............................ tokens
 *     |  windows in shuffled order, epoch by epoch  |  windows in order     |
 *
 * or a file of its own is for that, whole.
 */
struct data_options {
    const char *const *paths; /* [count] files of tokens or text (paro-data(5)) */
    int count;
    const double *weights; /* [count], above 0: shares of samples; NULL: as many as tokens */
    const char *tokenizer; /* a folder to encode texts by; NULL: none is named, and ... */
    const char
        *folder;   /* ... this one does, if it has a tokenizer (tokenizer_find); NULL: none */
    int bytes;     /* a text's bytes are its tokens, whatever the vocabulary */
    int seq;       /* tokens of a window */
    int64_t vocab; /* tokens are 0 .. vocab - 1 */
    uint64_t seed;
    double split;         /* 0 <= split < 1 */
    const char *eval;     /* a file to evaluate on, with split 0; NULL: none */
    const char *template; /* of conversations (data_chat.h), or NULL */
    int isolate;          /* documents are apart: spans_apply's begins */
    int fixed_windows;    /* windows lie at the same place in every epoch: data_easy.h */
};

/* "W,W,...", one for each of count files: numbers above 0. */
int data_weights_parse(const char *text, int count, double *weights, struct err *err);

struct data {
    int count, seq;
    int64_t vocab;
    uint64_t seed;
    struct data_part {
        struct source source;
        int64_t train; /* tokens [0, train) are trained on, the rest is for evaluation */
        struct order_windows windows;
        int64_t evals; /* windows for evaluation, this source's and all before */
        int64_t *kept; /* windows.kept, owned */
    } * part;          /* [parts]: count of them, and what is for evaluation alone */
    int parts;
    struct order_mix mix;
    int32_t *token_bytes; /* [vocab], owned: of the text that a token stands for, 0 of special
                             ones.  With a split; NULL: there is no tokenizer */
    int masked;           /* some targets count nothing */
    int weighted;         /* the mix is of weights that were given */
    int64_t first;        /* sample of the run with which the order begins: 0, or data_keep's */
    int64_t tokens;       /* of all sources */
    int64_t train;        /* of them, those that are trained on */
    uint64_t sum;         /* identifies these tokens, in this order but for seed and seq:
                       XXH3 of counts and shares, and of a part of the tokens */
};

/*
 * Reads every token once.  Without a tokenizer a text's bytes are its tokens.  ERR_INPUT where
 * that is so for a vocabulary of more than 256 without `bytes`, a file is not what it should
 * be, a token is not in the vocabulary, a source has fewer than seq + 1 tokens to train on, or
 * with a split all of them together have no window to evaluate.
 */
int data_open(struct data *d, const struct data_options *o, struct err *err);
void data_close(struct data *d);
/* The `train` and `sum` that these files would have with o's split and weights. */
int data_tell(const struct data *d, const struct data_options *o, int64_t *train, uint64_t *sum,
              struct err *err);
/*
 * Fills tokens and targets, (count, seq): samples `sample` and on of the run.  A target that
 * counts nothing is -1 (data_spans.h); with isolate, begins (batch, seq), else NULL. ERR_INPUT
 * where a file has been cut since, or has a token there that is not in the vocabulary.
 */
int data_batch(const struct data *d, int64_t sample, int count, int32_t *tokens,
               int32_t *targets, int32_t *begins, struct err *err);

/*
 * With fixed_windows: the source and the number of the window that is sample `sample` of the
 * run.
 */
int64_t data_window(const struct data *d, int64_t sample, int *part);
/*
 * From sample `first` of the run on each source p has kept[p][0 .. count[p] - 1] of its windows
 * alone, at least one; kept[p] is taken (mem_free).
 */
void data_keep(struct data *d, int64_t *const *kept, const int64_t *count, int64_t first);

/* Windows that are for evaluation; 0: there was no split, and no such file. */
int64_t data_eval_windows(const struct data *d);
/*
 * The same for evaluation: windows index * batch and on, source by source and in order, end to
 * end; after the last comes the first again.  Only if data_eval_windows > 0.
 */
int data_eval_batch(const struct data *d, int64_t index, int batch, int32_t *tokens,
                    int32_t *targets, int32_t *begins, struct err *err);

/*
 * Writes the tokens of a text as llm.c's .bin, of version 1 where all of the tokenizer's fit 16
 * bits, else of version 7; those of JSON Lines as Megatron's OUT.bin and OUT.idx, with document
 * bounds and, of contexts, modes of 1.  Atomic; an existing file is refused without force.
 */
struct data_encode {
    const char *text, *tokenizer, *template, *out; /* template: NULL, or a name */
    int force;
};
int data_encode(const struct data_encode *e, struct encode_done *done, struct err *err);

#endif
