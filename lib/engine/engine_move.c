/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a conversion goes through a stream, and how a piece of a shard changes type. */
#include "engine/engine_inside.h"

#include <assert.h>

#include "kern/kern_cpu.h"

static int pack(void *arg, struct err *err)
{
    struct engine_move *m = arg;

    (void)err;
    dtype_convert((void *)(uintptr_t)m->call.in, m->wire, m->src, m->src_type, m->src_elems);
    return 0;
}

/* dst += recv; an accumulator that is not f32 is summed in f32 and rounded once. */
void engine_accumulate(void *acc, enum dtype acc_type, const void *x, enum dtype type,
                       int64_t n)
{
    if (acc_type == DTYPE_F32) {
        kern_accumulate(acc, x, type, n);
        return;
    }
    float a[256];
    for (int64_t i = 0; i < n; i += 256) {
        int64_t part = n - i < 256 ? n - i : 256;
        char *at = (char *)acc + i * dtype_bytes(acc_type);
        dtype_convert(a, DTYPE_F32, at, acc_type, part);
        kern_accumulate(a, (const char *)x + i * dtype_bytes(type), type, part);
        dtype_convert(at, acc_type, a, DTYPE_F32, part);
    }
}

static int store(void *arg, struct err *err)
{
    struct engine_move *m = arg;

    (void)err;
    if (m->add)
        engine_accumulate(m->dst, m->dst_type, m->call.out, m->wire, m->dst_elems);
    else
        dtype_convert(m->dst, m->dst_type, m->call.out, m->wire, m->dst_elems);
    return 0;
}

int64_t engine_move_push(struct stream *s, struct engine_move *m)
{
    if (m->src_elems)
        stream_push(s, (struct stream_op){.start = pack, .arg = m});
    int64_t ticket = coll_push(s, &m->call);
    if (m->dst_elems)
        ticket = stream_push(s, (struct stream_op){.start = store, .arg = m});
    return ticket;
}

void engine_copy(void *out, enum dtype to_type, const void *shard, enum dtype type,
                 const struct range *ranges, int n, struct range at)
{
    int64_t first = layout_offset(ranges, n, at.lo);

    if (at.lo == at.hi)
        return;
    /* A piece lies inside one range of the shard: G inside I inside N. */
    assert(first >= 0 && layout_offset(ranges, n, at.hi - 1) == first + at.hi - 1 - at.lo);
    dtype_convert(out, to_type, (const char *)shard + first * dtype_bytes(type), type,
                  at.hi - at.lo);
}
