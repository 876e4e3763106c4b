/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes a tuning table by measurement: the simulator names the candidates (pick_shortlist), an
 * alternating contest finds the fastest.  The simulator ignores the costs that ranks sharing
 * processors cause each other.
 */
#include "bench/bench_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "base/units.h"

static const double BUDGET_S = 2;

int bench_tune_rounds(double round_s)
{
    double fit = BUDGET_S / round_s;

    return fit < BENCH_TUNE_LEAST  ? BENCH_TUNE_LEAST
           : fit < BENCH_TUNE_MOST ? (int)fit
                                   : BENCH_TUNE_MOST;
}

static int slower(const struct bench_entry *e, const struct bench_entry *best, int rounds)
{
    int no_slower = 0;
    double sum = 0;

    if (e->median_s <= best->median_s * (1 + BENCH_TUNE_SAME))
        return 0;
    for (int i = 0; i < rounds; i++)
        no_slower += e->seconds[i] <= best->seconds[i];
    /* Probability that a fair coin, thrown `rounds` times, shows heads at most no_slower
       times. */
    for (int i = 0; i <= no_slower; i++)
        sum += exp(lgamma(rounds + 1.0) - lgamma(i + 1.0) - lgamma(rounds - i + 1.0) -
                   rounds * log(2));
    /* for five rounds the sum is 1/32 except for rounding */
    return sum <= 1.0 / 32 * (1 + 1e-9);
}

int bench_tune_choose(struct bench_entry *e, int entries, int rounds)
{
    double *sorted = mem_new((size_t)rounds, sizeof *sorted);
    int best = 0;

    for (int i = 0; i < entries; i++) {
        memcpy(sorted, e[i].seconds, (size_t)rounds * sizeof *sorted);
        e[i].median_s = stats_median(sorted, rounds);
        best = e[i].median_s < e[best].median_s ? i : best;
    }
    mem_free(sorted);
    int won = best;
    for (int i = 0; i < entries; i++)
        if (i != best && !slower(&e[i], &e[best], rounds) &&
            (e[i].predicted_s < e[won].predicted_s ||
             (e[i].predicted_s <= e[won].predicted_s && i < won)))
            won = i;
    return won;
}

int bench_tune_second(const struct bench_entry *e, int entries, int won)
{
    int second = -1;

    for (int i = 0; i < entries; i++)
        if (e[i].choice.algo != e[won].choice.algo &&
            (second < 0 || e[i].median_s < e[second].median_s))
            second = i;
    return second;
}

/* ---- one size ---- */

struct shortlist { /* rank 0's, broadcast */
    struct pick_choice choice[PICK_SHORT_MAX];
    int count, failed;
};

static int tune_run_rounds(struct bench *b, struct bench_contest *c, int contests, int rounds,
                           struct err *err)
{
    for (int i = 0; i < contests; i++) {
        mem_free(c[i].seconds);
        c[i].seconds = NULL;
    }
    b->tune->o.iters = rounds;
    return bench_rounds(b, c, contests, err);
}

/* Runs the requested rounds; otherwise the least number, and then, if time permits, more. */
static int run_contest(struct bench *b, struct bench_contest *c, int contests, struct err *err)
{
    double sum_s = 0;

    if (b->tune->iters)
        return tune_run_rounds(b, c, contests, b->tune->iters, err);
    if (tune_run_rounds(b, c, contests, BENCH_TUNE_LEAST, err))
        return -1;
    for (int i = 0; i < contests; i++)
        for (int k = 0; k < BENCH_TUNE_LEAST; k++)
            sum_s += c[i].seconds[k];
    /* the times are equal on all ranks, and so is the number */
    int rounds = bench_tune_rounds(sum_s / BENCH_TUNE_LEAST);
    return rounds > BENCH_TUNE_LEAST ? tune_run_rounds(b, c, contests, rounds, err) : 0;
}

/* Gives an equal result on every rank. */
static int check_data(const struct shortlist *s, const struct bench_contest *c, struct err *err)
{
    for (int i = 0; i < s->count; i++)
        if (c[i].wrong)
            return err_set(err, ERR_MISMATCH,
                           "%" PRId64 " elements by %s are wrong, expected none", c[i].wrong,
                           schedule_algo_name(s->choice[i].algo));
    return 0;
}

static void tune_put_choice(const struct pick_choice *c, FILE *out)
{
    struct units u;

    fprintf(out, "%s", schedule_algo_name(c->algo));
    if (c->chunk_bytes != PICK_CHUNK_WHOLE)
        fprintf(out, " in %s", units_bytes(&u, (double)c->chunk_bytes));
    fprintf(out, " %s", units_time(&u, c->time_s));
}

