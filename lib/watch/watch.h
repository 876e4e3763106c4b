/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "health/health_verdict.h"
#include "meter/meter.h"

/*
 * Finds the rank that slows down a running program.  Records of its collectives, from any
 * supported tool, are put into one model: for each communicator a table with a row for each
 * call and a cell for each member.
 *
 *     all-reduce 1840   [a c] [a c] [a c] [a c]       a arrived, c completed
 *     all-reduce 1841   [a  ] [a  ] [a  ] [   ]       three wait, one is missing
 *
 * Readers (watch_read.c, watch_json.c) call watch_process, watch_comm and watch_add, then
 * watch_index builds the tables, and watch_judge derives findings from them.
 */
/* 48 bytes each; the oldest calls are dropped if there are more */
#define WATCH_CELLS_MAX   (8 << 20)
#define WATCH_MEMBERS_MAX (16 << 20) /* of all communicators together */
enum { WATCH_RANKS_MAX = 1 << 16, WATCH_COMMS_MAX = 1 << 16, WATCH_BLOCKS = 20 };

/* Whether a rank makes no more calls; FOLLOWS: possibly because of another rank's loss. */
enum watch_loss { WATCH_ALIVE, WATCH_FOLLOWS, WATCH_LOST };

struct watch_process {
    uint64_t key;
    int rank, widest; /* rank in the run; size of the communicator that it was taken from */
    int host;         /* index into watch.host */
    enum watch_loss loss;
    const char *ended_by; /* static: why it makes no more calls; NULL: it does */
    /* Its calls, in the order of arrival; set by watch_index. */
    int64_t first_call, calls;
};

/* A rank whose host is unknown gets a host of its own: '?' and the rank. */
#define WATCH_NO_HOST '?'

struct watch_host {
    char name[METER_HOST];
    /* Offset of its clock from the first host's; error < 0: unknown */
    double offset_s, error_s;
};

struct watch_cell {
    int64_t arrived_ns, completed_ns; /* on the host's clock, since 1970; 0: missing */
    /* Time from the previous completion, on any communicator, to the arrival; -1: another call
       was in progress, or it is the first call; -2: it was queued */
    int64_t gap_ns;
    int64_t work_ns; /* recorded work of the process since its previous call; 0: unknown */
    int64_t bytes;
    int op;
    int there;
};

struct watch_comm {
    uint64_t id;
    int size;
    int members;  /* members with records */
    int *process; /* [size] -1: no records; owned */
    /* [size] rank in the run, if the records list it; NULL: unknown; owned */
    int *rank;
    int64_t *last;           /* [size] latest call of each member; -1: none; owned */
    int64_t first;           /* number of the call in the first row */
    int64_t calls;           /* number of rows */
    struct watch_cell *cell; /* [calls][size]; owned */
    /* [calls] 1: all members have completed the same synchronising call, so its times count;
       owned */
    char *complete;
};

struct watch_call {
    int process, comm, member, op;
    int64_t sequence, bytes, arrived_ns, completed_ns;
    int64_t work_ns; /* 0: unknown */
};

/* The detail of the times in the records. */
enum watch_times {
    WATCH_TIMES,     /* arrivals and completions */
    WATCH_DURATIONS, /* completed - arrived only */
    WATCH_ORDER      /* the order of calls only */
};

struct watch {
    struct watch_process *process;
    struct watch_host *host;
    struct watch_comm *comm;
    struct watch_call *call; /* in the order of reading */
    int processes, hosts, comms;
    int64_t calls;
    size_t process_space, host_space, comm_space, call_space;
    struct watch_place *place; /* hash table by key; owned */
    enum watch_times times;
    int64_t now_ns;  /* time of reading, since 1970, on this host's clock */
    int64_t members; /* sum over all communicators */
    /* Size of the largest communicator whose ranks are those of the run; set by watch_rank */
    int ranks;
    int ended;           /* processes that ended normally */
    int dumped;          /* a hang made the program write its records, at an unknown time */
    int counted;         /* a call's number counts the launches of its operation by a rank */
    const char *skipped; /* static: why possible calls were skipped; NULL: none were */
    int other_runs;      /* skipped files of other runs */
    /* On the first host's clock: begin and end of the records; the later of end and now_ns. */
    double start_s, end_s, now_s;
};

/* ---- the model (watch_model.c) ---- */

