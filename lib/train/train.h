/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "ckpt/ckpt.h"
#include "world/world.h"

/*
 * Runs a training: a plan, data, settings, a folder.
 *
 *   DIR/plan.yaml, settings.yaml   as the run began, or was last resumed
 *   DIR/tuning.yaml                with algo auto: the tuning table
 *   DIR/log.jsonl                  one object a step
 *   DIR/step-00000100/             a checkpoint (paro-checkpoint(5))
 *   DIR/latest -> step-00000100    the newest complete one
 *   .DIR.paro-tmp/                 next to it, with force: this run, until it has a checkpoint
 *   DIR/log.failed.jsonl           the log of the last one that ended before it had
 *   DIR/.step-N.old.paro-tmp/      what could not be removed; the next run tries again
 *   DIR/.lock                      held while a run writes here
 *   DIR/trace-00000007.json, .svg  a step that was traced, if one was asked for
 *   DIR/STOP                       made by somebody who wants the run to stop in good order;
 *                                  removed when it has
 *   DIR/SAVE                       by somebody who wants a checkpoint now; removed when begun
 *
 * A run that is resumed takes its settings from settings.yaml before the file and the
 * options of the command.
 */

/*
 * The settings, once: key, option, kind (F a number, I a whole one, N one of steps, S a
 * schedule, D a word of --documents), default, least, most, meaning.  They are the keys of the
 * YAML file and the long options of the command.
 */
#define TRAIN_SETTINGS(X)                                                                      \
    X(steps, "steps", N, "100", 1, 1e12,                                                       \
      "Train this many steps in all, those before a resume included")                          \
    X(lr, "lr", F, "3e-4", 0, 1e3, "Learning rate after the warm-up")                          \
    X(min_lr, "min-lr", F, "3e-5", 0, 1e3,                                                     \
      "Learning rate at the last step, --lr if that is less")                                  \
    X(warmup, "warmup", N, "0", 0, 1e12, "Steps of linear warm-up")                            \
    X(schedule, "schedule", S, "cosine", 0, TRAIN_SCHEDULES - 1,                               \
      "Learning rate after the warm-up: cosine, linear, constant, or wsd, which is constant "  \
      "and then linear")                                                                       \
    X(decay, "decay", F, "0.2", 1e-9, 1,                                                       \
      "With --schedule=wsd: the share of the steps, the last ones, in which the rate falls")   \
    X(beta1, "beta1", F, "0.9", 0, 0.999999, "Decay of AdamW's first moment")                  \
    X(beta2, "beta2", F, "0.95", 0, 0.999999, "Decay of AdamW's second moment")                \
    X(eps, "eps", F, "1e-8", 0, 1, "AdamW's epsilon")                                          \
    X(weight_decay, "weight-decay", F, "0.1", 0, 10,                                           \
      "Weight decay of matrices and embeddings")                                               \
    X(clip, "clip", F, "1.0", 0, 1e9, "Clip the gradient's global norm; 0: never")             \
    X(skip_nonfinite, "skip-nonfinite", I, "1", 0, 1,                                          \
      "1: skip steps whose loss or gradient is not finite; 0: never")                          \
    X(max_skipped, "max-skipped", N, "100", 1, 1e12,                                           \
      "Abort after this many consecutive skipped steps")                                       \
    X(seed, "seed", I, "1", 0, 9e15, "Seed of fresh weights and of the order of the data")     \
    X(save_every, "save-every", N, "0", 0, 1e12,                                               \
      "Steps between checkpoints; 0: only at the end")                                         \
    X(async_save, "async-save", I, "1", 0, 1,                                                  \
      "1: write checkpoints from a copy while training continues; 0: training waits")          \
    X(keep, "keep", I, "2", 1, 1e6, "Keep this many checkpoints")                              \
    X(local_every, "local-every", N, "10", 1, 1e12,                                            \
      "With --local-save: steps between checkpoints there")                                    \
    X(copies, "copies", I, "1", 0, CKPT_COPIES_MAX,                                            \
      "With --local-save: keep this many copies of each shard in other groups")                \
    X(eval_every, "eval-every", N, "0", 0, 1e12,                                               \
      "Steps between evaluations on reserved data; 0: never")                                  \
    X(eval_split, "eval-split", F, "0.05", 1e-9, 0.99,                                         \
      "With --eval-every: reserve this part of the data, its end, for evaluation")             \
    X(eval_batches, "eval-batches", I, "32", 0, 1e9,                                           \
      "With --eval-every: evaluate at most this many micro-batches per rank; 0: all")          \
    X(documents, "documents", D, "join", 0, TRAIN_DOCUMENTS - 1,                               \
      "isolate: attention does not cross the bounds of documents; join: it does")              \
    X(drop_easy, "drop-easy", I, "0", 0, 1e12,                                                 \
      "After step --drop-easy-at train without this many sequences, the easiest ones")         \
    X(drop_easy_at, "drop-easy-at", N, "0", 0, 1e12,                                           \
      "With --drop-easy: the step; each sequence must have been seen in two epochs by then")   \
    X(deadline, "deadline", F, WORLD_DEADLINE_TEXT, 1, 1e6, WORLD_DEADLINE_HELP)

