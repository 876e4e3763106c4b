/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the mover against a copy made in memory: any pieces, from paths of which some are
 * damaged.
 */
#include "unit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "shard/shard_moves.h"
#include "temp_fixture.h"
#include "words_fixture.h"

enum { FILES = 4, PATHS = 3, PIECES = 80, FILLED = 0xAA, LEAST = 20480 };

struct files {
    struct move_file file[FILES];
    char *path[FILES][PATHS];
    char text[FILES][PATHS][32];
    unsigned char *data[FILES]; /* what is, or should be, in them */
};

/* The test's own, which is there. */
static char dot[] = ".";
static const struct io_out here = {.fd = AT_FDCWD, .temp = dot};

struct trial {
    uint64_t seed, drawn;
    int64_t stream;
    unsigned char *bytes; /* [stream] */
    struct files in, out;
    struct move_from from[PIECES];
    struct move_to to[PIECES];
    char from_hash[PIECES][33], to_hash[PIECES][33];
    int64_t at[PIECES + 1];
    char bad[PIECES][PATHS]; /* this path does not give the piece */
    struct moves move;
    struct shard_options options;
    int holes;
    int64_t told, all;
    enum err_code loss; /* what `lost` is to be told */
    int lost, losses[PIECES], lost_rc;
};

static int64_t draw(struct trial *t, int64_t below)
{
    return (int64_t)(rng_u64(t->seed, 1, t->drawn++) % (uint64_t)below);
}

/* Every test works in a fresh folder, and is there: in memory, for hundreds of fsync. */
static int enter(void **state)
{
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    return temp_enter(state);
}

#define FOLDER_TEST(name) UNIT_TEST(name, enter, temp_leave)

static void put(const char *path, const void *data, int64_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    assert_true(fd >= 0);
    assert_int_equal(io_pwrite_all(fd, data, bytes, 0, &err), 0);
    close(fd);
}

