/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time of a step against a walk through it: one computing thread, one link that takes
 * conversions in the order in which they are asked for, unit after unit, step after step.
 * Parameter syncs alone stand back: they are carried in order while the link has nothing else,
 * or when the gather in hand is of their unit.  And what is computed again, matrix by matrix.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan_fixture.h"

enum { UNITS = 24, ACCUM_MAX = 3, SEQ = 256 };

/* Of one unit, in seconds. */
struct walk {
    double forward, backward, update;
    double gather, reduce, syncg, syncp;
    int accum, keep, prefetch, buckets;
    double now, link;                       /* when the thread, the link is free */
    double updated[UNITS], unsynced[UNITS]; /* when a sync was asked for, what is left of it */
    double synced[UNITS], gathered[2 * UNITS * ACCUM_MAX];
    int next;                       /* unit whose sync is next */
    double left[UNITS * ACCUM_MAX]; /* when a gradient had left */
    int leaving;                    /* gradients so far */
};

/* Sums in another order. */
static void same(double found, double expected)
{
    if (fabs(found - expected) > 1e-12 * expected)
        fail_msg("%.15g, expected %.15g", found, expected);
}

static double later_of(double a, double b)
{
    return a > b ? a : b;
}

/* Syncs up to a unit's, until a time; one that is broken off there goes on later. */
static void carry_syncs(struct walk *w, int unit, double until)
{
    for (; w->next <= unit; w->next++) {
        int u = w->next;
        double start = later_of(w->link, w->updated[u]);
        if (start >= until)
            return;
        double part = w->unsynced[u] < until - start ? w->unsynced[u] : until - start;
        w->link = start + part;
        w->unsynced[u] -= part;
        if (w->unsynced[u] > 0)
            return;
        w->synced[u] = w->link;
    }
}

/* When a conversion asked for now has ended. */
static double send(struct walk *w, double s)
{
    carry_syncs(w, UNITS - 1, w->now);
    w->link = later_of(w->link, w->now) + s;
    return w->link;
}

static int visit_of(int use)
{
    int at = use % (2 * UNITS);

    return at < UNITS ? at : 2 * UNITS - 1 - at;
}

/* A use of the backward that finds what the forward has gathered. */
static int finds(const struct walk *w, int use)
{
    return use % (2 * UNITS) >= UNITS && visit_of(use) >= UNITS - w->keep;
}

/* Up to `prefetch` gathers beyond the use at hand; a kept place is free after its backward. */
static void ask(struct walk *w, int done)
{
    int uses = 2 * UNITS * w->accum, ahead = 0;

    for (int use = done; use < uses && ahead <= w->prefetch; use++) {
        int before = use - 2 * visit_of(use) - 1; /* where this unit was used before this */
        if (finds(w, use))
            continue;
        ahead++;
        if (w->gathered[use] > 0)
            continue;
        if (use >= 2 * UNITS && visit_of(use) >= UNITS - w->keep && before >= done)
            return;
        carry_syncs(w, UNITS - 1, w->now);
        carry_syncs(w, visit_of(use), INFINITY);
        w->gathered[use] = send(w, w->gather);
    }
}

static void walk_use(struct walk *w, int use)
{
    int back = use % (2 * UNITS) >= UNITS, from = use;

    if (!(w->gather > 0))
        carry_syncs(w, visit_of(use), INFINITY);
    if (finds(w, use))
        from = use - 2 * (UNITS - 1 - visit_of(use)) - 1;
    w->now = later_of(w->now, w->gather > 0 ? w->gathered[from] : w->synced[visit_of(use)]);
    w->now += back ? w->backward : w->forward;
    if (w->gather > 0)
        ask(w, use + 1);
    if (back && w->reduce > 0) {
        int before = w->leaving - w->buckets; /* whose bucket this one needs */
        if (before >= 0)
            w->now = later_of(w->now, w->left[before]);
        w->left[w->leaving++] = send(w, w->reduce);
    }
    if (back && use >= 2 * UNITS * (w->accum - 1) && w->syncg > 0)
        send(w, w->syncg);
}

/* The time of a step behind others. */
static double walk_step(struct walk *w)
{
    double began = 0;

    for (int step = 0; step < 4; step++) {
        began = w->now;
        memset(w->gathered, 0, sizeof w->gathered);
        w->leaving = 0;
        if (w->gather > 0)
            ask(w, 0);
        for (int use = 0; use < 2 * UNITS * w->accum; use++)
            walk_use(w, use);
        if (w->reduce > 0 || w->syncg > 0)
            w->now = later_of(w->now, w->link); /* the norm is of all gradients */
        w->next = w->syncp > 0 ? 0 : UNITS;
        for (int u = 0; u < UNITS; u++) {
            w->now += w->update;
            w->updated[u] = w->now;
            w->unsynced[u] = w->syncp;
            w->synced[u] = 0;
        }
    }
    return w->now - began;
}

