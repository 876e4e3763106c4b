/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks collectives: coll_check SHAPE [no-shared] [by-node] [narrow] [untuned] [int8|bf16],
 * run under mpirun with the shape's ranks ("hosts" takes the groups from the hosts).  Every
 * conversion between layouts, every algorithm (auto too, by a table of its own), several
 * lengths and types, twice through the same handle, compared bit for bit on integer-valued
 * data; every reduction in every type; broadcasts; several at once; a handle that is freed
 * while its run goes on. int8, bf16: data between groups travel in that code, which has these
 * data exactly; and any data with residuals, three times through a handle, beside the local
 * executor's bits.  Prints "ok N". untuned: no table, and instead of all this the error of each
 * rank with auto, a line each.
 */
#include "base/rng.h"
#include "../unit/exec_local_fixture.h"
#include "value_fixture.h"

enum { ELEMS_MAX = 100000 };

struct check {
    struct coll coll;
    struct stream *stream, *streams[3];
    struct world *world;
    char *in, *out;
    enum exec_code code;
    int runs;
};

static double value(int sum, int rank, int64_t x)
{
    return (double)(x % 16 + (sum ? rank % 4 : 0)); /* sums of 16 ranks stay exact in bf16 */
}

/* Over the ranks that `done` speaks of: all, this rank's group, or itself. */
static double expected(struct check *c, const struct coll_spec *spec, int sum, enum letter done,
                       int64_t x)
{
    const struct groups *g = &c->coll.layout.groups;
    double v = 0;
    int n = 0;

    if (!sum)
        return value(0, 0, x);
    for (int r = 0; r < g->ranks; r++) {
        if (done != LETTER_G && r != c->world->rank &&
            (done != LETTER_I || g->group_of[r] != g->group_of[c->world->rank]))
            continue;
        double one = value(1, r, x);
        if (n++ == 0)
            v = one;
        else if (spec->redop == DTYPE_MAX)
            v = one > v ? one : v;
        else if (spec->redop == DTYPE_MIN)
            v = one < v ? one : v;
        else
            v += one;
    }
    if (spec->redop == DTYPE_AVG && n == g->ranks && n > 1) {
        char one[8];
        put(one, spec->type, 0, v);
        dtype_scale(one, spec->type, n, 1);
        v = get(one, spec->type, 0);
    }
    return v;
}

static int ranges_of(struct check *c, const struct coll_spec *spec, enum letter letter,
                     struct range *r)
{
    return layout_ranges(&c->coll.layout, letter, c->world->rank, spec->elems, r);
}

static void fill(struct check *c, const struct coll_spec *spec, int sum, char *in)
{
    struct range r[64];
    int64_t at = 0;
    int n = ranges_of(c, spec, spec->from, r);

    for (int i = 0; i < n; i++)
        for (int64_t x = r[i].lo; x < r[i].hi; x++)
            put(in, spec->type, at++,
                spec->phases == SCHEDULE_BROADCAST && c->world->rank != spec->root
                    ? 99
                    : expected(c, spec, sum, sum ? spec->from : LETTER_N, x));
}

static int64_t count_wrong(struct check *c, const struct coll_spec *spec, int sum,
                           enum letter done, const char *out)
{
    struct range r[64];
    int64_t at = 0, wrong = 0;
    int n = ranges_of(c, spec, spec->to, r);

    for (int i = 0; i < n; i++)
        for (int64_t x = r[i].lo; x < r[i].hi; x++)
            wrong += get(out, spec->type, at++) != expected(c, spec, sum, done, x);
    return wrong;
}

static void must(struct check *c, int rc)
{
    if (rc == 0)
        return;
    fprintf(stderr, "coll_check: %s\n", err.text);
    world_abort(c->world, 2);
}

/* Whether the code has the data of a conversion exactly: not quotients that are rounded. */
static int exact_code(const struct coll_spec *spec)
{
    int sum = spec->redop == DTYPE_SUM || (spec->redop == DTYPE_AVG && spec->to == LETTER_G);

    return sum && (spec->type == DTYPE_F32 || spec->type == DTYPE_BF16);
}

