/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows where the weights of a run come from: fresh, a checkpoint, the run's own last one.
 */
#include "train/train_inside.h"

#include <inttypes.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/run_folder.h"
#include "ckpt/states.h"

struct reader {
    struct weights weights;
    struct states states;
};

/* The second one takes what trains from the first, step by step; not what is frozen. */
static int load_engines(struct train *t, struct states *from, int moments, struct err *err)
{
    int rc;
    const struct engine_source source = {states_read, from->weights ? states_end : NULL, from};
    cpu_set_t set;

    from->model = &t->plan.model;
    from->seed = (uint64_t)t->settings.seed;
    /* This rank's share of the processors, where they are not given out. */
    from->threads =
        sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set) / t->world->node_ranks;
    rc = engine_load(t->engine, &source, moments, err);
    if (rc == 0 && t->second && t->plan.model.partial)
        rc = engine_load(t->second, &source, 0, err);
    states_release(from);
    return rc;
}

/* Where a run stood, whose checkpoint is resumed. */
static int take_run(struct reader *r, struct train *t, const char *dir, struct err *err)
{
    const struct ckpt_run *run = &r->weights.ckpt.run;

    t->step = t->resumed = run->step;
    t->tokens = run->tokens;
    if (run->seed != (uint64_t)t->settings.seed)
        return err_set(err, ERR_MISMATCH,
                       "checkpoint '%s' has seed %" PRIu64 ", expected the settings' %.0f", dir,
                       run->seed, t->settings.seed);
    t->sequences = run->data_seq ? run->tokens / run->data_seq : -1;
    return train_data_check(t, dir, run, err);
}

static int find_numbers(struct reader *r, const char *dir, int resume, struct err *err)
{
    const struct ckpt *c = &r->weights.ckpt;
    struct states *s = &r->states;

    if (!r->weights.is_ckpt)
        return 0;
    s->state[0] = ckpt_find_state(c, resume ? "master" : "params");
    s->state[1] = ckpt_find_state(c, "exp_avg");
    s->state[2] = ckpt_find_state(c, "exp_avg_sq");
    s->params = ckpt_find_state(c, "params");
    if (s->params < 0 || s->state[0] < 0 ||
        (resume && (s->state[1] < 0 || s->state[2] < 0 || !c->has_run)))
        return err_set(err, ERR_INPUT, "checkpoint '%s' has no %s, expected a run's checkpoint",
                       dir, resume ? "optimizer state" : "parameters");
    return 0;
}

/* What a rank finds alone; r->weights is for weights_close. */
static int open_weights(struct reader *r, const char *dir, int resume, struct err *err)
{
    if (resume && !ckpt_is(dir))
        return err_set(err, ERR_INPUT,
                       "'%s' is no checkpoint (it has no manifest.json), expected one of a run",
                       dir);
    return weights_open(&r->weights, dir, NULL, err);
}

/* Whether they are what this run needs. */
static int check_weights(struct reader *r, struct train *t, const char *dir, int resume,
                         struct err *err)
{
    if (!r->weights.ckpt.fetch)
        r->weights.ckpt.turn = t->world->rank; /* the copies' disks share the work */
    r->states.weights = &r->weights;
    if (states_check_model(&r->weights, &t->plan.model, err) ||
        find_numbers(r, dir, resume, err))
        return -1;
    if (resume && t->plan.model.sparse.share > 0 && !(r->weights.ckpt.model.sparse.share > 0))
        return err_set(
            err, ERR_MISMATCH,
            "checkpoint '%s' is not of a sparse model, as the plan is: expected --init"
            " to begin with its weights",
            dir);
    if (resume)
        return take_run(r, t, dir, err);
    return r->weights.is_ckpt || t->world->rank ? 0 : hf_check_tied(&r->weights.hf, err);
}

static int carry_named(struct train *t, struct err *err)
{
    const char *named = t->run->tokenizer;

    return t->world->rank || !named || train_data_is_bytes(t)
               ? 0
               : carry_folder(&t->carry, named, err);
}

