/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes a model as one GGUF file: the keys that llama.cpp reads, and the tensors with their
 * names and types.  ggml's tensors differ from Hugging Face's in two ways.  Matrices are all
 * (out, in).  In families with gguf_pairs the rows of queries and keys have the order of
 * Llama's first release, in which the rows of a rotary pair are adjacent:
 *
 *     a head here     | 0 1 2 3 | 4 5 6 7 |      rows i and i + half are a pair
 *     in the file     | 0 4 1 5 | 2 6 3 7 |      rows 2i and 2i + 1
 *
 * A tensor is read and written in bands of rows, so no tensor is in memory as a whole.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"
#include "ckpt/ckpt_gguf.h"
#include "ckpt/ckpt_weights.h"
#include "shard/shard_carry.h"
#include "shard/shard_folder.h"
#include "shard/shard_gguf_tokens.h"
#include "shard/shard_merge_plan.h"
#include "shard/shard_parts.h"

/* Largest memory per element of a band: f64 while adapters are added, f32, and as written. */
enum { BAND_ELEM = 8 + 4 + 4 };

enum { ROPE_LISTS = MODEL_ROPE_LENGTHS };
enum { QUANTIZATION = 2 /* version of ggml's block types */, BETA_FAST = 32, BETA_SLOW = 1 };

struct job {
    const struct shard_merging *what;
    struct weights w;
    struct model own;      /* a folder's model */
    const struct model *m; /* &own, or the checkpoint's */
    struct merge_plan plan;
    struct merge_reader reader;
    enum gguf_type type; /* type of matrices */
    int count;
    struct gguf_tensor *tensor; /* [count], owned */
    /* [count], owned: index of the model's tensor; -1 - i: rope[i] */
    int *from;
    float *rope[ROPE_LISTS]; /* [rotary / 2], owned: divisors of frequencies, or NULL */
    int64_t done, all;       /* elements */
};

/* --- input --- */

static int gguf_open_folder(struct job *j, struct err *err)
{
    struct hf *hf = &j->w.hf;

    j->m = &j->own;
    if (j->what->fuse)
        return err_set(err, ERR_INPUT, "'%s' has no adapters to fuse", hf->dir);
    return err_any(folder_check(hf, j->what->options.limits, err) ||
                   model_read_folder(&j->own, hf->dir, err) || hf_match(hf, j->m, err) ||
                   hf_check_tied(hf, err));
}

static int open_ckpt(struct job *j, struct err *err)
{
    if (merge_plan_init(&j->plan, &j->w.ckpt, j->what, err))
        return -1;
    j->m = &j->w.ckpt.model;
    j->plan.want = DTYPE_F32;
    j->reader.p = &j->plan;
    if (j->m->lora.rank && !j->what->fuse)
        return err_set(err, ERR_INPUT, "'%s' trains adapters, expected --fuse with gguf",
                       j->w.ckpt.dir);
    return 0;
}

/* The requested type, or the weights' own. */
static int pick_type(struct job *j, struct err *err)
{
    static const int types[DTYPE_COUNT] = {
        [DTYPE_F32] = GGUF_F32, [DTYPE_BF16] = GGUF_BF16, [DTYPE_F16] = GGUF_F16,
        [DTYPE_F64] = -1,       [DTYPE_I32] = -1,         [DTYPE_U8] = -1};
    enum dtype type = j->what->type ? *j->what->type : weights_type(&j->w);
    int is = j->what->q8_0 ? GGUF_Q8_0 : types[type];

    if (is < 0)
        return err_set(err, ERR_INPUT,
                       "gguf has no weights of type %s, expected --type f32, f16, bf16 or q8_0",
                       dtype_name(type));
    j->type = (enum gguf_type)is;
    return 0;
}

static int read_elements(struct job *j, int tensor, int64_t first, int64_t count, float *out,
                         struct err *err)
{
    if (j->w.is_ckpt)
        return merge_read(&j->reader, tensor, first, count, out, err);
    const struct hf_place *p = &j->w.hf.place[tensor];
    return st_read_as(&j->w.hf.file[p->file], p->t, first, count, DTYPE_F32, out, err);
}

