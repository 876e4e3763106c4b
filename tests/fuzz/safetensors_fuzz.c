/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feeds bytes to the reader of safetensors headers: as the beginning of a file, and as the JSON
 * of a header whose length is right and whose data end where it says.
 */
#include "reader_fuzz.h"

#include "base/io.h"
#include "ckpt/st.h"

static int parse(struct st *st, const char *head, size_t bytes, int64_t file_bytes)
{
    struct err err = {0};
    char *text = fuzz_copy(head, bytes);

    *st = (struct st){.fd = -1};
    int rc = st_parse(st, FUZZ_NAME, text, (int64_t)bytes, file_bytes, &err);
    mem_free(text);
    return fuzz_judge(rc, &err);
}

/* The largest number that ends a list: where the data of the last tensor end. */
static int64_t data_end(const char *json)
{
    int64_t most = 0;

    for (const char *p = json; *p; p++) {
        char *end = NULL;
        if (*p < '0' || *p > '9')
            continue;
        long long v = strtoll(p, &end, 10);
        if (*end == ']' && v > most && v < INT64_C(1) << 40)
            most = v;
        p = end - 1;
    }
    return most;
}

static void check(const struct st *st)
{
    struct st back;
    char *head = NULL;
    int64_t bytes = 0, end = st->count ? st->tensor[st->count - 1].last : 0;
    struct st_tensor *copy = mem_new((size_t)st->count, sizeof *copy);

    for (int i = 0; i < st->count; i++)
        copy[i] = st->tensor[i];
    st_header(copy, st->count, &head, &bytes);
    int rc = parse(&back, head, (size_t)bytes, bytes + end);
    assert(rc == 0 && back.count == st->count);
    for (int i = 0; i < st->count; i++) {
        const struct st_tensor *t = &st->tensor[i], *b = st_find(&back, t->name);
        assert(b && st_find(st, t->name) == t && b->type == t->type && b->dims == t->dims);
        assert(b->elems == t->elems && b->first == t->first && b->last == t->last);
        assert(memcmp(b->shape, t->shape, (size_t)t->dims * sizeof *t->shape) == 0);
    }
    st_release(&back);
    mem_free(head);
    mem_free(copy);
}

static int take(const char *head, size_t bytes, int64_t file_bytes)
{
    struct st st;

    if (parse(&st, head, bytes, file_bytes))
        return 0;
    check(&st);
    st_release(&st);
    return 1;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    if (bytes > FUZZ_MAX)
        return 0;
    char *head = mem_new(bytes + 9, 1);
    if (bytes)
        memcpy(head + 8, data, bytes);
    io_put_le64((unsigned char *)head, bytes);
    int taken = take(head, bytes + 8, (int64_t)bytes + 8 + data_end(head + 8));
    /* A file's beginning, with the data behind it that its tensors ask for, or none. */
    taken |= take(head + 8, bytes, (int64_t)bytes);
    taken |= take(head + 8, bytes, (int64_t)bytes + (bytes > 8 ? data_end(head + 16) : 0));
    mem_free(head);
    return taken;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    reader_fuzz_case(data, bytes);
    return 0;
}
