/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRAIN_TRAIN_INSIDE_H
#define TRAIN_TRAIN_INSIDE_H

/* Inside train/: the state of a run. */
#include "shard/shard_carry.h"
#include "ckpt/ckpt_write.h"
#include "data/data.h"
#include "engine/engine_proof.h"
#include "plan/plan.h"
#include "plan/plan_deal.h"
#include "train/train.h"
#include "train/train_image.h"
#include "train/train_local.h"
#include "train/train_record.h"

enum train_flag {
    TRAIN_STOP = 1,
    TRAIN_FAILED = 2,
    TRAIN_BUSY = 4, /* a checkpoint is being written here */
    TRAIN_SAVE = 8, /* a checkpoint was requested (SAVE) */
    TRAIN_LOCAL_BUSY = 16,
    TRAIN_LOCAL_FAILED = 32
};

struct train_saver;

struct train {
    struct world *world;         /* borrowed */
    const struct train_run *run; /* borrowed */
    struct train_settings settings;
    struct plan plan;
    struct pick_table tuning; /* with algo auto */
    struct data data;
    int32_t *begins; /* owned: filled by data_batch for the micro-batch; NULL: not isolated */
    struct train_settings was; /* settings of the resumed run; steps 0: unknown */
    double split_before;       /* eval_split of that run; -1: unknown */
    struct device *device;     /* owned */
    enum coll_transport transport;
    int graphs;
    struct engine *engine;
    struct plan second_plan; /* the plan with the strategy of `against`; owns nothing */
    struct engine *second;   /* NULL: none */
    struct engine_against *against;
    uint64_t hash;                   /* with exact: hash of the states after the last step */
    struct train_record record;      /* rank 0: the last step */
    double sum[TRAIN_METRICS_COUNT]; /* rank 0: of this run's steps but the first */
    int64_t summed;
    struct train_metrics *metrics; /* rank 0; NULL: no metrics requested */
    FILE *log;                     /* rank 0: the file, or NULL if `lines` is the log */
    int lines;                     /* printed so far */
    int lock;                      /* rank 0: lock of the folder being written; -1: none */
    int old_lock;     /* rank 0: with force, lock of run->out until it is replaced; -1 */
    const char *home; /* the folder written to: run->out, replacement.temp or .path */
    struct io_out replacement; /* with force: the folder that replaces run->out */
    int new, made;             /* rank 0: the folder was empty; number of parents created */
    char *kept;                /* rank 0, owned: log of a failed run that was replaced */
    struct err stuck;          /* rank 0: a folder that could not be removed; ERR_NONE: none */
    char *stop, *save;         /* rank 0: the paths of STOP and SAVE */
    int64_t flags;             /* enum train_flag, sent by this rank in the step's exchange */
    struct err failure;        /* the error of TRAIN_FAILED */
    struct err unlogged;       /* rank 0: why a step could not be logged; ERR_NONE: all were */
    int64_t step, tokens;      /* completed */
    int64_t sequences;  /* sequences that the resumed checkpoint was trained on; -1: unknown */
    int64_t resumed;    /* the step resumed from; 0: none */
    int64_t lost;       /* rank 0: later steps found in the log */
    char *start;        /* owned: the checkpoint that states were loaded from; NULL: fresh */
    int fell_back;      /* `latest` led to a damaged checkpoint, so `start` is an older one */
    double loss;        /* loss of the last step */
    int64_t available;  /* bytes of memory of this host before any was allocated */
    int64_t saved;      /* step of the newest checkpoint here, -1: none */
    int differs;        /* compared states differ */
    enum dtype stored;  /* type of params in checkpoints: that of the initial weights */
    struct carry carry; /* rank 0: files copied to every checkpoint */
    struct train_saver *saver, *local_saver; /* local_saver: local checkpoints; NULL: none */
    struct train_local *local;               /* owned; NULL: no --local-save */
    struct train_easy *easy;                 /* NULL: no --drop-easy */
    struct meter *meter;                     /* NULL: none */
    int64_t trace_step;                      /* 0: none */
    int tracing;                             /* events are being recorded, or were */
    double eval_loss, eval_s;                /* the completed step's: train_eval */
    double eval_bits;                        /* per byte of text; NAN: unknown */
    int ending;      /* with fragments: checkpoints are due, and wait for the next step */
    double save_s;   /* pause for a checkpoint since the last step; NAN: none */
    double path_s;   /* critical path of that step on rank 0; NAN: unknown */
    int64_t skipped; /* consecutive skipped steps, up to the last one */
    struct train_progress *progress; /* rank 0, on a terminal; else NULL */
};

/*
 * Log in the run's folder of a replacing run that ended without a checkpoint; the logs of later
 * ones have a number of 8 digits between the other two names.
 */
