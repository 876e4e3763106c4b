/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests answers beside the plan: which strategy other tools can run in its place; why
 * strategies lose, against other fabrics on which what binds them is no longer there; what
 * turns the choice, against fabrics that are made so; a grown fabric against one that was
 * described at that size.
 */
#include "unit.h"

#include "plan/plan_emit.h"
#include "plan/plan_scale.h"
#include "plan/plan_traffic.h"
#include "plan/plan_what_if.h"
#include "plan/plan_why.h"
#include "plan_fixture.h"

static const double GB = 1e9;

/* The nearest to `name` under a memory of a rank. */
static void expect_closest(const char *shape, double memory, const char *name,
                           enum plan_target target, const char *nearest)
{
    struct model m = bare(65.286e9);
    struct plan_search s;
    struct topo t;

    make_topo(&t, shape, 200e9, 25e9);
    s = (struct plan_search){.at = table_case(&t, &m, 4, 1), .fixed = 1};
    s.at.memory_bytes = memory;
    s.strategy = plan_strategy_at(index_of(name));
    assert_ok(plan_search(&s, &err));
    s.best = s.best < 0 ? s.closest : s.best;
    int found = plan_emit_closest(&s, target);
    if (found != index_of(nearest))
        fail_msg("%s on %s, target %d: index %d, expected %s", name, shape, target, found,
                 nearest);
    drop_topo(&t);
}

TEST(test_nearest)
{
    expect_closest("8x8", 0, "IIG", PLAN_MEGATRON, "IIG");
    expect_closest("8x8", 0, "IIG", PLAN_DEEPSPEED, "III");       /* one step; GGG is two */
    expect_closest("8x8", 80 * GB, "IIG", PLAN_DEEPSPEED, "GGG"); /* III has no room */
    expect_closest("8x8", 80 * GB, "IIG", PLAN_FSDP, "GGG");
    expect_closest("8x8", 80 * GB, "IIG", PLAN_MEGATRON, "IIG");
    expect_closest("8x8", 0, "GNG", PLAN_FSDP, "GNG");
    expect_closest("8x8", 0, "INI", PLAN_FSDP, "INI");
    expect_closest("8x8", 0, "NIG", PLAN_DEEPSPEED, "NNG"); /* NGG is as near, and slower */
    expect_closest("8x8", 10 * GB, "IIG", PLAN_DEEPSPEED, "GGG"); /* nothing fits: the least */
    for (int target = 0; target < PLAN_TARGETS; target++)
        for (int i = 0; i < 4; i++) {
            static const char *const all[] = {"NNN", "NNG", "NGG", "GGG"};
            expect_closest("8x8", 0, all[i], (enum plan_target)target, all[i]);
            expect_closest("[8,8,7]", 0, all[i], (enum plan_target)target, all[i]);
        }
    /* Ragged groups are no mesh; in one group I is G, with one rank in each it is N. */
    expect_closest("[8,8,7]", 0, "III", PLAN_FSDP, "NNN"); /* all are three steps off */
    expect_closest("1x8", 0, "IIG", PLAN_DEEPSPEED, "IIG");
    expect_closest("8x1", 0, "IIG", PLAN_DEEPSPEED, "IIG");
}

static char *text_of(const char *shape, const char *name, enum plan_target target)
{
    struct model m = bare(7e9);
    struct plan_search s;
    struct topo t;
    FILE *f = unit_stream();

    make_topo(&t, shape, 200e9, 25e9);
    s = (struct plan_search){.at = table_case(&t, &m, 4, 1), .fixed = 1};
    s.strategy = plan_strategy_at(index_of(name));
    assert_ok(plan_search(&s, &err));
    plan_emit(&s, target, f);
    drop_topo(&t);
    return unit_text(f);
}

/* The words that tell one strategy from another in each tool, and those that must not be
   there. */
