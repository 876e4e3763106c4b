/* SPDX-License-Identifier: BSD-3-Clause */
/* paro_wrong: what libparo refuses, in which words, and that all ranks hear the same; programs
 * that were made for an older or a newer library; closing in any order; and, as `paro_wrong
 * late`, a rank that comes too late.  Two ranks at least, on one host or several. */
#include <math.h>
#include <time.h>
#include <unistd.h>

#include "paro_fixture.h"

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of a collective call: every rank has it, in the same words. */
static void expect_all(int rc, const struct paro_error *err, int code, const char *words)
{
    struct paro_error first = *err;

    expect(rc == -1 && err->code == code && strstr(err->text, words),
           "returns %d, code %d: '%s', expected code %d and '%s'", rc, err->code, err->text,
           code, words);
    MPI_Bcast(&first, sizeof first, MPI_BYTE, 0, MPI_COMM_WORLD);
    expect(strcmp(first.text, err->text) == 0, "'%s' here, '%s' on rank 0", err->text,
           first.text);
}

static void expect_one(int rc, const struct paro_error *err, const char *words)
{
    expect(rc == -1 && err->code == PARO_ERROR_INPUT && strstr(err->text, words),
           "returns %d: '%s', expected '%s'", rc, err->text, words);
}

static void refuse_open(struct paro_options o, int code, const char *words)
{
    struct paro_comm *comm = NULL;
    struct paro_error err = {0, ""};
    int rc = paro_comm_open(&comm, MPI_COMM_WORLD, &o, &err);

    expect_all(rc, &err, code, words);
    expect(!comm, "nothing is opened");
}

