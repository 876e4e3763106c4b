/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the order in which a verdict becomes words: what is switched off or known noise goes,
 * the runs before speak, files are written, the line is printed, what was said is remembered.
 */
#include <string.h>

#include "base/io.h"
#include "health/health_parts.h"

/* A run that could not look says nothing of what it did not find. */
static int is_measured(const struct health_verdict *v)
{
    for (int i = 0; i < v->findings; i++)
        if (!health_check_find(v->finding[i].code)->name)
            return 0;
    return 1;
}

static void say_all_off(const struct health_data *d, struct health_verdict *v,
                        const struct health_ops *o)
{
    for (const struct health_check *c = health_checks; c->code; c++)
        if ((c->levels >> d->level & 1) && !health_config_is_disabled(&o->config, c->code))
            return;
    struct health_finding f = health_finding_new(HEALTH_UNKNOWN, 103);
    health_verdict_say(v, &f, "every check of level %s is disabled",
                       health_level_name(d->level));
}

static int draws_answer(const struct health_ops *o)
{
    return o->svg && strcmp(o->svg, "-") == 0;
}

static int write_files(const struct health_told *t, struct err *err)
{
    const struct health_options *o = t->o;

    if (o->prom && health_write_prom(t, o->prom, err))
        return -1;
    return t->ops->svg && !draws_answer(t->ops) ? health_draw_write(t, t->ops->svg, err) : 0;
}

/* What is said is remembered first: else a state that cannot be written were a second answer.
 */
static int remember(struct health_memory *m, const struct health_told *t, int speaks,
                    struct err *err)
{
    if (speaks)
        health_settle_told(m, t->v, t->d->when_s);
    return health_memory_save(m, err);
}

int health_say(const struct health_data *d, struct health_verdict *v,
               const struct health_options *o, FILE *out, enum health_state *state,
               struct err *err)
{
    struct health_ops plain;
    struct health_news news = {0};
    struct health_told t = {.d = d, .v = v, .o = o, .ops = o->ops};
    struct health_memory *m = NULL;

    if (!t.ops) {
        health_ops_init(&plain);
        t.ops = &plain;
    }
    if (t.ops->memory && t.ops->memory->path)
        t.memory = m = t.ops->memory;
    t.measured = is_measured(v);
    health_filter(d, v, t.ops, &t.ignored);
    say_all_off(d, v, t.ops);
    if (m) {
        health_settle(m, d, v, t.ops, t.measured, &news);
        t.news = &news;
    }
    int speaks = !m || !t.ops->notify || news.changed || news.due;
    int rc = write_files(&t, err);
    if (rc == 0 && m)
        rc = remember(m, &t, speaks, err);
    if (rc == 0 && draws_answer(t.ops))
        health_draw(&t, out);
    else if (rc == 0 && speaks && o->json)
        health_print_json(&t, out);
    else if (rc == 0 && speaks)
        health_print_line(&t, out);
    if (rc == 0)
        *state = v->state;
    health_news_release(&news);
    return rc;
}