/* --- keys --- */

static void put_whole(struct gguf_keys *k, const struct model *m, const char *name, int64_t v)
{
    char key[96];

    snprintf(key, sizeof key, "%s.%s", m->family->gguf, name);
    gguf_put_u32(k, key, v);
}

static void put_real(struct gguf_keys *k, const struct model *m, const char *name, double v)
{
    char key[96];

    snprintf(key, sizeof key, "%s.%s", m->family->gguf, name);
    gguf_put_float(k, key, v);
}

/* Checks that llama.cpp supports the family's position encoding. */
static int gguf_check_rope(const struct model *m, struct err *err)
{
    const enum model_rope_type type = m->rope.type;
    const int64_t period = m->family->gguf_period;

    if ((type == MODEL_ROPE_LLAMA3 || type == MODEL_ROPE_LONG) &&
        (int)type != m->family->gguf_rope)
        return err_set(err, ERR_INPUT,
                       "rope type %s of a model of the family %s, but llama.cpp applies it to "
                       "its architecture %s alone",
                       type == MODEL_ROPE_LONG ? "longrope" : "llama3", m->family->name,
                       type == MODEL_ROPE_LONG ? "phi3" : "llama");
    for (int64_t i = 0; period && i < m->layers; i++)
        if (m->layer_kind[i] != ((i + 1) % period == 0))
            return err_set(err, ERR_INPUT,
                           "layer %" PRId64 " of a %s model is of the kind %s, but llama.cpp "
                           "has every %" PRId64 "th layer, and no other, of the kind %s",
                           i, m->family->name,
                           m->family->layer_kinds[(int)m->layer_kind[i]].word, period,
                           m->family->layer_kinds[1].word);
    return 0;
}

static int put_scaling(struct gguf_keys *k, const struct model *m, double scale,
                       struct err *err)
{
    const struct model_rope *r = &m->rope;
    int yarn = r->type == MODEL_ROPE_YARN;
    char key[96];

    if (yarn && (r->no_truncate || r->beta_fast != BETA_FAST || r->beta_slow != BETA_SLOW))
        return err_set(err, ERR_INPUT,
                       "yarn with beta_fast %g, beta_slow %g and truncate %s, but llama.cpp "
                       "has %d, %d and true alone",
                       r->beta_fast, r->beta_slow, r->no_truncate ? "false" : "true", BETA_FAST,
                       BETA_SLOW);
    if (yarn || r->type == MODEL_ROPE_LINEAR) {
        snprintf(key, sizeof key, "%s.rope.scaling.type", m->family->gguf);
        gguf_put_words(k, key, yarn ? "yarn" : "linear");
        put_real(k, m, "rope.scaling.factor", r->factor);
    }
    if (yarn || r->type == MODEL_ROPE_LONG) {
        put_whole(k, m, "rope.scaling.original_context_length", (int64_t)r->original_max);
        /* With yarn the factor multiplies the default scale, which llama.cpp applies itself. */
        put_real(k, m, "rope.scaling.attn_factor",
                 yarn ? scale / (0.1 * log(r->factor) + 1) : scale);
    }
    return 0;
}

/*
 * llama.cpp reads linear and yarn from keys, llama3 and longrope from tensors.  Type dynamic
 * has no effect up to the model's longest sequence, which is the file's context length.
 */
static int put_rope(struct gguf_keys *k, struct job *j, struct err *err)
{
    const struct model *m = j->m;
    double *turns = mem_new((size_t)m->rotary / 2, sizeof *turns), scale;
    int rc = gguf_check_rope(m, err);

    put_whole(k, m, "rope.dimension_count", m->rotary);
    put_real(k, m, "rope.freq_base", m->rope.theta);
    if (m->local_theta > 0)
        put_real(k, m, "rope.freq_base_swa", m->local_theta);
    model_rope_frequencies(m, MODEL_ROPE, m->max_seq, turns, &scale);
    /* Adds the tensors that llama.cpp looks for: for longrope the short and the long factors,
       for llama3 one list. */
    const struct model_rope *r = &m->rope;
    int lists = r->type == MODEL_ROPE_LONG ? ROPE_LISTS : r->type == MODEL_ROPE_LLAMA3;
    for (int l = 0; l < lists; l++) {
        j->rope[l] = mem_new((size_t)m->rotary / 2, sizeof **j->rope);
        for (int64_t i = 0; i < m->rotary / 2; i++) {
            double plain = pow(r->theta, -2.0 * (double)i / (double)m->rotary);
            j->rope[l][i] = (float)(lists > 1 ? r->pair_factor[l][i] : plain / turns[i]);
        }
    }
    mem_free(turns);
    return rc || put_scaling(k, m, scale, err) ? -1 : 0;
}

