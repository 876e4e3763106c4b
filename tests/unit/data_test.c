/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests batches: a function of (options, index) alone, every window reachable, shares of
 * several files kept, evaluation apart from training.  Kinds of files are source_test.c's.
 */
#include "unit.h"

#include "data_fixture.h"

#include <sys/syscall.h>

#include "data/data.h"
#include "words_fixture.h"

enum { SEQ = 5, BATCH = 3 };

static const char *path[4]; /* of the files that a test has made */
static int reads;

/* In the place of libc's: what the library asks of a file, counted. */
ssize_t pread(int fd, void *to, size_t bytes, off_t offset)
{
    reads++;
    return syscall(SYS_pread64, fd, to, bytes, offset);
}

static struct data_options options(int count, int seq, int64_t vocab)
{
    return (struct data_options){
        .paths = path, .count = count, .seq = seq, .vocab = vocab, .seed = 1};
}

/* n bytes from `from` on, so that each token tells its place. */
static void put_range(int file, int from, int n)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    static char kept[4][TEMP_PATH + 64];
    unsigned char bytes[256];

    for (int i = 0; i < n; i++)
        bytes[i] = (unsigned char)(from + i);
    strcpy(kept[file], put(names[file], bytes, (size_t)n));
    path[file] = kept[file];
}

static void open_all(struct data *d, const struct data_options *o)
{
    assert_ok(data_open(d, o, &err));
}

TEST(windows)
{
    enum { N = 20 };
    int32_t tokens[BATCH * SEQ], targets[BATCH * SEQ], again[BATCH * SEQ];
    int seen[N] = {0}, starts = 0;
    struct data_options o = options(1, SEQ, 256);
    struct data d;

    put_range(0, 200, N);
    open_all(&d, &o);
    assert_int_equal(d.tokens, N);
    for (int64_t index = 0; index < 200; index++) {
        assert_ok(data_batch(&d, index * BATCH, BATCH, tokens, targets, NULL, &err));
        for (int b = 0; b < BATCH; b++) {
            int at = tokens[b * SEQ] - 200;
            assert_in_range(at, 0, N - SEQ - 1);
            seen[at]++;
            for (int t = 0; t < SEQ; t++) {
                assert_int_equal(tokens[b * SEQ + t], 200 + at + t);
                assert_int_equal(targets[b * SEQ + t], 200 + at + t + 1);
            }
        }
        assert_ok(data_batch(&d, index * BATCH, BATCH, again, targets, NULL, &err));
        assert_memory_equal(tokens, again, sizeof tokens);
    }
    /* 200 epochs of 3 windows with offsets 0 .. 4: one is missed with 5 (4/5)^200 < 1e-18. */
    for (int i = 0; i < N; i++)
        starts += seen[i] > 0;
    assert_int_equal(starts, N - SEQ);
    data_close(&d);
}

/* Row b of batch i is row 0 of batch i * BATCH + b with one row: the same samples in the same
 * order, however many ranks and rows they are dealt to. */
TEST(cut_otherwise)
{
    int32_t tokens[BATCH * SEQ], targets[BATCH * SEQ], one[SEQ], next[SEQ];
    struct data_options o = options(2, SEQ, 256);
    struct data d, other;
    int same = 1;

    put_range(0, 0, 150);
    put_range(1, 150, 100);
    open_all(&d, &o);
    o.seed = 2;
    open_all(&other, &o);
    for (int64_t i = 0; i < 20; i++) {
        assert_ok(data_batch(&d, i * BATCH, BATCH, tokens, targets, NULL, &err));
        for (int b = 0; b < BATCH; b++) {
            assert_ok(data_batch(&d, i * BATCH + b, 1, one, next, NULL, &err));
            assert_memory_equal(one, tokens + b * SEQ, sizeof one);
            assert_memory_equal(next, targets + b * SEQ, sizeof next);
        }
        assert_ok(data_batch(&other, i * BATCH, 1, one, next, NULL, &err));
        same &= memcmp(one, tokens, sizeof one) == 0;
    }
    assert_false(same); /* another seed, other data */
    data_close(&d);
    data_close(&other);
}

