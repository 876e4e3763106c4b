/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_ways WAY: a program that knows MPI alone, in one way that a program may be:
 *
 *     quiet          no collective at all
 *     again          the same all-reduce twenty times, and a broadcast from every root in turn
 *     long           two small all-reduces of about one size, in turn, 40000 times
 *     many           more different all-reduces than are kept prepared, three times around
 *     leave          ends without MPI_Finalize
 *     killed         rank 1 is killed between two all-reduces
 *     flight         a message is on its way while its sender waits in a collective, which the
 *                    receiver joins only when it has the message
 *     kinds          whole numbers of as many bytes, which MPI may take for others: what comes
 *                    out is what a reduction of one rank's says
 *     gone           the handler of a communicator, and attributes that ask to be copied
 *
 * What comes out is checked; "ok" from rank 0.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMS = 8192, LONG = 1 << 19, MANY = 70 };

static int rank, ranks, wrong, copies;
static double in[LONG], out[LONG];

static void all_reduce(int elems)
{
    for (int i = 0; i < elems; i++)
        in[i] = i % 100 + rank;
    memset(out, 0, (size_t)elems * sizeof *out);
    MPI_Allreduce(in, out, elems, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < elems; i++)
        wrong += out[i] != (double)ranks * (i % 100) + ranks * (ranks - 1) / 2;
}

static void broadcast(int root)
{
    for (int i = 0; i < ELEMS; i++)
        in[i] = rank == root ? i + root : -1;
    MPI_Bcast(in, ELEMS, MPI_DOUBLE, root, MPI_COMM_WORLD);
    for (int i = 0; i < ELEMS; i++)
        wrong += in[i] != i + root;
}

static void again(void)
{
    for (int i = 0; i < 20; i++)
        all_reduce(ELEMS);
    for (int i = 0; i < 12 * ranks; i++)
        broadcast(i % ranks);
}

static void longer(void)
{
    for (int i = 0; i < 40000; i++)
        all_reduce(64 + i % 2);
}

static void many(void)
{
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < MANY; i++)
            all_reduce(ELEMS + i);
}

/* Open MPI 4 compares MPI_OFFSET as if it had no sign. */
static void kinds(void)
{
    static const MPI_Datatype type[] = {MPI_OFFSET, MPI_AINT, MPI_LONG_LONG, MPI_COUNT};
    long long *mine = calloc(ELEMS, sizeof *mine), *most = calloc(ELEMS, sizeof *most);

    for (int t = 0; t < 4; t++) {
        long long expected = 0;
        for (int r = 0; r < ranks; r++) {
            long long one = r % 2 ? -r : r;
            PMPI_Reduce_local(&one, &expected, 1, type[t], MPI_MAX);
        }
        for (int i = 0; i < ELEMS; i++)
            mine[i] = rank % 2 ? -rank : rank;
        MPI_Allreduce(mine, most, ELEMS, type[t], MPI_MAX, MPI_COMM_WORLD);
        for (int i = 0; i < ELEMS; i++)
            wrong += most[i] != expected;
    }
    free(mine);
    free(most);
}

/* From every rank to every other: whoever of them waits for its host alone is among them. */
static void flight(void)
{
    double *from = calloc(LONG, sizeof *from), *to = calloc(LONG, sizeof *to);

    all_reduce(ELEMS);
    broadcast(0);
    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < ranks; b++) {
            MPI_Request request = MPI_REQUEST_NULL;
            if (a == b)
                continue;
            if (rank == a)
                MPI_Isend(from, LONG, MPI_DOUBLE, b, 7, MPI_COMM_WORLD, &request);
            if (rank == b)
                MPI_Recv(to, LONG, MPI_DOUBLE, a, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            all_reduce(ELEMS);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    free(from);
    free(to);
}

static int copied(MPI_Comm comm, int key, void *extra, void *value, void *to, int *keep)
{
    (void)comm, (void)key, (void)extra;
    *(void **)to = value;
    *keep = 1;
    copies++;
    return MPI_SUCCESS;
}

static void gone(void)
{
    int key, rc;

    MPI_Comm_create_keyval(copied, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, NULL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    all_reduce(ELEMS);
    all_reduce(ELEMS);
    wrong += copies;
    /* All ranks are wrong in the same way, so that none waits. */
    rc = MPI_Bcast(in, -1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Error_class(rc, &rc);
    wrong += rc != MPI_ERR_COUNT;
    rc = MPI_Allreduce(in, out, ELEMS, MPI_DOUBLE, MPI_OP_NULL, MPI_COMM_WORLD);
    MPI_Error_class(rc, &rc);
    wrong += rc != MPI_ERR_OP;
    rc = MPI_Allgather(in, ELEMS, MPI_DOUBLE, out, ELEMS / 2, MPI_DOUBLE, MPI_COMM_WORLD);
    MPI_Error_class(rc, &rc);
    wrong += rc != MPI_ERR_TRUNCATE;
    all_reduce(ELEMS);
}

static void once(void)
{
    all_reduce(ELEMS);
}

static void leave(void)
{
    all_reduce(ELEMS);
    exit(0);
}

static void killed(void)
{
    all_reduce(ELEMS);
    if (rank == 1)
        raise(SIGKILL);
    all_reduce(ELEMS);
}

static void quiet(void)
{
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*go)(void);
    } ways[] = {{"quiet", quiet},   {"again", again}, {"long", longer},
                {"many", many},     {"leave", leave}, {"killed", killed},
                {"flight", flight}, {"kinds", kinds}, {"gone", gone}};
    void (*go)(void) = once;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof *ways; i++)
        if (strcmp(argv[1], ways[i].name) == 0)
            go = ways[i].go;
    go();
    MPI_Finalize();
    if (rank == 0)
        puts(wrong ? "wrong" : "ok");
    return wrong != 0;
}
