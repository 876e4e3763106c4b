/* SPDX-License-Identifier: BSD-3-Clause */
/* paro_user [OPTION=...]: every operation, type and reduction of libparo, even and ragged
 * counts with zeros, every root, several algorithms and chunks; waited for, looked at, from
 * buffers of the program's and of the handle's, in place; several at once; over communicators
 * of some ranks; as `paro_user threads` by two threads; with takes=ALGO chunk=BYTES what is
 * taken for one element instead.  Values are whole numbers, of which sums are exact in any
 * order in every type: what must come out is known, for MPI's types from MPI itself.  MPI is
 * initialised by MPI_Init. */
#include <pthread.h>
#include <stdint.h>

#include "paro_fixture.h"

enum { COUNT_MAX = 700, HANDLES = 5 };

static const int elem_bytes[] = {[PARO_F32] = 4,  [PARO_F64] = 8, [PARO_F16] = 2,
                                 [PARO_BF16] = 2, [PARO_I32] = 4, [PARO_U8] = 1};

/* 0 to 4; averages are of n times that: the sum over 7 ranks is 196 at most, exact in 8 bits.
 */
static int value(int rank, int64_t i, int round)
{
    return (int)((i * 31 + rank * 17 + round * 5) % 5);
}

/* Whole numbers from 0 to 255: bf16 is the upper half of f32; f16's bits from the exponent. */
static void put(enum paro_type type, void *p, int64_t i, int v)
{
    float f = (float)v;
    uint32_t bits, exponent;

    memcpy(&bits, &f, sizeof bits);
    exponent = bits >> 23;
    switch (type) {
    case PARO_F32:
        ((float *)p)[i] = f;
        break;
    case PARO_F64:
        ((double *)p)[i] = v;
        break;
    case PARO_F16:
        ((uint16_t *)p)[i] =
            (uint16_t)(v ? (exponent - 127 + 15) << 10 | (bits >> 13 & 0x3ff) : 0);
        break;
    case PARO_BF16:
        ((uint16_t *)p)[i] = (uint16_t)(bits >> 16);
        break;
    case PARO_I32:
        ((int32_t *)p)[i] = v;
        break;
    default:
        ((uint8_t *)p)[i] = (uint8_t)v;
    }
}

/* Of all ranks' elements i; averages are of values times the ranks. */
static int together(enum paro_reduction reduction, int64_t i, int round, int n)
{
    int v = value(0, i, round), sum = v;

    for (int r = 1; r < n; r++) {
        int one = value(r, i, round);
        sum += one;
        v = reduction == PARO_MAX ? (one > v ? one : v) : one < v ? one : v;
    }
    return reduction == PARO_SUM || reduction == PARO_AVG ? sum : v;
}

struct shape { /* of a spec on n ranks, for rank r */
    int64_t before, mine, all;
};

static struct shape shape_of(const struct paro_spec *s, int r, int n)
{
    struct shape h = {0, s->count, s->count};

    if (s->op == PARO_ALL_REDUCE || s->op == PARO_BROADCAST)
        return h;
    h.all = h.mine = 0;
    for (int q = 0; q < n; q++) {
        int64_t one = s->counts ? s->counts[q] : s->count;
        h.before += q < r ? one : 0;
        h.mine = q == r ? one : h.mine;
        h.all += one;
    }
    return h;
}

static int owner(const struct paro_spec *s, int64_t i, int n)
{
    int r = 0;

    while (r + 1 < n && i >= shape_of(s, r + 1, n).before)
        r++;
    return r;
}

static void fill(const struct paro_spec *s, void *in, int64_t n_in, int r, int n, int round)
{
    int64_t from = s->op == PARO_ALL_GATHER ? shape_of(s, r, n).before : 0;
    int times = s->reduction == PARO_AVG ? n : 1;

    for (int64_t i = 0; i < n_in; i++)
        put(s->type, in, i, times * value(r, from + i, round));
}

static int is_right(const struct paro_spec *s, const char *out, int64_t n_out, int r, int n,
                    int round)
{
    int64_t from = s->op == PARO_REDUCE_SCATTER ? shape_of(s, r, n).before : 0;
    int bytes = elem_bytes[s->type],
        copies = s->op == PARO_ALL_GATHER || s->op == PARO_BROADCAST;
    double space;

    for (int64_t i = 0; i < n_out; i++) {
        int who = s->op == PARO_BROADCAST ? s->root : copies ? owner(s, i, n) : 0;
        int times = copies && s->reduction == PARO_AVG ? n : 1;
        put(s->type, &space, 0,
            copies ? times * value(who, i, round) : together(s->reduction, from + i, round, n));
        if (memcmp(out + i * bytes, &space, (size_t)bytes))
            return 0;
    }
    return 1;
}

