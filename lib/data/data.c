/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selects the sources and tokens of a micro-batch, and converts a text to a file of tokens.
 * Leaves ranks to its callers.
 */
#include "data/data.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "data/data_jsonl.h"

int data_weights_parse(const char *text, int count, double *weights, struct err *err)
{
    int given = 1;

    for (const char *p = text; *p; p++)
        given += *p == ',';
    if (given != count)
        return err_set(err, ERR_INPUT, "'%s' has %d numbers, expected one for each of %d files",
                       text, given, count);
    char *words = mem_dup(text), *next = words;
    int rc = 0;
    for (int i = 0; rc == 0 && i < count; i++) {
        const char *word = strsep(&next, ",");
        rc = num_f64(word, 0, DBL_MAX, &weights[i], err);
        if (rc == 0 && weights[i] == 0)
            rc = err_set(err, ERR_INPUT, "'%s', expected a number above 0", word);
    }
    mem_free(words);
    return rc;
}

/* The number of tokens reserved for evaluation. */
static int64_t data_kept_of(int64_t tokens, double split)
{
    return (int64_t)((double)tokens * split);
}

/* Splits a source and checks that both parts are large enough.  alone: all is for
   evaluation. */
static int split_part(struct data_part *p, const struct data_options *o, int alone,
                      struct err *err)
{
    int64_t tokens = p->source.tokens, kept = alone ? tokens : data_kept_of(tokens, o->split);

    p->evals = kept > o->seq ? (kept - 1) / o->seq : 0;
    if (alone)
        return 0;
    p->train = tokens - kept;
    if (p->train < o->seq + 1)
        return err_set(err, ERR_INPUT,
                       "data '%s' has %" PRId64 " tokens%s, expected at least %d (one sequence "
                       "and its next token)",
                       p->source.path, p->train, kept ? " to train on" : "", o->seq + 1);
    order_windows_init(&p->windows, p->train, o->seq);
    if (o->fixed_windows)
        p->windows.offsets = 1;
    return 0;
}

static int open_source(struct source *s, const char *path, const struct data_options *o,
                       struct tokenizer **t, struct err *err)
{
    if (source_open(s, path, err))
        return -1;
    int text = s->format == SOURCE_TEXT, lines = s->format == SOURCE_JSONL;
    if (!text && !lines)
        return 0;
    if (!o->bytes && !*t) {
        /* No tokenizer was named: uses the folder's, or bytes if these are valid tokens. */
        int found = o->folder ? tokenizer_find(o->folder, err) : 0;
        if (found < 0 || (found && tokenizer_open(t, o->folder, err)))
            return -1;
        if (!found && o->vocab > 256)
            return err_set(
                err, ERR_INPUT,
                "data '%s' is a text and the model has %" PRId64
                " tokens, expected --tokenizer DIR, or --tokenizer bytes to train on "
                "its bytes",
                path, o->vocab);
    }
    if (text && (o->bytes || !*t))
        return 0;
    return source_encode(s, o->bytes ? NULL : *t, o->template, err);
}

/* Drops unneeded spans, so that equal tokens are the same data in any file format. */
static int check_spans(struct data *d, struct source *s, const struct data_options *o,
                       struct err *err)
{
    int64_t contexts = 0;

    for (int64_t i = 0; i < s->spans.count; i++)
        contexts += s->spans.kind[i] & SPAN_CONTEXT;
    if (contexts && contexts == s->spans.count)
        return err_set(err, ERR_INPUT,
                       "'%s' is all context, expected answers, or texts, to train on", s->path);
    if (o->isolate && !s->spans.count)
        return err_set(err, ERR_INPUT,
                       "--documents=isolate with '%s', %s data, expected documents: JSON "
                       "Lines, or the files of Megatron",
                       s->path, source_format_name(s->format));
    if (!o->isolate && !contexts)
        spans_release(&s->spans);
    d->masked |= s->spans.count > 0;
    return 0;
}

static int data_open_parts(struct data *d, const struct data_options *o, struct tokenizer **t,
                           struct err *err)
{
    int texts = 0;

    for (int i = 0; i < d->parts; i++) {
        struct data_part *p = &d->part[i];
        int alone = i == o->count;
        if (open_source(&p->source, alone ? o->eval : o->paths[i], o, t, err) ||
            source_check(&p->source, o->vocab, err) || split_part(p, o, alone, err))
            return -1;
        p->evals += i ? d->part[i - 1].evals : 0;
        d->tokens += alone ? 0 : p->source.tokens;
        texts += p->source.format == SOURCE_ENCODED;
        if (check_spans(d, &p->source, o, err))
            return -1;
    }
    if (*t && !texts)
        return err_set(err, ERR_INPUT,
                       "tokenizer '%s' but no text among the data, expected a text: the files "
                       "contain tokens",
                       o->tokenizer);
    if (o->split > 0 && data_eval_windows(d) == 0)
        return err_set(
            err, ERR_INPUT,
            "the last %g of the data is shorter than one sequence of %d tokens and the "
            "next token, expected at least one to evaluate",
            o->split, o->seq);
    if (o->eval && data_eval_windows(d) == 0)
        return err_set(err, ERR_INPUT,
                       "'%s' is shorter than one sequence of %d tokens and the next token, "
                       "expected at least one to evaluate",
                       o->eval, o->seq);
    return 0;
}

