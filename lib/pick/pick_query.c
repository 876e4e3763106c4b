/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses a query (operations by name, sizes by factor), and prints the answers. */
#include "pick/pick_auto.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "base/units.h"

enum { PARTS = SCHEDULE_PHASES - 1 }; /* a broadcast has none */

static const unsigned named[] = {SCHEDULE_ALL_GATHER, SCHEDULE_REDUCE_SCATTER,
                                 SCHEDULE_ALL_REDUCE, SCHEDULE_BROADCAST};
enum { NAMED = sizeof named / sizeof *named };

const char *pick_phases_name(unsigned phases, struct pick_word *space)
{
    const char *whole = schedule_phases_name(phases);
    size_t at = 0;

    if (whole)
        return whole;
    space->text[0] = 0;
    for (int i = 0; i < PARTS; i++)
        if (phases & 1u << i)
            at += (size_t)snprintf(space->text + at, sizeof space->text - at, "%s%s",
                                   at ? "+" : "", schedule_phase_names[i]);
    return space->text;
}

int pick_phases_parse(const char *text, unsigned *out, struct err *err)
{
    unsigned phases = 0;
    struct err why;

    if (schedule_phases_parse(text, out, &why) == 0)
        return 0;
    for (const char *p = text;; p++) {
        size_t length = strcspn(p, "+");
        int i = 0;
        while (i < PARTS && (strlen(schedule_phase_names[i]) != length ||
                             strncmp(schedule_phase_names[i], p, length)))
            i++;
        if (i == PARTS || phases & 1u << i)
            return err_set(err, ERR_INPUT,
                           "operation '%.80s', expected all-gather, reduce-scatter, all-reduce,"
                           " broadcast, or some of reduce-inside, reduce-across, gather-across,"
                           " gather-inside joined by '+'",
                           text);
        phases |= 1u << i;
        p += length;
        if (!*p)
            break;
    }
    *out = phases;
    return 0;
}

void pick_query_init(struct pick_query *a)
{
    *a = (struct pick_query){.min_bytes = 1 << 10, .max_bytes = 1 << 30, .factor = 2};
    for (int i = 0; i < NAMED; i++)
        a->op[a->ops++] = named[i];
}

static int query_add_op(struct pick_query *a, unsigned phases)
{
    for (int i = 0; i < a->ops; i++)
        if (a->op[i] == phases)
            return -1;
    if (phases && a->ops < PICK_OPS_MAX)
        a->op[a->ops++] = phases;
    return 0;
}

/* Adds phases unchanged, and without those that transfer nothing on these groups. */
static void add_both(struct pick_query *a, const struct layout *l, unsigned phases)
{
    query_add_op(a, phases);
    query_add_op(a, layout_phases_trim(l, phases));
}

void pick_query_moves(struct pick_query *a, const struct groups *groups)
{
    struct layout l;

    layout_init(&l, groups);
    for (int i = 0; i < NAMED; i++)
        query_add_op(a, named[i]);
    for (int to = LETTER_N; to <= LETTER_G; to++) {
        add_both(a, &l, layout_phases_micro((enum letter)to));
        for (int from = LETTER_N; from <= LETTER_G; from++) {
            add_both(a, &l, layout_phases_copy((enum letter)from, (enum letter)to));
            add_both(a, &l, layout_phases_sum((enum letter)from, (enum letter)to));
        }
    }
    layout_release(&l);
}

int pick_query_parse(struct pick_query *a, const char *text, struct err *err)
{
    char word[96];

    a->ops = 0;
    for (const char *p = text;; p++) {
        size_t length = strcspn(p, ",");
        unsigned phases = 0;
        snprintf(word, sizeof word, "%.*s",
                 length < sizeof word ? (int)length : (int)sizeof word - 1, p);
        if (pick_phases_parse(word, &phases, err))
            return -1;
        if (query_add_op(a, phases))
            return err_set(err, ERR_INPUT, "operation '%s' twice, expected each once", word);
        p += length;
        if (!*p)
            return 0;
    }
}

static int64_t next_bytes(const struct pick_query *a, int64_t bytes)
{
    return bytes > a->max_bytes / a->factor ? a->max_bytes + 1 : bytes * a->factor;
}

static int sizes_of(const struct pick_query *a)
{
    int n = 0;

    for (int64_t b = a->min_bytes; b <= a->max_bytes; b = next_bytes(a, b))
        n++;
    return n;
}

