/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests easy sequences: events and scores, counted again from the tokens that micro-batches
 * have.
 */
#include "unit.h"

#include "data_fixture.h"

#include "base/rng.h"
#include "data/data_easy.h"

enum { SEQ = 4, OTHER = 30000 };

/* Token i of the file is first + i, so that a window is known by its tokens. */
static const char *put_counting(const char *name, int first, int tokens)
{
    unsigned char *bytes = mem_new(2 * (size_t)tokens, 1), *p = bytes;

    for (int i = 0; i < tokens; i++)
        p = put_le(p, (uint64_t)(first + i), 2);
    const char *path = put(name, bytes, 2 * (size_t)tokens);
    mem_free(bytes);
    return path;
}

static struct data open_counting(const char *const *paths, int count, const double *weights)
{
    struct data_options o = LIST(.paths = paths, .count = count, .weights = weights, .seq = SEQ,
                                 .vocab = 65536, .seed = 3, .fixed_windows = 1);
    struct data d;

    assert_ok(data_open(&d, &o, &err));
    return d;
}

/* The window that sample k of the run is, by its first token. */
static int sample_of(const struct data *d, int64_t k)
{
    int32_t tokens[SEQ], targets[SEQ];

    assert_ok(data_batch(d, k, 1, tokens, targets, NULL, &err));
    assert_int_equal(tokens[0] % OTHER % SEQ, 0);
    return tokens[0];
}

/* Windows 0 .. 4; of window 2 the epochs are 0 1 0 1 1 0, of the others as `learned` says. */
TEST(events_are_falls_between_epochs)
{
    static const int learned[5][6] = {{1, 1, 1, 1, 1, 1},  /* 0 events, lower loss */
                                      {0, 0, 0, 0, 0, 0},  /* never: scores 6 */
                                      {0, 1, 0, 1, 1, 0},  /* 2 */
                                      {1, 0, 1, 0, 0, 0},  /* 2 */
                                      {0, 0, 0, 0, 0, 1}}; /* 0, higher loss */
    const char *path = put_counting("five.bin", 0, 5 * SEQ + SEQ);
    float loss[30];

    for (int drop = 0; drop <= 5; drop++) {
        struct data d = open_counting(&path, 1, NULL);
        struct easy_report r;
        int seen[5] = {0};
        for (int k = 0; k < 30; k++) {
            int w = sample_of(&d, k) / SEQ;
            /* Two below the median of five: all five differ. */
            loss[k] = (float)(learned[w][k / 5] ? 1 : 3) + 0.1F * (float)w;
        }
        assert_int_equal(easy_samples(&d), 10);
        easy_drop(&d, loss, 30, drop, &r);
        assert_int_equal(r.sequences, 5);
        assert_int_equal(r.never_lost, 2);
        assert_int_equal(r.never_learned, 1);
        assert_int_equal(r.dropped, drop < 5 ? drop : 4); /* one stays */
        for (int k = 30; k < 30 + 5 - r.dropped; k++)
            seen[sample_of(&d, k) / SEQ]++;
        static const int easiest[5] = {0, 4, 2, 3, 1}; /* 2 has the lower loss: ties by it */
        for (int i = 0; i < 5; i++)
            assert_int_equal(seen[easiest[i]], i >= r.dropped);
        data_close(&d);
    }
}

/* The same by other means: a list of all that was seen. */
struct seen {
    int token, epochs, score;
    float last;
    int dropped;
};

/* Losses that a source's samples had, epoch by epoch: learned if at most half are no higher. */
static void judge(struct seen *s, const int *token, const float *loss, int n, int windows)
{
    int before = 0, ever = 0, events = 0;

    for (int first = 0; first + windows <= n; first += windows) {
        int at = first, no_higher = 0;
        while (token[at] != s->token)
            at++;
        for (int i = first; i < first + windows; i++)
            no_higher += loss[i] <= loss[at];
        int learned = no_higher <= windows / 2;
        events += before && !learned;
        ever |= learned;
        before = learned;
        s->last = loss[at];
        s->epochs++;
    }
    s->score = ever ? events : s->epochs;
}

