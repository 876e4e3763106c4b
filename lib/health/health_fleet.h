/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_FLEET_H
#define HEALTH_HEALTH_FLEET_H

#include "health/health_verdict.h"

/*
 * Simulates a fabric with known faults (--replay synth:SPEC): the measurements of a run on it,
 * including plans and confirmation.
 */
enum health_fault_kind {
    HEALTH_FAULT_PORT, /* both directions at `percent` */
    HEALTH_FAULT_OUT,
    HEALTH_FAULT_IN,
    HEALTH_FAULT_PAIR,    /* from host to other */
    HEALTH_FAULT_CUT,     /* the host becomes silent in the middle of the rounds */
    HEALTH_FAULT_FLAP,    /* its link is intermittent: one measurement in three loses half */
    HEALTH_FAULT_CORRUPT, /* half of the streams that it sends have wrong words */
    HEALTH_FAULT_LATE,    /* the latency to it is `percent` of normal */
    HEALTH_FAULT_RANK,    /* `other` is a rank of the host, at `percent` of the others there */
    HEALTH_FAULTS
};

struct health_fault {
    enum health_fault_kind kind;
    int host, other;
    double percent;
};

enum { HEALTH_FAULTS_MOST = 16 };

struct health_fleet {
    int hosts, ranks;  /* ranks per host */
    int leaf, pod;     /* hosts per leaf, leaves per pod; 0: positions unknown */
    double far;        /* relative rate on a path to another leaf; to another pod its square */
    double Bps;        /* rate of a port */
    double noise;      /* deviation of a sample, relative */
    double transients; /* share of samples that lose 20 to 40 % */
    double common;     /* deviation of a round, one factor for all of its samples */
    uint64_t seed;     /* selects the run */
    enum health_level level;
    int faults;
    struct health_fault fault[HEALTH_FAULTS_MOST];
};
/* Initializes 8 hosts, one rank each, 2 % noise and transients, no positions, no faults. */
void health_fleet_init(struct health_fleet *f);
/* Parses "64x2,leaf=16,in=3:90", SPEC of horing-check(1).  Hosts are named node0, ... */
int health_fleet_parse(const char *spec, struct health_fleet *out, struct err *err);
/* Simulates a run; its plans use these rules. */
int health_fleet_run(const struct health_fleet *f, const struct health_rules *rules,
                     struct health_data *out, struct err *err);

#endif
