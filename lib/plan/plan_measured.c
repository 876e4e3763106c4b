/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares a run's measurements with its plan's predictions.  Bytes must be those of the plan;
 * times are shown next to each other, without a verdict.
 */
#include "plan/plan_measured.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/io.h"
#include "value/value_json_out.h"
#include "base/mem.h"
#include "base/run_folder.h"
#include "base/stats.h"
#include "base/units.h"

static const struct {
    const char *name;
    int bytes; /* 1: bytes; 0: seconds, or a rate */
} measures[PLAN_LOSS] = {{"step", 0},        {"compute", 0},       {"exposed", 0},
                         {"tokens/s", 0},    {"slow bytes", 1},    {"fast bytes", 1},
                         {"state bytes", 1}, {"other ranks", 0},   {"optimizer", 0},
                         {"gathers", 0},     {"gradient sync", 0}, {"parameter sync", 0},
                         {"save pause", 0}};

/* Bytes at rest on rank 0, which wrote the log; with ragged groups others may have more. */
static double state_bytes(const struct plan *p)
{
    struct plan_strategy s = plan_inner(&p->settings, p->strategy);
    struct layout l;
    double bytes = 0;

    layout_init(&l, &p->groups);
    l.grain = moments_grain(p->moments);
    for (int u = 0; u < p->model.units; u++) {
        int64_t elems = p->model.unit[u].trained, frozen = p->model.unit[u].elems - elems;
        bytes +=
            (double)(layout_elems(&l, s.params, 0, elems) +
                     layout_elems(&l, s.params, 0, frozen)) *
                dtype_bytes(p->param_type) +
            (double)layout_elems(&l, s.grads, 0, elems) * dtype_bytes(p->grad_type) +
            (double)plan_optimizer_bytes(&p->settings, layout_elems(&l, s.optimizer, 0, elems));
        if (p->sync_every)
            bytes += 8 * (double)layout_elems(&l, p->outer, 0, elems);
    }
    layout_release(&l);
    return bytes;
}

/* Ignores the first step, which warms up, and skipped ones, which do not update or sync. */
static int is_compared(const struct plan_log *l, int step)
{
    return step > 0 && !l->skipped[step];
}

static int compared_of(const struct plan_log *l)
{
    int n = 0;

    for (int s = 0; s < l->steps; s++)
        n += is_compared(l, s);
    return n;
}

/* On a GPU the log has the times of the host, which only launches the work. */
static void compare_parts(struct plan_check *c, const struct plan *p)
{
    static const int column[PLAN_PARTS] = {PLAN_GATHER_S,  PLAN_GRADS_S,  PLAN_SYNC_S,
                                           PLAN_COMPUTE_S, PLAN_UPDATE_S, PLAN_IDLE_S};
    struct plan_timeline line;
    struct topo fabric;
    struct err ignored;

    if (isnan(c->measured[PLAN_UPDATE_S]) || p->device != DEVICE_CPU || p->sync_every ||
        !(p->price.compute_s > 0) || plan_fabric(p, &fabric, &ignored))
        return;
    plan_timeline_of_plan(p, &fabric, &line);
    for (int i = 0; i < PLAN_PARTS; i++) {
        double was = line.part_s[i], is = c->measured[column[i]];
        if (column[i] == PLAN_COMPUTE_S)
            is -= c->measured[PLAN_UPDATE_S];
        else
            c->predicted[column[i]] = was;
        if (isnan(is) || (c->wrong >= 0 && !(fabs(is - was) > fabs(c->wrong_s))))
            continue;
        c->wrong = column[i];
        c->wrong_s = is - was;
        c->wrong_was_s = was;
    }
    plan_timeline_release(&line);
    topo_release(&fabric);
}

/* Places of a period: a turn of each fragment, or the step with the outer step and the first
   one of the next period, in which that ends; then all other steps. */
static int places_before(const struct plan *p)
{
    return p->fragments ? p->fragments : p->sync_every > 1 ? 2 : 1;
}

static int place_in(int64_t step, const struct plan *p)
{
    int last = places_before(p), turn = plan_fragment_of(&p->settings, step);

    return p->fragments ? (turn < 0 ? last : turn) : (int)fmin(step % p->sync_every, last);
}

/* The median of a measure over the compared steps, or over those at a place of their period
   (0 or more); NAN: there are none. */
static double median_of(const struct plan_log *l, int i, const struct plan *p, int place,
                        double *space)
{
    int n = 0;

    for (int s = 0; s < l->steps; s++) {
        if (is_compared(l, s) &&
            (place < 0 || place_in((int64_t)l->v[PLAN_STEP][s], p) == place) &&
            !(i == PLAN_SAVE_S && isnan(l->v[i][s])))
            space[n++] = l->v[i][s];
    }
    return n ? stats_median(space, n) : NAN;
}

