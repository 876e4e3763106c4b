/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes choices from rows: finds the collectives called, the sizes with several candidates, the
 * fastest of them, and the range of each choice.  Leaves each library's format to
 * bench_emit_target.c.
 */
#include "bench/bench_emit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench/bench_parts.h"

struct entry { /* a row that counts */
    enum emit_coll coll;
    int groups;
    struct emit_way way;
    const struct bench_row *row;
};

static enum emit_coll coll_of(const struct bench_row *r)
{
    int even = r->elems % r->ranks == 0; /* decides which call is used, see exec_mpi_native.h */

    switch (r->op) {
    case SCHEDULE_ALL_GATHER:
        return even ? EMIT_ALLGATHER : EMIT_ALLGATHERV;
    case SCHEDULE_REDUCE_SCATTER:
        return even ? EMIT_REDUCE_SCATTER_BLOCK : EMIT_REDUCE_SCATTER;
    case SCHEDULE_BROADCAST:
        return EMIT_BCAST;
    default:
        return EMIT_ALLREDUCE;
    }
}

static int count_groups(const char *shape)
{
    struct groups g = {0};
    struct err ignored;
    int count = groups_parse(&g, shape, &ignored) ? 1 : g.count;

    groups_release(&g);
    return count;
}

/* ---- selection of rows ---- */

static int refuse_row(const struct emit_target *t, const struct bench_row *r, struct err *err)
{
    char label[96];
    int rc = 0;

    if (r->simulated)
        rc = err_set(err, ERR_INPUT, "is simulated, expected measured rows");
    else if (r->wrong > 0)
        rc = err_set(err, ERR_MISMATCH,
                     "had %" PRId64 " wrong elements, expected rows with right data", r->wrong);
    else if (t->library && r->library[0] && strncmp(r->library, t->library, strlen(t->library)))
        rc = err_set(err, ERR_INPUT, "is of %s, expected %s", r->library, t->library);
    return rc ? err_prefix(err, "%s of %" PRId64 " bytes by %s ", schedule_phases_name(r->op),
                           r->bytes, bench_label(r, label, sizeof label))
              : 0;
}

/* Adds a label to a list "mpi:han, mpi:x" unless present. */
static void leave_out(struct emit *e, const struct bench_row *r)
{
    char label[96], *at = e->left_out;
    size_t used = strlen(at);

    bench_label(r, label, sizeof label);
    for (size_t n = strlen(label); *at; at += strcspn(at, ",") + 2)
        if (strncmp(at, label, n) == 0 && (at[n] == ',' || !at[n]))
            return;
        else if (!strchr(at, ','))
            break;
    if (used + strlen(label) + 3 < sizeof e->left_out)
        snprintf(e->left_out + used, sizeof e->left_out - used, "%s%s", used ? ", " : "",
                 label);
}

static int emit_collect(const struct emit_target *t, const struct bench_rows *all,
                        struct emit *e, struct entry *out, struct err *err)
{
    int entries = 0;

    for (int i = 0; i < all->rows; i++) {
        const struct bench_row *r = &all->row[i];
        struct entry *n = &out[entries];
        if (r->algo != t->algo)
            continue;
        if (refuse_row(t, r, err))
            return -1;
        *n = (struct entry){.coll = coll_of(r), .groups = count_groups(r->shape), .row = r};
        if (t->way(n->coll, r, &n->way))
            entries++;
        else
            leave_out(e, r);
    }
    return entries;
}

/* Groups by call and shape; sorts by size, and at each size the fastest first. */
static int by_size(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int d = MEM_ORDER(x, y, coll);

    d = d ? d : MEM_ORDER(x, y, row->ranks);
    d = d ? d : MEM_ORDER(x, y, groups);
    d = d ? d : MEM_ORDER(x, y, row->bytes);
    d = d ? d : MEM_ORDER(x, y, row->time_s[BENCH_MEDIAN]);
    d = d ? d : MEM_ORDER(x, y, way.id);
    return d ? d : strcmp(x->way.name, y->way.name);
}

/* ---- rows that a format cannot distinguish ---- */

static int refuse_pair(const char *what, const char *a, const char *b,
                       const struct entry *entry, struct err *err)
{
    return err_set(err, ERR_INPUT,
                   "rows of %s on %d ranks are of %s %s and of %s, expected one",
                   schedule_phases_name(entry->row->op), entry->row->ranks, what, a, b);
}

static int emit_check_alike(const struct entry *a, const struct entry *b, struct err *err)
{
    const struct bench_row *x = a->row, *y = b->row;
    char one[16], two[16];

    if (strcmp(x->shape, y->shape))
        return refuse_pair("shape", x->shape, y->shape, a, err);
    if (x->type != y->type)
        return refuse_pair("type", dtype_name(x->type), dtype_name(y->type), a, err);
    if (x->redop != y->redop)
        return refuse_pair("reduction", dtype_op_name(x->redop), dtype_op_name(y->redop), a,
                           err);
    if (x->root != y->root) {
        snprintf(one, sizeof one, "%d", x->root);
        snprintf(two, sizeof two, "%d", y->root);
        return refuse_pair("root", one, two, a, err);
    }
    if (x->library[0] && y->library[0] && strcmp(x->library, y->library))
        return refuse_pair("library", x->library, y->library, a, err);
    return 0;
}

/* ---- choices ---- */

