/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints single lines about a run on standard error, also without a terminal: where it resumes,
 * what it did and where its checkpoint is.  Also prints the result of a dry run.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "base/units.h"
#include "train/train_inside.h"

void train_print(const struct train *t, const char *fmt, ...)
{
    va_list args;

    if (t->world->rank || !t->run->talk)
        return;
    va_start(args, fmt);
    fputs("paro-train: ", t->run->talk);
    vfprintf(t->run->talk, fmt, args);
    fputc('\n', t->run->talk);
    va_end(args);
}

/* "; learning rate of step 11: 3e-05 -> 0.000165": from the settings before and now. */
static void print_change(const struct train *t, char *text, size_t space)
{
    struct units before, now;
    int64_t next = t->step + 1;

    text[0] = 0;
    if (!(t->was.steps > 0) || train_lr_same(&t->was, &t->settings))
        return;
    units_plain(&before, train_lr(&t->was, next));
    units_plain(&now, train_lr(&t->settings, next));
    if (strcmp(before.text, now.text))
        snprintf(text, space,
                 "; learning rate of step %" PRId64 ": %s by the old schedule -> %s", next,
                 before.text, now.text);
}

/* A step's data follow those of as many steps of the current size, whatever size they had. */
static void summary_note_batch(const struct train *t)
{
    int64_t each = plan_sequences(&t->plan.settings, t->plan.groups.ranks);

    if (t->sequences >= 0 && t->sequences != t->resumed * each)
        train_print(t,
                    "checkpoint '%s' was trained on %" PRId64 " sequences in %" PRId64
                    " steps, the plan has %" PRId64 " a step: the data continue after %" PRId64,
                    t->start, t->sequences, t->resumed, each, t->resumed * each);
}

void train_summary_resumed(const struct train *t)
{
    char change[160], lost[64] = "";

    if (t->run->resume && !t->resumed)
        train_print(t, "starts a new run: no checkpoint in '%s'", t->run->out);
    if (!t->resumed || (double)t->step >= t->settings.steps)
        return;
    summary_note_batch(t);
    print_change(t, change, sizeof change);
    if (t->lost)
        snprintf(lost, sizeof lost, "; %" PRId64 " step%s lost", t->lost,
                 t->lost == 1 ? " is" : "s are");
    if (t->local && t->local->from[0])
        train_print(t, "resumes from %s at step %" PRId64 " of %.0f%s%s", t->local->from,
                    t->step + 1, t->settings.steps, change, lost);
    else
        train_print(t, "resumes from '%s' at step %" PRId64 " of %.0f%s%s", t->start,
                    t->step + 1, t->settings.steps, change, lost);
}

/* Prints the result of --against. */
static int print_proof(struct train *t, struct err *err)
{
    struct engine_against_report r;
    char one[4], two[4], bound[80] = "bit for bit", steps[96];

    if (!t->against || t->step == t->resumed)
        return 0;
    if (engine_against_report(t->against, &r, err))
        return -1;
    strcpy(one, plan_strategy_name(t->plan.strategy));
    strcpy(two, plan_strategy_name(t->second_plan.strategy));
    if (!t->run->exact)
        snprintf(bound, sizeof bound,
                 "within the tolerance, of which exp_avg used at most %.2g", r.largest);
    if (r.compared < r.steps)
        snprintf(steps, sizeof steps,
                 "%" PRId64 " of %" PRId64 " steps (the others were not finite)", r.compared,
                 r.steps);
    else
        snprintf(steps, sizeof steps, "all %" PRId64 " steps", r.steps);
    train_print(t, "states of %s and %s agreed at %s %s", one, two, steps, bound);
    return 0;
}

