/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the verdict against a second opinion: a judge by brute force that shares no statistics
 * with the first (each port's median over all of its samples, by counting), closed forms of
 * what chance does, and fabrics whose faults are known.
 */
#include "unit.h"

#include "base/tick.h"
#include "health/health_analysis.h"

#include "fleet_fixture.h"

/* The one finding of a fabric. */
static struct health_finding one(const char *spec, uint64_t seed)
{
    struct judged j = judged(spec, seed);

    for (int i = 0; j.v.findings != 1 && i < j.v.findings; i++)
        print_message("# %s\n", j.v.finding[i].text);
    if (j.v.findings != 1)
        fail_msg("%s, seed %llu: %d findings, expected one", spec, (unsigned long long)seed,
                 j.v.findings);
    struct health_finding f = j.v.finding[0];
    judged_release(&j);
    return f;
}

/* ---- chance ---- */

static void near(double a, double b, double part)
{
    if (!(fabs(a - b) <= part * fabs(b)))
        fail_msg("%.9g, expected %.9g", a, b);
}

TEST(chance_is_as_in_tables)
{
    near(health_normal_z(0.025), 1.959963985, 1e-8);
    near(health_normal_z(1e-9), 5.997807015, 1e-8);
    /* Student's t, 0.1 %, 30 degrees of freedom: 3.385; the expansion's first term is short of
     * it by its second, of order z^5 / (96 f^2) = 0.3 %. */
    near(health_student_z(1e-3, 30), 3.385, 0.01);
    near(health_binomial_above(5, 5, 0.5), 1.0 / 32, 1e-12);
    near(health_binomial_above(10, 3, 0.2), 0.322200474, 1e-6);
    near(health_binomial_above(7, 0, 0.2), 1, 0);
    near(health_binomial_above(3, 4, 0.2), 0, 0);
    near(health_median_error(2, 16), 1.253314137 / 2, 1e-9);
    assert_true(health_deviation(1.5, 15, 1) == 1);
    assert_true(health_deviation(2.5, 15, 1) == 2.5);
}

/* ---- the second opinion ---- */

/* By counting: the value with as many below as above. */
static double count_median(const double *v, int n)
{
    double lo = NAN, hi = NAN;

    for (int i = 0; i < n; i++) {
        int below = 0, equal = 0;
        for (int k = 0; k < n; k++) {
            below += v[k] < v[i];
            equal += v[k] == v[i];
        }
        if (below <= (n - 1) / 2 && (n - 1) / 2 < below + equal)
            lo = v[i];
        if (below <= n / 2 && n / 2 < below + equal)
            hi = v[i];
    }
    return (lo + hi) / 2;
}

static int is_faulty(const struct health_fleet *f, int k, int way)
{
    for (int x = 0; x < f->faults; x++)
        if (f->fault[x].host == k &&
            (f->fault[x].kind == HEALTH_FAULT_PORT ||
             f->fault[x].kind == (way == HEALTH_OUT ? HEALTH_FAULT_OUT : HEALTH_FAULT_IN)))
            return 1;
    return 0;
}

/* Each port's median over its samples without those whose other end is known to be faulty. */
static void brute(const struct health_data *d, const struct health_fleet *known,
                  double (*Bps)[2])
{
    double *v = mem_new((size_t)d->samples.count, sizeof *v);

    for (int k = 0; k < d->hosts; k++)
        for (int way = 0; way < 2; way++) {
            int n = 0;
            for (int i = 0; i < d->samples.count; i++) {
                const struct health_sample *s = &d->samples.at[i];
                int own = way == HEALTH_OUT ? s->src : s->dst,
                    other = way == HEALTH_OUT ? s->dst : s->src;
                if (own == k && !is_faulty(known, other, !way))
                    v[n++] = s->Bps;
            }
            Bps[k][way] = count_median(v, n);
        }
    mem_free(v);
}

TEST(agrees_with_brute_force)
{
    static const char *const specs[] = {"16", "16,out=5:85", "24,in=3:60,out=9:92",
                                        "33,port=1:80,out=20:90,in=32:70"};
    double well[128], Bps[64][2];

    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (uint64_t seed = 0; seed < 10; seed++) {
            struct health_fleet f = fleet(specs[i], seed);
            struct judged j = judged(specs[i], seed);
            brute(&j.d, &f, Bps);
            int n = 0;
            for (int k = 0; k < j.d.hosts; k++)
                for (int way = 0; way < 2; way++)
                    if (!is_faulty(&f, k, way))
                        well[n++] = Bps[k][way];
            double usual = count_median(well, n);
            for (int k = 0; k < j.d.hosts; k++)
                for (int way = 0; way < 2; way++) {
                    const struct health_port *p = &j.v.port[k][way];
                    int faulty = is_faulty(&f, k, way);
                    /* A faulty port was judged while less faulty partners were not known yet:
                     * at most 3 of its samples more, of a median between two of some 27. */
                    near(p->percent, 100 * Bps[k][way] / usual, faulty ? 0.02 : 1e-12);
                    assert_int_equal(p->state != HEALTH_OK, faulty);
                }
            judged_release(&j);
        }
}

/* ---- each fault by its name ---- */

TEST(each_fault_has_its_name)
{
    static const struct {
        const char *spec;
        int code, host, other, way;
        enum health_state is;
    } row[] = {
        {"8,port=3:90", 301, 3, -1, -1, HEALTH_WARNING},
        {"8,out=3:70", 301, 3, -1, HEALTH_OUT, HEALTH_CRITICAL},
        {"64,in=63:90", 301, 63, -1, HEALTH_IN, HEALTH_WARNING},
        {"8,pair=2-5:80", 304, 2, 5, -1, HEALTH_WARNING},
        {"3,pair=2-0:50", 304, 2, 0, -1, HEALTH_CRITICAL},
        {"8,cut=6", 202, 6, -1, -1, HEALTH_CRITICAL},
        {"8,cut=0", 202, 0, -1, -1, HEALTH_CRITICAL},
        {"8,corrupt=1", 501, 1, -1, HEALTH_OUT, HEALTH_CRITICAL},
        {"16,late=4:400", 401, 4, -1, -1, HEALTH_WARNING},
        {"16,late=4:900", 401, 4, -1, -1, HEALTH_CRITICAL},
        {"8x4,rank=5.2:40", 307, 5, -1, -1, HEALTH_WARNING},
        {"8x2,rank=5.1:40", 307, 5, -1, -1, HEALTH_WARNING},
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (uint64_t seed = 0; seed < 5; seed++) {
            struct judged j = judged(row[i].spec, seed);
            int bad = 0;
            for (int k = 0; k < j.v.findings; k++) {
                const struct health_finding *f = &j.v.finding[k];
                if (f->state == HEALTH_UNKNOWN) /* of a cut: what was not finished */
                    continue;
                bad++;
                if (f->code != row[i].code || f->host != row[i].host ||
                    f->other != row[i].other || f->way != row[i].way || f->state != row[i].is)
                    fail_msg("%s, seed %d: HC-%d %s", row[i].spec, (int)seed, f->code, f->text);
                assert_int_equal(f->rank >= 0, f->code == 307);
            }
            if (bad != 1)
                fail_msg("%s, seed %d: %d findings", row[i].spec, (int)seed, bad);
            assert_int_equal(j.v.state, row[i].is);
            judged_release(&j);
        }
}

TEST(evidence_is_in_numbers)
{
    struct health_finding f = one("16,out=3:80", 1);

    assert_true(f.confirmed);
    near(f.measured, 0.8 * 12.5e9, 0.03);
    near(f.expected, 12.5e9, 0.02);
    near(f.peers, 12.5e9, 0.02);
    near(f.percent, 80, 0.02);
    assert_true(f.z > 10 && f.samples >= 27 && f.partners >= 12 && f.saw >= f.partners - 2);
    assert_int_equal(f.action, HEALTH_OPERATOR);
    f = one("8,pair=2-5:80", 1);
    assert_true(f.confirmed && f.saw == f.samples && f.samples >= 5);
    near(f.percent, 80, 0.04);
}

/* Host 12 has a leaf of its own: all of its paths are long, and no fault of its. */
TEST(paths_are_compared_with_their_like)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct judged j = judged("13,leaf=12,far=0.7", seed);
        assert_int_equal(j.v.findings, 0);
        for (int k = 0; k < j.d.hosts; k++) /* what would be said without places */
            j.d.host[k].leaf = -1;
        expect_findings(&j, 1, 301, "node12 ");
        judged_release(&j);
        assert_int_equal(one("24,leaf=4,pod=3,far=0.7,port=9:90", seed).host, 9);
    }
}

