/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps the losses of a run's sequences (--drop-easy): stored by the rank that computed them,
 * gathered when a checkpoint is made and when easy sequences are dropped, and kept in
 * checkpoints, so that a resumed run drops the same ones.
 */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "data/data_easy.h"
#include "train/train_inside.h"

struct train_easy {
    int64_t at;    /* the step after which sequences are dropped */
    int64_t batch; /* sequences of a step, of all ranks */
    /* (layered, micro_batch, seq) losses of the last micro-step, written by the engine */
    float *rows;
    float *mine;      /* (step, accum, micro_batch) losses on this rank, since `gathered` */
    float *all;       /* [at * batch] by sample; NULL: sequences have been dropped */
    int64_t gathered; /* number of steps in `all` */
};

static int check_easy(const struct train *t, int64_t count, int64_t at, int64_t batch,
                      struct err *err)
{
    int64_t sequences = 0, samples = easy_samples(&t->data);

    for (int p = 0; p < t->data.count; p++)
        sequences += t->data.part[p].windows.windows;
    if (count > sequences - t->data.count)
        return err_set(err, ERR_INPUT,
                       "--drop-easy is %" PRId64 ", expected at most %" PRId64
                       ": the data has %" PRId64 " sequences",
                       count, sequences - t->data.count, sequences);
    if (at < (samples + batch - 1) / batch)
        return err_set(err, ERR_INPUT,
                       "--drop-easy-at is %" PRId64 ", expected at least %" PRId64
                       ": by then each sequence was seen in two epochs",
                       at, (samples + batch - 1) / batch);
    if (at > CARRY_FILE_MAX / (int64_t)sizeof(float) / batch)
        return err_set(err, ERR_INPUT,
                       "--drop-easy-at is %" PRId64 ", expected at most %" PRId64
                       ": checkpoints hold the loss of each sequence of each step",
                       at, CARRY_FILE_MAX / (int64_t)sizeof(float) / batch);
    if (train_on_gpu(t))
        return err_set(err, ERR_INPUT, "--drop-easy on a GPU, expected a processor");
    return 0;
}

int train_easy_open(struct train *t, struct err *err)
{
    const struct plan *p = &t->plan;
    int64_t count = (int64_t)t->settings.drop_easy, at = (int64_t)t->settings.drop_easy_at;
    int64_t here = (int64_t)p->accum * p->micro_batch,
            batch = plan_sequences(&p->settings, p->groups.ranks);
    struct train_easy *e;
    void *all = NULL, *mine = NULL, *rows = NULL;

    if (!count != !at)
        return err_set(err, ERR_INPUT, "--drop-easy%s without --drop-easy%s, expected both",
                       count ? "" : "-at", count ? "-at" : "");
    if (!count)
        return 0;
    if (check_easy(t, count, at, batch, err))
        return -1;
    e = t->easy = mem_new(1, sizeof *e);
    *e = (struct train_easy){.at = at, .batch = batch};
    int rc = mem_data(at * batch * 4, "the losses of sequences", &all, err) ||
             mem_data(at * here * 4, "the losses of sequences", &mine, err) ||
             mem_data((int64_t)plan_layered(&p->settings) * p->micro_batch * p->seq * 4,
                      "the losses of tokens", &rows, err);
    e->all = all;
    e->mine = mine;
    e->rows = rows;
    return rc ? -1 : 0;
}

float *train_easy_losses(const struct train *t)
{
    return t->easy ? t->easy->rows : NULL;
}

/* Drops the easy sequences; the run continues with the others. */
static void train_easy_drop(struct train *t)
{
    struct train_easy *e = t->easy;
    struct easy_report r;

    easy_drop(&t->data, e->all, e->at * e->batch, (int64_t)t->settings.drop_easy, &r);
    train_print(t,
                "step %" PRId64 ": dropped the %" PRId64 " easiest of %" PRId64
                " sequences (%" PRId64 " never forgotten, %" PRId64 " never learned)",
                e->at, r.dropped, r.sequences, r.never_lost, r.never_learned);
    mem_free(e->all);
    mem_free(e->mine);
    e->all = e->mine = NULL;
}

