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
 * A fabric: the machines of a run as a hierarchy of levels, listed from the inside out.  Level
 * 0 joins the ranks of a group (usually a host; the fast tier).  Level 1 joins the groups (the
 * slow tier).  Each further level joins blocks of groups.  The UNITS of level l are the things
 * that it joins: ranks at level 0, groups at level 1, blocks above.  All rates are bytes per
 * second of payload, in each direction.
 */
struct topo_level {
    char name[32];    /* "intra", "inter", or the user's name */
    double latency_s; /* latency of one small message */
    /* Rate of one unit's port, shared by all ranks of the unit; at level 0, one rank's own
       rate */
    double port_Bps;
    double flow_Bps; /* rate of a single flow with no other traffic */
    /* Rate of each rank when all ranks that share the largest port send at the same time */
    double member_Bps;
    /* Time that a rank spends on each message, as sender or receiver, when all ranks send; 0:
       unknown */
    double message_s;
    /*
     * Half-width of the 95 % confidence interval of the figure of that name (of the fitted
     * line, or of the median of repeated rounds); 0: unknown.
     */
    double latency_err_s, port_err_Bps, flow_err_Bps, member_err_Bps;
    /*
     * Slowdown where ranks transfer and compute at the same time and so share cores or copy
     * engines.  Both are fractions of 1; 0: unknown.  rate_left: the fraction of member_Bps
     * that remains while all ranks compute; compute_left: the fraction of flops that remains
     * while all ranks send at this level.
     */
    double rate_left, compute_left;
    /* A ring that joins n > 2 ranks takes 1 + ring_loss (n - 2) times as long for its bytes. */
    double ring_loss;
    /* Seconds that computation loses to each exchange at this level that overlaps it and whose
       result it needs, whatever the exchange's size; 0: unknown, or no loss. */
    double use_lost_s;
    double latency_busy_s; /* latency of one message while all ranks compute; 0: unknown */
    /* The source of rates and latencies that were neither measured nor given by the user; else
       "". */
    char rate_source[TOPO_SOURCE_BYTES], latency_source[TOPO_SOURCE_BYTES];
};

struct topo_port {
    /* Rates of this group's port at level 1, each direction measured alone */
    double out_Bps, in_Bps;
};

struct topo_devices { /* the devices of a group's host; 0 and "": unknown or none */
    int numa_nodes, gpus, nics;
    char gpu_name[TOPO_NAME_BYTES]; /* "NVIDIA H200": the name of all GPUs, or of the first */
};

struct topo {
    int levels;
    struct topo_level *level; /* [levels], owned; levels >= 2 */
    /* The groups of level 0, owned; their ranks are numbered from 0 */
    struct groups groups;
    char **host;            /* [groups.count], owned; "" where unknown */
    struct topo_port *port; /* [groups.count], owned */
    /* [levels-2][groups.count], owned: the block of each group at levels 2, 3, ...; NULL: two
       levels */
    int *block;
    struct topo_devices *devices; /* [groups.count], owned */
    /* The device on which ranks compute; memory_bytes and flops are this device's */
    enum topo_device device;
    /* The transport with which the levels were measured; MPI if they were not measured */
    enum topo_transport transport;
    int64_t memory_bytes; /* memory of one rank; 0: unknown */
    double flops;         /* FLOP/s of one rank while all ranks compute; 0: unknown */
    /* [groups.ranks], owned: FLOP/s of each rank; its memory_Bps and other_flops are in the
       same ratio to the fabric's.  NULL: all have `flops` */
    double *rank_flops;
    /* Type of the matrix products that `flops` was measured with: f32 or bf16 */
    enum dtype compute_type;
    /* FLOP/s of products in the other of these two types; 0: unknown */
    double other_flops;
    /* Bytes read plus bytes written per second and rank, all ranks copying; 0: unknown */
    double memory_Bps;
    /* Groups that end above level 0 (topo_at_boundary) send internal and external traffic
       through the same ports.  A collective that does both at the same time takes 1 +
       inside_extra times as long inside. */
    double inside_extra;
    /* Figures that an imported file leaves open, for a message; "": none */
    char open[TOPO_SOURCE_BYTES];
    /* Why measured or imported figures may be wrong, for a message; "": no doubt */
    char doubt[TOPO_SOURCE_BYTES];
};

/* Bounds on the figures that a text may state: far above any machine, and low enough that no
   product of a rate, a time and a number of ranks (2^20) overflows a double or an int64_t. */
#define TOPO_RATE_MIN_BPS     1.0
#define TOPO_RATE_MAX_BPS     1e25
#define TOPO_LATENCY_MAX_S    3600.0
#define TOPO_MEMORY_MAX_BYTES (INT64_C(1) << 60)
#define TOPO_FLOPS_MAX        1e21
#define TOPO_LEFT_MIN         1e-6 /* the least rate_left and compute_left */
#define TOPO_DEVICES_MAX      65536

/* Allocates a fabric with a copy of the groups.  Rates are 0, hosts "", and all groups lie in
   block 0.  The caller releases it with topo_release. */
