/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the time of a step against the same step in small ticks: one computing thread that goes
 * through its loops, four queues, two links.  In each tick all that is under way moves by its
 * share.  And what is computed again, matrix by matrix.
 *
 * One collective, priced by the planner's closed form and by the simulator of its rows: within
 * 5 %, which is what simulated and measured times differ by (pick/pick_auto.h).  Where messages
 * take most of a processor's time, its queues wait for it in an order that no closed form has:
 * within 15 %.
 */
#include "unit.h"

#include "pick/pick_auto.h"
#include "plan/plan_timeline.h"
#include "plan_fixture.h"

enum { UNITS = 6, ACCUM_MAX = 6, SEQ = 256, LANES = 4, JOBS = 2 * UNITS * ACCUM_MAX };
enum lane { GATHERS, REDUCES, BOUNDARIES, SYNCS };

static const double TICK = 5e-6;

/* Seconds on the slow and on the fast link; alone it takes both, one after the other. */
struct cost {
    double slow, fast;
};

struct queue {
    double left[JOBS];               /* part of each job */
    int need_lane[JOBS], need[JOBS]; /* jobs of another queue that must have ended before */
    int requested, ended;
};

struct ticks {
    double forward, backward, update;
    struct cost cost[LANES];
    int accum, keep, prefetch, buckets;
    double lost;                    /* by each use whose parameters are gathered for it */
    double compute_left, rate_left; /* of the fast link and beside it; 1 of the slow one */
    double late[LANES];             /* of a job's messages, while computing */
    double now;
    struct queue queue[LANES];
    int gather_of[JOBS]; /* by use: the gather that brings it, from 1; 0: not asked for */
};

/* Sums in another order. */
static void same(double found, double expected)
{
    if (fabs(found - expected) > 1e-12 * expected)
        fail_msg("%.15g, expected %.15g", found, expected);
}

static int moves(const struct ticks *w, int lane)
{
    return w->cost[lane].slow + w->cost[lane].fast > 0;
}

static int under_way(const struct ticks *w, int lane)
{
    const struct queue *q = &w->queue[lane];

    return q->ended < q->requested &&
           w->queue[q->need_lane[q->ended]].ended >= q->need[q->ended];
}

/* One tick; returns the part of it that computing got. */
static double tick(struct ticks *w, int computing)
{
    double left = computing ? w->rate_left : 1, load[2] = {0}, alone[LANES], used = 0;
    int busy[LANES];

    for (int l = 0; l < LANES; l++) {
        const struct cost *c = &w->cost[l];
        busy[l] = under_way(w, l);
        alone[l] = c->slow + c->fast / left + (computing ? w->late[l] : 0);
        if (busy[l]) {
            load[0] += c->slow / alone[l];
            load[1] += c->fast / left / alone[l];
        }
    }
    for (int l = 0; l < LANES; l++) {
        const struct cost *c = &w->cost[l];
        struct queue *q = &w->queue[l];
        double over = 1;
        if (!busy[l])
            continue;
        if (c->slow > 0 && load[0] > over)
            over = load[0];
        if (c->fast > 0 && load[1] > over)
            over = load[1];
        double part = TICK / alone[l] / over;
        q->left[q->ended] -= part;
        used += part * c->fast / TICK;
        q->ended += q->left[q->ended] <= 0;
    }
    w->now += TICK;
    return TICK * (1 - (1 - w->compute_left) / w->rate_left * used);
}

static void compute(struct ticks *w, double s)
{
    while (s > 0)
        s -= tick(w, 1);
}

static void wait_for(struct ticks *w, int lane, int jobs)
{
    while (w->queue[lane].ended < jobs)
        tick(w, 0);
}

static int request(struct ticks *w, int lane, int need_lane, int need)
{
    struct queue *q = &w->queue[lane];

    q->left[q->requested] = 1;
    q->need_lane[q->requested] = need_lane;
    q->need[q->requested] = need;
    return ++q->requested;
}

