/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests settings: which override which, which are refused; and the learning rate over time. */
#include "unit.h"

#include "train/train.h"

static const char *given[TRAIN_SETTINGS_COUNT];

static struct train_settings settings(const char *first, const char *second)
{
    const struct train_text files[] = {{"first", first}, {"second", second}};
    struct train_settings s;

    assert_ok(train_settings_init(&s, files, 2, given, &err));
    return s;
}

TEST(defaults)
{
    struct train_settings s = settings(NULL, NULL);

    assert_true(s.steps == 100 && s.lr == 3e-4 && s.min_lr == 3e-5 && s.beta1 == 0.9 &&
                s.beta2 == 0.95 && s.eps == 1e-8 && s.weight_decay == 0.1 && s.clip == 1 &&
                s.warmup == 0 && s.schedule == TRAIN_COSINE && s.decay == 0.2 && s.seed == 1 &&
                s.save_every == 0 && s.keep == 2);
}

TEST(order)
{
    const char *first = "format: paro-settings/1\nsteps: 5\nlr: 1e-3\nkeep: 4\n";
    const char *second = "format: paro-settings/1\nsteps: 6\nlr: 2e-3\n";

    struct train_settings s = settings(first, second);
    assert_true(s.steps == 6 && s.lr == 2e-3 && s.keep == 4);
    given[TRAIN_SETTING_steps] = "7";
    s = settings(first, second);
    assert_true(s.steps == 7 && s.lr == 2e-3 && s.keep == 4);
    given[TRAIN_SETTING_steps] = NULL;
}

/* The default is no more than lr; what somebody sets stands, higher or lower. */
TEST(least_rate)
{
    assert_true(settings("format: paro-settings/1\nlr: 1e-5\n", NULL).min_lr == 1e-5);
    assert_true(settings("format: paro-settings/1\nlr: 1e-5\nmin_lr: 2e-5\n", NULL).min_lr ==
                2e-5);
    given[TRAIN_SETTING_min_lr] = "1";
    assert_true(settings(NULL, NULL).min_lr == 1);
    given[TRAIN_SETTING_min_lr] = NULL;
}

TEST(printed)
{
    FILE *f = unit_stream();

    given[TRAIN_SETTING_lr] = "0.1234567890123";
    given[TRAIN_SETTING_seed] = "9e15";
    given[TRAIN_SETTING_schedule] = "wsd";
    struct train_settings s = settings(NULL, NULL);
    given[TRAIN_SETTING_lr] = given[TRAIN_SETTING_seed] = given[TRAIN_SETTING_schedule] = NULL;
    train_settings_print(&s, f);
    char *text = unit_text(f);
    struct train_settings back = settings(text, NULL);
    assert_memory_equal(&s, &back, sizeof s);
    free(text);
}

TEST(refused)
{
    static const struct {
        const char *text, *error;
    } bad[] = {
        {"format: paro-settings/2\n",
         "f.yaml:1: 'format' is 'paro-settings/2', expected 'paro-settings/1'"},
        {"format: paro-settings/1\nlr: 1e4\n",
         "f.yaml:2: 'lr' is '1e4', expected a number from 0 to 1000"},
        {"format: paro-settings/1\nsteps: 2\nsteps: 2\n", "f.yaml:3: 'steps' "},
        {"format: paro-settings/1\nSteps: 2\n", "f.yaml:2: 'Steps' "},
        {"format: paro-settings/1\nsteps: [2]\n", "f.yaml:2: 'steps' "},
        {"format: paro-settings/1\nschedule: step\n",
         "f.yaml:2: 'schedule' is 'step', expected cosine, linear, wsd or constant"},
        {"format: paro-settings/1\nbeta2: .inf\n",
         "f.yaml:2: 'beta2' is '.inf', expected a number from 0 to 0.999999"},
        {"format: paro-settings/1\n---\nformat: paro-settings/1\n", "f.yaml:"},
        {"", "f.yaml"},
    };
    struct train_settings s = {.steps = 77};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct train_text file = {"f.yaml", bad[i].text};
        assert_int_equal(train_settings_init(&s, &file, 1, given, &err), -1);
        if (strncmp(err.text, bad[i].error, strlen(bad[i].error)))
            fail_msg("%s", err.text);
        assert_int_equal(err.code, ERR_INPUT);
    }
    given[TRAIN_SETTING_keep] = "0";
    assert_int_equal(train_settings_init(&s, NULL, 0, given, &err), -1);
    given[TRAIN_SETTING_keep] = NULL;
    assert_true(s.steps == 77); /* written only on success */
}