/* What differs from options that are good, and what is said of it. */
#define REFUSE_OPEN(code, words, change)                                                       \
    do {                                                                                       \
        struct paro_options o = {.bytes = sizeof o};                                           \
        change;                                                                                \
        refuse_open(o, PARO_ERROR_##code, words);                                              \
    } while (0)

static void check_open(void)
{
    int last = me == ranks - 1;
    struct paro_comm *comm = NULL;
    struct paro_error err;
    char shape[32];
    MPI_Comm inter, half;

    snprintf(shape, sizeof shape, "3x%d", ranks);
    REFUSE_OPEN(MISMATCH, "but the communicator has ", o.groups = shape);
    REFUSE_OPEN(INPUT, "shape '2y2', expected", o.groups = "2y2");
    REFUSE_OPEN(INPUT, "numbers for ", o.groups = "0,1,2,3,4,5,6,7,8,9,10");
    REFUSE_OPEN(INPUT, "groups '0,', expected ", o.groups = "0,");
    REFUSE_OPEN(ABSENT, "/nowhere/fabric.yaml", o.topology = "/nowhere/fabric.yaml");
    REFUSE_OPEN(MISMATCH, "143 ranks where MPI_COMM_WORLD has ", o.topology = "synth:11x13");
    REFUSE_OPEN(ABSENT, "/nowhere/tuning.yaml", o.tuning = "/nowhere/tuning.yaml");
    /* One rank alone is wrong, and all hear of it. */
    REFUSE_OPEN(INPUT, "deadline_s is -1, expected more than 0", o.deadline_s = last ? -1 : 0);
    REFUSE_OPEN(INPUT, "deadline_s is ", o.deadline_s = last ? NAN : 0);
    REFUSE_OPEN(INPUT, "the size 'bytes' of a struct paro_options is 0, expected ",
                o.bytes = me ? sizeof o : 0);

    expect_one(paro_comm_open(&comm, MPI_COMM_NULL, NULL, &err), &err, "MPI_COMM_NULL");
    MPI_Comm_split(MPI_COMM_WORLD, me > 0, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, me > 0 ? 0 : 1, 1, &inter);
    expect_one(paro_comm_open(&comm, inter, NULL, &err), &err, "inter-communicator");
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

static void refuse(struct paro_comm *comm, struct paro_spec s, int code, const char *words)
{
    struct paro_coll *coll = NULL;
    struct paro_error err = {0, ""};

    expect_all(paro_prepare(comm, &s, &coll, &err), &err, code, words);
    expect(!coll, "nothing is prepared");
}

/* What differs from a spec that is good, and what is said of it. */
#define REFUSE(code, words, change)                                                            \
    do {                                                                                       \
        struct paro_spec s = *good;                                                            \
        change;                                                                                \
        refuse(comm, s, PARO_ERROR_##code, words);                                             \
    } while (0)

/* What each rank can see, said by one rank or by all. */
static void check_spec(struct paro_comm *comm, const struct paro_spec *good)
{
    int64_t counts[64] = {0};

    REFUSE(INPUT, "'quick'", s.algo = "quick");
    REFUSE(INPUT, "count[0] is -5, expected 0 or more", s.count = me == 1 ? -5 : 10);
    REFUSE(INPUT, "expected 2^50 bytes at most", s.count = (int64_t)1 << 60);
    REFUSE(INPUT, "counts of an operation without blocks", s.counts = counts);
    counts[ranks - 1] = -7;
    REFUSE(INPUT, "] is -7, expected 0 or more", (s.op = PARO_ALL_GATHER, s.counts = counts));
    REFUSE(INPUT, "op is 0, expected", s.op = (enum paro_op)0);
    REFUSE(INPUT, "type is 9, expected", s.type = (enum paro_type)9);
    REFUSE(INPUT, "reduction is 4, expected", s.reduction = (enum paro_reduction)4);
    REFUSE(INPUT, "root is ", (s.op = PARO_BROADCAST, s.root = ranks));
    REFUSE(INPUT, "chunk_bytes is -1, expected", s.chunk_bytes = -1);
}

static void no_sum(void *in, void *out, int *n, MPI_Datatype *type)
{
    (void)in, (void)out, (void)n, (void)type;
}

static void check_types(struct paro_comm *comm, const struct paro_spec *good)
{
    MPI_Datatype gaps;
    MPI_Op own;

    MPI_Op_create(no_sum, 1, &own);
    const struct {
        MPI_Datatype type;
        MPI_Op op;
        const char *words;
    } rows[] = {
        {MPI_DATATYPE_NULL, MPI_SUM, "mpi_type is none"},
        {MPI_DOUBLE_INT, MPI_MAXLOC, "expected a predefined type with an operation for it"},
        {MPI_DOUBLE, MPI_BAND, "expected a predefined type with an operation for it"},
        {MPI_DOUBLE, own, "expected a predefined type with an operation for it"}};
    for (int i = 0; i < 4; i++)
        REFUSE(INPUT, rows[i].words,
               (s.type = PARO_MPI, s.mpi_type = rows[i].type, s.mpi_op = rows[i].op));
    MPI_Op_free(&own);
    MPI_Type_vector(2, 1, 3, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    REFUSE(INPUT, "8 bytes in an extent of 16 from 0, expected",
           (s.type = PARO_MPI, s.mpi_type = gaps, s.op = PARO_BROADCAST));
    MPI_Type_free(&gaps);
}

/* What only the ranks together can see: the last one asks for something else. */
static void check_alike(struct paro_comm *comm, const struct paro_spec *good)
{
    int odd = me == ranks - 1;
    int64_t counts[64];

    for (int r = 0; r < ranks; r++)
        counts[r] = 10 + (odd ? r == 0 : r == 1); /* the same sum */
    REFUSE(MISMATCH, " and rank 0 differ in count, 101 and 100, expected", s.count = 100 + odd);
    REFUSE(MISMATCH, " differ in op, 4 and 3", s.op = odd ? PARO_BROADCAST : PARO_ALL_REDUCE);
    REFUSE(MISMATCH, " differ in type, 5 and 1", s.type = odd ? PARO_I32 : PARO_F32);
    REFUSE(MISMATCH, " differ in reduction, 1 and 0", s.reduction = odd ? PARO_MAX : PARO_SUM);
    REFUSE(MISMATCH, " differ in the algorithm", s.algo = odd ? "ring" : "ho-ring");
    REFUSE(MISMATCH, " differ in chunk_bytes, 4096 and 8192",
           s.chunk_bytes = odd ? 4096 : 8192);
    REFUSE(MISMATCH, " differ in root, 1 and 0", (s.op = PARO_BROADCAST, s.root = odd));
    REFUSE(MISMATCH, " differ in the counts", (s.op = PARO_REDUCE_SCATTER, s.counts = counts));
    REFUSE(MISMATCH, " differ in mpi_op on mpi_type",
           (s.type = PARO_MPI, s.mpi_type = odd ? MPI_FLOAT : MPI_INT, s.mpi_op = MPI_SUM));
}

/* Structs of a library that had less, and of one that will have more. */
static void check_ages(struct paro_comm *comm, const struct paro_spec *good)
{
    struct {
        struct paro_spec s;
        char more[24];
    } newer = {*good, ""};
    struct {
        struct paro_description d;
        char more[8];
    } told = {{.bytes = sizeof told}, "xxxxxxx"};
    struct paro_spec older = *good;
    struct paro_description part = {.bytes = offsetof(struct paro_description, chunk_bytes)};
    struct paro_coll *coll = NULL;
    struct paro_error err;

    older.bytes = offsetof(struct paro_spec, chunk_bytes);
    older.chunk_bytes = -1; /* what an older program has behind it is not its own */
    must(paro_prepare(comm, &older, &coll, &err), &err);
    part.chunk_bytes = -2;
    must(paro_describe(coll, &part, &err), &err);
    expect(part.chunk_bytes == -2 && part.algo && strcmp(part.algo, "ho-ring") == 0,
           "a part of a description");
    expect_one(paro_describe(coll, &told.d, &err), &err, "has fields that libparo ");
    paro_free(coll);
    newer.s.bytes = sizeof newer;
    must(paro_prepare(comm, &newer.s, &coll, &err), &err);
    paro_free(coll);
    newer.more[23] = 1;
    err = (struct paro_error){0, ""};
    expect_all(paro_prepare(comm, &newer.s, &coll, &err), &err, PARO_ERROR_INPUT,
               "does not know, expected zeros after ");
}

/* What a run would have written is not there: nobody is told that it is. */
static void check_left(const struct paro_spec *good)
{
    float in[100] = {0}, out[100];
    struct paro_comm *comm;
    struct paro_coll *coll;
    struct paro_error err;
    int done = 0;

    must(paro_comm_open(&comm, MPI_COMM_WORLD, NULL, &err), &err);
    must(paro_prepare(comm, good, &coll, &err), &err);
    if (me == 0) /* alone: it cannot be done */
        must(paro_start(coll, in, out, &err), &err);
    paro_comm_close(comm);
    if (me == 0) {
        expect_one(paro_test(coll, &done, &err), &err, "closed during a run");
        expect(done, "what cannot go on is done");
        expect_one(paro_wait(coll, &err), &err, "closed during a run");
    }
    paro_free(coll);
}

static void check_runs(struct paro_comm *comm, const struct paro_spec *good)
{
    float in[100] = {0}, out[100];
    struct paro_coll *a, *b, *none;
    struct paro_spec nothing = *good;
    struct paro_error err;
    int done = 0;

    nothing.count = 0;
    must(paro_prepare(comm, good, &a, &err), &err);
    must(paro_prepare(comm, good, &b, &err), &err);
    must(paro_prepare(comm, &nothing, &none, &err), &err);
    expect_one(paro_start(a, NULL, out, &err), &err, "in is NULL, expected 400 bytes");
    expect_one(paro_start(a, in, NULL, &err), &err, "out is NULL, expected 400 bytes");
    expect(paro_start(a, in, NULL, NULL) == -1, "errors need not be told");
    must(paro_wait(a, &err), &err); /* of none */
    must(paro_start(a, in, out, &err), &err);
    while (me && !done) /* rank 0 has not been looked at: for it the run goes on */
        must(paro_test(a, &done, &err), &err);
    if (me == 0 && !(paro_test(a, &done, &err), done))
        expect_one(paro_start(a, in, out, &err), &err, "a run of the handle is in progress");
    must(paro_wait(a, &err), &err);
    must(paro_run(none, NULL, NULL, &err), &err);
    /* Some ranks free before they close, some behind. */
    if (me % 2)
        paro_free(a);
    paro_free(none);
    paro_free(NULL);
    paro_comm_close(comm);
    paro_comm_close(NULL);
    expect_one(paro_start(b, in, out, &err), &err, "the handle's communicator is closed");
    must(paro_test(b, &done, &err), &err);
    expect(done, "what cannot run is done");
    if (me % 2 == 0)
        paro_free(a);
    paro_free(b);
}

/* Nobody looks for longer than the deadline, and then there is little to wait for. */
static void look_late(struct paro_coll *coll, const void *in, void *out)
{
    struct paro_error err;
    double began = now_s();
    int done = 0;

    if (me == ranks - 1)
        usleep(2000000);
    must(paro_start(coll, in, out, &err), &err);
    while (me < ranks - 1 && now_s() < began + 0.2)
        must(paro_test(coll, &done, &err), &err);
    if (me < ranks - 1)
        usleep(1500000);
    must(paro_wait(coll, &err), &err);
}

/* Everybody says so in time, and then all go on without the library. */
static void check_late(void)
{
    struct paro_options o = {.bytes = sizeof o, .deadline_s = 1};
    struct paro_spec s = {.bytes = sizeof s, .op = PARO_ALL_GATHER, .type = PARO_F64};
    struct paro_coll *coll, *other = NULL;
    struct paro_comm *comm;
    struct paro_error err = {0, ""};

    s.count = 100000;
    double *in = calloc((size_t)s.count, sizeof *in);
    double *out = calloc((size_t)(s.count * ranks), sizeof *out);
    must(paro_comm_open(&comm, MPI_COMM_WORLD, &o, &err), &err);
    must(paro_prepare(comm, &s, &coll, &err), &err);
    look_late(coll, in, out);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == ranks - 1)
        sleep(3);
    double began = now_s();
    int rc = paro_run(coll, in, out, &err);
    double took = now_s() - began;
    char late[32] = "no data from other ranks"; /* the late one: the others have given up */
    if (me < ranks - 1)
        snprintf(late, sizeof late, "no data from rank %d (", ranks - 1);
    expect(rc == -1 && err.code == PARO_ERROR_PEER && strstr(err.text, late) &&
               strstr(err.text, " for 1 s ("),
           "returns %d: '%s', expected '%s'", rc, err.text, late);
    expect(took > 0.9 && took < 3, "said after %.2f s", took);
    rc = paro_start(coll, in, out, &err);
    expect(rc == -1 && err.code == PARO_ERROR_PEER &&
               strstr(err.text, "after an earlier error"),
           "again: '%s'", err.text);
    rc = paro_prepare(comm, &s, &other, &err);
    expect(rc == -1 && err.code == PARO_ERROR_PEER && !other, "prepares: '%s'", err.text);
    paro_free(coll);
    paro_comm_close(comm);
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    struct paro_spec good = {.bytes = sizeof good, .op = PARO_ALL_REDUCE, .type = PARO_F32};
    struct paro_comm *comm;
    struct paro_error err;

    expect_one(paro_comm_open(&comm, MPI_COMM_WORLD, NULL, &err), &err,
               "MPI is not initialised, expected");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 1 && strcmp(argv[1], "late") == 0) {
        check_late();
        return finish();
    }
    good.count = 100;
    check_open();
    must(paro_comm_open(&comm, MPI_COMM_WORLD, NULL, &err), &err);
    check_spec(comm, &good);
    check_types(comm, &good);
    check_alike(comm, &good);
    check_ages(comm, &good);
    check_runs(comm, &good);
    check_left(&good);
    return finish();
}
