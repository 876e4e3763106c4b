/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carries a run from its plan to its last checkpoint.  Rank 0 reads the small files and sends
 * their text to the others, so that all ranks use the same text; every error before the first
 * step is agreed by all ranks.
 */
#include "train/train_inside.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/run_folder.h"
#include "base/tick.h"

enum { SMALL_FILE = 16 << 20 };

/* Reads a text file; rejects zero bytes, after which the text would not be read. */
static int train_read_whole(const char *path, char **text, struct err *err)
{
    int64_t bytes = 0;

    if (io_read_text(path, SMALL_FILE, text, &bytes, err))
        return -1;
    if ((int64_t)strlen(*text) == bytes)
        return 0;
    mem_free(*text);
    *text = NULL;
    return err_set(err, ERR_INPUT, "'%s' has zero bytes, expected text", path);
}

/* Distributes rank 0's text of a file to every rank. */
static int share_file(struct world *w, const char *path, char **text, struct err *err)
{
    int rc = w->rank == 0 ? train_read_whole(path, text, err) : 0;

    return world_agree(w, rc, err) || world_bcast_text(w, text, err) ? -1 : 0;
}

/*
 * Path of the settings of the resumed run, or NULL; owned by the caller.  They are next to the
 * checkpoint that its path leads to; or next to that path, if `latest` leads to a checkpoint
 * that has not been renamed yet.
 */
static char *own_settings(const struct train_run *run)
{
    int own = train_is_auto(run);
    struct stat st;

    if (!run->resume || (own && !run->out))
        return NULL;
    char *step = own ? io_join(run->out, "latest") : run_folder_checkpoint(run->resume);
    char *path = io_join(step, "../settings.yaml");
    if (stat(path, &st)) {
        char *parent = io_parent(step);
        mem_free(path);
        path = io_join(parent, "settings.yaml");
        mem_free(parent);
    }
    mem_free(step);
    if (stat(path, &st) == 0)
        return path;
    mem_free(path);
    return NULL;
}

/* Uses the plan's algorithm, another, or (auto) a table: a plan has no rates to choose by. */
static int train_parse_algo(struct train *t, const char *tuning, struct err *err)
{
    const struct train_run *run = t->run;
    enum schedule_algo algo = t->plan.algo;

    if (run->algo && plan_algo_parse(run->algo, &algo, err))
        return err_prefix(err, "--algo: ");
    if (tuning && algo != SCHEDULE_AUTO)
        return err_set(err, ERR_INPUT, "--tuning without --algo=auto, expected both");
    if (!tuning && algo == SCHEDULE_AUTO)
        return err_set(err, ERR_INPUT,
                       "--algo: 'auto' without --tuning, expected a table of paro-sched pick");
    if (!tuning) {
        t->plan.algo = algo;
        return 0;
    }
    const char *name = strcmp(run->tuning, "-") ? run->tuning : "stdin";
    if (pick_table_parse(&t->tuning, name, tuning, err))
        return -1;
    return pick_table_check(&t->tuning, &t->plan.groups, err);
}

static int parse_inputs(struct train *t, const char *plan, const char *tuning,
                        const struct train_text files[2], struct err *err)
{
    const struct train_run *run = t->run;

    if (plan_parse(&t->plan, strcmp(run->plan, "-") ? run->plan : "stdin", plan,
                   (int64_t)strlen(plan), err))
        return -1;
    if (train_parse_algo(t, tuning, err))
        return -1;
    t->second_plan = t->plan;
    if (run->against && plan_strategy_parse(run->against, &t->second_plan.strategy, err))
        return err_prefix(err, "--against: ");
    if (run->against && t->plan.model.sparse.share > 0)
        return err_set(err, ERR_INPUT,
                       "--against with a sparse model (%s), expected one of them",
                       t->plan.model.partial);
    if (engine_check(&t->plan, t->world->ranks, err) ||
        train_check_start(t, run->init || run->resume, err) ||
        train_settings_init(&t->settings, files, 2, run->given, err) ||
        (files[0].text && train_data_was(t, files, err)))
        return -1;
    const char *alone = !t->plan.sync_every         ? NULL
                        : run->against              ? "--against"
                        : run->trace_step           ? "--trace-step"
                        : t->settings.drop_easy > 0 ? "--drop-easy"
                                                    : NULL;
    if (alone)
        return err_set(err, ERR_INPUT,
                       "%s with a plan whose groups train apart (sync_every %d), expected one"
                       " without",
                       alone, t->plan.sync_every);
    if (run->trace_step &&
        num_count(run->trace_step, 1, (int64_t)t->settings.steps, &t->trace_step, err))
        return err_prefix(err, "--trace-step: ");
    if (train_data_open(t, err) == 0)
        return 0;
    train_blame_weights(t, err);
    return -1;
}