static void flip(const char *path, int64_t at)
{
    int fd = open(path, O_RDWR); /* some paths are absent */
    unsigned char byte = 0;

    if (fd >= 0 && pread(fd, &byte, 1, at) == 1) {
        byte ^= 4;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    if (fd >= 0)
        close(fd);
}

static void name_files(struct trial *t, struct files *f, const char *word)
{
    for (int i = 0; i < FILES; i++) {
        f->file[i].first = (int64_t)i * PATHS;
        f->file[i].paths = 1 + (int)draw(t, PATHS);
        for (int k = 0; k < PATHS; k++) {
            snprintf(f->text[i][k], sizeof f->text[i][k], "%s-%d-%d", word, i, k);
            f->path[i][k] = f->text[i][k];
        }
    }
}

static int make(void *arg, int64_t piece, int64_t first, int64_t count, void *out,
                struct err *why)
{
    struct trial *t = arg;
    const struct move_from *f = &t->from[piece];

    (void)why;
    assert_true(f->file < 0 && (first - f->first + count) * f->width <= f->bytes);
    memcpy(out, t->bytes + t->at[piece] + (first - f->first) * f->width,
           (size_t)(count * f->width));
    return 0;
}

static int lost(void *arg, int file, int64_t piece, struct err *why)
{
    struct trial *t = arg;

    assert_int_equal(file, t->from[piece].file);
    assert_int_equal(why->code, t->loss);
    t->losses[piece] = 1;
    t->lost++;
    return t->lost_rc;
}

static void tell(void *arg, int64_t done, int64_t all)
{
    struct trial *t = arg;

    assert_true(done >= t->told && done <= all);
    t->told = done;
    t->all = all;
}

/* The stream, with zeros here and there, cut into pieces of files with gaps between them. */
static void draw_from(struct trial *t, int64_t piece_max)
{
    int n = (int)draw(t, PIECES + 1);

    t->move.froms = n;
    for (int i = 0; i < n; i++) {
        t->from[i].bytes = draw(t, 8) ? 8 * (1 + draw(t, piece_max / 8)) : 0;
        t->at[i + 1] = t->at[i] + t->from[i].bytes;
    }
    t->stream = t->at[n];
    t->bytes = mem_new((size_t)t->stream, 1);
    for (int64_t i = 0; i < t->stream; i++)
        t->bytes[i] = (unsigned char)rng_u64(t->seed, 2, (uint64_t)i);
    for (int i = 0; i < n; i += 1 + (int)draw(t, 6))
        memset(t->bytes + t->at[i], 0, (size_t)t->from[i].bytes);
    name_files(t, &t->in, "in");
    for (int i = 0; i < n; i++) {
        struct move_from *f = &t->from[i];
        f->file = (int)draw(t, FILES + 1) - 1;
        f->id = i;
        if (f->file < 0) { /* made of elements of a width that divides it */
            f->first = draw(t, 1000);
            f->width = 1 << draw(t, 4);
            continue;
        }
        f->offset = t->in.file[f->file].bytes + draw(t, 3);
        t->in.file[f->file].bytes = f->offset + f->bytes;
        if (draw(t, 4)) {
            ckpt_hash(t->bytes + t->at[i], f->bytes, t->from_hash[i]);
            f->hash = t->from_hash[i];
        }
    }
}

static void put_in(struct trial *t)
{
    for (int f = 0; f < FILES; f++) {
        int64_t bytes = t->in.file[f].bytes;
        unsigned char *data = mem_new((size_t)bytes, 1);
        for (int64_t i = 0; i < t->move.froms; i++)
            if (t->from[i].file == f)
                memcpy(data + t->from[i].offset, t->bytes + t->at[i], (size_t)t->from[i].bytes);
        for (int k = 0; k < t->in.file[f].paths; k++)
            put(t->in.path[f][k], data, bytes);
        mem_free(data);
    }
}

/* Paths absent or of another size, and pieces damaged: each piece stays whole in one. */
static void damage(struct trial *t)
{
    for (int f = 0; f < FILES; f++) {
        int paths = t->in.file[f].paths, safe = (int)draw(t, paths);
        for (int k = 0; k < paths; k++) {
            int64_t how = k == safe ? 9 : draw(t, 6);
            if (how == 0)
                assert_int_equal(unlink(t->in.path[f][k]), 0);
            else if (how == 1)
                assert_int_equal(truncate(t->in.path[f][k], t->in.file[f].bytes + 1), 0);
            for (int64_t i = 0; i < t->move.froms; i++)
                if (t->from[i].file == f && how < 2)
                    t->bad[i][k] = 1;
        }
        for (int64_t i = 0; i < t->move.froms; i++) {
            const struct move_from *p = &t->from[i];
            int k = (int)draw(t, paths);
            if (p->file != f || !p->hash || p->bytes == 0 || k == safe || draw(t, 3))
                continue;
            flip(t->in.path[f][k], p->offset + draw(t, p->bytes));
            t->bad[i][k] = 1;
        }
    }
}

static int64_t file_bytes(const struct move_to *p)
{
    return p->type == p->want ? p->bytes
                              : p->bytes / dtype_bytes(p->type) * dtype_bytes(p->want);
}

/* Pieces with gaps between them, some that are pieces of `from`, some twice. */
static void draw_to(struct trial *t, int64_t piece_max)
{
    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F64};
    int most = (int)draw(t, PIECES + 1), n = 0, k = 0;

    name_files(t, &t->out, "./out");
    for (int64_t at = 0; n < most && at < t->stream; n++) {
        struct move_to *p = &t->to[n];
        int again = n > 0 && draw(t, 4) == 0;
        if (again) {
            *p = p[-1];
        } else {
            while (t->at[k] < at)
                k++;
            p->at = at + (draw(t, 2) ? 8 * draw(t, 9) : 0);
            p->bytes = 8 * (1 + draw(t, piece_max / 8));
            if (k < t->move.froms && t->from[k].bytes && draw(t, 3) == 0)
                *p = (struct move_to){.at = t->at[k], .bytes = t->from[k].bytes};
            if (p->at >= t->stream)
                break;
            if (p->bytes > t->stream - p->at)
                p->bytes = t->stream - p->at;
        }
        at = p->at + p->bytes;
        p->type = p->want = types[draw(t, 4)];
        if (draw(t, 2))
            p->want = types[draw(t, 4)];
        p->file = (int)draw(t, FILES);
        p->offset = t->out.file[p->file].bytes + draw(t, 3);
        p->hash = draw(t, 4) ? t->to_hash[n] : NULL;
        t->out.file[p->file].bytes = p->offset + file_bytes(p);
    }
    t->move.tos = n;
}

