/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and reads files of tokens.  Leaves Megatron's index to data_source_idx.c. */
#include "data/data_source.h"

#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clones.h"
#include "base/io.h"
#include "base/mem.h"
#include "data/data_encode.h"
#include "data/data_jsonl.h"

enum { LLMC_HEAD = 256 * 4, LLMC_QUESTIONS = 20240522 };

/* Formats of llm.c: dev/data/data_common.py. */
static const struct {
    uint32_t magic, version;
    enum source_type type;
} llmc[] = {{20240520, 1, SOURCE_U16}, {20240801, 7, SOURCE_U32}};

enum { LLMC_KINDS = sizeof llmc / sizeof *llmc };

int source_type_bytes(enum source_type type)
{
    static const int bytes[] = {1, 1, 2, 2, 4, 4, 8};

    return bytes[type];
}

const char *source_format_name(enum source_format format)
{
    static const char *const names[] = {"text",  "JSON Lines", "encoded text",
                                        "llm.c", "nanoGPT",    "Megatron"};

    return names[format];
}

int source_llmc_is(const unsigned char *head, int64_t bytes)
{
    uint32_t magic = bytes < 4 ? 0 : (uint32_t)io_le(head, 4);

    for (int i = 0; i < LLMC_KINDS; i++)
        if (magic == llmc[i].magic)
            return 1;
    return magic == LLMC_QUESTIONS;
}

int source_llmc_parse(const char *name, const unsigned char *head, int64_t bytes,
                      int64_t file_bytes, struct source_place *place, struct err *err)
{
    uint32_t magic = bytes < 4 ? 0 : (uint32_t)io_le(head, 4);
    int kind = 0;

    while (kind < LLMC_KINDS && magic != llmc[kind].magic)
        kind++;
    if (kind == LLMC_KINDS)
        return err_set(err, ERR_INPUT,
                       "'%s' has llm.c's magic %" PRIu32 "%s, expected %" PRIu32 " or %" PRIu32,
                       name, magic,
                       magic == LLMC_QUESTIONS ? " (multiple-choice questions)" : "",
                       llmc[0].magic, llmc[1].magic);
    if (bytes < LLMC_HEAD)
        return err_set(err, ERR_INPUT,
                       "'%s' has %" PRId64 " bytes, expected llm.c's header of %d", name, bytes,
                       LLMC_HEAD);
    uint32_t version = (uint32_t)io_le(head + 4, 4), count = (uint32_t)io_le(head + 8, 4);
    if (version != llmc[kind].version)
        return err_set(err, ERR_INPUT,
                       "'%s' is of version %" PRIu32 ", expected %" PRIu32
                       " after llm.c's magic %" PRIu32,
                       name, version, llmc[kind].version, magic);
    int size = source_type_bytes(llmc[kind].type);
    int64_t need = LLMC_HEAD + (int64_t)count * size;
    if (need != file_bytes)
        return err_set(err, ERR_INPUT,
                       "'%s' has %" PRId64 " bytes, expected %" PRId64 " for the %" PRIu32
                       " tokens of %d bytes that llm.c's header counts",
                       name, file_bytes, need, count, size);
    *place = (struct source_place){llmc[kind].type, LLMC_HEAD, count};
    return 0;
}

/* path without its last `drop` characters, plus `end`; owned by the caller. */
static char *with_end(const char *path, size_t drop, const char *end)
{
    size_t n = strlen(path) - drop;
    char *whole = mem_new(n + strlen(end) + 1, 1);

    memcpy(whole, path, n);
    strcpy(whole + n, end);
    return whole;
}

/*
 * Finds the .bin and .idx of a path that belongs to a pair; else *idx is NULL and *bin the path
 * itself.  The caller owns both.
 */
static void find_pair(const char *path, char **bin, char **idx)
{
    int by_idx = io_ends_with(path, ".idx");
    size_t drop = by_idx || io_ends_with(path, ".bin") ? 4 : 0;

    *bin = drop && !by_idx ? mem_dup(path) : with_end(path, drop, ".bin");
    *idx = by_idx ? mem_dup(path) : with_end(path, drop, ".idx");
    if (by_idx ||
        (drop ? !io_absent(*idx) : io_absent(path) && !io_absent(*bin) && !io_absent(*idx)))
        return;
    mem_free(*bin);
    mem_free(*idx);
    *bin = mem_dup(path);
    *idx = NULL;
}

static int read_idx(struct source *s, const char *path, struct source_place *place,
                    struct err *err)
{
    void *map = NULL;
    int64_t bytes = 0;
    int fd = -1;