static int put_keys(struct gguf_keys *k, struct job *j, struct err *err)
{
    const struct model *m = j->m;
    const int file_type = j->type == GGUF_F32    ? 0
                          : j->type == GGUF_F16  ? 1
                          : j->type == GGUF_Q8_0 ? 7
                                                 : 32; /* llama.cpp's numbering */
    const int windowed = m->family->gguf_window == 2;
    int64_t longest =
        windowed || m->rope.type == MODEL_ROPE_LONG ? m->rope.longest : m->max_seq;

    if (m->window && m->window < longest && !windowed)
        longest = m->window;

    gguf_put_words(k, "general.architecture", m->family->gguf);
    gguf_put_words(k, "general.type", "model");
    gguf_put_u32(k, "general.file_type", file_type);
    gguf_put_u32(k, "general.quantization_version", QUANTIZATION);
    put_whole(k, m, "vocab_size", m->vocab);
    put_whole(k, m, "block_count", m->layers);
    put_whole(k, m, "context_length", longest);
    put_whole(k, m, "embedding_length", m->hidden);
    put_whole(k, m, "feed_forward_length", m->ffn);
    put_whole(k, m, "attention.head_count", m->heads);
    put_whole(k, m, "attention.head_count_kv", m->kv_heads);
    put_whole(k, m, "attention.key_length", m->head_dim);
    put_whole(k, m, "attention.value_length", m->head_dim);
    put_real(k, m,
             m->norm == MODEL_NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                       : "attention.layer_norm_epsilon",
             m->norm_eps);
    if (m->family->gguf_window)
        put_whole(k, m, "attention.sliding_window", m->window);
    return m->positions ? 0 : put_rope(k, j, err);
}

struct texts {
    struct carry carry;
    const char *config;
};

static const char *text_of(const void *arg, const char *name, int64_t *bytes)
{
    const struct texts *x = arg;

    if (strcmp(name, "config.json"))
        return carry_find(&x->carry, name, bytes);
    *bytes = x->config ? (int64_t)strlen(x->config) : 0;
    return x->config;
}

/* Uses the bytes that were read and checked: the files may have been replaced. */
static int gguf_put_tokens(struct gguf_keys *k, struct job *j, struct err *err)
{
    const char *from = j->w.is_ckpt ? j->w.ckpt.dir : j->w.hf.dir;
    char *dir = j->w.is_ckpt ? carry_path(from) : mem_dup(from);
    struct texts texts = {.config = j->m->config};
    const struct gguf_source source = {dir, text_of, &texts};
    int rc = err_any((j->w.is_ckpt && carry_check(from, err)) ||
                     carry_beside(&texts.carry, &j->w, err));

    if (rc == 0)
        rc = gguf_tokens_put(k, &source, j->m->vocab, &j->what->gguf_notes->no_tokenizer, err);
    carry_release(&texts.carry);
    mem_free(dir);
    return rc;
}

/* --- tensors --- */