TEST(test_words)
{
    static const struct {
        const char *shape, *name;
        enum plan_target target;
        const char *has, *lacks;
    } cases[] = {
        {"4x8", "NNN", PLAN_DEEPSPEED, "\"stage\": 0", "mics"},
        {"4x8", "NNG", PLAN_DEEPSPEED, "\"stage\": 1", "mics"},
        {"4x8", "NGG", PLAN_DEEPSPEED, "\"stage\": 2", "mics"},
        {"4x8", "GGG", PLAN_DEEPSPEED, "\"stage\": 3", "mics"},
        {"4x8", "III", PLAN_DEEPSPEED, "\"mics_shard_size\": 8", "cannot"},
        {"1x8", "III", PLAN_DEEPSPEED, "\"stage\": 3", "mics"},
        {"4x8", "GGG", PLAN_DEEPSPEED, "\"train_batch_size\": 128", "cannot"},
        {"4x8", "NNN", PLAN_FSDP, "no_sync()", "fully_shard"},
        {"4x8", "NNG", PLAN_FSDP, "set_requires_gradient_sync(last)", "all_reduce"},
        {"4x8", "NNG", PLAN_FSDP, "set_reshard_after_backward(last)", "replicate"},
        {"4x8", "NGG", PLAN_FSDP, "set_reshard_after_backward(last)", "gradient_sync"},
        {"4x8", "GNG", PLAN_FSDP, "set_requires_gradient_sync(last)", "after_backward"},
        {"4x8", "GGG", PLAN_FSDP, "(32,), mesh_dim_names=(\"shard\",)", "last"},
        {"4x8", "III", PLAN_FSDP, "(4, 8), mesh_dim_names=(\"replicate\", \"shard\")", "sync("},
        {"4x8", "III", PLAN_FSDP, "set_requires_all_reduce(last)", "after_backward"},
        {"4x8", "NII", PLAN_FSDP, "set_reshard_after_backward(last)", "gradient_sync"},
        {"1x8", "III", PLAN_FSDP, "(8,)", "replicate"},
        {"4x8", "NNN", PLAN_MEGATRON, "--overlap-grad-reduce\n", "distributed-optimizer"},
        {"4x8", "NNG", PLAN_MEGATRON, "--use-distributed-optimizer\n", "instances"},
        {"4x8", "NNI", PLAN_MEGATRON, "--num-distributed-optimizer-instances 4\n", "fsdp"},
        {"4x8", "NII", PLAN_MEGATRON, "strategy optim_grads\n", "strategy optim\n"},
        {"4x8", "GGG", PLAN_MEGATRON, "strategy optim_grads_params\n", "instances"},
        {"4x8", "III", PLAN_MEGATRON, "--outer-dp-sharding-strategy no_shard\n", "cannot"},
        {"4x8", "IIG", PLAN_MEGATRON, "--outer-dp-sharding-strategy optim\n", "cannot"},
        {"1x8", "IIG", PLAN_MEGATRON, "strategy optim_grads_params\n", "outer"},
        {"4x8", "IGG", PLAN_MEGATRON, "chose IGG, which Megatron-LM 0.19.2 cannot run",
         "DOES NOT"},
        {"4x8", "NIG", PLAN_MEGATRON, "chose NIG, which Megatron-LM 0.19.2 cannot run",
         "strategy optim\n"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = text_of(cases[i].shape, cases[i].name, cases[i].target);
        if (!strstr(text, cases[i].has) || strstr(text, cases[i].lacks))
            fail_msg("%s on %s: expected '%s' and no '%s' in\n%s", cases[i].name,
                     cases[i].shape, cases[i].has, cases[i].lacks, text);
        free(text);
    }
}

static const double FAST_BPS = 1e24; /* takes no time worth the name */

/* Sums in another order, and what 1e24 bytes a second still take: of steps of seconds. */
static void near(double found, double expected)
{
    if (fabs(found - expected) > 1e-9)
        fail_msg("%.15g, expected %.15g", found, expected);
}

static struct plan_search searched(const struct topo *t, const struct model *m, int accum)
{
    struct plan_case c = table_case(t, m, accum, 1);

    return search_of(&c);
}

/* Without the slow, or the fast link is: on a fabric where that link takes no time. */
TEST(test_without_a_link)
{
    static const char *const shapes[] = {"2x2", "4x8", "[3,2]", "[4,4,3]"};
    static const enum schedule_algo algos[] = {SCHEDULE_AUTO, SCHEDULE_RING, SCHEDULE_TWO_LEVEL,
                                               SCHEDULE_HO_RING};
    struct model m = bare(7e9);

    for (int at = 0; at < 4 * 4 * 2; at++) {
        int term = at / 16;
        struct plan_price other[PLAN_STRATEGIES];
        struct topo t, free;
        struct plan_why why;
        make_topo(&t, shapes[at % 4], 200e9, 25e9);
        t.level[0].latency_s = 3e-6;
        t.level[1].latency_s = 12e-6;
        make_topo(&free, shapes[at % 4], term == PLAN_FAST ? FAST_BPS : 200e9,
                  term == PLAN_SLOW ? FAST_BPS : 25e9);
        free.level[0].latency_s = term == PLAN_FAST ? 0 : 3e-6;
        free.level[1].latency_s = term == PLAN_SLOW ? 0 : 12e-6;
        struct plan_search s = {.at = table_case(&t, &m, 3, 1)};
        s.at.algo = algos[at / 4 % 4];
        assert_ok(plan_search(&s, &err));
        plan_why(&s, &why);
        struct plan_case c = s.at;
        c.topo = &free;
        plan_price_all(&c, other);
        for (int i = 0; i < PLAN_STRATEGIES; i++)
            near(why.of[i].behind_without_s[term], other[i].step_s - other[s.best].step_s);
        drop_topo(&free);
        drop_topo(&t);
    }
}

/* Fabrics on which one thing alone costs time. */
TEST(test_what_binds)
{
    struct model m = bare(7e9), tiny;
    struct model_unit unit = {.elems = 1000000, .trained = 1000000};
    struct plan_why why;
    struct topo t;

    make_topo(&t, "4x8", FAST_BPS, 25e9); /* GGG gathers across for each micro-step */
    struct plan_search s = searched(&t, &m, 4);
    plan_why(&s, &why);
    assert_int_equal(why.of[index_of("GGG")].binding, PLAN_BINDS_SLOW);
    drop_topo(&t);

    make_topo(&t, "4x8", 1e9, FAST_BPS); /* IIG gathers inside for each micro-step */
    s = searched(&t, &m, 4);
    plan_why(&s, &why);
    assert_int_equal(why.of[index_of("IIG")].binding, PLAN_BINDS_FAST);
    drop_topo(&t);

    /* All links take nothing: NNN updates everything on every rank. */
    make_topo(&t, "1x8", FAST_BPS, FAST_BPS);
    tiny = (struct model)LIST(.family = &model_family_llama, .layers = 1, .heads = 1,
                              .head_dim = 64, .units = 1, .visits = 1, .unit = &unit,
                              .params = 1000000, .trained = 1000000);
    t.flops = 1e9;
    s = searched(&t, &tiny, 1);
    plan_why(&s, &why);
    assert_int_equal(why.of[index_of("NNN")].binding, PLAN_BINDS_UPDATE);
    near(why.of[index_of("NNN")].behind_s, 16e6 / 1e9 * 7 / 8);
    near(why.of[index_of("NNN")].behind_without_s[PLAN_UPDATE], 0);
    assert_int_equal(why.of[s.best].binding, PLAN_BINDS_NOTHING);
    drop_topo(&t);
}

/* Strategies that do not fit, by how much; and the second, the best of the rest. */
TEST(test_memory_and_second)
{
    struct model m = bare(65.286e9);
    struct plan_why why;
    struct topo t;

    make_topo(&t, "8x8", 200e9, 25e9);
    t.memory_bytes = INT64_C(80000000000);
    struct plan_search s = searched(&t, &m, 4);
    plan_why(&s, &why);
    assert_int_equal(s.best, index_of("IIG"));
    assert_int_equal(why.second, index_of("IGG"));
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        const struct plan_price *p = &s.list[i];
        assert_int_equal(why.of[i].binding == PLAN_BINDS_MEMORY, !p->feasible);
        near(why.of[i].over_bytes, p->feasible ? 0 : p->memory.total - 80e9);
    }
    s.fixed = 1;
    s.strategy = plan_strategy_at(index_of("GGG"));
    assert_ok(plan_search(&s, &err));
    plan_why(&s, &why);
    assert_int_equal(why.second, index_of("IIG"));
    assert_int_equal(why.of[index_of("IIG")].binding, PLAN_BINDS_CHOICE);
    s.at.memory_bytes = 1e9;
    s.fixed = 0;
    assert_ok(plan_search(&s, &err));
    plan_why(&s, &why);
    assert_int_equal(why.second, -1);
    drop_topo(&t);
}

