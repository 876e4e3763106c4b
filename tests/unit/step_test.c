/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests a step's rows: proved for many shapes, and mutants of every field are rejected. */
#include "unit.h"

#include "step/step.h"
#include "step/step_place.h"

enum { UNITS = 4, VISITS = UNITS + 1, FIRST = 1 << STEP_COMPUTE };

/* An embedding, layers and a head; tied: the last visit is the embedding again. */
struct bed {
    char trains[UNITS];
    struct step_shape shape;
};

static void shape_of(struct bed *b, int tied, int first_trained, unsigned has)
{
    *b = (struct bed){.trains = {0}};
    for (int v = 0; v < UNITS; v++)
        b->trains[v] = v >= first_trained;
    b->shape = (struct step_shape)LIST(.units = UNITS, .visits = tied ? VISITS : UNITS,
                                       .trains = b->trains, .first_trained = first_trained,
                                       .micros = 2, .prefetch = 1, .buckets = 2);
    for (int l = 0; l < STEP_COMPUTE; l++)
        b->shape.has[l] = has >> l & 1;
    b->shape.outer = !(has >> STEP_OUTER_REDUCE & 3) ? STEP_OUTER_NONE
                     : has & FIRST                   ? STEP_OUTER_FIRST
                                                     : STEP_OUTER_LAST;
}

static void prove(const struct step_shape *p)
{
    struct step s;

    step_gen(&s, p);
    assert_ok(step_verify(&s, p, &err));
    step_release(&s);
}

TEST(all_shapes_are_proved)
{
    struct bed b;

    for (unsigned has = 0; has < 2 * FIRST; has++)
        for (int tied = 0; tied < 2; tied++)
            for (int first = 0; first < (tied ? 1 : UNITS); first++)
                for (int micros = 1; micros < 4; micros++)
                    for (int prefetch = 0; prefetch < 12; prefetch++)
                        for (int keep = 0; keep < 7; keep++)
                            for (int buckets = 1; buckets < 4; buckets++) {
                                shape_of(&b, tied, first, has);
                                b.shape.micros = micros;
                                b.shape.prefetch = prefetch;
                                b.shape.keep = keep;
                                b.shape.buckets = buckets;
                                prove(&b.shape);
                                b.shape.early_update = 1;
                                prove(&b.shape);
                            }
}

/* The forward alone, of whatever number of micro-batches and slots. */
TEST(evaluations_are_proved)
{
    struct bed b;

    for (unsigned has = 0; has < 2 * FIRST; has++)
        for (int tied = 0; tied < 2; tied++)
            for (int micros = 1; micros < 5; micros++)
                for (int prefetch = 0; prefetch < 12; prefetch++) {
                    shape_of(&b, tied, tied ? VISITS : UNITS, has);
                    b.shape.micros = micros;
                    b.shape.prefetch = prefetch;
                    b.shape.keep = 2;
                    b.shape.evaluate = 1;
                    prove(&b.shape);
                }
}

/* The step of the drawing in step_gen.c. */
TEST(slots_are_those_of_the_drawing)
{
    static const int slot[] = {0, 1, 0, 2, 2, 1, 0, 1, 0};
    struct bed b;
    struct step s;
    int use = 0, gathers = 0;

    shape_of(&b, 0, 0, 1 << STEP_GATHER);
    b.shape.keep = 1;
    step_gen(&s, &b.shape);
    assert_int_equal(s.slots, 3);
    assert_int_equal(s.row[0].lane, STEP_GATHER);
    assert_int_equal(s.row[1].lane, STEP_GATHER);
    assert_int_equal(s.row[2].kind, STEP_BEGIN);
    for (int i = 0; i < s.rows; i++) {
        int kind = s.row[i].kind;
        gathers += s.row[i].lane == STEP_GATHER;
        if ((kind == STEP_FORWARD || kind == STEP_BACKWARD) && use < 9)
            assert_int_equal(s.row[i].buffer, slot[use++]);
    }
    assert_int_equal(gathers, 14); /* two micro-steps of 8 uses, one of them kept */
    step_release(&s);
}

/* How many mutants of a field are rejected, of how many. */
struct score {
    int rejected, all;
};

static int is_rejected(const struct step *s, const struct step_shape *p)
{
    return step_verify(s, p, &err) != 0;
}

static void mutate(struct step *s, const struct step_shape *p, int *field, struct score *score)
{
    int was = *field;

    for (int by = -3; by <= 3; by++) {
        *field = was + by;
        score->all += by != 0;
        score->rejected += by != 0 && is_rejected(s, p);
    }
    *field = was;
}

/* The step with row i once more behind it. */
static int is_rejected_twice(const struct step *s, const struct step_shape *p, int i)
{
    struct step more = *s;

    more.row = mem_new((size_t)s->rows + 1, sizeof *more.row);
    more.rows++;
    more.norm += s->norm > i;
    for (int k = 0; k < more.rows; k++) {
        more.row[k] = s->row[k > i ? k - 1 : k];
        for (int a = 0; a < 2; a++)
            more.row[k].after[a] += more.row[k].after[a] > i;
    }
    int rejected = is_rejected(&more, p);
    mem_free(more.row);
    return rejected;
}

