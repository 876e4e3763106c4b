/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_H
#define PROBE_PROBE_H

#include <stdint.h>

#include "exec/exec_mpi.h"
#include "exec/exec_nccl.h"
#include "probe/probe_cluster.h"
#include "probe/probe_machine.h"
#include "topo/topo.h"
#include "world/world.h"

/*
 * The ranks that share a port.  These are the hosts' ranks, unless groups were discovered
 * (probe_discover.c): such groups may extend over several machines or be several on one.  A
 * level that joins blocks of groups has the blocks of the level below as its groups.
 */
struct probe_view {
    const struct groups *groups; /* borrowed */
    const int *within; /* [groups->count] streams stay among groups of equal number; borrowed;
                          NULL: all are equal */
    int hosts;         /* 1: the groups are the hosts, so the ranks of one share a clock */
    double ahead_s;    /* otherwise: how far this rank's clock is ahead of rank 0's */
};

/* Returns the view whose groups are the hosts. */
struct probe_view probe_view_hosts(const struct world *world);
/* Returns the number of groups with k's number in `within`; sets *at to k's position in
   them. */
int probe_circle(const struct probe_view *v, int k, int *at);
/* Returns the group s positions after k in the circle of groups with k's number in `within`. */
int probe_next(const struct probe_view *v, int k, int s);
/* Returns the largest number of groups with an equal number in `within`. */
int probe_widest(const struct probe_view *v);

/* The units that share ports at each level from 1 on: view[1] the groups, view[2] blocks,
   ... */
struct probe_views {
    int levels;
    struct probe_view view[TOPO_LEVELS_MAX];
    struct groups groups[TOPO_LEVELS_MAX]; /* owned, as is the next member; views point to
                                              them */
    int *within[TOPO_LEVELS_MAX];
};
/* Initializes views of the world's hosts, borrowed; or, with `found`, of those clusters.
   ahead_s: as in struct probe_view. */
void probe_views_init(struct probe_views *v, const struct world *world,
                      const struct probe_clusters *found, double ahead_s);
void probe_views_release(struct probe_views *v);
/* Returns whether streams pass a level: some ranks share a group (level 0), or there are groups
   to connect (above). */
int probe_passes(const struct probe_views *v, int level);
/* Returns the host, in the world, that all members of group k share; -1: they are on
   several. */
int probe_host_of(const struct groups *g, const struct world *world, int k);
/* Initializes t with these groups and blocks, without rates; with host names for groups that
   lie on one host. */
void probe_views_topo(const struct probe_views *v, const struct world *world, struct topo *t);

/*
 * Measures a fabric by schedules of its own.  A flow consists of rows from one sender to one
 * receiver; a round is a set of simultaneous flows; a ping is a schedule of two rows.  The
 * executor runs them on the transport that training will use, and its times count.
 *
 * Rates are payload, measured where the bytes arrive, by one clock (the receiving group's):
 * from the moment when the first part has arrived (PROBE_SKIP: connections are open, token
 * buckets empty, windows grown) until the last byte.  Every received word is compared with the
 * one that its sender must have sent.
 */
struct probe {
    struct world *world;     /* borrowed */
    struct probe_view view;  /* the hosts, unless set by the caller after probe_open */
    struct exec_mpi *exec;   /* owned */
    char *in, *out;          /* [space] */
    int64_t space;           /* most bytes that a rank may send, or receive, in a round */
    uint64_t turn;           /* rounds run: makes the words of each one different */
    void (*look)(void *arg); /* called about every millisecond of a round; or NULL */
    void *look_arg;
    struct probe_gpu *gpu; /* owned; NULL: rounds use host memory (probe_gpu.h) */
    /* Borrowed; NULL: MPI.  Set on all ranks after probe_gpu_open and before any round is
       prepared: NCCL then sends rounds and messages from GPU to GPU; round trips are not
       available. */
    struct exec_nccl *nccl;
};

struct probe_flow {
    int src, dst;  /* ranks, different */
    int64_t bytes; /* > 0 */
};

struct probe_round {
    struct exec_mpi_handle *exec;  /* one of these two */
    struct exec_nccl_handle *nccl; /* if the probe has NCCL */
    struct probe_flow *mine;       /* the flows that begin or end here; owned */
    int mines;
    int64_t in_bytes;
    int laps; /* repetitions of the flows without a pause; 1 unless the caller sets more */
};

struct probe_result {
    double rank_Bps;      /* into this rank; 0: nothing arrived for long enough to be timed */
    double group_Bps;     /* into all ranks of this rank's group (of the view) together */
    int64_t wrong;        /* words received that differ from those sent */
    int64_t gpu_wrong[2]; /* words that this rank's GPU changed: when sending, when receiving */
    double took_s;        /* from the preceding barrier until this rank was done */
};

/* Collective.  Every rank returns the same error, as in all functions below unless stated
   otherwise. */
