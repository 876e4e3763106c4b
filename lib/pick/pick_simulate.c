/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the settings of paro-sched simulate and draw, and prints the answers.  Leaves
   simulating and drawing to sim. */
#include "pick/pick_simulate.h"

#include <math.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "base/units.h"
#include "pick/pick.h"
#include "sim/sim_draw.h"

/* Two numbers per chunk: 256 MiB. */
enum { CHUNKS_MAX = 1 << 24 };

struct answer {
    struct topo topo;  /* owned */
    struct schedule s; /* owned; without rows if they were not needed */
    struct sim_times times;
    int by_layout;
    double bound_s; /* NAN: partial operation */
};

static int sizes(struct answer *a, int64_t bytes, int64_t **out, struct err *err)
{
    int64_t chunks = (int64_t)a->s.segments * a->s.groups.count * a->s.subchunks;

    if (chunks > CHUNKS_MAX)
        return err_set(err, ERR_INPUT,
                       "%d sub-chunks of %d segments in %d groups, expected %d chunks at most",
                       a->s.subchunks, a->s.segments, a->s.groups.count, CHUNKS_MAX);
    a->s.chunks = (int)chunks;
    *out = mem_new((size_t)chunks, sizeof **out);
    a->by_layout = pick_chunk_elems(&a->s, bytes, *out);
    return 0;
}

/* Opens the fabric, and the schedule if a file is given. */
static int answer_open(struct answer *a, const struct pick_simulate *query, struct err *err)
{
    *a = (struct answer){.bound_s = NAN};
    if (query->file && strcmp(query->file, "-") == 0 && strcmp(query->topo, "-") == 0)
        return err_set(err, ERR_INPUT,
                       "topology and schedule both from standard input, "
                       "expected one of them from a file");
    if (topo_read(&a->topo, query->topo, err))
        return -1;
    if (!query->file)
        return 0;
    return query->text ? schedule_parse(&a->s, query->text, query->text_bytes, query->file, err)
                       : schedule_read(&a->s, query->file, err);
}

static int simulate_spec(const struct pick_simulate *query, struct answer *a, struct err *err)
{
    struct schedule *s = &a->s;
    struct layout l;
    int64_t *bytes = NULL;

    if (pick_parse(query->op, query->algo, &s->phases, &s->algo, err) ||
        pick_check_root(query->root, a->topo.groups.ranks, err))
        return -1;
    layout_init(&l, &a->topo.groups);
    struct schedule_spec spec =
        layout_spec(&l, a->topo.levels, a->topo.block, s->phases, s->algo, query->subchunks);
    s->root = spec.root = query->root;
    groups_copy(&s->groups, &l.groups);
    s->segments = l.segments;
    s->subchunks = query->subchunks;
    s->holder = l.holder;
    l.holder = NULL;
    int rc = sizes(a, query->bytes, &bytes, err);
    if (rc == 0)
        rc = sim_spec(&spec, &a->topo, bytes, &a->times, err);
    mem_free(bytes);
    layout_release(&l);
    return rc;
}

/* Each wire carries (n-1)/n of the vector, in an all-reduce twice; in a broadcast, all. */
static double busbw_factor(const struct schedule *s)
{
    double n = s->groups.ranks;

    if (!schedule_phases_name(s->phases))
        return NAN;
    if (s->phases == SCHEDULE_BROADCAST)
        return 1;
    return (s->phases == SCHEDULE_ALL_REDUCE ? 2 : 1) * (n - 1) / n;
}

static void simulate_say(const struct answer *a, double bytes, FILE *out)
{
    const struct schedule *s = &a->s;
    const char *op = schedule_phases_name(s->phases);
    double s_ = a->times.time_s, busbw = bytes / s_ * busbw_factor(s);
    struct units u, v;
    char shape[256];

    groups_print(&s->groups, shape, sizeof shape);
    fprintf(out, "%s %s on %s: %s in %d sub-chunk%s\n", op ? op : "partial collective",
            schedule_algo_name(s->algo), shape, units_bytes(&u, bytes), s->subchunks,
            s->subchunks == 1 ? "" : "s");
    fprintf(out, "time       %s\n", units_time(&u, s_));
    fprintf(out, "algbw      %s\nbusbw      %s\n", units_rate(&u, bytes / s_),
            units_rate(&v, busbw));
    if (a->bound_s > 0)
        fprintf(out, "cut bound  %s, fraction %.3f\n", units_time(&u, a->bound_s),
                a->bound_s / s_);
    fprintf(out, "busy      ");
    for (int l = 0; l < a->topo.levels; l++)
        fprintf(out, " %s %.3f", a->topo.level[l].name, a->times.busy[l]);
    fprintf(out, "\n");
    if (!a->by_layout)
        fprintf(out, "(segments differ from those of the layouts: chunks are assumed equal)\n");
}

