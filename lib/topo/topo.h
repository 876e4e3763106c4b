/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_TOPO_H
#define TOPO_TOPO_H

#include <stdint.h>
#include <stdio.h>

#include "base/dtype.h"
#include "base/err.h"
#include "base/groups.h"

enum { TOPO_LEVELS_MAX = 8, TOPO_SOURCE_BYTES = 160, TOPO_NAME_BYTES = 96 };

enum topo_device { TOPO_CPU, TOPO_CUDA };
enum topo_transport { TOPO_OVER_MPI, TOPO_OVER_NCCL };

/*
 * A fabric: levels from the inside out.  Level 0 joins the ranks of a group (the fast tier);
 * level 1 joins the groups (the slow tier); further levels join blocks of groups.  All rates
 * are bytes per second of payload, each way.
 */
struct topo_level {
    char name[32];     /* "intra", "inter", or the user's word */
    double latency_s;  /* of one small message */
    double port_Bps;   /* rate of a unit's port, all members together (0: one rank's) */
    double flow_Bps;   /* one flow alone */
    double member_Bps; /* one rank's share when all behind the (largest) port send at once */
    double message_s;  /* of a rank's time at either end, when all send; 0: unknown */
    /*
     * Half the width of the interval that holds the value with 95 %: of a fitted line's, or of
     * the median of repeated rounds; 0 where unknown.
     */
    double latency_err_s, port_err_Bps, flow_err_Bps, member_err_Bps;
    /*
     * Where ranks move bytes and compute at the same time (they share cores, or the units that
     * copy): what is left of member_Bps while all ranks compute, and of flops while all ranks
     * send at this level; parts of 1, 0 where unknown.
     */
    double rate_left, compute_left;
    /* The time of a ring's bytes grows by this part for each rank that it joins beyond two; 0:
       it does not. */
    double ring_loss;
    /* Seconds that computing loses to each exchange at this level that runs at the same time
       and whose end it needs, however few the bytes; 0 where unknown, or nothing. */
    double use_lost_s;
    double latency_busy_s; /* of one message while all ranks compute; 0: unknown */
    /* Where they come from that were neither measured nor given; else "". */
    char rate_source[TOPO_SOURCE_BYTES], latency_source[TOPO_SOURCE_BYTES];
};

struct topo_port {
    double out_Bps, in_Bps; /* this group's port at level 1, measured apart */
};

struct topo_devices { /* of a group's host; 0 and "" where unknown or none */
    int numa_nodes, gpus, nics;
    char gpu_name[TOPO_NAME_BYTES]; /* "NVIDIA H200", of all of them or the first */
};

struct topo {
    int levels;
    struct topo_level *level;      /* [levels], owned; two at least */
    struct groups groups;          /* the groups of level 0, owned */
    char **host;                   /* [groups.count], owned, "" where unknown */
    struct topo_port *port;        /* [groups.count], owned */
    int *block;                    /* [levels-2][groups.count], owned: at level 2..; or NULL */
    struct topo_devices *devices;  /* [groups.count], owned */
    enum topo_device device;       /* that ranks compute on: whose memory and rates follow */
    enum topo_transport transport; /* by which levels were measured; MPI where they were not */
    int64_t memory_bytes;          /* per rank, 0 where unknown */
    double flops;                  /* per rank, all ranks busy, 0 where unknown */
    enum dtype compute_type;       /* of the products that these are of: f32, bf16 */
    double other_flops;            /* of products in the other of both types, 0 where unknown */
    double memory_Bps; /* per rank, all copying: bytes read plus bytes written; or 0 */
    /* Traffic across passes ports inside too, where groups end above level 0: a collective that
       works inside and across at once takes so much longer inside, in parts of 1. */
    double inside_extra;
    char open[TOPO_SOURCE_BYTES];  /* figures that another tool's file leaves open; "" */
    char doubt[TOPO_SOURCE_BYTES]; /* why what was measured or read may be wrong */
};

/* Bounds on what a text may claim: far beyond any machine, and near enough that no product of a
   rate, a time and a number of ranks (2^20) leaves a double or an int64_t. */
#define TOPO_RATE_MIN_BPS     1.0
#define TOPO_RATE_MAX_BPS     1e25
#define TOPO_LATENCY_MAX_S    3600.0
#define TOPO_MEMORY_MAX_BYTES (INT64_C(1) << 60)
#define TOPO_FLOPS_MAX        1e21
#define TOPO_LEFT_MIN         1e-6 /* of rate_left and compute_left */
#define TOPO_DEVICES_MAX      65536