enum place { APART, SAME, OWN, PLACES };

struct buffers {
    char *in, *out, *made;
};

/* Where a run reads and writes: apart; in is in out, as with MPI_IN_PLACE; the handle's. */
static struct buffers buffers_of(struct paro_coll *c, const struct paro_description *d,
                                 const struct paro_spec *s, enum place place, int r, int n)
{
    int64_t in = d->in_bytes, out = d->out_bytes, most = in > out ? in : out;
    struct buffers b = {0};
    void *own_in, *own_out;

    b.made = malloc((size_t)(in + out + most + 1));
    b.in = b.made;
    b.out = place == SAME ? b.made : b.made + in;
    if (place == SAME && s->op == PARO_ALL_GATHER)
        b.in = b.out + shape_of(s, r, n).before * elem_bytes[s->type];
    paro_buffers(c, &own_in, &own_out);
    if (place == OWN) {
        b.in = own_in;
        b.out = own_out;
    }
    return b;
}

static void run(struct paro_coll *c, const struct buffers *b, int looked)
{
    struct paro_error err;
    int done = 0;

    if (!looked) {
        must(paro_run(c, b->in, b->out, &err), &err);
        return;
    }
    must(paro_start(c, b->in, b->out, &err), &err);
    while (!done)
        must(paro_test(c, &done, &err), &err);
    must(paro_test(c, &done, &err), &err);
    expect(done, "a handle that does not run is done");
}

static void check(struct paro_comm *comm, const struct paro_spec *s, int turn, int r, int n)
{
    struct paro_description d = {.bytes = sizeof d};
    struct paro_coll *c = NULL;
    struct paro_error err;
    int bytes = elem_bytes[s->type];

    must(paro_prepare(comm, s, &c, &err), &err);
    must(paro_describe(c, &d, &err), &err);
    struct shape h = shape_of(s, r, n);
    int sends = s->op != PARO_BROADCAST || s->root == r;
    expect(d.in_bytes == (sends ? (s->op == PARO_ALL_GATHER ? h.mine : h.all) : 0) * bytes,
           "in_bytes %lld", (long long)d.in_bytes);
    expect(d.out_bytes == (s->op == PARO_REDUCE_SCATTER ? h.mine : h.all) * bytes,
           "out_bytes %lld", (long long)d.out_bytes);
    for (int round = 0; round < 2; round++) {
        struct buffers b = buffers_of(c, &d, s, (enum place)((turn + round) % PLACES), r, n);
        if (d.in_bytes)
            fill(s, b.in, d.in_bytes / bytes, r, n, round);
        run(c, &b, (turn / PLACES + round) % 2);
        expect(is_right(s, b.out, d.out_bytes / bytes, r, n, round),
               "op %d, type %d, reduction %d, root %d, algo %s, count %lld, turn %d, round %d",
               s->op, s->type, s->reduction, s->root, d.algo, (long long)s->count, turn, round);
        free(b.made);
    }
    paro_free(c);
}

static void check_all(struct paro_comm *comm, int r, int n, int steps)
{
    static const char *const algo[] = {NULL, "ho-ring", "two-level", "auto", "ring"};
    static const int64_t count[] = {0, 1, 13, COUNT_MAX};
    int64_t *counts = malloc((size_t)n * sizeof *counts);
    int turn = 0;

    for (int op = PARO_ALL_GATHER; op <= PARO_BROADCAST; op++)
        for (int type = PARO_F32; type < PARO_MPI; type++)
            for (int reduction = PARO_SUM; reduction <= PARO_AVG; reduction++)
                for (int k = 0; k < 4; k++, turn++) {
                    struct paro_spec s = {
                        .bytes = sizeof s, .root = turn % n, .count = count[k]};
                    if (turn % steps)
                        continue;
                    s.op = (enum paro_op)op;
                    s.type = (enum paro_type)type;
                    s.reduction = (enum paro_reduction)reduction;
                    s.algo = algo[turn / steps % 5];
                    s.chunk_bytes = turn % 3 * 300;
                    for (int q = 0; q < n; q++)
                        counts[q] = count[(k + q) % 4] + q % 2;
                    if (turn / steps % 2 && op <= PARO_REDUCE_SCATTER)
                        s.counts = counts;
                    check(comm, &s, turn / steps, r, n);
                }
    free(counts);
}

