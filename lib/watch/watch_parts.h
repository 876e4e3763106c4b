/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WATCH_WATCH_PARTS_H
#define WATCH_WATCH_PARTS_H

/* Internal to watch/: declares functions that its files share. */
#include "value/value_tree.h"
#include "watch/watch.h"

/* ---- reading JSON of other programs (watch_json.c) ---- */

#define WATCH_NUMBER_MAX (INT64_C(1) << 61) /* sums of two still fit */
/* The value if it is a whole number from 0 to WATCH_NUMBER_MAX; else `absent`. */
int64_t watch_whole(const struct tree_node *object, const char *key, int64_t absent);
const char *watch_word(const struct tree_node *object, const char *key); /* "": not a text */
/* -1: not a collective */
int watch_op_of(const char *name);
void watch_raise_times(struct watch *w, enum watch_times times);
/* watch_ras.c: reads "communicators" of a report of NCCL RAS. */
int watch_read_ras(struct watch *w, const char *name, const struct tree_node *list,
                   struct err *err);

/*
 * Hash table from keys to indices, separate for each kind.  The result points to index + 1 of
 * the item with this key; 0: the key is new, and the caller sets it.  The table is large enough
 * for the largest allowed number of items.
 */
enum watch_what { WATCH_PROCESS = 1, WATCH_HOST, WATCH_COMM };
int *watch_place(struct watch *w, enum watch_what what, uint64_t key);

/* ---- judging ---- */

struct watch_finding *watch_find(const struct watch *w, struct watch_verdict *v,
                                 enum watch_kind kind, enum health_state state, int process,
                                 const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* NULL: the records lack it, or host < 0. */
const char *watch_host_name(const struct watch *w, int host);
/* "all-reduce of 4.0 MiB" */
const char *watch_call_name(int op, int64_t bytes, char *text, size_t space);
enum health_state watch_rules_state(const struct watch_rules *r, double percent);

/* "ranks 0-6, 9 and 3 more", "rank 5 (node2)" */
void watch_name_ranks(const struct watch *w, const int *process, int n, char *text,
                      size_t space);
/*
 * watch_order.c: who waits for whom, and who called what.  Finds ranks of a communicator (NULL:
 * of all) without records, as far as their numbers are known.  Returns their number; *rank is
 * sorted and owned by the caller.
 */
int watch_absent(const struct watch *w, const struct watch_comm *only, int **rank);
/* "rank 3 has no records", "" if there are none; *one: the only such rank, or -1. */
int watch_absent_text(const struct watch *w, const struct watch_comm *only, char *text,
                      size_t space, int *one);
void watch_judge_order(const struct watch *w, const struct watch_rules *r,
                       struct watch_verdict *v);
/* watch_late.c: who arrives late, and in which pattern. */
void watch_judge_late(const struct watch *w, const struct watch_rules *r,
                      struct watch_verdict *v);
/* watch_link.c: communicators that are slower than similar ones. */
void watch_judge_links(const struct watch *w, struct watch_verdict *v);
int watch_size_class(int64_t bytes); /* calls of one class have similar sizes */
/* watch_inside.c: time lost inside calls.  start_s: begin of the judged time; block_s: length
   of a stretch. */
void watch_judge_inside(const struct watch *w, const struct watch_rules *r, double start_s,
                        double block_s, struct watch_verdict *v);

#endif
