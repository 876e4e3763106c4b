/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_MEMORY_H
#define HEALTH_HEALTH_MEMORY_H

#include "health/health_nics.h"
#include "health/health_store.h"
#include "health/health_verdict.h"

/*
 * A check's memory from run to run, JSON Lines (health_store.h): a head with the last run, then
 * the last readings of the host's network ports, the reported problems, and the last rates of
 * ports.
 */
/* Limit of an event's count: HEALTH_EVENTS of them and a new one can be added up. */
#define HEALTH_EVENT_MOST (INT64_MAX / HEALTH_EVENTS / 2)
enum { HEALTH_EVENTS = 16, HEALTH_RATES = 8, HEALTH_HOST_NAME = HEALTH_NAME };

struct health_event {
    int64_t at_s, n, packets;
};

struct health_known { /* a port's last readings */
    struct health_nic last;
    int want_up;       /* 1: it had a link */
    int64_t want_mbit; /* its highest speed; 0: never known */
    int want_width;
    int losses, recents;
    struct health_event loss[HEALTH_EVENTS];   /* link losses in the last 24 h */
    struct health_event recent[HEALTH_EVENTS]; /* packet errors in the last hour */
};

struct health_problem {
    int code;
    int seen; /* 1: seen in this run; not stored in the file */
    enum health_state reported;
    enum health_state printed; /* state when last printed, with --notify=change */
    int runs;                  /* consecutive runs that saw it; 0: the last did not */
    int64_t first_s, last_s;   /* first and last seen; last_s: as bad as reported */
    int64_t printed_s;         /* 0: never */
    char host[HEALTH_HOST_NAME], link[HEALTH_NIC_NAME], other[HEALTH_HOST_NAME]; /* "": none */
    int way;                                                                     /* -1: none */
    char text[256];
};

struct health_rate { /* rates of a port in the last runs, newest last */
    char host[HEALTH_HOST_NAME];
    int way, count;
    double Bps[HEALTH_RATES];
};

struct health_memory {
    char *path;     /* owned; NULL: no memory */
    int lock;       /* -1: none */
    int fresh;      /* 1: there was no state */
    char old[4200]; /* with fresh: where an unreadable state was kept, or "" */
    int64_t runs, when_s, measured_s; /* last run; last run that could measure; 0: none */
    char host[HEALTH_HOST_NAME], boot[HEALTH_BOOT_NAME];
    enum health_state printed; /* state and time of the last printing run; 0: never */
    int64_t printed_s;
    HEALTH_LIST(struct health_known, nics);
    HEALTH_LIST(struct health_problem, problems);
    HEALTH_LIST(struct health_rate, rates);
};

/*
 * Opens the state for checks like d's (one file each for quick checks of this host, rounds, and
 * rounds of GPUs) in the folder dir, created (0700) if missing; dir NULL: no memory.
 * ERR_MISMATCH: another check holds it.  ERR_INPUT: the state is unusable (a folder of another
 * user, a link, a truncated file, another version, another host, a time in the future); an
 * unusable file is kept as FILE.bad, so that the next run starts afresh.
 */
int health_memory_open(struct health_memory *m, const char *dir, const char *host,
                       const struct health_data *d, struct err *err);
void health_memory_close(struct health_memory *m);

extern const struct health_store health_memory_store; /* its file format */

/* A state this far in the future is accepted: the clock may have been put back. */
enum { HEALTH_CLOCK_SLACK_S = 300 };

struct health_known *health_memory_nic(struct health_memory *m, const char *name); /* or NULL */
struct health_rate *health_memory_rate(const struct health_memory *m, const char *host,
                                       int way); /* or NULL */

#endif