/* The files as they should come to be: the oracle. */
static void expect(struct trial *t)
{
    for (int f = 0; f < FILES; f++) {
        int64_t bytes = t->out.file[f].bytes;
        t->out.data[f] = mem_new((size_t)bytes, 1);
        memset(t->out.data[f], t->holes ? 0 : FILLED, (size_t)bytes);
        for (int k = 0; k < t->out.file[f].paths; k++)
            put(t->out.path[f][k], t->out.data[f], bytes);
    }
    for (int64_t i = 0; i < t->move.tos; i++) {
        struct move_to *p = &t->to[i];
        unsigned char *to = t->out.data[p->file] + p->offset;
        int64_t elems = p->bytes / dtype_bytes(p->type);
        void *from = NULL, *made = mem_new((size_t)elems, (size_t)dtype_bytes(p->want));
        assert_int_equal(mem_data(p->bytes, "a piece", &from, &err), 0);
        memcpy(from, t->bytes + p->at, (size_t)p->bytes);
        if (p->type == p->want) {
            memcpy(to, from, (size_t)p->bytes);
        } else {
            dtype_convert(made, p->want, from, p->type, elems);
            memcpy(to, made, (size_t)(elems * dtype_bytes(p->want)));
        }
        mem_free(from);
        mem_free(made);
    }
}

/* The parts in which a piece is read, from the definition. */
static int parts_of(const struct trial *t, int64_t i)
{
    int64_t begin = t->at[i], end = t->at[i + 1], cut = begin;
    int parts = begin < end;

    for (int64_t k = 0; parts && !t->from[i].hash && k < t->move.tos; k++) {
        const struct move_to *p = &t->to[k];
        for (int64_t at = p->at; at <= p->at + p->bytes; at += p->bytes)
            if (at > cut && at < end) {
                cut = at;
                parts++;
            }
    }
    return parts;
}

static void check(const struct trial *t)
{
    int64_t repaired = 0;
    int first = -1, path = 0;

    for (int f = 0; f < FILES; f++) {
        for (int k = 0; k < t->out.file[f].paths; k++) {
            char *text = NULL;
            int64_t bytes = 0;
            assert_int_equal(
                io_read_text(t->out.path[f][k], INT64_C(1) << 30, &text, &bytes, &err), 0);
            assert_int_equal(bytes, t->out.file[f].bytes);
            assert_memory_equal(text, t->out.data[f], (size_t)bytes);
            mem_free(text);
        }
    }
    for (int64_t i = 0; i < t->move.tos; i++) {
        const struct move_to *p = &t->to[i];
        char hash[33];
        ckpt_hash(t->out.data[p->file] + p->offset, file_bytes(p), hash);
        assert_string_equal(t->to_hash[i], p->hash ? hash : "");
    }
    for (int64_t i = 0; i < t->move.froms; i++) {
        const struct move_from *p = &t->from[i];
        if (p->file < 0 || !p->bytes || !t->bad[i][i % t->in.file[p->file].paths])
            continue;
        first = first < 0 ? (int)i : first;
        repaired += parts_of(t, i);
    }
    assert_int_equal(t->move.repaired, repaired);
    assert_int_equal(t->told, t->all);
    if (first < 0)
        return;
    const struct move_file *file = &t->in.file[t->from[first].file];
    for (int k = 0; k < file->paths; k++) /* the last that failed before one did not */
        if (t->bad[first][(first + k) % file->paths])
            path = (first + k) % file->paths;
        else
            break;
    assert_non_null(strstr(t->move.damage.text, t->in.path[t->from[first].file][path]));
}

