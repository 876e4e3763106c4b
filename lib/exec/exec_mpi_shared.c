/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shares a handle's buffers and counters with the ranks of its host, and finds theirs.  The
 * bases of a start are written before the first `ready` of that start, and the next start
 * begins only after every receiver has raised `done` to the end: a receiver never reads a base
 * while it changes.
 */
#include "exec/exec_mpi_inside.h"

static int is_shared(const struct exec_mpi_handle *h, const struct exec_queue *q)
{
    const struct groups *g = &h->x->world->groups;

    return q->kind != EXEC_LOCAL && !h->x->no_shared && !q->coded &&
           g->group_of[q->peer] == g->group_of[h->x->world->rank];
}

/*
 * A sender that waits for its bytes to be read waits for another process to get a core: at
 * least as long as copying some 10 KiB takes (a switch and back is 3 to 10 us, a copy 5 GB/s).
 */
enum { EAGER_BYTES_MAX = 32 << 10 };

/* Bytes of all rows of a queue, each on its own cache lines; 0 if they exceed the limit. */
static int64_t eager_bytes(const struct exec_mpi_handle *h, const struct exec_queue *q)
{
    int64_t sum = 0;

    for (int i = 0; i < q->count && sum <= EAGER_BYTES_MAX; i++)
        sum += arena_space(exec_queue_row(h, q, i)->bytes);
    return sum <= EAGER_BYTES_MAX ? sum : 0;
}

static int64_t pair_bytes(int count)
{
    return arena_space((int64_t)sizeof(struct exec_pair) +
                       count * (int64_t)sizeof(struct exec_spot));
}

static int64_t head_bytes(int entries)
{
    return arena_space((int64_t)sizeof(struct exec_head) +
                       entries * (int64_t)sizeof(struct exec_entry));
}

static struct exec_entry *entries_of(char *part)
{
    return (struct exec_entry *)(void *)(part + sizeof(struct exec_head));
}

int exec_shared_find(struct exec_mpi_handle *h, struct err *err)
{
    const struct world *w = h->x->world;

    for (int i = 0; i < h->queues; i++) {
        struct exec_queue *q = &h->queue[i];
        if (q->kind != EXEC_RECV || !is_shared(h, q))
            continue;
        q->node_peer = w->groups.local_of[q->peer];
        char *part = h->share.base[q->node_peer];
        const struct exec_head *head = (const struct exec_head *)(void *)part;
        for (int64_t n = 0; n < head->entries; n++) {
            const struct exec_entry *e = &entries_of(part)[n];
            if (e->lane == q->lane && e->peer == w->rank && e->count == q->count)
                q->pair = (struct exec_pair *)(void *)(part + e->pair_at);
        }
        if (!q->pair)
            return err_set(err, ERR_MISMATCH,
                           "rows of rank %d in lane %d are not those that rank %d expects",
                           q->peer, q->lane, w->rank);
    }
    return 0;
}

/* Takes tags that differ for all lanes of all handles; the largest lane of any rank decides. */
static int take_tags(struct exec_mpi_handle *h, int lanes, struct err *err)
{
    struct world *w = h->x->world;
    int *all = mem_new((size_t)w->ranks, sizeof(int)), *most = NULL, there = 0;
    int rc = world_allgather(w, &lanes, sizeof lanes, all, err);

    for (int r = 0; rc == 0 && r < w->ranks; r++)
        if (all[r] > lanes)
            lanes = all[r];
    mem_free(all);
    if (rc)
        return rc;
    world_enter(w);
    MPI_Comm_get_attr(h->comm, MPI_TAG_UB, &most, &there);
    world_leave(w);
    if (there && w->mpi->next_tag > *most - lanes) /* same outcome on every rank */
        return err_set(err, ERR_SYS, "%d lanes after %d others, but this MPI counts tags to %d",
                       lanes, w->mpi->next_tag, *most);
    h->tag = w->mpi->next_tag;
    w->mpi->next_tag += lanes;
    return 0;
}

