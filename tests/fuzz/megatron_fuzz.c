/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of Megatron's indices: beside a file as long as they say, and not.
 */
#include "reader_fuzz.h"

#include "base/io.h"
#include "data/data_source.h"

enum { HEAD = 34 };

/* Bytes of the tokens that the index claims; any number where it claims nonsense. */
static int64_t claimed(const uint8_t *p, size_t bytes)
{
    static const int size[] = {1, 1, 1, 2, 4, 8, 1, 1, 2};
    uint64_t n = bytes < HEAD ? 0 : io_le64(p + 18), sum = 0;

    for (uint64_t i = 0; i < n && i < (bytes - HEAD) / 4; i++)
        sum += p[HEAD + 4 * i] | (uint64_t)p[HEAD + 4 * i + 1] << 8;
    return (int64_t)(sum * (uint64_t)(bytes < HEAD || p[17] > 8 ? 1 : size[p[17]]));
}

static int take(const uint8_t *data, size_t bytes, int64_t bin_bytes)
{
    struct source_place place = {.offset = 99};
    struct spans spans = {0};
    struct err err = {0};
    char *copy = fuzz_copy(data, bytes);
    int rc = source_idx_parse(FUZZ_NAME, (const unsigned char *)copy, (int64_t)bytes,
                              FUZZ_NAME ".bin", bin_bytes, &place, &spans, &err);

    mem_free(copy);
    for (int64_t i = 0; rc == 0 && i < spans.count; i++)
        assert(spans.begin[i] >= (i ? spans.begin[i - 1] : 0) &&
               spans.begin[i] <= place.tokens);
    spans_release(&spans);
    if (fuzz_judge(rc, &err)) {
        assert(place.offset == 99);
        return 0;
    }
    assert(place.offset == 0 && place.tokens >= 0);
    assert(place.tokens * source_type_bytes(place.type) == bin_bytes);
    return 1;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    int taken = take(data, bytes, claimed(data, bytes));
    int other = take(data, bytes, claimed(data, bytes) + 1);
    assert(!taken || !other);
    return taken | other | take(data, bytes, (int64_t)bytes);
}

/* Lengths 3, 0, 2; tokens of two bytes; documents of sequences 0, 1 and 2. */
static const char two[] = "MMIDIDX\0\0\1\0\0\0\0\0\0\0\10\3\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0"
                          "\3\0\0\0\0\0\0\0\2\0\0\0"
                          "\0\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0"
                          "\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0";
/* One of four bytes, one sequence with a mode, no bounds. */
static const char four[] = "MMIDIDX\0\0\1\0\0\0\0\0\0\0\4\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                           "\7\0\0\0\0\0\0\0\0\0\0\0\0";

FUZZ_SET(.name = "megatron", .longest = 1024, .cases = 20000, .part = 50, .ends = "\n",
         .words = FUZZ_LIST("MMIDIDX", "TNTIDX", "\1", "\2", "\3", "\5", "\10", "\6",
                            "\xff\xff\xff\xff", "\x80", "\x7f\xff",
                            "\xff\xff\xff\xff\xff\xff\xff\x7f"),
         .text = {FUZZ_TEXT(two), FUZZ_TEXT(four)});
