/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_spoil: to be preloaded where a library that takes collectives over would be, and wrong in
 * one way: SPOIL is what the checker, mpi_user, must notice.
 *
 *   element   the last byte of the last item received is another
 *   order     the first two items received change places
 *   guard     the byte before or behind the receive buffer is written
 *   gap       so is the place between two blocks of MPI_Allgatherv, if there is one
 *   send      the send buffer is changed
 *   stale     every second call of a kind leaves what was there
 *   place     MPI_IN_PLACE is taken for no data: what is there is not this rank's own
 *   root      the root of a broadcast is rank 0
 *   operand   an operation's operands come from the highest rank to the lowest
 *   class     an error is of another class
 *   handler   an error is returned, and no handler told
 *   leak      memory of the message's size is lost with each call
 *   late      what is not right is so only on communicators of a part of the ranks
 *   end       or only inside MPI_Finalize
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is(const char *how)
{
    const char *spoil = getenv("SPOIL");

    return spoil && strcmp(spoil, how) == 0;
}

static bool ending;

static bool element(MPI_Comm comm)
{
    int ranks = 0, all;

    if (is("late")) {
        PMPI_Comm_size(comm, &ranks);
        PMPI_Comm_size(MPI_COMM_WORLD, &all);
        return ranks > 1 && ranks < all;
    }
    return is("element") || (is("end") && ending);
}

/* Where item number `at` begins, in bytes, and what an item's first byte and size are. */
static char *item(void *buf, MPI_Datatype type, long at, int *bytes)
{
    MPI_Aint lb, extent, true_lb, true_extent;

    PMPI_Type_get_extent(type, &lb, &extent);
    PMPI_Type_get_true_extent(type, &true_lb, &true_extent);
    PMPI_Type_size(type, bytes);
    return (char *)buf + at * extent + true_lb;
}

/* `count` items from `at` on were received. */
static void spoil(void *buf, MPI_Datatype type, long at, long count, MPI_Comm comm)
{
    char *p, *q, t[64];
    int bytes;

    if (count < 1 || buf == NULL || buf == MPI_IN_PLACE)
        return;
    p = item(buf, type, at + count - 1, &bytes);
    if (bytes > 0 && element(comm))
        p[0] ^= 1;
    if (is("guard"))
        item(buf, type, at + count, &bytes)[bytes + 7] ^= 1;
    p = item(buf, type, at, &bytes);
    q = item(buf, type, at + 1, &bytes);
    if (is("order") && count > 1 && q - p == bytes && bytes <= (int)sizeof(t)) {
        memcpy(t, p, (size_t)bytes);
        memcpy(p, q, (size_t)bytes);
        memcpy(q, t, (size_t)bytes);
    }
    if (is("leak") && bytes > 0) {
        char *lost = malloc((size_t)(count * bytes));
        for (long i = 0; lost && i < count * bytes; i += 4096)
            ((volatile char *)lost)[i] = 1;
    }
}

static void change(const void *in, MPI_Datatype type, long count)
{
    char *p;
    int bytes;

    if (!is("send") || count < 1 || in == MPI_IN_PLACE || in == NULL)
        return;
    p = item((void *)in, type, count - 1, &bytes);
    if (bytes > 0)
        p[0] ^= 1;
}

static int ended(int rc)
{
    return rc != MPI_SUCCESS && is("class") ? MPI_ERR_OTHER : rc;
}

/* A call that goes on: what was in `out`, where it is to be there again, and who would be told
   of an error. */
struct turn {
    void *out, *old;
    size_t bytes;
    MPI_Comm comm;
    MPI_Errhandler was;
};

/* calls: of the kind so far.  count: of items in `out`, less than 1 where they must stay. */
static struct turn begin(int *calls, void *out, MPI_Datatype type, long count, MPI_Comm comm)
{
    struct turn t = {.out = out, .comm = comm};
    int size;

    if (is("stale") && ++*calls % 2 == 0 && count > 0 && out && out != MPI_IN_PLACE &&
        type != MPI_DATATYPE_NULL) {
        t.bytes = (size_t)(item(out, type, count, &size) - (char *)out);
        t.old = malloc(t.bytes + 1);
        memcpy(t.old, out, t.bytes);
    }
    if (is("handler")) {
        PMPI_Comm_get_errhandler(comm, &t.was);
        PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    }
    return t;
}

/* Whether the call has been done. */
static bool end(struct turn *t, int rc)
{
    if (is("handler"))
        PMPI_Comm_set_errhandler(t->comm, t->was);
    if (rc == MPI_SUCCESS && t->old)
        memcpy(t->out, t->old, t->bytes);
    free(t->old);
    return rc == MPI_SUCCESS;
}

