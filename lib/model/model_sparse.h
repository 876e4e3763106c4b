/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MODEL_MODEL_SPARSE_H
#define MODEL_MODEL_SPARSE_H

#include <stdint.h>

/*
 * Sparse training (MEST, Yuan et al., NeurIPS 2021, arXiv 2110.14032): of each matrix of a
 * layer only a share of the entries is active.  From time to time the set changes: the least
 * important entries are removed, and others, drawn at random, replace them.
 *
 * A PLACE is the unit of activity: an entry, or `block` consecutive outputs of one input (the
 * last ones may reach beyond the matrix: these values stay 0).  Places are numbered through all
 * inputs of the first block of outputs, then of the next.  The vector of a sparse matrix has
 * the values of its active places in their order, with space for the largest number of active
 * places; the rest is 0.
 *
 * The mask is a vector of whole numbers, each for MODEL_MASK_BITS places, the first in the
 * lowest bit.  Every parameter type holds them exactly (bf16 has 8 bits), so a mask is sharded,
 * sent and stored like frozen parameters.
 */
enum { MODEL_MASK_BITS = 8, MODEL_SPARSE_PARTS = 8 };

struct model;
struct model_tensor;

struct model_sparse {
    double share; /* s: share of inactive places at the end; 0: the model is dense */
    /* EM&S grows to s - p and removes to s; EM removes to s + p and grows to s. */
    int soft;
    /* p[i] applies from at[i - 1] of all steps on; the last one to the end.  Not increasing. */
    int parts;
    double p[MODEL_SPARSE_PARTS], at[MODEL_SPARSE_PARTS];
    double every;  /* interval between two changes, as a share of all steps */
    int block;     /* 1 or 4 */
    double lambda; /* importance of an entry: |w| + lambda |gradient| */
    uint64_t seed; /* for the places that are added */
};

int64_t model_places(const struct model_tensor *t);
/* Returns the mask of a sparse matrix, or the matrix of a mask. */
const struct model_tensor *model_mask_of(const struct model *m, const struct model_tensor *t);

/* Whether masks change before step `step` of `steps`, counted from 0.  With p 0 they change
   once, if p was greater before. */
int model_sparse_due(const struct model_sparse *s, int64_t step, int64_t steps);
/*
 * Chooses the first mask and active values of a whole matrix (model_whole): the largest
 * magnitudes.  value [t->elems], mask [elems of the mask] are written.
 */
void model_sparse_first(const struct model *m, const struct model_tensor *t, const float *whole,
                        float *value, float *mask);
/*
 * Changes the active places before step `step`.  value, exp_avg, exp_avg_sq, gradient:
 * [t->elems]; mask; gradient: the last step's, NULL if lambda is 0.  Added places have value
 * and moments 0.  The numbers of places are exact; ties go to the lowest place.  Depends on its
 * arguments only, so the result is the same on every rank.
 */
void model_sparse_change(const struct model *m, const struct model_tensor *t, int64_t step,
                         int64_t steps, float *value, float *exp_avg, float *exp_avg_sq,
                         const float *gradient, float *mask);
/* Expands a vector with a mask to a whole matrix: inactive places are 0. */
void model_sparse_whole(const struct model_tensor *t, const float *value, const float *mask,
                        float *whole);
/*
 * Lists the active places in order: those of block o of outputs are start[o] to before start[o
 * + 1]; column holds each one's input.  start [blocks of outputs + 1], column [most].  Returns
 * 0 if more than `most` are active, else 1.
 */
int model_sparse_places(const struct model_tensor *t, const float *mask, int64_t most,
                        int32_t *start, int32_t *column);
/* ADDS the active places' values of a whole matrix to a vector. */
void model_sparse_add(const struct model_tensor *t, const float *whole, const float *mask,
                      float *value);

#endif