static int gguf_add_tensor(struct job *j, int number, struct err *err)
{
    const struct model_tensor *t = &j->m->tensor[number];
    const struct model_module *module = &j->m->family->modules[t->module];
    struct gguf_tensor *g = &j->tensor[j->count];

    g->dims = t->dims;
    for (int d = 0; d < t->dims; d++)
        g->shape[d] = t->shape[t->transposed ? 1 - d : d];
    /* ggml's operators support vectors, and a table of positions, only in f32. */
    g->type = t->dims < 2 || module->role == MODEL_POSITIONS ? GGUF_F32 : j->type;
    /* The number in the name at the place of "%" in the pattern. */
    const char *pattern = module->name, *gguf = module->gguf;
    size_t before = strcspn(pattern, "%"), own = strcspn(gguf, "%"), space = sizeof g->name;
    int digits = pattern[before] ? (int)strspn(t->name + before, "0123456789") : 0;
    int n = snprintf(g->name, space, "%.*s%.*s%s.%s", (int)own, gguf, digits, t->name + before,
                     gguf + own + (gguf[own] == '%'), t->bias ? "bias" : "weight");
    if (n >= (int)space)
        return err_set(err, ERR_INPUT, "the name of '%s' is too long for gguf", t->name);
    if (g->type == GGUF_Q8_0 && g->shape[1] % GGUF_BLOCK) {
        if (j->what->gguf_notes->ragged++ == 0)
            memcpy(j->what->gguf_notes->first, g->name, sizeof g->name);
        g->type = GGUF_F16;
    }
    j->all += model_whole(t);
    j->from[j->count++] = number;
    return 0;
}

static int list_tensors(struct job *j, struct err *err)
{
    j->tensor = mem_new((size_t)j->m->tensors + ROPE_LISTS, sizeof *j->tensor);
    j->from = mem_new((size_t)j->m->tensors + ROPE_LISTS, sizeof *j->from);
    for (int i = 0; i < ROPE_LISTS && j->rope[i]; i++) {
        const char *name = i            ? "rope_factors_long.weight"
                           : j->rope[1] ? "rope_factors_short.weight"
                                        : "rope_freqs.weight";
        struct gguf_tensor *g = &j->tensor[j->count];

        *g = (struct gguf_tensor){.dims = 1, .shape = {j->m->rotary / 2}};
        strcpy(g->name, name);
        j->from[j->count++] = -1 - i;
    }
    for (int i = 0; i < j->m->tensors; i++)
        if (!model_is_added(&j->m->tensor[i]) && gguf_add_tensor(j, i, err))
            return -1;
    return 0;
}

/* --- data --- */

/* Whether it is a matrix of queries or keys whose rows must be reordered to adjacent pairs. */
static int is_turned(const struct model *m, const struct model_tensor *t)
{
    const struct model_module *mod = &m->family->modules[t->module];

    return m->family->gguf_pairs && mod->role == MODEL_QKV &&
           /* Keys come after the queries */
           (mod->out == SIZE_HEADS || mod[-1].out == SIZE_HEADS);
}

/* Reads rows [first, first + rows) of the file's tensor; each element of a vector is a row. */
static int gguf_read_rows(struct job *j, int i, int64_t first, int64_t rows, float *out,
                          struct err *err)
{
    const struct model_tensor *t = &j->m->tensor[j->from[i]];
    int64_t cols = t->dims < 2 ? 1 : j->tensor[i].shape[1], half = j->m->head_dim / 2;
    float *part = t->transposed ? mem_new((size_t)rows, sizeof *part) : NULL;
    int rc = 0;

    if (t->transposed) {
        for (int64_t c = 0; rc == 0 && c < cols; c++) {
            rc = read_elements(j, j->from[i], c * t->shape[1] + first, rows, part, err);
            for (int64_t r = 0; rc == 0 && r < rows; r++)
                out[r * cols + c] = part[r];
        }
    } else if (is_turned(j->m, t)) {
        for (int64_t r = 0; rc == 0 && r < rows; r++) {
            int64_t at = (first + r) % j->m->head_dim;
            int64_t row = first + r - at + at % 2 * half + at / 2;
            rc = read_elements(j, j->from[i], row * cols, cols, out + r * cols, err);
        }
    } else {
        rc = read_elements(j, j->from[i], first * cols, rows * cols, out, err);
        for (int64_t r = 0; t->kind == MODEL_VECTOR && !t->bias && r < rows; r++)
            /* llama.cpp does not add to a norm's weights */
            out[r] += (float)j->m->family->norm_plus;
    }
    mem_free(part);
    return rc;
}

