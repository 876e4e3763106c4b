/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_REVIEW_H
#define PLAN_PLAN_REVIEW_H

#include "plan/plan.h"
#include "plan/plan_settings.h"
#include "value/value_tree.h"

/* Contents of a file. */
enum plan_stated {
    PLAN_STATED_MICRO, /* numbers, up to the types */
    PLAN_STATED_ACCUM,
    PLAN_STATED_GLOBAL,
    PLAN_STATED_SEQ,
    PLAN_STATED_RANKS,
    PLAN_STATED_PARAM, /* types, as the next two */
    PLAN_STATED_WIRE,
    PLAN_STATED_GRAD,
    PLAN_STATED_RECOMPUTE,
    PLAN_STATED_KEY, /* + the index of a tool's key */
    PLAN_STATED = PLAN_STATED_KEY + PLAN_KEYS
};

/* A cost that the price does not have; an option left open; a key without effect. */
enum plan_remark_kind { PLAN_REMARK_DIFFERS, PLAN_REMARK_UNSTATED, PLAN_REMARK_UNUSED };

/* A configuration of another tool. */
struct plan_review {
    struct tree tree; /* owned */
    enum plan_target target;
    const struct plan_tool *tool;
    const struct tree_node *at[PLAN_STATED]; /* NULL: not stated */
    int64_t number[PLAN_STATED_PARAM];       /* 0: open */
    const struct plan_row *row;              /* found by plan_review_apply */
    int known;                               /* keys with a meaning */
    struct plan_remark {
        enum plan_remark_kind kind;
        char text[240];
    } * remark; /* owned */
    size_t remarks, space;
};

/* Reads a file, or stdin if path is "-".  Its first line tells the tool. */
int plan_review_read(struct plan_review *r, const char *path, struct err *err);
void plan_review_release(struct plan_review *r);
/*
 * Finds the strategy on a fabric, and sets the settings that no option gave.  *level is a
 * boundary (topo_boundary.h) or PLAN_BOUNDARY_AUTO; if the file states groups, that of theirs.
 */
int plan_review_apply(struct plan_review *r, const struct topo *topo, const struct model *model,
                      struct plan_settings *s, struct plan_strategy *strategy, int *level,
                      struct err *err);
/* Returns whether the file has a row's value of a key, stated or as its default. */
int plan_review_has(const struct plan_review *r, const struct plan_row *row, int key,
                    const struct groups *g);
/* Prints the review of a finished search of that strategy, and its cheaper neighbours. */
void plan_review_print(const struct plan_review *r, const struct plan_search *s, int json,
                       FILE *out);

#endif
