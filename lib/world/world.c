/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the ranks and their hosts, and brings all ranks to one result.  Independent of
 * schedules and data.  Collectives here are small, and implemented by nonblocking calls, so
 * that each has a deadline.
 */
#include "world/world_mpi.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tick.h"

enum {
    HOST_BYTES = 256,
    GATHER_RANKS = 16 /* with this many ranks or more an exchange goes through one rank */
};

double world_patience_s(const struct world *w)
{
    return w->slow > 0 ? WORLD_SLOW * w->deadline_s : w->deadline_s;
}

void world_enter(struct world *w)
{
    pthread_mutex_lock(&w->mpi->lock);
}

void world_leave(struct world *w)
{
    pthread_mutex_unlock(&w->mpi->lock);
}

void world_progress(struct world *w)
{
    int there = 0;

    world_enter(w);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, w->mpi->all, &there, MPI_STATUS_IGNORE);
    world_leave(w);
}

int world_wait(struct world *w, int rc, MPI_Request *request, const char *what, struct err *err)
{
    double start = tick_now_s(), nap = 5e-6;
    int done = 0;

    for (;;) {
        if (rc == MPI_SUCCESS) {
            world_enter(w);
            rc = MPI_Test(request, &done, MPI_STATUS_IGNORE);
            world_leave(w);
        }
        if (rc != MPI_SUCCESS)
            return err_set(err, ERR_PEER, "MPI reports error %d in %s", rc, what);
        if (done)
            return 0;
        if (world_forsaken(w, err))
            return -1;
        if (tick_now_s() - start > world_patience_s(w))
            return err_set(err, ERR_PEER, "no answer from other ranks in %s for %g s", what,
                           world_patience_s(w));
        tick_sleep_s(nap);
        if (nap < 200e-6)
            nap *= 1.5;
    }
}

static int run_bcast(struct world *w, MPI_Comm comm, void *data, int64_t bytes, int root,
                     struct err *err)
{
    MPI_Request request;

    assert(bytes <= INT32_MAX);
    world_enter(w);
    int rc = MPI_Ibcast(data, (int)bytes, MPI_BYTE, root, comm, &request);
    world_leave(w);
    return world_wait(w, rc, &request, "a broadcast", err);
}

/*
 * Many ranks: gathers to one rank and broadcasts from there, 2 (n - 1) messages.  Open MPI's
 * own nonblocking form sends from each rank to each: n (n - 1) messages, which is slow if ranks
 * share processors (64 on two: 80 ms for each exchange).
 */
static int run_allgather(struct world *w, MPI_Comm comm, int ranks, const void *mine,
                         int64_t bytes, void *all, struct err *err)
{
    int n = (int)bytes, by_one = ranks >= GATHER_RANKS && bytes * ranks <= INT32_MAX;
    MPI_Request request;

    assert(bytes <= INT32_MAX);
    world_enter(w);
    int rc = by_one ? MPI_Igather(mine, n, MPI_BYTE, all, n, MPI_BYTE, 0, comm, &request)
                    : MPI_Iallgather(mine, n, MPI_BYTE, all, n, MPI_BYTE, comm, &request);
    world_leave(w);
    if (world_wait(w, rc, &request, "an exchange", err))
        return -1;
    return by_one ? run_bcast(w, comm, all, bytes * ranks, 0, err) : 0;
}

int world_allgather(struct world *w, const void *mine, int64_t bytes, void *all,
                    struct err *err)
{
    return run_allgather(w, w->mpi->all, w->ranks, mine, bytes, all, err);
}

int world_node_allgather(struct world *w, const void *mine, int64_t bytes, void *all,
                         struct err *err)
{
    return run_allgather(w, w->mpi->node, w->node_ranks, mine, bytes, all, err);
}

int world_bcast(struct world *w, void *data, int64_t bytes, int root, struct err *err)
{
    return run_bcast(w, w->mpi->all, data, bytes, root, err);
}

int world_bcast_text(struct world *w, char **text, struct err *err)
{
    int64_t bytes = w->rank == 0 ? (int64_t)strlen(*text) + 1 : 0;

    if (world_bcast(w, &bytes, sizeof bytes, 0, err))
        return -1;
    char *space = w->rank == 0 ? *text : mem_new((size_t)bytes, 1);
    if (world_bcast(w, space, bytes, 0, err)) {
        if (w->rank)
            mem_free(space);
        return -1;
    }
    *text = space;
    return 0;
}

