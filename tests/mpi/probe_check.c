/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks probes: probe_check SHAPE [DEVICE [nccl]], run under mpirun with as many ranks as
 * SHAPE has, which is laid over them whatever their hosts.  Turns of all kinds, shifts one way
 * at a time, rings through any neighbouring groups, messages: every word that arrives is the
 * one that its origin sent, and as many arrive as should; on a GPU as DEVICE names it, through
 * its memory, and its products have a rate; from GPU to GPU over NCCL.  Of two measurements of
 * a pair's latency the smaller one counts.  Prints "ok SHAPE turns N rings N" from rank 0;
 * status 1 with a line from the rank that finds otherwise.
 */
#include "base/rng.h"
#include "base/tick.h"
#include "health/health_campaign.h"
#include "probe/probe_gpu.h"
#include "probe/probe_parts.h"
#include "probe/probe.h"
#include "ranks_fixture.h"

static struct world *world;

/* Runs it twice: other words each time.  All that was to come is there, and right. */
static void run(struct probe *p, struct probe_round *r, int64_t bytes_in)
{
    struct probe_result got;

    for (int i = 0; i < 2; i++) {
        for (int64_t b = 0; b < p->space; b++)
            p->out[b] = 0;
        expect(world, probe_run(p, r, &got, &err) == 0, "runs");
        expect(world, got.wrong == 0, "words are as they were sent");
        expect(world, got.gpu_wrong[0] == 0, "words are as they were in the GPU");
        expect(world, got.gpu_wrong[1] == 0, "and are in the GPU as they arrived");
        expect(world, got.took_s > 0, "takes time");
        /* In a GPU they are counted with what lies between them, to 64 bytes each. */
        expect(world,
               probe_arrived(r) == bytes_in ||
                   (p->gpu && probe_arrived(r) > bytes_in && probe_arrived(r) <= r->in_bytes),
               "bytes arrive, no more and no less");
    }

    probe_free(r);
}

/* Between the host's memory and where the probe's is. */
static void put(struct probe *p, void *to, const void *from, int64_t bytes)
{
    if (!p->gpu) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    device_copy(p->gpu->queue, to, from, bytes);
    expect(world, device_sync(p->gpu->queue, &err) == 0, "copies");
}

/* A permutation in which some send to nobody. */
static void round_of(int groups, uint64_t number, int *to)
{
    for (int k = 0; k < groups; k++)
        to[k] = k;
    for (int k = groups - 1; k > 0; k--) {
        int with = (int)(rng_u64(1, number, (uint64_t)k) % (uint64_t)(k + 1)), kept = to[k];
        to[k] = to[with];
        to[with] = kept;
    }
    for (int k = 0; k < groups; k++)
        if (rng_u64(2, number, (uint64_t)k) % 5 == 0)
            to[k] = -1;
}

static void check_round(struct probe *p, const int *to, int64_t bytes)
{
    struct probe_flow *flow = mem_new((size_t)world->ranks * 2, sizeof *flow);
    int flows = probe_exchange(p->view.groups, to, bytes, flow);
    struct probe_round r;
    int64_t in = 0;

    for (int i = 0; i < flows; i++)
        in += flow[i].dst == world->rank ? flow[i].bytes : 0;
    expect(world, probe_prepare(p, flow, flows, &r, &err) == 0, "a turn");
    run(p, &r, in);
    mem_free(flow);
}

static int has(const struct probe_flow *flow, int flows, const struct probe_flow *one)
{
    for (int i = 0; i < flows; i++)
        if (memcmp(&flow[i], one, sizeof *one) == 0)
            return 1;
    return 0;
}

/* The parts of a shift are all of its flows, each once; in none a group sends and receives.  On
   a ring a group that receives does from both neighbours. */