TEST(rate)
{
    struct train_settings s = settings(NULL, NULL);

    s.steps = 110;
    s.warmup = 10;
    s.lr = 1;
    s.min_lr = 0.5;
    /* Linear to lr at the warm-up's last step. */
    for (int i = 1; i <= 10; i++)
        assert_true(fabs(train_lr(&s, i) - i / 10.0) < 1e-15);
    /* A half of a cosine of 100 steps: its middle, its end, and no more after it. */
    assert_true(fabs(train_lr(&s, 60) - 0.75) < 1e-15);
    assert_true(fabs(train_lr(&s, 85) - (0.75 - 0.25 * sqrt(0.5))) < 1e-15);
    assert_true(train_lr(&s, 110) == 0.5);
    assert_true(train_lr(&s, 111) == 0.5);
    for (int i = 11; i < 110; i++)
        assert_true(train_lr(&s, i + 1) < train_lr(&s, i));
    /* All of it warm-up. */
    s.warmup = 110;
    assert_true(train_lr(&s, 110) == 1);
    s.warmup = 200;
    assert_true(train_lr(&s, 110) == 0.55);
}

/* A schedule of 110 steps, 10 of them warm-up: each one's closed form at its corners and
   between. */
TEST(schedules)
{
    static const struct {
        const char *yaml;
        int step;
        double rate;
    } at[] = {
        {"schedule: linear\n", 10, 1},
        {"schedule: linear\n", 11, 0.995},
        {"schedule: linear\n", 35, 0.875},
        {"schedule: linear\n", 110, 0.5},
        {"schedule: linear\n", 111, 0.5},
        {"schedule: constant\n", 5, 0.5},
        {"schedule: constant\n", 11, 1},
        {"schedule: constant\n", 999, 1},
        /* A fifth of 110 steps: the last 22. */
        {"schedule: wsd\n", 5, 0.5},
        {"schedule: wsd\n", 88, 1},
        {"schedule: wsd\n", 99, 0.75},
        {"schedule: wsd\n", 110, 0.5},
        {"schedule: wsd\n", 111, 0.5},
        {"schedule: wsd\ndecay: 0.5\n", 55, 1},
        {"schedule: wsd\ndecay: 0.5\n", 66, 0.9},
        /* No whole number of steps: the last 2.75, so 0.75 of them are over. */
        {"schedule: wsd\ndecay: 0.025\n", 107, 1},
        {"schedule: wsd\ndecay: 0.025\n", 108, 1 - 0.5 * 0.75 / 2.75},
        /* More than there is after the warm-up: linear from there. */
        {"schedule: wsd\ndecay: 1\n", 10, 1},
        {"schedule: wsd\ndecay: 1\n", 60, 0.75},
        {"schedule: cosine\n", 60, 0.75},
    };
    char text[160];

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        snprintf(text, sizeof text,
                 "format: paro-settings/1\nsteps: 110\nwarmup: 10\nlr: 1\nmin_lr: 0.5\n%s",
                 at[i].yaml);
        struct train_settings s = settings(text, NULL);
        double rate = train_lr(&s, at[i].step);
        /* A few operations on numbers up to 110. */
        if (!(fabs(rate - at[i].rate) < 1e-13))
            fail_msg("%s, step %d: %.17g, expected %.17g", at[i].yaml, at[i].step, rate,
                     at[i].rate);
    }
}
