/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes rules from answers, and finds a rule.  Leaves their text to pick_table_file.c. */
#include "pick/pick_table.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

enum {
    /* A boundary is a size at which both choices take equal time: an error of 1/32 in it costs
       no more than 1/32 of the time, and the numbers stay round. */
    STEPS = 32
};

/* Finds where, between two neighbouring sizes, b's choice becomes faster than a's. */
static int boundary(const struct topo *t, const struct pick_answer *a,
                    const struct pick_answer *b, int64_t *bytes, struct err *err)
{
    int64_t lo = a->bytes, hi = b->bytes, step = lo / STEPS > 1 ? lo / STEPS : 1;

    while (hi - lo > step) {
        int64_t half = (hi - lo) / 2 / step * step, mid = lo + (half > step ? half : step);
        double first = 0, second = 0;
        if (pick_time(t, a->phases, mid, a->best.algo, a->best.chunk_bytes, &first, err) ||
            pick_time(t, a->phases, mid, b->best.algo, b->best.chunk_bytes, &second, err))
            return -1;
        if (pick_weigh(b->best.algo, second) < pick_weigh(a->best.algo, first))
            hi = mid;
        else
            lo = mid;
    }
    *bytes = hi;
    return 0;
}

int64_t pick_between(int64_t lo, int64_t hi)
{
    int64_t mean = (int64_t)ceil(sqrt((double)lo * (double)hi));

    /* The root is exact if it is whole; between neighbours it may round to either. */
    return mean <= lo ? lo + 1 : mean > hi ? hi : mean;
}

/*
 * Makes rules from answers grouped by operation: simulated on t, or, with t NULL, measured,
 * which cannot fail.
 */
static int make_rules(const struct topo *t, const struct pick_answer *list, int answers,
                      struct pick_table *table, struct err *err)
{
    table->rule = mem_new((size_t)answers, sizeof *table->rule);
    for (int i = 0; i < answers; i++) {
        const struct pick_answer *a = &list[i], *before = i ? &list[i - 1] : NULL;
        int64_t from = 0;
        if (before && before->phases == a->phases) {
            if (before->best.algo == a->best.algo &&
                before->best.chunk_bytes == a->best.chunk_bytes)
                continue;
            if (!t)
                from = pick_between(before->bytes, a->bytes);
            else if (boundary(t, before, a, &from, err))
                return -1;
            table->rule[table->rules - 1].below_bytes = from;
        }
        table->rule[table->rules++] = (struct pick_rule){
            .phases = a->phases,
            .from_bytes = from,
            .below_bytes = INT64_MAX,
            .algo = a->best.algo,
            .chunk_bytes = a->best.chunk_bytes,
            .at_bytes = a->bytes,
            .measured = !t,
            .time_s = a->best.time_s,
            .runner_up = a->second.algo,
            .runner_up_s = a->second.algo == SCHEDULE_AUTO ? 0 : a->second.time_s};
    }
    return 0;
}

int pick_table_make(const struct topo *t, const struct pick_query *a, struct pick_table *out,
                    struct err *err)
{
    struct pick_table new = {0};
    struct pick_answer *list = NULL;
    int answers = 0;

    if (pick_list(t, a, &list, &answers, err))
        return -1;
    groups_copy(&new.groups, &t->groups);
    int rc = make_rules(t, list, answers, &new, err);
    mem_free(list);
    if (rc)
        pick_table_release(&new);
    else
        *out = new;
    return rc;
}

void pick_table_measured(const struct groups *groups, const struct pick_answer *list,
                         int answers, struct pick_table *out)
{
    struct err none;

    *out = (struct pick_table){0};
    groups_copy(&out->groups, groups);
    make_rules(NULL, list, answers, out, &none);
}

void pick_table_append(struct pick_table *to, const struct pick_table *from)
{
    size_t space = (size_t)to->rules, all = space + (size_t)from->rules;

    to->rule = mem_grow(to->rule, &space, all, sizeof *to->rule);
    memcpy(to->rule + to->rules, from->rule, (size_t)from->rules * sizeof *to->rule);
    to->rules += from->rules;
}

void pick_table_release(struct pick_table *t)
{
    groups_release(&t->groups);
    mem_free(t->rule);
    *t = (struct pick_table){0};
}

const struct pick_rule *pick_find(const struct pick_table *t, unsigned phases, int64_t bytes)
{
    for (int i = 0; i < t->rules; i++)
        if (t->rule[i].phases == phases && bytes < t->rule[i].below_bytes)
            return &t->rule[i];
    return NULL;
}

int pick_table_check(const struct pick_table *t, const struct groups *g, struct err *err)
{
    char ours[128], theirs[128];

    if (t->groups.count == g->count &&
        memcmp(t->groups.members, g->members, (size_t)g->count * sizeof(int)) == 0)
        return 0;
    groups_print(&t->groups, ours, sizeof ours);
    groups_print(g, theirs, sizeof theirs);
    return err_set(err, ERR_MISMATCH,
                   "the tuning table is for groups %s, but these ranks are in %s", ours,
                   theirs);
}