static void check_parts(struct probe *p, int s, int64_t bytes)
{
    size_t most = (size_t)world->ranks * PROBE_FLOWS;
    struct probe_flow *all = mem_new(most, sizeof *all), *some = mem_new(most, sizeof *some);
    const int *group = p->view.groups->group_of;
    struct probe_round r;
    int flows = probe_shift(&p->view, s, -1, bytes, all), seen = 0;

    for (int part = 0; part < PROBE_PARTS; part++) {
        int n = probe_shift(&p->view, s, part, bytes, some);
        int64_t in = 0;
        for (int i = 0; i < n; i++) {
            int sides = 1;
            expect(world, has(all, flows, &some[i]), "a flow of the shift");
            for (int j = 0; j < n && sides == 1; j++)
                sides += group[some[j].dst] == group[some[i].dst] &&
                         group[some[j].src] != group[some[i].src];
            expect(world, sides == 1 + p->view.groups->ring, "by one or by both sides");
            in += some[i].dst == world->rank ? some[i].bytes : 0;
            for (int j = 0; j < n; j++)
                expect(world, group[some[i].src] != group[some[j].dst], "one way at a time");
        }
        seen += n;
        if (n == 0)
            continue;
        expect(world, probe_prepare(p, some, n, &r, &err) == 0, "a part of a shift");
        run(p, &r, in);
    }
    expect(world, seen == flows, "each flow of a shift in one part");
    mem_free(all);
    mem_free(some);
}

static void check_ring(struct probe *p, int first, int count, int64_t bytes)
{
    const struct groups *g = p->view.groups;
    int k = g->group_of[world->rank], rails = g->members[first];
    struct probe_round r;

    for (int i = first; i < first + count; i++)
        rails = g->members[i] < rails ? g->members[i] : rails;
    int in = k >= first && k < first + count && g->local_of[world->rank] < rails;
    expect(world, probe_ring(p, first, count, bytes, &r, &err) == 0, "a ring");
    run(p, &r, in ? (count - 1) * bytes : 0);
}

/* Neighbours in pairs, 0 and 1, 2 and 3: the second has afterwards what the first had. */
static void check_message(struct probe *p, int64_t bytes)
{
    struct probe_flow *pair = mem_new((size_t)world->ranks, sizeof *pair);
    char *in = p->gpu ? p->gpu->in : p->in, *out = p->gpu ? p->gpu->out : p->out;
    char *want = mem_new((size_t)bytes, 1), *got = mem_new((size_t)bytes, 1);
    double took_s = 0;
    int pairs = 0;

    for (int r = 0; r + 1 < world->ranks; r += 2)
        pair[pairs++] = (struct probe_flow){r, r + 1, 1};
    for (int64_t i = 0; i < bytes; i++)
        want[i] = (char)rng_u64(3, (uint64_t)world->rank & ~1ull, (uint64_t)i);
    put(p, in, want, bytes);
    put(p, out, got, bytes);
    expect(world, probe_message(p, pair, pairs, bytes, 3, &took_s, &err) == 0, "a message");
    put(p, got, out, bytes);
    if (world->rank % 2)
        expect(world, memcmp(want, got, (size_t)bytes) == 0,
               "a message is in the other's memory");
    expect(world, (took_s > 0) == (world->rank % 2 == 0 && world->rank + 1 < world->ranks),
           "the first of a pair has the time");
    mem_free(pair);
    mem_free(want);
    mem_free(got);
}

/* Checks the rate of products on the GPU, however long ago it failed. */
static void check_flops(struct device *device)
{
    struct probe_settings query = {.device = device, .type = DTYPE_BF16};
    double *flops = mem_new((size_t)world->ranks, sizeof *flops);

    expect(world, probe_flops(world, &query, flops, &err) == 0 && flops[world->rank] > 0,
           "a rate of products");
    mem_free(flops);
}

/* The groups are its hosts.  A second measurement replaces what was high, and nothing else. */
static void check_latency(struct probe *p, const struct groups *g)
{
    const struct groups own = world->groups;
    const char *volatile where;
    struct health_data d = {0};
    struct health_campaign t = {
        .world = world, .data = &d, .where = &where, .probe = *p, .until_s = tick_now_s() + 60};

    world->groups = *g;
    expect(world, health_campaign_latency(&t, 3, &err) == 0, "measures latency");
    int met = d.latencies.count;
    for (int i = 0; i < met; i++)
        d.latencies.at[i].s = i % 2 ? 1e9 : 0;
    expect(world, health_campaign_latency(&t, 3, &err) == 0, "measures it again");
    expect(world, d.latencies.count == met, "as many pairs");
    for (int i = 0; i < met; i++)
        expect(world, i % 2 ? d.latencies.at[i].s < 1e9 : d.latencies.at[i].s == 0,
               "keeps the smaller time");
    world->groups = own;
    health_data_release(&d);
}

