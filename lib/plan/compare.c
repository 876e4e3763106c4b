/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares two plans. */
#include "plan/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/jout.h"
#include "base/mem.h"
#include "base/units.h"

enum { TEXT = 64 };

static const char *const settings[] = {
    "strategy",    "algo",         "groups", "params",      "trainable",
    "micro_batch", "accum",        "seq",    "param_type",  "wire_type",
    "grad_type",   "compute_type", "device", "slow_params", "slow_grads",
    "prefetch",    "buckets",      "keep",   "recompute",   "chunk_bytes"};

enum { SETTINGS = sizeof settings / sizeof *settings };

struct texts {
    char room[SETTINGS][TEXT];
    char *text[SETTINGS]; /* in room, but for the groups', owned */
};

static void texts_init(struct texts *t, const struct plan *p)
{
    const char *word[SETTINGS] = {
        [1] = schedule_algo_name(p->algo),     [8] = dtype_name(p->param_type),
        [9] = dtype_name(p->wire_type),        [10] = dtype_name(p->grad_type),
        [11] = dtype_name(p->compute_type),    [12] = plan_device_name(p->device),
        [13] = plan_slow_name(p->slow_params), [14] = plan_slow_name(p->slow_grads)};
    const int64_t number[SETTINGS] = {
        [3] = p->model.params, [4] = p->trainable, [5] = p->micro_batch,
        [6] = p->accum,        [7] = p->seq,       [15] = p->prefetch,
        [16] = p->buckets,     [17] = p->keep,     [19] = p->chunk_bytes};

    for (int i = 0; i < SETTINGS; i++)
        if (word[i])
            snprintf(t->room[i], TEXT, "%s", word[i]);
        else
            snprintf(t->room[i], TEXT, "%" PRId64, number[i]);
    plan_strategy_name(p->strategy, t->room[0]);
    if (p->keep >= PLAN_KEEP_ALL)
        strcpy(t->room[17], "all");
    strcpy(t->room[18], p->recompute ? "yes" : "no");
    for (int i = 0; i < SETTINGS; i++)
        t->text[i] = t->room[i];
    int most = 12 * p->groups.count + TEXT; /* "[2147483647," and so on */
    t->text[2] = mem_new((size_t)most, 1);
    groups_print(&p->groups, t->text[2], most);
}

static void texts_release(struct texts *t)
{
    mem_free(t->text[2]);
}

static const struct {
    const char *key, *name;
    const char *(*text)(struct units *u, double v);
} predicted[] = {
    {"params_bytes", "parameters", units_bytes},
    {"grads_bytes", "gradients", units_bytes},
    {"optimizer_bytes", "optimizer state", units_bytes},
    {"activations_bytes", "activations", units_bytes},
    {"buffers_bytes", "buffers", units_bytes},
    {"total_bytes", "memory", units_bytes},
    {"slow_bytes", "slow bytes", units_bytes},
    {"fast_bytes", "fast bytes", units_bytes},
    {"compute_s", "compute", units_time},
    {"comm_s", "communication", units_time},
    {"step_s", "step", units_time},
    {"tokens_per_s", "tokens/s", units_whole},
};

enum { PREDICTED = sizeof predicted / sizeof *predicted };

static void values_of(const struct plan *p, double v[PREDICTED])
{
    const struct plan_memory *m = &p->price.memory;
    const double values[PREDICTED] = {
        m->params,          m->grads,        m->optimizer,        m->activations,
        m->buffers,         m->total,        p->price.slow_bytes, p->price.fast_bytes,
        p->price.compute_s, p->price.comm_s, p->price.step_s,     p->price.tokens_per_s};

    memcpy(v, values, sizeof values);
}

void plan_compare_print(const struct plan p[2], char *const names[2], FILE *out)
{
    struct texts t[2];
    double v[2][PREDICTED];
    struct units a, b;

    for (int i = 0; i < 2; i++) {
        texts_init(&t[i], &p[i]);
        values_of(&p[i], v[i]);
    }
    fprintf(out, "%-16s %16s %16s %8s\n", "", names[0], names[1], "ratio");
    for (int i = 0; i < SETTINGS; i++)
        if (strcmp(t[0].text[i], t[1].text[i]))
            fprintf(out, "%-16s %16s %16s\n", settings[i], t[0].text[i], t[1].text[i]);
    for (int i = 0; i < PREDICTED; i++) {
        const char *first = isnan(v[0][i]) ? "?" : predicted[i].text(&a, v[0][i]);
        const char *second = isnan(v[1][i]) ? "?" : predicted[i].text(&b, v[1][i]);
        fprintf(out, "%-16s %16s %16s", predicted[i].name, first, second);
        if (v[0][i] > 0 && v[1][i] >= 0)
            fprintf(out, " %8.3f\n", v[1][i] / v[0][i]);
        else
            fprintf(out, " %8s\n", "-");
    }
    texts_release(&t[0]);
    texts_release(&t[1]);
}

void plan_compare_print_json(const struct plan p[2], char *const names[2], FILE *out)
{
    struct jout j = {.file = out, .pretty = 1};

    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.plan.compare/1");
    jout_open(&j, "plans", '[');
    for (int k = 0; k < 2; k++) {
        struct texts t;
        double v[PREDICTED];
        texts_init(&t, &p[k]);
        values_of(&p[k], v);
        jout_open(&j, NULL, '{');
        jout_text(&j, "file", names[k]);
        jout_open(&j, "settings", '{');
        for (int i = 0; i < SETTINGS; i++)
            if (strspn(t.text[i], "0123456789") == strlen(t.text[i]))
                jout_num(&j, settings[i], strtod(t.text[i], NULL));
            else
                jout_text(&j, settings[i], t.text[i]);
        texts_release(&t);
        jout_close(&j, '}');
        jout_open(&j, "predicted", '{');
        for (int i = 0; i < PREDICTED; i++)
            jout_num(&j, predicted[i].key, v[i]);
        jout_close(&j, '}');
        jout_close(&j, '}');
    }
    jout_close(&j, ']');
    jout_close(&j, '}');
}