static int visit_of(int use)
{
    int at = use % (2 * UNITS);

    return at < UNITS ? at : 2 * UNITS - 1 - at;
}

/* A use of the backward that finds what the forward has gathered. */
static int finds(const struct ticks *w, int use)
{
    return use % (2 * UNITS) >= UNITS && visit_of(use) >= UNITS - w->keep;
}

/* Up to `prefetch` gathers beyond the use at hand; a kept place is free after its backward. */
static void ask_ahead(struct ticks *w, int done)
{
    int uses = 2 * UNITS * w->accum, ahead = 0;

    for (int use = done; moves(w, GATHERS) && use < uses && ahead <= w->prefetch; use++) {
        int before = use - 2 * visit_of(use) - 1; /* where this unit was used before this */
        if (finds(w, use))
            continue;
        ahead++;
        if (w->gather_of[use])
            continue;
        if (use >= 2 * UNITS && visit_of(use) >= UNITS - w->keep && before >= done)
            return;
        w->gather_of[use] = request(w, GATHERS, SYNCS, moves(w, SYNCS) ? visit_of(use) + 1 : 0);
    }
}

static void use_unit(struct ticks *w, int use)
{
    int back = use % (2 * UNITS) >= UNITS, from = use, unit = visit_of(use);
    int last = use >= 2 * UNITS * (w->accum - 1);

    if (finds(w, use))
        from = use - 2 * (UNITS - 1 - unit) - 1;
    if (moves(w, GATHERS))
        wait_for(w, GATHERS, w->gather_of[from]);
    else
        wait_for(w, SYNCS, moves(w, SYNCS) ? unit + 1 : 0);
    double gathered = moves(w, GATHERS) && from == use ? w->lost : 0;
    double layer = unit > 0 && unit < UNITS - 1 ? (back ? w->backward : w->forward) : 0;
    compute(w, layer + gathered);
    ask_ahead(w, use + 1);
    if (!back)
        return;
    int reduced = 0;
    if (moves(w, REDUCES)) {
        wait_for(w, REDUCES, w->queue[REDUCES].requested - w->buckets + 1);
        reduced = request(w, REDUCES, SYNCS, 0);
    }
    if (last && moves(w, BOUNDARIES))
        request(w, BOUNDARIES, REDUCES, reduced);
}

/* From update to update. */
static double step_of(struct ticks *w)
{
    for (int u = 0; u < UNITS; u++) {
        compute(w, w->update);
        if (moves(w, SYNCS))
            request(w, SYNCS, SYNCS, 0);
    }
    ask_ahead(w, 0);
    for (int use = 0; use < 2 * UNITS * w->accum; use++)
        use_unit(w, use);
    for (int l = 0; l < LANES; l++)
        wait_for(w, l, w->queue[l].requested);
    return w->now;
}

/* Equal units; the attention's products alone, the same in each layer. */
static struct model layers_alone(struct model_unit unit[UNITS])
{
    for (int u = 0; u < UNITS; u++)
        unit[u] = (struct model_unit){.elems = 1000000, .trained = 1000000};
    return (struct model)LIST(.family = &model_family_llama, .layers = UNITS, .heads = 1,
                              .head_dim = 64, .units = UNITS, .visits = UNITS, .unit = unit,
                              .params = UNITS * INT64_C(1000000),
                              .trained = UNITS * INT64_C(1000000));
}

/* One unit's times on two groups of two, one after the other: a million elements of two bytes
   are 1 ms inside a group (half of them leave each rank at 1e9 a second) and 1 ms across (a
   quarter of them leaves each of two ranks through a port of 1e9).  The tables are those of
   paro-method(7), TRAFFIC.  The first visit is the embedding's and the last one the head's: no
   attention. */
