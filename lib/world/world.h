/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WORLD_WORLD_H
#define WORLD_WORLD_H

#include <stdint.h>

#include "base/err.h"
#include "base/groups.h"

/*
 * The ranks of a run: their numbers, their hosts, and how they agree.  Works under mpirun,
 * srun, or alone (one rank).  MPI is entered from one thread at a time (MPI_THREAD_SERIALIZED):
 * a thread that calls MPI holds world_enter, so that the communication thread and an agreement
 * never call it at the same time.  Every wait has a deadline.
 */
struct world {
    int rank, ranks;
    int node_rank, node_ranks; /* index among the ranks of this host, and their number */
    struct groups groups;      /* by host, hosts in the order of their first rank; owned */
    char **host;               /* [groups.count], owned */
    double deadline_s;         /* limit of a wait for the other ranks */
    int slow;                  /* above 0: waits may last WORLD_SLOW times as long */
    struct world_mpi
        *mpi; /* owned; only world/, exec/exec_mpi*, paro/ and preload/ access it */
};

/*
 * The default of --deadline, in seconds.  A connection that is interrupted for half of it has
 * recovered by then: TCP retries after pauses that double.
 */
#define WORLD_DEADLINE_S    60
#define WORLD_DEADLINE_TEXT "60"
/* --help text, the same in all commands. */
#define WORLD_DEADLINE_HELP "Give up on ranks that do not answer for this many seconds"
/*
 * While ranks read and write files, or NCCL examines machines, one may take minutes longer than
 * another: enclose this in ++w->slow and --w->slow, on all ranks.
 */
enum { WORLD_SLOW = 10 };
/* Seconds that a wait may last now. */
double world_patience_s(const struct world *w);

/* Initialises MPI (argc, argv are not used).  *out is closed with world_close.  ERR_PEER if the
   launcher gave no world. */
int world_open(struct world **out, struct err *err);
/*
 * As world_open, with another deadline.  Some calls of MPI cannot be interrupted (to start, to
 * end, to make communicators): if one does not return in time, a thread calls `silent`, which
 * must end the process.  w->ranks is 0 while MPI starts.
 */
typedef void world_silent(struct world *w, void *arg, const struct err *err);
int world_open_watched(struct world **out, double deadline_s, world_silent *silent, void *arg,
                       struct err *err);
/*
 * Finalises MPI.  Every rank calls it after an error that all ranks know; a rank that waits for
 * a lost peer calls world_abort instead.
 */
void world_close(struct world *w);
/* Ends all ranks at once with the status: the last resort if a peer does not answer.  Returns
 * if MPI has not started. */
void world_abort(struct world *w, int status);

/*
 * The agreement point: every rank passes its own outcome (rc 0, or -1 with err filled) and
 * every rank gets the same result: 0, or -1 with the error of the lowest failing rank, prefixed
 * by "rank 3 (node-b): " if there are several ranks.  Do not pass an agreed error again: it
 * would be attributed to another rank.  With ERR_PEER it returns -1 at once, without a message,
 * since world_abort must follow.
 */
int world_agree(struct world *w, int rc, struct err *err);

/* all[rank * bytes]: every rank's bytes, on every rank. */
int world_allgather(struct world *w, const void *mine, int64_t bytes, void *all,
                    struct err *err);
/* As world_allgather, among the ranks of this host, in node_rank order. */
int world_node_allgather(struct world *w, const void *mine, int64_t bytes, void *all,
                         struct err *err);
/* Gathers texts of any length on rank 0: out[ranks], each owned (mem_free); other ranks get
   NULL. */
int world_gather_text(struct world *w, const char *mine, char ***out, struct err *err);
int world_bcast(struct world *w, void *data, int64_t bytes, int root, struct err *err);
/* Broadcasts a text from rank 0.  *text: input on rank 0; elsewhere output, owned
 * (mem_free). */
int world_bcast_text(struct world *w, char **text, struct err *err);
/* Broadcasts groups of all ranks, cells too, from rank 0; owned by the caller
   (groups_release). */