/* Chooses among entries [0, n) of one size, the fastest first. */
static void emit_choose(const struct entry *e, int n, struct emit_point *p)
{
    p->way = e[0].way;
    p->best = e[0].row;
    p->ways = 1;
    for (int i = 1; i < n; i++) {
        int seen = 0;
        for (int k = 0; k < i; k++)
            seen |= strcmp(e[k].way.name, e[i].way.name) == 0;
        p->ways += !seen;
        if (!seen && !p->next)
            p->next = e[i].row;
    }
    if (p->ways < 2)
        p->way = (struct emit_way){.id = 0};
}

/* Makes the points of entries [0, n), all of one part. */
static int make_points(const struct emit_target *t, const struct entry *e, int n,
                       struct emit_part *p, struct err *err)
{
    p->coll = e[0].coll;
    p->ranks = e[0].row->ranks;
    p->groups = e[0].groups;
    p->row = e[0].row;
    p->point = mem_new((size_t)n, sizeof *p->point);
    for (int at = 0, end; at < n; at = end) {
        struct emit_point point = {.size = t->size(p->coll, e[at].row)};
        for (end = at; end < n && e[end].row->bytes == e[at].row->bytes; end++) {
            if (emit_check_alike(&e[0], &e[end], err))
                return -1;
            const struct bench_row *r = e[end].row;
            if (!p->library[0])
                snprintf(p->library, sizeof p->library, "%s", r->library);
            if (r->when[0] && (!p->since[0] || strcmp(r->when, p->since) < 0))
                snprintf(p->since, sizeof p->since, "%s", r->when);
            if (strcmp(r->when, p->until) > 0)
                snprintf(p->until, sizeof p->until, "%s", r->when);
        }
        emit_choose(&e[at], end - at, &point);
        /* Sizes that the library cannot distinguish, because it divides by the ranks: keep the
           larger. */
        if (p->points && p->point[p->points - 1].size == point.size)
            p->points--;
        p->point[p->points++] = point;
    }
    return 0;
}

static void make_ranges(struct emit_part *p)
{
    p->range = mem_new((size_t)p->points, sizeof *p->range);
    for (int i = 0; i < p->points; i++) {
        const struct emit_point *at = &p->point[i];
        struct emit_range *last = p->ranges ? &p->range[p->ranges - 1] : NULL;
        int64_t lo = at->size;
        if (last && strcmp(last->way.name, at->way.name)) {
            lo = pick_between(p->point[i - 1].size, at->size);
            last->hi = lo - 1;
            last = NULL;
        }
        if (!last) {
            last = &p->range[p->ranges++];
            *last = (struct emit_range){.lo = lo, .way = at->way, .first = i};
        }
        last->hi = at->size;
        last->points++;
    }
}

static int make_parts(const struct emit_target *t, struct entry *e, int n, struct emit *out,
                      struct err *err)
{
    qsort(e, (size_t)n, sizeof *e, by_size);
    out->part = mem_new((size_t)n + 1, sizeof *out->part);
    for (int at = 0, end; at < n; at = end) {
        struct emit_part *p = &out->part[out->parts++];
        end = at + 1;
        while (end < n && e[end].coll == e[at].coll && e[end].row->ranks == e[at].row->ranks &&
               (!t->by_groups || e[end].groups == e[at].groups))
            end++;
        if (make_points(t, &e[at], end - at, p, err))
            return -1;
        make_ranges(p);
    }
    return 0;
}

/* ---- output ---- */

static int compared(const struct emit_part *p)
{
    int n = 0;

    for (int i = 0; i < p->points; i++)
        n += p->point[i].ways > 1;
    return n;
}

static void emit_say(const struct emit *e, const struct bench_talk *talk)
{
    char line[768];

    if (e->left_out[0]) {
        snprintf(line, sizeof line, "skipped, as the target has no name for them: %s",
                 e->left_out);
        talk->say(talk->with, line);
    }
    for (int i = 0; i < e->parts; i++) {
        const struct emit_part *p = &e->part[i];
        int left = p->points - compared(p);
        if (!left)
            continue;
        snprintf(
            line, sizeof line,
            "%s on %.200s: %d of %d sizes have rows of only one setting and are left to the"
            " library",
            emit_coll_name(p->coll), p->row->shape, left, p->points);
        talk->say(talk->with, line);
    }
}

void emit_comment(FILE *out, const char *format, ...)
{
    char line[201];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line - 2, format, args);
    va_end(args);
    fprintf(out, "# %s\n", line);
}

int bench_emit(enum bench_emit target, const char *const *file, int files,
               const struct bench_talk *talk, FILE *out, struct err *err)
{
    const struct emit_target *t = emit_target(target);
    struct bench_rows all = {0};
    struct entry *entry = NULL;
    struct emit e = {0};
    int rc = bench_read_files(file, files, &all, err), n = 0;

    if (rc == 0) {
        entry = mem_new((size_t)all.rows + 1, sizeof *entry);
        n = emit_collect(t, &all, &e, entry, err);
        rc = n < 0 ? -1 : make_parts(t, entry, n, &e, err);
    }
    int any = 0;
    for (int i = 0; i < e.parts && rc == 0; i++)
        any += compared(&e.part[i]);
    if (rc == 0 && !any)
        rc = err_set(
            err, ERR_INPUT,
            "nothing to compare for %s, expected rows of two or more of %s at one size (%s)",
            t->name, t->wants, t->how);
    if (rc == 0) {
        emit_say(&e, talk);
        t->print(&e, out);
    }
    for (int i = 0; i < e.parts; i++) {
        mem_free(e.part[i].point);
        mem_free(e.part[i].range);
    }
    MEM_FREE(e.part, entry, all.row);
    return rc;
}
