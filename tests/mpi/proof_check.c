/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that the engine's proofs can object, and do not where nothing is wrong: proof_check
 * audit|hash|against SHAPE CONFIG, and proof_check honest SHAPE CONFIG TYPE STEPS OFFSET, run
 * under mpirun with the shape's ranks.
 *
 *  audit    a range that is moved by one element, a shard that is one element short: named by
 *           state, unit and elements, on every rank.
 *  hash     one bit of one element on one rank: named, where there are copies, or another hash.
 *  against  one element of one state of the first engine, one bit where sums are exact, its
 *           loss, its norm, its gradient: named by state, tensor and elements.
 *  honest   STEPS steps at a high rate and hard clipping, of which every fifth is spoilt by a
 *           NaN and skipped: nothing is reported.  Every third of the 27 strategies, from
 *           OFFSET on, against another one.
 */
#include "engine_fixture.h"
#include "engine_spoil.h"

enum { UNIT = 1, ALIKE = 2 }; /* layers.0 and layers.1, of one size */

/* Expects the error to be the same on every rank, and to have the words. */
static void expect(struct check *c, int rc, const struct err *why, const char *words)
{
    int same =
        words ? rc == -1 && why->code == ERR_MISMATCH && strstr(why->text, words) : rc == 0;

    if (same || c->failures++ > 3)
        return;
    fprintf(stderr, "rank %d: said '%s', expected '%s'\n", c->world->rank, rc ? why->text : "",
            words ? words : "");
}

static struct engine *named(struct check *c, const char *name, int exact, int apart)
{
    if (plan_strategy_parse(name, &c->plan.strategy, &err))
        die(c, &err);
    return opened(c, (struct engine_options){.exact = exact, .apart = apart});
}

static void audit(struct check *c, struct engine *e, const char *words)
{
    int rc = engine_audit(e, &err);

    expect(c, rc, &err, words);
}

static struct range *ranges_of(struct engine *e, int unit, int state)
{
    struct engine_unit *u = &e->unit[unit];

    return u->share[state].range;
}

/* The last rank's first range goes `by` up; every rank must know where it was. */
static void move_range(struct check *c, struct engine *e, int state, enum letter letter, int by)
{
    static const char *const states[] = {"params", "grads", "optimizer"};
    int last = c->world->ranks - 1, group = c->plan.groups.group_of[last];
    struct range *r = ranges_of(e, UNIT, state), *there;
    char words[160];

    there = mem_new((size_t)layout_ranges_max(&e->layout), sizeof *there);
    layout_ranges(&e->layout, letter, last, e->unit[UNIT].elems, there);
    int64_t lo = by > 0 ? there->lo : there->lo - 1;
    snprintf(words, sizeof words,
             "%s of unit 'layers.0', elements %" PRId64 " to %" PRId64 ": held %s by %s %d",
             states[state], lo, lo + 1, by > 0 ? "not" : "twice",
             letter == LETTER_N   ? "rank"
             : letter == LETTER_I ? "group"
                                  : "all ranks from",
             letter == LETTER_N   ? last
             : letter == LETTER_I ? group
                                  : 0);
    for (int i = 0; i < 2; i++, by = -by) {
        r->lo += c->world->rank == last ? by : 0;
        r->hi += c->world->rank == last ? by : 0;
        audit(c, e, i ? NULL : words);
    }
    mem_free(there);
}

static void check_audit(struct check *c)
{
    static const char *const names[] = {"NNN", "III", "GGG"};

    for (int letter = 0; letter < 3; letter++) {
        struct engine *e = named(c, names[letter], 0, 0);
        int last = c->world->rank == c->world->ranks - 1;
        audit(c, e, NULL);
        for (int state = 0; state < 3; state++) {
            move_range(c, e, state, (enum letter)letter, 1);
            if (letter) /* the last rank's begins behind another's */
                move_range(c, e, state, (enum letter)letter, -1);
        }
        e->unit[0].share[ENGINE_OPTIM].elems -= last;
        audit(c, e, "optimizer of unit 'embed': a buffer of");
        e->unit[0].share[ENGINE_OPTIM].elems += last;
        ranges_of(e, ALIKE, 1)->lo += last;
        ranges_of(e, ALIKE, 1)->hi += last;
        audit(c, e, "grads of unit 'layers.1' are placed differently from those of 'layers.0'");
        engine_close(e);
    }
}