/* ---- what is not known ---- */

TEST(what_was_not_done_is_unknown)
{
    struct judged j = {.d = data("8", 1)};

    j.d.done &= ~(1u << HEALTH_PART_LATENCY);
    expect_findings(&j, 1, 901, "latency not finished within 10 s");
    assert_int_equal(j.v.state, HEALTH_UNKNOWN);
    j.d.capped = 1;
    expect_findings(&j, 1, 901, "latency not finished within the bytes of --max-bytes");
    j.d.capped = 0;
    j.d.done = j.d.requested;
    snprintf(j.d.host[2].why, sizeof j.d.host[2].why, "no memory");
    expect_findings(&j, 1, 902, "node2 could not measure: no memory");
    assert_int_equal(j.v.state, HEALTH_UNKNOWN);
    j.d.host[2].why[0] = 0;
    for (int i = j.d.samples.count; i-- > 0;) /* all but 9 of what host 5 sent */
        if (j.d.samples.at[i].src == 5 && j.d.samples.at[i].round >= 9)
            j.d.samples.at[i] = j.d.samples.at[--j.d.samples.count];
    expect_findings(&j, 1, 903, "node5 out measured 9 times, expected 15");
    assert_int_equal(j.v.state, HEALTH_UNKNOWN);
    judged_release(&j);
}

