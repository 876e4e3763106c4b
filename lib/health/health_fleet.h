/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_FLEET_H
#define HEALTH_HEALTH_FLEET_H

#include "health/health_verdict.h"

/*
 * Simulates a fabric with known faults (--replay synth:SPEC): what a run would have measured on
 * it, plans and confirmation included.
 */
enum health_fault_kind {
    HEALTH_FAULT_PORT, /* both directions at `percent` */
    HEALTH_FAULT_OUT,
    HEALTH_FAULT_IN,
    HEALTH_FAULT_PAIR, /* from host to other */
    HEALTH_FAULT_CUT,  /* the host falls silent in the middle of the rounds */
    HEALTH_FAULT_FLAP, /* its link comes and goes: one measurement in three is lost in half */
    HEALTH_FAULT_CORRUPT, /* half of the streams that it sends has wrong words */
    HEALTH_FAULT_LATE,    /* the latency to it is `percent` of what it should be */
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
    int hosts, ranks;  /* ranks of each host */
    int leaf, pod;     /* hosts of a leaf, leaves of a pod; 0: places are not known */
    double far;        /* rate on a path to another leaf; to another pod its square */
    double Bps;        /* of a port */
    double noise;      /* deviation of a sample, a part of it */
    double transients; /* share of samples that lose 20 to 40 % */
    double common;     /* deviation of a round, the same factor for all of its samples */
    uint64_t seed;     /* another one, another run */
    enum health_level level;
    int faults;
    struct health_fault fault[HEALTH_FAULTS_MOST];
};
/* 8 hosts, one rank each, 2 % of noise and of transients, no places, no faults. */
void health_fleet_init(struct health_fleet *f);
/* "64x2,leaf=16,in=3:90", as horing-check(1) describes SPEC.  Hosts are called node0, ... */
int health_fleet_parse(const char *spec, struct health_fleet *out, struct err *err);
/* The data that a run measures; the rules are those that its plans are made by. */
int health_fleet_run(const struct health_fleet *f, const struct health_rules *rules,
                     struct health_data *out, struct err *err);

#endif