/* Mixes by the weights, or in proportion to the tokens for training. */
static void open_mix(struct data *d, const struct data_options *o)
{
    double *weights = mem_new((size_t)o->count, sizeof *weights);

    for (int i = 0; i < o->count; i++)
        weights[i] = o->weights ? o->weights[i] : (double)d->part[i].train;
    order_mix_init(&d->mix, weights, o->count);
    d->weighted = o->weights != NULL;
    mem_free(weights);
}

/*
 * Hashes a part of large data, evenly spread.  4 MiB of tokens take a millisecond; different
 * data that agrees in 256 places of 4096 tokens each, and in the count, must have been edited
 * by hand.  Hashes token numbers, so a text is the same data as the file of its tokens.
 */
static int add_tokens(XXH3_state_t *sum, const struct source *s, struct err *err)
{
    enum { PLACES = 256, PART = 4096 };
    int32_t id[PART];
    int whole = s->tokens <= (int64_t)PLACES * PART;
    int64_t places = whole ? (s->tokens + PART - 1) / PART : PLACES;

    for (int64_t i = 0; i < places; i++) {
        int64_t at =
            whole ? i * PART : (int64_t)((__int128)(s->tokens - PART) * i / (PLACES - 1));
        int64_t n = s->tokens - at < PART ? s->tokens - at : PART;
        if (source_read(s, at, n, id, err))
            return -1;
        XXH3_64bits_update(sum, id, (size_t)n * sizeof *id);
    }
    return 0;
}

static int add_up(struct data *d, struct err *err)
{
    XXH3_state_t *sum = mem_have(XXH3_createState(), "a checksum");
    int rc = 0;

    XXH3_64bits_reset(sum);
    for (int i = 0; rc == 0 && i < d->count; i++) {
        const struct data_part *p = &d->part[i];
        const int64_t counts[] = {p->source.tokens, p->train,
                                  d->mix.share ? d->mix.share[i] : 1};
        const struct spans *s = &p->source.spans;
        XXH3_64bits_update(sum, counts, sizeof counts);
        XXH3_64bits_update(sum, s->begin, (size_t)s->count * sizeof *s->begin);
        XXH3_64bits_update(sum, s->kind, (size_t)s->count);
        rc = add_tokens(sum, &p->source, err);
        d->train += p->train;
    }
    d->sum = XXH3_64bits_digest(sum);
    XXH3_freeState(sum);
    return rc;
}

int data_tell(const struct data *d, const struct data_options *o, int64_t *train, uint64_t *sum,
              struct err *err)
{
    struct data as = *d;

    as.part = mem_new((size_t)d->count, sizeof *as.part);
    as.train = 0;
    for (int i = 0; i < d->count; i++) {
        as.part[i] = d->part[i];
        as.part[i].train =
            d->part[i].source.tokens - data_kept_of(d->part[i].source.tokens, o->split);
    }
    open_mix(&as, o);
    int rc = add_up(&as, err);
    if (rc == 0) {
        *train = as.train;
        *sum = as.sum;
    }
    mem_free(as.part);
    order_mix_release(&as.mix);
    return rc;
}

static int data_check_options(const struct data_options *o, struct err *err)
{
    if (o->count < 1 || o->count > ORDER_SOURCES_MAX)
        return err_set(err, ERR_INPUT, "%d files of data, expected 1 to %d", o->count,
                       ORDER_SOURCES_MAX);
    for (int i = 0; o->weights && i < o->count; i++)
        if (!(o->weights[i] > 0) || !isfinite(o->weights[i]))
            return err_set(err, ERR_INPUT, "weight %g of data '%s', expected a number above 0",
                           o->weights[i], o->paths[i]);
    return 0;
}

/* Sets the number of bytes of each token if known: from the tokenizer, or for texts as
   bytes. */
