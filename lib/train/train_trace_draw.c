/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draws a traced step: the predicted step, some ranks with their waits, and the slowest one's
 * critical path.
 */
#include "train/train_trace.h"

#include <inttypes.h>
#include <math.h>

#include "base/mem.h"
#include "base/units.h"
#include "step/step_draw.h"

int train_trace_drawn(const struct train_trace *t, int drawn[TRAIN_TRACE_DRAWN])
{
    const struct groups *g = &t->plan->groups;
    int n = 0, there = 0;

    for (int r = 0; r < t->ranks && n < TRAIN_TRACE_DRAWN; r++) {
        if (t->ranks > TRAIN_TRACE_DRAWN && g->local_of[r] != 0 && r != t->slowest)
            continue;
        /* Reserves the last row for the slowest. */
        if (n + 1 == TRAIN_TRACE_DRAWN && !there && r < t->slowest)
            continue;
        there |= r == t->slowest;
        drawn[n++] = r;
    }
    return n;
}

struct picture {
    const struct train_trace *trace;
    int drawn[TRAIN_TRACE_DRAWN];
    int top;  /* the first rank's row: one below the predicted step */
    int bars; /* most bars of any rank: a bar's item is row * bars + bar */
};

static void add_rank(struct svg_timeline *pic, const struct picture *p, int rank, int at)
{
    const struct train_trace *t = p->trace;
    const struct train_trace_rank *r = &t->rank[rank];

    for (int i = 0; i < r->bars; i++) {
        const struct train_trace_bar *b = &r->bar[i];
        const struct step_row *row = train_trace_row(t, b->node);
        step_draw_bar(pic,
                      (struct step_bar){
                          .rank = at,
                          .row = row,
                          .waits = b->waits,
                          .waits_for = b->wait < 0 ? NULL : train_trace_row(t, b->wait),
                          .start_s = b->start_s,
                          .end_s = b->end_s,
                          .unit = row->unit < 0 ? NULL : t->plan->model.unit[row->unit].name,
                          .item = (int64_t)at * p->bars + i});
    }
    for (int i = 0; i < r->path.parts && rank == t->slowest; i++) {
        const struct step_part *part = &r->path.part[i];
        if (part->node >= 0)
            step_draw_span(pic, at, train_trace_row(t, part->node), part->start_s, part->end_s);
    }
}

static void trace_draw_tip_of(const void *of, const struct svg_bar *bar, char *text,
                              size_t space)
{
    const struct picture *p = of;
    const struct train_trace *t = p->trace;
    int row = (int)(bar->item / p->bars);
    if (row < p->top) {
        int n = snprintf(text, space, "predicted: ");
        plan_timeline_tip(t->predicted, &t->plan->model, bar, text + n, space - (size_t)n);
        return;
    }
    int rank = p->drawn[row - p->top];
    const struct train_trace_bar *v = &t->rank[rank].bar[bar->item % p->bars];
    const struct step_time *at = &t->rank[rank].time[v->node];
    struct units from, took, slow, fast;
    char name[96] = "wait", more[160] = "";

    if (!v->waits)
        train_trace_name(t, v->node, 1, name);
    if (bar->count > 1) {
        snprintf(more, sizeof more, " and %d more", bar->count - 1);
    } else if (train_trace_row(t, v->node)->lane != STEP_COMPUTE) {
        snprintf(more, sizeof more, ", %s inter-group, %s intra-group",
                 units_bytes(&slow, (double)at->slow_bytes),
                 units_bytes(&fast, (double)at->fast_bytes));
    } else if (v->wait >= 0) {
        char cause[96];
        train_trace_name(t, v->wait, 1, cause);
        snprintf(more, sizeof more, " for %s", cause);
    }
    snprintf(text, space, "rank %d: %s%s, %s, starts at %s", rank, name, more,
             units_time(&took, bar->end_s - bar->start_s), units_time(&from, bar->start_s));
}