static int write_tensor(struct job *j, int i, int fd, int64_t data, struct err *err)
{
    const struct shard_options *o = &j->what->options;
    const struct gguf_tensor *g = &j->tensor[i];
    int64_t rows = g->shape[0], cols = g->dims < 2 ? 1 : g->shape[1];
    int64_t band = o->buffer / BAND_ELEM / cols, done = 0;

    band = band < 1 ? 1 : band < rows ? band : rows;
    float *x = mem_new((size_t)(band * cols), sizeof *x);
    char *out = mem_new((size_t)gguf_bytes(GGUF_F32, band * cols), 1);
    int rc = 0;
    for (int64_t n; rc == 0 && done < rows; done += n) {
        n = rows - done < band ? rows - done : band;
        rc = ckpt_stopped(o->limits ? o->limits->stop : NULL, err);
        if (rc == 0 && j->from[i] < 0)
            memcpy(x, j->rope[-1 - j->from[i]] + done, (size_t)n * sizeof *x);
        else if (rc == 0)
            rc = gguf_read_rows(j, i, done, n, x, err);
        int64_t bad = rc ? -1 : gguf_encode(g->type, x, n * cols, out);
        if (bad >= 0)
            rc = err_set(err, ERR_INPUT,
                         "'%s' has elements from %" PRId64
                         " on that q8_0 cannot hold: infinite, NaN or above 8e6",
                         g->name, done * cols + bad);
        if (rc == 0)
            rc = io_pwrite_all(fd, out, gguf_bytes(g->type, n * cols),
                               data + g->offset + gguf_bytes(g->type, done * cols), err);
        j->done += n * cols;
        if (rc == 0 && o->progress)
            o->progress(o->progress_arg, j->done, j->all);
    }
    mem_free(x);
    mem_free(out);
    return rc;
}

static int write_all(struct job *j, struct shard_target to, struct err *err)
{
    struct gguf_keys keys;
    struct io_out out;
    char *head = NULL;
    int64_t data = 0;

    gguf_keys_init(&keys);
    int rc = err_any(put_keys(&keys, j, err) || gguf_put_tokens(&keys, j, err) ||
                     list_tensors(j, err) || io_create(&out, to.dir, to.force, err));
    if (rc == 0) {
        const struct gguf_tensor *last = &j->tensor[j->count - 1];
        gguf_header(&keys, j->tensor, j->count, &head, &data);
        int64_t end =
            data + last->offset +
            gguf_bytes(last->type, last->shape[0] * (last->dims < 2 ? 1 : last->shape[1]));
        end += (GGUF_ALIGN - end % GGUF_ALIGN) % GGUF_ALIGN;
        rc = err_any(ckpt_allocate(out.fd, end, 0, err) ||
                     io_pwrite_all(out.fd, head, data, 0, err));
        for (int i = 0; rc == 0 && i < j->count; i++)
            rc = write_tensor(j, i, out.fd, data, err);
        rc = io_end(&out, rc, err);
    }
    mem_free(head);
    gguf_keys_release(&keys);
    return rc;
}

int shard_gguf(const char *from, const struct shard_merging *what, struct shard_target to,
               struct err *err)
{
    struct job j = {.what = what};

    if (weights_open(&j.w, from, what->options.limits, err))
        return -1;
    int rc = shard_check_apart(from, to.dir, 0, err);
    if (rc == 0)
        rc = j.w.is_ckpt ? open_ckpt(&j, err) : gguf_open_folder(&j, err);
    if (rc == 0 && !j.m->family->gguf)
        rc = err_set(err, ERR_INPUT, "models of the family %s have no gguf form here",
                     j.m->family->name);
    if (rc == 0)
        rc = err_any(pick_type(&j, err) || write_all(&j, to, err));
    if (rc && j.w.is_ckpt)
        ckpt_blame(&j.w.ckpt, err);
    if (what->options.repaired)
        *what->options.repaired = j.w.ckpt.repaired;
    merge_reader_release(&j.reader);
    weights_close(&j.w);
    model_release(&j.own);
    mem_free(j.tensor);
    mem_free(j.from);
    for (int i = 0; i < ROPE_LISTS; i++)
        mem_free(j.rope[i]);
    return rc;
}