/* Checks the losses of the resumed checkpoint, if any, in rank 0's carry. */
static int check_carried(const struct train *t, int64_t bytes, struct err *err)
{
    const struct train_easy *e = t->easy;
    int64_t steps = !e ? 0 : t->step < e->at ? t->step : e->at;

    if (e && t->run->new_data)
        return err_set(err, ERR_INPUT, "--new-data with --drop-easy, expected one of them");
    if (bytes != (e ? steps * e->batch * 4 : 0))
        return err_set(err, ERR_MISMATCH,
                       "checkpoint '%s' has the losses of %" PRId64
                       " sequences, expected %" PRId64
                       ": --drop-easy-at and the sequences of a step stay as they were",
                       t->start, bytes / 4, e ? steps * e->batch : 0);
    if (e && t->step >= e->at && t->was.steps && t->was.drop_easy != t->settings.drop_easy)
        return err_set(err, ERR_MISMATCH,
                       "--drop-easy is %.0f, expected %.0f: step %" PRId64
                       ", at which sequences were dropped, is over",
                       t->settings.drop_easy, t->was.drop_easy, e->at);
    return 0;
}

int train_easy_start(struct train *t, struct err *err)
{
    struct train_easy *e = t->easy;
    int64_t bytes = 0;

    if (!t->resumed)
        carry_set(&t->carry, CARRY_LOSSES, NULL, 0);
    const char *text = carry_find(&t->carry, CARRY_LOSSES, &bytes);
    if (world_bcast(t->world, &bytes, sizeof bytes, 0, err) || check_carried(t, bytes, err))
        return -1;
    if (!bytes)
        return 0;
    if (text)
        memcpy(e->all, text, (size_t)bytes);
    if (world_bcast(t->world, e->all, bytes, 0, err))
        return -1;
    e->gathered = bytes / 4 / e->batch;
    if (t->step >= e->at)
        train_easy_drop(t);
    return 0;
}

/* at: its place in its micro-step. */
static void keep_micro(struct train *t, int micro, int at)
{
    struct train_easy *e = t->easy;
    const struct plan *p = &t->plan;
    float *to = e->mine + ((t->step - e->gathered) * p->accum + micro) * p->micro_batch;
    for (int b = 0; b < p->micro_batch; b++) {
        const float *row = e->rows + ((int64_t)at * p->micro_batch + b) * p->seq;
        double sum = 0;
        int counted = 0;
        for (int i = 0; i < p->seq; i++) {
            sum += row[i] < 0 ? 0 : row[i];
            counted += row[i] >= 0;
        }
        to[b] = (float)(sum / (counted ? counted : 1));
    }
}

void train_easy_keep(struct train *t, int next)
{
    const struct plan_settings *s = &t->plan.settings;
    int count = plan_count_of(s, t->world->ranks, t->world->rank);
    int64_t steps = plan_micro_steps(s);

    if (!t->easy || !t->easy->all || next == 0)
        return;
    int before = (int)((next - 1) * steps / count), first = plan_count_before(s, count, before);
    for (int micro = first; next * steps / count > before && micro < next; micro++)
        keep_micro(t, micro, micro - first);
}

static int easy_gather(struct train *t, struct err *err)
{
    struct train_easy *e = t->easy;
    int64_t b = t->plan.micro_batch, accum = t->plan.accum, first;
    int ranks = t->world->ranks;
    int64_t steps = t->step - e->gathered, each = steps * accum * b;
    float *sent = mem_new((size_t)(each * ranks), sizeof *sent);
    int rc = world_allgather(t->world, e->mine, each * 4, sent, err);

    for (int r = 0; rc == 0 && r < ranks; r++)
        for (int64_t m = 0; m < steps * accum; m++) {
            if (m % accum >= plan_count_of(&t->plan.settings, ranks, r))
                continue;
            int count = train_part(&t->plan, (int)(m % accum), r, &first);
            memcpy(e->all + (e->gathered + m / accum) * e->batch + first,
                   sent + r * each + m * b, (size_t)count * sizeof *sent);
        }
    mem_free(sent);
    e->gathered = t->step;
    return rc;
}

int train_easy_save(struct train *t, struct err *err)
{
    struct train_easy *e = t->easy;

    if (!e || !e->all)
        return 0;
    if (t->step > e->gathered && easy_gather(t, err))
        return -1;
    if (t->world->rank == 0)
        carry_set(&t->carry, CARRY_LOSSES, e->all, e->gathered * e->batch * 4);
    return 0;
}

int train_easy_step(struct train *t, struct err *err)
{
    if (!t->easy || t->step != t->easy->at)
        return 0;
    /* Finishes the save in progress first: it contains the losses that are replaced. */
    if (train_save_wait(t, err) || train_easy_save(t, err))
        return -1;
    train_easy_drop(t);
    return 0;
}

void train_easy_close(struct train *t)
{
    if (!t->easy)
        return;
    MEM_FREE(t->easy->all, t->easy->mine, t->easy->rows, t->easy);
}
