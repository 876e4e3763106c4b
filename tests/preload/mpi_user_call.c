/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One call, both ways: the same input, a receive buffer full of noise each, room around them
 * and in the gaps between blocks.  What a call receives must be what PMPI_ received; all else
 * that lies in the buffer, and the send buffer, must be as before.
 *
 *     guard | block | gap | block ... | guard
 */
#include "mpi_user.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A type whose bytes begin 8 behind its item's place ends so far behind the last one's end. */
enum { GUARD = 512 };

const char *const form_names[FORMS] = {"MPI_Allgather",      "MPI_Allgatherv",
                                       "MPI_Reduce_scatter", "MPI_Reduce_scatter_block",
                                       "MPI_Allreduce",      "MPI_Bcast"};

/* Items of call.type. */
struct span {
    int64_t at, items;
};

struct work {
    const struct type *send, *recv;
    struct span out[RANKS_MAX];
    int outs;
    int64_t in, in_at; /* what this rank gives; where, if the receive buffer holds it */
    int64_t sent_bytes, got_bytes;
    unsigned char *sent, *kept, *got, *want, *before;
    unsigned char *send_at, *got_at, *want_at; /* as MPI gets them */
};

void call_wrong(struct user *u, const struct call *c, const char *what, ...)
{
    const struct comm *k = c->comm;
    char text[256];
    va_list ap;

    u->wrong++;
    if (u->said[c->form]++ >= 3)
        return;
    va_start(ap, what);
    vsnprintf(text, sizeof(text), what, ap);
    va_end(ap);
    printf("mismatch: %s on %s of %d, %s, %s, count %d, root %d%s%s, rank %d: %s\n",
           form_names[c->form], k->name, k->size, c->type ? c->type->name : "-",
           c->op ? c->op->name : "copied", c->count, c->root, c->in_place ? ", in place" : "",
           c->shape == 1   ? ", fours on some ranks"
           : c->shape == 2 ? ", wide on some ranks"
                           : "",
           k->rank, text);
    fflush(stdout);
}

/* Ranks whose data this one gets. */
static int others(const struct call *c)
{
    return c->comm->remote ? c->comm->remote : c->comm->size;
}

static int64_t sum(const int *counts, int n)
{
    int64_t all = 0;

    for (int i = 0; i < n; i++)
        all += counts[i];
    return all;
}

static bool gives_root(const struct call *c)
{
    return c->comm->rank == c->root && (!c->comm->remote || c->comm->left);
}

static void plan(const struct call *c, struct work *w)
{
    int me = c->comm->rank, n = others(c);

    w->outs = 1;
    w->out[0] = (struct span){0, c->count};
    w->in = c->count;
    switch (c->form) {
    case ALLGATHER:
        w->out[0].items = (int64_t)n * c->count;
        w->in_at = (int64_t)me * c->count;
        break;
    case ALLGATHERV:
        w->outs = n;
        for (int i = 0; i < n; i++)
            w->out[i] = (struct span){c->displs[i], c->counts[i]};
        w->in = c->counts[me];
        w->in_at = c->displs[me];
        break;
    case REDUCE_SCATTER:
        w->out[0].items = c->counts[me];
        w->in = sum(c->counts, c->comm->size);
        break;
    case REDUCE_SCATTER_BLOCK:
        w->in = (int64_t)c->comm->size * c->count;
        break;
    case BCAST:
        w->outs = !c->comm->remote || !c->comm->left;
        w->in = gives_root(c) ? c->count : 0;
        break;
    default:
        break;
    }
}

/* Odd ranks receive into the other layout, even ones send from it.  Open MPI 4.1 takes its
 * choice of an algorithm for MPI_Allgatherv from the send type's size times the receive counts:
 * of fours a rank has both or none, or ranks choose differently and wait for ever. */
static void layouts(const struct call *c, struct work *w)
{
    const struct type *y = c->type;
    const struct type *other = c->shape == 1 ? y->four : c->shape == 2 ? y->wide : y;
    bool odd = c->comm->rank & 1;

    w->recv = odd ? other : y;
    w->send = odd == (c->form == ALLGATHERV && c->shape == 1) ? other : y;
}

static int64_t space(const struct type *y, int64_t items)
{
    return items / y->per * y->extent + 2 * GUARD;
}