static void count_bytes(struct data *d, const struct data_options *o, struct tokenizer **t)
{
    struct err ignored; /* files of tokens need no tokenizer */
    int is_bytes = 1;

    if (!*t && !o->bytes && o->folder && tokenizer_find(o->folder, &ignored) > 0)
        (void)tokenizer_open(t, o->folder, &ignored);
    for (int i = 0; i < d->parts; i++)
        is_bytes &= d->part[i].source.type == SOURCE_U8;
    if (!*t && !is_bytes)
        return;
    d->token_bytes = mem_new((size_t)o->vocab, sizeof *d->token_bytes);
    for (int32_t id = 0; id < o->vocab && (!*t || id < tokenizer_count(*t)); id++) {
        struct tokenizer_stream within = {.tokens = 1, .stripped = -1};
        int64_t bytes = 1;
        if (*t && (tokenizer_kind(*t, id) == TOKENIZER_CONTROL ||
                   !tokenizer_decode(*t, &within, id, &bytes)))
            bytes = 0;
        d->token_bytes[id] = (int32_t)bytes;
    }
}

int data_open(struct data *d, const struct data_options *o, struct err *err)
{
    struct data new = {.count = o->count, .seq = o->seq, .vocab = o->vocab, .seed = o->seed};
    struct tokenizer *t = NULL;

    assert(o->seq > 0 && o->vocab > 0 && o->split >= 0 && o->split < 1);
    if (data_check_options(o, err) || (o->tokenizer && tokenizer_open(&t, o->tokenizer, err)))
        return -1;
    new.parts = o->count + (o->eval != NULL);
    new.part = mem_new((size_t) new.parts, sizeof *new.part);
    int rc = data_open_parts(&new, o, &t, err);
    if (rc == 0 && (o->split > 0 || o->eval))
        count_bytes(&new, o, &t);
    tokenizer_close(t);
    if (rc == 0) {
        open_mix(&new, o);
        rc = add_up(&new, err);
    }
    if (rc)
        data_close(&new);
    else
        *d = new;
    return rc;
}

void data_close(struct data *d)
{
    for (int i = 0; d->part && i < d->parts; i++) {
        source_close(&d->part[i].source);
        mem_free(d->part[i].kept);
    }
    mem_free(d->part);
    mem_free(d->token_bytes);
    order_mix_release(&d->mix);
    *d = (struct data){0};
}

/* All tokens were in the vocabulary at opening, but the file may have been changed since. */
static int read_window(const struct data *d, int part, int64_t at, int32_t *tokens,
                       int32_t *targets, int32_t *begins, struct err *err)
{
    const struct source *s = &d->part[part].source;

    if (source_read_window(s, at, d->seq, tokens, targets, err))
        return -1;
    for (int i = 0; i <= d->seq; i++) {
        int32_t id = i ? targets[i - 1] : tokens[0];
        if (id < 0 || id >= d->vocab)
            return err_set(err, ERR_INPUT,
                           "data '%s' has changed: token %" PRId64 " is %" PRId32
                           ", expected one inside the vocabulary of %" PRId64,
                           s->path, at + i, id, d->vocab);
    }
    if (s->spans.count)
        spans_apply(&s->spans, at, d->seq, targets, begins);
    return 0;
}

/* The first token of sample k of the run, and in *part its source. */
static int64_t begin_of(const struct data *d, int64_t k, int *part)
{
    uint64_t sample = 0;

    *part = order_mix_epoch(&d->mix, (uint64_t)(k - d->first), &sample);
    return order_begin(&d->part[*part].windows, d->seed, rng_stream("data") + (uint64_t)*part,
                       sample);
}

int data_batch(const struct data *d, int64_t sample, int count, int32_t *tokens,
               int32_t *targets, int32_t *begins, struct err *err)
{
    for (int64_t b = 0; b < count; b++) {
        int part = 0;
        int64_t at = begin_of(d, sample + b, &part);
        if (read_window(d, part, at, tokens + b * d->seq, targets + b * d->seq,
                        begins ? begins + b * d->seq : NULL, err))
            return -1;
    }
    return 0;
}

int64_t data_window(const struct data *d, int64_t sample, int *part)
{
    return begin_of(d, sample, part) / d->seq;
}

void data_keep(struct data *d, int64_t *const *kept, const int64_t *count, int64_t first)
{
    double *weights = mem_new((size_t)d->count, sizeof *weights);

    for (int p = 0; p < d->count; p++) {
        struct data_part *x = &d->part[p];
        assert(count[p] > 0 && !x->kept && x->windows.offsets == 1);
        x->windows.kept = x->kept = kept[p];
        x->windows.windows = count[p];
        weights[p] = (double)count[p];
    }
    d->first = first;
    if (!d->weighted) {
        order_mix_release(&d->mix);
        order_mix_init(&d->mix, weights, d->count);
    }
    mem_free(weights);
}

int64_t data_eval_windows(const struct data *d)
{
    return d->part[d->parts - 1].evals;
}