static struct ticks ticks_of(const struct plan_case *c, struct plan_strategy s,
                             const struct plan_price *p)
{
    static const struct cost gather[] = {{0, 0}, {0, 1}, {1, 1}};
    static const struct cost syncg[3][3] = {
        {{2, 2}, {2, 1}, {1, 1}}, {{2, 1}, {2, 0}, {1, 0}}, {{1, 1}, {1, 0}, {0, 0}}};
    static const struct cost syncp[3][3] = {
        {{0, 0}, {0, 0}, {0, 0}}, {{0, 1}, {0, 0}, {0, 0}}, {{1, 1}, {1, 0}, {0, 0}}};
    static const double shards[] = {1, 2, 4};
    const double ms = 1e-3, layer = 4.0 * SEQ * SEQ * 64 / c->topo->flops;
    struct ticks w = {.forward = layer,
                      .backward = 2 * layer,
                      /* 16 operations for each element */
                      .update = 16e6 / shards[s.optimizer] / c->topo->flops,
                      .cost = {gather[s.params], gather[s.grads], syncg[s.grads][s.optimizer],
                               syncp[s.optimizer][s.params]},
                      .accum = c->accum,
                      .keep = c->keep < UNITS ? c->keep : UNITS,
                      .prefetch = c->prefetch,
                      .buckets = c->buckets,
                      .lost = c->topo->level[s.params == LETTER_G].use_lost_s,
                      .compute_left = c->topo->level[0].compute_left,
                      .rate_left = c->topo->level[0].rate_left};
    double comm = 0,
           times[LANES] = {c->accum * (2 * UNITS - w.keep), c->accum * UNITS, UNITS, UNITS};

    for (int l = 0; l < LANES; l++) {
        w.late[l] = w.cost[l].slow * c->topo->level[1].latency_busy_s +
                    w.cost[l].fast * c->topo->level[0].latency_busy_s;
        w.cost[l].slow *= ms;
        w.cost[l].fast *= ms;
        comm += times[l] * (w.cost[l].slow + w.cost[l].fast);
    }
    same(p->compute_s, UNITS * w.update + (UNITS - 2) * 3 * c->accum * layer +
                           (s.params == LETTER_N ? 0 : times[GATHERS] * w.lost));
    same(p->comm_s, comm);
    return w;
}

/* In ticks a piece ends up to a tick late, and what waits for it begins as much later: along a
 * chain of pieces, at most all of them, a tick for each. */
static void compare_step(const struct plan_case *c)
{
    struct plan_price p[PLAN_STRATEGIES];

    plan_price_all(c, p);
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        struct ticks w = ticks_of(c, p[i].strategy, &p[i]);
        int pieces = UNITS * (3 + c->accum * 5);
        double step = step_of(&w);
        if (fabs(p[i].step_s - step) > pieces * TICK)
            fail_msg("%d accum %d keep %d prefetch %d flops %g left %g: %.9f s, in ticks %.9f",
                     i, c->accum, c->keep, c->prefetch, c->topo->flops, w.rate_left,
                     p[i].step_s, step);
    }
}

TEST(test_step_by_ticks)
{
    static const int keeps[] = {0, 1, UNITS - 1, PLAN_KEEP_ALL};
    static const int accums[] = {1, 3, ACCUM_MAX}; /* the last beyond what is walked */
    struct model_unit unit[UNITS];
    struct model m = layers_alone(unit);
    struct topo t;
    int at = 0;

    make_topo(&t, "2x2", 1e9, 1e9);
    for (double flops = 1e9; flops < 1e11; flops *= 1.7, at++) {
        struct plan_case c = table_case(&t, &m, accums[at % 3], 1);
        t.flops = flops;
        t.level[0].rate_left = at % 2 ? 0.4 : 1;
        t.level[0].compute_left = at % 2 ? 0.7 : 1;
        t.level[0].use_lost_s = at % 3 ? 0.3e-3 : 0;
        t.level[1].use_lost_s = at % 3 == 2 ? 0.9e-3 : 0;
        t.level[0].latency_busy_s = at % 4 == 1 ? 0.2e-3 : 0;
        t.level[1].latency_busy_s = at % 4 > 1 ? 0.7e-3 : 0;
        c.algo = SCHEDULE_TWO_LEVEL;
        c.seq = SEQ;
        c.keep = keeps[at % 4];
        c.prefetch = at / 2 % 3;
        compare_step(&c);
    }
    drop_topo(&t);
}