void bench_tune_describe(const struct pick_answer *a, FILE *out)
{
    struct units u;

    fprintf(out, "%s of %s: ", schedule_phases_name(a->phases),
            units_bytes(&u, (double)a->bytes));
    tune_put_choice(&a->best, out);
    if (a->second.algo == SCHEDULE_AUTO)
        return;
    fprintf(out, ", ");
    tune_put_choice(&a->second, out);
    fprintf(out, " (%.2fx%s)", a->second.time_s / a->best.time_s,
            a->second.time_s < a->best.time_s ? ", within noise" : "");
}

static void talk(const struct bench *b, const struct pick_answer *a, int entries)
{
    double load = NAN;
    char *line = NULL;
    size_t space = 0;
    FILE *out = mem_stream(&line, &space);

    getloadavg(&load, 1);
    bench_tune_describe(a, out);
    fprintf(out, "; %d candidates, %d rounds; load average %.2f", entries, b->o->iters, load);
    fclose(out);
    b->tune->talk.say(b->tune->talk.with, line);
    mem_free(line);
}

static void keep_answer(struct bench *b, unsigned op, int64_t bytes, const struct shortlist *s,
                        const struct bench_contest *c)
{
    struct bench_tune *t = b->tune;
    struct pick_answer a = {.phases = op, .bytes = bytes};
    struct bench_entry e[PICK_SHORT_MAX] = {0};

    for (int i = 0; i < s->count; i++)
        e[i] = (struct bench_entry){.choice = s->choice[i],
                                    .predicted_s =
                                        pick_weigh(s->choice[i].algo, s->choice[i].time_s),
                                    .seconds = c[i].seconds};
    int won = bench_tune_choose(e, s->count, b->o->iters);
    int second = bench_tune_second(e, s->count, won);
    for (int i = 0; i < s->count; i++)
        e[i].choice.time_s = e[i].median_s;
    a.best = e[won].choice;
    a.second = second < 0 ? (struct pick_choice){.algo = SCHEDULE_AUTO} : e[second].choice;
    t->answer = mem_grow(t->answer, &t->space, (size_t)t->answers + 1, sizeof *t->answer);
    t->answer[t->answers++] = a;
    talk(b, &a, s->count);
}

int bench_tune_case(struct bench *b, unsigned op, int64_t elems, struct err *err)
{
    struct bench_contest c[PICK_SHORT_MAX] = {0};
    int64_t bytes = elems * dtype_bytes(b->o->type);
    struct shortlist s = {.count = 0};

    if (b->world->rank == 0)
        s.failed = pick_shortlist(&b->topo, op, bytes, s.choice, &s.count, err);
    int rc = world_bcast(b->world, &s, sizeof s, 0, err);
    if (rc == 0 && s.failed)
        rc = b->world->rank ? err_set(err, ERR_INPUT, "see rank 0") : -1;
    for (int i = 0; i < s.count && rc == 0; i++)
        rc = bench_contest_open(b, op, (int)s.choice[i].algo, elems, s.choice[i].chunk_bytes,
                                &c[i], err);
    if (rc == 0 && (run_contest(b, c, s.count, err) || check_data(&s, c, err)))
        rc = -1;
    if (rc == 0 && b->world->rank == 0)
        keep_answer(b, op, bytes, &s, c);
    for (int i = 0; i < PICK_SHORT_MAX; i++)
        bench_contest_close(&c[i], rc == 0 || err->code != ERR_PEER);
    return rc ? err_prefix(err, "%s of %" PRId64 " bytes: ", schedule_phases_name(op), bytes)
              : 0;
}

/* ---- the table ---- */

/* Adds rules for moves that are no named operation, which nobody measured. */
static int append_moves(struct bench *b, struct pick_table *table, struct err *err)
{
    const struct bench_options *o = b->o;
    struct pick_query query = {
        .min_bytes = o->min_bytes, .max_bytes = o->max_bytes, .factor = o->factor};
    struct pick_table rest;
    int kept = 0;

    pick_query_moves(&query, &b->groups);
    for (int i = 0; i < query.ops; i++)
        if (!schedule_phases_name(query.op[i]))
            query.op[kept++] = query.op[i];
    query.ops = kept;
    if (!kept)
        return 0;
    if (pick_table_make(&b->topo, &query, &rest, err))
        return -1;
    pick_table_append(table, &rest);
    pick_table_release(&rest);
    return 0;
}

int bench_tune_print(struct bench *b, struct err *err)
{
    struct bench_tune *t = b->tune;
    struct pick_table table;

    pick_table_measured(&b->groups, t->answer, t->answers, &table);
    int rc = t->moves ? append_moves(b, &table, err) : 0;
    if (rc == 0)
        pick_table_print(&table, t->o.format == BENCH_JSON ? PICK_JSON : PICK_YAML,
                         b->sink.file);
    pick_table_release(&table);
    return rc;
}