int world_bcast_groups(struct world *w, struct groups *groups, struct err *err)
{
    size_t n = (size_t)w->ranks;
    int *of = mem_new(2 * n + 1, sizeof *of);

    if (w->rank == 0) {
        memcpy(of, groups->group_of, n * sizeof *of);
        memcpy(of + n, groups->cell_of, n * sizeof *of);
        of[2 * n] = groups->ring;
    }
    int rc = world_bcast(w, of, (int64_t)((2 * n + 1) * sizeof *of), 0, err);
    if (rc == 0 && w->rank) {
        rc = groups_init_of(groups, w->ranks, of, err);
        if (rc == 0)
            groups_set_cells(groups, of + n);
        groups->ring = of[2 * n];
    }
    mem_free(of);
    return rc;
}

int world_bcast_blocks(struct world *w, int groups, const int *from, int *levels, int **block,
                       struct err *err)
{
    if (world_bcast(w, levels, sizeof *levels, 0, err))
        return -1;
    if (*levels <= 2)
        return 0;
    size_t cells = (size_t)(*levels - 2) * (size_t)groups;
    *block = mem_new(cells, sizeof **block);
    if (w->rank == 0)
        memcpy(*block, from, cells * sizeof **block);
    return world_bcast(w, *block, (int64_t)(cells * sizeof **block), 0, err);
}

int world_barrier(struct world *w, struct err *err)
{
    MPI_Request request;

    world_enter(w);
    int rc = MPI_Ibarrier(w->mpi->all, &request);
    world_leave(w);
    return world_wait(w, rc, &request, "a barrier", err);
}

/* Gathers lengths first, then the texts padded to the longest: they are short. */
int world_gather_text(struct world *w, const char *mine, char ***out, struct err *err)
{
    int64_t bytes = (int64_t)strlen(mine) + 1, most = 0;
    int64_t *all = mem_new((size_t)w->ranks, sizeof *all);
    char *padded = NULL, *space = NULL;
    int rc = -1;

    if (world_allgather(w, &bytes, sizeof bytes, all, err))
        goto done;
    for (int r = 0; r < w->ranks; r++)
        if (all[r] > most)
            most = all[r];
    assert(most <= INT32_MAX);
    padded = mem_new((size_t)most, 1);
    memcpy(padded, mine, (size_t)bytes);
    space = mem_new(w->rank == 0 ? (size_t)w->ranks : 1, (size_t)most);
    MPI_Request request;
    world_enter(w);
    rc = MPI_Igather(padded, (int)most, MPI_BYTE, space, (int)most, MPI_BYTE, 0, w->mpi->all,
                     &request);
    world_leave(w);
    rc = world_wait(w, rc, &request, "a gathering of texts", err);
    if (rc)
        goto done;
    *out = NULL;
    if (w->rank == 0) {
        *out = mem_new((size_t)w->ranks, sizeof **out);
        for (int r = 0; r < w->ranks; r++)
            (*out)[r] = mem_dup(space + r * most);
    }
done:
    MEM_FREE(all, padded, space);
    return rc;
}

void world_collect(struct world *w, const void *mine, int64_t bytes, double wait_s, void *all,
                   int *got)
{
    /* Does not match collectives on this communicator, which have other message contexts. */
    const int tag = 1;
    MPI_Request *request = mem_new((size_t)w->ranks, sizeof *request);
    double start = tick_now_s();
    int left = w->rank ? 1 : w->ranks - 1;

    world_enter(w);
    if (w->rank)
        MPI_Isend(mine, (int)bytes, MPI_BYTE, 0, tag, w->mpi->all, &request[0]);
    for (int r = 1; w->rank == 0 && r < w->ranks; r++)
        MPI_Irecv((char *)all + r * bytes, (int)bytes, MPI_BYTE, r, tag, w->mpi->all,
                  &request[r]);
    world_leave(w);
    if (w->rank == 0) {
        memcpy(all, mine, (size_t)bytes);
        got[0] = 1;
    }
    while (left > 0 && tick_now_s() - start < wait_s) {
        world_enter(w);
        for (int r = w->rank ? 0 : 1; r < (w->rank ? 1 : w->ranks); r++) {
            int done = 0;
            if (request[r] != MPI_REQUEST_NULL)
                MPI_Test(&request[r], &done, MPI_STATUS_IGNORE);
            left -= done;
            if (done && w->rank == 0)
                got[r] = 1;
        }
        world_leave(w);
        tick_sleep_s(200e-6);
    }
    /* Unfinished requests end with world_abort; their memory must outlive them. */
    if (left == 0)
        mem_free(request);
}

