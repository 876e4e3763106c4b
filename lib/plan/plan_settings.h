/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_SETTINGS_H
#define PLAN_PLAN_SETTINGS_H

#include "plan/plan_price.h"

/* The settings by which other tools express strategies. */
enum plan_target {
    PLAN_DEEPSPEED, /* JSON, comments under "_comment" */
    PLAN_FSDP,      /* PyTorch FSDP2, Python; only written */
    PLAN_MEGATRON,  /* Megatron-LM, flags */
    PLAN_TARGETS,
    PLAN_TORCHTITAN = PLAN_TARGETS, /* only read, as the next two: TOML */
    PLAN_DEEPSPEED_PARO,            /* the authors' DeepSpeed, JSON */
    PLAN_ACCELERATE,                /* YAML */
    PLAN_TOOLS
};

enum { PLAN_KEYS = 6, PLAN_VALUE = 64 };

struct plan_tool {
    const char *name, *title;
    const char *sets; /* between a key and its value */
    int keys;
    struct {                       /* keys that tell strategies apart */
        const char *path, *absent; /* the value if it is not there */
    } key[PLAN_KEYS];
};

enum {
    PLAN_ROW_KEEPS = 1,  /* parameters stay gathered from the forward to the backward */
    PLAN_ROW_WHOLE = 2,  /* gradients are whole until the last of several micro-steps */
    PLAN_ROW_EACH = 4,   /* gradients are summed over the groups in each micro-step */
    PLAN_ROW_HPZ = 8,    /* groups have a second copy of the parameters, for the backward */
    PLAN_ROW_MASTER = 16 /* parameters at rest are the optimizer's f32 copy */
};

/*
 * One way to express a strategy.  A value is alternatives separated by '|', the usual one
 * first: words, or @m, @g, @n for the ranks of a group, the groups, all ranks.  NULL: the key
 * is not written, and has the value of an absent one.
 */
struct plan_row {
    enum plan_target target;
    char strategy[4];
    unsigned flags;
    const char *value[PLAN_KEYS];
};

const struct plan_tool *plan_tool(enum plan_target target);
/* Returns the target's row after `row`, or its first if that is NULL; NULL: there is none. */
const struct plan_row *plan_row_next(enum plan_target target, const struct plan_row *row);
struct plan_strategy plan_row_strategy(const struct plan_row *row, int accum);
/* Writes the alternatives of a key's value; NULL: it has none on these groups. */
const char *plan_row_value(const struct plan_row *row, int key, const struct groups *groups,
                           char text[PLAN_VALUE]);
/* Returns whether the target can run s; I needs equal groups of consecutive ranks. */
int plan_can_run(enum plan_target target, struct plan_strategy s, const struct groups *groups);
/* Counts the steps between two strategies: per state, N to I and I to G are one each. */
int plan_steps_between(struct plan_strategy a, struct plan_strategy b);
/* Returns the strategy's name, with I replaced by its equal if there is one group, or one rank
   in each. */
const char *plan_plain_name(struct plan_strategy s, const struct groups *g);

#endif