/* Samples of each file among the first k. */
static void count_samples(const struct data *d, int64_t k, int64_t had[2])
{
    int32_t tokens[SEQ], targets[SEQ];

    had[0] = had[1] = 0;
    for (int64_t i = 0; i < k; i++) {
        assert_ok(data_batch(d, i, 1, tokens, targets, NULL, &err));
        had[tokens[0] >= 150]++;
    }
}

TEST(weights)
{
    struct data_options o = options(2, SEQ, 256);
    int64_t had[2];
    struct data d;

    put_range(0, 0, 150);
    put_range(1, 150, 50);
    open_all(&d, &o); /* as many samples as tokens */
    count_samples(&d, 400, had);
    assert_int_equal(had[0], 300);
    data_close(&d);
    o.weights = (double[]){1, 4};
    open_all(&d, &o);
    count_samples(&d, 500, had);
    assert_int_equal(had[0], 100);
    count_samples(&d, 7, had);
    assert_in_range(had[0], 1, 2);
    data_close(&d);
}

/* Files of one length in turns: each has an order of its own. */
TEST(orders_differ)
{
    struct data_options o = options(2, SEQ, 256);
    int32_t tokens[2 * SEQ], targets[2 * SEQ];
    struct data d;
    int same = 0;

    put_range(0, 0, 100);
    put_range(1, 100, 100);
    open_all(&d, &o);
    for (int64_t i = 0; i < 100; i++) {
        assert_ok(data_batch(&d, i, 2, tokens, targets, NULL, &err));
        same += tokens[0] + 100 == tokens[SEQ];
    }
    /* By chance one in 95 places is the same: 11 of 100 have a probability below 1e-7. */
    assert_true(same <= 10);
    data_close(&d);
}

/* Nothing that is trained on is evaluated, but for the first token, which has no target. */
TEST(split)
{
    int32_t tokens[2 * SEQ], targets[2 * SEQ];
    struct data_options o = options(2, SEQ, 256);
    int seen[256] = {0};
    struct data d;

    put_range(0, 0, 100);
    put_range(1, 100, 150);
    o.split = 0.25;
    open_all(&d, &o);
    /* 25 tokens are 4 windows and their next; 37 are 7. */
    assert_int_equal(data_eval_windows(&d), 4 + 7);
    for (int64_t i = 0; i < 6; i++) {
        assert_ok(data_eval_batch(&d, i, 2, tokens, targets, NULL, &err));
        for (int b = 0; b < 2; b++) {
            int64_t w = (2 * i + b) % 11;
            int first = (int)(w < 4 ? 75 + w * SEQ : 213 + (w - 4) * SEQ);
            for (int t = 0; t < SEQ; t++) {
                assert_int_equal(tokens[b * SEQ + t], first + t);
                assert_int_equal(targets[b * SEQ + t], first + t + 1);
            }
        }
    }
    for (int64_t i = 0; i < 500; i++) {
        assert_ok(data_batch(&d, i, 1, tokens, targets, NULL, &err));
        for (int t = 0; t < SEQ; t++)
            seen[tokens[t]] = seen[targets[t]] = 1;
    }
    for (int i = 0; i < 250; i++)
        assert_int_equal(seen[i], i < 75 || (i >= 100 && i < 213));
    data_close(&d);
}

static void refuse(const struct data_options *o, const char *fmt, ...)
{
    struct data d = {.tokens = 77};
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    assert_refused(data_open(&d, o, &err), text);
    assert_int_equal(d.tokens, 77); /* written only on success */
}

TEST(refused)
{
    struct data_options o = options(1, SEQ, 100);
    struct data d;

    put_range(0, 94, 6);
    open_all(&d, &o);
    assert_int_equal(d.tokens, SEQ + 1);
    data_close(&d);
    o.vocab = 99;
    refuse(&o, "'%s': byte 5 token 99, vocabulary of 99", path[0]);
    o = options(1, SEQ + 1, 256);
    refuse(&o, "'%s' 6 tokens, 7", path[0]);
    put_range(0, 0, 0);
    refuse(&o, "'%s' 0 tokens, 7", path[0]);
    path[0] = "/dev/zero";
    refuse(&o, "/dev/zero: not a regular file");
    path[0] = "/nowhere/text";
    refuse(&o, "cannot open '/nowhere/text': No such file");
}

