/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares two plans. */
#include "plan/plan_measured.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "base/units.h"

enum { SETTINGS = 26 };

struct settings { /* a plan's settings as texts */
    const char *name[SETTINGS];
    char *text[SETTINGS]; /* owned */
    int count;
};

__attribute__((format(printf, 3, 4))) static void
compare_add(struct settings *s, const char *name, const char *format, ...)
{
    size_t bytes;
    va_list args;

    assert(s->count < SETTINGS);
    FILE *f = mem_stream(&s->text[s->count], &bytes);
    s->name[s->count++] = name;
    va_start(args, format);
    vfprintf(f, format, args);
    va_end(args);
    fclose(f);
}

static void settings_init(struct settings *s, const struct plan *p)
{
    int most = 12 * p->groups.count + 64; /* "[2147483647," and so on */
    char *groups = mem_new((size_t)most, 1);

    groups_print(&p->groups, groups, most);
    s->count = 0;
    compare_add(s, "strategy", "%s", plan_strategy_name(p->strategy));
    compare_add(s, "algo", "%s", schedule_algo_name(p->algo));
    compare_add(s, "groups", "%s", groups);
    compare_add(s, "params", "%" PRId64, p->model.params);
    compare_add(s, "trainable", "%" PRId64, p->trainable);
    compare_add(s, "micro_batch", "%d", p->micro_batch);
    compare_add(s, "accum", "%d", p->accum);
    compare_add(s, "layered", "%d", plan_layered(&p->settings));
    compare_add(s, "global_batch", "%" PRId64, p->global_batch);
    compare_add(s, "seq", "%d", p->seq);
    compare_add(s, "param_type", "%s", dtype_name(p->param_type));
    compare_add(s, "wire_type", "%s", dtype_name(p->wire_type));
    compare_add(s, "grad_type", "%s", dtype_name(p->grad_type));
    compare_add(s, "moments", "%s", moments_name(p->moments));
    compare_add(s, "compute_type", "%s", dtype_name(p->compute_type));
    compare_add(s, "device", "%s", plan_device_name(p->device));
    compare_add(s, "slow_params", "%s", exec_code_name(p->slow_params));
    compare_add(s, "slow_grads", "%s", exec_code_name(p->slow_grads));
    compare_add(s, "prefetch", "%d", p->prefetch);
    compare_add(s, "buckets", "%d", p->buckets);
    if (p->keep >= PLAN_KEEP_ALL)
        compare_add(s, "keep", "all");
    else
        compare_add(s, "keep", "%d", p->keep);
    compare_add(s, "recompute", "%s", p->recompute ? "yes" : "no");
    compare_add(s, "sync_every", "%d", p->sync_every ? p->sync_every : 1);
    compare_add(s, "fragments", "%d", p->fragments);
    compare_add(s, "outer", "%s", p->outer == LETTER_I ? "I" : p->sync_every ? "G" : "-");
    compare_add(s, "chunk_bytes", "%" PRId64, p->chunk_bytes);
    mem_free(groups);
}

static void settings_release(struct settings *s)
{
    for (int i = 0; i < s->count; i++)
        mem_free(s->text[i]);
}

int plan_differ(const struct plan *a, const struct plan *b)
{
    struct settings x, y;
    int differ = 0;

    settings_init(&x, a);
    settings_init(&y, b);
    for (int i = 0; i < x.count; i++)
        differ |= strcmp(x.text[i], y.text[i]) != 0;
    settings_release(&x);
    settings_release(&y);
    return differ;
}