/* ---- links, streams that stand, all at once ---- */

TEST(facts_need_no_statistics)
{
    static const struct {
        struct health_link l;
        int code;
    } row[] = {
        {{.up = 1, .carrier = 0, .lost = 1}, 201},
        {{.up = 1, .carrier = 0, .lost = 0}, 0}, /* never had one */
        {{.up = 0, .carrier = 0, .lost = 1}, 0}, /* switched off */
        {{.up = 1, .carrier = 1, .errors = 9, .packets = 10}, 0},
        {{.up = 1, .carrier = 1, .errors = 10, .packets = 9999999}, 203},
        {{.up = 1, .carrier = 1, .errors = 10, .packets = 10000001}, 0},
        {{.up = 1, .carrier = 1, .Bps = 25e9, .want_Bps = 50e9}, 204},
        {{.up = 1, .carrier = 1, .Bps = 50e9, .want_Bps = 50e9}, 0},
        {{.up = 1, .carrier = 1, .flaps = 3, .since_s = 86400}, 205},
        {{.up = 1, .carrier = 1, .flaps = 2, .since_s = 86400}, 0},
        {{.up = 1, .carrier = 1, .flaps = 1, .since_s = 10}, 205}, /* while it was measured */
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct judged j = {0};
        health_data_init(&j.d, 1, NULL);
        j.d.level = HEALTH_QUICK;
        HEALTH_ADD(&j.d.links) = row[i].l;
        expect_findings(&j, row[i].code != 0, row[i].code, NULL);
        judged_release(&j);
    }
}

TEST(whoever_is_in_most_of_it_is_named)
{
    static const int wrong[][3] = {{3, 1, 5}, {3, 1, 2}, {3, 6, 1}, {0, 4, 1},
                                   {2, 4, 1}, {7, 4, 1}, {5, 0, 9}};
    struct judged j = {.d = data("8", 1)};

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        health_data_add_wrong(&j.d, wrong[i][0], wrong[i][1], wrong[i][2]);
    expect_findings(&j, 3, 501, "node3 sends wrong data: 8 words, to 2 hosts");
    assert_string_equal(j.v.finding[1].text,
                        "node4 receives wrong data: 3 words, from 3 hosts");
    assert_string_equal(j.v.finding[2].text, "9 words wrong, from node5 to node0");
    health_data_add_stall(&j.d, 1, 6, 3);
    health_data_add_stall(&j.d, 2, 6, 3);
    j.d.wrongs.count = 0;
    expect_findings(&j, 1, 206, "no bytes come through into node6, from 2 hosts");
    j.d.host[6].silent = 1; /* that explains it */
    expect_findings(&j, 1, 202, NULL);
    judged_release(&j);
}

TEST(all_at_once_is_nobodys_fault)
{
    struct judged j = {.d = data("8", 1)}, slow = {.d = data("8,port=1:50", 1)};
    const struct health_collective all = {0, 8, 2, 1}, half = {4, 4, 2, 1}, well = {0, 4, 1, 1},
                                   once = {0, 8, 1, 1};

    HEALTH_ADD(&j.d.collectives) = all;
    expect_findings(&j, 1, 308, "only all 8 hosts at once are slow, 50 % of what pairs give");
    assert_int_equal(j.v.finding[0].host, -1);
    HEALTH_ADD(&j.d.collectives) = well;
    HEALTH_ADD(&j.d.collectives) = half;
    expect_findings(&j, 1, 308, ", node4 to node7 too");
    HEALTH_ADD(&j.d.collectives) = once; /* the best look counts */
    expect_findings(&j, 0, 0, NULL);
    HEALTH_ADD(&slow.d.collectives) = all; /* a slow port explains it */
    expect_findings(&slow, 1, 301, NULL);
    judged_release(&j);
    judged_release(&slow);
}

/* ---- plans ---- */

/* Every round: nobody sends to oneself, nobody receives twice. */
static void check_rounds(const struct health_plan *p)
{
    unsigned char *taken = mem_new((size_t)p->hosts, 1);

    for (int t = 0; t < p->rounds; t++) {
        memset(taken, 0, (size_t)p->hosts);
        for (int k = 0; k < p->hosts; k++) {
            int to = p->dst[t * p->hosts + k];
            assert_true(to >= -1 && to < p->hosts && to != k);
            assert_false(to >= 0 && taken[to]++);
        }
    }
    mem_free(taken);
}

