/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Continues a text with a model, token by token: the most likely token, or one drawn by
 * temperature from the smallest set that has `top_p` of the probability (Holtzman et al., "The
 * Curious Case of Neural Text Degeneration", 2020).  Runs on one CPU, in a net of the next
 * power of two positions, a window at a time; when the text outgrows it all positions are
 * recomputed.
 */
#include "train/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "base/run_folder.h"
#include "shard/shard_carry.h"
#include "ckpt/ckpt_states.h"
#include "data/data_chat.h"
#include "kern/kern.h"
#include "net/net.h"
#include "token/token.h"

enum {
    BYTES = 256,
    /*
     * Positions computed at once.  A pass reads all weights, so 32 tokens take hardly longer
     * than one (GPT-2 124M on one core: 1, 4, 16, 32, 64 in 85, 79, 98, 100, 114 ms), and a
     * prompt is computed 32 tokens at a time.
     */
    WINDOW = 32
};

struct choice {
    double p;
    int32_t token;
};

struct writer {                /* the state of a text */
    const struct model *model; /* the checkpoint's, or own */
    struct weights weights;
    struct model own;
    float **unit;                   /* [units], owned */
    struct tokenizer *by;           /* NULL: a token is a byte */
    struct tokenizer_stream stream; /* decodes the written tokens */
    struct chat *chat;              /* NULL: continues the text */
    struct device *cpu;
    struct device_queue *queue;
    struct kern kern;
    struct net net;
    struct arena arena;
    int32_t *token; /* the tokens so far, with space for the rest */
    int64_t tokens, prompt, most;
    int64_t first,
        known; /* the model sees tokens from first on; the net has computed `known` of them */
    double temperature, top_p;
    int64_t seed;
    struct choice *choice; /* [vocab] */
};

/* ---- the model ---- */

static int generate_open_weights(struct writer *w, const char *from, struct err *err)
{
    if (weights_open(&w->weights, from, NULL, err))
        return -1;
    if (!w->weights.is_ckpt && model_read(&w->own, from, err))
        return -1;
    w->model = w->weights.is_ckpt ? &w->weights.ckpt.model : &w->own;
    return states_check_model(&w->weights, w->model, err) ||
                   (!w->weights.is_ckpt && hf_check_tied(&w->weights.hf, err))
               ? -1
               : 0;
}

static int read_weights(struct writer *w, const char *from, FILE *talk, struct err *err)
{
    char text[1200];
    int params = w->weights.is_ckpt ? ckpt_find_state(&w->weights.ckpt, "params") : 0, rc = 0;
    struct states states = {
        .weights = &w->weights, .model = w->model, .state = {params}, .params = params};
    if (params < 0)
        return err_set(err, ERR_INPUT, "checkpoint '%s' has no parameters", from);
    w->unit = mem_new((size_t)w->model->units, sizeof *w->unit);
    for (int u = 0; rc == 0 && u < w->model->units; u++) {
        struct range all = {0, w->model->unit[u].elems};
        void *space = NULL;
        rc = mem_data(all.hi * (int64_t)sizeof(float), "the model's weights", &space, err);
        w->unit[u] = space;
        if (rc == 0)
            rc = states_read(&states, u, 0, all, w->unit[u], err);
    }
    if (rc == 0 && talk &&
        ckpt_repaired_print(&w->weights.ckpt.repaired, from, text, sizeof text))
        fprintf(talk, "paro-train: %s\n", text);
    return rc;
}

/* Makes a net of at least seq positions, unless the current one has them. */
static int generate_make_space(struct writer *w, int64_t seq, struct err *err)
{
    struct net_options o = {.kern = &w->kern, .batch = 1, .seq = WINDOW, .forward_only = 1};

    if (w->net.buffers && w->net.options.seq >= seq)
        return 0;
    while (o.seq < seq)
        o.seq *= 2;
    if (o.seq > w->model->max_seq)
        o.seq = (int)w->model->max_seq;
    o.window = o.seq < WINDOW ? o.seq : WINDOW;
    w->known = 0;
    if (w->net.buffers)
        net_release(&w->net);
    arena_release(&w->arena);
    w->arena = (struct arena){0};
    if (net_init(&w->net, w->model, &o, err))
        return -1;
    net_place(&w->net, &w->arena);
    if (arena_init(&w->arena, w->arena.used, "activations", err))
        return -1;
    net_place(&w->net, &w->arena);
    return 0;
}

/* ---- a token ---- */

static int likeliest_first(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;

    return x->p < y->p ? 1 : x->p > y->p ? -1 : x->token < y->token ? -1 : 1;
}

static int32_t likeliest_token(const float *logits, int64_t vocab)
{
    int64_t best = 0;

    for (int64_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

static int32_t draw_token(struct writer *w, const float *logits)
{
    int64_t vocab = w->model->vocab, kept = 0, i = 0;
    double most = (double)logits[likeliest_token(logits, vocab)], sum = 0, part = 0;

    for (int64_t k = 0; k < vocab; k++) {
        double p = exp(((double)logits[k] - most) / w->temperature);
        w->choice[k] = (struct choice){p, (int32_t)k};
        sum += p;
    }
    qsort(w->choice, (size_t)vocab, sizeof *w->choice, likeliest_first);
    while (kept < vocab && (kept == 0 || part < w->top_p * sum))
        part += w->choice[kept++].p;
    double at =
        part * rng_uniform((uint64_t)w->seed, rng_stream("generate"), (uint64_t)w->tokens);
    for (part = w->choice[0].p; i + 1 < kept && part <= at;)
        part += w->choice[++i].p;
    return w->choice[i].token;
}

static int next_token(struct writer *w, int32_t *token, struct err *err)
{
    const struct model *m = w->model;

    /*
     * The model has a limited number of positions: of a longer text it sees the end.  When it
     * is full it continues with half of them, as space for later tokens: moving a token changes
     * its position, so all must be recomputed.
     */
    if (w->tokens - w->first > m->max_seq) {
        w->first = w->tokens - (w->known ? (m->max_seq + 1) / 2 : m->max_seq);
        w->known = 0;
    }
    int64_t seen = w->tokens - w->first;
    if (generate_make_space(w, seen, err))
        return -1;
    while (w->known < seen) { /* positions after the text are unused, and zero */
        int64_t end = w->known + w->net.rows < seen ? w->known + w->net.rows : seen;
        net_prompt(&w->net, w->token + w->first, (int)w->known, (int)end);
        for (int v = 0; v < m->visits - (end < seen); v++) /* the head only at the end */
            net_forward(&w->net, v, w->unit[model_unit_of_visit(m, v)]);
        w->known = end;
    }
    const float *logits = net_logits(&w->net);
    for (int64_t i = 0; i < m->vocab; i++)
        if (!isfinite(logits[i]))
            return err_set(err, ERR_INPUT,
                           "the model's logit of token %" PRId64
                           " is not finite: expected weights that are numbers",
                           i);
    *token = w->temperature > 0 ? draw_token(w, logits) : likeliest_token(logits, m->vocab);
    return 0;
}

/* ---- the text ---- */

struct ids {     /* tokens of a conversation */
    int32_t *id; /* [count], owned */
    int64_t count;
    size_t space;
};

static int take_ids(void *arg, const int32_t *ids, int64_t count, int trained, struct err *err)
{
    struct ids *all = arg;

    (void)trained;
    (void)err;
    all->id = mem_grow(all->id, &all->space, (size_t)(all->count + count), sizeof *all->id);
    memcpy(all->id + all->count, ids, (size_t)count * sizeof *ids);
    all->count += count;
    return 0;
}

/* Encodes the text, or the conversation that it begins; -1: an error. */
static int64_t generate_encode(struct writer *w, const struct train_prompt *p, int32_t **ids,
                               struct err *err)
{
    struct jsonl_message message[2] = {{.role = "system"}, {.role = "user"}};
    struct ids all = {0};

    if (!w->chat) {
        int after = 0; /* a prompt has no suffix */
        int64_t count = tokenizer_encode(w->by, p->text, (int64_t)strlen(p->text),
                                         TOKENIZER_WRAP, ids, err);
        tokenizer_suffix(w->by, &after);
        return count < 0 ? -1 : count - after;
    }
    message[0].text = p->system;
    message[0].bytes = p->system ? (int64_t)strlen(p->system) : 0;
    message[1].text = p->text;
    message[1].bytes = (int64_t)strlen(p->text);
    int rc = chat_encode(w->chat, message + !p->system, 1 + (p->system != NULL), 1, take_ids,
                         &all, err);
    *ids = all.id;
    return rc ? -1 : all.count;
}

static int encode_prompt(struct writer *w, const struct train_prompt *p, int64_t bytes,
                         struct err *err)
{
    void *tokens = NULL;
    int32_t *ids = NULL;
    int64_t count = bytes ? bytes : 1, ignored;

    if (w->by && (bytes || w->chat) && (count = generate_encode(w, p, &ids, err)) < 0) {
        mem_free(ids);
        return -1;
    }
    /* A net reads up to twice the text's length, and at least its initial number of
       positions. */
    int64_t space = 2 * (count + w->most) + WINDOW + 1;
    int rc = mem_data(space * (int64_t)sizeof *w->token, "the text's tokens", &tokens, err);
    w->token = tokens;
    for (; rc == 0 && w->tokens < count; w->tokens++) {
        int64_t i = w->tokens;
        if (ids)
            w->token[i] = ids[i];
        else if (w->by) /* the beginning of a text */
            w->token[i] =
                tokenizer_begin(w->by) >= 0 ? tokenizer_begin(w->by) : tokenizer_end(w->by);
        else
            w->token[i] = (unsigned char)p->text[i];
        if (w->by) /* the following token is not decoded as a beginning */
            tokenizer_decode(w->by, &w->stream, w->token[i], &ignored);
    }
    mem_free(ids);
    w->prompt = w->tokens;
    return rc;
}

static int read_prompt(struct writer *w, const struct train_prompt *p, struct err *err)
{
    int64_t bytes = (int64_t)strlen(p->text);

    if (w->by && tokenizer_count(w->by) > w->model->vocab)
        return err_set(
            err, ERR_MISMATCH,
            "the tokenizer has %d tokens, expected at most the model's vocabulary of "
            "%" PRId64,
            tokenizer_count(w->by), w->model->vocab);
    int begins = w->by && (w->chat || tokenizer_begin(w->by) >= 0 || tokenizer_end(w->by) >= 0);
    if ((bytes || begins) && encode_prompt(w, p, bytes, err))
        return -1;
    if (w->tokens == 0)
        return err_set(err, ERR_INPUT, "--generate: empty text, expected a prompt");
    for (int64_t i = 0; i < w->tokens; i++)
        if (w->token[i] >= w->model->vocab)
            return err_set(err, ERR_INPUT,
                           "--generate: token %d of the text, expected less than the model's "
                           "vocabulary of %" PRId64,
                           w->token[i], w->model->vocab);
    return 0;
}

static int generate_has_ended(const struct writer *w)
{
    int32_t last = w->token[w->tokens - 1];

    return w->by && w->tokens > w->prompt &&
           (last == tokenizer_end(w->by) || (w->chat && last == chat_end(w->chat)));
}

static void generate_put_text(struct writer *w, int64_t from, int64_t to, FILE *out)
{
    for (int64_t i = from; i < to; i++) {
        int64_t bytes = 1;
        int32_t token = w->token[i];
        const char byte[1] = {(char)token};
        const char *text = w->by           ? tokenizer_decode(w->by, &w->stream, token, &bytes)
                           : token < BYTES ? byte
                                           : NULL;
        if (text)
            fwrite(text, 1, (size_t)bytes, out);
        else
            fprintf(out, "<%d>", token);
    }
}

static void generate_put_json(struct writer *w, const struct train_prompt *p)
{
    struct jout j = {.file = p->out, .pretty = 1};
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = mem_stream(&text, &bytes);

    generate_put_text(w, w->prompt, w->tokens - generate_has_ended(w), f);
    fclose(f);
    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.generate/1");
    jout_text(&j, "prompt", p->text);
    jout_bytes(&j, "text", text, (int64_t)bytes);
    jout_int(&j, "prompt_tokens", w->prompt);
    jout_open(&j, "tokens", '[');
    for (int64_t i = w->prompt; i < w->tokens; i++)
        jout_int(&j, NULL, w->token[i]);
    jout_end(&j);
    mem_free(text);
}

static int write_text(struct writer *w, const struct train_prompt *p, struct err *err)
{
    int begun = p->json || p->chat; /* only the answer is written */

    while (w->tokens - w->prompt < w->most && !generate_has_ended(w)) {
        if (next_token(w, &w->token[w->tokens], err))
            return -1;
        w->tokens++;
        if (!begun++) /* not before the first token: a model that fails prints nothing */
            fputs(p->text, p->out);
        if (p->json || generate_has_ended(w))
            continue;
        generate_put_text(w, w->tokens - 1, w->tokens, p->out);
        if (fflush(p->out)) { /* show the text as it grows */
            err_sys(err, "cannot write to standard output");
            __fpurge(p->out); /* drop it, so that the error is not reported again at exit */
            clearerr(p->out);
            return -1;
        }
    }
    if (!begun)
        fputs(p->text, p->out);
    if (p->json)
        generate_put_json(w, p);
    else
        putc('\n', p->out);
    return 0;
}

/* Opens the given tokenizer, or the model's own. */
static int open_tokenizer(struct writer *w, const struct train_prompt *p, const char *from,
                          struct err *err)
{
    if (p->tokenizer)
        return strcmp(p->tokenizer, "bytes") ? tokenizer_open(&w->by, p->tokenizer, err) : 0;
    if (carry_check(from, err))
        return -1;
    char *folder = carry_path(from);
    int found = tokenizer_find(folder, err);
    int rc = found > 0 ? tokenizer_open(&w->by, folder, err) : found;
    mem_free(folder);
    return rc;
}

static int open_chat(struct writer *w, const struct train_prompt *p, struct err *err)
{
    if (!p->chat)
        return 0;
    if (!w->by)
        return err_set(err, ERR_INPUT, "--chat without a tokenizer, expected --tokenizer DIR");
    if (chat_open(&w->chat, w->by, p->template, err))
        return -1;
    const struct chat_guess guess = chat_guess(w->chat);
    if (p->talk && guess.name)
        fprintf(p->talk, "paro-train: " CHAT_GUESS "\n", guess.name, guess.by);
    return 0;
}

static void release_writer(struct writer *w)
{
    chat_close(w->chat);
    for (int u = 0; w->unit && u < w->model->units; u++)
        mem_free(w->unit[u]);
    MEM_FREE(w->unit, w->token, w->choice);
    if (w->net.buffers)
        net_release(&w->net);
    arena_release(&w->arena);
    kern_close(&w->kern);
    device_queue_close(w->queue);
    device_close(w->cpu);
    tokenizer_close(w->by);
    weights_close(&w->weights);
    model_release(&w->own);
}

int train_generate(const struct train_prompt *p, struct err *err)
{
    struct writer w = {
        .most = p->length, .temperature = p->temperature, .top_p = p->top_p, .seed = 1};
    char *from = run_folder_checkpoint(p->from);
    int rc = p->seed && num_count(p->seed, 0, (int64_t)9e15, &w.seed, err)
                 ? err_prefix(err, "--seed: ")
                 : 0;

    kern_thread_init();
    if (rc == 0 &&
        (device_open(&w.cpu, "cpu", 0, err) || device_queue_open(w.cpu, &w.queue, err) ||
         kern_open(&w.kern, w.cpu, w.queue, DTYPE_F32, DTYPE_F32, err) ||
         generate_open_weights(&w, from, err) || open_tokenizer(&w, p, from, err) ||
         open_chat(&w, p, err) || read_weights(&w, from, p->talk, err)))
        rc = -1;
    if (rc == 0 && !w.by && !p->tokenizer && w.model->vocab > 256)
        rc = err_set(err, ERR_INPUT,
                     "the model has %" PRId64 " tokens and its folder no tokenizer, expected "
                     "--tokenizer DIR, or --tokenizer bytes",
                     w.model->vocab);
    if (rc == 0)
        rc = read_prompt(&w, p, err);
    if (rc == 0) {
        w.choice = mem_new((size_t)w.model->vocab, sizeof *w.choice);
        rc = write_text(&w, p, err);
    }
    release_writer(&w);
    mem_free(from);
    return rc;
}
