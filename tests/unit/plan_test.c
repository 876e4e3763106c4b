/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the planner against second opinions: the tables of paro-method(7), TRAFFIC (bytes,
 * memory, dominance, what fits), the closed forms of time, the network's own account of its
 * memory.
 */
#include "unit.h"

#include "cpu_fixture.h"
#include "net/net.h"
#include "plan/plan_fit.h"
#include "plan_fixture.h"
#include "words_fixture.h"

#define GB 1e9
/* "Psi = 6.738e9 and 65.286e9": the first is the 7B model's exact count, cut; 141.498 with the
   cut one would not print as the 142 of the table. */
#define LLAMA_7B  6738415616.0
#define LLAMA_65B 65.286e9
#define GIB       (1024.0 * 1024 * 1024)

static void prices(struct plan_price out[PLAN_STRATEGIES], const char *shape, double params,
                   int accum, double part)
{
    struct topo t;
    struct model m = bare(params);

    make_topo(&t, shape, 200e9, 25e9);
    struct plan_case c = table_case(&t, &m, accum, part);
    plan_price_all(&c, out);
    drop_topo(&t);
}

/* `digits` as printed in the table: half a unit of its last digit either way. */
static void same_digits(double value, const char *digits)
{
    const char *point = strchr(digits, '.');
    double half = 0.5 * pow(10, point ? -(double)strlen(point + 1) : 0);

    if (fabs(value - atof(digits)) > half * (1 + 1e-9))
        fail_msg("%.6f, the table has %s", value, digits);
}

TEST(test_byte_table)
{
    static const char *const columns[] = {"NNG", "NIG", "NGG", "ING", "IIG", "IGG", "GGG"};
    static const struct {
        const char *shape;
        double params, part;
        int accum;
        const char *fast[7], *slow[7];
    } rows[] = {
        {"4x8",
         LLAMA_7B,
         1,
         1,
         {"23.6", "23.6", "23.6", "35.4", "35.4", "35.4", "35.4"},
         {"2.53", "2.53", "2.53", "2.53", "2.53", "2.53", "3.79"}},
        {"4x8",
         LLAMA_7B,
         1,
         4,
         {"23.6", "59.0", "59.0", "106", "142", "142", "142"},
         {"2.53", "2.53", "6.32", "2.53", "2.53", "6.32", "15.2"}},
        {"8x8",
         LLAMA_65B,
         1,
         4,
         {"229", "571", "571", "1028", "1371", "1371", "1371"},
         {"28.6", "28.6", "71.4", "28.6", "28.6", "71.4", "171"}},
        {"8x8",
         LLAMA_65B,
         1.0 / 16,
         4,
         {"14.3", "35.7", "35.7", "921", "943", "943", "943"},
         {"1.79", "1.79", "4.46", "1.79", "1.79", "4.46", "118"}},
        {"8x8",
         LLAMA_65B,
         0.003,
         4,
         {"0.7", "1.7", "1.7", "914", "915", "915", "915"},
         {"0.09", "0.09", "0.21", "0.09", "0.09", "0.21", "114"}},
    };
    struct plan_price p[PLAN_STRATEGIES];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        prices(p, rows[i].shape, rows[i].params, rows[i].accum, rows[i].part);
        for (int j = 0; j < 7; j++) {
            const struct plan_price *x = &p[index_of(columns[j])];
            same_digits(x->fast_bytes / GB, rows[i].fast[j]);
            same_digits(x->slow_rank_bytes / GB, rows[i].slow[j]);
            /* All eight members of a group send at once through its port.  A share rounds to
               whole elements, which no digit of the table shows. */
            assert_true(fabs(x->slow_bytes - 8 * x->slow_rank_bytes) <= 1e-6 * x->slow_bytes);
        }
        const struct plan_price *iii = &p[index_of("III")], *iig = &p[index_of("IIG")];
        assert_true(fabs(iii->slow_bytes - iig->slow_bytes) <= 1e-6 * iig->slow_bytes);
    }
}

