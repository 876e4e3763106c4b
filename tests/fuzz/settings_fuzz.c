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
    FILE *f = open_memstream(&text, bytes);

    assert(f);
    train_settings_print(s, f);
    int rc = fclose(f);
    assert(rc == 0);
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
