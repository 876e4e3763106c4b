/* SPDX-License-Identifier: BSD-3-Clause */
/* All checks: their codes, words, thresholds and actions. */
#include "health/health_checks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double losses_in_day(const struct health_seen *s)
{
    return s->losses_in_day < 0 ? NAN : (double)s->losses_in_day;
}

enum { QUICK = 1 << HEALTH_QUICK, ROUNDS = 1 << HEALTH_NORMAL | 1 << HEALTH_DEEP };

#define CHECK(code_, name_, action_, levels_, twice_, text_)                                   \
    {                                                                                          \
        .code = (code_), .name = (name_), .action = HEALTH_##action_, .levels = (levels_),     \
        .read_twice = (twice_), .text = (text_)                                                \
    }

/* clang-format off */
const struct health_check health_checks[] = {
    CHECK(103, NULL, OPERATOR, 0, 0, "every check is disabled"),
    CHECK(201, "link", ISOLATE, QUICK, 1, "a port lost its link"),
    CHECK(202, "answer", ISOLATE, 0, 0, "a host does not answer"),
    CHECK(203, "errors", OPERATOR, QUICK, 0, "a link counts errors"),
    CHECK(204, "speed", OPERATOR, QUICK, 1, "a link is slower than it should be"),
    /* One loss in a day is a cable that was pulled; more than five are a fault. */
    {.code = 205, .name = "flaps", .action = HEALTH_OPERATOR, .levels = QUICK,
     .text = "a link comes and goes", .measure = losses_in_day, .warn = 2, .crit = 6,
     .says = "lost its link", .what = "times within a day"},
    CHECK(206, "answer", ISOLATE, 0, 0, "bytes do not come through"),
    CHECK(207, "link", OPERATOR, 0, 1, "a port that was in use is gone or set down"),
    CHECK(208, "link", OPERATOR, 0, 1, "a port has a link and is not in use"),
    CHECK(209, "errors", OPERATOR, 0, 0, "a counter of errors stands at its end"),
    CHECK(210, "read", OPERATOR, 0, 0, "a file of a port cannot be read"),
    CHECK(301, "rate", OPERATOR, ROUNDS, 0, "a port is slow"),
    CHECK(302, "rate", RETEST, 0, 0, "one of two ports is slow, which one is not known"),
    CHECK(303, "rate", RETEST, 0, 0, "a port or a pair seems slow, and it is not certain"),
    CHECK(304, "pair", OPERATOR, ROUNDS, 0, "a pair is slow, both ends are well with others"),
    CHECK(306, "rate", OPERATOR, 0, 0, "all ports are off their baseline together"),
    CHECK(307, "rank", OPERATOR, 0, 0, "a rank is slower than the others of its host"),
    CHECK(308, "collective", MONITOR, 0, 0, "all hosts together are slow, and no pair is"),
    CHECK(401, "latency", OPERATOR, ROUNDS, 0, "the way to a host takes long"),
    CHECK(501, "data", ISOLATE, ROUNDS, 0, "data arrived wrong"),
    CHECK(502, "data", ISOLATE, 0, 0, "a GPU, or the copy to or from it, made data wrong"),
    CHECK(901, NULL, RETEST, 0, 0, "the time was over before the check was"),
    CHECK(902, NULL, RETEST, 0, 0, "a host could not measure"),
    CHECK(903, NULL, RETEST, 0, 0, "a port was measured too seldom"),
    {0}};
/* clang-format on */

const struct health_check *health_check_find(int code)
{
    for (const struct health_check *c = health_checks; c->code; c++)
        if (c->code == code)
            return c;
    return NULL;
}

int health_check_means(const char *word, int code)
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
 * A frame of 1518 bytes is 12144 bits; at the bit error ratio of 1e-12 that IEEE 802.3 and the
 * InfiniBand specification allow, one in 8e7 is lost.  A hundred times that, 1e-6, is a fault;
 * below 10 errors a ratio says nothing.
 */
int health_errors_are_many(int64_t errors, int64_t packets)
{
    return errors >= 10 && (packets <= 0 || (double)errors > 1e-6 * (double)packets);
}