TEST(test_memory_table)
{
    static const char *const columns[] = {"NNN", "NNG", "NII", "NIG", "NGG", "ING",
                                          "III", "IIG", "IGG", "GNG", "GIG", "GGG"};
    static const struct {
        const char *shape;
        double params, part;
        const char *gib[12];
    } rows[] = {
        {"4x8",
         LLAMA_7B,
         1,
         {"100.4", "27.5", "23.5", "16.5", "15.3", "16.5", "12.6", "5.5", "4.3", "15.3", "4.3",
          "3.1"}},
        {"8x8",
         LLAMA_65B,
         1,
         {"972.8", "254.6", "228", "148.2", "134.9", "148.2", "121.6", "41.8", "28.5", "134.9",
          "28.5", "15.2"}},
        {"8x8",
         LLAMA_65B,
         0.003,
         {"124.2", "122.0", "121.9", "121.7", "121.6", "15.6", "15.5", "15.3", "15.2", "2.3",
          "2.0", "1.9"}},
    };
    struct plan_price p[PLAN_STRATEGIES];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        prices(p, rows[i].shape, rows[i].params, 4, rows[i].part);
        for (int j = 0; j < 12; j++)
            same_digits(p[index_of(columns[j])].memory.total / GIB, rows[i].gib[j]);
    }
}

static void survivors(const struct plan_price p[PLAN_STRATEGIES], const char *expected)
{
    char found[PLAN_STRATEGIES * 4 + 1] = "";

    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        if (p[i].dominated_by < 0)
            strcat(strcat(found, plan_strategy_name(p[i].strategy)), " ");
    }
    assert_string_equal(found, expected);
}

TEST(test_dominance)
{
    struct plan_price p[PLAN_STRATEGIES];

    prices(p, "8x8", 65536e6, 1, 1);
    survivors(p, "NGG IGG GGG ");
    for (int accum = 2; accum <= 8; accum *= 2) {
        prices(p, "8x8", 65536e6, accum, 1);
        survivors(p, "NNG NIG NGG IIG IGG GGG ");
        prices(p, "8x8", 65536e6, accum, 1.0 / 16);
        survivors(p, "NNG NIG NGG ING IIG IGG GNG GIG GGG ");
    }
}