static int received(struct turn *t, int rc, const void *in, MPI_Datatype s, long sent,
                    MPI_Datatype r, long got)
{
    if (end(t, rc)) {
        change(in, s, sent);
        spoil(t->out, r, 0, got, t->comm);
    }
    return ended(rc);
}

static int ranks_of(MPI_Comm comm)
{
    int n, inter;

    PMPI_Comm_test_inter(comm, &inter);
    if (inter)
        PMPI_Comm_remote_size(comm, &n);
    else
        PMPI_Comm_size(comm, &n);
    return n;
}

int MPI_Allgather(const void *in, int n, MPI_Datatype s, void *out, int m, MPI_Datatype r,
                  MPI_Comm comm)
{
    static int calls;
    long all = (long)ranks_of(comm) * m;
    struct turn t = begin(&calls, out, r, all, comm);
    int rc;

    if (is("place") && in == MPI_IN_PLACE && m > 0) {
        in = calloc((size_t)m, 4096);
        rc = PMPI_Allgather(in, m, r, out, m, r, comm);
        free((void *)in);
        in = MPI_IN_PLACE;
    } else {
        rc = PMPI_Allgather(in, n, s, out, m, r, comm);
    }
    return received(&t, rc, in, s, n, r, all);
}

int MPI_Allgatherv(const void *in, int n, MPI_Datatype s, void *out, const int counts[],
                   const int displs[], MPI_Datatype r, MPI_Comm comm)
{
    static int calls;
    int rc, bytes, gap = 0;
    struct turn t = begin(&calls, out, r, counts[0] > 0 ? counts[0] + displs[0] : 0, comm);

    rc = PMPI_Allgatherv(in, n, s, out, counts, displs, r, comm);
    if (!end(&t, rc))
        return ended(rc);
    change(in, s, n);
    for (int i = 0; i < ranks_of(comm); i++) {
        spoil(out, r, displs[i], counts[i], comm);
        gap = gap || displs[i] == 0;
    }
    if (is("gap") && !gap && out) /* no block at 0: a gap */
        item(out, r, 0, &bytes)[0] ^= 1;
    return MPI_SUCCESS;
}

int MPI_Reduce_scatter(const void *in, void *out, const int counts[], MPI_Datatype t, MPI_Op op,
                       MPI_Comm comm)
{
    static int calls;
    int rank, ranks;
    long all = 0;

    PMPI_Comm_size(comm, &ranks);
    PMPI_Comm_rank(comm, &rank);
    for (int i = 0; i < ranks; i++)
        all += counts[i];
    struct turn turn = begin(&calls, out, t, in == MPI_IN_PLACE ? 0 : counts[rank], comm);
    int rc = PMPI_Reduce_scatter(in, out, counts, t, op, comm);
    return received(&turn, rc, in, t, all, t, counts[rank]);
}

int MPI_Reduce_scatter_block(const void *in, void *out, int n, MPI_Datatype t, MPI_Op op,
                             MPI_Comm comm)
{
    static int calls;
    int ranks;
    struct turn turn = begin(&calls, out, t, in == MPI_IN_PLACE ? 0 : n, comm);

    PMPI_Comm_size(comm, &ranks);
    int rc = PMPI_Reduce_scatter_block(in, out, n, t, op, comm);
    return received(&turn, rc, in, t, (long)ranks * n, t, n);
}

int MPI_Allreduce(const void *in, void *out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm)
{
    static int calls;
    int rc, rank, inter;
    struct turn turn = begin(&calls, out, t, in == MPI_IN_PLACE ? 0 : n, comm);
    MPI_Comm reversed;

    PMPI_Comm_test_inter(comm, &inter);
    if (is("operand") && !inter) {
        PMPI_Comm_rank(comm, &rank);
        PMPI_Comm_split(comm, 0, -rank, &reversed);
        rc = PMPI_Allreduce(in, out, n, t, op, reversed);
        PMPI_Comm_free(&reversed);
    } else {
        rc = PMPI_Allreduce(in, out, n, t, op, comm);
    }
    return received(&turn, rc, in, t, n, t, n);
}

int MPI_Bcast(void *buf, int n, MPI_Datatype t, int root, MPI_Comm comm)
{
    static int calls;
    int inter;
    struct turn turn = begin(&calls, buf, t, n, comm);

    PMPI_Comm_test_inter(comm, &inter);
    int rc = PMPI_Bcast(buf, n, t, is("root") && !inter && root < 100 ? 0 : root, comm);
    int gets = !(inter && (root == MPI_ROOT || root == MPI_PROC_NULL));
    return received(&turn, rc, NULL, t, 0, t, gets ? n : 0);
}

int MPI_Finalize(void)
{
    ending = true;
    return PMPI_Finalize();
}
