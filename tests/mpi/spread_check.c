/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that states kept by several ranks are read once and sent (engine_load with a source
 * that has an end), under all 27 strategies: spread_check SHAPE CONFIG WIRE [params8] [TRAINS],
 * run under mpirun with the shape's ranks.  The source here counts the requests:
 *
 *  - of the ranks that keep the very same elements one is asked for each, once; the others are
 *    not, and nobody is asked for what it does not keep;
 *  - what is read at once is asked of one rank alone;
 *  - no rank is asked for more than its share and one such stretch (where all trains);
 *  - master, moments and parameters are, to the bit, those of ranks that read for themselves;
 *  - where one rank cannot read, all have its error, and the next load works.
 *
 * TRAINS: what model_train takes.
 */
#include "engine/engine_inside.h"
#include "engine_fixture.h"

enum { STRETCH = 1500, STATES = 3 };

struct requested {
    struct check *c;
    int64_t elems[STATES];
    uint8_t *times; /* [STATES * params] */
    int fails;      /* from so many reads on, if above 0 */
    int reads;
};

/* Any number, a function of its place. */
static int read_any(void *arg, int unit, int state, struct range r, float *out, struct err *why)
{
    struct requested *a = arg;
    struct check *c = a->c;

    if (a->fails && ++a->reads >= a->fails)
        return err_set(why, ERR_MISMATCH, "block of unit %d is damaged", unit);
    for (int64_t x = r.lo; x < r.hi; x++) {
        int64_t at = c->first[unit] + x;
        *out++ = (float)(rng_u64(5, (uint64_t)state, (uint64_t)at) >> 40) * 0x1p-24f;
        a->times[state * c->plan.model.params + at]++;
        a->elems[state]++;
    }
    return 0;
}

/* Blocks that end where no shard does. */
static int64_t end_at(void *arg, int unit, int state, int64_t at)
{
    const struct requested *a = arg;
    int64_t end = (at / STRETCH + 1) * STRETCH, all = a->c->plan.model.unit[unit].elems;

    (void)state;
    return end < all ? end : all;
}

/* Ranks of one number keep the very same. */
static int class_of(const struct groups *g, enum letter letter, int rank)
{
    const int of[] = {0, g->members[g->group_of[rank]] * 64 + g->local_of[rank], rank};

    return of[letter];
}

/* Elements [first, first + elems) of the unit, of which all[rank] was asked. */
static void check_vector(struct check *c, struct engine *e, enum letter letter, int64_t first,
                         int64_t elems, int64_t step, const uint8_t *all)
{
    const struct groups *g = &c->plan.groups;
    struct range *r = mem_new((size_t)layout_ranges_max(&e->layout), sizeof *r);
    int own = class_of(g, letter, c->world->rank);
    int n = layout_ranges(&e->layout, letter, c->world->rank, elems, r);

    for (int64_t x = 0; x < elems; x++) {
        int times = 0, mine = layout_offset(r, n, x) >= 0;
        for (int rank = 0; rank < g->ranks; rank++)
            if (class_of(g, letter, rank) == own)
                times += all[rank * step + first + x];
        if (times != mine)
            complain(c, "an element is asked for so often", times, mine);
        if (x % STRETCH && mine && layout_offset(r, n, x - 1) >= 0 && first % STRETCH == 0 &&
            all[c->world->rank * step + first + x] !=
                all[c->world->rank * step + first + x - 1])
            complain(c, "a stretch is asked for in parts, up to", x, x - x % STRETCH);
    }
    mem_free(r);
}

static void check_requested(struct check *c, struct engine *e, const struct requested *a)
{
    const struct model *m = &c->plan.model;
    struct plan_strategy s = c->plan.strategy;
    int64_t step = STATES * m->params;
    uint8_t *all = mem_new((size_t)(step * c->world->ranks), 1);

    if (world_allgather(c->world, a->times, step, all, &err))
        die(c, &err);
    for (int u = 0; u < m->units; u++) {
        int64_t trained = m->unit[u].trained;
        for (int state = 0; state < STATES; state++)
            check_vector(c, e, s.optimizer, 0, trained, step,
                         all + state * m->params + c->first[u]);
        /* A shard of what is frozen is one of its own, counted from where it begins. */
        check_vector(c, e, s.params, trained, m->unit[u].elems - trained, step,
                     all + c->first[u]);
    }
    mem_free(all);
}

/* Each of k ranks reads 1/k of the elements they keep: the one that has read least is next, so
   that nobody is ever more than a stretch before another. */
