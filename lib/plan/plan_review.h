/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_REVIEW_H
#define PLAN_PLAN_REVIEW_H

#include "plan/plan.h"
#include "plan/plan_settings.h"
#include "value/value_tree.h"

enum plan_review_number {
    PLAN_REVIEW_MICRO,
    PLAN_REVIEW_ACCUM,
    PLAN_REVIEW_GLOBAL,
    PLAN_REVIEW_SEQ,
    PLAN_REVIEW_RANKS,
    PLAN_REVIEW_NUMBERS
};

enum plan_review_type {
    PLAN_REVIEW_PARAM,
    PLAN_REVIEW_WIRE,
    PLAN_REVIEW_GRAD,
    PLAN_REVIEW_TYPES
};

enum plan_remark_kind {
    PLAN_REMARK_DIFFERS, /* a cost of the tool that the price does not have */
    PLAN_REMARK_UNSTATED,
    PLAN_REMARK_UNKNOWN,
    PLAN_REMARK_KINDS
};

/* A configuration of another tool. */
struct plan_review {
    struct tree tree; /* owned */
    enum plan_target target;
    const struct tree_node *key[PLAN_KEYS]; /* of plan_tool; NULL: absent */
    const struct plan_row *row;             /* found by plan_review_apply */
    const struct tree_node *at[PLAN_REVIEW_NUMBERS];
    int64_t number[PLAN_REVIEW_NUMBERS]; /* 0: open */
    int type[PLAN_REVIEW_TYPES];         /* -1: open */
    int recompute, known;                /* known: keys with a meaning */
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
/* Print the review of a finished search of that strategy, and its cheaper neighbours. */
void plan_review_print(const struct plan_review *r, const struct plan_search *s, FILE *out);
void plan_review_print_json(const struct plan_review *r, const struct plan_search *s,
                            FILE *out);

#endif
