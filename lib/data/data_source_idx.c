/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the index that Megatron-LM keeps next to a file of tokens (paro-data(5)):
 *
 *     0        9         17     18          26          34
 *     MMIDIDX00 version 1 type  sequences n  documents d  lengths   pointers  documents [modes]
 *     9         u64       u8    u64          u64          n * i32   n * i64   d * i64   n * i8
 *
 * Megatron's writer stores the sequences adjacent and in the order of the index.  A different
 * order means damage or another writer, and is rejected.
 */
#include "data/data_source.h"

#include <inttypes.h>
#include <string.h>

#include "base/io.h"

enum { HEAD = 34, LENGTH = 4, POINTER = 8 };

static const char magic[9] = "MMIDIDX\0";

/* Indexed by the number in the file; floating-point types are not tokens. */
static const struct {
    const char *name;
    int type; /* enum source_type, or -1 */
} types[] = {
    {"?", -1},
    {"uint8", SOURCE_U8},
    {"int8", SOURCE_I8},
    {"int16", SOURCE_I16},
    {"int32", SOURCE_I32},
    {"int64", SOURCE_I64},
    {"float64", -1},
    {"float32", -1},
    {"uint16", SOURCE_U16},
};

struct idx {
    const char *name, *bin_name;                                 /* borrowed */
    const unsigned char *lengths, *pointers, *documents, *modes; /* modes NULL: none */
    int64_t sequences, bounds, bin_bytes, token_bytes;
};

static int sequences_check(const struct idx *x, struct err *err)
{
    uint64_t end = 0; /* end of the earlier sequences in bytes; never above bin_bytes */

    for (int64_t i = 0; i < x->sequences; i++) {
        uint64_t at = io_le64(x->pointers + POINTER * i);
        int64_t length = (int32_t)io_le(x->lengths + LENGTH * i, LENGTH);
        if (length < 0)
            return err_set(err, ERR_INPUT,
                           "'%s': sequence %" PRId64 " has %" PRId64
                           " tokens, expected 0 or more",
                           x->name, i, length);
        if (at > (uint64_t)x->bin_bytes)
            return err_set(err, ERR_INPUT,
                           "'%s': sequence %" PRId64 " begins at byte %" PRIu64
                           ", outside of '%s' of %" PRId64 " bytes",
                           x->name, i, at, x->bin_name, x->bin_bytes);
        if (at != end)
            return err_set(err, ERR_INPUT,
                           "'%s': sequence %" PRId64 " begins at byte %" PRIu64
                           ", expected %" PRIu64 ", where the one before ends",
                           x->name, i, at, end);
        end += (uint64_t)(length * x->token_bytes);
        if (end > (uint64_t)x->bin_bytes)
            return err_set(err, ERR_INPUT,
                           "'%s': sequence %" PRId64 " ends at byte %" PRIu64
                           ", outside of '%s' of %" PRId64 " bytes",
                           x->name, i, end, x->bin_name, x->bin_bytes);
    }
    if (end != (uint64_t)x->bin_bytes)
        return err_set(err, ERR_INPUT,
                       "'%s' has %" PRId64 " bytes, expected %" PRIu64
                       ", where the last sequence of '%s' ends",
                       x->bin_name, x->bin_bytes, end, x->name);
    return 0;
}

static int documents_check(const struct idx *x, struct err *err)
{
    uint64_t last = 0;

    for (int64_t i = 0; i < x->bounds; i++) {
        uint64_t at = io_le64(x->documents + POINTER * i);
        if (at < last || at > (uint64_t)x->sequences)
            return err_set(err, ERR_INPUT,
                           "'%s': document bound %" PRId64 " is sequence %" PRIu64
                           ", expected %" PRIu64 " to %" PRId64,
                           x->name, i, at, last, x->sequences);
        last = at;
    }
    return 0;
}

static int fill_spans(const struct idx *x, struct spans *spans, struct err *err)
{
    int64_t bound = 0, token = 0;

    for (int64_t i = 0; i < x->sequences; i++) {
        int kind = x->modes && x->modes[i] ? SPAN_CONTEXT : 0;
        while (bound < x->bounds && (int64_t)io_le64(x->documents + POINTER * bound) < i)
            bound++;
        if (bound < x->bounds && (int64_t)io_le64(x->documents + POINTER * bound) == i)
            kind |= SPAN_DOCUMENT;
        if (spans_add(spans, token, i ? kind : kind | SPAN_DOCUMENT, err))
            return -1;
        token += (int32_t)io_le(x->lengths + LENGTH * i, LENGTH);
    }
    return 0;
}

int source_idx_parse(const char *name, const unsigned char *idx, int64_t bytes,
                     const char *bin_name, int64_t bin_bytes, struct source_place *place,
                     struct spans *spans, struct err *err)
{
    struct idx x = {.name = name, .bin_name = bin_name, .bin_bytes = bin_bytes};

    if (bytes < (int64_t)sizeof magic || memcmp(idx, magic, sizeof magic) != 0)
        return err_set(err, ERR_INPUT,
                       "'%s' does not begin with MMIDIDX, expected a Megatron index", name);
    if (bytes < HEAD)
        return err_set(err, ERR_INPUT,
                       "'%s' has %" PRId64 " bytes, expected a Megatron index's header of %d",
                       name, bytes, HEAD);
    if (io_le64(idx + 9) != 1)
        return err_set(err, ERR_INPUT, "'%s' is of version %" PRIu64 ", expected 1", name,
                       io_le64(idx + 9));
    unsigned code = idx[17];
    if (code >= sizeof types / sizeof *types || types[code].type < 0)
        return err_set(err, ERR_INPUT,
                       "'%s' has tokens of type %u (%s), expected an integer type, 1 to 5 or 8",
                       name, code,
                       code < sizeof types / sizeof *types ? types[code].name : "?");
    enum source_type type = (enum source_type)types[idx[17]].type;
    x.token_bytes = source_type_bytes(type);
    /* The counts come from the file: bounded before they are used in products. */
    uint64_t n = io_le64(idx + 18), d = io_le64(idx + 26);
    uint64_t rest = (uint64_t)(bytes - HEAD);
    if (n > rest / (LENGTH + POINTER) || d > (rest - n * (LENGTH + POINTER)) / POINTER)
        return err_set(err, ERR_INPUT,
                       "'%s' has %" PRId64 " bytes, too few for its %" PRIu64 " sequences and "
                       "%" PRIu64 " document bounds",
                       x.name, bytes, n, d);
    uint64_t need = n * (LENGTH + POINTER) + d * POINTER;
    if (rest != need && rest != need + n)
        return err_set(err, ERR_INPUT,
                       "'%s' has %" PRId64 " bytes, expected %" PRIu64 " for %" PRIu64
                       " sequences and %" PRIu64 " document bounds",
                       x.name, bytes, need + HEAD, n, d);
    x.sequences = (int64_t)n;
    x.bounds = (int64_t)d;
    x.lengths = idx + HEAD;
    x.pointers = x.lengths + n * LENGTH;
    x.documents = x.pointers + n * POINTER;
    x.modes = rest == need ? NULL : x.documents + d * POINTER;
    if (sequences_check(&x, err) || documents_check(&x, err))
        return -1;
    *place = (struct source_place){.type = type, .tokens = bin_bytes / x.token_bytes};
    return fill_spans(&x, spans, err);
}
