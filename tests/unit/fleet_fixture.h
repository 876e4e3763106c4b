/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FLEET_FIXTURE_H
#define FLEET_FIXTURE_H

/* Measures and judges synthetic fabrics, and reads files as texts. */
#include "base/mem.h"
#include "health/health_fleet.h"
#include "health/health_store.h"
#include "health/health_verdict.h"

static struct health_rules rules;

BEFORE_TESTS
{
    health_rules_init(&rules);
}

static inline struct health_fleet fleet(const char *spec, uint64_t seed)
{
    struct health_fleet f;

    assert_ok(health_fleet_parse(spec, &f, &err));
    f.seed = seed;
    return f;
}

static inline struct health_data data(const char *spec, uint64_t seed)
{
    struct health_fleet f = fleet(spec, seed);
    struct health_data d;

    if (health_fleet_run(&f, &rules, &d, &err))
        fail_msg("%s: %s", spec, err.text);
    return d;
}

/* Freed by free. */
/* noinline: GCC 12 else takes what it returns for the address of `text`. */
static __attribute__((noinline, unused)) char *store_text(const struct health_store *s,
                                                          const void *whole, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);

    health_store_print(s, whole, out);
    fclose(out);
    return text;
}

static inline int store_parse(const struct health_store *s, const char *text, size_t bytes,
                              void *whole)
{
    return health_store_parse(s, "file", text, (int64_t)bytes, whole, &err);
}

/* Cut anywhere (in steps), or one bit changed: refused, in one line. */
static __attribute__((unused)) void refuses_damage(const struct health_store *s, char *text,
                                                   size_t bytes, size_t step)
{
    char *whole = mem_new(1, s->size);

    for (size_t n = 0; n < bytes; n += step) {
        assert_error(store_parse(s, text, n, whole), ERR_INPUT);
        assert_null(strchr(err.text, '\n'));
        text[n] ^= 4;
        assert_int_equal(store_parse(s, text, bytes, whole), -1);
        text[n] ^= 4;
    }
    mem_free(whole);
}

static inline struct health_verdict judge(const struct health_data *d)
{
    struct health_verdict v;

    assert_ok(health_judge(d, &rules, &v, &err));
    return v;
}

/* A fabric and what is concluded of it; again after a change. */
struct judged {
    struct health_data d;
    struct health_verdict v;
};

static inline void rejudge(struct judged *j)
{
    health_verdict_release(&j->v);
    j->v = judge(&j->d);
}

static inline struct judged judged(const char *spec, uint64_t seed)
{
    struct judged j = {.d = data(spec, seed)};

    rejudge(&j);
    return j;
}

static inline void judged_release(struct judged *j)
{
    health_verdict_release(&j->v);
    health_data_release(&j->d);
}

/* Judged again there are so many findings, the first of this code, with these words. */
static inline void expect_findings(struct judged *j, int findings, int code, const char *words)
{
    const struct health_finding *f = (rejudge(j), j->v.finding);

    if (j->v.findings != findings ||
        (findings && (f->code != code || (words && !strstr(f->text, words)))))
        fail_msg("%d findings, HC-%d '%s', expected %d, HC-%d '%s'", j->v.findings,
                 j->v.findings ? f->code : 0, j->v.findings ? f->text : "", findings, code,
                 words ? words : "");
}

#endif