/* With periods: of a period's mean step. */
static double measured_of(const struct plan_log *l, int i, const struct plan *p, double *space)
{
    int every = i == PLAN_SAVE_S ? 0 : p->sync_every, rate = i == PLAN_TOKENS_PER_S;
    double sum = 0;

    for (int place = 0, last = places_before(p); every && place <= last && !isnan(sum);
         place++) {
        int count = place < last ? 1 : every - last;
        double is = median_of(l, i, p, count ? place : -1, space);
        sum += count * (rate ? 1 / is : is);
    }
    if (every < 1 || isnan(sum))
        return median_of(l, i, p, -1, space);
    return rate ? every / sum : sum / every;
}

static void compare(struct plan_check *c, const struct plan_log *l, const struct plan *p)
{
    const struct plan_price *price = &p->price;
    const double predicted[PLAN_MEASURES] = {
        price->step_s,       price->compute_s,  fmax(price->step_s - price->compute_s, 0),
        price->tokens_per_s, price->slow_bytes, price->fast_bytes,
        state_bytes(p)};
    double *space = mem_new((size_t)l->steps, sizeof *space);

    *c = (struct plan_check){.strategy = p->strategy,
                             .steps = compared_of(l),
                             .exact = l->exact,
                             .wrong = -1,
                             .bound_s = price->compute_s > 0 ? price->bound_s : 0};
    memcpy(c->rates_of, p->rates_of, sizeof c->rates_of);
    memcpy(c->doubt, p->doubt, sizeof c->doubt);
    for (int i = 0; i < PLAN_LOSS; i++) {
        c->measured[i] = measured_of(l, i, p, space);
        c->predicted[i] =
            i < PLAN_MEASURES ? predicted[i]
            : i == PLAN_SAVE_S && !isnan(c->measured[i]) && price->survival.save_every > 0
                ? price->survival.pause_s
                : NAN;
        if (measures[i].bytes &&
            !(fabs(c->measured[i] - predicted[i]) <= PLAN_CHECK_PART * predicted[i]))
            c->differs |= 1U << i;
    }
    mem_free(space);
    compare_parts(c, p);
}

/* Returns the path of NAME in the folder of a file. */
static char *beside(const char *path, const char *name)
{
    char *dir = io_parent(path), *whole = io_join(dir, name);

    mem_free(dir);
    return whole;
}

/* Returns the strategy of the plan next to the log if it differs from p; NULL also if there is
   none. */
static const char *own_plan(const char *path, const struct plan *p)
{
    char *own = beside(path, "plan.yaml");
    struct plan its = {0};
    struct err ignored;
    const char *name = NULL;

    if (plan_read(&its, own, &ignored) == 0 && plan_differ(&its, p))
        name = plan_strategy_name(its.strategy);
    plan_release(&its);
    mem_free(own);
    return name;
}

int plan_check(const char *log, const char *plan, struct plan_check *out, struct err *err)
{
    char *path = NULL;
    struct plan_log l = {0};
    struct plan p = {0};

    if (run_folder_log(log, &path, err))
        return -1;
    char *from = plan ? mem_dup(plan) : beside(path, "plan.yaml");
    int rc = plan_read(&p, from, err);

    if (rc == 0 && !p.model.unit)
        rc = err_set(err, ERR_INPUT,
                     "plan '%s' has only a number of parameters, expected a model's config",
                     from);
    if (rc == 0)
        rc = plan_log_read(&l, path, err);
    if (rc == 0 && compared_of(&l) == 0)
        rc = err_set(err, ERR_INPUT,
                     "log '%s' has no step after the first, which is not counted", path);
    if (rc == 0)
        compare(out, &l, &p);
    if (rc == 0 && plan)
        out->own = own_plan(path, &p);
    plan_log_release(&l);
    plan_release(&p);
    mem_free(from);
    mem_free(path);
    return rc;
}

int plan_check_refuse(const struct plan_check *c, struct err *err)
{
    int i = 0;

    while (i < PLAN_MEASURES - 1 && !(c->differs >> i & 1))
        i++;
    return err_set(err, ERR_MISMATCH, "%s: %.0f measured, %.0f predicted%s", measures[i].name,
                   c->measured[i], c->predicted[i],
                   c->exact ? " (a run with --exact sends f64)" : "");
}

