/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps a program's objects: communicators and prepared operations; paro_run.c runs these.
 * Checks requests, also those in the struct layouts of older and newer programs, and that all
 * ranks make the same request.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fnv.h"
#include "base/mem.h"
#include "paro/paro_inside.h"
#include "world/world_mpi.h"

/* ---- requests ---- */

struct requested {
    struct paro_spec spec;
    int64_t *counts; /* [ranks], owned; NULL for broadcast and all-reduce */
    struct paro_combine combine;
    struct coll_vector_spec vector; /* borrows counts, combine, and the fabric's blocks */
};

/* Larger than any struct of this API will be; a greater size is rejected. */
enum { STRUCT_BYTES_MAX = 4096 };

/*
 * Copies a program's struct, which begins with its size and may be an older or a newer version.
 * Members that it lacks become 0; members beyond `space` must be 0. name: for errors.
 */
static int take_struct(void *to, size_t space, const void *from, const char *name,
                       struct err *err)
{
    size_t bytes = from ? *(const size_t *)from : 0;

    if (bytes < sizeof bytes || bytes > STRUCT_BYTES_MAX)
        return err_set(err, ERR_INPUT, "the size 'bytes' of a %s is %zu, expected %zu", name,
                       bytes, space);
    for (size_t i = space; i < bytes; i++)
        if (((const char *)from)[i])
            return err_set(err, ERR_INPUT,
                           "a %s of %zu bytes has fields that libparo " PARO_VERSION
                           " does not know, expected zeros after %zu bytes",
                           name, bytes, space);
    memset(to, 0, space);
    memcpy(to, from, bytes < space ? bytes : space);
    return 0;
}

static int paro_check_words(const struct paro_spec *s, int ranks, struct err *err)
{
    if (s->op < PARO_ALL_GATHER || s->op > PARO_BROADCAST)
        return err_set(err, ERR_INPUT, "op is %d, expected one of enum paro_op", (int)s->op);
    if (s->type < PARO_F32 || s->type > PARO_MPI)
        return err_set(err, ERR_INPUT, "type is %d, expected one of enum paro_type",
                       (int)s->type);
    if ((int)s->reduction < PARO_SUM || s->reduction > PARO_AVG)
        return err_set(err, ERR_INPUT, "reduction is %d, expected one of enum paro_reduction",
                       (int)s->reduction);
    if (s->op == PARO_BROADCAST && (s->root < 0 || s->root >= ranks))
        return err_set(err, ERR_INPUT, "root is %d, expected 0 to %d", s->root, ranks - 1);
    if (s->chunk_bytes < 0)
        return err_set(err, ERR_INPUT, "chunk_bytes is %" PRId64 ", expected 0 or more",
                       s->chunk_bytes);
    return 0;
}

static int paro_sums(const struct paro_spec *s)
{
    return s->op == PARO_REDUCE_SCATTER || s->op == PARO_ALL_REDUCE;
}

static int take_type(struct requested *a, struct err *err)
{
    static const enum dtype types[] = {
        [PARO_F32] = DTYPE_F32,   [PARO_F64] = DTYPE_F64, [PARO_F16] = DTYPE_F16,
        [PARO_BF16] = DTYPE_BF16, [PARO_I32] = DTYPE_I32, [PARO_U8] = DTYPE_U8};
    static const enum dtype_op ops[] = {[PARO_SUM] = DTYPE_SUM,
                                        [PARO_MAX] = DTYPE_MAX,
                                        [PARO_MIN] = DTYPE_MIN,
                                        [PARO_AVG] = DTYPE_AVG};

    if (a->spec.type == PARO_MPI) {
        a->vector.type = DTYPE_U8;
        /* Copies treat a type of MPI as bytes; sums use MPI's operation. */
        MPI_Aint from = 0, extent = 0;
        int bytes = 0;
        if (a->spec.mpi_type == MPI_DATATYPE_NULL)
            return err_set(err, ERR_INPUT, "mpi_type is none, expected one with PARO_MPI");
        if (paro_sums(&a->spec)) {
            if (paro_combine_init(&a->combine, a->spec.mpi_type, a->spec.mpi_op))
                return err_set(err, ERR_INPUT,
                               "mpi_type and mpi_op of a sum are a program's own or do not go "
                               "together, expected a predefined type with an operation for it");
            a->vector.elem_bytes = a->combine.elem_bytes;
            a->vector.combine = paro_combine;
            a->vector.combine_arg = &a->combine;
            return 0;
        }
        if (MPI_Type_size(a->spec.mpi_type, &bytes) != MPI_SUCCESS ||
            MPI_Type_get_extent(a->spec.mpi_type, &from, &extent) != MPI_SUCCESS || bytes < 1 ||
            from != 0 || extent != bytes)
            return err_set(err, ERR_INPUT,
                           "mpi_type has %d bytes in an extent of %" PRId64 " from %" PRId64
                           ", expected one without gaps",
                           bytes, (int64_t)extent, (int64_t)from);
        a->vector.elem_bytes = bytes;
        return 0;
    }
    a->vector.type = types[a->spec.type];
    a->vector.redop = paro_sums(&a->spec) ? ops[a->spec.reduction] : DTYPE_SUM;
    a->vector.elem_bytes = dtype_bytes(a->vector.type);
    return 0;
}

