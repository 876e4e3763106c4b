/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef METER_METER_H
#define METER_METER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Records when the collectives of a process arrived and completed, in a file mapped by the
 * process (paro-meter(5)): a ring of records, so that a reader finds the latest ones even after
 * the process has crashed.  A call costs two clock readings and a cache line; nothing is
 * allocated and nothing is sent.
 *
 *     DIR/HOST.PID.KIND    [ header, 4096 bytes | record 0 | record 1 | ... | record 8191 ]
 *
 * The n-th record of the process, n from 1, is in slot (n - 1) % METER_RECORDS.  A record
 * identifies its communicator itself: there is no table of these.
 */
enum { METER_RECORDS = 8192, METER_HEADER = 4096, METER_VERSION = 1, METER_HOST = 64 };
#define METER_MAGIC "PAROMETR"

/* The numbers are part of the file format. */
enum meter_op {
    METER_UNKNOWN,
    METER_ALL_GATHER,
    METER_REDUCE_SCATTER,
    METER_ALL_REDUCE,
    METER_BROADCAST,
    METER_BARRIER,
    METER_ALL_TO_ALL,
    METER_REDUCE,
    METER_GATHER,
    METER_SCATTER,
    METER_CONVERT, /* a phase of a collective: some ranks may not wait for each other */
    METER_OPS
};
extern const char *const meter_op_names[METER_OPS]; /* "all-gather", ... */
/* Returns 1 if no rank completes such an operation before all have arrived. */
int meter_op_synchronises(enum meter_op op);

struct meter_record {
    int64_t number;       /* n; 0: being written */
    uint64_t comm;        /* the communicator's identity, equal on its ranks */
    int64_t sequence;     /* number of the call on it, from 1, equal on its ranks */
    int64_t bytes;        /* size of the whole vector */
    int64_t arrived_ns;   /* CLOCK_MONOTONIC of the process */
    int64_t completed_ns; /* 0: not yet */
    int32_t rank, ranks;  /* rank and size in the communicator */
    int32_t op;
    uint32_t work_us; /* work of the process between its previous call and this one; 0:
                         unknown */
};

struct meter_header {
    char magic[8];
    int32_t version, header_bytes, record_bytes, records;
    int32_t rank, ranks; /* in the run */
    uint64_t run;        /* equal for all processes of a run */
    int64_t process;     /* number of the process on its host */
    int64_t inode;       /* inode of the file: a copy has another */
    int64_t opened_ns;   /* CLOCK_REALTIME */
    int64_t real_ns;     /* CLOCK_REALTIME - CLOCK_MONOTONIC, when opened */
    int64_t begun;       /* records so far */
    int64_t ended_ns;    /* CLOCK_REALTIME when the process closed it; 0: not closed */
    char host[METER_HOST];
};

/* ---- the writer ---- */

struct meter;
struct meter_run {
    uint64_t id;
    int rank, ranks;
};

/*
 * Creates DIR, if absent, and the file; kind: a word for the writer.  An existing file belongs
 * to an earlier process with this number, and is replaced.
 */
int meter_open(struct meter **out, const char *dir, const char *kind,
               const struct meter_run *run, struct err *err);
void meter_close(struct meter *m); /* m may be NULL; the file stays */
/* Updates a run that has more ranks than when the meter was opened. */
void meter_widen(struct meter *m, const struct meter_run *run);

/* A communicator of this process. */
struct meter_comm {
    uint64_t id;
    int rank, ranks;
    int64_t calls; /* so far */
};
/* Returns an id that no other run has: made by one rank, for all. */
uint64_t meter_new_run(void);
/* Returns an id computed from data that is equal on all ranks. */
uint64_t meter_id(const void *what, int64_t bytes, uint64_t more);
/*
 * The communicators so far, by the id of their ranks, and the id for another one: several with
 * equal ranks are distinguished by their order here.
 */
struct meter_seen {
    struct meter_same {
        uint64_t id;
        int64_t count;
    } * of; /* owned: mem_free */
    int ids;
    size_t space;
};
uint64_t meter_next_id(struct meter_seen *s, uint64_t id);

/*
 * A collective arrives.  Returns its number for meter_complete.  From any thread; calls on one
 * communicator must not overlap.  m may be NULL: returns 0.
 */
int64_t meter_arrive(struct meter *m, const struct meter_comm *c, int64_t sequence,
                     enum meter_op op, int64_t bytes);
/* Marks it completed; does nothing if the ring has overwritten it. */
void meter_complete(struct meter *m, int64_t number);
/* Sets times from another clock, converted to CLOCK_MONOTONIC; arrived 0: unchanged; completed
   0: not yet. */
void meter_times(struct meter *m, int64_t number, int64_t arrived_ns, int64_t completed_ns);
/* Sets the work between calls, which a writer may know if its calls overlap. */
void meter_work(struct meter *m, int64_t number, double work_s);
int64_t meter_now_ns(void); /* CLOCK_MONOTONIC */

/* ---- the reader (meter_read.c) ---- */

struct meter_file {
    struct meter_header header;
    int64_t changed_ns;          /* CLOCK_REALTIME of the file's last change */
    int is_copy;                 /* 1: the process writes another file */
    int count;                   /* complete records, the oldest first */
    struct meter_record *record; /* owned */
};
/*
 * Reads the latest records, at most `most`, while the process may be writing: omits those that
 * change meanwhile.  Returns 1: not a meter's file, or one being created.  ERR_INPUT: another
 * version, or damaged.
 */
int meter_read(const char *path, int most, struct meter_file *out, struct err *err);
void meter_file_release(struct meter_file *f);
/* Returns whether the bytes begin like such a file. */
int meter_is(const char *bytes, int64_t n);

#endif