static void plan(struct trial *t, int files)
{
    t->options.progress_arg = t;
    t->move = (struct moves){.options = &t->options,
                             .in = {files, t->in.file, t->in.path[0], 0, 0, 0},
                             .out = {files, t->out.file, t->out.path[0], 0, 0, 0},
                             .from = t->from,
                             .to = t->to,
                             .make = make,
                             .arg = t};
}

static int run(struct trial *t, struct err *why)
{
    return move_run(&t->move, &here, t->holes, why);
}

static void trial_init(struct trial *t, uint64_t seed, int64_t piece_max)
{
    *t = (struct trial){.seed = seed};
    plan(t, FILES);
    t->options.progress = tell;
    draw_from(t, piece_max);
    draw_to(t, 3 * piece_max);
    t->options.jobs = 1 + (int)draw(t, 5);
    t->holes = (int)draw(t, 2);
    put_in(t);
    expect(t);
}

static void trial_release(struct trial *t)
{
    for (int f = 0; f < FILES; f++)
        mem_free(t->out.data[f]);
    mem_free(t->bytes);
}

static void move_one(uint64_t seed, int64_t piece_max)
{
    static struct trial t;

    trial_init(&t, seed, piece_max);
    damage(&t);
    t.options.buffer = LEAST - 1;
    assert_int_equal(run(&t, &err), -1);
    assert_int_equal(err.code, ERR_INPUT);
    assert_words(err.text, "buffer of 20479 bytes, at least 20480 (--buffer)");
    t.options.buffer = LEAST << draw(&t, 4);
    if (run(&t, &err))
        fail_msg("seed %" PRIu64 ": %s", seed, err.text);
    check(&t);
    trial_release(&t);
}

/* The last few have pieces larger than what is read or written at a time. */
FOLDER_TEST(any_pieces)
{
    for (uint64_t seed = 1; seed <= 306; seed++)
        move_one(seed, seed > 300 ? 700000 : seed % 2 ? 40 : 3000);
}

/* Two pieces of one file with two paths, into one file with two. */
static void plain_init(struct trial *t)
{
    *t = (struct trial){.seed = 1, .stream = 300, .at = {0, 100, 300}};
    name_files(t, &t->in, "in");
    name_files(t, &t->out, "./out");
    plan(t, 1);
    t->move.froms = 2;
    t->move.tos = 3;
    t->options.buffer = 2 * LEAST;
    t->options.jobs = 2;
    t->bytes = mem_new(300, 1);
    for (int i = 0; i < 300; i++)
        t->bytes[i] = (unsigned char)(1 + i % 255);
    t->in.file[0].bytes = t->out.file[0].bytes = 300;
    t->in.file[0].paths = t->out.file[0].paths = 2;
    for (int i = 0; i < 2; i++) {
        t->from[i] =
            (struct move_from){t->at[i + 1] - t->at[i], 0, t->at[i], t->from_hash[i], .id = i};
        ckpt_hash(t->bytes + t->at[i], t->from[i].bytes, t->from_hash[i]);
    }
    for (int i = 0; i < 3; i++)
        t->to[i] = (struct move_to){
            .at = 100 * i, .bytes = 100, .offset = 100 * i, .hash = t->to_hash[i]};
    for (int f = 1; f < FILES; f++)
        t->in.file[f].paths = t->out.file[f].paths = 0;
    put_in(t);
    expect(t);
}

static void refused(struct trial *t, enum err_code code, const char *words)
{
    assert_int_equal(run(t, &err), -1);
    assert_int_equal(err.code, code);
    assert_words(err.text, words);
}

