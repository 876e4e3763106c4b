/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the status line of a run.  Rank 0 alone shows one.
 *
 *     step 120/400  loss 2.4131  24.3 k tokens/s  38.1 GFLOP/s, 31 % of peak  ~0:01:12 left
 */
#include "train/train_inside.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "base/status.h"
#include "base/tick.h"
#include "base/units.h"

enum { STEPS = 64, SPACE = 200 }; /* STEPS: for rates and the remaining time */
static const double EACH_S = 0.5;

struct train_progress {
    double took_s[STEPS];
    int64_t tokens[STEPS];
    int64_t steps;        /* counted so far; the newest STEPS are kept */
    double last_s, due_s; /* when the last step ended; when a line may be written again */
    struct status line;
};

void train_progress_open(struct train *t)
{
    if (!t->run->progress || !t->run->talk)
        return;
    t->progress = mem_new(1, sizeof *t->progress);
    *t->progress = (struct train_progress){.last_s = tick_now_s(), .line.out = t->run->talk};
}

void train_progress_clear(struct train *t)
{
    if (t->progress)
        status_show(&t->progress->line, "");
}

void train_progress_close(struct train *t)
{
    train_progress_clear(t);
    mem_free(t->progress);
    t->progress = NULL;
}

int train_progress_step(struct train *t, const struct engine_report *r)
{
    struct train_progress *p = t->progress;
    double now = tick_now_s();

    if (!p)
        return 0;
    int at = (int)(p->steps++ % STEPS);
    p->took_s[at] = now - p->last_s;
    p->tokens[at] = r->tokens;
    p->last_s = now;
    return now >= p->due_s;
}

void train_progress_show(struct train *t, const struct engine_report *r)
{
    struct train_progress *p = t->progress;
    char text[SPACE] = "", share[32] = "";
    double took_s[STEPS], sum_s = 0, tokens = 0;
    struct units rate;

    if (!p || p->last_s < p->due_s)
        return;
    p->due_s = p->last_s + EACH_S;
    int kept = p->steps < STEPS ? (int)p->steps : STEPS;
    for (int i = 0; i < kept; i++) {
        tokens += (double)p->tokens[i];
        sum_s += p->took_s[i];
    }
    memcpy(took_s, p->took_s, sizeof took_s);
    /* Uses the median step, so that one checkpoint does not distort the estimate. */
    double left_s = (t->settings.steps - (double)t->step) * stats_median(took_s, kept);
    int64_t left = (int64_t)fmin(left_s, 1e15);
    if (t->run->peak > 0)
        snprintf(share, sizeof share, ", %.0f %% of peak", 100 * train_mfu(t, r));
    snprintf(text, sizeof text,
             "step %" PRId64 "/%.0f  loss %.4f  %s tokens/s  %.1f GFLOP/s%s  ~%" PRId64
             ":%02d:%02d left%s",
             t->step, t->settings.steps, r->loss, units_count(&rate, tokens / sum_s),
             train_flops_per_s(t, r) * 1e-9, share, left / 3600, (int)(left / 60 % 60),
             (int)(left % 60), r->skipped ? "  skipped" : "");
    status_show(&p->line, text);
}
