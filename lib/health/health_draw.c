/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draws a verdict: a matrix of the rates between all hosts, with the rates of their ports as
 * margins, a sign at hosts and a frame around cells named in findings.
 */
#include <string.h>

#include "base/mem.h"
#include "draw/draw_matrix.h"
#include "base/units.h"
#include "health/health_parts.h"

enum { CELLS = 64, LINES = 16 };

static const char *const sign[] = {"", "!", "X", "?"}; /* by state */

struct draw {
    const struct health_data *d;
    const struct health_verdict *v;
    struct health_stream *stream; /* owned */
};

static const char *draw_name_of(const void *of, int from, int to, char *text, size_t space)
{
    (void)to;
    (void)text;
    (void)space;
    return ((const struct draw *)of)->d->host[from].name;
}

/* An item is an index of a stream, or, below 0, encodes a port's direction. */
static void draw_tip_of(const void *of, const struct svg_cell *c, char *text, size_t space)
{
    const struct draw *w = of;
    struct units u;
    int n;

    if (c->item < 0) {
        int host = (int)(-1 - c->item) / 2, way = (int)(-1 - c->item) % 2;
        n = snprintf(text, space, "%.100s %s: %.1f %%, %s", w->d->host[host].name,
                     health_way[way], c->percent, units_rate(&u, w->v->port[host][way].Bps));
    } else {
        const struct health_stream *s = &w->stream[c->item];
        n = snprintf(text, space, "%.100s to %.100s: %.1f %%", w->d->host[s->src].name,
                     w->d->host[s->dst].name, c->percent);
    }
    if (c->count > 1)
        snprintf(text + n, space - (size_t)n, ", the worst of these");
}

static void draw_put_note(const struct draw *w, const struct svg_matrix *m, char *text,
                          size_t space)
{
    int n = w->v->findings ? 0 : snprintf(text, space, "No faults found.\n");

    for (int i = 0; i < w->v->findings && i < LINES; i++) {
        const struct health_finding *f = &w->v->finding[i];
        n += snprintf(text + n, space - (size_t)n, "%s  %s HC-%d  %.360s\n", sign[f->state],
                      health_state_name(f->state), f->code, f->text);
    }
    if (w->v->findings > LINES)
        n += snprintf(text + n, space - (size_t)n, "%d more\n", w->v->findings - LINES);
    n += snprintf(text + n, space - (size_t)n,
                  "A row sends, a column receives; first row and column: the ports");
    if (m->per_row > 1)
        snprintf(text + n, space - (size_t)n, "; %d x %d hosts a cell, the worst of them",
                 m->per_row, m->per_row);
}

static struct svg_cell *port_of(const struct svg_matrix *m, int host, int way)
{
    return way == HEALTH_OUT ? svg_matrix_cell(m, host, -1) : svg_matrix_cell(m, -1, host);
}

void health_draw(const struct health_report *t, FILE *out)
{
    static const char *const legend[] = {"98 % and more of what is expected",
                                         "95 to 98",
                                         "90 to 95",
                                         "75 to 90",
                                         "50 to 75",
                                         "below 50",
                                         "white: not measured",
                                         "framed: named in a finding",
                                         "X  CRITICAL",
                                         "!  WARNING",
                                         "?  UNKNOWN",
                                         NULL};
    struct draw w = {.d = t->d, .v = t->v};
    struct svg_matrix m = {.wide = CELLS,
                           .high = CELLS,
                           .square = 1,
                           .legend = legend,
                           .name = draw_name_of,
                           .tip = draw_tip_of,
                           .of = &w};
    enum health_state state[CELLS] = {HEALTH_OK};

    svg_matrix_init(&m, t->d->hosts, t->d->hosts, CELLS);
    for (int k = 0; t->v->port && k < t->d->hosts; k++)
        for (int way = 0; way < 2; way++)
            if (t->v->port[k][way].samples)
                svg_matrix_enter(port_of(&m, k, way), t->v->port[k][way].percent,
                                 -1 - 2 * k - way);
    int streams = health_streams_of(t->d, t->v, &w.stream);
    for (int i = 0; i < streams; i++)
        svg_matrix_enter(svg_matrix_cell(&m, w.stream[i].src, w.stream[i].dst),
                         w.stream[i].percent, i);
    for (int i = 0; i < t->v->findings; i++) {
        const struct health_finding *f = &t->v->finding[i];
        int row = f->host / m.per_row;
        if (f->host >= 0 && f->other >= 0)
            svg_matrix_cell(&m, f->host, f->other)->framed = 1;
        if (f->host < 0 || f->other >= 0)
            continue; /* findings about pairs are in the matrix */
        for (int way = 0; way < 2; way++)
            port_of(&m, f->host, way)->framed |= f->way < 0 || f->way == way;
        state[row] = health_worse(state[row], f->state);
        m.sign[row] = sign[state[row]];
    }
    snprintf(m.title, sizeof m.title, "HORING %s: %d hosts, %d finding%s, compared with %s",
             health_state_name(t->v->state), t->d->hosts, t->v->findings,
             t->v->findings == 1 ? "" : "s", t->v->by_baseline ? "a baseline" : "each other");
    draw_put_note(&w, &m, m.note, sizeof m.note);
    svg_matrix_draw(&m, out);
    mem_free(w.stream);
}
