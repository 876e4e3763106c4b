/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_user's calls amid other things: requests in flight, two threads, communicators that come
 * and go, calls that are wrong, and the end of the program. */
#include "mpi_user.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FLYING = 100003, LEAK_BYTES = 1 << 18 };

static double part_of(int rank, int i)
{
    return (double)(i % 1000 + 7 * rank);
}

static void flight_check(struct user *u, const struct comm *k, const char *what,
                         const double *got, int from, int ranks)
{
    struct call c = {.form = ALLREDUCE, .comm = k, .count = FLYING};

    for (int i = 0; i < FLYING; i++) {
        double want = 0;
        for (int r = from; r < from + ranks; r++)
            want += part_of(r, i);
        if (got[i] == want)
            continue;
        call_wrong(u, &c, "%s was in flight: element %d is %.17g, expected %.17g", what, i,
                   got[i], want);
        return;
    }
}

/* Started before and finished after: a message, an all-reduce and a broadcast; on all[0], which
   the calls between are on too, and on its duplicate all[1]. */
void scene_flight(struct user *u, const struct comm *all, int n)
{
    int rank = all[0].rank, size = all[0].size, before = (rank + size - 1) % size;
    double *p = malloc(5 * sizeof(*p) * FLYING), *from = p, *to = p + FLYING, *in = to + FLYING,
           *out = in + FLYING, *cast = out + FLYING;
    MPI_Request q[4];

    if (p == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < FLYING; i++) {
        from[i] = in[i] = part_of(rank, i);
        cast[i] = rank == size - 1 ? part_of(rank, i) : 0;
    }
    MPI_Irecv(to, FLYING, MPI_DOUBLE, before, 3, all[0].mpi, &q[0]);
    MPI_Isend(from, FLYING, MPI_DOUBLE, (rank + 1) % size, 3, all[0].mpi, &q[1]);
    MPI_Iallreduce(in, out, FLYING, MPI_DOUBLE, MPI_SUM, all[0].mpi, &q[2]);
    MPI_Ibcast(cast, FLYING, MPI_DOUBLE, size - 1, all[1].mpi, &q[3]);
    for (int i = 0; i < 3 * FORMS; i++) {
        struct call c = call_draw(u, &all[i % 2 ? i % n : i / 2 % 2], i % FORMS);
        call_both(u, &c);
    }
    MPI_Waitall(4, q, MPI_STATUSES_IGNORE);
    flight_check(u, &all[0], "a message", to, before, 1);
    flight_check(u, &all[0], "MPI_Iallreduce", out, 0, size);
    flight_check(u, &all[1], "MPI_Ibcast", cast, size - 1, 1);
    free(p);
}

struct thread {
    struct user user;
    struct comm comm;
    pthread_t id;
};

static void *thread_run(void *arg)
{
    struct thread *t = arg;

    for (int i = 0; i < 60; i++) {
        struct call c = call_draw(&t->user, &t->comm, i % FORMS);
        call_both(&t->user, &c);
    }
    return NULL;
}

void scene_threads(struct user *u)
{
    struct thread t[2];

    for (int i = 0; i < 2; i++) {
        MPI_Comm mpi;
        t[i].user = *u;
        t[i].user.seed = mix(u->seed + (uint64_t)i);
        t[i].user.calls = t[i].user.refused = t[i].user.wrong = 0;
        MPI_Comm_dup(MPI_COMM_WORLD, &mpi);
        comm_over(&t[i].comm, i ? "a thread's" : "another thread's", mpi);
    }
    u->seed = mix(u->seed);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&t[i].id, NULL, thread_run, &t[i]) != 0)
            MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i].id, NULL);
        MPI_Comm_free(&t[i].comm.mpi);
        u->calls += t[i].user.calls;
        u->refused += t[i].user.refused;
        u->wrong += t[i].user.wrong;
    }
}

static int64_t resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long long all, here = 0;

    if (f == NULL)
        return 0;
    if (fscanf(f, "%lld %lld", &all, &here) != 2)
        here = 0;
    fclose(f);
    return (int64_t)here * sysconf(_SC_PAGESIZE);
}

static void churn_one(struct user *u, struct comm *k, int i)
{
    int rank;
    MPI_Comm mpi;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (i % 2)
        MPI_Comm_dup(MPI_COMM_WORLD, &mpi);
    else
        MPI_Comm_split(MPI_COMM_WORLD, i % 3 ? 0 : rank % 2, i % 4 ? rank : -rank, &mpi);
    comm_over(k, "one of many", mpi);
    for (int j = 0; j < 2; j++) {
        struct call c = call_draw(u, k, j ? (enum form)(i % FORMS) : ALLREDUCE);
        if (j == 0) {
            c.type = &u->types->all[0];
            while (c.type->mpi != MPI_DOUBLE)
                c.type++;
            c.op = &u->types->ops[0];
            c.count = LEAK_BYTES / 8;
        }
        call_both(u, &c);
    }
}

/* What a library keeps for a communicator must go with it.  The least that can be lost of a
 * call is scratch of its size: half of that for each of the second half of the communicators,
 * when whatever grows to its size once has done so, is more than is borne.  (The address
 * sanitizer keeps what was freed:
 * ASAN_OPTIONS=quarantine_size_mb=1:thread_local_quarantine_size_kb=64.) */