/* A layer's backward needs all of its forward but what leaves it: every matrix of every layer
 * but the last one, without the down projections, and scores and their product with V. */
TEST(test_again_by_matrix)
{
    for (int i = 0; i < 2; i++) {
        struct plan_price once[PLAN_STRATEGIES], again[PLAN_STRATEGIES];
        struct model m = tiny_llama(i);
        struct topo t;
        double products = 0;
        for (int x = 0; x < m.tensors; x++) {
            const char *name = m.tensor[x].name;
            if (strstr(name, "layers.") && !strstr(name, "layers.3.") &&
                m.tensor[x].kind == MODEL_MATRIX && !strstr(name, "down_proj"))
                products += 2.0 * (double)m.tensor[x].elems;
        }
        products += 3 * 4.0 * SEQ * 64;
        make_topo(&t, "1x2", 1e9, 1e9);
        t.flops = 1e9;
        struct plan_case c = table_case(&t, &m, 3, 1);
        c.micro_batch = 2;
        plan_price_all(&c, once);
        c.recompute = 1;
        plan_price_all(&c, again);
        for (int k = 0; k < PLAN_STRATEGIES; k++) {
            same(again[k].compute_s, once[k].compute_s + 3 * 2 * SEQ * products / 1e9);
            assert_true(again[k].memory.activations < once[k].memory.activations);
            assert_true(again[k].slow_bytes == once[k].slow_bytes);
        }
        drop_topo(&t);
        model_release(&m);
    }
}

static int by_lane(const void *a, const void *b)
{
    const struct plan_piece *x = a, *y = b;

    return x->lane != y->lane ? x->lane - y->lane : x->start_s < y->start_s ? -1 : 1;
}

static double busy_s(const struct plan_timeline *t)
{
    double sum = 0;

    for (int i = 0; i < t->pieces; i++)
        sum += t->piece[i].end_s - t->piece[i].start_s;
    return sum;
}

/* Where the last micro-step begins. */
static double last_forward_s(const struct plan_timeline *t)
{
    double s = INFINITY;

    for (int i = 0; i < t->pieces; i++)
        if (t->piece[i].kind == STEP_FORWARD && t->piece[i].micro == t->micros - 1)
            s = fmin(s, t->piece[i].start_s);
    return s;
}

/* From the first forward to the update: the same pieces, none outside, none on another. */
TEST(test_turned)
{
    for (int i = 0; i < 2 * PLAN_STRATEGIES; i++) {
        struct plan_search s = {.fixed = 1, .strategy = plan_strategy_at(i / 2)};
        struct plan_timeline a, b;
        struct topo t;
        struct model m = {0};
        struct plan p;
        assert_ok(topo_parse_synth(&t, "[3,2],flops=1e11,inter=1GB/s", &err));
        assert_ok(model_read(&m, "params=1e7", &err));
        plan_case_init(&s.at, &t, &m);
        s.at.accum = i % 2 ? 7 : 3;
        assert_ok(plan_search(&s, &err));
        plan_timeline_of(&s.at, &s.list[s.best], NULL, &a);
        plan_init(&p, &s, &m);
        plan_timeline_of_plan(&p, &t, &b);
        same(b.step_s, a.step_s);
        same(busy_s(&b), busy_s(&a));
        qsort(b.piece, (size_t)b.pieces, sizeof *b.piece, by_lane);
        double last_s = last_forward_s(&b);
        for (int k = 0; k < b.pieces; k++) {
            const struct plan_piece *v = &b.piece[k];
            assert_true(v->start_s >= 0 && v->end_s <= b.step_s * (1 + 1e-12));
            assert_true(!k || v->lane != v[-1].lane ||
                        v->start_s >= v[-1].end_s - 1e-12 * b.step_s);
            assert_true(v->lane != STEP_CONVERT || v->start_s > last_s);
            if (v->lane == STEP_COMPUTE && (!k || v[-1].lane != STEP_COMPUTE))
                assert_int_equal(v->kind, STEP_FORWARD);
        }
        assert_int_equal(b.piece[b.pieces - 1].kind, STEP_UPDATE);
        plan_timeline_release(&a);
        plan_timeline_release(&b);
        plan_release(&p);
        topo_release(&t);
    }
}

