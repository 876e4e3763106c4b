/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WORLD_WORLD_H
#define WORLD_WORLD_H

#include <stdint.h>

#include "base/err.h"
#include "base/groups.h"

/*
 * The ranks of a run: who they are, on which hosts, and how they agree.  Works under mpirun,
 * srun, or alone (one rank).  MPI is entered from one thread at a time (MPI_THREAD_SERIALIZED):
 * whoever calls MPI holds world_enter, so that the communication thread and an agreement never
 * meet inside it.  Every wait has a deadline.
 */
struct world {
    int rank, ranks;
    int node_rank, node_ranks; /* this rank's place among those of its host, and their number */
    struct groups groups;      /* by host, hosts in the order of their first rank; owned */
    char **host;               /* [groups.count], owned */
    double deadline_s;         /* of a wait for the other ranks */
    int slow;                  /* above 0: waits last WORLD_SLOW times as long */
    struct world_mpi
        *mpi; /* owned; only world/, exec/exec_mpi*, paro/ and preload/ look inside */
};

/*
 * The default of --deadline, in seconds.  A connection that was cut for half of it is alive
 * again by then: TCP tries again after pauses that double.
 */
#define WORLD_DEADLINE_S    60
#define WORLD_DEADLINE_TEXT "60"
/* Text for --help, the same in all commands. */
#define WORLD_DEADLINE_HELP "Give up on ranks that do not answer for this many seconds"
/*
 * While ranks read and write files, or NCCL looks at machines, one may take minutes longer than
 * another: between ++w->slow and --w->slow, on all ranks.
 */
enum { WORLD_SLOW = 10 };
/* Seconds that a wait lasts now. */
double world_patience_s(const struct world *w);

/* Initialises MPI (argc, argv are not touched).  ERR_PEER when the launcher gave no world. */
int world_open(struct world **out, struct err *err);
/*
 * The same with another deadline.  Calls of MPI that nothing interrupts (to start, to end, to
 * make communicators): where one has not returned in time, a thread calls `silent`, which must
 * end the process. w->ranks is 0 while MPI starts.
 */
typedef void world_silent(struct world *w, void *arg, const struct err *err);
int world_open_watched(struct world **out, double deadline_s, world_silent *silent, void *arg,
                       struct err *err);
/*
 * Finalises MPI.  Every rank comes here on an error that all know; a rank that waits for a peer
 * that is gone goes through world_abort instead.
 */
void world_close(struct world *w);
/* Ends all ranks at once with the status: the last resort when a peer does not answer.  Returns
 * where MPI has not started. */
void world_abort(struct world *w, int status);

/*
 * The agreement point: every rank hands in its own outcome (rc 0, or -1 with err filled) and
 * every rank gets the same one: 0, or -1 with the error of the lowest failing rank, prefixed by
 * "rank 3 (node-b): " where there are several ranks.  An agreed error must not be handed in
 * again: another rank would be named for it.  With ERR_PEER -1 returns without a message, for
 * what comes next is world_abort.
 */
int world_agree(struct world *w, int rc, struct err *err);

/* all[rank * bytes]: every rank's bytes, on every rank. */
int world_allgather(struct world *w, const void *mine, int64_t bytes, void *all,
                    struct err *err);
/* The same among the ranks of this host, in node_rank order. */
int world_node_allgather(struct world *w, const void *mine, int64_t bytes, void *all,
                         struct err *err);
/* Texts of any length on rank 0: out[ranks], each owned (mem_free); other ranks get NULL. */
int world_gather_text(struct world *w, const char *mine, char ***out, struct err *err);
int world_bcast(struct world *w, void *data, int64_t bytes, int root, struct err *err);
/* A text from rank 0 to all; *text is owned (mem_free) on every rank but 0, where it is as
 * given. */