    if (io_open(path, &fd, &bytes, err))
        return -1;
    if (bytes) /* an empty file cannot be mapped */
        map = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return err_sys(err, "cannot map data '%s'", path);
    int rc = source_idx_parse(path, map, bytes, s->path, s->file_bytes, place, &s->spans, err);
    if (map)
        munmap(map, (size_t)bytes);
    return rc;
}

static int read_place(struct source *s, struct source_place *place, struct err *err)
{
    unsigned char head[LLMC_HEAD];
    int64_t bytes = s->file_bytes < LLMC_HEAD ? s->file_bytes : LLMC_HEAD;

    if (io_pread_all(s->fd, head, bytes, 0, err))
        return err_prefix(err, "data '%s': ", s->path);
    if (source_llmc_is(head, bytes)) {
        s->format = SOURCE_LLMC;
        return source_llmc_parse(s->path, head, bytes, s->file_bytes, place, err);
    }
    if (bytes >= 7 && memcmp(head, "MMIDIDX", 7) == 0)
        return err_set(err, ERR_INPUT,
                       "'%s' is a Megatron index with another name, expected NAME.idx next to "
                       "NAME.bin",
                       s->path);
    s->format = io_ends_with(s->path, ".bin") ? SOURCE_NANOGPT : SOURCE_TEXT;
    if (s->format == SOURCE_NANOGPT && s->file_bytes % 2)
        return err_set(err, ERR_INPUT,
                       "'%s' has %" PRId64
                       " bytes, expected llm.c's header, an .idx file next to it, or the two "
                       "bytes per token of nanoGPT",
                       s->path, s->file_bytes);
    place->type = s->format == SOURCE_NANOGPT ? SOURCE_U16 : SOURCE_U8;
    place->tokens = s->file_bytes / source_type_bytes(place->type);
    return 0;
}

int source_open(struct source *s, const char *path, struct err *err)
{
    struct source new = {.fd = -1};
    struct source_place place = {0};
    char *idx = NULL;

    find_pair(path, &new.path, &idx);
    int rc = err_any(io_open(new.path, &new.fd, &new.file_bytes, err) ||
                     io_check_pointer(new.fd, new.path, new.file_bytes, err));
    if (rc == 0 && idx) {
        new.format = SOURCE_MEGATRON;
        rc = read_idx(&new, idx, &place, err);
    } else if (rc == 0 && jsonl_is(new.path)) {
        new.format = SOURCE_JSONL;
    } else if (rc == 0)
        rc = read_place(&new, &place, err);
    mem_free(idx);
    if (rc == 0) {
        new.type = place.type;
        new.tokens = place.tokens;
        new.offset = place.offset;
    }
    if (rc) {
        source_close(&new);
        return -1;
    }
    *s = new;
    return 0;
}

int source_encode(struct source *s, struct tokenizer *t, const char *template, struct err *err)
{
    int fd = memfd_create("tokens", MFD_CLOEXEC), kept = fd < 0 ? -1 : dup(fd);
    FILE *out = kept < 0 ? NULL : fdopen(kept, "w");
    struct encode_done done = {0};

    assert(s->format == SOURCE_TEXT || s->format == SOURCE_JSONL);
    int rc = out ? encode_file(s->path, t, template, out, &s->spans, &done, err) : -1;
    if (!out || (fclose(out) && rc == 0))
        rc = err_sys(err, "cannot hold the tokens of '%s'", s->path);
    if (!out && kept >= 0)
        close(kept);
    if (rc) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    close(s->fd);
    s->fd = fd;
    s->guess = done.guess;
    s->format = SOURCE_ENCODED;
    s->type = encode_type(t);
    s->tokens = done.tokens;
    return 0;
}

void source_close(struct source *s)
{
    if (s->path && s->fd >= 0)
        close(s->fd);
    mem_free(s->path);
    spans_release(&s->spans);
    *s = (struct source){0};
}

/* Tokens read at a time: 128 KiB for the largest type. */
enum { BLOCK = 1 << 14 };

/* Reads n tokens, at most BLOCK, from token `at` on, into raw. */
static const unsigned char *source_read_block(const struct source *s, int64_t at, int64_t n,
                                              unsigned char *raw, struct err *err)
{
    int size = source_type_bytes(s->type);

    if (io_pread_all(s->fd, raw, n * size, s->offset + at * size, err) == 0)
        return raw;
    err_prefix(err, "data '%s': ", s->path);
    return NULL;
}

static int has_sign(enum source_type type)
{
    return type == SOURCE_I8 || type == SOURCE_I16 || type == SOURCE_I32;
}

