/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the words that describe a fleet. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "health/health_fleet.h"

enum { RANKS_MOST = 64, SPEC_MOST = 4096 };

static int number(const char *text, int lo, int hi, int *out, struct err *err)
{
    int64_t v;

    if (num_i64(text, lo, hi, &v, err))
        return -1;
    *out = (int)v;
    return 0;
}

/* What stands behind the last `mark`, which is cut off; NULL: there is none. */
static char *cut(char *text, char mark)
{
    char *at = strrchr(text, mark);

    if (at)
        *at++ = 0;
    return at;
}

static const struct {
    const char *name;
    char second; /* the mark before a second number, or 0 */
    int percent; /* ":PERCENT" behind */
} faults[HEALTH_FAULTS] = {
    [HEALTH_FAULT_PORT] = {"port", 0, 1},       [HEALTH_FAULT_OUT] = {"out", 0, 1},
    [HEALTH_FAULT_IN] = {"in", 0, 1},           [HEALTH_FAULT_PAIR] = {"pair", '-', 1},
    [HEALTH_FAULT_CUT] = {"cut", 0, 0},         [HEALTH_FAULT_FLAP] = {"flap", 0, 0},
    [HEALTH_FAULT_CORRUPT] = {"corrupt", 0, 0}, [HEALTH_FAULT_LATE] = {"late", 0, 1},
    [HEALTH_FAULT_RANK] = {"rank", '.', 1}};

static int parse_fault(int kind, char *value, struct health_fleet *f, struct err *err)
{
    struct health_fault x = {.kind = (enum health_fault_kind)kind, .other = -1, .percent = 100};
    char *percent = faults[kind].percent ? cut(value, ':') : NULL;
    char *second = faults[kind].second ? cut(value, faults[kind].second) : NULL;

    if (f->faults == HEALTH_FAULTS_MOST)
        return err_set(err, ERR_INPUT, "one of more than %d faults", HEALTH_FAULTS_MOST);
    if (!percent != !faults[kind].percent || !second != !faults[kind].second)
        return err_set(err, ERR_INPUT, "expected HOST%s%s",
                       faults[kind].second == '-'   ? "-HOST"
                       : faults[kind].second == '.' ? ".RANK"
                                                    : "",
                       faults[kind].percent ? ":PERCENT" : "");
    int most = kind == HEALTH_FAULT_RANK ? f->ranks : f->hosts;
    if (number(value, 0, f->hosts - 1, &x.host, err) ||
        (second && number(second, 0, most - 1, &x.other, err)) ||
        (percent && num_f64(percent, 1, 1e4, &x.percent, err)))
        return -1;
    if (kind == HEALTH_FAULT_PAIR && x.host == x.other)
        return err_set(err, ERR_INPUT, "host %d twice, expected a pair", x.host);
    f->fault[f->faults++] = x;
    return 0;
}

static int parse_item(char *key, struct health_fleet *f, struct err *err)
{
    char *value = strchr(key, '=');
    int64_t seed;
    int rc = -1;

    if (!value)
        return err_set(err, ERR_INPUT, "'%.40s', expected KEY=VALUE", key);
    *value++ = 0;
    if (strcmp(key, "leaf") == 0)
        rc = number(value, 1, f->hosts, &f->leaf, err);
    else if (strcmp(key, "pod") == 0)
        rc = number(value, 1, f->hosts, &f->pod, err);
    else if (strcmp(key, "far") == 0)
        rc = num_f64(value, 0.01, 1, &f->far, err);
    else if (strcmp(key, "noise") == 0)
        rc = num_f64(value, 0, 0.5, &f->noise, err);
    else if (strcmp(key, "transients") == 0)
        rc = num_f64(value, 0, 1, &f->transients, err);
    else if (strcmp(key, "common") == 0)
        rc = num_f64(value, 0, 0.5, &f->common, err);
    else if (strcmp(key, "level") == 0)
        rc = health_level_parse(value, &f->level, err);
    else if (strcmp(key, "seed") == 0) {
        rc = num_i64(value, 0, INT64_MAX, &seed, err);
        f->seed = rc ? 0 : (uint64_t)seed;
    } else {
        int kind = 0;
        while (kind < HEALTH_FAULTS && strcmp(key, faults[kind].name))
            kind++;
        if (kind == HEALTH_FAULTS)
            return err_set(err, ERR_INPUT,
                           "'%.40s', expected leaf, pod, far, noise, transients, common, seed, "
                           "level, port, out, in, pair, cut, flap, corrupt, late or rank",
                           key);
        rc = parse_fault(kind, value, f, err);
    }
    return rc ? err_prefix(err, "%s: ", key) : 0;
}

static int parse(char *text, struct health_fleet *f, struct err *err)
{
    char *save = NULL, *shape = strtok_r(text, ",", &save), *ranks;

    if (!shape)
        return err_set(err, ERR_INPUT, "is empty, expected HOSTS[xRANKS][,KEY=VALUE...]");
    ranks = cut(shape, 'x');
    if (number(shape, 2, HEALTH_HOSTS_MOST, &f->hosts, err) ||
        (ranks && number(ranks, 1, RANKS_MOST, &f->ranks, err)))
        return -1;
    for (char *item; (item = strtok_r(NULL, ",", &save));)
        if (parse_item(item, f, err))
            return -1;
    return 0;
}

int health_fleet_parse(const char *spec, struct health_fleet *out, struct err *err)
{
    struct health_fleet f;

    if (strlen(spec) > SPEC_MOST)
        return err_set(err, ERR_INPUT, "a fleet of more than %d bytes", SPEC_MOST);
    char *copy = mem_dup(spec);
    health_fleet_init(&f);
    int rc = parse(copy, &f, err);
    mem_free(copy);
    if (rc)
        return err_prefix(err, "fleet '%.200s': ", spec);
    *out = f;
    return 0;
}
