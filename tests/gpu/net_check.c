/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks loss, logits and gradients of small networks on a device (net_check DEVICE
 * [quick|refused]) beside the processor's in f32 (which net_test holds against Hugging Face and
 * central differences), from the same parameters, in TAP; the same bits from a second run, and
 * from graphs; refused: from graphs that cannot be written down.
 */
#include "net/net.h"
#include "../unit/net_noise_fixture.h"
#include "../unit/plain_fixture.h"

enum { LAYERS = 2, BATCH = 2, SEQ = 37, VOCAB = 101, ROWS = BATCH * SEQ, UNITS = LAYERS + 2 };

struct side {
    struct device *device;
    struct device_queue *queue;
    struct kern kern;
    struct net net;
    void *slot, *params[UNITS];
    double *wide[UNITS]; /* params */
    float *grads[UNITS];
};

static int tests, failures, refused;
static const int32_t *documents; /* net_options.begins */

static void bail(const struct err *why)
{
    printf("Bail out! %s\n", why->text);
    exit(1);
}

static void ok(int good, const char *name, const char *what, double error, double bound)
{
    failures += !good;
    printf("%s %d - %s: %s: %.2e, bound %.1e\n", good ? "ok" : "not ok", ++tests, name, what,
           error, bound);
    fflush(stdout);
}

static void *taken(struct side *s, int64_t bytes)
{
    void *p;

    if (device_alloc(s->device, bytes + 1, "net_check", &p, &err))
        bail(&err);
    return p;
}

/* Parameters are rounded to `seen` on either side: only the arithmetic differs. */
static void fill(struct side *s, const struct model *m, enum dtype seen)
{
    for (int u = 0; u < m->units; u++) {
        int64_t n = m->unit[u].elems, size = dtype_bytes(s->kern.weight);
        float *x = mem_new((size_t)n, sizeof *x);
        char *half = mem_new((size_t)n, 4), *out = mem_new((size_t)n, 4);

        for (int i = 0; i < m->tensors; i++) {
            const struct model_tensor *t = &m->tensor[i];
            int flat = t->kind == MODEL_VECTOR; /* norms and biases */
            for (int64_t j = 0; t->unit == u && j < t->elems; j++)
                x[t->offset + j] =
                    (float)((flat ? 0.5 : 0) +
                            0.15 * rng_normal(7, rng_stream(t->name), (uint64_t)j));
        }
        dtype_convert(half, seen, x, DTYPE_F32, n);
        dtype_convert(out, s->kern.weight, half, seen, n);
        s->wide[u] = mem_new((size_t)n, sizeof **s->wide);
        dtype_convert(s->wide[u], DTYPE_F64, half, seen, n);
        s->params[u] = taken(s, n * size);
        s->grads[u] = taken(s, n * 4);
        device_copy(s->queue, s->params[u], out, n * size);
        mem_free(x), mem_free(half), mem_free(out);
    }
}

static void open_side(struct side *s, const char *device, const struct model *m,
                      enum dtype type, int recompute, int graphs)
{
    struct arena arena = {0};

    *s = (struct side){0};
    if (device_open(&s->device, device, 0, &err) ||
        device_queue_open(s->device, &s->queue, &err) ||
        kern_open(&s->kern, s->device, s->queue, type, type, &err))
        bail(&err);
    struct net_options o =
        LIST(.kern = &s->kern, .batch = BATCH, .seq = SEQ, .recompute = recompute,
             .compute = s->kern.act, .graphs = graphs, .begins = documents, .places = 2);
    if (net_init(&s->net, m, &o, &err))
        bail(&err);
    net_place(&s->net, &arena);
    s->slot = taken(s, arena.used);
    arena_borrow(&arena, s->slot, arena.used);
    arena.used = 0;
    net_place(&s->net, &arena);
    fill(s, m, type);
}

static void close_side(struct side *s, const struct model *m)
{
    net_release(&s->net);
    for (int u = 0; u < m->units; u++) {
        device_free(s->device, s->params[u]);
        device_free(s->device, s->grads[u]);
        mem_free(s->wide[u]);
    }
    device_free(s->device, s->slot);
    kern_close(&s->kern);
    device_queue_close(s->queue);
    device_close(s->device);
}

