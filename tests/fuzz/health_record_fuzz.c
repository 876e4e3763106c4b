/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of a network check's record (paro-health-record(5)).  What is taken is judged, and
 * planned for, twice to the same bytes. */
#include "store_fuzz.h"

#include "health/health_fleet.h"
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
    FILE *f = mem_stream(&text, bytes);

    health_rules_init(&rules);
    if (health_judge(d, &rules, &v, &err))
        fprintf(f, "%s\n", err.text);
    for (int i = 0; i < v.findings; i++)
        put_finding(d, &v.finding[i], f);
    if (health_plan(d, &rules, &p, &err))
        fprintf(f, "%s\n", err.text);
    for (int i = 0; i < p.rounds * p.hosts; i++) {
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

/* The record of a synthetic run, without the last line. */
static void add_record(fuzz_add_f *add, const char *spec)
{
    struct health_rules rules;
    struct health_fleet fleet;
    struct health_data d;
    size_t bytes = 0;
    struct err err;

    health_rules_init(&rules);
    int rc =
        health_fleet_parse(spec, &fleet, &err) || health_fleet_run(&fleet, &rules, &d, &err);
    assert(rc == 0);
    health_data_add_stall(&d, 0, 1, 2.5);
    HEALTH_ADD(&d.collectives) = (struct health_collective){0, d.hosts, 2, 1};
    for (int r = 0; r < d.ranks; r++)
        HEALTH_ADD(&d.gpus) = (struct health_gpu){r, "a GPU", {0, r}};
    char *text = store_print(&health_record_store, &d, &bytes);
    health_data_release(&d);
    while (text[bytes - 2] != '\n')
        bytes--;
    add(text, bytes - 1);
    free(text);
}

static void add_records(fuzz_add_f *add)
{
    add_record(add, "3,port=1:50");
    add_record(add, "3x2,rank=1.1:30,corrupt=2");
    add_record(add, "6,leaf=2,pod=2,cut=4,flap=1");
}

FUZZ_SET(.name = "health_record", .longest = 8192, .cases = 6000, .part = 30, .ends = " \n:,{}",
         .words = FUZZ_LIST("0", "-1", "3", "1e25", "1e-3", "1e999", "null", "true", "false",
                            "{", "}", "[]", "\"", "\"Bps\"", "\"src\"", "\"rank_Bps\"",
                            "\"latency_s\"", "\"wrong_words\"", "\"collective_s\"", "\"gpu\"",
                            "\"node1\"", "\\u0000", "\xff", "9223372036854775808",
                            "4294967296"),
         .more = add_records);
