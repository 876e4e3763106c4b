/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists all checks, and reads a site's configuration (paro-health-config/1), which disables
 * checks, lists known noise of others, and defines expected links.
 */
#include "health/health_checks.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/num.h"
#include "value/value_yaml.h"

static double losses_in_day(const struct health_seen *s)
{
    return s->losses_in_day < 0 ? NAN : (double)s->losses_in_day;
}

enum { QUICK = 1 << HEALTH_QUICK, ROUNDS = 1 << HEALTH_NORMAL | 1 << HEALTH_DEEP };

#define CHECK(id_, code_, name_, action_, levels_, twice_, text_, ...)                         \
    {.code = (code_),                                                                          \
     .name = (name_),                                                                          \
     .action = HEALTH_##action_,                                                               \
     .levels = (levels_),                                                                      \
     .read_twice = (twice_),                                                                   \
     .text = (text_),                                                                          \
     __VA_ARGS__},

/* clang-format off */
const struct health_check health_checks[] = {HEALTH_CHECKS(CHECK){0}};
/* clang-format on */

const struct health_check *health_check_find(int code)
{
    for (const struct health_check *c = health_checks; c->code; c++)
        if (c->code == code)
            return c;
    return NULL;
}

/* Returns whether a word, "errors" or "HC-203", denotes this code. */
static int word_means(const char *word, int code)
{
    const struct health_check *c = health_check_find(code);
    char hc[16];

    snprintf(hc, sizeof hc, "HC-%03d", code);
    return c && c->name && (strcmp(word, hc) == 0 || strcmp(word, c->name) == 0);
}

const char *health_action_name(enum health_action a)
{
    static const char *const names[] = {"monitor", "retest", "operator", "isolate"};

    return names[a];
}

/*
 * A frame of 1518 bytes has 12144 bits; at the bit error ratio of 1e-12 that IEEE 802.3 and the
 * InfiniBand specification allow, one in 8e7 is lost.  A hundred times that, 1e-6, is a fault;
 * with fewer than 10 errors a ratio is not significant.
 */
int health_errors_are_many(int64_t errors, int64_t packets)
{
    return errors >= 10 && (packets <= 0 || (double)errors > 1e-6 * (double)packets);
}

/* ---- the configuration ---- */

static int checks_check_word(const char *word, struct err *err)
{
    char all[200] = "";

    for (const struct health_check *c = health_checks; c->code; c++) {
        int again = !c->name;
        if (word_means(word, c->code))
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
    if (checks_check_word(check, err))
        return -1;
    c->disable = mem_grow(c->disable, &c->space, (size_t)c->disables + 1, sizeof *c->disable);
    snprintf(c->disable[c->disables++], sizeof *c->disable, "%s", check);
    return 0;
}

/* ---- reading ---- */

/* Reads a check or a code and disables it in c; if `to` is not NULL, stores it there
   instead. */
static int read_check(const struct tree *t, const struct tree_node *n, struct health_config *c,
                      char *to, struct err *err)
{
    char text[HEALTH_WORD] = "";
    struct err why;

    if (tree_word(t, n, text, sizeof text, err))
        return -1;
    if (text[0] && (to ? checks_check_word(text, &why) : health_config_disable(c, text, &why)))
        return tree_fail(t, n, NULL, err, "is %s", why.text);
    if (to)
        memcpy(to, text, sizeof text);
    return 0;
}

static int read_disable(const struct tree *t, const struct tree_node *n,
                        struct health_config *c, struct err *err)
{
    return read_check(t, n, c, NULL, err);
}

/* Reads "2027-01-31": until the end of that day in UTC. */
static int read_day(const struct tree *t, const struct tree_node *n, int64_t *out_s,
                    struct err *err)
{
    char text[HEALTH_WORD];
    struct tm day = {0};

    if (tree_word(t, n, text, sizeof text, err))
        return -1;
    const char *end = strptime(text, "%Y-%m-%d", &day);
    struct tm requested = day;
    time_t at = end && *end == 0 && strlen(text) == 10 ? timegm(&day) : -1;
    if (at < 0 || day.tm_mday != requested.tm_mday || day.tm_mon != requested.tm_mon)
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
             tree_word(t, tree_get(n, "link"), to->link, sizeof to->link, err) ||
             tree_word(t, tree_get(n, "host"), to->host, sizeof to->host, err) ||
             tree_text(t, tree_get(n, "reason"), 1, HEALTH_WORD - 1, &reason, err) ||
             read_check(t, tree_get(n, "check"), c, to->check, err) ||
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
        tree_word(t, tree_get(n, "link"), to->link, sizeof to->link, err) ||
        tree_word(t, tree_get(n, "host"), to->host, sizeof to->host, err) ||
        tree_text(t, speed, 1, HEALTH_WORD - 1, &rate, err) ||
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

static int checks_read_list(const struct tree *t, const char *key, struct health_config *c,
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
             checks_read_list(&y.tree, "disable", &new, read_disable, err) ||
             checks_read_list(&y.tree, "ignore", &new, read_ignore, err) ||
             checks_read_list(&y.tree, "expect", &new, read_expect, err);
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
    MEM_FREE(c->disable, c->ignore, c->expect);
    *c = (struct health_config){0};
}

/* ---- queries ---- */

static int checks_matches(const char *pattern, const char *text)
{
    return !pattern[0] || fnmatch(pattern, text, 0) == 0;
}

int health_config_is_disabled(const struct health_config *c, int code)
{
    for (int i = 0; i < c->disables; i++)
        if (word_means(c->disable[i], code))
            return 1;
    return 0;
}

int health_config_is_ignored(const struct health_config *c, int code, const char *host,
                             const char *link, int64_t now_s)
{
    const struct health_check *of = health_check_find(code); /* NULL: a state may have any
                                                                code */

    for (int i = 0; i < c->ignores; i++) {
        const struct health_ignore *g = &c->ignore[i];
        if (now_s < g->until_s && checks_matches(g->link, link) &&
            checks_matches(g->host, host) &&
            (g->check[0] ? word_means(g->check, code) : of && of->name))
            return 1;
    }
    return 0;
}

const struct health_expect *health_config_find_expect(const struct health_config *c,
                                                      const char *host, const char *link)
{
    for (int i = 0; i < c->expects; i++)
        if (checks_matches(c->expect[i].link, link) && checks_matches(c->expect[i].host, host))
            return &c->expect[i];
    return NULL;
}
