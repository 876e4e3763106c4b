/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that runs progress: vector_check progress.  Rank 1 waits for a message of rank 0's
 * before it takes part, which MPI carries on where rank 0 lets it in alone; the two share a
 * host, and send each other nothing.
 *
 * vector_check GROUPS: collectives over blocks (coll/coll_vector.h), under mpirun.  Every
 * phase, algorithm and root, even and ragged counts with zeros, elements of 4, 8 and 16 bytes,
 * small chunks; twice from each handle.  What must come out is known of each element: values
 * are whole numbers, of which sums are exact in any order.  Also over a communicator of the odd
 * ranks that is freed before it is used.
 */
#include "coll/coll_vector.h"
#include "groups_fixture.h"
#include "ranks_fixture.h"
#include "world/world_mpi.h"

enum { ELEM = 16 }; /* the widest: a sum and a maximum side by side */

struct wide {
    int64_t sum, most;
};

static void add_wide(void *to, const void *arrived, int64_t n, void *arg)
{
    struct wide *a = to;
    const struct wide *b = arrived;

    ++*(int64_t *)arg;
    for (int64_t i = 0; i < n; i++) {
        a[i].sum += b[i].sum;
        a[i].most = a[i].most > b[i].most ? a[i].most : b[i].most;
    }
}

/* Element i of the whole vector as rank gives it; under 2^20, so that f32 sums are exact. */
static int64_t value(int rank, int64_t i, int round)
{
    return (i * 7919 + rank * 104729 + round * 31) % 1021 - 500;
}

static void put(void *p, int bytes, int64_t i, int64_t v)
{
    if (bytes == 4)
        ((float *)p)[i] = (float)v;
    else if (bytes == 8)
        ((double *)p)[i] = (double)v;
    else
        ((struct wide *)p)[i] = (struct wide){v, v};
}

/* Checks an element against all ranks' elements i; from: whose alone, or -1 for the sum. */
static int right(const struct world *w, const void *p, int bytes, int64_t at, int64_t i,
                 int from, int round)
{
    int64_t sum = 0, most = INT64_MIN;

    for (int r = 0; r < w->ranks; r++) {
        int64_t v = value(r, i, round);
        if (from >= 0 && r != from)
            continue;
        sum += v;
        most = v > most ? v : most;
    }
    if (bytes == 4)
        return ((const float *)p)[at] == (float)sum;
    if (bytes == 8)
        return ((const double *)p)[at] == (double)sum;
    const struct wide *got = (const struct wide *)p + at;
    return got->sum == sum && got->most == most;
}

static int owner_of(const struct coll_vector_spec *s, int ranks, int64_t i)
{
    int r = 0;

    for (int64_t end = s->count[0]; i >= end && r + 1 < ranks; end += s->count[++r])
        ;
    return r;
}

static void run_once(struct world *w, const struct coll_vector_spec *s, int bytes,
                     struct coll_vector *v, int round)
{
    int gathers = s->phases == SCHEDULE_ALL_GATHER,
        scatters = s->phases == SCHEDULE_REDUCE_SCATTER;
    int64_t before = 0;
    err = (struct err){0};

    for (int r = 0; (gathers || scatters) && r < w->rank; r++)
        before += s->count[r];
    for (int64_t i = 0; i < v->in_bytes / bytes; i++)
        put(v->in, bytes, i, value(w->rank, gathers ? before + i : i, round));
    if (v->out)
        memset(v->out, 0x5a, (size_t)v->out_bytes);
    expect(w, stream_drive(coll_vector_op(v), &err) == 0, "runs");
    for (int64_t i = 0; i < v->out_bytes / bytes; i++) {
        int64_t whole = scatters ? before + i : i;
        int from = gathers                           ? owner_of(s, w->ranks, i)
                   : s->phases == SCHEDULE_BROADCAST ? s->root
                                                     : -1;
        if (right(w, v->out, bytes, i, whole, from, round))
            continue;
        snprintf(err.text, sizeof err.text,
                 "phases %u, %s, root %d, %d bytes, element %" PRId64, s->phases,
                 schedule_algo_name(s->algo), s->root, bytes, i);
        expect(w, 0, "wrong");
    }
}

