/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a model's evidence is shown.  Does not know how it came to be. */
#include <inttypes.h>

#include "base/utf8.h"
#include "rank/rank.h"
#include "rank/rank_blr_parts.h"

/* A column and the blank before it. */
static void put(int width, double v, FILE *f)
{
    putc(' ', f);
    rank_put_number(f, width, v);
}

static void print_exact(const char *what, double nats, int64_t rows, FILE *f)
{
    fprintf(f, "%-10s", what);
    put(16, nats, f);
    put(14, nats / (double)rows, f);
    fprintf(f, "  exact\n");
}

static void print_estimate(const char *what, const struct rank_blr_estimate *e,
                           const char *counted, int64_t rows, FILE *f)
{
    if (!e->count)
        return;
    fprintf(f, "%-10s", what);
    put(16, e->value, f);
    put(14, e->value / (double)rows, f);
    fprintf(f, "  +-");
    put(0, e->standard_error, f);
    fprintf(f, " (standard error of %" PRId64 " %s)\n", e->count, counted);
}

static void print_items(const struct rank_blr *r, FILE *f)
{
    fprintf(f, "%9s %14s %14s %14s %14s %14s\n", "row", "mean", "variance", "log_P", "L", "KL");
    for (int64_t i = 0; i < r->rows; i++) {
        const struct rank_blr_item *t = &r->item[i];
        fprintf(f, "%9" PRId64 " %14.6g %14.6g", i + 1, t->mean, t->var);
        put(14, t->log_p, f);
        put(14, t->bound, f);
        put(14, t->kl, f);
        fprintf(f, "\n");
    }
}

static void print_one(const struct rank_blr *r, FILE *f)
{
    char of_k[24];

    fprintf(f, "# ");
    utf8_put(r->name, "", f);
    fprintf(f, ": %" PRId64 " row%s of %d feature%s, prior variance %g, noise variance %g\n",
            r->rows, r->rows == 1 ? "" : "s", r->features, r->features == 1 ? "" : "s",
            r->prior_var, r->noise_var);
    fprintf(f, "%-10s %16s %14s\n", "quantity", "nats", "nats/row");
    print_exact("log_P", r->log_p, r->rows, f);
    print_exact("L", r->bound, r->rows, f);
    print_exact("KL", r->kl, r->rows, f);
    snprintf(of_k, sizeof of_k, "L_%d", r->k);
    print_estimate(of_k, &r->bound_k, "repeats", r->rows, f);
    print_estimate("L_sampled", &r->sampled, "samples", r->rows, f);
    if (r->item)
        print_items(r, f);
}

/* The value and its error, where they were asked for. */
static void print_pair(const struct rank_blr_estimate *e, FILE *f)
{
    if (!e->count)
        return;
    put(16, e->value, f);
    put(12, e->standard_error, f);
}

static void print_weight(int rank, const struct rank_blr_weight *w, FILE *f)
{
    const struct rank_blr *r = &w->result;

    fprintf(f, "%4d", rank);
    put(16, r->log_p, f);
    put(16, r->bound, f);
    put(14, r->kl, f);
    print_pair(&r->bound_k, f);
    print_pair(&r->sampled, f);
    fprintf(f, " %9.6f", w->evidence);
    put(13, w->combined, f);
    fprintf(f, " %8d  ", r->features);
    utf8_put(r->name, "", f);
    fprintf(f, "\n");
}

void rank_blr_print(const struct rank_blr_weights *w, FILE *f)
{
    const struct rank_blr *first = &w->model[0].result;

    if (w->models == 1) {
        print_one(first, f);
        return;
    }
    fprintf(f, "# %d models of %" PRId64 " row%s, prior variance %g, noise variance %g; nats\n",
            w->models, first->rows, first->rows == 1 ? "" : "s", first->prior_var,
            first->noise_var);
    fprintf(f, "%4s %16s %16s %14s", "rank", "log_P", "L", "KL");
    if (first->bound_k.count)
        fprintf(f, " %16s %12s", "L_k", "+-");
    if (first->sampled.count)
        fprintf(f, " %16s %12s", "L_sampled", "+-");
    fprintf(f, " %9s %13s %8s  model\n", "evidence", "combined", "features");
    for (int m = 0; m < w->models; m++)
        print_weight(m + 1, &w->model[m], f);
    for (int m = 0; m < w->models; m++) {
        if (!w->model[m].result.item)
            continue;
        fprintf(f, "# ");
        utf8_put(w->model[m].result.name, "", f);
        fprintf(f, "\n");
        print_items(&w->model[m].result, f);
    }
}

static void put_estimate(struct jout *j, const char *key, const struct rank_blr_estimate *e,
                         const char *counted, int k)
{
    if (!e->count) {
        jout_null(j, key);
        return;
    }
    jout_open(j, key, '{');
    if (k)
        jout_int(j, "k", k);
    jout_num(j, "value", e->value);
    jout_num(j, "standard_error", e->standard_error);
    jout_int(j, counted, e->count);
    jout_close(j, '}');
}

static void put_items(struct jout *j, const struct rank_blr *r)
{
    jout_open(j, "items", '[');
    for (int64_t i = 0; i < r->rows; i++) {
        const struct rank_blr_item *t = &r->item[i];
        jout_open(j, NULL, '{');
        jout_num(j, "mean", t->mean);
        jout_num(j, "variance", t->var);
        jout_num(j, "log_p", t->log_p);
        jout_num(j, "bound", t->bound);
        jout_num(j, "kl", t->kl);
        jout_close(j, '}');
    }
    jout_close(j, ']');
}

void rank_blr_print_json(const struct rank_blr_weights *w, FILE *f)
{
    const struct rank_blr *first = &w->model[0].result;
    struct jout j = jout_begin(f, "paro.rank.blr/1");

    jout_num(&j, "prior_var", first->prior_var);
    jout_num(&j, "noise_var", first->noise_var);
    jout_open(&j, "models", '[');
    for (int m = 0; m < w->models; m++) {
        const struct rank_blr *r = &w->model[m].result;
        jout_open(&j, NULL, '{');
        jout_text(&j, "name", r->name);
        jout_int(&j, "rows", r->rows);
        jout_int(&j, "features", r->features);
        jout_num(&j, "log_p", r->log_p);
        jout_num(&j, "bound", r->bound);
        jout_num(&j, "kl", r->kl);
        put_estimate(&j, "bound_k", &r->bound_k, "repeats", r->k);
        put_estimate(&j, "sampled", &r->sampled, "samples", 0);
        if (w->models > 1) {
            jout_num(&j, "evidence", w->model[m].evidence);
            jout_num(&j, "combined", w->model[m].combined);
        }
        if (r->item)
            put_items(&j, r);
        jout_close(&j, '}');
    }
    jout_close(&j, ']');
    jout_close(&j, '}');
}