/* The same weights on all ranks: folders of one name on several machines may differ. */
static int check_same(struct train *t, const struct reader *r, const char *dir, struct err *err)
{
    struct {
        int64_t step;
        char hash[33];
    } first = {.step = t->step};

    if (world_agree(t->world, weights_identity(&r->weights, first.hash, err), err))
        return -1;
    char mine[33];
    memcpy(mine, first.hash, sizeof mine);
    if (world_bcast(t->world, &first, sizeof first, 0, err))
        return -1;
    if (first.step != t->step)
        return err_set(err, ERR_MISMATCH,
                       "the checkpoint here is of step %" PRId64 ", expected %" PRId64
                       " as on rank 0",
                       t->step, first.step);
    if (strcmp(mine, first.hash))
        return err_set(err, ERR_MISMATCH, "the weights in '%s' differ from those on rank 0",
                       dir);
    return 0;
}

/* What is frozen has no master: what its type does not hold of it is lost. */
static void note_rounded(const struct train *t, const char *dir)
{
    const struct plan *p = &t->plan;
    enum dtype held = plan_params_wire(&p->settings);
    int holds = t->stored == DTYPE_BF16 || (held == DTYPE_F32 && t->stored != DTYPE_F64);

    if (p->model.partial && !p->model.sparse.share && !holds)
        train_print(
            t, "the frozen weights of '%s' are %s, the plan rounds them to %s%s", dir,
            dtype_name(t->stored), dtype_name(held),
            held == DTYPE_BF16 ? " (paro-plan --param-type f32 --wire-type f32 does not)" : "");
}

/* An I/O error may be temporary, and another format needs another program: no damage. */
static int is_damage(const struct err *err)
{
    return (err->code == ERR_INPUT && strcmp(err->key, "format")) ||
           err->code == ERR_MISMATCH || err->code == ERR_ABSENT;
}

static int carry_from(struct train *t, const char *path, struct err *err)
{
    struct weights w = {0};
    int rc = weights_open(&w, path, NULL, err);

    carry_release(&t->carry); /* of one that was damaged */
    if (rc == 0)
        rc = carry_weights(&t->carry, &w, !t->run->tokenizer, err);
    weights_close(&w);
    return rc;
}

/*
 * Of a local checkpoint, which has none of them: those of the newest one in the run's folder
 * that has them whole, or of what the run began with.
 */
static int carry_local(struct train *t, struct err *err)
{
    int64_t step = train_folder_has(t->run->out, "latest") ? INT64_MAX : -1;
    char *path = step >= 0      ? io_join(t->run->out, "latest")
                 : t->run->init ? run_folder_checkpoint(t->run->init)
                                : NULL;
    int rc = path ? carry_from(t, path, err) : 0;
    char name[40];

    while (rc && step >= 0 && is_damage(err)) {
        struct err none;
        if (train_folder_older(t->run->out, &step, &none) || step < 0)
            break; /* none is whole: they are worth less than the states */
        mem_free(path);
        train_folder_name(step, name);
        path = io_join(t->run->out, name);
        rc = carry_from(t, path, err);
    }
    mem_free(path);
    if (rc == 0 || step >= 0 || !is_damage(err))
        return rc;
    train_print(t, "later checkpoints have no tokenizer files: %s", err->text);
    carry_release(&t->carry);
    return 0;
}

/*
 * *damaged, of an error: the checkpoint is at fault, not what this run wants of it.  local: one
 * that is open; taken.
 */
static int load_checkpoint(struct train *t, const char *dir, int resume, struct ckpt *local,
                           struct ckpt_healed *healed, int *damaged, struct err *err)
{
    struct reader r = {0};
    int rc = 0;

    if (local)
        r.weights = (struct weights){.is_ckpt = 1, .ckpt = *local};
    else
        rc = world_agree(t->world, open_weights(&r, dir, resume, err), err);