static int winner_of(const struct plan_case *c)
{
    return search_of(c).best;
}

/* The same fabric with other ports. */
static int winner_at_port(const struct plan_case *c, const char *shape, double port)
{
    struct plan_case now = *c;
    struct topo t;

    make_topo(&t, shape, c->topo->level[0].member_Bps, port);
    t.level[0].latency_s = c->topo->level[0].latency_s;
    t.level[1].latency_s = c->topo->level[1].latency_s;
    t.flops = c->topo->flops;
    now.topo = &t;
    int best = winner_of(&now);
    drop_topo(&t);
    return best;
}

/* Up to the change the winner is the old one, at the change and a little beyond it the new one:
 * 1e-8 covers what bisection leaves, 1e-9. */
static void check_slow(const struct plan_case *c, const char *shape, double port, int best,
                       const struct plan_change *change, int more)
{
    double out = more ? 1 + 1e-8 : 1 - 1e-8,
           end = change->found ? change->at / out : change->bound;

    for (int i = 0; i <= 200; i++)
        assert_int_equal(winner_at_port(c, shape, port * pow(end / port, i / 200.0)), best);
    if (change->found)
        assert_int_equal(winner_at_port(c, shape, change->at * out), change->winner);
}

static void check_accum(const struct plan_case *c, int best, const struct plan_change w[2])
{
    struct plan_case now = *c;
    int lo = (int)(w[0].found ? w[0].at + 1 : w[0].bound);
    int hi = (int)(w[1].found ? w[1].at - 1 : w[1].bound);

    for (now.accum = lo; now.accum <= hi; now.accum++)
        assert_int_equal(winner_of(&now), best);
    now.accum = (int)w[0].at;
    if (w[0].found)
        assert_int_equal(winner_of(&now), w[0].winner);
    now.accum = (int)w[1].at;
    if (w[1].found)
        assert_int_equal(winner_of(&now), w[1].winner);
}