TEST(options_refused)
{
    struct data_options o = options(2, SEQ, 256);

    put_range(0, 0, 100);
    put_range(1, 0, 9);
    o.split = 0.5;
    refuse(&o, "'%s' 5 tokens to train on, 6", path[1]);
    o.count = 1;
    o.split = 0.05;
    refuse(&o, "0.05 sequence of 5 tokens evaluate");
    o.split = 0;
    o.tokenizer = folder;
    refuse(&o, "'%s' vocabulary, encoder.json vocab.json", folder);
    o.tokenizer = NULL;
    o.weights = (double[]){0};
    refuse(&o, "weight 0 '%s', above 0", path[0]);
    o.count = 0;
    refuse(&o, "0 files 1 to 4096");
}

/* A sequence and the token behind it are one read, though they go to two places. */
TEST(one_read)
{
    enum { N = 40000, LONG = 20000 }; /* tokens; a sequence that is too long for one read */
    static const int seqs[] = {1, 2, 5, 16383, LONG};
    static unsigned char bytes[2 * N];
    static int32_t tokens[LONG], targets[LONG];

    for (int i = 0; i < N; i++)
        put_le(bytes + 2 * i, (uint64_t)i, 2);
    path[0] = put("long.bin", bytes, sizeof bytes);
    for (size_t k = 0; k < sizeof seqs / sizeof *seqs; k++) {
        struct data_options o = options(1, seqs[k], N);
        struct data d;
        open_all(&d, &o);
        reads = 0;
        assert_ok(data_batch(&d, 3, 1, tokens, targets, NULL, &err));
        assert_int_equal(reads, seqs[k] == LONG ? 2 : 1);
        for (int i = 0; i < seqs[k]; i++) {
            assert_int_equal(tokens[i], tokens[0] + i);
            assert_int_equal(targets[i], tokens[0] + i + 1);
        }
        data_close(&d);
    }
}

/* A Megatron file of one window, of 64 bits a token, the last of which is `last`. */
static void put_wide(uint64_t last)
{
    unsigned char bin[8 * (SEQ + 1)], idx[34 + 12 + 16] = "MMIDIDX\0", *p = idx + 9;

    p = put_le(put_le(put_le(p, 1, 8), 5, 1), 1, 8);
    p = put_le(put_le(put_le(p, 2, 8), SEQ + 1, 4), 0, 8);
    put_le(put_le(p, 0, 8), 1, 8);
    put("wide.idx", idx, sizeof idx);
    for (int i = 0; i <= SEQ; i++)
        put_le(bin + 8 * i, i < SEQ ? (uint64_t)i : last, 8);
    path[0] = put("wide.bin", bin, sizeof bin);
}

/* Cut to 32 bits each would be token 7, which is in the vocabulary. */
TEST(wide)
{
    static const int64_t ids[] = {(INT64_C(1) << 32) + 7, INT64_MIN + 7,
                                  7 - (INT64_C(1) << 32)};
    struct data_options o = options(1, SEQ, 200);
    int32_t tokens[SEQ], targets[SEQ], all[SEQ + 1];
    char text[TEMP_PATH + 128];
    struct data d;

    put_wide(7);
    open_all(&d, &o);
    assert_ok(data_batch(&d, 0, 1, tokens, targets, NULL, &err));
    assert_int_equal(targets[SEQ - 1], 7);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        put_wide((uint64_t)ids[i]);
        snprintf(text, sizeof text, "'%s': token 5 %lld, 32 bits", path[0], (long long)ids[i]);
        assert_error(data_batch(&d, 0, 1, tokens, targets, NULL, &err), ERR_INPUT);
        assert_words(err.text, text);
        assert_refused(source_read(&d.part[0].source, 0, SEQ + 1, all, &err), text);
    }
    data_close(&d);
}

/* A file that is cut, or written over, while it is open: an error, not a signal or a wild id.
 */