/* One conversion; returns the number of wrong elements. */
static int64_t convert(struct check *c, struct coll_spec *spec, int sum, enum letter done)
{
    struct coll_handle h;
    int64_t wrong = 0;

    spec->code = exact_code(spec) ? c->code : EXEC_CODE_SAME;
    must(c, coll_prepare(&c->coll, spec, &h, &err));
    if (spec->algo == SCHEDULE_AUTO) {
        int64_t bytes = spec->elems * dtype_bytes(spec->type);
        const struct pick_rule *rule = pick_find(c->coll.tuning, spec->phases, bytes);
        wrong += rule ? h.spec.algo != rule->algo || h.spec.chunk_bytes != rule->chunk_bytes
                      : spec->phases != 0;
    }
    for (int again = 0; again < 2; again++) {
        fill(c, spec, sum, c->in);
        memset(c->out, 0xff, (size_t)(spec->elems * dtype_bytes(spec->type)));
        if (!sum)
            coll_round(&h, EXEC_IN, c->in, NULL);
        must(c, coll_run(c->stream, &h, c->in, c->out, &err));
        wrong += count_wrong(c, spec, sum, done, c->out);
    }
    coll_free(&h);
    c->runs++;
    if (wrong)
        fprintf(stderr, "rank %d: %lld wrong: %s phases %u elems %lld %s %s\n", c->world->rank,
                (long long)wrong, schedule_algo_name(spec->algo), spec->phases,
                (long long)spec->elems, dtype_name(spec->type), dtype_op_name(spec->redop));
    return wrong;
}

/* The named operations, broadcasts from both ends of the ranks, and other conversions. */
static int64_t moves_of(struct check *c, struct coll_spec spec, int others)
{
    int64_t wrong = 0;
    enum letter done;

    for (int i = 0; i < LOCAL_CONVERSIONS; i++) {
        int sum = local_conversion(&spec, i, &done);
        int named = sum ? i < LOCAL_SUMS && spec.from == LETTER_N && spec.to != LETTER_I
                        : spec.from == LETTER_G && spec.to == LETTER_N;
        if (named || others)
            wrong += convert(c, &spec, sum, done);
    }
    for (int end = 0; end < 2; end++) {
        local_broadcast(&spec, end * (c->world->ranks - 1));
        wrong += convert(c, &spec, 0, LETTER_N);
    }
    return wrong;
}

static int64_t all_of(struct check *c, int64_t elems, enum dtype type, int64_t chunk_bytes,
                      int others)
{
    struct coll_spec spec = {.elems = elems, .type = type, .chunk_bytes = chunk_bytes};
    int64_t wrong = 0;

    for (int algo = 0; algo <= SCHEDULE_ALGOS; algo++) { /* auto too */
        spec.algo = (enum schedule_algo)algo;
        wrong += moves_of(c, spec, others);
    }
    return wrong;
}

static int64_t reductions(struct check *c)
{
    int64_t wrong = 0;

    for (int i = 0; i < LOCAL_REDUCTIONS; i++) {
        struct coll_spec spec = local_reduction(i);
        wrong += convert(c, &spec, 1, LETTER_G);
    }
    return wrong;
}

/* Three in flight on three streams; then one that is freed before anybody waited for it. */
static int64_t at_once(struct check *c)
{
    enum { FLIGHTS = 3, ELEMS = ELEMS_MAX / FLIGHTS };
    struct coll_handle h[FLIGHTS];
    struct coll_call call[FLIGHTS];
    struct coll_spec spec[FLIGHTS];
    int64_t ticket[FLIGHTS], wrong = 0;

    for (int i = 0; i < FLIGHTS; i++) {
        char *in = c->in + (int64_t)i * ELEMS * 8, *out = c->out + (int64_t)i * ELEMS * 8;
        spec[i] = (struct coll_spec){.from = LETTER_N,
                                     .to = i == 1 ? LETTER_G : LETTER_N,
                                     .elems = ELEMS,
                                     .type = i == 2 ? DTYPE_F64 : DTYPE_F32,
                                     .algo = i == 2 ? SCHEDULE_RING : SCHEDULE_HO_RING};
        spec[i].phases = layout_phases_sum(spec[i].from, spec[i].to);
        spec[i].code = exact_code(&spec[i]) ? c->code : EXEC_CODE_SAME;
        must(c, coll_prepare(&c->coll, &spec[i], &h[i], &err));
        fill(c, &spec[i], 1, in);
        call[i] = (struct coll_call){.handle = &h[i], .in = in, .out = out};
    }
    for (int i = 0; i < FLIGHTS; i++)
        ticket[i] = coll_push(c->streams[i], &call[i]);
    for (int i = 0; i < FLIGHTS; i++) {
        must(c, stream_wait(c->streams[i], ticket[i], &err));
        wrong += count_wrong(c, &spec[i], 1, LETTER_G, call[i].out);
    }
    coll_push(c->streams[0], &call[0]);
    for (int i = 0; i < FLIGHTS; i++)
        coll_free(&h[i]);
    wrong += count_wrong(c, &spec[0], 1, LETTER_G, call[0].out);
    c->runs += FLIGHTS;
    return wrong;
}

