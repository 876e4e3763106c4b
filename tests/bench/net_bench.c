/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The decoder's rate on one core beside oneDNN's sgemm on a large square, alternated, best of
 * several, in processor seconds.  GFLOP/s counts matrix products as net_flops does; the second
 * figure leaves out the attention's blocks above the diagonal, which are not computed.
 *
 *     make build/bench/net_bench
 *     build/bench/net_bench 256 8 256 4
 *     build/bench/net_bench 384 7 256 4 256 6 6 bf16  products in bf16; the ratio is to f32's
 *     build/bench/net_bench 384 7 256 4 256 6 0     0 heads of keys: GPT-2's layer, not Llama's
 *     build/bench/net_bench 256 8 256 4 256 4 4 f32 0 lora=8   what trains
 */
#include "base/tick.h"
#include "../unit/cpu_fixture.h"
#include "net/net.h"

enum { SQUARE = 1024, ROUNDS = 7 };

static double sgemm_s(float *x)
{
    int64_t n = SQUARE;
    double start = tick_cpu_s();

    kern_gemm('N', 'T', n, n, n, 1, x, n, x + n * n, n, 0, x + 2 * n * n, n);
    return tick_cpu_s() - start;
}

static double step_s(struct net *net, const int32_t *tokens, float **params, float **grads)
{
    const struct model *m = net->model;
    double start = tick_cpu_s();

    net_begin(net, tokens, tokens + 1, 1);
    for (int v = 0; v < m->visits; v++)
        net_forward(net, v, params[model_unit_of_visit(m, v)]);
    for (int v = m->visits - 1; v >= m->first_trained; v--)
        net_backward(net, v, params[model_unit_of_visit(m, v)],
                     grads[model_unit_of_visit(m, v)]);
    return tick_cpu_s() - start;
}

static float **units_new(const struct model *m, int fill)
{
    float **unit = mem_new((size_t)m->units, sizeof *unit);

    for (int i = 0; i < m->tensors; i++) {
        const struct model_tensor *t = &m->tensor[i];

        if (!unit[t->unit])
            unit[t->unit] = mem_new((size_t)m->unit[t->unit].elems, sizeof(float));
        if (fill)
            model_init_values(t, 1, 0, t->elems, unit[t->unit] + t->offset);
    }
    return unit;
}

static void config(char *text, size_t size, int hidden, int layers, int vocab, int heads,
                   int kv)
{
    if (kv)
        snprintf(text, size,
                 "{\"model_type\":\"llama\",\"vocab_size\":%d,\"hidden_size\":%d,"
                 "\"intermediate_size\":%d,\"num_hidden_layers\":%d,\"num_attention_heads\":%d,"
                 "\"num_key_value_heads\":%d,\"max_position_embeddings\":8192}",
                 vocab, hidden, hidden * 8 / 3 / 16 * 16, layers, heads, kv);
    else
        snprintf(text, size,
                 "{\"model_type\":\"gpt2\",\"vocab_size\":%d,\"n_embd\":%d,\"n_layer\":%d,"
                 "\"n_head\":%d,\"n_positions\":8192}",
                 vocab, hidden, layers, heads);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: net_bench HIDDEN LAYERS SEQ BATCH "
                        "[VOCAB [HEADS [KV_HEADS [f32|bf16 [RECOMPUTE [TRAIN]]]]]]\n");
        return 2;
    }
    int hidden = atoi(argv[1]), layers = atoi(argv[2]), seq = atoi(argv[3]),
        batch = atoi(argv[4]);
    int vocab = argc > 5 ? atoi(argv[5]) : 256, heads = argc > 6 ? atoi(argv[6]) : hidden / 64;
    int kv = argc > 7 ? atoi(argv[7]) : heads;
    char text[512];
    struct model m;
    struct net net;
    struct arena arena = {0};
    struct cpu cpu;
    struct net_options options = {
        .kern = &cpu.kern, .batch = batch, .seq = seq, .recompute = argc > 9 && atoi(argv[9])};
    double best = 1e9, gemm = 1e9, square = 2.0 * SQUARE * SQUARE * SQUARE;

    config(text, sizeof text, hidden, layers, vocab, heads, kv);
    kern_thread_init();
    cpu_open(&cpu);
    if ((argc > 8 && dtype_parse(argv[8], &options.compute, &err)) ||
        model_parse(&m, "bench", text, (int64_t)strlen(text), &err) ||
        model_train(&m, argc > 10 ? argv[10] : "all", &err) ||
        net_init(&net, &m, &options, &err))
        return fprintf(stderr, "%s\n", err.text), 2;
    net_place(&net, &arena);
    if (arena_init(&arena, arena.used, "activations", &err))
        return fprintf(stderr, "%s\n", err.text), 2;
    net_place(&net, &arena);
    int32_t *tokens = mem_new((size_t)(batch * seq) + 1, sizeof *tokens);
    float *x = mem_new((size_t)3 * SQUARE * SQUARE, sizeof *x);
    float **params = units_new(&m, 1), **grads = units_new(&m, 0);
    for (int i = 0; i <= batch * seq; i++)
        tokens[i] = i * 7919 % vocab;
    for (int r = 0; r < ROUNDS; r++) {
        double s = sgemm_s(x), t = step_s(&net, tokens, params, grads);

        gemm = s < gemm ? s : gemm;
        best = t < best ? t : best;
    }
    double rows = (double)batch * seq;
    /* Above the diagonal: half of the two products of seq x seq. */
    double half = 3 * rows * 2.0 * seq * (double)(layers * m.heads * m.head_dim);
    printf("hidden %d layers %d seq %d batch %d vocab %d heads %d/%d %s: step %.1f ms, "
           "%.1f GFLOP/s (%.1f without the masked half), sgemm %.1f, ratio %.2f (%.2f)\n",
           hidden, layers, seq, batch, vocab, heads, kv, dtype_name(options.compute),
           1e3 * best, net_flops(&net) / best / 1e9, (net_flops(&net) - half) / best / 1e9,
           square / gemm / 1e9, net_flops(&net) / best / square * gemm,
           (net_flops(&net) - half) / best / square * gemm);
    return 0;
}
