/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_CLUSTER_H
#define PROBE_PROBE_CLUSTER_H

#include <stdint.h>

#include "base/err.h"

/*
 * Finds groups from distances alone: ranks near each other, groups near each other, and so on
 * outwards.  Independent of MPI: a callback measures the pairs of each round.
 */
struct probe_pair {
    int a, b; /* ranks, different */
};

/*
 * Callback: measures the pairs of a round, no rank in two of them: distance[i] > 0 of pair[i],
 * in any unit, larger is farther.  Returns 0, or -1 with err filled.
 */
typedef int (*probe_measure)(void *arg, const struct probe_pair *pair, int pairs,
                             double *distance, struct err *err);

/* With the partition of all ranks: as many levels as a topology has. */
enum { PROBE_PARTITIONS_MAX = 7 };

struct probe_clusters {
    int ranks;
    int partitions; /* from the finest to the coarsest, each with two parts at least; they
                       nest */
    int *part; /* [partitions][ranks]: part numbers from 0, in the order of their first ranks;
                  owned */
    int64_t measured; /* pairs measured, and the rounds that took */
    int rounds;
};

/*
 * Distances that differ by less than this factor belong to one level.  Repeats of one pair
 * differ by up to 30 % from the usual value, so that equal distances can look 1.3 / 0.7 = 1.9
 * apart; two pairs that share one link, or two memories of one machine, 2.  A level exceeds
 * both.
 */
#define PROBE_CLUSTER_FACTOR 3.0

/*
 * Equal measurements give equal clusters on every rank.  Ranks that are all equally far apart
 * are in no partition: one group.
 *
 * For n ranks in c groups, somewhat more than n log2 n pairs are measured to find near ranks,
 * if the ranks of a group are a power of two apart, or all are as far apart as some of them
 * (true for ranks placed by slot or by node, equal groups or not): probe_cluster.c.  Then one
 * rank of each group is paired with one of each other group, to find groups that belong
 * together: c (c - 1) / 2 pairs, but no more than n log2 n at a time, and again as long as any
 * are found.  Ranks in arbitrary order need more, up to n (n - 1) / 2: for c groups in
 * arbitrary order no method can do with less than about n c / 4.  If c (c - 1) / 2 is above n
 * log2 n, groups in arbitrary order can be left in two parts.
 */
int probe_cluster(int ranks, probe_measure measure, void *arg, struct probe_clusters *out,
                  struct err *err);
void probe_clusters_release(struct probe_clusters *c);

#endif
