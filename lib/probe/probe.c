/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Generates rows of flows, times a round where its bytes arrive, and checks the bytes.  Leaves
 * the choice of measurements to probe_topo.c and health.
 *
 * The curve of a group: every rank notes (time, bytes so far) now and then.  The merged notes
 * of a group's ranks show how its port received bytes, by one clock:
 *
 *     bytes |                 ____----  total at T1
 *           |       ___----'''
 *           |   _-''  from here on: SKIP bytes are in, at T0
 *           |__/________________________ time       rate = (total - bytes(T0)) / (T1 - T0)
 *
 * A rank sees its bytes chunk by chunk.  Of a chunk in flight at T0 a part counts as arrived,
 * in proportion to the time between the notes.  Without that, four streams of 2 MiB through one
 * port looked 6 % too fast: half a chunk of each.
 */
#include "probe/probe.h"

#include <assert.h>
#include <math.h>
#include <sched.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "base/tick.h"
#include "probe/probe_gpu.h"
#include "probe/probe_parts.h"

enum {
    NOTES = 64,              /* notes of a rank's curve, */
    NOTES_SPACE = NOTES + 2, /* with its beginning and end */
    YIELDS = 200,            /* before a nap: some 100 us, less than a message takes */
    /* With a GPU some 10 ms: the rank has its own processor, and a nap is a tenth of the
       shortest rounds. */
    GPU_YIELDS = 5000,
    PING_BYTES = 8,
    TRIPS = 100 /* an undisturbed pair has shown its minimum long before */
};

static const double nap_s = 100e-6, look_every_s = 1e-3;

struct note {
    double at_s;
    int64_t bytes;
};

struct curve {
    int64_t notes;
    struct note note[NOTES_SPACE];
};

/* Returns a word of the stream that rank src sends in this round: any well-mixing bijection. */
static uint64_t probe_word_of(int src, uint64_t turn, int64_t at)
{
    uint64_t x = (uint64_t)at + ((uint64_t)src << 40) + turn * 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

int probe_open(struct probe *p, struct world *world, int64_t space, struct err *err)
{
    space = arena_space(space);
    struct exec_mpi_options options = {.shared_bytes = 2 * space};

    *p = (struct probe){.world = world, .space = space, .view = probe_view_hosts(world)};
    if (exec_mpi_open(&p->exec, world, &options, err))
        return -1;
    p->in = exec_mpi_take(p->exec, space);
    p->out = exec_mpi_take(p->exec, space);
    return 0;
}

void probe_close(struct probe *p)
{
    probe_gpu_close(p);
    exec_mpi_close(p->exec);
    *p = (struct probe){0};
}

int64_t probe_chunk_at(int64_t bytes, int count, int c)
{
    return c < count ? bytes / count * c : bytes;
}

void probe_rows_init(struct probe_rows *r, const struct probe *p, int chunks, int rows,
                     int flows)
{
    *r = (struct probe_rows){.s = {.groups = p->world->groups, .chunks = chunks, .lanes = 1},
                             .round = {.laps = 1}};
    r->s.row = mem_new((size_t)rows, sizeof *r->s.row);
    r->round.mine = mem_new((size_t)flows, sizeof *r->round.mine);
    exec_places_init(&r->places, chunks, DTYPE_U8);
}

void probe_rows_add(struct probe_rows *r, int step, int src, int dst, int chunk)
{
    r->s.row[r->s.rows++] = (struct schedule_row){
        .step = step, .src = src, .dst = dst, .chunk = chunk, .into = chunk};
}

int probe_rows_agree(struct probe *p, struct probe_rows *r, struct probe_round *out,
                     struct err *err)
{
    struct exec_rows rows = {0};
    int rc = exec_rows_init(&rows, &r->s, p->world->rank, &r->places, err);

    rc = world_agree(p->world, rc, err);
    if (rc == 0)
        rc = probe_ready(p, &rows, &r->round, err);
    exec_rows_release(&rows);
    exec_places_release(&r->places);
    mem_free(r->s.row);
    if (rc == 0)
        *out = r->round;
    else
        probe_free(&r->round);
    return rc;
}

int probe_prepare(struct probe *p, const struct probe_flow *flow, int flows,
                  struct probe_round *out, struct err *err)
{
    int chunks = 0, mine = 0, me = p->world->rank;
    int *first = mem_new((size_t)flows + 1, sizeof *first);
    struct probe_rows r;

    for (int i = 0; i < flows; i++) {
        chunks += probe_chunks(p, flow[i].bytes);
        if (flow[i].src == me || flow[i].dst == me)
            mine += probe_chunks(p, flow[i].bytes);
    }
    probe_rows_init(&r, p, chunks, mine, flows);
    for (int i = 0, chunk = 0; i < flows; i++) {
        first[r.round.mines] = chunk;
        if (flow[i].src == me || flow[i].dst == me) {
            /* Sends: the chunks of each flow lie from the start of `in`; receives: all flows in
               sequence in `out`. */
            const struct probe_flow *f = &flow[i];
            int count = probe_chunks(p, f->bytes), here = f->dst == me;
            int64_t *at = here ? r.places.out_at : r.places.in_at;

            for (int c = 0; c < count; c++) {
                int64_t from = probe_chunk_at(f->bytes, count, c);
                r.places.elems[chunk + c] = probe_chunk_at(f->bytes, count, c + 1) - from;
                at[chunk + c] = (here ? r.round.in_bytes : 0) + from;
            }
            if (here)
                r.round.in_bytes += arena_space(f->bytes);
            assert(r.round.in_bytes <= p->space && f->bytes <= p->space);
            r.round.mine[r.round.mines++] = *f;
        }
        chunk += probe_chunks(p, flow[i].bytes);
    }
    /* One chunk of each flow per step: NCCL sends those of a step together. */
    for (int c = 0; r.s.rows < mine; c++)
        for (int i = 0; i < r.round.mines; i++) {
            const struct probe_flow *f = &r.round.mine[i];
            if (c < probe_chunks(p, f->bytes))
                probe_rows_add(&r, c, f->src, f->dst, first[i] + c);
        }
    mem_free(first);
    return probe_rows_agree(p, &r, out, err);
}

int probe_summarize(struct world *world, double mine, double error, struct probe_summary *out,
                    struct err *err)
{
    double one[2] = {mine, error}, (*all)[2] = mem_new((size_t)world->ranks, sizeof *all);
    double *value = mem_new((size_t)world->ranks * 2, sizeof *value);
    double *errors = value + world->ranks;
    int n = 0, rc = world_allgather(world, one, sizeof one, all, err);

    for (int r = 0; rc == 0 && r < world->ranks; r++)
        if (all[r][0] > 0) {
            value[n] = all[r][0];
            errors[n++] = all[r][1];
        }
    *out = (struct probe_summary){.count = n};
    if (n) { /* stats_median sorts */
        out->median = stats_median(value, n);
        out->least = value[0];
        out->most = value[n - 1];
        out->error = stats_median(errors, n);
    }
    mem_free(value);
    mem_free(all);
    return rc;
}

/* ---- one run ---- */

/*
 * Counts wrong words in the bytes received; or, with a GPU, in the bytes sent: of each flow
 * from the start of `in`.  The last bytes of a flow that is no multiple of 8 are compared as
 * part of a word.
 */
static int64_t wrong_words(const struct probe *p, const struct probe_round *r, int sent)
{
    int64_t wrong = 0, base = 0;

    for (int i = 0; i < r->mines; i++) {
        const struct probe_flow *f = &r->mine[i];
        if ((sent ? f->src : f->dst) != p->world->rank)
            continue;
        const char *there = sent ? p->in : p->out + base;
        for (int64_t at = 0; at < f->bytes; at += 8) {
            uint64_t want = probe_word_of(f->src, p->turn, at / 8);
            int64_t left = f->bytes - at;
            wrong += memcmp(there + at, &want, (size_t)(left < 8 ? left : 8)) != 0;
        }
        base += arena_space(f->bytes);
    }
    return wrong;
}

struct watch { /* notes of one run */
    struct probe *probe;
    struct probe_round *round;
    int here;            /* 1: use host memory although there is a GPU */
    struct curve *curve; /* NULL: not wanted */
    int64_t before;      /* bytes of the finished laps */
    double looked_s;
};

static void take_note(struct watch *w, int at_end)
{
    struct curve *c = w->curve;
    int64_t have = w->before + probe_arrived(w->round);
    int64_t last = c->note[c->notes - 1].bytes;
    double now = tick_now_s();

    if (have > last && (at_end || (c->notes <= NOTES &&
                                   have - last >= w->round->in_bytes * w->round->laps / NOTES)))
        c->note[c->notes++] = (struct note){now, have};
    if (w->probe->look && now - w->looked_s > look_every_s) {
        w->probe->look(w->probe->look_arg);
        w->looked_s = now;
    }
}

static int probe_run_laps(struct watch *w, struct err *err)
{
    int laps = w->round->laps;

    w->looked_s = tick_now_s();
    if (w->curve)
        w->curve->note[w->curve->notes++] = (struct note){w->looked_s, 0};
    for (int lap = 0; lap < laps; lap++) {
        /* Run the rows once, in this thread. */
        int idle = 0, yields = w->round->nccl ? GPU_YIELDS : YIELDS;

        if (probe_start(w->probe, w->round, w->here, err))
            return -1;
        for (;;) {
            enum stream_state now = probe_poll(w->round, err);
            if (now == STREAM_FAILED)
                return -1;
            if (w->curve)
                take_note(w, lap + 1 == laps && now == STREAM_DONE);
            if (now == STREAM_DONE)
                break;
            idle = now == STREAM_MOVED ? 0 : idle + 1;
            if (idle > yields)
                tick_sleep_s(nap_s);
            else if (idle)
                sched_yield();
        }
        w->before += probe_arrived(w->round);
    }
    return 0;
}

/* Returns the bytes that had arrived at a time, interpolated between two notes. */
static double bytes_at(const struct curve *c, double at_s)
{
    int64_t i = 0;

    while (i < c->notes && c->note[i].at_s <= at_s)
        i++;
    if (i == 0 || i == c->notes)
        return i ? (double)c->note[i - 1].bytes : 0;
    const struct note *before = &c->note[i - 1], *after = &c->note[i];
    double part = (at_s - before->at_s) / (after->at_s - before->at_s);
    return (double)before->bytes + part * (double)(after->bytes - before->bytes);
}

/* Returns the rate of merged curves, as drawn at the top of this file. */
static double probe_rate_of(const struct curve *curve, int curves)
{
    double *at_s = mem_new((size_t)curves * NOTES_SPACE, sizeof *at_s), total = 0, rate = 0;
    int n = 0;

    for (int r = 0; r < curves; r++) {
        for (int64_t i = 0; i < curve[r].notes; i++)
            at_s[n++] = curve[r].note[i].at_s;
        total += curve[r].notes ? (double)curve[r].note[curve[r].notes - 1].bytes : 0;
    }
    stats_sort(at_s, n);
    double skip = fmin(total / 4, PROBE_SKIP);
    for (int i = 0; i < n && rate <= 0; i++) {
        double sum = 0;
        for (int r = 0; r < curves; r++)
            sum += bytes_at(&curve[r], at_s[i]);
        if (sum >= skip && sum > 0 && at_s[n - 1] > at_s[i])
            rate = (total - sum) / (at_s[n - 1] - at_s[i]);
    }
    mem_free(at_s);
    return rate;
}

/*
 * Gathers the curves of this rank's group.  On one host they have one clock; ranks of a
 * discovered group may be on several hosts, so each curve is converted to rank 0's clock first.
 */
static int gather_curves(const struct probe *p, const struct curve *mine, struct curve *all,
                         int *curves, struct err *err)
{
    const struct groups *g = p->view.groups;
    int me = p->world->rank, k = g->group_of[me];

    if (p->view.hosts) {
        *curves = p->world->node_ranks;
        return world_node_allgather(p->world, mine, sizeof *mine, all, err);
    }
    struct curve moved = *mine;
    for (int64_t i = 0; i < moved.notes; i++)
        moved.note[i].at_s -= p->view.ahead_s;
    if (world_allgather(p->world, &moved, sizeof moved, all, err))
        return -1;
    *curves = g->members[k];
    for (int j = 0; j < *curves; j++) /* members ascend: each is read before it is
                                         overwritten */
        all[j] = all[groups_rank(g, k, j)];
    return 0;
}

int probe_run(struct probe *p, struct probe_round *r, struct probe_result *out, struct err *err)
{
    struct curve *all = mem_new((size_t)p->world->ranks, sizeof *all);
    struct curve mine = {0};
    /* With a GPU, `in` receives the GPU's data: the initial words must differ from them. */
    uint64_t *word = (uint64_t *)(void *)(p->gpu ? p->out : p->in);
    int64_t most = 0; /* largest flow that begins here; each starts at `in` */
    int curves = 0;

    for (int i = 0; i < r->mines; i++)
        if (r->mine[i].src == p->world->rank && r->mine[i].bytes > most)
            most = r->mine[i].bytes;
    p->turn++;
    for (int64_t i = 0; i < (most + 7) / 8; i++)
        word[i] = probe_word_of(p->world->rank, p->turn, i);
    probe_gpu_fill(p, most);
    int rc = world_barrier(p->world, err);
    double begin = tick_now_s();
    if (rc == 0)
        rc = probe_run_laps(&(struct watch){.probe = p, .round = r, .curve = &mine}, err);
    double took_s = tick_now_s() - begin;
    if (rc == 0)
        rc = gather_curves(p, &mine, all, &curves, err);
    if (rc == 0) {
        *out = (struct probe_result){.rank_Bps = probe_rate_of(&mine, 1),
                                     .group_Bps = probe_rate_of(all, curves),
                                     .took_s = took_s};
        probe_gpu_fetch(p, most, r->in_bytes);
        out->wrong = wrong_words(p, r, 0);
        out->gpu_wrong[0] = p->gpu ? wrong_words(p, r, 1) : 0;
        out->gpu_wrong[1] = probe_gpu_differing(p, r);
        rc = probe_gpu_check(p, err);
    }
    mem_free(all);
    return rc;
}

/* ---- pings ---- */

/*
 * Adds a message of one pair: its bytes in chunks, then a word, in one direction; then the word
 * back, which must wait for the first word and, by the lane's order, for all bytes.  NCCL sends
 * the first word only if there are no bytes; otherwise the answer is the answering rank's word.
 */
static void probe_add_message(const struct probe *p, struct probe_rows *r,
                              const struct probe_flow *f, int first)
{
    int64_t bytes = f->bytes;
    int count = probe_chunks(p, bytes), word = first + count, sends = f->src == p->world->rank;
    int forth = p->nccl && count ? count : count + 1;
    struct exec_places *at = &r->places;

    assert(arena_space(bytes) + PING_BYTES <= p->space);
    for (int c = 0; c < forth; c++) {
        int64_t from = c < count ? probe_chunk_at(bytes, count, c) : arena_space(bytes);
        at->elems[first + c] =
            c < count ? probe_chunk_at(bytes, count, c + 1) - from : PING_BYTES;
        (sends ? at->in_at : at->out_at)[first + c] = from;
        probe_rows_add(r, c, f->src, f->dst, first + c);
    }
    at->elems[word] = PING_BYTES;
    (sends || forth > count ? at->out_at : at->in_at)[word] = arena_space(bytes);
    probe_rows_add(r, count + 1, f->dst, f->src, word);
}

/* Prepares the rows of this rank's pair, of all pairs that send `bytes`, generated by `add`. */
static int prepare_pairs(struct probe *p, const struct probe_flow *pair, int pairs,
                         int64_t bytes,
                         void (*add)(const struct probe *, struct probe_rows *,
                                     const struct probe_flow *, int first),
                         struct probe_round *out, struct err *err)
{
    int each = probe_chunks(p, bytes) + 1, me = p->world->rank;
    struct probe_rows r;

    probe_rows_init(&r, p, pairs * each, 2 * each, 1);
    for (int i = 0; i < pairs; i++) {
        if (pair[i].src != me && pair[i].dst != me)
            continue;
        assert(r.round.mines == 0);
        r.round.mine[r.round.mines++] = (struct probe_flow){pair[i].src, pair[i].dst, bytes};
        add(p, &r, &r.round.mine[0], i * each);
    }
    return probe_rows_agree(p, &r, out, err);
}

int probe_message(struct probe *p, const struct probe_flow *pair, int pairs, int64_t bytes,
                  int times, double *took_s, struct err *err)
{
    double *took = mem_new((size_t)times, sizeof *took);
    struct probe_round r = {0};
    int rc = prepare_pairs(p, pair, pairs, bytes, probe_add_message, &r, err);

    if (rc == 0)
        rc = world_barrier(p->world, err);
    /* The first one opens the connection and empties token buckets; it is not counted. */
    for (int i = -1; rc == 0 && i < times; i++) {
        double start = tick_now_s();
        rc = probe_run_laps(&(struct watch){.probe = p, .round = &r}, err);
        took[i < 0 ? 0 : i] = tick_now_s() - start;
    }
    if (rc == 0)
        rc = world_agree(p->world, probe_gpu_check(p, err), err);
    if (rc == 0)
        *took_s = r.mines && r.mine[0].src == p->world->rank ? stats_median(took, times) : 0;
    probe_free(&r);
    mem_free(took);
    return rc;
}

/* ---- round trips ---- */

/*
 * Adds a round trip: a chunk is sent by one row and returned by the next, which must wait for
 * the first because it sends the received chunk.
 */
static void add_trip(const struct probe *p, struct probe_rows *r, const struct probe_flow *f,
                     int first)
{
    int count = probe_chunks(p, f->bytes);

    assert(f->bytes <= p->space && !p->nccl);
    for (int c = 0; c < count; c++) {
        int chunk = first + c;
        int64_t from = probe_chunk_at(f->bytes, count, c);
        r->places.elems[chunk] = probe_chunk_at(f->bytes, count, c + 1) - from;
        r->places.in_at[chunk] = f->src == p->world->rank ? from : -1;
        r->places.out_at[chunk] = from;
        probe_rows_add(r, 2 * chunk, f->src, f->dst, chunk);
        probe_rows_add(r, 2 * chunk + 1, f->dst, f->src, chunk);
    }
}

int probe_trips(struct probe *p, const struct probe_flow *pair, const int *turn, int pairs,
                double budget_s, double *least_s, struct err *err)
{
    /* With each trip the first rank of a pair tells the other whether another one follows. */
    uint64_t *say = (uint64_t *)(void *)p->in;
    const uint64_t *reported = (const uint64_t *)(const void *)p->out;
    struct probe_round r = {0};
    double begun, took = 0;
    int me = p->world->rank, mine = 0, last = 0, more = 1;
    int rc = prepare_pairs(p, pair, pairs, pair[0].bytes, add_trip, &r, err);

    for (int i = 0; i < pairs; i++) {
        last = turn[i] > last ? turn[i] : last;
        if (pair[i].src == me || pair[i].dst == me)
            mine = turn[i];
    }
    rc = rc ? rc : world_barrier(p->world, err);
    double begin = tick_now_s();
    *least_s = 0;
    if (rc == 0 && r.mines) {
        tick_sleep_s(mine * budget_s);
        begun = tick_now_s();
        for (int i = 1; rc == 0 && more; i++) {
            double start = tick_now_s();
            *say = more = i < TRIPS && start - begun + took < budget_s;
            rc = probe_run_laps(&(struct watch){.probe = p, .round = &r, .here = 1}, err);
            took = tick_now_s() - start;
            if (r.mine[0].src == me)
                *least_s = *least_s > 0 && *least_s < took ? *least_s : took;
            else
                more = *reported != 0;
        }
    }
    double left = begin + (last + 1) * budget_s - tick_now_s();
    if (rc == 0 && left > 0)
        tick_sleep_s(left);
    rc = rc ? rc : world_barrier(p->world, err);
    probe_free(&r);
    return rc;
}
