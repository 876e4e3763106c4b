/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes and runs cuDNN's plans for the graphs of kern_cudnn_graph.c: chooses an engine and its
 * workspace.  Goes through the heuristics' list from the start, and uses the first engine that
 * supports the shape and promises equal bits.
 *
 *     workspace of the backward pass:  delta | dq's sums (atomic) | the engine's
 */
#include "kern/kern_cudnn.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "kern/kern_cudnn_graph.h"

enum { CONFIGS = 32, NOTES = 16, ALIGN = 256 };
/* Before 9.15.1 backward engines are wrong for keys past a sequence that is no multiple of
   128. */
enum { VERSION_LEAST = 91002, VERSION_RAGGED = 91501, RAGGED = 128 };

struct plan {
    struct graph graph;
    cudnnBackendDescriptor_t plan;
    int64_t bytes; /* workspace of the engine */
};

struct kern_cudnn {
    cudnnHandle_t handle;
    struct kern_heads heads;
    struct plan forward, backward; /* backward.plan is NULL if not requested */
    float scale, minus, one;
    int64_t delta_bytes, sum_bytes;
    char text[512];
};

static int64_t cudnn_rounded(int64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void cudnn_say(struct kern_cudnn *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void cudnn_say(struct kern_cudnn *p, const char *fmt, ...)
{
    size_t at = strlen(p->text);
    va_list list;

    va_start(list, fmt);
    vsnprintf(p->text + at, sizeof p->text - at, fmt, list);
    va_end(list);
}

/* Reads a list attribute, of at most `most` elements; -1 if that fails. */
static int64_t cudnn_read_list(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                               cudnnBackendAttributeType_t type, int64_t most, void *out)
{
    int64_t n = 0;

    if (cudnnBackendGetAttribute(d, name, type, most, &n, out) != CUDNN_STATUS_SUCCESS)
        return -1;
    return n < most ? n : most;
}

struct engine {
    int64_t index;
    int disordered; /* declares that it sums in no fixed order */
    int compiled;   /* at run time */
};

static void engine_read(struct graph *g, cudnnBackendDescriptor_t config, struct engine *out)
{
    cudnnBackendDescriptor_t engine = graph_make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendNumericalNote_t number[NOTES];
    cudnnBackendBehaviorNote_t behaviour[NOTES];
    int64_t n;

    *out = (struct engine){.index = -1};
    if (!engine || cudnn_read_list(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine) != 1)
        return;
    cudnn_read_list(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &out->index);
    n = cudnn_read_list(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                        NOTES, number);
    for (int64_t i = 0; i < n; i++)
        out->disordered |= number[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    n = cudnn_read_list(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                        NOTES, behaviour);
    for (int64_t i = 0; i < n; i++)
        out->compiled |= behaviour[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
}

/* Makes a plan with that configuration, or NULL. */
static cudnnBackendDescriptor_t try_config(struct kern_cudnn *p, struct graph *g,
                                           cudnnBackendDescriptor_t config, int64_t *bytes)
{
    cudnnBackendDescriptor_t plan = graph_make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);

    graph_tell(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &p->handle);
    graph_tell(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
               1, &config);
    graph_close(g, plan, "a plan");
    if (g->failed || cudnn_read_list(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, bytes) != 1)
        return NULL;
    return plan;
}

/* Chooses the first usable one of mode's list; 0: none, with the reason in g->err. */
static int cudnn_choose(struct kern_cudnn *p, struct plan *out, cudnnBackendDescriptor_t ops,
                        cudnnBackendHeurMode_t mode, const char *pass)
{
    struct graph *g = &out->graph;
    cudnnBackendDescriptor_t config[CONFIGS], list;
    struct engine engine;
    int64_t n = 0;

    g->failed = 0;
    list = graph_make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    graph_tell(g, list, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
               &ops);
    graph_tell(g, list, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    graph_close(g, list, "no list of engines");
    for (int i = 0; i < CONFIGS; i++)
        config[i] = graph_make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (!g->failed)
        n = cudnn_read_list(list, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                            CONFIGS, config);
    if (n < 1 && !g->failed && g->err->code == ERR_NONE)
        graph_err(g->err, CUDNN_STATUS_NOT_SUPPORTED, "no engine");
    for (int64_t i = 0; i < n; i++) {
        g->failed = 0;
        engine_read(g, config[i], &engine);
        if (engine.disordered && out == &p->forward)
            continue;
        out->plan = try_config(p, g, config[i], &out->bytes);
        if (!out->plan)
            continue;
        cudnn_say(p, ", %s: engine %" PRId64 "%s%s, %" PRId64 " bytes", pass, engine.index,
                  engine.disordered ? " in no order" : "",
                  engine.compiled ? " compiled now" : "", out->bytes);
        return 1;
    }
    return 0;
}

static int cudnn_plan_init(struct kern_cudnn *p, struct plan *out, const char *pass,
                           struct err *err)
{
    struct graph *g = &out->graph;
    cudnnBackendDescriptor_t ops;

    graph_init(g, &p->heads, err);
    if (out == &p->backward ? graph_backward(g) : graph_forward(g))
        goto fail;
    ops = graph_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph_tell(g, ops, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_ops,
               g->op);
    graph_tell(g, ops, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &p->handle);
    graph_close(g, ops, "the graph");
    if (g->failed)
        goto fail;
    *err = (struct err){0};
    if (cudnn_choose(p, out, ops, CUDNN_HEUR_MODE_A, pass) ||
        cudnn_choose(p, out, ops, CUDNN_HEUR_MODE_FALLBACK, pass)) {
        *err = (struct err){0};
        return 0;
    }
    if (err->code == ERR_NONE)
        err_set(err, ERR_ABSENT, "cuDNN: no engine for this shape that gives equal bits");
    /* Whatever error the engines reported: none is usable, and the caller must use other
       kernels. */
    err->code = ERR_ABSENT;
fail:
    return err_prefix(err, "attention, %s: ", pass);
}

int kern_cudnn_new(struct kern_cudnn **out, const struct kern_heads *s,
                   enum kern_cudnn_what what, struct err *err)
{
    struct kern_cudnn *p;
    cudnnStatus_t status;

    /* Checks the requirements of all engines first, for a clear error message. */
    size_t version = cudnnGetVersion();
    if (version < VERSION_LEAST)
        return err_set(err, ERR_ABSENT, "cuDNN is %zu, expected %d or later", version,
                       VERSION_LEAST);
    if (s->head_dim % 8 || s->heads % s->kv_heads || s->seq < 2)
        return err_set(err, ERR_ABSENT,
                       "cuDNN: heads of %" PRId64 ", %" PRId64 " over %" PRId64 ", %" PRId64
                       " tokens: expected a multiple of 8, a multiple, 2 or more",
                       s->head_dim, s->heads, s->kv_heads, s->seq);
    if (what != KERN_CUDNN_FORWARD && version < VERSION_RAGGED && s->seq % RAGGED)
        return err_set(err, ERR_ABSENT,
                       "cuDNN %zu: %" PRId64 " tokens, expected a multiple of %d", version,
                       s->seq, RAGGED);
    p = mem_new(1, sizeof *p);
    p->heads = *s;
    p->scale = (float)(1 / sqrt((double)s->head_dim));
    p->minus = -INFINITY;
    p->one = 1;
    cudnn_say(p, "cuDNN %zu", cudnnGetVersion());
    if ((status = cudnnCreate(&p->handle)) != CUDNN_STATUS_SUCCESS) {
        graph_err(err, status, "no handle");
        err->code = ERR_ABSENT;
        goto fail;
    }
    if (cudnn_plan_init(p, &p->forward, "forward", err))
        goto fail;
    if (what != KERN_CUDNN_FORWARD) {
        int64_t rows = s->batch * s->heads * s->seq;

        p->delta_bytes = cudnn_rounded(rows * 4);
        p->sum_bytes = cudnn_rounded(rows * s->head_dim * 4);
        if (cudnn_plan_init(p, &p->backward, "backward", err))
            goto fail;
    }
    *out = p;
    return 0;
fail:
    kern_cudnn_free(p);
    return -1;
}

void kern_cudnn_free(struct kern_cudnn *p)
{
    if (!p)
        return;
    graph_release(&p->backward.graph);
    graph_release(&p->forward.graph);
    if (p->handle)
        cudnnDestroy(p->handle);
    mem_free(p);
}

int64_t kern_cudnn_bytes(const struct kern_cudnn *p)
{
    int64_t forward = cudnn_rounded(p->forward.bytes);
    int64_t backward = p->delta_bytes + p->sum_bytes + cudnn_rounded(p->backward.bytes);

    return forward > backward ? forward : backward;
}

const char *kern_cudnn_text(const struct kern_cudnn *p)
{
    return p->text;
}

/* Numbers of a graph's tensors and their addresses. */
struct pack {
    int64_t name[GRAPH_NAMES];
    void *at[GRAPH_NAMES];
    int n;
};

static void cudnn_put(struct pack *k, int64_t name, const void *at)
{
    k->name[k->n] = name;
    k->at[k->n++] = (void *)at;
}

static int cudnn_run(struct kern_cudnn *p, const struct plan *plan, void *stream,
                     const struct pack *k, void *workspace, struct err *err)
{
    cudnnBackendDescriptor_t d = NULL;
    cudnnStatus_t status = cudnnSetStream(p->handle, stream);

    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &d);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                          CUDNN_TYPE_INT64, k->n, k->name);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                          CUDNN_TYPE_VOID_PTR, k->n, k->at);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(d, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                          CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendFinalize(d);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendExecute(p->handle, plan->plan, d);
    if (d)
        cudnnBackendDestroyDescriptor(d);
    return status == CUDNN_STATUS_SUCCESS ? 0 : graph_err(err, status, "attention");
}

static const void *ahead(const void *p, int64_t elems)
{
    return (const char *)p + elems * 2;
}

/* Adds queries, keys and values, or their gradients, in packed rows; `name` is the queries'. */
static void put_packed(const struct kern_cudnn *p, struct pack *k, const void *qkv,
                       int64_t name)
{
    int64_t d = p->heads.head_dim, keys = p->heads.heads * d;

    cudnn_put(k, name, qkv);
    cudnn_put(k, name + GRAPH_K - GRAPH_Q, ahead(qkv, keys));
    cudnn_put(k, name + GRAPH_V - GRAPH_Q, ahead(qkv, keys + p->heads.kv_heads * d));
}

static void put_common(struct kern_cudnn *p, struct pack *k, const void *qkv, const void *out,
                       const float *lse)
{
    put_packed(p, k, qkv, GRAPH_Q);
    cudnn_put(k, GRAPH_SCALE, &p->scale);
    cudnn_put(k, GRAPH_MINUS, &p->minus);
    cudnn_put(k, GRAPH_O, out);
    cudnn_put(k, GRAPH_LSE, lse);
}

int kern_cudnn_forward(struct kern_cudnn *p, void *stream, void *out, float *lse,
                       const void *qkv, void *workspace, struct err *err)
{
    struct pack k = {.n = 0};

    put_common(p, &k, qkv, out, lse);
    return cudnn_run(p, &p->forward, stream, &k, workspace, err);
}

int kern_cudnn_backward(struct kern_cudnn *p, void *stream, void *dqkv, const void *dout,
                        const void *out, const float *lse, const void *qkv, void *workspace,
                        struct err *err)
{
    char *sum = (char *)workspace + p->delta_bytes;
    struct pack k = {.n = 0};

    put_common(p, &k, qkv, out, lse);
    put_packed(p, &k, dqkv, GRAPH_DQ);
    cudnn_put(&k, GRAPH_ONE, &p->one);
    cudnn_put(&k, GRAPH_DO, dout);
    cudnn_put(&k, GRAPH_DELTA, workspace);
    cudnn_put(&k, GRAPH_DQ_SUM, sum);
    return cudnn_run(p, &p->backward, stream, &k, sum + p->sum_bytes, err);
}
