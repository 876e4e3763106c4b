/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the words of options, and which file a check remembers in. */
#include "health/health_ops.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

void health_ops_init(struct health_ops *o)
{
    *o = (struct health_ops){.sys = "/sys", .proc = "/proc"};
}

int health_ops_parse_notify(struct health_ops *o, const char *text, struct err *err)
{
    static const char change[] = "change", remind[] = ",remind=";
    double s = 0;

    if (strncmp(text, change, sizeof change - 1) != 0)
        return err_set(err, ERR_INPUT, "'%s', expected change or change,remind=TIME", text);
    const char *rest = text + sizeof change - 1;
    if (*rest) {
        if (strncmp(rest, remind, sizeof remind - 1) != 0)
            return err_set(err, ERR_INPUT, "'%s', expected change or change,remind=TIME", text);
        if (num_time(rest + sizeof remind - 1, &s, err))
            return -1;
        if (!(s >= 60 && s <= 1e9))
            return err_set(err, ERR_INPUT, "remind=%s, expected 1min or more",
                           rest + sizeof remind - 1);
    }
    o->notify = 1;
    o->remind_s = s;
    return 0;
}

int health_ops_open(const struct health_ops *o, const struct health_data *d, struct err *err)
{
    char file[HEALTH_HOST_NAME + 8] = "rounds";
    int quick = d->level == HEALTH_QUICK;

    if (!o->state)
        return 0;
    if (quick) /* a home folder may be that of many hosts */
        snprintf(file, sizeof file, "%s.quick", o->host);
    else if (d->gpus.count)
        snprintf(file, sizeof file, "rounds.cuda");
    for (char *c = file; (c = strchr(c, '/'));)
        *c = '_';
    return health_memory_open(o->memory, o->state, file, quick ? o->host : "", d->when_s, err);
}
