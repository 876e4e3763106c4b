/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a run's log is read (JSON Lines of paro-train(1)): line by line, since a log has as
 * many as the run had steps, and none longer than a step can be.
 */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "plan/check.h"

static int read_object(struct plan_log *l, json_t *o, const char *name, int line,
                       struct err *err)
{
    json_t *skipped = json_object_get(o, "skipped");

    if (!json_is_object(o))
        return err_at(err, name, line, NULL, "is no object, expected a step of a run's log");
    if (l->steps == PLAN_CHECK_STEPS_MAX)
        return err_at(err, name, line, NULL, "is beyond the %d steps that are read",
                      PLAN_CHECK_STEPS_MAX);
    l->exact |= json_object_get(o, "state_hash") != NULL;
    for (int i = 0; i < PLAN_MEASURES; i++) {
        const char *key = plan_measure_key((enum plan_measure)i);
        json_t *v = json_object_get(o, key);
        if (!json_is_number(v) || !(json_number_value(v) >= 0))
            return err_at(err, name, line, key,
                          "is absent or no number from 0 on, as a run's log has it");
        if (l->lines == 0 || json_is_true(skipped)) /* no update, no parameters sent */
            continue;
        l->v[i] = mem_grow(l->v[i], &l->room[i], (size_t)l->steps + 1, sizeof *l->v[i]);
        l->v[i][l->steps] = json_number_value(v);
    }
    l->steps += l->lines++ > 0 && !json_is_true(skipped);
    return 0;
}

static int read_line(struct plan_log *l, const char *text, size_t bytes, const char *name,
                     int line, struct err *err)
{
    json_error_t why;
    json_t *o = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);

    if (!o)
        return err_at(err, name, line, NULL, "is no JSON: %s", why.text);
    int rc = read_object(l, o, name, line, err);
    json_decref(o);
    return rc;
}

/* A line from the next byte on, its end included; at most `most` bytes of it. */
static size_t next_line(FILE *f, char *text, size_t most)
{
    size_t n = 0;

    for (int c; n < most && (c = getc(f)) != EOF;) {
        text[n++] = (char)c;
        if (c == '\n')
            break;
    }
    return n;
}

static int read_stream(struct plan_log *l, FILE *f, const char *name, struct err *err)
{
    size_t most = PLAN_CHECK_LINE_MAX + 1; /* one more tells that it is too long */
    char *text = mem_new(most, 1);
    struct plan_log new = {0};
    int rc = 0, line = 0;

    for (size_t n; rc == 0 && (n = next_line(f, text, most)) > 0;) {
        line++;
        if (n == most)
            rc = err_at(err, name, line, NULL, "has more than %d bytes, expected a step",
                        PLAN_CHECK_LINE_MAX);
        else if (text[n - 1] == '\n')
            rc = read_line(&new, text, n, name, line, err);
    }
    if (rc == 0 && ferror(f))
        rc = err_sys(err, "cannot read log '%s'", name);
    mem_free(text);
    if (rc)
        plan_log_release(&new);
    else
        *l = new;
    return rc;
}

int plan_log_read(struct plan_log *l, const char *path, struct err *err)
{
    FILE *f = fopen(path, "re");

    if (!f)
        return err_sys(err, "cannot open log '%s'", path);
    int rc = read_stream(l, f, path, err);
    fclose(f);
    return rc;
}

int plan_log_parse(struct plan_log *l, const char *name, const char *text, int64_t bytes,
                   struct err *err)
{
    /* A stream over no bytes at all is none to fmemopen. */
    FILE *f = bytes > 0 ? fmemopen((void *)(uintptr_t)text, (size_t)bytes, "re") : NULL;

    if (!f) {
        *l = (struct plan_log){0};
        return bytes > 0 ? err_sys(err, "cannot read log '%s'", name) : 0;
    }
    int rc = read_stream(l, f, name, err);
    fclose(f);
    return rc;
}

void plan_log_release(struct plan_log *l)
{
    for (int i = 0; i < PLAN_MEASURES; i++)
        mem_free(l->v[i]);
    *l = (struct plan_log){0};
}
