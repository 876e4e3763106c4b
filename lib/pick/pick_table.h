/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PICK_PICK_TABLE_H
#define PICK_PICK_TABLE_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/groups.h"
#include "pick/pick_auto.h"

/*
 * A table of choices, paro-tuning(5): pick_auto's choices at some sizes, or hand-written ones.
 * The rules of one operation are consecutive and ascending, the first from 0, each from the end
 * of the previous one, the last without an end: every size has one rule.
 */
struct pick_rule {
    unsigned phases;
    int64_t from_bytes, below_bytes; /* INT64_MAX: no end */
    enum schedule_algo algo;
    int64_t chunk_bytes; /* or PICK_CHUNK_WHOLE */
    /* The reason; at_bytes 0: not given.  runner_up SCHEDULE_AUTO: there was none. */
    int64_t at_bytes; /* size at which it was timed */
    int measured;     /* 0: times are simulated */
    double time_s;
    enum schedule_algo runner_up;
    double runner_up_s;
};

struct pick_table {
    struct groups groups;   /* owned; only the numbers of members matter */
    struct pick_rule *rule; /* owned */
    int rules;
};

enum { PICK_RULES_MAX = 1 << 14 };

/*
 * Makes a table from pick_list.  Neighbouring sizes with equal choices become one rule; the
 * boundary between two choices is the size from which the second is faster, to 1/32 of the
 * smaller size (by bisection between the two).
 */
int pick_table_make(const struct topo *t, const struct pick_query *a, struct pick_table *out,
                    struct err *err);
/*
 * Makes a table from measured answers, grouped by operation and sorted by size.  The boundary
 * between two choices is pick_between of their sizes, since nothing was measured there.
 */
void pick_table_measured(const struct groups *groups, const struct pick_answer *list,
                         int answers, struct pick_table *out);
/* Returns the least size not below the geometric mean of two sizes lo < hi; lo + 1 to hi. */
int64_t pick_between(int64_t lo, int64_t hi);
/* Appends the rules of `from`, for equal groups and other operations, to those of `to`. */
void pick_table_append(struct pick_table *to, const struct pick_table *from);
void pick_table_release(struct pick_table *t);

/* Reads strict YAML; rejects a rule whose algorithm cannot do its operation on the groups. */
int pick_table_read(struct pick_table *t, const char *path, struct err *err); /* "-": stdin */
int pick_table_parse(struct pick_table *t, const char *name, const char *text, struct err *err);
/* Prints a table; YAML reads back as an equal table and prints as an equal text. */
enum pick_format { PICK_YAML, PICK_JSON, PICK_TEXT };
void pick_table_print(const struct pick_table *t, enum pick_format format, FILE *out);

/* Returns the rule; NULL: the table has none for the operation. */
const struct pick_rule *pick_find(const struct pick_table *t, unsigned phases, int64_t bytes);
/* ERR_MISMATCH if the table is for other groups. */
int pick_table_check(const struct pick_table *t, const struct groups *g, struct err *err);

/*
 * Runs `paro-sched pick`: prints the choices on a fabric as a list, or as a table with all
 * operations of a trainer; or reads a table and prints it.
 */
struct pick_request {
    const char *topo;   /* operand of topo_read */
    const char *ops;    /* NULL: the named ones; for a table pick_query_moves */
    const char *tuning; /* a table to read instead, or NULL */
    int64_t min_bytes, max_bytes, factor; /* 0: the default of pick_query_init */
    int table, json;
};
int pick_report(const struct pick_request *r, FILE *out, struct err *err);

#endif
