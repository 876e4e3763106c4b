/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PARO_PARO_INSIDE_H
#define PARO_PARO_INSIDE_H

/* Internal to paro/: a program's objects. */
#include "coll/coll_vector.h"
#include "meter/meter.h"
#include "paro/paro.h"
#include "paro/paro_combine.h"
#include "paro/paro_fabric.h"

struct paro_comm {
    struct world *world; /* owned */
    struct paro_fabric fabric;
    char groups[64];
    struct paro_coll *first;  /* list of prepared operations that are not freed */
    double looked_s;          /* time of the last progress call */
    struct err lost;          /* ERR_PEER: the error when a peer did not respond */
    struct paro_meter *meter; /* shared; NULL: no records */
    uint64_t metered;         /* identifies these ranks in it */
    int64_t prepared;         /* operations, freed ones included */
};

struct paro_coll {
    struct paro_comm *comm; /* NULL: closed before */
    struct paro_coll *next;
    struct coll_vector vector;
    struct paro_combine combine; /* vector refers to it for MPI's types */
    struct meter_comm metered;   /* its runs, and */
    int64_t arrived;             /* the number of the current one, in the meter */
    enum paro_op op;
    enum schedule_algo algo;
    int64_t chunk_bytes;
    double slow_s, fast_s; /* paro_describe */
    char groups[64];
    int running;
    void *out;       /* the current run's destination in the program, */
    struct err fail; /* and its error; code ERR_NONE: none */
};

/* Returns rc and copies the error to the program; records in c (or NULL) that a peer is
   lost. */
int paro_report(struct paro_comm *c, int rc, const struct err *err, struct paro_error *out);
/* -1: puts the error by which a peer was lost into *err. */
int paro_lost(const struct paro_comm *c, struct err *err);

/* paro_meter.c.  COLLECTIVE: the runs of c are recorded in the file of `of`, else in one of the
   folder, unless both are NULL, here or on rank 0. */
int paro_meter_join(struct paro_comm *c, const char *dir, const struct paro_comm *of,
                    struct err *err);
void paro_meter_leave(struct paro_comm *c);
void paro_meter_prepare(struct paro_coll *p);
/* A run begins, and ends. */
void paro_meter_arrive(struct paro_coll *p);
void paro_meter_complete(struct paro_coll *p);

#endif
