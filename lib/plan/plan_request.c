/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the operands of paro-plan's options, and sets up the search that answers a request. */
#include "plan/plan_request.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/units.h"
#include "plan/plan_deal.h"
#include "plan/plan_measured.h"
#include "plan/plan_periods.h"
#include "plan/plan_fit.h"
#include "plan/plan_review.h"
#include "plan/plan_rows.h"
#include "plan/plan_scale.h"
#include "plan/plan_traffic.h"
#include "plan/plan_timeline.h"
#include "plan/plan_what_if.h"
#include "plan/plan_why.h"

int plan_request_global(const char *text, struct plan_request *request, struct err *err)
{
    static const char unit[] = "tokens";
    size_t n = strlen(text), u = sizeof unit - 1;
    int tokens = n > u && strcmp(text + n - u, unit) == 0;
    char *count = mem_dup(text);
    struct err ignored;

    count[tokens ? n - u : n] = 0;
    int rc = num_count(count, 1, tokens ? INT64_MAX : PLAN_BATCH_MAX, &request->global_batch,
                       &ignored);
    mem_free(count);
    request->global_tokens = tokens;
    return rc ? err_set(err, ERR_INPUT,
                        "'%s', expected a number of sequences up to %d, such as 512, or of"
                        " tokens, such as 4Mtokens",
                        text, PLAN_BATCH_MAX)
              : 0;
}

int plan_request_headroom(const char *text, double *out, struct err *err)
{
    size_t n = strlen(text);
    char *number = mem_dup(text);
    double percent = 0;
    struct err ignored;

    number[n && text[n - 1] == '%' ? n - 1 : n] = 0;
    int rc = num_f64(number, 0, 99, &percent, &ignored);
    mem_free(number);
    *out = percent / 100;
    return rc ? err_set(err, ERR_INPUT, "'%s', expected a percentage from 0 to 99", text) : 0;
}

int plan_request_trainable(const char *text, struct plan_request *request, struct err *err)
{
    static const char *const words[] = {"train=", "freeze=", "lora=", "sparse="};

    request->trainable = 0;
    request->trained_part = 1;
    request->trains = NULL;
    if (strcmp(text, "all") == 0)
        return 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(text, words[i], strlen(words[i])) == 0)
            request->trains = text;
    if (request->trains) /* known once the model is read */
        return 0;
    if (strncmp(text, "params=", 7) == 0)
        return num_count(text + 7, 1, INT64_MAX, &request->trainable, err);
    if (num_f64(text, 0, 1, &request->trained_part, err) || !(request->trained_part > 0))
        return err_set(
            err, ERR_INPUT,
            "'%s', expected all, train=PATTERN, freeze=PATTERN, lora=RANK, sparse=S, a "
            "fraction above 0 and up to 1, or params=COUNT",
            text);
    return 0;
}

int plan_request_storage(const char *text, struct plan_request *request, struct err *err)
{
    static const char all[] = "/all";
    size_t n = strlen(text), tail = sizeof all - 1;
    char *rate = mem_dup(text);
    struct err ignored;

    request->storage_all = n > tail && strcmp(text + n - tail, all) == 0;
    rate[request->storage_all ? n - tail : n] = 0;
    int rc = num_rate(rate, &request->storage_Bps, &ignored) ||
                     request->storage_Bps < TOPO_RATE_MIN_BPS ||
                     request->storage_Bps > TOPO_RATE_MAX_BPS
                 ? -1
                 : 0;
    mem_free(rate);
    return rc ? err_set(err, ERR_INPUT,
                        "'%s', expected a rate above 0 with its unit, as 2GB/s for each host or"
                        " 100GB/s/all for all together",
                        text)
              : 0;
}

int plan_request_keep(const char *text, int *out, struct err *err)
{
    struct err ignored;

    if (strcmp(text, "auto") == 0)
        *out = PLAN_REQUEST_AUTO;
    else if (plan_keep_parse(text, out, &ignored))
        return err_set(err, ERR_INPUT,
                       "'%s', expected a whole number from 0 to %d, all or auto", text,
                       PLAN_KEEP_ALL - 1);
    return 0;
}