static const struct {
    const char *key, *name;
    size_t at; /* offset in struct plan_price */
    const char *(*text)(struct units *u, double v);
} predicted[] = {
    {"params_bytes", "parameters", offsetof(struct plan_price, memory.params), units_bytes},
    {"grads_bytes", "gradients", offsetof(struct plan_price, memory.grads), units_bytes},
    {"optimizer_bytes", "optimizer state", offsetof(struct plan_price, memory.optimizer),
     units_bytes},
    {"activations_bytes", "activations", offsetof(struct plan_price, memory.activations),
     units_bytes},
    {"buffers_bytes", "buffers", offsetof(struct plan_price, memory.buffers), units_bytes},
    {"total_bytes", "memory", offsetof(struct plan_price, memory.total), units_bytes},
    {"slow_bytes", "slow bytes", offsetof(struct plan_price, slow_bytes), units_sent},
    {"fast_bytes", "fast bytes", offsetof(struct plan_price, fast_bytes), units_sent},
    {"compute_s", "compute", offsetof(struct plan_price, compute_s), units_time},
    {"comm_s", "communication", offsetof(struct plan_price, comm_s), units_time},
    {"step_s", "step", offsetof(struct plan_price, step_s), units_time},
    {"tokens_per_s", "tokens/s", offsetof(struct plan_price, tokens_per_s), units_whole},
    {"goodput", "goodput", offsetof(struct plan_price, survival.goodput), units_plain},
    {"hours", "hours", offsetof(struct plan_price, budget.hours), plan_budget_number},
    {"cost", "cost", offsetof(struct plan_price, budget.cost), plan_budget_number},
    {"cost_per_million_tokens", "cost/Mtokens",
     offsetof(struct plan_price, budget.million_cost), plan_budget_number},
};

enum {
    PREDICTED = sizeof predicted / sizeof *predicted,
    GOODPUT = PREDICTED - 4,
    COST = PREDICTED - 2
};

/* Returns NAN if unknown, as are the last rows unless the plan has failures and a budget. */
static double value(const struct plan *p, int i)
{
    double v = *(const double *)(const void *)((const char *)&p->price + predicted[i].at);

    if (i == GOODPUT ? !(p->price.survival.mtbf_s > 0) : i > GOODPUT && !(v > 0))
        return NAN;
    return v;
}

static int has_row(const struct plan p[2], int i)
{
    return i < GOODPUT || !isnan(value(&p[0], i)) || !isnan(value(&p[1], i));
}

void plan_compare_print(const struct plan p[2], char *const names[2], FILE *out)
{
    struct settings s[2];
    struct units u;

    settings_init(&s[0], &p[0]);
    settings_init(&s[1], &p[1]);
    fprintf(out, "%-16s %16s %16s %8s\n", "", names[0], names[1], "ratio");
    for (int i = 0; i < s->count; i++)
        if (strcmp(s[0].text[i], s[1].text[i]))
            fprintf(out, "%-16s %16s %16s\n", s->name[i], s[0].text[i], s[1].text[i]);
    settings_release(&s[0]);
    settings_release(&s[1]);
    const char *currency[] = {p[0].price.budget.currency, p[1].price.budget.currency};
    int same = strcmp(currency[0], currency[1]) == 0;
    if (currency[0][0] || currency[1][0])
        fprintf(out, "%-16s %16s %16s\n", "currency", currency[0], currency[1]);
    for (int i = 0; i < PREDICTED; i++) {
        double first = value(&p[0], i), second = value(&p[1], i);
        if (!has_row(p, i))
            continue;
        fprintf(out, "%-16s %16s", predicted[i].name,
                isnan(first) ? "?" : predicted[i].text(&u, first));
        fprintf(out, " %16s", isnan(second) ? "?" : predicted[i].text(&u, second));
        if (first > 0 && second >= 0 && (same || i < COST))
            fprintf(out, " %8.3f\n", second / first);
        else
            fprintf(out, " %8s\n", "-");
    }
}

void plan_compare_print_json(const struct plan p[2], char *const names[2], FILE *out)
{
    struct jout j = jout_begin(out, "paro.plan.compare/1");

    jout_open(&j, "plans", '[');
    for (int k = 0; k < 2; k++) {
        struct settings s;
        settings_init(&s, &p[k]);
        jout_open(&j, NULL, '{');
        jout_text(&j, "file", names[k]);
        jout_open(&j, "settings", '{');
        for (int i = 0; i < s.count; i++)
            if (strspn(s.text[i], "0123456789") == strlen(s.text[i]))
                jout_num(&j, s.name[i], strtod(s.text[i], NULL));
            else
                jout_text(&j, s.name[i], s.text[i]);
        settings_release(&s);
        jout_close(&j, '}');
        jout_open(&j, "predicted", '{');
        for (int i = 0; i < PREDICTED; i++)
            if (has_row(p, i))
                jout_num(&j, predicted[i].key, value(&p[k], i));
        if (has_row(p, COST + 1))
            jout_text(&j, "currency",
                      p[k].price.budget.currency[0] ? p[k].price.budget.currency : NULL);
        jout_close(&j, '}');
        jout_close(&j, '}');
    }
    jout_end(&j);
}