/* Notes the step, its path, the predicted step, and the drawn ranks. */
static void trace_draw_put_note(const struct train_trace *t, int drawn, char *text,
                                size_t space)
{
    const struct train_trace_rank *r = &t->rank[t->slowest];
    const struct plan_timeline *p = t->predicted;
    FILE *f = fmemopen(text, space, "w");
    struct units u[4];

    mem_have(f, "a note");
    fprintf(f, "rank %d (%.100s)%s: step %s = compute %s + exposed %s + idle %s", t->slowest,
            r->host, t->ranks > 1 ? ", the slowest" : "", units_time(&u[0], r->step_s),
            units_time(&u[1], r->compute_s), units_time(&u[2], r->exposed_s),
            units_time(&u[3], r->idle_s));
    fprintf(f, "\ncritical path %s, the step is %.2f times that; on it:",
            units_time(&u[0], r->path.longest_s), r->step_s / r->path.longest_s);
    for (int s = 0; s < STEP_PATH_SUMS; s++)
        fprintf(f, "%s %s %.0f %%", s ? "," : "", step_path_name((enum step_path_sum)s),
                100 * r->path.sum_s[s] / r->step_s);
    if (p)
        fprintf(f, "\npredicted: step %s, compute only %s, waiting %s",
                units_time(&u[0], p->step_s), units_time(&u[1], p->compute_s),
                units_time(&u[2], p->waited_s));
    else
        fputs("\nno prediction: the plan carries no fabric with compute rates", f);
    if (p && p->left_out)
        fprintf(f, "; micro-steps %d to %d are not drawn there", p->micros - 1,
                p->micros + p->left_out - 2);
    if (drawn < t->ranks)
        fprintf(f, "\n%d of %d ranks are drawn: the first of each group and the slowest", drawn,
                t->ranks);
    fclose(f);
}

int train_trace_draw(const struct train_trace *t, FILE *out, struct err *err)
{
    struct picture p = {.trace = t, .top = t->predicted != NULL, .bars = 1};
    struct svg_row row[1 + TRAIN_TRACE_DRAWN] = {{0}};
    char shape[256];
    struct units u;
    int count = train_trace_drawn(t, p.drawn);
    struct svg_timeline pic = {.foot =
                                   "the time of each rank is 0 at the start of its own step",
                               .row = row,
                               .rows = p.top + count,
                               .tip = trace_draw_tip_of,
                               .tip_of = &p};

    groups_print(&t->plan->groups, shape, sizeof shape);
    snprintf(pic.title, sizeof pic.title, "step %" PRId64 ", %s on %s: %s", t->step,
             plan_strategy_name(t->plan->strategy), shape,
             units_time(&u, t->rank[t->slowest].step_s));
    trace_draw_put_note(t, count, pic.note, sizeof pic.note);
    if (t->predicted) {
        row[0] = (struct svg_row){.name = "predicted", .note = {"every rank"}};
        snprintf(row[0].note[1], sizeof row[0].note[1], "%s",
                 units_time(&u, t->predicted->step_s));
        plan_timeline_add(t->predicted, &t->plan->model, &pic, 0);
        pic.end_s = t->predicted->step_s;
        p.bars = t->predicted->pieces + 1;
    }
    for (int i = 0; i < count; i++)
        p.bars = t->rank[p.drawn[i]].bars > p.bars ? t->rank[p.drawn[i]].bars : p.bars;
    for (int i = 0; i < count; i++) {
        const struct train_trace_rank *r = &t->rank[p.drawn[i]];
        struct svg_row *at = &row[p.top + i];
        at->group = p.top + i;
        snprintf(at->name, sizeof at->name, "rank %d", p.drawn[i]);
        snprintf(at->note[0], sizeof at->note[0], "%.15s", r->host);
        snprintf(at->note[1], sizeof at->note[1], "%s%s", units_time(&u, r->step_s),
                 p.drawn[i] == t->slowest && count > 1 ? ", slowest" : "");
        pic.end_s = fmax(pic.end_s, r->step_s);
        add_rank(&pic, &p, p.drawn[i], p.top + i);
    }
    int rc = step_draw(&pic, out, err);
    svg_timeline_release(&pic);
    return rc;
}
