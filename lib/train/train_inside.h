/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRAIN_TRAIN_INSIDE_H
#define TRAIN_TRAIN_INSIDE_H

/* Inside train/: describes a run while it runs. */
#include "shard/shard_carry.h"
#include "ckpt/ckpt_write.h"
#include "data/data.h"
#include "engine/engine_proof.h"
#include "plan/plan.h"
#include "train/train.h"
#include "train/train_image.h"
#include "train/train_local.h"
#include "train/train_record.h"

enum train_flag {
    TRAIN_STOP = 1,
    TRAIN_FAILED = 2,
    TRAIN_BUSY = 4, /* a checkpoint is being written here */
    TRAIN_SAVE = 8, /* somebody wants one now */
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
    int32_t *begins; /* owned: of the micro-batch, as data_batch fills it; NULL: not isolated */
    struct train_settings was; /* of the run that is resumed; steps 0: not known */
    double split_before;       /* of that run; -1: not known */
    struct device *device;     /* owned */
    enum coll_transport transport;
    int graphs;
    struct engine *engine;
    struct plan second_plan; /* the plan with the strategy of `against`; owns nothing */
    struct engine *second;   /* NULL: none */
    struct engine_against *against;
    uint64_t hash;                 /* of the states after the last step, with exact */
    struct train_record record;    /* rank 0: of the last step */
    struct train_metrics *metrics; /* rank 0: NULL: neither asked for */
    FILE *log;                     /* rank 0: the file, or NULL where `lines` is the log */
    int lines;                     /* printed so far */
    int lock;                      /* rank 0: of the folder that is written; -1: none */
    int old_lock;     /* rank 0: with force, of run->out until the new one is there; -1 */
    const char *home; /* the folder that this run writes to: run->out, anew.temp, anew.path */
    struct io_out replacement; /* with force: the folder that takes the place of run->out */
    int new, made;     /* rank 0: the folder was empty; folders of its path that were absent */
    char *kept;        /* rank 0, owned: the log of a failed run that was begun anew */
    struct err stuck;  /* rank 0: what could not be removed; ERR_NONE: nothing */
    char *stop, *save; /* rank 0: the paths of STOP and SAVE */
    int64_t flags;     /* enum train_flag, as this rank sends them in the step's own exchange */
    struct err failure;   /* the error that TRAIN_FAILED stands for */
    struct err unlogged;  /* rank 0: why a step could not be logged; ERR_NONE: all are */
    int64_t step, tokens; /* done */
    int64_t sequences;    /* that the resumed checkpoint was trained on; -1: not known */
    int64_t resumed;      /* the step that was resumed from; 0: none */
    int64_t lost;         /* rank 0: steps after it that are in the log */
    char *start;          /* owned: the checkpoint that states came from; NULL: fresh ones */
    int fell_back;        /* it is not the one that `latest` leads to, which is damaged */
    double loss;          /* of the last step */
    int64_t available;    /* bytes of memory of this host, before any was taken */
    int64_t saved;        /* step of the newest checkpoint here, -1: none */
    int differs;          /* states that are compared differ */
    enum dtype stored;    /* of the params in checkpoints: that of the weights it began with */
    struct carry carry;   /* rank 0: to every checkpoint */
    struct train_saver *saver, *local_saver; /* near: of local checkpoints; NULL: none */
    struct train_local *local;               /* owned; NULL: no --local-save */
    struct train_easy *easy;                 /* NULL: no --drop-easy */
    struct meter *meter;                     /* NULL: none */
    int64_t trace_step;                      /* 0: none */
    int tracing;                             /* events are kept, or were */
    double eval_loss, eval_s;                /* of the step that is done: train_eval */
    double eval_bits;                        /* per byte of text; NAN: not known */
    double save_s; /* the run stood still for a checkpoint since the last step; NAN: for none */
    double path_s; /* the critical path of that step on rank 0; NAN: not known */
    int64_t skipped;                 /* steps in a row, up to the last one */
    struct train_progress *progress; /* rank 0, where somebody looks on; else NULL */
};

/*
 * In it: the log of a run that was begun anew there and came to no checkpoint; those of later
 * ones have a number of 8 digits between the two parts.
 */
#define TRAIN_LOG_FAILED    "log.failed.jsonl"
#define TRAIN_FAILED_BEFORE "log.failed-"
#define TRAIN_FAILED_BEHIND ".jsonl"

