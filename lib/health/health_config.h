/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_CONFIG_H
#define HEALTH_HEALTH_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * What is disabled, what is known noise and until when, and what ports should be:
 * paro-health-config/1, described in horing-check(1).
 */
enum { HEALTH_CONFIG_MOST = 4096 };

struct health_ignore {
    char *link, *host, *check; /* patterns of fnmatch(3), a check or a code; NULL: any */
    int64_t until_s;           /* it has ended from here on */
};

struct health_expect {
    char *link, *host;
    int64_t mbit; /* 0: any; so is the width */
    int width;
};

struct health_config {
    int disables, ignores, expects;
    char **disable;               /* checks and codes */
    struct health_ignore *ignore; /* all owned */
    struct health_expect *expect;
    size_t room;
};
/* Adds to the checks that are disabled in *c already; its lists are replaced. */
int health_config_read(struct health_config *c, const char *path, struct err *err);
void health_config_release(struct health_config *c);

/* One more check that is disabled: "errors", "HC-203"; ERR_INPUT lists what there is. */
int health_config_disable(struct health_config *c, const char *check, struct err *err);
int health_config_is_disabled(const struct health_config *c, int code);
/* Whether an entry makes it known noise; link "" when it is about none. */
int health_config_is_ignored(const struct health_config *c, int code, const char *host,
                             const char *link, int64_t now_s);
/* The first that is about this port, or NULL. */
const struct health_expect *health_config_find_expect(const struct health_config *c,
                                                      const char *host, const char *link);

#endif
