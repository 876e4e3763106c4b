/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of a run's settings. */
#include "reader_fuzz.h"

#include "train/train.h"

static int parse(struct train_settings *s, const void *data, size_t bytes)
{
    static const char *const none[TRAIN_SETTINGS_COUNT];
    struct err err = {0};
    char *text = fuzz_copy(data, bytes);
    struct train_text file = {FUZZ_NAME, text};
    int rc = fuzz_judge(train_settings_init(s, &file, 1, none, &err), &err);

    mem_free(text);
    return rc;
}

static char *print(const struct train_settings *s, size_t *bytes)
{
    char *text = NULL;
    FILE *f = mem_stream(&text, bytes);

    train_settings_print(s, f);
    fclose(f);
    return text;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct train_settings s, back;
    size_t first_bytes = 0, again_bytes = 0;

    if (parse(&s, data, bytes))
        return 0;
    char *first = print(&s, &first_bytes);
    int rc = parse(&back, first, first_bytes);
    assert(rc == 0);
    char *again = print(&back, &again_bytes);
    fuzz_same(first, first_bytes, again, again_bytes);
    return 1;
}

static const char some[] = "format: paro-settings/1\nlr: 3.0e-04\nseed: 7\n";
static const char many[] =
    "format: paro-settings/1\nsteps: 100\nmin_lr: 3e-5\nwarmup: 10\n"
    "beta1: 0.9\nbeta2: 0.95\neps: 1e-8\nweight_decay: 0.1\nclip: 1.0\n"
    "skip_nonfinite: 1\nmax_skipped: 9\nsave_every: 0\nkeep: 2\ndeadline: 600\n";

FUZZ_SET(.name = "settings", .longest = 2048, .cases = 8000, .ends = " \n:",
         .words = FUZZ_LIST("0", "-1", "1e999", "nan", "inf", "0x10", "12abc", "1e3", "~", "\"",
                            "yes", "lr", "seed", "{", "}", "-", "9e15", "paro-settings/2"),
         .text = {FUZZ_TEXT(some), FUZZ_TEXT(many)});