/* The first piece is in no path: the rest is as it should be. */
FOLDER_TEST(lost_pieces)
{
    struct trial t;
    unsigned char got[300] = {0};

    plain_init(&t);
    flip("in-0-0", 50);
    flip("in-0-1", 99);
    refused(&t, ERR_MISMATCH, "in-0-1: bytes [0, 100) damaged"); /* the last that was tried */
    t.move.lost = lost;
    t.loss = ERR_MISMATCH;
    t.lost_rc = -1;
    refused(&t, ERR_MISMATCH, "in-0-1: bytes [0, 100) damaged");
    t.lost = t.lost_rc = 0;
    put("out-0-0", got, sizeof got);
    assert_int_equal(run(&t, &err), 0);
    assert_int_equal(t.lost, 1);
    assert_true(t.losses[0] && !t.losses[1]);
    int fd = open("out-0-0", O_RDONLY);
    assert_int_equal(pread(fd, got, sizeof got, 0), 300);
    close(fd);
    assert_memory_equal(got + 100, t.bytes + 100, 200);
    trial_release(&t);
}

/* A file that is not there at all is lost piece by piece, or an error at once. */
FOLDER_TEST(absent_files)
{
    struct trial t;

    plain_init(&t);
    t.move.lost = lost;
    assert_int_equal(unlink("out-0-1"), 0);
    refused(&t, ERR_ABSENT, "cannot open './out-0-1'");
    assert_int_equal(t.lost, 0); /* no path of the input is to blame */
    put("out-0-1", t.bytes, 300);
    t.move.lost = NULL;
    t.in.file[0].paths = 1;
    assert_int_equal(unlink("in-0-0"), 0);
    refused(&t, ERR_ABSENT, "cannot open 'in-0-0'");
    t.move.lost = lost;
    t.loss = ERR_ABSENT;
    assert_int_equal(run(&t, &err), 0);
    assert_int_equal(t.lost, 2);
    assert_int_equal(unlink("out-0-1"), 0);
    refused(&t, ERR_ABSENT, "cannot open './out-0-1'");
    trial_release(&t);
}

/* A file that is cut short under it ends it with its name. */
FOLDER_TEST(short_files)
{
    struct trial t;

    plain_init(&t);
    t.in.file[0].paths = 1;
    t.in.file[0].bytes = 200;
    assert_int_equal(truncate("in-0-0", 200), 0);
    refused(&t, ERR_INPUT, "in-0-0: ends at byte 200, expected 300");
    t.in.file[0].bytes = 300;
    refused(&t, ERR_INPUT, "in-0-0: has 200 bytes, expected 300");
    trial_release(&t);
}

static int no_make(void *arg, int64_t piece, int64_t first, int64_t count, void *out,
                   struct err *why)
{
    (void)arg;
    (void)first;
    (void)count;
    (void)out;
    return err_set(why, ERR_INPUT, "piece %" PRId64 " cannot be made", piece);
}

FOLDER_TEST(stopped_or_unmade)
{
    struct trial t;
    atomic_int stop;

    plain_init(&t);
    atomic_init(&stop, 15);
    t.move.stop = &stop;
    refused(&t, ERR_SYS, "stopped");
    atomic_store(&stop, 0);
    t.move.make = no_make;
    t.from[1].file = -1;
    t.from[1].width = 1;
    refused(&t, ERR_INPUT, "piece 1 cannot be made");
    trial_release(&t);
}

/* Zeros are written where the file may hold something else, and left out where it is new. */
FOLDER_TEST(zeros)
{
    struct trial t;
    unsigned char got[300];

    plain_init(&t);
    memset(t.bytes, 0, 200);
    for (int i = 0; i < 2; i++)
        ckpt_hash(t.bytes + t.at[i], t.from[i].bytes, t.from_hash[i]);
    put_in(&t);
    for (t.holes = 0; t.holes < 2; t.holes++) {
        memset(got, FILLED, sizeof got);
        put("out-0-0", got, sizeof got);
        assert_int_equal(run(&t, &err), 0);
        int fd = open("out-0-0", O_RDONLY);
        assert_int_equal(pread(fd, got, sizeof got, 0), 300);
        close(fd);
        assert_int_equal(got[99], t.holes ? FILLED : 0);
        assert_memory_equal(got + 200, t.bytes + 200, 100);
    }
    trial_release(&t);
}
