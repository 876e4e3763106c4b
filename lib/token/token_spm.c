/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads tokenizer.model, SentencePiece's vocabulary file: protocol buffer messages with the
 * field numbers of sentencepiece_model.proto.
 *
 *     1 pieces      1 text  2 score  3 type
 *     2 trainer     3 model type  24 spaces as suffixes  35 byte fallback  41 begin  42 end
 *     3 normalizer  2 table  3 dummy prefix  4 remove extra spaces  5 escape spaces
 *     5 denormalizer  2 table
 *
 * A BPE model has no list of merges: of all neighbours whose joined text is a piece it joins
 * those whose piece has the highest score, the leftmost of equals.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "token/token_parts.h"

/* The cost of a piece is the square of its length; trainers make at most 16 characters. */
enum { PIECE_MAX = 1024 };

/* ---- messages ---- */

struct message {
    const unsigned char *at, *end;
};

enum { VARINT, FIXED64, BYTES, FIXED32 = 5 };
#define KEY(number, coded) ((number) << 3 | (coded))

static int spm_take_number(struct message *m, uint64_t *value)
{
    int shift = 0;

    for (*value = 0; m->at < m->end && shift < 64; shift += 7) {
        *value |= (uint64_t)(*m->at & 0x7f) << shift;
        if (*m->at++ < 0x80)
            return 0;
    }
    return -1;
}

/*
 * Returns the next field, number << 3 | wire type, and sets *value or the bytes of *in; 0: the
 * end, -1: not a message.
 */
static int64_t next_field(struct message *m, uint64_t *value, struct message *in)
{
    uint64_t key, bytes = 0;

    if (m->at == m->end)
        return 0;
    if (spm_take_number(m, &key) || key >> 3 == 0 || key > UINT32_MAX)
        return -1;
    int coded = key & 7;
    if (coded == VARINT || coded == BYTES ? spm_take_number(m, coded == BYTES ? &bytes : value)
                                          : coded != FIXED64 && coded != FIXED32)
        return -1;
    if (coded == FIXED64 || coded == FIXED32)
        bytes = coded == FIXED64 ? 8 : 4;
    if (bytes > (uint64_t)(m->end - m->at))
        return -1;
    *in = (struct message){m->at, m->at + bytes};
    m->at += bytes;
    return (int64_t)key;
}

/* ---- the model ---- */

struct scored {
    float score;
    int32_t id;
};

struct reading {
    struct token_tables *t;
    const char *name;
    struct err *err;
    struct scored *scored; /* [scored_count] pieces that are results of merges */
    size_t space, added_space;
    int32_t scored_count;
    int32_t unk, begin, end;
    int type, suffix, fallback, prefix, shorten, escape;
    int table; /* the normalizer or the denormalizer has a table */
};

static int spm_fail_format(const struct reading *r)
{
    return err_set(
        r->err, ERR_INPUT,
        "tokenizer '%s' is of an unsupported kind, expected a model of SentencePiece; "
        "tokenizer.json, vocab.json and merges.txt in the folder, --tokenizer DIR or "
        "--tokenizer bytes do as well",
        r->name);
}

static int spm_is_utf8(const char *text, int64_t bytes)
{
    int n = 1;

    for (int64_t at = 0; n && at < bytes; at += n)
        n = utf8_next(text + at, NULL);
    return n && strlen(text) == (size_t)bytes;
}

/* Checks SentencePiece's rule: byte pieces are "<0x00>" to "<0xFF>", all of them with
   byte_fallback, none without. */
static int check_bytes(const struct reading *r)
{
    const struct token_vocab *v = &r->t->vocab;
    int bytes = 0, valid = 0;
    char name[8];

    for (int32_t i = 0; i < v->count; i++)
        bytes += v->piece[i].kind == TOKENIZER_BYTE;
    for (int b = 0; b < 256; b++) {
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        int32_t id = token_vocab_find(v, name, 6);
        valid += id >= 0 && v->piece[id].kind == TOKENIZER_BYTE;
    }
    if (bytes == valid && valid == (r->fallback ? 256 : 0))
        return 0;
    return err_at(r->err, r->name, 0, NULL,
                  "has %d byte pieces, of which %d are <0x00> to <0xFF>, expected %s", bytes,
                  valid, r->fallback ? "all 256 of these" : "none without byte_fallback");
}

