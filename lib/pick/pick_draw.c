/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows what paro-sched draw asks.  The times are sim/'s, the picture is sim_draw's. */
#include "pick/pick_draw.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "pick/pick.h"
#include "sim/sim_draw.h"

struct scene {
    struct topo topo;
    struct schedule s;
    struct sim_times times;
    int64_t *chunk_bytes;
};

static int check_rows(const struct schedule_spec *spec, struct err *err)
{
    double rows = pick_rows(spec);

    if (rows <= SIM_DRAW_ROWS_MAX)
        return 0;
    return err_set(
        err, ERR_INPUT,
        "a picture of %d ranks in %d sub-chunk%s, about %.0f rows, expected %d at most",
        spec->groups->ranks, spec->subchunks, spec->subchunks == 1 ? "" : "s", rows,
        SIM_DRAW_ROWS_MAX);
}

static int gen(const struct pick_simulate *ask, struct scene *c, struct err *err)
{
    struct schedule_spec spec = {
        .subchunks = ask->subchunks, .levels = c->topo.levels, .block = c->topo.block};
    struct layout l;

    if (pick_parse(ask->op, ask->algo, &spec.phases, &spec.algo, err) ||
        pick_check_root(ask->root, c->topo.groups.ranks, err))
        return -1;
    spec.root = ask->root;
    layout_init(&l, &c->topo.groups);
    spec.groups = &l.groups;
    spec.segments = l.segments;
    spec.holder = l.holder;
    int rc = check_rows(&spec, err);
    if (rc == 0)
        rc = schedule_gen(&spec, -1, &c->s, err);
    layout_release(&l);
    return rc;
}

static int load(const struct pick_simulate *ask, struct scene *c, struct err *err)
{
    if (ask->file && strcmp(ask->file, "-") == 0 && strcmp(ask->topo, "-") == 0)
        return err_set(err, ERR_INPUT,
                       "topology and schedule both from standard input, "
                       "expected one of them from a file");
    if (topo_read(&c->topo, ask->topo, err))
        return -1;
    if (ask->text)
        return schedule_parse(&c->s, ask->text, ask->text_bytes, ask->file, err);
    return ask->file ? schedule_read(&c->s, ask->file, err) : gen(ask, c, err);
}

static int draw(const struct pick_simulate *ask, struct scene *c, FILE *out, struct err *err)
{
    struct sim_picture p = {.schedule = &c->s, .topo = &c->topo, .times = &c->times};

    c->chunk_bytes = mem_new((size_t)c->s.chunks + 1, sizeof *c->chunk_bytes);
    p.chunk_bytes = c->chunk_bytes;
    pick_chunk_elems(&c->s, ask->bytes, c->chunk_bytes);
    if (sim_rows(&c->s, &c->topo, c->chunk_bytes, 1, &c->times, err))
        return -1;
    /* Only now it is known that the schedule's root is a rank of the fabric. */
    p.bound_s = schedule_phases_name(c->s.phases)
                    ? sim_cut_bound_s(&c->topo, c->s.phases, c->s.root, (double)ask->bytes)
                    : NAN;
    return (ask->json ? sim_draw_json : sim_draw)(&p, out, err);
}

int pick_draw(const struct pick_simulate *ask, FILE *out, struct err *err)
{
    struct scene c = {0};
    int rc = load(ask, &c, err);

    if (rc == 0)
        rc = draw(ask, &c, out, err);
    mem_free(c.chunk_bytes);
    sim_times_release(&c.times);
    schedule_release(&c.s);
    topo_release(&c.topo);
    return rc;
}
