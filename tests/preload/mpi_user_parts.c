/* SPDX-License-Identifier: BSD-3-Clause */
/* Which calls mpi_user makes, on which communicators.  Everything is drawn from numbers that
 * all ranks share, members or not, so that all ranks make the same calls in the same order. */
#include "mpi_user.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void comm_over(struct comm *c, const char *name, MPI_Comm mpi)
{
    int inter;

    *c = (struct comm){.mpi = mpi};
    snprintf(c->name, sizeof(c->name), "%s", name);
    if (mpi == MPI_COMM_NULL)
        return;
    MPI_Comm_set_errhandler(mpi, MPI_ERRORS_RETURN);
    MPI_Comm_rank(mpi, &c->rank);
    MPI_Comm_size(mpi, &c->size);
    MPI_Comm_test_inter(mpi, &inter);
    if (inter)
        MPI_Comm_remote_size(mpi, &c->remote);
}

static void add_split(struct comm *c, const char *name, int color, int key)
{
    MPI_Comm mpi;

    MPI_Comm_split(MPI_COMM_WORLD, color, key, &mpi);
    comm_over(c, name, mpi);
}

/* The lower half of the ranks and the upper, with leaders at their heads. */
static void add_sides(struct comm *c, int rank, int size)
{
    bool left = rank < (size + 1) / 2;
    MPI_Comm side, inter;

    MPI_Comm_split(MPI_COMM_WORLD, left, rank, &side);
    MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, left ? (size + 1) / 2 : 0, 7, &inter);
    MPI_Comm_free(&side);
    comm_over(c, "two sides", inter);
    c->left = left;
}

int comms_init(struct comm *all, uint64_t seed)
{
    int rank, size, local, n = 0;
    MPI_Comm mpi;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    comm_over(&all[n++], "world", MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi);
    comm_over(&all[n++], "its duplicate", mpi);
    add_split(&all[n++], "reversed", 0, -rank);
    add_split(&all[n++], "shuffled", 0, (int)(mix(seed + (uint64_t)rank) >> 40));
    add_split(&all[n++], "odd or even", rank % 2, rank);
    add_split(&all[n++], "all but the last", rank == size - 1 && size > 1 ? MPI_UNDEFINED : 0,
              rank);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &mpi);
    comm_over(&all[n++], "one node", mpi);
    MPI_Comm_rank(mpi, &local);
    add_split(&all[n++], "one of each node", local, rank);
    add_split(&all[n++], "alone", rank, 0);
    comm_over(&all[n++], "self", MPI_COMM_SELF);
    if (size > 1)
        add_sides(&all[n++], rank, size);
    return n;
}

void comms_release(struct comm *all, int n)
{
    for (int i = 0; i < n; i++)
        if (all[i].mpi != MPI_COMM_NULL && all[i].mpi != MPI_COMM_WORLD &&
            all[i].mpi != MPI_COMM_SELF)
            MPI_Comm_free(&all[i].mpi);
}

/* Mostly small: what the call does with it, not how long it takes, is looked at. */
static int count_draw(uint64_t *s, int64_t most)
{
    const int primes[] = {2, 3, 5, 7, 13, 31, 61, 127, 251, 509, 1009};
    uint64_t kind = draw(s, 32);
    int64_t n = kind < 3    ? 0
                : kind < 7  ? 1
                : kind < 24 ? primes[draw(s, sizeof(primes) / sizeof(*primes))]
                : kind < 30 ? (int64_t)draw(s, 20000)
                            : (int64_t)draw(s, (uint64_t)most + 1);

    return (int)(n < most ? n : most);
}

static int64_t most_items(const struct user *u, const struct call *c)
{
    int n = c->comm->remote ? c->comm->remote + c->comm->size : c->comm->size;
    bool blocks = c->form != ALLREDUCE && c->form != BCAST;
    int64_t each = c->type->extent ? c->type->extent : 1;

    return u->bytes_max / each / (blocks && n ? n : 1);
}

/* Equal, anything, all of it on one rank, nothing on every other rank; blocks end to end, with
   gaps, last rank's first. */
static void ragged(struct call *c, uint64_t *s, int step)
{
    int n = c->comm->remote ? c->comm->remote : c->comm->size;
    int least = n < c->comm->size ? n : c->comm->size, most = n + c->comm->size - least;
    uint64_t style = draw(s, 4), order = draw(s, 3), one = draw(s, 4096);
    uint64_t each = *s;
    int at = 0;

    for (int i = 0; i < most; i++) {
        int any = (int)draw(&each, 2 * (uint64_t)c->count / (uint64_t)step + 1) * step;
        c->counts[i] = style == 0   ? c->count
                       : style == 1 ? any
                       : style == 2 ? ((int)(one % (uint64_t)least) == i ? c->count * least : 0)
                                    : (i & 1 ? 0 : c->count);
    }
    for (int k = 0; k < n; k++) {
        int i = order == 2 ? n - 1 - k : k;
        at += order ? step * (i % 3 + 1) : 0;
        c->displs[i] = at;
        at += c->counts[i];
    }
}

/* Both sides must speak of as many items in all. */
static void ragged_sides(struct call *c)
{
    int count = c->count;

    if (c->form == REDUCE_SCATTER_BLOCK)
        c->count = count * c->comm->remote;
    if (c->form != REDUCE_SCATTER)
        return;
    for (int i = 0; i < c->comm->size; i++)
        c->counts[i] = count * c->comm->remote;
    if (c->comm->size > 1) {
        c->counts[0] += c->counts[1];
        c->counts[1] = 0;
    }
}

