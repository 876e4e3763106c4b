/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what a program may ask for, how an older or a newer one writes it down, and whether all
 * ranks ask for the same.
 */
#include <inttypes.h>
#include <string.h>

#include "base/fnv.h"
#include "base/mem.h"
#include "shim/paro_inside.h"

/* More than any struct here will have: a greater size is no size. */
enum { STRUCT_BYTES_MAX = 4096 };

int paro_take(void *to, size_t room, const void *from, const char *name, struct err *err)
{
    size_t bytes = from ? *(const size_t *)from : 0;

    if (bytes < sizeof bytes || bytes > STRUCT_BYTES_MAX)
        return err_set(err, ERR_INPUT, "the size 'bytes' of a %s is %zu, expected %zu", name,
                       bytes, room);
    for (size_t i = room; i < bytes; i++)
        if (((const char *)from)[i])
            return err_set(err, ERR_INPUT,
                           "a %s of %zu bytes has fields that libparo " PARO_VERSION
                           " does not know, expected zeros after %zu bytes",
                           name, bytes, room);
    memset(to, 0, room);
    memcpy(to, from, bytes < room ? bytes : room);
    return 0;
}

static int check_words(const struct paro_spec *s, int ranks, struct err *err)
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

static int sums(const struct paro_spec *s)
{
    return s->op == PARO_REDUCE_SCATTER || s->op == PARO_ALL_REDUCE;
}

/* A type of MPI's as so many bytes, or with its sum. */
static int take_mpi(struct paro_asked *a, struct err *err)
{
    MPI_Aint from = 0, extent = 0;
    int bytes = 0;

    if (a->spec.mpi_type == MPI_DATATYPE_NULL)
        return err_set(err, ERR_INPUT, "mpi_type is none, expected one with PARO_MPI");
    if (sums(&a->spec)) {
        if (shim_combine_init(&a->combine, a->spec.mpi_type, a->spec.mpi_op))
            return err_set(err, ERR_INPUT,
                           "mpi_type and mpi_op of a sum are a program's own or do not go "
                           "together, expected a predefined type with an operation for it");
        a->vector.elem_bytes = a->combine.elem_bytes;
        a->vector.combine = shim_combine;
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

static int take_type(struct paro_asked *a, struct err *err)
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
        return take_mpi(a, err);
    }
    a->vector.type = types[a->spec.type];
    a->vector.redop = sums(&a->spec) ? ops[a->spec.reduction] : DTYPE_SUM;
    a->vector.elem_bytes = dtype_bytes(a->vector.type);
    return 0;
}

/* The counts of all blocks, and that they have a sum. */
static int take_counts(struct paro_asked *a, int ranks, struct err *err)
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

int paro_ask(const struct paro_comm *c, const struct paro_spec *spec, struct paro_asked *out,
             struct err *err)
{
    static const unsigned phases[] = {[PARO_ALL_GATHER] = SCHEDULE_ALL_GATHER,
                                      [PARO_REDUCE_SCATTER] = SCHEDULE_REDUCE_SCATTER,
                                      [PARO_ALL_REDUCE] = SCHEDULE_ALL_REDUCE,
                                      [PARO_BROADCAST] = SCHEDULE_BROADCAST};

    if (paro_take(&out->spec, sizeof out->spec, spec, "struct paro_spec", err) ||
        check_words(&out->spec, c->world->ranks, err))
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

/* ---- the same on all ranks ---- */

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

static void put_words(const struct paro_asked *a, int ranks, int64_t *word)
{
    const struct paro_spec *s = &a->spec;

    word[OP] = s->op;
    word[TYPE] = s->type;
    word[REDUCTION] = sums(s) && s->type != PARO_MPI ? (int)s->reduction : 0;
    word[ROOT] = s->op == PARO_BROADCAST ? s->root : 0;
    word[COUNT] = s->counts ? 0 : s->count;
    word[COUNTS] =
        a->counts ? (int64_t)fnv_bytes(a->counts, (size_t)ranks * sizeof *a->counts) : 0;
    word[ALGO] = a->vector.algo;
    word[CHUNK] = a->vector.chunk_bytes;
    word[ELEM_BYTES] = a->vector.elem_bytes;
    word[SUM] = a->combine.kind;
}

/* Algorithm and hash are no numbers that a program has written. */
static int differ(const struct world *w, int rank, int i, const int64_t *first,
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

int paro_asked_alike(const struct paro_comm *c, const struct paro_asked *a, struct err *err)
{
    int ranks = c->world->ranks, rc;
    int64_t word[WORDS], *all = mem_new((size_t)ranks, sizeof word);

    put_words(a, ranks, word);
    rc = world_allgather(c->world, word, sizeof word, all, err);
    for (int r = 1; rc == 0 && r < ranks; r++)
        for (int i = 0; rc == 0 && i < WORDS; i++)
            if (all[(int64_t)r * WORDS + i] != all[i])
                rc = differ(c->world, r, i, all, all + (int64_t)r * WORDS, err);
    mem_free(all);
    return rc;
}

int paro_choose(const struct paro_comm *c, struct paro_asked *a, struct err *err)
{
    int64_t elems = coll_vector_elems(&a->vector, c->world->ranks);
    int64_t chunk_bytes = PICK_CHUNK_USUAL;

    if (a->vector.algo == SCHEDULE_AUTO &&
        shim_fabric_choose(&c->fabric, c->world, a->vector.phases, elems * a->vector.elem_bytes,
                           &a->vector.algo, &chunk_bytes, err))
        return -1;
    if (a->vector.chunk_bytes == 0)
        a->vector.chunk_bytes = chunk_bytes;
    return 0;
}
