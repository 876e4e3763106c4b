/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * health_fleets KIND HOSTS PERCENT RUNS SEED: verdicts on that many fleets with one fault,
 * which is another host's each time.  Prints one line:
 *
 *     KIND HOSTS PERCENT RUNS FOUND RIGHT WRONG TWICE WRONG-TWICE MILLISECONDS
 *
 * FOUND: somebody was accused (WARNING or CRITICAL) with the faulty host in it; RIGHT: that and
 * nothing else, in the right direction; WRONG: somebody else was accused.  TWICE and
 * WRONG-TWICE: the same in two runs one after the other, which is what a hysteresis of two runs
 * would say, of RUNS / 2.  MILLISECONDS of the verdict alone, a run's median.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/stats.h"
#include "health/health_fleet.h"

struct kind {
    const char *name;
    enum health_fault_kind kind;
    int code, way; /* what is to be said */
};

static const struct kind kinds[] = {{"healthy", HEALTH_FAULTS, 0, -1},
                                    {"port", HEALTH_FAULT_PORT, 301, -1},
                                    {"out", HEALTH_FAULT_OUT, 301, HEALTH_OUT},
                                    {"in", HEALTH_FAULT_IN, 301, HEALTH_IN},
                                    {"pair", HEALTH_FAULT_PAIR, 304, -1},
                                    {"cut", HEALTH_FAULT_CUT, 202, -1},
                                    {"flap", HEALTH_FAULT_FLAP, 205, -1},
                                    {"corrupt", HEALTH_FAULT_CORRUPT, 501, HEALTH_OUT},
                                    {"late", HEALTH_FAULT_LATE, 401, -1},
                                    {"several", HEALTH_FAULT_PORT, 301, -1}};

enum { SEVERAL = 3, WITNESSES = 64 };

struct outcome {
    int found, right, wrong;
    int accused[WITNESSES][2], accusations; /* the wrong ones: host, code */
};

static void die(const char *text)
{
    fprintf(stderr, "health_fleets: %s\n", text);
    exit(2);
}

static int draw(uint64_t seed, int which, int n)
{
    return (int)(rng_u64(seed, 77, (uint64_t)which) % (uint64_t)n);
}

/* A pair that the rounds measure: of many hosts a run measures some pairs alone. */
static int partner_of(const struct health_fleet *f, int host)
{
    struct health_rules rules;
    struct health_plan p;
    struct health_data d;

    health_rules_init(&rules);
    health_data_init(&d, f->hosts, NULL);
    d.seed = f->seed;
    d.level = f->level;
    if (health_plan(&d, &rules, &p, &err))
        die(err.text);
    int dst = p.dst[draw(f->seed, 3, p.turns) * f->hosts + host];
    health_plan_release(&p);
    health_data_release(&d);
    return dst;
}

static struct health_fleet fleet(const struct kind *k, int hosts, double percent, uint64_t seed,
                                 uint64_t where)
{
    struct health_fleet f;
    int faults = strcmp(k->name, "several") == 0 ? SEVERAL : k->kind != HEALTH_FAULTS;

    health_fleet_init(&f);
    f.hosts = hosts;
    f.seed = seed;
    f.leaf = hosts >= 32 ? 16 : 0; /* of two classes of paths, where there is room for them */
    f.far = 0.9;
    for (int i = 0; i < faults; i++) {
        struct health_fault *x = &f.fault[f.faults++];
        *x = (struct health_fault){.kind = k->kind, .percent = percent};
        x->host = (draw(where, 0, hosts) + i * (hosts / SEVERAL)) % hosts;
        if (x->kind == HEALTH_FAULT_PAIR)
            x->other = partner_of(&f, x->host);
    }
    return f;
}

static int is_fault(const struct health_fleet *f, const struct health_finding *x)
{
    for (int i = 0; i < f->faults; i++)
        if (x->host == f->fault[i].host || x->other == f->fault[i].host)
            return 1;
    return 0;
}