/* The mean step, whose terms add up: computing, and the waits (paro-method(7), BOUND). */
static void print_bound(const struct train *t)
{
    static const enum train_metric term[] = {
        TRAIN_METRIC_step_s,       TRAIN_METRIC_compute_s,   TRAIN_METRIC_gather_wait_s,
        TRAIN_METRIC_grads_wait_s, TRAIN_METRIC_sync_wait_s, TRAIN_METRIC_idle_s};
    enum { TERMS = sizeof term / sizeof *term };
    const struct plan_price *p = &t->plan.price;
    struct units u[TERMS], bound, alone;

    if (t->world->rank || !t->summed || !(p->compute_s > 0) || !(p->bound_s > 0))
        return;
    for (int i = 0; i < TERMS; i++)
        units_time(&u[i], t->sum[term[i]] / (double)t->summed);
    train_print(t, "share of the bound %.2f: %s of %s alone, the mean step takes %s",
                p->bound_s * (double)t->summed / t->sum[TRAIN_METRIC_step_s],
                units_time(&bound, p->bound_s),
                p->bound_s > p->compute_s * (1 + 1e-6) ? "sending" : "computing", u[0].text);
    train_print(t,
                "%s = computing %s (alone %s) + waiting for parameters %s, gradients %s, new"
                " parameters %s, other ranks %s",
                u[0].text, u[1].text, units_time(&alone, p->compute_s), u[2].text, u[3].text,
                u[4].text, u[5].text);
}

int train_summary_done(struct train *t, int stopped, struct err *err)
{
    char name[40], done[128];

    if (print_proof(t, err))
        return -1;
    print_bound(t);
    train_folder_name(t->saved, name);
    if (t->step == t->resumed)
        snprintf(done, sizeof done, "done before: step %" PRId64 " of %.0f", t->step,
                 t->settings.steps);
    else if (stopped)
        snprintf(done, sizeof done,
                 "stopped after step %" PRId64 " of %.0f, --resume continues", t->step,
                 t->settings.steps);
    else if (t->step == t->resumed + 1)
        snprintf(done, sizeof done, "done: step %" PRId64 ", loss %.4f", t->step, t->loss);
    else
        snprintf(done, sizeof done, "done: steps %" PRId64 " to %" PRId64 ", loss %.4f",
                 t->resumed + 1, t->step, t->loss);
    train_print(t, "%s; checkpoint '%s/%s'", done, t->run->out, name);
    return 0;
}

/* ---- a dry run ---- */

struct need { /* needs of a rank, in bytes */
    int64_t states, buffers, host;
};

static struct need need_of(const struct train *t)
{
    struct need n = {.states = engine_state_bytes(t->engine),
                     .buffers = engine_buffer_bytes(t->engine) + train_save_bytes(t)};
    struct engine *engine[] = {t->engine, t->second};

    n.host = train_save_bytes(t);
    for (int i = 0; i < 2 && engine[i]; i++) {
        struct engine_memory m;
        engine_memory(engine[i], &m);
        n.host += m.host_bytes + (train_on_gpu(t) ? 0 : m.device_bytes);
    }
    return n;
}

/* Adds up the ranks of a host, since the system promises memory that it does not have. */
static int summary_check_host(struct train *t, const struct need *mine, int64_t available,
                              struct err *err)
{
    struct world *w = t->world;
    struct need *all = mem_new((size_t)w->node_ranks, sizeof *all);
    struct units need, have;
    double sum = 0;
    int rc = world_node_allgather(w, mine, sizeof *mine, all, err);

    for (int r = 0; r < w->node_ranks; r++)
        sum += (double)all[r].host;
    mem_free(all);
    if (rc == 0 && sum > (double)available)
        rc = err_set(err, ERR_SYS,
                     "the %d ranks of this host need %s of memory, expected at most %s, as is "
                     "available",
                     w->node_ranks, units_bytes(&need, sum),
                     units_bytes(&have, (double)available));
    return world_agree(w, rc, err);
}

/* Finds the rank that needs most. */
static int summary_find_largest(struct train *t, struct need *most, struct err *err)
{
    int ranks = t->world->ranks;
    struct need *all = mem_new((size_t)ranks, sizeof *all);
    int rc = world_allgather(t->world, most, sizeof *most, all, err);

    for (int r = 0; rc == 0 && r < ranks; r++)
        if (all[r].states + all[r].buffers > most->states + most->buffers)
            *most = all[r];
    mem_free(all);
    return rc;
}