int probe_open(struct probe *p, struct world *world, int64_t space, struct err *err);
void probe_close(struct probe *p);

/* Collective: all ranks pass the same flows.  No rank sends or receives more than p->space. */
int probe_prepare(struct probe *p, const struct probe_flow *flow, int flows,
                  struct probe_round *out, struct err *err);
void probe_free(struct probe_round *r);
/*
 * Collective: one run.  After an error (ERR_PEER: no byte for world->deadline_s) this rank
 * alone may know of it: the caller agrees with the other ranks, or ends.
 */
int probe_run(struct probe *p, struct probe_round *r, struct probe_result *out,
              struct err *err);

/*
 * Collective: messages between pairs of ranks, each rank in at most one.  `times` times the
 * first rank of a pair sends `bytes` (0: a ping) and a word of 8 bytes, which comes back.
 * *took_s: the median, on the first rank of each pair; 0 on the other ranks.  p->space is
 * larger than bytes by at least 64.
 */
int probe_message(struct probe *p, const struct probe_flow *pair, int pairs, int64_t bytes,
                  int times, double *took_s, struct err *err);

/*
 * Collective: pairs of ranks, each rank in at most one, send pair->bytes back and forth, at
 * least once, repeatedly for at most about budget_s.  A pair begins at its own round turn[i];
 * in the other rounds its ranks sleep, because waiting would use processors that ranks share.
 * *least_s: the shortest round trip, on the first rank of each pair; 0 on the other ranks.
 */
int probe_trips(struct probe *p, const struct probe_flow *pair, const int *turn, int pairs,
                double budget_s, double *least_s, struct err *err);

/*
 * Group k sends to group to[k], or, with -1 or k itself, to none; no two to the same, so that
 * no port is shared.  Members of both groups are paired cyclically until the larger side is
 * used up.  `bytes` pass each port.  Returns the number of flows, at most ranks * 2; flow may
 * be NULL.
 */
int probe_exchange(const struct groups *g, const int *to, int64_t bytes,
                   struct probe_flow *flow);
/*
 * Shift s, 1 <= s < probe_widest, is such an exchange: every group sends to the one s positions
 * after it, as in a ring; circles in which s leads back to the sender are left out.  Part -1 is
 * the whole shift; otherwise it is one of PROBE_PARTS, in each of which a group sends, or
 * receives, or neither: the last part has one flow of each circle with an odd number of groups.
 * On a ring of cables half of the bytes go to the group s positions before it, at the same
 * time.  At most PROBE_FLOWS flows for each rank.
 */
enum { PROBE_PARTS = 3, PROBE_FLOWS = 4 };
int probe_shift(const struct probe_view *v, int s, int part, int64_t bytes,
                struct probe_flow *flow);
/* Adds a ring inside each group. */
int probe_inside(const struct groups *g, int64_t bytes, struct probe_flow *flow);
/* Returns the most bytes that probe_shift needs on one rank for these bytes, for probe_open. */
int64_t probe_shift_space(const struct groups *g, int64_t bytes);

/*
 * Collective: prepares a ring all-gather of groups first .. first + count - 1 (two at least),
 * `bytes` from each rank, for probe_run.  Rank j of each group is in the j-th ring through
 * them; there are as many rings as the smallest group has ranks, and the other ranks are idle.
 * p->space is at least probe_ring_space.
 */
int probe_ring(struct probe *p, int first, int count, int64_t bytes, struct probe_round *out,
               struct err *err);
int64_t probe_ring_space(int count, int64_t bytes);

/*
 * Measures the bytes per port that take about `seconds`, in rounds of 1 MiB of shift 1; the
 * result is within PROBE_BYTES_LEAST and PROBE_BYTES_MOST.  Needs two groups at least.
 */
int probe_size(struct world *world, const struct probe_view *v, double seconds, int64_t *bytes,
               struct err *err);

enum {
    /* Bytes of a round that are not timed: two token buckets of 128 kB and the contents of a
       socket. */
    PROBE_SKIP = 512 << 10,
    PROBE_BYTES_LEAST = 2 << 20,
    PROBE_BYTES_MOST = 64 << 20
};

/*
 * Collective: finds groups and levels by the distances of pairs alone, ignoring host names
 * (probe_discover.c, probe_cluster.h).
 */
int probe_discover(struct world *world, struct probe_views *out, struct err *err);

/*
 * Collective: measures the fabric, with the groups in `found`, or the hosts if that is NULL.
 * Level 0 is measured inside the groups, level 1 between them.  If there is only one group, or
 * one rank in each, the level without streams repeats the other one.  *out is the same on every
 * rank.  settings NULL: links and machines' memory only; otherwise also the links of GPUs, by
 * settings->transport: probe_gpu.h.  out->doubt reports copies that are slow for lack of pinned
 * memory, and busy processors.
 */
int probe_topo(struct world *world, const struct probe_views *found,
               const struct probe_settings *settings, struct topo *out, struct err *err);

#endif
