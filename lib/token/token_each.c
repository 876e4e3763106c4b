/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a long text is encoded in parts, by several threads, in memory that does not follow
 * it.  Where a word begins, the tokens from there on depend on the text from there on alone, as
 * a pattern goes from the left to the right and looks at TOKEN_WORD_MAX bytes at most.  So
 * parts are begun at places that are likely to be the beginning of a word, and a part counts if
 * the one before, which read on, had a word begin there indeed; else both are encoded as one.
 */
#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "token/token_parts.h"

enum {
    PART = 4 << 20,  /* of which a thread has the text, the normalized text and the tokens */
    SEARCH = 1 << 16 /* for the end of a line, and then for a blank */
};

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

/* Whether steps do to a part what they do to it within the text. */
static int are_local(const struct token_steps *steps)
{
    for (int i = 0; i < steps->count; i++) {
        const struct token_step *s = &steps->step[i];
        int several = s->from && s->from[0] && s->from[utf8_next(s->from, NULL)];
        if (s->kind == TOKEN_STRIP || s->regex.looks_back ||
            (s->kind == TOKEN_REPLACE && (!s->from || several)))
            return 0;
    }
    return 1;
}

void token_tables_prepare(struct token_tables *t)
{
    split_first(t);
    t->find[0] = token_finder_new(t, 0);
    t->find[1] = token_finder_new(t, 1);
    t->joints = token_joints_new(t);
    t->cuttable =
        are_local(&t->normal) && are_local(&t->pre) && (!t->late.count || !t->find[1]);
    for (int i = 0; i < t->pre.count; i++) {
        struct token_step *step = &t->pre.step[i];
        struct err err;
        if (step->kind == TOKEN_BYTE_LEVEL && step->behavior != TOKEN_WHOLE) {
            int rc = token_regex_compile(&step->regex, TOKEN_GPT2_PATTERN, 0, &err);
            assert(rc == 0);
            (void)rc;
        }
        t->cuttable &= !step->add;
    }
    /* Of a normalized text the part alone is known, and not what is before it. */
    for (int i = 0; i < t->added_count; i++)
        t->cuttable &= !(t->added[i].single_word && t->added[i].normalized);
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
    struct token_buffer *buffers[] = {&t->normal[0], &t->normal[1], &t->late[0], &t->late[1],
                                      &t->whole,     &t->prefixed,  &t->decoded};

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

/* Whether what is normalized in two, here, is what is normalized as one. */
static int can_cut(const char *text, int64_t at, int64_t bytes)
{
    char next[5] = {0};
    uint32_t code;

    memcpy(next, text + at, (size_t)(bytes - at < 4 ? bytes - at : 4));
    return utf8_next(next, &code) && (code < 0x80 || token_begins_part(code));
}

/*
 * A place to cut at or soon after `at`: after a line, or before a blank, or anywhere.  The
 * text's end, if there is little left.
 */
static int64_t find_cut(const char *text, int64_t at, int64_t bytes)
{
    int64_t end = bytes - at > SEARCH ? at + SEARCH : bytes;

    if (bytes - at < SEARCH)
        return bytes;
    for (int64_t i = at; i < end; i++)
        if (text[i - 1] == '\n' && !strchr(" \t\r\n", text[i]) && can_cut(text, i, bytes))
            return i;
    for (int64_t i = at; i < end; i++)
        if (text[i] == ' ' && !strchr(" \t\r\n", text[i - 1]) && text[i + 1] != ' ')
            return i;
    while (at < bytes && !can_cut(text, at, bytes))
        at++;
    return at;
}

/* The cuts of the parts that follow `from`; the first part has at least `least` bytes. */
static int find_cuts(struct encoding *e, int64_t from, int64_t least)
{
    int parts = 0;

    e->cut[0] = from;
    while (parts < e->threads && e->cut[parts] < e->bytes) {
        int64_t at = e->cut[parts], part = parts ? PART : least;
        e->cut[++parts] =
            e->bytes - at > part ? find_cut(e->text, at + part, e->bytes) : e->bytes;
    }
    return parts;
}

static void encode_parts(struct encoding *e, int parts)
{
#pragma omp parallel for num_threads(parts) schedule(static, 1) if (parts > 1)
    for (int i = 0; i < parts; i++) {
        int64_t end = e->bytes - e->cut[i + 1] > TOKEN_WORD_MAX ? e->cut[i + 1] + TOKEN_WORD_MAX
                                                                : e->bytes;
        e->thread[i]->plain = e->flags & TOKENIZER_PLAIN;
        e->thread[i]->middle = e->flags & TOKENIZER_MIDDLE;
        e->rc[i] =
            token_encode_part(e->thread[i], e->text, e->cut[i], e->cut[i + 1], end, &e->err[i]);
    }
}

/* Of a text that begins a page; what is needed once more is read once more. */
static void release_pages(const char *text, int64_t bytes)
{
    int64_t page = sysconf(_SC_PAGESIZE);

    madvise((void *)(uintptr_t)text, (size_t)(bytes / page * page), MADV_DONTNEED);
}

static int encode_text(struct encoding *e, tokenizer_put *put, void *arg, struct err *err)
{
    int64_t all = e->thread[0]->tables->cuttable ? PART : e->bytes, least = all;

    for (int64_t from = 0; from < e->bytes;) {
        int parts = find_cuts(e, from, least), i = 0;
        encode_parts(e, parts);
        for (least = all; i < parts && e->rc[i] > 0; i++)
            if (e->thread[i]->count && put(arg, e->thread[i]->ids, e->thread[i]->count, err))
                return -1;
        if (i < parts && e->rc[i] < 0) {
            *err = e->err[i];
            return -1;
        }
        from = e->cut[i];
        if (e->flags & TOKENIZER_MAPPED)
            release_pages(e->text, from);
        if (i < parts) /* as one with what follows */
            least = 2 * (e->cut[i + 1] - from);
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
