/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the format paro-health-config/1. */
#include "health/health_config.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/yaml.h"
#include "health/health_checks.h"

#define FORMAT "paro-health-config/1"

static int is_check(const char *word)
{
    for (const struct health_check *c = health_checks; c->code; c++)
        if (health_check_means(word, c->code))
            return 1;
    return 0;
}

/* "link, answer, ... or a code" */
static int fail_check(const char *word, struct err *err)
{
    char all[200] = "";

    for (const struct health_check *c = health_checks; c->code; c++) {
        int again = 0;
        for (const struct health_check *b = health_checks; b < c; b++)
            again |= b->name && c->name && strcmp(b->name, c->name) == 0;
        if (c->name && !again)
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", all[0] ? ", " : "",
                     c->name);
    }
    return err_set(err, ERR_INPUT, "'%.60s', expected one of %s, or a code as HC-203", word,
                   all);
}

int health_config_disable(struct health_config *c, const char *check, struct err *err)
{
    if (!is_check(check))
        return fail_check(check, err);
    c->disable = mem_grow(c->disable, &c->room, (size_t)c->disables + 1, sizeof *c->disable);
    c->disable[c->disables++] = mem_dup(check);
    return 0;
}

/* ---- reading ---- */

struct doc_ignore {
    char *link, *host, *check, *until, *reason;
};
struct doc_expect {
    char *link, *host, *speed, *width, *duplex;
};
struct doc {
    char *format;
    char **disable;
    unsigned disable_count;
    struct doc_ignore *ignore;
    unsigned ignore_count;
    struct doc_expect *expect;
    unsigned expect_count;
};

enum { WORD = 255 };
#define TEXT(struct_, member_)                                                                 \
    CYAML_FIELD_STRING_PTR(#member_, CYAML_FLAG_POINTER, struct struct_, member_, 1, WORD)
#define MAY(struct_, member_)                                                                  \
    CYAML_FIELD_STRING_PTR(#member_, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct struct_, \
                           member_, 1, WORD)
#define LIST(name_, of_)                                                                       \
    CYAML_FIELD_SEQUENCE(#name_, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct doc, name_,  \
                         of_, 0, HEALTH_CONFIG_MOST)

static const cyaml_schema_field_t ignore_fields[] = {
    MAY(doc_ignore, link),   MAY(doc_ignore, host),    MAY(doc_ignore, check),
    TEXT(doc_ignore, until), TEXT(doc_ignore, reason), CYAML_FIELD_END};
static const cyaml_schema_value_t ignore_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct doc_ignore, ignore_fields)};
static const cyaml_schema_field_t expect_fields[] = {
    TEXT(doc_expect, link), MAY(doc_expect, host),   MAY(doc_expect, speed),
    MAY(doc_expect, width), MAY(doc_expect, duplex), CYAML_FIELD_END};
static const cyaml_schema_value_t expect_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct doc_expect, expect_fields)};
static const cyaml_schema_value_t word_schema = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, WORD)};
static const cyaml_schema_field_t doc_fields[] = {
    TEXT(doc, format), LIST(disable, &word_schema), LIST(ignore, &ignore_schema),
    LIST(expect, &expect_schema), CYAML_FIELD_END};
static const cyaml_schema_value_t schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct doc, doc_fields)};

/* "2027-01-31": until the end of that day in UTC. */
static int read_day(const struct yaml *y, const char *path, const char *text, int64_t *out_s,
                    struct err *err)
{
    struct tm day = {0};
    const char *end = strptime(text, "%Y-%m-%d", &day);
    struct tm asked = day;

    time_t at = end && *end == 0 && strlen(text) == 10 ? timegm(&day) : -1;
    if (at < 0 || day.tm_mday != asked.tm_mday || day.tm_mon != asked.tm_mon)
        return yaml_fail(y, path, err, "is '%.40s', expected a day as 2027-01-31", text);
    *out_s = (int64_t)at + 86400;
    return 0;
}

static char *dup_or_null(const char *text)
{
    return text ? mem_dup(text) : NULL;
}

static int read_ignore(struct health_ignore *to, const struct yaml *y, int i,
                       const struct doc_ignore *from, struct err *err)
{
    char path[64];

    to->link = dup_or_null(from->link);
    to->host = dup_or_null(from->host);
    to->check = dup_or_null(from->check);
    to->until = mem_dup(from->until);
    snprintf(path, sizeof path, "ignore[%d].check", i);
    if (from->check && !is_check(from->check)) {
        struct err why;
        fail_check(from->check, &why);
        return yaml_fail(y, path, err, "is %s", why.text);
    }
    snprintf(path, sizeof path, "ignore[%d].until", i);
    return read_day(y, path, from->until, &to->until_s, err);
}

