/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the rows of a planned step, and prints them.  rows_read.c reads them. */
#include "plan/rows.h"

#include "base/jout.h"
#include "base/mem.h"

void plan_rows_shape(struct plan_rows *r, const struct plan_bill *b, int micros)
{
    const struct plan_case *c = b->at;
    const struct plan_tally *t = b->tally;
    int units = c->model->unit ? c->model->units : 1;
    struct layout_moves moves;

    r->unit_of = mem_new((size_t)t->visits, sizeof *r->unit_of);
    r->trains = mem_new((size_t)units, sizeof *r->trains);
    r->shape = (struct step_shape){
        .units = units,
        .visits = t->visits,
        .unit_of = r->unit_of,
        .trains = r->trains,
        .first_trained = c->model->first_trained,
        .micros = micros,
        .prefetch = c->prefetch,
        .keep = c->keep,
        .buckets = c->buckets,
    };
    for (int v = 0; v < t->visits; v++)
        r->unit_of[v] = c->model->unit ? model_unit_of_visit(c->model, v) : 0;
    for (int u = 0; u < units; u++)
        r->trains[u] = t->span[t->span_of[u]].elems[PLAN_TRAINED] > 0;
    for (int k = 0; k < STEP_COMPUTE; k++)
        r->shape.has[k] = plan_traffic_moves(b->tally, b->strategy, (enum step_lane)k, &moves);
}

void plan_rows_init(struct plan_rows *r, const struct plan_bill *b, int micros)
{
    plan_rows_shape(r, b, micros);
    step_gen(&r->step, &r->shape);
}

void plan_rows_release(struct plan_rows *r)
{
    step_release(&r->step);
    mem_free(r->unit_of);
    mem_free(r->trains);
}

static const char *unit_name(const struct plan_search *s, int unit)
{
    const struct model *m = s->at.model;

    return unit < 0 ? NULL : m->unit ? m->unit[unit].name : "all";
}

static void put_number(int v, FILE *out)
{
    if (v < 0)
        fprintf(out, " %6s", "-");
    else
        fprintf(out, " %6d", v);
}

/* The plan as text; owned by the caller. */
static char *plan_text(const struct plan_search *s)
{
    struct model model = *s->at.model; /* lent, and taken back */
    struct plan plan;
    char *text;
    size_t bytes;
    FILE *f = mem_stream(&text, &bytes);

    plan_init(&plan, s, &model);
    plan_print(&plan, f);
    fclose(f);
    plan.model = (struct model){0};
    plan_release(&plan);
    return text;
}

static void print_text(const struct plan_search *s, const struct step *step, FILE *out)
{
    char name[4];

    plan_strategy_name(s->list[s->best].strategy, name);
    fprintf(out, "%s: %d rows, %d slots for gathered units, %d gradient buckets\n", name,
            step->rows, step->slots, step->buckets);
    fprintf(out, "%6s %-8s %-10s %6s %6s  %-13s %5s  %s\n", "row", "lane", "kind", "micro",
            "buffer", "after", "visit", "unit");
    for (int i = 0; i < step->rows; i++) {
        const struct step_row *r = &step->row[i];
        const char *unit = unit_name(s, r->unit);
        fprintf(out, "%6d %-8s %-10s", i, step_lane_name((enum step_lane)r->lane),
                step_kind_name(r));
        put_number(r->micro, out);
        put_number(r->buffer, out);
        for (int k = 0; k < STEP_AFTERS; k++)
            put_number(r->after[k], out);
        put_number(r->visit, out);
        fprintf(out, "  %s\n", unit ? unit : "-");
    }
    char *plan = plan_text(s);
    fprintf(out, "\n%s", plan);
    mem_free(plan);
}

static void put_known(struct jout *j, const char *key, int v)
{
    if (v < 0)
        jout_null(j, key);
    else
        jout_int(j, key, v);
}

static void print_json(const struct plan_search *s, const struct step *step, FILE *out)
{
    struct jout j = {.file = out, .pretty = 1};
    char name[4];

    plan_strategy_name(s->list[s->best].strategy, name);
    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.plan.steps/1");
    jout_text(&j, "strategy", name);
    jout_int(&j, "slots", step->slots);
    jout_int(&j, "buckets", step->buckets);
    jout_open(&j, "rows", '[');
    for (int i = 0; i < step->rows; i++) {
        const struct step_row *r = &step->row[i];
        jout_open(&j, NULL, '{');
        jout_text(&j, "lane", step_lane_name((enum step_lane)r->lane));
        jout_text(&j, "kind", step_kind_name(r));
        put_known(&j, "unit", r->unit);
        jout_text(&j, "name", unit_name(s, r->unit));
        put_known(&j, "visit", r->visit);
        put_known(&j, "micro", r->micro);
        put_known(&j, "buffer", r->buffer);
        jout_open(&j, "after", '[');
        for (int k = 0; k < STEP_AFTERS; k++)
            if (r->after[k] >= 0)
                jout_int(&j, NULL, r->after[k]);
        jout_close(&j, ']');
        jout_close(&j, '}');
    }
    jout_close(&j, ']');
    char *plan = plan_text(s);
    jout_text(&j, "plan", plan);
    mem_free(plan);
    jout_close(&j, '}');
}

int plan_rows_print(const struct plan_search *s, int json, FILE *out, struct err *err)
{
    double uses = (double)s->at.accum * 2 * (s->at.model->unit ? s->at.model->visits : 1);

    struct plan_tally tally;
    struct plan_bill b = {.at = &s->at,
                          .tally = &tally,
                          .strategy = s->list[s->best].strategy,
                          .algo = s->list[s->best].algo};
    struct plan_rows rows;

    if (uses > STEP_USES_MAX)
        return err_set(err, ERR_INPUT,
                       "--steps: %.0f uses of units in a step, expected %d at most", uses,
                       STEP_USES_MAX);
    plan_tally_init(&tally, s->at.topo, s->at.model, s->at.trainable, s->at.keep);
    plan_rows_init(&rows, &b, s->at.accum);
    int rc = step_verify(&rows.step, &rows.shape, err);
    if (rc == 0)
        (json ? print_json : print_text)(s, &rows.step, out);
    plan_rows_release(&rows);
    plan_tally_release(&tally);
    return rc;
}