/* Copies the counts of all blocks and checks that their sum does not overflow. */
static int take_counts(struct requested *a, int ranks, struct err *err)
{
    int blocks = a->spec.op == PARO_ALL_GATHER || a->spec.op == PARO_REDUCE_SCATTER;
    int64_t most = PICK_BYTES_MAX / a->vector.elem_bytes, left = most;

    if (a->spec.counts && !blocks)
        return err_set(err, ERR_INPUT, "counts of an operation without blocks, expected none");
    a->counts = blocks ? mem_new((size_t)ranks, sizeof *a->counts) : NULL;
    for (int r = 0; r < (blocks ? ranks : 1); r++) {
        int64_t n = a->spec.counts ? a->spec.counts[r] : a->spec.count;
        if (n < 0)
            return err_set(err, ERR_INPUT, "%s[%d] is %" PRId64 ", expected 0 or more",
                           a->spec.counts ? "counts" : "count", r, n);
        if (n > left)
            return err_set(err, ERR_INPUT,
                           "the vector has more than %" PRId64
                           " elements, expected 2^50 bytes at most",
                           most);
        left -= n;
        if (blocks)
            a->counts[r] = n;
    }
    a->vector.count = a->counts;
    a->vector.elems = blocks ? 0 : a->spec.count;
    return 0;
}

/* Checks a spec as far as possible without the other ranks.  Counts are copied. */
static int take_spec(const struct paro_comm *c, const struct paro_spec *spec,
                     struct requested *out, struct err *err)
{
    static const unsigned phases[] = {[PARO_ALL_GATHER] = SCHEDULE_ALL_GATHER,
                                      [PARO_REDUCE_SCATTER] = SCHEDULE_REDUCE_SCATTER,
                                      [PARO_ALL_REDUCE] = SCHEDULE_ALL_REDUCE,
                                      [PARO_BROADCAST] = SCHEDULE_BROADCAST};

    if (take_struct(&out->spec, sizeof out->spec, spec, "struct paro_spec", err) ||
        paro_check_words(&out->spec, c->world->ranks, err))
        return -1;
    out->vector = (struct coll_vector_spec){.phases = phases[out->spec.op],
                                            .root = out->spec.root,
                                            .levels = c->fabric.levels,
                                            .block = c->fabric.block};
    out->vector.algo = SCHEDULE_AUTO;
    out->vector.chunk_bytes = out->spec.chunk_bytes;
    if (out->spec.algo && schedule_algo_parse(out->spec.algo, &out->vector.algo, err))
        return -1;
    return take_type(out, err) ? -1 : take_counts(out, c->world->ranks, err);
}

/* ---- comparing the ranks' requests ---- */

enum { OP, TYPE, REDUCTION, ROOT, COUNT, COUNTS, ALGO, CHUNK, ELEM_BYTES, SUM, WORDS };

static const char *const word_name[WORDS] = {"op",
                                             "type",
                                             "reduction",
                                             "root",
                                             "count",
                                             "the counts",
                                             "the algorithm",
                                             "chunk_bytes",
                                             "mpi_type's size",
                                             "mpi_op on mpi_type"};

static void paro_put_words(const struct requested *a, int ranks, int64_t *word)
{
    const struct paro_spec *s = &a->spec;

    word[OP] = s->op;
    word[TYPE] = s->type;
    word[REDUCTION] = paro_sums(s) && s->type != PARO_MPI ? (int)s->reduction : 0;
    word[ROOT] = s->op == PARO_BROADCAST ? s->root : 0;
    word[COUNT] = s->counts ? 0 : s->count;
    word[COUNTS] =
        a->counts ? (int64_t)fnv_bytes(a->counts, (size_t)ranks * sizeof *a->counts) : 0;
    word[ALGO] = a->vector.algo;
    word[CHUNK] = a->vector.chunk_bytes;
    word[ELEM_BYTES] = a->vector.elem_bytes;
    word[SUM] = a->combine.kind;
}

