/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows a predicted step as a table, as JSON and as a drawing.  All ranks are alike. */
#include <math.h>
#include <stdlib.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "base/units.h"
#include "plan/plan_timeline.h"

/* JSON names of a lane and of its transfers; the name of its work for people. */
static const struct {
    const char *lane_id, *what_id, *name;
} lanes[STEP_LANES] = {[STEP_GATHER] = {"gathers", "gather", "gather"},
                       [STEP_REDUCE] = {"reduces", "reduce", "reduce"},
                       [STEP_CONVERT] = {"boundaries", "boundary", "conversion"},
                       [STEP_SYNC] = {"syncs", "sync", "param sync"},
                       [STEP_OUTER_REDUCE] = {"outer_reduces", "outer reduce", "outer reduce"},
                       [STEP_OUTER_GATHER] = {"outer_gathers", "outer gather", "outer gather"},
                       [STEP_COMPUTE] = {"compute", NULL, "compute"}};

static const char *kind_name(const struct plan_piece *p)
{
    return step_kind_name(&(struct step_row){.lane = p->lane, .kind = (int)p->kind});
}

static const char *what_id(const struct plan_piece *p)
{
    return p->kind == STEP_TRANSFER     ? lanes[p->lane].what_id
           : p->kind == STEP_ACCUMULATE ? "gradient accumulated"
                                        : kind_name(p);
}

static const char *timeline_draw_name_of(const struct plan_piece *p)
{
    return p->kind == STEP_TRANSFER ? lanes[p->lane].name : kind_name(p);
}

static const char *timeline_draw_unit_name(const struct model *m, int unit)
{
    return m->unit ? m->unit[unit].name : "all";
}

static const char *compute_text(const struct plan_search *s, const struct plan_timeline *t,
                                struct units *u)
{
    return s->at.topo->flops > 0 ? units_time(u, t->compute_s) : "unknown";
}

void plan_timeline_add(const struct plan_timeline *t, const struct model *m,
                       struct svg_timeline *picture, int rank)
{
    for (int i = 0; i < t->pieces; i++) {
        const struct plan_piece *p = &t->piece[i];
        struct step_row row = {.lane = p->lane, .kind = (int)p->kind};
        step_draw_bar(picture, (struct step_bar){.rank = rank,
                                                 .row = &row,
                                                 .start_s = p->start_s,
                                                 .end_s = p->end_s,
                                                 .unit = timeline_draw_unit_name(m, p->unit),
                                                 .item = i});
    }
}

void plan_timeline_tip(const struct plan_timeline *t, const struct model *m,
                       const struct svg_bar *bar, char *text, size_t space)
{
    const struct plan_piece *p = &t->piece[bar->item];
    struct units from, took;
    char more[32] = "";

    if (bar->count > 1)
        snprintf(more, sizeof more, " and %d more", bar->count - 1);
    snprintf(text, space, "%s %.80s%s: %s, starts at %s", timeline_draw_name_of(p),
             timeline_draw_unit_name(m, p->unit), more,
             units_time(&took, bar->end_s - bar->start_s), units_time(&from, bar->start_s));
}

struct tips {
    const struct plan_timeline *line;
    const struct model *model;
};

static void timeline_draw_tip_of(const void *of, const struct svg_bar *bar, char *text,
                                 size_t space)
{
    const struct tips *tips = of;

    plan_timeline_tip(tips->line, tips->model, bar, text, space);
}

int plan_timeline_draw(const struct plan_search *s, const struct plan_timeline *t, FILE *out,
                       struct err *err)
{
    const struct plan_case *c = &s->at;
    const struct svg_row row = {.name = "every rank"};
    struct tips tips = {t, c->model};
    struct units step, compute, waited, u;
    struct svg_timeline p = {.row = &row,
                             .rows = 1,
                             .end_s = t->walked_s,
                             .tip = timeline_draw_tip_of,
                             .tip_of = &tips};