/* Finds the process of this key, or adds it; -1: more than WATCH_RANKS_MAX. */
int watch_process(struct watch *w, uint64_t key, int rank, const char *host);
/* Sets its rank in a communicator; the rank in the largest one is used as its rank in the
   run. */
void watch_rank(struct watch *w, int process, int rank, int ranks);
/* Finds or adds a communicator; -1: too many, or too many members. */
int watch_comm(struct watch *w, uint64_t id, int size);
/* Makes a process a member even if it has no calls; watch_add does this itself. */
void watch_join(struct watch *w, int comm, int member, int process);
void watch_add(struct watch *w, const struct watch_call *c);
/* Builds tables, gaps and clock offsets.  ERR_INPUT: no calls. */
int watch_index(struct watch *w, struct err *err);
const struct watch_cell *watch_row(const struct watch_comm *c, int64_t row);
/* A process's time on the first host's clock, in s. */
double watch_time_s(const struct watch *w, int process, int64_t ns);
void watch_release(struct watch *w);

/* ---- reading ---- */

/*
 * Reads files of known formats, or folders of such files; several paths: from several hosts.
 * Formats: paro-meter(5), and those of watch_json.c.  ERR_INPUT if no record is recognized.
 */
int watch_read(struct watch *w, const char *const *path, int paths, struct err *err);
/* watch_json.c: reads another program's text; `name` is used for messages and the rank. */
int watch_read_json(struct watch *w, const char *name, const char *text, int64_t bytes,
                    struct err *err);

/* ---- judging (watch_judge.c, watch_late.c, watch_link.c) ---- */

enum watch_kind {
    WATCH_HUNG,     /* some ranks wait, others are missing */
    WATCH_STUCK,    /* all ranks have arrived, none completes */
    WATCH_FAILED,   /* a rank makes no more calls, according to the records */
    WATCH_MISMATCH, /* ranks made different calls */
    WATCH_LATE,     /* a rank is late through its own compute */
    WATCH_PERIODIC, /* a rank is late every n steps */
    WATCH_PAUSED,   /* a rank is late every n seconds */
    WATCH_UNSTEADY, /* a rank is late for an unknown reason */
    WATCH_LINK,     /* a communicator is slower than similar ones */
    WATCH_KINDS
};
extern const char *const watch_kind_names[WATCH_KINDS];

struct watch_finding {
    enum watch_kind kind;
    enum health_state state;
    int process, host; /* -1: none, or several */
    int rank;          /* of the process, or of a rank without records; -1: none */
    const char *why;   /* static: the reason of WATCH_FAILED */
    /* Lateness in % of the rest of the run; its significance; share of the calls.  NAN:
       unknown */
    double percent, z, share;
    double period; /* in steps or s */
    char text[384];
};

struct watch_rules {
    struct health_range warn, crit; /* ranges of percent */
    double hang_s;                  /* a longer wait is a hang */
};

/* The lateness of a process, for tables and drawings. */
struct watch_late {
    double percent, z;          /* NAN: not judged */
    double chance;              /* percent that a healthy rank may reach by chance */
    double block[WATCH_BLOCKS]; /* percent by block of time; NAN: none */
};

struct watch_verdict {
    enum health_state state;
    int findings;
    struct watch_finding *finding; /* owned, worst first */
    size_t space;
    struct watch_late *late; /* [processes], owned */
    double lost;             /* share of time lost inside calls; NAN: not judged */
    int64_t judged;          /* number of synchronising calls whose times count */
    int blocks;
    const char *why; /* static: why lateness could not be judged; NULL: it was */
};

void watch_rules_init(struct watch_rules *r);
void watch_judge(const struct watch *w, const struct watch_rules *rules,
                 struct watch_verdict *out);
void watch_verdict_release(struct watch_verdict *v);

/* ---- reporting (watch_print.c, watch_draw.c) ---- */

struct watch_report {
    const struct watch *w;
    const struct watch_verdict *v;
    const struct watch_rules *rules;
    int verbose;
};
void watch_print_line(const struct watch_report *r, FILE *out);
void watch_print_json(const struct watch_report *r, FILE *out);
int watch_write_prom(const struct watch_report *r, const char *path, struct err *err);
void watch_draw(const struct watch_report *r, FILE *out);
/* "rank 5 (node2)" */
const char *watch_name(const struct watch *w, int process, char *text, size_t space);

#endif
