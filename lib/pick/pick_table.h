/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PICK_PICK_TABLE_H
#define PICK_PICK_TABLE_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/groups.h"
#include "pick/pick_auto.h"

/*
 * A table of choices, paro-tuning(5): what pick_auto said at some sizes, or what somebody
 * wrote.  The rules of one operation stand together, ascending, the first from 0, each from
 * where the one before it ends, the last without an end: every size has one rule.
 */
struct pick_rule {
    unsigned phases;
    int64_t from_bytes, below_bytes; /* INT64_MAX: without end */
    enum schedule_algo algo;
    int64_t chunk_bytes; /* or PICK_CHUNK_WHOLE */
    /* Why; at_bytes 0: not said.  runner_up SCHEDULE_AUTO: there was none. */
    int64_t at_bytes; /* the size where it was timed */
    int measured;     /* 0: times are simulated */
    double time_s;
    enum schedule_algo runner_up;
    double runner_up_s;
};

struct pick_table {
    struct groups groups;   /* owned; numbers of members count, not who they are */
    struct pick_rule *rule; /* owned */
    int rules;
};

enum { PICK_RULES_MAX = 1 << 14 };

/*
 * By pick_list.  Neighbouring sizes with one choice are one rule; between two choices the
 * boundary is the size from which the second is faster, to 1/32 of the smaller size (by
 * bisection over the two alone).
 */
int pick_table_make(const struct topo *t, const struct pick_query *a, struct pick_table *out,
                    struct err *err);
/*
 * From answers that were measured, those of one operation together and in order of size.  The
 * boundary between two choices is where nothing was measured: pick_between of their sizes.
 */
void pick_table_measured(const struct groups *groups, const struct pick_answer *list,
                         int answers, struct pick_table *out);
/* The least size not below the geometric mean of two sizes lo < hi; lo + 1 to hi. */
int64_t pick_between(int64_t lo, int64_t hi);
/* The rules of `from`, for the same groups and other operations, after those of `to`. */
void pick_table_append(struct pick_table *to, const struct pick_table *from);
void pick_table_release(struct pick_table *t);

/* Strict YAML.  A rule whose algorithm cannot do its operation on the groups is refused. */
int pick_table_read(struct pick_table *t, const char *path, struct err *err); /* "-": stdin */
int pick_table_parse(struct pick_table *t, const char *name, const char *text, struct err *err);
/* A table printed as YAML reads back as the same table and prints as the same text. */
enum pick_format { PICK_YAML, PICK_JSON, PICK_TEXT };
void pick_table_print(const struct pick_table *t, enum pick_format format, FILE *out);

/* NULL: the table has no rules for the operation. */
const struct pick_rule *pick_find(const struct pick_table *t, unsigned phases, int64_t bytes);
/* ERR_MISMATCH where the table is for other groups. */
int pick_table_check(const struct pick_table *t, const struct groups *g, struct err *err);

/*
 * Runs `paro-sched pick`: prints the choices on a fabric as a list, or as a table with all that
 * a trainer needs; or reads a table and prints it.
 */
struct pick_request {
    const char *topo;   /* as topo_read takes it */
    const char *ops;    /* NULL: the named ones; in a table pick_query_moves */
    const char *tuning; /* a table to read instead, or NULL */
    int64_t min_bytes, max_bytes, factor; /* 0: as pick_query_init says */
    int table, json;
};
int pick_report(const struct pick_request *r, FILE *out, struct err *err);

#endif