    snprintf(p.title, sizeof p.title, "%s: predicted step, from update to update",
             plan_strategy_name(s->list[s->best].strategy));
    int n = snprintf(
        p.note, sizeof p.note,
        "%s parameters, %d ranks, micro-batch %d x %d, accum %d: step %s, compute only %s, "
        "waiting %s",
        units_count(&u, (double)c->model->params), c->topo->groups.ranks, c->micro_batch,
        c->seq, c->accum, units_time(&step, t->step_s), compute_text(s, t, &compute),
        units_time(&waited, t->waited_s));
    if (t->left_out)
        snprintf(p.note + n, sizeof p.note - (size_t)n,
                 "\n%d micro-steps like the second to last are omitted", t->left_out);
    plan_timeline_add(t, c->model, &p, 0);
    int rc = step_draw(&p, out, err);
    svg_timeline_release(&p);
    return rc;
}

/* By start time, then by the order of their ends. */
static int timeline_draw_by_begin(const void *a, const void *b)
{
    const struct plan_piece *x = *(const struct plan_piece *const *)a;
    const struct plan_piece *y = *(const struct plan_piece *const *)b;

    if (x->start_s != y->start_s)
        return x->start_s > y->start_s ? 1 : -1;
    return (x > y) - (x < y);
}

void plan_timeline_print(const struct plan_search *s, const struct plan_timeline *t, FILE *out)
{
    const struct plan_piece **piece = mem_new((size_t)t->pieces + 1, sizeof *piece);
    struct units step, compute, waited, bound;

    for (int i = 0; i < t->pieces; i++)
        piece[i] = &t->piece[i];
    qsort(piece, (size_t)t->pieces, sizeof *piece, timeline_draw_by_begin);
    fprintf(out, "%s: predicted step %s, compute only %s, waiting %s, bound %s (%.2f)\n",
            plan_strategy_name(s->list[s->best].strategy), units_time(&step, t->step_s),
            compute_text(s, t, &compute), units_time(&waited, t->waited_s),
            units_time(&bound, t->bound_s), t->bound_s / t->step_s);
    if (t->left_out)
        fprintf(out, "%d micro-steps like the second to last are omitted\n", t->left_out);
    fprintf(out, "%12s %12s %-11s %-16s %6s  %s\n", "start ms", "end ms", "lane", "operation",
            "micro", "unit");
    for (int i = 0; i < t->pieces; i++) {
        char micro[16] = "-";
        if (piece[i]->micro >= 0)
            snprintf(micro, sizeof micro, "%d", piece[i]->micro);
        fprintf(out, "%12.3f %12.3f %-11s %-16s %6s  %s\n", 1e3 * piece[i]->start_s,
                1e3 * piece[i]->end_s, lanes[piece[i]->lane].name,
                timeline_draw_name_of(piece[i]), micro,
                timeline_draw_unit_name(s->at.model, piece[i]->unit));
    }
    mem_free(piece);
}

void plan_timeline_print_json(const struct plan_search *s, const struct plan_timeline *t,
                              FILE *out)
{
    struct jout j = jout_begin(out, "paro.plan.timeline/1");

    jout_text(&j, "strategy", plan_strategy_name(s->list[s->best].strategy));
    jout_num(&j, "step_s", t->step_s);
    jout_num(&j, "compute_s", s->at.topo->flops > 0 ? t->compute_s : NAN);
    jout_num(&j, "comm_s", t->comm_s);
    jout_num(&j, "waited_s", t->waited_s);
    jout_num(&j, "bound_s", t->bound_s);
    jout_int(&j, "micro_steps_left_out", t->left_out);
    jout_open(&j, "pieces", '[');
    for (int i = 0; i < t->pieces; i++) {
        const struct plan_piece *piece = &t->piece[i];
        jout_open(&j, NULL, '{');
        jout_text(&j, "lane", lanes[piece->lane].lane_id);
        jout_text(&j, "what", what_id(piece));
        jout_text(&j, "unit", timeline_draw_unit_name(s->at.model, piece->unit));
        jout_known(&j, "micro_step", piece->micro);
        jout_num(&j, "start_s", piece->start_s);
        jout_num(&j, "end_s", piece->end_s);
        jout_close(&j, '}');
    }
    jout_end(&j);
}