void world_sign(const struct world *w, int rank, struct err *err)
{
    if (w->ranks > 1 && !err->has_rank)
        err_prefix(err, "rank %d (%s): ", rank, w->host[w->groups.group_of[rank]]);
    err->has_rank = 1;
}

int world_agree(struct world *w, int rc, struct err *err)
{
    int32_t mine = rc ? w->rank : INT32_MAX, first = INT32_MAX;
    MPI_Request request;
    struct err said = {0};

    /* A rank that knows of a lost peer does not wait for it again. */
    if (rc && err->code == ERR_PEER)
        return -1;
    world_enter(w);
    int begun = MPI_Iallreduce(&mine, &first, 1, MPI_INT32_T, MPI_MIN, w->mpi->all, &request);
    world_leave(w);
    if (world_wait(w, begun, &request, "an agreement", err))
        return -1;
    if (first == INT32_MAX)
        return 0;
    if (w->rank == first) {
        said = *err;
        world_sign(w, w->rank, &said);
    }
    if (world_bcast(w, &said, sizeof said, first, err))
        return -1;
    *err = said;
    return -1;
}

/* Identifies a host by its uname, as MPI's own node split does. */
static int world_find_hosts(struct world *w, struct err *err)
{
    char mine[HOST_BYTES] = "";
    char(*all)[HOST_BYTES] = mem_new((size_t)w->ranks, HOST_BYTES);
    int *group_of = mem_new((size_t)w->ranks, sizeof(int)), count = 0;

    gethostname(mine, sizeof mine - 1);
    int rc = world_allgather(w, mine, HOST_BYTES, all, err);
    w->host = mem_new((size_t)w->ranks, sizeof *w->host);
    for (int r = 0; rc == 0 && r < w->ranks; r++) {
        int k = 0;
        while (k < count && strcmp(w->host[k], all[r]))
            k++;
        if (k == count)
            w->host[count++] = mem_dup(all[r]);
        group_of[r] = k;
    }
    rc = rc ? rc : groups_init_of(&w->groups, w->ranks, group_of, err);
    mem_free(all);
    mem_free(group_of);
    return rc;
}

static struct world *world_new(double wait_s)
{
    struct world *w = mem_new(1, sizeof *w);

    w->mpi = mem_new(1, sizeof *w->mpi);
    w->mpi->all = w->mpi->data = w->mpi->node = MPI_COMM_NULL;
    w->deadline_s = wait_s;
    pthread_mutex_init(&w->mpi->lock, NULL);
    return w;
}

