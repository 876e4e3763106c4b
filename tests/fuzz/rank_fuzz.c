/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of logs (paro-rank).  What is taken is printed, a step a line, and
 * read back as the same; a quick look at a line of JSON says what the strict one does; numbers
 * are strtod's. */
#include "reader_fuzz.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>

#include "rank/rank_line.h"
#include "../unit/rank_fixture.h"

static int parse(struct rank_run *run, const char *text, size_t bytes, int64_t per_epoch,
                 const struct rank_query *query)
{
    const struct rank_reading how = {.per_epoch = per_epoch, .query = query};
    struct err err = {0};

    *run = (struct rank_run){.name = FUZZ_NAME};
    return fuzz_judge(rank_read_text(run, text, bytes, &how, &err), &err);
}

static int same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static int once(const char *line, size_t bytes, const char *word)
{
    const char *at = memmem(line, bytes, word, strlen(word));

    return !at || !memmem(at + 1, (size_t)(line + bytes - at - 1), word, strlen(word));
}

/* One line, followed by a line feed: the head of an object says what the whole does. */
static void check_line(const char *line, size_t bytes)
{
    struct rank_point quick, strict;

    if (rank_line(line, (int64_t)bytes, 0, &quick) == RANK_LOSS &&
        rank_line(line, (int64_t)bytes, 1, &strict) == RANK_LOSS &&
        !memchr(line, '\\', bytes) && once(line, bytes, "\"step\"") &&
        once(line, bytes, "\"loss\""))
        assert(strict.step == quick.step && same(strict.loss, quick.loss));
    for (size_t i = 0; i < bytes; i++) {
        double got = 0;
        const char *end = rank_line_number(line + i, &got);
        if (!end)
            continue;
        assert(end > line + i && end <= line + bytes);
        assert(same(got, strtod(line + i, NULL)));
        if (isdigit((unsigned char)line[i]))
            i = (size_t)(end - line);
    }
}

static void check_lines(const uint8_t *data, size_t bytes)
{
    char *text = mem_new(bytes + 1, 1), *p = text;

    if (bytes)
        memcpy(text, data, bytes);
    text[bytes] = '\n';
    for (char *end; p < text + bytes; p = end + 1) {
        end = memchr(p, '\n', (size_t)(text + bytes + 1 - p));
        if (end > p)
            check_line(p, (size_t)(end - p));
    }
    mem_free(text);
}

/* The steps that count, as llm.c writes them; the log of the same run. */
static char *print(const struct rank_curve *c, size_t *bytes)
{
    char *text = NULL;
    FILE *f = mem_stream(&text, bytes);

    for (size_t i = 0; i < c->count; i++)
        fprintf(f, "s:%" PRId64 " trl:%.17g\n", rank_curve_index(c, i) + c->from - 1,
                c->loss[i]);
    fclose(f);
    return text;
}

static void check_scores(const struct rank_curve *c)
{
    struct rank_score how = {.e = 2, .gamma = 0.5};
    int64_t T = rank_curve_epochs(c);

    for (int m = 0; T > 0 && m < RANK_METHODS; m++) {
        how.method = (enum rank_method)m;
        double s = rank_curve_score(c, &how, T);
        assert(c->bad >= 0 || !isnan(s));
        rank_curve_score(c, &how, (T + 1) / 2);
    }
}

/* A curve that keeps but what will be asked says the same, bit for bit. */
static void check_requested(const struct rank_curve *all, const char *data, size_t bytes)
{
    int64_t T = rank_curve_epochs(all);

    for (int i = 0; T > 0 && i < 2 * RANK_METHODS; i++) {
        struct rank_query query = {
            {(enum rank_method)(i / 2), 2, 0.5}, i % 2 ? (T + 1) / 2 : 0, 1};
        int64_t at = i % 2 ? query.T : T;
        struct rank_run some;
        int rc = parse(&some, data, bytes, all->per_epoch, &query);
        assert(rc == 0 && rank_curve_epochs(&some.curve) == T);
        assert(same(rank_curve_score(&some.curve, &query.how, at),
                    rank_curve_score(all, &query.how, at)));
        assert(same(rank_curve_loss(&some.curve, at), rank_curve_loss(all, at)));
        rank_run_release(&some);
    }
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct rank_run run, three, back;
    size_t printed = 0;

    check_lines(data, bytes);
    int rc = parse(&run, (const char *)data, bytes, 1, NULL);
    assert(parse(&three, (const char *)data, bytes, 3, NULL) == rc);
    if (rc)
        return 0;
    const struct rank_curve *c = &run.curve;
    assert(run.losses > 0 && run.losses + run.broken <= run.lines);
    assert(three.losses == run.losses && three.curve.last == c->last);
    assert(rank_curve_epochs(c) == c->last - c->from + 1 && rank_curve_headless(c) >= 0);
    assert(rank_curve_epochs(&three.curve) <= rank_curve_epochs(c) / 3);
    check_scores(c);
    check_scores(&three.curve);
    check_requested(c, (const char *)data, bytes);
    check_requested(&three.curve, (const char *)data, bytes);
    char *text = print(c, &printed);
    rc = parse(&back, text, printed, 1, NULL);
    assert(rc == 0 && back.curve.count == c->count && back.curve.back == 0);
    for (size_t i = 0; i < c->count; i++)
        assert(rank_curve_index(&back.curve, i) == rank_curve_index(c, i) &&
               same(back.curve.loss[i], c->loss[i]));
    free(text);
    rank_run_release(&run);
    rank_run_release(&three);
    rank_run_release(&back);
    return 1;
}

FUZZ_SET(.name = "rank", .longest = 2048, .cases = 5000, .part = 200, .ends = " \n:,|/",
         .words = FUZZ_LIST("{\"step\":", ",\"loss\":", "\"loss\": ", "null", "NaN",
                            "-Infinity", "}", "{", "s:", " trl:", "step:", "step ", "/9", " | ",
                            "loss ", "train ", "0", "1", "7", "-1", "1e5", "nan", "-inf",
                            "\r\n", "0x1p3", ".5", "1.", "\"", "\\u00e9", "1e-400", "00000001"),
         .files = FUZZ_LIST("tests/fuzz/corpus/rank/json", "tests/fuzz/corpus/rank/llmc",
                            "tests/fuzz/corpus/rank/nano", "tests/fuzz/corpus/rank/console",
                            "tests/fuzz/corpus/rank/back", "tests/fuzz/corpus/rank/digits",
                            "tests/fuzz/corpus/rank/mark", "tests/fuzz/corpus/rank/over"));