/* The one to choose where ranks have so much memory: of those within 1 % of the fastest that
   send no more across, and need at least 1 % less than it, the one that needs least. */
static int chosen_with(const struct plan_price *p, double memory)
{
    int top = -1, best;

    for (int i = 0; i < PLAN_STRATEGIES; i++)
        if (p[i].memory.total <= memory && (top < 0 || plan_price_better(&p[i], &p[top])))
            top = i;
    best = top;
    for (int i = 0; i < PLAN_STRATEGIES; i++)
        if (top >= 0 && p[i].step_s <= 1.01 * p[top].step_s &&
            p[i].slow_bytes <= p[top].slow_bytes * (1 + 1e-12) &&
            1.01 * p[i].memory.total < p[top].memory.total &&
            (p[i].memory.total < p[best].memory.total * (1 - 1e-12) ||
             (p[i].memory.total < p[best].memory.total * (1 + 1e-12) &&
              plan_price_better(&p[i], &p[best]))))
            best = i;
    return best;
}

/* A rank's memory changes the choice only where a strategy begins to fit, or ceases to.  A rank
   has whole bytes. */
static void check_memory(const struct plan_search *s, const struct plan_change w[2])
{
    double below = -INFINITY, above = INFINITY;

    assert_int_equal(chosen_with(s->list, s->at.memory_bytes), s->best);
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        double least = ceil(s->list[i].memory.total);
        if (least > s->at.memory_bytes && chosen_with(s->list, least) != s->best)
            above = fmin(above, least);
        if (least <= s->at.memory_bytes && chosen_with(s->list, least - 1) != s->best)
            below = fmax(below, least - 1);
    }
    assert_true(w[0].found);
    assert_true(w[0].at == below);
    assert_int_equal(w[0].winner, chosen_with(s->list, below));
    assert_int_equal(w[1].found, isfinite(above));
    if (!w[1].found)
        return;
    assert_true(w[1].at == above);
    assert_int_equal(w[1].winner, chosen_with(s->list, above));
}