static int spm_add_piece(struct reading *r, struct message in, float score, uint64_t type)
{
    static const enum tokenizer_kind kinds[] = {
        TOKENIZER_UNUSED, TOKENIZER_NORMAL, TOKENIZER_UNKNOWN, TOKENIZER_CONTROL,
        TOKENIZER_USER,   TOKENIZER_UNUSED, TOKENIZER_BYTE};
    struct token_tables *t = r->t;
    int32_t id = t->vocab.count, old;
    int64_t bytes = in.end - in.at;
    enum tokenizer_kind kind = type < 7 ? kinds[type] : TOKENIZER_UNUSED;
    char piece[PIECE_MAX + 1] = {0};

    if (bytes > 0 && bytes <= PIECE_MAX)
        memcpy(piece, in.at, (size_t)bytes);
    if (!*piece || !spm_is_utf8(piece, bytes) || kind == TOKENIZER_UNUSED || isnan(score))
        return err_at(r->err, r->name, 0, NULL,
                      "has a piece %d of type %" PRIu64 " and %" PRId64
                      " bytes, expected a score, a type in use, and UTF-8 of 1 to %d bytes",
                      id, type, bytes, PIECE_MAX);
    if (token_vocab_add(&t->vocab, piece, bytes, id, kind, &old))
        return err_at(r->err, r->name, 0, NULL,
                      "has the text of piece %d in piece %d again, expected it once", old, id);
    if (kind == TOKENIZER_UNKNOWN && r->unk >= 0)
        return err_at(r->err, r->name, 0, NULL,
                      "has pieces %d and %d for unknown characters, expected one", r->unk, id);
    r->unk = kind == TOKENIZER_UNKNOWN ? id : r->unk;
    if (kind == TOKENIZER_NORMAL) {
        r->scored =
            mem_grow(r->scored, &r->space, (size_t)r->scored_count + 1, sizeof *r->scored);
        r->scored[r->scored_count++] = (struct scored){score, id};
    } else if (kind != TOKENIZER_BYTE) {
        int special = kind != TOKENIZER_USER;
        t->added =
            mem_grow(t->added, &r->added_space, (size_t)t->added_count + 1, sizeof *t->added);
        t->added[t->added_count++] = (struct token_added){
            .id = id, .special = special, .normalized = special ? 0 : TOKEN_AS_SPELLED};
    }
    return 0;
}

static int spm_read_piece(struct reading *r, struct message m)
{
    struct message text = {0}, in;
    float score = 0;
    uint64_t type = 1, value;
    int64_t key;

    while ((key = next_field(&m, &value, &in)) > 0)
        if (key == KEY(1, BYTES))
            text = in;
        else if (key == KEY(2, FIXED32))
            memcpy(&score, in.at, sizeof score); /* hosts are little-endian */
        else if (key == KEY(3, VARINT))
            type = value;
    return key < 0 ? spm_fail_format(r) : spm_add_piece(r, text, score, type);
}

/* Reads the model (which 0), or one of its messages other than pieces. */
static int read_message(struct reading *r, int which, struct message m)
{
    const struct {
        int message, key, *to;
    } fields[] = {{2, KEY(3, VARINT), &r->type},      {2, KEY(24, VARINT), &r->suffix},
                  {2, KEY(35, VARINT), &r->fallback}, {2, KEY(41, VARINT), &r->begin},
                  {2, KEY(42, VARINT), &r->end},      {3, KEY(3, VARINT), &r->prefix},
                  {3, KEY(4, VARINT), &r->shorten},   {3, KEY(5, VARINT), &r->escape}};
    struct message in;
    uint64_t value;
    int64_t key;
    int rc = 0;

    while (rc == 0 && (key = next_field(&m, &value, &in)) != 0) {
        if (key < 0)
            return spm_fail_format(r);
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            if (fields[i].message == which && fields[i].key == key)
                *fields[i].to = (int32_t)(uint32_t)value;
        if ((which == 3 || which == 5) && key == KEY(2, BYTES))
            r->table |= in.end > in.at;
        if (!which && key == KEY(1, BYTES))
            rc = spm_read_piece(r, in);
        else if (!which && (key & 7) == BYTES && key < KEY(6, 0))
            rc = read_message(r, (int)(key >> 3), in);
    }
    return rc;
}

static int check_model(const struct reading *r)
{
    static const char *const types[] = {"of an unknown type", "UNIGRAM", "BPE", "WORD", "CHAR"};
    const char *what = NULL;

    if (!r->t->vocab.count)
        return spm_fail_format(r);
    if (r->type != 2)
        return err_at(r->err, r->name, 0, NULL, "is a model %s, expected BPE",
                      types[r->type > 0 && r->type < 5 ? r->type : 0]);
    if (r->table)
        what = "a table of the normalizer (precompiled_charsmap)";
    else if (r->shorten)
        what = "remove_extra_whitespaces";
    else if (!r->escape)
        what = "no escape_whitespaces";
    else if (r->suffix)
        what = "treat_whitespace_as_suffix";
    else if (r->unk < 0)
        what = "no piece for unknown characters";
    return what ? err_at(r->err, r->name, 0, NULL, "has %s, which is not supported", what) : 0;
}