static unsigned char *noise(int64_t bytes, uint64_t seed)
{
    unsigned char *p = malloc((size_t)bytes);

    if (p == NULL) {
        fprintf(stderr, "mpi_user: no memory for %lld bytes\n", (long long)bytes);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    values_noise(p, bytes, seed);
    return p;
}

static unsigned char *copy(const unsigned char *from, int64_t bytes)
{
    unsigned char *p = noise(0, 0);

    p = realloc(p, (size_t)bytes);
    if (p == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    return memcpy(p, from, (size_t)bytes);
}

static void buffers(const struct call *c, struct work *w)
{
    /* Addresses that are multiples of what the type asks for, and of no more. */
    int64_t skip = GUARD / 2 + (int64_t)(c->seed & 3) * c->type->align;
    bool here = c->in_place || c->form == BCAST;
    int rank = c->comm->rank + (c->comm->left ? 100 : 0);
    int64_t items = here ? w->in_at + w->in : 0;

    for (int i = 0; i < w->outs; i++)
        if (w->out[i].at + w->out[i].items > items)
            items = w->out[i].at + w->out[i].items;
    if (c->form == BCAST)
        items = c->count;
    w->got_bytes = space(w->recv, items);
    w->sent_bytes = here ? 1 : space(w->send, w->in);
    w->before = noise(w->got_bytes, c->seed + 1);
    w->sent = noise(w->sent_bytes, c->seed + 2);
    if (here)
        values_put(c, w->recv, w->before + skip + w->in_at / w->recv->per * w->recv->extent,
                   w->in, rank, 0);
    else
        values_put(c, w->send, w->sent + skip, w->in, rank, 0);
    w->kept = copy(w->sent, w->sent_bytes);
    w->got = copy(w->before, w->got_bytes);
    w->want = copy(w->before, w->got_bytes);
    w->got_at = c->nulls && items == 0 ? NULL : w->got + skip;
    w->want_at = c->nulls && items == 0 ? NULL : w->want + skip;
    w->send_at = here ? MPI_IN_PLACE : c->nulls && w->in == 0 ? NULL : w->sent + skip;
}

static int root_word(const struct call *c)
{
    if (!c->comm->remote || !c->comm->left)
        return c->root;
    return gives_root(c) ? MPI_ROOT : MPI_PROC_NULL;
}

#define EITHER(name, ...) (own ? MPI_##name(__VA_ARGS__) : PMPI_##name(__VA_ARGS__))

int words_call(enum form form, const struct words *w, bool own)
{
    switch (form) {
    case ALLGATHER:
        return EITHER(Allgather, w->in, w->sent, w->send, w->out, w->n, w->recv, w->comm);
    case ALLGATHERV:
        return EITHER(Allgatherv, w->in, w->sent, w->send, w->out, w->counts, w->displs,
                      w->recv, w->comm);
    case REDUCE_SCATTER:
        return EITHER(Reduce_scatter, w->in, w->out, w->counts, w->recv, w->op, w->comm);
    case REDUCE_SCATTER_BLOCK:
        return EITHER(Reduce_scatter_block, w->in, w->out, w->n, w->recv, w->op, w->comm);
    case ALLREDUCE:
        return EITHER(Allreduce, w->in, w->out, w->n, w->recv, w->op, w->comm);
    default:
        return EITHER(Bcast, w->out, w->n, w->recv, w->root, w->comm);
    }
}

static int issue(const struct call *c, const struct work *w, bool own)
{
    struct words words = {.in = w->send_at,
                          .out = own ? w->got_at : w->want_at,
                          .sent = c->in_place ? 0 : (int)(w->in / w->send->per),
                          .n = c->count / w->recv->per,
                          .send = c->in_place ? MPI_DATATYPE_NULL : w->send->mpi,
                          .recv = w->recv->mpi,
                          .op = c->op ? c->op->mpi : MPI_OP_NULL,
                          .root = root_word(c),
                          .comm = c->comm->mpi};

    for (int i = 0; i < RANKS_MAX; i++) {
        words.counts[i] = c->counts[i] / w->recv->per;
        words.displs[i] = c->displs[i] / w->recv->per;
    }
    return words_call(c->form, &words, own);
}

/* What was received rightly is made what it was before, so that all the rest can be looked at.
 */
static void forget(const struct call *c, struct work *w, int64_t at)
{
    const struct type *y = w->recv;

    if (c->op) { /* what an operation makes of a hole inside an operand is its own matter */
        memcpy(w->got + at, w->before + at, (size_t)y->extent);
        return;
    }
    for (int b = 0; b < y->bytes; b++)
        w->got[at + y->at[b]] = w->before[at + y->at[b]];
}

static void compare(struct user *u, const struct call *c, struct work *w)
{
    const struct type *y = w->recv;
    char got[96] = "", want[96] = "";
    int64_t skip = w->got_at - w->got;

    if (w->got_at == NULL || memcmp(w->got, w->want, (size_t)w->got_bytes) == 0)
        return;
    for (int s = 0; s < w->outs; s++)
        for (int64_t i = 0; i < w->out[s].items / y->per; i++) {
            int64_t item = w->out[s].at / y->per + i, at = skip + item * y->extent;
            if (!values_same(c, y, w->got + at, w->want + at, others(c))) {
                values_print(y, w->got + at, got, sizeof(got));
                values_print(y, w->want + at, want, sizeof(want));
                call_wrong(u, c, "element %lld is %s, expected %s", (long long)item, got, want);
                return;
            }
            forget(c, w, at);
        }
    /* Of a reduce-scatter in place only the rank's own block is said to be anything. */
    if (c->in_place && (c->form == REDUCE_SCATTER || c->form == REDUCE_SCATTER_BLOCK))
        memcpy(w->got + skip, w->before + skip, (size_t)(w->in * y->extent));
    for (int64_t i = 0; i < w->got_bytes; i++)
        if (w->got[i] != w->before[i]) {
            call_wrong(u, c,
                       "byte %lld of the receive buffer, which nothing is received in, changed",
                       (long long)(i - skip));
            return;
        }
}

void call_both(struct user *u, const struct call *c)
{
    struct work w = {0};
    int rc, rc_own, class, class_own;

    if (c->comm->mpi == MPI_COMM_NULL)
        return;
    plan(c, &w);
    layouts(c, &w);
    buffers(c, &w);
    u->calls++;
    rc_own = issue(c, &w, true);
    if (memcmp(w.sent, w.kept, (size_t)w.sent_bytes) != 0)
        call_wrong(u, c, "the send buffer changed");
    memcpy(w.sent, w.kept, (size_t)w.sent_bytes);
    rc = issue(c, &w, false);
    MPI_Error_class(rc_own, &class_own);
    MPI_Error_class(rc, &class);
    if (class_own != class)
        call_wrong(u, c, "returns class %d, expected %d", class_own, class);
    else if (rc != MPI_SUCCESS)
        u->refused++;
    else
        compare(u, c, &w);
    free(w.sent);
    free(w.kept);
    free(w.got);
    free(w.want);
    free(w.before);
}
