/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of llm.c's headers: of files as long as they say, and not. */
#include "reader_fuzz.h"

#include "data/data_source.h"

static int take(const uint8_t *data, size_t bytes, int64_t file_bytes)
{
    struct source_place place = {.offset = 99};
    struct err err = {0};
    char *copy = fuzz_copy(data, bytes);
    const unsigned char *head = (const unsigned char *)copy;
    int rc = source_llmc_parse(FUZZ_NAME, head, (int64_t)bytes, file_bytes, &place, &err);

    assert(rc || source_llmc_is(head, (int64_t)bytes));
    mem_free(copy);
    if (fuzz_judge(rc, &err)) {
        assert(place.offset == 99);
        return 0;
    }
    assert(bytes >= 1024 && place.offset == 1024 && place.tokens >= 0);
    assert(place.offset + place.tokens * source_type_bytes(place.type) == file_bytes);
    return 1;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    int64_t count = 0;
    int taken = 0;

    for (int b = 3; b >= 0 && bytes >= 12; b--)
        count = count << 8 | data[8 + b];
    for (int size = 1; size <= 8; size *= 2)
        taken += take(data, bytes, 1024 + count * size);
    assert(taken <= 1 || count == 0);
    return taken > 0 || take(data, bytes, (int64_t)bytes);
}

static const char gpt2[1024] = "\x88\xd8\x34\1\1\0\0\0\5\0\0\0";
static const char llama[1024 + 8] = "\xa1\xd9\x34\1\7\0\0\0\2\0\0\0";

FUZZ_SET(.name = "llmc", .longest = 2048, .cases = 20000, .part = 50, .ends = "\n",
         .words = FUZZ_LIST("\x88\xd8\x34\1", "\xa1\xd9\x34\1", "\x8a\xd8\x34\1", "\1", "\7",
                            "\xff\xff\xff\xff", "\x7f"),
         .text = {{gpt2, sizeof gpt2}, {llama, sizeof llama}});