TEST(rounds_load_every_port)
{
    static const int hosts[] = {2, 3, 4, 7, 8, 9, 16, 17, 64, 65, 100};

    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        for (int level = HEALTH_NORMAL; level <= HEALTH_DEEP; level++) {
            struct health_data d;
            struct health_plan p;
            int n = hosts[i];
            health_data_init(&d, n, NULL);
            d.level = (enum health_level)level;
            d.seed = 1234567;
            assert_ok(health_plan(&d, &rules, &p, &err));
            assert_int_equal(p.stage, HEALTH_ROUNDS);
            assert_true(p.rounds >= HEALTH_SAMPLES_LEAST);
            check_rounds(&p);
            unsigned char *met = mem_new((size_t)n * (size_t)n, 1);
            int pairs = 0;
            for (int t = 0; t < p.rounds; t++)
                for (int k = 0; k < n; k++) {
                    int to = p.dst[t * n + k];
                    assert_true(to >= 0);
                    pairs += met[k * n + to]++ == 0;
                }
            /* all pairs, or as many as there are rounds but for those met twice */
            int most = n * (n - 1);
            if (level == HEALTH_DEEP || n - 1 <= HEALTH_SAMPLES_LEAST)
                assert_int_equal(pairs, most);
            else
                assert_true(pairs * 10 >= p.rounds * n * 8);
            mem_free(met);
            health_plan_release(&p);
            health_data_release(&d);
        }
}

/* Until nothing is suspected; on a healthy fabric within a few rounds. */
TEST(suspicions_come_to_an_end)
{
    static const char *const specs[] = {
        "8", "64", "64,port=9:95", "200,pair=1-2:80", "33", "12,noise=0.2,transients=0.3"};

    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (uint64_t seed = 0; seed < 5; seed++) {
            struct health_data d = data(specs[i], seed);
            struct health_plan p;
            for (int k = 0; k < d.samples.count; k++)
                assert_true(d.samples.at[k].round < d.wanted + 64);
            assert_ok(health_plan(&d, &rules, &p, &err));
            assert_int_equal(p.rounds, 0);
            health_plan_release(&p);
            health_data_release(&d);
        }
}

/* ---- the record ---- */

TEST(a_record_says_the_same)
{
    static const char *const specs[] = {"3", "8x2,port=1:50,rank=2.1:40,late=3:400",
                                        "24,leaf=4,pod=2,far=0.8,cut=9,flap=2,corrupt=5"};

    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct judged j = judged(specs[i], 3), back = {0};
        size_t bytes, again;
        j.d.seed = UINT64_MAX - 5;
        char *text = store_text(&health_record_store, &j.d, &bytes);
        assert_ok(store_parse(&health_record_store, text, bytes, &back.d));
        char *second = store_text(&health_record_store, &back.d, &again);
        assert_int_equal(bytes, again);
        assert_memory_equal(text, second, bytes);
        rejudge(&back);
        assert_int_equal(j.v.findings, back.v.findings);
        for (int k = 0; k < j.v.findings; k++)
            assert_string_equal(j.v.finding[k].text, back.v.finding[k].text);
        refuses_damage(&health_record_store, text, bytes, 1 + bytes / 200);
        judged_release(&j);
        judged_release(&back);
        free(text);
        free(second);
    }
}

TEST(fleets_are_described_strictly)
{
    static const char *const bad[] = {
        "",          "1",           "x",        "8x",         "8x0",           "8,",
        "8,port",    "8,port=8:90", "8,port=1", "8,pair=1:3", "8,pair=1-1:50", "8,rank=1.1:50",
        "8,depth=3", "8,noise=2",   "99999"};
    struct health_fleet f;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (strcmp(bad[i], "8,") && health_fleet_parse(bad[i], &f, &err) == 0)
            fail_msg("fleet '%s' was taken", bad[i]);
}

/* A large fabric is work for the samples, not for all pairs of hosts. */
TEST(thousands_of_ports_are_little_work)
{
    struct judged j = {.d = data("4096,port=7:90,out=4000:80", 1)};

    double start = tick_cpu_s();
    rejudge(&j);
    double took_s = tick_cpu_s() - start;
    assert_int_equal(j.v.findings, 2);
    assert_int_equal(j.v.finding[0].host, 7);
    assert_int_equal(j.v.finding[1].host, 4000);
    assert_true(took_s < 20); /* 0.1 s alone on a machine; with all pairs it would be minutes */
    judged_release(&j);
}
