/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef METER_METER_H
#define METER_METER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Records when the collectives of a process arrived and completed, in a file that the process
 * has mapped (paro-meter(5)): a ring of records, so that a reader finds the latest ones
 * whatever became of the process.  A call costs two clocks and a line of the cache; nothing is
 * allocated and nothing is sent.
 *
 *     DIR/HOST.PID.KIND    [ header, 4096 bytes | record 0 | record 1 | ... | record 8191 ]
 *
 * The n-th record of the process, n from 1, is in place (n - 1) % METER_RECORDS.  A record says
 * itself which communicator it is of: there is no table of these.
 */
enum { METER_RECORDS = 8192, METER_HEADER = 4096, METER_VERSION = 1, METER_HOST = 64 };
#define METER_MAGIC "PAROMETR"

/* The numbers are those of the file. */
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
    METER_CONVERT, /* a part of a collective: some ranks may not wait for each other */
    METER_OPS
};
extern const char *const meter_op_names[METER_OPS]; /* "all-gather", ... */
/* No rank completes such a one before all have arrived. */
int meter_op_synchronises(enum meter_op op);

struct meter_record {
    int64_t number;       /* n; 0: being written */
    uint64_t comm;        /* the communicator's identity, the same on its ranks */
    int64_t sequence;     /* of its calls, from 1, the same on its ranks */
    int64_t bytes;        /* of the whole vector */
    int64_t arrived_ns;   /* the process' own clock, CLOCK_MONOTONIC */
    int64_t completed_ns; /* 0: not yet */
    int32_t rank, ranks;  /* in the communicator, and its size */
    int32_t op;
    uint32_t work_us; /* of the process, from its call before to this one; 0: not known */
};

struct meter_header {
    char magic[8];
    int32_t version, header_bytes, record_bytes, records;
    int32_t rank, ranks; /* of the run */
    uint64_t run;        /* the same for all processes of a run */
    int64_t process;     /* its number on its host */
    int64_t inode;       /* of the file: that of a copy is another */
    int64_t opened_ns;   /* CLOCK_REALTIME */
    int64_t real_ns;     /* CLOCK_REALTIME - CLOCK_MONOTONIC, when it was opened */
    int64_t begun;       /* records so far */
    int64_t ended_ns;    /* CLOCK_REALTIME when the process closed it; 0: it has not */
    char host[METER_HOST];
};

/* ---- the writer ---- */

struct meter;
struct meter_run {
    uint64_t id;
    int rank, ranks;
};

/*
 * Creates DIR, where it is absent, and the file; kind: of the writer, a word.  One that is
 * there is of an earlier process of that number, and replaced.
 */
int meter_open(struct meter **out, const char *dir, const char *kind,
               const struct meter_run *run, struct err *err);
void meter_close(struct meter *m); /* NULL is fine; the file stays */
/* For a run that turns out to have more ranks than when the meter was opened. */
void meter_widen(struct meter *m, const struct meter_run *run);

/* A communicator of this process. */
struct meter_comm {
    uint64_t id;
    int rank, ranks;
    int64_t calls; /* so far */
};
/* An id that no other run has: of one rank, for all. */
uint64_t meter_new_run(void);
/* An id from what is the same on all ranks. */
uint64_t meter_id(const void *what, int64_t bytes, uint64_t more);
/*
 * Communicators so far, by the id of their ranks.  The id of another one: several of the same
 * ranks are distinguished by the order in which they come here.
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
 * A collective arrives: its number, for meter_complete.  Any thread; calls on one communicator
 * follow each other.  m may be NULL: 0.
 */
int64_t meter_arrive(struct meter *m, const struct meter_comm *c, int64_t sequence,
                     enum meter_op op, int64_t bytes);
/* Has completed; nothing where the ring has gone round since. */
void meter_complete(struct meter *m, int64_t number);
/* The same with times of another clock's making, CLOCK_MONOTONIC; arrived 0: as it is;
 * completed 0: not yet. */
void meter_times(struct meter *m, int64_t number, int64_t arrived_ns, int64_t completed_ns);
/* Where calls overlap, who writes may know for how long the process worked between them. */
void meter_work(struct meter *m, int64_t number, double work_s);
int64_t meter_now_ns(void); /* CLOCK_MONOTONIC */

/* ---- the reader (meter_read.c) ---- */

struct meter_file {
    struct meter_header header;
    int64_t changed_ns;          /* CLOCK_REALTIME of the file's last change */
    int is_copy;                 /* the process writes another file */
    int count;                   /* of whole records, the oldest first */
    struct meter_record *record; /* owned */
};
/*
 * The latest records, `most` at most, while the process may be writing: one that changes
 * meanwhile is left out.  1: no file of a meter, or one that is being made.  ERR_INPUT: another
 * version, damaged.
 */
int meter_read(const char *path, int most, struct meter_file *out, struct err *err);
void meter_file_release(struct meter_file *f);
/* Whether the bytes begin as such a file does. */
int meter_is(const char *bytes, int64_t n);

#endif
