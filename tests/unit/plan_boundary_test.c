/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests groups that end at any boundary: the search over all against one after the other; what
 * it costs, by hand; where nothing fits; what a run saves.
 */
#include "unit.h"

#include "plan/plan_fit.h"
#include "plan/plan_traffic.h"
#include "plan/plan_what_if.h"
#include "plan_fixture.h"
#include "words_fixture.h"

struct requested {
    struct model model;
    struct topo topo;
    struct plan_boundaries groups;
    struct plan_search search;
};

static void request(struct requested *a, const char *spec, double params, int level)
{
    *a = (struct requested){.model = params > 0 ? bare(params) : tiny_llama(0)};
    if (topo_parse_synth(&a->topo, spec, &err) ||
        plan_boundaries_init(&a->groups, &a->topo, level, &err))
        fail_msg("%s: %s", spec, err.text);
    a->search.groups = &a->groups;
    plan_case_init(&a->search.at, &a->topo, &a->model);
}

static void find(struct requested *a)
{
    assert_ok(plan_search(&a->search, &err));
}

static void drop(struct requested *a)
{
    plan_boundaries_release(&a->groups);
    topo_release(&a->topo);
    model_release(&a->model);
}

/* One boundary after the other: the best of them is what the search over all has found. */
static void compare(const char *spec, int levels)
{
    struct requested all;
    int best = -1;

    request(&all, spec, 0, PLAN_BOUNDARY_AUTO);
    all.search.auto_batch = all.search.auto_accum = all.search.auto_keep = 1;
    all.search.at.global_batch = 4096;
    find(&all);
    assert_int_equal(all.groups.count, levels);
    struct plan_found first = {.best = -1};
    for (int i = 0; i < levels; i++) {
        struct requested one;
        request(&one, spec, 0, all.groups.level[i]);
        one.search.auto_batch = one.search.auto_accum = one.search.auto_keep = 1;
        one.search.at.global_batch = 4096;
        find(&one);
        assert_memory_equal(&one.search.found[0], &all.search.found[i], sizeof first);
        if (i == 0 || plan_found_ahead(&one.search.found[0], &first)) {
            first = one.search.found[0];
            best = i;
        }
        if (all.search.boundary == i)
            for (int s = 0; s < PLAN_STRATEGIES; s++)
                assert_true(one.search.list[s].step_s == all.search.list[s].step_s);
        drop(&one);
    }
    assert_int_equal(all.search.boundary, best);
    assert_int_equal(plan_search_level(&all.search),
                     all.topo.levels > 2 ? all.groups.level[best] : -1);
    assert_true(all.search.at.topo == &all.groups.topo[best]);
    drop(&all);
}

TEST(test_exhaustive)
{
    compare("2x2x2,inter=500MB/s:20us,level2=60MB/s:50us,flops=50e9,memory=14e6", 2);
    compare("2x2x2,inter=60MB/s:20us,level2=60MB/s:50us,flops=50e9,memory=14e6", 2);
    compare("2x2x2,inter=500MB/s:20us,level2=60MB/s:50us,flops=50e9,memory=9e6", 2);
    compare("2x2x2,memory=1e6", 2);
    compare("3x[3,2],inter=500MB/s,level2=60MB/s,flops=50e9", 2);
    compare("2x2x2x2,inter=500MB/s,level2=90MB/s,level3=60MB/s,flops=50e9,memory=12e6", 3);
    compare("2x2x1,inter=500MB/s,level2=60MB/s", 1);
    compare("1x2x2,inter=60MB/s", 1);
    compare("2x2", 1);
}

/* Two levels are as they were: the same numbers, and nothing is told of boundaries. */
TEST(test_two_levels)
{
    struct requested a;

    request(&a, "2x4,inter=60MB/s:50us,flops=50e9,memory=1e9", 0, PLAN_BOUNDARY_AUTO);
    struct plan_search plain = a.search;
    plain.groups = NULL;
    find(&a);
    assert_ok(plan_search(&plain, &err));
    assert_int_equal(plan_search_level(&a.search), -1);
    assert_int_equal(plain.best, a.search.best);
    assert_memory_equal(plain.list, a.search.list, sizeof plain.list);
    drop(&a);
}

/* 2x2x2, parameters alone, 2 bytes each, no latencies.  At boundary 1 what III gathers in a
 * group of 4 is 3/4 of 8 MB sent by each rank; two of four shards through the port of 100 MB/s
 * of a cell of two: 2 * 2 MB / 100 MB/s = 40 ms.  At boundary 0, 1/2 of 8 MB at 1
 * GB/s: 4 ms.  Memory: a quarter of 16 bytes, and a half. */
