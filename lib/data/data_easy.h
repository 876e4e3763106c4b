/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_EASY_H
#define DATA_DATA_EASY_H

#include "data/data.h"

/*
 * Finds easy sequences by forgetting events (Toneva et al., "An Empirical Study of Example
 * Forgetting during Deep Neural Network Learning", ICLR 2019), to drop them as in MEST's second
 * phase (Yuan et al., NeurIPS 2021).  Both papers count an image as learned when it is
 * classified correctly.  A language model has no such event, so here a sequence is learned in
 * an epoch if its loss is below the epoch's median.  A forgetting event is an epoch in which a
 * sequence is not learned after it was in the previous one.
 *
 *     epoch      1  2  3  4  5  6
 *     learned    0  1  0  1  1  0      2 events
 *
 * The score of a sequence is the number of its events.  A sequence that was never learned
 * scores the number of epochs, so that it is kept.  Epochs are counted per source; incomplete
 * ones do not count.
 */
struct easy_report {
    int64_t sequences;  /* in all sources */
    int64_t never_lost; /* learned, without forgetting event */
    int64_t never_learned;
    int64_t dropped;
};

/* Number of samples after which each sequence has been used in two epochs; requires
   fixed_windows. */
int64_t easy_samples(const struct data *d);
/*
 * Drops the `count` sequences with the lowest scores; among equal scores first those with lower
 * loss in the last epoch, then those earlier in the data.  loss [samples]: losses of the run's
 * samples 0 .. samples - 1.  The run continues with sample `samples`, in a new order of the
 * remaining sequences.  Each source keeps at least its hardest sequence.  Sources without
 * weights are mixed in proportion to their remaining sequences.  Call it once for a struct
 * data; the result is a function of d, loss and count only.
 */
void easy_drop(struct data *d, const float *loss, int64_t samples, int64_t count,
               struct easy_report *report);

#endif
