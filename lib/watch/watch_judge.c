/* SPDX-License-Identifier: BSD-3-Clause */
/* Derives findings from the records, the worst first. */
#include "watch/watch_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

const char *const watch_kind_names[WATCH_KINDS] = {
    [WATCH_HUNG] = "hung",         [WATCH_STUCK] = "stuck",       [WATCH_FAILED] = "failed",
    [WATCH_MISMATCH] = "mismatch", [WATCH_LATE] = "compute",      [WATCH_PERIODIC] = "input",
    [WATCH_PAUSED] = "paused",     [WATCH_UNSTEADY] = "unsteady", [WATCH_LINK] = "link"};

/*
 * A rank whose compute is 10 % slow makes a run that computes for half of its time 5 % longer;
 * horing-check calls 25 % of a port CRITICAL.  NCCL's watchdogs wait for 10 min, a checkpoint
 * on one rank takes seconds; a minute is in between.
 */
void watch_rules_init(struct watch_rules *r)
{
    *r = (struct watch_rules){
        .warn = {-INFINITY, 5, 0}, .crit = {-INFINITY, 25, 0}, .hang_s = 60};
}

enum health_state watch_rules_state(const struct watch_rules *r, double percent)
{
    percent = fmax(percent, 0); /* early is not late */
    return health_range_alerts(&r->crit, percent)   ? HEALTH_CRITICAL
           : health_range_alerts(&r->warn, percent) ? HEALTH_WARNING
                                                    : HEALTH_OK;
}

const char *watch_host_name(const struct watch *w, int host)
{
    return host < 0 || *w->host[host].name == WATCH_NO_HOST ? NULL : w->host[host].name;
}

const char *watch_name(const struct watch *w, int process, char *text, size_t space)
{
    const struct watch_process *p = &w->process[process];

    const char *host = watch_host_name(w, p->host);

    snprintf(text, space, host ? "rank %d (%.60s)" : "rank %d", p->rank, host);
    return text;
}

const char *watch_call_name(int op, int64_t bytes, char *text, size_t space)
{
    struct units u;

    snprintf(text, space, "%s%s%s", meter_op_names[op], bytes > 0 ? " of " : "",
             bytes > 0 ? units_bytes(&u, (double)bytes) : "");
    return text;
}

struct watch_finding *watch_find(const struct watch *w, struct watch_verdict *v,
                                 enum watch_kind kind, enum health_state state, int process,
                                 const char *fmt, ...)
{
    va_list list;

    v->finding = mem_grow(v->finding, &v->space, (size_t)v->findings + 1, sizeof *v->finding);
    struct watch_finding *f = &v->finding[v->findings++];
    *f = (struct watch_finding){.kind = kind,
                                .state = state,
                                .process = process,
                                .host = process < 0 ? -1 : w->process[process].host,
                                .rank = process < 0 ? -1 : w->process[process].rank,
                                .percent = NAN,
                                .z = NAN,
                                .share = NAN,
                                .period = NAN};
    va_start(list, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, list);
    va_end(list);
    return f;
}

static int worst_first(const void *a, const void *b)
{
    const struct watch_finding *p = a, *q = b;
    int x = health_state_rank(p->state), y = health_state_rank(q->state);

    if (x != y)
        return y - x;
    if (p->kind != q->kind)
        return (int)p->kind - (int)q->kind;
    if (isnan(p->percent) != isnan(q->percent)) /* findings that name a rank come first */
        return isnan(p->percent) ? 1 : -1;
    if (p->percent < q->percent || p->percent > q->percent)
        return p->percent < q->percent ? 1 : -1;
    return p->process - q->process;
}

void watch_judge(const struct watch *w, const struct watch_rules *rules,
                 struct watch_verdict *out)
{
    struct watch_verdict v = {.lost = NAN};

    v.late = mem_new((size_t)w->processes + 1, sizeof *v.late);
    for (int p = 0; p < w->processes; p++) {
        v.late[p].percent = v.late[p].z = NAN;
        for (int b = 0; b < WATCH_BLOCKS; b++)
            v.late[p].block[b] = NAN;
    }
    watch_judge_order(w, rules, &v);
    watch_judge_late(w, rules, &v);
    watch_judge_links(w, &v);
    if (v.findings)
        qsort(v.finding, (size_t)v.findings, sizeof *v.finding, worst_first);
    v.state = v.findings ? v.finding[0].state : v.why ? HEALTH_UNKNOWN : HEALTH_OK;
    *out = v;
}

void watch_verdict_release(struct watch_verdict *v)
{
    mem_free(v->finding);
    mem_free(v->late);
    *v = (struct watch_verdict){0};
}