#define TRAIN_LOG_FAILED    "log.failed.jsonl"
#define TRAIN_FAILED_BEFORE "log.failed-"
#define TRAIN_FAILED_BEHIND ".jsonl"

/* train_folder.c: the run's folder; rank 0 only. */
/* Before reading the folder: checks its owner, finishes or removes the remains of --force. */
int train_folder_finish(struct train *t, struct err *err);
/* Makes and locks the folder; rejects one that has a run, or other files than a run's. */
int train_folder_open(struct train *t, struct err *err);
/* As train_folder_open, without making or locking anything. */
int train_folder_check(struct train *t, struct err *err);
/* Prints a checkpoint's folder name, "step-00000100". */
void train_folder_name(int64_t step, char name[40]);
int64_t train_folder_step(const char *name); /* step of such a name; -1: other name */
/* Checkpoints of the folder, first `latest`, then the newest first. */
enum { TRAIN_STEPS_MAX = 1000 };
struct train_steps {
    int64_t newest;                /* target of `latest`, or its next target; -1: unknown */
    int64_t count;                 /* 0: there is no `latest` */
    int64_t step[TRAIN_STEPS_MAX]; /* [0] is -1, which means `latest` */
};
void train_folder_steps(const struct train *t, struct train_steps *s);
char *train_folder_path(const struct train *t, int64_t step); /* step -1: `latest`; mem_free */
/* Returns the folder's path by which it can be renamed: no link, no "."; mem_free. */
char *train_folder_real(const char *out);
/* Whether the folder has an entry of that name; 1 also if this is unknown. */
int train_folder_has(const char *dir, const char *name);
/* Whether a run makes files of that name in its folder, or temporaries of them. */
int train_folder_owns(const char *name);
/* Just before the first step: writes plan, settings and tuning table. */
int train_folder_begin(struct train *t, struct err *err);
/* Sets `latest` by a rename, so that it is never absent. */
int train_folder_point(struct train *t, const char *name, struct err *err);
/*
 * Removes a checkpoint of another run whose name this run needs.  If `latest` led to it,
 * `latest` is set to the resumed one, if that exists.
 */
int train_folder_make_way(struct train *t, const char *name, struct err *err);
/* Removes checkpoints: all but the newest `keep`, and those later than `step`. */
int train_folder_prune(struct train *t, int64_t keep, int64_t step, struct err *err);
/*
 * Closes the folder; if nothing has begun in it, it is restored.  why: the run's error, to
 * which the path of a log without checkpoint is added; NULL: no error.
 */
void train_folder_close(struct train *t, struct err *why);

/*
 * train_replace.c: a new run in an old one's folder (--force).  finish: before anything is
 * read, on rank 0, completes or removes the remains of such a run that was killed, except its
 * log. begin: if there is an old run, home becomes a new folder (collective).  end: the new run
 * has checkpoint `step`, and its folder replaces the old one.  close: keeps the log of a run
 * without checkpoint, and adds its path to `why` (NULL: no error).
 */
int train_replace_finish(struct train *t, struct err *err);
int train_replace_begin(struct train *t, struct err *err);
int train_replace_end(struct train *t, const char *step, struct err *err);
void train_replace_close(struct train *t, struct err *why);

/*
 * train_save.c: checkpoints written while the run continues.  All functions but flag and
 * advance are collective.
 */
int train_save_open(struct train *t, struct err *err); /* after the engine is opened */
/* Begins a checkpoint of the completed step.  Without async_save it is complete on return. */
int train_save_begin(struct train *t, struct err *err);
/* flag: this rank's flag for the exchange; advance: acts on all ranks' flags; -1: a rank is
   lost. */
int64_t train_save_flag(struct train *t);
int train_save_advance(struct train *t, int64_t flags, struct err *err);
/* Begins a local checkpoint, if one is due and none is being written. */
void train_save_local(struct train *t);
/* Waits for all checkpoints in progress. */
int train_save_wait(struct train *t, struct err *err);
/* Ends a run: waits for checkpoints in progress, and saves the last step. */
int train_save_finish(struct train *t, struct err *err);
int64_t train_save_bytes(const struct train *t); /* bytes of the copied values */
/* Rank 0: waits until no checkpoint in progress can rename `home`. */
void train_save_still(struct train *t);
void train_save_close(struct train *t);

/* train_data.c: the training data. */
/* Keeps the data settings of the run that is resumed, files[0]. */
int train_data_was(struct train *t, const struct train_text *files, struct err *err);
int train_data_open(struct train *t, struct err *err);
/* Whether the option selects bytes as tokens. */
int train_data_is_bytes(const struct train *t);
/* Checks that all ranks have the same data.  Collective. */
int train_data_agree(struct train *t, struct err *err);
/* ERR_MISMATCH if the checkpoint `dir` was trained on other data, or on data cut
 * differently. */