    *damaged = rc && is_damage(err);
    if (rc == 0)
        rc = world_agree(t->world, check_weights(&r, t, dir, resume, err), err);
    if (rc == 0) {
        carry_release(&t->carry); /* of a checkpoint that was damaged */
        /* A tokenizer that is named replaces the folder's own. */
        rc = t->world->rank ? 0
             : local        ? carry_local(t, err)
                            : carry_weights(&t->carry, &r.weights, !t->run->tokenizer, err);
        if (rc == 0 && t->world->rank == 0 && t->plan.model.lora.rank && !r.weights.is_ckpt)
            carry_base(&t->carry, &r.weights.hf);
        rc = world_agree(t->world, rc, err);
        *damaged = rc && is_damage(err);
    }
    if (rc == 0)
        rc = world_agree(t->world, carry_named(t, err), err);
    if (rc == 0)
        rc = world_agree(t->world, check_same(t, &r, dir, err), err);
    t->stored = rc == 0 ? weights_type(&r.weights) : DTYPE_F32;
    if (rc == 0 && !resume)
        note_rounded(t, dir);
    if (rc == 0 && !t->run->dry) {
        rc = world_agree(t->world, load_engines(t, &r.states, resume, err), err);
        *damaged = rc && is_damage(err);
    }
    *healed = r.weights.ckpt.healed;
    weights_close(&r.weights);
    return rc;
}

/* Reports once what any rank found damaged and read from copies. */
static int report_healed(struct train *t, const struct ckpt_healed *mine, const char *dir,
                         struct err *err)
{
    int ranks = t->world->ranks;
    struct ckpt_healed *all = mem_new((size_t)ranks, sizeof *all), sum = {0};
    int rc = world_allgather(t->world, mine, sizeof *mine, all, err);
    char text[1200];

    for (int r = 0; rc == 0 && r < ranks; r++) {
        if (sum.blocks + sum.files == 0)
            sum.first = all[r].first;
        sum.blocks += all[r].blocks;
        /* All read the same ones. */
        sum.files = all[r].files > sum.files ? all[r].files : sum.files;
    }
    if (rc == 0 && ckpt_healed_print(&sum, dir, text, sizeof text))
        train_print(t, "%s", text);
    mem_free(all);
    return rc;
}

static void report_skipped(const struct train *t, int64_t step, const struct err *why, int more)
{
    char name[40] = "latest", others[40] = "";

    if (step >= 0)
        train_folder_name(step, name);
    if (more)
        snprintf(others, sizeof others, " (and %d older)", more);
    train_print(t, "checkpoint '%s/%s'%s is damaged, skipped: %s", t->run->out, name, others,
                why->text);
}

/*
 * The newest checkpoint of the folder that is whole.  Where none is, the error is that of the
 * newest.
 */
static int load_newest(struct train *t, struct ckpt_healed *healed, struct err *err)
{
    int64_t newest = t->world->rank == 0 ? train_folder_latest(t) : -1;
    int64_t step = newest < 0 ? INT64_MAX : newest;
    struct err first = {0};
    int rc, damaged, skipped = 0;
    char name[40];

    t->start = io_join(t->run->out, "latest");
    while ((rc = load_checkpoint(t, t->start, 1, NULL, healed, &damaged, err)) && damaged) {
        if (skipped++ == 0)
            first = *err;
        /* Rank 0's eyes see the folder. */
        rc = t->world->rank == 0 ? train_folder_older(t->run->out, &step, err) : 0;
        if (world_agree(t->world, rc, err) || world_bcast(t->world, &step, sizeof step, 0, err))
            return -1;
        if (step < 0) {
            *err = first;
            return -1;
        }
        train_folder_name(step, name);
        mem_free(t->start);
        t->start = io_join(t->run->out, name);
    }
    t->fell_back = skipped > 0;
    if (rc == 0 && skipped)
        report_skipped(t, newest, &first, skipped - 1);
    if (rc)
        return rc;
    t->saved = t->step;
    if (newest >= 0) { /* the name that stays, when `latest` leads elsewhere */
        train_folder_name(t->step, name);
        mem_free(t->start);
        t->start = io_join(t->run->out, name);
    }
    return 0;
}