/* Ranks of data are counted host by host, however they are placed: here every other one. */
static void check_ranks(const struct groups *g)
{
    const struct groups own = world->groups;
    const char *volatile where;
    struct health_data d;
    struct health_campaign t =
        LIST(.world = world, .data = &d, .where = &where, .bytes = 4 << 20, .left = INT64_MAX,
             .until_s = tick_now_s() + 60, .before_s = world->deadline_s, .kernel.fd = -1,
             .missing = -1);
    struct health_plan plan = {.rounds = 1, .hosts = g->count};
    int *group_of = mem_new((size_t)g->ranks, sizeof *group_of);

    plan.dst = mem_new((size_t)g->count, sizeof *plan.dst);
    health_data_init(&d, g->count, NULL);
    for (int r = 0; r < g->ranks; r++)
        group_of[r] = r % g->count;
    expect(world, groups_init_of(&world->groups, g->ranks, group_of, &err) == 0, "places");
    int64_t space = probe_shift_space(&world->groups, t.bytes);
    t.opened = probe_open(&t.probe, world, space, &err) == 0;
    expect(world, t.opened, "opens a probe of its own");
    for (int k = 0; k < g->count; k++) {
        plan.dst[k] = (k + 1) % g->count;
        d.host[k].ranks = world->groups.members[k];
    }
    expect(world, health_campaign_rounds(&t, &plan, &err) == 0, "a turn of hosts");
    expect(world, d.samples.count == g->count, "a sample of each host");
    expect(world, (d.rank_samples.count > 0) == (g->ranks > g->count), "and of ranks");
    for (int i = 0; i < d.rank_samples.count; i++) {
        const struct health_rank_sample *s = &d.rank_samples.at[i];
        int src = health_host_of_rank(&d, s->src), dst = health_host_of_rank(&d, s->dst);
        expect(world, dst == plan.dst[src], "a rank sends to its host's partner");
    }
    health_campaign_close(&t);
    health_plan_release(&plan);
    health_data_release(&d);
    groups_release(&world->groups);
    world->groups = own;
    mem_free(group_of);
}

int main(int argc, char **argv)
{
    const int64_t sizes[] = {8, 4096, 61440, 61448, 200000};
    struct exec_nccl *nccl = NULL;
    struct device *device = NULL;
    err = (struct err){0};
    struct groups g;
    struct probe p;
    int rounds = 0, rings = 0;

    if (argc < 2 || argc > 4 || world_open(&world, &err) || groups_parse(&g, argv[1], &err)) {
        fprintf(stderr, "probe_check: %s\n", err.text);
        return 2;
    }
    expect(world, g.ranks == world->ranks, "as many ranks as the shape");
    expect(world, probe_open(&p, world, probe_ring_space(g.count, 200000) + 4096, &err) == 0,
           "opens");
    p.view = (struct probe_view){.groups = &g};
    if (argc > 2) {
        expect(world, device_open(&device, argv[2], world->node_rank, &err) == 0, "a GPU");
        expect(world, probe_gpu_open(&p, device, &err) == 0, "its memory");
    }
    if (argc > 3)
        expect(world, exec_nccl_open_world(&nccl, world, device, 0, &err) == 0, "NCCL");
    p.nccl = nccl;
    int *to = mem_new((size_t)g.count, sizeof *to);
    for (int i = 0; i < 10; i++, rounds++) {
        round_of(g.count, (uint64_t)i, to);
        check_round(&p, to, sizes[i % 5]);
    }
    for (int s = 1; s < g.count; s++)
        check_parts(&p, s, sizes[s % 5]);
    g.ring = g.count > 2;
    if (g.ring)
        check_parts(&p, 1, 4096);
    g.ring = 0;
    for (int first = 0; first < g.count; first++)
        for (int count = 2; first + count <= g.count; count++, rings++)
            check_ring(&p, first, count, sizes[rings % 5]);
    for (int i = 0; i < 5; i++)
        check_message(&p, sizes[i]);
    if (device)
        check_flops(device);
    if (!device && g.count > 1) {
        check_latency(&p, &g);
        check_ranks(&g);
    }
    if (world->rank == 0)
        printf("ok %s turns %d rings %d\n", argv[1], rounds, rings);
    mem_free(to);
    probe_close(&p);
    exec_nccl_close(nccl);
    device_close(device);
    groups_release(&g);
    world_close(world);
    return 0;
}