static int64_t step_tokens(const struct plan *p)
{
    return plan_sequences(&p->settings, p->groups.ranks) * p->seq;
}

static void summary_print_json(const struct train *t, const struct need *most,
                               const char *strategy)
{
    struct jout j = {.file = t->run->lines};

    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.train.dry/1");
    jout_text(&j, "strategy", strategy);
    jout_int(&j, "ranks", t->world->ranks);
    jout_int(&j, "groups", t->plan.groups.count);
    jout_int(&j, "params", t->plan.model.params);
    jout_int(&j, "trained", t->plan.model.trained);
    jout_int(&j, "data_tokens", t->data.train);
    jout_int(&j, "step_tokens", step_tokens(&t->plan));
    jout_int(&j, "first_step", t->step + 1);
    jout_num(&j, "steps", t->settings.steps);
    jout_int(&j, "state_bytes", most->states);
    jout_int(&j, "buffer_bytes", most->buffers);
    jout_text(&j, "checkpoint", t->start);
    jout_close(&j, '}');
}

static void summary_print_text(const struct train *t, const struct need *most,
                               const char *strategy)
{
    const struct plan *p = &t->plan;
    const struct train_settings *s = &t->settings;
    struct units all, trained, states, buffers, lr, least;
    int64_t tokens = step_tokens(p);
    FILE *out = t->run->lines;
    char change[160];

    units_count(&trained, (double)p->model.trained);
    units_count(&all, (double)p->model.params);
    fprintf(out, "plan    %s on %d rank%s in %d group%s; %s, ", strategy, p->groups.ranks,
            &"s"[p->groups.ranks == 1], p -> groups.count, &"s"[p->groups.count == 1],
            p -> model.family->name);
    if (p->model.sparse.share > 0)
        fprintf(out, "%s active parameters (%s); sparse products up to %.3g %% active\n",
                trained.text, p->model.partial,
                100 * net_sparse_share(&p->model, p->compute_type));
    else
        fprintf(out, "%s of %s parameters train\n", trained.text, all.text);
    fprintf(out,
            "data    %" PRId64 " tokens in sequences of %d; %" PRId64
            " tokens a step, %.3g epochs in %.0f steps\n",
            t->data.train, p->seq, tokens, s->steps * (double)tokens / (double)t->data.train,
            s->steps);
    fprintf(out, "rate    %s, %.0f steps of warm-up", units_plain(&lr, s->lr), s->warmup);
    if (s->schedule == TRAIN_CONSTANT)
        fprintf(out, ", constant\n");
    else
        fprintf(out, ", %s to %s\n", train_schedule_name(s), units_plain(&least, s->min_lr));
    fprintf(out, "memory  %s of states and %s of buffers on the rank that needs most\n",
            units_bytes(&states, (double)most->states),
            units_bytes(&buffers, (double)most->buffers));
    print_change(t, change, sizeof change);
    if (t->resumed && (double)t->step >= s->steps)
        fprintf(out, "start   nothing to do, '%s' is of step %" PRId64 " of %.0f\n", t->start,
                t->step, s->steps);
    else if (t->resumed && t->local && t->local->from[0])
        fprintf(out, "start   step %" PRId64 " of %.0f, from %s%s\n", t->step + 1, s->steps,
                t->local->from, change);
    else if (t->resumed)
        fprintf(out, "start   step %" PRId64 " of %.0f, from '%s'%s\n", t->step + 1, s->steps,
                t->start, change);
    else if (t->start)
        fprintf(out, "start   parameters of '%s'\n", t->start);
    else
        fprintf(out, "start   fresh parameters, seed %.0f\n", s->seed);
}

int train_summary_dry(struct train *t, struct err *err)
{
    struct need need = need_of(t);

    if (summary_check_host(t, &need, t->available, err) || summary_find_largest(t, &need, err))
        return -1;
    if (t->world->rank)
        return 0;
    (t->run->json ? summary_print_json
                  : summary_print_text)(t, &need, plan_strategy_name(t->plan.strategy));
    return 0;
}
