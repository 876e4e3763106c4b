/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STORE_FUZZ_H
#define STORE_FUZZ_H

#include "reader_fuzz.h"

#include "health/health_store.h"

static inline char *store_print(const struct health_store *s, const void *whole, size_t *bytes)
{
    char *text = NULL;
    FILE *out = mem_stream(&text, bytes);

    health_store_print(s, whole, out);
    fclose(out);
    return text;
}

/*
 * Bytes to the reader of one kind of file of health_store.h, their checksum after them: without
 * it all would be refused alike.  What is taken prints as what reads back; `check` gets both.
 */
static inline int store_fuzz_case(const struct health_store *s, const uint8_t *data,
                                  size_t bytes, void *whole, void *back,
                                  void (*check)(const void *whole, const void *back))
{
    struct err err = {0};
    size_t n[2];

    char *text = mem_new(bytes + HEALTH_TAIL, 1);
    if (bytes)
        memcpy(text, data, bytes);
    int more = health_store_tail(s, text, (int64_t)bytes, text + bytes);
    int rc = health_store_parse(s, FUZZ_NAME, text, (int64_t)bytes + more, whole, &err);
    mem_free(text);
    if (fuzz_judge(rc, &err))
        return 0;
    char *first = store_print(s, whole, &n[0]);
    rc = health_store_parse(s, FUZZ_NAME, first, (int64_t)n[0], back, &err);
    assert(rc == 0);
    char *again = store_print(s, back, &n[1]);
    fuzz_same(first, n[0], again, n[1]);
    check(whole, back);
    s->release(whole);
    s->release(back);
    return 1;
}

#endif