static int compare_scores(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;

    return x->score != y->score ? (x->score < y->score) - (x->score > y->score)
                                : (x->id > y->id) - (x->id < y->id);
}

/* A piece is a merge of any two pieces whose texts form it; equal scores are equal ranks. */
static int add_merges(struct reading *r)
{
    struct token_vocab *v = &r->t->vocab;
    int32_t rank = 0;
    int n;

    if (r->scored_count)
        qsort(r->scored, (size_t)r->scored_count, sizeof *r->scored, compare_scores);
    for (int32_t i = 0; i < r->scored_count; i++) {
        struct token_piece p = v->piece[r->scored[i].id];
        const char *text = v->text + p.at;
        rank += i > 0 && r->scored[i].score < r->scored[i - 1].score;
        for (int at = 0; at < p.bytes; at += n) {
            int32_t left = at ? token_vocab_find(v, text, at) : -1;
            int32_t right = left < 0 ? -1 : token_vocab_find(v, text + at, p.bytes - at);
            if (right >= 0 && !v->piece[left].added && !v->piece[right].added)
                token_vocab_merge(v, left, right, r->scored[i].id, rank);
            token_code_at(text + at, &n);
            /* SentencePiece merges texts, so it would make the piece anyway. */
            if (token_vocab_find(v, text + at, n) < 0)
                return err_at(r->err, r->name, 0, NULL,
                              "has a piece %d '%.*s' with '%.*s', expected a piece of each "
                              "of its characters",
                              r->scored[i].id, p.bytes < 99 ? p.bytes : 99, text, n, text + at);
        }
    }
    return 0;
}

/*
 * Sets the remaining tables as tokenizer.json would.  SentencePiece adds a space to each part
 * of a text between added tokens; with `legacy` false transformers adds one to the whole text.
 */
static int read_rest(const struct reading *r, int legacy)
{
    char spaces[512], text[1024];

    if (legacy)
        snprintf(spaces, sizeof spaces,
                 "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s{\"type\":"
                 "\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}]}",
                 r->prefix ? "{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"}," : "");
    else
        snprintf(spaces, sizeof spaces,
                 "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":"
                 "\"\xe2\x96\x81\",\"prepend_scheme\":\"%s\",\"split\":false}",
                 r->prefix ? "first" : "never");
    int bytes = snprintf(
        text, sizeof text,
        "{%s,\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\","
        "\"pattern\":{\"String\":\"\xe2\x96\x81\"},\"content\":\" \"},"
        "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \","
        "\"start\":%d,\"stop\":0}]},"
        "\"model\":{\"fuse_unk\":true,\"byte_fallback\":%s,\"vocab\":null,\"merges\":null}}",
        spaces, r->prefix != 0, r->fallback ? "true" : "false");

    return token_json_read(r->t, r->name, text, bytes, r->err);
}

int token_spm_read(struct token_tables *t, const char *name, const char *text, int64_t bytes,
                   const struct tree_node *config, struct err *err)
{
    /* Defaults of sentencepiece_model.proto. */
    struct reading r = {.t = t,
                        .name = name,
                        .err = err,
                        .unk = -1,
                        .begin = 1,
                        .end = 2,
                        .type = 1,
                        .prefix = 1,
                        .shorten = 1,
                        .escape = 1};
    const unsigned char *at = (const unsigned char *)text;
    int rc = read_message(&r, 0, (struct message){at, at + bytes});

    const struct tree_node *prefix = tree_get(config, "add_prefix_space");
    if (tree_is_bool(prefix))
        r.prefix = tree_is(prefix, "true");
    rc = rc || check_model(&r) || check_bytes(&r) || add_merges(&r) ||
         read_rest(&r, !tree_is(tree_get(config, "legacy"), "false"));
    mem_free(r.scored);
    if (rc)
        return -1;
    t->model.unk = r.unk;
    int32_t *ends[] = {&r.begin, &r.end};
    for (int i = 0; i < 2; i++)
        if (*ends[i] < 0 || *ends[i] >= t->vocab.count ||
            t->vocab.piece[*ends[i]].kind != TOKENIZER_CONTROL)
            *ends[i] = -1;
    t->begin = r.begin;
    t->end = r.end;
    return 0;
}
