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
 * Which ranks are behind one port.  The hosts, unless groups were found otherwise
 * (probe_discover.c): those may reach over several machines, or be several on one, and a level
 * that joins blocks of groups has the blocks of the level below for groups.
 */
struct probe_view {
    const struct groups *groups; /* borrowed */
    const int *within; /* [groups->count]: streams stay among groups of one number here;
                        * borrowed; NULL: all are of one */
    int hosts;         /* the groups are the hosts: the ranks of one share a clock */
    double ahead_s;    /* else: of this rank's clock before that of rank 0 */
};

/* The hosts. */
struct probe_view probe_view_hosts(const struct world *world);
/* How many groups have k's number in `within`, and at *at the place of k among them. */
int probe_circle(const struct probe_view *v, int k, int *at);
/* The group s places behind k among those of its number in `within`, in a circle. */
int probe_next(const struct probe_view *v, int k, int s);
/* The most groups of one number. */
int probe_widest(const struct probe_view *v);

/* The units behind the ports of each level from 1 on: view[1] the groups, view[2] blocks,
   ... */
struct probe_views {
    int levels;
    struct probe_view view[TOPO_LEVELS_MAX];
    struct groups groups[TOPO_LEVELS_MAX]; /* owned, as is the next; views point to them */
    int *within[TOPO_LEVELS_MAX];
};
/* Views of the world's hosts, borrowed; or with `found` of those clusters.  ahead_s: as of a
   view. */
void probe_views_init(struct probe_views *v, const struct world *world,
                      const struct probe_clusters *found, double ahead_s);
void probe_views_release(struct probe_views *v);
/* Whether there are ranks that meet inside groups (level 0), or between them (further out). */
int probe_passes(const struct probe_views *v, int level);
/* The host, of the world's, that all members of group k share; -1 where they are on several. */
int probe_host_of(const struct groups *g, const struct world *world, int k);
/* A fabric of these groups and blocks without rates; hosts where a group is on one alone. */
void probe_views_topo(const struct probe_views *v, const struct world *world, struct topo *t);

/*
 * Measures a fabric by schedules of its own.  A flow is rows of one sender and one receiver; a
 * round is flows that run at once; a ping is a schedule of two rows.  The times are those of
 * the executor's work on them, on the transport that training will use.
 *
 * Rates are payload, taken where the bytes arrive, by one clock (that of the receiving group):
 * from the moment when a part of them has come (PROBE_SKIP: connections opened, token buckets
 * emptied, windows grown) until the last.  Every word is compared with what its sender must
 * have sent.
 */
struct probe {
    struct world *world;     /* borrowed */
    struct probe_view view;  /* the hosts, unless the caller sets another after probe_open */
    struct exec_mpi *exec;   /* owned */
    char *in, *out;          /* [room] */
    int64_t space;           /* bytes that one rank may send, and may receive, in a round */
    uint64_t turn;           /* rounds run: makes the words of each different */
    void (*look)(void *arg); /* called about every millisecond of a round; NULL: nobody looks */
    void *look_arg;
    struct probe_gpu *gpu; /* owned; NULL: rounds are of the host's memory (probe_gpu.h) */
    /* Borrowed; NULL: by MPI.  Set on all ranks behind probe_gpu_open, before any round is
       prepared: rounds and messages are then NCCL's, from GPU to GPU; trips there are none. */
    struct exec_nccl *nccl;
};

struct probe_flow {
    int src, dst;  /* ranks, different */
    int64_t bytes; /* > 0 */
};

struct probe_round {
    struct exec_mpi_handle *exec;  /* or */
    struct exec_nccl_handle *nccl; /* of a probe's that has NCCL */
    struct probe_flow *mine;       /* those that begin or end here; owned */
    int mines;
    int64_t in_bytes;
    int laps; /* the flows, so often in a row without a halt; 1 unless the caller says more */
};

struct probe_result {
    double rank_Bps;  /* into this rank; 0 where nothing came from afar enough to be timed */
    double group_Bps; /* into all ranks of this rank's group (of the view) together */
    int64_t wrong;    /* words that came to this rank and are not what was sent */
    int64_t gpu_wrong[2]; /* that its own GPU gave, took otherwise than they were: out, in */
    double took_s;        /* from the barrier before it until this rank was done */
};

