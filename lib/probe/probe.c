/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how flows become rows, how a round is timed where its bytes arrive, and whether they
 * are the right ones.  Does not know what is worth measuring (probe_topo.c, health).
 *
 * The curve of a host: every rank notes (time, bytes so far) now and then; the notes of the
 * ranks of one host, merged, are how its port filled, by one clock:
 *
 *     bytes |                 ____----  total at T1
 *           |       ___----'''
 *           |   _-''  from here on: SKIP bytes are in, at T0
 *           |__/________________________ time       rate = (total - bytes(T0)) / (T1 - T0)
 */
#include "probe/probe.h"

#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "base/tick.h"

enum {
    CHUNK = 60 << 10, /* under Open MPI's TCP eager limit, as in coll/coll.c */
    NOTES = 64,       /* of a rank's curve */
    YIELDS = 200,     /* before a nap: some 100 us, less than a message takes to cross */
    PING_BYTES = 8
};

static const double nap_s = 100e-6, look_every_s = 1e-3;

struct note {
    double at_s;
    int64_t bytes;
};

struct curve {
    int64_t notes;
    struct note note[NOTES + 1];
};

/* A word of the stream that rank src sends in this turn: any bijection that mixes well. */
static uint64_t word_of(int src, uint64_t turn, int64_t at)
{
    uint64_t x = (uint64_t)at + ((uint64_t)src << 40) + turn * 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

int probe_open(struct probe *p, struct world *world, int64_t room, struct err *err)
{
    room = (room + 63) / 64 * 64;
    struct exec_mpi_options options = {.shared_bytes = 2 * room};

    *p = (struct probe){.world = world, .room = room};
    if (exec_mpi_open(&p->exec, world, &options, err))
        return -1;
    p->in = exec_mpi_take(p->exec, room);
    p->out = exec_mpi_take(p->exec, room);
    return 0;
}

void probe_close(struct probe *p)
{
    exec_mpi_close(p->exec);
    *p = (struct probe){0};
}

static int chunks_of(int64_t bytes)
{
    return (int)((bytes + CHUNK - 1) / CHUNK);
}

static int64_t aligned(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Where the chunks of this rank's flows lie: sends from the start of `in`, each, receives one
 * behind the other in `out`. */
static void add_flow(struct probe *p, struct probe_round *r, const struct probe_flow *f,
                     int first, struct schedule *s, struct exec_places *places)
{
    int count = chunks_of(f->bytes);
    int64_t base = f->dst == p->world->rank ? r->in_bytes : 0;

    for (int c = 0; c < count; c++) {
        int64_t at = f->bytes / count * c,
                end = c + 1 < count ? at + f->bytes / count : f->bytes;
        int chunk = first + c;
        places->elems[chunk] = end - at;
        *(f->dst == p->world->rank ? &places->out_at[chunk] : &places->in_at[chunk]) =
            base + at;
        s->row[s->rows++] = (struct schedule_row){
            .step = chunk, .src = f->src, .dst = f->dst, .chunk = chunk, .into = chunk};
    }
    if (f->dst == p->world->rank)
        r->in_bytes += aligned(f->bytes);
    assert(r->in_bytes <= p->room && f->bytes <= p->room);
    r->mine[r->mines++] = *f;
}

int probe_prepare(struct probe *p, const struct probe_flow *flow, int flows,
                  struct probe_round *out, struct err *err)
{
    int chunks = 0, first = 0, mine = 0, me = p->world->rank;
    struct probe_round r = {.laps = 1};
    struct exec_places places;
    struct exec_rows rows = {0};

    for (int i = 0; i < flows; i++) {
        chunks += chunks_of(flow[i].bytes);
        if (flow[i].src == me || flow[i].dst == me)
            mine += chunks_of(flow[i].bytes);
    }
    struct schedule s = {.groups = p->world->groups, .chunks = chunks, .lanes = 1};
    s.row = mem_new((size_t)mine, sizeof *s.row);
    r.mine = mem_new((size_t)flows, sizeof *r.mine);
    exec_places_init(&places, chunks, DTYPE_U8);
    for (int i = 0; i < flows; i++) {
        if (flow[i].src == me || flow[i].dst == me)
            add_flow(p, &r, &flow[i], first, &s, &places);
        first += chunks_of(flow[i].bytes);
    }
    int rc = exec_rows_init(&rows, &s, me, &places, err);
    rc = world_agree(p->world, rc, err);
    if (rc == 0)
        rc = exec_mpi_prepare(p->exec, &rows, &r.exec, err);
    exec_rows_release(&rows);
    exec_places_release(&places);
    mem_free(s.row);
    if (rc == 0)
        *out = r;
    else
        probe_free(&r);
    return rc;
}

void probe_free(struct probe_round *r)
{
    exec_mpi_free(r->exec);
    mem_free(r->mine);
    *r = (struct probe_round){0};
}

/* ---- one run ---- */

static void fill(struct probe *p, const struct probe_round *r)
{
    uint64_t *word = (uint64_t *)(void *)p->in;
    int64_t most = 0;

    for (int i = 0; i < r->mines; i++)
        if (r->mine[i].src == p->world->rank && r->mine[i].bytes > most)
            most = r->mine[i].bytes;
    for (int64_t i = 0; i < (most + 7) / 8; i++)
        word[i] = word_of(p->world->rank, p->turn, i);
}

/* Whole words; the last bytes of a flow that is no multiple of 8 go by as part of one. */
static int64_t wrong_words(const struct probe *p, const struct probe_round *r)
{
    int64_t wrong = 0, base = 0;

    for (int i = 0; i < r->mines; i++) {
        const struct probe_flow *f = &r->mine[i];
        const char *from = p->out + base;
        if (f->dst != p->world->rank)
            continue;
        for (int64_t at = 0; at < f->bytes; at += 8) {
            uint64_t want = word_of(f->src, p->turn, at / 8);
            wrong +=
                memcmp(from + at, &want, (size_t)(f->bytes - at < 8 ? f->bytes - at : 8)) != 0;
        }
        base += aligned(f->bytes);
    }
    return wrong;
}

struct watch { /* what one run notes while it goes on */
    struct probe *probe;
    const struct probe_round *round;
    struct curve *curve; /* NULL: nobody wants it */
    int64_t before;      /* bytes of the laps that are done */
    double looked_s;
};

static void take_note(struct watch *w, int at_end)
{
    struct curve *c = w->curve;
    int64_t have = w->before + exec_mpi_arrived(w->round->exec);
    int64_t last = c->notes ? c->note[c->notes - 1].bytes : 0;
    double now = tick_now_s();

    if (have > last && (at_end || (c->notes < NOTES &&
                                   have - last >= w->round->in_bytes * w->round->laps / NOTES)))
        c->note[c->notes++] = (struct note){now, have};
    if (w->probe->look && now - w->looked_s > look_every_s) {
        w->probe->look(w->probe->look_arg);
        w->looked_s = now;
    }
}

/* The rows once, in this thread. */
static int run_lap(struct watch *w, int last, struct err *err)
{
    int idle = 0;

    exec_mpi_set(w->round->exec, w->probe->in, w->probe->out, NULL);
    if (exec_mpi_start(w->round->exec, err))
        return -1;
    for (;;) {
        enum stream_state now = exec_mpi_poll(w->round->exec, err);
        if (now == STREAM_FAILED)
            return -1;
        if (w->curve)
            take_note(w, last && now == STREAM_DONE);
        if (now == STREAM_DONE)
            break;
        idle = now == STREAM_MOVED ? 0 : idle + 1;
        if (idle > YIELDS)
            tick_sleep_s(nap_s);
        else if (idle)
            sched_yield();
    }
    w->before += exec_mpi_arrived(w->round->exec);
    return 0;
}

static int run(struct probe *p, struct probe_round *r, struct curve *curve, struct err *err)
{
    struct watch w = {p, r, curve, 0, tick_now_s()};

    for (int lap = 0; lap < r->laps; lap++)
        if (run_lap(&w, lap + 1 == r->laps, err))
            return -1;
    return 0;
}

struct gain {
    double at_s;
    int64_t bytes; /* more than before */
};

static int by_time(const void *a, const void *b)
{
    double x = ((const struct gain *)a)->at_s, y = ((const struct gain *)b)->at_s;

    return (x > y) - (x < y);
}

/* The rate of merged curves, as drawn at the top of this file. */
static double rate_of(const struct curve *curve, int curves)
{
    struct gain *gain = mem_new((size_t)curves * (NOTES + 1), sizeof *gain);
    int n = 0;
    int64_t total = 0, sum = 0;

    for (int r = 0; r < curves; r++) {
        int64_t before = 0;
        for (int64_t i = 0; i < curve[r].notes; i++) {
            gain[n++] = (struct gain){curve[r].note[i].at_s, curve[r].note[i].bytes - before};
            before = curve[r].note[i].bytes;
        }
        total += before;
    }
    qsort(gain, (size_t)n, sizeof *gain, by_time);
    int64_t skip = total / 4 < PROBE_SKIP ? total / 4 : PROBE_SKIP;
    double rate = 0;
    for (int i = 0; i < n && rate <= 0; i++) {
        sum += gain[i].bytes;
        if (sum >= skip && gain[n - 1].at_s > gain[i].at_s)
            rate = (double)(total - sum) / (gain[n - 1].at_s - gain[i].at_s);
    }
    mem_free(gain);
    return rate;
}

int probe_run(struct probe *p, struct probe_round *r, struct probe_result *out, struct err *err)
{
    struct curve *all = mem_new((size_t)p->world->node_ranks, sizeof *all);
    struct curve mine = {0};

    p->turn++;
    fill(p, r);
    int rc = world_barrier(p->world, err);
    if (rc == 0)
        rc = run(p, r, &mine, err);
    if (rc == 0)
        rc = world_node_allgather(p->world, &mine, sizeof mine, all, err);
    if (rc == 0)
        *out = (struct probe_result){.rank_Bps = rate_of(&mine, 1),
                                     .host_Bps = rate_of(all, p->world->node_ranks),
                                     .wrong = wrong_words(p, r)};
    mem_free(all);
    return rc;
}

/* ---- pings ---- */

/*
 * A message of one pair: its bytes in chunks, then a word, both forth; then the word back,
 * which must wait for the word that went forth, and by the lane's order for all bytes.
 */
static void add_message(struct schedule *s, struct exec_places *places,
                        const struct probe_flow *f, int me, int first, int64_t bytes)
{
    int count = chunks_of(bytes), word = first + count, sends = f->src == me;

    for (int c = 0; c <= count; c++) {
        int64_t at = c < count ? bytes / count * c : aligned(bytes);
        int64_t end = c + 1 < count ? at + bytes / count : bytes;
        places->elems[first + c] = c < count ? end - at : PING_BYTES;
        if (sends)
            places->in_at[first + c] = at;
        else
            places->out_at[first + c] = at;
        s->row[s->rows++] = (struct schedule_row){
            .step = c, .src = f->src, .dst = f->dst, .chunk = first + c, .into = first + c};
    }
    places->out_at[word] = aligned(bytes);
    s->row[s->rows++] = (struct schedule_row){
        .step = count + 1, .src = f->dst, .dst = f->src, .chunk = word, .into = word};
}

static int prepare_message(struct probe *p, const struct probe_flow *pair, int pairs,
                           int64_t bytes, struct probe_round *out, int *first, struct err *err)
{
    int each = chunks_of(bytes) + 1, me = p->world->rank;
    struct schedule s = {.groups = p->world->groups, .chunks = pairs * each, .lanes = 1};
    struct probe_round r = {.laps = 1};
    struct exec_places places;
    struct exec_rows rows = {0};

    *first = 0;
    assert(aligned(bytes) + PING_BYTES <= p->room);
    s.row = mem_new((size_t)each + 1, sizeof *s.row);
    exec_places_init(&places, s.chunks, DTYPE_U8);
    for (int i = 0; i < pairs; i++) {
        if (pair[i].src != me && pair[i].dst != me)
            continue;
        assert(s.rows == 0);
        *first = pair[i].src == me;
        add_message(&s, &places, &pair[i], me, i * each, bytes);
    }
    int rc = exec_rows_init(&rows, &s, me, &places, err);
    rc = world_agree(p->world, rc, err);
    if (rc == 0)
        rc = exec_mpi_prepare(p->exec, &rows, &r.exec, err);
    exec_rows_release(&rows);
    exec_places_release(&places);
    mem_free(s.row);
    if (rc == 0)
        *out = r;
    return rc;
}

int probe_message(struct probe *p, const struct probe_flow *pair, int pairs, int64_t bytes,
                  int times, double *took_s, struct err *err)
{
    double *took = mem_new((size_t)times, sizeof *took);
    struct probe_round r = {0};
    int first = 0;
    int rc = prepare_message(p, pair, pairs, bytes, &r, &first, err);

    if (rc == 0)
        rc = world_barrier(p->world, err);
    /* The first opens the connection and empties token buckets; it is not counted. */
    for (int i = -1; rc == 0 && i < times; i++) {
        double start = tick_now_s();
        rc = run(p, &r, NULL, err);
        took[i < 0 ? 0 : i] = tick_now_s() - start;
    }
    if (rc == 0)
        rc = world_barrier(p->world, err);
    if (rc == 0)
        *took_s = first ? stats_median(took, times) : 0;
    probe_free(&r);
    mem_free(took);
    return rc;
}

int probe_ping(struct probe *p, const struct probe_flow *pair, int pairs, int times,
               double *rtt_s, struct err *err)
{
    return probe_message(p, pair, pairs, 0, times, rtt_s, err);
}
