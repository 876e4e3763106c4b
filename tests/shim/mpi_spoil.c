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

/* Every second call: is the result to be thrown away? */
static bool stale(int *calls)
{
    return is("stale") && ++*calls % 2 == 0;
}

static void *saved(const void *buf, MPI_Datatype type, long count, size_t *bytes)
{
    bool there = count > 0 && buf && buf != MPI_IN_PLACE && type != MPI_DATATYPE_NULL;
    int size;
    void *p;

    *bytes = there ? (size_t)(item((void *)buf, type, count, &size) - (char *)buf) : 0;
    p = malloc(*bytes + 1);
    return *bytes ? memcpy(p, buf, *bytes) : p;
}

static void restored(void *buf, void *from, size_t bytes, bool really)
{
    if (really && bytes)
        memcpy(buf, from, bytes);
    free(from);
}

static int ended(int rc)
{
    return rc != MPI_SUCCESS && is("class") ? MPI_ERR_OTHER : rc;
}

/* Nobody is told while it is so. */
static MPI_Errhandler hush(MPI_Comm comm)
{
    MPI_Errhandler was = MPI_ERRHANDLER_NULL;

    if (is("handler")) {
        PMPI_Comm_get_errhandler(comm, &was);
        PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    }
    return was;
}

static void unhush(MPI_Comm comm, MPI_Errhandler was)
{
    if (is("handler"))
        PMPI_Comm_set_errhandler(comm, was);
}

static int ranks_of(MPI_Comm comm, int *rank)
{
    int n, inter;

    PMPI_Comm_rank(comm, rank);
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
    int rank, ranks = ranks_of(comm, &rank), rc;
    size_t bytes = 0;
    bool was = stale(&calls);
    void *old = was && m > 0 ? saved(out, r, (long)ranks * m, &bytes) : malloc(1);
    MPI_Errhandler h = hush(comm);

    if (is("place") && in == MPI_IN_PLACE && m > 0) {
        in = calloc((size_t)m, 4096);
        rc = PMPI_Allgather(in, m, r, out, m, r, comm);
        free((void *)in);
    } else {
        rc = PMPI_Allgather(in, n, s, out, m, r, comm);
    }
    unhush(comm, h);
    restored(out, old, bytes, rc == MPI_SUCCESS);
    if (rc == MPI_SUCCESS) {
        change(in, s, n);
        spoil(out, r, 0, (long)ranks * m, comm);
    }
    return ended(rc);
}

int MPI_Allgatherv(const void *in, int n, MPI_Datatype s, void *out, const int counts[],
                   const int displs[], MPI_Datatype r, MPI_Comm comm)
{
    static int calls;
    int rank, ranks = ranks_of(comm, &rank), rc, bytes, gap = 0;
    size_t size = 0;
    bool was = stale(&calls);
    void *old = was && counts[0] > 0 ? saved(out, r, counts[0] + displs[0], &size) : malloc(1);
    MPI_Errhandler h = hush(comm);

    rc = PMPI_Allgatherv(in, n, s, out, counts, displs, r, comm);
    unhush(comm, h);
    restored(out, old, size, rc == MPI_SUCCESS);
    if (rc != MPI_SUCCESS)
        return ended(rc);
    change(in, s, n);
    for (int i = 0; i < ranks; i++) {
        spoil(out, r, displs[i], counts[i], comm);
        gap = gap || displs[i] == 0;
    }
    if (is("gap") && !gap && out) /* no block at 0: a gap */
        item(out, r, 0, &bytes)[0] ^= 1;
    return MPI_SUCCESS;
}

static int reduced(int rc, const void *in, void *out, MPI_Datatype t, long sent, long got,
                   MPI_Comm comm)
{
    if (rc == MPI_SUCCESS) {
        change(in, t, sent);
        spoil(out, t, 0, got, comm);
    }
    return ended(rc);
}

int MPI_Reduce_scatter(const void *in, void *out, const int counts[], MPI_Datatype t, MPI_Op op,
                       MPI_Comm comm)
{
    static int calls;
    int rank, ranks, rc;
    size_t bytes = 0;
    long all = 0;
    bool was = stale(&calls);
    void *old;
    MPI_Errhandler h = hush(comm);

    PMPI_Comm_size(comm, &ranks);
    PMPI_Comm_rank(comm, &rank);
    for (int i = 0; i < ranks; i++)
        all += counts[i];
    old = was && in != MPI_IN_PLACE ? saved(out, t, counts[rank], &bytes) : malloc(1);
    rc = PMPI_Reduce_scatter(in, out, counts, t, op, comm);
    unhush(comm, h);
    restored(out, old, bytes, rc == MPI_SUCCESS);
    return reduced(rc, in, out, t, all, counts[rank], comm);
}

int MPI_Reduce_scatter_block(const void *in, void *out, int n, MPI_Datatype t, MPI_Op op,
                             MPI_Comm comm)
{
    static int calls;
    int ranks, rc;
    size_t bytes = 0;
    bool was = stale(&calls);
    void *old = was && in != MPI_IN_PLACE ? saved(out, t, n, &bytes) : malloc(1);
    MPI_Errhandler h = hush(comm);

    PMPI_Comm_size(comm, &ranks);
    rc = PMPI_Reduce_scatter_block(in, out, n, t, op, comm);
    unhush(comm, h);
    restored(out, old, bytes, rc == MPI_SUCCESS);
    return reduced(rc, in, out, t, (long)ranks * n, n, comm);
}

int MPI_Allreduce(const void *in, void *out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm)
{
    static int calls;
    int rc, rank, ranks = 0, inter;
    size_t bytes = 0;
    bool was = stale(&calls);
    void *old = was && in != MPI_IN_PLACE ? saved(out, t, n, &bytes) : malloc(1);
    MPI_Errhandler h = hush(comm);
    MPI_Comm reversed;

    PMPI_Comm_test_inter(comm, &inter);
    if (is("operand") && !inter) {
        PMPI_Comm_rank(comm, &rank);
        PMPI_Comm_size(comm, &ranks);
        PMPI_Comm_split(comm, 0, -rank, &reversed);
        rc = PMPI_Allreduce(in, out, n, t, op, reversed);
        PMPI_Comm_free(&reversed);
    } else {
        rc = PMPI_Allreduce(in, out, n, t, op, comm);
    }
    unhush(comm, h);
    restored(out, old, bytes, rc == MPI_SUCCESS);
    return reduced(rc, in, out, t, n, n, comm);
}

int MPI_Bcast(void *buf, int n, MPI_Datatype t, int root, MPI_Comm comm)
{
    static int calls;
    int rc, rank, inter;
    size_t bytes = 0;
    bool was = stale(&calls);
    void *old;
    MPI_Errhandler h = hush(comm);

    PMPI_Comm_test_inter(comm, &inter);
    PMPI_Comm_rank(comm, &rank);
    old = was ? saved(buf, t, n, &bytes) : malloc(1);
    rc = PMPI_Bcast(buf, n, t, is("root") && !inter && root < 100 ? 0 : root, comm);
    unhush(comm, h);
    restored(buf, old, bytes, rc == MPI_SUCCESS);
    if (rc == MPI_SUCCESS && !(inter && (root == MPI_ROOT || root == MPI_PROC_NULL)))
        spoil(buf, t, 0, n, comm);
    return ended(rc);
}

int MPI_Finalize(void)
{
    ending = true;
    return PMPI_Finalize();
}
