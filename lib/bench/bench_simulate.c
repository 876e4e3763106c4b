/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Simulates the time of a row on a fabric (sim/ through pick/), and makes rows with simulated
 * times only.  Measures nothing and needs no ranks.
 */
#include <stdio.h>

#include "bench/bench_parts.h"
#include "pick/pick_table.h"

int64_t bench_chunk_bytes(int64_t chunk_bytes, int64_t bytes)
{
    int64_t chunk = chunk_bytes ? chunk_bytes : PICK_CHUNK_USUAL;

    return chunk < bytes ? chunk : bytes;
}

int bench_predict(const struct topo *t, unsigned op, int64_t bytes, struct pick_choice *c,
                  struct err *err)
{
    if (bytes == 0) {
        c->time_s = 0;
        return 0;
    }
    if (c->algo != SCHEDULE_AUTO)
        return pick_time(t, op, bytes, c->algo, c->chunk_bytes, &c->time_s, err);
    struct pick_answer a;
    if (pick_auto(t, op, bytes, &a, err))
        return -1;
    *c = a.best;
    return 0;
}

struct simulation {
    const struct bench_options *o;
    struct bench_sink sink;
    struct topo topo;
    struct pick_table table; /* rules 0: auto simulates */
};

static int simulate_make_row(const struct simulation *s, unsigned op, int64_t elems, int algo,
                             struct bench_row *row, struct err *err)
{
    int64_t bytes = elems * dtype_bytes(s->o->type), chunk = s->o->chunk_bytes;
    struct pick_choice c = {.algo = (enum schedule_algo)algo,
                            .chunk_bytes = chunk ? chunk : PICK_CHUNK_USUAL};

    if (algo == SCHEDULE_AUTO && s->table.rules) {
        const struct pick_rule *rule = pick_find(&s->table, op, bytes);
        if (!rule)
            return err_set(err, ERR_INPUT, "the tuning table '%s' has no rules for %s",
                           s->o->tuning, schedule_phases_name(op));
        c.algo = rule->algo;
        c.chunk_bytes = rule->chunk_bytes;
    }
    if (bench_predict(&s->topo, op, bytes, &c, err))
        return -1;
    int reduces = op == SCHEDULE_REDUCE_SCATTER || op == SCHEDULE_ALL_REDUCE;
    *row = bench_row_of(s->o, &s->topo, op, algo, elems);
    row->redop = reduces ? s->o->redop : DTYPE_OPS;
    row->simulated = 1;
    row->predicted_s = c.time_s;
    if (algo == SCHEDULE_AUTO)
        row->chosen = c.algo;
    row->chosen_chunk_bytes = bench_chunk_bytes(c.chunk_bytes, bytes);
    for (int m = 0; m < BENCH_MARKS; m++)
        row->time_s[m] = c.time_s;
    return 0;
}

static int simulate_all(struct simulation *s, struct err *err)
{
    const struct bench_options *o = s->o;

    for (int i = 0; i < o->ops; i++)
        for (int64_t n = o->min_bytes; n <= o->max_bytes; n = bench_next_bytes(o, n))
            for (int a = 0; a < o->algos; a++) {
                struct bench_row row;
                if (simulate_make_row(s, o->op[i], n / dtype_bytes(o->type), o->algo[a], &row,
                                      err))
                    return -1;
                bench_sink_row(&s->sink, &row);
                if (ferror(s->sink.file))
                    return 0;
            }
    return 0;
}

static int simulate_open_fabric(struct simulation *s, struct err *err)
{
    const struct bench_options *o = s->o;
    const struct groups *g = &s->topo.groups;

    if (topo_read(&s->topo, o->topo, err) ||
        (o->tuning &&
         (pick_table_read(&s->table, o->tuning, err) || pick_table_check(&s->table, g, err))))
        return -1;
    if (o->format == BENCH_TEXT) {
        char shape[256];
        groups_print(g, shape, sizeof shape);
        fprintf(s->sink.file, "# %s: %d ranks in %d groups; simulated on %s\n", shape, g->ranks,
                g->count, o->topo);
        if (g->count > 1)
            bench_print_ports(o->topo, &s->topo, s->sink.file);
        bench_print_columns(o, s->sink.file);
    }
    return 0;
}

int bench_simulate(const struct bench_options *o, FILE *out, struct bench_result *result,
                   struct err *err)
{
    struct simulation s = {.o = o};
    int rc = bench_sink_open(&s.sink, o, out, result, err);

    if (rc == 0 && (simulate_open_fabric(&s, err) || simulate_all(&s, err)))
        rc = -1;
    rc = bench_sink_close(&s.sink, rc, err);
    pick_table_release(&s.table);
    topo_release(&s.topo);
    return rc;
}
