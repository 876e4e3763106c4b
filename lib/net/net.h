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
 * Forward and backward of the decoder, unit by unit, on a CPU or a GPU: the table of kernels
 * (kern/kern.h) names the kernels, and the types of activations and parameters.  The engine
 * passes one unit's parameters (k->weight, in the unit's flat order) for as long as a visit
 * needs them; all memory except tokens and targets is the device's.  Activations lie in an
 * arena that is measured before the first step; nothing is allocated afterwards, and only
 * net_loss waits for a GPU.
 *
 *     net_init(&net, model, &options);
 *     net_place(&net, &arena);          (twice: measure, place)
 *     net_begin(&net, tokens, targets, scale);
 *     for (v = 0; v < visits; v++)      net_forward(&net, v, params_of(unit_of_visit(v)));
 *     for (v = visits - 1; v >= model->first_trained; v--)
 *         net_backward(&net, v, params, grads);
 *     net_loss(&net, &loss);            sum over the batch*seq tokens, nats, not scaled
 *
 * grads (f32, flat as the unit's trained part, unit.trained elements) is ADDED to: d(scale *
 * net_loss) / d params.  Frozen parts have no gradient and cost none; grads of a unit in which
 * nothing trains is never written and may be NULL.  The backward ends at the first tensor that
 * trains: backwards of earlier visits may be left out, and do nothing.  Targets below 0 do not
 * count.  The caller ensures that tokens and targets are below the vocabulary size, and has
 * called kern_thread_init on its thread.  Equal inputs give equal bits, wherever params and
 * grads lie.
 *
 * With recompute a layer keeps only its input, (B*T, hidden), and its backward runs its forward
 * again (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016): the same bits for
 * less memory and up to a third more time.
 *
 * Each of `together` micro-batches has its own kept arrays, tokens and backward gradient; all
 * other memory is shared.  net_use selects the micro-batch of the following visits; a layer may
 * be visited for one after the other.  The logits are shared, too: the head's backward must
 * directly follow its forward.
 *
 * compute is the type of products: k->act, or, on a CPU, bf16 with activations in f32.  In that
 * case both operands of a product are rounded first; all else is f32: sums, attention, norms,
 * biases, parameters, gradients, kept arrays.  Adapters are products like the others.
 *
 * With forward_only there is no backward and no loss, no memory for either, and the head
 * computes one token of each sequence only (net_prompt): net_logits is (B, vocab).  The output
 * of a token does not depend on later tokens, so a text can grow within one net: tokens not yet
 * known may have any value below the vocabulary size.  With a window smaller than seq, `window`
 * positions are computed at once, and all layers keep the keys and values of earlier positions.
 *
 * A layer's kernels can be recorded as a graph (dev.h) and issued in one call: the same kernels
 * and bits, in less time of the issuing thread, and with shorter gaps between kernels on the
 * GPU (tests/gpu/FIGURES.md).  The first time a layer is issued directly, as that allocates
 * memory and loads kernels.  Embedding and head are no graphs: they depend on the tokens.  A
 * layer that cannot be recorded is issued directly from then on (net_graphs_report).
 */
struct net_options {
    struct kern *kern; /* borrowed; keeps the last loss, so only one net may use it */
    int batch, seq;    /* B, T */
    int recompute;
    int together; /* micro-batches whose activations are kept at the same time; 0 means 1 */
    enum dtype compute; /* DTYPE_F32 or DTYPE_BF16 */
    int forward_only;
    int window; /* forward_only, B 1, on a CPU: positions at once; 0 means seq */
    int graphs; /* GPU: layers are issued as graphs */
    /* (B,T), borrowed, filled before net_begin: the position at which each token's document
       begins.  A token then attends to its own document only, and learned positions restart
       there; rotary ones need not, for only their differences matter.  NULL: a sequence is one
       document.  Not with graphs, which hold the bounds of one micro-batch, or forward_only. */
    const int32_t *begins;
    /* number of different (params, grads) addresses of a layer that get graphs; further ones
       get none; 0 means 1 */
    int places;
};

/* Counts since net_init. */
struct net_graphs_report {
    int64_t written, runs;
    const char *refused; /* why no more are recorded; "": no reason */
};

struct net {
    const struct model *model; /* borrowed */
    struct net_options options;
    int64_t rows; /* B*T, or the window's positions */
    float scale;
    /* forward_only: first position of the window; position whose logits are computed */
    int from, last;
    struct net_buffers *buffers; /* owned */
};

/*
 * Initializes; model is borrowed until net_release.  ERR_INPUT if the model's family cannot be
 * computed or seq exceeds its maximum; ERR_ABSENT if the device has no products in the type, or
 * no attention for heads of that size.
 */
int net_init(struct net *net, const struct model *model, const struct net_options *options,
             struct err *err);
void net_place(struct net *net, struct arena *arena);
void net_release(struct net *net);
/* Selects the micro-batch of the following calls, 0 .. together - 1; net_place selects the
   first. */
void net_use(struct net *net, int micro);
/* tokens, targets: (B,T), host memory, valid until net_loss has returned or the backward is
   done; scale 0: no backward will follow. */
void net_begin(struct net *net, const int32_t *tokens, const int32_t *targets, float scale);
/*
 * Replaces net_begin with forward_only: tokens (B,T), of which the first `length` (1 <= length
 * <= T) are the prompt.  Tokens before `from` were computed by this net, with the same values.
 * The window begins at `from`, or earlier if it would pass T, and must include length - 1,
 * whose logits are computed.
 */
void net_prompt(struct net *net, const int32_t *tokens, int from, int length);
void net_forward(struct net *net, int visit, const void *params);
void net_backward(struct net *net, int visit, const void *params, float *grads);
/* Any time after the head's forward: waits for that, not for later work. */
int net_loss(struct net *net, double *loss, struct err *err);
/* Bytes that net_place takes, for options that net_init accepts; a kern of kern_kind_open
   suffices. */
struct net_bytes {
    int64_t arrays;
    /* bytes that its kernels need of the table's own buffer (kern_kind_work_bytes) */
    int64_t work;
};
struct net_bytes net_bytes(const struct model *model, const struct net_options *options);
/*
 * Operations of one forward and backward, matrix products only, as model_flops_per_token counts
 * them: causal attention counts as the whole square, although blocks above the diagonal are
 * skipped.  Only useful operations count: a recomputed forward adds nothing.  A line of R rows
 * counts 2 R in out for y, for dx if an earlier tensor trains, and for dW if the line itself
 * trains; if all of a model trains, three times the forward.
 */
double net_flops(const struct net *net);
/*
 * Logits of the last forward, k->act, (B*T, vocab), forward_only (B, vocab); rows are
 * net_logits_ld elements apart (on a CPU vocab).  Valid with forward_only or scale 0: otherwise
 * their gradients have already overwritten them.
 */
const void *net_logits(const struct net *net);
int64_t net_logits_ld(const struct net *net);

/* Names the kernels of attention. */
const char *net_attention_by(const struct net *net);
/* Largest share of active entries of a sparse weight at which products use only those; above
   it, weights are expanded and products dense; 0: always dense. */
double net_sparse_share(const struct model *m, enum dtype compute);
struct net_graphs_report net_graphs_said(const struct net *net);

#endif
