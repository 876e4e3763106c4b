/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_CHECKS_H
#define HEALTH_HEALTH_CHECKS_H

#include <stdint.h>

#include "base/err.h"
#include "health/health_data.h"
#include "health/health_nics.h"

/* Remedies for a finding, the mildest first. */
enum health_action { HEALTH_MONITOR, HEALTH_RETEST, HEALTH_OPERATOR, HEALTH_ISOLATE };
const char *health_action_name(enum health_action a);

/* The state of a port that should have a link, at the quick level. */
struct health_seen {
    const struct health_nic *nic;
    int64_t losses_in_day; /* link losses; -1: nothing is remembered of the port */
};

/*
 * All checks, one row each: name of the constant, code, word for --disable (NULL: it cannot be
 * disabled), action, levels that have nothing to do without this check, whether the quick level
 * reads the ports again before it reports this, meaning, and further members of struct
 * health_check.  Codes never change their meaning: 1xx configuration, 2xx link, 3xx rate, 4xx
 * latency, 5xx data, 9xx the check itself.
 */
/* clang-format off */
#define HEALTH_CHECKS(CHECK)                                                                   \
    CHECK(NO_CHECK, 103, NULL, OPERATOR, 0, 0, "every check is disabled", )                    \
    /* Rows with a cure belong to paro-topo --doctor. */                                       \
    CHECK(ACS, 111, NULL, OPERATOR, 0, 0,                                                      \
          "bridges send traffic between devices to the processor (ACS)",                       \
          .cure = "disable ACS in the firmware, or: setpci -s BRIDGE ECAP_ACS+6.w=0")          \
    CHECK(IOMMU, 112, NULL, OPERATOR, 0, 0, "the IOMMU translates the addresses of transfers", \
          .cure = "boot with iommu=pt, or disable the IOMMU in the firmware")                  \
    CHECK(DISTANCE, 113, NULL, OPERATOR, 0, 0, "a GPU is far from the ports",                  \
          .cure = "move the port to a slot near the GPU, or use a GPU near the port")          \
    CHECK(NUMA, 114, NULL, OPERATOR, 0, 0, "a process is far from a port",                     \
          .cure = "bind processes to the NUMA node of their port")                             \
    CHECK(PCIE, 115, NULL, OPERATOR, 0, 0, "a PCIe link is below its capability",              \
          .cure = "seat the card again, or move it to a slot as wide and as fast")             \
    CHECK(MTU, 116, NULL, OPERATOR, 0, 0,                                                      \
          "a port sends small frames, or others than its peers",                               \
          .cure = "ip link set PORT mtu 9000, on the switches and all hosts too")              \
    CHECK(ORDERING, 117, NULL, OPERATOR, 0, 0, "a port may not write in relaxed order",        \
          .cure = "enable it in the firmware, or: setpci -s DEVICE CAP_EXP+8.w=10:10")         \
    CHECK(GPUDIRECT, 118, NULL, OPERATOR, 0, 0,                                                \
          "messages of GPUs are copied through host memory",                                   \
          .cure = "modprobe nvidia-peermem, or install the open kernel module")                \
    CHECK(TCP, 119, NULL, OPERATOR, 0, 0, "the buffers of TCP are small for the port",         \
          .cure = "raise tcp_rmem and tcp_wmem, rmem_max and wmem_max by sysctl")              \
    CHECK(CONGESTION, 120, NULL, OPERATOR, 0, 0,                                               \
          "a connection recovers slowly from a lost frame",                                    \
          .cure = "sysctl net.ipv4.tcp_congestion_control=cubic")                              \
    CHECK(GOVERNOR, 121, NULL, OPERATOR, 0, 0, "processors lower their clock",                 \
          .cure = "cpupower frequency-set -g performance")                                     \
    CHECK(SPARE, 122, NULL, OPERATOR, 0, 0,                                                    \
          "a port has no link, and another one of its card is in use",                         \
          .cure = "cable it: to the switch, to the same host, or to another one in a ring")    \
    CHECK(LINK, 201, "link", ISOLATE, QUICK, 1, "a port lost its link", )                      \
    CHECK(SILENT, 202, "answer", ISOLATE, 0, 0, "a host does not answer", )                    \
    CHECK(ERRORS, 203, "errors", OPERATOR, QUICK, 0, "a link counts errors", )                 \
    CHECK(SPEED, 204, "speed", OPERATOR, QUICK, 1, "a link is slower than it should be", )     \
    /* One loss in a day is a cable that was unplugged; more than five are a fault. */         \
    CHECK(FLAPS, 205, "flaps", OPERATOR, QUICK, 0, "a link comes and goes",                    \
          .measure = losses_in_day, .warn = 2, .crit = 6, .says = "lost its link",             \
          .what = "times within a day")                                                        \
    CHECK(STALL, 206, "answer", ISOLATE, 0, 0, "bytes do not come through", )                  \
    CHECK(GONE, 207, "link", OPERATOR, 0, 1, "a port that was in use is gone or set down", )   \
    CHECK(UNUSED, 208, "link", OPERATOR, 0, 1, "a port has a link and is not in use", )        \
    CHECK(FULL, 209, "errors", OPERATOR, 0, 0, "a counter of errors stands at its end", )      \
    CHECK(UNREAD, 210, "read", OPERATOR, 0, 0, "a file of a port cannot be read", )            \
    CHECK(PORT, 301, "rate", OPERATOR, ROUNDS, 0, "a port is slow", )                          \
    CHECK(EITHER, 302, "rate", RETEST, 0, 0,                                                   \
          "one of two ports is slow, which one is not known", )                                \
    CHECK(UNSURE, 303, "rate", RETEST, 0, 0,                                                   \
          "a port or a pair seems slow, and it is not certain", )                              \
    CHECK(PAIR, 304, "pair", OPERATOR, ROUNDS, 0,                                              \
          "a pair is slow, both ends are well with others", )                                  \
    CHECK(SHIFT, 306, "rate", OPERATOR, 0, 0, "all ports are off their baseline together", )   \
    CHECK(RANK, 307, "rank", OPERATOR, 0, 0,                                                   \
          "a rank is slower than the others of its host", )                                    \
    CHECK(COLLECTIVE, 308, "collective", MONITOR, 0, 0,                                        \
          "all hosts together are slow, and no pair is", )                                     \
    CHECK(LATENCY, 401, "latency", OPERATOR, ROUNDS, 0, "the way to a host takes long", )      \
    CHECK(WRONG, 501, "data", ISOLATE, ROUNDS, 0, "data arrived wrong", )                      \
    CHECK(GPU, 502, "data", ISOLATE, 0, 0,                                                     \
          "a GPU, or the copy to or from it, made data wrong", )                               \
    CHECK(UNFINISHED, 901, NULL, RETEST, 0, 0, "the time was over before the check was", )     \
    CHECK(UNABLE, 902, NULL, RETEST, 0, 0, "a host could not measure", )                       \
    CHECK(SELDOM, 903, NULL, RETEST, 0, 0, "a port was measured too seldom", )