int world_bcast_groups(struct world *w, struct groups *groups, struct err *err);
/* Broadcasts rank 0's levels of a fabric, and its blocks of groups above them (as in
   groups_by_block; only rank 0 passes `from`); *block is owned by each rank, NULL if there are
   none. */
int world_bcast_blocks(struct world *w, int groups, const int *from, int *levels, int **block,
                       struct err *err);
int world_barrier(struct world *w, struct err *err);

/*
 * After a wait has failed: gathers the bytes of the ranks that still answer.  On rank 0,
 * all[rank * bytes] and got[rank] for those that arrived within wait_s.  No rank waits for a
 * lost one; only world_abort may follow.
 */
void world_collect(struct world *w, const void *mine, int64_t bytes, double wait_s, void *all,
                   int *got);

/*
 * For ranks that wait for each other by means other than MPI, which would not notice a failed
 * rank.  world_alarm: sends this rank's error to all others, at the first call only; not
 * collective, takes at most 1 s.  The other two return 0, or after world_listen -1 and ERR_PEER
 * with the failed rank's message and name:
 *
 *   world_alarmed    as soon as another rank's alarm has arrived: all ranks must stop now
 *   world_forsaken   3 s after it arrived, so that ranks that are merely late do not count as
 *                    lost: every wait of a world calls this
 */
void world_listen(struct world *w);
void world_alarm(struct world *w, const struct err *err);
int world_alarmed(struct world *w, struct err *err);
int world_forsaken(struct world *w, struct err *err);

/*
 * Memory shared by the ranks of one host: base[r] is node rank r's part (bytes may differ),
 * base[node_rank] this rank's own.  Zeroed; anonymous, so nothing remains however a rank ends.
 * Collective over all ranks, with the same error on all: ERR_SYS if a rank cannot allocate its
 * part or map another's.
 */
struct world_share {
    int ranks;
    char **base;
    int64_t *bytes;
};
/* Bytes of memory available on this host now; INT64_MAX if unknown. */
int64_t world_available_bytes(void);
int world_share_open(struct world *w, int64_t bytes, struct world_share *out, struct err *err);
void world_share_close(struct world_share *s);

/*
 * The ranks with the same colour (a number from 0), in rank order, for collectives of a subset
 * of the ranks.  open: collective over all ranks, while no other transfer runs.  A zeroed
 * struct with ranks = 1 is a rank alone.
 */
struct world_peers {
    int rank, ranks;          /* this rank's index, number of peers */
    struct world *world;      /* borrowed */
    struct world_comm *inner; /* owned */
};
int world_peers_open(struct world *w, int colour, struct world_peers *out, struct err *err);
/* Collective over the peers: broadcasts data of the peer `from`. */
int world_peers_bcast(struct world_peers *p, void *data, int64_t bytes, int from,
                      struct err *err);
/* As world_allgather, among the peers. */
int world_peers_allgather(struct world_peers *p, const void *mine, int64_t bytes, void *all,
                          struct err *err);
void world_peers_close(struct world_peers *p);
/*
 * Bytes from one peer to another, whose number both know.  Two parcels of the same peer and
 * direction at the same time need different tags.
 */
struct world_parcel {
    int peer, receives, tag; /* tag: below WORLD_TAGS */
    void *data;              /* borrowed */
    int64_t bytes;
};
enum { WORLD_TAGS = 16, WORLD_CHUNK = 256 << 10 };
/* The longest time that a chunk is held back, in seconds: at least 13 MB/s. */
#define WORLD_HOLD_S 0.02
/*
 * Transfers all n parcels at the same time, each in chunks of WORLD_CHUNK, one after the other;
 * from any thread.  hold: returns whether the next chunk must wait; NULL: never.  ERR_PEER
 * after WORLD_SLOW times the deadline without a byte.
 */
int world_transfer(struct world_peers *p, const struct world_parcel *parcel, int n,
                   int (*hold)(void *arg), void *arg, struct err *err);

/* Lets MPI progress messages in flight, once; not between world_enter and world_leave. */
void world_progress(struct world *w);
/* Enclose every call of MPI. */
void world_enter(struct world *w);
void world_leave(struct world *w);

#endif