static int is_easier(const struct seen *a, const struct seen *b)
{
    if (a->score != b->score)
        return a->score < b->score;
    return a->last != b->last ? a->last < b->last : a->token < b->token;
}

static void check_against_list(struct data *d, const int windows[2], int samples, int count)
{
    enum { MOST = 2000 };
    static int token[2][MOST];
    static float loss[2][MOST], all[MOST];
    static struct seen list[MOST];
    int n[2] = {0}, of = 0, left[2] = {windows[0], windows[1]}, lists = windows[0] + windows[1];
    struct easy_report r;

    for (int k = 0; k < samples; k++) {
        int t = sample_of(d, k), p = t >= OTHER;
        all[k] = (float)(rng_u64(5, 0, (uint64_t)k) % 50); /* many are equal */
        token[p][n[p]] = t;
        loss[p][n[p]++] = all[k];
    }
    for (int p = 0; p < 2; p++)
        for (int w = 0; w < windows[p]; w++) {
            list[of] = (struct seen){.token = p * OTHER + w * SEQ};
            judge(&list[of++], token[p], loss[p], n[p], windows[p]);
        }
    for (int i = 0; i < count; i++) {
        struct seen *easiest = NULL;
        for (int j = 0; j < lists; j++)
            if (!list[j].dropped && left[list[j].token >= OTHER] > 1 &&
                (!easiest || is_easier(&list[j], easiest)))
                easiest = &list[j];
        easiest->dropped = 1;
        left[easiest->token >= OTHER]--;
    }
    easy_drop(d, all, samples, count, &r);
    assert_int_equal(r.dropped, count);
    /* As many as fill two periods of the mix: each source its epochs, each window as often. */
    int rounds = 2 * left[0] * left[1], seen[2] = {0};
    for (int j = 0; j < lists; j++)
        list[j].epochs = 0;
    for (int k = samples; seen[0] < rounds || seen[1] < rounds; k++) {
        int t = sample_of(d, k), p = t >= OTHER;
        struct seen *s = &list[p * windows[0] + t % OTHER / SEQ];
        assert_false(s->dropped);
        s->epochs += seen[p] < rounds;
        seen[p]++;
        if (!d->weighted) /* mixed by what is left */
            assert_true(labs((long)seen[0] * left[1] - (long)seen[1] * left[0]) <=
                        left[0] + left[1]);
    }
    for (int j = 0; j < lists; j++)
        assert_int_equal(list[j].epochs,
                         list[j].dropped ? 0 : rounds / left[list[j].token >= OTHER]);
}

TEST(two_sources_equal_a_list_of_all_that_was_seen)
{
    static const double weights[] = {1, 3};
    static const int sizes[][2] = {{1, 1}, {7, 40}, {30, 11}, {2, 33}};

    for (int c = 0; c < 16; c++) {
        const int *n = sizes[c % 4];
        const char *paths[2];
        paths[0] = put_counting("a.bin", 0, n[0] * SEQ + SEQ);
        paths[1] = put_counting("b.bin", OTHER, n[1] * SEQ + SEQ);
        struct data d = open_counting(paths, 2, c & 4 ? weights : NULL);
        int samples = (int)easy_samples(&d) + 5 * c; /* whole epochs, and not */
        check_against_list(&d, n, samples, c & 8 ? n[0] + n[1] - 2 : (n[0] + n[1]) / 3);
        data_close(&d);
    }
}

/* easy_samples is the first count at which each window was there in two epochs, by reading. */
TEST(samples_of_two_epochs)
{
    const char *paths[2];

    paths[0] = put_counting("a.bin", 0, 9 * SEQ + SEQ);
    paths[1] = put_counting("b.bin", OTHER, 20 * SEQ + SEQ);
    struct data d = open_counting(paths, 2, NULL);
    int seen[2] = {0}, k = 0;
    while (seen[0] < 18 || seen[1] < 40)
        seen[sample_of(&d, k++) >= OTHER]++;
    assert_int_equal(easy_samples(&d), k);
    data_close(&d);
}
