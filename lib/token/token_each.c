/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a long text is encoded in parts, by several threads, in memory that does not follow
 * it: a text is cut between two words, where it is known that no token, and no match of a
 * pattern that is known, goes across:
 *
 *     the end of a line|and the next one|is cut here          one blank or end of a line
 *                                                             between two letters
 *
 * With a pattern that is not known, a text is encoded as one.
 */
#include <assert.h>
#include <ctype.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "token/token_parts.h"

enum { PART = 4 << 20 }; /* of which a thread has the text, the normalized text, the tokens */

/* ---- preparations ---- */

static void add_late(struct token_tables *t, struct token_step step)
{
    t->late.step =
        mem_grow(t->late.step, &t->late.room, (size_t)t->late.count + 1, sizeof *t->late.step);
    t->late.step[t->late.count++] = step;
}

/* What the first pre-tokenizer changes comes first: the rest then only cuts. */
static void split_first(struct token_tables *t)
{
    struct token_step *s = t->pre.count ? &t->pre.step[0] : NULL;

    if (!s || (s->kind != TOKEN_METASPACE && s->kind != TOKEN_BYTE_LEVEL))
        return;
    if (s->kind == TOKEN_METASPACE)
        add_late(t, (struct token_step){
                        .kind = TOKEN_REPLACE, .from = mem_dup(" "), .to = mem_dup(s->to)});
    if (s->add)
        add_late(t,
                 (struct token_step){.kind = TOKEN_PREPEND,
                                     .add = s->add,
                                     .to = mem_dup(s->kind == TOKEN_METASPACE ? s->to : " ")});
    s->add = TOKEN_NEVER;
}

static int is_one_character(const char *text)
{
    return text && text[0] && !text[utf8_next(text, NULL)];
}

/* Whether normalizers do to a part what they do to it within the text. */
static int are_local(const struct token_steps *steps)
{
    for (int i = 0; i < steps->count; i++) {
        const struct token_step *s = &steps->step[i];
        if (s->kind == TOKEN_STRIP || (s->kind == TOKEN_REPLACE && !is_one_character(s->from)))
            return 0;
    }
    return 1;
}

/* A letter, or what may stand in its place in front of a blank in scripts without any. */
static int is_edge(uint32_t code)
{
    return code < 0x80 ? isalpha((int)code) : !token_is_space(code) && code != 0x2581;
}

/* Whether text[at] is the one blank between two words: at least its end is then cut. */
static int is_gap(const char *text, int64_t at, int64_t bytes)
{
    char tail[5] = {0};
    uint32_t before = 0, after = 0;
    int n;

    if ((text[at] != ' ' && text[at] != '\n') || at == 0 || at + 1 == bytes)
        return 0;
    memcpy(tail, text + at + 1, (size_t)(bytes - at - 1 < 4 ? bytes - at - 1 : 4));
    if (!utf8_next(tail, &after) || !is_edge(after) || (after >= 0x80 && !token_is_word(after)))
        return 0;
    for (n = 1; n < 4 && n < at && ((unsigned char)text[at - n] & 0xc0) == 0x80;)
        n++;
    memcpy(tail, text + at - n, (size_t)n);
    tail[n] = 0;
    return utf8_next(tail, &before) == n && is_edge(before);
}

/* Whether no merge makes a token of what is on both sides of a gap. */
static int ends_at_gaps(const struct token_vocab *v)
{
    int n;

    for (int32_t i = 0; i < v->merges; i++) {
        const struct token_piece *piece = &v->piece[v->list[i].to];
        const char *p = v->text + piece->at, *end = p + piece->bytes;
        uint32_t left = token_code_at(p, &n), right;
        for (p += n; p < end; p += n, left = right) {
            right = token_code_at(p, &n);
            if (left != right && (left == '\n' || right == ' ' || right == 0x2581))
                return 0;
        }
    }
    return 1;
}

