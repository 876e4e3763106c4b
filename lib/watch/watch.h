/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "health/health_verdict.h"
#include "meter/meter.h"

/*
 * Finds which rank is slow in a running program.  Its collectives, whatever recorded them,
 * become one model: for each communicator a table of calls, a row each, with a cell for each
 * member.
 *
 *     all-reduce 1840   [a c] [a c] [a c] [a c]       a arrived, c completed
 *     all-reduce 1841   [a  ] [a  ] [a  ] [   ]       three wait, one has not come
 *
 * Readers (watch_read.c, watch_json.c) call watch_process, watch_comm and watch_add, then
 * watch_index makes the tables; watch_judge makes findings of them.
 */
#define WATCH_CELLS_MAX   (8 << 20)  /* 48 bytes each; older calls than fit are left out */
#define WATCH_MEMBERS_MAX (16 << 20) /* of all communicators together */
enum { WATCH_RANKS_MAX = 1 << 16, WATCH_COMMS_MAX = 1 << 16, WATCH_BLOCKS = 20 };

/* A rank that comes to no call any more: it may follow from another's loss, or not. */
enum watch_loss { WATCH_ALIVE, WATCH_FOLLOWS, WATCH_LOST };

struct watch_process {
    uint64_t key;
    int rank, widest; /* in the run; the size of the communicator that it is from */
    int host;         /* in watch.host */
    enum watch_loss loss;
    const char *gone; /* static: why it comes to no call any more; NULL: it does */
    /* Its calls, in the order of their arrival: by watch_index. */
    int64_t first_call, calls;
};

/* A host that the records do not name is its rank's alone: '?' and the rank. */
#define WATCH_NO_HOST '?'

struct watch_host {
    char name[METER_HOST];
    double offset_s, error_s; /* of its clock from the first host's; error < 0: unknown */
};

struct watch_cell {
    int64_t arrived_ns, completed_ns; /* 0: not; of the host's clock, since 1970 */
    int64_t gap_ns;  /* from the completion before, of any communicator, to the arrival; -1: a
                       call was under way meanwhile, or it is the first; -2: it was queued */
    int64_t work_ns; /* of the process since its call before, as it recorded; 0: not known */
    int64_t bytes;
    int op;
    int there;
};

struct watch_comm {
    uint64_t id;
    int size;
    int members;             /* whose records there are */
    int *process;            /* [size] -1: no records; owned */
    int *rank;               /* [size] in the run, where the records list it; NULL; owned */
    int64_t *last;           /* [size] the latest call of each; -1: none; owned */
    int64_t first;           /* call of the first row */
    int64_t calls;           /* rows */
    struct watch_cell *cell; /* [calls][size]; owned */
    char *complete; /* [calls] all members have completed the same synchronising call: its times
                       count; owned */
};

struct watch_call {
    int process, comm, member, op;
    int64_t sequence, bytes, arrived_ns, completed_ns;
    int64_t work_ns; /* 0: not known */
};

/* The detail that the times of the records have. */
enum watch_times {
    WATCH_TIMES,     /* arrivals and completions */
    WATCH_DURATIONS, /* completed - arrived alone */
    WATCH_ORDER      /* the order of calls alone */
};

struct watch {
    struct watch_process *process;
    struct watch_host *host;
    struct watch_comm *comm;
    struct watch_call *call; /* as they were read */
    int processes, hosts, comms;
    int64_t calls;
    size_t process_space, host_space, comm_space, call_space;
    struct watch_place *place; /* by key; owned */
    enum watch_times times;
    int64_t now_ns;      /* when the records were read, since 1970, of this host's clock */
    int64_t members;     /* of all communicators */
    int ranks;           /* of the largest communicator whose ranks are those of the run: by
                        watch_rank */
    int ended;           /* processes that ended in good order */
    int dumped;          /* records were written because of a hang, whatever the time */
    int counted;         /* a call's number is how many of its operation a rank has launched */
    const char *skipped; /* static: why what may be a call is none; NULL */
    int other_runs;      /* files of other runs, which are left out */
    /* Times of the first host's clock: of the records; the later of their end and now_ns. */
    double start_s, end_s, now_s;
};

/* ---- the model (watch_model.c) ---- */

/* The process of that key, made where it is new; -1: more than WATCH_RANKS_MAX. */
int watch_process(struct watch *w, uint64_t key, int rank, const char *host);
/* Its rank in a communicator: that in the largest is taken for its rank in the run. */
void watch_rank(struct watch *w, int process, int rank, int ranks);
/* The same of a communicator; -1: too many, or of too many members. */
int watch_comm(struct watch *w, uint64_t id, int size);
/* A process is a member, whether it has calls or not; watch_add knows. */
void watch_join(struct watch *w, int comm, int member, int process);
void watch_add(struct watch *w, const struct watch_call *c);
/* Tables, gaps, clocks.  ERR_INPUT: no calls. */
int watch_index(struct watch *w, struct err *err);
const struct watch_cell *watch_row(const struct watch_comm *c, int64_t row);
/* A process' time on the first host's clock, s. */
double watch_time_s(const struct watch *w, int process, int64_t ns);
void watch_release(struct watch *w);

/* ---- reading ---- */

/*
 * A file of any known format, or a folder of such; several: of several hosts.  Formats:
 * paro-meter(5), and those of watch_json.c.  ERR_INPUT where nothing is known in it.
 */
int watch_read(struct watch *w, const char *const *path, int paths, struct err *err);
/* watch_json.c: a text of another program's; `name` is for messages and the rank. */
int watch_read_json(struct watch *w, const char *name, const char *text, int64_t bytes,
                    struct err *err);

/* ---- judging (watch_judge.c, watch_late.c, watch_link.c) ---- */

enum watch_kind {
    WATCH_HUNG,     /* some wait, others have not come */
    WATCH_STUCK,    /* all have come, nobody goes on */
    WATCH_FAILED,   /* a rank comes to no call any more, by the records themselves */
    WATCH_MISMATCH, /* ranks called different things */
    WATCH_LATE,     /* a rank, its own compute */
    WATCH_PERIODIC, /* a rank, every so many steps */
    WATCH_PAUSED,   /* a rank, every so many seconds */
    WATCH_UNSTEADY, /* a rank, and the data cannot tell why */
    WATCH_LINK,     /* a communicator is slower than others like it */
    WATCH_KINDS
};
extern const char *const watch_kind_names[WATCH_KINDS];

struct watch_finding {
    enum watch_kind kind;
    enum health_state state;
    int process, host;        /* -1: none, or several */
    int rank;                 /* of the process, or of one without records; -1 */
    const char *why;          /* static: of WATCH_FAILED */
    double percent, z, share; /* NAN: not known; late, of the rest of the run; calls */
    double period;            /* in steps, or s */
    char text[384];
};

struct watch_rules {
    struct health_range warn, crit; /* of percent of lateness */
    double hang_s;                  /* a wait that is longer is a hang */
};

/* The lateness of a process, for tables and pictures. */
struct watch_late {
    double percent, z;          /* NAN: not judged */
    double chance;              /* percent that a healthy rank may have */
    double block[WATCH_BLOCKS]; /* percent, by time; NAN: none */
};

struct watch_verdict {
    enum health_state state;
    int findings;
    struct watch_finding *finding; /* owned, the worst first */
    size_t space;
    struct watch_late *late; /* [processes], owned */
    double lost;             /* share of the time, inside calls; NAN: not judged */
    int64_t judged;          /* synchronising calls whose times count */
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
