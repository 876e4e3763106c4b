/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_H
#define DATA_DATA_H

#include <stdint.h>

#include "base/err.h"
#include "data/data_encode.h"
#include "data/data_order.h"
#include "data/data_source.h"

/*
 * Provides tokens and micro-batches.  Micro-batch i (counted over the whole run and all ranks)
 * is a function of the options and i only.  So the data does not depend on the number of ranks
 * if the product of ranks and accumulation is equal, and i is the run's position.
 *
 * The last fraction `split` of each source's tokens is reserved for evaluation:
 *
 *     0 ............................ train ............................ tokens
 *     |  windows in shuffled order, epoch by epoch  |  windows in order     |
 *
 * or a separate file is used for evaluation as a whole.
 */
struct data_options {
    const char *const *paths; /* [count] files of tokens or text (paro-data(5)) */
    int count;
    /* [count], > 0: shares of samples; NULL: proportional to the tokens */
    const double *weights;
    const char *tokenizer; /* folder with the tokenizer of texts; NULL: not named, and ... */
    const char
        *folder;   /* ... this folder's is used if it has one (tokenizer_find); NULL: none */
    int bytes;     /* the tokens of a text are its bytes, whatever the vocabulary */
    int seq;       /* tokens per window */
    int64_t vocab; /* tokens are 0 .. vocab - 1 */
    uint64_t seed;
    double split;         /* fraction for evaluation: 0 <= split < 1 */
    const char *eval;     /* file for evaluation, with split 0; NULL: none */
    const char *template; /* chat template (data_chat.h), or NULL */
    int isolate;          /* documents do not see each other: spans_apply's begins */
    int fixed_windows;    /* windows have the same positions in every epoch: data_easy.h */
};

/* Parses "W,W,...", one weight > 0 for each of count files. */
int data_weights_parse(const char *text, int count, double *weights, struct err *err);

struct data {
    int count, seq;
    int64_t vocab;
    uint64_t seed;
    struct data_part {
        struct source source;
        int64_t train; /* tokens [0, train) are for training, the others for evaluation */
        struct order_windows windows;
        int64_t evals; /* evaluation windows of this source and all earlier ones */
        int64_t *kept; /* windows.kept, owned */
    } * part;          /* [parts]: `count` of them, and a source for evaluation only */
    int parts;
    struct order_mix mix;
    /* [vocab], owned: length of each token's text, 0 for special tokens.  Set with a split;
       NULL: no tokenizer */
    int32_t *token_bytes;
    int masked;     /* some targets do not count */
    int weighted;   /* the mix has given weights */
    int64_t first;  /* first sample of the current order: 0, or that of data_keep */
    int64_t tokens; /* tokens of all sources */
    int64_t train;  /* those of them that are for training */
    /* Identifies the tokens and their order, except seed and seq: XXH3 of counts, shares, and a
       part of the tokens */
    uint64_t sum;
};

/*
 * Opens the sources and reads every token once.  Without a tokenizer the tokens of a text are
 * its bytes.  ERR_INPUT if this happens for a vocabulary above 256 without `bytes`, if a file
 * has a wrong format, a token is outside the vocabulary, a source has fewer than seq + 1 tokens
 * for training, or with a split all sources together have no evaluation window.
 */
int data_open(struct data *d, const struct data_options *o, struct err *err);
void data_close(struct data *d);
/* Computes the `train` and `sum` that these files would have with o's split and weights. */
int data_tell(const struct data *d, const struct data_options *o, int64_t *train, uint64_t *sum,
              struct err *err);
/*
 * Fills tokens and targets, (count, seq): samples `sample` .. sample + count - 1 of the run.
 * Targets that do not count are -1 (data_spans.h). begins: (count, seq) with isolate, else
 * NULL.  ERR_INPUT if a file has been truncated since, or now contains a token outside the
 * vocabulary.
 */
int data_batch(const struct data *d, int64_t sample, int count, int32_t *tokens,
               int32_t *targets, int32_t *begins, struct err *err);

/*
 * With fixed_windows: the window number, and in *part the source, of sample `sample` of the
 * run.
 */
int64_t data_window(const struct data *d, int64_t sample, int *part);
/*
 * From sample `first` of the run on, source p uses only its windows kept[p][0 .. count[p] - 1],
 * at least one.  Takes ownership of kept[p] (mem_free).
 */
void data_keep(struct data *d, int64_t *const *kept, const int64_t *count, int64_t first);

/* Number of evaluation windows; 0: there is neither a split nor an evaluation file. */
int64_t data_eval_windows(const struct data *d);
/*
 * As data_batch, for evaluation: windows index * batch .. (index + 1) * batch - 1, source by
 * source in order, without gaps; the first window comes again after the last.  Requires
 * data_eval_windows > 0.
 */
int data_eval_batch(const struct data *d, int64_t index, int batch, int32_t *tokens,
                    int32_t *targets, int32_t *begins, struct err *err);

/*
 * Writes the tokens of a text as llm.c's .bin, version 1 if all of the tokenizer's tokens fit
 * 16 bits, else version 7.  Writes those of JSON Lines as Megatron's OUT.bin and OUT.idx, with
 * document bounds; context has mode 1.  Atomic; an existing file is rejected without force.
 */
struct data_encode {
    const char *text, *tokenizer, *template, *out; /* template: NULL, or a name */
    int force;
};
int data_encode(const struct data_encode *e, struct encode_done *done, struct err *err);

#endif