int pick_query_check(const struct pick_query *a, struct err *err)
{
    if (a->min_bytes < 1 || a->max_bytes > PICK_BYTES_MAX || a->min_bytes > a->max_bytes)
        return err_set(err, ERR_INPUT,
                       "sizes from %" PRId64 " to %" PRId64
                       " bytes, expected a smallest of 1 or"
                       " more and a largest from there to %" PRId64,
                       a->min_bytes, a->max_bytes, PICK_BYTES_MAX);
    if (a->factor < 2)
        return err_set(err, ERR_INPUT, "factor %d, expected 2 or more", a->factor);
    return 0;
}

int pick_list(const struct topo *t, const struct pick_query *a, struct pick_answer **out,
              int *answers, struct err *err)
{
    struct pick_word word;

    if (pick_query_check(a, err))
        return -1;
    int n = 0;
    struct pick_answer *list = mem_new((size_t)a->ops * (size_t)sizes_of(a), sizeof *list);
    for (int i = 0; i < a->ops; i++)
        for (int64_t b = a->min_bytes; b <= a->max_bytes; b = next_bytes(a, b))
            if (pick_auto(t, a->op[i], b, &list[n++], err)) {
                mem_free(list);
                return err_prefix(
                    err, "%s of %" PRId64 " bytes: ", pick_phases_name(a->op[i], &word), b);
            }
    *out = list;
    *answers = n;
    return 0;
}

void pick_list_print(const struct topo *t, const struct pick_answer *list, int answers,
                     FILE *out)
{
    struct units a, b, c, d;
    struct pick_word word;

    fprintf(out, "# %d ranks in %d group%s, simulated\n", t->groups.ranks, t->groups.count,
            t->groups.count == 1 ? "" : "s");
    fprintf(out, "%-14s %10s  %-22s %10s %10s  %-22s %10s %8s\n", "op", "size", "algo", "chunk",
            "time", "runner-up", "time", "slower");
    for (int i = 0; i < answers; i++) {
        const struct pick_answer *p = &list[i];
        fprintf(out, "%-14s %10s  %-22s %10s %10s", pick_phases_name(p->phases, &word),
                units_bytes(&a, (double)p->bytes), schedule_algo_name(p->best.algo),
                p->best.chunk_bytes == PICK_CHUNK_WHOLE
                    ? "whole"
                    : units_bytes(&b, (double)p->best.chunk_bytes),
                units_time(&c, p->best.time_s));
        if (p->second.algo == SCHEDULE_AUTO)
            fprintf(out, "  -\n");
        else if (p->best.time_s > 0)
            fprintf(out, "  %-22s %10s %7.2fx\n", schedule_algo_name(p->second.algo),
                    units_time(&d, p->second.time_s), p->second.time_s / p->best.time_s);
        else
            fprintf(out, "  %-22s %10s %8s\n", schedule_algo_name(p->second.algo),
                    units_time(&d, p->second.time_s), "-");
    }
}

static void query_put_choice(struct jout *j, const struct pick_choice *c, const char *algo,
                             const char *chunk, const char *time)
{
    int there = c->algo != SCHEDULE_AUTO;

    jout_text(j, algo, there ? schedule_algo_name(c->algo) : NULL);
    jout_known(j, chunk, there && c->chunk_bytes != PICK_CHUNK_WHOLE ? c->chunk_bytes : -1);
    jout_num(j, time, there ? c->time_s : NAN);
}

void pick_list_print_json(const struct topo *t, const struct pick_answer *list, int answers,
                          FILE *out)
{
    struct jout j = jout_begin(out, "paro.sched.pick/1");
    struct pick_word word;

    jout_int(&j, "groups", t->groups.count);
    jout_int(&j, "ranks", t->groups.ranks);
    jout_open(&j, "picks", '[');
    for (int i = 0; i < answers; i++) {
        jout_open(&j, NULL, '{');
        jout_text(&j, "op", pick_phases_name(list[i].phases, &word));
        jout_int(&j, "bytes", list[i].bytes);
        query_put_choice(&j, &list[i].best, "algo", "chunk_bytes", "time_s");
        query_put_choice(&j, &list[i].second, "runner_up", "runner_up_chunk_bytes",
                         "runner_up_s");
        jout_close(&j, '}');
    }
    jout_end(&j);
}