static int read_inputs(struct train *t, struct err *err)
{
    const struct train_run *run = t->run;
    char *plan = NULL, *own = NULL, *config = NULL, *tuning = NULL;
    char *path = t->world->rank == 0 ? own_settings(run) : NULL;
    int32_t has_settings = path != NULL;
    int rc = -1;

    if (share_file(t->world, run->plan, &plan, err) ||
        world_bcast(t->world, &has_settings, sizeof has_settings, 0, err) ||
        (has_settings && share_file(t->world, path, &own, err)) ||
        (run->config && share_file(t->world, run->config, &config, err)) ||
        (run->tuning && share_file(t->world, run->tuning, &tuning, err)))
        goto done;
    const struct train_text files[] = {{path ? path : "settings.yaml", own},
                                       {run->config, config}};
    rc = world_agree(t->world, parse_inputs(t, plan, tuning, files, err), err);
    if (rc == 0) {
        t->world->deadline_s = t->settings.deadline;
        rc = train_data_agree(t, err);
    }
done:
    MEM_FREE(path, plan, own, config, tuning);
    return rc;
}

int train_part(const struct plan *p, int micro, int rank, int64_t *first)
{
    int64_t rest;

    *first = plan_micro_number(&p->settings, p->groups.ranks, rank, micro) * p->micro_batch;
    rest = plan_sequences(&p->settings, p->groups.ranks) - *first;
    return rest < p->micro_batch ? (int)rest : p->micro_batch;
}

/* Sets the flags for the exchange: a file in the folder, a signal to this rank, or a log that
   cannot be written asks to stop. */
static void train_read_flags(struct train *t)
{
    int stop = (t->run->stop && *t->run->stop) || (t->stop && access(t->stop, F_OK) == 0) ||
               t->unlogged.code != ERR_NONE;
    t->flags &= TRAIN_FAILED;
    t->flags |= (stop ? TRAIN_STOP : 0) | train_save_flag(t) |
                (t->save && access(t->save, F_OK) == 0 ? TRAIN_SAVE : 0);
}

static void train_read_batch(void *arg, int micro, int32_t *tokens, int32_t *targets)
{
    struct train *t = arg;
    const struct plan *p = &t->plan;
    int64_t first, step = t->step * plan_sequences(&p->settings, p->groups.ranks);
    int count = train_part(p, micro, t->world->rank, &first);

    train_easy_keep(t, micro);
    /* A read error is reported in the exchange, in which all ranks must take part: until then
       use any tokens. */
    if ((t->flags & TRAIN_FAILED) ||
        data_batch(&t->data, step + first, count, tokens, targets, t->begins, &t->failure)) {
        t->flags |= TRAIN_FAILED;
        count = 0;
    }
    /* The step's last micro-batch may have fewer sequences; other targets do not count. */
    size_t had = (size_t)count * (size_t)p->seq;
    size_t bytes = ((size_t)p->micro_batch * (size_t)p->seq - had) * sizeof *tokens;
    memset(tokens + had, 0, bytes);
    memset(targets + had, -1, bytes);
    if (t->begins)
        memset(t->begins + had, 0, bytes);
    if (micro == plan_count_of(&p->settings, p->groups.ranks, t->world->rank) - 1)
        train_read_flags(t); /* the exchange is next */
}

/* If a rank has set TRAIN_FAILED, all ranks end with its error. */
static int agree_failure(struct train *t, struct err *err)
{
    int failed = t->flags & TRAIN_FAILED;

    if (failed)
        *err = t->failure;
    return world_agree(t->world, failed ? -1 : 0, err);
}

/* Same outcome on every rank: all know the norm.  With periods only the group does: the others
   learn it when they meet. */