/* Any numbers; of what is only copied, ranks have the same. */
static void fill_any(struct check *c, const struct coll_spec *spec, int sum, int turn, int rank,
                     void *in)
{
    struct range r[64];
    int64_t at = 0;
    int n = layout_ranges(&c->coll.layout, spec->from, rank, spec->elems, r);

    for (int i = 0; i < n; i++)
        for (int64_t x = r[i].lo; x < r[i].hi; x++)
            put(in, spec->type, at++,
                rng_normal((uint64_t)turn, sum ? (uint64_t)rank : 0, (uint64_t)x));
}

/* Three runs with residuals, as the local executor has them. */
static int64_t beside_local(struct check *c, const struct coll_spec *spec, int sum)
{
    struct coll_handle h;
    struct coll_call call = {.handle = &h, .in = c->in, .out = c->out};
    struct local l;
    int me = c->world->rank;
    int64_t wrong = 0;

    must(c, local_open(&l, &c->coll.layout, spec));
    must(c, coll_prepare(&c->coll, spec, &h, &err));
    call.residual = mem_new((size_t)h.residual_elems, sizeof(float));
    wrong += h.residual_elems != l.rows[me].residual_elems;
    for (int turn = 0; turn < 3; turn++) {
        for (int r = 0; r < c->world->ranks; r++) {
            fill_any(c, spec, sum, turn, r, l.in[r]);
            exec_rows_round(&l.rows[r], EXEC_IN, l.in[r], l.residual[r]);
        }
        fill_any(c, spec, sum, turn, me, c->in);
        coll_round(&h, EXEC_IN, c->in, call.residual);
        must(c, exec_local_run(&l, 1));
        must(c, stream_wait(c->stream, coll_push(c->stream, &call), &err));
        struct range r[64];
        int64_t elems = 0;
        for (int i = 0, n = ranges_of(c, spec, spec->to, r); i < n; i++)
            elems += r[i].hi - r[i].lo;
        wrong += !!memcmp(c->out, l.out[me], (size_t)(elems * dtype_bytes(spec->type)));
        wrong +=
            !!memcmp(call.residual, l.residual[me], (size_t)h.residual_elems * sizeof(float));
    }
    if (wrong)
        fprintf(stderr, "rank %d: %s phases %u %s: not as the local executor has it\n", me,
                schedule_algo_name(spec->algo), spec->phases, dtype_name(spec->type));
    mem_free(call.residual);
    coll_free(&h);
    local_close(&l);
    c->runs++;
    return wrong;
}

static int64_t any_data(struct check *c)
{
    int64_t wrong = 0;

    for (int i = 0; i < 2 * SCHEDULE_ALGOS; i++) {
        struct coll_spec spec =
            LIST(.elems = 3001, .type = i % 2 ? DTYPE_F32 : DTYPE_BF16,
                 .algo = (enum schedule_algo)(i / 2), .chunk_bytes = 1000, .code = c->code);
        for (int to = 0; to < 3; to++) {
            spec.from = LETTER_N;
            spec.to = (enum letter)to;
            spec.phases = layout_phases_sum(spec.from, spec.to);
            wrong += beside_local(c, &spec, 1);
            spec.from = LETTER_G;
            spec.phases = layout_phases_copy(spec.from, spec.to);
            wrong += to < LETTER_G ? beside_local(c, &spec, 0) : 0;
        }
        local_broadcast(&spec, c->world->ranks - 1);
        wrong += beside_local(c, &spec, 0);
    }
    return wrong;
}

/* The same sizes, but ranks dealt to the groups in turn: 0 2 4 and 1 3 for [3,2]. */
static void place_by_node(struct groups *g)
{
    int *of = mem_new((size_t)g->ranks, sizeof *of),
        *left = mem_new((size_t)g->count, sizeof *left);
    struct groups dealt;

    memcpy(left, g->members, (size_t)g->count * sizeof *left);
    for (int r = 0, k = 0; r < g->ranks; r++, k = (k + 1) % g->count) {
        while (left[k] == 0)
            k = (k + 1) % g->count;
        left[k]--;
        of[r] = k;
    }
    groups_init_of(&dealt, g->ranks, of, &err);
    mem_free(of);
    mem_free(left);
    groups_release(g);
    *g = dealt;
}

static int requested(int argc, char **argv, const char *word)
{
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], word) == 0)
            return 1;
    return 0;
}

