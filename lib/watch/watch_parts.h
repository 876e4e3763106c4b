/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WATCH_WATCH_PARTS_H
#define WATCH_WATCH_PARTS_H

/* Inside watch/: declares what its files share. */
#include "value/value_tree.h"
#include "watch/watch.h"

/* ---- reading others' JSON (watch_json.c) ---- */

#define WATCH_NUMBER_MAX (INT64_C(1) << 61) /* so that sums of two fit */
/* From 0 to that; else `absent`. */
int64_t watch_whole(const struct tree_node *object, const char *key, int64_t absent);
const char *watch_word(const struct tree_node *object, const char *key); /* "": it is none */
int watch_op_of(const char *name);                                       /* -1: no collective */
void watch_raise_times(struct watch *w, enum watch_times times);
/* watch_ras.c: "communicators" of a report of NCCL RAS. */
int watch_read_ras(struct watch *w, const char *name, const struct tree_node *list,
                   struct err *err);

/*
 * Places of a table for each kind of thing: *index + 1 of the one with that key, 0: there is
 * none yet (set it; the table has room for the most that there may be of all kinds).
 */
enum watch_what { WATCH_PROCESS = 1, WATCH_HOST, WATCH_COMM };
int *watch_place(struct watch *w, enum watch_what what, uint64_t key);

/* ---- judging ---- */

struct watch_finding *watch_find(const struct watch *w, struct watch_verdict *v,
                                 enum watch_kind kind, enum health_state state, int process,
                                 const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* NULL: the records do not have it, or host < 0. */
const char *watch_host_name(const struct watch *w, int host);
/* "all-reduce of 4.0 MiB" */
const char *watch_call_name(int op, int64_t bytes, char *text, size_t space);
enum health_state watch_rules_state(const struct watch_rules *r, double percent);

/* "ranks 0-6, 9 and 3 more", "rank 5 (node2)" */
void watch_name_ranks(const struct watch *w, const int *process, int n, char *text,
                      size_t space);
/*
 * watch_order.c: who waits for whom, and who called what.  Ranks of a communicator (NULL: of
 * all) without records, as far as their numbers are known: how many, sorted (owned).
 */
int watch_absent(const struct watch *w, const struct watch_comm *only, int **rank);
/* "rank 3 has no records", "" where it is 0; *one: the only one, or -1. */
int watch_absent_text(const struct watch *w, const struct watch_comm *only, char *text,
                      size_t space, int *one);
void watch_judge_order(const struct watch *w, const struct watch_rules *r,
                       struct watch_verdict *v);
/* watch_late.c: who arrives late, and in which pattern. */
void watch_judge_late(const struct watch *w, const struct watch_rules *r,
                      struct watch_verdict *v);
/* watch_link.c: communicators that are slower than others like them. */
void watch_judge_links(const struct watch *w, struct watch_verdict *v);
int watch_size_class(int64_t bytes); /* calls of one are alike */
/* watch_inside.c: time that is lost inside calls.  Of what is judged, where it begins and how
 * long a stretch is. */
void watch_judge_inside(const struct watch *w, const struct watch_rules *r, double start_s,
                        double block_s, struct watch_verdict *v);

#endif
