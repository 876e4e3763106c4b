/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feeds bytes to the reader of features and y (paro-rank blr).  What is taken is printed and
 * read back as the same; a model of it has evidence, or says which row overflows.
 */
#include "reader_fuzz.h"

#include <math.h>

#include "../unit/rank_fixture.h"

static int parse(struct rank_blr_data *d, const void *data, size_t bytes)
{
    struct err err = {0};
    char *text = fuzz_copy(data, bytes);
    int rc = fuzz_judge(rank_blr_read_text(FUZZ_NAME, text, (int64_t)bytes, d, &err), &err);

    mem_free(text);
    return rc;
}

static char *print(const struct rank_blr_data *d, size_t *bytes)
{
    char *text = NULL;
    FILE *f = mem_stream(&text, bytes);

    for (int64_t i = 0; i < d->rows; i++) {
        for (int j = 0; j < d->features; j++)
            fprintf(f, "%.17g\t", d->x[i * d->features + j]);
        fprintf(f, "%.17g\n", d->y[i]);
    }
    fclose(f);
    return text;
}

static void check_model(const struct rank_blr_data *d)
{
    const struct rank_blr_options o = {1, 0.1, 2, 2, 1, 2, 1};
    struct rank_blr r = {0};
    struct err err = {0};

    if (fuzz_judge(rank_blr_run(d, &o, &r, &err), &err))
        return;
    assert(isfinite(r.log_p) && isfinite(r.bound) && isfinite(r.kl));
    for (int64_t i = 0; i < d->rows; i++)
        assert(r.item[i].var >= 0 && isfinite(r.item[i].var));
    rank_blr_release(&r);
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct rank_blr_data d = {0}, back = {0};
    size_t printed = 0;

    if (parse(&d, data, bytes))
        return 0;
    assert(d.rows > 0 && d.features > 0 && d.features <= RANK_BLR_FEATURES_MAX);
    char *text = print(&d, &printed);
    int rc = parse(&back, text, printed);
    assert(rc == 0 && back.rows == d.rows && back.features == d.features);
    for (int64_t i = 0; i < d.rows * d.features; i++)
        assert(isfinite(d.x[i]) && d.x[i] == back.x[i]);
    for (int64_t i = 0; i < d.rows; i++)
        assert(isfinite(d.y[i]) && d.y[i] == back.y[i]);
    free(text);
    check_model(&d);
    rank_blr_data_release(&d);
    rank_blr_data_release(&back);
    return 1;
}

const struct fuzz_set fuzz_sets[] = {
    {.name = "blr",
     .longest = 1024,
     .cases = 8000,
     .ends = " \t\n",
     .words = FUZZ_LIST("0", "-0", "1e100", "1e101", "1e-320", "nan", "inf", "0x1p3", "010",
                        "1x", "y", "#", "\t", "\n", "\r", " ", "", "\t\t", "+1", "1e-99"),
     .files = FUZZ_LIST("tests/fuzz/corpus/blr/line", "tests/fuzz/corpus/blr/alone",
                        "tests/fuzz/corpus/blr/blanks")},
    {0}};
