/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_TOPO_MACHINE_H
#define TOPO_TOPO_MACHINE_H

#include "value/value_xml.h"
#include "topo/topo_import.h"

/*
 * Shared by the readers of other tools' files.  NCCL's own constants stand for what these files
 * do not state: they are what NCCL plans its rings with on the same machine.
 */

/*
 * NCCL, src/graph/tuning.cc, hwLat: microseconds that one hop of a ring takes (protocol
 * Simple), as in 2.18 to 2.27.
 */
#define TOPO_NVLINK_S 3.4e-6
#define TOPO_PCIE_S   5.7e-6
#define TOPO_NET_S    14.0e-6
/* The latency and where it comes from; `hop` is "NVLink", "PCIe", "network". */
void topo_model_latency(struct topo_level *level, double seconds, const char *hop);

enum { TOPO_MACHINE_RANKS = 1024 }; /* GPUs, or NUMA nodes, of one machine: beyond any */

/*
 * A tree of PCIe links.  Each has the rate of the link above it, 0 where unknown; -1 as parent
 * makes a root, the side of a processor, which has no link above.
 *
 *     processor 0 ---between--- processor 1
 *      switch  switch            switch        <- links that several ranks may share
 *      0    1  2    3            4    5        <- ranks
 */
struct topo_pcie {
    struct topo_pcie_link {
        int parent, ranks;   /* ranks below */
        double Bps, own_Bps; /* own: the least of the ranks' own links */
    } * link;                /* [count], owned */
    size_t space;
    int *of; /* [XML_NODES_MAX], by an element's index: its link, from 1; 0: none yet; owned */
    int count, ranks, unknown; /* unknown: ranks whose own link has no rate */
    double least_Bps;          /* of the ranks' own links */
    double between_Bps;        /* from one processor to another; 0 unknown */
};
int topo_pcie_add(struct topo_pcie *p, int parent, double Bps);
void topo_pcie_rank(struct topo_pcie *p, int link); /* a rank sits at its end */
void topo_pcie_release(struct topo_pcie *p);
/*
 * The rate at which each of `rails` ranks of a group sends to the next group, when all groups
 * do so around a ring in the order of the tree: a link is then crossed once for each rail that
 * begins below it.  0 where a rank's own link is unknown.
 */
double topo_pcie_ring_Bps(const struct topo_pcie *p, int rails);

struct topo_machine {
    const char *file; /* borrowed */
    char host[256];   /* "" where the file does not say */
    int ranks;
    int own_ranks;           /* the file counts them: none may be asked for */
    enum topo_device device; /* that a rank is: whose memory the levels join */
    /* Near links (NVLink or alike) of the ranks, rates or numbers; owned. */
    double *direct;    /* [ranks][ranks] */
    double *to_switch; /* [ranks]: into one switch that joins all who have it */
    struct topo_pcie pcie;
    int *domain; /* [ranks], owned: which are joined by near links, 0, 1, ... */
    int domains;
    struct topo_level inside, across, net; /* of a domain, of a machine, of machines; a port_Bps
                                              of 0 and a latency below 0 are not stated */
    int linked;                            /* inside is of near links, not of PCIe */
    int linked_unknown;                    /* the file cannot tell whether there are any */
    int unknown_line;         /* of the file, where it leaves out a rank's PCIe rate; 0 */
    int counts_links;         /* the file tells how many, so that a rate of each can be given */
    double links, links_flow; /* near links of a rank, and to one other: how many, or B/s */
    double slow_Bps;          /* of a link that every rank below it exceeds by its own; 0 */
    int nics;                 /* network devices, 0 where not counted */
    int far_nics;             /* of which so many are near no processor of a GPU, */
    char far_nic[32];         /* the first of that name */
    int c2c;                  /* NVLink-C2C from a GPU to its processor: how many links */
    struct topo_devices devices; /* as all groups get them; 0 where the file is no machine's */
    int64_t memory_bytes;
    double flops;
};
/* Nothing stated but the latencies of NVLink, PCIe and network. */
void topo_machine_init(struct topo_machine *m, const char *file);
void topo_machine_release(struct topo_machine *m);
/* One of the network devices is far; a name of any bytes. */
void topo_machine_far(struct topo_machine *m, const char *name);
/*
 * A rank for each GPU, one domain, no links.  A reader then fills direct and to_switch and
 * calls near; links, where the rate of one link is known; hang for each rank in turn; pcie.
 */
void topo_machine_gpus(struct topo_machine *m, int gpus, enum topo_device device);
/*
 * Domains, near, links, links_flow and the latency of inside; without any link all ranks are
 * one domain.
 */
void topo_machine_linked(struct topo_machine *m);
/* Rates of `inside`: so much for each of m->links. */
void topo_machine_links(struct topo_machine *m, double each_Bps);
/*
 * A rank sits at an element of a document, which hangs below others: `link` tells *above (NULL:
 * a root) and the rate between them (0: unknown).
 */
typedef int (*topo_machine_link)(void *reader, const struct xml_node *n,
                                 const struct xml_node **above, double *Bps);
int topo_machine_hang(struct topo_machine *m, const struct xml_node *n, topo_machine_link link,
                      void *reader);
/* Rates of what joins the ranks by PCIe: of inside, or with several domains of across. */
void topo_machine_pcie(struct topo_machine *m, const char *source);
/* Builds the fabric; figures given for one link are set in m. */
int topo_machine_build(struct topo *t, struct topo_machine *m,
                       const struct topo_settings *settings, struct err *err);

/* All figures of level `to` become those of `from`; `why` is their source. */
void topo_copy_level(struct topo *t, int to, int from, const char *why);

/* How an error about a level that lacks a figure speaks of it. */
struct topo_words {
    const char *joined; /* "NVLink" */
    const char *more;   /* another way to give the rate, or "" */
    int line;           /* where the file leaves it out, or 0 */
};
/* Rates and latencies that are missing: an error names all, and the words that give them. */
int topo_check_stated(const struct topo *t, const char *file, const struct topo_words *words,
                      struct err *err);

/* Each reads one kind of file; a machine is built, ibnetdiscover's is a fabric at once. */
int topo_nccl_read(struct topo_machine *m, const struct xml *x, struct err *err);
int topo_hwloc_read(struct topo_machine *m, const struct xml *x, int ranks, struct err *err);
int topo_machine_read(struct topo_machine *m, const struct xml *x, int ranks,
                      struct err *err); /* by the outermost element, one of the two */
int topo_smi_read(struct topo_machine *m, char *text, struct err *err);
int topo_ib_read(struct topo *t, const char *file, char *text,
                 const struct topo_settings *settings, struct err *err);

/* "nvml:" and what is behind it: this machine, by NVML and the kernel's files below a root. */
int topo_is_local(const char *what);
int topo_local_read(struct topo *t, const char *what, const struct topo_settings *settings,
                    struct err *err);

/* The next line of a text, cut; NULL behind the last.  *at moves on, *line counts from 1. */
char *topo_next_line(char **at, int *line);

/* Names of machines: "node[0-3],login" as a list, owned by the caller. */
int topo_hosts_parse(const char *text, char ***host, int *count, struct err *err);
void topo_hosts_free(char **host, int count);

#endif
