/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_EASY_H
#define DATA_DATA_EASY_H

#include "data/data.h"

/*
 * Finds easy sequences by forgetting events (Toneva et al., "An Empirical Study of Example
 * Forgetting during Deep Neural Network Learning", ICLR 2019), as MEST's second phase drops
 * them (Yuan et al., NeurIPS 2021).  Both count an image as learned when it is classified
 * correctly.  A language model has no such event; our analogue: a sequence is learned in an
 * epoch if its loss is below the median of the epoch.  A forgetting event is an epoch in which
 * it is not learned and was in the one before.
 *
 *     epoch      1  2  3  4  5  6
 *     learned    0  1  0  1  1  0      2 events
 *
 * The score of a sequence is the number of its events; one that was never learned scores the
 * number of epochs, so that it stays.  Epochs are counted by source; one that is not complete
 * does not count.
 */
struct easy_report {
    int64_t sequences;  /* of all sources */
    int64_t never_lost; /* learned, and no forgetting event */
    int64_t never_learned;
    int64_t dropped;
};

/* Samples of the run after which each sequence came in two epochs; d has fixed_windows. */
int64_t easy_samples(const struct data *d);
/*
 * Drops the `count` sequences of lowest score; of equal ones those of lower loss in the last
 * epoch first, then those that come first in the data.  loss [samples]: of samples 0 ... of the
 * run, which continues with sample `samples`, in an order of its own over what remains.  Each
 * source keeps its hardest sequence at least.  Sources without weights are mixed by the
 * sequences that they keep.  Once for a struct data; a function of d, loss and count alone.
 */
void easy_drop(struct data *d, const float *loss, int64_t samples, int64_t count,
               struct easy_report *report);

#endif