/* Against the simulator of the same rows. */
static const char *const fabrics[] = {
    "16x8,intra=200GB/s:3us,inter=25GB/s:12us",  /* H100 nodes, one port each */
    "4x8,intra=450GB/s:3us,inter=400GB/s:8us",   /* eight rails of 400 Gbit/s, as NDv5 */
    "2x2,intra=2GB/s:20us,inter=59.8MB/s:100us", /* emulated */
    "[4,4,3],intra=2GB/s:20us,inter=120MB/s:60us"};

/* Seconds of one all-gather of `elems` in bf16, in the chunk that the plan chose. */
static double planned_s(const struct plan_case *c, const struct plan_traffic *traffic,
                        enum schedule_algo algo)
{
    struct plan_flow f;
    const struct plan_strategy finest = {LETTER_G, LETTER_G, LETTER_G};
    struct plan_cost b = plan_cost_of(c, traffic, finest, algo);

    plan_flow_of(&b, 0, STEP_GATHER, &f);
    return f.alone_s[0];
}

static void compare_simulated(const struct topo *t, const char *spec, double params,
                              double within)
{
    static const enum schedule_algo algos[] = {SCHEDULE_HO_RING, SCHEDULE_TWO_LEVEL,
                                               SCHEDULE_RING};
    struct model m = bare(params);
    struct plan_traffic traffic;
    struct plan_case c;

    plan_case_init(&c, t, &m);
    plan_traffic_init(&traffic, t, &m, &c.settings);
    plan_choose_chunk(&c, &traffic);
    for (int i = 0; i < 3; i++) {
        double simulated = 0, planned = planned_s(&c, &traffic, algos[i]);
        assert_ok(pick_time(t, SCHEDULE_ALL_GATHER, 2 * m.params, algos[i], c.chunk_bytes,
                            &simulated, &err));
        if (fabs(planned - simulated) > within * simulated)
            fail_msg("%s, %g elements, %s in chunks of %lld: planned %g s, simulated %g s",
                     spec, params, schedule_algo_name(algos[i]), (long long)c.chunk_bytes,
                     planned, simulated);
    }
    plan_traffic_release(&traffic);
}

TEST(planner_and_simulator_agree)
{
    for (size_t i = 0; i < sizeof fabrics / sizeof *fabrics; i++)
        for (int known = 0; known < 2; known++) {
            struct topo t;
            assert_ok(topo_parse_synth(&t, fabrics[i], &err));
            for (int l = 0; known && l < t.levels; l++)
                t.level[l].message_s =
                    t.level[l].latency_s / 30; /* 10 million a second: InfiniBand */
            double within = known ? 0.15 : 0.05;
            compare_simulated(&t, fabrics[i], 202.5e6, within);
            compare_simulated(&t, fabrics[i], 32 << 20, within);
            compare_simulated(&t, fabrics[i], 4e6, within);
            topo_release(&t);
        }
}

/* A message: the latency and a processor's time at either end; while all compute what was
   measured then, if it is more. */
TEST(test_message)
{
    const struct plan_traffic t =
        LIST(.inside_s = 1, .inside_message_s = 10, .inside_busy_s = 50, .across_s = 100,
             .across_message_s = 1000, .across_busy_s = 50);
    const struct plan_case at = {0};
    struct plan_cost b = {.traffic = &t, .at = &at};

    assert_true(plan_message_s(&b, 0) == 1 + 2 * 10);
    assert_true(plan_message_s(&b, 1) == 100 + 2 * 1000);
    b.computing = 1;
    assert_true(plan_message_s(&b, 0) == 50);
    assert_true(plan_message_s(&b, 1) == 100 + 2 * 1000);
}