/* Room for a fabric over a copy of the groups: rates 0, hosts "", all groups in block 0. */
void topo_init(struct topo *t, int levels, const struct groups *groups);
/* Two levels over the groups, every rate 1 B/s: where bytes alone are asked for. */
void topo_init_rateless(struct topo *t, const struct groups *groups);
void topo_release(struct topo *t);
void topo_name_levels(struct topo *t); /* "intra", "inter", "level2", ... */
void topo_set_host(struct topo *t, int k, const char *host); /* copies */
/*
 * Reads a fabric as -i names it: a file, "-" (stdin), "nvml:" (this machine's GPUs), or
 * "synth:SPEC" as "synth:16x8,intra=200GB/s:3us,inter=25GB/s:12us,memory=80e9,flops=100e12".  A
 * file is YAML (paro-topology(5)) or what another tool writes: topo/topo_import.h, which takes
 * words about what that tool does not state, and is asked here without any.  A file that leaves
 * open what `open` tells is refused.
 */
int topo_read(struct topo *t, const char *what, struct err *err);
struct yaml;
struct tree;
struct tree_node;
struct record;
int topo_parse_yaml(struct topo *t, const struct yaml *y, struct err *err);
/*
 * The groups of a list of mappings of these keys (record_keys), of which "ranks" lists numbers
 * below that of all, or such a list for each cell: each once, ascending in its list.
 */
int topo_tree_groups(const struct tree *t, const struct tree_node *list,
                     const struct record *fields, const char *keys, struct groups *groups,
                     struct err *err);
struct jout;
void topo_put_ranks(struct jout *j, const struct groups *g, int k); /* "ranks" of a group */
/*
 * SHAPE[,LEVEL=RATE[/rank][:LATENCY]]...[,memory=BYTES][,flops=N], without "synth:".  SHAPE is
 * outermost first: 16x8, 4x16x8, [8,8,7], 4x[8,8,7].  LEVEL is intra, inter, level2, ... from
 * the inside out.  Absent: intra=200GB/s:3us, inter=25GB/s:12us; a further level passes all
 * that its groups' ports do together, with the latency of the level below.
 */
int topo_parse_synth(struct topo *t, const char *spec, struct err *err);
/* SHAPE alone, as above, or "8": one group. */
int topo_parse_shape(struct topo *t, const char *shape, struct err *err);

enum topo_format {
    TOPO_YAML,
    TOPO_JSON,
    TOPO_TABLE,
    TOPO_SVG,
    TOPO_HOSTFILE, /* Open MPI's, "node0 slots=2"; ERR_ABSENT where a host has no name */
    TOPO_RANKFILE, /* Open MPI's, "rank 0=node0 slot=0"; the same */
    TOPO_NCCL,     /* of a machine, not of a fabric: topo_export_nccl() prints it */
    TOPO_FORMATS
};
enum dtype topo_other_type(const struct topo *t); /* bf16 if compute_type is f32, else f32 */
/* FLOP/s of a rank in products of that type; 0: not measured. */
double topo_flops_in(const struct topo *t, enum dtype type);
/* The part of a level's rates that a ring reaches which joins so many ranks, by ring_loss. */
double topo_ring_left(const struct topo_level *level, int ranks);
const char *topo_device_name(enum topo_device device); /* "cpu", "cuda" */
int topo_device_parse(const char *text, enum topo_device *out, struct err *err);
const char *topo_transport_name(enum topo_transport transport); /* "mpi", "nccl" */
int topo_print(const struct topo *t, enum topo_format format, FILE *out, struct err *err);

/*
 * Prints where the fabric differs from an older one, a line each (one JSON document with
 * TOPO_JSON, "paro.topo.diff/1"), and returns how many differences there are.  Rates, latencies
 * and flops that differ by no more than `tolerance` (0.05: 5 % of the old value) are the same.
 */
int topo_diff(const struct topo *old, const struct topo *t, double tolerance,
              enum topo_format format, FILE *out);

/* R_k of paro-method(7), SYMBOLS: the slower direction of group k's port, all members. */
double topo_port_Bps(const struct topo *t, int k);
double topo_slowest_port_Bps(const struct topo *t);
double topo_usual_port_Bps(const struct topo *t); /* the median of all ports, both ways */
/*
 * A port of group k below this is slow: by 5 %, beyond what one measurement differs from the
 * next (3 %), it misses the usual one, or what the group's ranks can send if that is less (a
 * group of few ranks, each with a port of its own, is not slow).
 */
#define TOPO_SLOW_SHARE 0.95
double topo_slow_Bps(const struct topo *t, int k, double usual_Bps);

/* The unit of level l >= 1 in which group k lies: itself, a block, 0 for the outermost. */
int topo_unit(const struct topo *t, int l, int k);
int topo_pair_level(const struct topo *t, int a, int b); /* where they meet; 0: one group */
char *topo_ranks_text(const struct topo *t, int k); /* "0-7", "0,2,4"; owned by the caller */

#endif