/* Of a flapping link the rate says something too: it is the same port. */
static struct outcome read_verdict(const struct kind *k, const struct health_fleet *f,
                                   const struct health_verdict *v)
{
    struct outcome o = {0};
    int named = 0;

    for (int i = 0; i < v->findings; i++) {
        const struct health_finding *x = &v->finding[i];
        if (x->state != HEALTH_WARNING && x->state != HEALTH_CRITICAL)
            continue;
        int mine = is_fault(f, x);
        o.found |= mine;
        if (!mine && o.accusations < WITNESSES) {
            o.accused[o.accusations][0] = x->host;
            o.accused[o.accusations++][1] = x->code;
        }
        named += mine && x->code == k->code && x->way == k->way &&
                 (k->kind != HEALTH_FAULT_PAIR || x->other == f->fault[0].other);
        if (mine && k->kind == HEALTH_FAULT_FLAP)
            continue;
        o.wrong |= !mine || x->code != k->code;
    }
    o.right = named == f->faults && !o.wrong;
    o.wrong = o.accusations > 0;
    return o;
}

static int same_wrong(const struct outcome *a, const struct outcome *b)
{
    for (int i = 0; i < a->accusations; i++)
        for (int j = 0; j < b->accusations; j++)
            if (memcmp(a->accused[i], b->accused[j], sizeof *a->accused) == 0)
                return 1;
    return 0;
}

static struct outcome run(const struct kind *k, const struct health_fleet *f, double *ms)
{
    struct health_rules rules;
    struct health_verdict v;
    struct health_data d;

    health_rules_init(&rules);
    if (health_fleet_run(f, &rules, &d, &err))
        die(err.text);
    clock_t start = clock();
    if (health_judge(&d, &rules, &v, &err))
        die(err.text);
    *ms = (double)(clock() - start) * 1e3 / CLOCKS_PER_SEC;
    struct outcome o = read_verdict(k, f, &v);
    if (getenv("HEALTH_SAY"))
        for (int i = 0; i < v.findings; i++)
            fprintf(stderr, "%llu HC-%d %s\n", (unsigned long long)f->seed, v.finding[i].code,
                    v.finding[i].text);
    health_verdict_release(&v);
    health_data_release(&d);
    return o;
}

int main(int argc, char **argv)
{
    const struct kind *k = kinds, *end = kinds + sizeof kinds / sizeof *kinds;

    if (argc != 6 && argc != 8 && argc != 9)
        die("usage: health_fleets KIND HOSTS PERCENT RUNS SEED [NOISE TRANSIENTS [COMMON]]");
    while (k < end && strcmp(k->name, argv[1]))
        k++;
    int hosts = atoi(argv[2]), runs = atoi(argv[4]);
    double percent = atof(argv[3]);
    if (k == end || hosts < 3 || hosts > HEALTH_HOSTS_MOST || runs < 2 || percent <= 0)
        die("a kind, 3 hosts and 2 runs at least, a percentage above 0");
    double *ms = mem_new((size_t)runs, sizeof *ms);
    int found = 0, right = 0, wrong = 0, twice = 0, wrong_twice = 0;
    struct outcome before = {0};
    for (int i = 0; i < runs; i++) {
        /* The same fault in two runs one after the other. */
        uint64_t seed = strtoull(argv[5], NULL, 10) + (uint64_t)i, where = seed - i % 2;
        struct health_fleet f = fleet(k, hosts, percent, seed, where);
        if (argc >= 8) {
            f.noise = atof(argv[6]);
            f.transients = atof(argv[7]);
        }
        f.common = argc == 9 ? atof(argv[8]) : 0;
        struct outcome o = run(k, &f, &ms[i]);
        found += o.found;
        right += o.right;
        wrong += o.wrong;
        twice += i % 2 && o.found && before.found;
        wrong_twice += i % 2 && same_wrong(&before, &o);
        before = o;
    }
    printf("%s %d %g %d %d %d %d %d %d %.3f\n", k->name, hosts, percent, runs, found, right,
           wrong, twice, wrong_twice, stats_median(ms, runs));
    mem_free(ms);
    return 0;
}
