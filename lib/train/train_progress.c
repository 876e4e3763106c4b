/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what the status line of a run says.  Rank 0 alone shows one.
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

enum { STEPS = 64, ROOM = 200 }; /* STEPS: those that rates and the remaining time are of */
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

static void count(struct train_progress *p, const struct engine_report *r)
{
    double now = tick_now_s();
    int at = (int)(p->steps++ % STEPS);

    p->took_s[at] = now - p->last_s;
    p->tokens[at] = r->tokens;
    p->last_s = now;
}

static int kept(const struct train_progress *p)
{
    return p->steps < STEPS ? (int)p->steps : STEPS;
}

static double tokens_per_s(const struct train_progress *p)
{
    double tokens = 0, took_s = 0;

    for (int i = 0; i < kept(p); i++) {
        tokens += (double)p->tokens[i];
        took_s += p->took_s[i];
    }
    return tokens / took_s;
}

/* "~1:02:03": by the median step, so that one checkpoint in sight is not the rest of the run.
 */
static void left_of(const struct train *t, char *text, size_t room)
{
    const struct train_progress *p = t->progress;
    double took_s[STEPS];

    memcpy(took_s, p->took_s, sizeof took_s);
    double left = (t->settings.steps - (double)t->step) * stats_median(took_s, kept(p));
    int64_t s = (int64_t)fmin(left, 1e15);
    snprintf(text, room, "~%" PRId64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60), (int)(s % 60));
}

static void write_line(struct train *t, const struct engine_report *r)
{
    char text[ROOM] = "", left[32], share[32] = "";
    struct units tokens;

    left_of(t, left, sizeof left);
    if (t->run->peak > 0)
        snprintf(share, sizeof share, ", %.0f %% of peak", 100 * train_mfu(t, r));
    snprintf(text, sizeof text,
             "step %" PRId64 "/%.0f  loss %.4f  %s tokens/s  %.1f GFLOP/s%s  %s left%s",
             t->step, t->settings.steps, r->loss,
             units_count(&tokens, tokens_per_s(t->progress)), train_flops_per_s(t, r) * 1e-9,
             share, left, r->skipped ? "  skipped" : "");
    status_show(&t->progress->line, text);
}

int train_progress_step(struct train *t, const struct engine_report *r)
{
    struct train_progress *p = t->progress;

    if (!p)
        return 0;
    count(p, r);
    return p->last_s >= p->due_s;
}

void train_progress_show(struct train *t, const struct engine_report *r)
{
    if (!t->progress || t->progress->last_s < t->progress->due_s)
        return;
    t->progress->due_s = t->progress->last_s + EACH_S;
    write_line(t, r);
}