/* Checks the settings that the model limits (the length of a sequence, the number of trainable
   parameters), and those that are only defined for models with layers. */
static int set_by_model(struct plan_case *c, const struct plan_request *request,
                        struct err *err)
{
    const struct model *m = c->model;

    if (m->unit && c->seq > m->max_seq)
        return err_set(err, ERR_MISMATCH,
                       "--seq: %d, expected at most %" PRId64
                       ", the maximum of model '%s' (%s)",
                       c->seq, m->max_seq, request->model, model_max_seq_key(m));
    if (request->trainable > m->params)
        return err_set(err, ERR_MISMATCH,
                       "--trainable: %" PRId64 " parameters, expected at most the %" PRId64
                       " of model '%s'",
                       request->trainable, m->params, request->model);
    if (!request->trainable && request->trained_part < 1)
        c->trainable = llround(request->trained_part * (double)m->params);
    if (!m->unit && (request->keep || request->recompute || request->layered != 1))
        return err_set(err, ERR_INPUT,
                       "--%s needs a model's config.json: 'params=' has no layers",
                       request->keep        ? "keep"
                       : request->recompute ? "recompute"
                                            : "layered");
    if (c->trainable < 1)
        return err_set(err, ERR_MISMATCH, "--trainable: less than one parameter of %" PRId64,
                       m->params);
    return 0;
}

/* Sets micro-batch and accumulation.  With a global batch a missing one is derived from it;
   without one it is 1. */
static int set_batch(struct plan_search *s, const struct plan_request *request, struct err *err)
{
    int global = request->global_batch > 0, layers = s->at.model->unit != NULL;

    s->auto_batch = request->micro_batch == 0 || (request->micro_batch < 0 && global && layers);
    s->auto_accum = request->accum <= 0 && global;
    s->at.micro_batch = request->micro_batch > 0 ? request->micro_batch : 1;
    s->at.accum = request->accum > 0 ? request->accum : 1;
    int64_t sequences =
        request->global_tokens ? request->global_batch / s->at.seq : request->global_batch;
    if (global && (sequences < 1 || sequences > PLAN_BATCH_MAX))
        return err_set(err, ERR_INPUT,
                       "--global-batch: %" PRId64 " tokens are %" PRId64
                       " sequences of %d, expected from 1 to %d",
                       request->global_batch, sequences, s->at.seq, PLAN_BATCH_MAX);
    s->at.global_batch = sequences;
    return 0;
}

/*
 * Frozen parameters have no f32 master copy: their values at rest are the only ones, so f32 and
 * f16 inputs need f32.  Masks are exact in bf16.
 */
static enum dtype param_type(enum dtype requested, const struct model *m)
{
    if ((int)requested != PLAN_REQUEST_AUTO)
        return requested;
    return m->partial && !(m->sparse.share > 0) && strcmp(m->dtype, "bf16") ? DTYPE_F32
                                                                            : DTYPE_BF16;
}