static int watch_skipped(struct train *t, int skipped, struct err *err)
{
    t->skipped = skipped ? t->skipped + 1 : 0;
    if ((double)t->skipped < t->settings.max_skipped || t->flags & TRAIN_FAILED)
        return 0;
    if (t->plan.sync_every) {
        t->flags |= TRAIN_FAILED;
        err = &t->failure;
    }
    err_set(err, ERR_INPUT,
            "no gradient was finite, of targets that count, since step %" PRId64 ": %" PRId64
            " steps skipped in a row (--max-skipped)",
            t->step - t->skipped + 1, t->skipped);
    return t->plan.sync_every ? 0 : -1;
}

/* A gradient that is not finite is no measure of importance. */
static void change_unit(void *arg, int unit, float *params, float *exp_avg, float *exp_avg_sq,
                        const float *gradient)
{
    const struct train *t = arg;
    const struct model *m = &t->plan.model;

    for (int i = m->unit[unit].first; i < m->unit[unit].first + m->unit[unit].trained_tensors;
         i++) {
        const struct model_tensor *x = &m->tensor[i];
        if (x->block)
            model_sparse_change(m, x, t->step, (int64_t)t->settings.steps, params + x->offset,
                                exp_avg + x->offset, exp_avg_sq + x->offset,
                                gradient && !t->skipped ? gradient + x->offset : NULL,
                                params + model_mask_of(m, x)->offset);
    }
}

/*
 * Changes a sparse model's masks for the next step.  Runs at the end of a step, before its
 * checkpoint, as it uses the step's gradient, which a resumed run does not have.
 */
static int change_masks(struct train *t, struct err *err)
{
    int64_t steps = (int64_t)t->settings.steps;

    if (!(t->plan.model.sparse.share > 0) || t->step >= steps ||
        !model_sparse_due(&t->plan.model.sparse, t->step, steps))
        return 0;
    return train_save_wait(t, err) || engine_change(t->engine, change_unit, t, err) ? -1 : 0;
}

/* Does what is due when all ranks have the same parameters. */
static int end_step(struct train *t, int64_t flags, struct err *err)
{
    if (change_masks(t, err) || train_easy_step(t, err))
        return -1;
    double start = tick_now_s();
    train_save_local(t);
    if (t->local_saver && train_due(t, t->settings.local_every))
        t->save_s = tick_now_s() - start;
    if (!(flags & TRAIN_SAVE) && !train_due(t, t->settings.save_every))
        return 0;
    if (t->save)
        unlink(t->save);
    int rc = train_save_begin(t, err);
    t->save_s = tick_now_s() - start;
    return rc;
}

/*
 * Between a step's exchange and the next one's the ranks exchange no other message: it would
 * queue after the new parameters, which are being sent.
 */
static int run_step(struct train *t, int *stopped, struct err *err)
{
    struct engine_optim o = {.lr = train_lr(&t->settings, t->step + 1),
                             .beta1 = t->settings.beta1,
                             .beta2 = t->settings.beta2,
                             .eps = t->settings.eps,
                             .decay = t->settings.weight_decay,
                             .clip = t->settings.clip,
                             .take_all = !t->settings.skip_nonfinite,
                             .step = t->step + 1,
                             .flags = &t->flags,
                             .ends = train_ends(t, t->step + 1),
                             .agrees = train_meets(t, t->step + 1),
                             .outer_lr = t->settings.outer_lr,
                             .outer_momentum = t->settings.outer_momentum};
    struct engine_report report;

    if (t->against && engine_against_begin(t->against, err))
        return -1;
    if (plan_count_of(&t->plan.settings, t->world->ranks, t->world->rank) == 0)
        train_read_flags(t);
    train_trace_before(t);
    if (engine_step(t->engine, train_read_batch, t, &o, &report, err) ||
        train_trace_after(t, err))
        return -1;
    if (report.flags & TRAIN_FAILED)
        return agree_failure(t, err);
    if ((t->against && engine_against_end(t->against, train_read_batch, t, &o, &report, err)) ||
        (t->run->exact && o.ends && engine_hash(t->engine, &t->hash, err))) {
        /* A read error of the second engine must be agreed: all ranks are here. */
        t->differs = err->code == ERR_MISMATCH && agree_failure(t, err) == 0;
        return -1;
    }
    train_easy_keep(t, plan_count_of(&t->plan.settings, t->world->ranks, t->world->rank));
    t->step++;
    t->tokens += report.tokens;
    t->loss = report.loss;
    t->eval_loss = NAN;
    if (report.agreed && !t->ending && train_eval(t, err))
        return -1;
    if (t->world->rank == 0 && t->unlogged.code == ERR_NONE)
        train_log_step(t, &report, o.lr, &t->unlogged);
    t->save_s = NAN;
    if (watch_skipped(t, report.skipped, err))
        return -1;
    if (!report.agreed)
        return 0;
    if (train_save_advance(t, report.flags, err))
        return -1;
    if (!o.ends) {
        train_prepare_end(t, report.flags);
        return 0;
    }
    *stopped = (report.flags & TRAIN_STOP) != 0;
    int rc = end_step(t, report.flags, err);
    t->ending = 0;
    return rc;
}

