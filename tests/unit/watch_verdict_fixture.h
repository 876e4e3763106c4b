/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WATCH_VERDICT_FIXTURE_H
#define WATCH_VERDICT_FIXTURE_H

/* Compares a verdict about calls that were read or made up with what it must be. */
#include "unit.h"

#include "watch/watch.h"

static struct watch w;
static struct watch_verdict v;

static void judge_calls(void)
{
    struct watch_rules rules;

    assert_ok(watch_index(&w, &err));
    watch_rules_init(&rules);
    watch_judge(&w, &rules, &v);
}

static void release(void)
{
    watch_verdict_release(&v);
    watch_release(&w);
}

/* One finding, of that kind, about that rank (-1: none), with these words. */
static void found(enum watch_kind kind, int rank, enum health_state state, const char *words)
{
    const struct watch_finding *f = v.finding;

    if (v.findings != 1 || f->kind != kind || f->state != state || !strstr(f->text, words) ||
        (f->process < 0 ? -1 : w.process[f->process].rank) != rank)
        fail_msg("%d findings: %s; expected %s, %s", v.findings, v.findings ? f->text : "none",
                 watch_kind_names[kind], words);
    release();
}

#endif
