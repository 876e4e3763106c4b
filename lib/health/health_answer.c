/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns a run's data, measured or from a record, into an answer: verdict or baseline.  Removes
 * disabled checks and known noise, takes earlier runs into account, writes the files, prints
 * the line, and stores the findings.
 */
#include <string.h>

#include "base/io.h"
#include "base/num.h"
#include "base/tick.h"
#include "health/health_fleet.h"
#include "health/health_store.h"
#include "health/health_parts.h"

void health_options_init(struct health_options *o)
{
    *o = (struct health_options){.deadline_s = 10,
                                 .start_s = tick_now_s(),
                                 .level = HEALTH_NORMAL,
                                 .sys = "/sys",
                                 .proc = "/proc"};
    health_rules_init(&o->rules);
}

int health_parse_notify(struct health_options *o, const char *text, struct err *err)
{
    static const char change[] = "change", remind[] = "change,remind=";
    double s = 0;

    if (strcmp(text, change)) {
        if (strncmp(text, remind, sizeof remind - 1))
            return err_set(err, ERR_INPUT, "'%s', expected change or change,remind=TIME", text);
        text += sizeof remind - 1;
        if (num_time(text, &s, err))
            return -1;
        if (!(s >= 60 && s <= 1e9))
            return err_set(err, ERR_INPUT, "remind=%s, expected 1min or more", text);
    }
    o->notify = 1;
    o->remind_s = s;
    return 0;
}

int health_report(const struct health_data *d, struct health_verdict *v,
                  const struct health_options *o, FILE *out, enum health_state *state,
                  struct err *err)
{
    struct health_memory *m = o->memory && o->memory->path ? o->memory : NULL;
    struct health_report t = {.d = d, .v = v, .o = o, .memory = m, .measured = 1};
    struct io_out file;
    int rc = 0, enabled = 0;

    for (int i = 0; i < v->findings; i++) /* a code without a name: the run could not measure */
        t.measured &= health_check_find(v->finding[i].code)->name != NULL;
    t.ignored = health_filter(d, v, &o->config);
    for (const struct health_check *c = health_checks; c->code; c++)
        enabled |=
            (c->levels >> d->level & 1) && !health_config_is_disabled(&o->config, c->code);
    if (!enabled)
        health_verdict_addf(v, HEALTH_UNKNOWN, HC_NO_CHECK, -1,
                            "every check of level %s is disabled", health_levels[d->level]);
    if (m)
        health_reconcile(m, d, v, o, t.measured, &t.news);
    const int speaks = !m || !o->notify || t.news.changed || t.news.due;
    const int draws = o->svg && strcmp(o->svg, "-") == 0;
    if (o->prom)
        rc = health_write_prom(&t, o->prom, d->when_s, err);
    if (rc == 0 && o->svg && !draws) {
        rc = io_create(&file, o->svg, IO_FORCE | IO_CLOSED, err);
        if (rc == 0) {
            health_draw(&t, file.file);
            rc = io_commit(&file, err);
        }
    }
    /* Store before printing: a failure to write the state would otherwise give a second
       answer. */
    if (rc == 0 && m && speaks)
        health_reconcile_printed(m, v, d->when_s);
    if (rc == 0 && m)
        rc = health_store_write(&health_memory_store, m, m->path, 1, err);
    if (rc == 0 && draws)
        health_draw(&t, out);
    else if (rc == 0 && speaks && o->json)
        health_print_json(&t, out);
    else if (rc == 0 && speaks)
        health_print_line(&t, out);
    if (rc == 0)
        *state = v->state;
    health_news_release(&t.news);
    return rc;
}

/* Writes a baseline, to `out` or a file; or replaces an existing one and gives a verdict. */
static int answer_learn(const struct health_data *d, struct health_verdict *v,
                        const struct health_options *o, FILE *out, enum health_state *state,
                        struct err *err)
{
    if (v->findings)
        return err_set(err, ERR_MISMATCH, "no baseline is %s from a faulty fabric: %s",
                       o->learn ? "learned" : "accepted", v->finding[0].text);
    if (o->baseline && health_baseline_write(d, o->baseline, o->accept, err))
        return -1;
    if (!o->learn) /* compared with itself, not with the old baseline */
        return health_report(d, v, o, out, state, err);
    if (!o->baseline)
        health_baseline_print(d, out);
    *state = v->state;
    return 0;
}

int health_answer(const struct health_data *d, const struct health_options *o, FILE *out,
                  enum health_state *state, struct err *err)
{
    const int learns = o->learn || (o->accept && o->baseline);
    struct health_baseline b = {0};
    struct health_rules rules = o->rules;
    struct health_verdict v = {.hosts = d->hosts};
    int rc = 0;

    if (o->baseline && !learns && !rules.baseline) {
        rc = health_store_read(&health_baseline_store, o->baseline, &b, err);
        rules.baseline = &b;
    }
    if (rc == 0 && o->record && health_store_write(&health_record_store, d, o->record, 1, err))
        rc = err_prefix(err, "cannot write record '%s': ", o->record);
    if (rc == 0 && learns && d->hosts < HEALTH_HOSTS_ALONE) /* no third host to compare with */
        health_judge_facts(d, &rules, &v);
    else if (rc == 0)
        rc = health_judge(d, &rules, &v, err);
    if (rc == 0)
        rc = (learns ? answer_learn : health_report)(d, &v, o, out, state, err);
    health_verdict_release(&v);
    health_baseline_release(&b);
    return rc;
}

int health_replay(const struct health_options *o, const char *path, FILE *out,
                  enum health_state *state, struct err *err)
{
    static const char synth[] = "synth:";
    struct health_data d = {0};
    struct health_fleet f;
    int rc;

    if (strncmp(path, synth, sizeof synth - 1)) {
        rc = health_store_read(&health_record_store, path, &d, err);
    } else {
        rc = health_fleet_parse(path + sizeof synth - 1, &f, err);
        rc = rc ? rc : health_fleet_run(&f, &o->rules, &d, err);
        d.when_s = o->now_s;
    }
    if (rc == 0)
        rc = health_memory_open(o->memory, o->state, o->host, &d, err);
    rc = rc ? rc : health_answer(&d, o, out, state, err);
    health_data_release(&d);
    return rc;
}
