/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the lanes and colours of a step's picture. */
#include "step/step_draw.h"

#include "base/mem.h"

/* Looks by what a row does, in the order of the legend; those of waits follow, paler. */
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
    AGREE,
    LOOKS,
    CRITICAL = 2 * LOOKS,
    ALL_LOOKS
};
static const double PALE = 0.28; /* of the colour of what is waited for */

static enum look look_of(const struct step_row *r)
{
    static const enum look of_lane[STEP_LANES] = {[STEP_GATHER] = GATHER,
                                                  [STEP_REDUCE] = REDUCE,
                                                  [STEP_CONVERT] = CONVERT,
                                                  [STEP_SYNC] = SYNC};
    static const enum look of_kind[STEP_KINDS] = {
        [STEP_BEGIN] = OTHER,           [STEP_FORWARD] = FORWARD, [STEP_BACKWARD] = BACKWARD,
        [STEP_ACCUMULATE] = ACCUMULATE, [STEP_NORM] = OTHER,      [STEP_AGREE] = AGREE,
        [STEP_UPDATE] = UPDATE};

    return r->kind == STEP_TRANSFER ? of_lane[r->lane] : of_kind[r->kind];
}

/* Until it is known which lanes are used each rank has all of them, the compute lane first. */
static int lane_of(int rank, const struct step_row *row)
{
    return rank * STEP_LANES + (row->lane + 1) % STEP_LANES;
}

void step_picture_add(struct step_picture *p, struct step_bar b)
{
    int64_t n = p->timeline.bars++;
    int look = !b.waits ? (int)look_of(b.row)
                        : LOOKS + (int)(b.waits_for ? look_of(b.waits_for) : AGREE);

    p->bar = mem_grow(p->bar, &p->bar_room, (size_t)n + 1, sizeof *p->bar);
    p->bar[n] = (struct svg_bar){.lane = lane_of(b.rank, b.row),
                                 .look = look,
                                 .start_s = b.start_s,
                                 .end_s = b.end_s,
                                 .label = b.waits ? NULL : b.unit,
                                 .item = b.item,
                                 .count = 1};
}

void step_picture_add_path(struct step_picture *p, int rank, const struct step_row *row,
                           double start_s, double end_s)
{
    int n = p->timeline.spans++;

    p->span = mem_grow(p->span, &p->span_room, (size_t)n + 1, sizeof *p->span);
    p->span[n] = (struct svg_span){lane_of(rank, row), start_s, end_s};
}

/* Of each look that some bar has, the name. */
static void find_looks(const struct step_picture *p, struct svg_look look[ALL_LOOKS])
{
    static const struct {
        const char *name;
        int colour; /* -1, -2: greys */
    } looks[LOOKS] = {{"forward", 0}, {"backward", 1}, {"accumulate", 7}, {"update", 2},
                      {"other", -1},  {"gather", 3},   {"reduce", 5},     {"convert", 6},
                      {"sync", 4},    {"agree", -2}};

    for (int i = 0; i < 2 * LOOKS; i++) {
        int c = looks[i % LOOKS].colour;
        look[i].fill = svg_tint(c == -1   ? "#777777"
                                : c == -2 ? "#bbbbbb"
                                          : svg_colour(c),
                                i < LOOKS ? 1 : PALE);
        look[i].kind = i >= LOOKS;
    }
    for (int64_t i = 0; i < p->timeline.bars; i++) {
        int at = p->bar[i].look;
        look[at].name = at < LOOKS ? looks[at].name : NULL;
        if (at >= LOOKS)
            look[LOOKS + GATHER].name = "paler: waiting for it";
    }
    if (p->timeline.spans)
        look[CRITICAL] = (struct svg_look){.name = "critical path", .outlined = 1};
}

int step_picture_draw(struct step_picture *p, FILE *out, struct err *err)
{
    struct svg_timeline *t = &p->timeline;
    struct svg_lane *lane = mem_new((size_t)t->rows * STEP_LANES + 1, sizeof *lane);
    struct svg_look look[ALL_LOOKS] = {{0}};
    int used[STEP_LANES] = {0}, number[STEP_LANES], lanes = 0;

    for (int64_t i = 0; i < t->bars; i++)
        used[p->bar[i].lane % STEP_LANES] = 1;
    for (int k = 0; k < STEP_LANES; k++) {
        number[k] = lanes;
        lanes += used[k];
    }
    for (int i = 0; i < t->rows * STEP_LANES; i++) {
        int k = i % STEP_LANES, of = (k + STEP_LANES - 1) % STEP_LANES;
        if (used[k])
            lane[t->lanes++] = (struct svg_lane){
                i / STEP_LANES, step_lane_name((enum step_lane)of), k ? 1 : 1.4};
    }
    for (int64_t i = 0; i < t->bars; i++)
        p->bar[i].lane =
            p->bar[i].lane / STEP_LANES * lanes + number[p->bar[i].lane % STEP_LANES];
    for (int i = 0; i < t->spans; i++)
        p->span[i].lane =
            p->span[i].lane / STEP_LANES * lanes + number[p->span[i].lane % STEP_LANES];
    find_looks(p, look);
    t->lane = lane;
    t->look = look;
    t->looks = ALL_LOOKS;
    t->bar = p->bar;
    t->path = p->span;
    int rc = svg_timeline(t, out, err);
    mem_free(lane);
    return rc;
}

void step_picture_release(struct step_picture *p)
{
    mem_free(p->bar);
    mem_free(p->span);
    *p = (struct step_picture){0};
}