/* clang-format on */

#define HEALTH_CODE(id_, code_, ...) HC_##id_ = (code_),
enum { HEALTH_CHECKS(HEALTH_CODE) };

/*
 * A row with `measure` is a whole check of the quick level: WARNING from `warn` on, CRITICAL
 * from `crit` on (0: never), worded "HOST port 'NAME' SAYS 3 WHAT".  The findings of other rows
 * are made by the functions in health_judge.c's table and in health_quick.c.
 */
struct health_check {
    int code; /* 301 is HC-301 */
    const char *name;
    enum health_action action;
    const char *text; /* "a port is slow" */
    unsigned levels;  /* bits 1 << enum health_level */
    int read_twice;
    double (*measure)(const struct health_seen *s); /* NaN: unknown */
    double warn, crit;
    const char *says, *what;
    const char *cure; /* an administrator's remedy; NULL: depends on the cause */
};
extern const struct health_check health_checks[];       /* the last one has code 0 */
const struct health_check *health_check_find(int code); /* NULL: no such code */

/* Returns whether the errors are a fault; packets -1 or 0: their number is unknown. */
int health_errors_are_many(int64_t errors, int64_t packets);

/*
 * A site's configuration, paro-health-config/1 as horing-check(1) describes it: disabled
 * checks, known noise with its end, expected ports.
 */
enum { HEALTH_CONFIG_MOST = 4096, HEALTH_WORD = 256 };

struct health_ignore { /* patterns of fnmatch(3); a check or a code; "": any */
    char link[HEALTH_WORD], host[HEALTH_WORD], check[HEALTH_WORD];
    int64_t until_s; /* time from which the entry no longer applies */
};
struct health_expect {
    char link[HEALTH_WORD], host[HEALTH_WORD];
    int64_t mbit; /* 0: any, for the width too */
    int width;
};
struct health_config {
    int disables, ignores, expects;
    char (*disable)[HEALTH_WORD]; /* checks and codes; lists are owned */
    struct health_ignore *ignore; /* known noise */
    struct health_expect *expect;
    size_t space;
};

/* Reads a file.  Adds to the disabled checks of *c; replaces its other lists. */
int health_config_read(struct health_config *c, const char *path, struct err *err);
void health_config_release(struct health_config *c);

/* Disables one more check: "errors", "HC-203"; ERR_INPUT lists the valid words. */
int health_config_disable(struct health_config *c, const char *check, struct err *err);
int health_config_is_disabled(const struct health_config *c, int code);
/* Returns whether an entry declares it known noise; link "": about no link. */
int health_config_is_ignored(const struct health_config *c, int code, const char *host,
                             const char *link, int64_t now_s);
/* Returns the first entry that applies to this port, or NULL. */
const struct health_expect *health_config_find_expect(const struct health_config *c,
                                                      const char *host, const char *link);

#endif
