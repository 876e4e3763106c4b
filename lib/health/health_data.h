/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_DATA_H
#define HEALTH_HEALTH_DATA_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"

/*
 * Names from outside, of hosts and ports, in a form that is safe in a line, its perfdata,
 * Prometheus' labels, JSON, a state and a picture: UTF-8 without blanks, control characters,
 * direction marks, and characters special to any of these or a shell; other bytes become %7C. A
 * name that is too long keeps its beginning and end, with a hash after # that makes it unique.
 */
enum { HEALTH_NAME = 65 /* Linux' own limit for a host name, with the 0 */ };

/* Converts a kernel's name; different names stay different, a%7C in it becomes a%257C. space >=
   33, including the 0. */
void health_name_make(const char *raw, char *to, size_t space);
/* Converts a name that may be converted already (in a record, or copied by a person): such a
   name stays unchanged. */
void health_name_clean(const char *raw, char *to, size_t space);

/*
 * All observations of one run, without conclusions: a verdict depends only on them, the rules
 * and a baseline (health_verdict.h), so that judging a record again gives the same bytes.
 */
enum { HEALTH_OUT, HEALTH_IN }; /* directions of a port: sent, received */
enum health_level { HEALTH_QUICK, HEALTH_NORMAL, HEALTH_DEEP, HEALTH_LEVELS };

/* Rounds come first; measurements prompted by a suspicion are the confirmation. */
enum health_stage { HEALTH_ROUNDS, HEALTH_CONFIRM };

/* The parts of a run; requested parts that were not done are named. */
enum health_part {
    HEALTH_PART_LINKS,
    HEALTH_PART_ROUNDS,
    HEALTH_PART_LATENCY,
    HEALTH_PART_CONFIRM,
    HEALTH_PART_COLLECTIVE,
    HEALTH_PART_BISECT,
    HEALTH_PARTS
};
extern const char *const health_way[2];                    /* "out", "in" */
extern const char *const health_levels[HEALTH_LEVELS + 1]; /* "quick", ... */
extern const char *const health_parts[HEALTH_PARTS];       /* "links", "rounds", ... */

struct health_sample { /* one stream of a round, all ranks of both hosts together */
    int src, dst;      /* hosts */
    int round;         /* from 0; continues through the confirmation */
    enum health_stage stage;
    double Bps;
};

struct health_rank_sample { /* one rank's part of a stream */
    int src, dst;           /* ranks */
    int round;
    double Bps;
};

struct health_latency { /* half of a round trip */
    int src, dst;       /* hosts; a pair has no direction */
    double s;
};

struct health_amount { /* a quantity of a stream between two hosts */
    int src, dst;
    double amount; /* wrong words received; or seconds without bytes */
};

struct health_collective { /* hosts first .. first + count - 1 at once */
    int first, count;
    double s, want_s; /* measured; expected from the rates of pairs */
};

enum { HEALTH_LINK_NAME = 64 }; /* an InfiniBand device's name, with its port */

struct health_link { /* the kernel's report on a port of its host */
    int host;
    char name[HEALTH_LINK_NAME];
    int up, carrier;         /* administratively up; has a carrier */
    int lost;                /* 1: had a carrier when the run began, or since the kernel
                                started */
    double Bps, want_Bps;    /* speed, and expected speed; 0: unknown */
    int64_t errors, packets; /* both ways, since since_s; -1: unknown */
    int64_t flaps;           /* carrier losses since since_s; -1: unknown */
    double since_s;          /* seconds that the counters were watched; 0: since the link
                                exists */
};

struct health_host {
    char name[HEALTH_NAME]; /* converted by health_name_make */
    int ranks;              /* its ranks are numbered after those of the hosts before it */
    int leaf, pod;          /* position in the network, from 0; -1: unknown */
    double drain_Bps; /* rate at which its own send queue drains while bytes wait in it, headers
                         included; 0: none ever wait; -1: unknown */
    int silent;       /* 1: does not answer */
    char why[96];     /* why it could not measure, or "" */
};

/* The GPU that a rank's messages came from and went to, through host memory. */
struct health_gpu {
    int index;        /* index on its host */
    char name[64];    /* model name */
    int64_t wrong[2]; /* words corrupted by the GPU or the copy: HEALTH_OUT: on their way to the
                         host; HEALTH_IN: from there */
};

#define HEALTH_LIST(type_, name_)                                                              \
    struct {                                                                                   \
        type_ *at;                                                                             \
        int count;                                                                             \
        size_t space;                                                                          \
    } name_
/* Appends an item to a list; the result is to be assigned to. */
#define HEALTH_ADD(list_)                                                                      \
    (*((list_)->at = mem_grow((list_)->at, &(list_)->space, (size_t)(list_)->count + 1,        \
                              sizeof *(list_)->at),                                            \
       &(list_)->at[(list_)->count++]))

struct health_data {
    int hosts, ranks;
    struct health_host *host; /* [hosts], owned */
    size_t host_space;
    int own; /* the host of rank 0 */
    HEALTH_LIST(struct health_sample, samples);
    HEALTH_LIST(struct health_rank_sample, rank_samples);
    HEALTH_LIST(struct health_latency, latencies);
    HEALTH_LIST(struct health_amount, wrongs); /* wrong words */
    HEALTH_LIST(struct health_amount, stalls); /* seconds without bytes */
    HEALTH_LIST(struct health_collective, collectives);
    HEALTH_LIST(struct health_link, links);
    HEALTH_LIST(struct health_gpu, gpus); /* [ranks]; empty: rounds use host memory */
    enum health_level level;
    int64_t when_s;           /* start of the run, since 1970 */
    double seconds;           /* duration */
    double deadline_s;        /* allowed duration */
    uint64_t seed;            /* seed of the rounds */
    int rounds, wanted;       /* rounds done and planned */
    unsigned requested, done; /* bits of enum health_part */
    int capped;               /* 1: ended by the cap on a port's bytes, not by time */
};

/* Initializes hosts with unknown positions, one rank each, that answer; named `name`,
   converted, or, if it is NULL, node0, node1, ... */
void health_data_init(struct health_data *d, int hosts, const char *const *name);
void health_data_release(struct health_data *d);
/* Adds wrong words to those of their pair; pairs beyond HEALTH_PAIRS_MOST count for the last
   one. */
void health_data_add_wrong(struct health_data *d, int src, int dst, int64_t words);
int64_t health_wrong_words(const struct health_data *d); /* over all pairs */
void health_data_add_stall(struct health_data *d, int src, int dst,
                           double waited_s); /* limited alike */
/* Returns which of these bits of enum health_part were requested and not done. */
unsigned health_missing(const struct health_data *d, unsigned parts);
/* Returns "" for a number that is no host's, such as -1. */
const char *health_host_name(const struct health_data *d, int host);
int health_host_of_rank(const struct health_data *d, int rank);

/*
 * Returns the class of the path between two hosts; only rates of one class are compared: 0 if a
 * position is unknown, 1 same leaf, 2 same pod, 3 further.
 */
enum { HEALTH_PATHS = 4 };
int health_path(const struct health_data *d, int src, int dst);

/* Limits of stored data; files that claim more are rejected. */
enum { HEALTH_PAIRS_MOST = 1 << 12, HEALTH_HOSTS_MOST = 1 << 14 };

#endif
