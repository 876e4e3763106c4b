/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MODEL_MODEL_SPARSE_H
#define MODEL_MODEL_SPARSE_H

#include <stdint.h>

/*
 * Trains sparsely (MEST, Yuan et al., NeurIPS 2021, arXiv 2110.14032): of each matrix of a
 * layer a share is active, and which entries these are changes now and then: the least
 * important leave, and others, drawn at random, take their place.
 *
 * A PLACE is what is active or not: an entry, or `block` consecutive outputs of one input (of
 * the last ones a part may lie outside the matrix: these values stay 0).  Places go through all
 * inputs of the first block of outputs, then of the next.  The vector of a sparse matrix has
 * the values of its active places in their order, and room for the most that may be active,
 * the rest of which is 0.
 *
 * The mask is a vector of whole numbers, of MODEL_MASK_BITS places each, the first the lowest
 * bit.  Every type of parameters holds them exactly (bf16 has 8 bits), so that a mask is
 * sharded, sent and stored as parameters are that do not train.
 */
enum { MODEL_MASK_BITS = 8, MODEL_SPARSE_PARTS = 8 };

struct model;
struct model_tensor;

struct model_sparse {
    double share; /* s: of places that are not active in the end; 0: the model is dense */
    /* EM&S grows to s - p and removes to s; EM removes to s + p and grows to s. */
    int soft;
    /* p, from at[i - 1] of all steps on; the last ones stay to the end.  Not increasing. */
    int parts;
    double p[MODEL_SPARSE_PARTS], at[MODEL_SPARSE_PARTS];
    double every;  /* of all steps between two changes */
    int block;     /* 1 or 4 */
    double lambda; /* importance of an entry: |w| + lambda |gradient| */
    uint64_t seed; /* of what grows */
};

int64_t model_places(const struct model_tensor *t);
/* The mask of a sparse matrix, or the matrix of a mask. */
const struct model_tensor *model_mask_of(const struct model *m, const struct model_tensor *t);

/* Whether masks change before step `step` of `steps`, 0 the first.  With p 0 they do once,
   where it was more before. */
int model_sparse_due(const struct model_sparse *s, int64_t step, int64_t steps);
/*
 * The first mask, and what is active, of a whole matrix (model_whole): the largest magnitudes.
 * value [t->elems], mask [elems of the mask].
 */
void model_sparse_first(const struct model *m, const struct model_tensor *t, const float *whole,
                        float *value, float *mask);
/*
 * The change before step `step`.  value, exp_avg, exp_avg_sq, gradient [t->elems], mask; the
 * last gradient is NULL where lambda is 0.  What grows is 0 and has no moments.  Exact numbers
 * of places; ties go to the first place.  A function of its arguments alone, and so the same on
 * every rank.
 */
void model_sparse_change(const struct model *m, const struct model_tensor *t, int64_t step,
                         int64_t steps, float *value, float *exp_avg, float *exp_avg_sq,
                         const float *gradient, float *mask);
/* The whole matrix of a vector and a mask: of places that are not active 0. */
void model_sparse_whole(const struct model_tensor *t, const float *value, const float *mask,
                        float *whole);
/*
 * The active places in their order: of block o of outputs those from start[o] to before
 * start[o + 1], and the input of each.  start [blocks of outputs + 1], column [most].  0 where
 * more than `most` are active, else 1.
 */
int model_sparse_places(const struct model_tensor *t, const float *mask, int64_t most,
                        int32_t *start, int32_t *column);
/* The values of the active places of a whole matrix, ADDED to those of a vector. */
void model_sparse_add(const struct model_tensor *t, const float *whole, const float *mask,
                      float *value);

#endif