int exec_shared_open(struct exec_mpi_handle *h, struct err *err)
{
    struct world *w = h->x->world;
    int64_t bytes = 0;
    int entries = 0, lanes = 0;

    for (int i = 0; i < h->queues; i++) {
        const struct exec_queue *q = &h->queue[i];
        if (q->kind == EXEC_SEND && is_shared(h, q)) {
            entries++;
            bytes += pair_bytes(q->count) + 2 * eager_bytes(h, q);
        }
        if (q->lane >= lanes)
            lanes = q->lane + 1;
    }
    bytes += head_bytes(entries) + arena_space(h->rows.scratch_bytes);
    if (world_share_open(w, bytes, &h->share, err))
        return -1;
    /* This rank's part: the sending pairs, with the source of each row. */
    char *part = h->share.base[w->node_rank];
    struct exec_head *head = (struct exec_head *)(void *)part;
    int64_t at = head_bytes(entries);
    for (int i = 0; i < h->queues; i++) {
        struct exec_queue *q = &h->queue[i];
        if (q->kind != EXEC_SEND || !is_shared(h, q))
            continue;
        entries_of(part)[head->entries++] = (struct exec_entry){q->lane, q->peer, q->count, at};
        q->pair = (struct exec_pair *)(void *)(part + at);
        at += pair_bytes(q->count);
        q->pair->eager_bytes = eager_bytes(h, q);
        int64_t slot = at;
        for (int n = 0; n < q->count; n++) {
            const struct exec_row *row = exec_queue_row(h, q, n);
            q->pair->from[n] = row->from;
            if (q->pair->eager_bytes)
                q->pair->from[n] = (struct exec_spot){(enum exec_where)EXEC_EAGER, slot};
            slot += arena_space(row->bytes);
        }
        at += 2 * q->pair->eager_bytes;
    }
    head->base[EXEC_SCRATCH] = at;
    h->base[EXEC_SCRATCH] = part + at;
    /* The exchange is also the barrier after which every part is filled. */
    return take_tags(h, lanes, err);
}

/* Offset of a buffer in this rank's arena; NULL gives 0 and is never read. */
static int arena_offset(const struct exec_mpi_handle *h, const void *p, int64_t *out)
{
    const char *base = h->x->arena.base, *at = p;

    if (p && (!base || at < base || at >= base + h->x->arena.bytes))
        return -1;
    *out = p ? at - base : 0;
    return 0;
}

int exec_shared_publish(struct exec_mpi_handle *h, struct err *err)
{
    struct exec_head *head = (struct exec_head *)(void *)h->share.base[h->x->world->node_rank];

    if (head->entries == 0)
        return 0;
    if (arena_offset(h, h->base[EXEC_IN], &head->base[EXEC_IN]) ||
        arena_offset(h, h->base[EXEC_OUT], &head->base[EXEC_OUT]))
        return err_set(err, ERR_INPUT, "a buffer of a collective is not in shared memory");
    return 0;
}

const char *exec_shared_source(const struct exec_mpi_handle *h, const struct exec_queue *q,
                               int at)
{
    const char *part = h->share.base[q->node_peer];
    const struct exec_head *head = (const struct exec_head *)(const void *)part;
    struct exec_spot from = q->pair->from[at];

    if ((int)from.where == EXEC_EAGER)
        return part + from.at + h->starts % 2 * q->pair->eager_bytes;
    const char *base = from.where == EXEC_SCRATCH ? part : h->x->share.base[q->node_peer];
    return base + head->base[from.where] + from.at;
}

char *exec_shared_space(const struct exec_mpi_handle *h, const struct exec_queue *q, int at)
{
    return h->share.base[h->x->world->node_rank] + q->pair->from[at].at +
           h->starts % 2 * q->pair->eager_bytes;
}
