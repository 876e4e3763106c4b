/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feeds bytes to the reader of a network check's record (paro-health-record(5)), their checksum
 * behind them: without it all would be refused alike.  What is taken is printed and read back
 * as the same, judged twice to the same bytes, and planned for.
 */
#include "reader_fuzz.h"

#include "health/health_record.h"
#include "health/health_verdict.h"

static int parse(struct health_data *d, const void *data, size_t bytes)
{
    char *text = mem_new(bytes + HEALTH_TAIL, 1);
    struct err err = {0};

    if (bytes)
        memcpy(text, data, bytes);
    int more = health_store_tail(&health_record_store, text, (int64_t)bytes, text + bytes);
    int rc = health_store_parse(&health_record_store, FUZZ_NAME, text, (int64_t)bytes + more, d,
                                &err);
    mem_free(text);
    return fuzz_judge(rc, &err);
}

static char *print(const struct health_data *d, size_t *bytes)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, bytes);

    assert(f);
    health_store_print(&health_record_store, d, f);
    int rc = fclose(f);
    assert(rc == 0);
    return text;
}

static void put_finding(const struct health_data *d, const struct health_finding *f, FILE *out)
{
    assert(health_check_find(f->code) && f->host >= -1 && f->host < d->hosts);
    assert(f->other >= -1 && f->other < d->hosts && f->rank < d->ranks && f->text[0]);
    fprintf(out, "%d HC-%d %d %d %g %g %s\n", f->state, f->code, f->host, f->other, f->percent,
            f->z, f->text);
}

/* A refusal (nothing to compare with) is an answer too. */
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

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct health_data d = {0}, back = {0};
    struct err err = {0};
    size_t n[2];

    if (bytes > FUZZ_MAX || parse(&d, data, bytes))
        return 0;
    char *first = print(&d, &n[0]);
    int rc =
        health_store_parse(&health_record_store, FUZZ_NAME, first, (int64_t)n[0], &back, &err);
    assert(rc == 0);
    char *again = print(&back, &n[1]);
    fuzz_same(first, n[0], again, n[1]);
    first = judge(&d, &n[0]);
    again = judge(&back, &n[1]);
    fuzz_same(first, n[0], again, n[1]);
    health_data_release(&d);
    health_data_release(&back);
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    reader_fuzz_case(data, bytes);
    return 0;
}