TEST(test_changes)
{
    static const char *const shapes[] = {"2x2", "4x8", "8x8", "[4,4,3]"};
    static const double ports[] = {1e9, 25e9, 400e9};
    static const double memories[] = {20e9, 40e9, 90e9};
    struct model m = bare(7e9);
    int changes = 0;

    for (int at = 0; at < 4 * 3 * 3 * 2; at++) {
        const char *shape = shapes[at % 4];
        double port = ports[at / 4 % 3];
        struct plan_changes w;
        struct topo t;
        make_topo(&t, shape, 200e9, port);
        t.level[0].latency_s = 3e-6;
        t.level[1].latency_s = 12e-6;
        struct plan_case c = table_case(&t, &m, at / 36 ? 4 : 1, 1);
        c.memory_bytes = memories[at / 12 % 3];
        struct plan_search s = search_of(&c);
        plan_what_if(&s, &w);
        for (int more = 0; more < 2; more++) {
            check_slow(&c, shape, port, s.best, &w.of[PLAN_DIAL_SLOW][more], more);
            changes += w.of[PLAN_DIAL_SLOW][more].found + w.of[PLAN_DIAL_ACCUM][more].found;
        }
        if (at % 9 == 0)
            check_accum(&c, s.best, w.of[PLAN_DIAL_ACCUM]);
        if (s.best >= 0)
            check_memory(&s, w.of[PLAN_DIAL_MEMORY]);
        drop_topo(&t);
    }
    assert_true(changes > 20); /* or nothing was tested */
}

/* NGG wins between NIG, which is chosen, and IGG: both are named, and from where on. */
TEST(test_two_changes)
{
    struct model m = bare(7e9);
    struct plan_changes w;
    struct topo t;

    make_topo(&t, "4x8", 50e9, 10e9);
    t.level[0].latency_s = 3e-6;
    t.level[1].latency_s = 12e-6;
    t.flops = 2e14;
    struct plan_case c = table_case(&t, &m, 2, 1);
    c.grad_type = DTYPE_F32;
    c.seq = 4096;
    c.memory_bytes = 80e9;
    struct plan_search s = search_of(&c);
    plan_what_if(&s, &w);
    const struct plan_change *x = &w.of[PLAN_DIAL_SLOW][1];
    assert_true(x->found && x->then_at > x->at);
    assert_int_equal(x->winner, index_of("NGG"));
    assert_int_equal(x->then_winner, index_of("IGG"));
    assert_int_equal(winner_at_port(&c, "4x8", x->at * (1 - 2e-9)), s.best);
    assert_int_equal(winner_at_port(&c, "4x8", x->at * (1 + 2e-9)), x->winner);
    assert_int_equal(winner_at_port(&c, "4x8", x->then_at * (1 - 2e-9)), x->winner);
    assert_int_equal(winner_at_port(&c, "4x8", x->then_at * (1 + 2e-9)), x->then_winner);
    drop_topo(&t);
}

/* Nothing fits until the least one does; no limit is none that could grow. */
TEST(test_edges)
{
    struct model m = bare(7e9);
    struct plan_changes w;
    struct topo t;

    make_topo(&t, "4x8", 200e9, 25e9);
    struct plan_case c = table_case(&t, &m, 2, 1);
    c.memory_bytes = 1e9;
    struct plan_search s = search_of(&c);
    assert_int_equal(s.best, -1);
    plan_what_if(&s, &w);
    assert_true(w.of[PLAN_DIAL_MEMORY][1].found);
    assert_int_equal(w.of[PLAN_DIAL_MEMORY][1].winner, s.closest);
    assert_true(w.of[PLAN_DIAL_MEMORY][1].at == ceil(s.list[s.closest].memory.total));
    assert_false(w.of[PLAN_DIAL_SLOW][0].found);
    c.memory_bytes = s.list[s.closest].memory.total - 1;
    s = search_of(&c);
    plan_what_if(&s, &w); /* bf16 moments suffice, and larger ones do not exist */
    assert_int_equal(s.best, -1);
    assert_true(w.of[PLAN_DIAL_MOMENTS][0].found && w.of[PLAN_DIAL_MOMENTS][0].at == 2);
    c.moments = MOMENTS_BF16;
    assert_int_equal(w.of[PLAN_DIAL_MOMENTS][0].winner, search_of(&c).best);
    assert_false(w.of[PLAN_DIAL_MOMENTS][1].found);
    c.moments = MOMENTS_F32;
    c.memory_bytes = 0;
    s = search_of(&c);
    plan_what_if(&s, &w);
    assert_false(w.of[PLAN_DIAL_MEMORY][1].searched);
    assert_true(w.of[PLAN_DIAL_MEMORY][0].found);
    assert_true(isinf(w.now[PLAN_DIAL_MEMORY]));
    assert_true(w.now[PLAN_DIAL_SLOW] == 25e9);
    s.auto_accum = 1;
    s.at.global_batch = t.groups.ranks;
    plan_what_if(&s, &w);
    assert_false(w.of[PLAN_DIAL_ACCUM][0].searched);
    drop_topo(&t);
}

