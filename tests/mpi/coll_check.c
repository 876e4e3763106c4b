/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_check SHAPE [no-shared] [by-node] [narrow]: run under mpirun with the shape's ranks
 * ("hosts" takes the groups from the hosts).  Every conversion between layouts, every
 * algorithm, several lengths and types, twice through the same handle, compared bit for bit on
 * integer-valued data. Prints "ok N".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "coll/coll.h"

enum { ELEMS_MAX = 100000 };

struct check {
    struct coll coll;
    struct stream *stream;
    struct world *world;
    char *in, *out;
    int runs;
};

static double value(int sum, int rank, int64_t x)
{
    return (double)(x % 16 + (sum ? rank % 4 : 0)); /* sums of 16 ranks stay exact in bf16 */
}

static double expected(struct check *c, int sum, enum letter done, int64_t x)
{
    const struct groups *g = &c->coll.layout.groups;
    double v = 0;

    if (!sum)
        return value(0, 0, x);
    for (int r = 0; r < g->ranks; r++)
        if (done == LETTER_G ||
            (done == LETTER_I && g->group_of[r] == g->group_of[c->world->rank]) ||
            r == c->world->rank)
            v += value(1, r, x);
    return v;
}

static void put(void *p, enum dtype type, int64_t i, double v)
{
    dtype_convert((char *)p + i * dtype_bytes(type), type, &v, DTYPE_F64, 1);
}

static double get(const void *p, enum dtype type, int64_t i)
{
    double v;

    dtype_convert(&v, DTYPE_F64, (const char *)p + i * dtype_bytes(type), type, 1);
    return v;
}

/* One conversion; returns the number of wrong elements. */
static int64_t convert(struct check *c, struct coll_spec *spec, int sum, enum letter done)
{
    struct coll_handle h;
    struct range r[64];
    struct err err = {0};
    int64_t wrong = 0;

    if (coll_prepare(&c->coll, spec, &h, &err)) {
        fprintf(stderr, "coll_check: %s\n", err.text);
        exit(2);
    }
    for (int again = 0; again < 2; again++) {
        int64_t at = 0;
        int n = layout_ranges(&c->coll.layout, spec->from, c->world->rank, spec->elems, r);
        for (int i = 0; i < n; i++)
            for (int64_t x = r[i].lo; x < r[i].hi; x++)
                put(c->in, spec->type, at++, expected(c, sum, sum ? spec->from : LETTER_N, x));
        memset(c->out, 0xff, (size_t)(spec->elems * dtype_bytes(spec->type)));
        if (coll_run(c->stream, &h, c->in, c->out, &err)) {
            fprintf(stderr, "coll_check: %s\n", err.text);
            world_abort(c->world, 2);
        }
        n = layout_ranges(&c->coll.layout, spec->to, c->world->rank, spec->elems, r);
        at = 0;
        for (int i = 0; i < n; i++)
            for (int64_t x = r[i].lo; x < r[i].hi; x++)
                wrong += get(c->out, spec->type, at++) != expected(c, sum, done, x);
    }
    coll_free(&h);
    c->runs++;
    return wrong;
}

static int64_t all_of(struct check *c, int64_t elems, enum dtype type, int64_t chunk_bytes)
{
    struct coll_spec spec = {.elems = elems, .type = type, .chunk_bytes = chunk_bytes};
    int64_t wrong = 0;

    for (int algo = SCHEDULE_RING; algo <= SCHEDULE_HO_RING; algo++)
        for (int a = 0; a < 3; a++) {
            spec.algo = (enum schedule_algo)algo;
            for (int b = 0; b < 3; b++) {
                spec.from = (enum letter)a;
                spec.to = (enum letter)b;
                spec.moves = layout_moves_sum(spec.from, spec.to);
                wrong += convert(c, &spec, 1, LETTER_G);
                spec.moves = layout_moves_copy(spec.from, spec.to);
                if (a >= b)
                    wrong += convert(c, &spec, 0, LETTER_N);
            }
            spec.from = LETTER_N;
            spec.to = (enum letter)a;
            spec.moves = layout_moves_micro(spec.to);
            wrong += convert(c, &spec, 1, spec.to);
        }
    return wrong;
}

/* The same sizes, but ranks dealt to the groups in turn: 0 2 4 and 1 3 for [3,2]. */
static void place_by_node(struct groups *g)
{
    int *of = mem_new((size_t)g->ranks, sizeof *of),
        *left = mem_new((size_t)g->count, sizeof *left);
    struct groups dealt;
    struct err err = {0};

    memcpy(left, g->members, (size_t)g->count * sizeof *left);
    for (int r = 0, k = 0; r < g->ranks; r++, k = (k + 1) % g->count) {
        while (left[k] == 0)
            k = (k + 1) % g->count;
        left[k]--;
        of[r] = k;
    }
    groups_init_of(&dealt, g->ranks, of, &err);
    mem_free(of);
    mem_free(left);
    groups_release(g);
    *g = dealt;
}

static int asked(int argc, char **argv, const char *word)
{
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], word) == 0)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    struct check c = {0};
    struct coll_options options = {.shared_bytes = 2 * (ELEMS_MAX * 8 + 4096)};
    struct groups groups;
    struct err err = {0};

    if (argc < 2 || world_open(&c.world, &err))
        return 2;
    options.no_shared = asked(argc, argv, "no-shared");
    /* The smallest window that there is: fewer messages in flight than rows of a queue. */
    options.window_bytes = asked(argc, argv, "narrow");
    if (strcmp(argv[1], "hosts") == 0)
        groups_copy(&groups, &c.world->groups);
    else if (groups_parse(&groups, argv[1], &err))
        goto fail;
    if (asked(argc, argv, "by-node"))
        place_by_node(&groups);
    if (coll_open(&c.coll, c.world, &groups, &options, &err))
        goto fail;
    c.stream = stream_open(c.coll.runner, 4);
    c.in = coll_take(&c.coll, ELEMS_MAX * 8);
    c.out = coll_take(&c.coll, ELEMS_MAX * 8);
    int64_t wrong = all_of(&c, 0, DTYPE_F32, 0) + all_of(&c, 1, DTYPE_F32, 0) +
                    all_of(&c, 7, DTYPE_BF16, 0) + all_of(&c, 997, DTYPE_F32, 64) +
                    all_of(&c, 4096, DTYPE_F64, 512) + all_of(&c, ELEMS_MAX, DTYPE_F32, 0);
    if (world_agree(c.world,
                    wrong ? err_set(&err, ERR_MISMATCH, "%lld wrong", (long long)wrong) : 0,
                    &err))
        goto fail;
    if (c.world->rank == 0)
        printf("ok %d\n", c.runs);
    coll_close(&c.coll);
    groups_release(&groups);
    world_close(c.world);
    return 0;
fail:
    if (c.world->rank == 0)
        fprintf(stderr, "coll_check: %s\n", err.text);
    int status = c.world->rank == 0 ? 2 : 0;
    world_close(c.world);
    return status;
}