TEST(test_65b_on_80_gb)
{
    static const char *const fit[] = {"IIG", "IGG", "GIG", "GGG"};
    struct topo t;
    struct model m = bare(LLAMA_65B);
    struct plan_advice advice;

    make_topo(&t, "8x8", 200e9, 100e9);
    struct plan_search s = {.at = table_case(&t, &m, 4, 1)};
    s.at.memory_bytes = 80e9;
    assert_ok(plan_search(&s, &err));
    for (int i = 0, k = 0; i < PLAN_STRATEGIES; i++) {
        int expected = 0;
        for (k = 0; k < 4; k++)
            expected |= i == index_of(fit[k]);
        assert_int_equal(s.list[i].feasible, expected);
    }
    assert_int_equal(s.best, index_of("IIG"));
    s.at.memory_bytes = 8e9;
    assert_ok(plan_search(&s, &err));
    assert_int_equal(s.best, -1);
    plan_fit(&s, &advice);
    plan_fit_refuse(&s, &advice, &err);
    /* 16 bytes of each parameter in 8e9: 130.6 ranks. */
    assert_words(err.text,
                 "no feasible plan GGG 15.2 GiB 11.4 GiB optimizer 7.45 GiB GGG 17 groups "
                 "136 ranks");
    drop_topo(&t);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* The closed forms of paro-method(7), HO-RING, on 4x8, through NNN: one all-reduce, which is
 * two passes.  They count the latency of every message; those of messages in flight overlap. */
TEST(test_closed_forms)
{
    enum { G = 4, M = 8, N = G * M };
    const double rates[][2] = {{1e9, 4e9}, {1e9, 1e8}, {4e8, 1e9}}; /* B', port */
    const double q = 2 * 1e6;       /* bytes of a block, two each */
    const double agree = 5 * 12e-6; /* the norm: 2^5 ranks */

    for (int i = 0; i < 3; i++) {
        struct plan_price p[PLAN_STRATEGIES];
        struct model m = bare(1e6 * N);
        struct topo t;
        make_topo(&t, "4x8", rates[i][0], rates[i][1]);
        t.level[0].latency_s = 3e-6;
        t.level[1].latency_s = 12e-6;
        double tau_i = 3e-6 + q / rates[i][0], tau_e = 12e-6 + q * M / rates[i][1];
        double fill = (M - 1) * tau_i;
        double ho = fill + (G - 1) * larger(tau_e, fill);
        double longer = larger((G - 1) * tau_e, G * fill);
        double ring = (N - 1) * larger(tau_i, 12e-6 + q / rates[i][1]);
        double latencies = 2 * ((G - 1) * 12e-6 + G * (M - 1) * 3e-6);
        struct plan_case c = table_case(&t, &m, 1, 1);
        plan_price_all(&c, p);
        assert_float_equal(p[0].step_s, 2 * ((G - 1) * tau_e + G * fill) + agree, latencies);
        c.algo = SCHEDULE_RING;
        plan_price_all(&c, p);
        /* The form takes the slower of the two hops; latency and rate of each apart here. */
        assert_true(fabs(p[0].step_s - agree - 2 * ring) <= 2 * (N - 1) * 12e-6);
        c.algo = SCHEDULE_HO_RING;
        c.chunk_bytes = (int64_t)q;
        plan_price_all(&c, p);
        assert_float_equal(p[0].step_s, 2 * ho + agree, latencies);
        c.chunk_bytes = (int64_t)q / 16;
        plan_price_all(&c, p);
        assert_float_equal(p[0].step_s, 2 * (longer + (ho - longer) / 16) + agree, latencies);
        c.algo = SCHEDULE_AUTO;
        plan_price_all(&c, p);
        assert_int_equal(p[0].algo, SCHEDULE_HO_RING);
        drop_topo(&t);
    }
}

/* The load of a leg on the busiest link of its tier, in parts of the vector. */
struct legs {
    const char *shape;
    double inside, across, even, ring; /* even: one of the two of an all-reduce */
};

/* t_comm as paro-method(7), TRAFFIC, has it in its tables, with a flat ring for what is global
   (Variations); w = 2 bytes, s micro-steps. */
static double by_tables(const struct legs *l, const char *triple, double psi, double trained,
                        int s, double share, double port)
{
    const char p = triple[0], g = triple[1], o = triple[2];
    double in = 2 * l->inside / share, across = 2 * l->across / port, even = 2 * l->even / port;
    double ring = 2 * l->ring / (port < share ? port : share), param = 0, grad = 0, sync_g = 0;

    param = p == 'N' ? 0 : p == 'I' ? in : ring;
    grad = g == 'N' ? 0 : g == 'I' ? in : ring;
    if (g == 'N')
        sync_g = o == 'N' ? 2 * ring : o == 'I' ? in + 2 * even : ring;
    else if (g == 'I')
        sync_g = o == 'N' ? in + 2 * even : o == 'I' ? 2 * even : across;
    else
        sync_g = o == 'N' ? ring : o == 'I' ? across : 0;
    double sync_p = o == p || o == 'N' || p == 'G' ? 0
                    : o == 'I'                     ? in
                    : p == 'N'                     ? ring
                                                   : across;
    return s * (2 * param * psi + grad * trained) + (sync_g + sync_p) * trained;
}

/* The guideline of the paper for all 27; which 14 it keeps. */
TEST(test_guideline)
{
    static const struct legs shapes[] = {
        {"2x2", 1 / 2.0, 1 / 2.0, 1 / 2.0, 3 / 4.0},
        /* The larger group inside, the smaller one's port; equal slices of an all-reduce. */
        {"[3,2]", 2 / 3.0, 3 / 5.0, 1 / 2.0, 4 / 5.0},
    };
    static const double flops[] = {0, 1e9, 1e12};
    static const char kept[] = "NNN NNI NNG NII NIG NGG INI ING III IIG IGG GNG GIG GGG";
    const double psi = 3e7, trained = 6e6, share = 1e9, port = 3e8;
    const int s = 3;

    for (int k = 0; k < 6; k++) {
        struct plan_price p[PLAN_STRATEGIES];
        struct model m = bare(psi);
        struct topo t;
        int by_comm = 0;
        make_topo(&t, shapes[k % 2].shape, share, port);
        t.flops = flops[k / 2];
        struct plan_case c = table_case(&t, &m, s, trained / psi);
        c.algo = k % 2 ? SCHEDULE_AUTO : SCHEDULE_HO_RING; /* whatever the step's algorithm */
        plan_price_all(&c, p);
        /* Forward, gradients of what it reads, and of the weights that train: 2 FLOP each. */
        double comp = t.flops > 0 ? s * 2 * PLAN_SEQ * (2 * psi + trained) / flops[k / 2] : 0;
        for (int i = 0; i < PLAN_STRATEGIES; i++) {
            const char *name = plan_strategy_name(p[i].strategy);
            double comm = by_tables(&shapes[k % 2], name, psi, trained, s, share, port);
            by_comm += comm > comp;
            assert_float_equal(p[i].guideline_s, larger(comm, comp), 1e-6 * larger(comm, comp));
            assert_int_equal(plan_strategy_kept(p[i].strategy), strstr(kept, name) != NULL);
        }
        assert_int_equal(by_comm > 0, k / 2 != 1);
        drop_topo(&t);
    }
}

/* Longer rings are slower: the flat one joins all ranks, rails one of each group. */
TEST(test_ring_loss)
{
    const double share = 1e12, port = 1e9, psi = 32e6, loss = 0.01;
    struct plan_price p[PLAN_STRATEGIES];
    struct model m = bare(psi);
    struct topo t;

    make_topo(&t, "4x8", share, port);
    t.level[1].ring_loss = loss;
    struct plan_case c = table_case(&t, &m, 1, 1);
    c.algo = SCHEDULE_RING;
    plan_price_all(&c, p);
    double flat = 2 * 31 / 32.0 * psi / port * (1 + loss * 30);
    assert_float_equal(p[index_of("GGG")].comm_s, 3 * flat, 1e-9);
    assert_float_equal(p[index_of("GGG")].guideline_s, 3 * flat, 1e-9);
    /* III reduces and gathers on rails; its other traffic is inside and loses nothing. */
    double rails = 2 * 2 * 3 / 4.0 * psi / port * (1 + loss * 2);
    double inside = 3 * 2 * 7 / 8.0 * psi / share;
    assert_float_equal(p[index_of("III")].comm_s, rails + inside, 1e-9);
    c.algo = SCHEDULE_TWO_LEVEL;
    plan_price_all(&c, p);
    assert_float_equal(p[index_of("GGG")].comm_s, 1.5 * rails + inside, 1e-9);
    assert_float_equal(p[index_of("GGG")].slow_bytes, 3 * 2 * 0.75 * psi, 1);
    drop_topo(&t);
}

/* The slower port of unequal ones sets the time; so does the narrower level above. */
TEST(test_slow_port)
{
    struct plan_price p[PLAN_STRATEGIES];
    struct model m = bare(4e6);
    struct topo t;

    make_topo(&t, "4x1", 1e12, 1e9);
    t.port[2].in_Bps = 0.5e9;
    struct plan_case c = table_case(&t, &m, 1, 1);
    plan_price_all(&c, p);
    /* All-reduce, 2 (g-1)/g of 8 MB through each port. */
    assert_float_equal(p[0].step_s, 2 * 0.75 * 8e6 / 0.5e9, 1e-9);
    assert_float_equal(p[0].slow_bytes, 2 * 0.75 * 8e6, 0);
    t.level = mem_grow(t.level, &(size_t){2}, 3, sizeof *t.level);
    t.levels = 3;
    t.level[2] = (struct topo_level){
        .name = "spine", .port_Bps = 0.25e9, .flow_Bps = 0.25e9, .member_Bps = 0.25e9};
    plan_price_all(&c, p);
    assert_float_equal(p[0].step_s, 2 * 0.75 * 8e6 / 0.25e9, 1e-9);
    drop_topo(&t);
}

/* The bounds that the time must never leave. */
TEST(test_overlap)
{
    struct plan_price ahead[PLAN_STRATEGIES], waits[PLAN_STRATEGIES], idle[PLAN_STRATEGIES];
    struct model m = tiny_llama(0);
    struct topo t;

    for (double flops = 1e8; flops < 1e14; flops *= 10) {
        make_topo(&t, "[3,2]", 1e9, 1e8);
        t.flops = flops;
        struct plan_case c = table_case(&t, &m, 2, 1);
        plan_price_all(&c, ahead);
        c.prefetch = 0;
        plan_price_all(&c, waits);
        t.flops = 0;
        plan_price_all(&c, idle);
        for (int i = 0; i < PLAN_STRATEGIES; i++) {
            const struct plan_price *p = &ahead[i], *q = &waits[i];
            assert_true(p->step_s <= q->step_s * (1 + 1e-12));
            assert_true(q->step_s <= (q->compute_s + q->comm_s) * (1 + 1e-12));
            assert_true(p->step_s >= p->compute_s * (1 - 1e-12));
            assert_true(p->step_s >= p->slow_bytes / 1e8 * (1 - 1e-12));
            assert_true(p->comm_s == q->comm_s && p->compute_s == q->compute_s);
            assert_true(idle[i].step_s <= idle[i].comm_s * (1 + 1e-12));
            assert_true(idle[i].step_s <= q->step_s * (1 + 1e-12));
            assert_float_equal(p->tokens_per_s, 5 * 2 * 256 / p->step_s, 1e-6);
        }
        drop_topo(&t);
    }
    model_release(&m);
}

/* Gathers follow visits, reductions units: with tied embeddings these differ. */
TEST(test_units)
{
    struct plan_price p[PLAN_STRATEGIES];
    struct model m = tiny_llama(1);
    struct topo t;

    assert_true(m.tied && m.units == 5 && m.visits == 6);
    make_topo(&t, "1x2", 1e9, 1e8);
    struct plan_case c = table_case(&t, &m, 1, 1);
    plan_price_all(&c, p);
    double psi = (double)m.params, embed = (double)m.unit[0].elems;
    /* Two ranks: half of everything goes out, twice forward and back, two bytes each. */
    assert_float_equal(p[index_of("INN")].fast_bytes, 2 * (psi + embed) + psi * 2, 1);
    /* In bytes per element of the largest unit, two ranks, bf16 everywhere: the unit in f32
       (4); gathered, two of them (4); its gradient in f32 (4, and 4 of the tied unit); two of
       them leaving (4); what is reduced, sent and received (2 each), half where sharded. */
    double most = (double)model_largest_unit(&m);
    /* Arrays begin at multiples of 64: five states of five units, and 30 buffers at most. */
    double pad = 63 * (5 * 5 + 30);
    double fixed = 4.0 * PLAN_PIECE + 8.0 * c.seq, tied = fixed + 4 * embed;
    assert_float_equal(p[index_of("NNN")].memory.buffers, most * (4 + 4 + 2 + 2) + tied, pad);
    assert_float_equal(p[index_of("INN")].memory.buffers, most * (8 + 4 + 2 + 2) + tied, pad);
    assert_float_equal(p[index_of("III")].memory.buffers, most * (8 + 4 + 4 + 1) + tied, pad);
    /* Five leave instead of two (6), three are gathered instead of two (2), two are kept (4):
       each where there are such things at all. */
    c.buckets = 5;
    c.prefetch = 2;
    c.keep = 2;
    plan_price_all(&c, p);
    assert_float_equal(p[index_of("NNN")].memory.buffers, most * (4 + 4 + 2 + 2) + tied, pad);
    assert_float_equal(p[index_of("INN")].memory.buffers, most * (14 + 4 + 2 + 2) + tied, pad);
    assert_float_equal(p[index_of("III")].memory.buffers, most * (14 + 4 + 10 + 1) + tied, pad);
    /* Never more kept than the six uses of a forward, which are gathered once then, nor
       gathered ahead than the twelve of the step. */
    c.keep = PLAN_KEEP_ALL;
    c.prefetch = PLAN_PREFETCH_MAX;
    plan_price_all(&c, p);
    assert_float_equal(p[index_of("INN")].memory.buffers, most * (16 + 4 + 2 + 2) + tied, pad);
    c.keep = 0;
    plan_price_all(&c, p);
    assert_float_equal(p[index_of("INN")].memory.buffers, most * (28 + 4 + 2 + 2) + tied, pad);
    c.param_type = c.grad_type = DTYPE_F32;
    plan_price_all(&c, p);
    assert_float_equal(p[index_of("NNN")].memory.buffers, most * (2 + 2) + fixed, pad);
    drop_topo(&t);
    model_release(&m);
}

TEST(test_search_auto)
{
    struct model m = tiny_llama(0);
    struct topo t;

    make_topo(&t, "2x2", 1e9, 1e8);
    t.flops = 1e11;
    struct plan_search s = {.auto_batch = 1, .auto_accum = 1};
    plan_case_init(&s.at, &t, &m);
    s.at.global_batch = 4 * 96;
    s.at.memory_bytes = 64 << 20;
    assert_ok(plan_search(&s, &err));
    double best = 0; /* of the fastest: what is chosen may be slower by 1 % */
    for (int i = 0; i < PLAN_STRATEGIES; i++)
        best = s.list[i].feasible ? fmax(best, s.list[i].tokens_per_s) : best;
    assert_true(s.list[s.best].tokens_per_s >= best / 1.01);
    assert_true(s.best >= 0 && s.list[s.best].memory.total <= 64 << 20);
    assert_int_equal(s.at.micro_batch * s.at.accum, 96);
    for (int b = 1; b <= 96; b++) {
        struct plan_price p[PLAN_STRATEGIES];
        struct plan_case c = s.at;
        c.micro_batch = b;
        c.accum = 96 / b;
        if (96 % b)
            continue;
        plan_price_all(&c, p);
        for (int i = 0; i < PLAN_STRATEGIES; i++)
            assert_true(!p[i].feasible || p[i].tokens_per_s <= best * (1 + 1e-9));
    }
    drop_topo(&t);
    model_release(&m);
}

/* Int8 blocks save time where the slow links take it: all of their share where nothing else
 * does, nothing where the fast ones are slower still. */
TEST(test_coded_time)
{
    static const enum schedule_algo algos[] = {SCHEDULE_RING, SCHEDULE_TWO_LEVEL,
                                               SCHEDULE_HO_RING};
    struct plan_price plain[PLAN_STRATEGIES], coded[PLAN_STRATEGIES];
    const double inside[] = {1e18, 1e3};

    for (int at = 0; at < 6; at++) {
        struct topo t;
        struct model m = bare(1 << 20);
        make_topo(&t, "2x2", inside[at % 2], 1e9);
        struct plan_case c = table_case(&t, &m, 2, 1);
        c.algo = algos[at / 2];
        plan_price_all(&c, plain);
        c.slow_params = c.slow_grads = EXEC_CODE_INT8;
        plan_price_all(&c, coded);
        for (int i = 0; i < PLAN_STRATEGIES; i++) {
            double share = at % 2 ? 1 : 129 / 256.0;
            /* Inside goes at 10^9 times the rate, or at 10^-6 of it. */
            assert_true(fabs(coded[i].comm_s - share * plain[i].comm_s) <=
                        1e-5 * plain[i].comm_s);
        }
        drop_topo(&t);
    }
}

/* And they cost memory: a place for what is sent where there was none, of the largest unit; and
 * for each element whose gradient is coded four bytes.  On 2x2 a rank sends a quarter of a
 * vector across, for a sum that is scattered or gathered again, and owns a quarter of sums. */
TEST(test_coded_memory)
{
    static const struct {
        const char *triple;
        double params, grads; /* bytes: of the largest unit; of an element, over all units */
    } cases[] = {{"NNN", 0, 2}, {"NNG", 0, 1}, {"NGG", 0, 1}, {"III", 0, 2}, {"IIG", 0, 1},
                 {"GGG", 1, 1}, {"GNG", 1, 1}, {"NGN", 0, 2}, {"IGI", 0, 2}};
    struct plan_price plain[PLAN_STRATEGIES], coded[PLAN_STRATEGIES];
    struct model m = tiny_llama(0);
    struct topo t;

    make_topo(&t, "2x2", 1e9, 1e8);
    struct plan_case c = table_case(&t, &m, 1, 1);
    c.param_type = c.wire_type = DTYPE_F32;
    plan_price_all(&c, plain);
    c.slow_params = c.slow_grads = EXEC_CODE_INT8;
    plan_price_all(&c, coded);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int at = index_of(cases[i].triple);
        double more = coded[at].memory.buffers - plain[at].memory.buffers;
        double want = cases[i].params * (double)model_largest_unit(&m) +
                      cases[i].grads * (double)m.params;
        /* A rank's part of a unit is a whole number of elements. */
        if (fabs(more - want) > 16.0 * m.units)
            fail_msg("%s: %.0f more, expected %.0f", cases[i].triple, more, want);
        assert_true(coded[at].memory.total - plain[at].memory.total == more);
    }
    drop_topo(&t);
    model_release(&m);
}

TEST(test_names)
{
    static const char *const good[][2] = {
        {"iig", "IIG"},   {"IIG", "IIG"},  {"ddp", "NNN"},  {"ZeRO1", "NNG"}, {"zero2", "NGG"},
        {"zero3", "GGG"}, {"fsdp", "GGG"}, {"HSDP", "III"}, {"mics", "III"},  {"hfsdp", "IIG"}};
    static const char *const bad[] = {"", "NN", "NNNN", "NNX", "zero4", "zero"};
    struct plan_strategy s;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(plan_strategy_parse(good[i][0], &s, &err));
        assert_string_equal(plan_strategy_name(s), good[i][1]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(plan_strategy_parse(bad[i], &s, &err), -1);
}