static void check_even(struct check *c, const struct engine *e, const struct requested *a)
{
    const struct groups *g = &c->plan.groups;
    enum letter letter = c->plan.strategy.optimizer;
    int64_t all = 0, requested = 0, peers = 0;

    for (int r = 0; r < g->ranks; r++)
        peers += class_of(g, letter, r) == class_of(g, letter, c->world->rank);
    for (int i = 0; i < e->model->units; i++)
        all += STATES * e->unit[i].share[ENGINE_OPTIM].elems;
    for (int state = 0; state < STATES; state++)
        requested += a->elems[state];
    if (!c->plan.model.partial && requested > all / peers + STRETCH)
        complain(c, "elements asked for, at most", requested, all / peers + STRETCH);
}

static void same(struct check *c, const char *what, const void *a, const void *b, int64_t bytes)
{
    if (bytes && memcmp(a, b, (size_t)bytes))
        complain(c, what, 1, 0);
}

static void compare(struct check *c, const struct engine *e, const struct engine *alone)
{
    for (int i = 0; i < e->model->units; i++) {
        const struct engine_unit *u = &e->unit[i], *v = &alone->unit[i];
        same(c, "the master differs", u->master, v->master, u->share[ENGINE_OPTIM].elems * 4);
        same(c, "exp_avg differs", u->m, v->m, u->share[ENGINE_OPTIM].elems * 4);
        same(c, "exp_avg_sq differs", u->v, v->v, u->share[ENGINE_OPTIM].elems * 4);
        same(c, "parameters differ", u->params, v->params,
             (u->share[ENGINE_PARAMS].elems + u->share[ENGINE_FROZEN].elems) *
                 dtype_bytes(c->plan.param_type));
    }
}

/* One rank cannot read, from its first or its third time on, or at all. */
static void check_failure(struct check *c, struct engine *e, const struct requested *good)
{
    struct requested a = *good;
    const struct engine_source source = {read_any, end_at, &a};
    char name[32];

    for (int who = 0; who < c->world->ranks; who++)
        for (int from = 1; from < 4; from += 2) {
            err = (struct err){0};
            a.fails = c->world->rank == who ? from : 0;
            a.reads = 0;
            int rc = engine_load(e, &source, 1, &err);
            int failed = rc != 0, any = 0;
            int32_t reached = a.fails && a.reads >= a.fails, *all;
            all = mem_new((size_t)c->world->ranks, sizeof *all);
            struct err lost;
            if (world_allgather(c->world, &reached, sizeof reached, all, &lost))
                die(c, &lost);
            for (int r = 0; r < c->world->ranks; r++)
                any |= all[r];
            mem_free(all);
            if (failed != any)
                complain(c, "a load that one rank cannot make fails", failed, any);
            snprintf(name, sizeof name, "rank %d (", who);
            if (c->world->ranks == 1)
                name[0] = 0;
            if (failed && (err.code != ERR_MISMATCH || strncmp(err.text, name, strlen(name)) ||
                           !strstr(err.text, "block of unit ")))
                complain(c, err.text, 0, who);
        }
}

static void one(struct check *c)
{
    struct requested a = {.c = c}, apart = {.c = c};
    size_t space = STATES * (size_t)c->plan.model.params;
    struct engine *e = NULL, *alone = NULL;

    a.times = mem_new(space, 1);
    apart.times = mem_new(space, 1);
    if (engine_open(&e, c->world, &c->plan, &(struct engine_options){0}, &err) ||
        engine_open(&alone, c->world, &c->plan, &(struct engine_options){0}, &err) ||
        engine_load(alone, &(struct engine_source){read_any, NULL, &apart}, 1, &err) ||
        engine_load(e, &(struct engine_source){read_any, end_at, &a}, 1, &err))
        die(c, &err);
    check_requested(c, e, &a);
    check_even(c, e, &a);
    compare(c, e, alone);
    check_failure(c, e, &a);
    if (engine_load(e, &(struct engine_source){read_any, end_at, &a}, 1, &err))
        die(c, &err);
    compare(c, e, alone);
    engine_close(alone);
    engine_close(e);
    mem_free(a.times);
    mem_free(apart.times);
}

int main(int argc, char **argv)
{
    struct check c = {0};

    if (argc < 4 || world_open(&c.world, &err))
        return 2;
    kern_thread_init();
    for (int i = 4; i < argc; i++)
        if (strchr(argv[i], '='))
            c.trains = argv[i];
        else
            c.plan.slow_params = EXEC_CODE_INT8;
    set_up(&c, argv[1], argv[2], argv[3], 1);
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        c.plan.strategy = plan_strategy_at(i);
        one(&c);
    }
    return finish(&c);
}
