/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows what is done with a run's data: record, verdict, output; whether it was just measured
 * or comes from a record. */
#include <string.h>

#include "base/tick.h"
#include "health/health_fleet.h"
#include "health/health_parts.h"

void health_options_init(struct health_options *o)
{
    *o = (struct health_options){
        .deadline_s = 10, .start_s = tick_now_s(), .level = HEALTH_NORMAL};
    health_rules_init(&o->rules);
}

/* To a file, which appears whole or not at all; or on `out`. */
static int learn(const struct health_data *d, const struct health_verdict *v,
                 const struct health_options *o, FILE *out, struct err *err)
{
    if (v->findings)
        return err_set(err, ERR_MISMATCH, "no baseline is learned from a faulty fabric: %s",
                       v->finding[0].text);
    if (o->baseline)
        return health_baseline_write(d, o->baseline, o->ops && o->ops->accept, err);
    health_baseline_print(d, out);
    return 0;
}

/* Two hosts that learn have nothing to be compared with. */
static int judge(const struct health_data *d, const struct health_rules *rules, int learns,
                 struct health_verdict *v, struct err *err)
{
    if (!learns || d->hosts >= HEALTH_HOSTS_ALONE)
        return health_judge(d, rules, v, err);
    *v = (struct health_verdict){.hosts = d->hosts};
    health_judge_facts(d, rules, v);
    return 0;
}

/* What was measured becomes what is expected: it is compared with itself, not with what was. */
static int accept(const struct health_data *d, struct health_verdict *v,
                  const struct health_options *o, FILE *out, enum health_state *state,
                  struct err *err)
{
    if (v->findings)
        return err_set(err, ERR_MISMATCH, "no baseline is accepted from a faulty fabric: %s",
                       v->finding[0].text);
    if (health_baseline_write(d, o->baseline, 1, err))
        return -1;
    return health_say(d, v, o, out, state, err);
}

int health_speak(const struct health_data *d, const struct health_options *o, FILE *out,
                 enum health_state *state, struct err *err)
{
    const int accepts = o->ops && o->ops->accept && o->baseline;
    struct health_baseline b = {0};
    struct health_rules rules = o->rules;
    struct health_verdict v = {0};
    const int reads = o->baseline && !o->learn && !accepts && !rules.baseline;
    int rc = reads ? health_baseline_read(&b, o->baseline, err) : 0;

    if (reads)
        rules.baseline = &b;
    if (rc == 0 && o->record)
        rc = health_record_write(d, o->record, err);
    rc = rc ? rc : judge(d, &rules, o->learn || accepts, &v, err);
    if (rc == 0 && o->learn)
        rc = learn(d, &v, o, out, err);
    else if (rc == 0 && accepts)
        rc = accept(d, &v, o, out, state, err);
    else if (rc == 0)
        rc = health_say(d, &v, o, out, state, err);
    if (rc == 0 && o->learn)
        *state = v.state;
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
        return health_record_read(d, path, err);
    if (health_fleet_parse(path + sizeof synth - 1, &f, err))
        return -1;
    if (health_fleet_run(&f, &o->rules, d, err))
        return -1;
    d->when_s = o->ops ? o->ops->now_s : 0; /* it is made up now */
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