int data_eval_batch(const struct data *d, int64_t index, int batch, int32_t *tokens,
                    int32_t *targets, int32_t *begins, struct err *err)
{
    int64_t all = data_eval_windows(d);

    assert(all > 0);
    for (int64_t b = 0; b < batch; b++) {
        int64_t window = (index % all * batch + b) % all;
        int part = 0;
        while (d->part[part].evals <= window)
            part++;
        window -= part ? d->part[part - 1].evals : 0;
        if (read_window(d, part, d->part[part].train + window * d->seq, tokens + b * d->seq,
                        targets + b * d->seq, begins ? begins + b * d->seq : NULL, err))
            return -1;
    }
    return 0;
}

/* --- converting a text to a file of tokens --- */

/* Writes llm.c's header with the number of tokens. */
static int write_head(FILE *f, int64_t tokens, int wide)
{
    const uint32_t head[256] = {wide ? 20240801 : 20240520, wide ? 7 : 1, (uint32_t)tokens};
    unsigned char le[sizeof head];

    for (size_t i = 0; i < sizeof head; i++)
        le[i] = (unsigned char)(head[i / 4] >> 8 * (i % 4));
    return fseek(f, 0, SEEK_SET) || fwrite(le, 1, sizeof le, f) != sizeof le;
}

/* Converts a text to llm.c's format; writes the count into the header at the end. */
static int encode_llmc(const char *text, struct tokenizer *t, FILE *f, const char *out,
                       struct encode_done *done, struct err *err)
{
    int wide = encode_type(t) != SOURCE_U16;

    if (write_head(f, 0, wide))
        return err_sys(err, "cannot write '%s'", out);
    if (encode_file(text, t, NULL, f, NULL, done, err))
        return -1;
    if (done->tokens > INT32_MAX)
        return err_set(err, ERR_INPUT,
                       "'%s' has %" PRId64 " tokens, expected at most %d, the limit of llm.c's "
                       "header: split the text",
                       text, done->tokens, INT32_MAX);
    return write_head(f, done->tokens, wide) ? err_sys(err, "cannot write '%s'", out) : 0;
}

/* Converts JSON Lines to Megatron's two files; takes ownership of bin. */
static int encode_pair(const struct data_encode *e, const char *name, struct tokenizer *t,
                       struct io_out *bin, struct encode_done *done, struct err *err)
{
    struct spans spans = {0};
    struct io_out idx;

    if (io_create(&idx, name, e->force, err))
        return io_end(bin, -1, err);
    int rc = encode_file(e->text, t, e->template, bin->file, &spans, done, err) ||
             encode_idx(&spans, done->tokens, encode_type(t), idx.file, err);
    /* Tokens first: otherwise the new index could be next to old tokens. */
    rc = io_end(bin, rc, err);
    rc = io_end(&idx, rc, err);
    spans_release(&spans);
    return rc;
}

/* idx: NAME.idx if the tokens go to NAME.bin, else NULL. */
static int check_encode(const struct data_encode *e, const char *idx, struct err *err)
{
    struct source s;

    if (source_open(&s, e->text, err))
        return -1;
    enum source_format format = s.format;
    int rc = format == SOURCE_TEXT || format == SOURCE_JSONL
                 ? 0
                 : err_set(err, ERR_INPUT, "'%s' is %s data, expected a text", s.path,
                           source_format_name(format));
    source_close(&s);
    if (rc == 0 && format == SOURCE_JSONL && !idx)
        rc =
            err_set(err, ERR_INPUT,
                    "'%s' for the tokens of JSON Lines, expected NAME.bin: NAME.idx is written "
                    "next to it",
                    e->out);
    if (rc == 0 && format == SOURCE_TEXT && idx && !io_absent(idx))
        rc = err_set(err, ERR_INPUT,
                     "'%s' has the bounds of other tokens of this name, expected another name "
                     "for those of a text",
                     idx);
    return rc;
}

int data_encode(const struct data_encode *e, struct encode_done *done, struct err *err)
{
    struct tokenizer *t = NULL;
    struct io_out to;
    size_t n = strlen(e->out);
    char *idx = n > 4 && io_ends_with(e->out, ".bin") ? mem_dup(e->out) : NULL;

    if (idx)
        memcpy(idx + n - 4, ".idx", 4);
    int rc = check_encode(e, idx, err) || tokenizer_open(&t, e->tokenizer, err);
    /* Creates the file first, since it may exist: encoding takes long. */
    if (rc == 0)
        rc = io_create(&to, e->out, e->force, err);
    if (rc == 0 && jsonl_is(e->text)) {
        rc = encode_pair(e, idx, t, &to, done, err);
    } else if (rc == 0) {
        rc = io_end(&to, encode_llmc(e->text, t, to.file, e->out, done, err), err);
    }
    tokenizer_close(t);
    mem_free(idx);
    return rc ? -1 : 0;
}
