/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times the engine's step (step_bench PLAN DEVICE STEPS [never|always]) on random tokens from
 * random weights, whatever else a run does left out (data, log, checkpoints); layers launched
 * kernel by kernel, or as graphs.  Rank 0 prints one JSON object: the median step, tokens a
 * second, operations a second, bytes.  The first three steps are not counted.
 */
#include "base/rng.h"
#include "base/stats.h"
#include "engine/engine.h"
#include "../unit/plain_fixture.h"

enum { WARM = 3, STEPS_MAX = 1000 };

struct bench {
    struct world *world;
    struct plan plan;
    struct device *device;
};

static void die(const struct err *why)
{
    fprintf(stderr, "step_bench: %s\n", why->text);
    exit(2);
}

/* Other tokens for every rank, the same in every step: the loss goes down if all is well. */
static void batch(void *arg, int micro, int32_t *tokens, int32_t *targets)
{
    const struct bench *b = arg;
    const struct plan *p = &b->plan;
    int n = p->micro_batch * p->seq;

    for (int i = 0; i < n; i++)
        tokens[i] = (int32_t)(rng_u64(7, (uint64_t)(micro * b->world->ranks + b->world->rank),
                                      (uint64_t)i) %
                              (uint64_t)p->model.vocab);
    for (int i = 0; i < n; i++)
        targets[i] = tokens[(i + 1) % n];
}

/* Values of the model's spread, uniform: made faster than its own. */
static int values(void *arg, int unit, int state, struct range r, float *out, struct err *why)
{
    const struct model *m = &((const struct bench *)arg)->plan.model;
    uint64_t x = 0x9e3779b97f4a7c15u * (uint64_t)(unit + 1);
    int t = m->unit[unit].first;

    (void)state, (void)why;
    for (int64_t at = r.lo; at < r.hi; at++) {
        while (at >= m->tensor[t].offset + m->tensor[t].elems)
            t++;
        const struct model_tensor *tensor = &m->tensor[t];
        uint64_t z = (x + (uint64_t)at) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 29) * 0x94d049bb133111ebu;
        double u = (double)(z >> 40) * 0x1p-24 - 0.5; /* variance 1/12 */
        *out++ = (float)(tensor->init_mean + tensor->init_std * 3.4641016 * u);
    }
    return 0;
}

static void run(struct bench *b, struct engine *e, int steps)
{
    static double step_s[STEPS_MAX];
    struct engine_report r = {0};
    double first_loss = 0, first_norm = 0;

    for (int i = 0; i < steps + WARM; i++) {
        struct engine_optim o = LIST(.lr = 3e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8,
                                     .decay = 0.1, .clip = 1, .step = i + 1);
        if (engine_step(e, batch, b, &o, &r, &err))
            die(&err);
        if (i == 0)
            first_loss = r.loss, first_norm = r.grad_norm;
        if (i >= WARM)
            step_s[i - WARM] = r.step_s;
    }
    if (b->world->rank > 0)
        return;
    double s = stats_median(step_s, steps);
    printf("{\"device\": \"%s\", \"batch\": %d, \"seq\": %d, \"ranks\": %d, \"step_s\": %.6f, "
           "\"tokens_per_s\": %.1f, \"flops_rank\": %.4e, \"first_loss\": %.6f, "
           "\"first_norm\": %.6f, \"loss\": %.6f, \"state_bytes\": %" PRId64
           ", \"buffer_bytes\": %" PRId64 "}\n",
           device_name(b->device), b->plan.micro_batch, b->plan.seq, b->world->ranks, s,
           (double)r.tokens / s, r.flops / s, first_loss, first_norm, r.loss,
           engine_state_bytes(e), engine_buffer_bytes(e));
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct engine *e = NULL;
    int never = argc == 5 && strcmp(argv[4], "never") == 0;

    if (argc < 4 || argc > 5 || atoi(argv[3]) < 1 || atoi(argv[3]) > STEPS_MAX) {
        fprintf(stderr, "usage: step_bench PLAN DEVICE STEPS [never|always]\n");
        return 2;
    }
    if (world_open(&b.world, &err) || plan_read(&b.plan, argv[1], &err) ||
        device_open(&b.device, argv[2], b.world->node_rank, &err))
        die(&err);
    struct engine_options options = {.device = b.device, .graphs = !never};
    if (engine_open(&e, b.world, &b.plan, &options, &err) ||
        engine_load(e, &(struct engine_source){values, NULL, &b}, 0, &err))
        die(&err);
    run(&b, e, atoi(argv[3]));
    engine_close(e);
    plan_release(&b.plan);
    device_close(b.device);
    world_close(b.world);
    return 0;
}