int world_bcast_text(struct world *w, char **text, struct err *err);
/* Groups of all ranks, cells too, from rank 0 to all; owned by the caller (groups_release). */
int world_bcast_groups(struct world *w, struct groups *groups, struct err *err);
/* Rank 0's levels of a fabric, and its blocks of groups above them (as in groups_by_block;
   `from` of rank 0 alone), owned by each rank; NULL where there are none. */
int world_bcast_blocks(struct world *w, int groups, const int *from, int *levels, int **block,
                       struct err *err);
int world_barrier(struct world *w, struct err *err);

/*
 * For the moment after a wait has failed: what can still be had from whom.  Every rank hands in
 * its bytes; on rank 0, all[rank * bytes] and got[rank] for those that came within wait_s.  No
 * rank waits for a lost one; nothing but world_abort comes after it.
 */
void world_collect(struct world *w, const void *mine, int64_t bytes, double wait_s, void *all,
                   int *got);

/*
 * For ranks that wait for each other by other means than MPI, where one that fails is not
 * missed.  world_alarm: this rank's error to all others, the first time it is called; not
 * collective, at most 1 s.  From world_listen on, 0, or -1 and ERR_PEER with that rank's words
 * and name:
 *
 *   world_alarmed    as soon as another rank's alarm has arrived: all have to stop now
 *   world_forsaken   3 s after it arrived, so that ranks that are merely late are not taken for
 *                    lost: every wait of a world asks this
 */
void world_listen(struct world *w);
void world_alarm(struct world *w, const struct err *err);
int world_alarmed(struct world *w, struct err *err);
int world_forsaken(struct world *w, struct err *err);

/*
 * Memory that the ranks of one host see of each other: base[r] is node rank r's part (bytes may
 * differ), base[node_rank] is one's own.  Zeroed; anonymous, so that nothing remains however a
 * rank ends.  Collective over all ranks, and the same error on all: ERR_SYS when one rank of
 * one host cannot have its part or see another's.
 */
struct world_share {
    int ranks;
    char **base;
    int64_t *bytes;
};
/* Bytes of memory that this host could give away now; INT64_MAX where it does not say. */
int64_t world_available_bytes(void);
int world_share_open(struct world *w, int64_t bytes, struct world_share *out, struct err *err);
void world_share_close(struct world_share *s);

/*
 * The ranks of one colour (a number from 0), in rank order: for what they do together and the
 * others do not.  open: collective over all ranks, while nothing else travels.  A zeroed one
 * with ranks = 1 is a rank alone.
 */
struct world_peers {
    int rank, ranks;          /* among them */
    struct world *world;      /* borrowed */
    struct world_comm *inner; /* owned */
};
int world_peers_open(struct world *w, int colour, struct world_peers *out, struct err *err);
/* Collective over the peers: data of the peer `from` to the others. */
int world_peers_bcast(struct world_peers *p, void *data, int64_t bytes, int from,
                      struct err *err);
void world_peers_close(struct world_peers *p);
/*
 * Bytes from one peer to another, both of which know how many; two of the same peer and
 * direction at the same time have different tags.
 */
struct world_parcel {
    int peer, receives, tag; /* tag: below WORLD_TAGS */
    void *data;              /* borrowed */
    int64_t bytes;
};
enum { WORLD_TAGS = 16, WORLD_CHUNK = 256 << 10 };
/* The most that a chunk is held back, in seconds: 13 MB/s at the least. */
#define WORLD_HOLD_S 0.02
/*
 * All of them at the same time, each in chunks of WORLD_CHUNK, one after the other; from any
 * thread.  hold: whether the next chunk has to wait; NULL: none has.
 * ERR_PEER after WORLD_SLOW times the deadline without a byte.
 */
int world_transfer(struct world_peers *p, const struct world_parcel *parcel, int n,
                   int (*hold)(void *arg), void *arg, struct err *err);

/* Lets MPI go on with messages under way, once; not between world_enter and world_leave. */
void world_progress(struct world *w);
/* MPI is entered between these. */
void world_enter(struct world *w);
void world_leave(struct world *w);

#endif