/* Algorithm and hash are not printed: the program did not write them as numbers. */
static int paro_differ(const struct world *w, int rank, int i, const int64_t *first,
                       const int64_t *other, struct err *err)
{
    const char *host = w->host[w->groups.group_of[rank]];

    if (i == COUNTS || i == ALGO || i == SUM)
        return err_set(err, ERR_MISMATCH,
                       "rank %d (%s) and rank 0 differ in %s, expected the same", rank, host,
                       word_name[i]);
    return err_set(err, ERR_MISMATCH,
                   "rank %d (%s) and rank 0 differ in %s, %" PRId64 " and %" PRId64
                   ", expected the same",
                   rank, host, word_name[i], other[i], first[i]);
}

/* COLLECTIVE: checks that all ranks make the same request. */
static int requests_match(const struct paro_comm *c, const struct requested *a, struct err *err)
{
    int ranks = c->world->ranks, rc;
    int64_t word[WORDS], *all = mem_new((size_t)ranks, sizeof word);

    paro_put_words(a, ranks, word);
    rc = world_allgather(c->world, word, sizeof word, all, err);
    for (int r = 1; rc == 0 && r < ranks; r++)
        for (int i = 0; rc == 0 && i < WORDS; i++)
            if (all[(int64_t)r * WORDS + i] != all[i])
                rc = paro_differ(c->world, r, i, all, all + (int64_t)r * WORDS, err);
    mem_free(all);
    return rc;
}

/* COLLECTIVE: resolves "auto", and the chunk if none was requested. */
static int choose_algo(const struct paro_comm *c, struct requested *a, struct err *err)
{
    int64_t elems = coll_vector_elems(&a->vector, c->world->ranks);
    int64_t chunk_bytes = PICK_CHUNK_USUAL;

    if (a->vector.algo == SCHEDULE_AUTO &&
        paro_fabric_choose(&c->fabric, c->world, a->vector.phases, elems * a->vector.elem_bytes,
                           &a->vector.algo, &chunk_bytes, err))
        return -1;
    if (a->vector.chunk_bytes == 0)
        a->vector.chunk_bytes = chunk_bytes;
    return 0;
}

/* ---- objects ---- */

/* As in the library's other waits: a rank may be reading or writing a large file. */
static const double deadline_s = 600;

const char *paro_version(void)
{
    return PARO_VERSION;
}

int paro_report(struct paro_comm *c, int rc, const struct err *err, struct paro_error *out)
{
    static const enum paro_code code[] = {[ERR_NONE] = PARO_OK,
                                          [ERR_INPUT] = PARO_ERROR_INPUT,
                                          [ERR_SYS] = PARO_ERROR_SYSTEM,
                                          [ERR_MISMATCH] = PARO_ERROR_MISMATCH,
                                          [ERR_ABSENT] = PARO_ERROR_ABSENT,
                                          [ERR_PEER] = PARO_ERROR_PEER,
                                          [ERR_DEVICE] = PARO_ERROR_SYSTEM};

    if (rc && c && err->code == ERR_PEER && c->lost.code == ERR_NONE)
        c->lost = *err;
    if (rc && out) {
        out->code = code[err->code];
        snprintf(out->text, sizeof out->text, "%s", err->text);
    }
    return rc;
}

/* ---- communicators ---- */

/* Checks properties of a communicator that all ranks see alike, before they can communicate. */
static int check_comm(MPI_Comm comm, struct err *err)
{
    int begun = 0, ended = 0, inter = 0;

    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (!begun || ended)
        return err_set(err, ERR_INPUT,
                       "MPI is %s, expected a call between MPI_Init and "
                       "MPI_Finalize",
                       ended ? "finalised" : "not initialised");
    if (comm == MPI_COMM_NULL)
        return err_set(err, ERR_INPUT, "the communicator is MPI_COMM_NULL, expected one");
    MPI_Comm_test_inter(comm, &inter);
    if (inter)
        return err_set(err, ERR_INPUT, "an inter-communicator, expected an intra-communicator");
    return 0;
}

static int take_options(struct paro_options *to, const struct paro_options *from,
                        struct err *err)
{
    *to = (struct paro_options){.deadline_s = deadline_s};
    if (!from)
        return 0;
    if (take_struct(to, sizeof *to, from, "struct paro_options", err))
        return -1;
    if (to->deadline_s == 0)
        to->deadline_s = deadline_s;
    if (!(to->deadline_s > 0)) {
        err_set(err, ERR_INPUT, "deadline_s is %g, expected more than 0, or 0 for %g",
                to->deadline_s, deadline_s);
        to->deadline_s = deadline_s; /* until the others' is known */
        return -1;
    }
    return 0;
}

int paro_comm_open(struct paro_comm **out, MPI_Comm comm, const struct paro_options *o,
                   struct paro_error *error)
{
    struct paro_comm *c = mem_new(1, sizeof *c);
    struct paro_options options;
    struct err err = {0};