TEST(test_by_hand)
{
    struct requested a;
    int iii = 13;

    for (int level = 0; level < 2; level++) {
        request(&a, "2x2x2,intra=1GB/s:0s,inter=100MB/s:0s,level2=50MB/s:0s", 4e6, level);
        a.search.at.algo = SCHEDULE_TWO_LEVEL;
        a.search.at.grad_type = DTYPE_BF16;
        find(&a);
        /* Two gathers and a reduction inside; an all-reduce of a shard across: with g groups
           through a port 2 (g-1)/g of 8 MB, at 50 MB/s, that of the block. */
        int g = level ? 2 : 4;
        double fast = level ? 0.040 : 0.004, slow = 2.0 * (g - 1) / g * 8e6 / 50e6;
        assert_float_equal(a.search.list[iii].comm_s, 3 * fast + slow, 1e-12);
        assert_float_equal(a.search.list[iii].memory.total, 16 * 4e6 / (level ? 4 : 2), 0.1);
        drop(&a);
    }
}

TEST(test_wrong_level)
{
    struct plan_boundaries b;
    struct requested a;

    request(&a, "2x2x2", 1e6, 1);
    assert_refused(plan_boundaries_init(&b, &a.topo, 2, &err),
                   "--group-level: 2 expected 0 1 auto 3 levels");
    drop(&a);
}

/* A fabric on which everything has been turned by hand: what is found there. */
static struct plan_found turned(const double rates[2], double memory, int accum, int *level)
{
    struct requested a;
    char spec[160];

    snprintf(spec, sizeof spec,
             "2x2x2,intra=1GB/s:3us,inter=%.17gB/s:10us,level2=%.17gB/s:50us,flops=50e9",
             rates[0], rates[1]);
    request(&a, spec, 0, PLAN_BOUNDARY_AUTO);
    a.search.at.memory_bytes = memory;
    a.search.at.accum = accum;
    find(&a);
    *level = plan_search_level(&a.search);
    struct plan_found found = a.search.found[a.search.boundary];
    drop(&a);
    return found;
}

/* From each change on another wins, and a little before it the one that was chosen. */
static int changes(double inter, double level2, double memory)
{
    struct plan_changes c;
    struct requested a;
    char spec[160];
    int slow = 0, level;

    snprintf(spec, sizeof spec,
             "2x2x2,intra=1GB/s:3us,inter=%.17gB/s:10us,level2=%.17gB/s:50us,flops=50e9", inter,
             level2);
    request(&a, spec, 0, PLAN_BOUNDARY_AUTO);
    a.search.at.memory_bytes = memory;
    find(&a);
    plan_what_if(&a.search, &c);
    int chosen = plan_search_level(&a.search);
    for (int i = 0; i < 2 * PLAN_DIALS; i++) {
        const struct plan_change *turn = &c.of[i / 2][i % 2];
        /* Halved down to 1e-9 of a rate, to one byte or micro-step. */
        double hair = i / 2 == PLAN_DIAL_SLOW ? turn->at * 2e-9 : 1;
        for (int before = 0; turn->found && before < 2; before++) {
            double at = turn->at + (i % 2 ? -hair : hair) * before;
            double times = i / 2 == PLAN_DIAL_SLOW ? at / c.now[PLAN_DIAL_SLOW] : 1;
            /* The slow tier of groups that end at level 0 begins at level 1. */
            const double rates[] = {inter * (chosen == 0 ? times : 1), level2 * times};
            struct plan_found there = turned(rates, i / 2 == PLAN_DIAL_MEMORY ? at : memory,
                                             i / 2 == PLAN_DIAL_ACCUM ? (int)at : 1, &level);
            assert_int_equal(there.best, before ? a.search.best : turn->winner);
            if (there.best >= 0)
                assert_int_equal(level, before ? chosen : turn->level);
        }
        slow += turn->found && i / 2 == PLAN_DIAL_SLOW;
    }
    drop(&a);
    return slow;
}

TEST(test_what_if)
{
    assert_true(changes(500e6, 20e6, 10e6) > 0); /* in groups of four */
    assert_true(changes(90e6, 60e6, 14e6) > 0);  /* in groups of two */
    changes(500e6, 60e6, 9e6);
}

/* Groups of a plan at `groups` groups: does anything fit there? */
static int fits_at(struct requested *a, int groups)
{
    struct plan_search s = a->search;
    struct plan_boundaries all;
    struct topo t;

    topo_extend(&a->topo, groups, &t);
    assert_ok(plan_boundaries_init(&all, &t, a->groups.requested, &err));
    s.groups = &all;
    assert_ok(plan_search(&s, &err));
    plan_boundaries_release(&all);
    topo_release(&t);
    return s.best >= 0;
}

