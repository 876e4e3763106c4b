/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what is done with a run's data, whether it was just measured or comes from a record:
 * verdict, baseline; what is disabled or known is left out, earlier runs count, files are
 * written, the line is printed, what was said is remembered.
 */
#include <string.h>

#include "base/io.h"
#include "base/tick.h"
#include "health/health_fleet.h"
#include "health/health_parts.h"

void health_options_init(struct health_options *o)
{
    *o = (struct health_options){
        .deadline_s = 10, .start_s = tick_now_s(), .level = HEALTH_NORMAL};
    health_rules_init(&o->rules);
}

/* A run that could not look says nothing of what it did not find. */
static int is_measured(const struct health_verdict *v)
{
    for (int i = 0; i < v->findings; i++)
        if (!health_check_find(v->finding[i].code)->name)
            return 0;
    return 1;
}

static void add_all_disabled(const struct health_data *d, struct health_verdict *v,
                             const struct health_ops *o)
{
    for (const struct health_check *c = health_checks; c->code; c++)
        if ((c->levels >> d->level & 1) && !health_config_is_disabled(&o->config, c->code))
            return;
    struct health_finding f = health_finding_new(HEALTH_UNKNOWN, 103);
    health_verdict_say(v, &f, "every check of level %s is disabled",
                       health_level_name(d->level));
}

int health_say(const struct health_data *d, struct health_verdict *v,
               const struct health_options *o, FILE *out, enum health_state *state,
               struct err *err)
{
    struct health_ops plain;
    struct health_news news = {0};
    struct health_told t = {.d = d, .v = v, .o = o, .ops = o->ops};
    struct health_memory *m = NULL;
    int rc = 0;

    if (!t.ops) {
        health_ops_init(&plain);
        t.ops = &plain;
    }
    if (t.ops->memory && t.ops->memory->path)
        t.memory = m = t.ops->memory;
    t.measured = is_measured(v);
    health_filter(d, v, t.ops, &t.ignored);
    add_all_disabled(d, v, t.ops);
    if (m) {
        health_settle(m, d, v, t.ops, t.measured, &news);
        t.news = &news;
    }
    const int speaks = !m || !t.ops->notify || news.changed || news.due;
    const int draws = t.ops->svg && strcmp(t.ops->svg, "-") == 0;
    if (o->prom)
        rc = health_write_prom(&t, o->prom, err);
    if (rc == 0 && t.ops->svg && !draws)
        rc = health_draw_write(&t, t.ops->svg, err);
    /* Remembered before it is said: a state that cannot be written were a second answer. */
    if (rc == 0 && m && speaks)
        health_settle_told(m, v, d->when_s);
    if (rc == 0 && m)
        rc = health_memory_save(m, err);
    if (rc == 0 && draws)
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

/* A baseline, on `out` or in a file; or a new one for the one that there is, and a verdict. */
static int learn(const struct health_data *d, struct health_verdict *v,
                 const struct health_options *o, FILE *out, enum health_state *state,
                 struct err *err)
{
    const int accept = o->ops && o->ops->accept;

    if (v->findings)
        return err_set(err, ERR_MISMATCH, "no baseline is %s from a faulty fabric: %s",
                       o->learn ? "learned" : "accepted", v->finding[0].text);
    if (o->baseline && health_baseline_write(d, o->baseline, accept, err))
        return -1;
    if (!o->learn) /* compared with itself, not with what was */
        return health_say(d, v, o, out, state, err);
    if (!o->baseline)
        health_baseline_print(d, out);
    *state = v->state;
    return 0;
}

int health_speak(const struct health_data *d, const struct health_options *o, FILE *out,
                 enum health_state *state, struct err *err)
{
    const int learns = o->learn || (o->ops && o->ops->accept && o->baseline);
    struct health_baseline b = {0};
    struct health_rules rules = o->rules;
    struct health_verdict v = {0};
    int rc = 0;

    if (o->baseline && !learns && !rules.baseline) {
        rc = health_store_read(&health_baseline_store, o->baseline, &b, err);
        rules.baseline = &b;
    }
    if (rc == 0 && o->record)
        rc = health_store_write(&health_record_store, d, o->record, 1, err)
                 ? err_prefix(err, "cannot write record '%s': ", o->record)
                 : 0;
    if (rc == 0 && learns && d->hosts < HEALTH_HOSTS_ALONE) { /* nothing to be compared with */
        v.hosts = d->hosts;
        health_judge_facts(d, &rules, &v);
    } else if (rc == 0) {
        rc = health_judge(d, &rules, &v, err);
    }
    if (rc == 0)
        rc = learns ? learn(d, &v, o, out, state, err) : health_say(d, &v, o, out, state, err);
    health_verdict_release(&v);
    health_baseline_release(&b);
    return rc;
}

/* A record, or after "synth:" a fabric that is made up (health_fleet.h). */
static int read_data(struct health_data *d, const struct health_options *o, const char *path,
                     struct err *err)
{
    static const char synth[] = "synth:";
    struct health_fleet f;

    if (strncmp(path, synth, sizeof synth - 1))
        return health_store_read(&health_record_store, path, d, err);
    if (health_fleet_parse(path + sizeof synth - 1, &f, err) ||
        health_fleet_run(&f, &o->rules, d, err))
        return -1;
    d->when_s = o->ops ? o->ops->now_s : 0;
    return 0;
}

int health_replay(const struct health_options *o, const char *path, FILE *out,
                  enum health_state *state, struct err *err)
{
    struct health_data d = {0};
    int rc = read_data(&d, o, path, err);

    if (rc == 0 && o->ops)
        rc = health_ops_open(o->ops, &d, err);
    rc = rc ? rc : health_speak(&d, o, out, state, err);
    health_data_release(&d);
    return rc;
}