TEST(changed)
{
    int32_t tokens[SEQ], targets[SEQ];
    struct data_options o = options(1, SEQ, 200);
    char text[TEMP_PATH + 128];
    struct data d;

    put_range(0, 0, SEQ + 1); /* one window */
    open_all(&d, &o);
    assert_ok(data_batch(&d, 0, 1, tokens, targets, NULL, &err));
    put_range(0, 196, SEQ + 1);
    assert_int_equal(data_batch(&d, 0, 1, tokens, targets, NULL, &err), -1);
    snprintf(text, sizeof text, "'%s' changed: token 4 200, vocabulary of 200", path[0]);
    assert_words(err.text, text);
    assert_int_equal(truncate(path[0], SEQ - 1), 0);
    assert_int_equal(data_batch(&d, 0, 1, tokens, targets, NULL, &err), -1);
    snprintf(text, sizeof text, "'%s': byte 4, 6", path[0]);
    assert_words(err.text, text);
    assert_int_equal(err.code, ERR_INPUT);
    data_close(&d);
}

static uint64_t sum_of(const struct data_options *o, int64_t train)
{
    struct data d;

    open_all(&d, o);
    uint64_t sum = d.sum, told = 0;
    int64_t told_train = 0;
    assert_int_equal(d.train, train);
    data_close(&d);
    /* Data that are opened another way give the same. */
    struct data_options whole = *o;
    whole.split = whole.split > 0 ? 0 : 0.1;
    open_all(&d, &whole);
    assert_ok(data_tell(&d, o, &told_train, &told, &err));
    assert_int_equal(told_train, train);
    assert_true(told == sum);
    data_close(&d);
    return sum;
}

/* The sum is of ids and how they are used, not of a file; that of large data is of all parts.
 */
TEST(sums)
{
    enum { N = 256 * 4096 + 9000 };
    static const double half[] = {1, 1}, third[] = {2, 1}, same[] = {4, 2};
    struct data_options o = options(2, SEQ, 256);
    unsigned char *big = malloc(N), wide[2 * 150];

    put_range(0, 0, 150);
    put_range(1, 150, 100);
    o.weights = third;
    uint64_t was = sum_of(&o, 250);
    o.seed = 2;
    o.weights = same;
    assert_true(sum_of(&o, 250) == was);
    o.weights = half;
    assert_false(sum_of(&o, 250) == was);
    o.weights = third;
    o.split = 0.1;
    assert_false(sum_of(&o, 225) == was);
    o.split = 0;
    /* nanoGPT's file of the same ids */
    for (int i = 0; i < 150; i++)
        put_le(wide + 2 * i, (uint64_t)i, 2);
    put("a.bin", wide, sizeof wide);
    char kept[TEMP_PATH + 64];
    strcpy(kept, in_folder("a.bin"));
    path[0] = kept;
    assert_true(sum_of(&o, 250) == was);

    o = options(1, SEQ, 256);
    assert_non_null(big);
    for (int i = 0; i < N; i++)
        big[i] = (unsigned char)(i * 7 + i / 256);
    char name[TEMP_PATH + 64];
    strcpy(name, put("big", big, N));
    path[0] = name;
    was = sum_of(&o, N);
    /* Between two places no more than 36 tokens are left out: 9000 / 255, rounded up. */
    for (int at = 0; at < N; at += N / 7) {
        for (int i = 0; i < 37 && at + i < N; i++)
            big[at + i] ^= 1;
        put("big", big, N);
        uint64_t now = sum_of(&o, N);
        assert_false(now == was);
        was = now;
    }
    free(big);
}

/* The bytes of all tokens of a text are the text's; without a tokenizer each is one. */
TEST(bytes_of_tokens)
{
    static const char text[] =
        "It's you <|endoftext|> and you\xc3\xa9 you\n\n it is yours, you.";
    struct data_options o = options(1, SEQ, 600);
    struct data d;
    int64_t bytes = 0;

    path[0] = put("text", text, sizeof text - 1);
    o.tokenizer = "tests/data/bpe";
    open_all(&d, &o);
    assert_null(d.token_bytes); /* nothing is evaluated */
    data_close(&d);
    o.split = 0.45;
    open_all(&d, &o);
    for (int64_t i = 0; i < d.tokens; i++) {
        int32_t id;
        assert_ok(source_read(&d.part[0].source, i, 1, &id, &err));
        bytes += d.token_bytes[id];
    }
    assert_int_equal(bytes, sizeof text - 1 - strlen("<|endoftext|>"));
    data_close(&d);
    o.tokenizer = NULL;
    o.bytes = 1;
    open_all(&d, &o);
    assert_true(d.token_bytes['a'] == 1 && d.token_bytes[255] == 1);
    data_close(&d);
}
