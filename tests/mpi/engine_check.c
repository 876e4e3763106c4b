/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the engine's gradients, losses and bytes: engine_check SHAPE CONFIG WIRE ACCUM STEPS
 * [STRATEGY] [params8] [grads8] [moments-TYPE] [TRAINS], under mpirun with the shape's ranks.
 * SHAPE: 2x2, [3,2], "hosts" as the ranks lie on them, or each rank's group, 0,1,0,1,0.  All 27
 * strategies (or one) against plain training without shards, computed on every rank alone:
 *
 *  - the first step's gradient, element by element, within a bound: a cast rounds by at most u
 *    relative to what it casts, an add by at most u relative to its sum, and each is at most
 *    S = sum of |g_i| over the micro-batches, up to (1+u)^k.  No way has more than n + s adds
 *    and two casts, hence |error| <= 1.1 (n + s + 2) u S with u = 2^-8 (bf16) or 2^-24 (f32),
 *    and 2^-24 for the accumulation in f32.  The micro-batches' gradients themselves are the
 *    same bits.
 *  - the losses of STEPS steps: they stay together as far as a run does whose gradient is off
 *    by one u S, at random up or down, at every step: (n + s + 2) times that spread.
 *  - bytes at rest, beside them, and through the slow port against the planner's, which is held
 *    to the tables of paro-method(7), TRAFFIC, by its own tests.
 *
 * TRAINS: what model_train takes: what is frozen stays as it is, to the bit.  Of a model so
 * sparse that products go by places, these add in another order than dense ones: with sums of
 * at most 64 terms and 40 products on an element's way, 40 * 64 * 2^-24 W more, W as below.
 *
 * params8, grads8: parameters, gradients travel between groups as int8 blocks.  A coding is off
 * by at most 2^-7 W, with W the most that S is among the 127 elements before and behind, which
 * are all that can be in its block.  At most n codings lie on an element's way, each of which
 * keeps what it lost: over TURNS gradients of the same batch their mean is off by
 * 1.1 n 2^-7 W / TURNS and what is said above (not so with params8: the network then sees other
 * parameters).  The run beside which losses are held is off by 2^-7 W in gradients, by the same
 * of |w| in parameters.  And after every step all copies of every state are equal.
 * params16, grads16: they travel as bf16, which is off by 2^-8 of an element.
 *
 * moments-bf16, moments-int8: how moments are stored, which losses are not held to (their bits
 * are exact_check's); copies and bytes are.
 */
#include "engine/engine_inside.h"
#include "engine_fixture.h"

enum { STEPS_MAX = 64, TURNS = 32, BLOCK = 128 };

struct plain {        /* training without shards */
    float *w, *m, *v; /* [params], unit after unit */
    float *used;      /* w as the network sees it: rounded to the type at rest */
    float *sum, *abs_sum, *one;
    float *wide; /* the most of something in the blocks around, see widen */
    double loss[STEPS_MAX], norm;
};

/*
 * The gradient of step `step` into p->sum, |.| into p->abs_sum.  direct: a rank's micro-steps
 * are added by the network itself, as the engine does where the accumulator is whole and f32.
 */
static double plain_gradient(struct check *c, struct plain *p, int64_t step, int direct)
{
    int64_t n = c->plan.groups.ranks, s = c->plan.accum, all = c->plan.model.params;
    double loss = 0;

    memset(p->sum, 0, (size_t)all * sizeof(float));
    memset(p->abs_sum, 0, (size_t)all * sizeof(float));
    for (int64_t r = 0; r < n; r++) {
        memset(p->one, 0, (size_t)all * sizeof(float));
        for (int64_t i = 0; i < s; i++) {
            loss += plain_micro(c, p->used, step * n * s + i * n + r, p->one);
            if (direct && i + 1 < s)
                continue;
            for (int64_t x = 0; x < all; x++) {
                p->sum[x] += p->one[x];
                p->abs_sum[x] += fabsf(p->one[x]) * (direct ? (float)s : 1);
            }
            memset(p->one, 0, (size_t)all * sizeof(float));
        }
    }
    return loss / ((double)n * (double)s * c->plan.micro_batch * c->plan.seq);
}

static void round_to(enum dtype type, float *to, const float *from, int64_t n)
{
    for (int64_t x = 0; x < n; x++) {
        to[x] = from[x];
        if (type != DTYPE_F32)
            to[x] = dtype_f32_of_bf16(dtype_bf16_of_f32(from[x]));
    }
}

static void plain_update(struct check *c, struct plain *p, int64_t step)
{
    const struct model *m = &c->plan.model;
    struct engine_optim o = optim_at(step, 1);

    p->norm = sqrt(kern_sumsq(p->sum, m->params));
    double scale = o.clip / (p->norm + 1e-6);
    if (scale < 1)
        kern_scale(p->sum, (float)scale, m->params);
    for (int t = 0; t < m->tensors; t++) {
        int64_t at = c->first[m->tensor[t].unit] + m->tensor[t].offset;
        if (!model_trains(m, &m->tensor[t]))
            continue;
        kern_adamw(p->w + at, p->m + at, p->v + at, p->sum + at, m->tensor[t].elems, o.lr,
                   o.beta1, o.beta2, o.eps, m->tensor[t].kind == MODEL_VECTOR ? 0 : o.decay,
                   o.step);
    }
    round_to(c->plan.param_type, p->used, p->w, m->params);
}

static void plain_begin(struct check *c, struct plain *p)
{
    const struct model *m = &c->plan.model;
    size_t all = (size_t)m->params;
    float **each[] = {&p->w, &p->m, &p->v, &p->used, &p->sum, &p->abs_sum, &p->one, &p->wide};

    for (int i = 0; i < 8; i++) {
        mem_free(*each[i]);
        *each[i] = mem_new(all, sizeof(float));
    }
    for (int u = 0; u < m->units; u++) {
        struct range r = {0, m->unit[u].elems};
        values(c, u, 0, r, p->w + c->first[u], &err);
    }
    round_to(c->plan.param_type, p->used, p->w, m->params);
}

/* p->wide: at each element of a unit the most of |from| 127 elements around, or further. */
static void widen(struct check *c, struct plain *p, const float *from)
{
    const struct model *m = &c->plan.model;

    for (int u = 0; u < m->units; u++) {
        const float *x = from + c->first[u];
        int64_t n = m->unit[u].elems;
        for (int64_t at = 0; at < n; at += BLOCK) {
            int64_t lo = at < BLOCK ? 0 : at - BLOCK, hi = at + 2 * BLOCK;
            float most = 0;
            for (int64_t i = lo; i < hi && i < n; i++)
                most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
            for (int64_t i = at; i < at + BLOCK && i < n; i++)
                p->wide[c->first[u] + i] = most;
        }
    }
}

/* to[x] is off by `by` of[x], this way or that. */
static void disturb(struct check *c, float *to, const float *of, float by, uint64_t stream)
{
    for (int64_t x = 0; x < c->plan.model.params; x++)
        to[x] += rng_u64(1, stream, (uint64_t)x) & 1 ? by * of[x] : -by * of[x];
}

static void disturb_params(struct check *c, struct plain *p, uint64_t stream)
{
    if (!c->plan.slow_params)
        return;
    widen(c, p, p->w);
    disturb(c, p->used, p->wide, 0x1p-7f, stream);
}

/* The losses of `steps` steps; coarse: off as far as one rounding can be. */
static void plain_run(struct check *c, struct plain *p, int coarse)
{
    float u = c->plan.wire_type == DTYPE_F32 ? 0x1p-24f : 0x1p-8f;

    plain_begin(c, p);
    if (coarse)
        disturb_params(c, p, STEPS_MAX);
    for (int i = 0; i < c->steps; i++) {
        p->loss[i] = plain_gradient(c, p, i, 0);
        if (coarse)
            disturb(c, p->sum, p->abs_sum, u, (uint64_t)i);
        if (coarse && c->plan.slow_grads) {
            widen(c, p, p->abs_sum);
            disturb(c, p->sum, p->wide, 0x1p-7f, STEPS_MAX + 1 + (uint64_t)i);
        }
        plain_update(c, p, i + 1);
        if (coarse)
            disturb_params(c, p, 2 * STEPS_MAX + 1 + (uint64_t)i);
    }
}

/* This rank's G shards of all units, one behind the other, added onto sum. */
static void add_gradient(struct check *c, struct engine *e, double *sum)
{
    const struct layout *l = engine_layout(e);
    const struct model *m = &c->plan.model;
    struct range *r = mem_new((size_t)layout_ranges_max(l), sizeof *r);
    float *g = mem_new((size_t)model_largest_unit(m), sizeof *g);

    for (int unit = 0; unit < m->units; unit++) {
        int n = layout_ranges(l, LETTER_G, c->world->rank, m->unit[unit].trained, r);
        for (int i = 0; i < n; i++) {
            if (engine_gradient(e, unit, r[i], g, &err))
                die(c, &err);
            for (int64_t x = r[i].lo; x < r[i].hi; x++)
                sum[c->first[unit] + x] += (double)g[x - r[i].lo];
        }
    }
    mem_free(g);
    mem_free(r);
}

/* sum: of `turns` gradients of the first batch. */
static void compare_gradient(struct check *c, struct engine *e, const struct plain *p,
                             const double *sum, int turns, const char *name)
{
    const struct layout *l = engine_layout(e);
    const struct plan *plan = &c->plan;
    double u = plan->wire_type == DTYPE_F32 ? 0x1p-24 : 0x1p-8;
    double factor = 1.1 * ((plan->groups.ranks + plan->accum + 2) * u +
                           (plan->groups.ranks + plan->accum) * 0x1p-24);
    struct range *r = mem_new((size_t)layout_ranges_max(l), sizeof *r);
    double rounds = plan->slow_grads == EXEC_CODE_INT8 ? 0x1p-7 : plan->slow_grads ? 0x1p-8 : 0;
    double coded = 1.1 * plan->groups.ranks * rounds / turns;
    double order =
        net_sparse_share(&plan->model, plan->compute_type) > 0 ? 40 * 64 * 0x1p-24 : 0;
    int64_t wrong = 0, zero = 0, all = 0;

    for (int unit = 0; unit < plan->model.units; unit++) {
        int n = layout_ranges(l, LETTER_G, c->world->rank, plan->model.unit[unit].trained, r);
        for (int i = 0; i < n; i++)
            for (int64_t x = r[i].lo; x < r[i].hi; x++) {
                int64_t at = c->first[unit] + x;
                double mean = sum[at] / turns, gap = fabs(mean - p->sum[at]);
                wrong +=
                    !(gap <= factor * p->abs_sum[at] + (coded + order) * p->wide[at] + 1e-38);
                zero += p->sum[at] != 0 && mean == 0;
                all++;
            }
    }
    if (wrong || zero > all / 2) {
        fprintf(stderr, "engine_check: %s: rank %d: %lld of %lld gradients beyond the bound\n",
                name, c->world->rank, (long long)wrong, (long long)all);
        c->failures++;
    }
    mem_free(r);
}

/* The first batch's gradient beside the plain one, before anything is learnt. */
static void check_gradient(struct check *c, struct engine *e, struct plain *first,
                           const char *name)
{
    int direct = c->plan.strategy.grads == LETTER_N && c->plan.grad_type == DTYPE_F32;
    int turns = c->plan.slow_grads ? TURNS : 1;
    double *sum = mem_new((size_t)c->plan.model.params, sizeof *sum);
    struct engine_report report;

    c->step = 0;
    plain_begin(c, first);
    plain_gradient(c, first, 0, direct);
    widen(c, first, first->abs_sum);
    for (int i = 0; i < turns; i++) {
        if (engine_step(e, batch, c, NULL, &report, &err))
            die(c, &err);
        add_gradient(c, e, sum);
    }
    compare_gradient(c, e, first, sum, turns, name);
    mem_free(sum);
}

static void compare_losses(struct check *c, const double *loss, const struct plain *p,
                           const struct plain *coarse, const char *name)
{
    double spread = 1e-7;
    const struct plan *plan = &c->plan;

    for (int i = 0; i < c->steps; i++) {
        double gap = fabs(coarse->loss[i] - p->loss[i]);
        spread = gap > spread ? gap : spread;
        double limit = (plan->groups.ranks + plan->accum + 2) * spread;
        if (!(fabs(loss[i] - p->loss[i]) <= limit)) {
            fprintf(stderr, "engine_check: %s: step %d: loss %.9f, plain %.9f, limit %.3g\n",
                    name, i + 1, loss[i], p->loss[i], limit);
            c->failures++;
            return;
        }
    }
}

/* The planner's price of this strategy: what is at rest to the byte (of the rank that has
 * most), the slow bytes within 1 % (a chunk's rounding), buffers within 5 % (alignment,
 * attention's scratch). */
static void compare_price(struct check *c, struct engine *e, const struct engine_report *last,
                          const char *name)
{
    const struct plan *p = &c->plan;
    struct plan_price price[PLAN_STRATEGIES];
    struct plan_case at;
    struct topo topo;
    struct plan_memory m;
    int64_t mine[2] = {engine_state_bytes(e), engine_buffer_bytes(e)}, *all, most[2] = {0};

    all = mem_new(2 * (size_t)c->world->ranks, sizeof *all);
    topo_init_rateless(&topo, &p->groups);
    plan_case_init(&at, &topo, &p->model);
    at.micro_batch = p->micro_batch;
    at.accum = p->accum;
    at.layered = p->layered;
    at.seq = p->seq;
    at.algo = p->algo;
    at.param_type = p->param_type;
    at.wire_type = p->wire_type;
    at.grad_type = p->grad_type;
    at.prefetch = p->prefetch;
    at.buckets = p->buckets;
    at.keep = p->keep;
    at.recompute = p->recompute;
    at.slow_params = p->slow_params;
    at.slow_grads = p->slow_grads;
    at.moments = p->moments;
    plan_price_all(&at, price);
    int i = 0;
    while (memcmp(&price[i].strategy, &p->strategy, sizeof p->strategy))
        i++;
    m = price[i].memory;
    if (world_allgather(c->world, mine, sizeof mine, all, &err))
        die(c, &err);
    for (int r = 0; r < c->world->ranks; r++) /* the rank that needs most is planned for */
        if (all[2 * r] + all[2 * r + 1] > most[0] + most[1])
            memcpy(most, &all[2 * r], sizeof most);
    double rest = m.params + m.grads + m.optimizer, beside = m.activations + m.buffers;
    double slow = (double)last->slow_bytes;
    if (fabs((double)(most[0] + most[1]) - m.total) > (p->slow_grads ? 0.05 * beside : 0.5) ||
        fabs(slow - price[i].slow_bytes) > 0.01 * price[i].slow_bytes + 64) {
        fprintf(stderr,
                "engine_check: %s: at rest %lld, planned %.0f; beside %lld, planned %.0f; slow "
                "%.0f, planned %.0f\n",
                name, (long long)most[0], rest, (long long)most[1], beside, slow,
                price[i].slow_bytes);
        c->failures++;
    }
    topo_release(&topo);
    mem_free(all);
}

/* 10^30 in the row of a token, and the loss is no number, but not all of the gradient: nobody
   updates, and what was lost of any of it is forgotten. */
static void check_skipped(struct check *c, struct engine *e, const char *name)
{
    int w = dtype_bytes(c->plan.param_type);
    struct engine_optim o = optim_at(1, 1);
    struct engine_report report;
    char was[4], *at = e->unit[0].params;
    int64_t kept = 0;

    batch(c, 0, c->tokens, c->targets);
    at += c->tokens[0] * c->plan.model.hidden * w;
    memcpy(was, at, (size_t)w);
    dtype_convert(at, c->plan.param_type, &(double){1e30}, DTYPE_F64, 1);
    if (engine_step(e, batch, c, &o, &report, &err))
        die(c, &err);
    memcpy(at, was, (size_t)w);
    for (int64_t i = 0; i < e->residuals.used; i++)
        kept += e->residuals.base[i] != 0;
    if (!report.skipped || kept) {
        fprintf(stderr, "engine_check: %s: %lld bytes kept of a step that was%s skipped\n",
                name, (long long)kept, report.skipped ? "" : " not");
        c->failures++;
    }
}

/* Checks that the frozen part of a G shard is as loaded, rounded as parameters at rest are. */
static void check_frozen(struct check *c, struct engine *e, const char *name)
{
    const struct model *m = &c->plan.model;
    const struct layout *l = engine_layout(e);
    struct range *r = mem_new((size_t)layout_ranges_max(l), sizeof *r);
    int64_t wrong = 0;

    for (int u = 0; u < m->units; u++) {
        int64_t first = m->unit[u].trained;
        int n = layout_ranges(l, LETTER_G, c->world->rank, m->unit[u].elems - first, r);
        for (int i = 0; i < n; i++)
            for (int64_t x = first + r[i].lo; x < first + r[i].hi; x++) {
                float was, is;
                values(c, u, 0, (struct range){x, x + 1}, &was, &err);
                round_to(c->plan.param_type, &was, &was, 1);
                if (engine_values(e, u, 0, (struct range){x, x + 1}, DTYPE_F32, &is, &err))
                    die(c, &err);
                wrong += was != is;
            }
    }
    if (wrong) {
        fprintf(stderr, "engine_check: %s: rank %d: %lld frozen values differ\n", name,
                c->world->rank, (long long)wrong);
        c->failures++;
    }
    mem_free(r);
}

static void one_strategy(struct check *c, struct plain *first, const struct plain *p,
                         const struct plain *coarse)
{
    struct engine *e = opened(c, (struct engine_options){0});
    err = (struct err){0};
    struct engine_report report;
    double loss[STEPS_MAX];
    uint64_t hash;
    char name[4];

    strcpy(name, plan_strategy_name(c->plan.strategy));
    if (!c->plan.slow_params)
        check_gradient(c, e, first, name);
    if (c->plan.slow_grads && c->plan.strategy.params == LETTER_N && c->plan.model.tied)
        check_skipped(c, e, name);
    for (c->step = 0; c->step < c->steps; c->step++) {
        struct engine_optim o = optim_at(c->step + 1, 1);
        if (engine_step(e, batch, c, &o, &report, &err))
            die(c, &err);
        loss[c->step] = report.loss;
        if ((c->plan.slow_params || c->plan.slow_grads || c->plan.moments) &&
            engine_hash(e, &hash, &err)) {
            fprintf(stderr, "engine_check: %s: %s\n", name, err.text);
            c->failures++;
        }
    }
    check_frozen(c, e, name);
    if (!c->plan.moments)
        compare_losses(c, loss, p, coarse, name);
    compare_price(c, e, &report, name);
    engine_close(e);
}

static void plain_end(struct plain *p)
{
    float *each[] = {p->w, p->m, p->v, p->used, p->sum, p->abs_sum, p->one, p->wide};

    for (int i = 0; i < 8; i++)
        mem_free(each[i]);
}

static const char *words(struct check *c, int argc, char **argv)
{
    const char *strategy = NULL;

    for (int i = 6; i < argc; i++)
        if (strcmp(argv[i], "params8") == 0)
            c->plan.slow_params = EXEC_CODE_INT8;
        else if (strcmp(argv[i], "grads8") == 0)
            c->plan.slow_grads = EXEC_CODE_INT8;
        else if (strcmp(argv[i], "params16") == 0)
            c->plan.slow_params = EXEC_CODE_BF16;
        else if (strcmp(argv[i], "grads16") == 0)
            c->plan.slow_grads = EXEC_CODE_BF16;
        else if (strncmp(argv[i], "moments-", 8) == 0 &&
                 moments_parse(argv[i] + 8, &c->plan.moments, &err) == 0)
            continue;
        else if (!strchr(argv[i], '='))
            strategy = argv[i];
    return strategy;
}

int main(int argc, char **argv)
{
    struct check c = {0};
    struct plain first = {0}, plain = {0}, coarse = {0};

    if (argc < 6 || world_open(&c.world, &err))
        return 2;
    kern_thread_init();
    for (int i = 6; i < argc; i++)
        if (strchr(argv[i], '='))
            c.trains = argv[i];
    set_up(&c, argv[1], argv[2], argv[3], atoi(argv[4]));
    c.steps = atoi(argv[5]);
    const char *only = words(&c, argc, argv);
    plain_run(&c, &plain, 0);
    plain_run(&c, &coarse, 1);
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        char name[4];
        c.plan.strategy = plan_strategy_at(i);
        strcpy(name, plan_strategy_name(c.plan.strategy));
        c.plan.algo = i % 3 == 0   ? SCHEDULE_HO_RING
                      : i % 3 == 1 ? SCHEDULE_TWO_LEVEL
                                   : SCHEDULE_RING;
        c.plan.prefetch = i % 4;
        c.plan.buckets = 1 + i % 3;
        c.plan.keep = i % 5 < 3 ? i % 5 : PLAN_KEEP_ALL;
        c.plan.recompute = i / 2 % 2;
        c.plan.layered = 1 + i / 4 % 3;
        if (only && strcmp(only, name))
            continue;
        one_strategy(&c, &first, &plain, &coarse);
    }
    plain_end(&first);
    plain_end(&plain);
    plain_end(&coarse);
    return finish(&c);
}