    if (check_comm(comm, &err)) {
        mem_free(c);
        return paro_report(NULL, -1, &err, error);
    }
    int mine = take_options(&options, o, &err);
    struct paro_fabric_settings settings = {
        .topology = options.topology, .groups = options.groups, .tuning = options.tuning};
    struct err first = err;
    int rc = world_over(&c->world, comm, options.deadline_s, &err);
    if (rc == 0) {
        err = first;
        rc = world_agree(c->world, mine, &err);
    }
    if (rc == 0)
        rc = paro_fabric_open(&c->fabric, c->world, &settings, &err);
    if (rc == 0)
        rc = paro_meter_join(c, options.meter, options.meter_of, &err);
    if (paro_report(c, rc, &err, error)) {
        paro_comm_close(c);
        return -1;
    }
    groups_print(&c->fabric.groups, c->groups, sizeof c->groups);
    *out = c;
    return 0;
}

void paro_comm_close(struct paro_comm *c)
{
    int ended = 0;

    if (!c)
        return;
    for (struct paro_coll *p = c->first; p; p = p->next) {
        if (p->running) /* out is not written, so a wait must not report success */
            err_set(&p->fail, ERR_INPUT,
                    "the communicator was closed during a run of the handle");
        p->running = 0;
        p->comm = NULL;
    }
    MPI_Finalized(&ended);
    if (c->world && (ended || c->lost.code != ERR_NONE))
        world_leave_peers(c->world);
    world_close(c->world);
    paro_meter_leave(c);
    paro_fabric_release(&c->fabric);
    mem_free(c);
}

/* ---- operations ---- */

int paro_lost(const struct paro_comm *c, struct err *err)
{
    *err = c->lost;
    return err_prefix(err, "after an earlier error: ");
}

int paro_prepare(struct paro_comm *c, const struct paro_spec *spec, struct paro_coll **out,
                 struct paro_error *error)
{
    struct requested *a = mem_new(1, sizeof *a);
    struct paro_coll *p = mem_new(1, sizeof *p);
    struct err err = {0};
    int rc;

    if (c->lost.code != ERR_NONE) {
        rc = paro_lost(c, &err);
    } else {
        rc = world_agree(c->world, take_spec(c, spec, a, &err), &err);
        rc = rc ? rc : requests_match(c, a, &err);
        rc = rc ? rc : choose_algo(c, a, &err);
    }
    if (rc == 0) {
        p->combine = a->combine;
        a->vector.combine_arg = &p->combine;
        rc = coll_vector_open(&p->vector, c->world, &c->fabric.groups, &a->vector, &err);
    }
    if (rc == 0) {
        int64_t bytes = coll_vector_elems(&a->vector, c->world->ranks) * a->vector.elem_bytes;
        p->slow_s = paro_fabric_bound_s(&c->fabric, a->vector.phases,
                                        a->spec.op == PARO_BROADCAST ? a->spec.root : 0, bytes,
                                        p->vector.fast_bytes, &p->fast_s);
    }
    p->op = a->spec.op;
    p->algo = a->vector.algo;
    p->chunk_bytes = a->vector.chunk_bytes;
    mem_free(a->counts);
    mem_free(a);
    if (paro_report(c, rc, &err, error)) {
        mem_free(p);
        return -1;
    }
    p->comm = c;
    paro_meter_prepare(p);
    memcpy(p->groups, c->groups, sizeof p->groups);
    p->next = c->first;
    c->first = p;
    *out = p;
    return 0;
}

void paro_free(struct paro_coll *p)
{
    struct paro_coll **at = p && p->comm ? &p->comm->first : NULL;

    if (!p)
        return;
    while (at && *at != p)
        at = &(*at)->next;
    if (at)
        *at = p->next;
    coll_vector_close(&p->vector);
    mem_free(p);
}

void paro_buffers(struct paro_coll *p, void **in, void **out)
{
    *in = p->vector.in;
    *out = p->vector.out;
}

int paro_describe(const struct paro_coll *p, struct paro_description *d,
                  struct paro_error *error)
{
    struct paro_description mine = {0};
    struct err err = {0};

    if (take_struct(&mine, sizeof mine, d, "struct paro_description", &err))
        return paro_report(NULL, -1, &err, error);
    size_t bytes = mine.bytes < sizeof mine ? mine.bytes : sizeof mine;
    mine.algo = schedule_algo_name(p->algo);
    mine.groups = p->groups;
    mine.chunk_bytes = p->chunk_bytes == PICK_CHUNK_WHOLE ? INT64_MAX : p->chunk_bytes;
    mine.in_bytes = p->vector.in_bytes;
    mine.out_bytes = p->vector.out_bytes;
    mine.slow_bytes = p->vector.slow_bytes;
    mine.fast_bytes = p->vector.fast_bytes;
    mine.memory_bytes = p->vector.memory_bytes;
    mine.slow_s = p->slow_s;
    mine.fast_s = p->fast_s;
    memcpy(d, &mine, bytes);
    return 0;
}