static int64_t token_at(enum source_type type, const unsigned char *first, int64_t i)
{
    int size = source_type_bytes(type), spare = 64 - 8 * size;
    uint64_t v = io_le(first + i * size, size) << spare;

    return has_sign(type) ? (int64_t)v >> spare : (int64_t)(v >> spare);
}

/*
 * Whether any of n tokens is >= vocab.  A negative token, read as unsigned, exceeds every
 * vocabulary, so signed types are checked as their unsigned counterparts.
 */
#define BLOCK_ABOVE(name, type, to_host)                                                       \
    KERN_CLONES static int name(const unsigned char *p, int64_t n, type limit)                 \
    {                                                                                          \
        unsigned above = 0;                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                      \
            type v;                                                                            \
            memcpy(&v, p + i * (int64_t)sizeof v, sizeof v);                                   \
            above |= to_host(v) > limit;                                                       \
        }                                                                                      \
        return above != 0;                                                                     \
    }
#define SAME(v) (v)
BLOCK_ABOVE(block_above_8, uint8_t, SAME)
BLOCK_ABOVE(block_above_16, uint16_t, le16toh)
BLOCK_ABOVE(block_above_32, uint32_t, le32toh)
BLOCK_ABOVE(block_above_64, uint64_t, le64toh)

static int block_above(const struct source *s, const unsigned char *p, int64_t n, int64_t limit)
{
    int size = source_type_bytes(s->type);
    int64_t most = size == 8 ? INT64_MAX : (INT64_C(1) << (8 * size - has_sign(s->type))) - 1;

    limit = limit < most ? limit : most;
    switch (size) {
    case 1:
        return block_above_8(p, n, (uint8_t)limit);
    case 2:
        return block_above_16(p, n, (uint16_t)limit);
    case 4:
        return block_above_32(p, n, (uint32_t)limit);
    default:
        return block_above_64(p, n, (uint64_t)limit);
    }
}

int source_check(const struct source *s, int64_t vocab, struct err *err)
{
    unsigned char raw[BLOCK * 8];
    const char *what = s->format == SOURCE_TEXT ? "byte" : "token";
    const char *is = s->format == SOURCE_TEXT ? "token " : "";

    if ((s->type == SOURCE_U8 && vocab > UINT8_MAX) ||
        (s->type == SOURCE_U16 && vocab > UINT16_MAX))
        return 0;
    for (int64_t at = 0; at < s->tokens; at += BLOCK) {
        int64_t n = s->tokens - at < BLOCK ? s->tokens - at : BLOCK;
        const unsigned char *p = source_read_block(s, at, n, raw, err);
        if (!p)
            return -1;
        if (!block_above(s, p, n, vocab - 1))
            continue;
        int64_t i = 0, id;
        while ((id = token_at(s->type, p, i)) >= 0 && id < vocab)
            i++;
        return err_set(err, ERR_INPUT,
                       "'%s': %s %" PRId64 " is %s%" PRId64 ", expected %s the model's "
                       "vocabulary of %" PRId64,
                       s->path, what, at + i, is, id,
                       id < 0 ? "0 or more, inside" : "less than", vocab);
    }
    return 0;
}

/* The first token goes to *first, the following count - 1 to rest. */
static int read_ids(const struct source *s, int64_t at, int64_t count, int32_t *first,
                    int32_t *rest, struct err *err)
{
    unsigned char raw[BLOCK * 8];
    int32_t *to = first;

    for (int64_t n; count > 0; at += n, count -= n) {
        n = count < BLOCK ? count : BLOCK;
        const unsigned char *p = source_read_block(s, at, n, raw, err);
        if (!p)
            return -1;
        for (int64_t i = 0; i < n; i++) {
            int64_t id = token_at(s->type, p, i);
            if (id != (int32_t)id)
                return err_set(err, ERR_INPUT,
                               "data '%s': token %" PRId64 " is %" PRId64
                               ", expected one of 32 bits",
                               s->path, at + i, id);
            *to = (int32_t)id;
            to = to == first ? rest : to + 1;
        }
    }
    return 0;
}

int source_read(const struct source *s, int64_t at, int64_t count, int32_t *to, struct err *err)
{
    return read_ids(s, at, count, to, to + 1, err);
}

int source_read_window(const struct source *s, int64_t at, int seq, int32_t *tokens,
                       int32_t *targets, struct err *err)
{
    if (read_ids(s, at, (int64_t)seq + 1, tokens, targets, err))
        return -1;
    memcpy(tokens + 1, targets, (size_t)(seq - 1) * sizeof *tokens);
    return 0;
}
