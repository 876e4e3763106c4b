/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks which predefined operations MPI (3.1, section 5.9.2) allows on which predefined types:
 * an operation on another type is an error that MPI should report to the program, and not in
 * PMPI_Reduce_local.
 */
#include "paro/paro_combine.h"

enum {
    ORDERED = 1,  /* MPI_MAX, MPI_MIN */
    NUMBER = 2,   /* MPI_SUM, MPI_PROD */
    LOGICAL = 4,  /* MPI_LAND, MPI_LOR, MPI_LXOR */
    BITS = 8,     /* MPI_BAND, MPI_BOR, MPI_BXOR */
    LOCATION = 16 /* MPI_MAXLOC, MPI_MINLOC */
};

enum class {
    SIGNED,
    UNSIGNED,
    INTEGER, /* Fortran's */
    /* Shared by several languages: types as MPI made them; Open MPI 4's MPI_OFFSET is
       unsigned */
    ADDRESS,
    FLOATING,
    TRUTH,
    COMPLEX,
    BYTE,
    FIRST_PAIR,
    PAIRS_END = FIRST_PAIR + 8
};

static const int operations[] = {
    [SIGNED] = ORDERED | NUMBER | LOGICAL | BITS,
    [UNSIGNED] = ORDERED | NUMBER | LOGICAL | BITS,
    [INTEGER] = ORDERED | NUMBER | BITS,
    [ADDRESS] = ORDERED | NUMBER | BITS,
    [FLOATING] = ORDERED | NUMBER,
    [TRUTH] = LOGICAL,
    [COMPLEX] = NUMBER,
    [BYTE] = BITS,
};

struct type {
    MPI_Datatype type;
    int class; /* for pairs: different for each */
};

static const struct type types[] = {
    {MPI_SIGNED_CHAR, SIGNED},
    {MPI_SHORT, SIGNED},
    {MPI_INT, SIGNED},
    {MPI_LONG, SIGNED},
    {MPI_LONG_LONG_INT, SIGNED},
    {MPI_INT8_T, SIGNED},
    {MPI_INT16_T, SIGNED},
    {MPI_INT32_T, SIGNED},
    {MPI_INT64_T, SIGNED},
    {MPI_AINT, ADDRESS},
    {MPI_OFFSET, ADDRESS},
    {MPI_COUNT, ADDRESS},
    {MPI_INTEGER, INTEGER},
    {MPI_INTEGER1, INTEGER},
    {MPI_INTEGER2, INTEGER},
    {MPI_INTEGER4, INTEGER},
    {MPI_INTEGER8, INTEGER},
    {MPI_UNSIGNED_CHAR, UNSIGNED},
    {MPI_UNSIGNED_SHORT, UNSIGNED},
    {MPI_UNSIGNED, UNSIGNED},
    {MPI_UNSIGNED_LONG, UNSIGNED},
    {MPI_UNSIGNED_LONG_LONG, UNSIGNED},
    {MPI_UINT8_T, UNSIGNED},
    {MPI_UINT16_T, UNSIGNED},
    {MPI_UINT32_T, UNSIGNED},
    {MPI_UINT64_T, UNSIGNED},
    {MPI_FLOAT, FLOATING},
    {MPI_DOUBLE, FLOATING},
    {MPI_LONG_DOUBLE, FLOATING},
    {MPI_REAL, FLOATING},
    {MPI_REAL4, FLOATING},
    {MPI_REAL8, FLOATING},
    {MPI_DOUBLE_PRECISION, FLOATING},
    {MPI_C_BOOL, TRUTH},
    {MPI_CXX_BOOL, TRUTH},
    {MPI_LOGICAL, TRUTH},
    {MPI_C_FLOAT_COMPLEX, COMPLEX},
    {MPI_C_DOUBLE_COMPLEX, COMPLEX},
    {MPI_C_LONG_DOUBLE_COMPLEX, COMPLEX},
    {MPI_CXX_FLOAT_COMPLEX, COMPLEX},
    {MPI_CXX_DOUBLE_COMPLEX, COMPLEX},
    {MPI_CXX_LONG_DOUBLE_COMPLEX, COMPLEX},
    {MPI_COMPLEX, COMPLEX},
    {MPI_DOUBLE_COMPLEX, COMPLEX},
    {MPI_BYTE, BYTE},
    {MPI_2INT, FIRST_PAIR},
    {MPI_FLOAT_INT, FIRST_PAIR + 1},
    {MPI_DOUBLE_INT, FIRST_PAIR + 2},
    {MPI_LONG_INT, FIRST_PAIR + 3},
    {MPI_SHORT_INT, FIRST_PAIR + 4},
    {MPI_LONG_DOUBLE_INT, FIRST_PAIR + 5},
    {MPI_2INTEGER, FIRST_PAIR},
    {MPI_2REAL, FIRST_PAIR + 6},
    {MPI_2DOUBLE_PRECISION, FIRST_PAIR + 7},
};

static const struct {
    MPI_Op op;
    int belongs;
} ops[] = {
    {MPI_SUM, NUMBER},   {MPI_PROD, NUMBER}, {MPI_MAX, ORDERED},     {MPI_MIN, ORDERED},
    {MPI_LAND, LOGICAL}, {MPI_LOR, LOGICAL}, {MPI_LXOR, LOGICAL},    {MPI_BAND, BITS},
    {MPI_BOR, BITS},     {MPI_BXOR, BITS},   {MPI_MAXLOC, LOCATION}, {MPI_MINLOC, LOCATION},
};

enum { TYPES = sizeof types / sizeof *types, OPS = sizeof ops / sizeof *ops };

/* A type that this MPI was built without has size 0, or is MPI_DATATYPE_NULL. */
static int combine_is_whole(MPI_Datatype type, int *bytes)
{
    MPI_Aint low = 0, extent = 0;

    return type != MPI_DATATYPE_NULL && PMPI_Type_size(type, bytes) == MPI_SUCCESS &&
           PMPI_Type_get_extent(type, &low, &extent) == MPI_SUCCESS && *bytes > 0 && low == 0 &&
           extent == *bytes;
}

int paro_combine_init(struct paro_combine *c, MPI_Datatype type, MPI_Op op)
{
    int t = 0, o = 0, bytes = 0;

    while (t < TYPES && types[t].type != type)
        t++;
    while (o < OPS && ops[o].op != op)
        o++;
    if (t == TYPES || o == OPS || type == MPI_DATATYPE_NULL)
        return -1;
    int class = types[t].class;
    int allowed = class < FIRST_PAIR ? operations[class] : LOCATION;
    if (!(allowed & ops[o].belongs) || !combine_is_whole(type, &bytes))
        return -1;
    int meant = class == INTEGER ? SIGNED : class == ADDRESS ? PAIRS_END + t : class;
    *c = (struct paro_combine){
        .type = type, .op = op, .elem_bytes = bytes, .kind = (meant * OPS + o) * 256 + bytes};
    return 0;
}

/* MPI's counts end at 2^31 - 1. */
void paro_combine(void *to, const void *arrived, int64_t n, void *arg)
{
    const struct paro_combine *c = arg;
    const int64_t most = 1 << 30;
    const char *from = arrived;
    char *at = to;

    for (int64_t i = 0; i < n; i += most) {
        int64_t some = n - i < most ? n - i : most;
        PMPI_Reduce_local(from + i * c->elem_bytes, at + i * c->elem_bytes, (int)some, c->type,
                          c->op);
    }
}