static const char rates[] = "intra=2GB/s:3us,inter=100MB/s:50us,memory=20e6,flops=50e9";

static void read_both(struct model *m, struct topo *t, const char *shape)
{
    char spec[256];

    *m = tiny_llama(0);
    *t = (struct topo){0};
    snprintf(spec, sizeof spec, "%s,%s", shape, rates);
    assert_ok(topo_parse_synth(t, spec, &err));
}

static struct plan_search requested_of(const struct topo *t, const struct model *m)
{
    struct plan_search s = {0};

    plan_case_init(&s.at, t, m);
    s.at.accum = 3;
    return s;
}

/* `from` grown to `ranks` is `to`. */
static void compare_grown(const char *from, int ranks, const char *to)
{
    struct plan_scale scale = {.from = ranks, .to = ranks};
    struct model m, other;
    struct topo t, u;

    read_both(&m, &t, from);
    read_both(&other, &u, to);
    struct plan_search requested = requested_of(&t, &m), whole = requested_of(&u, &other);
    assert_ok(plan_scale_run(&scale, &requested, &err));
    assert_ok(plan_search(&whole, &err));
    assert_int_equal(scale.points, 1);
    assert_int_equal(scale.point[0].ranks, u.groups.ranks);
    assert_int_equal(scale.point[0].groups, u.groups.count);
    assert_int_equal(scale.point[0].search.best, whole.best);
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        const struct plan_price *a = &scale.point[0].search.list[i], *b = &whole.list[i];
        assert_true(a->step_s == b->step_s && a->slow_bytes == b->slow_bytes);
        assert_true(a->memory.total == b->memory.total && a->feasible == b->feasible);
        assert_int_equal(scale.survives >> i & 1, b->feasible && b->dominated_by < 0);
    }
    model_release(&m);
    model_release(&other);
    topo_release(&t);
    topo_release(&u);
}

TEST(test_same_as_described)
{
    compare_grown("2x2", 4, "2x2");
    compare_grown("2x2", 16, "8x2");
    compare_grown("8x2", 4, "2x2");
    compare_grown("8x2", 5, "[2,2,1]"); /* the last one has what remains */
    compare_grown("8x4", 4, "1x4");
    compare_grown("[3,2]", 10, "[3,2,3,2]");
    compare_grown("[3,2]", 9, "[3,2,3,1]");
    compare_grown("[3,2]", 7, "[3,2,2]");
    /* The rate of a level above the groups is by default what its groups do together: said. */
    compare_grown("2x2x2,level2=80MB/s:70us", 32, "8x2x2,level2=80MB/s:70us");
    compare_grown("2x2x2,level2=80MB/s:70us", 4, "1x2x2,level2=80MB/s:70us");
}

/* A slow port comes back with its group; blocks go on being blocks. */
TEST(test_ports_come_along)
{
    struct plan_scale scale = {.from = 8, .to = 32};
    struct model m;
    struct topo t;

    read_both(&m, &t, "2x2");
    t.port[1].out_Bps /= 10;
    struct plan_search requested = requested_of(&t, &m);
    assert_ok(plan_scale_run(&scale, &requested, &err));
    assert_int_equal(scale.points, 3);
    for (int n = 0; n < 3; n++) {
        struct plan_search whole;
        struct topo u;
        struct model other;
        char shape[16];
        snprintf(shape, sizeof shape, "%dx2", 4 << n);
        read_both(&other, &u, shape);
        for (int k = 1; k < u.groups.count; k += 2)
            u.port[k].out_Bps /= 10;
        whole = requested_of(&u, &other);
        assert_ok(plan_search(&whole, &err));
        for (int i = 0; i < PLAN_STRATEGIES; i++)
            assert_true(scale.point[n].search.list[i].step_s == whole.list[i].step_s);
        model_release(&other);
        topo_release(&u);
    }
    model_release(&m);
    topo_release(&t);
}