static int set_search(struct plan_search *s, const struct plan_request *request,
                      const struct plan_boundaries *groups, const struct model *model,
                      struct err *err)
{
    *s = (struct plan_search){
        .groups = groups,
        .storage_Bps = request->storage_Bps,
        .storage_all = request->storage_all,
        .auto_keep = request->keep == PLAN_REQUEST_AUTO,
        .auto_recompute = request->recompute == PLAN_REQUEST_AUTO,
        .auto_layered = request->layered == PLAN_REQUEST_AUTO,
        .auto_type = (int)request->compute_type == PLAN_REQUEST_AUTO,
        .fixed = request->fixed,
        .strategy = request->strategy,
    };
    struct plan_case *c = &s->at;
    plan_case_init(c, groups->whole, model);
    int64_t trainable = request->trainable ? request->trainable : c->trainable;
    int seq = request->seq ? request->seq : c->seq;
    c->settings = request->settings;
    c->algo = request->algo;
    c->trainable = trainable;
    c->seq = seq;
    c->param_type = param_type(request->param_type, model);
    c->wire_type = param_type(request->wire_type, model);
    if ((int)request->compute_type < 0)
        c->compute_type = groups->whole->compute_type;
    if ((int)request->device == PLAN_REQUEST_FABRIC)
        c->device = groups->whole->device == TOPO_CUDA ? DEVICE_CUDA : DEVICE_CPU;
    c->keep = request->keep > 0 ? request->keep : 0;
    c->recompute = request->recompute > 0;
    c->layered = request->layered > 0 ? request->layered : 1;
    if (request->mtbf_h > 0)
        s->at.failures = (struct plan_failures){
            .mtbf_s = 3600 * request->mtbf_h,
            .restart_s = request->restart_s,
            .storage_Bps = PLAN_STORAGE_BPS, /* unless the search sets it */
            .local_Bps = request->local_Bps,
            .copies = request->copies};
    c->budget = request->budget;
    c->budget.tokens = (double)request->tokens;
    s->at.memory_bytes *=
        1 - (isnan(request->headroom) ? PLAN_REQUEST_HEADROOM : request->headroom);
    if (request->memory_bytes)
        s->at.memory_bytes = (double)request->memory_bytes;
    if (request->fragments > request->sync_every && request->sync_every > 0)
        return err_set(err, ERR_INPUT,
                       "--fragments %d with --sync-every %d, expected at most as many",
                       request->fragments, request->sync_every);
    if (request->sync_every && (model->sparse.share > 0 || request->slow_params))
        return err_set(err, ERR_INPUT, "--sync-every with %s, expected one of them",
                       model->sparse.share > 0 ? "--trainable sparse" : "--slow-params");
    if (request->outer == LETTER_G && request->slow_grads)
        return err_set(err, ERR_INPUT, "--slow-grads %s with --outer G, expected --outer I",
                       exec_code_name(request->slow_grads));
    int params =
        c->slow_params && !exec_code_of(c->slow_params, plan_params_wire(&c->settings));
    if (params ||
        (c->slow_grads && !c->sync_every && !exec_code_of(c->slow_grads, c->wire_type)))
        return err_set(err, ERR_INPUT,
                       "--slow-%s bf16 with bf16 inside groups, expected same or int8",
                       params ? "params" : "grads");
    if (model->sparse.share > 0 && (s->at.device != DEVICE_CPU || s->at.slow_params))
        return err_set(err, ERR_INPUT,
                       s->at.slow_params
                           ? "--trainable sparse with --slow-params, which would round masks"
                           : "--trainable sparse on a GPU, expected --device cpu");
    return set_by_model(&s->at, request, err) || set_batch(s, request, err) ? -1 : 0;
}

/* Appends a line. */
static void add_note(char note[PLAN_NOTE], const char *format, ...)
{
    size_t n = strlen(note);
    va_list args;

    va_start(args, format);
    if (n)
        note[n++] = '\n';
    vsnprintf(note + n, PLAN_NOTE - n, format, args);
    va_end(args);
}

/*
 * Rates and memory belong to the device that the fabric was measured with.  A file states it; a
 * synthetic fabric takes the requested one.
 */