static int train_run_steps(struct train *t, int *stopped, struct err *err)
{
    int64_t last = (int64_t)t->settings.steps;

    if (t->step == 0 && change_masks(t, err))
        return -1;
    while (t->step < last && !*stopped)
        if (run_step(t, stopped, err))
            return -1;
    *stopped = *stopped && t->step < last;
    if (agree_failure(t, err) || train_save_finish(t, err))
        return -1;
    /* Only now, after the trained states are saved. */
    if (t->unlogged.code != ERR_NONE)
        *err = t->unlogged;
    return world_agree(t->world, t->unlogged.code != ERR_NONE ? -1 : 0, err);
}

/* Runs a part on rank 0; its result is returned on every rank. */
static int rank_0(struct train *t, int (*part)(struct train *t, struct err *err),
                  struct err *err)
{
    return world_agree(t->world, t->world->rank == 0 ? part(t, err) : 0, err);
}

static void release_run(struct train *t, struct err *why)
{
    struct err ignored;

    train_save_close(t);
    train_local_close(t);
    train_easy_close(t);
    mem_free(t->begins);
    train_log_close(t, &ignored);
    train_folder_close(t, why);
    engine_against_close(t->against);
    engine_close(t->second);
    engine_close(t->engine);
    meter_close(t->meter);
    device_close(t->device);
    data_close(&t->data);
    mem_free(t->start);
    carry_release(&t->carry);
    plan_release(&t->plan);
    pick_table_release(&t->tuning);
}

/*
 * Whether two ranks are placed as planned.  If the plan's groups end above level 0, hosts of a
 * group belong together; if two of its groups name the same host, they are on it.
 */
static int is_as_planned(const struct train *t, int q, int r)
{
    const struct plan *p = &t->plan;
    const int *host_of = t->world->groups.group_of, *group_of = p->groups.group_of;
    const char *host = p->host[group_of[q]];

    if (group_of[q] == group_of[r])
        return host_of[q] == host_of[r] || p->group_level > 0;
    return host_of[q] != host_of[r] || (host[0] && !strcmp(host, p->host[group_of[r]]));
}

/* A plan for other placements is correct but slow: intra-group traffic crosses groups. */
static void warn_of_groups(const struct train *t)
{
    const struct world *w = t->world;

    for (int r = 0; w->rank == 0 && w->groups.count > 1 && r < w->ranks; r++)
        for (int q = 0; q < r; q++) {
            int together = t->plan.groups.group_of[r] == t->plan.groups.group_of[q];
            if (is_as_planned(t, q, r))
                continue;
            train_print(
                t, "ranks %d and %d are in %s of the plan, but on %s: slower than planned", q,
                r, together ? "one group" : "two groups", together ? "two hosts" : "one host");
            return;
        }
}

/* Collective. */
static int train_open_meter(struct train *t, uint64_t *id, struct err *err)
{
    struct world *w = t->world;
    int rc = 0;

    *id = meter_new_run();
    if (world_bcast(w, id, sizeof *id, 0, err))
        return -1;
    struct meter_run run = {*id, w->rank, w->ranks};
    if (t->run->meter && meter_open(&t->meter, t->run->meter, "train", &run, err))
        rc = err_prefix(err, "PARO_METER: ");
    return world_agree(w, rc, err);
}