static void check(struct world *w, const struct groups *g, struct coll_vector_spec s, int bytes)
{
    struct coll_vector v;
    err = (struct err){0};
    int64_t calls = 0;

    s.type = bytes == 4 ? DTYPE_F32 : DTYPE_F64;
    if (bytes == ELEM) {
        s.elem_bytes = ELEM;
        s.combine = add_wide;
        s.combine_arg = &calls;
    }
    int rc = coll_vector_open(&v, w, g, &s, &err);
    /* Some of the small messages' algorithms do not know every operation: said by all. */
    expect(w, rc == 0 || (s.algo > SCHEDULE_HO_RING && err.code == ERR_INPUT), "opens");
    if (rc)
        return;
    for (int round = 0; round < 2; round++)
        run_once(w, &s, bytes, &v, round);
    coll_vector_close(&v);
}

static void check_all(struct world *w, const struct groups *g)
{
    static const unsigned phases[] = {SCHEDULE_ALL_GATHER, SCHEDULE_REDUCE_SCATTER,
                                      SCHEDULE_ALL_REDUCE, SCHEDULE_BROADCAST};
    static const int64_t sizes[] = {0, 1, 13, 1009};
    int64_t *count = mem_new((size_t)w->ranks, sizeof *count);
    int turn = 0;

    for (int p = 0; p < 4; p++)
        for (int a = 0; a < SCHEDULE_ALGOS; a++)
            for (int n = 0; n < 4; n++, turn++) {
                struct coll_vector_spec s =
                    LIST(.phases = phases[p], .algo = (enum schedule_algo)a, .elems = sizes[n],
                         .count = count, .chunk_bytes = 1 + turn % 3 * 500,
                         .root = turn % w->ranks);
                for (int r = 0; r < w->ranks; r++)
                    count[r] = turn % 2 ? sizes[n] : sizes[(n + r) % 4] + r;
                check(w, g, s, turn % 3 == 0 ? 4 : turn % 3 == 1 ? 8 : ELEM);
            }
    mem_free(count);
}

/* Ranks that are not all, in the order of a communicator that is gone. */
static void check_over(struct world *all)
{
    struct world *w = NULL;
    MPI_Comm comm;

    MPI_Comm_split(MPI_COMM_WORLD, all->rank % 2, -all->rank, &comm);
    expect(all, world_over(&w, comm, 60, &err) == 0, "a world over a communicator");
    MPI_Comm_free(&comm);
    expect(all, w->rank == (all->ranks - 1 - all->rank) / 2, "in its order");
    check_all(w, &w->groups);
    world_close(w);
}

/* A message that is not sent before its receiver has answered, under btl tcp. */
static void check_progress(struct world *w)
{
    enum { LONG = 1 << 22 };
    char *data = mem_new(LONG, 1);
    int64_t count[2] = {3, 3};
    struct coll_vector_spec s = LIST(.phases = SCHEDULE_ALL_GATHER, .algo = SCHEDULE_HO_RING,
                                     .type = DTYPE_F64, .count = count);
    MPI_Request request = MPI_REQUEST_NULL;
    struct coll_vector v;

    expect(w, coll_vector_open(&v, w, &w->groups, &s, &err) == 0, "opens");
    if (w->rank == 0)
        MPI_Isend(data, LONG, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
    else
        MPI_Recv(data, LONG, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    run_once(w, &s, 8, &v, 0);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    coll_vector_close(&v);
    mem_free(data);
}

int main(int argc, char **argv)
{
    struct world *w = NULL;
    struct groups g;
    err = (struct err){0};

    if (world_open(&w, &err)) {
        fprintf(stderr, "vector_check: %s\n", err.text);
        return 2;
    }
    int progress = argc > 1 && strcmp(argv[1], "progress") == 0;
    if (read_groups(w, argc > 1 && !progress ? argv[1] : "hosts", &g)) {
        fprintf(stderr, "vector_check: %s\n", err.text);
        world_close(w);
        return 2;
    }
    if (progress) {
        check_progress(w);
    } else {
        check_all(w, &g);
        check_over(w);
    }
    expect(w, world_agree(w, 0, &err) == 0, "all are there");
    if (w->rank == 0)
        puts("ok");
    groups_release(&g);
    world_close(w);
    return 0;
}
