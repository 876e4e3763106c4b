/* SPDX-License-Identifier: BSD-3-Clause */
/* Determines which tokens are targets, and where documents begin. */
#include "data/data_spans.h"

#include "base/mem.h"

int spans_add(struct spans *s, int64_t begin, int kind, struct err *err)
{
    size_t need = (size_t)s->count + 1;
    void *at = s->begin, *kinds = s->kind;
    int rc = mem_grow_data(&at, &s->space[0], need, sizeof *s->begin, "documents", err) ||
             mem_grow_data(&kinds, &s->space[1], need, 1, "documents", err);

    s->begin = at;
    s->kind = kinds;
    if (rc)
        return -1;
    s->begin[s->count] = begin;
    s->kind[s->count++] = (unsigned char)kind;
    return 0;
}

void spans_release(struct spans *s)
{
    mem_free(s->begin);
    mem_free(s->kind);
    *s = (struct spans){0};
}

/* The last span that begins at or before the token; spans may be empty. */
static int64_t spans_find(const struct spans *s, int64_t token)
{
    int64_t low = 0, high = s->count;

    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        *(s->begin[middle] <= token ? &low : &high) = middle;
    }
    return low;
}

void spans_apply(const struct spans *s, int64_t at, int seq, int32_t *targets, int32_t *begins)
{
    int64_t next = s->count ? spans_find(s, at) + 1 : 0, document = 0;
    int kind = s->count ? s->kind[next - 1] : 0;

    for (int i = 0; i < seq; i++) {
        int another = 0;
        if (begins)
            begins[i] = (int32_t)document;
        for (; next < s->count && s->begin[next] == at + i + 1; next++) {
            kind = s->kind[next];
            another |= kind & SPAN_DOCUMENT;
        }
        if (another)
            document = i + 1;
        if ((kind & SPAN_CONTEXT) || (another && begins))
            targets[i] = -1;
    }
}