int train_data_check(struct train *t, const char *dir, const struct ckpt_run *was,
                     struct err *err);

/* Sequences of a step in a rank's micro-batch, which it has: returns their number; *first: the
   first. */
int train_part(const struct plan *p, int micro, int rank, int64_t *first);

/*
 * train_easy.c: --drop-easy; the functions do nothing without it.  open: checks the options,
 * when data are open and before the engine, which writes losses into train_easy_losses; start:
 * when states are loaded (collective).  keep: before this rank's micro-batch `next`, and after
 * the last; step: after a step (collective); save: adds the data of this step's checkpoint to
 * the carry (collective).
 */
int train_easy_open(struct train *t, struct err *err);
float *train_easy_losses(const struct train *t);
int train_easy_start(struct train *t, struct err *err);
void train_easy_keep(struct train *t, int next);
int train_easy_step(struct train *t, struct err *err);
int train_easy_save(struct train *t, struct err *err);
void train_easy_close(struct train *t);

/* train_device.c */
int train_device_open(struct train *t, struct err *err); /* collective */
int train_on_gpu(const struct train *t);
void train_device_print(const struct train *t); /* prints the memory taken on a GPU */
/* prints statistics of GPU graphs, after the last step */
void train_device_print_graphs(const struct train *t);
/* The rate of a step's products on rank 0: on a GPU over the whole step, since the host cannot
   measure its computation. */
double train_flops_per_s(const struct train *t, const struct engine_report *r);

/*
 * train_state.c: the initial weights; start_weights is collective.  check_start: ERR_INPUT if
 * adapters would be trained on fresh values; given: weights are given.
 */
int train_check_start(const struct train *t, int given, struct err *err);
int train_is_auto(const struct train_run *run);       /* --resume=auto */
const char *train_given(const struct train_run *run); /* the folder of --resume, else --init */
int train_start_weights(struct train *t, struct err *err);
/*
 * Corrects an error of the data: if the given weights cannot be read or belong to another
 * model, err becomes that error, since the tokenizer comes with them.
 */
void train_blame_weights(const struct train *t, struct err *err);

/*
 * train_trace.c: the step that is traced.  open: when the first step of this run is known;
 * before and after: around each step, after before t->step counts it.  open and after:
 * collective.
 */
int train_trace_open(struct train *t, struct err *err);
void train_trace_before(struct train *t);
int train_trace_after(struct train *t, struct err *err);

/*
 * train_due.c: whether the ranks meet after `step`: after each step, with periods at their
 * ends; the last step ends one.  Whether they then have the same parameters: with fragments
 * only after the last step, and after one that checkpoints need.  And whether what is done
 * every so many steps is due after the current one, at which they meet: with periods at the
 * first end from a multiple on.
 */
int train_meets(const struct train *t, int64_t step);
int train_ends(const struct train *t, int64_t step);
/* With fragments, where the ranks meet: the next step ends if this run does, or a checkpoint is
   due. */
void train_prepare_end(struct train *t, int64_t flags);
int train_due(const struct train *t, double every);

/* train_eval.c: sets t->eval_loss after a step; NAN if no evaluation is due.  Collective. */
int train_eval(struct train *t, struct err *err);

/* train_summary.c: rank 0 prints a line for people, "paro-train: ...". */
void train_print(const struct train *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/*
 * Lines about the whole run; rank 0 prints.  resumed: the checkpoint resumed from, once
 * everything before the first step has succeeded; done: a summary, when the last checkpoint is
 * complete (collective); dry: what a run would do (collective).
 */
void train_summary_resumed(const struct train *t);
int train_summary_done(struct train *t, int stopped, struct err *err);
int train_summary_dry(struct train *t, struct err *err);

/* train_log.c: rank 0's log and lines. */
int train_log_open(struct train *t, struct err *err);
int train_log_step(struct train *t, const struct engine_report *r, double lr, struct err *err);
int train_log_close(struct train *t, struct err *err);
/* Rate of a step's products over its whole time, as a share of `peak`. */
double train_mfu(const struct train *t, const struct engine_report *r);

/*
 * train_metrics.c: publishes each step's record for Prometheus and TensorBoard; rank 0 only.  A
 * write error after the start causes a warning, and no further attempts.
 */
int train_metrics_open(struct train *t, struct err *err);
void train_metrics_step(struct train *t);
void train_metrics_close(struct train *t);

/*
 * train_progress.c: status lines, at most twice a second; only on a terminal.  step: counts a
 * step, and returns whether a line is due; show: writes it if so.  clear: call before other
 * output to the terminal.
 */
void train_progress_open(struct train *t);
int train_progress_step(struct train *t, const struct engine_report *r);
void train_progress_show(struct train *t, const struct engine_report *r);
void train_progress_clear(struct train *t);
void train_progress_close(struct train *t);

#endif