void topo_init(struct topo *t, int levels, const struct groups *groups);
/* Two levels over the groups, every rate 1 B/s: for callers that count bytes only. */
void topo_init_rateless(struct topo *t, const struct groups *groups);
void topo_release(struct topo *t);
void topo_name_levels(struct topo *t); /* sets "intra", "inter", "level2", ... */
void topo_set_host(struct topo *t, int k, const char *host); /* copies */
/*
 * Reads a fabric; `what` is the argument of -i: a file, "-" (stdin), "nvml:" (this machine's
 * GPUs), a type of machine as "16xaws-p5" (topo_instance_read), or "synth:SPEC" as
 * "synth:16x8,intra=200GB/s:3us,inter=25GB/s:12us,memory=80e9,flops=100e12". A file is YAML
 * (paro-topology(5)) or another tool's output, which topo_import (topo/topo_import.h) reads; it
 * is called without settings here, so a file that leaves figures open (t->open) is rejected.
 * On success the caller releases *t; on error *t is not set.
 */
int topo_read(struct topo *t, const char *what, struct err *err);
struct yaml;
struct tree;
struct tree_node;
struct record;
int topo_parse_yaml(struct topo *t, const struct yaml *y, struct err *err);
/*
 * Reads groups from a list of mappings whose keys are those of `fields` (record_keys). "ranks"
 * of each mapping is a list of ranks, or a list of such lists, one for each cell.  All lists
 * together must contain each rank from 0 on exactly once, ascending within a list.
 * groups->ring stays as it is.
 */
int topo_tree_groups(const struct tree *t, const struct tree_node *list,
                     const struct record *fields, const char *keys, struct groups *groups,
                     struct err *err);
struct jout;
/* Prints the ranks of group k under the key "ranks" */
void topo_put_ranks(struct jout *j, const struct groups *g, int k);
/*
 * Parses SHAPE[,LEVEL=RATE[/rank][:LATENCY]]...[,memory=BYTES][,flops=N][,flopsK=N], without
 * "synth:"; flopsK is of the ranks of group K.  SHAPE is outermost first: 16x8, 4x16x8,
 * [8,8,7], 4x[8,8,7].  LEVEL is intra, inter, level2, ... from the inside out.  Defaults:
 * intra=200GB/s:3us, inter=25GB/s:12us; each further level has the sum of the rates of its
 * groups' ports, and the latency of the level below.
 */
int topo_parse_synth(struct topo *t, const char *spec, struct err *err);
/* Parses SHAPE alone, as above; "8" is one group. */
int topo_parse_shape(struct topo *t, const char *shape, struct err *err);

enum topo_format {
    TOPO_YAML,
    TOPO_JSON,
    TOPO_TABLE,
    TOPO_SVG,
    TOPO_HOSTFILE, /* Open MPI's, "node0 slots=2"; ERR_ABSENT if a group has no host name */
    TOPO_RANKFILE, /* Open MPI's, "rank 0=node0 slot=0"; ERR_ABSENT as above */
    TOPO_NCCL,     /* describes one machine, not a fabric: use topo_export_nccl() */
    TOPO_FORMATS
};
enum dtype topo_other_type(const struct topo *t); /* bf16 if compute_type is f32, else f32 */
/* FLOP/s of rank r, as `flops`. */
double topo_rank_flops(const struct topo *t, int r);
void topo_set_rank_flops(struct topo *t, int r, double flops);
/* FLOP/s of a rank for products of this type; 0: unknown. */
double topo_flops_in(const struct topo *t, enum dtype type);
/* The fraction of a level's rates that a ring of this many ranks reaches (see ring_loss). */
double topo_ring_left(const struct topo_level *level, int ranks);
extern const char *const topo_cablings[]; /* "switch", "ring", by groups.ring; ends with NULL */
const char *topo_device_name(enum topo_device device); /* "cpu", "cuda" */
int topo_device_parse(const char *text, enum topo_device *out, struct err *err);
const char *topo_transport_name(enum topo_transport transport); /* "mpi", "nccl" */
int topo_print(const struct topo *t, enum topo_format format, FILE *out, struct err *err);

/*
 * Prints the differences from an older fabric, a line each (with TOPO_JSON one JSON document,
 * "paro.topo.diff/1"), and returns their number.  Rates, latencies and flops count as equal if
 * they differ by no more than `tolerance` (0.05: 5 % of the old value).
 */
int topo_diff(const struct topo *old, const struct topo *t, double tolerance,
              enum topo_format format, FILE *out);

/* R_k of paro-method(7), SYMBOLS: the rate of group k's port in its slower direction. */
double topo_port_Bps(const struct topo *t, int k);
double topo_slowest_port_Bps(const struct topo *t);
/* The median over all ports and both directions */
double topo_usual_port_Bps(const struct topo *t);
/*
 * The rate below which group k's port counts as slow: TOPO_SLOW_SHARE of the usual rate, or of
 * the rate at which the group's ranks can send if that is lower (so a group of few ranks, each
 * with its own port, is not slow).  The margin of 5 % exceeds the 3 % by which repeated
 * measurements differ.
 */
#define TOPO_SLOW_SHARE 0.95
double topo_slow_Bps(const struct topo *t, int k, double usual_Bps);

/* The unit of level l >= 1 that contains group k: at level 1 the group itself, above it the
   block's number; 0 for l >= levels. */
int topo_unit(const struct topo *t, int l, int k);
/* The lowest level that joins ranks a and b; 0: they share a group */
int topo_pair_level(const struct topo *t, int a, int b);
char *topo_ranks_text(const struct topo *t, int k); /* "0-7", "0,2,4"; owned by the caller */

#endif
