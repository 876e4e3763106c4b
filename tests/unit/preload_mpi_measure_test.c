/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests whose calls are, in a program whose calls take times given here. */
#include "unit.h"

#include "preload/preload_mpi_plan.h"

/* A class, its calls of each side, and what was spent. */
struct program {
    struct preload_mpi_class class;
    double takes_s[2], prepares_s;
    int prepared;
    int calls, trials, by[2];
    double spent_s;
};

static enum preload_mpi_why one(struct program *p, uint64_t mark)
{
    struct preload_mpi_class *c = &p->class;

    p->calls++;
    if (preload_mpi_class_holds(c) && c->verdict == PRELOAD_IS_THEIRS)
        return PRELOAD_SLOWER;
    enum preload_mpi_why why = preload_mpi_class_next(c, mark);
    if (!p->prepared && (why == PRELOAD_OURS || why == PRELOAD_TRIAL)) {
        p->prepared = 1;
        p->spent_s += p->prepares_s;
        if (preload_mpi_class_tries(c, mark))
            c->time_s[PRELOAD_PREPARED] += p->prepares_s;
        return PRELOAD_OURS;
    }
    return why;
}

static enum preload_mpi_why call(struct program *p, uint64_t mark)
{
    int was = p->prepared;
    enum preload_mpi_why why = one(p, mark);
    int side = why == PRELOAD_OURS ? PRELOAD_OURS_SIDE : PRELOAD_THEIRS;

    p->by[side]++;
    p->spent_s += p->takes_s[side];
    if (was && preload_mpi_class_tries(&p->class, mark) &&
        preload_mpi_class_note(&p->class, p->takes_s[side])) {
        preload_mpi_class_decide(&p->class);
        p->trials++;
        p->prepared = p->class.verdict == PRELOAD_IS_OURS;
    }
    return why;
}

TEST(the_faster_one_has_them)
{
    for (int faster = 0; faster < 2; faster++) {
        struct program p = {.takes_s = {2e-3, 2e-3}, .prepares_s = 5e-3};
        p.takes_s[faster] = 1e-3;
        for (int i = 0; i < 7; i++)
            call(&p, 1);
        assert_int_equal(p.trials, 1);
        assert_int_equal(p.class.verdict,
                         faster == PRELOAD_THEIRS ? PRELOAD_IS_THEIRS : PRELOAD_IS_OURS);
        assert_int_equal(call(&p, 1), faster == PRELOAD_THEIRS ? PRELOAD_SLOWER : PRELOAD_OURS);
        assert_int_equal(call(&p, 2), faster == PRELOAD_THEIRS ? PRELOAD_SLOWER : PRELOAD_OURS);
    }
}

/* However much slower the other is, and whatever it takes to prepare. */
TEST(trials_take_a_hundredth)
{
    static const double slower[] = {1, 1.1, 3, 40}, prepares_s[] = {0, 1e-2, 1};

    for (int faster = 0; faster < 2; faster++)
        for (size_t i = 0; i < 4; i++)
            for (size_t j = 0; j < 3; j++) {
                struct program p = {.prepares_s = prepares_s[j]};
                p.takes_s[faster] = 1e-3;
                p.takes_s[!faster] = 1e-3 * slower[i];
                for (int k = 0; k < 7; k++)
                    call(&p, 1);
                double begun_s = p.spent_s;
                int before = p.calls;
                while (p.trials < 4)
                    call(&p, 1);
                /* One call more than the trials', which is done when it is prepared. */
                double share = 0.01 * (1 + 1.0 / PRELOAD_TRIALS);
                double best_s = 1e-3 * (p.calls - before);
                assert_true(p.spent_s - begun_s <= best_s * (1 + share));
                assert_true(p.calls - before >= 3 * 100 * 2 * PRELOAD_TRIALS);
            }
}

TEST(a_fabric_that_changes_is_noticed)
{
    struct program p = {.takes_s = {2e-3, 1e-3}, .prepares_s = 1e-3};

    for (int i = 0; i < 100; i++)
        call(&p, 1);
    assert_int_equal(p.class.verdict, PRELOAD_IS_OURS);
    p.takes_s[PRELOAD_OURS_SIDE] = 4e-3;
    for (int i = 0; i < 1000; i++)
        call(&p, 1);
    assert_int_equal(p.class.verdict, PRELOAD_IS_THEIRS);
    p.takes_s[PRELOAD_OURS_SIDE] = 1e-3;
    for (int i = 0; i < 2000; i++)
        call(&p, 1);
    assert_int_equal(p.class.verdict, PRELOAD_IS_OURS);
}

/* Others wait for the first verdict; later they go on by the one that was. */
TEST(others_meanwhile)
{
    struct program p = {.takes_s = {2e-3, 1e-3}};

    call(&p, 1);
    assert_int_equal(call(&p, 2), PRELOAD_OTHER);
    while (!p.trials)
        call(&p, 1);
    while (p.class.left > 1)
        assert_int_equal(call(&p, 2), PRELOAD_OURS);
    assert_int_equal(call(&p, 1), PRELOAD_TRIAL);
    int runs = p.class.runs;
    assert_int_equal(call(&p, 2), PRELOAD_OURS);
    assert_int_equal(p.class.runs, runs);
    assert_int_equal(call(&p, 1), PRELOAD_OURS);
    /* One that does not come again leaves the place. */
    for (int i = 0; i < 200 && p.trials < 2; i++)
        call(&p, 2);
    assert_int_equal(p.trials, 2);
    assert_int_equal(p.class.trial, 2);
}
