/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_TOPO_IB_H
#define TOPO_TOPO_IB_H

#include "topo/topo_machine.h"

/*
 * An InfiniBand subnet as ibnetdiscover prints it: switches and channel adapters with their
 * links, each link told at both of its ends.
 */
enum { IB_PORTS_MAX = 255, IB_ID_BYTES = 24 };

struct ib_node {
    char id[IB_ID_BYTES]; /* "S-0008f10500200134", "H-..." */
    const char *words;    /* its description, borrowed from the text */
    int line;
    int is_switch, is_ignored; /* ignored: routers, and the switches' own aggregation nodes */
    int first, links;          /* its links */
    int tier; /* of a switch: 1 where adapters are plugged in, 2 next to those; 0 elsewhere */
};

struct ib_link {   /* one end of it */
    int from, to;  /* nodes; `to` -1: to an ignored one */
    int port, its; /* here and there */
    double Bps;    /* 0 where the line does not say */
    int line;
    char peer[IB_ID_BYTES];
    int peer_ignored;
};

struct ib {
    const char *file;
    struct ib_node *node; /* [nodes], owned, as they stand in the file */
    struct ib_link *link; /* [links], owned, node after node */
    size_t node_space, link_space;
    int nodes, links;
    struct err *err;
};

/* ib.file and ib.err are set; cuts the text.  Both ends of every link agree. */
int topo_ib_parse(struct ib *ib, char *text);
void topo_ib_release(struct ib *ib);

#endif