/* train_folder.c: the run's folder; of rank 0. */
/* Before anything in it is read: checks its owner, finishes or removes what --force left. */
int train_folder_finish(struct train *t, struct err *err);
/* Makes and locks it; one that has a run, or is no run's, is refused. */
int train_folder_open(struct train *t, struct err *err);
/* The same checks, without making or locking anything. */
int train_folder_check(struct train *t, struct err *err);
/* "step-00000100": a checkpoint's folder. */
void train_folder_name(int64_t step, char name[40]);
int64_t train_folder_step(const char *name); /* -1: it is none */
/* Its checkpoints from `latest` on, the newest first. */
enum { TRAIN_STEPS_MAX = 1000 };
struct train_steps {
    int64_t newest; /* where `latest` leads to, or is to lead to; -1: not known */
    int64_t count;  /* 0: there is no `latest` */
    int64_t step[TRAIN_STEPS_MAX]; /* [0] is -1, which stands for `latest` */
};
void train_folder_steps(const struct train *t, struct train_steps *s);
char *train_folder_path(const struct train *t, int64_t step); /* -1: of `latest`; mem_free */
/* The folder by a name that it can be exchanged by: no link, no "."; mem_free. */
char *train_folder_real(const char *out);
/* Whether the folder has an entry of that name; 1, too, where that cannot be found out. */
int train_folder_has(const char *dir, const char *name);
/* Whether a run makes files of that name there, or temporaries of them. */
int train_folder_owns(const char *name);
/* When the first step is next: writes plan, settings and tuning table. */
int train_folder_begin(struct train *t, struct err *err);
/* `latest` is renamed into place: it is never absent. */
int train_folder_point(struct train *t, const char *name, struct err *err);
/*
 * Removes the checkpoint that another run left under a name that this one comes to.  Where
 * `latest` led to it, it leads to the one that was resumed, if that is there.
 */
int train_folder_make_way(struct train *t, const char *name, struct err *err);
/* Removes checkpoints: older than the newest `keep`, and later than `step`. */
int train_folder_prune(struct train *t, int64_t keep, int64_t step, struct err *err);
/*
 * Closes it; one in which nothing has begun is as it was before.  `why`: the error that the run
 * ends with, to which is added where the log is that has no checkpoint; NULL: it ends well.
 */
void train_folder_close(struct train *t, struct err *why);

/*
 * train_replace.c: a new run in an old one's folder (--force).  settle: what such a run left
 * that was killed is finished or removed, but for its log; of rank 0, before anything is read.
 * begin: where there is an old one, home is a new folder (collective).  end: the new run's
 * checkpoint `step` is there, and its folder takes the old one's place.  close: of one that
 * came to none the log is kept, and `why` (NULL: it ends well) says where.
 */
int train_replace_finish(struct train *t, struct err *err);
int train_replace_begin(struct train *t, struct err *err);
int train_replace_end(struct train *t, const char *step, struct err *err);
void train_replace_close(struct train *t, struct err *why);

/*
 * train_save.c: checkpoints that are written while the run continues.  All but flag and advance
 * are collective.
 */
int train_save_open(struct train *t, struct err *err); /* once the engine is there */
/* One of the step that is done begins.  Without async_save it is there when this returns. */
int train_save_begin(struct train *t, struct err *err);
/* This rank's flag for the exchange; and what follows from all flags: -1: a rank is gone. */
int64_t train_save_flag(struct train *t);
int train_save_advance(struct train *t, int64_t flags, struct err *err);
/* A local checkpoint begins, if one is due and none is being written. */
void train_save_local(struct train *t);
/* All that is in flight is there. */
int train_save_wait(struct train *t, struct err *err);
/* The end of a run: all that is in flight is there, and one of the last step. */
int train_save_finish(struct train *t, struct err *err);
int64_t train_save_bytes(const struct train *t); /* of the copy */
/* Rank 0: nothing that is in flight moves `home`. */
void train_save_still(struct train *t);
void train_save_close(struct train *t);

/* train_data.c: what is trained on. */
/* Keeps the data settings of the run that is resumed, files[0]. */
int train_data_was(struct train *t, const struct train_text *files, struct err *err);
int train_data_open(struct train *t, struct err *err);
/* Whether texts are their bytes, by the option. */
int train_data_is_bytes(const struct train *t);
/* One data on all ranks.  Collective. */
int train_data_agree(struct train *t, struct err *err);
/* ERR_MISMATCH where the checkpoint `dir` was trained on other data, or they were cut
 * otherwise.
 */