/* Collective.  Same error on every rank, as in all that follow unless they say otherwise. */
int probe_open(struct probe *p, struct world *world, int64_t space, struct err *err);
void probe_close(struct probe *p);

/* Collective: all ranks name the same flows.  No rank sends or receives more than the room. */
int probe_prepare(struct probe *p, const struct probe_flow *flow, int flows,
                  struct probe_round *out, struct err *err);
void probe_free(struct probe_round *r);
/*
 * Collective: one run.  On an error (ERR_PEER: no byte for world->deadline_s) this rank alone
 * may know it: the caller agrees with the others, or ends.
 */
int probe_run(struct probe *p, struct probe_round *r, struct probe_result *out,
              struct err *err);

/*
 * Collective: pairs of ranks, each rank in one at most; the first sends `bytes` (0: a ping) and
 * a word of 8, which comes back, `times` times.  *took_s: the median at the first of each pair,
 * 0 on the other ranks.  The room is 64 bytes larger at least.
 */
int probe_message(struct probe *p, const struct probe_flow *pair, int pairs, int64_t bytes,
                  int times, double *took_s, struct err *err);

/*
 * Collective: pairs of ranks, each rank in one at most, send pair->bytes forth and back, again
 * and again for about budget_s at most, once at least.  A pair begins at its own turn of
 * [pairs], and while the others have theirs its ranks sleep: what they would do in waiting is
 * work for processors that ranks share.  *least_s: the shortest way forth and back, at the
 * first of each pair; 0 on the other ranks.
 */
int probe_trips(struct probe *p, const struct probe_flow *pair, const int *turn, int pairs,
                double budget_s, double *least_s, struct err *err);

/*
 * Group k sends to group to[k], or with -1 or k itself to none; no two to the same, so that no
 * port is shared.  Members of both groups are paired in turn until the larger side is used up.
 * `bytes` pass each port.  Returns the number of flows, at most ranks * 2; flow may be NULL.
 */
int probe_exchange(const struct groups *g, const int *to, int64_t bytes,
                   struct probe_flow *flow);
/*
 * Shift s, 1 <= s < probe_widest, is such a turn: every group sends to the one s places behind
 * it, as a ring does; circles that s leads around and back are left out.  Part -1 is all of it;
 * else it is one of PROBE_PARTS, in each of which a group sends, or receives, or neither: the
 * last has one flow of each circle of an odd number of groups, else none.
 */
enum { PROBE_PARTS = 3 };
int probe_shift(const struct probe_view *v, int s, int part, int64_t bytes,
                struct probe_flow *flow);
/* A ring inside each group. */
int probe_inside(const struct groups *g, int64_t bytes, struct probe_flow *flow);
/* The most bytes that probe_shift may need on one rank with these bytes: room for
   probe_open. */
int64_t probe_shift_space(const struct groups *g, int64_t bytes);

/*
 * Collective: a ring all-gather of groups first .. first + count - 1 (two at least), `bytes`
 * from each rank, run by probe_run.  Rank j of each group has a ring through them of its own,
 * as many as the smallest group has ranks; the others have nothing to do.  p->room is
 * probe_ring_space at least.
 */
int probe_ring(struct probe *p, int first, int count, int64_t bytes, struct probe_round *out,
               struct err *err);
int64_t probe_ring_space(int count, int64_t bytes);

/*
 * Bytes for each port that take about `seconds`, from a first look at the fabric (rounds of 1
 * MiB, shift 1); within PROBE_BYTES_LEAST and PROBE_BYTES_MOST.  Two groups at least.
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
 * Collective: groups and levels found by the distances of pairs alone, whatever the hosts are
 * called (probe_discover.c, probe_cluster.h).
 */
int probe_discover(struct world *world, struct probe_views *out, struct err *err);

/*
 * Collective: the fabric as it is measured, the groups being those found, or with NULL the
 * hosts.  Level 0 is measured inside the groups, level 1 between them; where there is only one,
 * or one rank in each, the level that nothing passes repeats the other one.  *out is the same
 * on every rank.  ask NULL: links and machines' memory alone.  GPUs' links, by what the ask
 * names: probe_gpu.h; out->doubt tells of copies that are slow for want of pinned memory, or of
 * busy processors.
 */
int probe_topo(struct world *world, const struct probe_views *found,
               const struct probe_settings *settings, struct topo *out, struct err *err);

#endif
