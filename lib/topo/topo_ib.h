/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOPO_TOPO_IB_H
#define TOPO_TOPO_IB_H

#include "topo/topo_machine.h"

/*
 * An InfiniBand subnet as ibnetdiscover prints it: switches and channel adapters with their
 * links.  Each link is listed at both of its ends.
 */
enum { IB_PORTS_MAX = 255, IB_ID_BYTES = 24 };

struct ib_node {
    char id[IB_ID_BYTES]; /* "S-0008f10500200134", "H-..." */
    const char *words;    /* its description, borrowed from the text */
    int line;
    int is_switch, is_ignored; /* ignored: routers, and aggregation nodes inside switches */
    int first, links;          /* index of its first link, number of its links */
    /* 1: a switch with adapters, 2: a switch next to one of tier 1, ...; 0: not a switch, or
       not reached from one with adapters */
    int tier;
};

struct ib_link {   /* one end of a link */
    int from, to;  /* nodes; `to` is -1 for an ignored one */
    int port, its; /* port numbers at `from` and at `to` */
    double Bps;    /* 0: the line states no rate */
    int line;
    char peer[IB_ID_BYTES];
    int peer_ignored;
};

struct ib {
    const char *file;
    struct ib_node *node; /* [nodes], owned, in the file's order */
    struct ib_link *link; /* [links], owned, grouped by node */
    size_t node_space, link_space;
    int nodes, links;
    struct err *err;
};

/* Parses the text, which is modified.  The caller sets ib.file and ib.err before.  Rejects
   links whose two ends disagree. */
int topo_ib_parse(struct ib *ib, char *text);
void topo_ib_release(struct ib *ib);

#endif
