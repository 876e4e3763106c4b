/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MPI_USER_H
#define MPI_USER_H
/*
 * mpi_user: collectives of a program that knows MPI alone, each called twice with the same
 * input: by its name, where a preloaded library may stand, and by PMPI_, which is the MPI
 * library's own; both must leave the same bytes.
 *
 *   mpi_user.c           options and the order of the parts
 *   mpi_user_types.c     what there is: types, operations, and which of them go together
 *   mpi_user_values.c    what is put into buffers, and whether two results are the same
 *   mpi_user_call.c      one call, both ways
 *   mpi_user_parts.c     which calls, on which communicators
 *   mpi_user_scenes.c    calls amid other things: threads, requests in flight, errors, the end
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

enum form {
    ALLGATHER,
    ALLGATHERV,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    ALLREDUCE,
    BCAST,
    FORMS
};
enum { RANKS_MAX = 64, NAME_MAX_ = 40 };

/* What the operands of a reduction are, one bit each: MPI 3.1, section 5.9.2. */
enum kind {
    RAW = 1, /* copied only */
    SIGNED = 2,
    UNSIGNED = 4,
    LOGICAL = 8,
    BYTES = 16,
    FLOATING = 32,
    COMPLEX = 64,
    PAIR = 128,   /* a number, then an int at .index */
    MATRIX = 256, /* 2 x 2 of uint32_t */
    RECORD = 512, /* struct record, with holes */
    FIRST = 1024, /* a bit of operations: any whole number, see op_first */
    WHOLE = 2048, /* and another: op_modulo */
};

struct record {
    char least;
    double sum;
    int mixed[2];
};

struct type {
    char name[NAME_MAX_];
    MPI_Datatype mpi;
    int kind, number; /* of a pair: PAIR, and what its number is */
    int width;        /* bytes of a number: of a complex one's half, of a pair's first */
    int index;        /* where a pair's second is */
    int extent, bytes;
    int *at;   /* where in an item each of its .bytes lies, in the order of the signature */
    int per;   /* items of the type it was made from */
    int align; /* what an address may be a multiple of */
    struct type *four, *wide; /* the same signature otherwise: four in one item, with holes */
};

struct op {
    const char *name;
    MPI_Op mpi;
    int kinds;
};

struct types {
    struct type all[64];
    int n, predefined;
    struct op ops[16];
    int nops;
};

struct comm {
    char name[NAME_MAX_];
    MPI_Comm mpi;           /* MPI_COMM_NULL where this rank is no member */
    int rank, size, remote; /* remote: ranks on the other side, 0 on one without sides */
    bool left;
};

/* What one thread has done. */
struct user {
    struct types *types;
    uint64_t seed;
    int64_t bytes_max;
    int rank; /* in the world: for what is printed */
    int64_t calls, refused, wrong, said[FORMS];
};

struct call {
    enum form form;
    const struct comm *comm;
    const struct type *type;
    const struct op *op; /* NULL for copies */
    int shape;           /* 0, or other types of the same signature: 1 four, 2 wide */
    int count;           /* items of .type: of a rank, or of all for all-reduce and broadcast */
    int counts[RANKS_MAX], displs[RANKS_MAX]; /* of the forms with counts */
    int root;
    bool in_place, inexact, nulls;
    uint64_t seed;
};

/* mpi_user_types.c */
void types_init(struct types *t);
void types_release(struct types *t);
bool op_takes(const struct op *op, const struct type *type);
uint64_t mix(uint64_t x);
uint64_t draw(uint64_t *state, uint64_t below);

/* mpi_user_values.c: items of .type, the first of them number `first` of the rank's. */
void values_noise(unsigned char *p, int64_t n, uint64_t seed);
void values_put(const struct call *c, const struct type *as, unsigned char *p, int64_t items,
                int rank, int64_t first);
bool values_same(const struct call *c, const struct type *as, const unsigned char *a,
                 const unsigned char *b, int ranks);
void values_print(const struct type *as, const unsigned char *p, char *text, int size);

/* mpi_user_call.c */
extern const char *const form_names[FORMS];
void call_both(struct user *u, const struct call *c);
/* As MPI gets it, of all forms; own: by its name, else PMPI_'s. */
struct words {
    const void *in;
    void *out;
    int sent, n, counts[RANKS_MAX], displs[RANKS_MAX], root;
    MPI_Datatype send, recv;
    MPI_Op op;
    MPI_Comm comm;
};
int words_call(enum form form, const struct words *w, bool own);
void call_wrong(struct user *u, const struct call *c, const char *what, ...)
    __attribute__((format(printf, 3, 4)));

/* mpi_user_parts.c */
int comms_init(struct comm *all, uint64_t seed);
void comm_over(struct comm *c, const char *name, MPI_Comm mpi);
void comms_release(struct comm *all, int n);
struct call call_draw(struct user *u, const struct comm *c, enum form form);
void part_types(struct user *u, const struct comm *all, int n);
void part_comms(struct user *u, const struct comm *all, int n);
void part_large(struct user *u, const struct comm *all, int n);
void part_repeated(struct user *u, const struct comm *all, int n);

/* mpi_user_scenes.c */
void scene_flight(struct user *u, const struct comm *all, int n);
void scene_threads(struct user *u);
void scene_churn(struct user *u, int comms, bool quiet);
void scene_errors(struct user *u, const struct comm *all, int n);
void scene_end(struct user *u);
#endif
