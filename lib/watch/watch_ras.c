/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads reports of NCCL RAS: the number of collectives of each operation that a rank has
 * launched on a communicator.  Keys that are not listed here are ignored.
 *
 *     ncclras -f json: {"communicators": [{hash, size, ranks: [{rank, host, pid, cuda_dev,
 *     status: {async_error, abort_flag}, collective_counts: {NAME: n}}], missing_ranks: [{rank,
 *     host, pid, cuda_dev, status: {unresponsive, considered_dead}}]}]}
 *
 * All ranks make the same calls in the same order.  So a rank with more launches (of all
 * operations together) than another waits for it, in the first call that the other has not
 * reached.  If each of two ranks has more launches of some operation, their calls differ.  NCCL
 * counts operations separately: calls are numbered per operation, and each operation is a
 * separate communicator here.
 */
#include <string.h>

#include "base/fnv.h"
#include "base/mem.h"
#include "watch/watch_parts.h"

struct ras_rank {
    int there, process;
    int64_t calls, of[METER_OPS];
};

struct ras_comm {
    uint64_t id;
    int size, lost;
    struct ras_rank *rank; /* [size] */
};

/* Why a rank makes no more calls; NULL: it does.  An error that may be another rank's, or an
   abort by the program itself, may follow from another problem. */
static const char *why_lost(const struct tree_node *status, enum watch_loss *loss)
{
    static const char *const errors[] = {/* ncclResult_t; 7: a call is in progress */
                                         [1] = "NCCL reports an error of CUDA there",
                                         [2] = "NCCL reports an error of the system there",
                                         [3] = "NCCL reports an internal error there",
                                         [4] = "NCCL reports an invalid argument there",
                                         [5] = "NCCL reports invalid usage there",
                                         [6] = "NCCL reports a remote error there: the network,"
                                               " or another rank"};
    int64_t error = watch_whole(status, "async_error", 0);

    *loss = WATCH_LOST;
    if (tree_is(tree_get(status, "considered_dead"), "true"))
        return "NCCL considers it dead";
    if (tree_is(tree_get(status, "unresponsive"), "true"))
        return "it does not answer NCCL";
    *loss = error == 0 || error == 6 || error == 7 ? WATCH_FOLLOWS : WATCH_LOST;
    if (error != 0 && error != 7)
        return error >= 1 && error <= 6 ? errors[error] : "NCCL reports an error there";
    return tree_is(tree_get(status, "abort_flag"), "true") ? "its communicator is aborted"
                                                           : NULL;
}

/* Reads a rank of the report; -1: invalid.  A process unknown to RAS has number -1. */
static int ras_read_rank(struct watch *w, struct ras_comm *c, const struct tree_node *r)
{
    const struct tree_node *counts = tree_get(r, "collective_counts"), *n;
    const char *host = watch_word(r, "host");
    int64_t rank = watch_whole(r, "rank", -1), pid = watch_whole(r, "pid", 0);
    uint64_t key = pid ? fnv_mix(fnv_bytes(host, strlen(host)), (uint64_t)pid)
                       : fnv_mix(c->id, (uint64_t)rank);
    enum watch_loss loss;
    const char *why = why_lost(tree_get(r, "status"), &loss);

    if (!counts && !why)
        return 0; /* it responds, but has left this communicator */
    int process = rank < 0 || rank >= c->size
                      ? -1
                      : watch_process(w, fnv_mix(key, (uint64_t)watch_whole(r, "cuda_dev", 0)),
                                      (int)rank, host);
    if (process < 0)
        return -1;
    watch_rank(w, process, (int)rank, c->size);
    c->lost |= why != NULL;
    if (why && loss > w->process[process].loss) {
        w->process[process].ended_by = why;
        w->process[process].loss = loss;
    }
    struct ras_rank *x = &c->rank[rank];
    *x = (struct ras_rank){.there = counts != NULL, .process = process};
    for (n = tree_first(counts, TREE_MAP); n; n = n->next) {
        int64_t calls = watch_whole(counts, n->key, -1);
        int op = watch_op_of(n->key);
        if (calls < 0 || calls > WATCH_NUMBER_MAX - x->calls)
            return -1;
        x->of[op < 0 ? 0 : op] += op < 0 ? 0 : calls;
        x->calls += op < 0 ? 0 : calls;
    }
    return 0;
}