static void smallest(const char *spec, double params, const char *told)
{
    struct plan_advice advice;
    struct requested a;

    request(&a, spec, params, PLAN_BOUNDARY_AUTO);
    a.search.at.grad_type = DTYPE_BF16;
    find(&a);
    assert_int_equal(a.search.best, -1);
    plan_fit(&a.search, &advice);
    plan_fit_refuse(&a.search, &advice, &err);
    assert_words(err.text, told);
    for (int groups = 1; advice.as_requested.fits && groups <= advice.as_requested.groups;
         groups++)
        assert_int_equal(fits_at(&a, groups), groups == advice.as_requested.groups);
    drop(&a);
}

TEST(test_smallest)
{
    /* 16 bytes of 1e9 parameters in 1e9 bytes: 16 ranks; one byte less, another group. */
    smallest("2x4,memory=1e9", 1e9, "no feasible plan GGG 4 groups of 4 (16 ranks)");
    smallest("2x4,memory=999999999", 1e9, "GGG 5 groups of 4 (20 ranks)");
    smallest("2x[3,2],memory=1e9", 1e9, "GGG 7 groups (18 ranks)");
    smallest("2x2x2,memory=1e9", 1e9, "GGG 8 groups of 2 (16 ranks)");
    smallest("1x1,memory=6600e3", 0, " would fit on ");
    smallest("2x2,memory=100kB", 0, "more groups not nor --recompute: ");
    smallest("2x2,memory=1B", 1e9, "more groups would not help: ");
}

/* Plans that a choice of the user's shuts out, and options that would fit. */
TEST(test_relief)
{
    struct plan_advice advice;
    struct requested a;

    request(&a, "2x2,memory=4250e3", 0, PLAN_BOUNDARY_AUTO);
    a.search.at.micro_batch = 16;
    find(&a);
    plan_fit(&a.search, &advice);
    assert_false(advice.as_requested.fits);
    assert_true(advice.relieved.fits);
    plan_fit_refuse(&a.search, &advice, &err);
    assert_non_null(strstr(err.text, "but with --recompute and --micro-batch=1 it would fit"));
    a.search.at.micro_batch = a.search.at.recompute = 1;
    assert_true(fits_at(&a, advice.relieved.groups));
    drop(&a);
}

/* 16 bytes of one parameter and rank: 2^20 ranks are the end of it. */
TEST(test_bound)
{
    struct plan_advice advice;
    struct requested a;

    request(&a, "1x1024,memory=16kB", 16.8e9, PLAN_BOUNDARY_AUTO);
    a.search.at.grad_type = DTYPE_BF16;
    find(&a);
    plan_fit(&a.search, &advice);
    assert_false(advice.as_requested.fits);
    a.search.at.memory_bytes = 299e3;
    plan_fit(&a.search, &advice);
    assert_true(advice.as_requested.fits);
    assert_int_equal(advice.as_requested.groups, 878); /* 16 * 16.8e9 / 299e3 / 1024 = 877.9 */
    drop(&a);
}

/* Parameters as the model's files have them, 12 bytes for what is trained, once each. */
TEST(test_checkpoint)
{
    static const int host[] = {0, 1, 1, 2};
    struct requested a;

    request(&a, "4x2", 0, PLAN_BOUNDARY_AUTO);
    a.search.storage_Bps = 1e6;
    a.search.at.param_type = DTYPE_F32; /* is not what is saved */
    find(&a);
    double psi = (double)a.model.params, rank_bytes = 0;
    assert_float_equal(a.search.checkpoint.bytes, 14 * psi, 0);
    for (int r = 0; r < 8; r++) {
        struct layout l;
        double bytes = 0;
        layout_init(&l, &a.topo.groups);
        for (int u = 0; u < a.model.units; u++)
            bytes += 14.0 * (double)layout_elems(&l, LETTER_G, r, a.model.unit[u].elems);
        rank_bytes = fmax(rank_bytes, bytes);
        layout_release(&l);
    }
    assert_float_equal(a.search.checkpoint.rank_bytes, rank_bytes, 0);
    assert_float_equal(a.search.checkpoint.s, fmin(2 * rank_bytes, 14 * psi) / 1e6, 1e-12);
    /* Two groups on one host write there together. */
    for (int k = 0; k < 4; k++)
        topo_set_host(&a.topo, k, host[k] == 1 ? "b" : host[k] == 0 ? "a" : "c");
    a.search.at.trainable = 1000;
    assert_ok(plan_search(&a.search, &err));
    assert_true(a.search.checkpoint.bytes < 2 * psi + 12 * 1000 + 12 * a.model.units);
    assert_float_equal(a.search.checkpoint.s, 4 * a.search.checkpoint.rank_bytes / 1e6, 1e-12);
    a.search.storage_Bps = 0;
    assert_ok(plan_search(&a.search, &err));
    assert_true(a.search.checkpoint.s == 0);
    drop(&a);
}
