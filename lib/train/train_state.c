/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows where the weights of a run come from (fresh, a checkpoint, the run's own last one) and
 * how they are kept.  A checkpoint is written by all ranks beside its place and appears whole;
 * `latest` is moved onto it afterwards, so that it always names a complete one.
 */
#include "train/train_inside.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/tool.h"

static int fresh(void *arg, int unit, int state, const struct range *ranges, int n, float *out,
                 struct err *err)
{
    const struct train *t = arg;
    const struct model *m = &t->plan.model;
    enum dtype type = DTYPE_F32;

    (void)state; /* moments are zero without asking */
    if (dtype_parse(m->dtype, &type, err))
        return -1;
    for (int i = 0; i < n; i++)
        for (int k = m->unit[unit].first; k < m->unit[unit].first + m->unit[unit].count; k++) {
            const struct model_tensor *tensor = &m->tensor[k];
            int64_t lo = tensor->offset, hi = lo + tensor->elems;
            int64_t a = lo > ranges[i].lo ? lo : ranges[i].lo;
            int64_t b = hi < ranges[i].hi ? hi : ranges[i].hi;
            if (a >= b)
                continue;
            model_init_values(tensor, (uint64_t)t->settings.seed, a - lo, b - a, out);
            /* What paro-shard init writes has the model's type: the same values here. */
            uint16_t half;
            for (int64_t x = 0; type != DTYPE_F32 && x < b - a; x++) {
                dtype_convert(&half, type, out + x, DTYPE_F32, 1);
                dtype_convert(out + x, DTYPE_F32, &half, type, 1);
            }
            out += b - a;
        }
    return 0;
}

struct reader {
    struct ckpt ckpt;
    int state[3]; /* of engine_source's three */
};

static int stored(void *arg, int unit, int state, const struct range *ranges, int n, float *out,
                  struct err *err)
{
    struct reader *r = arg;

    return ckpt_read_ranges(&r->ckpt, unit, r->state[state], ranges, n, DTYPE_F32, out, err);
}

static int load(struct train *t, const char *dir, int resume, struct err *err)
{
    struct reader r = {.state = {-1, -1, -1}};
    int rc = -1;

    if (!ckpt_is(dir))
        return err_set(err, ERR_INPUT,
                       "'%s' is no checkpoint (it has no manifest.json), expected one from "
                       "paro-shard split or a run",
                       dir);
    if (ckpt_open(&r.ckpt, dir, err))
        return -1;
    r.state[1] = ckpt_find_state(&r.ckpt, "exp_avg");
    r.state[2] = ckpt_find_state(&r.ckpt, "exp_avg_sq");
    r.state[0] = ckpt_find_state(&r.ckpt, resume ? "master" : "params");
    if (tool_check_same(dir, &r.ckpt.model, &t->plan.model, err))
        goto done;
    if (r.state[0] < 0 || (resume && (r.state[1] < 0 || r.state[2] < 0 || !r.ckpt.has_run))) {
        err_set(err, ERR_INPUT, "checkpoint '%s' has no %s, expected a run's checkpoint", dir,
                resume ? "optimizer state" : "parameters");
        goto done;
    }
    if (resume) {
        t->step = r.ckpt.run.step;
        t->tokens = r.ckpt.run.tokens;
        if (r.ckpt.run.seed != (uint64_t)t->settings.seed) {
            err_set(err, ERR_MISMATCH,
                    "checkpoint '%s' was run with seed %" PRIu64
                    ", expected the settings' %.0f",
                    dir, r.ckpt.run.seed, t->settings.seed);
            goto done;
        }
    }
    rc = engine_load(t->engine, stored, &r, resume, err);
done:
    ckpt_close(&r.ckpt);
    return rc;
}

/* Whether there is a run to go on with: rank 0's word, for its eyes see the folder. */
static int find_latest(struct train *t, const char *latest, int32_t *there, struct err *err)
{
    struct stat st;

    *there = t->world->rank == 0 && lstat(latest, &st) == 0;
    return world_bcast(t->world, there, sizeof *there, 0, err);
}

/* One step on all ranks: folders of one name on several machines may differ. */
static int agree_on_step(struct train *t, struct err *err)
{
    int64_t step = t->step;
    int rc = world_bcast(t->world, &step, sizeof step, 0, err);

    if (rc == 0 && step != t->step)
        rc = err_set(err, ERR_MISMATCH,
                     "the checkpoint here is of step %" PRId64 ", expected %" PRId64
                     " as on rank 0",
                     t->step, step);
    return rc;
}

int train_start_weights(struct train *t, struct err *err)
{
    const struct train_run *run = t->run;
    int32_t latest_there = 0;
    char *latest = io_join(run->out, "latest");
    int rc = find_latest(t, latest, &latest_there, err);

    if (rc)
        goto done;
    if (run->resume && strcmp(run->resume, "auto"))
        rc = load(t, run->resume, 1, err);
    else if (run->resume && latest_there)
        rc = load(t, latest, 1, err);
    else if (run->init)
        rc = load(t, run->init, 0, err);
    else
        rc = engine_load(t->engine, fresh, t, 0, err);
    rc = world_agree(t->world, rc, err);
    if (rc == 0 && run->resume)
        rc = world_agree(t->world, agree_on_step(t, err), err);
    if (rc == 0 && t->step && strcmp(run->resume, "auto") == 0)
        t->saved = t->step;
done:
    mem_free(latest);
    return rc;
}

enum { SAVED_PARAMS, SAVED_MASTER, SAVED_STATES = 4 };

struct writer {
    struct train *t;
    enum dtype type[SAVED_STATES];
};

static int fill(void *arg, int unit, int state, struct range at, void *out, struct err *err)
{
    struct writer *w = arg;

    (void)err;
    /* params and master are the same values, in the model's type and in f32 */
    engine_values(w->t->engine, unit, state > 0 ? state - 1 : 0, at, w->type[state], out);
    return 0;
}

static int publish(struct train *t, struct io_dir *dir, const struct ckpt_shape *shape,
                   char **entries, const char *name, struct err *err)
{
    struct ckpt_run run = {.step = t->step,
                           .tokens = t->tokens,
                           .position = t->step,
                           .seed = (uint64_t)t->settings.seed};

    if (ckpt_write_manifest(dir->temp, shape, (const char *const *)entries, &run, err)) {
        io_dir_abandon(dir);
        return -1;
    }
    if (io_dir_commit(dir, err) || train_folder_point(t, name, err))
        return -1;
    return train_folder_prune(t, (int64_t)t->settings.keep, err);
}

int train_save(struct train *t, struct err *err)
{
    char name[40], strategy[4], *path = NULL, *temp = NULL, *entry = NULL, **entries = NULL;
    struct writer w = {.t = t};
    struct ckpt_shape shape = {.model = &t->plan.model,
                               .layout = engine_layout(t->engine),
                               .strategy = strategy,
                               .states = SAVED_STATES,
                               .state = {{"params", DTYPE_F32},
                                         {"master", DTYPE_F32},
                                         {"exp_avg", DTYPE_F32},
                                         {"exp_avg_sq", DTYPE_F32}}};
    struct io_dir dir = {.lock = -1};
    int rank0 = t->world->rank == 0, rc;

    plan_strategy_name(t->plan.strategy, strategy);
    snprintf(name, sizeof name, "step-%08" PRId64, t->step);
    path = io_join(t->run->out, name);
    rc = dtype_parse(t->plan.model.dtype, &shape.state[SAVED_PARAMS].type, err);
    for (int s = 0; s < SAVED_STATES; s++)
        w.type[s] = shape.state[s].type;
    if (rc == 0 && rank0)
        rc = io_dir_create(&dir, path, 1, err);
    rc = world_agree(t->world, rc, err);
    if (rc)
        goto done;
    temp = rank0 ? dir.temp : NULL;
    rc = world_bcast_text(t->world, &temp, err);
    if (rc)
        goto done;
    rc = ckpt_write_shard(temp, t->world->rank, &shape, fill, &w, &entry, err);
    rc = world_agree(t->world, rc, err);
    if (rc == 0)
        rc = world_gather_text(t->world, entry, &entries, err);
    if (rc)
        goto done;
    rc = world_agree(t->world, rank0 ? publish(t, &dir, &shape, entries, name, err) : 0, err);
    if (rc == 0)
        t->saved = t->step;
done:
    if (rank0 && dir.path)
        io_dir_abandon(&dir);
    if (!rank0)
        mem_free(temp);
    for (int r = 0; entries && r < t->world->ranks; r++)
        mem_free(entries[r]);
    mem_free(entries);
    mem_free(entry);
    mem_free(path);
    return rc;
}
