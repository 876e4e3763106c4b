/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NET_NET_H
#define NET_NET_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"
#include "base/mem.h"
#include "kern/kern.h"
#include "model/model.h"

/*
 * Forward and backward of the decoder, unit by unit, on a processor or a GPU: the table of
 * kernels (kern/kern.h) says which, and in what type activations are kept and parameters come.
 * The engine hands in one unit's parameters (k->weight, in the unit's flat order) for as long
 * as a visit needs them; all memory but tokens and targets is the device's.  Activations lie in
 * an arena measured before the first step; nothing is allocated afterwards, and nothing waits
 * for a GPU but net_loss.
 *
 *     net_init(&net, model, &options);
 *     net_place(&net, &arena);          (twice: measure, place)
 *     net_begin(&net, tokens, targets, scale);
 *     for (v = 0; v < visits; v++)      net_forward(&net, v, params_of(unit_of_visit(v)));
 *     for (v = visits - 1; v >= model->first_trained; v--)
 *         net_backward(&net, v, params, grads);
 *     net_loss(&net, &loss);            sum over the batch*seq tokens, nats, not scaled
 *
 * grads (f32, flat as the unit's trained part, unit.trained elements) is ADDED to:
 * d(scale * net_loss) / d params.  Frozen parts have no gradient and cost none; grads of a
 * unit in which nothing trains is never written and may be NULL.  The backward ends at the
 * first tensor that trains: earlier visits may be left out, or do nothing.  A target below 0
 * counts nothing.  Tokens and targets are below the vocabulary: to see to that is the caller's.
 * The thread that calls has called kern_thread_init.  Equal inputs give equal bits, wherever
 * params and grads lie.
 *
 * With recompute a layer keeps only what enters it, (B*T, hidden), and its backward runs its
 * forward again (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016): the same
 * bits for less memory and up to a third more time.
 *
 * Each of `together` micro-batches has its own kept arrays, its tokens and the gradient that
 * comes back; all else is shared.  net_use says whose visits follow; a layer may be visited for
 * one after the other.  The logits are shared, too: the head's backward follows its forward.
 *
 * compute is the type of products: k->act, or, on a processor, bf16 beside activations in f32.
 * Then a weight and what it is multiplied with are rounded before the product; all else is f32:
 * sums, attention, norms, biases, parameters, gradients, what is kept.  Adapters are products
 * like the others.
 *
 * With forward_only there is no backward and no loss, no memory for either, and the head sees
 * one token of each sequence alone (net_prompt): net_logits is (B, vocab).  The output of a
 * token does not depend on those after it, so that a text grows within one net: those not yet
 * known may be any, below the vocabulary.  With a window smaller than seq so many positions are
 * computed at once, and all layers keep the keys and values of those computed before.
 *
 * A layer's kernels can be written down as a graph (dev.h) and be asked for in one call: the
 * same kernels, the same bits, less time for the thread that asks, and less of the GPU's
 * between two kernels (tests/gpu/FIGURES.md).  The first time a layer is asked for directly,
 * for there memory is had and kernels are loaded.  Embedding and head are no graphs: they
 * depend on the tokens.  A layer that cannot be written down is asked for directly from then on
 * (net_graphs_report).
 */
struct net_options {
    struct kern *kern; /* borrowed; its last loss is one net's */
    int batch, seq;    /* B, T */
    int recompute;
    int together;       /* micro-batches whose activations are kept at once; 0 is 1 */
    enum dtype compute; /* DTYPE_F32 or DTYPE_BF16 */
    int forward_only;
    int window; /* forward_only, B 1, on a processor: positions at once; 0 is seq */
    int graphs; /* of a GPU: layers are asked for as graphs */
    /* (B,T), borrowed, filled before net_begin: the position at which the document of each
       token begins.  Then a token attends to its own document alone, and learned positions
       begin with it; rotary ones need not, for only their differences matter.  NULL: a
       sequence is one document.  Not with graphs, which hold the bounds of one micro-batch, or
       forward_only. */
    const int32_t *begins;
    int places; /* that a layer's params and grads come from, together; of more, some have no
                   graphs; 0 is 1 */
};

/* Since net_init. */
struct net_graphs_report {
    int64_t written, runs;
    const char *refused; /* why there are no more; "": they may be */
};

struct net {
    const struct model *model; /* borrowed */
    struct net_options options;
    int64_t rows; /* B*T, or the window's */
    float scale;
    int from, last;              /* forward_only: where the window begins; whose logits */
    struct net_buffers *buffers; /* owned */
};

/*
 * ERR_INPUT when the model's family cannot be computed or seq exceeds its maximum; ERR_ABSENT
 * where the device has no products in the type, or no attention for heads of that size.
 */
int net_init(struct net *net, const struct model *model, const struct net_options *options,
             struct err *err);
void net_place(struct net *net, struct arena *arena);
void net_release(struct net *net);
/* Selects the micro-batch of the following calls, 0 .. together - 1; after net_place the
   first. */
void net_use(struct net *net, int micro);
/* tokens, targets (B,T) of the host, there until net_loss has returned or the backward is done;
   scale 0: no backward will follow. */
void net_begin(struct net *net, const int32_t *tokens, const int32_t *targets, float scale);
/*
 * Instead, with forward_only: tokens (B,T), of which 1 <= length <= T make up the prompt. Those
 * before `from` were computed in this net, as they are now; the window begins there, or before,
 * where it would pass T, and goes past length - 1, whose logits are wanted.
 */
void net_prompt(struct net *net, const int32_t *tokens, int from, int length);
void net_forward(struct net *net, int visit, const void *params);
void net_backward(struct net *net, int visit, const void *params, float *grads);
/* Any time after the head's forward: waits for that, not for what was asked for after it. */
int net_loss(struct net *net, double *loss, struct err *err);
/* Bytes that net_place takes, under options that net_init accepts; a kern of kern_kind_open
   suffices. */
struct net_bytes {
    int64_t arrays;
    int64_t work; /* that its kernels want of the table's own room (kern_kind_work_bytes) */
};
struct net_bytes net_bytes(const struct model *model, const struct net_options *options);
/*
 * Operations of one forward and backward, matrix products alone, as model_flops_per_token
 * counts: of causal attention the whole square, although blocks above the diagonal are skipped.
 * Only useful operations count: a forward that is run again is no progress and adds nothing.  A
 * line of R rows counts 2 R in out each for y, for dx where something before it trains, and for
 * dW where it trains itself; where all of a model trains, three times the forward.
 */
double net_flops(const struct net *net);
/*
 * Logits of the last forward, k->act, (B*T, vocab), forward_only (B, vocab), rows net_logits_ld
 * elements apart (on a processor vocab).  Only of forward_only and scale 0: else their
 * gradients take their place at once.
 */
const void *net_logits(const struct net *net);
int64_t net_logits_ld(const struct net *net);

/* Whose kernels do attention, in words. */
const char *net_attention_by(const struct net *net);
/* Share of the entries of a sparse weight: while no more are active, products go by their
   places, else they are dense ones, of weights made whole; 0: always. */
double net_sparse_share(const struct model *m, enum dtype compute);
struct net_graphs_report net_graphs_said(const struct net *net);

#endif