static int check_measured(struct plan_case *c, const struct plan_request *request,
                          const struct topo *t, char note[PLAN_NOTE], struct err *err)
{
    const char *of = topo_device_name(t->device), *is = plan_device_name(c->device);
    enum dtype type = topo_flops_in(t, c->compute_type) > 0 ? c->compute_type : t->compute_type;
    int other = strcmp(of, is) != 0;

    if ((int)request->compute_type == PLAN_REQUEST_AUTO && request->what != PLAN_REQUEST_SCALE)
        add_note(note, "compute type %s: %s", dtype_name(c->compute_type),
                 !(t->other_flops > 0) ? "the fabric has no rate of another type"
                 : c->compute_type == DTYPE_BF16
                     ? "faster than f32; paro-plan(1) states the loss"
                     : "bf16 is not faster");
    if (t->doubt[0])
        add_note(note, "doubt of the fabric: %s", t->doubt);
    if (strncmp(request->topo, "synth:", 6) == 0 ||
        (!other && (c->compute_type == type || !(t->flops > 0))))
        return 0;
    if (other && !request->memory_bytes && t->memory_bytes)
        return err_set(err, ERR_INPUT,
                       "--device: %s, but the fabric's memory (%" PRId64
                       " bytes per rank) is that of its %s, expected --mem",
                       is, t->memory_bytes, of);
    snprintf(c->rates_of, sizeof c->rates_of, "%s %s", of, dtype_name(type));
    add_note(
        note,
        "the fabric was measured on %s in %s; times on %s in %s are predicted with those rates",
        of, dtype_name(type), is, dtype_name(c->compute_type));
    return 0;
}

/*
 * Notes figures that neither fabric nor model states and the answer needs; a device in doubt,
 * because synth: means a CPU by default and ranks need different memory on a GPU; and, if
 * failures are priced, the storage rate, which decides between strategies and copies.
 */
static void note_unknown(const struct plan_case *c, const struct plan_request *request,
                         char note[PLAN_NOTE])
{
    const double most = 1e13; /* two sockets of present-day cores with bf16 matrix units */
    double flops = topo_flops_in(c->topo, c->compute_type);
    const char *memory = c->memory_bytes <= 0 ? "memory per rank (--mem)"
                         : !c->model->unit    ? "activations (a bare number of parameters)"
                                              : NULL;
    int rateless = !(c->topo->flops > 0), hosts = plan_hosts_of(c->topo).count;
    struct units host, all;

    if (memory || rateless)
        add_note(note, "unknown: %s%s%s%s", memory ? memory : "",
                 memory ? ", so nothing is known to fit" : "", memory && rateless ? "; " : "",
                 rateless
                     ? "compute rate (paro-topo -m MODEL, or synth:...,flops=), so times are "
                       "of communication alone"
                     : "");
    if (c->device == DEVICE_CPU && flops > most)
        add_note(note,
                 "doubt: a cpu of %.4g TFLOP/s in %s, expected --device cuda, or device=cuda"
                 " in the fabric, for a GPU",
                 flops / 1e12, dtype_name(c->compute_type));
    if (request->mtbf_h > 0 && !(request->storage_Bps > 0))
        add_note(note,
                 "assumed: shared storage takes %s from each host, %s from all %d (--storage)",
                 units_rate(&host, PLAN_STORAGE_BPS),
                 units_rate(&all, PLAN_STORAGE_BPS * hosts), hosts);
}

/* Notes how the ranks share the micro-batches, if not equally. */
static void request_note_batch(const struct plan_search *s, char note[PLAN_NOTE])
{
    struct plan_case even = s->at;
    int ranks = even.topo->groups.ranks, equal, *count = plan_case_counts(&s->at, &equal);
    int64_t micros = plan_micro_batches(&even.settings, ranks);
    struct plan_timeline now, then;
    struct units t[2];

    if (equal && micros % ranks)
        add_note(note,
                 "%" PRId64 " micro-batches on %d ranks: %" PRId64 " have %" PRId64
                 ", the others one less",
                 micros, ranks, micros % ranks, micros / ranks + 1);
    if (!equal && s->best >= 0) {
        plan_deal(NULL, ranks, micros, count);
        even.counts = count;
        even.accum = count[0];
        plan_timeline_of(&s->at, &s->list[s->best], NULL, &now);
        plan_timeline_of(&even, &s->list[s->best], NULL, &then);
        add_note(note,
                 "%" PRId64 " micro-batches by the ranks' compute rates: a step of %s, with"
                 " equal numbers %s",
                 micros, units_time(&t[0], now.step_s), units_time(&t[1], then.step_s));
        plan_timeline_release(&now);
        plan_timeline_release(&then);
    }
    mem_free(count);
}

