/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * goodput_plot NOTE FAILURES < goodput.csv 3> goodput.svg: simulates each run until it has
 * failed so often, prints predicted next to simulated goodput, and draws both over the ranks.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../unit/goodput_fixture.h"
#include "draw/draw_figure.h"

enum { ROWS = 64, PERIODS_MAX = 1 << 20 };

struct row {
    char way[40], strategy[8];
    int ranks, restart; /* seconds, as it was asked for */
    double step_s, simulated, error;
    struct plan_survival s;
};

static int read_row(const char *line, struct row *r)
{
    struct plan_survival *s = &r->s;

    if (sscanf(line, "%39[^,],%d,%d,%7[^,],%lf,%lf,%d,%d,%d,%d,%lf,%lf,%lf,%lf,%lf,%lf", r->way,
               &r->restart, &r->ranks, r->strategy, &r->step_s, &s->mtbf_s, &s->nodes,
               &s->copies, &s->local_every, &s->save_every, &s->local_pause_s, &s->pause_s,
               &s->local_restart_s, &s->restart_s, &s->lost_share, &s->goodput) != 16)
        return -1;
    s->ring = s->nodes;
    return 0;
}

/* Means of period lengths: the share of a period that is steps. */
static void simulate(struct row *r, long failures)
{
    int64_t every = r->s.copies ? r->s.local_every : r->s.save_every;
    double work_s = r->step_s * r->s.save_every, error;
    struct sim_run run;

    sim_init(&run, &r->s, (uint64_t)r->ranks);
    while (run.failures < failures && run.periods < PERIODS_MAX)
        sim_period(&run, r->step_s, every, r->s.save_every / every);
    double mean = sim_mean(&run, &run.seconds, &error);
    r->simulated = work_s / mean;
    r->error = r->simulated * error / mean;
    sim_release(&run);
}

static void print(const struct row *r)
{
    struct units step;

    printf("%7d %6d %-24s %-4s %8s %9.1f %6d %6d %6d %9.2g  %8.4f  %8.4f +- %.5f\n", r->restart,
           r->ranks, r->way, r->strategy, units_time(&step, r->step_s),
           r->s.mtbf_s / r->s.nodes / 3600, r->s.copies, r->s.local_every, r->s.save_every,
           r->s.lost_share, r->s.goodput, r->simulated, r->error);
}

static void add_lines(struct svg_figure *f, const struct row *row, int rows, int simulated)
{
    int restart = row->restart;
    static const char *const ways[] = {"local saves with copies", "shared folder alone"};
    char name[80], tip[160];

    for (int way = 0; way < 2; way++) {
        snprintf(name, sizeof name, "%s%s", ways[way], simulated ? ", simulated" : "");
        svg_figure_line(f, name,
                        (struct svg_series){.colour = way, .marker = simulated ? way : -1});
        for (int i = 0; i < rows; i++) {
            double y = simulated ? row[i].simulated : row[i].s.goodput;
            if (row[i].restart != restart || strcmp(row[i].way, ways[way]) != 0)
                continue;
            snprintf(tip, sizeof tip, "%s, %d ranks: %.4f", name, row[i].ranks, y);
            svg_figure_point(f, row[i].ranks, 100 * y, tip);
            if (simulated) /* a marker alone */
                svg_figure_point(f, row[i].ranks, NAN, tip);
        }
    }
}

int main(int argc, char **argv)
{
    static struct row row[ROWS];
    const struct svg_axis x = {.name = "ranks", .scale = SVG_LOG2, .unit = units_whole},
                          y = {.name = "goodput, %", .unit = units_plain, .lo = 90, .hi = 100};
    struct svg_figure f = {.title = "Share of the time in which a run makes steps that stay",
                           .columns = 2};
    char line[512];
    int rows = 0;

    if (argc != 3) {
        fputs("usage: goodput_plot NOTE FAILURES < goodput.csv 3> goodput.svg\n", stderr);
        return 2;
    }
    printf("%7s %6s %-24s %-4s %8s %9s %6s %6s %6s %9s  %8s  %s\n", "restart", "ranks", "",
           "plan", "step", "job, h", "copies", "local", "shared", "lost", "goodput",
           "simulated");
    for (int at = 1; rows < ROWS && fgets(line, sizeof line, stdin); at++) {
        if (at == 1)
            continue;
        if (read_row(line, &row[rows])) {
            fprintf(stderr, "goodput_plot: line %d: not a row of goodput.csv\n", at);
            return 2;
        }
        simulate(&row[rows], strtol(argv[2], NULL, 10));
        print(&row[rows++]);
    }
    snprintf(f.note, sizeof f.note, "%s; lines are predicted", argv[1]);
    for (int i = 0; i < rows; i++) {
        if (i && row[i].restart == row[i - 1].restart)
            continue;
        snprintf(line, sizeof line, "a restart takes %d s", row[i].restart);
        svg_figure_chart(&f, line, x, y, 320);
        add_lines(&f, row + i, rows - i, 0);
        add_lines(&f, row + i, rows - i, 1);
    }
    FILE *out = fdopen(3, "w");
    if (!out)
        return 2;
    svg_figure_draw(&f, out);
    svg_figure_release(&f);
    return fclose(out) == EOF || fflush(stdout) == EOF ? 2 : 0;
}
