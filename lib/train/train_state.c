/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads the states that a run begins with: fresh ones, a checkpoint, the run's own last one. */
#include "train/train_inside.h"

#include <inttypes.h>
#include <sched.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/run_folder.h"
#include "ckpt/ckpt_states.h"

/* The source of states: initial weights, or (resume) a run's checkpoint. */
struct start {
    struct train *train; /* borrowed; train->start is the folder */
    int resume;
    struct weights weights;
    struct states states;
    char hash[33]; /* hash of the weights */
    struct ckpt_repaired repaired;
};

const char *train_given(const struct train_run *run)
{
    return run->resume && !train_is_auto(run) ? run->resume : run->init;
}

int train_is_auto(const struct train_run *run)
{
    return run->resume && strcmp(run->resume, "auto") == 0;
}

/* The second engine copies trained states from the first at each step, but not frozen ones. */
static int load_engines(struct start *s, struct err *err)
{
    struct states *from = &s->states;
    struct train *t = s->train;
    const struct engine_source source = {states_read, from->weights ? states_end : NULL, from};
    cpu_set_t set;

    from->model = &t->plan.model;
    from->seed = (uint64_t)t->settings.seed;
    /* This rank's share of the processors, if they are not assigned to ranks. */
    from->threads =
        sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set) / t->world->node_ranks;
    int rc = engine_load(t->engine, &source, s->resume, err);
    if (rc == 0 && t->second && t->plan.model.partial)
        rc = engine_load(t->second, &source, 0, err);
    states_release(from);
    return rc;
}

/* Restores the position of the resumed run. */
static int take_run(struct start *s, struct err *err)
{
    const struct ckpt_run *run = &s->weights.ckpt.run;
    struct train *t = s->train;

    t->step = t->resumed = run->step;
    t->tokens = run->tokens;
    if (run->seed != (uint64_t)t->settings.seed)
        return err_set(err, ERR_MISMATCH,
                       "checkpoint '%s' has seed %" PRIu64 ", expected the settings' %.0f",
                       t->start, run->seed, t->settings.seed);
    t->sequences = run->data_seq ? run->tokens / run->data_seq : -1;
    return train_data_check(t, t->start, run, err);
}

static int find_numbers(struct start *s, struct err *err)
{
    const struct ckpt *c = &s->weights.ckpt;
    int *state = s->states.state, resume = s->resume;

    if (!s->weights.is_ckpt)
        return 0;
    state[0] = ckpt_find_state(c, resume ? "master" : "params");
    state[1] = ckpt_find_state(c, "exp_avg");
    state[2] = ckpt_find_state(c, "exp_avg_sq");
    state[3] = ckpt_find_state(c, "outer_momentum");
    s->states.params = ckpt_find_state(c, "params");
    if (s->states.params < 0 || state[0] < 0 ||
        (resume && (state[1] < 0 || state[2] < 0 || !c->has_run)))
        return err_set(err, ERR_INPUT, "checkpoint '%s' has no %s, expected a run's checkpoint",
                       s->train->start, resume ? "optimizer state" : "parameters");
    return 0;
}

/* Opens the weights as far as one rank alone can; a local checkpoint is already open. */
static int state_open_weights(struct start *s, struct err *err)
{
    const char *dir = s->train->start;

    if (s->weights.is_ckpt)
        return 0;
    if (s->resume && !ckpt_is(dir))
        return err_set(err, ERR_INPUT,
                       "'%s' is no checkpoint (it has no manifest.json), expected one of a run",
                       dir);
    return weights_open(&s->weights, dir, NULL, err);
}

/* Checks that the weights suit this run. */
static int check_weights(struct start *s, struct err *err)
{
    struct train *t = s->train;

    if (!s->weights.ckpt.fetch)
        s->weights.ckpt.turn = t->world->rank; /* distributes the work over the copies' disks */
    s->states = (struct states){
        .weights = &s->weights,
        .group = t->plan.sync_every ? t->plan.groups.group_of[t->world->rank] : 0};
    if (states_check_model(&s->weights, &t->plan.model, err) || find_numbers(s, err))
        return -1;
    if (s->resume && t->plan.model.sparse.share > 0 &&
        !(s->weights.ckpt.model.sparse.share > 0))
        return err_set(
            err, ERR_MISMATCH,
            "checkpoint '%s' is not of a sparse model, as the plan is: expected --init"
            " to begin with its weights",
            t->start);
    if (s->resume
            ? take_run(s, err)
            : !s->weights.is_ckpt && t->world->rank == 0 && hf_check_tied(&s->weights.hf, err))
        return -1;
    return weights_identity(&s->weights, s->hash, err);
}

static int state_carry_named(struct start *s, struct err *err)
{
    struct train *t = s->train;
    const char *named = t->run->tokenizer;

    return t->world->rank || !named || train_data_is_bytes(t)
               ? 0
               : carry_folder(&t->carry, named, err);
}