/* Whether an answer prints the strategies that do not fit, too, under the list's head. */
static int is_about_all(const struct plan_request *request)
{
    return request->what == PLAN_REQUEST_LIST || request->what == PLAN_REQUEST_WHY ||
           request->what == PLAN_REQUEST_WHAT_IF || request->what == PLAN_REQUEST_REVIEW;
}

static int print_answer(const struct plan_search *s, const struct plan_advice *advice,
                        struct model *model, const struct plan_request *request, FILE *out,
                        struct err *err)
{
    struct plan plan;
    struct plan_why why;
    struct plan_changes changes;
    struct plan_timeline t;
    int rc = 0;

    if (s->best < 0 && !is_about_all(request))
        return 0; /* nothing found to which it applies */
    switch (request->what) {
    case PLAN_REQUEST_LIST:
        if (request->json)
            plan_search_print_json(s, advice, out);
        else
            plan_search_print(s, out);
        return 0;
    case PLAN_REQUEST_WHY:
        plan_why(s, &why);
        (request->json ? plan_why_print_json : plan_why_print)(s, &why, out);
        return 0;
    case PLAN_REQUEST_WHAT_IF:
        plan_what_if(s, &changes);
        (request->json ? plan_what_if_print_json : plan_what_if_print)(s, &changes, out);
        return 0;
    case PLAN_REQUEST_PLAN: /* moves the model into the plan */
        plan_init(&plan, s, model);
        (request->json ? plan_print_json : plan_print)(&plan, out);
        plan_release(&plan);
        return 0;
    case PLAN_REQUEST_EMIT:
        (request->json ? plan_emit_json : plan_emit)(s, request->target, out);
        return 0;
    case PLAN_REQUEST_REVIEW:
        plan_review_print(request->reviewed, s, request->json, out);
        return 0;
    case PLAN_REQUEST_STEPS:
        return plan_rows_print(s, request->json, out, err);
    case PLAN_REQUEST_TIMELINE:
        plan_timeline_of(&s->at, &s->list[s->best], NULL, &t);
        if (request->svg)
            rc = plan_timeline_draw(s, &t, out, err);
        else
            (request->json ? plan_timeline_print_json : plan_timeline_print)(s, &t, out);
        plan_timeline_release(&t);
        return rc;
    default: /* scale runs its own searches; the others have neither model nor fabric */
        return 0;
    }
}

static int answer_compare(const struct plan_request *request, FILE *out, int *found,
                          struct err *err)
{
    struct plan p[2] = {0};
    int rc = plan_read(&p[0], request->plan[0], err) || plan_read(&p[1], request->plan[1], err)
                 ? -1
                 : 0;

    if (rc == 0)
        (request->json ? plan_compare_print_json : plan_compare_print)(p, request->plan, out);
    *found = 1;
    plan_release(&p[0]);
    plan_release(&p[1]);
    return rc;
}

static int answer_scale(const struct plan_request *request, const struct plan_search *requested,
                        FILE *out, int *found, struct err *err)
{
    struct plan_scale s = {.from = request->scale[0], .to = request->scale[1]};
    struct plan_advice advice;

    if (plan_scale_run(&s, requested, err))
        return -1;
    (request->json  ? plan_scale_print_json
     : request->svg ? plan_scale_draw
                    : plan_scale_print)(&s, out);
    *found = plan_scale_found(&s);
    if (*found)
        return 0;
    struct plan_search last = s.point[s.points - 1].search;
    plan_fit(requested, &advice);
    last.groups = requested->groups;
    plan_fit_refuse(&last, &advice, err);
    return 0;
}

static int answer_search(const struct plan_request *request, struct plan_search *s,
                         struct model *model, FILE *out, char note[PLAN_NOTE], int *found,
                         struct err *err)
{
    struct plan_advice advice = {.relief = {0}};
    char text[PLAN_PREFERRED], gain[PLAN_PERIODS_GAIN], budget[PLAN_BUDGET_TEXT];