void scene_churn(struct user *u, int comms, bool quiet)
{
    enum { ALIVE = 8 };
    struct comm kept[ALIVE];
    int64_t half = 0, grown;
    struct call c = {.form = ALLREDUCE, .comm = &kept[0]};

    for (int i = 0; i < comms + ALIVE; i++) {
        if (i >= ALIVE)
            MPI_Comm_free(&kept[i % ALIVE].mpi);
        if (i < comms)
            churn_one(u, &kept[i % ALIVE], i);
        if (i == comms / 2)
            half = resident();
    }
    grown = resident() - half;
    if (u->rank == 0 && !quiet)
        printf("%d communicators came and went; the last half: %.1f KiB more each\n", comms,
               (double)grown / 1024 / (comms - comms / 2));
    if (grown > (int64_t)(comms - comms / 2) * LEAK_BYTES / 2)
        call_wrong(u, &c, "%lld bytes more after %d communicators", (long long)grown,
                   comms / 2);
}

/* What an error handler of the program's own was told. */
static struct {
    int times, class;
    MPI_Comm comm;
} told;

static void handler(MPI_Comm *comm, int *code, ...)
{
    told.times++;
    told.comm = *comm;
    MPI_Error_class(*code, &told.class);
}

/* Not MPI_COMM_NULL, of which Open MPI 4.1's own MPI_Allgather dies. */
enum mistake { COUNT, TYPE, OP, ROOT, RECEIVE, MISTAKES };

static int mistaken(enum form f, enum mistake m, MPI_Comm k, bool own)
{
    static double in[RANKS_MAX * 4], out[RANKS_MAX * 4];
    int n = m == COUNT ? -1 : 4;
    MPI_Datatype t = m == TYPE ? MPI_DATATYPE_NULL : MPI_DOUBLE;
    struct words w = {.in = in,
                      .out = m == RECEIVE ? MPI_IN_PLACE : out,
                      .sent = n,
                      .n = n,
                      .send = t,
                      .recv = t,
                      .op = m == OP ? MPI_OP_NULL : MPI_SUM,
                      .root = m == ROOT ? 1000 : 0,
                      .comm = k};

    for (int i = 0; i < RANKS_MAX; i++) {
        w.counts[i] = i ? 4 : n;
        w.displs[i] = 4 * i;
    }
    return words_call(f, &w, own);
}

static bool applies(enum form f, enum mistake m)
{
    if (f == BCAST)
        return m != OP && m != RECEIVE;
    return m != ROOT && (m != OP || f >= REDUCE_SCATTER);
}

/* The handler is told once, of the communicator that was called with, what PMPI_ tells it. */
static void handled(struct user *u, const struct comm *k, enum form f, enum mistake m)
{
    const char *const names[] = {"count", "type", "op", "root", "buffer"};
    struct call c = {.form = f, .comm = k};
    int rc_own, rc, own, class;

    told.times = 0;
    rc_own = mistaken(f, m, k->mpi, true);
    MPI_Error_class(rc_own, &own);
    int times_own = told.times, told_own = told.class;
    MPI_Comm comm_own = told.comm;
    told.times = 0;
    rc = mistaken(f, m, k->mpi, false);
    MPI_Error_class(rc, &class);
    u->calls++;
    if (own != class)
        call_wrong(u, &c, "of a bad %s it returns class %d, expected %d", names[m], own, class);
    else if (times_own != told.times || (told.times && told_own != told.class))
        call_wrong(u, &c, "of a bad %s the handler is told %d times class %d, expected %d, %d",
                   names[m], times_own, told_own, told.times, told.class);
    else if (told.times && comm_own != told.comm)
        call_wrong(u, &c, "of a bad %s the handler is told another communicator", names[m]);
}

void scene_errors(struct user *u, const struct comm *all, int n)
{
    MPI_Errhandler own;
    MPI_Comm mpi;
    struct comm k;

    MPI_Comm_create_errhandler(handler, &own);
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi);
    comm_over(&k, "one with a handler", mpi);
    MPI_Comm_set_errhandler(mpi, own);
    for (int f = 0; f < FORMS; f++)
        for (int m = 0; m < MISTAKES; m++)
            for (int i = 0; i < 2; i++)
                if (applies(f, m))
                    handled(u, i ? &k : &all[0], f, m);
    for (int f = 0; f < FORMS; f++)
        for (int i = 0; i < n; i++) { /* and all is well after it */
            struct call c = call_draw(u, i ? &all[i] : &k, f);
            call_both(u, &c);
        }
    MPI_Comm_free(&mpi);
    MPI_Errhandler_free(&own);
}

/* MPI_Finalize deletes what MPI_COMM_SELF has, and is the library still: calls are made there.
 */
static int at_end(MPI_Comm self, int key, void *value, void *extra)
{
    struct user *u = value;
    struct comm world;

    (void)self;
    (void)key;
    (void)extra;
    comm_over(&world, "the world inside MPI_Finalize", MPI_COMM_WORLD);
    for (int i = 0; i < 4 * FORMS; i++) {
        struct call c = call_draw(u, &world, i % FORMS);
        call_both(u, &c);
    }
    int64_t mine[2] = {u->wrong, u->calls}, all[2];
    PMPI_Allreduce(mine, all, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    types_release(u->types);
    u->wrong = all[0];
    u->calls = all[1];
    return MPI_SUCCESS;
}

void scene_end(struct user *u)
{
    int key;
    MPI_Comm mpi;
    struct comm k;

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, u);
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi); /* still there at the end */
    comm_over(&k, "one never freed", mpi);
    for (int f = 0; f < FORMS; f++) {
        struct call c = call_draw(u, &k, f);
        call_both(u, &c);
    }
}