/* The operation with the largest lead of a over b in launches; -1: none. */
static int op_ahead(const struct ras_rank *a, const struct ras_rank *b)
{
    int best = -1;
    int64_t most = 0;

    for (int op = 0; op < METER_OPS; op++)
        if (a->of[op] - b->of[op] > most) {
            most = a->of[op] - b->of[op];
            best = op;
        }
    return best;
}

/* Adds one row: the call in which some wait and others are missing, or the last one launched by
   all. */
static int add_calls(struct watch *w, const struct ras_comm *c)
{
    const struct ras_rank *end = c->rank + c->size, *low = NULL, *next = NULL;
    int differs = -1;

    for (const struct ras_rank *r = c->rank; r < end; r++)
        if (r->there && (!low || r->calls < low->calls))
            low = r;
    for (const struct ras_rank *r = c->rank; r < end; r++) {
        if (r->there && differs < 0)
            differs = op_ahead(low, r);
        if (r->there && r->calls > low->calls && (!next || r->calls < next->calls))
            next = r; /* its additional launches are the earliest */
    }
    int op = next && differs < 0 ? op_ahead(next, low) : METER_UNKNOWN;
    int comm = watch_comm(w, fnv_mix(c->id, (uint64_t)op), c->size);
    for (const struct ras_rank *r = c->rank; r < end && comm >= 0; r++) {
        if (!r->there)
            continue;
        int waits = r->calls > low->calls, own = op_ahead(r, low);
        if (differs >= 0 && (own < 0 || op_ahead(low, r) < 0))
            own = differs;
        struct watch_call x = {.process = r->process,
                               .comm = comm,
                               .member = (int)(r - c->rank),
                               .op = differs < 0 ? op : own,
                               .sequence = differs < 0 && op ? low->of[op] + waits : low->calls,
                               .arrived_ns = w->now_ns + 1,
                               .completed_ns = waits ? 0 : w->now_ns + 1};
        watch_join(w, comm, x.member, x.process);
        if (x.sequence > 0)
            watch_add(w, &x);
    }
    return comm;
}

static int read_comm(struct watch *w, const struct tree_node *o, int place)
{
    static const char *const lists[] = {"ranks", "missing_ranks"};
    const char *id = watch_word(o, "hash");
    int64_t size = watch_whole(o, "size", 0);
    struct ras_comm c = {.id = fnv_mix(fnv_bytes(id, strlen(id)), (uint64_t)place),
                         .size = (int)size};
    const struct tree_node *r;
    int rc = 0;

    if (size < 1 || size > WATCH_RANKS_MAX)
        return -1;
    c.rank = mem_new((size_t)size, sizeof *c.rank);
    for (int list = 0; list < 2; list++)
        for (r = tree_first(tree_get(o, lists[list]), TREE_LIST); r && rc == 0; r = r->next)
            rc = ras_read_rank(w, &c, r);
    if (rc == 0 && !c.lost)
        rc = add_calls(w, &c);
    mem_free(c.rank);
    return rc < 0 ? -1 : 0;
}

int watch_read_ras(struct watch *w, const char *name, const struct tree_node *list,
                   struct err *err)
{
    int i = 0;

    if (w->processes)
        return err_at(err, name, 0, NULL, "a report of NCCL RAS, expected it alone");
    for (const struct tree_node *o = list->child; o; o = o->next, i++)
        if (read_comm(w, o, i))
            return err_at(err, name, o->line, "communicators",
                          "[%d] is none of NCCL RAS, expected size, ranks and their counts", i);
    w->dumped = w->counted = 1;
    watch_raise_times(w, WATCH_ORDER);
    return 0;
}
