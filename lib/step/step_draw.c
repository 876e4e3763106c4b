/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws a step as a timeline: assigns lanes, colours and legend to its rows. */
#include "step/step_draw.h"

/* Appearances of bars, in the order of the legend.  Waits have the same ones, paler. */
enum look {
    FORWARD,
    BACKWARD,
    ACCUMULATE,
    UPDATE,
    OTHER,
    GATHER,
    REDUCE,
    CONVERT,
    SYNC,
    OUTER,
    AGREE,
    LOOKS,
    CRITICAL = 2 * LOOKS,
    ALL_LOOKS
};
static const double PALE = 0.28; /* tint of a wait: share of the awaited row's colour */

static enum look look_of(const struct step_row *r)
{
    static const enum look of_lane[STEP_LANES] = {
        [STEP_GATHER] = GATHER, [STEP_REDUCE] = REDUCE,      [STEP_CONVERT] = CONVERT,
        [STEP_SYNC] = SYNC,     [STEP_OUTER_REDUCE] = OUTER, [STEP_OUTER_GATHER] = OUTER};
    static const enum look of_kind[STEP_KINDS] = {
        [STEP_BEGIN] = OTHER,           [STEP_FORWARD] = FORWARD, [STEP_BACKWARD] = BACKWARD,
        [STEP_ACCUMULATE] = ACCUMULATE, [STEP_NORM] = OTHER,      [STEP_AGREE] = AGREE,
        [STEP_UPDATE] = UPDATE,         [STEP_ADOPT] = UPDATE};

    return r->kind == STEP_TRANSFER ? of_lane[r->lane] : of_kind[r->kind];
}

static int lane_of(const struct step_row *row)
{
    return (row->lane + 1) % STEP_LANES; /* the compute lane is the last one of a step */
}

void step_draw_bar(struct svg_timeline *t, struct step_bar b)
{
    int look = !b.waits ? (int)look_of(b.row)
                        : LOOKS + (int)(b.waits_for ? look_of(b.waits_for) : AGREE);

    svg_timeline_bar(t, (struct svg_bar){.row = b.rank,
                                         .lane = lane_of(b.row),
                                         .look = look,
                                         .start_s = b.start_s,
                                         .end_s = b.end_s,
                                         .label = b.waits ? NULL : b.unit,
                                         .item = b.item,
                                         .count = 1});
}

void step_draw_span(struct svg_timeline *t, int rank, const struct step_row *row,
                    double start_s, double end_s)
{
    svg_timeline_span(t, (struct svg_span){rank, lane_of(row), start_s, end_s});
}

int step_draw(struct svg_timeline *t, FILE *out, struct err *err)
{
    static const struct {
        const char *name;
        int colour; /* -1, -2, -3: greys */
    } looks[LOOKS] = {{"forward", 0}, {"backward", 1}, {"accumulate", 7}, {"update", 2},
                      {"other", -1},  {"gather", 3},   {"reduce", 5},     {"convert", 6},
                      {"sync", 4},    {"outer", -3},   {"agree", -2}};
    struct svg_lane lane[STEP_LANES];
    struct svg_look look[ALL_LOOKS] = {{0}};

    for (int i = 0; i < STEP_LANES; i++)
        lane[lane_of(&(struct step_row){.lane = i})] =
            (struct svg_lane){step_lane_name((enum step_lane)i), i == STEP_COMPUTE ? 1.4 : 1};
    for (int i = 0; i < 2 * LOOKS; i++) {
        int c = looks[i % LOOKS].colour;
        look[i].fill = svg_tint(c == -1   ? "#777777"
                                : c == -2 ? "#bbbbbb"
                                : c == -3 ? "#333333"
                                          : svg_colour(c),
                                i < LOOKS ? 1 : PALE);
        look[i].kind = i >= LOOKS;
    }
    /* The legend lists only the looks in use. */
    for (int64_t i = 0; i < t->bars; i++) {
        int at = t->bar[i].look;
        look[at].name = at < LOOKS ? looks[at].name : NULL;
        if (at >= LOOKS)
            look[LOOKS + GATHER].name = "paler: waiting for it";
    }
    if (t->spans)
        look[CRITICAL] = (struct svg_look){.name = "critical path", .outlined = 1};
    t->lane = lane;
    t->lanes = STEP_OUTER_REDUCE + 1; /* those of periods are drawn where they are used */
    for (int64_t i = 0; i < t->bars; i++)
        t->lanes = t->bar[i].lane < t->lanes ? t->lanes : STEP_LANES;
    t->look = look;
    t->looks = ALL_LOOKS;
    return svg_timeline_draw(t, out, err);
}