/* Checks that all ranks have the same weights: folders with one name on several machines may
   differ. */
static int check_same(struct start *s, struct err *err)
{
    struct train *t = s->train;
    struct {
        int64_t step;
        char hash[33];
    } first = {.step = t->step};

    memcpy(first.hash, s->hash, sizeof first.hash);
    if (world_bcast(t->world, &first, sizeof first, 0, err))
        return -1;
    if (first.step != t->step)
        return err_set(err, ERR_MISMATCH,
                       "the checkpoint here is of step %" PRId64 ", expected %" PRId64
                       " as on rank 0",
                       t->step, first.step);
    if (strcmp(s->hash, first.hash))
        return err_set(err, ERR_MISMATCH, "the weights in '%s' differ from those on rank 0",
                       t->start);
    return 0;
}

/* Frozen parameters have no master copy: digits that their type cannot hold are lost. */
static void note_rounded(const struct train *t)
{
    const struct plan *p = &t->plan;
    enum dtype held = plan_params_wire(&p->settings);
    int holds = t->stored == DTYPE_BF16 || (held == DTYPE_F32 && t->stored != DTYPE_F64);

    if (p->model.partial && !p->model.sparse.share && !holds)
        train_print(
            t, "the frozen weights of '%s' are %s, the plan rounds them to %s%s", t->start,
            dtype_name(t->stored), dtype_name(held),
            held == DTYPE_BF16 ? " (paro-plan --param-type f32 --wire-type f32 does not)" : "");
}

static int load_states(struct start *s, struct err *err)
{
    struct train *t = s->train;

    t->stored = weights_type(&s->weights);
    if (!s->resume)
        note_rounded(t);
    return t->run->dry ? 0 : load_engines(s, err);
}

/* An I/O error may be temporary, and another format needs another program: neither is
   damage. */
static int is_damage(const struct err *err)
{
    return (err->code == ERR_INPUT && strcmp(err->key, "format")) ||
           err->code == ERR_MISMATCH || err->code == ERR_ABSENT;
}

/*
 * Gets the files that a local checkpoint lacks from the newest checkpoint in the run's folder
 * that has them intact, or from the one that the run began with.
 */
static int carry_local(struct train *t, struct err *err)
{
    struct train_steps own;
    int rc = 0;

    train_folder_steps(t, &own);
    for (int i = 0; i < (own.count ? own.count : t->run->init != NULL); i++) {
        char *path =
            own.count ? train_folder_path(t, own.step[i]) : run_folder_checkpoint(t->run->init);
        struct weights w = {0};
        rc = err_any(weights_open(&w, path, NULL, err) ||
                     carry_weights(&t->carry, &w, !t->run->tokenizer, err));
        weights_close(&w);
        mem_free(path);
        if (rc == 0 || !is_damage(err))
            return rc;
        carry_release(&t->carry);
    }
    if (rc) /* the states matter more */
        train_print(t, "later checkpoints have no tokenizer files: %s", err->text);
    return 0;
}

/* On rank 0 only.  A given tokenizer replaces the folder's own. */
static int take_carry(struct start *s, struct err *err)
{
    struct train *t = s->train;

    if (t->world->rank)
        return 0;
    carry_release(&t->carry); /* from a damaged checkpoint */
    if (s->weights.ckpt.fetch)
        return carry_local(t, err);
    if (carry_weights(&t->carry, &s->weights, !t->run->tokenizer, err))
        return -1;
    if (t->plan.model.lora.rank && !s->weights.is_ckpt)
        carry_base(&t->carry, &s->weights.hf);
    return 0;
}

/* Loads the states in t->start.  1: the checkpoint is damaged; -1: another error. */
static int state_load(struct start *s, struct err *err)
{
    static const struct {
        int (*run)(struct start *s, struct err *err);
        int damage; /* 1: errors mean damage; 0: the checkpoint may not suit this run */
    } parts[] = {{state_open_weights, 1}, {check_weights, 0}, {take_carry, 1},
                 {state_carry_named, 0},  {check_same, 0},    {load_states, 1}};
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof parts / sizeof *parts; i++)
        if (world_agree(s->train->world, parts[i].run(s, err), err))
            rc = parts[i].damage && is_damage(err) ? 1 : -1;
    s->repaired = s->weights.ckpt.repaired;
    weights_close(&s->weights);
    s->states = (struct states){0};
    return rc;
}

