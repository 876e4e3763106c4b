/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_MEMORY_H
#define HEALTH_HEALTH_MEMORY_H

#include "health/health_nics.h"
#include "health/health_store.h"
#include "health/health_verdict.h"

/*
 * Keeps what a check remembers from run to run, JSON Lines (health_store.h): a head with the
 * last run, then the host's network ports as they were read last, the problems that were
 * reported, and the last rates of ports.
 */
/* The most that an event may count: HEALTH_EVENTS of them and a new one can be added up. */
#define HEALTH_EVENT_MOST (INT64_MAX / HEALTH_EVENTS / 2)
enum { HEALTH_EVENTS = 16, HEALTH_RATES = 8, HEALTH_HOST_NAME = HEALTH_NAME };

struct health_event {
    int64_t at_s, n, packets;
};

struct health_known { /* of a port */
    struct health_nic last;
    int want_up;       /* it had a link */
    int64_t want_mbit; /* the fastest it had; 0: never known */
    int want_width;
    int losses, recents;
    struct health_event loss[HEALTH_EVENTS];   /* links lost, the last 24 h */
    struct health_event recent[HEALTH_EVENTS]; /* errors in packets, the last hour */
};

struct health_problem {
    int code;
    int seen; /* in this run; not in the file */
    enum health_state reported;
    enum health_state printed; /* last, where only changes are */
    int runs;                  /* in a row in which it was seen; 0: not in the last */
    int64_t first_s, last_s;   /* seen; last: as bad as it is reported */
    int64_t printed_s;         /* 0: never */
    char host[HEALTH_HOST_NAME], link[HEALTH_NIC_NAME], other[HEALTH_HOST_NAME]; /* "" none */
    int way;                                                                     /* or -1 */
    char text[256];
};

struct health_rate { /* of a port of a host, the last runs', newest last */
    char host[HEALTH_HOST_NAME];
    int way, count;
    double Bps[HEALTH_RATES];
};

struct health_memory {
    char *path;     /* owned; NULL: nothing is remembered */
    int lock;       /* -1: none */
    int fresh;      /* there was nothing to remember */
    char old[4200]; /* with fresh: the state that could not be read, kept, or "" */
    int64_t runs, when_s, measured_s; /* the last run; the last that could measure; 0: none */
    char host[HEALTH_HOST_NAME], boot[HEALTH_BOOT_NAME];
    enum health_state printed; /* by the last run that printed, and when; 0: never */
    int64_t printed_s;
    HEALTH_LIST(struct health_known, nics);
    HEALTH_LIST(struct health_problem, problems);
    HEALTH_LIST(struct health_rate, rates);
};

/*
 * Opens the state of checks like d's (a file for quick checks of this host, one for rounds and
 * one for those of GPUs) in the folder dir, made (0700) if it is not there; dir NULL: nothing
 * is remembered.  ERR_MISMATCH: another check holds it.  ERR_INPUT: what is there is not to be
 * used (another's folder, a link, a cut file, another version, another host, a time that is
 * still to come); a file of that kind is kept as FILE.bad, so that the next run starts afresh.
 */
int health_memory_open(struct health_memory *m, const char *dir, const char *host,
                       const struct health_data *d, struct err *err);
void health_memory_close(struct health_memory *m);

extern const struct health_store health_memory_store; /* its file */

/* Now, or what was last: a clock that was put back by less than this is no state to come. */
enum { HEALTH_CLOCK_SLACK_S = 300 };

struct health_known *health_memory_nic(struct health_memory *m, const char *name); /* or NULL */
struct health_rate *health_memory_rate(const struct health_memory *m, const char *host,
                                       int way); /* or NULL */

#endif
