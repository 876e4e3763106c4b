/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_CLUSTER_H
#define PROBE_PROBE_CLUSTER_H

#include <stdint.h>

#include "base/err.h"

/*
 * Groups from distances alone: which ranks are near each other, which groups of them, and so on
 * outwards.  Independent of MPI: returns the pairs to measure next to the caller, who measures.
 */
struct probe_pair {
    int a, b; /* ranks, different */
};

/*
 * Measures the pairs of a round, no rank in two of them: distance[i] > 0 of pair[i], in any
 * unit, the longer the farther.  Returns 0, or -1 with err filled.
 */
typedef int (*probe_measure)(void *arg, const struct probe_pair *pair, int pairs,
                             double *distance, struct err *err);

enum { PROBE_PARTITIONS_MAX = 7 }; /* with what joins all: as many levels as a topology has */

struct probe_clusters {
    int ranks;
    int partitions; /* from the finest to the coarsest, each of two parts at least; they nest */
    int *part; /* [partitions][ranks]: numbers from 0, in the order of first ranks; owned */
    int64_t measured; /* pairs, in so many rounds */
    int rounds;
};

/*
 * Distances that differ by less than this factor are of one level.  Repeats of one pair differ
 * by up to 30 % from what is usual, so that equal distances can look 1.3 / 0.7 = 1.9 apart; two
 * pairs that share one link, or two memories of one machine, 2.  A level is beyond both.
 */
#define PROBE_CLUSTER_FACTOR 3.0

/*
 * The same rounds give the same clusters on every rank.  Ranks that are all equally far apart
 * are in no partition: one group.
 *
 * For n ranks in c groups, n log2 n pairs and some are measured to find what is near, as long
 * as the ranks of a group are a power of two apart, or all as far as some of them are (placed
 * by slot, by node, equal or not, are): probe_cluster.c.  Then one rank of each group meets one
 * of each other group, to find groups that belong together: c (c - 1) / 2 pairs, but no more
 * than n log2 n at a time, and again while any are found.  Ranks in no order at all need more,
 * up to n (n - 1) / 2: of c groups in any order no method can do with less than n c / 4 or so.
 * Where c (c - 1) / 2 is above n log2 n, groups in no order can be left in two parts.
 */
int probe_cluster(int ranks, probe_measure measure, void *arg, struct probe_clusters *out,
                  struct err *err);
void probe_clusters_release(struct probe_clusters *c);

#endif