/* Finds the ranks of comm, and makes the world's communicators. */
static int find_ranks(struct world *w, MPI_Comm comm, struct err *err)
{
    MPI_Request request;
    MPI_Info info;

    MPI_Comm_rank(comm, &w->rank);
    MPI_Comm_size(comm, &w->ranks);
    /*
     * The first exchange between ranks precedes the first communicator: making one has no
     * deadline, and a rank that could not get shared memory or sockets does not answer
     * (measured: with a limit on one rank's address space Open MPI warns, continues and hangs).
     */
    int rc = MPI_Ibarrier(comm, &request);
    if (world_wait(w, rc, &request, "the first meeting of all ranks", err))
        return -1;
    /*
     * The communicator of agreements.  Open MPI's HAN, which version 5 prefers between hosts,
     * attaches its own communicators to it, and reads them after they are freed if MPI_Finalize
     * frees it, as happens where ranks of a preloaded library end in any order.
     */
    MPI_Info_create(&info);
    MPI_Info_set(info, "ompi_comm_coll_preference", "^han");
    world_call_begin(w, "making a communicator");
    MPI_Comm_dup_with_info(comm, info, &w->mpi->all);
    MPI_Info_free(&info);
    MPI_Comm_dup(comm, &w->mpi->data);
    world_call_end(w);
    MPI_Comm_set_errhandler(w->mpi->all, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(w->mpi->data, MPI_ERRORS_RETURN);
    if (world_find_hosts(w, err))
        return -1;
    /* The ranks of this host, in the order of the groups. */
    int k = w->groups.group_of[w->rank];
    w->node_rank = w->groups.local_of[w->rank];
    w->node_ranks = w->groups.members[k];
    w->mpi->node_peer = mem_new((size_t)w->node_ranks, sizeof(int));
    for (int j = 0; j < w->node_ranks; j++)
        w->mpi->node_peer[j] = groups_rank(&w->groups, k, j);
    world_call_begin(w, "making a communicator");
    MPI_Comm_split(w->mpi->all, k, w->node_rank, &w->mpi->node);
    world_call_end(w);
    return 0;
}

/* Finalising, and freeing objects in use, would wait for a peer that does not answer. */
void world_leave_peers(struct world *w)
{
    w->mpi->owned = 0;
    w->mpi->all = w->mpi->data = w->mpi->node = MPI_COMM_NULL;
}

static int finish_open(struct world *w, int rc, struct world **out, struct err *err)
{
    if (rc == 0) {
        *out = w;
        return 0;
    }
    if (err->code == ERR_PEER)
        world_leave_peers(w);
    world_close(w);
    return -1;
}

int world_open_watched(struct world **out, double deadline_s, world_silent *silent, void *arg,
                       struct err *err)
{
    struct world *w = world_new(deadline_s);
    int there = 0, level = 0;
    int rc = silent ? world_deadline(w, silent, arg, err) : 0;

    MPI_Initialized(&there);
    if (rc == 0 && there) {
        MPI_Query_thread(&level);
    } else if (rc == 0) {
        w->slow++; /* a host may have to load the program first */
        world_call_begin(w, "the start of MPI");
        MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
        world_call_end(w);
        w->slow--;
        w->mpi->owned = 1;
    }
    if (rc == 0 && level < MPI_THREAD_SERIALIZED)
        rc = err_set(err, ERR_ABSENT, "MPI provides thread level %d, expected serialized (%d)",
                     level, MPI_THREAD_SERIALIZED);
    return finish_open(w, rc ? rc : find_ranks(w, MPI_COMM_WORLD, err), out, err);
}

int world_open(struct world **out, struct err *err)
{
    return world_open_watched(out, WORLD_DEADLINE_S, NULL, NULL, err);
}

int world_over(struct world **out, MPI_Comm comm, double wait_s, struct err *err)
{
    struct world *w = world_new(wait_s);

    return finish_open(w, find_ranks(w, comm, err), out, err);
}

void world_close(struct world *w)
{
    if (!w)
        return;
    world_call_begin(w, "the end of MPI");
    world_alarm_release(w);
    MPI_Comm *const made[] = {&w->mpi->node, &w->mpi->all, &w->mpi->data};
    for (int i = 0; i < 3; i++)
        if (*made[i] != MPI_COMM_NULL)
            MPI_Comm_free(made[i]);
    if (w->mpi->owned)
        MPI_Finalize();
    world_call_end(w);
    world_deadline_release(w);
    for (int k = 0; w->host && k < w->groups.count; k++)
        mem_free(w->host[k]);
    mem_free(w->host);
    groups_release(&w->groups);
    pthread_mutex_destroy(&w->mpi->lock);
    MEM_FREE(w->mpi->node_peer, w->mpi, w);
}

void world_abort(struct world *w, int status)
{
    if (w->mpi->all != MPI_COMM_NULL)
        MPI_Abort(MPI_COMM_WORLD, status); /* MPICH 4.0 waits for the ranks of a duplicate */
}

/* ---- subsets of the ranks ---- */

int world_peers_open(struct world *w, int colour, struct world_peers *out, struct err *err)
{
    struct world_peers p = {.ranks = 1, .world = w};

    /* Making a communicator has no deadline: first wait until all ranks have arrived. */
    if (world_barrier(w, err))
        return -1;
    p.inner = mem_new(1, sizeof *p.inner);
    world_enter(w);
    world_call_begin(w, "making a communicator");
    int rc = MPI_Comm_split(w->mpi->all, colour, w->rank, &p.inner->comm);
    world_call_end(w);
    if (rc == MPI_SUCCESS) {
        MPI_Comm_set_errhandler(p.inner->comm, MPI_ERRORS_RETURN);
        MPI_Comm_rank(p.inner->comm, &p.rank);
        MPI_Comm_size(p.inner->comm, &p.ranks);
    }
    world_leave(w);
    if (rc != MPI_SUCCESS) {
        mem_free(p.inner);
        return err_set(err, ERR_PEER, "MPI reports error %d while creating a communicator", rc);
    }
    *out = p;
    return 0;
}

int world_peers_bcast(struct world_peers *p, void *data, int64_t bytes, int from,
                      struct err *err)
{
    return p->ranks == 1 ? 0 : run_bcast(p->world, p->inner->comm, data, bytes, from, err);
}

int world_peers_allgather(struct world_peers *p, const void *mine, int64_t bytes, void *all,
                          struct err *err)
{
    if (p->ranks > 1)
        return run_allgather(p->world, p->inner->comm, p->ranks, mine, bytes, all, err);
    memcpy(all, mine, (size_t)bytes);
    return 0;
}

/* Begins the next chunk of a parcel, after `at` bytes; returns MPI's status. */
static int begin_chunk(MPI_Comm comm, const struct world_parcel *x, int64_t *at,
                       MPI_Request *request)
{
    int bytes = (int)(x->bytes - *at < WORLD_CHUNK ? x->bytes - *at : WORLD_CHUNK);
    char *data = (char *)x->data + *at;

    *at += bytes;
    return x->receives ? MPI_Irecv(data, bytes, MPI_BYTE, x->peer, x->tag, comm, request)
                       : MPI_Isend(data, bytes, MPI_BYTE, x->peer, x->tag, comm, request);
}

int world_transfer(struct world_peers *p, const struct world_parcel *parcel, int n,
                   int (*hold)(void *arg), void *arg, struct err *err)
{
    const double nap_least_s = 50e-6, nap_most_s = 5e-3;
    double nap_s = nap_least_s, moved_s = tick_now_s(), sent_s = moved_s, wait_s;
    MPI_Request *request = mem_new((size_t)n + 1, sizeof(MPI_Request));
    int64_t *at = mem_new((size_t)n + 1, sizeof *at);
    int *some = mem_new((size_t)n + 1, sizeof *some), moved, left, rc = MPI_SUCCESS;

    for (int i = 0; i < n; i++)
        request[i] = MPI_REQUEST_NULL;
    do {
        int held = hold && tick_now_s() - sent_s < WORLD_HOLD_S && hold(arg);
        world_enter(p->world);
        rc = MPI_Testsome(n, request, &moved, some, MPI_STATUSES_IGNORE);
        moved = rc == MPI_SUCCESS && moved != MPI_UNDEFINED ? moved : 0;
        for (int i = 0; i < moved; i++)
            if (!parcel[some[i]].receives)
                sent_s = tick_now_s();
        left = 0;
        for (int i = 0; rc == MPI_SUCCESS && i < n; i++) {
            int next = request[i] == MPI_REQUEST_NULL && at[i] < parcel[i].bytes;
            if (next && (parcel[i].receives || !held))
                rc = begin_chunk(p->inner->comm, &parcel[i], &at[i], &request[i]);
            left += next || request[i] != MPI_REQUEST_NULL;
        }
        world_leave(p->world);
        moved_s = moved ? tick_now_s() : moved_s;
        wait_s = WORLD_SLOW * p->world->deadline_s;
        if (rc != MPI_SUCCESS)
            return err_set(err, ERR_PEER, "MPI reports error %d in a transfer", rc);
        if (left && world_forsaken(p->world, err))
            return -1; /* messages in flight keep their memory */
        if (left && tick_now_s() - moved_s > wait_s)
            return err_set(err, ERR_PEER, "no bytes from other ranks for %g s", wait_s);
        nap_s = moved ? nap_least_s : 1.5 * nap_s < nap_most_s ? 1.5 * nap_s : nap_most_s;
        if (left)
            tick_sleep_s(nap_s);
    } while (left);
    MEM_FREE(request, at, some);
    return 0;
}

void world_peers_close(struct world_peers *p)
{
    if (p->inner) {
        world_enter(p->world);
        MPI_Comm_free(&p->inner->comm);
        world_leave(p->world);
    }
    mem_free(p->inner);
    *p = (struct world_peers){0};
}
