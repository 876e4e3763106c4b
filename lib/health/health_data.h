/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_DATA_H
#define HEALTH_HEALTH_DATA_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"

/*
 * Names that others have given, of hosts and of ports, as they stand in a line, its perfdata,
 * Prometheus' labels, JSON, a state and a picture alike: UTF-8 without blanks, controls, marks
 * of direction and what one of these, or a shell, takes for its own; bytes that are none of it
 * become %7C.  A name that is too long then keeps its ends, and differs from all others by what
 * follows its #.
 */
enum { HEALTH_NAME = 65 /* Linux' own limit for a host, and a 0 */ };

/* From a kernel's name: different names stay so, a%7C in it becomes a%257C. room >= 33, the 0
   with it. */
void health_name_make(const char *raw, char *to, size_t space);
/* From a name that may be made already (in a record, or copied by a person), which stays as it
   is. */
void health_name_clean(const char *raw, char *to, size_t space);

/*
 * All that one run has seen, and nothing that was concluded from it: a verdict is a function of
 * this, of the rules and of a baseline alone (health_verdict.h), so that a record of it, read
 * again, gives the same bytes.
 */
enum { HEALTH_OUT, HEALTH_IN }; /* of a port: what it sends, what it receives */
enum health_level { HEALTH_QUICK, HEALTH_NORMAL, HEALTH_DEEP, HEALTH_LEVELS };

/* Rounds come first; what is measured because of a suspicion is confirmation. */
enum health_stage { HEALTH_ROUNDS, HEALTH_CONFIRM };

/* The checks that a run may be asked for; what was asked for and not done is named. */
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
    int round;         /* from 0, on through the confirmation */
    enum health_stage stage;
    double Bps;
};

struct health_rank_sample { /* the part of one rank in it */
    int src, dst;           /* ranks */
    int round;
    double Bps;
};

struct health_latency { /* half of the way forth and back */
    int src, dst;       /* hosts; a pair has no direction */
    double s;
};

struct health_amount { /* of a stream between two hosts */
    int src, dst;
    double amount; /* words that arrived and are not what was sent; seconds without bytes */
};

struct health_collective { /* hosts first .. first + count - 1 at once */
    int first, count;
    double s, want_s; /* measured; what the pairs make one expect */
};

enum { HEALTH_LINK_NAME = 64 }; /* that of an InfiniBand device, and of its port */

struct health_link { /* a host's kernel's report of a port of its own */
    int host;
    char name[HEALTH_LINK_NAME];
    int up, carrier;         /* asked to be up; has a carrier */
    int lost;                /* had a carrier when the run began, or since the kernel started */
    double Bps, want_Bps;    /* its speed, and the one it should have; 0: not known */
    int64_t errors, packets; /* both ways, since since_s; -1: not known */
    int64_t flaps;           /* the carrier came and went, since since_s; -1: not known */
    double since_s;          /* how long the counters were watched; 0: since the link is */
};

struct health_host {
    char name[HEALTH_NAME]; /* clean */
    int ranks;              /* they count from the sum of the ranks of the hosts before it */
    int leaf, pod;          /* where it is plugged in, from 0; -1: not known */
    double drain_Bps; /* how fast its own queue towards the network empties while bytes wait in
                      it (headers included); 0: none ever wait; -1: unknown */
    int silent;       /* does not answer */
    char why[96];     /* why it could not measure, or "" */
};

/* A rank's messages came from and went to this, through its host's memory. */
struct health_gpu {
    int index;        /* of its host's */
    char name[64];    /* the model's */
    int64_t wrong[2]; /* words that it, or the copy, made others: HEALTH_OUT: on their way to
                         the host; HEALTH_IN: on their way from there */
};

#define HEALTH_LIST(type_, name_)                                                              \
    struct {                                                                                   \
        type_ *at;                                                                             \
        int count;                                                                             \
        size_t space;                                                                          \
    } name_
/* One item more at the end of a list, to be assigned to. */
#define HEALTH_ADD(list_)                                                                      \
    (*((list_)->at = mem_grow((list_)->at, &(list_)->space, (size_t)(list_)->count + 1,        \
                              sizeof *(list_)->at),                                            \
       &(list_)->at[(list_)->count++]))

struct health_data {
    int hosts, ranks;
    struct health_host *host; /* [hosts], owned */
    size_t host_space;
    int own; /* the host that asks the others (rank 0's) */
    HEALTH_LIST(struct health_sample, samples);
    HEALTH_LIST(struct health_rank_sample, rank_samples);
    HEALTH_LIST(struct health_latency, latencies);
    HEALTH_LIST(struct health_amount, wrongs); /* words */
    HEALTH_LIST(struct health_amount, stalls); /* seconds */
    HEALTH_LIST(struct health_collective, collectives);
    HEALTH_LIST(struct health_link, links);
    HEALTH_LIST(struct health_gpu, gpus); /* [ranks], or none: rounds are of hosts' memory */
    enum health_level level;
    int64_t when_s;       /* the run's beginning, since 1970 */
    double seconds;       /* how long it took */
    double deadline_s;    /* how long it was allowed to */
    uint64_t seed;        /* of the rounds */
    int rounds, wanted;   /* of the rounds: done, and to do */
    unsigned asked, done; /* bits of enum health_part */
    int capped;           /* it ended for the bytes that a port may carry, not for the time */
};

/* Hosts without places, one rank each, that answer; called `name`, made clean, or where it is
 * NULL node0, node1, ... */
void health_data_init(struct health_data *d, int hosts, const char *const *name);
void health_data_release(struct health_data *d);
/* Words of one pair are added up; pairs beyond HEALTH_PAIRS_MOST count with the last one. */
void health_data_add_wrong(struct health_data *d, int src, int dst, int64_t words);
int64_t health_wrong_words(const struct health_data *d); /* of all pairs */
void health_data_add_stall(struct health_data *d, int src, int dst,
                           double waited_s); /* as many */
/* The parts among these bits of enum health_part that were asked for and not done. */
unsigned health_missing(const struct health_data *d, unsigned parts);
/* "" for a number that is no host's, such as -1. */
const char *health_host_name(const struct health_data *d, int host);
int health_host_of_rank(const struct health_data *d, int rank);

/*
 * The class of the path between two hosts, among which alone rates are compared: 0 where a
 * place is not known, 1 one leaf, 2 one pod, 3 beyond.
 */
enum { HEALTH_PATHS = 4 };
int health_path(const struct health_data *d, int src, int dst);

/* As much as is kept: what a file may claim is bounded by it. */
enum { HEALTH_PAIRS_MOST = 1 << 12, HEALTH_HOSTS_MOST = 1 << 14 };

#endif