enum train_documents { TRAIN_JOIN, TRAIN_ISOLATE, TRAIN_DOCUMENTS };
enum train_schedule { TRAIN_COSINE, TRAIN_LINEAR, TRAIN_WSD, TRAIN_CONSTANT, TRAIN_SCHEDULES };

enum {
#define X_COUNT(name, option, kind, value, least, most, text) TRAIN_SETTING_##name,
    TRAIN_SETTINGS(X_COUNT)
#undef X_COUNT
        TRAIN_SETTINGS_COUNT
};

/* By name, or in order; schedule is an enum train_schedule, documents a train_documents. */
struct train_settings {
    union {
        struct {
#define X_FIELD(name, option, kind, value, least, most, text) double name;
            TRAIN_SETTINGS(X_FIELD)
#undef X_FIELD
        };
        double value[TRAIN_SETTINGS_COUNT];
    };
};

/* A YAML file's name and its text, which rank 0 alone need have read; text NULL: none. */
struct train_text {
    const char *name;
    const char *text;
};

/*
 * The defaults, then the files in order, then given[i], the text of setting i from the command
 * line, or NULL.  A min_lr that nobody sets is no more than lr.
 */
int train_settings_init(struct train_settings *s, const struct train_text *files, int count,
                        const char *const *given, struct err *err);
void train_settings_print(const struct train_settings *s, FILE *out);
/* Whether the rate is the same at every step. */
int train_lr_same(const struct train_settings *a, const struct train_settings *b);
/* "cosine", "linear", "wsd", "constant" */
const char *train_schedule_name(const struct train_settings *s);
/* The settings that a run would have, for --print-config. */
struct train_run;
int train_settings_show(const struct train_run *run, FILE *out, struct err *err);
/* Linear warm-up, then by the schedule to the last step (paro-settings(5)); step = 1, 2, ... */
double train_lr(const struct train_settings *s, int64_t step);

struct train_run {
    const char *plan, *init, *out, *config, *resume, *log, *algo, *tuning, *against,
        *trace_step, *device, *transport, *graphs; /* NULL: not given */
    const char *prom, *tensorboard;                /* a file, a folder; NULL: not given */
    const char *meter;       /* the folder of the records of paro-meter(5); NULL: none */
    const char *const *data; /* [data_count] */
    int data_count;
    const char *local_save; /* a folder of each host; NULL: none */
    const char *data_weights, *tokenizer, *template, *eval_data; /* NULL: not given */
    int exact; /* sums that do not depend on their order, a hash of each step */
    const char *given[TRAIN_SETTINGS_COUNT];
    int fastest; /* of a GPU: bits may differ from run to run */
    int force;   /* an existing run folder is begun anew */
    int dry; /* everything is checked and summed up on `lines`; nothing runs or is written */
    int new_data; /* the checkpoint may have been trained on other data */
    int json;     /* JSON Lines on `lines` instead of text */
    int progress; /* status lines on `talk` */
    int brief;    /* with it: `lines` is the same terminal, and few of them are enough */
    double peak;  /* FLOP/s of a rank at most; 0: not known */
    FILE *lines;
    FILE *talk;               /* rank 0 warns here; NULL: nowhere */
    const volatile int *stop; /* becomes non-zero when a signal asks for the end */
};

/*
 * Collective.  Returns 0 when all steps are done, 3 when the run stopped in good order before,
 * 1 when states differ, of `against` or (exact) of copies: err says where.  -1 with the same
 * error on every rank (but for ERR_PEER, which this rank alone may have).
 */
int train_run(struct world *world, const struct train_run *run, struct err *err);

/*
 * A text that a model continues; texts are borrowed, NULL where not given.  Without a
 * tokenizer the tokens are the text's bytes; with one an empty text stands for <|endoftext|>,
 * and that token ends what is written.
 */
enum { TRAIN_PROMPT_LENGTH = 256, TRAIN_PROMPT_LENGTH_MAX = 1 << 24 };

struct train_prompt {
    const char *text;
    const char *from;          /* a checkpoint, a run, a Hugging Face folder */
    const char *tokenizer;     /* a folder (token/token.h), "bytes"; NULL: from's */
    const char *template;      /* with chat: of data/data_chat.h; NULL: by the tokenizer */
    const char *system;        /* with chat: the system message; NULL: the template's */
    int chat;                  /* text is a user's message, and an answer is written */
    const char *seed;          /* as typed; 1 */
    int64_t length;            /* most tokens to write */
    double temperature, top_p; /* temperature 0: the likeliest token */
    int json;                  /* one document at the end */
    FILE *out;
    FILE *talk; /* receives errors of the checkpoint all the same; NULL: nowhere */
};

/* One process, no MPI.  Writes the text and what follows, as it comes. */
int train_generate(const struct train_prompt *p, struct err *err);

/*
 * Draws runs by their logs, as SVG: loss (and validation loss), tokens/s and the share of the
 * step that is exposed communication, over steps.  A log is a file or a run's folder.
 */
enum { TRAIN_PLOT_RUNS = 8 }; /* more colours look alike */
int train_plot(const char *const *logs, int count, FILE *out, struct err *err);

#endif