static void flip(void *element)
{
    *(char *)element = (char)(*(char *)element ^ 1);
}

/* State 0: parameters, 1: master, 2, 3: moments; element x of the unit's packed shard. */
static float *element_of(struct engine *e, int state, int64_t x)
{
    struct engine_unit *u = &e->unit[UNIT];
    float *const from[] = {u->params, u->master, u->m, u->v};

    return from[state] + x;
}

static void check_hash(struct check *c)
{
    static const char *const names[] = {"NNN", "III", "GGG", "IGG", "NIG"};
    static const char *const states[] = {"params", "master", "exp_avg", "exp_avg_sq"};
    int last = c->world->rank == c->world->ranks - 1;
    uint64_t first = 0, was, now;
    char words[96];

    for (int i = 0; i < 5; i++) {
        struct engine *e = named(c, names[i], 0, 0);
        err = (struct err){0};
        expect(c, engine_hash(e, &was, &err), &err, NULL);
        expect(c, i && was != first ? -1 : 0, &err, NULL); /* whatever the layout */
        first = was;
        for (int s = 0; s < 4; s++) {
            int copies = names[i][s ? 2 : 0] != 'G';
            snprintf(words, sizeof words, "copies of '%s' of unit 'layers.0' differ",
                     states[s]);
            if (last)
                flip(element_of(e, s, 7));
            int rc = engine_hash(e, &now, &err);
            expect(c, rc, &err, copies ? words : NULL);
            expect(c, !copies && rc == 0 && now == was ? -1 : 0, &err, NULL);
            if (last)
                flip(element_of(e, s, 7));
        }
        expect(c, engine_hash(e, &now, &err), &err, NULL);
        expect(c, now != was ? -1 : 0, &err, NULL);
        engine_close(e);
    }
}

struct pair {
    struct check *c;
    struct engine *running;
    float value; /* into the gradient of this rank, where `spoilt` */
    int spoilt;
};

static void spoilt_batch(void *arg, int micro, int32_t *tokens, int32_t *targets)
{
    const struct pair *p = arg;

    if (p->spoilt && micro == 0 && p->c->world->rank == 1)
        spoilt_gradient(p->running, 0)[5] = p->value;
    batch(p->c, micro, tokens, targets);
}

enum what { NOTHING, PARAMS, MASTER, MOMENT, SQUARE, BIT, LOSS, NORM, GRADIENT };

/* One step of a fresh pair; between the two engines `what` happens to the first. */
static void against(struct check *c, const char *one, const char *two, enum what what,
                    const char *words)
{
    int exact = what == BIT;
    struct engine *first = named(c, one, exact, 1);
    struct plan plan = c->plan; /* the first one's: each engine borrows its own */
    first->plan = &plan;
    struct engine *second = named(c, two, exact, 1);
    struct pair p = {c, first, 1e-3F, what == GRADIENT};
    struct engine_optim o = {1e-3, 0.9, 0.95, 1e-8, 0.1, 1, 0, 1, NULL, 0, 0, 0, 0};
    struct engine_against *a = NULL;
    struct engine_report report;
    char full[256] = "";

    c->step = 0;
    if (engine_against_open(&a, first, second, &err) || engine_against_begin(a, &err) ||
        engine_step(first, spoilt_batch, &p, &o, &report, &err) ||
        stream_wait_all(first->stream[STEP_SYNC], &err) || world_barrier(c->world, &err))
        die(c, &err);
    /* Two elements in the middle of the last rank's shard, all under G. */
    for (int i = 3; c->world->rank == c->world->ranks - 1 && i < 5; i++) {
        if (what >= PARAMS && what <= SQUARE)
            *element_of(first, (int)what - PARAMS, i) += 1e-3F;
        if (what == BIT)
            flip(element_of(first, 3, i));
    }
    report.loss *= what == LOSS ? 1 + 1e-9 : 1;
    report.grad_norm *= what == NORM ? 1 + 1e-4 : 1;
    if (words && what <= BIT) {
        layout_ranges(&first->layout, LETTER_G, c->world->ranks - 1, first->unit[UNIT].elems,
                      a ? first->ranges : NULL);
        const struct model_tensor *t = &c->plan.model.tensor[c->plan.model.unit[UNIT].first];
        int64_t x = first->ranges[0].lo + 3;
        while (x >= t->offset + t->elems)
            t++;
        snprintf(full, sizeof full, "step 1: %s of '%s', elements %" PRId64 " to %" PRId64 ": ",
                 words, t->name, x - t->offset, x - t->offset + 2);
    }
    p.running = second;
    p.spoilt = 0;
    int rc = engine_against_end(a, spoilt_batch, &p, &o, &report, &err);
    expect(c, rc, &err, !words ? NULL : *full ? full : words);
    engine_against_close(a);
    engine_close(second);
    engine_close(first);
}