int train_data_check(struct train *t, const char *dir, const struct ckpt_run *was,
                     struct err *err);

/* The sequences of a step that belong to one rank's micro-batch: how many, from the first
   on. */
int train_part(const struct plan *p, int micro, int rank, int64_t *first);

/*
 * train_easy.c: --drop-easy; nothing without it.  open: checks it, once data are there, before
 * the engine, which puts losses into train_easy_losses; start: once states are there
 * (collective).  micro_step: that of this rank's last micro-batch is done; step: a step is
 * (collective); save: the carry is to have what the checkpoint of this step needs (collective).
 */
int train_easy_open(struct train *t, struct err *err);
float *train_easy_losses(const struct train *t);
int train_easy_start(struct train *t, struct err *err);
void train_easy_micro_step(struct train *t, int last);
int train_easy_step(struct train *t, struct err *err);
int train_easy_save(struct train *t, struct err *err);
void train_easy_close(struct train *t);

/* train_device.c */
int train_device_open(struct train *t, struct err *err); /* collective */
int train_on_gpu(const struct train *t);
void train_device_print(const struct train *t);        /* the memory taken of a GPU */
void train_device_print_graphs(const struct train *t); /* of its graphs, when steps are over */
/* The rate of the products of a step on rank 0: on a GPU over the whole step, since the host
   does not know when it computes. */
double train_flops_per_s(const struct train *t, const struct engine_report *r);

/*
 * train_state.c: where the weights come from; start_weights is collective.  check_start:
 * ERR_INPUT where adapters would be trained beside fresh values; given: there are others.
 */
int train_check_start(const struct train *t, int given, struct err *err);
int train_is_auto(const struct train_run *run);       /* --resume=auto */
const char *train_given(const struct train_run *run); /* the folder of --resume, else --init */
int train_start_weights(struct train *t, struct err *err);
/*
 * Corrects an error of the data: where the given weights cannot be had or are another model's,
 * err is that, for a tokenizer comes with them.
 */
void train_blame_weights(const struct train *t, struct err *err);

/*
 * train_trace.c: the one step that is traced.  open: once the first step of this run is known;
 * before and after: of each step, after before t->step counts it.  open and after: collective.
 */
int train_trace_open(struct train *t, struct err *err);
void train_trace_before(struct train *t);
int train_trace_after(struct train *t, struct err *err);

/* train_eval.c: t->eval_loss after the step that is done; NAN where none is due.  Collective.
 */
int train_eval(struct train *t, struct err *err);

/* train_summary.c: a line of rank 0's for people, "paro-train: ...". */
void train_print(const struct train *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/*
 * Lines about a run as a whole; rank 0 prints.  resumed: where from, once
 * all that can fail before the first step has not; done: what was done, with its checkpoint
 * there (collective); dry: what would be (collective).
 */
void train_summary_resumed(const struct train *t);
int train_summary_done(struct train *t, int stopped, struct err *err);
int train_summary_dry(struct train *t, struct err *err);

/* train_log.c: rank 0's log and lines. */
int train_log_open(struct train *t, struct err *err);
int train_log_step(struct train *t, const struct engine_report *r, double lr, struct err *err);
int train_log_close(struct train *t, struct err *err);
/* The share of `peak` that the products of a step are, over all of its time. */
double train_mfu(const struct train *t, const struct engine_report *r);

/*
 * train_metrics.c: the record of each step for Prometheus and TensorBoard; of rank 0.  What
 * cannot be written later than at the start is a warning, and is not tried again.
 */
int train_metrics_open(struct train *t, struct err *err);
void train_metrics_step(struct train *t);
void train_metrics_close(struct train *t);

/*
 * train_progress.c: status lines, at most twice a second; nothing where
 * nobody looks on.  step: counts one, and returns whether the line is due; show: writes it
 * then. clear: before anything else is written to the terminal.
 */
void train_progress_open(struct train *t);
int train_progress_step(struct train *t, const struct engine_report *r);
void train_progress_show(struct train *t, const struct engine_report *r);
void train_progress_clear(struct train *t);
void train_progress_close(struct train *t);

#endif