/* Reports once all damage that any rank found and repaired from copies. */
static int report_repaired(const struct start *s, struct err *err)
{
    struct train *t = s->train;
    int ranks = t->world->ranks;
    struct ckpt_repaired *all = mem_new((size_t)ranks, sizeof *all), sum = {0};
    int rc = world_allgather(t->world, &s->repaired, sizeof *all, all, err);
    char text[1200];

    for (int r = 0; rc == 0 && r < ranks; r++) {
        if (sum.blocks + sum.files == 0)
            sum.first = all[r].first;
        sum.blocks += all[r].blocks;
        /* All ranks read the same files. */
        sum.files = all[r].files > sum.files ? all[r].files : sum.files;
    }
    if (rc == 0 && ckpt_repaired_print(&sum, t->start, text, sizeof text))
        train_print(t, "%s", text);
    mem_free(all);
    return rc;
}

/* Forgets all of it, moments too, as there may be no other.  Returns 1; -1: failed. */
static int forget_damaged(struct start *s, const char *name, struct err *err)
{
    struct train *t = s->train;

    train_print(t, "local checkpoint '%s' is damaged, skipped: %s", name, err->text);
    mem_free(t->start);
    t->start = NULL;
    t->local->from[0] = 0;
    t->step = t->resumed = t->tokens = 0;
    return t->run->dry || load_engines(s, err) == 0 ? 1 : -1;
}

/*
 * Loads the newest intact local checkpoint, if it is no older than `newest`, that of the run's
 * folder; -1: unknown.  Returns 1 if there is none.
 */
static int load_local(struct start *s, int64_t newest, struct err *err)
{
    struct train *t = s->train;
    struct train_local *l = t->local;
    int rc = train_find_list(t, err) ? -1 : 1;
    char name[40];

    for (int i = 0; rc == 1 && l && i < l->candidates && l->candidate[i].step >= newest; i++) {
        rc = train_find_open(t, &l->candidate[i], newest, &s->weights.ckpt, err);
        s->weights.is_ckpt = 1;
        if (rc) {
            weights_close(&s->weights);
        } else {
            train_folder_name(l->candidate[i].step, name);
            mem_free(t->start);
            t->start = io_join(l->base, name);
            if ((rc = state_load(s, err)) == 1)
                rc = forget_damaged(s, name, err);
        }
        if (rc < 0 && err->code == ERR_PEER)
            return -1;
        train_find_end(t);
    }
    if (rc == 0) /* the folder's checkpoint of this step may be damaged: saves it again */
        t->saved = newest < t->step ? newest : -1;
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

/*
 * Loads the run's own newest intact checkpoint; 1: there is none.  If all those of its folder
 * are damaged, returns the error of the newest.
 */
static int load_own(struct start *s, struct err *err)
{
    struct train *t = s->train;
    struct train_steps own;
    struct err first = {0};
    char older[40] = "";
    int rc, tried = 0;

    if (t->world->rank == 0) /* only rank 0 lists the folder */
        train_folder_steps(t, &own);
    if (world_bcast(t->world, &own, sizeof own, 0, err))
        return -1;
    rc = load_local(s, own.newest, err);
    for (; rc == 1 && tried < own.count; tried++) {
        if (tried == 1)
            first = *err;
        mem_free(t->start);
        t->start = train_folder_path(t, own.step[tried]);
        rc = state_load(s, err);
    }
    if (rc == 1 && tried > 1)
        *err = first;
    if (rc || !tried)
        return tried ? -1 : rc;
    t->saved = t->step;
    t->fell_back = tried > 1;
    if (tried > 2)
        snprintf(older, sizeof older, " (and %d older)", tried - 2);
    char *newest = train_folder_path(t, own.newest);
    if (t->fell_back)
        train_print(t, "checkpoint '%s'%s is damaged, skipped: %s", newest, older, first.text);
    mem_free(newest);
    if (own.newest >= 0) { /* a name that remains valid when `latest` changes */
        mem_free(t->start);
        t->start = train_folder_path(t, t->step);
    }
    return 0;
}

/* Loads the run's own last checkpoint, a given one, or fresh values. */
static int load_start(struct start *s, struct err *err)
{
    struct train *t = s->train;
    const char *given = train_given(t->run);
    int rc = 1;

    s->resume = t->run->resume != NULL;
    if (train_is_auto(t->run))
        rc = load_own(s, err);
    if (rc != 1)
        return rc;
    if (train_check_start(t, given != NULL, err))
        return -1;
    s->resume = given && given == t->run->resume;
    if (given) {
        t->start = run_folder_checkpoint(given);
        return state_load(s, err) ? -1 : 0;
    }
    if (t->run->dry)
        return 0;
    if (world_agree(t->world, state_carry_named(s, err), err) ||
        dtype_parse(t->plan.model.dtype, &t->stored, err))
        return -1;
    return load_engines(s, err);
}

void train_blame_weights(const struct train *t, struct err *err)
{
    const char *given = train_given(t->run);
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
    struct start s = {.train = t};
    int rc = world_agree(t->world, load_start(&s, err), err);

    return rc == 0 && t->start ? report_repaired(&s, err) : rc;
}