static void draw_text(int32_t tokens[ROWS + 1], int32_t targets[ROWS])
{
    for (int i = 0; i <= ROWS; i++)
        tokens[i] = (int32_t)(rng_u64(3, 1, (uint64_t)i) % VOCAB);
    memcpy(targets, tokens + 1, ROWS * sizeof *targets);
    targets[5] = -100;
}

/* The loss is asked for last, when the backward is on its way. */
static double run(struct side *s, float scale)
{
    const struct model *m = s->net.model;
    int32_t tokens[ROWS + 1], targets[ROWS];
    double loss;

    draw_text(tokens, targets);
    for (int u = 0; u < m->units; u++)
        device_zero(s->queue, s->grads[u], m->unit[u].elems * 4);
    net_begin(&s->net, tokens, targets, scale);
    for (int v = 0; v < m->visits; v++)
        net_forward(&s->net, v, s->params[model_unit_of_visit(m, v)]);
    for (int v = m->visits - 1; scale != 0 && v >= m->first_trained; v--)
        net_backward(&s->net, v, s->params[model_unit_of_visit(m, v)],
                     s->grads[model_unit_of_visit(m, v)]);
    if (net_loss(&s->net, &loss, &err) || device_sync(s->queue, &err))
        bail(&err);
    return loss;
}

static float *fetched(struct side *s, const void *from, int64_t n)
{
    float *x = mem_new((size_t)n, sizeof *x);

    device_copy(s->queue, x, from, n * 4);
    if (device_sync(s->queue, &err))
        bail(&err);
    return x;
}

/* The norm of `want` in *norm. */
static double norm_off(const float *got, const float *want, int64_t n, double *norm)
{
    double off = 0, all = 0;

    for (int64_t i = 0; i < n; i++) {
        double d = (double)got[i] - (double)want[i];

        off += d * d;
        all += (double)want[i] * (double)want[i];
    }
    *norm = sqrt(all);
    return sqrt(off);
}

static void compare_logits(struct side *a, struct side *b, const char *name, double bound)
{
    int64_t ld = net_logits_ld(&a->net), size = dtype_bytes(a->kern.act);
    const float *want = net_logits(&b->net);
    char *raw = mem_new((size_t)(ROWS * ld), (size_t)size);
    float row[VOCAB];
    double worst = 0, norm;

    device_copy(a->queue, raw, net_logits(&a->net), ROWS * ld * size);
    if (device_sync(a->queue, &err))
        bail(&err);
    for (int r = 0; r < ROWS; r++) {
        dtype_convert(row, DTYPE_F32, raw + r * ld * size, a->kern.act, VOCAB);
        double error = norm_off(row, want + r * VOCAB, VOCAB, &norm) / norm;
        worst = error > worst || isnan(error) ? error : worst;
    }
    ok(worst <= bound, name, "logits", worst, bound);
    mem_free(raw);
}

/* Relative to the norm, or, of a gradient that is small because much cancels in it (of a key's
 * bias, which shifts all scores of a query alike), to that of what cancels: noise, as in the
 * units (net_bound_fixture.h), where it is needed. */
static void compare_gradients(struct side *a, struct side *b, const struct model *m,
                              const char *name, double bound)
{
    int32_t tokens[ROWS + 1], targets[ROWS];
    const struct net_ref_run ref = {m, b->wide, tokens, targets, BATCH, SEQ};

    draw_text(tokens, targets);
    for (int i = 0; i < m->tensors; i++) {
        const struct model_tensor *t = &m->tensor[i];

        if (!model_trains(m, t))
            continue;
        float *got = fetched(a, a->grads[t->unit] + t->offset, t->elems);
        float *want = fetched(b, b->grads[t->unit] + t->offset, t->elems);
        double norm, off = norm_off(got, want, t->elems, &norm);
        if (!(off <= bound * norm) && !documents) /* which the reference does not have */
            norm = fmax(norm, net_ref_slope_noise(&ref, t) / ROWS);
        double error = off / norm;

        ok(error <= bound, name, t->name, error, bound);
        mem_free(got), mem_free(want);
    }
}

/* How many gradients, and the loss, have other bits than those of `a`, which ran before. */
static int other_bits(struct side *a, struct side *g, double loss, double loss_g)
{
    const struct model *m = a->net.model;
    int bad = loss != loss_g;

    for (int u = 0; u < m->units; u++) {
        int64_t n = m->unit[u].trained;
        float *x = fetched(a, a->grads[u], n), *y = fetched(g, g->grads[u], n);
        bad += memcmp(x, y, (size_t)n * sizeof *x) != 0;
        mem_free(x), mem_free(y);
    }
    return bad;
}