/* What MPI makes of it; elements of 16 bytes at most. */
static void ask_mpi(const struct paro_spec *s, const char *in, char *out, int n, int bytes)
{
    int at[64] = {0}, count[64];
    MPI_Comm w = MPI_COMM_WORLD;

    for (int r = 0; r < n; r++) {
        count[r] = (int)(s->counts ? s->counts[r] : s->count);
        at[r] = r ? at[r - 1] + count[r - 1] : 0;
    }
    switch (s->op) {
    case PARO_ALL_GATHER:
        MPI_Allgatherv(in, count[me], s->mpi_type, out, count, at, s->mpi_type, w);
        break;
    case PARO_REDUCE_SCATTER:
        MPI_Reduce_scatter(in, out, count, s->mpi_type, s->mpi_op, w);
        break;
    case PARO_ALL_REDUCE:
        MPI_Allreduce(in, out, (int)s->count, s->mpi_type, s->mpi_op, w);
        break;
    default:
        memcpy(out, in, me == s->root ? (size_t)(s->count * bytes) : 0);
        MPI_Bcast(out, (int)s->count, s->mpi_type, s->root, w);
    }
}

static void check_mpi(struct paro_comm *comm, struct paro_spec s, int bytes)
{
    struct paro_description d = {.bytes = sizeof d};
    struct paro_error err;
    struct paro_coll *c;

    must(paro_prepare(comm, &s, &c, &err), &err);
    must(paro_describe(c, &d, &err), &err);
    char *in = malloc((size_t)d.in_bytes + 1), *out = malloc((size_t)d.out_bytes + 1),
         *right = malloc((size_t)d.out_bytes + 1);
    for (int64_t i = 0; i < d.in_bytes / bytes; i++) {
        int v = value(me, i, 0);
        memset(in + i * bytes, 0, (size_t)bytes);
        if (s.mpi_type == MPI_LONG_DOUBLE || s.mpi_type == MPI_DOUBLE) {
            double x = v;
            long double y = v;
            memcpy(in + i * bytes, bytes == 8 ? (void *)&x : (void *)&y, bytes == 8 ? 8 : 10);
        } else { /* whole numbers and pairs of them, little end first */
            in[i * bytes] = (char)v;
            in[i * bytes + bytes / 2] = (char)(bytes > 7 ? me : 0);
        }
    }
    ask_mpi(&s, in, right, ranks, bytes);
    must(paro_run(c, in, out, &err), &err);
    expect(memcmp(out, right, (size_t)d.out_bytes) == 0, "MPI's type of %d bytes, op %d", bytes,
           s.op);
    paro_free(c);
    free(in);
    free(out);
    free(right);
}

static void check_types(struct paro_comm *comm)
{
    const struct {
        MPI_Datatype type;
        MPI_Op op;
        int bytes;
    } of[] = {{MPI_INT64_T, MPI_SUM, 8},     {MPI_SHORT, MPI_BXOR, 2},
              {MPI_DOUBLE, MPI_PROD, 8},     {MPI_2INT, MPI_MAXLOC, 8},
              {MPI_CHAR, MPI_OP_NULL, 1},    {MPI_UNSIGNED, MPI_LAND, 4},
              {MPI_LONG_DOUBLE, MPI_SUM, 16}};
    int64_t counts[64];
    MPI_Datatype three;

    for (int r = 0; r < ranks; r++)
        counts[r] = 40 * (r % 3);
    for (int op = PARO_ALL_GATHER; op <= PARO_BROADCAST; op++)
        for (int t = 0; t < 7; t++) {
            struct paro_spec s = {.bytes = sizeof s, .type = PARO_MPI, .root = t % ranks};
            s.op = (enum paro_op)op;
            s.count = 33 + t;
            s.counts = t % 2 && op <= PARO_REDUCE_SCATTER ? counts : NULL;
            s.mpi_type = of[t].type;
            s.mpi_op = of[t].op;
            if (s.mpi_op != MPI_OP_NULL || op == PARO_ALL_GATHER || op == PARO_BROADCAST)
                check_mpi(comm, s, of[t].bytes);
        }
    /* A type of the program's, freed before it runs. */
    MPI_Type_contiguous(3, MPI_SHORT, &three);
    MPI_Type_commit(&three);
    struct paro_spec s = {.bytes = sizeof s, .type = PARO_MPI, .count = 50, .mpi_type = three};
    s.op = PARO_ALL_GATHER;
    check_mpi(comm, s, 6);
    MPI_Type_free(&three);
}

