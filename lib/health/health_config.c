/* SPDX-License-Identifier: BSD-3-Clause */
/* The format paro-health-config/1, and questions to what was read. */
#include "health/health_config.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/yaml.h"
#include "health/health_checks.h"

enum { WORD = 256 };

static int check_word(const char *word, struct err *err)
{
    char all[200] = "";

    for (const struct health_check *c = health_checks; c->code; c++) {
        int again = !c->name;
        if (health_check_means(word, c->code))
            return 0;
        for (const struct health_check *b = health_checks; !again && b < c; b++)
            again = b->name && strcmp(b->name, c->name) == 0;
        if (!again)
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", all[0] ? ", " : "",
                     c->name);
    }
    return err_set(err, ERR_INPUT, "'%.60s', expected one of %s, or a code as HC-203", word,
                   all);
}

int health_config_disable(struct health_config *c, const char *check, struct err *err)
{
    if (check_word(check, err))
        return -1;
    c->disable = mem_grow(c->disable, &c->room, (size_t)c->disables + 1, sizeof *c->disable);
    c->disable[c->disables++] = mem_dup(check);
    return 0;
}

/* ---- reading ---- */

/* A text that is not empty, or NULL; *to is owned. */
static int read_word(const struct tree *t, const struct tree_node *item, const char *key,
                     char **to, struct err *err)
{
    const char *text = NULL;

    if (tree_text(t, tree_get(item, key), 1, WORD - 1, &text, err))
        return -1;
    *to = text ? mem_dup(text) : NULL;
    return 0;
}

/* A check or a code, disabled in c unless it is NULL. */
static int read_check(const struct tree *t, const struct tree_node *n, struct health_config *c,
                      struct err *err)
{
    const char *text = NULL;
    struct err why;

    if (tree_text(t, n, 1, WORD - 1, &text, err))
        return -1;
    if (text && (c ? health_config_disable(c, text, &why) : check_word(text, &why)))
        return tree_fail(t, n, NULL, err, "is %s", why.text);
    return 0;
}

/* "2027-01-31": until the end of that day in UTC. */
static int read_day(const struct tree *t, const struct tree_node *n, int64_t *out_s,
                    struct err *err)
{
    char text[WORD];
    struct tm day = {0};

    if (tree_word(t, n, text, sizeof text, err))
        return -1;
    const char *end = strptime(text, "%Y-%m-%d", &day);
    struct tm asked = day;
    time_t at = end && *end == 0 && strlen(text) == 10 ? timegm(&day) : -1;
    if (at < 0 || day.tm_mday != asked.tm_mday || day.tm_mon != asked.tm_mon)
        return tree_fail(t, n, NULL, err, "is '%.40s', expected a day as 2027-01-31", text);
    *out_s = (int64_t)at + 86400;
    return 0;
}

static int read_ignore(const struct tree *t, const struct tree_node *n, struct health_config *c,
                       struct err *err)
{
    struct health_ignore *to = &c->ignore[c->ignores++];
    const char *reason;
    int rc = tree_keys(t, n, "link? host? check? until reason", err) ||
             read_word(t, n, "link", &to->link, err) ||
             read_word(t, n, "host", &to->host, err) ||
             tree_text(t, tree_get(n, "reason"), 1, WORD - 1, &reason, err) ||
             read_check(t, tree_get(n, "check"), NULL, err) ||
             read_word(t, n, "check", &to->check, err) ||
             read_day(t, tree_get(n, "until"), &to->until_s, err);

    return rc ? -1 : 0;
}

static int read_expect(const struct tree *t, const struct tree_node *n, struct health_config *c,
                       struct err *err)
{
    static const char *const duplex[] = {"full"};
    struct health_expect *to = &c->expect[c->expects++];
    const struct tree_node *speed = tree_get(n, "speed");
    const char *rate = NULL;
    double Bps = 0;
    int full = 0;
    struct err why;

    if (tree_keys(t, n, "link host? speed? width? duplex?", err) ||
        read_word(t, n, "link", &to->link, err) || read_word(t, n, "host", &to->host, err) ||
        tree_text(t, speed, 1, WORD - 1, &rate, err) ||
        tree_int(t, tree_get(n, "width"), 1, 64, &to->width, err) ||
        tree_choice(t, tree_get(n, "duplex"), duplex, 1, &full, err))
        return -1;
    if (rate && num_rate(rate, &Bps, &why))
        return tree_fail(t, speed, NULL, err, "is %s", why.text);
    if (rate && !(Bps >= 125e3 && Bps <= 125e15))
        return tree_fail(t, speed, NULL, err, "is '%.40s', expected 1mbit or more", rate);
    to->mbit = (int64_t)(Bps * 8 / 1e6 + 0.5);
    return 0;
}

static int read_list(const struct tree *t, const char *key, struct health_config *c,
                     int (*each)(const struct tree *, const struct tree_node *,
                                 struct health_config *, struct err *),
                     struct err *err)
{
    const struct tree_node *list = tree_get(t->root, key);

    if (tree_list(t, list, 0, HEALTH_CONFIG_MOST, err))
        return -1;
    for (const struct tree_node *n = list ? list->child : NULL; n; n = n->next)
        if (each(t, n, c, err))
            return -1;
    return 0;
}

int health_config_read(struct health_config *c, const char *path, struct err *err)
{
    struct health_config new = {0};
    struct yaml y;

    if (yaml_read(&y, path, err))
        return -1;
    new.ignore = mem_new(HEALTH_CONFIG_MOST, sizeof *new.ignore);
    new.expect = mem_new(HEALTH_CONFIG_MOST, sizeof *new.expect);
    int rc = yaml_format(&y, "paro-health-config/1", err) ||
             tree_keys(&y.tree, y.tree.root, "format disable? ignore? expect?", err) ||
             read_list(&y.tree, "disable", &new, read_check, err) ||
             read_list(&y.tree, "ignore", &new, read_ignore, err) ||
             read_list(&y.tree, "expect", &new, read_expect, err);
    for (int i = 0; rc == 0 && i < c->disables; i++)
        rc = health_config_disable(&new, c->disable[i], err);
    health_config_release(rc ? &new : c);
    if (rc == 0)
        *c = new;
    yaml_release(&y);
    return rc ? -1 : 0;
}

void health_config_release(struct health_config *c)
{
    for (int i = 0; i < c->disables; i++)
        mem_free(c->disable[i]);
    for (int i = 0; i < c->ignores; i++) {
        mem_free(c->ignore[i].link);
        mem_free(c->ignore[i].host);
        mem_free(c->ignore[i].check);
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

/* ---- questions ---- */

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

int health_config_is_ignored(const struct health_config *c, int code, const char *host,
                             const char *link, int64_t now_s)
{
    const struct health_check *of = health_check_find(code); /* NULL: a state may have any */

    for (int i = 0; i < c->ignores; i++) {
        const struct health_ignore *g = &c->ignore[i];
        if (now_s < g->until_s && matches(g->link, link) && matches(g->host, host) &&
            (g->check ? health_check_means(g->check, code) : of && of->name))
            return 1;
    }
    return 0;
}

const struct health_expect *health_config_find_expect(const struct health_config *c,
                                                      const char *host, const char *link)
{
    for (int i = 0; i < c->expects; i++)
        if (matches(c->expect[i].link, link) && matches(c->expect[i].host, host))
            return &c->expect[i];
    return NULL;
}
