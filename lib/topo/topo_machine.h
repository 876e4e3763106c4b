/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_TOPO_MACHINE_H
#define TOPO_TOPO_MACHINE_H

#include "value/value_xml.h"
#include "topo/topo_import.h"

/*
 * Shared by the readers of other tools' files.  Figures that these files do not state are
 * NCCL's own constants, with which NCCL plans its rings on the same machine.
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

/* Most GPUs, or NUMA nodes, of one machine: above any real one */
enum { TOPO_MACHINE_RANKS = 1024 };

/*
 * A tree of PCIe links.  Each node has the rate of the link above it, 0: unknown.  Parent -1
 * makes a root: a processor's side, which has no link above.
 *
 *     processor 0 ---between--- processor 1
 *      switch  switch            switch        <- links that several ranks may share
 *      0    1  2    3            4    5        <- ranks
 */
struct topo_pcie {
    struct topo_pcie_link {
        int parent, ranks;   /* ranks below */
        double Bps, own_Bps; /* own: lowest rate of the ranks' own links */
    } * link;                /* [count], owned */
    size_t space;
    int *of; /* [XML_NODES_MAX], by an element's index: its link + 1; 0: none yet; owned */
    int count, ranks, unknown; /* unknown: ranks whose own link has no rate */
    double least_Bps;          /* lowest rate of the ranks' own links */
    double between_Bps;        /* rate between two processors; 0: unknown */
};
int topo_pcie_add(struct topo_pcie *p, int parent, double Bps);
void topo_pcie_rank(struct topo_pcie *p, int link); /* puts a rank at the end of the link */
void topo_pcie_release(struct topo_pcie *p);
/*
 * The rate at which each of `rails` ranks of a group sends to the next group when all groups
 * send around a ring in the order of the tree.  Each link is then crossed once for each rail
 * that begins below it.  0 if the rate of a rank's own link is unknown.
 */
double topo_pcie_ring_Bps(const struct topo_pcie *p, int rails);

struct topo_machine {
    const char *file; /* borrowed */
    char host[256];   /* "": the file names none */
    int ranks;
    int own_ranks;           /* the file counts the ranks, so the user cannot */
    enum topo_device device; /* the device of a rank, whose memory the levels join */
    /* Local links (NVLink or similar) of the ranks, as rates or counts; owned. */
    double *direct;    /* [ranks][ranks] */
    double *to_switch; /* [ranks]: to one switch that joins all ranks with a nonzero value */
    struct topo_pcie pcie;
    int *domain; /* [ranks], owned: ranks joined by local links share a domain 0, 1, ... */
    int domains;
    /* Levels inside a domain, across a machine's domains, and between machines.  port_Bps 0 and
       latency_s < 0: not stated. */
    struct topo_level inside, across, net;
    int linked; /* inside is made of local links, not of PCIe */
    /* The file cannot show whether there are local links */
    int linked_unknown;
    int unknown_line; /* line of the file that lacks a rank's PCIe rate; 0: none */
    int counts_links; /* the file counts links, so the user can give the rate of one */
    /* A rank's local links in total, and to a single peer: counts, or B/s */
    double links, links_flow;
    /* Rate of a link below which every rank has a faster own link; 0: none */
    double slow_Bps;
    int nics;                    /* network devices; 0: not counted */
    int far_nics;                /* network devices close to no GPU's processor */
    char far_nic[32];            /* the name of the first of them */
    int c2c;                     /* NVLink-C2C links from a GPU to its processor */
    struct topo_devices devices; /* copied to all groups; 0: the file describes no machine */
    int64_t memory_bytes;
    double flops;
};
/* Sets only the latencies of NVLink, PCIe and network. */
void topo_machine_init(struct topo_machine *m, const char *file);
void topo_machine_release(struct topo_machine *m);
/* Counts a far network device; the name may contain any bytes. */
void topo_machine_far(struct topo_machine *m, const char *name);
/*
 * Sets one rank per GPU, one domain, no links.  Afterwards a reader fills direct and to_switch
 * and calls, in this order: topo_machine_linked; topo_machine_links, if the rate of one link is
 * known; topo_machine_hang for each rank; topo_machine_pcie.
 */
void topo_machine_gpus(struct topo_machine *m, int gpus, enum topo_device device);
/*
 * Derives domains, links, links_flow and the latency of `inside` from direct and to_switch.
 * Without any link all ranks form one domain.
 */
void topo_machine_linked(struct topo_machine *m);
/* Sets the rates of `inside` from the rate of each of m->links. */
void topo_machine_links(struct topo_machine *m, double each_Bps);
/*
 * Puts a rank at element n of a document, below other elements.  `link` sets *above (NULL: n is
 * a root) and the rate between n and *above (0: unknown).
 */
typedef int (*topo_machine_link)(void *reader, const struct xml_node *n,
                                 const struct xml_node **above, double *Bps);
int topo_machine_hang(struct topo_machine *m, const struct xml_node *n, topo_machine_link link,
                      void *reader);
/* Sets the PCIe rates: those of `inside`, or with several domains those of `across`. */
void topo_machine_pcie(struct topo_machine *m, const char *source);
/* Builds the fabric; applies figures given for one link to m. */
int topo_machine_build(struct topo *t, struct topo_machine *m,
                       const struct topo_settings *settings, struct err *err);

/* Copies all figures of level `from` to level `to`; `why` becomes their source. */
void topo_copy_level(struct topo *t, int to, int from, const char *why);

/* The words for an error about a missing figure of a level. */
struct topo_words {
    const char *joined; /* the link: "NVLink" */
    const char *more;   /* another way to give the rate, or "" */
    int line;           /* line of the file that lacks the figure, or 0 */
};
/* Checks that all rates and latencies are set; the error names the missing ones and the words
   that give them. */
int topo_check_stated(const struct topo *t, const char *file, const struct topo_words *words,
                      struct err *err);

/* Readers, one for each file format.  All but ibnetdiscover's describe one machine. */
int topo_nccl_read(struct topo_machine *m, const struct xml *x, struct err *err);
int topo_hwloc_read(struct topo_machine *m, const struct xml *x, int ranks, struct err *err);
int topo_machine_read(struct topo_machine *m, const struct xml *x, int ranks,
                      struct err *err); /* calls one of the two above, by the root element */
int topo_smi_read(struct topo_machine *m, char *text, struct err *err);
int topo_ib_read(struct topo *t, const char *file, char *text,
                 const struct topo_settings *settings, struct err *err);

/* "nvml:" and an optional root folder: this machine, read through NVML and the kernel's files
   below that root. */
int topo_is_local(const char *what);
int topo_local_read(struct topo *t, const char *what, const struct topo_settings *settings,
                    struct err *err);

/* Cuts off the next line of a text; NULL at the end.  Advances *at; *line counts from 1. */
char *topo_next_line(char **at, int *line);

/* Names of machines: "node[0-3],login" as a list, owned by the caller. */
int topo_hosts_parse(const char *text, char ***host, int *count, struct err *err);
void topo_hosts_free(char **host, int count);

#endif
