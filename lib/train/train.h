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
 *   .DIR.paro-tmp/                 next to DIR, with force: the new run before its first
 *                                  checkpoint
 *   DIR/log.failed.jsonl           log of the last run that ended before its first checkpoint
 *   DIR/.step-N.old.paro-tmp/      a rest that could not be removed; the next run tries again
 *   DIR/.lock                      held while a run writes here
 *   DIR/trace-00000007.json, .svg  a step that was traced, if one was requested
 *   DIR/STOP                       created by a user: asks the run to checkpoint and stop;
 *                                  removed when it has
 *   DIR/SAVE                       created by a user: asks for a checkpoint now; removed when
 *                                  begun
 *
 * The settings of a resumed run are read from settings.yaml; the file and options of the
 * command override them.
 */

/*
 * The settings, listed once: key, option, kind (F a number, I a whole one, N a number of steps,
 * S a schedule, D a word of --documents), default, least, most, meaning.  They are the keys of
 * the YAML file and the long options of the command.
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
    X(outer_lr, "outer-lr", F, "0.7", 0, 1e3,                                                  \
      "In a plan with --sync-every: learning rate of the outer step")                          \
    X(outer_momentum, "outer-momentum", F, "0.9", 0, 0.999999,                                 \
      "In a plan with --sync-every: Nesterov's momentum of the outer step")                    \
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

/* By name, or in order; schedule is an enum train_schedule, documents an enum
   train_documents. */
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

/* A YAML file's name and text, which only rank 0 needs to have read; text NULL: no file. */
struct train_text {
    const char *name;
    const char *text;
};

/*
 * Takes the defaults, then the files in order, then given[i], the text of setting i from the
 * command line, or NULL.  A min_lr that is not set is at most lr.
 */
int train_settings_init(struct train_settings *s, const struct train_text *files, int count,
                        const char *const *given, struct err *err);
void train_settings_print(const struct train_settings *s, FILE *out);
/* Whether both have the same learning rate at every step. */
int train_lr_same(const struct train_settings *a, const struct train_settings *b);
/* "cosine", "linear", "wsd", "constant" */
const char *train_schedule_name(const struct train_settings *s);
/* Prints the settings that a run would use, for --print-config. */
struct train_run;
int train_settings_show(const struct train_run *run, FILE *out, struct err *err);
/* Learning rate of step 1, 2, ...: linear warm-up, then the schedule (paro-settings(5)). */
double train_lr(const struct train_settings *s, int64_t step);

struct train_run {
    const char *plan, *init, *out, *config, *resume, *log, *algo, *tuning, *against,
        *trace_step, *device, *transport, *graphs; /* NULL: not given */
    const char *prom, *tensorboard;                /* a file, a folder; NULL: not given */
    const char *meter;       /* folder of the records of paro-meter(5); NULL: none */
    const char *const *data; /* [data_count] */
    int data_count;
    const char *local_save; /* a folder on each host; NULL: none */
    const char *data_weights, *tokenizer, *template, *eval_data; /* NULL: not given */
    int exact; /* order-independent sums, and a hash of each step */
    const char *given[TRAIN_SETTINGS_COUNT];
    int fastest; /* GPU: bits may differ from run to run */
    int force;   /* replaces an existing run in the folder */
    int dry; /* checks everything and prints a summary to `lines`; runs and writes nothing */
    int new_data; /* the data may differ from the resumed checkpoint's */
    int json;     /* prints JSON Lines to `lines` instead of text */
    int progress; /* prints status lines to `talk` */
    int brief;    /* with progress: `lines` is the same terminal, so print few of them */
    double peak;  /* peak FLOP/s of a rank; 0: unknown */
    FILE *lines;
    FILE *talk;               /* rank 0 prints warnings here; NULL: nowhere */
    const volatile int *stop; /* becomes non-zero when a signal asks the run to stop */
};

/*
 * Collective.  Returns 0 when all steps are done; 3 when the run was asked to stop and has
 * saved a checkpoint; 1 when states differ, from those of `against` or (exact) between copies,
 * with err naming the place; -1 with the same error on every rank (except ERR_PEER, which this
 * rank alone may have).
 */
int train_run(struct world *world, const struct train_run *run, struct err *err);

/*
 * A text that a model continues; texts are borrowed, NULL if not given.  Without a tokenizer
 * the tokens are the text's bytes; with one an empty text stands for <|endoftext|>, and that
 * token ends the output.
 */
enum { TRAIN_PROMPT_LENGTH = 256, TRAIN_PROMPT_LENGTH_MAX = 1 << 24 };

struct train_prompt {
    const char *text;
    const char *from;      /* a checkpoint, a run, a Hugging Face folder */
    const char *tokenizer; /* a folder (token/token.h), or "bytes"; NULL: the one in `from` */
    /* with chat: a template of data/data_chat.h; NULL: chosen by the tokenizer */
    const char *template;
    const char *system;        /* with chat: the system message; NULL: the template's */
    int chat;                  /* text is a user's message; writes only the answer */
    const char *seed;          /* text of a number; default 1 */
    int64_t length;            /* maximum number of tokens to write */
    double temperature, top_p; /* temperature 0: the most likely token */
    int json;                  /* prints one JSON document at the end */
    FILE *out;
    FILE *talk; /* also receives warnings about the checkpoint; NULL: nowhere */
};

/* Runs in one process, without MPI.  Writes the text and its continuation as it is
   generated. */
int train_generate(const struct train_prompt *p, struct err *err);

/*
 * Draws runs from their logs, as SVG: loss (and validation loss), tokens/s and exposed
 * communication as a share of the step, over steps.  A log is a file or a run's folder.
 */
enum { TRAIN_PLOT_RUNS = 8 }; /* more colours are hard to tell apart */
int train_plot(const char *const *logs, int count, FILE *out, struct err *err);

#endif