/* A table for these groups on some fabric: other choices at other sizes. */
static int tune(struct check *c, const struct groups *groups, struct pick_table *out)
{
    struct pick_query query = {.min_bytes = 64, .max_bytes = 1 << 20, .factor = 16};
    struct topo t;

    topo_init(&t, 2, groups);
    t.level[0] = (struct topo_level)LIST(.name = "intra", .latency_s = 5e-6, .port_Bps = 1e9,
                                         .flow_Bps = 1e9, .member_Bps = 1e9);
    t.level[1] = (struct topo_level)LIST(.name = "inter", .latency_s = 50e-6, .port_Bps = 60e6,
                                         .flow_Bps = 60e6, .member_Bps = 60e6);
    for (int k = 0; k < groups->count; k++)
        t.port[k] = (struct topo_port){60e6, 60e6};
    pick_query_moves(&query, groups);
    int rc = coll_tuning(c->world, NULL, &t, &query, out, &err);
    topo_release(&t);
    return rc;
}

/* Checks every rank's error with auto, there being no table; rank 0 prints them: a rank that
   ended at its own line would take the others' away. */
static int refusals(struct check *c)
{
    struct coll_spec spec =
        LIST(.from = LETTER_N, .to = LETTER_G, .phases = layout_phases_sum(LETTER_N, LETTER_G),
             .elems = 7, .type = DTYPE_F32, .algo = SCHEDULE_AUTO);
    struct coll_handle h;
    struct err told = {.text = "taken"};
    char **texts;

    if (coll_prepare(&c->coll, &spec, &h, &told) == 0)
        coll_free(&h);
    if (world_gather_text(c->world, told.text, &texts, &err))
        return -1;
    for (int r = 0; texts && r < c->world->ranks; r++) {
        printf("rank %d: %s\n", r, texts[r]);
        mem_free(texts[r]);
    }
    mem_free(texts);
    return 0;
}

static int checks(struct check *c)
{
    int64_t wrong = all_of(c, 0, DTYPE_F32, 0, 0) + all_of(c, 1, DTYPE_F32, 0, 0) +
                    all_of(c, 7, DTYPE_BF16, 0, 0) + all_of(c, 997, DTYPE_F32, 64, 1) +
                    all_of(c, ELEMS_MAX, DTYPE_F32, 0, 0) + reductions(c) + at_once(c) +
                    (c->code ? any_data(c) : 0);
    int rc = wrong ? err_set(&err, ERR_MISMATCH, "%lld wrong", (long long)wrong) : 0;

    if (world_agree(c->world, rc, &err))
        return -1;
    if (c->world->rank == 0)
        printf("ok %d\n", c->runs);
    return 0;
}

int main(int argc, char **argv)
{
    struct check c = {0};
    struct coll_options options = {.shared_bytes = 2 * (ELEMS_MAX * 8 + 4096)};
    struct pick_table tuning = {0};
    struct groups groups;
    err = (struct err){0};

    if (argc < 2 || world_open(&c.world, &err))
        return 2;
    c.code = requested(argc, argv, "int8")   ? EXEC_CODE_INT8
             : requested(argc, argv, "bf16") ? EXEC_CODE_BF16
                                             : EXEC_CODE_SAME;
    options.no_shared = requested(argc, argv, "no-shared");
    /* The smallest window that there is: fewer messages in flight than rows of a queue. */
    options.window_bytes = requested(argc, argv, "narrow");
    if (strcmp(argv[1], "hosts") == 0)
        groups_copy(&groups, &c.world->groups);
    else if (groups_parse(&groups, argv[1], &err))
        goto fail;
    if (requested(argc, argv, "by-node"))
        place_by_node(&groups);
    if (!requested(argc, argv, "untuned")) {
        if (tune(&c, &groups, &tuning))
            goto fail;
        options.tuning = &tuning;
    }
    if (coll_open(&c.coll, c.world, &groups, &options, &err))
        goto fail;
    c.stream = stream_open(c.coll.runner, 4);
    for (int i = 0; i < 3; i++)
        c.streams[i] = stream_open(c.coll.runner, 2);
    c.in = coll_take(&c.coll, ELEMS_MAX * 8);
    c.out = coll_take(&c.coll, ELEMS_MAX * 8);
    if (options.tuning ? checks(&c) : refusals(&c))
        goto fail;
    coll_close(&c.coll);
    pick_table_release(&tuning);
    groups_release(&groups);
    world_close(c.world);
    return 0;
fail:
    if (c.world->rank == 0)
        fprintf(stderr, "coll_check: %s\n", err.text);
    int status = c.world->rank == 0 ? 2 : 0;
    world_close(c.world);
    return status;
}
