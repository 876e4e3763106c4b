/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a model's evidence is shown.  Does not know how it came to be. */
#include <inttypes.h>

#include "rank/rank_blr_parts.h"

static void print_exact(const char *what, double nats, int64_t rows, FILE *f)
{
    fprintf(f, "%-10s %16.6f %14.6f  exact\n", what, nats, nats / (double)rows);
}

static void print_estimate(const char *what, const struct rank_blr_estimate *e,
                           const char *counted, int64_t rows, FILE *f)
{
    if (e->count)
        fprintf(f, "%-10s %16.6f %14.6f  +- %.6f (standard error of %" PRId64 " %s)\n", what,
                e->value, e->value / (double)rows, e->standard_error, e->count, counted);
}

static void print_items(const struct rank_blr *r, FILE *f)
{
    fprintf(f, "%9s %14s %14s %14s %14s %14s\n", "row", "mean", "variance", "log_P", "L", "KL");
    for (int64_t i = 0; i < r->rows; i++) {
        const struct rank_blr_item *t = &r->item[i];
        fprintf(f, "%9" PRId64 " %14.6g %14.6g %14.6f %14.6f %14.6f\n", i + 1, t->mean, t->var,
                t->log_p, t->bound, t->kl);
    }
}

void rank_blr_print(const struct rank_blr *r, FILE *f)
{
    char of_k[24];

    fprintf(f, "# %s: %" PRId64 " rows of %d features, prior variance %g, noise variance %g\n",
            r->name, r->rows, r->features, r->prior_var, r->noise_var);
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

void rank_blr_weights_print(const struct rank_blr_weights *w, FILE *f)
{
    const struct rank_blr *first = &w->model[0].result;

    fprintf(f, "# %d models of %" PRId64 " rows, prior variance %g, noise variance %g; nats\n",
            w->models, first->rows, first->prior_var, first->noise_var);
    fprintf(f, "%4s %16s %16s %14s", "rank", "log_P", "L", "KL");
    if (first->bound_k.count)
        fprintf(f, " %16s %10s", "L_k", "+-");
    if (first->sampled.count)
        fprintf(f, " %16s %10s", "L_sampled", "+-");
    fprintf(f, " %9s %9s %8s  model\n", "evidence", "combined", "features");
    for (int m = 0; m < w->models; m++) {
        const struct rank_blr *r = &w->model[m].result;
        fprintf(f, "%4d %16.6f %16.6f %14.6f", m + 1, r->log_p, r->bound, r->kl);
        if (r->bound_k.count)
            fprintf(f, " %16.6f %10.6f", r->bound_k.value, r->bound_k.standard_error);
        if (r->sampled.count)
            fprintf(f, " %16.6f %10.6f", r->sampled.value, r->sampled.standard_error);
        fprintf(f, " %9.6f %9.6f %8d  %s\n", w->model[m].evidence, w->model[m].combined,
                r->features, r->name);
    }
    for (int m = 0; m < w->models; m++) {
        if (!w->model[m].result.item)
            continue;
        fprintf(f, "# %s\n", w->model[m].result.name);
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

/* A model in the list of them; the weights where there are several. */
static void put_model(struct jout *j, const struct rank_blr *r, const struct rank_blr_weight *w)
{
    jout_open(j, NULL, '{');
    jout_text(j, "name", r->name);
    jout_int(j, "rows", r->rows);
    jout_int(j, "features", r->features);
    jout_num(j, "log_p", r->log_p);
    jout_num(j, "bound", r->bound);
    jout_num(j, "kl", r->kl);
    put_estimate(j, "bound_k", &r->bound_k, "repeats", r->k);
    put_estimate(j, "sampled", &r->sampled, "samples", 0);
    if (w) {
        jout_num(j, "evidence", w->evidence);
        jout_num(j, "combined", w->combined);
    }
    if (r->item)
        put_items(j, r);
    jout_close(j, '}');
}

static struct jout begin(const struct rank_blr *r, FILE *f)
{
    struct jout j = {.file = f, .pretty = 1};

    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.rank.blr/1");
    jout_num(&j, "prior_var", r->prior_var);
    jout_num(&j, "noise_var", r->noise_var);
    jout_open(&j, "models", '[');
    return j;
}

static void end(struct jout *j)
{
    jout_close(j, ']');
    jout_close(j, '}');
}

void rank_blr_print_json(const struct rank_blr *r, FILE *f)
{
    struct jout j = begin(r, f);

    put_model(&j, r, NULL);
    end(&j);
}

void rank_blr_weights_print_json(const struct rank_blr_weights *w, FILE *f)
{
    struct jout j = begin(&w->model[0].result, f);

    for (int m = 0; m < w->models; m++)
        put_model(&j, &w->model[m].result, &w->model[m]);
    end(&j);
}