/* A dependency may be implied by others: those of buffers and gradients are not all. */
TEST(mutants_are_rejected)
{
    struct score of[6] = {{0, 0}}, without = {0, 0}, missing = {0, 0}, twice = {0, 0},
                 short_by_one = {0, 0};
    struct bed b;
    struct step s;

    for (unsigned at = 0; at < 4 * FIRST; at++) {
        shape_of(&b, at & 1, 0, at);
        b.shape.keep = 1;
        b.shape.early_update = at / (2 * FIRST);
        step_gen(&s, &b.shape);
        for (int i = 0; i < s.rows; i++) {
            struct step_row *r = &s.row[i], was = *r;
            int *field[6] = {&r->lane, &r->kind, &r->unit, &r->visit, &r->micro, &r->buffer};
            for (int k = 0; k < 6; k++)
                mutate(&s, &b.shape, field[k], &of[k]);
            r->after[0] = r->after[1] = -1;
            without.all += was.after[0] >= 0 || was.after[1] >= 0;
            without.rejected += is_rejected(&s, &b.shape);
            *r = s.row[i ? i - 1 : 1];
            missing.all++;
            missing.rejected += is_rejected(&s, &b.shape);
            *r = was;
            twice.all++;
            twice.rejected += is_rejected_twice(&s, &b.shape, i);
        }
        s.rows--;
        short_by_one.all++;
        short_by_one.rejected += is_rejected(&s, &b.shape);
        step_release(&s);
    }
    for (int k = 0; k < 6; k++)
        if (of[k].rejected != of[k].all)
            fail_msg("field %d: %d of %d", k, of[k].rejected, of[k].all);
    print_message("# without dependencies: %d of %d\n", without.rejected, without.all);
    assert_true(without.rejected * 2 > without.all);
    assert_int_equal(missing.rejected, missing.all);
    assert_int_equal(twice.rejected, twice.all);
    assert_int_equal(short_by_one.rejected, short_by_one.all);
}

/* Begun after the norm, with or without its first use. */
TEST(another_micro_step_is_rejected)
{
    const struct step_row begin =
        LIST(.lane = STEP_COMPUTE, .kind = STEP_BEGIN, .unit = -1, .visit = -1, .micro = 2,
             .buffer = -1, .after = {-1, -1});
    struct step_row use = begin;
    struct bed b;
    struct step s;

    use.kind = STEP_FORWARD;
    use.unit = use.visit = 0;
    for (int more = 1; more <= 2; more++) {
        shape_of(&b, 0, 0, 0);
        step_gen(&s, &b.shape);
        struct step_row *row = mem_new((size_t)s.rows + 2, sizeof *row);
        memcpy(row, s.row, (size_t)s.rows * sizeof *row);
        row[s.rows] = begin;
        row[s.rows + 1] = use;
        mem_free(s.row);
        s.row = row;
        s.rows += more;
        assert_true(is_rejected(&s, &b.shape));
        step_release(&s);
    }
}

TEST(a_large_step_is_proved)
{
    enum { MANY = 4096 };
    char *trains = mem_new(MANY, 1);
    struct step_shape p = LIST(.units = MANY, .visits = MANY, .trains = trains, .micros = 64,
                               .prefetch = 2, .keep = 3, .buckets = 2, .has = {1, 1, 1, 1});

    memset(trains, 1, MANY);
    prove(&p);
    mem_free(trains);
}

/* By what step_place.h says each buffer is for; counts of 64 elements need no alignment. */
static void takes(const struct step_space *s)
{
    enum { P = 59, G = 47, O = 43, E = 101, T = 97, TIED = 7 };
    const int p = dtype_bytes(s->param), w = dtype_bytes(s->wire), r = dtype_bytes(s->reduce),
              gathers = s->has[STEP_GATHER], other = s->param != s->wire;
    int64_t shared = (53 + 2 + 2 * (59 + 3)) * p, own = (47 + 2 * 41) * dtype_bytes(s->grad);
    struct arena a = {0}, b = {0};

    own += (43 + 2 * 37) * 3 * 4 + (29 + 2 * 19) * 2 * 4;
    shared += gathers * E * w * s->slots;
    shared += gathers && (other || s->coded) ? P * w : 0;
    shared += s->has[STEP_REDUCE] * (T * s->buckets + G) * r;
    shared += s->has[STEP_CONVERT] * (G + O) * r;
    shared += s->has[STEP_SYNC] * (O + other * P) * w;
    shared += s->has[STEP_OUTER_REDUCE] * (31 + 29) * dtype_bytes(s->outer);
    shared += s->has[STEP_OUTER_GATHER] * (29 + O) * 4;
    own += (gathers ? s->wire : s->param) != s->read ? E * dtype_bytes(s->read) : 0;
    own += s->apart * (T + (s->tied ? TIED : 0)) * 4;
    step_place(s, &a, &b, NULL, NULL);
    assert_int_equal(a.used, 64 * shared);
    assert_int_equal(b.used, 64 * own);
}

TEST(memory_is_the_sum_of_what_the_lanes_use)
{
    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16};
    static const struct step_unit unit[] = {
        {64 * 101, 64 * 97, 64 * 53, 64 * 47, 64 * 43, 64 * 2, 1, 64 * 31, 64 * 29},
        {64 * 89, 64 * 83, 64 * 59, 64 * 41, 64 * 37, 64 * 3, 2, 64 * 23, 64 * 19}};

    for (int i = 0; i < 1 << 15; i++) {
        const struct step_space s =
            LIST(.unit = unit, .units = 2, .tied = i & 1 ? 64 * 7 : 0,
                 .param = types[i >> 1 & 1], .wire = types[i >> 2 & 1],
                 .grad = types[i >> 3 & 1], .reduce = types[i >> 4 & 1],
                 .read = types[i >> 5 & 1],
                 .has = {i >> 6 & 1, i >> 7 & 1, i >> 8 & 1, i >> 9 & 1, i >> 12 & 1,
                         i >> 13 & 1},
                 .coded = i >> 10 & 1, .slots = 2, .buckets = 3,
                 .outer = i >> 14 & 1 ? DTYPE_F64 : DTYPE_F32, .apart = i >> 11 & 1 ? 2 : 0);
        takes(&s);
    }
}
