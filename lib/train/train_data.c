/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens and checks the training data: the same on all ranks, and the same that a checkpoint was
 * trained on.  The order of samples continues only over the same tokens, cut the same way: a
 * held-out part moves every window.
 */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/run_folder.h"
#include "train/train_inside.h"

static double split_of(const struct train_settings *s)
{
    return s->eval_every ? s->eval_split : 0;
}

int train_data_was(struct train *t, const struct train_text *files, struct err *err)
{
    static const char *const none[TRAIN_SETTINGS_COUNT];
    struct train_settings was;

    if (train_settings_init(&was, files, 1, none, err))
        return -1;
    t->was = was;
    t->split_before = split_of(&was);
    return 0;
}

int train_data_is_bytes(const struct train *t)
{
    return t->run->tokenizer && strcmp(t->run->tokenizer, "bytes") == 0;
}

/* Finds the newest checkpoint in the run's folder with a complete tokenizer; mem_free, NULL:
   none. */
static char *find_own(struct train *t)
{
    struct train_steps own;
    struct err ignored;

    train_folder_steps(t, &own);
    for (int i = 0; i < own.count; i++) {
        char *dir = train_folder_path(t, own.step[i]);
        if (ckpt_is(dir) && carry_check(dir, &ignored) == 0)
            return dir;
        mem_free(dir);
    }
    return NULL;
}

/*
 * Returns the folder of the weights, which may contain a tokenizer; mem_free, NULL: no weights.
 * A checkpoint that cannot be read is reported when it is loaded.
 */
static char *tokenizer_folder(struct train *t)
{
    const struct train_run *run = t->run;
    const char *given = train_given(run);
    char *dir = train_is_auto(run) && run->out ? find_own(t) : NULL;

    if (!dir && given)
        dir = run_folder_checkpoint(given);
    char *path = dir ? carry_path(dir) : NULL;
    mem_free(dir);
    return path;
}

/* Fills o; *weights is owned by the caller, and borrowed by o. */
static int make_options(const struct train *t, struct data_options *o, double **weights,
                        struct err *err)
{
    const struct train_run *run = t->run;

    *weights = mem_new((size_t)run->data_count, sizeof **weights);
    *o = (struct data_options){.paths = run->data,
                               .count = run->data_count,
                               .weights = run->data_weights ? *weights : NULL,
                               .tokenizer = train_data_is_bytes(t) ? NULL : run->tokenizer,
                               .bytes = train_data_is_bytes(t),
                               .seq = t->plan.seq,
                               .vocab = t->plan.model.vocab,
                               .seed = (uint64_t)t->settings.seed,
                               .split = run->eval_data ? 0 : split_of(&t->settings),
                               .eval = run->eval_data,
                               .template = run->template,
                               .isolate = t->settings.documents == TRAIN_ISOLATE,
                               .fixed_windows = t->settings.drop_easy > 0};
    if (run->eval_data && !t->settings.eval_every)
        return err_set(err, ERR_INPUT, "--eval-data without --eval-every, expected both");
    if (run->data_weights &&
        data_weights_parse(run->data_weights, run->data_count, *weights, err))
        return err_prefix(err, "--data-weights: ");
    return 0;
}

int train_data_open(struct train *t, struct err *err)
{
    struct data_options o;
    double *weights;
    int rc = make_options(t, &o, &weights, err);
    char *folder = tokenizer_folder(t);

    o.folder = folder;
    if (rc == 0)
        rc = data_open(&t->data, &o, err);
    mem_free(folder);
    mem_free(weights);
    if (rc == 0 && o.isolate) {
        void *begins;
        rc = mem_data((int64_t)t->plan.micro_batch * t->plan.seq * 4, "begins of documents",
                      &begins, err);
        t->begins = rc ? NULL : begins;
    }
    return rc;
}

/* Files with the same name on several machines may differ. */
int train_data_agree(struct train *t, struct err *err)
{
    int64_t here[] = {t->data.tokens, data_eval_windows(&t->data), (int64_t)t->data.sum},
            there[3] = {here[0], here[1], here[2]};
    int rc = world_bcast(t->world, there, sizeof there, 0, err);

    if (rc == 0 && memcmp(here, there, sizeof here))
        rc = err_set(err, ERR_MISMATCH,
                     "the data here has %" PRId64 " tokens, %" PRId64
                     " windows to evaluate (xxh3 %016" PRIx64 "), expected %" PRId64
                     " and %" PRId64 " (%016" PRIx64 ") as on rank 0",
                     here[0], here[1], here[2], there[0], there[1], there[2]);
    for (int i = 0; rc == 0 && i < t->data.parts; i++) {
        const struct source *s = &t->data.part[i].source;
        if (s->guess.name)
            train_print(t, "conversations of '%s' by " CHAT_GUESS, s->path, s->guess.name,
                        s->guess.by);
    }
    return world_agree(t->world, rc, err);
}

/* Whether the checkpoint was trained on these files with another split: its own run's, or
   none. */
static int find_split(const struct train *t, const struct ckpt_run *was, double *split)
{
    const double splits[] = {t->split_before, 0};
    struct data_options o;
    struct err none;
    double *weights;
    int found = 0, rc = make_options(t, &o, &weights, &none);

    for (size_t i = 0; rc == 0 && !found && i < sizeof splits / sizeof *splits; i++) {
        int64_t train = 0;
        uint64_t sum = 0;
        o.split = splits[i];
        found = o.split >= 0 && data_tell(&t->data, &o, &train, &sum, &none) == 0 &&
                train == was->data_tokens && sum == was->data_sum;
    }
    mem_free(weights);
    *split = o.split;
    return found;
}

static void print_split(char text[64], double split)
{
    if (split > 0)
        snprintf(text, 64, "--eval-every, --eval-split=%.9g", split);
    else
        snprintf(text, 64, "--eval-every=0");
}

int train_data_check(struct train *t, const char *dir, const struct ckpt_run *was,
                     struct err *err)
{
    const struct data *now = &t->data;
    char before[64], here[64];
    double split;

    if (t->run->new_data)
        return 0;
    if (!was->data_seq) {
        train_print(
            t,
            "checkpoint '%s' does not record its data: it is unknown whether these are the "
            "same",
            dir);
        return 0;
    }
    if (was->data_tokens == now->train && was->data_seq == now->seq &&
        was->data_sum == now->sum)
        return 0;
    if (was->data_seq == now->seq && find_split(t, was, &split)) {
        print_split(before, split);
        print_split(here, t->run->eval_data ? 0 : split_of(&t->settings));
        return err_set(err, ERR_MISMATCH,
                       "checkpoint '%s' is of these data with another part kept from training: "
                       "it was trained on %" PRId64 " of %" PRId64
                       " tokens (%s), expected %" PRId64 " (%s); --new-data accepts this part",
                       dir, was->data_tokens, now->tokens, before, now->train, here);
    }
    return err_set(
        err, ERR_MISMATCH,
        "checkpoint '%s' is of other data: %" PRId64 " tokens in sequences of %" PRId64
        " (xxh3 %016" PRIx64 "), expected these: %" PRId64 " in %d (%016" PRIx64
        "); --new-data accepts them",
        dir, was->data_tokens, was->data_seq, was->data_sum, now->train, now->seq, now->sum);
}