static int read_expect(struct health_expect *to, const struct yaml *y, int i,
                       const struct doc_expect *from, struct err *err)
{
    char path[64];
    double Bps = 0;
    int64_t width = 0;
    struct err why;

    to->link = mem_dup(from->link);
    to->host = dup_or_null(from->host);
    snprintf(path, sizeof path, "expect[%d].speed", i);
    if (from->speed && num_rate(from->speed, &Bps, &why))
        return yaml_fail(y, path, err, "is %s", why.text);
    if (from->speed && !(Bps >= 125e3 && Bps <= 125e15))
        return yaml_fail(y, path, err, "is '%.40s', expected 1mbit or more", from->speed);
    to->mbit = (int64_t)(Bps * 8 / 1e6 + 0.5);
    snprintf(path, sizeof path, "expect[%d].width", i);
    if (from->width && yaml_i64(y, path, from->width, 1, 64, &width, err))
        return -1;
    to->width = (int)width;
    snprintf(path, sizeof path, "expect[%d].duplex", i);
    if (from->duplex && strcmp(from->duplex, "full") != 0)
        return yaml_fail(y, path, err, "is '%.40s', expected full", from->duplex);
    to->full_duplex = from->duplex != NULL;
    return 0;
}

static int take_doc(struct health_config *c, const struct yaml *y, const struct doc *doc,
                    struct err *err)
{
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < doc->disable_count; i++) {
        char path[64];
        struct err why;
        snprintf(path, sizeof path, "disable[%u]", i);
        if (health_config_disable(c, doc->disable[i], &why))
            rc = yaml_fail(y, path, err, "is %s", why.text);
    }
    c->ignore = mem_new((size_t)doc->ignore_count + 1, sizeof *c->ignore);
    for (unsigned i = 0; rc == 0 && i < doc->ignore_count; i++)
        rc = read_ignore(&c->ignore[c->ignores++], y, (int)i, &doc->ignore[i], err);
    c->expect = mem_new((size_t)doc->expect_count + 1, sizeof *c->expect);
    for (unsigned i = 0; rc == 0 && i < doc->expect_count; i++)
        rc = read_expect(&c->expect[c->expects++], y, (int)i, &doc->expect[i], err);
    return rc;
}

static int read_doc(struct health_config *c, const struct yaml *y, struct err *err)
{
    struct health_config new = {0};
    struct doc *doc = NULL;

    if (yaml_format(y, FORMAT, err) || yaml_load(y, &schema, (void **)&doc, err))
        return -1;
    int rc = take_doc(&new, y, doc, err);
    yaml_drop(&schema, doc);
    for (int i = 0; rc == 0 && i < c->disables; i++)
        rc = health_config_disable(&new, c->disable[i], err);
    if (rc == 0)
        health_config_release(c);
    else
        health_config_release(&new);
    if (rc == 0)
        *c = new;
    return rc;
}

int health_config_read(struct health_config *c, const char *path, struct err *err)
{
    struct yaml y;

    if (yaml_read(&y, path, err))
        return -1;
    int rc = read_doc(c, &y, err);
    yaml_release(&y);
    return rc;
}

void health_config_release(struct health_config *c)
{
    for (int i = 0; i < c->disables; i++)
        mem_free(c->disable[i]);
    for (int i = 0; i < c->ignores; i++) {
        mem_free(c->ignore[i].link);
        mem_free(c->ignore[i].host);
        mem_free(c->ignore[i].check);
        mem_free(c->ignore[i].until);
    }
    for (int i = 0; i < c->expects; i++) {
        mem_free(c->expect[i].link);
        mem_free(c->expect[i].host);
    }
    mem_free(c->disable);
    mem_free(c->ignore);
    mem_free(c->expect);
    *c = (struct health_config){0};
}

/* ---- asking ---- */

static int matches(const char *pattern, const char *text)
{
    return !pattern || fnmatch(pattern, text, 0) == 0;
}

int health_config_is_disabled(const struct health_config *c, int code)
{
    for (int i = 0; i < c->disables; i++)
        if (health_check_means(c->disable[i], code))
            return 1;
    return 0;
}

const struct health_ignore *health_config_find_ignore(const struct health_config *c, int code,
                                                      const char *host, const char *link,
                                                      int64_t now_s)
{
    const struct health_check *of = health_check_find(code); /* NULL: a state may have any */

    for (int i = 0; i < c->ignores; i++) {
        const struct health_ignore *g = &c->ignore[i];
        if (now_s < g->until_s && matches(g->link, link) && matches(g->host, host) &&
            (g->check ? health_check_means(g->check, code) : of && of->name))
            return g;
    }
    return NULL;
}

const struct health_expect *health_config_find_expect(const struct health_config *c,
                                                      const char *host, const char *link)
{
    for (int i = 0; i < c->expects; i++)
        if (matches(c->expect[i].link, link) && matches(c->expect[i].host, host))
            return &c->expect[i];
    return NULL;
}