static int open_engines(struct train *t, struct err *err)
{
    struct engine_options o = {.tuning = t->tuning.rules ? &t->tuning : NULL,
                               .exact = t->run->exact,
                               .apart = t->run->against != NULL,
                               .device = t->device,
                               .transport = t->transport,
                               .graphs = t->graphs,
                               .losses = train_easy_losses(t),
                               .masked = t->data.masked,
                               .begins = t->begins,
                               .attention = t->run->fastest ? KERN_ATTENTION_CUDNN_ATOMIC
                                                            : KERN_ATTENTION_USUAL};

    if (train_open_meter(t, &o.meter_run, err))
        return -1;
    o.meter = t->meter;
    if (engine_open(&t->engine, t->world, &t->plan, &o, err))
        return -1;
    if (!t->run->against)
        return 0;
    o.meter = NULL; /* its calls would have the first engine's numbers */
    if (engine_open(&t->second, t->world, &t->second_plan, &o, err))
        return -1;
    return engine_against_open(&t->against, t->engine, t->second, err);
}

/* Checks that every element is placed as its letter requires, and that copies are equal. */
static int audit_engines(struct train *t, struct err *err)
{
    if (engine_audit(t->engine, err) || (t->second && engine_audit(t->second, err)))
        return -1;
    if (t->world->ranks == 1 && !t->run->exact)
        return 0;
    return engine_hash(t->engine, &t->hash, err);
}

/* Checks a run as far as possible without beginning it. */
static int open_run(struct train *t, struct err *err)
{
    int dry = t->run->dry;

    if ((!dry && rank_0(t, train_folder_finish, err)) || read_inputs(t, err) ||
        train_device_open(t, err) || world_agree(t->world, train_easy_open(t, err), err) ||
        rank_0(t, dry ? train_folder_check : train_folder_open, err) || open_engines(t, err) ||
        train_local_open(t, err) || train_start_weights(t, err) || train_easy_start(t, err) ||
        train_save_open(t, err))
        return -1;
    warn_of_groups(t);
    /* Published configs request dropout even if their trainers ignored it. */
    if (t->plan.model.dropout > 0)
        train_print(t, "the model's config asks for dropout of %g: none is applied",
                    t->plan.model.dropout);
    train_device_print(t);
    return 0;
}

int train_run(struct world *world, const struct train_run *run, struct err *err)
{
    struct train t = {.world = world,
                      .run = run,
                      .home = run->out,
                      .lock = -1,
                      .replacement = {.fd = -1},
                      .old_lock = -1,
                      .available = world_available_bytes(),
                      .split_before = -1,
                      .saved = -1,
                      .save_s = NAN,
                      .path_s = NAN};
    int stopped = 0, rc = -1;

    world->slow++; /* files take longer than steps */
    if (open_run(&t, err))
        goto done;
    if (run->dry) {
        rc = train_summary_dry(&t, err);
        goto done;
    }
    if (train_trace_open(&t, err) || audit_engines(&t, err) || train_replace_begin(&t, err) ||
        train_local_begin(&t, err) || rank_0(&t, train_log_open, err) ||
        rank_0(&t, train_folder_begin, err))
        goto done;
    train_summary_resumed(&t);
    world->slow--;
    rc = train_run_steps(&t, &stopped, err);
    world->slow++;
    if (rc < 0 && t.differs)
        rc = 1;
    if (rc == 0)
        train_device_print_graphs(&t);
    if (rc == 0)
        rc = rank_0(&t, train_log_close, err);
    if (rc == 0)
        rc = train_summary_done(&t, stopped, err);
    if (rc == 0 && stopped) {
        rc = 3;
        if (t.step < t.trace_step)
            train_print(&t, "no trace of step %" PRId64 ": the run stopped after step %" PRId64,
                        t.trace_step, t.step);
        if (t.stop)
            unlink(t.stop);
    }
done:
    world->slow--;
    train_progress_clear(&t);
    /* With a lost peer, transfers in progress never end: the caller aborts, and nothing is
     * released. */
    if (rc >= 0 || err->code != ERR_PEER)
        release_run(&t, rc < 0 || rc == 1 ? err : NULL);
    return rc;
}

int train_settings_show(const struct train_run *run, FILE *out, struct err *err)
{
    struct train_settings s;
    struct train_text files[2] = {{0}};
    char *text[2] = {NULL, NULL}, *own = own_settings(run);
    const char *path[2] = {own, run->config};
    int rc = 0;

    for (int i = 0; i < 2; i++) {
        if (rc == 0 && path[i])
            rc = train_read_whole(path[i], &text[i], err);
        files[i] = (struct train_text){path[i], text[i]};
    }
    if (rc == 0)
        rc = train_settings_init(&s, files, 2, run->given, err);
    if (rc == 0)
        train_settings_print(&s, out);
    MEM_FREE(text[0], text[1], own);
    return rc;
}