/* The first layer's parameters come from two places in turn, then from a third, for which there
 * is no room; so the layers' first two runs are direct, one writes down, and the third place is
 * direct for ever.  What `a` keeps of its last run is what each must give. */
static void as_graphs(struct side *a, const char *device, const char *label, enum dtype type,
                      int recompute)
{
    const struct model *m = a->net.model;
    int64_t bytes = m->unit[1].elems * dtype_bytes(a->kern.weight), all = 0;
    double loss = run(a, 1.0f / ROWS);
    void *place[3];
    struct side g;

    open_side(&g, device, m, type, recompute, 1);
    for (int i = 0; i < 3; i++) {
        place[i] = i ? taken(&g, bytes) : g.params[1];
        device_copy(g.queue, place[i], g.params[1], bytes);
    }
    for (int i = 0; i < 7; i++) {
        g.params[1] = place[i < 6 ? i % 2 : 2];
        double loss_g = run(&g, 1.0f / ROWS);
        int bad = other_bits(a, &g, loss, loss_g);
        ok(bad == 0, label, "the bits of graphs", bad, 0);
    }
    g.params[1] = place[0];
    struct net_graphs_report r = net_graphs_said(&g.net);
    for (int v = 1; v <= LAYERS; v++) /* forward and, where it is reached, back */
        all += (v == 1 ? 2 : 1) * (1 + (v >= m->first_trained));
    ok(refused ? r.refused[0] && r.written < all : !r.refused[0] && r.written == all, label,
       r.refused[0] ? r.refused : "graphs, and none refused", (double)r.written, (double)all);
    g.kern.bytes++; /* as if room of the kernels' own had grown: graphs name the old one */
    for (int i = 0; i < 2; i++) {
        double loss_g = run(&g, 1.0f / ROWS);
        int bad = other_bits(a, &g, loss, loss_g);
        int64_t more = net_graphs_said(&g.net).written - r.written;
        ok(bad == 0 && (refused || (more > 0) == i), label, "anew when rooms grow", bad, 0);
    }
    device_free(g.device, place[1]);
    device_free(g.device, place[2]);
    close_side(&g, m);
}

/* f32: sums in another order, 2^-24 sqrt(n) of each product of n <= 101, through 2 (4 LAYERS +
 * 1) of them are 1.1e-5; three times that for what a norm and a softmax magnify.  bf16: 2^-9 =
 * U of each rounding; a layer has four products, whose two operands were rounded, and four
 * other kernels between them that round what they leave, forward and backward: 24 U, the head 6
 * U.  Together 54 U, in one direction. */
static void check(const char *device, const char *name, const char *config, const char *train,
                  enum dtype type, int recompute)
{
    double bound = type == DTYPE_F32 ? 3e-5 : (24 * LAYERS + 6) * 0x1p-9, loss[2], again;
    struct side a, b;
    struct model m;
    char label[160];

    if (model_parse(&m, "check", config, (int64_t)strlen(config), &err) ||
        model_train(&m, train, &err))
        bail(&err);
    snprintf(label, sizeof label, "%s %s%s%s in %s", name, train, recompute ? " again" : "",
             documents ? " of documents" : "", dtype_name(type));
    open_side(&a, device, &m, type, recompute, 0);
    open_side(&b, "cpu", &m, type, 0, 0);
    loss[0] = run(&a, 0), loss[1] = run(&b, 0);
    ok(fabs(loss[0] / loss[1] - 1) <= bound, label, "loss", fabs(loss[0] / loss[1] - 1), bound);
    compare_logits(&a, &b, label, bound);
    loss[0] = run(&a, 1.0f / ROWS), loss[1] = run(&b, 1.0f / ROWS);
    compare_gradients(&a, &b, &m, label, bound);
    int64_t n = m.unit[1].trained;
    float *first = fetched(&a, a.grads[1], n);
    again = run(&a, 1.0f / ROWS);
    float *second = fetched(&a, a.grads[1], n);
    ok(again == loss[0] && memcmp(first, second, (size_t)n * sizeof *first) == 0, label,
       "the same bits twice", fabs(again - loss[0]), 0);
    mem_free(first), mem_free(second);
    if (!documents) /* which graphs do not have */
        as_graphs(&a, device, label, type, recompute);
    close_side(&a, &m);
    close_side(&b, &m);
    model_release(&m);
}