static void check_flight(struct paro_comm *comm)
{
    struct paro_coll *c[HANDLES];
    struct paro_description d[HANDLES];
    struct paro_spec s[HANDLES];
    struct buffers b[HANDLES];
    struct paro_error err;

    for (int i = 0; i < HANDLES; i++) {
        s[i] = (struct paro_spec){.bytes = sizeof s[i],
                                  .op = (enum paro_op)(1 + i % 4),
                                  .type = PARO_F32,
                                  .count = 5000 * i + 7,
                                  .root = ranks - 1};
        must(paro_prepare(comm, &s[i], &c[i], &err), &err);
        d[i].bytes = sizeof d[i];
        must(paro_describe(c[i], &d[i], &err), &err);
    }
    for (int round = 0; round < 8; round++) {
        for (int k = 0; k < HANDLES; k++) { /* begun in another order on each rank */
            int i = (k * (1 + (me + round) % 4) + me) % HANDLES;
            b[i] =
                buffers_of(c[i], &d[i], &s[i], (enum place)((i + round) % PLACES), me, ranks);
            if (d[i].in_bytes)
                fill(&s[i], b[i].in, d[i].in_bytes / 4, me, ranks, round);
            must(paro_start(c[i], b[i].in, b[i].out, &err), &err);
        }
        for (int k = 0; k < HANDLES; k++) {
            int i = (k * (1 + (2 * me + round) % 4) + 2 * me) % HANDLES, done = 0;
            while (round % 2 && !done) {
                paro_wait_any(&c[i], 1, round % 4 == 1 ? 60 : 0, NULL);
                must(paro_test(c[i], &done, &err), &err);
            }
            must(paro_wait(c[i], &err), &err);
            expect(is_right(&s[i], b[i].out, d[i].out_bytes / 4, me, ranks, round),
                   "handle %d of several at once", i);
            free(b[i].made);
        }
    }
    for (int i = 0; i < HANDLES - 1; i++)
        paro_free(c[(i + me) % HANDLES]);
    /* The last is freed behind its communicator: by main, which does not know it. */
    paro_comm_close(comm);
    paro_free(c[(HANDLES - 1 + me) % HANDLES]);
}

/* Some ranks, in another order, over a communicator that is gone when it is used. */
static void check_some(const struct paro_options *whole)
{
    struct paro_options o = {.bytes = sizeof o, .topology = whole->topology};
    struct paro_comm *comm;
    struct paro_error err;
    MPI_Comm some;
    int r, n;

    MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &some);
    MPI_Comm_rank(some, &r);
    MPI_Comm_size(some, &n);
    must(paro_comm_open(&comm, some, &o, &err), &err);
    MPI_Comm_free(&some);
    check_all(comm, r, n, 11);
    paro_comm_close(comm);
}

/* The word behind NAME= among the arguments, or NULL. */
static const char *word(int argc, char **argv, const char *name)
{
    size_t n = strlen(name);

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=')
            return argv[i] + n + 1;
    return NULL;
}

/* What is taken for an all-reduce of one f32, that one and those of a chunk that is asked for.
 */
static void check_choice(struct paro_comm *comm, const char *algo, const char *chunk)
{
    struct paro_spec s = {
        .bytes = sizeof s, .op = PARO_ALL_REDUCE, .type = PARO_F32, .count = 1};
    struct paro_description d = {.bytes = sizeof d};
    struct paro_coll *c;
    struct paro_error err;

    for (s.chunk_bytes = 0; s.chunk_bytes <= 777; s.chunk_bytes += 777) {
        must(paro_prepare(comm, &s, &c, &err), &err);
        must(paro_describe(c, &d, &err), &err);
        expect(strcmp(d.algo, algo) == 0, "takes %s, expected %s", d.algo, algo);
        expect(d.chunk_bytes == (s.chunk_bytes ? s.chunk_bytes : atoll(chunk)),
               "takes chunks of %lld", (long long)d.chunk_bytes);
        paro_free(c);
    }
    paro_comm_close(comm);
}

static void *in_thread(void *comm)
{
    check_all(comm, me, ranks, 7);
    return NULL;
}

/* Each with a communicator of its own. */
static void check_threads(void)
{
    struct paro_comm *comm[2];
    struct paro_error err;
    pthread_t other;

    for (int i = 0; i < 2; i++)
        must(paro_comm_open(&comm[i], MPI_COMM_WORLD, NULL, &err), &err);
    expect(pthread_create(&other, NULL, in_thread, comm[0]) == 0, "a thread");
    in_thread(comm[1]);
    pthread_join(other, NULL);
    for (int i = 0; i < 2; i++)
        paro_comm_close(comm[i]);
}

int main(int argc, char **argv)
{
    struct paro_options o = read_options(argc, argv);
    int several = argc > 1 && strcmp(argv[1], "threads") == 0, level;
    struct paro_comm *comm;
    struct paro_error err;

    if (several)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (several) {
        check_threads();
        return finish();
    }
    must(paro_comm_open(&comm, MPI_COMM_WORLD, argc > 1 ? &o : NULL, &err), &err);
    if (word(argc, argv, "takes")) {
        check_choice(comm, word(argc, argv, "takes"), word(argc, argv, "chunk"));
        return finish();
    }
    check_all(comm, me, ranks, 3);
    check_types(comm);
    check_flight(comm);
    check_some(&o);
    return finish();
}
