/* SPDX-License-Identifier: BSD-3-Clause */
/* What mpi_user has: every predefined type of C, types made from them, every predefined
 * operation and two of its own.  A type is known by where in an item each byte of its signature
 * lies, so that what is copied from one layout into another can be said without MPI. */
#include "mpi_user.h"
#include <complex.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = mix(*state);
    return (*state >> 8) % below;
}

static void must_fit(bool fits, const char *what)
{
    if (fits)
        return;
    fprintf(stderr, "mpi_user: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static struct type *add(struct types *t, const char *name, MPI_Datatype mpi, int kind,
                        int width)
{
    struct type *y = &t->all[t->n++];

    must_fit(t->n <= (int)(sizeof(t->all) / sizeof(*t->all)), "too many types");
    *y = (struct type){.mpi = mpi, .kind = kind, .number = kind, .width = width, .per = 1};
    snprintf(y->name, sizeof(y->name), "%s", name);
    y->extent = kind == COMPLEX ? 2 * width : width;
    y->align = width;
    return y;
}

/* The bytes from `from` on, in the order of the signature. */
static void bytes(struct type *y, int from, int n)
{
    y->at = realloc(y->at, (size_t)(y->bytes + n + 1) * sizeof(*y->at));
    must_fit(y->at != NULL, "no memory");
    for (int i = 0; i < n; i++)
        y->at[y->bytes++] = from + i;
}

static void number(struct types *t, const char *name, MPI_Datatype mpi, int kind, int width)
{
    struct type *y = add(t, name, mpi, kind, width);

    bytes(y, 0, y->extent);
}

#define NUMBER(TYPE, KIND, C) number(t, #TYPE, TYPE, KIND, (int)sizeof(C))

static void numbers(struct types *t)
{
    NUMBER(MPI_CHAR, RAW, char);
    NUMBER(MPI_WCHAR, RAW, wchar_t);
    NUMBER(MPI_PACKED, RAW, char);
    NUMBER(MPI_SIGNED_CHAR, SIGNED, signed char);
    NUMBER(MPI_UNSIGNED_CHAR, UNSIGNED, unsigned char);
    NUMBER(MPI_SHORT, SIGNED, short);
    NUMBER(MPI_UNSIGNED_SHORT, UNSIGNED, unsigned short);
    NUMBER(MPI_INT, SIGNED, int);
    NUMBER(MPI_UNSIGNED, UNSIGNED, unsigned);
    NUMBER(MPI_LONG, SIGNED, long);
    NUMBER(MPI_UNSIGNED_LONG, UNSIGNED, unsigned long);
    NUMBER(MPI_LONG_LONG_INT, SIGNED, long long);
    NUMBER(MPI_LONG_LONG, SIGNED, long long);
    NUMBER(MPI_UNSIGNED_LONG_LONG, UNSIGNED, unsigned long long);
    NUMBER(MPI_INT8_T, SIGNED, int8_t);
    NUMBER(MPI_INT16_T, SIGNED, int16_t);
    NUMBER(MPI_INT32_T, SIGNED, int32_t);
    NUMBER(MPI_INT64_T, SIGNED, int64_t);
    NUMBER(MPI_UINT8_T, UNSIGNED, uint8_t);
    NUMBER(MPI_UINT16_T, UNSIGNED, uint16_t);
    NUMBER(MPI_UINT32_T, UNSIGNED, uint32_t);
    NUMBER(MPI_UINT64_T, UNSIGNED, uint64_t);
    NUMBER(MPI_AINT, SIGNED, MPI_Aint);
    NUMBER(MPI_OFFSET, SIGNED, MPI_Offset);
    NUMBER(MPI_COUNT, SIGNED, MPI_Count);
    NUMBER(MPI_C_BOOL, LOGICAL, bool);
    NUMBER(MPI_BYTE, BYTES, char);
    NUMBER(MPI_FLOAT, FLOATING, float);
    NUMBER(MPI_DOUBLE, FLOATING, double);
    NUMBER(MPI_LONG_DOUBLE, FLOATING, long double);
    NUMBER(MPI_C_COMPLEX, COMPLEX, float);
    NUMBER(MPI_C_FLOAT_COMPLEX, COMPLEX, float);
    NUMBER(MPI_C_DOUBLE_COMPLEX, COMPLEX, double);
    NUMBER(MPI_C_LONG_DOUBLE_COMPLEX, COMPLEX, long double);
}

#define PAIRED(TYPE, KIND, C)                                                                  \
    do {                                                                                       \
        struct pair {                                                                          \
            C number;                                                                          \
            int index;                                                                         \
        };                                                                                     \
        struct type *y = add(t, #TYPE, TYPE, PAIR, (int)sizeof(C));                            \
        y->number = KIND;                                                                      \
        y->index = (int)offsetof(struct pair, index);                                          \
        y->extent = (int)sizeof(struct pair);                                                  \
        bytes(y, 0, y->width);                                                                 \
        bytes(y, y->index, (int)sizeof(int));                                                  \
    } while (0)

static void pairs(struct types *t)
{
    PAIRED(MPI_2INT, SIGNED, int);
    PAIRED(MPI_SHORT_INT, SIGNED, short);
    PAIRED(MPI_LONG_INT, SIGNED, long);
    PAIRED(MPI_FLOAT_INT, FLOATING, float);
    PAIRED(MPI_DOUBLE_INT, FLOATING, double);
    PAIRED(MPI_LONG_DOUBLE_INT, FLOATING, long double);
}

static struct type *made(struct types *t, const char *name, MPI_Datatype mpi, int extent)
{
    struct type *y = add(t, name, mpi, RAW, extent);

    MPI_Type_commit(&y->mpi);
    y->align = 16;
    return y;
}

static MPI_Datatype resized(MPI_Datatype from, MPI_Aint lb, MPI_Aint extent)
{
    MPI_Datatype to;

    MPI_Type_create_resized(from, lb, extent, &to);
    return to;
}

static void record(struct types *t)
{
    MPI_Datatype d, of[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
    MPI_Aint at[] = {offsetof(struct record, least), offsetof(struct record, sum),
                     offsetof(struct record, mixed)};
    int n[] = {1, 1, 2};
    struct type *y;

    MPI_Type_create_struct(3, n, at, of, &d);
    y = made(t, "a struct", resized(d, 0, sizeof(struct record)), sizeof(struct record));
    MPI_Type_free(&d);
    y->kind = RECORD;
    bytes(y, (int)at[0], 1);
    bytes(y, (int)at[1], sizeof(double));
    bytes(y, (int)at[2], 2 * sizeof(int));
}

/* Types of a program's own; the first of them is the matrix of op_matrix. */
static void made_types(struct types *t)
{
    MPI_Datatype d;
    struct type *y;

    MPI_Type_contiguous(4, MPI_UINT32_T, &d);
    y = made(t, "four uint32_t", d, 16);
    y->kind = MATRIX;
    bytes(y, 0, 16);
    record(t);
    MPI_Type_vector(3, 2, 4, MPI_SHORT, &d); /* ss..ss..ss */
    y = made(t, "a vector of short", d, 20);
    for (int i = 0; i < 3; i++)
        bytes(y, 8 * i, 4);
    y = made(t, "double every 24", resized(MPI_DOUBLE, 0, 24), 24);
    bytes(y, 0, 8);
    y = made(t, "double from -8", resized(MPI_DOUBLE, -8, 16), 16);
    bytes(y, 0, 8);
    MPI_Type_indexed(3, (int[]){1, 1, 1}, (int[]){2, 0, 3}, MPI_INT, &d);
    y = made(t, "int 2, 0, 3", d, 16);
    bytes(y, 8, 4);
    bytes(y, 0, 4);
    bytes(y, 12, 4);
    MPI_Type_create_hindexed(1, (int[]){3}, (MPI_Aint[]){8}, MPI_INT16_T, &d);
    y = made(t, "three int16_t from 8", d, 6);
    bytes(y, 8, 6);
    MPI_Type_contiguous(1000, MPI_FLOAT, &d);
    y = made(t, "1000 floats", d, 4000);
    bytes(y, 0, 4000);
    MPI_Type_contiguous(0, MPI_INT, &d);
    y = made(t, "no int", d, 0);
    bytes(y, 0, 0);
}

static struct type *repeated(const struct type *of, const char *name, MPI_Datatype mpi, int per)
{
    struct type *y = calloc(1, sizeof(*y));

    must_fit(y != NULL, "no memory");
    *y = (struct type){.mpi = mpi, .kind = RAW, .number = RAW, .per = per, .align = of->align};
    snprintf(y->name, sizeof(y->name), "%s: %.30s", name, of->name);
    MPI_Type_commit(&y->mpi);
    y->extent = per == 1 ? 2 * of->extent : per * of->extent;
    for (int i = 0; i < per; i++)
        for (int b = 0; b < of->bytes; b++)
            bytes(y, i * of->extent + of->at[b], 1);
    return y;
}

static void other_layouts(struct type *y)
{
    MPI_Datatype d;

    if (y->kind & (MATRIX | RECORD | RAW) || y->extent == 0)
        return; /* the types made above mix layouts already */
    y->wide = repeated(y, "wide", resized(y->mpi, 0, 2 * (MPI_Aint)y->extent), 1);
    /* Open MPI 4.1 cuts a broadcast into pieces of whole items, on each rank of its own. */
    if (y->bytes & (y->bytes - 1))
        return;
    MPI_Type_contiguous(4, y->mpi, &d);
    y->four = repeated(y, "four", d, 4);
}

/* inout = in times inout: the order of the ranks is kept, or the result is another. */
static void op_matrix(void *in, void *inout, int *n, MPI_Datatype *type)
{
    const uint32_t *a = in;
    uint32_t *b = inout;

    (void)type;
    for (int i = 0; i < *n; i++, a += 4, b += 4) {
        uint32_t c[] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
                        a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
        memcpy(b, c, sizeof(c));
    }
}

static void op_record(void *in, void *inout, int *n, MPI_Datatype *type)
{
    const struct record *a = in;
    struct record *b = inout;

    (void)type;
    for (int i = 0; i < *n; i++) {
        b[i].least = a[i].least < b[i].least ? a[i].least : b[i].least;
        b[i].sum += a[i].sum;
        b[i].mixed[0] ^= a[i].mixed[0];
        b[i].mixed[1] |= a[i].mixed[1];
    }
}

/* The lowest rank's operand wins: associative, not commutative. */
static void op_first(void *in, void *inout, int *n, MPI_Datatype *type)
{
    int width;

    PMPI_Type_size(*type, &width);
    memcpy(inout, in, (size_t)*n * (size_t)width);
}

static void op_modulo(void *in, void *inout, int *n, MPI_Datatype *type)
{
    const int *a = in;
    int *b = inout;

    (void)type;
    for (int i = 0; i < *n; i++)
        b[i] = (int)(((int64_t)a[i] + b[i]) % 1000003);
}

static void own_op(struct types *t, const char *name, MPI_User_function *f, bool commutes,
                   int kinds)
{
    MPI_Op op;

    MPI_Op_create(f, commutes, &op);
    t->ops[t->nops++] = (struct op){name, op, kinds};
}

void types_init(struct types *t)
{
    int whole = SIGNED | UNSIGNED;
    struct op fixed[] = {
        {"MPI_SUM", MPI_SUM, whole | FLOATING | COMPLEX},
        {"MPI_PROD", MPI_PROD, whole | FLOATING | COMPLEX},
        {"MPI_MAX", MPI_MAX, whole | FLOATING},
        {"MPI_MIN", MPI_MIN, whole | FLOATING},
        {"MPI_LAND", MPI_LAND, whole | LOGICAL},
        {"MPI_LOR", MPI_LOR, whole | LOGICAL},
        {"MPI_LXOR", MPI_LXOR, whole | LOGICAL},
        {"MPI_BAND", MPI_BAND, whole | BYTES},
        {"MPI_BOR", MPI_BOR, whole | BYTES},
        {"MPI_BXOR", MPI_BXOR, whole | BYTES},
        {"MPI_MINLOC", MPI_MINLOC, PAIR},
        {"MPI_MAXLOC", MPI_MAXLOC, PAIR},
    };

    memset(t, 0, sizeof(*t));
    numbers(t);
    pairs(t);
    t->predefined = t->n;
    made_types(t);
    for (int i = 0; i < t->n; i++)
        other_layouts(&t->all[i]);
    memcpy(t->ops, fixed, sizeof(fixed));
    t->nops = (int)(sizeof(fixed) / sizeof(*fixed));
    own_op(t, "matrices in order", op_matrix, false, MATRIX);
    own_op(t, "an op on a struct", op_record, true, RECORD);
    own_op(t, "the first", op_first, false, FIRST);
    own_op(t, "sum modulo", op_modulo, true, WHOLE);
}

bool op_takes(const struct op *op, const struct type *type)
{
    if (op->kinds == FIRST)
        return type->mpi == MPI_LONG || type->mpi == MPI_DOUBLE || type->mpi == MPI_CHAR;
    if (op->kinds == WHOLE)
        return type->mpi == MPI_INT;
    return op->kinds & type->kind;
}

static void forget(struct type *y)
{
    if (y == NULL)
        return;
    MPI_Type_free(&y->mpi);
    free(y->at);
    free(y);
}

void types_release(struct types *t)
{
    for (int i = 0; i < t->n; i++) {
        forget(t->all[i].four);
        forget(t->all[i].wide);
        free(t->all[i].at);
        if (i >= t->predefined)
            MPI_Type_free(&t->all[i].mpi);
    }
    for (int i = 0; i < t->nops; i++)
        if (t->ops[i].kinds & (MATRIX | RECORD | FIRST | WHOLE))
            MPI_Op_free(&t->ops[i].mpi);
}