#define SIZES "\"vocab_size\":101,"
#define LIKE_LLAMA(type)                                                                       \
    "{\"model_type\":\"" type "\"," SIZES "\"hidden_size\":64,\"intermediate_size\":96,"       \
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"max_position_embeddings\":64,"
#define PAIRED "\"num_key_value_heads\":2," /* two queries a key */
#define LLAMA  LIKE_LLAMA("llama") PAIRED
static const char llama[] = LLAMA "\"tie_word_embeddings\":false}";
static const char tied[] =
    LLAMA "\"tie_word_embeddings\":true,\"attention_bias\":true,\"mlp_bias\":true}";
static const char qwen3[] =
    LIKE_LLAMA("qwen3") PAIRED "\"head_dim\":24,\"tie_word_embeddings\":true}";
static const char smollm3[] = LIKE_LLAMA("smollm3") "\"no_rope_layers\":[1,0]}";
static const char phi3[] = LIKE_LLAMA("phi3") PAIRED "\"partial_rotary_factor\":0.75}";
static const char gemma3[] =
    LIKE_LLAMA("gemma3_text") PAIRED "\"head_dim\":24,\"query_pre_attn_scalar\":24,"
                                     "\"sliding_window_pattern\":2}";
static const char gpt2[] = "{\"model_type\":\"gpt2\"," SIZES
                           "\"n_embd\":64,\"n_layer\":2,\"n_head\":4,\"n_positions\":64}";

/* Documents of 1, 2, 5, 16 and 13 tokens, and a long one; heads of 64 have other kernels in
   bf16. */
static void check_documents(const char *device, int quick)
{
    static const int32_t first[] = {0, 1, 3, 8, 24};
    static const char wide[] = LLAMA "\"tie_word_embeddings\":true,\"head_dim\":64}";
    int32_t begins[ROWS] = {0};

    for (int i = 0, doc = 0; i < SEQ; i++) {
        doc += doc < 4 && first[doc + 1] == i;
        begins[i] = first[doc];
    }
    documents = begins;
    for (int i = 0; i < 2; i++) {
        enum dtype type = i ? DTYPE_BF16 : DTYPE_F32;

        check(device, "gpt2", gpt2, "all", type, 0);
        if (!quick)
            check(device, "qwen3", qwen3, "all", type, 1);
        check(device, "heads of 64", wide, "all", type, 0);
    }
    documents = NULL;
}

int main(int argc, char **argv)
{
    int quick = argc > 2 && strcmp(argv[2], "quick") == 0;

    refused = argc > 2 && strcmp(argv[2], "refused") == 0;
    if (argc < 2)
        bail(&(struct err){.text = "usage: net_check DEVICE [quick|refused]"});
    kern_thread_init();
    for (int i = 0; i < 2; i++) {
        enum dtype type = i ? DTYPE_BF16 : DTYPE_F32;

        check(argv[1], "llama", llama, "all", type, 0);
        check(argv[1], "gpt2", gpt2, "all", type, 1);
        check(argv[1], "qwen3", qwen3, "all", type, 1);
        check(argv[1], "smollm3", smollm3, "all", type, 1);
        check(argv[1], "phi3", phi3, "all", type, 0);
        check(argv[1], "gemma3", gemma3, "all", type, 1);
        if (quick)
            continue;
        check(argv[1], "llama", llama, "train=*.1.self_attn.v_proj*", type, 0);
        check(argv[1], "llama", llama, "lora=3", type, 1);
        check(argv[1], "llama with biases", tied, "all", type, 0);
        check(argv[1], "qwen3", qwen3, "train=*.1.self_attn.q_norm*", type, 0);
        check(argv[1], "gpt2", gpt2, "lora=3", type, 0);
        check(argv[1], "phi3", phi3, "lora=3", type, 1);
        check(argv[1], "gpt2", gpt2, "freeze=*.h.0.*", type, 0);
    }
    if (!refused)
        check_documents(argv[1], quick);
    printf("1..%d\n", tests);
    return failures > 0;
}