static void say_json(const struct answer *a, int64_t bytes, FILE *out)
{
    const struct schedule *s = &a->s;
    double algbw = (double)bytes / a->times.time_s;
    struct jout j = jout_begin(out, "paro.sched.simulate/1");
    char shape[256];

    groups_print(&s->groups, shape, sizeof shape);
    jout_text(&j, "op", schedule_phases_name(s->phases));
    jout_text(&j, "algo", schedule_algo_name(s->algo));
    jout_text(&j, "groups", shape);
    jout_int(&j, "ranks", s->groups.ranks);
    jout_int(&j, "bytes", bytes);
    jout_int(&j, "subchunks", s->subchunks);
    jout_bool(&j, "cut_by_layout", a->by_layout);
    jout_num(&j, "time_s", a->times.time_s);
    jout_num(&j, "algbw_Bps", algbw);
    jout_num(&j, "busbw_Bps", algbw * busbw_factor(s));
    jout_num(&j, "limit_s", a->bound_s);
    jout_num(&j, "limit_fraction", a->bound_s > 0 ? a->bound_s / a->times.time_s : NAN);
    jout_open(&j, "levels", '[');
    for (int l = 0; l < a->topo.levels; l++) {
        jout_open(&j, NULL, '{');
        jout_text(&j, "name", a->topo.level[l].name);
        jout_num(&j, "busy_fraction", a->times.busy[l]);
        jout_close(&j, '}');
    }
    jout_end(&j);
}

/* Runs after the simulation, which checks that the schedule's root is a rank of the fabric. */
static void set_bound(struct answer *a, int64_t bytes)
{
    if (schedule_phases_name(a->s.phases))
        a->bound_s = sim_cut_bound_s(&a->topo, a->s.phases, a->s.root, (double)bytes);
}

static void answer_release(struct answer *a)
{
    sim_times_release(&a->times);
    schedule_release(&a->s);
    topo_release(&a->topo);
}

int pick_simulate(const struct pick_simulate *query, FILE *out, struct err *err)
{
    struct answer a;
    int64_t *bytes = NULL;
    int rc = answer_open(&a, query, err);

    if (rc == 0 && query->file) {
        rc = sizes(&a, query->bytes, &bytes, err);
        rc = rc ? rc : sim_rows(&a.s, &a.topo, bytes, 0, &a.times, err);
        mem_free(bytes);
    } else if (rc == 0) {
        rc = simulate_spec(query, &a, err);
    }
    if (rc == 0) {
        set_bound(&a, query->bytes);
        if (query->json)
            say_json(&a, query->bytes, out);
        else
            simulate_say(&a, (double)query->bytes, out);
    }
    answer_release(&a);
    return rc;
}

int pick_draw(const struct pick_simulate *query, FILE *out, struct err *err)
{
    struct schedule_spec how = {.root = query->root, .subchunks = query->subchunks};
    int64_t *bytes = NULL;
    struct answer a;
    int rc = answer_open(&a, query, err);

    if (rc == 0 && !query->file) /* all rows, unless the schedule is too long to be drawn */
        rc = pick_parse(query->op, query->algo, &how.phases, &how.algo, err) ||
                     pick_schedule_on(&how, &a.topo, "picture", SIM_DRAW_ROWS_MAX, &a.s, err)
                 ? -1
                 : 0;
    if (rc == 0) {
        bytes = mem_new((size_t)a.s.chunks + 1, sizeof *bytes);
        pick_chunk_elems(&a.s, query->bytes, bytes);
        rc = sim_rows(&a.s, &a.topo, bytes, 1, &a.times, err);
    }
    if (rc == 0) {
        set_bound(&a, query->bytes);
        const struct sim_picture p = {.schedule = &a.s,
                                      .topo = &a.topo,
                                      .times = &a.times,
                                      .chunk_bytes = bytes,
                                      .bound_s = a.bound_s};
        rc = (query->json ? sim_draw_json : sim_draw)(&p, out, err);
    }
    mem_free(bytes);
    answer_release(&a);
    return rc;
}