/* Whether the pre-tokenizers have known patterns, and these or the merges end at gaps. */
static int are_known(const struct token_tables *t)
{
    int cuts = t->joints && ends_at_gaps(&t->vocab);

    for (int i = 0; i < t->pre.count; i++) {
        const struct token_step *s = &t->pre.step[i];
        int known = s->words && s->behavior == TOKEN_ISOLATED && !s->invert;
        if (s->add || !(known || is_one_character(s->from) || s->behavior == TOKEN_WHOLE ||
                        s->kind == TOKEN_BYTE_LEVEL || s->kind == TOKEN_METASPACE))
            return 0;
        cuts |= s->kind == TOKEN_BYTE_LEVEL && s->behavior != TOKEN_WHOLE;
        cuts |= known && s->words != TOKENIZER_SMOLLM;
    }
    return cuts;
}

/* Whether an added token could be at a gap. */
static int meets_gaps(const struct token_vocab *v, const struct token_added *a)
{
    const struct token_piece *p = &v->piece[a->id];
    const char *text = v->text + p->at, *end = text + p->bytes;
    int n, meets = is_edge(token_code_at(text, &n)) ||
                   is_edge(token_code_at(token_code_before(text, end), &n));

    for (int64_t i = 0; i < p->bytes && !meets; i++)
        meets = is_gap(text, i, p->bytes);
    return meets;
}

void token_tables_prepare(struct token_tables *t)
{
    split_first(t);
    t->find[0] = token_finder_new(t, 0);
    t->find[1] = token_finder_new(t, 1);
    t->joints = token_joints_new(t);
    for (int i = 0; i < t->pre.count; i++) {
        struct token_step *step = &t->pre.step[i];
        struct err err;
        if (step->kind == TOKEN_BYTE_LEVEL && step->behavior != TOKEN_WHOLE) {
            int rc = token_regex_compile(&step->regex, TOKEN_GPT2_PATTERN, 0, &err);
            assert(rc == 0);
            (void)rc;
        }
    }
    t->cuttable = are_local(&t->normal) && are_known(t) && (!t->late.count || !t->find[1]);
    for (int i = 0; i < t->added_count; i++)
        t->cuttable &= !meets_gaps(&t->vocab, &t->added[i]);
}

void token_tables_release(struct token_tables *t)
{
    token_vocab_release(&t->vocab);
    token_steps_release(&t->normal);
    token_steps_release(&t->pre);
    token_steps_release(&t->late);
    token_steps_release(&t->decode);
    token_finder_free(t->find[0]);
    token_finder_free(t->find[1]);
    mem_free(t->added);
    mem_free(t->prefix);
    mem_free(t->suffix);
    mem_free(t->joints);
    mem_free(t);
}

void token_state_prepare(struct tokenizer *t)
{
    enum { STACK = 1 << 15, STACK_MAX = 8 << 20 };

    if (t->cache)
        return;
    t->cache = mem_new(TOKEN_CACHE_SLOTS, sizeof *t->cache);
    t->match = mem_have(pcre2_match_data_create(1, NULL), "a match");
    t->limits = mem_have(pcre2_match_context_create(NULL), "the limits of a match");
    t->stack = pcre2_jit_stack_create(STACK, STACK_MAX, NULL);
    pcre2_jit_stack_assign(t->limits, NULL, mem_have(t->stack, "the stack of a match"));
    pcre2_set_match_limit(t->limits, TOKEN_STEPS_MAX);
}

void token_state_release(struct tokenizer *t)
{
    struct token_buffer *buffers[] = {&t->normal[0], &t->normal[1], &t->late[0],
                                      &t->late[1],   &t->prefixed,  &t->decoded};

    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        mem_free(buffers[i]->text);
    mem_free(t->cache);
    mem_free(t->part);
    mem_free(t->heap);
    mem_free(t->ids);
    pcre2_match_data_free(t->match);
    pcre2_match_context_free(t->limits);
    pcre2_jit_stack_free(t->stack);
}

/* ---- parts ---- */

struct encoding {
    const char *text;
    int64_t bytes;
    int flags, threads;
    struct tokenizer **thread; /* [threads] */
    int64_t *cut;              /* [threads + 1] where parts begin, and the last one ends */
    int *rc;                   /* [threads] of token_encode_part */
    struct err *err;           /* [threads] */
};

/* The next place to cut from `at` on, or the text's end. */
static int64_t find_cut(const char *text, int64_t at, int64_t bytes)
{
    while (at < bytes && !is_gap(text, at, bytes))
        at++;
    return at < bytes && text[at] == '\n' ? at + 1 : at;
}