    if (plan_periods_search(s, gain, err) ||
        check_measured(&s->at, request, plan_search_whole(s), note, err))
        return -1;
    if (gain[0])
        add_note(note, "%s", gain);
    *found = s->best >= 0;
    if (!*found) {
        plan_fit(s, &advice);
        plan_fit_refuse(s, &advice, err);
    }
    int in_head = !request->json && is_about_all(request);
    if (!in_head && plan_preferred(s, text)[0])
        add_note(note, "%s", text);
    if (!in_head && *found && plan_budget_print(&s->list[s->best], budget)[0])
        add_note(note, "%s", budget);
    request_note_batch(s, note);
    return print_answer(s, &advice, model, request, out, err);
}

static int answer_fabric(const struct plan_request *request, const struct topo *topo,
                         struct model *model, FILE *out, char note[PLAN_NOTE], int *found,
                         struct err *err)
{
    struct plan_boundaries groups;
    struct plan_search s;

    if (plan_boundaries_init(&groups, topo, request->group_level, err))
        return -1;
    int rc = set_search(&s, request, &groups, model, err);
    note_unknown(&s.at, request, note);
    if (rc == 0 && request->what == PLAN_REQUEST_SCALE)
        rc = check_measured(&s.at, request, topo, note, err) ||
                     answer_scale(request, &s, out, found, err)
                 ? -1
                 : 0;
    else if (rc == 0)
        rc = answer_search(request, &s, model, out, note, found, err);
    if (rc || !*found)
        note[0] = 0; /* the error states the problem */
    plan_boundaries_release(&groups);
    return rc;
}

/* Answers for the settings of another tool's file. */
static int answer_review(const struct plan_request *request, const struct topo *topo,
                         struct model *model, FILE *out, char note[PLAN_NOTE], int *found,
                         struct err *err)
{
    struct plan_request with = *request;
    struct plan_review review;

    if (plan_review_read(&review, request->review, err))
        return -1;
    with.fixed = 1;
    with.reviewed = &review;
    int rc = err_any(plan_review_apply(&review, topo, model, &with.settings, &with.strategy,
                                       &with.group_level, err) ||
                     answer_fabric(&with, topo, model, out, note, found, err));
    plan_review_release(&review);
    return rc;
}

int plan_request_answer(const struct plan_request *request, FILE *out, char note[PLAN_NOTE],
                        int *found, struct err *err)
{
    struct model model = {0};
    struct topo topo = {0};

    note[0] = 0;
    if (request->what == PLAN_REQUEST_CHECK) {
        struct plan_check check;
        if (plan_check(request->log, request->plan[0], &check, err))
            return -1;
        if (request->json)
            plan_check_print_json(&check, out);
        else
            plan_check_print(&check, request->log, request->plan[0], out);
        *found = !check.differs;
        if (!*found)
            plan_check_refuse(&check, err);
        return 0;
    }
    if (request->what == PLAN_REQUEST_COMPARE)
        return answer_compare(request, out, found, err);
    int inputs = !strcmp(request->model, "-") + !strcmp(request->topo, "-");
    if (request->review && inputs + !strcmp(request->review, "-") > 1)
        return err_set(err, ERR_INPUT,
                       "several of the configuration, the model and the fabric from standard"
                       " input, expected one (--review, -m, -i)");
    if (inputs > 1)
        return err_set(err, ERR_INPUT,
                       "both the model and the fabric from standard input, "
                       "expected one of them from a file (-m, -i)");
    if (request->what == PLAN_REQUEST_WHAT_IF && request->fixed)
        return err_set(err, ERR_INPUT,
                       "--what-if and --strategy, expected one of them: "
                       "no other can win where one is requested");
    if (model_read(&model, request->model, err))
        return -1;
    int rc = 0;
    if (request->trains && model_train(&model, request->trains, err))
        rc = err_prefix(err, "--trainable: ");
    if (rc == 0)
        rc = topo_read(&topo, request->topo, err);
    if (rc == 0)
        rc = (request->review ? answer_review : answer_fabric)(request, &topo, &model, out,
                                                               note, found, err);
    topo_release(&topo);
    model_release(&model);
    return rc;
}