static void check_against(struct check *c)
{
    against(c, "GGG", "NNN", NOTHING, NULL);
    against(c, "GGG", "NNN", PARAMS, "params");
    against(c, "GGG", "NNN", MASTER, "master");
    against(c, "GGG", "IIG", MOMENT, "exp_avg");
    against(c, "GGG", "III", SQUARE, "exp_avg_sq");
    against(c, "GGG", "NIG", BIT, "exp_avg_sq");
    against(c, "IIG", "GGG", LOSS, "step 1: loss ");
    against(c, "NNN", "GGG", NORM, "step 1: gradient norm ");
    against(c, "NIG", "IGG", GRADIENT, "step 1: ");
    against(c, "NIG", "IGG", NOTHING, NULL);
}

static void honest(struct check *c, const char *one, const char *two, int exact)
{
    struct engine *first = named(c, one, exact, 1);
    struct plan plan = c->plan;
    first->plan = &plan;
    struct engine *second = named(c, two, exact, 1);
    struct pair p = {c, NULL, NAN, 0};
    struct engine_optim o = {3e-2, 0.9, 0.95, 1e-8, 0.1, 0.01, 0, 1, NULL, 0, 0, 0, 0};
    struct engine_against *a = NULL;
    struct engine_report report;
    err = (struct err){0};
    int rc = engine_against_open(&a, first, second, &err), skipped = 0;

    for (c->step = 0; rc == 0 && c->step < c->steps; c->step++, o.step++) {
        p.spoilt = c->step % 5 == 4;
        p.running = first;
        if (engine_against_begin(a, &err) ||
            engine_step(first, spoilt_batch, &p, &o, &report, &err))
            die(c, &err);
        skipped += report.skipped;
        p.running = second;
        rc = engine_against_end(a, spoilt_batch, &p, &o, &report, &err);
    }
    if (rc)
        err_prefix(&err, "%s against %s: ", one, two);
    else if (skipped != c->steps / 5)
        rc = err_set(&err, ERR_MISMATCH, "%s: %d steps skipped", one, skipped);
    expect(c, rc, &err, NULL);
    engine_against_close(a);
    engine_close(second);
    engine_close(first);
}

static void check_honest(struct check *c, int offset)
{
    for (int i = offset % 3; i < PLAN_STRATEGIES; i += 3) {
        int other = (i * 4 + 13) % PLAN_STRATEGIES;
        honest(c, plan_strategy_name(plan_strategy_at(i)),
               plan_strategy_name(plan_strategy_at(other)), i % 9 == 8);
    }
}

int main(int argc, char **argv)
{
    struct check c = {0};
    const char *mode = argc > 1 ? argv[1] : "";

    if (argc < 4 || world_open(&c.world, &err))
        return 2;
    kern_thread_init();
    set_up(&c, argv[2], argv[3], argc > 4 ? argv[4] : "f32", 2);
    c.world->deadline_s = 20;
    c.steps = argc > 5 ? atoi(argv[5]) : 0;
    if (strcmp(mode, "audit") == 0)
        check_audit(&c);
    else if (strcmp(mode, "hash") == 0)
        check_hash(&c);
    else if (strcmp(mode, "against") == 0)
        check_against(&c);
    else if (argc > 6 && strcmp(mode, "honest") == 0)
        check_honest(&c, atoi(argv[6]));
    else
        return 2;
    return finish(&c);
}