/* The rest of a call, whose count may be given or -1. */
static void call_fit(struct user *u, struct call *c)
{
    uint64_t s = mix(++u->seed);
    int n = c->comm->remote && !c->comm->left ? c->comm->remote : c->comm->size;
    int step = 1;

    c->seed = mix(s);
    if (c->comm->mpi == MPI_COMM_NULL)
        return;
    c->shape = (int)draw(&s, 4) % 3;
    /* Nor does Open MPI 4.1 between two sides bear types that differ. */
    if (c->op || c->comm->remote || !(c->shape == 1 ? c->type->four : c->type->wide))
        c->shape = 0;
    step = c->shape == 1 ? 4 : 1;
    if (c->count < 0)
        c->count = count_draw(&s, most_items(u, c));
    c->count -= c->count % step;
    c->root = (int)draw(&s, (uint64_t)n);
    c->in_place = draw(&s, 3) == 0 && !c->comm->remote && c->form != BCAST;
    c->inexact = draw(&s, 2);
    c->nulls = draw(&s, 2);
    ragged(c, &s, step);
    if (c->comm->remote)
        ragged_sides(c);
}

static struct call call_of(struct user *u, const struct comm *k, enum form form,
                           const struct type *type, const struct op *op, int count)
{
    struct call c = {.form = form, .comm = k, .type = type, .op = op, .count = count};

    call_fit(u, &c);
    return c;
}

static bool reduces(enum form form)
{
    return form == REDUCE_SCATTER || form == REDUCE_SCATTER_BLOCK || form == ALLREDUCE;
}

struct call call_draw(struct user *u, const struct comm *k, enum form form)
{
    uint64_t s = mix(++u->seed);
    const struct types *t = u->types;
    const struct type *type = &t->all[draw(&s, (uint64_t)t->n)];
    const struct op *op = NULL;

    while (reduces(form)) {
        op = &t->ops[draw(&s, (uint64_t)t->nops)];
        type = &t->all[draw(&s, (uint64_t)t->n)];
        if (op_takes(op, type))
            break;
    }
    return call_of(u, k, form, type, op, -1);
}

/* Every type in every copy, every type and operation in every reduction. */
void part_types(struct user *u, const struct comm *all, int n)
{
    const struct types *t = u->types;

    for (int y = 0; y < t->n; y++)
        for (int o = -1; o < t->nops; o++)
            for (int f = 0; f < FORMS; f++) {
                const struct op *op = o < 0 ? NULL : &t->ops[o];
                uint64_t s = mix(++u->seed);
                struct call c;

                if (reduces(f) != (op != NULL) || (op && !op_takes(op, &t->all[y])))
                    continue;
                /* Half of the time all ranks. */
                c = call_of(u, &all[draw(&s, 2) ? 0 : draw(&s, (uint64_t)n)], f, &t->all[y], op,
                            -1);
                call_both(u, &c);
            }
}

static const struct type *named(const struct types *t, MPI_Datatype mpi)
{
    int i = 0;

    while (t->all[i].mpi != mpi)
        i++;
    return &t->all[i];
}

static const struct op *op_named(const struct types *t, MPI_Op mpi)
{
    int i = 0;

    while (t->ops[i].mpi != mpi)
        i++;
    return &t->ops[i];
}

static struct call plain(struct user *u, const struct comm *k, enum form form, int count)
{
    const struct type *types[] = {named(u->types, MPI_DOUBLE), named(u->types, MPI_INT),
                                  named(u->types, MPI_FLOAT)};
    const struct op *ops[] = {op_named(u->types, MPI_SUM), op_named(u->types, MPI_MAX)};
    uint64_t s = mix(++u->seed);

    return call_of(u, k, form, types[draw(&s, 3)], reduces(form) ? ops[draw(&s, 2)] : NULL,
                   count);
}

/* Every form on every communicator, in place and not, of every root. */
void part_comms(struct user *u, const struct comm *all, int n)
{
    const int counts[] = {0, 1, 13, 1009};

    for (int k = 0; k < n; k++)
        for (int f = 0; f < FORMS; f++)
            for (int i = 0; i < 8; i++) {
                struct call c = plain(u, &all[k], f, counts[i / 2]);
                c.in_place = i & 1 && !all[k].remote && f != BCAST;
                call_both(u, &c);
            }
    for (int k = 0; k < n; k++) {
        int world, roots;

        MPI_Comm_size(MPI_COMM_WORLD, &world);
        for (int r = 0; r < world; r++) {
            struct call c = plain(u, &all[k], BCAST, 31);

            roots = all[k].remote && !all[k].left ? all[k].remote : all[k].size;
            c.root = r;
            if (r < roots)
                call_both(u, &c);
        }
    }
}

/* As much as is allowed, on all ranks. */
void part_large(struct user *u, const struct comm *all, int n)
{
    for (int f = 0; f < FORMS; f++)
        for (int i = 0; i < 4; i++) {
            int blocks = f == ALLREDUCE || f == BCAST ? 1 : all[0].size;
            struct call c = plain(u, &all[i < 2 ? 0 : (2 * f + i) % n], f,
                                  (int)(u->bytes_max / 8 / blocks) - i);
            c.in_place = i & 1 && !c.comm->remote && f != BCAST;
            call_both(u, &c);
        }
}

/* The same call again and again, with other data, and two calls in turn. */
void part_repeated(struct user *u, const struct comm *all, int n)
{
    for (int f = 0; f < FORMS; f++) {
        struct call two[] = {plain(u, &all[0], f, 1009), plain(u, &all[f % n], f, 4001)};

        for (int i = 0; i < 24; i++) {
            struct call *c = &two[i < 12 ? 0 : i % 2];
            /* The same two low bits: the same addresses, as far as malloc gives them. */
            c->seed = (mix(c->seed) & ~UINT64_C(3)) | (c->seed & 3);
            call_both(u, c);
        }
    }
}