/* Equal units; the attention's products alone, the same in each layer. */
static struct model layers_alone(struct model_unit unit[UNITS])
{
    for (int u = 0; u < UNITS; u++)
        unit[u] = (struct model_unit){.elems = 1000000};
    return (struct model){.family = "llama",
                          .layers = UNITS,
                          .heads = 1,
                          .head_dim = 64,
                          .units = UNITS,
                          .visits = UNITS,
                          .unit = unit,
                          .params = UNITS * INT64_C(1000000)};
}

/*
 * What one unit takes on two groups of two, one after the other: a million elements of two
 * bytes are 1 ms inside a group (half of them leave each rank at 1e9 a second) and 1 ms across
 * (a quarter of them leaves each of two ranks through a port of 1e9).  The tables of paro.md
 * section 3.
 */
static struct walk walk_of(const struct plan_case *c, struct plan_strategy s,
                           const struct plan_price *p)
{
    static const double syncg[3][3] = {{4, 3, 2}, {3, 2, 1}, {2, 1, 0}};
    static const double syncp[3][3] = {{0, 0, 0}, {1, 0, 0}, {2, 1, 0}};
    static const double shards[] = {1, 2, 4};
    const double ms = 1e-3;
    double forward = 4.0 * SEQ * SEQ * 64 / c->topo->flops;
    struct walk w = {.forward = forward,
                     .backward = 2 * forward,
                     /* 16 operations for each element */
                     .update = 16e6 / shards[s.optimizer] / c->topo->flops,
                     .gather = (double)s.params * ms,
                     .reduce = (double)s.grads * ms,
                     .syncg = syncg[s.grads][s.optimizer] * ms,
                     .syncp = syncp[s.optimizer][s.params] * ms,
                     .accum = c->accum,
                     .keep = c->keep < UNITS ? c->keep : UNITS,
                     .prefetch = c->prefetch,
                     .buckets = c->buckets};

    if (c->recompute) /* all but the last layer */
        w.backward += forward * (UNITS - 1) / UNITS;
    same(p->compute_s, UNITS * (c->accum * (w.forward + w.backward) + w.update));
    same(p->comm_s, UNITS * (c->accum * (2 * w.gather + w.reduce) + w.syncg + w.syncp) -
                        c->accum * w.keep * w.gather);
    return w;
}

/*
 * The price never promises more than the walk keeps, and is above it by no more than this.  It
 * lets each forward, each backward and the update (2 s + 1 of them) begin with an idle link.
 * The walk takes along what was asked for before: prefetch + 1 gathers, a reduction for each
 * bucket; and it may hide the one unit's conversions that the price leaves uncovered.
 */
static void compare_step(const struct plan_case *c)
{
    struct plan_price p[PLAN_STRATEGIES];

    plan_price_all(c, p);
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        struct walk w = walk_of(c, p[i].strategy, &p[i]);
        double border =
            (c->prefetch + 2) * w.gather + (c->buckets + 1) * w.reduce + w.syncg + w.syncp;
        double step = walk_step(&w), above = p[i].step_s - step;
        if (above < -1e-9 || above > (2 * c->accum + 1) * border + 1e-9)
            fail_msg("%d accum %d keep %d prefetch %d flops %g: %.9f s, the walk takes %.9f", i,
                     c->accum, c->keep, c->prefetch, c->topo->flops, p[i].step_s, step);
    }
}

static void test_step_by_walk(void **state)
{
    static const int keeps[] = {0, 1, UNITS / 2, UNITS - 1, PLAN_KEEP_ALL};
    struct model_unit unit[UNITS];
    struct model m = layers_alone(unit);
    struct topo t;

    (void)state;
    make_topo(&t, "2x2", 1e9, 1e9);
    for (double flops = 1e9; flops < 1e12; flops *= 1.7)
        for (int at = 0; at < 5 * 3 * 2 * 2; at++) {
            struct plan_case c = table_case(&t, &m, 1 + at / 30 * 2, 1);
            t.flops = flops;
            c.seq = SEQ;
            c.keep = keeps[at % 5];
            c.prefetch = at / 5 % 3;
            c.recompute = at / 15 % 2;
            compare_step(&c);
        }
    drop_topo(&t);
}

/*
 * A layer's backward needs all of its forward but what leaves it: every matrix of every layer
 * but the last one, without the down projections, and scores and their product with V.
 */
static void test_again_by_matrix(void **state)
{
    static const char config[] = "{\"architectures\": [\"LlamaForCausalLM\"],"
                                 "\"model_type\": \"llama\", \"vocab_size\": 256,"
                                 "\"hidden_size\": 64, \"intermediate_size\": 160,"
                                 "\"num_hidden_layers\": 4, \"num_attention_heads\": 4,"
                                 "\"num_key_value_heads\": 2, \"max_position_embeddings\": 512,"
                                 "\"tie_word_embeddings\": %s}";
    static const char *const tied[] = {"false", "true"};
    char text[sizeof config + 8];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct plan_price once[PLAN_STRATEGIES], again[PLAN_STRATEGIES];
        struct model m = {0};
        struct topo t;
        struct err err;
        double products = 0;
        snprintf(text, sizeof text, config, tied[i]);
        assert_int_equal(model_parse(&m, "tiny", text, (int64_t)strlen(text), &err), 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_by_walk),
        cmocka_unit_test(test_again_by_matrix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
