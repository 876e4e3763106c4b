/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WATCH_WATCH_PARTS_H
#define WATCH_WATCH_PARTS_H

/* Inside watch/. */
#include "watch/watch.h"

struct watch_finding *watch_find(struct watch_verdict *v, enum watch_kind kind,
                                 enum health_state state, int process, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* NULL: the records do not have it, or host < 0. */
const char *watch_host_name(const struct watch *w, int host);
/* "all-reduce of 4.0 MiB" */
const char *watch_call_name(int op, int64_t bytes, char *text, size_t room);
enum health_state watch_rules_state(const struct watch_rules *r, double percent);

/* watch_order.c: who waits for whom, and who called what. */
void watch_judge_order(const struct watch *w, const struct watch_rules *r,
                       struct watch_verdict *v);
/* watch_late.c: who arrives late, and in which pattern. */
void watch_judge_late(const struct watch *w, const struct watch_rules *r,
                      struct watch_verdict *v);
/* watch_link.c: communicators that are slower than others like them. */
void watch_judge_links(const struct watch *w, struct watch_verdict *v);

#endif