static const char *measured_value_text(int i, double v, char text[32])
{
    struct units u;

    if (measures[i].bytes || i == PLAN_TOKENS_PER_S)
        snprintf(text, 32, "%.0f", v);
    else
        snprintf(text, 32, "%s", units_time(&u, v));
    return text;
}

void plan_check_print(const struct plan_check *c, const char *log, const char *plan, FILE *out)
{
    char predicted[32], measured[32];

    fprintf(out,
            "plan %s%s(%s) against run %s (medians of %" PRId64 " step%s after the first)\n",
            plan ? plan : "", plan ? " " : "", plan_strategy_name(c->strategy), log, c->steps,
            c->steps == 1 ? "" : "s");
    if (c->own)
        fprintf(out, "the run was made with another plan (%s)\n", c->own);
    fprintf(out, "%-14s %14s %14s %9s\n", "", "predicted", "measured", "ratio");
    for (int i = 0; i < PLAN_LOSS; i++) {
        if (isnan(c->predicted[i]))
            continue;
        fprintf(out, "%-14s %14s %14s", measures[i].name,
                measured_value_text(i, c->predicted[i], predicted),
                measured_value_text(i, c->measured[i], measured));
        if (c->predicted[i] > 0)
            fprintf(out, " %8.1f%%", 100 * c->measured[i] / c->predicted[i]);
        else
            fprintf(out, " %9s", "-");
        fprintf(out, "%s\n", c->differs >> i & 1 ? "  differs" : "");
    }
    if (c->bound_s > 0) {
        struct units u;
        fprintf(out, "share of the bound, %s: %.2f predicted, %.2f measured\n",
                units_time(&u, c->bound_s), c->bound_s / c->predicted[PLAN_STEP_S],
                c->bound_s / c->measured[PLAN_STEP_S]);
    }
    if (c->wrong >= 0) {
        struct units u;
        fprintf(out, "most wrong: %s, %s %s than predicted", measures[c->wrong].name,
                units_time(&u, fabs(c->wrong_s)), c->wrong_s < 0 ? "less" : "more");
        if (c->wrong_was_s > 0)
            fprintf(out, " (%+.1f %%)", 100 * c->wrong_s / c->wrong_was_s);
        putc('\n', out);
    }
    if (c->rates_of[0])
        fprintf(out, "the fabric was measured for %s: times are predicted with those rates\n",
                c->rates_of);
    if (c->doubt[0])
        fprintf(out, "doubt of the fabric: %s\n", c->doubt);
    if (c->predicted[PLAN_COMPUTE_S] <= 0)
        fputs("the plan has no compute rate: its times are communication only\n", out);
    if (c->exact)
        fputs("the run used --exact, which sends f64: plans do not count that\n", out);
}

void plan_check_print_json(const struct plan_check *c, FILE *out)
{
    struct jout j = jout_begin(out, "paro.plan.check/1");

    jout_text(&j, "strategy", plan_strategy_name(c->strategy));
    jout_text(&j, "run_strategy", c->own ? c->own : plan_strategy_name(c->strategy));
    jout_bool(&j, "other_plan", c->own != NULL);
    jout_int(&j, "steps", c->steps);
    jout_bool(&j, "exact", c->exact);
    jout_bool(&j, "differs", c->differs != 0);
    jout_num(&j, "bound_s", c->bound_s > 0 ? c->bound_s : NAN);
    jout_open(&j, "terms", '[');
    for (int i = 0; i < PLAN_LOSS; i++) {
        if (isnan(c->predicted[i]))
            continue;
        jout_open(&j, NULL, '{');
        jout_text(&j, "term", plan_measure_key((enum plan_measure)i));
        jout_num(&j, "predicted", c->predicted[i]);
        jout_num(&j, "measured", c->measured[i]);
        jout_num(&j, "ratio", c->predicted[i] > 0 ? c->measured[i] / c->predicted[i] : NAN);
        jout_bool(&j, "differs", c->differs >> i & 1);
        jout_close(&j, '}');
    }
    jout_close(&j, ']');
    jout_text(&j, "rates_of", c->rates_of[0] ? c->rates_of : NULL);
    jout_text(&j, "doubt", c->doubt[0] ? c->doubt : NULL);
    jout_text(&j, "most_wrong", c->wrong >= 0 ? plan_measure_key(c->wrong) : NULL);
    jout_num(&j, "wrong_s", c->wrong >= 0 ? c->wrong_s : NAN);
    jout_num(&j, "wrong_share",
             c->wrong >= 0 && c->wrong_was_s > 0 ? c->wrong_s / c->wrong_was_s : NAN);
    jout_close(&j, '}');
}