/* The cuts of the parts that follow `from`. */
static int find_cuts(struct encoding *e, int64_t from, int64_t part)
{
    int parts = 0;

    for (e->cut[0] = from; parts < e->threads && e->cut[parts] < e->bytes; parts++) {
        int64_t at = e->cut[parts];
        e->cut[parts + 1] =
            e->bytes - at > part ? find_cut(e->text, at + part, e->bytes) : e->bytes;
    }
    return parts;
}

static void encode_parts(struct encoding *e, int parts)
{
#pragma omp parallel for num_threads(parts) schedule(static, 1) if (parts > 1)
    for (int i = 0; i < parts; i++) {
        e->thread[i]->plain = e->flags & TOKENIZER_PLAIN;
        e->thread[i]->middle = e->flags & TOKENIZER_MIDDLE;
        e->rc[i] =
            token_encode_part(e->thread[i], e->text, e->cut[i], e->cut[i + 1], &e->err[i]);
    }
}

/* Of a text that begins a page. */
static void release_pages(const char *text, int64_t bytes)
{
    int64_t page = sysconf(_SC_PAGESIZE);

    madvise((void *)(uintptr_t)text, (size_t)(bytes / page * page), MADV_DONTNEED);
}

static int encode_text(struct encoding *e, tokenizer_put *put, void *arg, struct err *err)
{
    int64_t part = e->thread[0]->tables->cuttable ? PART : e->bytes;

    for (int64_t from = 0; from < e->bytes;) {
        int parts = find_cuts(e, from, part);
        encode_parts(e, parts);
        for (int i = 0; i < parts; i++) {
            if (e->rc[i]) {
                *err = e->err[i];
                return -1;
            }
            if (e->thread[i]->count && put(arg, e->thread[i]->ids, e->thread[i]->count, err))
                return -1;
        }
        from = e->cut[parts];
        if (e->flags & TOKENIZER_MAPPED)
            release_pages(e->text, from);
    }
    return 0;
}

int tokenizer_each(struct tokenizer *t, const char *text, int64_t bytes, int flags, int threads,
                   tokenizer_put *put, void *arg, struct err *err)
{
    const struct token_tables *a = t->tables;
    int wrap = flags & TOKENIZER_WRAP;
    int most = (int)(bytes / PART < 1023 ? bytes / PART + 1 : 1024);
    struct encoding e = {.text = text, .bytes = bytes, .flags = flags};

    e.threads = threads < most ? threads : most;
    e.thread = mem_new((size_t)e.threads, sizeof *e.thread);
    e.cut = mem_new((size_t)e.threads + 1, sizeof *e.cut);
    e.rc = mem_new((size_t)e.threads, sizeof *e.rc);
    e.err = mem_new((size_t)e.threads, sizeof *e.err);
    for (int i = 0; i < e.threads; i++)
        e.thread[i] = i ? tokenizer_share(t) : t;
    int rc = wrap && a->prefix_count ? put(arg, a->prefix, a->prefix_count, err) : 0;
    rc = rc ? rc : encode_text(&e, put, arg, err);
    if (rc == 0 && wrap && a->suffix_count)
        rc = put(arg, a->suffix, a->suffix_count, err);
    for (int i = 1; i < e.threads; i++)
        tokenizer_close(e.thread[i]);
    mem_free(e.thread);
    mem_free(e.cut);
    mem_free(e.rc);
    mem_free(e.err);
    return rc ? -1 : 0;
}

struct list {
    int32_t *ids;
    size_t room;
    int64_t count;
};

static int put_list(void *arg, const int32_t *ids, int64_t count, struct err *err)
{
    struct list *list = arg;

    (void)err;
    list->ids =
        mem_grow(list->ids, &list->room, (size_t)(list->count + count), sizeof *list->ids);
    memcpy(list->ids + list->count, ids, (size_t)count * sizeof *ids);
    list->count += count;
    return 0;
}

int64_t tokenizer_encode(struct tokenizer *t, const char *text, int64_t bytes, int flags,
                         int32_t **ids, struct err *err)
{
    struct list list = {0};

    if (tokenizer_each(t, text, bytes, flags, 1, put_list, &list, err)) {
        mem_free(list.ids);
        return -1;
    }
    *ids = list.ids;
    return list.count;
}
