/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reader of a network check's record (paro-health-record(5)).  What is taken is judged, and
 * planned for, twice to the same bytes.
 */
#include "store_fuzz.h"

#include "health/health_verdict.h"

static void put_finding(const struct health_data *d, const struct health_finding *f, FILE *out)
{
    assert(health_check_find(f->code) && f->host >= -1 && f->host < d->hosts);
    assert(f->other >= -1 && f->other < d->hosts && f->rank < d->ranks && f->text[0]);
    fprintf(out, "%d HC-%d %d %d %g %g %s\n", f->state, f->code, f->host, f->other, f->percent,
            f->z, f->text);
}

/* Verdict and plan in words; a refusal (nothing to compare with) is an answer too. */
static char *judge(const struct health_data *d, size_t *bytes)
{
    struct health_rules rules;
    struct health_verdict v = {0};
    struct health_plan p = {0};
    struct err err = {0};
    char *text = NULL;
    FILE *f = open_memstream(&text, bytes);

    assert(f);
    health_rules_init(&rules);
    if (health_judge(d, &rules, &v, &err))
        fprintf(f, "%s\n", err.text);
    for (int i = 0; i < v.findings; i++)
        put_finding(d, &v.finding[i], f);
    if (health_plan(d, &rules, &p, &err))
        fprintf(f, "%s\n", err.text);
    for (int i = 0; i < p.turns * p.hosts; i++) {
        assert(p.dst[i] >= -1 && p.dst[i] < d->hosts && p.dst[i] != i % p.hosts);
        fprintf(f, "%d ", p.dst[i]);
    }
    int rc = fclose(f);
    assert(rc == 0);
    health_plan_release(&p);
    health_verdict_release(&v);
    return text;
}

static void check(const void *whole, const void *back)
{
    size_t n[2];
    char *first = judge(whole, &n[0]), *again = judge(back, &n[1]);

    fuzz_same(first, n[0], again, n[1]);
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct health_data d = {0}, back = {0};

    return store_fuzz_case(&health_record_store, data, bytes, &d, &back, check);
}