/*
 * The newest checkpoint of the hosts that is whole, if it is no older than that of the run's
 * folder, `newest`; -1: that is not known.  1: there is none.
 */
static int load_local(struct train *t, int64_t newest, struct ckpt_healed *healed,
                      struct err *err)
{
    char name[40], *shared = NULL;
    int rc, damaged = 0;
    struct ckpt c;

    if (newest >= 0) {
        train_folder_name(newest, name);
        shared = io_join(t->run->out, name);
    }
    while ((rc = train_find_next(t, newest, shared, &c, err)) == 0) {
        damaged = 0;
        rc = train_find_begin(t, err);
        train_folder_name(c.run.step, name);
        t->start = io_join(t->local->base, name);
        if (rc)
            ckpt_close(&c);
        else
            rc = load_checkpoint(t, t->start, 1, &c, healed, &damaged, err);
        if (rc && err->code == ERR_PEER)
            break;
        train_find_end(t);
        if (rc == 0 || !damaged)
            break;
        train_print(t, "local checkpoint '%s' is damaged, skipped: %s", name, err->text);
        mem_free(t->start);
        t->start = NULL;
    }
    mem_free(shared);
    return rc;
}

int train_check_start(const struct train *t, int given, struct err *err)
{
    const struct model *m = &t->plan.model;

    if (given || !m->lora.rank)
        return 0;
    return err_set(
        err, ERR_INPUT,
        "the plan trains adapters (%s), but no weights to adapt are given, expected --init "
        "DIR, a checkpoint or a Hugging Face folder",
        m->partial);
}

/* The run's own last checkpoint, a given one, or fresh values. */
static int load_start(struct train *t, struct ckpt_healed *healed, struct err *err)
{
    const struct train_run *run = t->run;
    int own = run->resume && strcmp(run->resume, "auto") == 0, damaged;
    /* Rank 0's eyes see the folder.  What cannot be looked at is met when it is loaded. */
    int32_t has_latest = t->world->rank == 0 && train_folder_has(run->out, "latest");
    int64_t newest = has_latest ? train_folder_latest(t) : -1;

    if (world_bcast(t->world, &has_latest, sizeof has_latest, 0, err) ||
        world_bcast(t->world, &newest, sizeof newest, 0, err))
        return -1;
    if (own) {
        int rc = load_local(t, newest, healed, err);
        if (rc == 0) /* whether that of the same step is whole is not known: it is made anew */
            t->saved = newest < t->step ? newest : -1;
        if (rc != 1)
            return rc;
    }
    if (own && has_latest)
        return load_newest(t, healed, err);
    const char *given = run->resume && !own ? run->resume : run->init;
    if (train_check_start(t, given != NULL, err))
        return -1;
    if (given) {
        t->start = run_folder_checkpoint(given);
        return load_checkpoint(t, t->start, given == run->resume, NULL, healed, &damaged, err);
    }
    if (run->dry)
        return 0;
    if (world_agree(t->world, carry_named(t, err), err) ||
        dtype_parse(t->plan.model.dtype, &t->stored, err))
        return -1;
    return load_engines(t, &(struct states){0}, 0, err);
}

void train_blame_weights(const struct train *t, struct err *err)
{
    const struct train_run *run = t->run;
    int own = run->resume && strcmp(run->resume, "auto") == 0;
    const char *given = run->resume && !own ? run->resume : run->init;
    char *dir = given ? run_folder_checkpoint(given) : NULL;
    struct weights w = {0};
    struct err why;

    if (dir &&
        (weights_open(&w, dir, NULL, &why) || states_check_model(&w, &t->plan.model, &why)))
        *err = why;
    weights_close(&w);
    mem_free(dir);
}

int train_start_weights(struct train *t, struct err *err)
{
    struct ckpt_healed healed = {0};
    int rc = world_agree(t->world, load_start(t, &healed, err), err);

    if (rc == 0 && t->start)
        rc = report_healed(t, &healed, t->start, err);
    return rc;
}
