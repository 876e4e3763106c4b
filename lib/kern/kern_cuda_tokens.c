/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies the tokens of a batch to a GPU, with the rows ordered by their tokens, so that the
 * backward of the embedding sums each row of the table in one thread block and in one order.
 *
 *     id  3 1 3 0    row  3 1 0 2     run  0 1 2 4       in the buffer: id target row run
 *
 * Sorted on the host, by counting, into pinned memory from which they are copied; the next
 * batch is written to other memory, so that the step does not wait for the copy.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "kern/kern_cuda_inside.h"
#include "kern/kern_kind.h"

/* Returns memory that no copy reads any more; NULL: the device has failed. */
static int32_t *cuda_tokens_stage_of(struct kern *k, struct kern_cuda_stage *s, int64_t bytes)
{
    struct err err;

    if (!s->read && device_event_open(k->device, &s->read, &err))
        return NULL;
    if (device_event_sync(s->read, &err))
        return NULL;
    if (s->bytes >= bytes)
        return s->ints;
    device_host_free(k->device, s->ints);
    *s = (struct kern_cuda_stage){.read = s->read};
    if (device_host_alloc(k->device, bytes, "tokens", (void **)&s->ints, &err)) {
        device_fail(k->device, "tokens", err.text);
        return NULL;
    }
    s->bytes = bytes;
    return s->ints;
}

/* Returns the number of runs. */
static int64_t cuda_tokens_sort(struct kern_cuda *own, const int32_t *id, int32_t *row,
                                int32_t *run, int64_t n, int64_t vocab)
{
    int64_t runs = 0;

    if (own->vocab < vocab) {
        mem_free(own->first);
        own->first = mem_new((size_t)vocab + 1, sizeof *own->first);
        own->vocab = vocab;
    }
    int64_t *first = own->first;
    memset(first, 0, (size_t)(vocab + 1) * sizeof *first);
    for (int64_t i = 0; i < n; i++) {
        assert(id[i] >= 0 && id[i] < vocab);
        first[id[i] + 1]++;
    }
    for (int64_t v = 0; v < vocab; v++) {
        if (first[v + 1])
            run[runs++] = (int32_t)first[v];
        first[v + 1] += first[v];
    }
    run[runs] = (int32_t)n;
    for (int64_t i = 0; i < n; i++)
        row[first[id[i]]++] = (int32_t)i;
    return runs;
}

void kern_cuda_tokens(struct kern *k, struct kern_tokens *out, void *space,
                      const int32_t *tokens, const int32_t *targets, int64_t n, int64_t vocab)
{
    struct kern_cuda *own = kern_cuda_of(k);
    struct kern_cuda_stage *s = &own->stage[own->next_stage];
    size_t bytes = (size_t)n * sizeof *tokens;
    int32_t *at = space;

    assert(n < INT32_MAX / 4);
    *out = (struct kern_tokens){.id = at, .row = at + 2 * n, .run = at + 3 * n, .n = n};
    out->target = targets ? at + n : NULL;
    own->next_stage = (own->next_stage + 1) % KERN_CUDA_STAGES;
    int32_t *ints = cuda_tokens_stage_of(k, s, kern_kind_tokens_bytes(k, n));
    if (!ints)
        return;
    memcpy(ints, tokens, bytes);
    if (targets)
        memcpy(ints + n, targets, bytes);
    out->runs = cuda_tokens_sort(own, tokens, ints + 2 * n, ints + 3 * n, n, vocab);
    device_copy(k->queue, space, ints, (3 * n + out->runs + 1) * (int64_t)sizeof *ints);
    device_record(k->queue, s->read);
}

void kern_cuda_tokens_release(struct kern *k)
{
    struct kern_cuda *own = kern_cuda_of(k);

    for (int i = 0; i < KERN_CUDA_STAGES; i++) {
        device_host_free(k->device, own->stage[i].ints);
        device_event_close(own->stage[i].read);
    }
    mem_free(own->first);
}
